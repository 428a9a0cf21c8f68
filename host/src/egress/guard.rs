//! Which addresses are public: everything else is somebody's inside, and not for formulas or callbacks to reach.
//!
//! IPv6 is decided by what is allowed (global unicast, without the parts of it that are set apart), so that a range
//! nobody has heard of yet is refused. The tables follow the special-purpose registries of IANA.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

use super::EgressConfig;
use crate::config::Network;

/// Decides whether an address may be reached.
pub type Guard = Arc<dyn Fn(IpAddr) -> bool + Send + Sync>;

/// Networks of IPv4 that are not public.
const CLOSED_V4: &[Network] = &[
    // This network, and the machine itself.
    Network::v4([0, 0, 0, 0], 8),
    Network::v4([127, 0, 0, 0], 8),
    // Private, and shared behind a carrier's address translation.
    Network::v4([10, 0, 0, 0], 8),
    Network::v4([172, 16, 0, 0], 12),
    Network::v4([192, 168, 0, 0], 16),
    Network::v4([100, 64, 0, 0], 10),
    // Link-local; the metadata services of most clouds are here.
    Network::v4([169, 254, 0, 0], 16),
    // A metadata service with an address that looks like any other.
    Network::v4([168, 63, 129, 16], 32),
    // Protocol assignments; relays of 6to4.
    Network::v4([192, 0, 0, 0], 24),
    Network::v4([192, 88, 99, 0], 24),
    // Documentation and benchmarks.
    Network::v4([192, 0, 2, 0], 24),
    Network::v4([198, 51, 100, 0], 24),
    Network::v4([203, 0, 113, 0], 24),
    Network::v4([198, 18, 0, 0], 15),
    // Multicast, reserved, broadcast.
    Network::v4([224, 0, 0, 0], 4),
    Network::v4([240, 0, 0, 0], 4),
];

/// Global unicast: the part of IPv6 that is handed out.
const OPEN_V6: Network = Network::v6([0x2000, 0, 0, 0, 0, 0, 0, 0], 3);

/// Networks of IPv6 within [`OPEN_V6`] that are not public.
const CLOSED_V6: &[Network] = &[
    // Protocol assignments: Teredo, benchmarks, identifiers that are no addresses.
    Network::v6([0x2001, 0, 0, 0, 0, 0, 0, 0], 23),
    // Documentation.
    Network::v6([0x2001, 0xdb8, 0, 0, 0, 0, 0, 0], 32),
    Network::v6([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20),
    // 6to4, which spells an IPv4 address.
    Network::v6([0x2002, 0, 0, 0, 0, 0, 0, 0], 16),
];

/// Where NAT64 puts the IPv4 addresses of the world: in networks without IPv4 of their own, names resolve to these.
const NAT64: Network = Network::v6([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96);

/// Where metadata services are, which tell machines' credentials to whoever asks, and the rest of what is link-local.
/// Opening a network around one of these does not open it.
const APART: &[Network] = &[
    Network::v4([169, 254, 0, 0], 16),
    Network::v6([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10),
    // Those of single clouds, elsewhere.
    Network::v4([100, 100, 100, 200], 32),
    Network::v4([168, 63, 129, 16], 32),
    Network::v4([192, 0, 0, 192], 32),
    Network::v6([0xfd00, 0xec2, 0, 0, 0, 0, 0, 0], 32),
    Network::v6([0xfd00, 0xc1, 0, 0, 0, 0, 0, 0], 32),
    Network::v6([0xfd20, 0xce, 0, 0, 0, 0, 0, 0], 32),
];

/// The guard that an operator asks for.
pub fn guard(config: EgressConfig) -> Guard {
    let EgressConfig { allow_private_networks, allow_networks } = config;
    match (allow_private_networks, allow_networks.as_slice()) {
        (true, _) => Arc::new(|_| true),
        (false, []) => Arc::new(is_public),
        _ => Arc::new(move |address| is_public(address) || is_opened(address, &allow_networks)),
    }
}

/// Whether an address is in one of these networks. One that is set apart needs a network that is no wider than that.
fn is_opened(address: IpAddr, networks: &[Network]) -> bool {
    let address = meant(address);
    let apart = APART.iter().find(|apart| apart.contains(address));
    let opens = |network: &&Network| {
        network.contains(address) && apart.is_none_or(|apart| apart.covers(network))
    };
    networks.iter().any(|network| opens(&network))
}

/// The address of IPv4 that one of IPv6 stands for, where it stands for one that would be connected to.
fn meant(address: IpAddr) -> IpAddr {
    let IpAddr::V6(six) = address else { return address };
    let four = if NAT64.contains(address) { Some(last_four(six)) } else { six.to_ipv4_mapped() };
    four.map_or(address, IpAddr::V4)
}

/// Whether an address is one that anybody on the internet could reach.
pub fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => !is_within(CLOSED_V4, address),
        IpAddr::V6(six) if NAT64.contains(address) => is_public(last_four(six).into()),
        IpAddr::V6(six) => {
            OPEN_V6.contains(address) && !is_within(CLOSED_V6, address) && !is_isatap(six)
        }
    }
}

fn is_within(networks: &[Network], address: IpAddr) -> bool {
    networks.iter().any(|network| network.contains(address))
}

fn last_four(address: Ipv6Addr) -> Ipv4Addr {
    let [.., a, b, c, d] = address.octets();
    Ipv4Addr::new(a, b, c, d)
}

/// Whether the lower half spells an IPv4 address for an automatic tunnel.
fn is_isatap(address: Ipv6Addr) -> bool {
    let [_, _, _, _, high, low, _, _] = address.segments();
    high & !0x0300 == 0 && low == 0x5efe
}

#[cfg(test)]
mod tests {
    use super::{EgressConfig, guard, is_public};
    use std::net::IpAddr;

    /// Whether a guard that opens these networks lets an address pass.
    fn opened(networks: &[&str], address: &str) -> bool {
        let allow_networks = networks.iter().map(|text| text.parse().unwrap()).collect();
        let guard = guard(EgressConfig { allow_networks, ..EgressConfig::default() });
        guard(address.parse().unwrap())
    }

    #[test]
    fn opened_networks_and_no_others() {
        let networks = &["10.0.0.0/8", "192.168.7.1", "fd12::/16"];
        for address in [
            "10.0.0.0",
            "10.255.255.255",
            "192.168.7.1",
            "fd12::1",
            // Always.
            "8.8.8.8",
            "2606:4700::1111",
            // As good as the address of IPv4.
            "::ffff:10.0.0.1",
            "64:ff9b::10.0.0.1",
        ] {
            assert!(opened(networks, address), "{address}");
        }
        for address in [
            "127.0.0.1",
            "192.168.7.0",
            "192.168.7.2",
            "172.16.0.1",
            "169.254.169.254",
            "fd13::1",
            "::1",
            "::ffff:127.0.0.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b::192.168.7.2",
        ] {
            assert!(!opened(networks, address), "{address}");
        }
        assert!(!opened(&[], "10.0.0.1"));
        let all = guard(EgressConfig { allow_private_networks: true, ..EgressConfig::default() });
        assert!(all("169.254.169.254".parse().unwrap()) && all("fd00:ec2::254".parse().unwrap()));
    }

    #[test]
    fn metadata_services_are_opened_by_name_only() {
        let wide = &["0.0.0.0/0", "::/0", "169.0.0.0/8", "fc00::/7", "fd00::/8", "100.64.0.0/10"];
        for (address, narrow) in [
            ("169.254.169.254", &["169.254.169.254", "169.254.0.0/16", "169.254.169.0/24"][..]),
            ("169.254.170.2", &["169.254.0.0/16"]),
            ("::ffff:169.254.169.254", &["169.254.169.254"]),
            ("64:ff9b::169.254.169.254", &["169.254.169.254"]),
            ("100.100.100.200", &["100.100.100.200"]),
            ("168.63.129.16", &["168.63.129.16/32"]),
            ("fd00:ec2::254", &["fd00:ec2::254", "fd00:ec2::/32"]),
            ("fd20:ce::254", &["fd20:ce::254"]),
            ("fe80::1", &["fe80::/10"]),
        ] {
            assert!(!opened(wide, address), "{address}");
            for network in narrow {
                assert!(opened(&[network], address), "{network} {address}");
            }
        }
        // What lies around them is opened.
        for address in ["169.253.0.1", "10.0.0.1", "127.0.0.1", "::1", "fd12::1", "100.64.0.1"] {
            assert!(opened(wide, address), "{address}");
        }
    }

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
