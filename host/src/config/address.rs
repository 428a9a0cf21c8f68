//! Addresses to listen on.

use std::net::SocketAddr;

use serde::{Deserialize, Deserializer, de};

/// What one looks like.
const WANTED: &str = "must be an IP address and a port, such as 127.0.0.1:8080 or [::1]:8080";

/// Reads one. Names are none: which address is meant may change.
pub fn parse(text: &str) -> Result<SocketAddr, &'static str> {
    text.parse().map_err(|_| WANTED)
}

/// Reads the one of a file.
pub fn read<'de, D: Deserializer<'de>>(from: D) -> Result<Option<SocketAddr>, D::Error> {
    let text = String::deserialize(from)?;
    parse(&text).map(Some).map_err(de::Error::custom)
}

#[cfg(test)]
mod tests {
    use super::parse;

    #[test]
    fn an_address_is_numbers() {
        for text in ["127.0.0.1:8080", "0.0.0.0:0", "[::]:443"] {
            assert_eq!(parse(text).unwrap().to_string(), text);
        }
        for text in ["localhost:8080", "8080", ":8080", "127.0.0.1", "::1:8080:x", ""] {
            assert!(parse(text).unwrap_err().contains("127.0.0.1:8080"), "{text}");
        }
    }
}
