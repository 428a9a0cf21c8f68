//! The real binary, for what only a process can show: starts, stops, crashes.

use std::io::{BufRead as _, BufReader};
use std::net::SocketAddr;
use std::path::Path;
use std::process::{Child, ChildStderr, Command, Output, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::Duration;

use serde_json::json;

use super::Client;

/// 32 bytes in base64.
pub const ROOT_KEY: &str = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=";
/// The key that the first management application gets.
pub const MANAGEMENT_KEY: &str = "key_mgt_0123456789abcdefghijABCDEFGHIJ01";

/// A line is waited for in steps, a minute in all: a process that was stopped meanwhile counts one step for it.
const STEP: Duration = Duration::from_millis(100);
const STEPS_MAX: u32 = 600;

/// Signals by which a person ends a command. Not an interrupt where it is ignored, as a shell has it ignored by what runs
/// in the background: commands leave that so.
pub fn ending_signals() -> Vec<&'static str> {
    const INTERRUPT: u64 = 1 << 1;
    if is_ignored(INTERRUPT) { vec!["-TERM"] } else { vec!["-TERM", "-INT"] }
}

/// Whether this process was started to ignore the signal of this bit, and so starts all others.
pub fn is_ignored(bit: u64) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
    u64::from_str_radix(ignored.trim(), 16).unwrap() & bit != 0
}

/// A command of the binary with nothing of the environment that could be an option.
pub fn command() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tokamak"));
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TOKAMAK_")) {
        command.env_remove(name);
    }
    command
}

/// What a command gives: exit code, output, errors.
pub fn run(mut command: Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// What a command about the data of a stopped server gives.
pub fn about(folder: &Path, words: &[&str]) -> (i32, String, String) {
    let mut about = command();
    about.args(words).arg("--data-dir").arg(folder).env("TOKAMAK_ROOT_KEY", ROOT_KEY);
    run(about)
}

/// Asserts that `tokamak verify` finds nothing; gives what it looked at.
pub fn assert_sound(folder: &Path) -> serde_json::Value {
    let (code, out, err) = about(folder, &["verify", "--json"]);
    assert_eq!(code, 0, "{out}{err}");
    let told: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(told["sound"], true, "{told}");
    told["looked_at"].clone()
}

/// A server process.
pub struct Process {
    child: Child,
    /// Where it listens.
    pub address: SocketAddr,
    /// What it printed before it listened, and what was read since.
    pub printed: Vec<String>,
    lines: Receiver<String>,
}

impl Process {
    /// `tokamak serve` on a folder.
    pub fn serve(folder: &Path) -> Self {
        let mut serve = command();
        serve.args(["serve", "--listen", "127.0.0.1:0", "--cache-mb", "32", "--log", "warn"]);
        serve.arg("--data-dir").arg(folder);
        serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
        Self::start(serve)
    }

    /// Starts a server and waits until it says where it listens.
    pub fn start(command: Command) -> Self {
        Self::try_start(command).unwrap_or_else(|| panic!("the server ended before it listened"))
    }

    /// The same; `None` if it ends before it listens.
    pub fn try_start(mut command: Command) -> Option<Self> {
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let (printing, lines) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        // Read on a thread of its own to the end, so that the server never waits for its reader.
        std::thread::spawn(move || {
            for line in output.lines().map_while(Result::ok) {
                let _ = printing.send(line);
            }
        });
        let address = ([0, 0, 0, 0], 0).into();
        let mut process = Self { child, address, printed: Vec::new(), lines };
        let line = process.next_with("://")?;
        let address = line.split("://").nth(1).map(|rest| rest.split('/').next().unwrap_or(rest));
        let address = address.and_then(|address| address.trim().parse().ok());
        process.address = address.unwrap_or_else(|| panic!("no address in {line}"));
        Some(process)
    }

    /// Reads on until a line holds this text; gives the line.
    pub fn read_until(&mut self, text: &str) -> String {
        self.next_with(text).unwrap_or_else(|| panic!("no {text:?} in {:?}", self.printed))
    }

    fn next_with(&mut self, text: &str) -> Option<String> {
        let mut steps = 0;
        while steps < STEPS_MAX {
            match self.lines.recv_timeout(STEP) {
                Ok(line) => {
                    self.printed.push(line.clone());
                    if line.contains(text) {
                        return Some(line);
                    }
                }
                Err(RecvTimeoutError::Timeout) => steps += 1,
                Err(RecvTimeoutError::Disconnected) => return None,
            }
        }
        None
    }

    /// A client of the first management application.
    pub fn management(&self) -> Client {
        Client::new(self.address, Some(MANAGEMENT_KEY))
    }

    /// One of the figures that `GET /metrics` gives; `None` if it is not among them.
    pub async fn figure(&self, name: &str) -> Option<u64> {
        let answer = Client::new(self.address, None).get("/metrics").await;
        assert_eq!(answer.status, 200, "{}", answer.text());
        let text = answer.text();
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map(|value| value.parse().unwrap())
    }

    /// The id of the process.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// What it writes to standard error, which was started as a pipe.
    pub fn take_stderr(&mut self) -> ChildStderr {
        self.child.stderr.take().unwrap()
    }

    /// `kill -9`.
    pub fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// SIGTERM; gives the exit code.
    pub fn terminate(self) -> Option<i32> {
        self.signal();
        self.wait()
    }

    /// SIGTERM, without waiting for what comes of it.
    pub fn signal(&self) {
        let id = self.child.id().to_string();
        assert!(Command::new("kill").arg(&id).status().unwrap().success());
    }

    /// Waits for the end; gives the exit code.
    pub fn wait(mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Who may run a new reactor of a formula, and its path.
pub async fn reactor_of(process: &Process, formula: &str) -> (Client, String) {
    let management = process.management();
    let body = json!({"name": "r", "formula": {"id": formula}, "configuration": {}});
    let reactor = management.post("/reactors", body).await.expect(201);
    let body = json!({"name": "p", "type": "private", "permissions": ["token:use"]});
    let made = management.post("/applications", body).await.expect(201);
    let private = Client::new(process.address, made["key"].as_str());
    (private, format!("/reactors/{}/react", reactor["id"].as_str().unwrap()))
}

/// Processes that this one started and that have not ended, with their arguments.
pub fn children(parent: u32) -> Vec<(u32, String)> {
    let ids = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        entry.unwrap().file_name().to_str().and_then(|name| name.parse::<u32>().ok())
    });
    let read = |id: u32, file: &str| std::fs::read_to_string(format!("/proc/{id}/{file}"));
    let child = |id: u32| {
        let status = read(id, "status").unwrap_or_default();
        let arguments = read(id, "cmdline").unwrap_or_default().replace('\0', " ");
        let is_one = status.lines().any(|line| line == format!("PPid:\t{parent}"));
        is_one.then_some((id, arguments))
    };
    ids.filter_map(child).collect()
}

/// Processes that compile a component for this one, with these words among their arguments.
pub fn compiling(parent: u32, words: &str) -> Vec<u32> {
    let children = children(parent).into_iter();
    let compiling = children
        .filter(|(_, arguments)| arguments.contains("compile-component"))
        .filter(|(_, arguments)| arguments.contains(words));
    compiling.map(|(id, _)| id).collect()
}

/// Waits until something is there; gives it. What never comes fails the test.
pub async fn eventually<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    for _ in 0..1_200 {
        if let Some(found) = look() {
            return found;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("within a minute: no {what}");
}
