//! Listing tokens (interface §4.1).

use serde_json::{Value, json};

use crate::support::{TestServer, guests};

async fn server() -> TestServer {
    let server = TestServer::start().await;
    let tokens = [
        json!({"id": "one", "type": "token", "data": 1, "metadata": {"a": "X", "b": "y"}}),
        json!({"id": "two", "type": "token", "data": 2, "metadata": {"a": "x"}}),
        json!({"id": "ssn", "type": "social_security_number", "data": "123456789"}),
        json!({"id": "num", "type": "card_number", "data": "4242424242424242",
            "containers": ["/pci/eu/"]}),
    ];
    for body in tokens {
        server.clock.advance_ms(1);
        server.private.post("/tokens", body).await.expect(201);
    }
    server
}

/// A list that did not hear of a filter would show more than was asked for.
#[tokio::test(flavor = "multi_thread")]
async fn a_parameter_that_there_is_not_is_refused() {
    let server = server().await;
    let management = &server.management;
    for (client, path) in [
        (&server.private, "/tokens"),
        (management, "/logs"),
        (management, "/applications"),
        (management, "/reactors"),
        (management, "/reactor-formulas"),
        (management, "/permissions"),
    ] {
        client.get(path).await.expect(200);
        let refused = client.get(&format!("{path}?customer=yy&from=2030-01-01")).await;
        let errors = refused.expect(400)["errors"].clone();
        let expected = json!(["is no parameter of this operation"]);
        assert_eq!(errors, json!({"customer": expected, "from": expected}), "{path}");
    }
    // What belongs into a body is not passed over either.
    let search = server.private.post("/tokens/search?size=1", json!({})).await.expect(400);
    assert!(search["errors"]["size"].is_array(), "{search}");
    let reactor = guests::echo_reactor(&server).await;
    let run = format!("/reactors/{reactor}/react?callback_url=https://a.example");
    let run = server.private.post(&run, json!({"args": {}})).await.expect(400);
    assert!(run["errors"]["callback_url"].is_array(), "{run}");
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_narrow_together() {
    let server = server().await;
    let one = server.private.get("/tokens/one").await.expect(200);
    let fingerprint = one["fingerprint"].as_str().unwrap();
    let table: &[(&str, &[&str])] = &[
        ("", &["num", "ssn", "two", "one"]),
        ("id=one&id=ssn", &["ssn", "one"]),
        ("id[]=one&id[]=two", &["two", "one"]),
        ("id=nobody", &[]),
        ("type=token", &["two", "one"]),
        ("type=token&type=card_number", &["num", "two", "one"]),
        ("type=token&id=ssn", &[]),
        ("metadata.a=x", &["two", "one"]),
        ("metadata.a=X&metadata.b=Y", &["one"]),
        // A key that is repeated counts once, by its first value.
        ("metadata.a=x&metadata.a=nothing", &["two", "one"]),
        ("metadata.a=nothing&metadata.a=x", &[]),
        (&format!("fingerprint={fingerprint}"), &["one"]),
        ("container=/pci/eu/", &["num"]),
        ("container=/pci/", &[]),
        ("container=/pci/*", &["num"]),
        ("container=/pii/high/&container=/pci/*", &["num", "ssn"]),
    ];
    for (query, expected) in table {
        assert_eq!(server.private.list(query).await, *expected, "{query}");
    }
    assert_eq!(
        server.private.get("/tokens?container=pci&size=0").await.faults(),
        ["container", "size"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_listed_is_masked_and_logged_and_what_is_gone_is_not_there() {
    let server = server().await;
    let page = server.private.get("/tokens?id=num").await.expect(200);
    assert_eq!(page["data"][0]["data"], "XXXXXXXXXXXX4242");
    let logs = server.management.get("/logs?entity_id=num&size=1").await.expect(200);
    assert_eq!(logs["data"][0]["message"], "Token listed");
    server.private.delete("/tokens/num").await.expect(204);
    assert_eq!(server.private.list("").await, ["ssn", "two", "one"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn cursors_go_on_whatever_happens_meanwhile() {
    let server = server().await;
    let page = |answer: Value| {
        let ids = answer["data"].as_array().unwrap().iter().map(|token| token["id"].clone());
        (ids.collect::<Vec<_>>(), answer["pagination"]["next"].as_str().map(str::to_owned))
    };
    let (ids, next) = page(server.private.get("/tokens?size=2").await.expect(200));
    assert_eq!(ids, ["num", "ssn"]);
    // The entry the cursor was made of goes, and a newer one comes.
    server.private.delete("/tokens/ssn").await.expect(204);
    server.clock.advance_ms(1);
    server.private.token("token", json!(3)).await;
    let path = format!("/tokens?size=1&start={}", next.unwrap());
    let (ids, next) = page(server.private.get(&path).await.expect(200));
    assert_eq!(ids, ["two"]);
    let path = format!("/tokens?size=1&start={}", next.unwrap());
    assert_eq!(page(server.private.get(&path).await.expect(200)), (vec![json!("one")], None));
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_without_a_key_is_refused_and_narrows_nothing() {
    let server = server().await;
    for query in ["metadata=x", "metadata[]=x", "metadata.=x"] {
        let answer = server.private.get(&format!("/tokens?{query}")).await;
        assert_eq!(answer.faults(), ["metadata"], "{query}");
    }
    let answer = server.private.get("/tokens?page=%FF").await;
    assert_eq!(answer.faults(), ["page"]);
}
