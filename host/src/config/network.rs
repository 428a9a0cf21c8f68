//! Networks, as an operator writes them.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

use serde::Deserialize;
use thiserror::Error;

/// All addresses that begin with the same bits. Written `ADDRESS/BITS`; an address alone is the network of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(try_from = "String")]
pub struct Network {
    first: IpAddr,
    length: u8,
}

/// The text is no network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidNetwork {
    /// It is written otherwise.
    #[error("must be a network such as 10.0.0.0/8, fd12:3456::/32 or 10.1.2.3")]
    Form,
    /// It is unclear what is meant: a network or an address in it.
    #[error("must have no bits set behind its prefix: 10.0.0.0/8, and not 10.1.2.3/8")]
    HostBits,
    /// IPv4 in IPv6's spelling, whose addresses are taken for what they stand for.
    #[error("must be written as a network of IPv4")]
    Mapped,
}

impl Network {
    /// A network of IPv4 that is known to be one.
    pub const fn v4(first: [u8; 4], length: u8) -> Self {
        Self { first: IpAddr::V4(Ipv4Addr::from_octets(first)), length }
    }

    /// A network of IPv6 that is known to be one.
    pub const fn v6(first: [u16; 8], length: u8) -> Self {
        Self { first: IpAddr::V6(Ipv6Addr::from_segments(first)), length }
    }

    /// Whether an address is in it. One of IPv4 never is in a network of IPv6, however it is spelt.
    pub fn contains(&self, address: IpAddr) -> bool {
        let (own, bits) = bits(self.first);
        let (theirs, their_bits) = self::bits(address);
        let shift = bits - u32::from(self.length);
        bits == their_bits && (own ^ theirs).checked_shr(shift).unwrap_or_default() == 0
    }

    /// Whether another network is a part of it, or the same.
    pub fn covers(&self, other: &Self) -> bool {
        self.length <= other.length && self.contains(other.first)
    }
}

/// An address as a number, and how many bits it has.
fn bits(address: IpAddr) -> (u128, u32) {
    match address {
        IpAddr::V4(address) => (address.to_bits().into(), Ipv4Addr::BITS),
        IpAddr::V6(address) => (address.to_bits(), Ipv6Addr::BITS),
    }
}

impl FromStr for Network {
    type Err = InvalidNetwork;

    fn from_str(text: &str) -> Result<Self, InvalidNetwork> {
        let (address, length) = match text.split_once('/') {
            Some((address, length)) => (address, Some(length)),
            None => (text, None),
        };
        let first: IpAddr = address.parse().map_err(|_| InvalidNetwork::Form)?;
        let (number, bits) = bits(first);
        let plain = |length: &str| {
            let digits = length.bytes().all(|c| c.is_ascii_digit());
            length.parse::<u8>().ok().filter(|length| digits && u32::from(*length) <= bits)
        };
        let whole = u8::try_from(bits).unwrap_or(u8::MAX);
        let length = length.map_or(Some(whole), plain).ok_or(InvalidNetwork::Form)?;
        let behind = (1_u128 << (bits - u32::from(length)).min(127)) - 1;
        if number & behind != 0 || (length == 0 && number != 0) {
            return Err(InvalidNetwork::HostBits);
        }
        let mapped = matches!(first, IpAddr::V6(address) if address.to_ipv4_mapped().is_some());
        if mapped {
            return Err(InvalidNetwork::Mapped);
        }
        Ok(Self { first, length })
    }
}

impl TryFrom<String> for Network {
    type Error = InvalidNetwork;

    fn try_from(text: String) -> Result<Self, InvalidNetwork> {
        text.parse()
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.length)
    }
}

#[cfg(test)]
mod tests {
    use super::{InvalidNetwork, Network};
    use proptest::prelude::*;
    use std::net::IpAddr;

    fn network(text: &str) -> Network {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    #[test]
    fn what_is_in_a_network() {
        for (text, first, last, outside) in [
            ("10.0.0.0/8", "10.0.0.0", "10.255.255.255", &["9.255.255.255", "11.0.0.0", "::a00:0"]),
            ("10.1.2.3", "10.1.2.3", "10.1.2.3", &["10.1.2.2", "10.1.2.4", "::ffff:10.1.2.3"]),
            ("10.1.2.2/31", "10.1.2.2", "10.1.2.3", &["10.1.2.1", "10.1.2.4", "::"]),
            ("fd12::/16", "fd12::", "fd12:ffff::1", &["fd11:ffff::", "fd13::", "253.18.0.0"]),
            ("::1", "::1", "::1", &["::", "::2", "0.0.0.1"]),
        ] {
            let network = network(text);
            for inside in [first, last] {
                assert!(network.contains(inside.parse().unwrap()), "{text} {inside}");
            }
            for outside in outside {
                assert!(!network.contains(outside.parse().unwrap()), "{text} {outside}");
            }
        }
        assert!(network("0.0.0.0/0").contains("255.1.2.3".parse().unwrap()));
        assert!(!network("0.0.0.0/0").contains("::".parse().unwrap()));
        assert!(network("::/0").contains("ffff::".parse().unwrap()));
        assert!(!network("::/0").contains("0.0.0.0".parse().unwrap()));
    }

    #[test]
    fn what_is_no_network() {
        for text in ["", "/", "10.0.0.0/", "10.0.0.0/33", "10.0.0.0/+8", "10/8", "::/129", "a", "*"]
        {
            assert_eq!(text.parse::<Network>(), Err(InvalidNetwork::Form), "{text}");
        }
        for text in ["10.1.2.3/8", "10.0.0.1/31", "fd12::1/64", "128.0.0.0/0", "8000::/0"] {
            assert_eq!(text.parse::<Network>(), Err(InvalidNetwork::HostBits), "{text}");
        }
        for text in ["::ffff:10.0.0.0/104", "::ffff:10.0.0.1"] {
            assert_eq!(text.parse::<Network>(), Err(InvalidNetwork::Mapped), "{text}");
        }
    }

    #[test]
    fn networks_in_networks() {
        for (outer, inner) in
            [("10.0.0.0/8", "10.1.0.0/16"), ("10.0.0.0/8", "10.0.0.0/8"), ("::/0", "::1")]
        {
            assert!(network(outer).covers(&network(inner)), "{outer} {inner}");
        }
        for (outer, inner) in
            [("10.1.0.0/16", "10.0.0.0/8"), ("10.0.0.0/8", "11.0.0.0/8"), ("::/0", "0.0.0.0/0")]
        {
            assert!(!network(outer).covers(&network(inner)), "{outer} {inner}");
        }
    }

    proptest! {
        #[test]
        fn a_network_is_the_addresses_with_its_prefix(own: u32, other: u32, length in 0_u8..=32) {
            let mask = u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
            let text = format!("{}/{length}", std::net::Ipv4Addr::from_bits(own & mask));
            let network: Network = text.parse().unwrap();
            prop_assert_eq!(network.to_string(), text);
            let address = IpAddr::V4(std::net::Ipv4Addr::from_bits(other));
            prop_assert_eq!(network.contains(address), own & mask == other & mask);
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[0-9a-f.:/]{0,24}") {
            if let Ok(network) = text.parse::<Network>() {
                prop_assert_eq!(network.to_string().parse(), Ok(network));
            }
        }
    }
}
