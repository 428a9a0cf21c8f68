//! Changing tokens by JSON Merge Patch (interface §4.1, decisions §3).

use std::collections::BTreeMap;

use futures::future::join_all;
use serde_json::{Value, json};

use crate::support::{Client, TestServer};

const CARD: &str = "/tokens/card";

async fn with_card() -> TestServer {
    let server = TestServer::start().await;
    let body = json!({"id": "card", "type": "card", "metadata": {"a": "1", "b": "2"},
        "data": {"number": "4242424242424242", "expiration_month": 12, "expiration_year": 2030}});
    server.private.post("/tokens", body).await.expect(201);
    server
}

/// The id of the application that a client's key belongs to.
async fn own_id(client: &Client) -> String {
    let own = client.get("/applications/key").await.expect(200);
    own["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_merge_patch_is_taken() {
    let server = with_card().await;
    for content_type in ["application/json", "text/plain", "application/json-patch+json"] {
        let request = server.private.request(reqwest::Method::PATCH, CARD).body("{}");
        let request = request.header("content-type", content_type);
        server.private.send(request).await.expect(415);
    }
    let body = server.private.patch(CARD, json!({})).await.expect(200);
    assert!(body["modified_at"].is_string());
    server.private.patch(CARD, json!([])).await.expect(400);
    server.private.patch("/tokens/nobody", json!({})).await.expect(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_no_content_type_is_no_merge_patch() {
    let server = with_card().await;
    let patch = r#"{"metadata": {"a": "9"}}"#;
    // Whether the token is there is looked at later (decisions §1).
    for path in [CARD, "/tokens/nobody"] {
        let request = || server.private.request(reqwest::Method::PATCH, path);
        for request in [request(), request().body(""), request().body("{}"), request().body(patch)]
        {
            server.private.send(request).await.expect(415);
        }
    }
    let unchanged = server.private.get(CARD).await.expect(200);
    assert_eq!(unchanged["metadata"], json!({"a": "1", "b": "2"}));
    assert!(unchanged.get("modified_at").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_changed_a_token_last_and_when_is_told_and_searched() {
    let server = with_card().await;
    let changer = server.application("private", &["token:update"], json!([])).await;
    let (first, second) = (own_id(&server.private).await, own_id(&changer).await);
    let made = server.private.get(CARD).await.expect(200);
    assert_eq!(made["created_by"], first.as_str());
    assert!(made.get("modified_by").is_none() && made.get("modified_at").is_none());
    let mut before: Option<&str> = None;
    // The last change counts, whoever made the token and whoever changed it before.
    for (client, by, other, at) in [
        (&changer, &second, &first, "2026-01-01T00:00:01.000+00:00"),
        (&server.private, &first, &second, "2026-01-01T00:00:02.000+00:00"),
    ] {
        server.clock.advance_ms(1_000);
        let changed = client.patch(CARD, json!({"metadata": {"at": at}})).await.expect(200);
        let read = server.private.get(CARD).await.expect(200);
        for shown in [changed, read] {
            assert_eq!(shown["created_by"], first.as_str(), "{shown}");
            assert_eq!(shown["created_at"], made["created_at"], "{shown}");
            assert_eq!(shown["modified_by"], by.as_str(), "{shown}");
            assert_eq!(shown["modified_at"], at, "{shown}");
        }
        let found = async |query: String| !server.private.search(&query).await.is_empty();
        assert!(found(format!("modified_by:{by} AND created_by:{first}")).await);
        assert!(!found(format!("modified_by:{other}")).await);
        assert!(found(format!("modified_at:\"{at}\"")).await);
        if let Some(before) = before.replace(at) {
            assert!(!found(format!("modified_at:\"{before}\"")).await);
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn data_mask_and_metadata_are_merged_and_the_rest_replaced() {
    let server = with_card().await;
    let reader = server.revealing().await;
    let before = reader.get(CARD).await.expect(200);
    let patch = json!({
        "data": {"expiration_year": 2032, "cvc": "123"},
        "metadata": {"a": null, "c": "3"},
        "containers": ["/pci/low/"],
        "search_indexes": ["{{ data.number | last4 }}"],
        "fingerprint_expression": "{{ data.number }}-{{ data.expiration_year }}",
        "expires_at": "2099-01-01T00:00:00Z",
        "id": "other", "type": "token", "unknown": 1,
    });
    server.private.patch(CARD, patch).await.expect(200);
    let after = reader.get(CARD).await.expect(200);
    assert_eq!(
        after["data"],
        json!({"number": "4242424242424242", "expiration_month": 12, "expiration_year": 2032,
            "cvc": "123"})
    );
    assert_eq!(after["metadata"], json!({"b": "2", "c": "3"}));
    assert_eq!(after["containers"], json!(["/pci/low/"]));
    assert_eq!((&after["id"], &after["type"]), (&json!("card"), &json!("card")));
    assert_eq!(after["expires_at"], "2099-01-01T00:00:00.000+00:00");
    assert_ne!(after["fingerprint"], before["fingerprint"]);
    assert_eq!(after["created_at"], before["created_at"]);
    // It is found by what it is now, and not by what it was.
    assert_eq!(server.private.search("data:4242").await, ["card"]);
    assert_eq!(server.private.search("container:\"/pci/high/\"").await, Vec::<String>::new());
    assert_eq!(server.private.search("metadata.c:3").await, ["card"]);
    let mask = json!({"mask": {"number": "{{ data.number | last4 }}", "expiration_month": null}});
    let masked = server.private.patch(CARD, mask).await.expect(200);
    assert_eq!(masked["data"]["number"], "4242");
    assert!(masked["data"].get("expiration_month").is_none());
    assert_eq!(masked["data"]["expiration_year"], 2032);
}

#[tokio::test(flavor = "multi_thread")]
async fn null_removes_or_puts_back_the_default() {
    let server = with_card().await;
    let patch =
        json!({"mask": null, "metadata": null, "containers": ["/x/"], "expires_at": "2099-01-01"});
    let after = server.private.patch(CARD, patch).await.expect(200);
    assert!(after.get("mask").is_none() && after.get("metadata").is_none());
    assert!(after.get("data").is_none());
    let after = server
        .private
        .patch(CARD, json!({"containers": null, "expires_at": null}))
        .await
        .expect(200);
    assert_eq!(after["containers"], json!(["/pci/high/"]));
    assert!(after.get("expires_at").is_none());
    // The default mask follows the data, to less and not to more.
    let second = json!({"id": "second", "type": "card",
        "data": {"number": "4242424242424242", "expiration_month": 1}});
    server.private.post("/tokens", second).await.expect(201);
    let path = "/tokens/second";
    let after = server.private.patch(path, json!({"data": {"expiration_month": null}})).await;
    assert_eq!(after.expect(200)["data"], json!({"number": "XXXXXXXXXXXX4242"}));
    let more = json!({"data": {"expiration_month": 2, "expiration_year": 2033}});
    let after = server.private.patch(path, more.clone()).await.expect(200);
    assert_eq!(after["data"], json!({"number": "XXXXXXXXXXXX4242"}));
    // What became of it stays the default's.
    let [month, none] =
        [1, 0].map(|month| json!({"data": {"expiration_month": (month > 0).then_some(month)}}));
    let third = json!({"id": "third", "type": "card",
        "data": {"number": "4242424242424242", "expiration_month": 1}});
    server.private.post("/tokens", third).await.expect(201);
    for (patch, shown) in [
        (&more, json!({"number": "XXXXXXXXXXXX4242", "expiration_month": 2})),
        (&none, json!({"number": "XXXXXXXXXXXX4242"})),
        (&month, json!({"number": "XXXXXXXXXXXX4242"})),
    ] {
        let after = server.private.patch("/tokens/third", patch.clone()).await.expect(200);
        assert_eq!(after["data"], shown);
    }
    // Nor does a mask that looks like it.
    let own = json!({"id": "own", "type": "card", "data": {"number": "4242424242424242"},
        "mask": {"number": "{{ data.number | reveal_last: 4 }}"}});
    server.private.post("/tokens", own).await.expect(201);
    let after = server.private.patch("/tokens/own", more).await.expect(200);
    assert_eq!(after["data"], json!({"number": "XXXXXXXXXXXX4242"}));
    let month = json!({"mask": {"expiration_month": "{{ data.expiration_month }}"}});
    let after = server.private.patch("/tokens/own", month).await.expect(200);
    assert_eq!(after["data"], json!({"number": "XXXXXXXXXXXX4242", "expiration_month": 2}));
    // Expressions stay as they are, even if there are none.
    let ssn = json!({"id": "ssn", "type": "social_security_number", "data": "123456789",
        "search_indexes": []});
    server.private.post("/tokens", ssn).await.expect(201);
    server.private.patch("/tokens/ssn", json!({"metadata": {"k": "v"}})).await.expect(200);
    assert_eq!(server.private.search("data:6789").await, Vec::<String>::new());
    server.private.patch("/tokens/ssn", json!({"search_indexes": null})).await.expect(200);
    assert_eq!(server.private.search("data:6789").await, ["ssn"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_result_is_checked_like_a_new_token() {
    let server = with_card().await;
    let table = [
        (json!({"data": null}), vec!["data"]),
        (json!({"data": {"number": "4242424242424243"}}), vec!["data.number"]),
        (json!({"data": {"number": null}}), vec!["data.number"]),
        (json!({"data": "text"}), vec!["data"]),
        (
            json!({"data": {"expiration_month": 13, "cvc": "x"}}),
            vec!["data.cvc", "data.expiration_month"],
        ),
        (json!({"mask": "{{ data.nothing }}"}), vec!["mask"]),
        (json!({"containers": []}), vec!["containers"]),
        (json!({"containers": ["x"], "metadata": {"k": 1}}), vec!["containers[0]", "metadata.k"]),
        (json!({"metadata": "x"}), vec!["metadata"]),
        (json!({"search_indexes": ["{{ data.nothing }}"]}), vec!["search_indexes[0]"]),
        (json!({"fingerprint_expression": "{{ data.nothing }}"}), vec!["fingerprint_expression"]),
        (json!({"expires_at": "2001-01-01T00:00:00Z"}), vec!["expires_at"]),
        (
            json!({"expires_at": "tomorrow", "deduplicate_token": 1}),
            vec!["deduplicate_token", "expires_at"],
        ),
    ];
    for (patch, expected) in table {
        let shown = patch.to_string();
        assert_eq!(server.private.patch(CARD, patch).await.faults(), expected, "{shown}");
    }
    let unchanged = server.private.get(CARD).await.expect(200);
    assert!(unchanged.get("modified_at").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_that_a_fingerprint_is_made_of_cannot_be_taken_away_from_it() {
    let server = TestServer::start().await;
    let contents = json!({"type": "token", "data": "x", "metadata": {"order": "17"},
        "fingerprint_expression": "{{ data }}-{{ metadata.order }}", "deduplicate_token": true});
    let mut named = contents.clone();
    named["id"] = json!("a1a");
    let made = server.private.post("/tokens", named).await.expect(201);
    let path = "/tokens/a1a";
    for metadata in [json!({"order": null}), Value::Null] {
        let answer = server.private.patch(path, json!({"metadata": metadata})).await;
        assert_eq!(answer.faults(), ["fingerprint_expression"], "{metadata}");
    }
    // What is found by its contents has them still.
    let found = server.private.post("/tokens", contents).await.expect(200);
    assert_eq!((&found["id"], &found["metadata"]), (&json!("a1a"), &json!({"order": "17"})));
    // With another expression they may go.
    let patch = json!({"metadata": null, "fingerprint_expression": "{{ data }}"});
    let changed = server.private.patch(path, patch).await.expect(200);
    assert!(changed.get("metadata").is_none() && changed["fingerprint"] != made["fingerprint"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn moving_needs_a_rule_for_every_destination() {
    let server = with_card().await;
    let rules = json!([{"description": "", "priority": 1, "container": "/pci/", "transform": "mask",
        "permissions": ["token:update"]}]);
    let client = server.application("private", &[], rules).await;
    client.patch(CARD, json!({"containers": ["/pci/low/", "/pci/eu/"]})).await.expect(200);
    client.patch(CARD, json!({"containers": ["/pci/low/", "/bank/"]})).await.expect(403);
    client.patch(CARD, json!({"metadata": {"k": "v"}})).await.expect(200);
    // One rule is enough to change a token that lies elsewhere too, as long as it stays there.
    let both = json!({"containers": ["/pci/low/", "/bank/"]});
    server.private.patch(CARD, both.clone()).await.expect(200);
    client.patch(CARD, json!({"metadata": {"k": "w"}})).await.expect(200);
    client.patch(CARD, both).await.expect(200);
    // In another order they are the same places.
    client.patch(CARD, json!({"containers": ["/bank/", "/pci/low/"]})).await.expect(200);
    server.private.patch(CARD, json!({"containers": ["/bank/"]})).await.expect(200);
    client.patch(CARD, json!({})).await.expect(403);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_acknowledged_change_is_lost() {
    let server = with_card().await;
    let change = async |number: usize| {
        let patch = json!({"metadata": {format!("n{number}"): "x"}});
        (number, server.private.patch(CARD, patch).await)
    };
    let answers = join_all((0..40).map(change)).await;
    let metadata = server.private.get(CARD).await.expect(200)["metadata"].clone();
    let metadata: BTreeMap<String, Value> = serde_json::from_value(metadata).unwrap();
    let mut kept = 0;
    for (number, answer) in answers {
        match answer.status.as_u16() {
            200 => kept += usize::from(metadata.contains_key(&format!("n{number}"))),
            status => {
                assert_eq!(status, 409);
                kept += usize::from(!metadata.contains_key(&format!("n{number}")));
            }
        }
    }
    assert_eq!(kept, 40);
    assert!(metadata.len() > 2);
}
