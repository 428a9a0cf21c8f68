//! Requests of a script are under way beside each other, and beside its timers.

use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Barrier;

use crate::support::TestServer;
use crate::support::scripts::{react, reactor};
use crate::support::server::Setup;

/// A server whose `/meet` answers when three requests are there, and whose `/never` does not; its address.
async fn stand_in() -> String {
    let together = Arc::new(Barrier::new(3));
    let meet = move || async move {
        together.wait().await;
        "met"
    };
    let routes = Router::new()
        .route("/meet", get(meet))
        .route("/never", get(std::future::pending::<&str>))
        .route("/echo", get(|uri: http::Uri| async move { uri.query().unwrap().to_owned() }));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async { axum::serve(listener, routes).await.unwrap() });
    address.to_string()
}

/// What a script's function answers with as `raw`, given the server's address.
async fn answer(body: &str) -> serde_json::Value {
    let (server, address) = (TestServer::start_with(Setup::open()).await, stand_in().await);
    let code = format!(
        "module.exports = async ({{ args: {{ base }} }}) => {{ {body} return {{ raw }}; }};"
    );
    let path = reactor(&server, &code, json!({"allowed_hosts": [address]}), json!({})).await;
    let args = json!({"base": format!("http://{address}")});
    react(&server, &path, args).await.expect(200)["raw"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn several_are_under_way_at_a_time() {
    let body = "const text = async (path) => (await fetch(base + path)).text();\n\
        const raw = [await Promise.all([text('/meet'), text('/meet'), text('/meet')])];\n\
        raw.push(await Promise.all(Array.from({ length: 30 }, (_, at) => text(`/echo?${at}`))));";
    let numbers: Vec<String> = (0..30).map(|at| at.to_string()).collect();
    assert_eq!(answer(body).await, json!([["met", "met", "met"], numbers]));
}

#[tokio::test(flavor = "multi_thread")]
async fn timers_go_on_beside_them() {
    let body = "const never = fetch(`${base}/never`).then(() => 'answered');\n\
        const later = (ms, value) => new Promise((resolve) => setTimeout(resolve, ms, value));\n\
        const seen = []; setTimeout(() => seen.push('timer'), 1);\n\
        const raw = [await Promise.race([never, later(30, 'late')]), seen, await (await fetch(`${base}/echo?x`)).text()];";
    assert_eq!(answer(body).await, json!(["late", ["timer"], "x"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_aborted_is_given_up() {
    let body = "const failed = (promise) => promise.then(() => 'answered', (e) => [e.name, e.message]);\n\
        const one = new AbortController(); setTimeout(() => one.abort(), 5);\n\
        const two = new AbortController(); let told = 0; two.signal.addEventListener('abort', () => { told += 1; });\n\
        const raw = [await failed(fetch(`${base}/never`, { signal: one.signal })), one.signal.aborted];\n\
        const waiting = failed(fetch(`${base}/never`, { signal: two.signal })); two.abort(new RangeError('mine')); two.abort();\n\
        raw.push(await waiting, told, await failed(fetch(`${base}/never`, { signal: AbortSignal.timeout(20) })).then(([name]) => name));";
    let expected =
        json!([["AbortError", "it was aborted"], true, ["RangeError", "mine"], 1, "TimeoutError"]);
    assert_eq!(answer(body).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_by_itself() {
    let body = "const later = (ms) => new Promise((resolve) => setTimeout(resolve, ms));\n\
        const one = AbortSignal.timeout(20); const told = [];\n\
        one.onabort = () => told.push('on'); one.addEventListener('abort', ({ type }) => told.push(type));\n\
        const raw = [[one.aborted, one.reason === undefined]]; await later(40);\n\
        raw.push([one.aborted, one.reason.name, told]);\n\
        try { one.throwIfAborted(); } catch (e) { raw.push(e === one.reason); }\n\
        raw.push(await fetch(`${base}/echo?x`, { signal: one }).then(() => 'sent', (e) => e === one.reason));\n\
        const two = AbortSignal.timeout(500); await (await fetch(`${base}/echo?x`, { signal: two })).text();\n\
        raw.push(await fetch(`${base}/never`, { signal: two }).catch((e) => [e.name, e === two.reason, two.aborted]));\n\
        const three = AbortSignal.timeout(20); await new Promise((resolve) => { three.onabort = resolve; });\n\
        raw.push(three.aborted);";
    let expected = json!([
        [false, true],
        [true, "TimeoutError", ["on", "abort"]],
        true,
        true,
        ["TimeoutError", true, true],
        true
    ]);
    assert_eq!(answer(body).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_of_others_ends_with_the_first() {
    let body = "const given = (signal) => fetch(`${base}/never`, { signal }).catch((e) => e.name ?? e);\n\
        const one = new AbortController(); const two = AbortSignal.any([one.signal, AbortSignal.timeout(20)]);\n\
        const raw = [two.aborted, await given(two), two.aborted, AbortSignal.any([two]).reason === two.reason];\n\
        const three = AbortSignal.any(new Set([one.signal, AbortSignal.timeout(60_000)])); one.abort('mine');\n\
        raw.push(three.reason, await given(three), AbortSignal.any([]).aborted);\n\
        for (const wrong of [undefined, '5', null, -1, NaN, Infinity]) {\n\
          try { AbortSignal.timeout(wrong); raw.push(wrong); } catch (e) { raw.push(e.name); }\n\
        }";
    let types = vec!["TypeError"; 6];
    let mut expected = vec![json!(false), json!("TimeoutError"), json!(true), json!(true)];
    expected.extend([json!("mine"), json!("mine"), json!(false)]);
    expected.extend(types.into_iter().map(|name| json!(name)));
    assert_eq!(answer(body).await, json!(expected));
}
