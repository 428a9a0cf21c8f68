//! Invoking reactors: references, casts, results (interface §4.5, decisions §4, §7).

use serde_json::{Value, json};

use crate::support::{Answer, TestServer, guests};

const CARD: &str = "4242424242424242";

async fn react(server: &TestServer, reactor: &str, args: Value) -> Answer {
    server.private.post(&format!("/reactors/{reactor}/react"), json!({"args": args})).await
}

/// A reactor of `probe` that declares these parameters.
async fn with_parameters(server: &TestServer, parameters: Value, undeclared: &str) -> String {
    let members = json!({"request_parameters": parameters, "undeclared_arguments": undeclared});
    let formula = guests::formula(server, "probe", members).await;
    guests::reactor(server, &formula, json!({})).await
}

/// What the formula got for these arguments.
async fn got(server: &TestServer, reactor: &str, args: Value) -> Value {
    react(server, reactor, args).await.expect(200)["raw"]["args"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn references_alone_mixed_and_with_filters() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let make = async |id: &str, kind: &str, data: Value| {
        let body = json!({"id": id, "type": kind, "data": data, "metadata": {"k": "v"}});
        server.private.post("/tokens", body).await.expect(201);
    };
    make("number", "card_number", json!(CARD)).await;
    make("card", "card", json!({"number": CARD, "expiration_month": 12})).await;
    make("bank", "bank", json!({"routing_number": "021000021", "account_number": "12345"})).await;
    make("forty two", "token", json!(42)).await;
    make("list", "token", json!([1, {"a": null}])).await;
    let table = [
        (json!("{{ number }}"), json!(CARD)),
        (json!("{{number}}"), json!(CARD)),
        (
            json!("card {{ number }}, {{ forty two }} times"),
            json!(format!("card {CARD}, 42 times")),
        ),
        // One reference alone keeps the type of the data.
        (json!("{{ forty two }}"), json!(42)),
        (json!("{{ list }}"), json!([1, {"a": null}])),
        (json!("{{ card }}"), json!({"number": CARD, "expiration_month": 12})),
        (json!("{{ bank }}"), json!({"routing_number": "021000021", "account_number": "12345"})),
        (json!("{{ number | last4 }}"), json!("4242")),
        (json!("{{ card | json: '$.number' | slice: 0, 6 }}"), json!("424242")),
        (json!("{{ token: card | json: '$.data.number' }}"), json!(CARD)),
        (json!("{{ token: card | json: '$.metadata.k' }}"), json!("v")),
        (
            json!({"a": ["{{ number }}", {"b": "{{ forty two }}"}], "c": "plain"}),
            json!({"a": [CARD, {"b": 42}], "c": "plain"}),
        ),
        (json!(7), json!(7)),
        (json!(null), json!(null)),
    ];
    for (value, expected) in table {
        let args = json!({"value": value});
        assert_eq!(got(&server, &reactor, args.clone()).await["value"], expected, "{args}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn at_most_100_tokens() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let tokens = server.private.post("/tokenize", json!((0..100).collect::<Vec<_>>())).await;
    let mut references: Vec<String> = tokens
        .expect(200)
        .as_array()
        .unwrap()
        .iter()
        .map(|id| format!("{{{{ {} }}}}", id.as_str().unwrap()))
        .collect();
    let answer = got(&server, &reactor, json!({"all": references})).await;
    assert_eq!(answer["all"], json!((0..100).collect::<Vec<_>>()));
    // The same token twice is one token.
    references.push(references[0].clone());
    react(&server, &reactor, json!({"all": references})).await.expect(200);
    let other = server.private.token("token", json!("101")).await;
    references.push(format!("{{{{ {other} }}}}"));
    let faults = react(&server, &reactor, json!({"all": references})).await.faults();
    assert_eq!(faults, ["args"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_reference_is_told_at_its_place() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let number = server.private.token("card_number", json!(CARD)).await;
    let soon =
        json!({"id": "soon", "type": "token", "data": 1, "expires_at": "2026-01-01T01:00:00Z"});
    server.private.post("/tokens", soon).await.expect(201);
    server.clock.advance_ms(3_600_000);
    let args = json!({"a": "{{ nobody }}", "b": ["x", {"c": "{{ nobody }} {{ soon }}"}], "d": format!("{{{{ {number} }}}}")});
    assert_eq!(react(&server, &reactor, args).await.faults(), ["args.a", "args.b[1].c"]);
    for wrong in ["{{ }}", "{{ number", "{{ number | unknown_filter }}"] {
        let answer = react(&server, &reactor, json!({"a": wrong})).await;
        assert_eq!(answer.faults(), ["args.a"], "{wrong}");
    }
    let refused = json!({"a": format!("{{{{ {number} | to_number | card_exp: 'MM' }}}}")});
    let revealing = server.revealing().await;
    for (client, why) in [(&revealing, "cannot be evaluated"), (&server.private, "does not fit")] {
        let body = json!({"args": refused});
        let answer = client.post(&format!("/reactors/{reactor}/react"), body).await;
        assert_eq!(answer.faults(), ["args.a"]);
        assert!(answer.text().contains(why) && !answer.text().contains(CARD), "{}", answer.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn parameters_are_required_and_cast() {
    let server = TestServer::start().await;
    let parameters = json!([
        {"name": "text", "type": "string"},
        {"name": "count", "type": "number"},
        {"name": "flag", "type": "boolean", "optional": true},
        {"name": "list", "type": "array", "optional": true},
        {"name": "map", "type": "object", "optional": true},
        {"name": "user.address.city", "type": "string", "optional": true},
        {"name": "user.age", "type": "number", "optional": true},
    ]);
    let reactor = with_parameters(&server, parameters, "forward").await;
    let number = server.private.token("token", json!("17")).await;
    let args = json!({"text": 5, "count": format!("{{{{ {number} }}}}"), "flag": "true", "list": "[1]", "map": {},
        "user": {"address": {"city": 7}, "age": "30"}, "extra": {"kept": true}});
    let bound = got(&server, &reactor, args).await;
    assert_eq!(
        bound,
        json!({"text": "5", "count": 17, "flag": true, "list": [1], "map": {},
        "user": {"address": {"city": "7"}, "age": 30}, "extra": {"kept": true}})
    );
    let table = [
        (json!({}), vec!["args.count", "args.text"]),
        (json!({"text": "x", "count": "many", "flag": "perhaps"}), vec!["args.count", "args.flag"]),
        (json!({"text": "x", "count": 1, "list": "x", "map": 5}), vec!["args.list", "args.map"]),
        (json!({"text": "x", "count": 1, "user": {"age": "old"}}), vec!["args.user.age"]),
        // Names are case-sensitive.
        (json!({"Text": "x", "count": 1}), vec!["args.text"]),
    ];
    for (args, expected) in table {
        let shown = args.to_string();
        assert_eq!(react(&server, &reactor, args).await.faults(), expected, "{shown}");
    }
    // Without args at all.
    let path = format!("/reactors/{reactor}/react");
    let faults = server.private.post(&path, json!({})).await.faults();
    assert!(faults.iter().all(|path| path.starts_with("args")), "{faults:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_complex_token_supplies_several_parameters() {
    let server = TestServer::start().await;
    let parameters = json!([{"name": "card.number", "type": "string"}, {"name": "card.expiration_month", "type": "string"}]);
    let reactor = with_parameters(&server, parameters, "forward").await;
    let card = server.private.token("card", json!({"number": CARD, "expiration_month": 12})).await;
    let bound = got(&server, &reactor, json!({"card": format!("{{{{ {card} }}}}")})).await;
    assert_eq!(bound["card"], json!({"number": CARD, "expiration_month": "12"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn undeclared_arguments_are_forwarded_or_dropped() {
    let server = TestServer::start().await;
    let parameters = || json!([{"name": "a", "type": "number"}, {"name": "b.c", "type": "number", "optional": true}]);
    let args = json!({"a": "1", "b": {"c": 2, "d": 3}, "e": 4});
    let forward = with_parameters(&server, parameters(), "forward").await;
    assert_eq!(
        got(&server, &forward, args.clone()).await,
        json!({"a": 1, "b": {"c": 2, "d": 3}, "e": 4})
    );
    let drop = with_parameters(&server, parameters(), "drop").await;
    assert_eq!(got(&server, &drop, args).await, json!({"a": 1, "b": {"c": 2}}));
}

#[tokio::test(flavor = "multi_thread")]
async fn every_container_of_every_token_needs_the_permission() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let rules = json!([
        {"description": "", "priority": 1, "container": "/pci/", "transform": "reveal", "permissions": ["token:use"]},
        {"description": "", "priority": 2, "container": "/low/", "transform": "mask", "permissions": ["token:use"]},
    ]);
    let user = server.application("private", &[], rules).await;
    let make = async |containers: Value| {
        let body = json!({"type": "card_number", "data": CARD, "containers": containers});
        server.private.post("/tokens", body).await.expect(201)["id"].as_str().unwrap().to_owned()
    };
    let (inside, both, masked) = (
        make(json!(["/pci/eu/"])).await,
        make(json!(["/pci/", "/bank/"])).await,
        make(json!(["/low/"])).await,
    );
    let path = format!("/reactors/{reactor}/react");
    let ask = |id: &str| json!({"args": {"n": format!("{{{{ {id} }}}}")}});
    let answer = user.post(&path, ask(&inside)).await.expect(200);
    assert_eq!(answer["raw"]["args"]["n"], CARD);
    let refused = user.post(&path, ask(&both)).await;
    refused.expect(403);
    assert!(!refused.text().contains(CARD));
    // A reactor sees the token as the rule shapes it.
    let answer = user.post(&path, ask(&masked)).await.expect(200);
    assert_eq!(answer["raw"]["args"]["n"], "XXXXXXXXXXXX4242");
    let reader = server.application("private", &["token:read"], json!([])).await;
    reader.post(&path, ask(&inside)).await.expect(403);
    let logs = server.management.get(&format!("/logs?entity_id={both}&size=1")).await.expect(200);
    assert_eq!(logs["data"][0]["message"], "Denied: token:use");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_formula_gets_its_configuration_and_the_invocation() {
    let server = TestServer::start().await;
    let formula = guests::formula(
        &server,
        "probe",
        json!({"configuration": [{"name": "k", "type": "number"}]}),
    )
    .await;
    let reactor = guests::reactor(&server, &formula, json!({"configuration": {"k": "5"}})).await;
    let raw = react(&server, &reactor, json!({})).await.expect(200)["raw"].clone();
    assert_eq!((&raw["configuration"], &raw["svc"]), (&json!({"k": 5}), &json!(false)));
    assert_eq!(
        (&raw["invocation"]["reactor_id"], &raw["invocation"]["attempt"]),
        (&json!(reactor), &json!(1))
    );
    let again = react(&server, &reactor, json!({})).await.expect(200);
    assert_ne!(again["raw"]["invocation"]["id"], raw["invocation"]["id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_change_makes_of_a_reactor_is_what_runs_next() {
    let server = TestServer::start().await;
    let declared = json!({"configuration": [{"name": "k", "type": "number"}]});
    let formula = guests::formula(&server, "probe", declared).await;
    let body = json!({"name": "a", "type": "private", "permissions": ["token:read"]});
    let application = server.management.post("/applications", body).await.expect(201);
    let acting = json!({"id": application["id"]});
    let members = json!({"configuration": {"k": 1}, "application": acting});
    let reactor = guests::reactor(&server, &formula, members).await;
    // Each run but the first comes after a change.
    for (change, k, svc) in [
        (None, 1, true),
        (Some(json!({"name": "r", "configuration": {"k": 2}})), 2, false),
        (Some(json!({"name": "r", "configuration": {"k": 3}, "application": acting})), 3, true),
    ] {
        if let Some(change) = change {
            server.management.put(&format!("/reactors/{reactor}"), change).await.expect(200);
        }
        let raw = react(&server, &reactor, json!({})).await.expect(200)["raw"].clone();
        assert_eq!((&raw["configuration"], &raw["svc"]), (&json!({"k": k}), &json!(svc)), "{raw}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reactor_whose_configuration_no_longer_fits_its_formula_does_not_run() {
    let server = TestServer::start().await;
    let entry = |name: &str, kind: &str| json!({"name": name, "type": kind});
    let declared = json!({"configuration": [entry("k", "string"), entry("old", "string")]});
    let formula = guests::formula(&server, "probe", declared).await;
    let given = json!({"configuration": {"k": "5", "old": "x"}});
    let reactor = guests::reactor(&server, &formula, given).await;
    let change = async |entries: Value| {
        let body = json!({"name": "probe", "configuration": entries});
        let path = format!("/reactor-formulas/{formula}");
        server.management.put(&path, body).await.expect(200);
    };
    // It gets what is declared by now, as that is declared.
    for (entries, expected) in [
        (json!([entry("k", "number")]), json!({"k": 5})),
        (json!([]), json!({})),
        (json!([entry("old", "string")]), json!({"old": "x"})),
    ] {
        change(entries).await;
        let raw = react(&server, &reactor, json!({})).await.expect(200)["raw"].clone();
        assert_eq!(raw["configuration"], expected);
    }
    change(json!([entry("k", "boolean"), entry("region", "string")])).await;
    let path = format!("/reactors/{reactor}/invocations");
    let runs = async || {
        let page = server.management.get(&path).await.expect(200);
        page["pagination"]["total_items"].clone()
    };
    let before = runs().await;
    let problem = react(&server, &reactor, json!({})).await.expect(409);
    let detail = problem["detail"].as_str().unwrap();
    for part in ["configuration.k cannot be cast", "configuration.region is required"] {
        assert!(detail.contains(part), "{detail}");
    }
    assert_eq!(runs().await, before);
    // The reactor's own change mends it.
    let body = json!({"name": "r", "configuration": {"k": "true", "region": "eu"}});
    server.management.put(&format!("/reactors/{reactor}"), body).await.expect(200);
    let raw = react(&server, &reactor, json!({})).await.expect(200)["raw"].clone();
    assert_eq!(raw["configuration"], json!({"k": true, "region": "eu"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn results_are_raw_tokens_or_both() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let respond = async |raw: Value, tokenize: Value| {
        react(&server, &reactor, json!({"behaviour": "respond", "raw": raw, "tokenize": tokenize}))
            .await
    };
    let answer = respond(json!({"a": 1}), Value::Null).await.expect(200);
    assert_eq!(answer, json!({"raw": {"a": 1}}));
    let shape = json!({"list": ["x", 5], "card": {"type": "card_number", "data": CARD}});
    let answer = respond(Value::Null, shape).await.expect(200);
    assert!(answer.get("raw").is_none());
    let tokens = &answer["tokens"];
    assert_eq!(tokens["card"]["data"], "XXXXXXXXXXXX4242");
    let id = tokens["list"][1].as_str().unwrap();
    assert_eq!(server.revealing().await.get(&format!("/tokens/{id}")).await.expect(200)["data"], 5);
    // All or none: what is wrong is named.
    let before = server.private.list("").await.len();
    let faulty = json!({"a": "fine", "b": {"type": "card_number", "data": "1"}});
    assert_eq!(respond(Value::Null, faulty).await.faults(), ["tokenize.b.data"]);
    assert_eq!(server.private.list("").await.len(), before);
    // The caller makes the tokens, if the reactor has no application: it must be allowed to.
    let user = server.application("private", &["token:use"], json!([])).await;
    let body = json!({"args": {"behaviour": "respond", "tokenize": "x"}});
    user.post(&format!("/reactors/{reactor}/react"), body).await.expect(403);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_run_is_a_fresh_instance_without_the_machine() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let ask = async |behaviour: &str| {
        react(&server, &reactor, json!({"behaviour": behaviour})).await.expect(200)["raw"].clone()
    };
    assert_eq!(
        (ask("count").await["runs"].clone(), ask("count").await["runs"].clone()),
        (json!(1), json!(1))
    );
    assert_ne!(ask("random").await, ask("random").await);
    let seen = ask("look_around").await;
    assert_eq!(seen, json!({"variables": 0, "arguments": 0, "stdin_bytes": 0}), "{seen}");
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_checked() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let path = format!("/reactors/{reactor}/react");
    let table = [
        (json!({"args": []}), "args"),
        (json!({"args": "x"}), "args"),
        (json!({"timeout_ms": 20_000}), "timeout_ms"),
    ];
    for (body, member) in table {
        assert_eq!(server.private.post(&path, body).await.faults(), [member]);
    }
    server.private.post(&path, json!({})).await.expect(200);
    server.private.post(&path, json!({"args": null, "timeout_ms": null})).await.expect(200);
    let nowhere = "/reactors/00000000-0000-7000-8000-000000000000/react";
    server.private.post(nowhere, json!({})).await.expect(404);
}
