//! The serving process, confined by the kernel to its own files. Where the kernel cannot, the test says so.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::json;

use crate::support::binary::{
    MANAGEMENT_KEY, Process, ROOT_KEY, about, assert_sound, command, eventually,
};
use crate::support::guests;
use crate::support::pem::Pair;
use crate::support::skipped;

const CONFINED: &str = "the process is confined to its files";

fn serve(folder: &Path, arguments: &[&str]) -> Process {
    let mut serve = command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--cache-mb", "32", "--log", "info"]);
    serve.arg("--data-dir").arg(folder.join("data")).args(arguments);
    serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
    serve.stderr(Stdio::from(fs::File::create(folder.join("log")).unwrap()));
    Process::start(serve)
}

fn no_new_privileges(process: &Process) -> bool {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    status.lines().any(|line| line == "NoNewPrivs:\t1")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_confined_server_does_all_its_work() {
    let folder = tempfile::tempdir().unwrap();
    for round in 0..2 {
        let process = serve(folder.path(), &[]);
        let log = fs::read_to_string(folder.path().join("log")).unwrap();
        let can = !log.contains("has no Landlock") && !log.contains("Landlock is refused");
        assert_eq!(log.contains(CONFINED), can, "{log}");
        assert!(no_new_privileges(&process));
        let denied = log.contains("system calls that a server does not need are denied");
        let cannot =
            ["does not filter system calls", "calls are not filtered"].map(|it| log.contains(it));
        assert!(denied || cannot.contains(&true), "{log}");
        let status = fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
        assert!(!denied || status.contains("Seccomp:\t2"), "{status}");
        // It compiles in a process of its own, looks names up, stores and finds.
        let management = process.management();
        guests::send(&management, "bare", json!({"name": format!("bare {round}")})).await;
        let seen = guests::fetch(&management, "http://localhost:1/").await;
        assert_eq!(seen["error"], "denied", "{seen}");
        let found = management.get("/reactor-formulas?name=bare*").await.expect(200);
        assert_eq!(found["pagination"]["total_items"], round + 1);
        // And knows when it began, although it sees of the system nothing but itself.
        let figures = management.get("/metrics").await.text();
        let began =
            figures.lines().find_map(|line| line.strip_prefix("process_start_time_seconds "));
        let began: f64 = began.unwrap().parse().unwrap();
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_secs_f64();
        assert!((now - 300.0..now + 1.0).contains(&began), "{began} {now}");
        assert_eq!(process.terminate(), Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn files_elsewhere_are_not_there_for_it() {
    for confine in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let elsewhere = tempfile::tempdir().unwrap();
        let write = |name: &str, text: &str| {
            fs::write(elsewhere.path().join(name), text).unwrap();
            let mode = fs::Permissions::from_mode(0o600);
            fs::set_permissions(elsewhere.path().join(name), mode).unwrap();
        };
        let pair = Pair::make();
        write("certificate.pem", &pair.certificate);
        write("key.pem", &pair.key);
        for name in ["certificate.pem", "key.pem"] {
            fs::copy(elsewhere.path().join(name), folder.path().join(name)).unwrap();
        }
        let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
        let [certificate, key] = ["certificate.pem", "key.pem"].map(path);
        let confined = format!("--confine={confine}");
        let arguments = ["--tls-certificate", &certificate, "--tls-key", &key, &confined];
        let process = serve(folder.path(), &arguments);
        let log = || fs::read_to_string(folder.path().join("log")).unwrap();
        if confine && !log().contains(CONFINED) {
            skipped(log().lines().last().unwrap_or_default());
            return;
        }
        // The same key, behind a link that leads out of what the process may read.
        fs::remove_file(&key).unwrap();
        symlink(elsewhere.path().join("key.pem"), &key).unwrap();
        let id = process.id().to_string();
        assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
        let outcome = if confine { "Permission denied" } else { "was read anew" };
        eventually(outcome, || log().contains(outcome).then_some(())).await;
        assert_eq!(log().contains("is not confined"), !confine);
        assert_eq!(process.terminate(), Some(0));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_may_be_a_link_to_another_place() {
    let folder = tempfile::tempdir().unwrap();
    let (data, elsewhere) = (folder.path().join("data"), folder.path().join("elsewhere"));
    assert_eq!(serve(folder.path(), &[]).terminate(), Some(0));
    fs::rename(data.join("store"), &elsewhere).unwrap();
    symlink(&elsewhere, data.join("store")).unwrap();
    let process = serve(folder.path(), &[]);
    process.management().get("/applications").await.expect(200);
    assert_eq!(process.terminate(), Some(0));
    // Whoever opens a store makes its lock: a copy may be without it.
    fs::remove_file(elsewhere.join("lock")).unwrap();
    assert_sound(&data);
    fs::remove_dir_all(&elsewhere).unwrap();
    let (code, _, told) = about(&data, &["keys", "status"]);
    assert!(code != 0 && told.contains("there is no store"), "{told}");
    let (code, _, told) = about(&data, &["serve", "--listen", "127.0.0.1:0"]);
    assert!(code != 0 && told.contains("which is not there"), "{told}");
}
