//! What a request may cost, whatever it holds: answers stay small, and nothing is kept that could not be read again.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use futures::future::join_all;
use reqwest::Method;
use serde_json::{Map, Value, json};
use tokamak::clock::Clock as _;
use tokamak::limits::{
    ALLOWED_HOSTS_MAX, FORMULA_PARAMETERS_MAX, ICON_BYTES_MAX, METADATA_KEYS_MAX, RULES_MAX,
};

use crate::support::receiver::{Hook, Receiver};
use crate::support::server::Setup;
use crate::support::{Client, TestServer, guests};

const ANSWER_BYTES_MAX: usize = 64 << 10;

/// A body with so many of what is counted.
type Made<'m> = &'m dyn Fn(usize) -> Value;

fn nested(levels: usize) -> Value {
    (1..levels).fold(json!([]), |inner, _| json!([inner]))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_nested_too_deep_is_refused_everywhere() {
    let server = TestServer::start().await;
    let table = [
        ("/tokens", json!({"type": "token", "data": 1, "mask": nested(64)})),
        ("/tokens", json!({"type": "token", "data": nested(64)})),
        ("/tokenize", nested(65)),
        ("/detokenize", nested(65)),
    ];
    for (path, body) in table {
        let answer = server.private.post(path, body).await;
        let problem = answer.expect(400);
        assert!(problem["detail"].as_str().unwrap().contains("64 levels"), "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_nested_as_deep_as_may_be_is_kept_and_ends() {
    let server = TestServer::start().await;
    let now = i64::try_from(server.clock.now_ms()).unwrap() + 5 * 60 * 1_000;
    let end = chrono::DateTime::from_timestamp_millis(now).unwrap().to_rfc3339();
    let body = json!({"id": "deep", "type": "token", "data": nested(63), "mask": nested(63),
        "expires_at": end});
    server.private.post("/tokens", body).await.expect(201);
    server.private.get("/tokens/deep").await.expect(200);
    assert_eq!(server.private.list("id=deep").await, ["deep"]);
    let patch = json!({"metadata": {"a": "b"}});
    server.private.patch("/tokens/deep", patch).await.expect(200);
    server.clock.advance_ms(10 * 60 * 1_000);
    assert_eq!(server.vault.sweep().await.unwrap().0, 1);
}

/// Of what can be counted: as many as may be are taken, and one more is refused by its name.
#[tokio::test(flavor = "multi_thread")]
async fn one_past_a_number_of_members_is_refused() {
    let server = TestServer::start().await;
    let component = STANDARD.encode(guests::component("probe"));
    let metadata = |count: usize| -> Value {
        let members: Map<String, Value> =
            (0..count).map(|n| (format!("k{n}"), json!("v"))).collect();
        json!({"type": "token", "data": 1, "metadata": members})
    };
    let rules = |count: usize| {
        let rule = |n| {
            json!({"priority": n + 1, "container": format!("/c{n}/"), "transform": "mask",
            "permissions": ["token:read"]})
        };
        json!({"name": "a", "type": "private", "rules": (0..count).map(rule).collect::<Vec<_>>()})
    };
    let formula =
        |member: &str, value: Value| json!({"name": "f", "component": component, member: value});
    let hosts = |count: usize| {
        let hosts: Vec<_> = (0..count).map(|n| format!("h{n}.example.com")).collect();
        formula("allowed_hosts", json!(hosts))
    };
    let icon = |bytes: usize| {
        let start = "data:image/png;base64,";
        formula("icon", json!(format!("{start}{}", "A".repeat(bytes - start.len()))))
    };
    let table: [(&Client, &str, &str, usize, Made<'_>); 4] = [
        (&server.private, "/tokens", "metadata", METADATA_KEYS_MAX, &metadata),
        (&server.management, "/applications", "rules", RULES_MAX, &rules),
        (&server.management, "/reactor-formulas", "allowed_hosts", ALLOWED_HOSTS_MAX, &hosts),
        (&server.management, "/reactor-formulas", "icon", ICON_BYTES_MAX, &icon),
    ];
    for (client, path, member, most, body) in table {
        client.post(path, body(most)).await.expect(201);
        assert_eq!(client.post(path, body(most + 1)).await.faults(), [member], "{path}");
    }
}

/// To the byte: of a token's data as JSON, of a whole body, and of an expression (decisions §1, §3, §4).
#[tokio::test(flavor = "multi_thread")]
async fn what_is_as_large_as_may_be_is_taken() {
    const DATA_BYTES: usize = 1 << 20;
    const BODY_BYTES: usize = 4 << 20;
    const EXPRESSION_BYTES: usize = 4_096;
    let server = TestServer::start().await;
    let (private, revealing) = (&server.private, server.revealing().await);
    let text: fn(usize) -> Value = |bytes| json!("x".repeat(bytes - 2));
    let object: fn(usize) -> Value = |bytes| json!({"a": [1, "x".repeat(bytes - 12)]});
    for data in [text, object] {
        let (largest, larger) = (data(DATA_BYTES), data(DATA_BYTES + 1));
        assert_eq!(largest.to_string().len(), DATA_BYTES);
        let path = format!("/tokens/{}", private.token("token", largest.clone()).await);
        let made = private.post("/tokens", json!({"type": "token", "data": larger})).await;
        assert_eq!(made.faults(), ["data"]);
        let patched = private.patch(&path, json!({"data": larger})).await;
        assert_eq!(patched.faults(), ["data"]);
        // Shown whole, a failure would be a mebibyte long.
        assert!(revealing.get(&path).await.expect(200)["data"] == largest);
    }
    let send = async |bytes: usize| {
        let (before, after) = (r#"{"type":"token","data":1,"unknown":""#, r#""}"#);
        let filler = "x".repeat(bytes - before.len() - after.len());
        let request = private.request(Method::POST, "/tokens");
        let request = request.header("content-type", "application/json");
        private.send(request.body(format!("{before}{filler}{after}"))).await
    };
    send(BODY_BYTES).await.expect(201);
    send(BODY_BYTES + 1).await.expect(413);
    let expressions = |bytes: usize| {
        let expression = format!("{{{{ data{} }}}}", " ".repeat(bytes - 10));
        assert_eq!(expression.len(), bytes);
        json!({"type": "token", "data": "whole", "id": expression, "mask": expression,
            "fingerprint_expression": expression, "search_indexes": [expression]})
    };
    let made = private.post("/tokens", expressions(EXPRESSION_BYTES)).await.expect(201);
    assert_eq!((&made["id"], &made["data"]), (&json!("whole"), &json!("whole")));
    assert_eq!(private.search("data:whole").await, ["whole"]);
    let refused = private.post("/tokens", expressions(EXPRESSION_BYTES + 1)).await;
    let faulty = ["fingerprint_expression", "id", "mask", "search_indexes[0]"];
    assert_eq!(refused.faults(), faulty);
}

#[tokio::test(flavor = "multi_thread")]
async fn as_many_tokens_as_may_be_are_detokenized_and_no_more() {
    let server = TestServer::start().await;
    let revealing = server.revealing().await;
    let numbers: Vec<u32> = (0..100).collect();
    let made = server.private.post("/tokenize", json!(numbers)).await.expect(200);
    let reference = |id: &str| format!("{{{{ {id} }}}}");
    let ids = made.as_array().unwrap().iter().map(|id| id.as_str().unwrap());
    let mut references: Vec<String> = ids.map(reference).collect();
    let opened = revealing.post("/detokenize", json!(references)).await.expect(200);
    assert_eq!(opened, json!(numbers));
    references.push(reference(&server.private.token("token", json!(100)).await));
    let refused = revealing.post("/detokenize", json!(references)).await.expect(400);
    assert_eq!(refused["errors"], json!({"": ["refers to more than 100 tokens"]}));
}

/// Counted in characters, whatever their bytes (decisions §3).
#[tokio::test(flavor = "multi_thread")]
async fn metadata_is_bounded_in_keys_and_in_characters_of_each() {
    let server = TestServer::start().await;
    let key = |n: usize, chars: usize| format!("{n:02}{}", "\u{fc}".repeat(chars - 2));
    let value = |chars: usize| json!("\u{20ac}".repeat(chars));
    let largest: Map<String, Value> = (0..50).map(|n| (key(n, 64), value(1_000))).collect();
    let body =
        |metadata: &Map<String, Value>| json!({"type": "token", "data": 1, "metadata": metadata});
    let made = server.private.post("/tokens", body(&largest)).await.expect(201);
    assert_eq!(made["metadata"], Value::Object(largest.clone()));
    let path = format!("/tokens/{}", made["id"].as_str().unwrap());
    assert_eq!(server.private.get(&path).await.expect(200)["metadata"], made["metadata"]);
    let value_path = format!("metadata.{}", key(0, 64));
    let key_path = format!("{value_path}…");
    for (members, fault, bound) in [
        (json!({key(50, 64): "v"}), "metadata", "50 keys"),
        (json!({key(0, 64): null, key(0, 65): "v"}), &key_path, "64 characters"),
        (json!({key(0, 64): null, "": "v"}), "metadata.", "must have a key"),
        (json!({key(0, 64): value(1_001)}), value_path.as_str(), "1000 characters"),
    ] {
        let mut most = largest.clone();
        most.extend(members.as_object().unwrap().clone());
        most.retain(|_, value| !value.is_null());
        let answers = [
            server.private.post("/tokens", body(&most)).await,
            server.private.patch(&path, json!({"metadata": members})).await,
        ];
        for answer in answers {
            assert_eq!(answer.faults(), [fault]);
            assert!(answer.json()["errors"][fault][0].as_str().unwrap().contains(bound));
        }
    }
    // What is removed makes room.
    let patch = json!({"metadata": {key(0, 64): null, key(50, 64): value(1_000)}});
    let patched = server.private.patch(&path, patch).await.expect(200);
    assert_eq!(patched["metadata"].as_object().unwrap().len(), 50);
}

/// What is wrong with an entry is named beside there being too many of them (decisions §1).
#[tokio::test(flavor = "multi_thread")]
async fn too_many_entries_do_not_hide_a_faulty_one() {
    let server = TestServer::start().await;
    let made =
        server.private.post("/tokens", json!({"type": "token", "data": 1})).await.expect(201);
    let path = format!("/tokens/{}", made["id"].as_str().unwrap());
    let metadata = |bad: Value| {
        let keys = (0..50).map(|n| (format!("k{n}"), json!("v")));
        json!({"metadata": keys.chain([("z".to_owned(), bad)]).collect::<Map<_, _>>()})
    };
    let list = |name: &str, good: &str, bad: Value| {
        let entries = (0..20).map(|n| json!(good.replace('#', &n.to_string())));
        json!({name: entries.chain([bad]).collect::<Vec<_>>()})
    };
    let index = "{{ data | append: '#' }}";
    for (body, faults) in [
        (metadata(json!(1)), ["metadata", "metadata.z"]),
        (metadata(json!("v".repeat(1_001))), ["metadata", "metadata.z"]),
        (list("containers", "/c#/", json!("bad")), ["containers", "containers[20]"]),
        (list("search_indexes", index, json!(1)), ["search_indexes", "search_indexes[20]"]),
        (
            list("search_indexes", index, json!("{{ x | y }}")),
            ["search_indexes", "search_indexes[20]"],
        ),
    ] {
        assert_eq!(server.private.patch(&path, body.clone()).await.faults(), faults);
        let mut whole = body;
        whole["type"] = json!("token");
        whole["data"] = json!(1);
        assert_eq!(server.private.post("/tokens", whole).await.faults(), faults);
    }
    for (path, member, most) in [
        ("/applications", "rules", RULES_MAX),
        ("/reactor-formulas", "allowed_hosts", ALLOWED_HOSTS_MAX),
        ("/reactor-formulas", "configuration", FORMULA_PARAMETERS_MAX),
        ("/reactor-formulas", "request_parameters", FORMULA_PARAMETERS_MAX),
    ] {
        let answer = server.management.post(path, json!({member: vec![json!(5); most + 1]})).await;
        let faults = answer.faults();
        for path in [member.to_owned(), format!("{member}[0]"), format!("{member}[1]")] {
            assert!(faults.contains(&path), "{path}: {faults:?}");
        }
    }
    let none = json!({"type": "token", "data": 1, "containers": []});
    assert_eq!(server.private.post("/tokens", none).await.faults(), ["containers"]);
    // Nobody reads a million of them.
    let many = json!({"type": "token", "data": 1, "search_indexes": vec!["{{ x | y }}"; 200_000]});
    assert_eq!(server.private.post("/tokens", many).await.faults().len(), 100);
}

/// Liquid has no room for a whole number of more than 64 bits, and panics on one.
#[tokio::test(flavor = "multi_thread")]
async fn numbers_in_expressions_have_64_bits() {
    let server = TestServer::start().await;
    let large = "{{ data | slice: 0, 9223372036854775808 }}";
    let answer = server
        .private
        .post("/tokens", json!({"type": "token", "data": "abc", "mask": large}))
        .await;
    let reason = "has a whole number of more than 64 bits";
    assert_eq!(answer.expect(400)["errors"], json!({"mask": [reason]}));
    let largest = "{{ data | slice: 0, 9223372036854775807 }}";
    let body = json!({"type": "token", "data": "abc", "mask": largest});
    assert_eq!(server.private.post("/tokens", body).await.expect(201)["data"], "abc");
}

/// All that comes in the place of references, together.
#[tokio::test(flavor = "multi_thread")]
async fn references_bring_16_mib_at_most() {
    let server = TestServer::start().await;
    let data = "x".repeat(1_000_000);
    let made =
        server.private.post("/tokens", json!({"type": "token", "data": data})).await.expect(201);
    let reference = format!("{{{{ {} }}}}", made["id"].as_str().unwrap());
    let revealing = server.revealing().await;
    revealing.post("/detokenize", json!(vec![&reference; 16])).await.expect(200);
    let answer = revealing.post("/detokenize", json!(vec![&reference; 25])).await.expect(400);
    let reason = "brings what comes in the place of references to more than 16777216 bytes";
    assert_eq!(answer["errors"], json!({"[16]": [reason]}));
}

#[tokio::test(flavor = "multi_thread")]
async fn faults_are_named_up_to_a_number() {
    let server = TestServer::start().await;
    let name = "n".repeat(100_000);
    let requests = [
        ("/tokens", json!({"type": "token", "data": 1, "containers": vec![1; 100_000]})),
        (
            "/tokens",
            json!({"type": "token", "data": 1, "search_indexes": vec![json!({}); 100_000]}),
        ),
        ("/detokenize", json!({name.as_str(): vec!["{{ abc }}"; 10_000]})),
        ("/detokenize", json!(vec!["{{"; 100_000])),
        ("/tokenize", json!(vec![1; 100_000])),
        ("/tokenize", json!({name.as_str(): vec![json!({"type": 1, "data": 1}); 1_000]})),
    ];
    for (path, body) in requests {
        let answer = server.private.post(path, body).await;
        answer.expect(400);
        let bytes = answer.text().len();
        assert!(bytes < ANSWER_BYTES_MAX, "{path}: {bytes} bytes");
    }
    // Many places that hold nothing cost nothing.
    let holes = json!({name.as_str(): vec![Value::Null; 50_000]});
    server.private.post("/tokenize", holes).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn slow_masks_are_worked_on_apart_and_end() {
    let server = TestServer::start().await;
    let slow = "{{ data | upcase | downcase | upcase | downcase | size }}";
    let body = json!({"type": "token", "data": "x".repeat(1_000_000), "mask": vec![slow; 20]});
    // More than an expression may cost.
    assert!(server.private.post("/tokens", body).await.faults()[0].starts_with("mask["));
    let body =
        json!({"id": "slow", "type": "token", "data": "x".repeat(200_000), "mask": [slow, slow]});
    let made = server.private.post("/tokens", body).await.expect(201);
    assert_eq!(made["data"], json!([200_000, 200_000]));
    assert_eq!(server.private.list("id=slow").await, ["slow"]);
}

/// More at once than may be worked on: the default fingerprint of so much data is slow.
#[tokio::test(flavor = "multi_thread")]
async fn many_large_tokens_at_once_wait_for_each_other_and_are_all_made() {
    let server = TestServer::start().await;
    let body = json!({"type": "token", "data": "x".repeat(300_000)});
    let made = join_all((0..60).map(|_| {
        let (client, body) = (server.private.clone(), body.clone());
        tokio::spawn(async move { client.post("/tokens", body).await })
    }));
    for answer in made.await {
        answer.unwrap().expect(201);
    }
}

/// References whose filters take long: of one tenant so many are under way or wait, and what comes beside them is refused
/// and not held, however many ask and leave. A run that was taken into the queue waits.
#[tokio::test(flavor = "multi_thread")]
async fn of_many_slow_references_at_once_some_are_refused_and_queued_runs_are_not() {
    let server = TestServer::start_with(Setup::open()).await;
    let receiver = Receiver::start().await;
    let react = format!("/reactors/{}/react", guests::echo_reactor(&server).await);
    let id = server.private.token("token", json!("zyx".repeat(3_000))).await;
    let sort = "split: '' | sort_natural | join: ''";
    let slow = format!("{{{{ {id} | {sort} | {sort} | {sort} | size }}}}");
    let args = json!({"a": vec![slow; 4]});
    let body = json!({"args": args, "callback_url": receiver.url()});
    let queued: Vec<_> = join_all((0..3).map(|_| server.private.post(&react, body.clone()))).await;
    let detokenize = server.revealing().await;
    let asked = (0..150).map(|number| {
        let (private, revealing) = (server.private.clone(), detokenize.clone());
        let (react, args) = (react.clone(), args.clone());
        tokio::spawn(async move {
            match number % 3 {
                0 => revealing.post("/detokenize", args).await,
                _ => private.post(&react, json!({"args": args})).await,
            }
        })
    });
    let mut refused = 0;
    for answer in join_all(asked).await {
        let answer = answer.unwrap();
        let is_crowded = answer.status == 429 && answer.text().contains("takes long to evaluate");
        // On a machine with much else to do some come too late to begin.
        let is_late = answer.status == 504 && answer.text().contains("did not begin");
        assert!(is_crowded || is_late || answer.status == 200, "{}", answer.text());
        refused += usize::from(is_crowded);
    }
    assert!((1..150).contains(&refused), "{refused}");
    for answer in queued {
        answer.expect(202);
    }
    let hooks = receiver.wait(3).await;
    let seen = |hook: &Hook| hook.json()["data"]["response"]["raw"]["args"]["a"].clone();
    assert!(hooks.iter().all(|hook| seen(hook) == json!([9_000, 9_000, 9_000, 9_000])));
    server.private.post(&react, json!({"args": args})).await.expect(200);
    // What was refused was opened too: which is slow may depend on what it holds.
    let logs = server.management.get(&format!("/logs?entity_id={id}&size=1")).await.expect(200);
    assert_eq!(logs["pagination"]["total_items"], 1 + 3 + 150 + 1);
}
