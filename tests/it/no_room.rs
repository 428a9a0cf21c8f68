//! Answers to formulas' requests for which the vault has no room: that is nobody's fault but its own.

use serde_json::{Value, json};
use tokamak::runtime::{Runtime, RuntimeConfig};

use crate::support::scripts::{react, reactor};
use crate::support::server::Setup;
use crate::support::upstream::Upstream;
use crate::support::{Answer, TestServer, guests};

/// The formula that ships and sends requests: in Rust, with the SDK.
const FORWARD: &str = "3f0d8a5e-7c41-4b9a-a6e2-91d4c05b7e03";
/// More than one tenant's runs may hold here.
const LARGE: &str = "/bytes/3000000";

/// A server whose runs have room for little more than to run.
async fn server() -> (TestServer, Upstream) {
    let config = RuntimeConfig { memory_bytes: 4 << 20, ..RuntimeConfig::new(1) };
    let runtime = Some(Runtime::new(config).unwrap());
    let server = TestServer::start_with(Setup { runtime, ..Setup::open() }).await;
    (server, Upstream::start().await)
}

fn is_told_of_room(answer: &Answer) {
    let problem = answer.expect(429);
    assert_eq!(problem["detail"], "The tenant's reactors hold all the memory they may.");
    assert!(answer.headers.contains_key("retry-after"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_formula_learns_that_the_vault_has_no_room_for_an_answer() {
    let (server, upstream) = server().await;
    let members = json!({ "allowed_hosts": [upstream.address.to_string()] });
    let formula = guests::formula(&server, "fetch", members).await;
    let path = format!("/reactors/{}/react", guests::reactor(&server, &formula, json!({})).await);
    let fetch = async |path_there: &str| -> Value {
        let args = json!({ "url": upstream.url(path_there) });
        react(&server, &path, args).await.expect(200)["raw"].clone()
    };
    let told = fetch(LARGE).await;
    let expected = ("unreachable", "the vault has no room for the answer now");
    assert_eq!((&told["error"], &told["reason"]), (&json!(expected.0), &json!(expected.1)));
    assert_eq!(fetch("/bytes/1000").await["body_bytes"], 1_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_calls_a_formula_that_says_nothing_of_it_is_told_of_the_room_and_to_come_again() {
    let (server, upstream) = server().await;
    let code = "module.exports = async ({ args: { url, own } }) => {\n\
        try { return { raw: (await (await fetch(url)).text()).length }; } catch (error) {\n\
        const { ServiceUnavailableError } = require('tokamak');\n\
        throw own ? new ServiceUnavailableError('in words') : error; } };";
    let hosts = json!({ "allowed_hosts": [upstream.address.to_string()] });
    let path = reactor(&server, code, hosts, json!({})).await;
    let args = |path_there: &str| json!({ "url": upstream.url(path_there) });
    is_told_of_room(&react(&server, &path, args(LARGE)).await);
    assert_eq!(react(&server, &path, args("/bytes/1000")).await.expect(200)["raw"], 1_000);
    // What the formula says in words of its own stays.
    let own = json!({ "url": upstream.url(LARGE), "own": true });
    let problem = react(&server, &path, own).await.expect(503);
    assert_eq!(problem["detail"], "in words");

    let members = json!({
        "formula": { "id": FORWARD },
        "configuration": { "url": upstream.url(LARGE), "allow_http": true, "method": "GET" },
    });
    let forward = guests::reactor(&server, FORWARD, members).await;
    is_told_of_room(&react(&server, &format!("/reactors/{forward}/react"), json!({})).await);
}
