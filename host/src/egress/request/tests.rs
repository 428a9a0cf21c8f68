use std::sync::{Arc, LazyLock};
use std::time::Duration;

use super::{AddressRules, EgressError, FORBIDDEN, Hop, Outbound, as_written};
use crate::egress::Wanted;
use crate::egress::guard::{Guard, is_public};
use crate::limits::{
    HTTP_BODY_BYTES_MAX, HTTP_HEADERS_BYTES_MAX, HTTP_HEADERS_MAX, HTTP_REDIRECTS_MAX,
    HTTP_URL_BYTES_MAX,
};

static PUBLIC_ONLY: LazyLock<Guard> = LazyLock::new(|| Arc::new(is_public));
static ANY: LazyLock<Guard> = LazyLock::new(|| Arc::new(|_| true));

static PUBLIC: LazyLock<AddressRules<'static>> =
    LazyLock::new(|| AddressRules { https_only: false, guard: &PUBLIC_ONLY });
static ANYWHERE: LazyLock<AddressRules<'static>> =
    LazyLock::new(|| AddressRules { https_only: false, guard: &ANY });
static HTTPS: LazyLock<AddressRules<'static>> =
    LazyLock::new(|| AddressRules { https_only: true, guard: &PUBLIC_ONLY });

fn outbound() -> Outbound {
    Outbound {
        method: "POST".to_owned(),
        url: "https://example.com/a?b=c".to_owned(),
        headers: Vec::new(),
        body: None,
        body_bytes_max: HTTP_BODY_BYTES_MAX,
        timeout: Duration::from_secs(1),
        redirects: 0,
        https_only: false,
        owner: 1,
        wanted: Wanted::Whole,
        repeatable: false,
    }
}

fn first(request: &Outbound) -> Result<Hop, EgressError> {
    Hop::first(request, *PUBLIC)
}

#[test]
fn addresses_that_are_sent_to() {
    for (text, expected) in [
        ("https://example.com", "https://example.com/"),
        ("http://example.com:8080/a?b#c", "http://example.com:8080/a?b"),
        ("HTTPS://EXAMPLE.com:443/", "https://example.com/"),
        ("https://bücher.example/", "https://xn--bcher-kva.example/"),
        ("http://8.8.8.8/", "http://8.8.8.8/"),
        ("http://[2606:4700::1111]/", "http://[2606:4700::1111]/"),
    ] {
        assert_eq!(PUBLIC.read(text).map(String::from).as_deref(), Ok(expected), "{text}");
    }
}

#[test]
fn every_spelling_of_a_private_address_is_refused() {
    for host in [
        "127.0.0.1",
        "127.0.0.1.",
        "127.1",
        "127.0.1",
        "0x7f.1",
        "0X7F.0.0.1",
        "0x7f000001",
        "0177.0.0.1",
        "0177.1",
        "017700000001",
        "2130706433",
        "0",
        "0.0.0.0",
        "0x0",
        "%31%32%37.0.0.1",
        "127.0.0.%31",
        "\u{ff11}27.0.0.1",
        "127\u{3002}0.0.1",
        "\u{2460}27.0.0.1",
        "10.0.0.1",
        "192.168.1.1",
        "0xa9fea9fe",
        "169.254.169.254",
        "[::]",
        "[::1]",
        "[0:0:0:0:0:0:0:1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[0:0:0:0:0:FFFF:7F00:0001]",
        "[::127.0.0.1]",
        "[64:ff9b::127.0.0.1]",
        "[2002:7f00:1::]",
        "[fe80::1]",
        "[fd00:ec2::254]",
    ] {
        let url = format!("http://{host}:8080/x");
        let denied = PUBLIC.read(&url);
        assert!(matches!(denied, Err(EgressError::Denied(_))), "{host}: {denied:?}");
        assert!(ANYWHERE.read(&url).is_ok(), "{host}");
    }
}

#[test]
fn what_is_no_address_to_send_to() {
    let long = format!("https://example.com/{}", "a".repeat(HTTP_URL_BYTES_MAX));
    let long_once_encoded = format!("https://example.com/{}", "é".repeat(HTTP_URL_BYTES_MAX / 4));
    for text in [
        "",
        "/path",
        "example.com",
        "//example.com/",
        "ftp://example.com/",
        "file:///etc/passwd",
        "data:text/plain,x",
        "javascript:alert(1)",
        "unix:/var/run/docker.sock",
        "https://",
        "https://user@example.com/",
        "https://user:password@example.com/",
        "https://:password@example.com/",
        "https://example.com@127.0.0.1/",
        "https://[::1",
        "https://[fe80::1%eth0]/",
        "https://[fe80::1%25eth0]/",
        "https://a b/",
        "https://a\"b.test/",
        "https://a\0b/",
        "https://example.com:65536/",
        "https://256.256.256.256/",
        "https://1.2.3.4.5/",
        "https://0x7f.0x0.0x0.0x1ff/",
        long.as_str(),
        long_once_encoded.as_str(),
    ] {
        let refused = ANYWHERE.read(text);
        assert!(matches!(refused, Err(EgressError::Invalid(_))), "{text}: {refused:?}");
    }
    let exact = format!("https://example.com/{}", "a".repeat(HTTP_URL_BYTES_MAX - 20));
    assert!(PUBLIC.read(&exact).is_ok());
}

#[test]
fn each_is_told_what_is_wrong_with_it() {
    let (host, number) = (
        "the address has a host with characters that no name has",
        "the address has a host that is written as an IP address and is none",
    );
    let port = "the address has a port that is no number up to 65535";
    for (text, reason) in [
        ("secret", "the address is not an absolute one"),
        ("//example.com/secret", "the address is not an absolute one"),
        ("https://", "the address has no host"),
        ("http://127.0.0.1:99999/secret", port),
        ("https://example.com:secret/", port),
        ("https://exa mple.com/secret", host),
        ("https://exa<mple.com/secret", host),
        ("https://256.256.256.256/secret", number),
        ("https://[::1/secret", number),
    ] {
        assert_eq!(ANYWHERE.read(text).err(), Some(EgressError::Invalid(reason)), "{text}");
    }
    for (text, reason) in [
        ("https://a.b\\c", "the address has a \\ where there should be a /"),
        (" https://a.b/", "the address has a space or a control character at its start or end"),
        ("https://a.b/\n", "the address has a space or a control character at its start or end"),
        ("https:a.b/", "the address must have // and a host behind its http: or https:"),
        ("https://a.b/\tc", "the address has a tab or a line break in it"),
    ] {
        assert!(ANYWHERE.read(text).is_ok(), "{text:?}");
        assert_eq!(as_written(text), Err(EgressError::Invalid(reason)), "{text:?}");
    }
    assert_eq!(as_written("https://a.b/c?d"), Ok(()));
}

#[test]
fn where_https_is_asked_for_http_is_refused() {
    assert!(HTTPS.read("https://example.com/").is_ok());
    let refused = HTTPS.read("http://example.com/");
    assert!(matches!(refused, Err(EgressError::Denied(_))), "{refused:?}");
}

#[test]
fn methods() {
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "HEAD", "OPTIONS", "M-SEARCH"] {
        assert!(first(&Outbound { method: method.to_owned(), ..outbound() }).is_ok(), "{method}");
    }
    let long = "A".repeat(33);
    for method in ["", "get", "GET ", "G T", "GET\r\nX: y", "CONNECT", "TRACE", "PRI", "É", &long]
    {
        let refused = first(&Outbound { method: method.to_owned(), ..outbound() });
        assert!(matches!(refused, Err(EgressError::Invalid(_))), "{method}");
    }
}

fn with_headers(headers: &[(&str, &str)]) -> Result<Hop, EgressError> {
    let own = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
    first(&Outbound { headers: headers.iter().map(own).collect(), ..outbound() })
}

#[test]
fn headers_that_are_sent() {
    let hop = with_headers(&[("X-A", "1"), ("x-a", "2"), ("Authorization", "Bearer x")]).unwrap();
    let sent: Vec<_> = hop.headers.get_all("x-a").iter().collect();
    assert_eq!(sent, ["1", "2"]);
    assert_eq!(hop.headers["authorization"], "Bearer x");
}

#[test]
fn headers_that_are_refused() {
    for (name, value) in [
        ("Host", "internal"),
        ("Connection", "close"),
        ("Keep-Alive", "timeout=5"),
        ("Content-Length", "0"),
        ("Transfer-Encoding", "chunked"),
        ("TE", "trailers"),
        ("Trailer", "x"),
        ("Upgrade", "websocket"),
        ("HTTP2-Settings", "x"),
        ("Expect", "100-continue"),
        ("Proxy-Authorization", "x"),
        ("Proxy-Connection", "x"),
        ("", "x"),
        ("a b", "x"),
        ("x:", "x"),
        ("x\r\nhost", "x"),
        ("é", "x"),
        ("x", "a\r\nb: c"),
        ("x", "a\nb"),
        ("x", "a\0b"),
    ] {
        let refused = with_headers(&[(name, value)]);
        assert!(matches!(refused, Err(EgressError::Invalid(_))), "{name:?}: {value:?}");
    }
}

#[test]
fn bounds() {
    let ok = vec![("x", "y"); HTTP_HEADERS_MAX];
    assert!(with_headers(&ok).is_ok());
    let many = vec![("x", "y"); HTTP_HEADERS_MAX + 1];
    assert!(matches!(with_headers(&many), Err(EgressError::Invalid(_))));
    let value = "v".repeat(HTTP_HEADERS_BYTES_MAX - 1);
    assert!(with_headers(&[("x", &value)]).is_ok());
    assert!(matches!(with_headers(&[("xx", &value)]), Err(EgressError::Invalid(_))));

    let body = |bytes| Outbound { body: Some(vec![0; bytes].into()), ..outbound() };
    assert!(first(&body(HTTP_BODY_BYTES_MAX)).is_ok());
    assert!(matches!(first(&body(HTTP_BODY_BYTES_MAX + 1)), Err(EgressError::TooLarge)));

    let redirects = |redirects| first(&Outbound { redirects, ..outbound() });
    assert!(redirects(HTTP_REDIRECTS_MAX).is_ok());
    assert!(matches!(redirects(HTTP_REDIRECTS_MAX + 1), Err(EgressError::Invalid(_))));
}

/// A formula that ships refuses them before it is run, and cannot share the list.
#[test]
fn what_may_not_be_set_is_what_http_forward_refuses_in_its_configuration() {
    let refused = include_str!("../../../../formulas/http-forward/src/target.rs");
    let readme = include_str!("../../../../README.md");
    for name in FORBIDDEN {
        assert!(refused.contains(&format!("    \"{name}\",\n")), "{name}");
        assert!(readme.contains(&format!("`{name}`")), "{name}");
    }
}
