//! A server with too little address space for a sandbox: its operator's to mend, and nobody else's fault.

use std::fs::{self, File};
use std::process::Command;

use serde_json::json;

use crate::support::binary::{MANAGEMENT_KEY, Process, ROOT_KEY, command};
use crate::support::{Client, guests};

/// In KiB: enough for the server, and less than the memory of one sandbox reserves, which is above 4 GiB.
const ADDRESS_SPACE: &str = "4000000";

#[tokio::test(flavor = "multi_thread")]
async fn what_a_system_without_memory_refuses_is_blamed_on_no_formula() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut serve = Command::new("sh");
    serve.arg("-c").arg(format!("ulimit -v {ADDRESS_SPACE} && exec \"$0\" \"$@\""));
    serve.arg(env!("CARGO_BIN_EXE_tokamak"));
    for (name, _) in command().get_envs() {
        serve.env_remove(name);
    }
    serve.args(["serve", "--listen", "127.0.0.1:0", "--cache-mb", "32", "--log", "warn"]);
    serve.arg("--data-dir").arg(folder.path().join("data"));
    serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
    // A machine of many processors is not to use up the space by setting some aside for each.
    serve.env("MALLOC_ARENA_MAX", "2");
    serve.stderr(File::create(&log).unwrap());
    let process = Process::start(serve);
    let management = process.management();

    let formula = guests::send(&management, "bare", json!({})).await;
    let body = json!({"name": "r", "formula": {"id": formula}, "configuration": {}});
    let reactor = management.post("/reactors", body).await.expect(201);
    let body = json!({"name": "p", "type": "private", "permissions": ["token:use"]});
    let made = management.post("/applications", body).await.expect(201);
    let private = Client::new(process.address, made["key"].as_str());
    let path = format!("/reactors/{}/react", reactor["id"].as_str().unwrap());
    let answer = private.post(&path, json!({"args": {"a": 1}})).await;
    let problem = answer.expect(503);
    assert_eq!(problem["detail"], "The server has no memory left for the formula.");
    assert!(answer.headers.contains_key("retry-after"));

    let script = json!({"name": "s", "code": "module.exports = () => ({raw: 1});"});
    let problem = management.post("/reactor-formulas", script).await.expect(503);
    assert_eq!(problem["detail"], "The server has no memory left for the formula.");

    assert_eq!(process.terminate(), Some(0));
    let log = fs::read_to_string(&log).unwrap();
    let told = log.lines().filter(|line| line.contains("gives no memory for a sandbox"));
    let told: Vec<&str> = told.collect();
    assert_eq!(told.len(), 2, "{log}");
    assert!(told.iter().all(|line| line.contains("mmap") && line.contains("ulimit -v")), "{log}");
}
