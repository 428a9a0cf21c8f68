//! A self-signed certificate and its key, as files hold them.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

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
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).unwrap();
        let der = made.cert.der().to_vec();
        let key = pem("PRIVATE KEY", &made.signing_key.serialize_der());
        Self { certificate: pem("CERTIFICATE", &der), key, der }
    }
}

fn pem(label: &str, der: &[u8]) -> String {
    let text = STANDARD.encode(der);
    let lines: Vec<_> = text.as_bytes().chunks(64).map(String::from_utf8_lossy).collect();
    format!("-----BEGIN {label}-----\n{}\n-----END {label}-----\n", lines.join("\n"))
}
