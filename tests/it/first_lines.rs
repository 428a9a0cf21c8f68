//! What a server says when it starts: the first tenant with its key, and where it listens.

use std::fs::{self, File, OpenOptions};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use serde_json::Value;

use crate::support::Client;
use crate::support::binary::{MANAGEMENT_KEY, Process, ROOT_KEY, command, eventually};
use crate::support::operator::done;

/// A server on a folder, which logs to a file.
fn serve(data: &Path, log: &Path, words: &[&str]) -> Command {
    let mut serve = command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--cache-mb", "32", "--log", "error"]);
    serve.args(words).arg("--data-dir").arg(data).env("TOKAMAK_ROOT_KEY", ROOT_KEY);
    serve.stderr(File::create(log).unwrap());
    serve
}

/// A process that does not outlive the test.
struct Killed(Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn to(device: &str) -> Stdio {
    OpenOptions::new().write(true).open(device).unwrap().into()
}

fn closed_pipe() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_first_key_that_nobody_can_have_seen_is_told_of_with_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let places = [("full", to("/dev/full")), ("null", to("/dev/null")), ("closed", closed_pipe())];
    for (name, stdout) in places {
        let (data, log) = (folder.path().join(name), folder.path().join("log"));
        let server = Killed(serve(&data, &log, &[]).stdout(stdout).spawn().unwrap());
        let told = || {
            let told = fs::read_to_string(&log).unwrap();
            told.contains("is lost, since it is kept nowhere").then_some(told)
        };
        let told = eventually("word of the key", told).await;
        assert!(told.contains("tokamak tenant key") && !told.contains("key_mgt_"), "{told}");
        // What it tells to do can be done, while the server runs or not.
        eventually("socket", || data.join("control.sock").exists().then_some(())).await;
        let made = done(&data, None, &["tenant", "create", "second", "--json"]);
        let made: Value = serde_json::from_str(&made).unwrap();
        drop(server);
        let listed = done(&data, Some(ROOT_KEY), &["tenant", "list", "--json"]);
        let listed: Vec<Value> = serde_json::from_str(&listed).unwrap();
        let first = listed.iter().find(|tenant| tenant["id"] != made["id"]).unwrap();
        let first = first["id"].as_str().unwrap();
        assert!(told.contains(first), "{told}");
        let made = done(&data, Some(ROOT_KEY), &["tenant", "key", first]);
        assert!(made.contains("management key, shown once: key_mgt_"), "{made}");
    }
}

#[test]
fn a_first_key_that_was_printed_or_chosen_is_not_told_of_as_lost() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let printed = Process::start(serve(&folder.path().join("printed"), &log, &[]));
    assert!(printed.printed[1].starts_with("management key, shown once: key_mgt_"));
    assert_eq!(printed.terminate(), Some(0));
    assert_eq!(fs::read_to_string(&log).unwrap(), "");
    let data = folder.path().join("chosen");
    let mut chosen = serve(&data, &log, &[]);
    chosen.env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
    let process = Process::start(chosen);
    assert!(process.printed[0].starts_with("tenant: "), "{:?}", process.printed);
    assert!(process.printed[1].starts_with("listening on http://127.0.0.1:"));
    assert_eq!(process.terminate(), Some(0));
    assert_eq!(fs::read_to_string(&log).unwrap(), "");
}

#[tokio::test(flavor = "multi_thread")]
async fn beside_a_log_in_json_the_first_lines_are_in_json_too_but_for_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let (data, log) = (folder.path().join("data"), folder.path().join("log"));
    let process = Process::start(serve(&data, &log, &["--log-format", "json"]));
    let key = process.printed.iter().find_map(|line| line.split("shown once: ").nth(1)).unwrap();
    let others = process.printed.iter().filter(|line| !line.contains(key));
    let lines: Vec<Value> = others.map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(lines.len(), 2, "{:?}", process.printed);
    for line in &lines {
        assert_eq!(line["level"], "INFO", "{line}");
        assert!(line["timestamp"].is_string() && line["target"].is_string(), "{line}");
    }
    assert_eq!(lines[0]["message"], "the first tenant was made");
    assert_eq!(lines[1]["message"], "listening");
    assert_eq!(lines[1]["url"], format!("http://{}/", process.address));
    let tenant = Client::new(process.address, Some(key)).get("/tenants/self").await.expect(200);
    assert_eq!(lines[0]["tenant"], tenant["id"]);
    let key = key.to_owned();
    assert_eq!(process.terminate(), Some(0));
    assert!(!fs::read_to_string(&log).unwrap().contains(&key));
}
