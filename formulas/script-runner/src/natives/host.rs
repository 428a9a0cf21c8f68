//! What the server offers every formula: its log, randomness, time, and requests to other hosts.

use std::cell::Cell;
use std::time::{Duration, Instant};

use boa_engine::object::builtins::JsArray;
use boa_engine::{Context, JsResult, JsString, JsValue};

use super::bytes::to_hex;
use super::{Table, bytes, count, new_bytes, object, text};
use crate::bindings::tokamak::formula::{http, logging};
use crate::bindings::tokamak::script::source;
use crate::engine::error;

/// What this file offers.
pub const TABLE: Table = &[
    ("log", log),
    ("inWords", in_words),
    ("random", random),
    ("uuid", uuid),
    ("now", now),
    ("sleep", sleep),
    ("begin", begin),
    ("answer", answer),
];

/// Bytes that are drawn at a time.
const RANDOM_BYTES_MAX: u64 = 64 << 10;

thread_local! {
    /// When somebody asked for the time first.
    static START: Cell<Option<Instant>> = const { Cell::new(None) };
}

/// The time since it was first asked for.
pub fn since_start() -> Duration {
    let start = START.get().unwrap_or_else(Instant::now);
    START.set(Some(start));
    start.elapsed()
}

/// `log(level, message)`
fn log(_: &JsValue, arguments: &[JsValue], _: &mut Context) -> JsResult<JsValue> {
    let level = match text(arguments, 0)?.as_str() {
        "trace" => logging::Level::Trace,
        "debug" => logging::Level::Debug,
        "warn" => logging::Level::Warn,
        "error" => logging::Level::Error,
        _ => logging::Level::Info,
    };
    logging::write(level, &text(arguments, 1)?);
    Ok(JsValue::undefined())
}

/// `inWords()`: whether what an error says may be logged when nobody caught it
#[expect(clippy::unnecessary_wraps, reason = "the engine calls functions of this shape")]
fn in_words(_: &JsValue, _: &[JsValue], _: &mut Context) -> JsResult<JsValue> {
    Ok(source::in_words().into())
}

fn draw(bytes: &mut [u8]) -> JsResult<()> {
    getrandom::fill(bytes).map_err(|_| error("the host gives no randomness"))
}

/// `random(length)`: a `Uint8Array`
fn random(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let length = count(arguments, 0);
    if length > RANDOM_BYTES_MAX {
        return Err(error("at most 65536 random bytes at a time"));
    }
    let mut drawn = vec![0; usize::try_from(length).unwrap_or_default()];
    draw(&mut drawn)?;
    new_bytes(&drawn, context)
}

/// `uuid()`: a random one, of version 4
fn uuid(_: &JsValue, _: &[JsValue], _: &mut Context) -> JsResult<JsValue> {
    let mut drawn = [0; 16];
    draw(&mut drawn)?;
    drawn[6] = drawn[6] & 0x0f | 0x40;
    drawn[8] = drawn[8] & 0x3f | 0x80;
    let mut made = to_hex(&drawn);
    for at in [20, 16, 12, 8] {
        made.insert(at, '-');
    }
    Ok(JsString::from(made.as_str()).into())
}

/// `now()`: milliseconds since it was first asked for
#[expect(clippy::unnecessary_wraps, reason = "the engine calls functions of this shape")]
fn now(_: &JsValue, _: &[JsValue], _: &mut Context) -> JsResult<JsValue> {
    Ok((since_start().as_secs_f64() * 1_000.0).into())
}

/// `sleep(milliseconds)`
#[expect(clippy::unnecessary_wraps, reason = "the engine calls functions of this shape")]
fn sleep(_: &JsValue, arguments: &[JsValue], _: &mut Context) -> JsResult<JsValue> {
    let milliseconds = arguments.first().and_then(JsValue::as_number).unwrap_or_default();
    let time = Duration::try_from_secs_f64(milliseconds / 1_000.0).unwrap_or(Duration::MAX);
    // The run's deadline comes before this one's end.
    std::thread::sleep(time.min(Duration::from_hours(1)));
    Ok(JsValue::undefined())
}

/// `begin(method, url, headers, body, timeout, redirects)`: the request's number; headers are names and values by turns.
fn begin(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let body = match arguments.get(3) {
        None => None,
        Some(value) if value.is_undefined() => None,
        Some(_) => Some(bytes(arguments, 3, context)?),
    };
    let limited = arguments.get(4).is_some_and(|limit| !limit.is_undefined());
    let limit = u32::try_from(count(arguments, 4)).unwrap_or(u32::MAX);
    let request = http::Request {
        method: text(arguments, 0)?,
        url: text(arguments, 1)?,
        headers: pairs(arguments, context)?,
        body,
        timeout_ms: limited.then_some(limit),
        redirects: u8::try_from(count(arguments, 5)).unwrap_or(u8::MAX),
    };
    Ok(source::begin(&request).into())
}

/// `answer(milliseconds)`: the next answer to a request that was begun, waited for at most so long: `{number, status,
/// headers, body}` or `{number, error, why}`; undefined when there is none.
fn answer(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let limited = arguments.first().is_some_and(|limit| !limit.is_undefined());
    let limit = u32::try_from(count(arguments, 0)).unwrap_or(u32::MAX);
    let Some((number, answer)) = source::next_answer(limited.then_some(limit)) else {
        return Ok(JsValue::undefined());
    };
    let number = ("number", number.into());
    let members = match answer {
        Ok(answer) => {
            let flat = answer.headers.into_iter().flat_map(|(name, value)| [name, value]);
            let flat: Vec<JsValue> =
                flat.map(|text| JsString::from(text.as_str()).into()).collect();
            let headers = JsArray::from_iter(flat, context).into();
            let body = new_bytes(&answer.body, context)?;
            [number, ("status", answer.status.into()), ("headers", headers), ("body", body)]
                .to_vec()
        }
        Err(error) => {
            let (code, why) = match error {
                http::Error::Denied(why) => ("denied", why),
                http::Error::Invalid(why) => ("invalid", why),
                http::Error::Unreachable(why) => ("unreachable", why),
                http::Error::Timeout => ("timeout", String::new()),
                http::Error::TooLarge => ("too-large", "there are too many bytes".to_owned()),
            };
            let text = |text: &str| JsValue::from(JsString::from(text));
            [number, ("error", text(code)), ("why", text(&why))].to_vec()
        }
    };
    Ok(object(context, &members).into())
}

fn pairs(arguments: &[JsValue], context: &mut Context) -> JsResult<Vec<(String, String)>> {
    let flat = arguments.get(2).and_then(JsValue::as_object);
    let flat = JsArray::from_object(flat.ok_or_else(|| error("headers are needed"))?.clone())?;
    let mut texts = Vec::new();
    for index in 0..flat.length(context)? {
        let value = flat.get(index, context)?;
        let value = value.as_string().ok_or_else(|| error("a header is a text"))?;
        texts.push(value.to_std_string_lossy());
    }
    let mut texts = texts.into_iter();
    Ok(std::iter::from_fn(|| texts.next().zip(texts.next())).collect())
}
