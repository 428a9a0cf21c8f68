//! What the server offers every formula: its log, time, and requests to other hosts.

use std::time::Duration;

use rquickjs::prelude::{Func, Opt};
use rquickjs::{Ctx, Object, Result};

use super::{Bytes, Text, bytes, count, new_bytes};
use crate::bindings::tokamak::formula::{http, logging};
use crate::bindings::tokamak::script::source;
use crate::clock::since_start;
use crate::{memory, place};

/// Bytes of a line of the log that are handed over: the server keeps no more of all lines together, and ends a run that
/// hands it very much at once.
const LINE_BYTES_MAX: usize = 64 << 10;

/// Offers what this file has.
pub fn offer(host: &Object<'_>) -> Result<()> {
    host.set("log", Func::from(log))?;
    host.set("inWords", Func::from(source::in_words))?;
    host.set("isFull", Func::from(memory::is_full))?;
    host.set("outOfMemory", Func::from(out_of_memory))?;
    host.set("column", Func::from(column))?;
    host.set("now", Func::from(now))?;
    host.set("sleep", Func::from(sleep))?;
    host.set("begin", Func::from(begin))?;
    host.set("abandon", Func::from(source::abandon))?;
    host.set("answer", Func::from(answer))
}

/// `log(level, message)`
fn log(level: Text, message: Text) {
    let level = match level.0.as_str() {
        "trace" => logging::Level::Trace,
        "debug" => logging::Level::Debug,
        "warn" => logging::Level::Warn,
        "error" => logging::Level::Error,
        _ => logging::Level::Info,
    };
    let message = message.0;
    logging::write(level, &message[..message.floor_char_boundary(LINE_BYTES_MAX)]);
}

/// `outOfMemory()`
fn out_of_memory() {
    memory::end()
}

/// `column(line, column)`: the column in characters of one in bytes, as the engine has it
fn column(line: f64, column: f64) -> usize {
    let (line, column) = (count(line), count(column));
    let code = source::code();
    place::first(&format!("formula.js:{line}:{column}"), &code)
        .map_or(column, |at| place::of(&code, at).1)
}

/// `now()`: milliseconds since it was first asked for
fn now() -> f64 {
    since_start().as_secs_f64() * 1_000.0
}

/// `sleep(milliseconds)`
fn sleep(milliseconds: f64) {
    let time = Duration::try_from_secs_f64(milliseconds / 1_000.0).unwrap_or(Duration::MAX);
    // The run's deadline comes before this one's end.
    std::thread::sleep(time.min(Duration::from_hours(1)));
}

/// `begin({method, url, headers, body, timeout, redirects})`: the request's number; headers are names and values by turns.
fn begin(request: Object<'_>) -> Result<u32> {
    let text = |name: &str| request.get::<_, Text>(name).map(|text| text.0);
    let body: Option<Bytes<'_>> = request.get("body")?;
    let mut headers = request.get::<_, Vec<Text>>("headers")?.into_iter().map(|text| text.0);
    Ok(source::begin(&http::Request {
        method: text("method")?,
        url: text("url")?,
        headers: std::iter::from_fn(|| headers.next().zip(headers.next())).collect(),
        body: body.as_ref().map(bytes).transpose()?,
        timeout_ms: request.get::<_, Option<f64>>("timeout")?.map(milliseconds),
        redirects: request.get("redirects")?,
    }))
}

fn milliseconds(number: f64) -> u32 {
    u32::try_from(count(number)).unwrap_or(u32::MAX)
}

/// `answer(milliseconds)`: the next answer to a request that was begun, waited for at most so long: `{number, status,
/// headers, body}` or `{number, error, why}`; undefined when there is none.
fn answer(ctx: Ctx<'_>, within: Opt<Option<f64>>) -> Result<Option<Object<'_>>> {
    let within = within.0.flatten().map(milliseconds);
    let Some((number, answer)) = source::next_answer(within) else { return Ok(None) };
    let made = Object::new(ctx.clone())?;
    made.set("number", number)?;
    match answer {
        Ok(answer) => {
            let flat = answer.headers.into_iter().flat_map(|(name, value)| [name, value]);
            made.set("status", answer.status)?;
            made.set("headers", flat.collect::<Vec<String>>())?;
            made.set("body", new_bytes(&ctx, &answer.body)?)?;
        }
        Err(error) => {
            let (code, why) = match error {
                http::Error::Denied(why) => ("denied", why),
                http::Error::Invalid(why) => ("invalid", why),
                http::Error::Unreachable(why) => ("unreachable", why),
                http::Error::Timeout => ("timeout", String::new()),
                http::Error::TooLarge => {
                    ("too-large", "there are too many bytes or headers".to_owned())
                }
            };
            made.set("error", code)?;
            made.set("why", why)?;
        }
    }
    Ok(Some(made))
}
