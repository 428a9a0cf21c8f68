//! A formula's `allowed_hosts` (decisions §6): the only places it may send requests to.
//!
//! An entry is a name, `*.suffix` for every name below it, either with a port, or `*` for every host and port. Without
//! a port it stands for the usual one of the scheme, as in a content security policy.

use url::{Host, Url};

/// Characters of a name, most.
const NAME_CHARS_MAX: usize = 253;
/// Characters between two dots of a name, most.
const LABEL_CHARS_MAX: usize = 63;

const NO_ENTRY: &str = "must be a name, *.suffix, host:port, or *";
const BELOW_AN_ADDRESS: &str = "stands for nothing: no name lies below an address";
const OTHER_SPELLING: &str = "must spell an address as four decimal numbers, such as 127.0.0.1";
const NO_ADDRESS: &str = "ends in a number, as an address does, and is none";
const NO_NAME: &str = "is no name that an address can have";

/// One entry.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostPattern {
    /// Every host, at every port.
    Any,
    /// Hosts by name.
    Named {
        /// In lower case; for a suffix without its `*.`.
        name: String,
        /// Whether it stands for the names below it, and not for itself.
        below: bool,
        /// The usual one of the scheme, when there is none.
        port: Option<u16>,
    },
}

impl HostPattern {
    /// Reads an entry, or says why it is none. One that no address can ever be at is none.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        if text == "*" {
            return Ok(Self::Any);
        }
        let (host, port) = match text.split_once(':') {
            Some((host, port)) => (host, Some(read_port(port).ok_or(NO_ENTRY)?)),
            None => (text, None),
        };
        let (name, below) = host.strip_prefix("*.").map_or((host, false), |name| (name, true));
        if name.len() > NAME_CHARS_MAX || !name.split('.').all(is_label) {
            return Err(NO_ENTRY);
        }
        let name = name.to_ascii_lowercase();
        // As a request's address is read: what is no host there, or is written otherwise, is never met.
        match Host::parse(&name) {
            Ok(Host::Domain(domain)) if domain == name => Ok(Self::Named { name, below, port }),
            Ok(Host::Ipv4(_)) if below => Err(BELOW_AN_ADDRESS),
            Ok(Host::Ipv4(address)) if address.to_string() == name => {
                Ok(Self::Named { name, below, port })
            }
            Ok(Host::Ipv4(_)) => Err(OTHER_SPELLING),
            _ if ends_in_a_number(&name) => Err(NO_ADDRESS),
            _ => Err(NO_NAME),
        }
    }

    fn permits(&self, host: &Host<&str>, port: u16, usual_port: u16) -> bool {
        let Self::Named { name, below, port: own_port } = self else { return true };
        if own_port.unwrap_or(usual_port) != port {
            return false;
        }
        match host {
            Host::Domain(domain) => {
                // `example.com.` is the same name, spelt to its end.
                let domain = domain.strip_suffix('.').unwrap_or(domain);
                let is_below = || domain.strip_suffix(name.as_str())?.strip_suffix('.');
                if *below {
                    is_below().is_some_and(|labels| !labels.is_empty())
                } else {
                    domain == name
                }
            }
            // Digits are no names: nothing lies below them.
            Host::Ipv4(address) => !below && address.to_string() == *name,
            Host::Ipv6(_) => false,
        }
    }
}

/// What a formula is allowed. Of what cannot be read nothing is allowed.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AllowedHosts(Vec<HostPattern>);

impl AllowedHosts {
    /// Reads the entries.
    pub fn parse(entries: &[String]) -> Self {
        Self(entries.iter().filter_map(|entry| HostPattern::parse(entry).ok()).collect())
    }

    /// Whether nothing is allowed.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Whether an address is at one of these hosts.
    pub fn permits(&self, url: &Url) -> bool {
        let usual_port = match url.scheme() {
            "https" => 443,
            "http" => 80,
            _ => return false,
        };
        let Some(host) = url.host() else { return false };
        let port = url.port().unwrap_or(usual_port);
        self.0.iter().any(|pattern| pattern.permits(&host, port, usual_port))
    }
}

fn read_port(text: &str) -> Option<u16> {
    let digits = text.bytes().all(|c| c.is_ascii_digit());
    text.parse().ok().filter(|port| digits && *port > 0)
}

fn ends_in_a_number(name: &str) -> bool {
    let last = name.rsplit('.').next().unwrap_or_default();
    last.strip_prefix("0x").map_or_else(
        || last.bytes().all(|c| c.is_ascii_digit()),
        |digits| digits.bytes().all(|c| c.is_ascii_hexdigit()),
    )
}

fn is_label(label: &str) -> bool {
    (1..=LABEL_CHARS_MAX).contains(&label.len())
        && !label.starts_with('-')
        && !label.ends_with('-')
        && label.chars().all(|c| c.is_ascii_alphanumeric() || c == '-')
}

#[cfg(test)]
mod tests {
    use super::{AllowedHosts, BELOW_AN_ADDRESS, HostPattern, NO_ADDRESS, NO_NAME, OTHER_SPELLING};
    use proptest::prelude::*;
    use url::Url;

    fn permits(entry: &str, url: &str) -> bool {
        let allowed = AllowedHosts::parse(&[entry.to_owned()]);
        assert!(!allowed.is_empty(), "{entry}");
        allowed.permits(&Url::parse(url).unwrap_or_else(|_| panic!("{url}")))
    }

    #[test]
    fn entries() {
        for valid in [
            "*",
            "api.example.com",
            "*.example.com",
            "example.com:8443",
            "*.example.com:8443",
            "127.0.0.1",
            "xn--bcher-kva.example",
            "localhost:1",
        ] {
            assert!(HostPattern::parse(valid).is_ok(), "{valid}");
        }
        for wrong in [
            "",
            "https://a.com",
            "a..b",
            "a.com.",
            "*.*",
            "*.",
            "*:443",
            "a.*.com",
            "a.com:0",
            "a.com:x",
            "a.com:+1",
            "a.com:65536",
            "a.com:",
            "-a.com",
            "a-.com",
            "a b",
            "a.com/path",
            "user@a.com",
            "bücher.example",
            "[::1]",
            "::1",
        ] {
            assert!(HostPattern::parse(wrong).is_err(), "{wrong}");
        }
        let long = "a".repeat(64);
        assert!(HostPattern::parse(&long[1..]).is_ok());
        assert!(HostPattern::parse(&long).is_err());
        let long = "abc.".repeat(64);
        assert!(HostPattern::parse(&long[..251]).is_ok());
        assert!(HostPattern::parse(&long[..255]).is_err());
    }

    #[test]
    fn entries_that_no_address_is_at() {
        for (entry, reason) in [
            ("127.1", OTHER_SPELLING),
            ("2130706433", OTHER_SPELLING),
            ("0x7f.1", OTHER_SPELLING),
            ("0X7F000001:80", OTHER_SPELLING),
            ("127.0.0.01", OTHER_SPELLING),
            ("0.0.1", OTHER_SPELLING),
            ("1", OTHER_SPELLING),
            ("*.127.0.0.1", BELOW_AN_ADDRESS),
            ("*.0.0.1", BELOW_AN_ADDRESS),
            ("999.1.1.1", NO_ADDRESS),
            ("a.1", NO_ADDRESS),
            ("a.com.0x7f", NO_ADDRESS),
            ("*.a.08", NO_ADDRESS),
            ("xn--a", NO_NAME),
        ] {
            assert_eq!(HostPattern::parse(entry), Err(reason), "{entry}");
        }
        for entry in ["1.a", "1a", "a.1-2", "0x7f.a", "0xg", "10.0.0.1:80"] {
            assert!(HostPattern::parse(entry).is_ok(), "{entry}");
        }
    }

    #[test]
    fn what_an_entry_permits() {
        for (entry, url) in [
            ("*", "https://anything.example:9/x"),
            ("*", "http://[2606:4700::1]:9/"),
            ("api.example.com", "https://api.example.com/"),
            ("api.example.com", "https://api.example.com:443/path?query"),
            ("api.example.com", "http://api.example.com/"),
            ("api.example.com", "http://api.example.com:80/"),
            ("API.Example.com", "https://api.eXample.COM/"),
            ("api.example.com", "https://api.example.com./"),
            ("api.example.com:8443", "https://api.example.com:8443/"),
            ("api.example.com:443", "https://api.example.com/"),
            ("api.example.com:443", "http://api.example.com:443/"),
            ("*.example.com", "https://a.example.com/"),
            ("*.example.com", "https://a.b.example.com./"),
            ("*.example.com:8443", "https://a.example.com:8443/"),
            ("192.0.2.7", "http://192.0.2.7/"),
            ("127.0.0.1", "http://0x7f.1/"),
            ("xn--bcher-kva.example", "https://bücher.example/"),
        ] {
            assert!(permits(entry, url), "{entry} {url}");
        }
    }

    #[test]
    fn what_an_entry_does_not_permit() {
        for (entry, url) in [
            ("api.example.com", "https://example.com/"),
            ("api.example.com", "https://a.api.example.com/"),
            ("api.example.com", "https://api.example.com.evil.test/"),
            ("api.example.com", "https://api.example.com:8443/"),
            ("api.example.com", "https://api.example.com:80/"),
            ("api.example.com", "http://api.example.com:443/"),
            ("api.example.com:8443", "https://api.example.com/"),
            ("api.example.com:443", "http://api.example.com/"),
            ("api.example.com", "https://evil.test/api.example.com"),
            ("api.example.com", "https://evil.test/?https://api.example.com"),
            ("api.example.com", "https://evil.test/#@api.example.com"),
            ("api.example.com", "https://api.example.com@evil.test/"),
            ("api.example.com", r"https://evil.test\@api.example.com/"),
            ("api.example.com", "ftp://api.example.com/"),
            ("*", "ftp://api.example.com/"),
            ("*", "file:///etc/passwd"),
            ("*", "data:text/plain,x"),
            ("*.example.com", "https://example.com/"),
            ("*.example.com", "https://.example.com/"),
            ("*.example.com", "https://badexample.com/"),
            ("*.example.com", "https://example.com.evil.test/"),
            ("*.example.com", "https://a.example.com:8443/"),
            ("127.0.0.1", "http://[::1]/"),
        ] {
            assert!(!permits(entry, url), "{entry} {url}");
        }
    }

    #[test]
    fn nothing_permits_nothing() {
        let url = Url::parse("https://example.com/").unwrap();
        let allowed = AllowedHosts::parse(&[]);
        assert!(allowed.is_empty() && !allowed.permits(&url));
        let unreadable = AllowedHosts::parse(&["https://example.com".to_owned()]);
        assert!(unreadable.is_empty() && !unreadable.permits(&url));
    }

    proptest! {
        #[test]
        fn a_name_permits_itself_and_its_suffix_what_is_below(
            name in "[a-z][a-z0-9]{0,8}(\\.[a-z][a-z0-9]{0,8}){0,3}",
            label in "[a-z][a-z0-9]{0,8}",
            other in "[a-z][a-z0-9]{0,8}",
        ) {
            let url = |host: &str| format!("https://{host}/");
            let (below, beside) = (format!("{label}.{name}"), format!("{label}{name}"));
            prop_assert!(permits(&name, &url(&name)));
            prop_assert!(!permits(&name, &url(&below)) && !permits(&name, &url(&beside)));
            let suffix = format!("*.{name}");
            prop_assert!(permits(&suffix, &url(&below)));
            prop_assert!(!permits(&suffix, &url(&name)) && !permits(&suffix, &url(&beside)));
            let within = format!("{name}.{other}{name}");
            prop_assert!(!permits(&suffix, &url(&within)));
        }

        #[test]
        fn no_text_makes_it_panic(text in ".{0,40}") {
            let _ = HostPattern::parse(&text);
        }
    }
}
