//! Whom a secure connection is made to.

use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::sync::Arc;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::{ServerConfig, ServerConnection, StreamOwned};

use super::{Egress, EgressError, Names, Outbound, get, send};

const UNTRUSTED: EgressError =
    EgressError::Unreachable("no secure connection: the host is not trusted");

struct Authority(CertifiedIssuer<'static, KeyPair>);

impl Authority {
    fn new() -> Self {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        Self(CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap())
    }

    /// A host with a certificate for a name, signed by this authority.
    fn host(&self, name: &str) -> u16 {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
        let certificate = params.signed_by(&key, &self.0).unwrap();
        serve(certificate.der().clone(), &key)
    }

    /// Trusts this authority; every name is this machine.
    fn trusting(&self) -> Egress {
        let root = self.0.der().clone();
        let here: &[&[&str]] = &[&["127.0.0.1"]];
        let names = Names::new(&[("a.test", here), ("b.test", here)]);
        Egress::assemble(Arc::new(|_| true), names, &[root]).unwrap()
    }
}

/// Answers requests over TLS, on a thread that ends with the tests.
fn serve(certificate: rustls::pki_types::CertificateDer<'static>, key: &KeyPair) -> u16 {
    let key = PrivateKeyDer::from(PrivatePkcs8KeyDer::from(key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            let connection = ServerConnection::new(Arc::clone(&config)).unwrap();
            let mut stream = StreamOwned::new(connection, stream);
            let mut request = [0; 4096];
            // A client that does not trust this host ends here.
            if stream.read(&mut request).is_ok() {
                let answer =
                    "HTTP/1.1 200 OK\r\nContent-Length: 6\r\nConnection: close\r\n\r\nsecure";
                let _ = stream.write_all(answer.as_bytes()).and_then(|()| stream.flush());
                stream.conn.send_close_notify();
                let _ = stream.flush();
            }
        }
    });
    port
}

fn https(host: &str, port: u16) -> Outbound {
    Outbound { https_only: true, ..get(format!("https://{host}:{port}/")) }
}

#[tokio::test]
async fn a_host_with_a_certificate_that_is_trusted() {
    let authority = Authority::new();
    let port = authority.host("a.test");
    let answer = send(&authority.trusting(), https("a.test", port)).await.unwrap();
    assert_eq!(answer.body, b"secure");
}

#[tokio::test]
async fn a_certificate_for_another_name() {
    let authority = Authority::new();
    let port = authority.host("a.test");
    assert_eq!(send(&authority.trusting(), https("b.test", port)).await, Err(UNTRUSTED));
    assert_eq!(send(&authority.trusting(), https("127.0.0.1", port)).await, Err(UNTRUSTED));
}

#[tokio::test]
async fn a_certificate_of_somebody_else() {
    let (authority, other) = (Authority::new(), Authority::new());
    let port = other.host("a.test");
    assert_eq!(send(&authority.trusting(), https("a.test", port)).await, Err(UNTRUSTED));
    assert_eq!(send(&super::anywhere(), https("a.test", port)).await, Err(UNTRUSTED));
}

#[tokio::test]
async fn a_certificate_that_signed_itself() {
    let made = rcgen::generate_simple_self_signed(vec!["a.test".to_owned()]).unwrap();
    let port = serve(made.cert.der().clone(), &made.signing_key);
    assert_eq!(send(&super::anywhere(), https("a.test", port)).await, Err(UNTRUSTED));
    assert_eq!(send(&Authority::new().trusting(), https("a.test", port)).await, Err(UNTRUSTED));
}

#[tokio::test]
async fn a_host_that_speaks_in_clear() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok");
        // Until the client goes.
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let answer = send(&super::anywhere(), https("a.test", port)).await;
    let disagreed = "no secure connection: the host does not agree to one";
    assert_eq!(answer, Err(EgressError::Unreachable(disagreed)));
}
