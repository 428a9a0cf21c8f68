//! Formulas that were built for earlier versions of the contract keep loading and running (`wit/README.md`).

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::json;

use crate::support::{TestServer, guests};

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("tests/fixtures")
}

/// The components that are kept, with the versions they were built for.
fn components() -> Vec<(String, Vec<u8>)> {
    let entries = fs::read_dir(fixtures()).unwrap().map(|entry| entry.unwrap().path());
    let version = |path: &Path| {
        let name = path.file_name().unwrap().to_str().unwrap().to_owned();
        Some(name.strip_prefix("formula-")?.strip_suffix(".wasm")?.to_owned())
    };
    entries.filter_map(|path| Some((version(&path)?, fs::read(&path).unwrap()))).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn formulas_of_every_version_run() {
    let server = TestServer::start().await;
    let components = components();
    for version in ["1.0.0", "1.1.0"] {
        assert!(components.iter().any(|(other, _)| other == version), "{version} is not there");
    }
    for (version, component) in components {
        assert!(component.len() < 200 << 10, "{version} has {} bytes", component.len());
        // It is of that version, not one built anew since.
        let text = String::from_utf8_lossy(&component);
        for interface in ["reactor", "vault", "logging", "http"] {
            let name = format!("tokamak:formula/{interface}@{version}");
            assert!(text.contains(&name), "{name}");
        }
        let made = server.management.post("/reactor-formulas", guests::upload(&component)).await;
        let formula = made.expect(201)["id"].as_str().unwrap().to_owned();
        // Detokenizing needs a rule that reveals.
        let all = ["token:create", "token:read", "token:update", "token:search", "token:delete"];
        let rule = json!({ "description": "all", "priority": 1, "container": "/",
            "transform": "reveal", "permissions": all });
        let body = json!({ "name": "a", "type": "private", "rules": [rule] });
        let application = server.management.post("/applications", body).await.expect(201);
        let application = json!({ "application": { "id": application["id"] } });
        let reactor = guests::reactor(&server, &formula, application).await;
        let path = format!("/reactors/{reactor}/react");

        let answer = server.private.post(&path, json!({ "args": {} })).await.expect(200);
        let mut expected = json!({ "calls": 9, "http": "denied", "attempt": 1 });
        if version != "1.0.0" {
            expected["begun"] = json!("denied");
        }
        assert_eq!(answer["raw"], expected, "{version}");
        assert!(answer["tokens"]["kept"].is_string(), "{answer}");
        let refused = server.private.post(&path, json!({ "args": { "refuse": 1 } })).await;
        assert_eq!(refused.expect(400)["errors"]["args"], json!(["as it was asked"]));
        let runs = server.management.get(&format!("/reactors/{reactor}/invocations")).await;
        let levels: Vec<String> = runs.expect(200)["data"][1]["log"]
            .as_array()
            .unwrap()
            .iter()
            .map(|line| line["level"].as_str().unwrap().to_owned())
            .collect();
        assert_eq!(levels, ["trace", "debug", "info", "warn", "error"], "{version}");
    }
}

#[test]
fn the_contract_of_a_version_is_kept_beside_its_formula() {
    let contract = |path: &Path| fs::read_to_string(path).unwrap();
    let current = contract(&fixtures().parent().unwrap().parent().unwrap().join("wit/formula.wit"));
    for (version, _) in components() {
        let then = contract(&fixtures().join(format!("formula-{version}/wit/formula.wit")));
        assert!(then.contains(&format!("package tokamak:formula@{version};")), "{version}");
        // Within a major version every declaration of then is one of now, letter by letter.
        let major = |text: &str| text.split("tokamak:formula@").nth(1).unwrap()[..1].to_owned();
        if major(&then) != major(&current) {
            continue;
        }
        let declarations = |text: &str| -> Vec<String> {
            let lines = text.lines().map(str::trim);
            let kept = lines.filter(|line| !line.is_empty() && !line.starts_with("///"));
            kept.filter(|line| !line.starts_with("package ")).map(str::to_owned).collect()
        };
        let now = declarations(&current);
        for line in declarations(&then) {
            assert!(now.contains(&line), "{line} of version {version} is gone");
        }
    }
}
