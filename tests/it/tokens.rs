//! Tokens: create, get, delete (interface §2.2, §4.1; decisions §3).

use std::sync::Arc;

use futures::FutureExt as _;
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokamak::store::{Batch, StoreFuture};

use crate::support::operator::TOKEN;
use crate::support::server::{Setup, open_store};
use crate::support::wrapped::{Hook, Wrapped};
use crate::support::{SAMPLES, TestServer};

#[tokio::test(flavor = "multi_thread")]
async fn every_type_with_its_defaults() {
    let server = TestServer::start().await;
    let mut table = Vec::new();
    for (kind, data) in SAMPLES {
        let data: Value = serde_json::from_str(data).unwrap();
        let body = json!({"type": kind, "data": data});
        let answer = server.private.post("/tokens", body).await;
        let made = answer.expect(201);
        let id = made["id"].as_str().unwrap();
        assert_eq!(answer.headers["location"], format!("/tokens/{id}"));
        assert_eq!(server.private.get(&format!("/tokens/{id}")).await.expect(200), made);
        let revealed = server.revealing().await.get(&format!("/tokens/{id}")).await.expect(200);
        assert_eq!(revealed["data"], data, "{kind}");
        table.push(json!({"type": kind, "masked": made.get("data"), "mask": made.get("mask"),
            "containers": made["containers"], "search_indexes": made.get("search_indexes")}));
    }
    insta::assert_json_snapshot!(table);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_given_is_kept() {
    let server = TestServer::start().await;
    let body = json!({
        "id": "order 17: card", "type": "card",
        "data": {"number": "4242424242424242", "expiration_month": 1, "expiration_year": 2031,
            "cvc": "1234", "holder": "J. Doe"},
        "mask": {"ends": "{{ data.number | last4 }}", "year": "{{ data.expiration_year }}"},
        "containers": ["/PCI/Low/", "/pci/low/", "/orders/"],
        "metadata": {"order": "17"}, "search_indexes": ["{{ data.number | last4 }}"],
        "fingerprint_expression": "{{ data.number }}{{ metadata.order }}",
        "deduplicate_token": false, "expires_at": "8/26/2030 7:23:57 PM +00:00",
    });
    let made = server.private.post("/tokens", body).await.expect(201);
    assert_eq!(made["id"], "order 17: card");
    assert_eq!(made["data"], json!({"ends": "4242", "year": 2031}));
    assert_eq!(made["containers"], json!(["/pci/low/", "/orders/"]));
    assert_eq!(made["metadata"], json!({"order": "17"}));
    assert_eq!(made["search_indexes"], json!(["{{ data.number | last4 }}"]));
    assert_eq!(made["fingerprint_expression"], "{{ data.number }}{{ metadata.order }}");
    assert_eq!(made["expires_at"], "2030-08-26T19:23:57.000+00:00");
    assert_eq!(made["created_at"], "2026-01-01T00:00:00.000+00:00");
    assert!(made["created_by"].is_string());
    let read = server.private.get("/tokens/order%2017%3A%20card").await.expect(200);
    assert_eq!(read, made);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_is_named_and_no_value_quoted() {
    let server = TestServer::start().await;
    let token = |change: Value| {
        let mut body = json!({"type": "token", "data": "sensitive"});
        body.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        body
    };
    let card = |data: Value| json!({"type": "card", "data": data});
    let many: Vec<String> = (0..21).map(|index| format!("/c{index}/")).collect();
    let long_key = format!("metadata.{}…", "k".repeat(64));
    for (body, expected) in [
        (json!({}), vec!["data", "type"]),
        (json!({"type": "token"}), vec!["data"]),
        (json!({"type": 5, "data": 1}), vec!["type"]),
        (token(json!({"id": "ab"})), vec!["id"]),
        (token(json!({"id": "a/b/c"})), vec!["id"]),
        (token(json!({"id": "token:abc"})), vec!["id"]),
        (token(json!({"id": "token:{{ data | size }}"})), vec!["id"]),
        (token(json!({"id": "{{ data | nothing }}"})), vec!["id"]),
        (token(json!({"mask": "{{ data | nothing }}"})), vec!["mask"]),
        (token(json!({"mask": {"a": ["{{ data | to_number }}"]}})), vec!["mask.a[0]"]),
        (token(json!({"mask": "{% if data %}{% endif %}"})), vec!["mask"]),
        (token(json!({"containers": []})), vec!["containers"]),
        (token(json!({"containers": many})), vec!["containers"]),
        (token(json!({"containers": ["/a/", "b"]})), vec!["containers[1]"]),
        (token(json!({"containers": "/a/"})), vec!["containers"]),
        (
            token(json!({"metadata": {"a": 1, "b": "x".repeat(1001)}})),
            vec!["metadata.a", "metadata.b"],
        ),
        (token(json!({"metadata": {"k".repeat(65): "v"}})), vec![&long_key]),
        (
            token(json!({"search_indexes": ["{{ data }}", "{{ data.x }}"]})),
            vec!["search_indexes[1]"],
        ),
        (
            token(json!({"search_indexes": ["{{ data | remove: 'sensitive' }}"]})),
            vec!["search_indexes[0]"],
        ),
        (token(json!({"search_indexes": vec!["{{ data }}"; 21]})), vec!["search_indexes"]),
        (
            token(json!({"fingerprint_expression": "{{ data | nothing }}"})),
            vec!["fingerprint_expression"],
        ),
        (token(json!({"deduplicate_token": "yes"})), vec!["deduplicate_token"]),
        (token(json!({"expires_at": "1/1/2020"})), vec!["expires_at"]),
        (token(json!({"expires_at": "whenever"})), vec!["expires_at"]),
        (card(json!("4242424242424242")), vec!["data"]),
        (card(json!({})), vec!["data.number"]),
        (card(json!({"number": "4242424242424241"})), vec!["data.number"]),
        (
            card(
                json!({"number": "4242424242424242", "expiration_month": 13, "expiration_year": 99,
            "cvc": "12"}),
            ),
            vec!["data.cvc", "data.expiration_month", "data.expiration_year"],
        ),
        (
            json!({"type": "bank", "data": {"routing_number": "021000022",
            "account_number": "123456789012345678"}}),
            vec!["data.account_number", "data.routing_number"],
        ),
        (json!({"type": "social_security_number", "data": "12345678"}), vec!["data"]),
    ] {
        let answer = server.private.post("/tokens", body.clone()).await;
        assert_eq!(answer.faults(), expected, "{body}");
        assert!(!answer.text().contains("sensitive"), "{}", answer.text());
        assert!(!answer.text().contains("424242"), "{}", answer.text());
    }
    let body = json!({"type": "credit", "data": 1});
    let text = server.private.post("/tokens", body).await.text();
    for (kind, _) in SAMPLES {
        assert!(text.contains(kind), "an unknown type lists {kind}: {text}");
    }
    let large = json!({"type": "token", "data": "x".repeat((1 << 20) + 1)});
    assert_eq!(server.private.post("/tokens", large).await.faults(), ["data"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn fingerprints_tell_equal_contents_of_one_type_in_one_tenant() {
    let server = TestServer::start().await;
    let print = async |client: &crate::support::Client, kind: &str, data: Value| {
        let body = json!({"type": kind, "data": data});
        client.post("/tokens", body).await.expect(201)["fingerprint"].clone()
    };
    let private = &server.private;
    let one = print(private, "token", json!({"a": 1, "b": [true]})).await;
    assert_eq!(print(private, "token", json!({"b": [true], "a": 1})).await, one);
    // A hash of 256 bits, in base58.
    let hash = bs58::decode(one.as_str().unwrap()).into_vec();
    assert_eq!(hash.map(|hash| hash.len()), Ok(32), "{one}");
    assert_ne!(print(private, "token", json!({"a": 2, "b": [true]})).await, one);
    let ssn = print(private, "social_security_number", json!("123-45-6789")).await;
    assert_eq!(print(private, "social_security_number", json!("123456789")).await, ssn);
    assert_ne!(print(private, "employer_id_number", json!("123456789")).await, ssn);
    let card = json!({"number": "4242424242424242", "cvc": "123"});
    let card = print(private, "card", card).await;
    assert_eq!(print(private, "card", json!({"number": "4242424242424242"})).await, card);
    let other = server.other_tenant().await;
    let body = json!({"name": "p", "type": "private", "permissions": ["token:create"]});
    let key = other.post("/applications", body).await.expect(201)["key"].clone();
    let other = server.client(key.as_str().unwrap());
    assert_ne!(print(&other, "card", json!({"number": "4242424242424242"})).await, card);
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_may_be_chosen_evaluated_or_drawn() {
    let server = TestServer::start().await;
    let chosen = json!({"id": "my-token", "type": "token", "data": 1});
    server.private.post("/tokens", chosen.clone()).await.expect(201);
    assert_eq!(server.private.post("/tokens", chosen).await.expect(409)["title"], "Conflict");
    let alias = json!({"id": "{{ data.number | alias_card: true, true }}", "type": "card",
        "data": {"number": "4242424242424242"}});
    let made = server.private.post("/tokens", alias).await.expect(201);
    let id = made["id"].as_str().unwrap();
    assert!(id.len() == 16 && id.starts_with("4242") && id.ends_with("4242"), "{id}");
    // An expression that never gives another value ends in an id of our own.
    let fixed = json!({"id": "fixed-{{ data }}", "type": "token", "data": 7});
    let first = server.private.post("/tokens", fixed.clone()).await.expect(201);
    assert_eq!(first["id"], "fixed-7");
    let second = server.private.post("/tokens", fixed).await.expect(201);
    assert!(uuid::Uuid::parse_str(second["id"].as_str().unwrap()).is_ok());
}

/// Each second value that is drawn belongs to somebody: one draw would find a free one half of the time.
#[tokio::test(flavor = "multi_thread")]
async fn an_alias_that_is_taken_is_drawn_anew() {
    const ROUNDS: usize = 20;
    let server = TestServer::start().await;
    for taken in 0..5 {
        let body = json!({"id": format!("alias-{taken}"), "type": "token", "data": 1});
        server.private.post("/tokens", body).await.expect(201);
    }
    let body = json!({"type": "token", "data": "alias-9",
        "id": "{{ data | alias_preserve_format: 6, 0 }}"});
    let mut free = 0;
    for _ in 0..ROUNDS {
        let made = server.private.post("/tokens", body.clone()).await.expect(201);
        let id = made["id"].as_str().unwrap();
        let is_alias = ["alias-5", "alias-6", "alias-7", "alias-8", "alias-9"].contains(&id);
        assert!(is_alias || uuid::Uuid::parse_str(id).is_ok(), "{id}");
        free += usize::from(is_alias);
        server.private.delete(&format!("/tokens/{id}")).await.expect(204);
    }
    // Of a thousand aliases one is not found in ten draws.
    assert!(free >= ROUNDS - 2, "{free} of {ROUNDS}");
}

/// Takes note of the ids under which tokens were to be stored.
#[derive(Default)]
struct Ids(Mutex<Vec<String>>);

impl Hook for Ids {
    fn before<'a>(&'a self, batch: Option<&'a Batch>) -> StoreFuture<'a, ()> {
        let tokens = batch.iter().flat_map(|batch| &batch.puts);
        let tokens = tokens.filter(|put| put.record.kind == TOKEN);
        self.0.lock().extend(tokens.map(|put| put.record.id.clone()));
        async { Ok(()) }.boxed()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_alias_is_drawn_ten_times_before_an_id_of_our_own_is_taken() {
    let folder = tempfile::tempdir().unwrap();
    let store = Wrapped::<Ids>::new(open_store(&folder.path().join("store")).await);
    let setup = Setup { store: Some(Arc::clone(&store) as _), ..Setup::default() };
    let server = TestServer::start_with(setup).await;
    let fixed = json!({"id": "fixed-{{ data }}", "type": "token", "data": 7});
    server.private.post("/tokens", fixed.clone()).await.expect(201);
    store.hook.0.lock().clear();
    let made = server.private.post("/tokens", fixed).await.expect(201);
    let mut expected = vec!["fixed-7"; 10];
    expected.push(made["id"].as_str().unwrap());
    assert_eq!(*store.hook.0.lock(), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_token_is_gone_and_leaves_its_reference_in_the_log() {
    let server = TestServer::start().await;
    let id = server.private.token("card_number", json!("4242424242424242")).await;
    let path = format!("/tokens/{id}");
    assert_eq!(server.private.delete(&path).await.expect(204), Value::Null);
    server.private.get(&path).await.expect(404);
    server.private.delete(&path).await.expect(404);
    let logs = server.management.get(&format!("/logs?entity_id={id}")).await.expect(200);
    let operations: Vec<_> =
        logs["data"].as_array().unwrap().iter().map(|entry| entry["operation"].clone()).collect();
    assert_eq!(operations, ["delete", "create"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_token_fails_at_once_and_is_swept() {
    let server = TestServer::start().await;
    let body = json!({"type": "token", "data": 1, "expires_at": "2026-01-01T00:10:00Z"});
    let made = server.private.post("/tokens", body).await.expect(201);
    let path = format!("/tokens/{}", made["id"].as_str().unwrap());
    server.private.get(&path).await.expect(200);
    server.clock.advance_ms(600_000);
    server.private.get(&path).await.expect(404);
    assert_eq!(server.vault.sweep().await.unwrap().0, 1);
    let body = json!({"id": made["id"], "type": "token", "data": 2});
    server.private.post("/tokens", body).await.expect(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_mask_that_draws_may_show_nothing_but_never_fails() {
    let server = TestServer::start().await;
    // Letters and digits are drawn alike.
    let mask = "{{ data | alias_preserve_length | to_number }}";
    let body = json!({"type": "token", "data": "7", "mask": mask});
    let mut made = server.private.post("/tokens", body.clone()).await;
    while made.status == 400 {
        made = server.private.post("/tokens", body.clone()).await;
    }
    let path = format!("/tokens/{}", made.expect(201)["id"].as_str().unwrap());
    for _ in 0..100 {
        let seen = server.private.get(&path).await.expect(200);
        assert!(seen.get("data").is_none_or(Value::is_number), "{seen}");
    }
    for number in 0..50 {
        let patch = json!({"metadata": {"number": number.to_string()}});
        server.private.patch(&path, patch).await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_token_is_found_and_told_apart_by_is_the_same_each_time() {
    let server = TestServer::start().await;
    for source in [
        "{{ data | alias_preserve_length }}",
        "{{ 'now' | date: '%s' }}",
        "{{ ' Today ' | date: '%s' }}",
    ] {
        let body = json!({"type": "token", "data": "abc", "fingerprint_expression": source,
            "search_indexes": ["{{ data }}", source]});
        let refused = server.private.post("/tokens", body).await;
        assert_eq!(refused.faults(), ["fingerprint_expression", "search_indexes[1]"], "{source}");
    }
    // A text that is no moment to a mask is none here either.
    let body = json!({"type": "token", "data": "nowhere", "mask": "{{ 'today' | date: '%Y' }}",
        "fingerprint_expression": "{{ data | date: '%Y' }}"});
    server.private.post("/tokens", body).await.expect(201);
    // The default is the same when it is written out, also for data that is nothing.
    let body =
        json!({"type": "token", "data": "", "fingerprint_expression": "{{ data | stringify }}"});
    server.private.post("/tokens", body).await.expect(201);
    // But nothing tells no contents from others.
    for (source, data) in [("{{ data.a }}", json!({"a": ""})), ("{{ data.a }}", json!({"a": null}))]
    {
        let body = json!({"type": "token", "data": data, "fingerprint_expression": source});
        let refused = server.private.post("/tokens", body).await;
        assert_eq!(refused.faults(), ["fingerprint_expression"], "{data}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn months_and_years_are_whole_numbers_however_they_come() {
    let server = TestServer::start().await;
    let reader = server.revealing().await;
    let data =
        json!({"number": "4242424242424242", "expiration_month": 12.0, "expiration_year": 2030.0});
    let made = reader.post("/tokens", json!({"id": "card", "type": "card", "data": data})).await;
    let made = made.expect(201);
    let text = made["data"].to_string();
    assert!(text.contains("\"expiration_month\":12,") && text.contains(":2030"), "{text}");
    let patched = reader.patch("/tokens/card", json!({"data": {"expiration_month": 1.0}})).await;
    assert!(patched.expect(200)["data"]["expiration_month"].is_u64());
}

#[tokio::test(flavor = "multi_thread")]
async fn metadata_is_there_for_fingerprints_alone() {
    let server = TestServer::start().await;
    let with = |member: &str, value: Value| {
        let mut body = json!({"type": "token", "data": "x", "metadata": {"order": "17"}});
        body[member] = value;
        body
    };
    let expression = "{{ data }}-{{ metadata.order }}";
    let fingerprint = with("fingerprint_expression", json!(expression));
    server.private.post("/tokens", fingerprint).await.expect(201);
    for (member, value, fault) in [
        ("search_indexes", json!([expression]), "search_indexes[0]"),
        ("id", json!(expression), "id"),
        ("mask", json!(expression), "mask"),
    ] {
        let answer = server.private.post("/tokens", with(member, value)).await;
        assert_eq!(answer.faults(), [fault]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_id_that_is_an_address_of_its_own_is_refused() {
    let server = TestServer::start().await;
    for id in ["search", "{{ data }}"] {
        let body = json!({"id": id, "type": "token", "data": "search"});
        let answer = server.private.post("/tokens", body).await;
        assert_eq!(answer.faults(), ["id"], "{id}");
        let reason = answer.json()["errors"]["id"][0].as_str().unwrap().to_owned();
        assert_eq!(reason, "must not be search, which is an address of its own");
    }
    let body = json!({"id": "search-1", "type": "token", "data": 1});
    server.private.post("/tokens", body).await.expect(201);
    server.private.get("/tokens/search-1").await.expect(200);
    let reference = json!("{{ search }}");
    server.private.post("/detokenize", reference).await.expect(400);
}

/// Names that a parser of JSON has for its own use, where some feature of it is on.
#[tokio::test(flavor = "multi_thread")]
async fn no_name_of_a_member_is_anything_but_itself() {
    let server = TestServer::start().await;
    let revealing = server.revealing().await;
    for name in ["$serde_json::private::RawValue", "$serde_json::private::Number"] {
        for value in ["nope", "1", "123456789012345678901", "{\"n\":1}"] {
            let body = json!({"type": "token", "data": {"a": "x", name: value}});
            let made = server.private.post("/tokens", body).await.expect(201);
            let path = format!("/tokens/{}", made["id"].as_str().unwrap());
            server.private.patch(&path, json!({"data": {"a": null}})).await.expect(200);
            let expected = json!({name: value});
            assert_eq!(revealing.get(&path).await.expect(200)["data"], expected);
            assert_eq!(revealing.get("/tokens").await.expect(200)["data"][0]["data"], expected);
            server.private.delete(&path).await.expect(204);
        }
    }
}
