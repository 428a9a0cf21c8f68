//! `tokamak benchmark`: what its rows say, what it is told, and what it refuses before it measures.

use std::fs;
use std::io::Write as _;
use std::process::Stdio;

use serde_json::{Value, json};

use crate::support::Client;
use crate::support::binary::{MANAGEMENT_KEY, Process, command, run};

fn works(report: &Value) -> Vec<&str> {
    let measures = report["measures"].as_array().unwrap().iter();
    let works = measures.map(|measure| {
        assert_eq!(measure["failed"], 0, "{measure}");
        measure["work"].as_str().unwrap()
    });
    works.collect()
}

/// What was created to see how fast that goes is in no later row's way. What others call so stays.
#[tokio::test(flavor = "multi_thread")]
async fn a_measurement_leaves_as_many_tokens_as_it_found() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(&folder.path().join("data"));
    let permissions = ["token:create", "token:read"];
    let body = json!({"name": "r", "type": "private", "permissions": permissions});
    let made = process.management().post("/applications", body).await.expect(201);
    let other = Client::new(process.address, made["key"].as_str());
    for kind in ["created", "Created"] {
        let token = json!({"type": "token", "data": kind, "metadata": {"kind": kind}});
        other.post("/tokens", token).await.expect(201);
    }
    let mut benchmark = command();
    let address = format!("http://{}", process.address);
    benchmark.args(["benchmark", "--address", &address, "--seconds", "1", "--json"]);
    benchmark.args(["--tokens", "100,200", "--connections", "1,2", "--only", "create,list"]);
    let mut benchmark = benchmark.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    benchmark.stdin.take().unwrap().write_all(MANAGEMENT_KEY.as_bytes()).unwrap();
    let output = benchmark.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(works(&report), ["list", "create"].repeat(4));
    let total = async |query: &str| {
        let found = other.get(&format!("/tokens?size=1{query}")).await.expect(200);
        found["pagination"]["total_items"].as_u64().unwrap()
    };
    assert_eq!(total("&metadata.kind=created").await, 2);
    assert_eq!(total("").await, 202);
    // Twenty tokens are listed, and not fewer.
    for group in 0..10 {
        assert_eq!(total(&format!("&metadata.group={group}")).await, 20, "{group}");
    }
}

/// Each of these would keep a server from starting, or from answering.
#[test]
fn what_the_shell_sets_for_a_server_is_not_measured() {
    let folder = tempfile::tempdir().unwrap();
    let figures = folder.path().join("figures.json");
    let mut benchmark = command();
    benchmark.args(["benchmark", "--seconds", "1", "--tokens", "100", "--connections", "2"]);
    benchmark.args(["--only", "get", "--output"]).arg(&figures);
    for (name, value) in [
        ("TOKAMAK_TLS_CERTIFATE", "/nowhere/certificate.pem"),
        ("TOKAMAK_TLS_KEY", "/nowhere/key.pem"),
        ("TOKAMAK_ROOT_KEY_FILE", "/nowhere/root-key"),
        ("TOKAMAK_RATE_LIMIT_READ", "1"),
    ] {
        benchmark.env(name, value);
    }
    let (code, table, told) = run(benchmark);
    assert_eq!(code, 0, "{told}");
    assert!(table.lines().any(|line| line.trim_start().starts_with("get ")), "{table}");
    let report: Value = serde_json::from_slice(&fs::read(&figures).unwrap()).unwrap();
    assert_eq!(works(&report), ["get"]);
}

#[test]
fn a_file_that_cannot_be_written_is_told_before_anything_is_measured() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("none/figures");
    for option in ["--output", "--report"] {
        let mut benchmark = command();
        benchmark.args(["benchmark", "--seconds", "1", "--only", "echo", option]).arg(&file);
        let (code, printed, told) = run(benchmark);
        assert_eq!((code, printed.as_str()), (1, ""), "{option}: {told}");
        assert!(told.contains(file.to_str().unwrap()), "{option}: {told}");
    }
}

#[test]
fn a_benchmark_that_fails_leaves_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let [figures, page] = ["figures", "page"].map(|name| folder.path().join(name));
    let mut benchmark = command();
    benchmark.args(["benchmark", "--address", "nowhere", "--output"]).arg(&figures);
    benchmark.arg("--report").arg(&page);
    let (code, printed, told) = run(benchmark);
    assert_eq!((code, printed.as_str()), (1, ""), "{told}");
    assert!(told.contains("--address"), "{told}");
    // Nobody listens there.
    let mut benchmark = command();
    benchmark.args(["benchmark", "--address", "http://127.0.0.1:1"]).stdin(Stdio::null());
    let (code, _, told) = run(benchmark);
    assert!(code == 1 && told.contains("127.0.0.1:1 cannot be reached: "), "{told}");
    assert!(!figures.exists() && !page.exists(), "{told}");
}

#[test]
fn figures_are_compared_in_a_table_alone() {
    let mut benchmark = command();
    benchmark.args(["benchmark", "--json", "--compare", "figures.json"]);
    let (code, _, told) = run(benchmark);
    assert_eq!(code, 2, "{told}");
    assert!(told.contains("--json") && told.contains("--compare"), "{told}");
}
