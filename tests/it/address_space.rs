//! A server with too little address space for a sandbox: its operator's to mend, and nobody else's fault.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::binary::{MANAGEMENT_KEY, Process, ROOT_KEY, command, compiling, reactor_of};
use crate::support::{Client, guests};

/// In KiB: enough for the server, less than the memory of one sandbox reserves, which is above 4 GiB, and less than what
/// compiles may take.
const ADDRESS_SPACE: &str = "1900000";

/// A server on `data` in the folder that has no more, and what it says in `log` there.
fn serve_in_little(folder: &Path) -> Process {
    let mut serve = Command::new("sh");
    serve.arg("-c").arg(format!("ulimit -v {ADDRESS_SPACE} && exec \"$0\" \"$@\""));
    serve.arg(env!("CARGO_BIN_EXE_tokamak"));
    for (name, _) in command().get_envs() {
        serve.env_remove(name);
    }
    serve.args(["serve", "--listen", "127.0.0.1:0", "--cache-mb", "32", "--log", "warn"]);
    serve.arg("--data-dir").arg(folder.join("data"));
    serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
    // A machine of many processors is not to use up the space by setting some aside for each.
    serve.env("MALLOC_ARENA_MAX", "2");
    serve.stderr(File::create(folder.join("log")).unwrap());
    Process::start(serve)
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_system_without_memory_refuses_is_blamed_on_no_formula() {
    let folder = tempfile::tempdir().unwrap();
    let process = serve_in_little(folder.path());
    let management = process.management();

    let formula = guests::send(&management, "bare", json!({})).await;
    let (private, path) = reactor_of(&process, &formula).await;
    let answer = private.post(&path, json!({"args": {"a": 1}})).await;
    let problem = answer.expect(503);
    assert_eq!(problem["detail"], "The server has no memory left for the formula.");
    assert!(answer.headers.contains_key("retry-after"));

    let script = json!({"name": "s", "code": "module.exports = () => ({raw: 1});"});
    let problem = management.post("/reactor-formulas", script).await.expect(503);
    assert_eq!(problem["detail"], "The server has no memory left for the formula.");

    assert_eq!(process.terminate(), Some(0));
    let log = fs::read_to_string(folder.path().join("log")).unwrap();
    let told = log.lines().filter(|line| line.contains("gives no memory for a sandbox"));
    let told: Vec<&str> = told.collect();
    assert_eq!(told.len(), 2, "{log}");
    assert!(told.iter().all(|line| line.contains("mmap") && line.contains("ulimit -v")), "{log}");
}

/// Waits until a server has compiled and loaded all that it has at its start.
async fn settled(process: &Process) {
    let mut quiet = 0;
    while quiet < 20 {
        tokio::time::sleep(Duration::from_millis(100)).await;
        quiet = if compiling(process.id(), "").is_empty() { quiet + 1 } else { 0 };
    }
}

/// Leaves a process no more address space than it has, but for a little.
fn hold_down(process: &Process) {
    const LEFT_KIB: u64 = 128;
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let taken = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    let taken: u64 = taken.trim().trim_end_matches(" kB").parse().unwrap();
    let mut limit = Command::new("prlimit");
    limit.arg(format!("--pid={}", process.id()));
    limit.arg(format!("--as={}", (taken + LEFT_KIB) << 10));
    assert!(limit.status().unwrap().success());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_run_whose_formula_gets_no_memory_ends_after_so_many_tries() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(&folder.path().join("data"));
    let formula = guests::send(&process.management(), "bare", json!({})).await;
    let (_, other) = reactor_of(&process, &formula).await;
    let (private, path) = reactor_of(&process, &formula).await;
    private.post(&path, json!({"args": {"a": 1}})).await.expect(200);
    settled(&process).await;
    assert_eq!(process.terminate(), Some(0));

    // What was compiled lies on the disk, and is not loaded yet.
    let mut serve = command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--cache-mb", "32", "--log", "off"]);
    serve.args(["--allow-http-callbacks", "--allow-private-networks"]);
    serve.arg("--data-dir").arg(folder.path().join("data"));
    serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY);
    let process = Process::start(serve);
    let private = Client::new(process.address, private.key.as_deref());
    settled(&process).await;
    hold_down(&process);
    let queue = async |path: &str| {
        let body = json!({"args": {"a": 1}, "callback_url": "http://127.0.0.1:9/hook"});
        let queued = private.post(path, body).await;
        queued.expect(202);
        queued.headers["location"].to_str().unwrap().to_owned()
    };
    let place = queue(&path).await;
    // Once it is known that its reactor cannot be run now, another one of it waits with it, and fails no tries.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let waits = queue(&path).await;
    let began = Instant::now();
    for place in [place, queue(&other).await] {
        let result = loop {
            let result = private.get(&place).await.expect(200);
            if result["status"] != "queued" {
                break result;
            }
            assert!(began.elapsed() < Duration::from_mins(2), "{result}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        };
        assert_eq!(result["status"], "failed", "{result}");
        assert_eq!(result["error"]["detail"], "The server has no memory left for the formula.");
        assert_eq!(result.get("started_at"), None);
    }
    assert_eq!(private.get(&waits).await.expect(200)["status"], "queued");
    // Once for each that ended, whatever it failed in on the way there.
    assert_eq!(process.figure("tokamak_faults_total").await, Some(2));
}
