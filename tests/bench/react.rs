//! `POST /reactors/{id}/react` as a client sees it, beside `wasmtime serve` with a component that does nothing.
//!
//! Each of our answers takes authentication, three tokens found, decided on and opened, casts, a fresh instance, and a
//! durable commit of the invocation with its log entries. The peer's takes a fresh instance. Both are processes of their
//! own under the same load from the same generator, in turns, so that whatever else the machine does meets both; look at
//! the ratio.
//!
//! `BENCH_WASMTIME=/path/to/wasmtime cargo bench --bench react -- 64 5` does so with 64 connections for turns of 5
//! seconds. Without the variable there is no peer, and the output says so.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::disallowed_methods,
    dead_code,
    missing_docs,
    reason = "a benchmark fails by panicking, prints what it found, and uses a part of what the tests share"
)]

#[path = "../it/support/binary.rs"]
mod binary;
#[path = "../../host/build/guests.rs"]
mod build;
#[path = "../it/support/client.rs"]
mod client;
#[path = "support/load.rs"]
mod load;

use std::fs;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;

use crate::binary::{MANAGEMENT_KEY, Process, ROOT_KEY, command, compiling};
use crate::client::Client;
use crate::load::{Load, Turn};

const CONNECTIONS_DEFAULT: usize = 64;
const SECONDS_DEFAULT: u64 = 5;
/// Turns of each server. An odd number has a middle.
const TURNS: usize = 5;
/// Times in a row that no compiler is seen, at ten looks a second.
const QUIET_LOOKS: usize = 10;
/// Longest wait for the peer to listen.
const PATIENCE: Duration = Duration::from_mins(1);

/// Builds packages of `tests/guests`; gives their folder.
fn guests() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("tests/guests");
    let target_dir = build::shared_target_dir(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let packages = ["bare".to_owned(), "idle".to_owned()];
    let project = build::Project { root: &root, packages: &packages, target_dir: &target_dir };
    project.build().unwrap()
}

fn serve(folder: &Path) -> Process {
    let mut serve = command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--log", "warn", "--data-dir"]).arg(folder);
    serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
    Process::start(serve)
}

/// The load of our server: a reactor that declares what it takes, and three tokens of which two are cast.
async fn ours(process: &Process, component: Vec<u8>) -> Load {
    let management = process.management();
    let make = async |path: &str, body| management.post(path, body).await.expect(201);
    let formula = json!({
        "name": "bare", "component": STANDARD.encode(component), "undeclared_arguments": "drop",
        "request_parameters": [{"name": "number", "type": "string"},
            {"name": "month", "type": "number"}, {"name": "year", "type": "number"}],
    });
    let formula = make("/reactor-formulas", formula).await;
    let reactor = json!({"name": "r", "formula": {"id": formula["id"]}, "configuration": {}});
    let reactor = make("/reactors", reactor).await;
    let private = json!({"name": "p", "type": "private",
        "permissions": ["token:create", "token:use"]});
    let private = make("/applications", private).await;
    let key = private["key"].as_str().unwrap().to_owned();
    let caller = Client::new(process.address, Some(&key));
    let mut references = Vec::new();
    for data in ["4242424242424242", "12", "2030"] {
        references.push(format!("{{{{ {} }}}}", caller.token("token", json!(data)).await));
    }
    let [number, month, year] = references.try_into().unwrap();
    let body = json!({"args": {"number": number, "month": month, "year": year}});
    let path = format!("/reactors/{}/react", reactor["id"].as_str().unwrap());
    let answer = caller.post(&path, body.clone()).await.expect(200);
    assert_eq!(answer["raw"], json!({"number": "4242424242424242", "month": 12, "year": 2030}));
    Load::post(process.address, &path, &[("SVC-API-KEY", &key)], &body.to_string())
}

/// The peer, as long as it is held.
struct Peer {
    child: Child,
    address: SocketAddr,
}

impl Peer {
    fn start(wasmtime: &str, component: &Path) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = free.local_addr().unwrap();
        drop(free);
        let mut serve = Command::new(wasmtime);
        serve.arg("serve").args(["--addr", &address.to_string()]).arg(component);
        let child = serve.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        let mut peer = Self { child, address };
        for _ in 0..PATIENCE.as_millis() / 50 {
            assert!(peer.child.try_wait().unwrap().is_none(), "the peer ended");
            if TcpStream::connect(address).is_ok() {
                return peer;
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        panic!("the peer does not listen");
    }

    /// The same body to a path of the same length: what a server does with them is its own affair.
    fn load(&self, ours: &Load) -> Load {
        ours.elsewhere(self.address)
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Waits until the server has compiled what ships with it, which it does in the background of a first start.
fn settle(process: &Process) {
    let mut idle = 0;
    while idle < QUIET_LOOKS {
        std::thread::sleep(Duration::from_millis(100));
        idle = if compiling(process.id(), "").is_empty() { idle + 1 } else { 0 };
    }
}

/// The turn of the median rate.
fn middle(mut turns: Vec<Turn>) -> Turn {
    turns.sort_by(|a, b| a.per_second.total_cmp(&b.per_second));
    turns.swap_remove(TURNS / 2)
}

fn print(name: &str, turn: &Turn) {
    let Turn { per_second, p50, p99 } = turn;
    println!("{name:<16} {per_second:>9.0} /s   p50 {p50:>8.3} ms   p99 {p99:>8.3} ms");
}

fn main() {
    let mut numbers = std::env::args().skip(1).filter_map(|word| word.parse::<u64>().ok());
    let connections = numbers.next().map_or(CONNECTIONS_DEFAULT, |n| usize::try_from(n).unwrap());
    let time = Duration::from_secs(numbers.next().unwrap_or(SECONDS_DEFAULT));
    let guests = guests();
    let component = |name: &str| guests.join(build::component_file(name));
    let threads = tokio::runtime::Runtime::new().unwrap();
    let folder = tempfile::tempdir().unwrap();
    let process = serve(folder.path());
    let own = threads.block_on(ours(&process, fs::read(component("bare")).unwrap()));
    let wasmtime = std::env::var("BENCH_WASMTIME").ok();
    let peer = wasmtime.map(|wasmtime| Peer::start(&wasmtime, &component("idle")));
    let peer_load = peer.as_ref().map(|peer| peer.load(&own));

    settle(&process);
    let run = |load: &Load, time| threads.block_on(load.run(connections, time));
    for load in std::iter::once(&own).chain(&peer_load) {
        run(load, Duration::from_secs(1));
    }
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for _ in 0..TURNS {
        ours.push(run(&own, time));
        theirs.extend(peer_load.as_ref().map(|load| run(load, time)));
    }
    println!("{connections} connections, {TURNS} turns of {time:?} each; the median turn:");
    let ours = middle(ours);
    print("react", &ours);
    if theirs.is_empty() {
        println!("wasmtime serve   skipped: BENCH_WASMTIME does not name it");
    } else {
        let theirs = middle(theirs);
        print("wasmtime serve", &theirs);
        println!("{:<16} {:>9.2}", "ratio", ours.per_second / theirs.per_second);
    }
}
