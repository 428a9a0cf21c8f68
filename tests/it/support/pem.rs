//! A self-signed certificate and its key, as files hold them.

use std::time::SystemTime;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use rcgen::{CertificateParams, KeyPair};

/// A new pair for `localhost`.
pub struct Pair {
    /// The certificate in DER.
    pub der: Vec<u8>,
    /// The certificate in PEM.
    pub certificate: String,
    /// The key in PEM.
    pub key: String,
}

impl Pair {
    /// Makes one.
    pub fn make() -> Self {
        Self::make_of(Self::parameters())
    }

    /// Makes one that ends then.
    pub fn make_until(not_after: SystemTime) -> Self {
        let mut parameters = Self::parameters();
        parameters.not_after = not_after.into();
        Self::make_of(parameters)
    }

    fn parameters() -> CertificateParams {
        CertificateParams::new(["localhost".to_owned()]).unwrap()
    }

    fn make_of(parameters: CertificateParams) -> Self {
        let key = KeyPair::generate().unwrap();
        let der = parameters.self_signed(&key).unwrap().der().to_vec();
        let key = pem("PRIVATE KEY", &key.serialize_der());
        Self { certificate: pem("CERTIFICATE", &der), key, der }
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}
