//! Heads that hyper reads and the standard refuses: they name no one host, or frame their body in a way that the server
//! does not know (RFC 9112 §3.2, §6.1).
//!
//! They are looked at where a request comes off the wire: elsewhere there are no such heads. To add what else a head may
//! lack: a variant of [`Malformed`], with its place in [`Malformed::find`] and its words in [`Malformed::problem`].

use std::net::Ipv6Addr;

use axum::extract::Request;
use axum::response::{IntoResponse as _, Response};
use http::{HeaderMap, HeaderValue, StatusCode, Version, header};

use super::problem::Problem;
use super::trace::NotCounted;

/// What is wrong with a head. A request has it among its extensions on the way to where it is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Malformed {
    /// No `Host`, which HTTP/1.1 asks for.
    NoHost,
    /// More than one.
    SeveralHosts,
    /// One that is none.
    NotAHost,
    /// A transfer coding that the server does not have.
    Coding,
}

impl Malformed {
    /// What is wrong with this head, if anything is.
    pub fn find(version: Version, headers: &HeaderMap) -> Option<Self> {
        let mut hosts = headers.get_all(header::HOST).iter();
        match (hosts.next(), hosts.next()) {
            (None, _) if version >= Version::HTTP_11 => Some(Self::NoHost),
            (Some(_), Some(_)) => Some(Self::SeveralHosts),
            (Some(host), None) if !is_host(host) => Some(Self::NotAHost),
            _ if !is_framed_plainly(headers) => Some(Self::Coding),
            _ => None,
        }
    }

    fn problem(self) -> Problem {
        let (status, detail) = match self {
            Self::NoHost => (StatusCode::BAD_REQUEST, "The request has no Host header."),
            Self::SeveralHosts => {
                (StatusCode::BAD_REQUEST, "The request has more than one Host header.")
            }
            Self::NotAHost => {
                (StatusCode::BAD_REQUEST, "The Host header must be a host, with a port or without.")
            }
            Self::Coding => (
                StatusCode::NOT_IMPLEMENTED,
                "The Transfer-Encoding header must be chunked and nothing else.",
            ),
        };
        Problem::new(status, detail)
    }
}

/// The refusal of a request that is not well formed.
pub fn refusal(request: &Request) -> Option<Response> {
    let malformed = request.extensions().get::<Malformed>()?;
    let mut response = malformed.problem().into_response();
    // 501 says so too that the fault is the request's.
    response.extensions_mut().insert(NotCounted);
    Some(response)
}

/// Whether it is `uri-host [":" port]` (RFC 9110 §7.2). The host is not empty: an address of HTTP has one (§4.2.1).
fn is_host(value: &HeaderValue) -> bool {
    let Ok(text) = value.to_str() else { return false };
    let (is_there, rest) = if let Some(literal) = text.strip_prefix('[') {
        let Some((literal, rest)) = literal.split_once(']') else { return false };
        (literal.parse::<Ipv6Addr>().is_ok(), rest)
    } else {
        let (name, rest) = text.split_at(text.find(':').unwrap_or(text.len()));
        (is_name(name), rest)
    };
    is_there && (rest.is_empty() || rest.strip_prefix(':').is_some_and(is_port))
}

/// A number of a port, or none.
fn is_port(text: &str) -> bool {
    // What parses may have a sign.
    text.is_empty()
        || (text.bytes().all(|byte| byte.is_ascii_digit()) && text.parse::<u16>().is_ok())
}

/// A name or an address of IPv4 (`reg-name`, RFC 3986 §3.2.2), with nothing behind percent signs: no name needs that which
/// can be looked up, and what it stands for could be anything.
fn is_name(text: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~!$&'()*+,;=".contains(&byte);
    !text.is_empty() && text.bytes().all(is_plain)
}

/// Whether the body comes as it is, whole or in chunks.
fn is_framed_plainly(headers: &HeaderMap) -> bool {
    let lines = headers.get_all(header::TRANSFER_ENCODING).iter();
    let codings = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    let mut codings = codings.map(<[u8]>::trim_ascii).filter(|coding| !coding.is_empty());
    let first = codings.next();
    first.is_none_or(|coding| coding.eq_ignore_ascii_case(b"chunked")) && codings.next().is_none()
}

#[cfg(test)]
mod tests {
    use super::Malformed;
    use http::{HeaderMap, HeaderName, HeaderValue, Version, header};

    fn find(version: Version, name: &HeaderName, lines: &[&str]) -> Option<Malformed> {
        let mut headers = HeaderMap::new();
        if *name != header::HOST {
            headers.insert(header::HOST, HeaderValue::from_static("a"));
        }
        for line in lines {
            headers.append(name, HeaderValue::from_bytes(line.as_bytes()).unwrap());
        }
        Malformed::find(version, &headers)
    }

    #[test]
    fn there_is_one_host() {
        for (version, lines, expected) in [
            (Version::HTTP_11, &["a"][..], None),
            (Version::HTTP_11, &[], Some(Malformed::NoHost)),
            (Version::HTTP_10, &[], None),
            (Version::HTTP_11, &["a", "a"], Some(Malformed::SeveralHosts)),
            (Version::HTTP_10, &["a", "b"], Some(Malformed::SeveralHosts)),
            (Version::HTTP_10, &["a b"], Some(Malformed::NotAHost)),
        ] {
            assert_eq!(find(version, &header::HOST, lines), expected, "{version:?} {lines:?}");
        }
    }

    #[test]
    fn a_host_may_have_a_port() {
        for host in [
            "a",
            "a:8080",
            "a:",
            "vault.example.com",
            "a_b-c.d~e",
            "127.0.0.1:80",
            "[::1]",
            "[::1]:8080",
            "[2001:db8::1]:1",
            "[::ffff:192.0.2.1]",
            "a:0",
            "a:65535",
            "xn--9ca.example",
        ] {
            assert_eq!(find(Version::HTTP_11, &header::HOST, &[host]), None, "{host}");
        }
        for host in [
            "", ":80", "a:b", "a:80:80", "a:-1", "a b", "a, b", "a/b", "a?b", "a#b", "a@b",
            "http://a", "[]", "[::1", "[::1]80", "[a/b]", "::1", "a]", "a%", "a%4", "a%zz", "a\\b",
            "\"a\"", "é", "a\tb", "[zz]", "[:::::]", "[1::2::]", "[1.2]", "[v1.a]", "[::1%a]",
            "[::%25a]", "%00", "a%00b", "%41", "%c3%a9", "a:65536", "a:+80", "[::]:+1",
        ] {
            let found = find(Version::HTTP_11, &header::HOST, &[host]);
            assert_eq!(found, Some(Malformed::NotAHost), "{host}");
        }
    }

    #[test]
    fn a_body_comes_in_chunks_at_most() {
        let find = |lines: &[&str]| find(Version::HTTP_11, &header::TRANSFER_ENCODING, lines);
        for lines in [&["chunked"][..], &[], &["Chunked"], &[", chunked ,"]] {
            assert_eq!(find(lines), None, "{lines:?}");
        }
        for lines in [
            &["gzip, chunked"][..],
            &["gzip,chunked"],
            &["gzip", "chunked"],
            &["identity, chunked"],
            &["chunked, chunked"],
            &["chunked", "chunked"],
            &["xchunked"],
        ] {
            assert_eq!(find(lines), Some(Malformed::Coding), "{lines:?}");
        }
    }
}
