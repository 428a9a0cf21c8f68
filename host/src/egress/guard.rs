//! Which addresses are public: everything else is somebody's inside, and not for formulas or callbacks to reach.
//!
//! IPv6 is decided by what is allowed (global unicast, without the parts of it that are set apart), so that a range
//! nobody has heard of yet is refused. The tables follow the special-purpose registries of IANA.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Decides whether an address may be reached.
pub type Guard = fn(IpAddr) -> bool;

/// Networks of IPv4 that are not public, with the length of their prefix.
const CLOSED_V4: &[([u8; 4], u32)] = &[
    // This network, and the machine itself.
    ([0, 0, 0, 0], 8),
    ([127, 0, 0, 0], 8),
    // Private, and shared behind a carrier's address translation.
    ([10, 0, 0, 0], 8),
    ([172, 16, 0, 0], 12),
    ([192, 168, 0, 0], 16),
    ([100, 64, 0, 0], 10),
    // Link-local; the metadata services of most clouds are here.
    ([169, 254, 0, 0], 16),
    // A metadata service with an address that looks like any other.
    ([168, 63, 129, 16], 32),
    // Protocol assignments; relays of 6to4.
    ([192, 0, 0, 0], 24),
    ([192, 88, 99, 0], 24),
    // Documentation and benchmarks.
    ([192, 0, 2, 0], 24),
    ([198, 51, 100, 0], 24),
    ([203, 0, 113, 0], 24),
    ([198, 18, 0, 0], 15),
    // Multicast, reserved, broadcast.
    ([224, 0, 0, 0], 4),
    ([240, 0, 0, 0], 4),
];

/// Global unicast: the part of IPv6 that is handed out.
const OPEN_V6: (Ipv6Addr, u32) = (Ipv6Addr::new(0x2000, 0, 0, 0, 0, 0, 0, 0), 3);

/// Networks of IPv6 within [`OPEN_V6`] that are not public, with the length of their prefix.
const CLOSED_V6: &[(Ipv6Addr, u32)] = &[
    // Protocol assignments: Teredo, benchmarks, identifiers that are no addresses.
    (Ipv6Addr::new(0x2001, 0, 0, 0, 0, 0, 0, 0), 23),
    // Documentation.
    (Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 0), 32),
    (Ipv6Addr::new(0x3fff, 0, 0, 0, 0, 0, 0, 0), 20),
    // 6to4, which spells an IPv4 address.
    (Ipv6Addr::new(0x2002, 0, 0, 0, 0, 0, 0, 0), 16),
];

/// Where NAT64 puts the IPv4 addresses of the world: in networks without IPv4 of their own, names resolve to these.
const NAT64: (Ipv6Addr, u32) = (Ipv6Addr::new(0x64, 0xff9b, 0, 0, 0, 0, 0, 0), 96);

/// Whether an address is one that anybody on the internet could reach.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_public_v4(address),
        IpAddr::V6(address) => is_public_v6(address),
    }
}

fn is_public_v4(address: Ipv4Addr) -> bool {
    let bits = address.to_bits();
    let inside = |(network, length): &([u8; 4], u32)| {
        let shift = Ipv4Addr::BITS - length;
        bits >> shift == u32::from_be_bytes(*network) >> shift
    };
    !CLOSED_V4.iter().any(inside)
}

fn is_public_v6(address: Ipv6Addr) -> bool {
    if inside_v6(address, NAT64) {
        let [.., a, b, c, d] = address.octets();
        return is_public_v4(Ipv4Addr::new(a, b, c, d));
    }
    inside_v6(address, OPEN_V6)
        && !CLOSED_V6.iter().any(|network| inside_v6(address, *network))
        && !is_isatap(address)
}

fn inside_v6(address: Ipv6Addr, (network, length): (Ipv6Addr, u32)) -> bool {
    let shift = Ipv6Addr::BITS - length;
    address.to_bits() >> shift == network.to_bits() >> shift
}

/// Whether the lower half spells an IPv4 address for an automatic tunnel.
fn is_isatap(address: Ipv6Addr) -> bool {
    let [_, _, _, _, high, low, _, _] = address.segments();
    high & !0x0300 == 0 && low == 0x5efe
}

#[cfg(test)]
mod tests {
    use super::is_public;
    use std::net::IpAddr;

    fn public(text: &str) -> bool {
        is_public(text.parse::<IpAddr>().unwrap_or_else(|_| panic!("{text}")))
    }

    #[test]
    fn public_addresses() {
        for address in [
            "1.1.1.1",
            "8.8.8.8",
            "9.255.255.255",
            "11.0.0.0",
            "100.63.255.255",
            "100.128.0.0",
            "126.255.255.255",
            "128.0.0.0",
            "168.63.129.15",
            "168.63.129.17",
            "169.253.255.255",
            "169.255.0.0",
            "172.15.255.255",
            "172.32.0.0",
            "192.0.1.0",
            "192.167.255.255",
            "192.169.0.0",
            "198.17.255.255",
            "198.20.0.0",
            "203.0.112.255",
            "223.255.255.255",
            "2000::1",
            "2001:200::1",
            "2001:4860:4860::8888",
            "2606:4700:4700::1111",
            "2a00:1450:4001::1",
            "3ffe:ffff::1",
            "64:ff9b::8.8.8.8",
        ] {
            assert!(public(address), "{address}");
        }
    }

    #[test]
    fn addresses_of_somebodys_inside() {
        for address in [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.0",
            "10.255.255.255",
            "100.64.0.0",
            "100.100.100.200",
            "100.127.255.255",
            "127.0.0.1",
            "127.255.255.255",
            "168.63.129.16",
            "169.254.0.0",
            "169.254.169.254",
            "169.254.170.2",
            "172.16.0.0",
            "172.31.255.255",
            "192.0.0.0",
            "192.0.0.192",
            "192.0.2.1",
            "192.88.99.1",
            "192.168.0.0",
            "192.168.255.255",
            "198.18.0.0",
            "198.19.255.255",
            "198.51.100.7",
            "203.0.113.7",
            "224.0.0.1",
            "239.255.255.255",
            "240.0.0.1",
            "255.255.255.255",
        ] {
            assert!(!public(address), "{address}");
        }
    }

    #[test]
    fn what_ipv6_has_set_apart() {
        for address in [
            "::",
            "::1",
            "::2",
            "100::1",
            "100:0:0:1::1",
            "1fff:ffff::1",
            "2001::1",
            "2001:2::1",
            "2001:10::1",
            "2001:20::1",
            "2001:1ff:ffff::1",
            "2001:db8::1",
            "3fff::1",
            "3fff:fff:ffff::1",
            "4000::1",
            "5f00::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "febf::1",
            "fec0::1",
            "ff02::1",
            "ff0e::1",
        ] {
            assert!(!public(address), "{address}");
        }
    }

    #[test]
    fn other_spellings_of_ipv4() {
        for address in [
            // Mapped and compatible: no name of the internet resolves to these, whatever they stand for.
            "::ffff:127.0.0.1",
            "::ffff:10.0.0.1",
            "::ffff:169.254.169.254",
            "::ffff:8.8.8.8",
            "::ffff:0:127.0.0.1",
            "::127.0.0.1",
            "::8.8.8.8",
            // NAT64, also with a prefix of the network's own.
            "64:ff9b::127.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b::169.254.169.254",
            "64:ff9b::1:8.8.8.8",
            "64:ff9b:1::8.8.8.8",
            // 6to4 and Teredo.
            "2002:7f00:1::",
            "2002:808:808::1",
            "2001:0:4136:e378:8000:63bf:3fff:fdd2",
            // Automatic tunnels within a site.
            "2606:4700::5efe:127.0.0.1",
            "2606:4700::200:5efe:10.0.0.1",
        ] {
            assert!(!public(address), "{address}");
        }
    }
}
