//! Which processor, and how it is spoken to: the reactor's configuration, checked.

use tokamak_sdk::number::whole;
use tokamak_sdk::{Faults, Value};

use crate::style::Style;

/// Characters of a statement's descriptor.
const DESCRIPTOR_CHARS_MAX: usize = 22;

/// The configuration, checked.
pub(crate) struct Settings {
    /// Where payments are made.
    pub(crate) url: String,
    pub(crate) api_key: String,
    pub(crate) style: Style,
    pub(crate) statement_descriptor: Option<String>,
    pub(crate) timeout_ms: Option<u32>,
}

impl Settings {
    /// Checks the configuration; notes all that is wrong with it.
    pub(crate) fn read(given: &Value, faults: &mut Faults) -> Option<Self> {
        let base_url = given["base_url"].as_str().filter(|url| is_base(url));
        let base_url = faults.expect(
            base_url,
            "configuration.base_url",
            "must be an https address without a query; http is for loopback addresses only",
        );
        let visible = |text: &&str| text.bytes().all(|byte| byte.is_ascii_graphic());
        let api_key = given["api_key"].as_str().filter(|key| !key.is_empty()).filter(visible);
        let api_key = faults.expect(
            api_key,
            "configuration.api_key",
            "must be of visible ASCII characters, 1 or more",
        );
        let style = faults.expect(
            given["style"].as_str().and_then(Style::parse),
            "configuration.style",
            "must be payment_intents or json",
        );
        let path = match &given["path"] {
            Value::Null => Some(None),
            path => path.as_str().filter(|path| path.starts_with('/')).filter(visible).map(Some),
        };
        let path = faults.expect(path, "configuration.path", "must be a path: `/` and more");
        let descriptor = match &given["statement_descriptor"] {
            Value::Null => Some(None),
            text => text.as_str().map(str::trim).filter(|text| is_descriptor(text)).map(Some),
        };
        let descriptor = faults.expect(
            descriptor,
            "configuration.statement_descriptor",
            "must have 1 to 22 characters of printable ASCII, none of them < > \\ ' \" *",
        );
        let timeout_ms = match &given["timeout_ms"] {
            Value::Null => Some(None),
            number => {
                whole(number).and_then(|ms| u32::try_from(ms).ok()).filter(|ms| *ms > 0).map(Some)
            }
        };
        let timeout_ms = faults.expect(
            timeout_ms,
            "configuration.timeout_ms",
            "must be a whole number of milliseconds, 1 to 4294967295",
        );
        let style = style?;
        let path = path?.unwrap_or_else(|| style.path());
        Some(Self {
            url: format!("{}{path}", base_url?.trim_end_matches('/')),
            api_key: api_key?.to_owned(),
            style,
            statement_descriptor: descriptor?.map(str::to_owned),
            timeout_ms: timeout_ms?,
        })
    }
}

/// Whether an API may begin here. Card numbers do not go over a network in the clear.
fn is_base(url: &str) -> bool {
    let (rest, safe) = match (url.strip_prefix("https://"), url.strip_prefix("http://")) {
        (Some(rest), _) => (rest, true),
        (_, Some(rest)) => (rest, false),
        _ => return false,
    };
    let authority = rest.split('/').next().unwrap_or_default();
    let plain = rest.bytes().all(|byte| byte.is_ascii_graphic() && !b"?#@\\".contains(&byte));
    !authority.is_empty() && plain && (safe || is_loopback(authority))
}

fn is_loopback(authority: &str) -> bool {
    if authority == "[::1]" || authority.starts_with("[::1]:") {
        return true;
    }
    let host = authority.split(':').next().unwrap_or_default();
    let address = host.parse::<std::net::Ipv4Addr>();
    host.eq_ignore_ascii_case("localhost") || address.is_ok_and(|address| address.is_loopback())
}

fn is_descriptor(text: &str) -> bool {
    let printable =
        text.bytes().all(|byte| matches!(byte, b' '..=b'~') && !b"<>\\'\"*".contains(&byte));
    (1..=DESCRIPTOR_CHARS_MAX).contains(&text.len()) && printable
}

#[cfg(test)]
mod tests {
    use super::is_base;

    #[test]
    fn card_numbers_do_not_cross_a_network_in_the_clear() {
        for right in [
            "https://api.example.com",
            "https://api.example.com/v2/",
            "https://[2001:db8::1]:8443",
            "http://127.0.0.1:8080",
            "http://127.1.2.3",
            "http://localhost:1/x",
            "http://[::1]:1",
        ] {
            assert!(is_base(right), "{right}");
        }
        for wrong in [
            "",
            "api.example.com",
            "https://",
            "http://api.example.com",
            "http://127.0.0.1.example.com",
            "http://localhost.example.com",
            "http://[::1].example.com",
            "http://10.0.0.1",
            "https://key@api.example.com",
            "https://api.example.com?x",
            "https://api.example.com#x",
            "https://api.example.com\\@b",
            "https://api.example.com /",
        ] {
            assert!(!is_base(wrong), "{wrong}");
        }
    }
}
