//! What is refused before it is read has a trace id all the same.

use std::fs::{self, File};
use std::process::Command;
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::support::binary::{MANAGEMENT_KEY, Process, ROOT_KEY, command, eventually};

/// How long anything may take on a busy machine.
const PATIENCE: Duration = Duration::from_mins(2);
const GO_ON: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A connection whose request is waited for in the middle of its body; none if there was no place for it.
async fn busy(process: &Process) -> Option<TcpStream> {
    let head = format!(
        "POST /applications HTTP/1.1\r\nHost: a\r\nSVC-API-KEY: {MANAGEMENT_KEY}\r\n\
         Content-Type: application/json\r\nContent-Length: 27\r\nExpect: 100-continue\r\n\r\n"
    );
    let mut connection = TcpStream::connect(process.address).await.unwrap();
    connection.write_all(head.as_bytes()).await.ok()?;
    let mut go_on = [0; GO_ON.len()];
    timeout(PATIENCE, connection.read_exact(&mut go_on)).await.unwrap().ok()?;
    (go_on == GO_ON).then_some(connection)
}

/// All that a client is told that asks for something.
async fn told(process: &Process) -> String {
    let mut connection = TcpStream::connect(process.address).await.unwrap();
    let request = "GET /healthz HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let _ = connection.write_all(request.as_bytes()).await;
    let mut answer = String::new();
    let _ = timeout(PATIENCE, connection.read_to_string(&mut answer)).await.unwrap();
    answer
}

#[tokio::test(flavor = "multi_thread")]
async fn who_finds_no_place_is_told_a_trace_id_that_the_log_names() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut serve = command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--cache-mb", "32", "--connections-max", "2"]);
    serve.args(["--log", "warn", "--log-format", "json", "--data-dir"]);
    serve.arg(folder.path().join("data"));
    serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
    serve.stderr(File::create(&log).unwrap());
    let process = Process::start(serve);
    // A busy machine may keep a body from coming until it is given up: then the place is taken anew.
    let refused = timeout(PATIENCE, async {
        loop {
            let taken = (busy(&process).await, busy(&process).await);
            let answer = told(&process).await;
            drop(taken);
            if answer.starts_with("HTTP/1.1 503 ") {
                break answer;
            }
            // One that was refused without being asked takes the log's line of this second.
            tokio::time::sleep(Duration::from_secs(1)).await;
        }
    });
    let refused = refused.await.expect("a connection too many is refused");
    let (head, body) = refused.split_once("\r\n\r\n").unwrap();
    let problem: Value = serde_json::from_str(body).unwrap();
    let trace_id = problem["trace_id"].as_str().unwrap();
    assert!(head.contains(&format!("\r\nsvc-trace-id: {trace_id}\r\n")), "{head}");
    // What writes lines does so beside the answers.
    let line = eventually("the line of the refusal", || {
        let log = fs::read_to_string(&log).unwrap();
        let mut lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
        lines.find(|line| line["trace_id"] == trace_id)
    });
    let line = line.await;
    process.kill();
    assert_eq!(line["level"], "WARN");
}

#[cfg(target_os = "linux")]
#[tokio::test(flavor = "multi_thread")]
async fn the_log_tells_that_there_are_no_files_left_and_goes_on_once_there_are() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut serve = command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--cache-mb", "32", "--log", "warn"]);
    serve.arg("--data-dir").arg(folder.path().join("data"));
    serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).stderr(File::create(&log).unwrap());
    let process = Process::start(serve);
    let limit = |files: &str| {
        let mut limit = Command::new("prlimit");
        limit.arg(format!("--pid={}", process.id())).arg(format!("--nofile={files}:"));
        assert!(limit.status().unwrap().success());
    };
    limit("3");
    let waiting = TcpStream::connect(process.address).await.unwrap();
    let is_told = timeout(PATIENCE, async {
        while !fs::read_to_string(&log).unwrap().contains("no connection can be accepted") {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
    is_told.await.expect("the log tells of it");
    limit("200");
    assert!(told(&process).await.starts_with("HTTP/1.1 200 "));
    drop(waiting);
    let log = fs::read_to_string(&log).unwrap();
    assert_eq!(log.matches("no connection can be accepted").count(), 1, "{log}");
}
