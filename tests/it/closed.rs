//! The process that holds keys is closed to others of its user, and leaves no image of its memory.
//!
//! Where the tests run as root, the server runs as nobody: root may look at everything.

use std::os::unix::fs::{MetadataExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, Command};

use crate::support::binary::{
    MANAGEMENT_KEY, Process, ROOT_KEY, children, command, compiling, eventually,
};
use crate::support::guests;

const NOBODY: u32 = 65_534;

fn root() -> bool {
    std::fs::metadata("/proc/self").unwrap().uid() == 0
}

/// The command as a user without any right, who owns the folder.
fn unprivileged(mut command: Command, folder: &Path) -> Command {
    if root() {
        chown(folder, Some(NOBODY), Some(NOBODY)).unwrap();
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

fn owner(id: u32, file: &str) -> u32 {
    std::fs::metadata(format!("/proc/{id}/{file}")).unwrap().uid()
}

/// Reads a file of a process as its own user.
fn read(id: u32, file: &str) -> bool {
    let mut cat = Command::new("cat");
    if root() {
        cat.uid(NOBODY).gid(NOBODY);
    }
    cat.arg(format!("/proc/{id}/{file}")).output().unwrap().status.success()
}

/// Whether nobody but root looks into a process.
fn closed(id: u32) {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let user = status.lines().find_map(|line| line.strip_prefix("Uid:\t")).unwrap();
    assert!(!user.starts_with("0\t"), "{user}");
    for file in ["environ", "maps", "mem"] {
        assert_eq!(owner(id, file), 0, "{file}");
    }
    for file in ["environ", "maps"] {
        assert!(!read(id, file), "{file}");
    }
    let limits = std::fs::read_to_string(format!("/proc/{id}/limits")).unwrap();
    let core = limits.lines().find(|line| line.starts_with("Max core file size")).unwrap();
    assert_eq!(core.split_whitespace().skip(4).take(2).collect::<Vec<_>>(), ["0", "0"]);
}

#[test]
fn the_test_can_tell() {
    let folder = tempfile::tempdir().unwrap();
    let mut sleep = Command::new("sleep");
    sleep.arg("60");
    let mut open = unprivileged(sleep, folder.path()).spawn().unwrap();
    let seen = (owner(open.id(), "environ"), read(open.id(), "environ"));
    open.kill().unwrap();
    open.wait().unwrap();
    assert!(seen.0 != 0 && seen.1, "{seen:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_is_closed_and_still_compiles() {
    let folder = tempfile::tempdir().unwrap();
    let mut serve = command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--log", "warn"]);
    serve.arg("--data-dir").arg(folder.path().join("data"));
    serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
    let process = Process::start(unprivileged(serve, folder.path()));
    closed(process.id());
    // What compiles for it is the same program, of the same user.
    let child = || compiling(process.id(), "").pop();
    eventually("process that compiles what ships", child).await;
    guests::send(&process.management(), "bare", serde_json::json!({})).await;
    assert_eq!(process.terminate(), Some(0));
}

#[test]
fn so_is_a_server_for_development() {
    let folder = tempfile::tempdir().unwrap();
    let mut dev = command();
    dev.args(["dev", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder.path().join("data"));
    let process = Process::start(unprivileged(dev, folder.path()));
    closed(process.id());
}

/// Commands that open what is stored with the root key are closed before they have it.
#[tokio::test]
async fn so_are_commands_that_get_the_root_key() {
    struct Ended(Child);
    impl Drop for Ended {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let from = folder.path().join("backup");
    let from = from.to_str().unwrap();
    let table: [&[&str]; 4] =
        [&["verify"], &["restore", "--from", from], &["tenant", "list"], &["keys", "status"]];
    // It is not asked for a key where there is no store.
    let store = folder.path().join("data/store");
    std::fs::create_dir_all(&store).unwrap();
    std::fs::write(store.join("journal"), "").unwrap();
    for words in table {
        let mut waiting = command();
        // It waits for its key until it was looked at.
        waiting.args(words).args(["--root-key-command", "sleep 20", "--data-dir"]);
        waiting.arg(folder.path().join("data"));
        let waiting = Ended(unprivileged(waiting, folder.path()).spawn().unwrap());
        let id = waiting.0.id();
        let asked = || children(id).into_iter().find(|(_, arguments)| arguments.contains("sleep"));
        eventually("program that is asked for the key", asked).await;
        closed(id);
    }
}

/// A number that the kernel tells of a process.
fn told(id: u32, name: &str) -> Option<u32> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).unwrap();
    let value = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(":\t"));
    value.and_then(|value| value.parse().ok())
}

#[tokio::test]
async fn what_compiles_is_shut_in() {
    let mut child = command()
        .args(["compile-component", "--memory-mb", "512", "--cpu-seconds", "5"])
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .spawn()
        .unwrap();
    // It waits for the component.
    let filters = |id: u32| told(id, "Seccomp_filters");
    if let Some(own) = filters(std::process::id()) {
        let is_shut =
            || filters(child.id()) == Some(own + 2) && told(child.id(), "NoNewPrivs") == Some(1);
        eventually("process that is shut in", || is_shut().then_some(())).await;
    }
    drop(child.stdin.take());
    assert!(!child.wait().unwrap().success());
}
