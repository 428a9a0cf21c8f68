//! A server whose log nobody reads, or not in time; and what callers can make of its lines.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::process::{ChildStderr, Stdio};
use std::time::{Duration, Instant};

use futures::StreamExt as _;
use reqwest::Method;
use tempfile::TempDir;

use crate::support::binary::{MANAGEMENT_KEY, Process, ROOT_KEY, command};

/// More lines than the pipe and the server hold, of some hundred bytes each.
const MANY: usize = 6_000;

/// A server whose standard error is a pipe.
fn serve(folder: &TempDir) -> (Process, ChildStderr) {
    let mut process = serve_with(folder, Stdio::piped());
    let log = process.take_stderr();
    (process, log)
}

fn serve_with(folder: &TempDir, log: Stdio) -> Process {
    let mut serve = command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--cache-mb", "32", "--data-dir"]);
    serve.arg(folder.path()).stderr(log);
    serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
    Process::start(serve)
}

/// Has it log more than there is room for.
async fn fill(process: &Process) {
    log_lines(process, MANY).await;
}

async fn log_lines(process: &Process, count: usize) {
    let url = format!("http://{}/tokens", process.address);
    let client = reqwest::Client::new();
    let ask = |_| client.get(&url).header("SVC-TRACE-ID", "t".repeat(128)).send();
    let asked = futures::stream::iter(0..count).map(ask).buffer_unordered(32);
    let refused = asked.filter(|answer| {
        let is_refused = answer.as_ref().is_ok_and(|answer| answer.status() == 401);
        std::future::ready(is_refused)
    });
    assert_eq!(refused.count().await, count);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_of_the_log_that_stops_holds_up_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (process, log) = serve(&folder);
    fill(&process).await;
    let lost = process.figure("tokamak_log_lines_lost_total").await;
    assert!(lost.is_some_and(|lost| lost > 0), "{lost:?}");
    process.management().get("/tenants/self").await.expect(200);
    assert_eq!(process.terminate(), Some(0));
    drop(log);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_reader_did_not_take_is_told_to_it_when_it_reads_again() {
    let folder = tempfile::tempdir().unwrap();
    let (process, log) = serve(&folder);
    fill(&process).await;
    let lost = process.figure("tokamak_log_lines_lost_total").await.unwrap();
    let reading = tokio::task::spawn_blocking(move || {
        let (mut lines, mut log) = (Vec::new(), BufReader::new(log).lines().map(Result::unwrap));
        while lines.last().is_none_or(|line: &String| !line.contains("log lines are lost")) {
            lines.push(log.next().expect("what is lost is told"));
        }
        (lines, log)
    });
    // Only once it has come so far there is room for what a server says as it stops.
    let (mut lines, log) = reading.await.unwrap();
    let told = lines.last().and_then(|line| line.rsplit('=').next()).unwrap();
    let told: u64 = told.parse().unwrap();
    let rest = tokio::task::spawn_blocking(move || log.collect::<Vec<_>>());
    assert_eq!(process.terminate(), Some(0));
    lines.extend(rest.await.unwrap());
    // And those that came after the figures were read, as that of the request for them.
    assert!((lost..lost + 10).contains(&told), "{lost} {told}");
    let answered = lines.iter().filter(|line| line.contains("answered status=401 ")).count();
    let all = answered as u64 + told;
    assert!((MANY as u64..MANY as u64 + 10).contains(&all), "{answered} {told}");
    assert!(lines.iter().rev().take(3).any(|line| line.ends_with("stopping")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_method_that_there_is_not_is_not_logged_as_it_was_sent() {
    let folder = tempfile::tempdir().unwrap();
    let (process, log) = serve(&folder);
    let method = Method::from_bytes("SECRET".repeat(1_000).as_bytes()).unwrap();
    let url = format!("http://{}/tokens", process.address);
    let answer = reqwest::Client::new().request(method, url).send().await.unwrap();
    assert_eq!(answer.status(), 405);
    assert_eq!(process.terminate(), Some(0));
    let lines: Vec<String> = BufReader::new(log).lines().map(Result::unwrap).collect();
    let answered = lines.iter().find(|line| line.contains("status=405")).unwrap();
    assert!(answered.contains(r#"method="_OTHER""#), "{answered}");
    assert!(!lines.concat().contains("SECRET"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_waits_for_a_reader_that_is_slow() {
    const COUNT: usize = 1_000;
    let folder = tempfile::tempdir().unwrap();
    let (process, mut log) = serve(&folder);
    log_lines(&process, COUNT).await;
    let reading = tokio::task::spawn_blocking(move || {
        let (mut text, mut piece) = (Vec::new(), [0; 4 << 10]);
        loop {
            std::thread::sleep(Duration::from_millis(20));
            match log.read(&mut piece).unwrap() {
                0 => return String::from_utf8(text).unwrap(),
                count => text.extend_from_slice(&piece[..count]),
            }
        }
    });
    assert_eq!(process.terminate(), Some(0));
    let text = reading.await.unwrap();
    assert_eq!(text.lines().filter(|line| line.contains("answered status=401 ")).count(), COUNT);
    assert!(text.lines().rev().take(3).any(|line| line.ends_with("stopping")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_starts_and_stops_where_nobody_reads_from_the_beginning() {
    let folder = tempfile::tempdir().unwrap();
    let (log, mut filled) = std::io::pipe().unwrap();
    // As much as a pipe holds.
    filled.write_all(&vec![b'\n'; 64 << 10]).unwrap();
    let process = serve_with(&folder, filled.into());
    process.management().get("/tenants/self").await.expect(200);
    assert_eq!(process.terminate(), Some(0));
    drop(log);
}

#[tokio::test(flavor = "multi_thread")]
async fn lines_that_a_full_disk_refuses_are_counted() {
    let folder = tempfile::tempdir().unwrap();
    let process = serve_with(&folder, File::create("/dev/full").unwrap().into());
    log_lines(&process, 10).await;
    let mut lost = 0;
    let began = Instant::now();
    while lost < 10 {
        lost = process.figure("tokamak_log_lines_lost_total").await.unwrap();
        assert!(began.elapsed() < Duration::from_mins(1), "{lost}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    assert_eq!(process.terminate(), Some(0));
}
