//! What the log holds when everything is asked for: nothing of the libraries' inner doings, which may be values.

use std::fs::{self, File};

use serde_json::{Value, json};

use crate::support::binary::{MANAGEMENT_KEY, Process, ROOT_KEY, command};
use crate::support::guests;

#[tokio::test(flavor = "multi_thread")]
async fn libraries_are_never_logged_below_info() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    // With traces that go elsewhere, the lines are filtered in another place.
    let starts: [(&str, &[&str]); 3] = [
        ("trace", &[]),
        ("hyper=trace,tokamak=debug", &[]),
        ("trace", &["--otlp-endpoint", "http://127.0.0.1:9"]),
    ];
    for (filter, more) in starts {
        let mut serve = command();
        serve.args(["serve", "--listen", "127.0.0.1:0", "--log", filter, "--log-format", "json"]);
        serve.args(more).arg("--data-dir").arg(folder.path().join("data"));
        serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
        serve.stderr(File::create(&log).unwrap());
        let process = Process::start(serve);
        // Refused, but not before libraries have looked at it.
        guests::fetch(&process.management(), "http://127.0.0.1:1/").await;
        assert_eq!(process.terminate(), Some(0));

        let log = fs::read_to_string(&log).unwrap();
        let lines: Vec<Value> =
            log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let is_ours = |line: &Value| line["target"].as_str().unwrap().starts_with("tokamak");
        let is_low = |line: &&Value| ["DEBUG", "TRACE"].map(Value::from).contains(&line["level"]);
        for line in lines.iter().filter(is_low) {
            assert!(is_ours(line), "{filter}: {line}");
        }
        assert!(lines.iter().any(|line| is_ours(line) && line["level"] == json!("DEBUG")));
    }
}
