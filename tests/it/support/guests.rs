//! The formulas under `tests/guests`, built once, and reactors of them.
//!
//! `probe` does what `args.behaviour` says (see its source) and answers with the whole request when told
//! nothing; `fetch` sends the request that `args` describe. To add a formula: a package there, and its name in [`PACKAGES`].

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use super::{Client, TestServer};

#[path = "../../../host/build/guests.rs"]
mod build;

/// The packages of `tests/guests`.
const PACKAGES: &[&str] = &["bare", "fetch", "files", "probe", "sockets", "tables"];

/// A component without an import or export: not a formula.
pub const EMPTY_COMPONENT: &[u8] = b"\0asm\x0d\0\x01\0";
/// A core module: not a component.
pub const CORE_MODULE: &[u8] = b"\0asm\x01\0\0\0";

static COMPONENTS: LazyLock<BTreeMap<&str, Vec<u8>>> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().join("tests/guests");
    let target_dir = build::shared_target_dir(Path::new(env!("CARGO_TARGET_TMPDIR")));
    let packages: Vec<String> = PACKAGES.iter().map(|name| (*name).to_owned()).collect();
    let project = build::Project { root: &root, packages: &packages, target_dir: &target_dir };
    let folder = project.build().unwrap_or_else(|error| panic!("{error}"));
    let read =
        |name: &&'static str| (*name, fs::read(folder.join(build::component_file(name))).unwrap());
    PACKAGES.iter().map(read).collect()
});

/// The component of a package.
pub fn component(package: &str) -> &'static [u8] {
    &COMPONENTS[package]
}

/// Makes a formula of a package; `members` are added to the request. Gives its id.
pub async fn formula(server: &TestServer, package: &str, members: Value) -> String {
    send(&server.management, package, members).await
}

/// The same by a client of any server.
pub async fn send(management: &Client, package: &str, members: Value) -> String {
    let body = with(upload(component(package)), json!({ "name": package }));
    let answer = management.post("/reactor-formulas", with(body, members)).await;
    answer.expect(201)["id"].as_str().unwrap().to_owned()
}

/// The body of a request that makes a formula of a component.
pub fn upload(component: &[u8]) -> Value {
    json!({ "name": "test", "component": STANDARD.encode(component) })
}

/// Makes a reactor of a formula; `members` are added to the request. Gives its id.
pub async fn reactor(server: &TestServer, formula: &str, members: Value) -> String {
    let body = json!({ "name": "test", "formula": { "id": formula }, "configuration": {} });
    let answer = server.management.post("/reactors", with(body, members)).await;
    answer.expect(201)["id"].as_str().unwrap().to_owned()
}

/// Makes a reactor of `probe`. Gives its id.
pub async fn echo_reactor(server: &TestServer) -> String {
    let formula = formula(server, "probe", json!({})).await;
    reactor(server, &formula, json!({})).await
}

/// Sends a request by a formula that may send it anywhere. Gives what the formula saw.
pub async fn fetch(management: &Client, url: &str) -> Value {
    let component = STANDARD.encode(component("fetch"));
    let body = json!({ "name": "fetch", "component": component, "allowed_hosts": ["*"] });
    let formula = management.post("/reactor-formulas", body).await.expect(201);
    let body = json!({ "name": "fetch", "formula": { "id": formula["id"] }, "configuration": {} });
    let reactor = management.post("/reactors", body).await.expect(201);
    let body = json!({ "name": "a", "type": "private", "permissions": ["token:use"] });
    let application = management.post("/applications", body).await.expect(201);
    let caller = management.with_key(application["key"].as_str().unwrap());
    let path = format!("/reactors/{}/react", reactor["id"].as_str().unwrap());
    caller.post(&path, json!({ "args": { "url": url } })).await.expect(200)["raw"].clone()
}

fn with(mut body: Value, members: Value) -> Value {
    let Value::Object(members) = members else { panic!("members of an object") };
    for (name, value) in members {
        body[name] = value;
    }
    body
}
