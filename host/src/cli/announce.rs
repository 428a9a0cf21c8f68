//! What a server says when it starts, on standard output, and what ended it, on standard error: as text, or as lines like
//! those of the log where that is in JSON, since who collects one most often collects the other with it. `--log` leaves
//! none of them out.
//!
//! The first key is printed as it is, and goes to no log.

use std::io::{self, Write as _};
use std::net::SocketAddr;

use serde_json::{Value, json};

use super::output::{goes_nowhere, is_lost, say_error, whole};
use super::{Failure, KEY_LOST, logging, say};
use crate::clock::{Clock as _, SystemClock};
use crate::config::LogFormat;
use crate::crypto::api_key::ApiKey;
use crate::model::time::Timestamp;
use crate::vault::Tenant;

/// Tells of the first tenant, with the key of its management application if nobody chose it. One that nobody can have
/// seen is told of in the log, with what to do: the server serves all the same, and more tenants can be made.
pub fn first_tenant(format: LogFormat, tenant: &Tenant, drawn: Option<&ApiKey>) {
    match format {
        LogFormat::Text => say(format_args!("tenant: {}", tenant.id)),
        LogFormat::Json => {
            let member = ("tenant", tenant.id.to_string());
            say(line("INFO", "the first tenant was made", Some(&member), SystemClock.now_ms()));
        }
    }
    let Some(key) = drawn else { return };
    say(format_args!("management key, shown once: {}", key.expose()));
    if is_lost() || goes_nowhere() {
        tracing::error!(tenant = %tenant.id, "{KEY_LOST}");
    }
}

/// Tells where the server listens.
pub fn listening(format: LogFormat, scheme: &str, address: SocketAddr) {
    let url = format!("{scheme}://{address}");
    match format {
        LogFormat::Text => say(format_args!("listening on {url}")),
        LogFormat::Json => {
            let member = ("url", format!("{url}/"));
            say(line("INFO", "listening", Some(&member), SystemClock.now_ms()));
        }
    }
}

/// Tells on standard error what ended a server. `--log` does not leave it out either.
pub fn failed(error: &Failure) {
    // After what led to it; and where that is not taken, this is not taken either.
    if !logging::settle() {
        return;
    }
    match logging::format() {
        LogFormat::Text => say_error(error),
        LogFormat::Json => {
            let line = line("ERROR", &whole(&**error), None, SystemClock.now_ms());
            // Where that takes nothing, nobody can be told.
            let _ = writeln!(io::stderr().lock(), "{line}");
        }
    }
}

/// A line with the members that one of the log has, and perhaps one more.
fn line(level: &str, message: &str, more: Option<&(&str, String)>, now_ms: u64) -> Value {
    let members = [
        ("timestamp", json!(Timestamp(now_ms))),
        ("level", json!(level)),
        ("message", json!(message)),
        ("target", json!(module_path!())),
    ];
    let more = more.map(|(name, value)| (*name, json!(value)));
    let members = members.into_iter().chain(more);
    Value::Object(members.map(|(name, value)| (name.to_owned(), value)).collect())
}

#[cfg(test)]
mod tests {
    use super::line;

    #[test]
    fn a_line_has_what_those_of_the_log_have() {
        let member = ("url", "http://127.0.0.1:1/".to_owned());
        let line = line("INFO", "listening", Some(&member), 1_767_225_600_000);
        let expected = [
            r#"{"timestamp":"2026-01-01T00:00:00.000+00:00","level":"INFO","message":"listening","#,
            r#""target":"tokamak::cli::announce","url":"http://127.0.0.1:1/"}"#,
        ];
        assert_eq!(line.to_string(), expected.concat());
    }
}
