//! What every answer tells browsers and caches, and what becomes of those who try keys.

use reqwest::Method;
use serde_json::{Value, json};
use tokamak::config::RateLimits;

use crate::support::server::Setup;
use crate::support::{Answer, TestServer, guests};

/// The headers of an answer that holds values.
#[track_caller]
fn protected(answer: &Answer, what: &str) {
    for (name, value) in [
        ("x-content-type-options", "nosniff"),
        ("x-frame-options", "DENY"),
        ("referrer-policy", "no-referrer"),
        ("cache-control", "no-store"),
        ("cross-origin-resource-policy", "same-origin"),
        ("content-security-policy", "default-src 'none'; frame-ancestors 'none'; sandbox"),
    ] {
        let found: Vec<_> = answer.headers.get_all(name).iter().collect();
        assert_eq!(found, [value], "{name} of {what}");
    }
    // This server speaks no TLS.
    assert!(!answer.headers.contains_key("strict-transport-security"), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_answer_of_every_route_is_protected() {
    let server = TestServer::start().await;
    let description = server.stranger().get("/openapi.json").await.expect(200);
    for (path, operations) in description["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            for client in [&server.stranger(), &server.management, &server.private] {
                let answer = client.send(client.request(method.clone(), path)).await;
                protected(&answer, &format!("{method} {path}: {}", answer.status));
            }
        }
    }
    let card = json!({"type": "card_number", "data": "4242424242424242"});
    protected(&server.private.post("/tokens", card).await, "a card");
    for path in ["/none", "/tokens/a/b/c"] {
        protected(&server.private.get(path).await, path);
    }
    let brew = Method::from_bytes(b"BREW").unwrap();
    let answer = server.private.send(server.private.request(brew, "/tokens")).await;
    assert_eq!(answer.status, 405);
    protected(&answer, "BREW");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_formula_shapes_is_protected_whatever_it_says() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let react = async |headers: Value| {
        let args = json!({"behaviour": "custom", "status": 418, "headers": headers,
            "body": "<script>alert(1)</script>"});
        server.private.post(&format!("/reactors/{reactor}/react"), json!({"args": args})).await
    };
    let answer = react(json!([["x-own", "kept"], ["content-language", "en"]])).await;
    assert_eq!(answer.status, 418);
    protected(&answer, "a formula's own answer");
    assert_eq!(answer.headers["x-own"], "kept");
    assert_eq!(answer.headers["content-type"], "application/json");
    for (name, value) in [
        ("content-type", "text/html"),
        ("cache-control", "public, max-age=31536000"),
        ("content-security-policy", "default-src *"),
        ("x-content-type-options", "none"),
        ("x-frame-options", "ALLOWALL"),
        ("referrer-policy", "unsafe-url"),
        ("cross-origin-resource-policy", "cross-origin"),
        ("strict-transport-security", "max-age=0"),
        ("set-cookie", "a=b"),
    ] {
        let answer = react(json!([[name, value]])).await;
        assert_eq!(answer.expect(500)["title"], "Reactor Runtime Error", "{name}");
        protected(&answer, name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_of_the_description_runs_its_own_scripts_alone() {
    let server = TestServer::start().await;
    for path in ["/openapi.json", "/docs/index.html", "/docs/swagger-ui.css", "/docs/none"] {
        let answer = server.stranger().get(path).await;
        let policy = answer.headers["content-security-policy"].to_str().unwrap();
        for part in ["default-src 'none'", "script-src 'self'", "frame-ancestors 'none'"] {
            assert!(policy.contains(part), "{path}: {policy}");
        }
        assert!(!policy.contains("script-src 'self' 'unsafe"), "{path}: {policy}");
        assert_eq!(answer.headers["x-content-type-options"], "nosniff", "{path}");
        assert_eq!(answer.headers["cache-control"], "no-cache", "{path}");
    }
    // The page holds no script of its own that the policy would stop.
    let page = server.stranger().get("/docs/index.html").await.text();
    for script in page.split("<script").skip(1) {
        let (head, rest) = script.split_once('>').unwrap();
        assert!(head.contains("src="), "{script}");
        assert!(rest.split("</script>").next().unwrap().trim().is_empty(), "{script}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_tries_keys_waits_longer_each_time_and_others_do_not() {
    let rates = RateLimits { unknown_keys: 3, ..RateLimits::default() };
    let server = TestServer::start_with(Setup { rates, ..Setup::default() }).await;
    // Made by the operator, past this server's interface.
    let fresh = server.other_tenant().await;
    // This one has been used before, as the management key has.
    server.private.get("/tokens").await.expect(200);
    let guess = |number: u32| server.client(&format!("key_prv_{number:032}"));
    for number in 0..3 {
        guess(number).get("/tokens").await.expect(401);
    }
    let refused = async |seconds: &str| {
        let answer = guess(9).get("/tokens").await;
        let problem = answer.expect(429);
        assert!(problem["detail"].as_str().unwrap().contains("unknown keys"), "{problem}");
        assert_eq!(answer.headers["retry-after"], seconds);
    };
    refused("1").await;
    refused("1").await;
    // Keys that were good before go on; no key at all is no guess; what needs no key answers.
    server.private.get("/tokens").await.expect(200);
    server.management.get("/applications").await.expect(200);
    server.stranger().get("/tokens").await.expect(401);
    server.stranger().get("/healthz").await.expect(200);
    // So does one that was issued just now, and a session's.
    let issued = server.application("private", &["token:read"], json!([])).await;
    issued.get("/tokens").await.expect(200);
    let opener = server.application("public", &["token:create"], json!([])).await;
    let session = opener.post("/sessions", json!({})).await.expect(201);
    server.client(session["session_key"].as_str().unwrap()).get("/tokens").await.expect(403);
    let itself = issued.get("/applications/key").await.expect(200);
    let path = format!("/applications/{}/regenerate", itself["id"].as_str().unwrap());
    let key = server.management.post(&path, json!({})).await.expect(200)["key"].clone();
    server.client(key.as_str().unwrap()).get("/tokens").await.expect(200);
    // Another that was never used cannot be told from a guess, for a moment.
    fresh.get("/applications").await.expect(429);
    server.clock.advance_ms(1_000);
    fresh.get("/applications").await.expect(200);
    guess(4).get("/tokens").await.expect(401);
    refused("2").await;
    fresh.get("/applications").await.expect(200);
    server.clock.advance_ms(2_000);
    guess(5).get("/tokens").await.expect(401);
    refused("4").await;
    // After a rest all is forgotten.
    server.clock.advance_ms(20 * 60_000);
    for number in 0..3 {
        guess(number).get("/tokens").await.expect(401);
    }
    refused("1").await;
}
