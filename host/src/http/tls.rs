//! TLS: the server's certificate and its key, from files that may be exchanged while it serves.
//!
//! Connections keep what they were made with; the next handshake takes the new pair. A pair that cannot be used is told
//! to the operator, and the one before it goes on.

use std::fmt;
use std::fs::File;
use std::io::{self, Read as _};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, RwLock};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, ServerConfig};
use thiserror::Error;
use tokio_rustls::TlsAcceptor;
use x509_parser::parse_x509_certificate;
use zeroize::Zeroizing;

use crate::limits::PEM_BYTES_MAX;

/// Bits of a file's mode that let others than its owner and group read, and others than its owner write.
const OPEN_BITS: u32 = 0o027;

/// Where the pair is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TlsFiles {
    /// The certificate and those that lead to its root, in PEM.
    pub certificate: PathBuf,
    /// Its private key, in PEM, unencrypted.
    pub key: PathBuf,
}

/// Why a pair cannot be used.
#[derive(Debug, Error)]
pub enum TlsError {
    /// A file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// A file is no certificate's or key's.
    #[error("{}: it has more than {PEM_BYTES_MAX} bytes", .0.display())]
    TooLarge(PathBuf),
    /// There is no certificate in the file.
    #[error("{}: it holds no certificate in PEM", .0.display())]
    NoCertificate(PathBuf),
    /// One of the certificates cannot be read.
    #[error("{}: its certificate number {number} is not whole, or is none", path.display())]
    BrokenCertificate {
        /// The file.
        path: PathBuf,
        /// Which, from 1.
        number: usize,
    },
    /// There is no key in the file.
    #[error("{}: it holds no private key in PEM, or an encrypted one", .0.display())]
    NoKey(PathBuf),
    /// Others may read or exchange the key.
    #[error("{}: others may read or write the key; chmod 600 closes it", .0.display())]
    Open(PathBuf),
    /// It would take the place of one that is valid.
    #[error("{}: the certificate has ended, or has not begun yet", .0.display())]
    NotValidNow(PathBuf),
    /// The key is of a kind that TLS does not know, or too short.
    #[error("{}: the key is of a kind or a length that TLS does not take", .0.display())]
    UnsuitableKey(PathBuf),
    /// The two do not belong together.
    #[error("{}: its first certificate, which must be the server's own, is not that of the key", .0.display())]
    OtherKey(PathBuf),
    /// The certificate is of a kind that is not known.
    #[error("{}: the server's certificate is not one that TLS takes: {cause}", path.display())]
    Unusable {
        /// The certificate's file.
        path: PathBuf,
        /// Why.
        cause: rustls::Error,
    },
}

/// The server's side of TLS. Cloning shares it.
#[derive(Clone)]
pub struct Tls {
    config: Arc<ServerConfig>,
    pair: Arc<Pair>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("files", &self.pair.files).finish_non_exhaustive()
    }
}

/// The pair in use, and where it came from.
struct Pair {
    files: TlsFiles,
    provider: Arc<CryptoProvider>,
    current: RwLock<Arc<CertifiedKey>>,
    /// How many reads have begun.
    begun: AtomicU64,
    /// The last of them that has ended: one that began before it comes too late.
    ended: Mutex<u64>,
    /// What the files were like when they were last read, whatever came of it.
    seen: Mutex<[Option<Stamp>; 2]>,
    /// When the certificate is valid that was refused then for its time.
    refused: Mutex<Option<Validity>>,
}

impl fmt::Debug for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Pair(..)")
    }
}

impl ResolvesServerCert for Pair {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(Arc::clone(&self.current.read()))
    }
}

impl Tls {
    /// Reads the pair.
    pub fn load(files: TlsFiles) -> Result<Self, TlsError> {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let seen = Mutex::new(stamps(&files));
        let current = RwLock::new(Arc::new(read(&files, &provider)?));
        let path = files.certificate.clone();
        let pair = Arc::new(Pair {
            files,
            provider: Arc::clone(&provider),
            current,
            begun: AtomicU64::default(),
            ended: Mutex::default(),
            seen,
            refused: Mutex::default(),
        });
        let config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|cause| TlsError::Unusable { path, cause })?;
        let resolver = Arc::clone(&pair) as Arc<dyn ResolvesServerCert>;
        let mut config = config.with_no_client_auth().with_cert_resolver(resolver);
        config.alpn_protocols = vec![b"http/1.1".to_vec(), b"http/1.0".to_vec()];
        Ok(Self { config: Arc::new(config), pair })
    }

    /// Reads the pair anew. Whatever is wrong with the new one, the old one stays; so it does if it is valid at this time,
    /// in seconds since the Unix epoch, and the new one is not. Gives whether the new one counts: it does not if a later read
    /// was over before this one.
    pub fn reload(&self, now_seconds: i64) -> Result<bool, TlsError> {
        let number = self.pair.begun.fetch_add(1, Ordering::Relaxed) + 1;
        *self.pair.seen.lock() = stamps(&self.pair.files);
        *self.pair.refused.lock() = None;
        let new = read(&self.pair.files, &self.pair.provider);
        let mut ended = self.pair.ended.lock();
        if number < *ended {
            return Ok(false);
        }
        *ended = number;
        let new = new?;
        let mut current = self.pair.current.write();
        let out = validity(&new).filter(|validity| !validity.holds_at(now_seconds));
        if out.is_some() && !is_out(&current, now_seconds) {
            *self.pair.refused.lock() = out;
            return Err(TlsError::NotValidNow(self.pair.files.certificate.clone()));
        }
        *current = Arc::new(new);
        Ok(true)
    }

    /// The same when a file has changed since it was last read, or when it is time for one that was refused before; whether
    /// it counts.
    pub fn reload_if_changed(&self, now_seconds: i64) -> Result<bool, TlsError> {
        let refused = *self.pair.refused.lock();
        let is_time = refused.is_some_and(|refused| {
            refused.holds_at(now_seconds) || is_out(&self.pair.current.read(), now_seconds)
        });
        if !is_time && *self.pair.seen.lock() == stamps(&self.pair.files) {
            return Ok(false);
        }
        self.reload(now_seconds)
    }

    /// The time of the certificate in use, if it can be read.
    pub fn validity(&self) -> Option<Validity> {
        validity(&self.pair.current.read())
    }

    /// What takes a connection's handshake.
    pub(super) fn acceptor(&self) -> TlsAcceptor {
        TlsAcceptor::from(Arc::clone(&self.config))
    }
}

/// From when on and until when a certificate is valid, in seconds since the Unix epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// Its first second.
    pub not_before: i64,
    /// Its last one.
    pub not_after: i64,
}

impl Validity {
    /// Whether it is valid at this time.
    pub fn holds_at(self, now_seconds: i64) -> bool {
        (self.not_before..=self.not_after).contains(&now_seconds)
    }
}

/// Whether a pair's certificate is not valid at this time.
fn is_out(pair: &CertifiedKey, now_seconds: i64) -> bool {
    validity(pair).is_some_and(|validity| !validity.holds_at(now_seconds))
}

/// Of the server's own certificate: of those after it, clients may have others.
fn validity(pair: &CertifiedKey) -> Option<Validity> {
    let (_, parsed) = parse_x509_certificate(pair.cert.first()?).ok()?;
    let (not_before, not_after) = (parsed.validity().not_before, parsed.validity().not_after);
    Some(Validity { not_before: not_before.timestamp(), not_after: not_after.timestamp() })
}

/// What tells one state of a file from another.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    file: (u64, u64),
    bytes: u64,
    changed: (i64, i64),
}

fn stamps(files: &TlsFiles) -> [Option<Stamp>; 2] {
    [&files.certificate, &files.key].map(|path| {
        let about = path.metadata().ok()?;
        let (file, changed) = ((about.dev(), about.ino()), (about.ctime(), about.ctime_nsec()));
        Some(Stamp { file, bytes: about.len(), changed })
    })
}

fn read(files: &TlsFiles, provider: &CryptoProvider) -> Result<CertifiedKey, TlsError> {
    let (path, key_path) = (&files.certificate, &files.key);
    let text = read_file(path, 0)?;
    let certificates = (1..).zip(CertificateDer::pem_slice_iter(&text)).map(|(number, found)| {
        // Clients give up on one that they cannot read, wherever it stands.
        let is_whole = |found: &CertificateDer<'_>| {
            parse_x509_certificate(found).is_ok_and(|(rest, _)| rest.is_empty())
        };
        let broken = TlsError::BrokenCertificate { path: path.clone(), number };
        found.ok().filter(is_whole).ok_or(broken)
    });
    let certificates = certificates.collect::<Result<Vec<_>, _>>()?;
    if certificates.is_empty() {
        return Err(TlsError::NoCertificate(path.clone()));
    }
    let text = read_file(key_path, OPEN_BITS)?;
    let key =
        PrivateKeyDer::from_pem_slice(&text).map_err(|_| TlsError::NoKey(key_path.clone()))?;
    let key = provider.key_provider.load_private_key(key);
    let key = key.map_err(|_| TlsError::UnsuitableKey(key_path.clone()))?;
    let pair = CertifiedKey::new(certificates, key);
    match pair.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok(pair),
        Err(rustls::Error::InconsistentKeys(_)) => Err(TlsError::OtherKey(path.clone())),
        Err(cause) => Err(TlsError::Unusable { path: path.clone(), cause }),
    }
}

/// Reads a file, unless a bit of its mode is set that must not be. The file that is looked at is the one that is read.
fn read_file(path: &Path, forbidden: u32) -> Result<Zeroizing<Vec<u8>>, TlsError> {
    let unreadable = |source| TlsError::Unreadable { path: path.to_owned(), source };
    let file = File::open(path).map_err(unreadable)?;
    let about = file.metadata().map_err(unreadable)?;
    if about.mode() & forbidden != 0 {
        return Err(TlsError::Open(path.to_owned()));
    }
    if about.len() > PEM_BYTES_MAX {
        return Err(TlsError::TooLarge(path.to_owned()));
    }
    // As large as the file, so that no part of it is left behind in a buffer that grew.
    let mut bytes = Zeroizing::new(Vec::with_capacity(usize::try_from(about.len()).unwrap_or(0)));
    file.take(PEM_BYTES_MAX).read_to_end(&mut bytes).map_err(unreadable)?;
    Ok(bytes)
}

#[cfg(test)]
mod tests;
