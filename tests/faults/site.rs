//! The server under test, what is set up in it, and how it is looked at afterwards.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use futures::stream::{self, StreamExt as _};
use reqwest::Method;
use serde_json::{Value, json};

use crate::Client;
use crate::binary::{MANAGEMENT_KEY, Process, ROOT_KEY, command};
use crate::fates::{Fates, Logged};
use crate::receiver::Told;

/// How often it is looked for what is still to be told, and how long between: five minutes in all.
const LOOKS: u32 = 3_000;
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Results that are asked for at a time.
const RESULTS_AT_ONCE: usize = 16;

const CARD_INSIGHTS: &str = "6f2b0c0e-3d5a-4c38-9d6b-5a1f3c7e9b01";

/// What was set up: it outlives every process.
#[derive(Clone)]
pub struct Site {
    key: String,
    /// The path of the reactor.
    reactor: String,
}

/// `tokamak serve` on a folder, as it is to be run.
pub fn serving(folder: &Path) -> std::process::Command {
    let mut serve = command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--cache-mb", "64", "--log", "error"]);
    serve.args(["--allow-private-networks", "--allow-http-callbacks"]);
    serve.arg("--data-dir").arg(folder);
    serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
    serve
}

impl Site {
    pub async fn set_up(process: &Process) -> Self {
        let management = process.management();
        let rule = json!([{"description": "everything", "priority": 1, "container": "/",
            "transform": "reveal", "permissions": ["token:create", "token:read", "token:update",
            "token:delete", "token:search", "token:use"]}]);
        let body = json!({"name": "load", "type": "private", "permissions": [], "rules": rule});
        let made = management.post("/applications", body).await.expect(201);
        let body = json!({"name": "load", "formula": {"id": CARD_INSIGHTS}, "configuration": {}});
        let reactor = management.post("/reactors", body).await.expect(201);
        Self {
            key: made["key"].as_str().unwrap().to_owned(),
            reactor: format!("/reactors/{}", reactor["id"].as_str().unwrap()),
        }
    }

    pub fn client(&self, process: &Process) -> Client {
        Client::new(process.address, Some(&self.key))
    }

    /// Where a run is asked for.
    pub fn react(&self) -> String {
        format!("{}/react", self.reactor)
    }

    /// Accepted runs that have no result, or that nobody was told of: neither `told` has them, nor does the server say that
    /// it delivered them. The latter is enough for a server that goes on from what another one left before.
    pub async fn unfinished(
        &self,
        process: &Process,
        jobs: &BTreeSet<String>,
        told: &Told,
        is_said_enough: bool,
    ) -> Vec<String> {
        let client = &self.client(process);
        let look = async |id: &String| {
            let result = client.get(&format!("{}/results/{id}", self.reactor)).await;
            let delivered = result.status == 200
                && is_said_enough
                && result.json()["delivery"]["status"] == "delivered";
            (id.clone(), result.status, delivered)
        };
        let looked = stream::iter(jobs).map(look).buffer_unordered(RESULTS_AT_ONCE);
        let looked: Vec<_> = looked.collect().await;
        let without = looked.iter().filter(|(_, status, _)| *status != 200);
        let mut lost: Vec<_> =
            without.map(|(id, status, _)| format!("{id} has no result but {status}")).collect();
        let waited: BTreeSet<_> =
            looked.into_iter().filter(|(.., said)| !said).map(|(id, ..)| id).collect();
        for _ in 0..LOOKS {
            if waited.is_subset(&told.lock()) {
                return lost;
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
        lost.extend(waited.difference(&told.lock()).map(|id| format!("{id} was never told")));
        lost
    }

    /// What is lost of what is known.
    pub async fn lost(&self, process: &Process, fates: &Fates) -> Vec<String> {
        // First, since looking at tokens makes entries too.
        let logged = logged(&process.management()).await;
        let there = contents(&self.client(process)).await;
        fates.lost(&there, &logged)
    }
}

/// Every page of a list.
async fn pages(client: &Client, path: &str, mut each: impl FnMut(&Value)) {
    let mut start = String::new();
    loop {
        let page = client.get(&format!("{path}size=100{start}")).await.expect(200);
        page["data"].as_array().unwrap().iter().for_each(&mut each);
        let Some(next) = page["pagination"]["next"].as_str() else { return };
        start = format!("&start={next}");
    }
}

async fn contents(client: &Client) -> BTreeMap<String, u64> {
    let mut found = BTreeMap::new();
    pages(client, "/tokens?", |token| {
        let id = token["id"].as_str().unwrap().to_owned();
        found.insert(id, token["data"]["number"].as_u64().unwrap_or_default());
    })
    .await;
    found
}

async fn logged(management: &Client) -> Logged {
    let mut logged = Logged::default();
    pages(management, "/logs?entity_type=token&", |entry| {
        let text = |member: &str| entry[member].as_str().unwrap_or_default().to_owned();
        let of = logged.entry(text("entity_id")).or_default();
        *of.entry(text("operation")).or_default() += 1;
    })
    .await;
    logged
}

/// Has the server that runs on a folder compact its store; what it says if it does not.
pub fn compact(folder: &Path) -> Result<(), String> {
    let output = command().arg("compact").arg("--data-dir").arg(folder).output().unwrap();
    let said = || String::from_utf8_lossy(&output.stderr).into_owned();
    if output.status.success() { Ok(()) } else { Err(said()) }
}

/// Whether `tokamak verify` finds nothing damaged; what it says otherwise. What a killed server was starting, to compile in,
/// has its files open for a moment.
pub fn verify(folder: &Path) -> Result<(), String> {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    let mut said = String::new();
    for _ in 0..LOOKS {
        let mut verify = command();
        verify.arg("verify").arg("--data-dir").arg(folder).env("TOKAMAK_ROOT_KEY", ROOT_KEY);
        let output = verify.output().unwrap();
        if output.status.success() {
            return Ok(());
        }
        said = format!("{} {}", text(&output.stdout), text(&output.stderr));
        if !said.contains("another process uses") {
            break;
        }
        std::thread::sleep(LOOK_EVERY);
    }
    Err(said)
}

/// A POST whose answer may never come; gives the body of a success.
pub async fn ask(client: &Client, method: Method, path: &str, body: &Value) -> Option<Value> {
    let patch = method == Method::PATCH;
    let mut request = client.request(method, path);
    if !body.is_null() {
        request = request.body(body.to_string());
        let merge = if patch { "application/merge-patch+json" } else { "application/json" };
        request = request.header("content-type", merge);
    }
    let answer = request.send().await.ok()?;
    let status = answer.status();
    let bytes = answer.bytes().await.ok()?;
    assert!(status.is_success() || status == 503, "{status}: {}", String::from_utf8_lossy(&bytes));
    status.is_success().then(|| serde_json::from_slice(&bytes).unwrap_or_default())
}
