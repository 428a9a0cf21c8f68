//! `tokamak formula push`: what it says, and what it tells nobody.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;

use serde_json::json;

use crate::support::binary::{MANAGEMENT_KEY, Process};
use crate::support::guests;
use crate::support::workshop::{BUILT, formula, project_of, run, told};

#[tokio::test(flavor = "multi_thread")]
async fn a_push_says_what_stands_in_the_way() {
    let data = tempfile::tempdir().unwrap();
    let server = Process::serve(data.path());
    let address = format!("http://{}/", server.address);
    let project = project_of(guests::component("bare"), &[]);
    fs::write(project.path().join("key"), format!("{MANAGEMENT_KEY}\n")).unwrap();
    let push = |code: i32, more: &[&str]| {
        told(project.path(), code, &[&["push", "--url", &address], &BUILT[..], more].concat())
    };
    let refused = push(2, &["--key", "key_mgt_unknown"]);
    assert_eq!((&refused["status"], &refused["error"]["status"]), (&json!("refused"), &json!(401)));
    let first = push(0, &["--key-file", "key"]);
    assert_eq!(first["status"], "created", "{first}");
    // By name: only one of exactly this name is replaced.
    let management = server.management();
    guests::send(&management, "bare", json!({ "name": "TRIED" })).await;
    let keys = json!({ "management_key": MANAGEMENT_KEY, "private_key": "key_prv_of-another" });
    fs::write(project.path().join("keys.json"), keys.to_string()).unwrap();
    for file in ["key", "keys.json"] {
        assert_eq!(push(0, &["--key-file", file])["formula"]["id"], first["formula"]["id"]);
    }
    let second = guests::send(&management, "bare", json!({ "name": "tried" })).await;
    let arguments = [&["push", "--url", &address, "--key", MANAGEMENT_KEY], &BUILT[..]].concat();
    let (code, _, stderr) = run(formula(project.path(), &arguments));
    assert!(code == 2 && stderr.contains("2 formulas") && stderr.contains(&second), "{stderr}");
    assert!(!stderr.contains(MANAGEMENT_KEY), "a key is told to nobody");
    assert_eq!(push(0, &["--key-file", "key", "--id", &second])["formula"]["id"], second);
    let gone = push(2, &["--key-file", "key", "--id", "00000000-0000-4000-8000-000000000000"]);
    assert_eq!(gone["error"]["status"], 404, "{gone}");
    let body = json!({ "name": "a", "type": "private", "permissions": ["token:use"] });
    let private = management.post("/applications", body).await.expect(201);
    let refused = push(2, &["--key", private["key"].as_str().unwrap()]);
    let said = refused["error"]["detail"].as_str().unwrap();
    assert!(said.contains("not hold reactor:read. A push needs a management key"), "{said}");
    // An official one is nobody's to replace.
    let manifest = json!({ "name": "card-insights", "language": "rust" });
    fs::write(project.path().join("formula.json"), manifest.to_string()).unwrap();
    assert_eq!(push(0, &["--key-file", "key"])["status"], "created");
    // People are told what follows.
    let manifest = json!({ "name": "for-people", "language": "rust" });
    fs::write(project.path().join("formula.json"), manifest.to_string()).unwrap();
    let arguments = [&["push", "--url", &address, "--key-file", "key"], &BUILT[..]].concat();
    let (code, stdout, stderr) = run(formula(project.path(), &arguments));
    assert_eq!(code, 0, "{stderr}");
    let page = format!("{}/console#/reactors/new/", address.trim_end_matches('/'));
    assert!(stdout.contains(&page), "{stdout}");

    fs::write(project.path().join("built.wasm"), guests::component("sockets")).unwrap();
    let refused = push(1, &["--key-file", "key"]);
    assert_eq!(refused["error"]["status"], 422, "{refused}");
    let nobody = [&["push", "--url", "http://127.0.0.1:9", "--key", "k"], &BUILT[..]].concat();
    let (code, _, stderr) = run(formula(project.path(), &nobody));
    assert!(code == 2 && stderr.contains("http://127.0.0.1:9"), "{stderr}");
}

#[test]
fn a_push_names_the_options_that_it_needs() {
    let folder = tempfile::tempdir().unwrap();
    for (more, parts) in [
        (&["--url", "127.0.0.1:8080", "--key", "k"][..], &["--url must begin with http://"][..]),
        (&["--url", "http://a/?b", "--key", "k"], &["without a query"]),
        (&["--url", "http://a", "--key", "k", "--id", ""], &["--id must be the id of a formula"]),
        (&[], &["--url <", "--key-file <", "--key <"]),
        (&["--url", "http://a", "--key", "k", "--key-file", "f"], &["--key <", "--key-file <"]),
    ] {
        let (code, _, stderr) = run(formula(folder.path(), &[&["push"], more].concat()));
        assert_eq!(code, 2, "{stderr}");
        assert!(parts.iter().all(|part| stderr.contains(part)), "{more:?}: {stderr}");
    }
}

#[test]
fn what_is_no_vault_takes_no_formula() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let _ = stream.read(&mut [0; 8 << 10]);
            let head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 12";
            let _ = write!(stream, "{head}\r\nConnection: close\r\n\r\n{{\"up\": true}}");
        }
    });
    let project = project_of(guests::component("bare"), &[]);
    let push = [&["push", "--url", &url, "--key", "k", "--id", "a"], &BUILT[..]].concat();
    let (code, stdout, stderr) = run(formula(project.path(), &push));
    assert!(code == 2 && stderr.contains("is no Tokamak"), "{code} {stdout} {stderr}");
}
