//! What is measured: a server that is started for the purpose, or named, and the yardstick beside it.

use std::io::{BufRead as _, BufReader, Read as _};
use std::net::{SocketAddr, ToSocketAddrs as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use bytes::Bytes;
use http::{Method, Request, header};
use http_body_util::{BodyExt as _, Full};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::{TcpListener, TcpStream};

use super::usage::{Footprint, Usage};
use crate::cli::{Failure, open, say};
use crate::crypto::api_key::ApiKey;
use crate::crypto::entropy::SystemEntropy;
use crate::crypto::keys::RootKey;
use crate::http::{serve_plain, yardstick};
use crate::model::permission::ApplicationType;

/// How often a server must have been seen without a process of its own until it is at rest.
const ALONE_TIMES: u32 = 4;
const SETTLING_PAUSE: Duration = Duration::from_millis(250);
/// How long that is waited for, at most.
const SETTLING_MAX: Duration = Duration::from_mins(2);

/// How the names of variables begin that are options.
const OPTIONS: &str = "TOKAMAK_";

/// A server, and its management key.
pub struct Target {
    /// Where it listens.
    pub address: SocketAddr,
    key: String,
    own: Option<Own>,
}

/// A server of our own, with its folder.
struct Own {
    process: Child,
    folder: PathBuf,
}

impl Drop for Own {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

impl Target {
    /// The server at this address, or one that is started on an empty folder beside other temporary files.
    pub async fn find(address: Option<&str>) -> Result<Self, Failure> {
        let Some(url) = address else {
            return Self::start().await;
        };
        let plain = url.strip_prefix("http://").ok_or("--address must begin with http://")?;
        let name = plain.trim_end_matches('/');
        let address = name.to_socket_addrs()?.next().ok_or("--address has no address")?;
        let key = tokio::task::spawn_blocking(|| {
            let mut key = String::new();
            std::io::stdin().lock().take(1_024).read_to_string(&mut key).map(|_| key)
        });
        let key = key.await??;
        Ok(Self { address, key: key.trim().to_owned(), own: None })
    }

    async fn start() -> Result<Self, Failure> {
        let entropy = SystemEntropy::new()?;
        let key = ApiKey::draw(ApplicationType::Management.key_tag(), &entropy);
        let folder = std::env::temp_dir().join(format!("tokamak-{}", std::process::id()));
        open::make_folder(&folder)?;
        let mut command = own_command()?;
        command
            .args(["serve", "--listen", "127.0.0.1:0", "--log", "warn", "--log-format", "text"])
            .args(["--allow-private-networks", "--allow-http-callbacks"])
            .args(["--reactor-slots-per-tenant", "0", "--reactor-jobs-per-tenant", "0"])
            .arg("--data-dir")
            .arg(&folder)
            .env("TOKAMAK_ROOT_KEY", RootKey::draw(&entropy).to_base64().as_str())
            .env("TOKAMAK_BOOTSTRAP_KEY", key.expose())
            .stdout(Stdio::piped());
        // Ended with this, however far it has come by then.
        let mut own = Own { process: command.spawn()?, folder };
        let output = own.process.stdout.take();
        let address = tokio::task::spawn_blocking(|| listening(output)).await??;
        Ok(Self { address, key: key.expose().to_owned(), own: Some(own) })
    }

    /// A request with the management key; gives the answer's JSON.
    pub async fn manage(
        &self,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<Value, Failure> {
        let bytes = body.map(|body| Bytes::from(body.to_string())).unwrap_or_default();
        let answer = self.send(method, path, bytes).await?;
        Ok(serde_json::from_slice(&answer)?)
    }

    async fn send(&self, method: Method, path: &str, body: Bytes) -> Result<Bytes, Failure> {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, self.address.to_string())
            .header(header::CONTENT_TYPE, "application/json")
            .header("SVC-API-KEY", &self.key)
            .body(Full::new(body))?;
        self.answer(request).await
    }

    /// What the server answers to a request, whoever's key is in it.
    pub async fn answer(&self, request: Request<Full<Bytes>>) -> Result<Bytes, Failure> {
        let (method, path) = (request.method().clone(), request.uri().clone());
        let stream = TcpStream::connect(self.address).await;
        let stream =
            stream.map_err(|error| format!("{} cannot be reached: {error}", self.address))?;
        let (mut sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        let answer = sender.send_request(request).await?;
        let status = answer.status();
        let bytes = answer.into_body().collect().await?.to_bytes();
        if !status.is_success() {
            let text = String::from_utf8_lossy(&bytes);
            return Err(format!("{method} {path} was answered {status}: {text}").into());
        }
        Ok(bytes)
    }

    /// What the server has used so far, if it shows its figures to this address.
    pub async fn usage(&self) -> Usage {
        let text = self.send(Method::GET, "/metrics", Bytes::new()).await.unwrap_or_default();
        Usage::read(&String::from_utf8_lossy(&text))
    }

    /// Waits until a server of our own has compiled what it compiles when it starts, each in a process of its own: that
    /// is no part of what is measured.
    pub async fn settle(&self) {
        let Some(own) = &self.own else { return };
        let began = Instant::now();
        let mut alone = 0;
        while alone < ALONE_TIMES && began.elapsed() < SETTLING_MAX {
            tokio::time::sleep(SETTLING_PAUSE).await;
            alone = if has_children(own.process.id()) { 0 } else { alone + 1 };
        }
    }

    /// Memory, and disk if it is a server of our own.
    pub async fn footprint(&self) -> Footprint {
        let Usage { resident_bytes, .. } = self.usage().await;
        let folder = self.own.as_ref().map(|own| own.folder.join("store"));
        Footprint { resident_bytes, disk_bytes: folder.map(|folder| bytes_below(&folder)) }
    }

    /// Ends a server of our own.
    pub async fn stop(self) -> Result<(), Failure> {
        Ok(tokio::task::spawn_blocking(move || drop(self.own)).await?)
    }
}

/// This program, without what the shell has set for a server of its own: it would change what is measured, or keep it from
/// being measured at all.
fn own_command() -> Result<Command, Failure> {
    let mut command = Command::new(open::own_program()?);
    #[expect(
        clippy::disallowed_methods,
        reason = "nothing is read: names of options are taken away"
    )]
    let given = std::env::vars_os();
    for (name, _) in given {
        if name.as_encoded_bytes().starts_with(OPTIONS.as_bytes()) {
            command.env_remove(name);
        }
    }
    Ok(command)
}

/// Where a process that was just started says that it listens.
fn listening(output: Option<ChildStdout>) -> Result<SocketAddr, Failure> {
    let mut lines = BufReader::new(output.ok_or("the server has no output")?).lines();
    let address = loop {
        let line = lines.next().ok_or("the server ended before it listened")??;
        if let Some((_, address)) = line.split_once("http://") {
            break address.parse()?;
        }
    };
    // What it prints later is read, so that it never waits for it.
    std::thread::spawn(move || lines.for_each(drop));
    Ok(address)
}

/// The yardstick, in a process of its own: what goes from one process to another costs it as much as the server.
pub struct Yardstick {
    /// Where it listens.
    pub address: SocketAddr,
    process: Child,
}

impl Yardstick {
    /// Starts it.
    pub fn start() -> Result<Self, Failure> {
        let mut command = own_command()?;
        command.args(["benchmark", "--yardstick"]).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut process = command.spawn()?;
        let output = process.stdout.take();
        Ok(Self { address: listening(output)?, process })
    }
}

impl Drop for Yardstick {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Serves as the yardstick until standard input ends, with whoever started it.
pub async fn be_the_yardstick() -> Result<(), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    say(format_args!("http://{}", listener.local_addr()?));
    let serving = tokio::spawn(serve_plain(listener, yardstick()));
    let left = || std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
    tokio::task::spawn_blocking(left).await??;
    serving.abort();
    Ok(())
}

/// Whether a process has others, as far as the system tells.
fn has_children(process: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{process}/task"));
    threads.into_iter().flatten().flatten().any(|thread| {
        let children = std::fs::read_to_string(thread.path().join("children"));
        children.is_ok_and(|children| !children.trim().is_empty())
    })
}

fn bytes_below(folder: &Path) -> u64 {
    let mut bytes = 0;
    let mut open = vec![folder.to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
            match entry.metadata() {
                Ok(metadata) if metadata.is_dir() => open.push(entry.path()),
                Ok(metadata) => bytes += metadata.len(),
                Err(_) => {}
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::has_children;

    #[test]
    #[cfg(target_os = "linux")]
    fn a_process_that_was_started_is_seen() {
        if !std::path::Path::new("/proc/thread-self/children").exists() {
            // A kernel that does not tell.
            return;
        }
        let mut shell = Command::new("sh");
        shell.args(["-c", "cat; true"]).stdin(Stdio::piped());
        let mut shell = shell.spawn().unwrap();
        let began = std::time::Instant::now();
        while !has_children(shell.id()) && began.elapsed().as_secs() < 30 {
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        assert!(has_children(shell.id()));
        drop(shell.stdin.take());
        shell.wait().unwrap();
        assert!(!has_children(shell.id()));
    }
}
