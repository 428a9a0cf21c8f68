//! What keeps the server safe from clients and from itself: TLS, connections, lock-out, confinement.

use std::path::PathBuf;

use super::{ConfigError, Options, machine};
use crate::limits::{CONNECTION_BUFFER_BYTES_MAX, CONNECTIONS_DEFAULT, LOCK_OUT_AFTER_DEFAULT};

/// Connections that there are places for however little memory there is.
const CONNECTIONS_MIN: usize = 512;
/// The part of the memory that what clients have sent of their requests' heads may take.
const HEADS_PART: u64 = 8;
/// KiB that one of them may take: a full buffer, and one as large for what is read next.
const HEAD_KB: u64 = 2 * (CONNECTION_BUFFER_BYTES_MAX as u64 >> 10);

/// Where the certificates that are trusted may lie, if not where the machine has them.
const TRUSTED: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// Settings of safety.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Safety {
    /// The files of certificate and key; without them the server speaks in clear.
    pub tls: Option<(PathBuf, PathBuf)>,
    /// Connections at the same time.
    pub connections_max: usize,
    /// Whether the kernel is to confine the process.
    pub confine: bool,
}

impl Safety {
    /// What flags say, or else a file, or else what is usual.
    pub(super) fn of(flags: &Options, file: &Options) -> Result<Self, ConfigError> {
        let certificate = flags.tls_certificate.as_ref().or(file.tls_certificate.as_ref());
        let key = flags.tls_key.as_ref().or(file.tls_key.as_ref());
        let tls = match (certificate, key) {
            (Some(certificate), Some(key)) => Some((certificate.clone(), key.clone())),
            (None, None) => None,
            _ => return Err(ConfigError::HalfOfTls),
        };
        Ok(Self {
            tls,
            connections_max: flags
                .connections_max
                .or(file.connections_max)
                .unwrap_or_else(|| usual_connections(machine::memory_kb())),
            confine: flags.confine.or(file.confine).unwrap_or(true),
        })
    }
}

/// As many as their heads have room for, and no more than are usual.
fn usual_connections(memory_kb: Option<u64>) -> usize {
    let fit = memory_kb.map_or(u64::MAX, |kb| kb / HEADS_PART / HEAD_KB);
    usize::try_from(fit).unwrap_or(usize::MAX).clamp(CONNECTIONS_MIN, CONNECTIONS_DEFAULT)
}

/// Unknown keys before a client is locked out.
pub(super) fn lock_out_after(flags: &Options, file: &Options) -> u32 {
    flags.lock_out_after.or(file.lock_out_after).unwrap_or(LOCK_OUT_AFTER_DEFAULT)
}

/// Where the operator says that trusted certificates lie.
#[expect(clippy::disallowed_methods, reason = "the environment is read in this module")]
pub fn trusted_certificates() -> Vec<PathBuf> {
    let given = TRUSTED.iter().filter_map(std::env::var_os);
    given.flat_map(|paths| std::env::split_paths(&paths).collect::<Vec<_>>()).collect()
}

#[cfg(test)]
mod tests {
    use super::{Safety, lock_out_after, usual_connections};
    use crate::config::Options;
    use std::path::PathBuf;

    fn of(flags: &Options, file: &Options) -> Option<Safety> {
        Safety::of(flags, file).ok()
    }

    #[test]
    fn certificate_and_key_go_together() {
        let none = Options::default();
        let path = |name: &str| Some(PathBuf::from(name));
        let certificate = Options { tls_certificate: path("c"), ..Options::default() };
        let key = Options { tls_key: path("k"), ..Options::default() };
        assert_eq!(of(&none, &none).unwrap().tls, None);
        assert_eq!(of(&certificate, &none), None);
        assert_eq!(of(&none, &key), None);
        let both = Some(("c".into(), "k".into()));
        assert_eq!(of(&certificate, &key).unwrap().tls, both);
        assert_eq!(of(&key, &certificate).unwrap().tls, both);
    }

    #[test]
    fn flags_go_before_the_file() {
        let none = Options::default();
        let one = |n: u32, confine: bool| Options {
            connections_max: Some(n as usize),
            lock_out_after: Some(n),
            confine: Some(confine),
            ..Options::default()
        };
        let usual = of(&none, &none).unwrap();
        assert!(usual.confine && (512..=10_000).contains(&usual.connections_max));
        assert_eq!(lock_out_after(&none, &none), 20);
        let chosen = of(&one(3, false), &one(5, true)).unwrap();
        assert_eq!((chosen.connections_max, chosen.confine), (3, false));
        assert_eq!(lock_out_after(&none, &one(0, true)), 0);
    }

    #[test]
    fn heads_take_an_eighth_of_the_memory() {
        let gib = 1 << 20;
        for (memory_kb, expected) in [
            (Some(gib / 4), 512),
            (Some(gib), 1_024),
            (Some(6 * gib), 6_144),
            (Some(64 * gib), 10_000),
            (None, 10_000),
        ] {
            assert_eq!(usual_connections(memory_kb), expected, "{memory_kb:?}");
        }
    }
}
