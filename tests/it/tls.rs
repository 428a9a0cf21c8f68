//! TLS in the server: its certificate, exchanged while it serves, and handshakes that are slow.

use std::fs;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use reqwest::Certificate;
use reqwest::tls::Version;
use tokamak::http::{Bounds, Serving, Tls, TlsFiles};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::TestServer;
use crate::support::binary::{MANAGEMENT_KEY, Process, ROOT_KEY, command, eventually};
use crate::support::pem::Pair;
use crate::support::server::Setup;

const PATIENCE: Duration = Duration::from_mins(2);

/// A new pair in a folder's files; gives the certificate as clients trust it.
fn exchange(folder: &Path) -> Certificate {
    put(folder, &Pair::make())
}

/// Puts a pair into a folder's files.
fn put(folder: &Path, pair: &Pair) -> Certificate {
    // As tools that renew certificates do: each file whole, under its name.
    for (name, text) in [("key.pem", &pair.key), ("certificate.pem", &pair.certificate)] {
        let beside = folder.join("new");
        fs::write(&beside, text).unwrap();
        fs::set_permissions(&beside, fs::Permissions::from_mode(0o600)).unwrap();
        fs::rename(&beside, folder.join(name)).unwrap();
    }
    Certificate::from_der(&pair.der).unwrap()
}

fn files(folder: &Path) -> TlsFiles {
    TlsFiles { certificate: folder.join("certificate.pem"), key: folder.join("key.pem") }
}

/// A client that trusts this certificate alone, and knows where `localhost` is.
fn trusting(certificate: &Certificate, address: SocketAddr, newest: Version) -> reqwest::Client {
    let client = reqwest::Client::builder().no_proxy().resolve("localhost", address);
    let client = client.tls_certs_only([certificate.clone()]).tls_version_max(newest);
    client.pool_idle_timeout(None).timeout(PATIENCE).build().unwrap()
}

async fn healthy(client: &reqwest::Client, address: SocketAddr) -> bool {
    let url = format!("https://localhost:{}/healthz", address.port());
    match client.get(url).send().await {
        Ok(answer) => {
            assert_eq!(answer.status(), 200);
            assert_eq!(answer.headers()["strict-transport-security"], "max-age=31536000");
            true
        }
        Err(_) => false,
    }
}

fn serve(folder: &Path) -> Command {
    let mut serve = command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--cache-mb", "32", "--log", "info"]);
    serve.arg("--data-dir").arg(folder.join("data"));
    serve.arg("--tls-certificate").arg(folder.join("certificate.pem"));
    serve.arg("--tls-key").arg(folder.join("key.pem"));
    serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
    serve
}

/// A server with its first certificate, and the file of its log.
fn logging(folder: &Path) -> (Certificate, Process, PathBuf) {
    let (log, certificate) = (folder.join("log"), exchange(folder));
    let mut command = serve(folder);
    command.stderr(Stdio::from(fs::File::create(&log).unwrap()));
    (certificate, Process::start(command), log)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_certificate_is_exchanged_while_connections_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let (first, process, log) = logging(folder.path());
    assert!(process.printed.iter().any(|line| line.contains("https://")), "{:?}", process.printed);
    let address = process.address;
    let logged = async |text: &str| {
        eventually(text, || fs::read_to_string(&log).unwrap().contains(text).then_some(())).await;
    };
    let hang_up = || {
        let id = process.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
    };
    let old = trusting(&first, address, Version::TLS_1_3);
    assert!(healthy(&old, address).await);
    assert!(healthy(&trusting(&first, address, Version::TLS_1_2), address).await);
    // In clear nobody is answered.
    let clear = reqwest::Client::builder().no_proxy().timeout(PATIENCE).build().unwrap();
    assert!(clear.get(format!("http://{address}/healthz")).send().await.is_err());

    let second = exchange(folder.path());
    hang_up();
    logged("the certificate was read anew").await;
    assert!(healthy(&trusting(&second, address, Version::TLS_1_3), address).await);
    // Who trusts the first alone gets no new connection, and keeps the one it has.
    assert!(!healthy(&trusting(&first, address, Version::TLS_1_3), address).await);
    assert!(healthy(&old, address).await);

    // A bad pair changes nothing.
    fs::write(folder.path().join("certificate.pem"), "none").unwrap();
    hang_up();
    logged("the old one stays").await;
    assert!(healthy(&trusting(&second, address, Version::TLS_1_3), address).await);

    // Without a word, new files are noticed.
    let third = exchange(folder.path());
    let waiting = async {
        while !healthy(&trusting(&third, address, Version::TLS_1_3), address).await {
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    timeout(PATIENCE, waiting).await.expect("the new certificate is noticed");
    assert_eq!(process.terminate(), Some(0));
}

/// As on a file system that hangs: the file is opened for ever.
#[tokio::test(flavor = "multi_thread")]
async fn a_certificate_file_that_does_not_answer_holds_up_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (first, process, log) = logging(folder.path());
    let file = folder.path().join("certificate.pem");
    fs::remove_file(&file).unwrap();
    assert!(Command::new("mkfifo").arg(&file).status().unwrap().success());
    let told = "the files of the certificate do not answer; the old one stays";
    eventually(told, || fs::read_to_string(&log).unwrap().contains(told).then_some(())).await;
    // They answer after all, with what is no certificate.
    fs::write(&file, "none").unwrap();
    let late = "holds no certificate in PEM";
    eventually(late, || fs::read_to_string(&log).unwrap().contains(late).then_some(())).await;
    for _ in 0..8 {
        assert!(
            healthy(&trusting(&first, process.address, Version::TLS_1_3), process.address).await
        );
    }
    assert_eq!(process.terminate(), Some(0));
}

/// Whoever watches the server reads what it tells, whatever its certificate is: waits until it tells of this end.
async fn told_to_end(process: &Process, then: SystemTime) {
    let client = reqwest::Client::builder().no_proxy().tls_danger_accept_invalid_certs(true);
    let client = client.timeout(PATIENCE).build().unwrap();
    let seconds = then.duration_since(UNIX_EPOCH).unwrap().as_secs();
    let line = format!("tokamak_tls_certificate_not_after_seconds {seconds}");
    let waiting = async {
        loop {
            let url = format!("https://{}/metrics", process.address);
            let text = client.get(url).send().await.unwrap().text().await.unwrap();
            if text.lines().any(|one| one == line) {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    timeout(PATIENCE, waiting).await.expect("the figure is the certificate's");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_end_of_the_certificate_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let logged = async |words: &str| {
        eventually(words, || fs::read_to_string(&log).unwrap().contains(words).then_some(())).await;
    };
    let start = || {
        let mut command = serve(folder.path());
        command.stderr(Stdio::from(fs::File::create(&log).unwrap()));
        Process::start(command)
    };
    // Half a day off, so that the days that are left are so many for a while.
    let (soon, over) = (Duration::from_hours(84), Duration::from_hours(24));
    let (soon, over) = (SystemTime::now() + soon, SystemTime::now() - over);
    put(folder.path(), &Pair::make_until(soon));
    let process = start();
    told_to_end(&process, soon).await;
    logged("the certificate ends soon days=3").await;
    // One that has ended takes its place at no time but at a start, where there is no other.
    put(folder.path(), &Pair::make_until(over));
    let id = process.id().to_string();
    assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
    logged("the certificate has ended, or has not begun yet").await;
    told_to_end(&process, soon).await;
    assert_eq!(process.terminate(), Some(0));
    let said = fs::read_to_string(&log).unwrap();
    assert_eq!(said.matches("the certificate ends soon").count(), 1, "{said}");
    let process = start();
    told_to_end(&process, over).await;
    logged("the certificate has ended: no client that checks it will connect").await;
    assert_eq!(process.terminate(), Some(0));
}

#[test]
fn a_pair_that_cannot_be_used_is_named_at_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let run = || {
        let output = serve(folder.path()).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(run().contains("certificate.pem: No such file"), "{}", run());
    exchange(folder.path());
    let key = folder.path().join("key.pem");
    fs::set_permissions(&key, fs::Permissions::from_mode(0o644)).unwrap();
    assert!(run().contains("key.pem: others may read or write the key"), "{}", run());
    let other = Pair::make().key;
    fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&key, other).unwrap();
    assert!(run().contains("certificate.pem: "), "{}", run());
    // Nothing was made.
    assert!(!folder.path().join("data").exists());
    let mut half = command();
    half.args(["serve", "--tls-key", "key.pem", "--data-dir"]).arg(folder.path());
    let output = half.env("TOKAMAK_ROOT_KEY", ROOT_KEY).output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    assert!(said.contains("--tls-certificate and --tls-key go together"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_handshake_that_is_slow_delays_nobody_and_ends() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = exchange(folder.path());
    let bounds = Bounds { handshake: Duration::from_millis(400), ..Bounds::default() };
    let address = {
        let tls = Some(Tls::load(files(folder.path())).unwrap());
        let serving = Serving { bounds, tls, ..Serving::default() };
        start(serving).await
    };
    let mut slow = Vec::new();
    for number in 0..50 {
        let mut connection = TcpStream::connect(address).await.unwrap();
        // Some say nothing, some begin, some speak another language.
        let start: &[u8] =
            [&b""[..], b"\x16\x03\x01\x02\x00\x01", b"GET / HTTP/1.1\r\n\r\n"][number % 3];
        connection.write_all(start).await.unwrap();
        slow.push(connection);
    }
    assert!(healthy(&trusting(&certificate, address, Version::TLS_1_3), address).await);
    for connection in &mut slow {
        let mut piece = [0; 256];
        let closed = async { while let Ok(1..) = connection.read(&mut piece).await {} };
        timeout(PATIENCE, closed).await.expect("the server closes the connection");
    }
    assert!(healthy(&trusting(&certificate, address, Version::TLS_1_3), address).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn handshakes_that_do_not_end_make_room_for_others() {
    let folder = tempfile::tempdir().unwrap();
    let certificate = exchange(folder.path());
    let bounds = Bounds { handshake: PATIENCE, connections_max: 8, ..Bounds::default() };
    let tls = Some(Tls::load(files(folder.path())).unwrap());
    let address = start(Serving { bounds, tls, ..Serving::default() }).await;
    let mut silent = Vec::new();
    for _ in 0..16 {
        silent.push(TcpStream::connect(address).await.unwrap());
        // On a busy machine room may not be made in the moment that is waited for it.
        let mut tries = 0;
        while !healthy(&trusting(&certificate, address, Version::TLS_1_3), address).await {
            tries += 1;
            assert!(tries < 20);
        }
    }
    // Those that were there first have gone.
    let mut piece = [0; 16];
    let ended = timeout(PATIENCE, silent[0].read(&mut piece)).await.expect("it is closed");
    assert!(matches!(ended, Ok(0) | Err(_)), "{ended:?}");
}

/// A server behind TLS, whose usual clients, which speak none, are not used.
async fn start(serving: Serving) -> SocketAddr {
    // The server's own set-up goes over its interface: in clear, on another port.
    let server = TestServer::start_with(Setup::default()).await;
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let state = tokamak::http::State::from(tokamak::http::Parts {
        vault: server.vault.clone(),
        stopping: tokamak::http::Stopping::default(),
        rates: tokamak::http::Rates::default(),
        scrapers: tokamak::http::Scrapers::default(),
    });
    tokio::spawn(async move {
        let _kept = server;
        tokamak::http::serve_with(listener, state, serving, std::future::pending()).await
    });
    address
}
