//! What is asked for, checked before anything is sent.

use std::cell::Cell;
use std::net::{Ipv4Addr, Ipv6Addr};

use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use url::{Host, ParseError, Url};

use super::guard::Guard;
use super::{EgressError, Outbound};
use crate::limits::{
    HTTP_HEADERS_BYTES_MAX, HTTP_HEADERS_MAX, HTTP_METHOD_CHARS_MAX, HTTP_REDIRECTS_MAX,
    HTTP_URL_BYTES_MAX,
};
use crate::model::plaintext::opaque;

/// Bytes of a name that can be looked up, and of each of its parts (RFC 1035 §2.3.4).
const NAME_BYTES_MAX: usize = 253;
const LABEL_BYTES_MAX: usize = 63;

/// Headers that say where a message ends, how long a connection lives or whom it is for: the client's own to set. What
/// begins with `proxy-` is one too.
const FORBIDDEN: &[&str] = &[
    "connection",
    "content-length",
    "expect",
    "host",
    "http2-settings",
    "keep-alive",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];
const FORBIDDEN_PREFIX: &str = "proxy-";
const NO_HOST: &str = "the address has no host";
/// Methods that mean something else than an exchange with a host.
const FORBIDDEN_METHODS: &[&str] = &["CONNECT", "PRI", "TRACE"];

/// Which addresses may be sent to, whoever asks.
#[derive(Clone, Copy)]
pub struct AddressRules<'a> {
    pub https_only: bool,
    pub guard: &'a Guard,
}

/// Whether names of this form exist (RFC 1035 §2.3.4).
fn can_be_looked_up(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    let fits = |label: &str| (1..=LABEL_BYTES_MAX).contains(&label.len());
    name.len() <= NAME_BYTES_MAX && name.split('.').all(fits)
}

/// Refuses an address that is read as another one than it was written: a mistake that nobody is to find out by what does
/// not arrive.
pub fn as_written(text: &str) -> Result<(), EgressError> {
    use url::SyntaxViolation as V;
    let mended = Cell::new(None::<&'static str>);
    let note = |violation| {
        let reason = match violation {
            V::Backslash => "the address has a \\ where there should be a /",
            V::C0SpaceIgnored => {
                "the address has a space or a control character at its start or end"
            }
            V::ExpectedDoubleSlash => {
                "the address must have // and a host behind its http: or https:"
            }
            V::TabOrNewlineIgnored => "the address has a tab or a line break in it",
            _ => return,
        };
        // The first says most: others may follow from it.
        mended.set(mended.get().or(Some(reason)));
    };
    // What cannot be read at all was refused before.
    let _ = Url::options().syntax_violation_callback(Some(&note)).parse(text);
    mended.get().map_or(Ok(()), |reason| Err(EgressError::Invalid(reason)))
}

/// Why a text is no address, in fixed words: it may hold a secret.
fn unreadable(error: ParseError) -> &'static str {
    match error {
        ParseError::RelativeUrlWithoutBase => "the address is not an absolute one",
        ParseError::EmptyHost => NO_HOST,
        ParseError::InvalidPort => "the address has a port that is no number up to 65535",
        ParseError::IdnaError | ParseError::InvalidDomainCharacter => {
            "the address has a host with characters that no name has"
        }
        ParseError::InvalidIpv4Address | ParseError::InvalidIpv6Address => {
            "the address has a host that is written as an IP address and is none"
        }
        _ => "the address is not written as one",
    }
}

impl AddressRules<'_> {
    /// Reads and checks an address.
    pub fn read(self, text: &str) -> Result<Url, EgressError> {
        if text.len() > HTTP_URL_BYTES_MAX {
            return Err(EgressError::Invalid("the address is too long"));
        }
        let url = Url::parse(text);
        self.check(url.map_err(|error| EgressError::Invalid(unreadable(error)))?)
    }

    /// Checks an address: all that can be known of it without asking for what its name resolves to.
    pub fn check(self, mut url: Url) -> Result<Url, EgressError> {
        match url.scheme() {
            "https" => {}
            "http" if !self.https_only => {}
            "http" => return Err(EgressError::Denied("the address must begin with https://")),
            _ => {
                let reason = "the address must begin with https:// or http://";
                return Err(EgressError::Invalid(reason));
            }
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err(EgressError::Invalid("the address must hold no user name or password"));
        }
        // A host of digits is connected to as it stands, past every resolver. The parser has read all its spellings.
        let may_be_reached = match url.host() {
            None => return Err(EgressError::Invalid(NO_HOST)),
            // What else a name stands for is looked at when it is connected to.
            Some(Host::Domain(name)) => !is_loopback(name) || self.loopback_may_be_reached(),
            Some(Host::Ipv4(address)) => (self.guard)(address.into()),
            Some(Host::Ipv6(address)) => (self.guard)(address.into()),
        };
        if !may_be_reached {
            return Err(EgressError::Denied("the host's address is not a public one"));
        }
        if url.domain().is_some_and(|name| !can_be_looked_up(name)) || url.port() == Some(0) {
            return Err(EgressError::Invalid("the address has a host or a port that nothing has"));
        }
        if url.as_str().len() > HTTP_URL_BYTES_MAX {
            return Err(EgressError::Invalid("the address is too long"));
        }
        // The client reads it once more, and not as much as the parser does.
        if url.as_str().parse::<Uri>().is_err() {
            return Err(EgressError::Invalid("the address has a host that nothing has"));
        }
        url.set_fragment(None);
        Ok(url)
    }

    fn loopback_may_be_reached(self) -> bool {
        (self.guard)(Ipv4Addr::LOCALHOST.into()) || (self.guard)(Ipv6Addr::LOCALHOST.into())
    }
}

/// Whether a name stands for this machine wherever it is looked up (RFC 6761 §6.3).
fn is_loopback(name: &str) -> bool {
    let name = name.strip_suffix('.').unwrap_or(name);
    name == "localhost" || name.ends_with(".localhost")
}

/// One exchange: the request itself, or what a redirect makes of it.
#[derive(Clone)]
pub struct Hop {
    pub method: Method,
    pub url: Url,
    pub headers: HeaderMap,
    pub body: Option<bytes::Bytes>,
}

opaque!(Hop);

impl Hop {
    /// Checks a request; gives its first exchange.
    pub fn first(request: &Outbound, rules: AddressRules<'_>) -> Result<Self, EgressError> {
        if request.redirects > HTTP_REDIRECTS_MAX {
            return Err(EgressError::Invalid("more redirects are asked for than are followed"));
        }
        let body = request.body.clone();
        if body.as_ref().is_some_and(|body| body.len() > request.body_bytes_max) {
            return Err(EgressError::TooLarge);
        }
        let method = read_method(&request.method)?;
        let headers = read_headers(&request.headers)?;
        Ok(Self { method, url: rules.read(&request.url)?, headers, body })
    }
}

fn read_method(text: &str) -> Result<Method, EgressError> {
    let plain = (1..=HTTP_METHOD_CHARS_MAX).contains(&text.len())
        && text.bytes().all(|c| c.is_ascii_uppercase() || c == b'-')
        && !FORBIDDEN_METHODS.contains(&text);
    let method = Method::from_bytes(text.as_bytes()).ok().filter(|_| plain);
    method.ok_or(EgressError::Invalid("the method is none that can be sent"))
}

fn read_headers(headers: &[(String, String)]) -> Result<HeaderMap, EgressError> {
    let bytes = headers.iter().map(|(name, value)| name.len() + value.len()).sum::<usize>();
    if headers.len() > HTTP_HEADERS_MAX {
        return Err(EgressError::Invalid("there are too many headers"));
    }
    if bytes > HTTP_HEADERS_BYTES_MAX {
        return Err(EgressError::Invalid("the headers are too large"));
    }
    let mut map = HeaderMap::with_capacity(headers.len());
    for (name, value) in headers {
        let name = HeaderName::try_from(name.as_str());
        let name = name.map_err(|_| EgressError::Invalid("a header has no valid name"))?;
        let value = HeaderValue::try_from(value.as_str());
        let value = value.map_err(|_| EgressError::Invalid("a header has no valid value"))?;
        if FORBIDDEN.contains(&name.as_str()) || name.as_str().starts_with(FORBIDDEN_PREFIX) {
            return Err(EgressError::Invalid("a header is not the sender's to set"));
        }
        map.append(name, value);
    }
    Ok(map)
}

#[cfg(test)]
mod tests;
