//! The rules of the specification on tokens and keys, one test each, named after its number or section (interface §2.2,
//! §4.1, §5). Those of §4.2 stand in `search`, those of §4.5 in `rules_react`.

use reqwest::Method;
use serde_json::{Value, json};
use tokamak::limits::SWEEP_INTERVAL_MS;

use crate::support::{TestServer, guests};

const HOUR_MS: u64 = 3_600_000;

async fn messages(server: &TestServer, id: &str) -> Vec<String> {
    let logs = server.management.get(&format!("/logs?entity_id={id}")).await.expect(200);
    let entries = logs["data"].as_array().unwrap().iter();
    entries.map(|entry| entry["message"].as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn section_2_2_rule_1_without_expires_at_a_token_stays() {
    let server = TestServer::start().await;
    let made =
        server.private.post("/tokens", json!({"type": "token", "data": 1})).await.expect(201);
    assert!(made.get("expires_at").is_none(), "{made}");
    server.clock.advance_ms(50 * 365 * 24 * HOUR_MS);
    assert_eq!(server.vault.sweep().await.unwrap().0, 0);
    server.private.get(&format!("/tokens/{}", made["id"].as_str().unwrap())).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn section_2_2_rule_2_an_expired_token_is_deleted_within_the_hour() {
    const { assert!(SWEEP_INTERVAL_MS <= HOUR_MS) };
    let server = TestServer::start().await;
    let body = json!({"id": "soon", "type": "token", "data": 1,
        "expires_at": "2026-01-01T00:30:00Z"});
    server.private.post("/tokens", body).await.expect(201);
    server.clock.advance_ms(HOUR_MS / 2);
    server.private.get("/tokens/soon").await.expect(404);
    assert_eq!(server.vault.sweep().await.unwrap().0, 1);
    assert_eq!(messages(&server, "soon").await[0], "Token expired");
    // Nobody did that: neither an application nor a person.
    let logs = server.management.get("/logs?entity_id=soon").await.expect(200);
    assert!(logs["data"][0].get("actor_type").is_none(), "{logs}");
}

#[tokio::test(flavor = "multi_thread")]
async fn section_2_2_rule_3_forms_of_expires_at() {
    let server = TestServer::start().await;
    for (given, shown) in [
        ("2030-08-26T19:23:57.5-04:00", "2030-08-26T23:23:57.500+00:00"),
        ("2030-08-26T19:23:57", "2030-08-26T19:23:57.000+00:00"),
        ("8/26/2030", "2030-08-26T00:00:00.000+00:00"),
        ("8/26/2030 12:00:00 AM +01:00", "2030-08-25T23:00:00.000+00:00"),
    ] {
        let body = json!({"type": "token", "data": 1, "expires_at": given});
        let made = server.private.post("/tokens", body).await.expect(201);
        assert_eq!(made["expires_at"], shown, "{given}");
    }
    for wrong in ["26/8/2030", "tomorrow", "2030-13-01", "1/1/2026", "2025-12-31T23:59:59Z", ""] {
        let body = json!({"type": "token", "data": 1, "expires_at": wrong});
        let answer = server.private.post("/tokens", body).await;
        assert_eq!(answer.faults(), ["expires_at"], "{wrong}");
    }
}

/// What may not be sensitive is what everybody sees who sees the token at all.
#[tokio::test(flavor = "multi_thread")]
async fn section_2_2_rule_4_id_and_metadata_are_shown_under_every_transform() {
    let server = TestServer::start().await;
    let body = json!({"id": "an id", "type": "token", "data": "secret", "metadata": {"k": "v"}});
    server.private.post("/tokens", body).await.expect(201);
    for transform in ["redact", "mask", "reveal"] {
        let rule = json!([{"priority": 1, "container": "/", "transform": transform,
            "permissions": ["token:read"]}]);
        let reader = server.application("private", &[], rule).await;
        let shown = reader.get("/tokens/an%20id").await.expect(200);
        assert_eq!((&shown["id"], &shown["metadata"]["k"]), (&json!("an id"), &json!("v")));
        assert_eq!(shown.get("data").is_some(), transform == "reveal", "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn section_2_2_rule_5_a_deleted_token_leaves_its_reference_alone() {
    let server = TestServer::start().await;
    let body = json!({"id": "gone", "type": "social_security_number", "data": "123-45-6789"});
    server.private.post("/tokens", body).await.expect(201);
    assert_eq!(server.private.search("data:6789").await, ["gone"]);
    server.private.delete("/tokens/gone").await.expect(204);
    server.private.get("/tokens/gone").await.expect(404);
    assert_eq!(server.private.search("data:6789").await, Vec::<String>::new());
    assert_eq!(messages(&server, "gone").await[0], "Token deleted");
}

#[tokio::test(flavor = "multi_thread")]
async fn section_4_1_create_has_the_defaults_of_the_table() {
    let server = TestServer::start().await;
    let made = server.private.post("/tokens", json!({"type": "token", "data": {"a": 1}})).await;
    let made = made.expect(201);
    assert!(uuid::Uuid::parse_str(made["id"].as_str().unwrap()).is_ok());
    assert_eq!(made["containers"], json!(["/general/high/"]));
    for absent in ["mask", "metadata", "search_indexes", "deduplicate_token", "expires_at"] {
        assert!(made.get(absent).is_none(), "{absent} in {made}");
    }
    // The default fingerprint is that of the whole data.
    let body = json!({"type": "token", "data": {"a": 1},
        "fingerprint_expression": "{{ data | stringify }}"});
    let other = server.private.post("/tokens", body).await.expect(201);
    assert_eq!(other["fingerprint"], made["fingerprint"]);
    assert_eq!(server.private.post("/tokens", json!({})).await.faults(), ["data", "type"]);
    for (index, data) in [
        ("{{ data.none }}", json!({"a": 1})),
        ("{{ data.a }}", json!({"a": null})),
        ("{{ data.a }}", json!({"a": ""})),
        ("{{ data.a }}", json!({"a": [1]})),
        ("{{ data.a }}", json!({"a": {"b": 1}})),
        ("{{ data.a | nothing }}", json!({"a": 1})),
    ] {
        let body = json!({"type": "token", "data": data, "search_indexes": ["{{ 1 }}", index]});
        let answer = server.private.post("/tokens", body).await;
        assert_eq!(answer.faults(), ["search_indexes[1]"], "{index} on {data}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn section_4_1_list_filters_narrow_and_a_repeated_metadata_key_counts_once() {
    let server = TestServer::start().await;
    for (id, kind, metadata) in [
        ("one", "token", json!({"Color": "Red", "size": "L"})),
        ("two", "token", json!({"Color": "Blue", "size": "L"})),
        ("three", "card_number", json!({"Color": "RED"})),
    ] {
        let body = json!({"id": id, "type": kind, "data": "4242424242424242",
            "metadata": metadata});
        server.private.post("/tokens", body).await.expect(201);
    }
    for (query, mut expected) in [
        ("", vec!["one", "two", "three"]),
        ("id=one&id=three&id=none", vec!["one", "three"]),
        ("id[]=one&id[]=two", vec!["one", "two"]),
        ("type=token", vec!["one", "two"]),
        ("type=token&type=card_number", vec!["one", "two", "three"]),
        ("metadata.Color=red", vec!["one", "three"]),
        ("metadata.Color=red&metadata.size=l", vec!["one"]),
        ("metadata.Color=red&metadata.Color=blue", vec!["one", "three"]),
        ("metadata.Color=re", vec![]),
        ("metadata.Color=red&type=card_number&id=one", vec![]),
    ] {
        let mut found = server.private.list(query).await;
        found.sort();
        expected.sort_unstable();
        assert_eq!(found, expected, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn section_4_1_update_merges_and_replaces_as_the_table_says() {
    let server = TestServer::start().await;
    let reader = server.revealing().await;
    let body = json!({"id": "ours", "type": "token", "data": {"a": 1, "b": 2},
        "mask": {"a": "{{ data.a }}", "x": "y"}, "metadata": {"k": "v", "l": "w"},
        "containers": ["/one/", "/two/"], "search_indexes": ["{{ data.a }}", "{{ data.b }}"],
        "fingerprint_expression": "{{ data.a }}", "deduplicate_token": false,
        "expires_at": "1/1/2030"});
    let made = reader.post("/tokens", body).await.expect(201);
    let patch = json!({"data": {"b": null, "c": 3}, "mask": {"x": null},
        "metadata": {"k": null, "m": "n"}, "containers": ["/three/"],
        "search_indexes": ["{{ data.c }}"], "fingerprint_expression": "{{ data.c }}",
        "deduplicate_token": true, "expires_at": "1/1/2031"});
    let patched = reader.patch("/tokens/ours", patch).await.expect(200);
    for (member, expected) in [
        ("data", json!({"a": 1, "c": 3})),
        ("mask", json!({"a": "{{ data.a }}"})),
        ("metadata", json!({"l": "w", "m": "n"})),
        ("containers", json!(["/three/"])),
        ("search_indexes", json!(["{{ data.c }}"])),
        ("fingerprint_expression", json!("{{ data.c }}")),
        ("deduplicate_token", json!(true)),
        ("expires_at", json!("2031-01-01T00:00:00.000+00:00")),
    ] {
        assert_eq!(patched[member], expected, "{member}");
    }
    assert_ne!(patched["fingerprint"], made["fingerprint"]);
    assert_eq!(patched["created_at"], made["created_at"]);
    assert!(patched["modified_by"].is_string() && patched["modified_at"].is_string());
    assert_eq!(reader.get("/tokens/ours").await.expect(200), patched);
    assert_eq!(reader.search("data:3").await, ["ours"]);
    assert_eq!(reader.search("data:1").await, Vec::<String>::new());
    assert_eq!(reader.patch("/tokens/ours", json!({})).await.expect(200)["data"], patched["data"]);
    for content_type in ["application/json", "text/plain", "application/json-patch+json"] {
        let request = reader.request(Method::PATCH, "/tokens/ours").body("{}");
        reader.send(request.header("content-type", content_type)).await.expect(415);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn section_4_1_update_to_a_duplicate_shows_nothing_of_it_to_who_may_not_read_it() {
    let server = TestServer::start().await;
    let secret = json!({"id": "original", "type": "token", "data": "same", "mask": "m",
        "metadata": {"k": "v"}, "containers": ["/hidden/"], "search_indexes": ["{{ data }}"],
        "fingerprint_expression": "{{ data }}"});
    server.private.post("/tokens", secret).await.expect(201);
    let rule = json!([{"priority": 1, "container": "/own/", "transform": "reveal",
        "permissions": ["token:create", "token:update", "token:read"]}]);
    let narrow = server.application("private", &[], rule).await;
    let own = json!({"id": "mine", "type": "token", "data": "other", "containers": ["/own/"]});
    narrow.post("/tokens", own).await.expect(201);
    let patch = json!({"data": "same", "deduplicate_token": true,
        "fingerprint_expression": "{{ data }}"});
    let shown = narrow.patch("/tokens/mine", patch).await.expect(200);
    assert_eq!(
        (&shown["id"], &shown["_extras"]["deduplicated"]),
        (&json!("original"), &json!(true))
    );
    for redacted in ["data", "metadata", "fingerprint_expression", "search_indexes", "mask"] {
        assert!(shown.get(redacted).is_none(), "{redacted} in {shown}");
    }
    narrow.get("/tokens/mine").await.expect(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn section_4_1_delete_answers_with_nothing_and_once() {
    let server = TestServer::start().await;
    let id = server.private.token("token", json!(1)).await;
    let answer = server.private.delete(&format!("/tokens/{id}")).await;
    assert_eq!((answer.status.as_u16(), answer.bytes.len()), (204, 0));
    server.private.delete(&format!("/tokens/{id}")).await.expect(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn section_5_rules_1_to_3_the_key_is_the_applications_until_it_is_replaced() {
    let server = TestServer::start().await;
    server.stranger().get("/applications/key").await.expect(401);
    let body = json!({"name": "n", "type": "private", "permissions": ["token:read"]});
    let made = server.management.post("/applications", body).await.expect(201);
    let client = server.client(made["key"].as_str().unwrap());
    let itself = client.get("/applications/key").await.expect(200);
    assert_eq!(itself["id"], made["id"]);
    assert!(itself.get("key").is_none(), "{itself}");
    client.post("/tokens", json!({"type": "token", "data": 1})).await.expect(403);
    let path = format!("/applications/{}/regenerate", made["id"].as_str().unwrap());
    let key = server.management.post(&path, json!({})).await.expect(200)["key"].clone();
    client.get("/applications/key").await.expect(401);
    let client = server.client(key.as_str().unwrap());
    assert_eq!(client.get("/applications/key").await.expect(200)["id"], made["id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn section_5_rule_4_reads_lists_and_searches_follow_the_transform() {
    let server = TestServer::start().await;
    server.private.token("card_number", json!("4242424242424242")).await;
    for (transform, shown) in [
        ("redact", Value::Null),
        ("mask", json!("XXXXXXXXXXXX4242")),
        ("reveal", json!("4242424242424242")),
    ] {
        let rule = json!([{"priority": 1, "container": "/pci/", "transform": transform,
            "permissions": ["token:read", "token:search"]}]);
        let reader = server.application("private", &[], rule).await;
        let list = reader.get("/tokens").await.expect(200);
        assert_eq!(list["data"][0]["data"], shown);
        let found = reader.post("/tokens/search", json!({"query": "type:card_number"})).await;
        assert_eq!(found.expect(200)["data"][0]["data"], shown);
        let id = list["data"][0]["id"].as_str().unwrap();
        assert_eq!(reader.get(&format!("/tokens/{id}")).await.expect(200)["data"], shown);
    }
}

/// A container is what a condition's `value` is compared with, and it is one itself: of whole segments (decisions §2).
/// `/pci` for `/pci-old/` too is a grant by mistake, and no index of containers could tell how many tokens it covers.
#[tokio::test(flavor = "multi_thread")]
async fn section_2_3_a_condition_on_containers_takes_whole_segments() {
    let server = TestServer::start().await;
    let public = server.application("public", &["token:create"], json!([])).await;
    let nonce = public.post("/sessions", json!({})).await.expect(201)["nonce"].clone();
    let grant = |value: &str, operator: &str| {
        json!({"nonce": nonce, "rules": [{"priority": 1, "transform": "mask",
            "permissions": ["token:read"],
            "conditions": [{"attribute": "container", "operator": operator, "value": value}]}]})
    };
    for value in ["/pci", "/pci/hi", "pci/", "/p*/"] {
        for operator in ["starts_with", "equals"] {
            let answer = server.private.post("/sessions/authorize", grant(value, operator)).await;
            assert_eq!(answer.faults(), ["rules[0].conditions[0].value"], "{operator} {value}");
        }
    }
    let right = grant("/PCI/", "starts_with");
    server.private.post("/sessions/authorize", right).await.expect(200);
}

/// A session has no address of its own, so that none is named: whoever holds its key is the session.
#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_created_without_a_place() {
    let server = TestServer::start().await;
    let public = server.application("public", &["token:create"], json!([])).await;
    let answer = public.post("/sessions", json!({})).await;
    answer.expect(201);
    assert!(!answer.headers.contains_key("location"));
    // As everything else that is created does, by an address that answers.
    let made = server.private.post("/tokens", json!({"type": "token", "data": 1})).await;
    let place = made.headers["location"].to_str().unwrap();
    server.private.get(place).await.expect(200);
    let formula = guests::formula(&server, "bare", json!({})).await;
    let body = json!({"name": "r", "formula": {"id": formula}, "configuration": {}});
    let made = server.management.post("/reactors", body).await;
    server.management.get(made.headers["location"].to_str().unwrap()).await.expect(200);
}
