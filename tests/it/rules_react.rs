//! The rules of the specification on invoking reactors, one test each, named after its number (interface §4.5).

use serde_json::{Value, json};

use crate::support::{Answer, Client, TestServer, guests};

async fn declaring(server: &TestServer, parameters: Value, members: Value) -> String {
    let mut formula = json!({"request_parameters": parameters});
    formula.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
    let formula = guests::formula(server, "probe", formula).await;
    guests::reactor(server, &formula, json!({})).await
}

async fn react(client: &Client, reactor: &str, args: Value) -> Answer {
    client.post(&format!("/reactors/{reactor}/react"), json!({"args": args})).await
}

/// The arguments as the formula got them.
async fn got(client: &Client, reactor: &str, args: Value) -> Value {
    react(client, reactor, args).await.expect(200)["raw"]["args"].clone()
}

fn reference(id: &str) -> String {
    format!("{{{{{id}}}}}")
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_1_the_caller_needs_token_use_for_each_container() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let body = json!({"type": "token", "data": 1, "containers": ["/a/", "/b/"]});
    let id = server.private.post("/tokens", body).await.expect(201)["id"].clone();
    let args = json!({"x": reference(id.as_str().unwrap())});
    let rule = |priority: u32, container: &str| {
        json!({"priority": priority, "container": container, "transform": "reveal",
            "permissions": ["token:use"]})
    };
    let without = server.application("private", &["token:read"], json!([])).await;
    react(&without, &reactor, json!({})).await.expect(403);
    let one = server.application("private", &[], json!([rule(1, "/a/")])).await;
    react(&one, &reactor, args.clone()).await.expect(403);
    let both = json!([rule(1, "/a/"), rule(2, "/b/")]);
    let both = server.application("private", &[], both).await;
    assert_eq!(got(&both, &reactor, args).await, json!({"x": 1}));
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_2_references_alone_and_among_text_and_whole_objects() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let plain = reference(&server.private.token("token", json!("x")).await);
    let card = json!({"number": "4242424242424242", "expiration_month": 1});
    let complex = reference(&server.private.token("card", card.clone()).await);
    let args = json!({"a": plain, "b": format!("<{plain}>"), "c": complex, "d": "plain", "e": 1});
    let expected = json!({"a": "x", "b": "<x>", "c": card, "d": "plain", "e": 1});
    assert_eq!(got(&server.private, &reactor, args).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_3_at_most_100_tokens() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let values = Value::from((0..100).collect::<Vec<_>>());
    let made = server.private.post("/tokenize", values.clone()).await.expect(200);
    let mut ids: Vec<String> =
        made.as_array().unwrap().iter().map(|id| reference(id.as_str().unwrap())).collect();
    assert_eq!(got(&server.private, &reactor, json!({"a": ids})).await, json!({"a": values}));
    // One that is named twice is one token.
    ids.push(ids[0].clone());
    react(&server.private, &reactor, json!({"a": ids})).await.expect(200);
    ids.push(reference(&server.private.token("token", json!(1)).await));
    react(&server.private, &reactor, json!({"a": ids})).await.expect(400);
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_4_validation_comes_after_detokenization() {
    let server = TestServer::start().await;
    let parameters = json!([{"name": "card.number", "type": "string"},
        {"name": "card.expiration_month", "type": "number"}]);
    let reactor = declaring(&server, parameters, json!({})).await;
    let card = json!({"number": "4242424242424242", "expiration_month": 1});
    let whole = reference(&server.private.token("card", card.clone()).await);
    assert_eq!(got(&server.private, &reactor, json!({"card": whole})).await, json!({"card": card}));
    let short = json!({"number": "4242424242424242"});
    let short = reference(&server.private.token("card", short).await);
    let answer = react(&server.private, &reactor, json!({"card": short})).await;
    assert_eq!(answer.faults(), ["args.card.expiration_month"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_5_without_declared_parameters_any_args_are_accepted() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    for args in [json!({}), json!({"a": {"b": [1, null, "c"]}}), json!({"": true})] {
        assert_eq!(got(&server.private, &reactor, args.clone()).await, args);
    }
    server.private.post(&format!("/reactors/{reactor}/react"), json!({})).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_6_names_are_case_sensitive_and_dots_lead_into_objects() {
    let server = TestServer::start().await;
    let parameters = json!([{"name": "Name", "type": "string"},
        {"name": "user.address.city", "type": "string"}]);
    let reactor = declaring(&server, parameters, json!({})).await;
    let right = json!({"Name": "n", "user": {"address": {"city": "c"}}});
    assert_eq!(got(&server.private, &reactor, right.clone()).await, right);
    for (args, faults) in [
        (json!({"name": "n", "user": {"address": {"city": "c"}}}), vec!["args.Name"]),
        (json!({"Name": "n", "user.address.city": "c"}), vec!["args.user.address.city"]),
        (json!({"Name": "n", "user": {"Address": {"city": "c"}}}), vec!["args.user.address.city"]),
    ] {
        assert_eq!(react(&server.private, &reactor, args).await.faults(), faults);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_7_required_parameters_must_be_present_and_optional_ones_may_not() {
    let server = TestServer::start().await;
    let parameters = json!([{"name": "a", "type": "string", "optional": false},
        {"name": "b", "type": "string"}, {"name": "c", "type": "number", "optional": true}]);
    let reactor = declaring(&server, parameters, json!({})).await;
    let right = json!({"a": "x", "b": "y"});
    assert_eq!(got(&server.private, &reactor, right.clone()).await, right);
    let answer = react(&server.private, &reactor, json!({"c": 1})).await;
    assert_eq!(answer.faults(), ["args.a", "args.b"]);
    let answer = server.private.post(&format!("/reactors/{reactor}/react"), json!({})).await;
    answer.expect(400);
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_8_values_are_cast_or_refused() {
    let server = TestServer::start().await;
    let parameters = json!([{"name": "n", "type": "number"}, {"name": "t", "type": "string"},
        {"name": "b", "type": "boolean"}]);
    let reactor = declaring(&server, parameters, json!({})).await;
    let number = reference(&server.private.token("token", json!("17")).await);
    let cast = json!({"n": 17, "t": "5", "b": true});
    let args = json!({"n": "17", "t": 5, "b": "true"});
    assert_eq!(got(&server.private, &reactor, args).await, cast);
    let args = json!({"n": number, "t": 5, "b": true});
    assert_eq!(got(&server.private, &reactor, args).await, cast);
    let word = reference(&server.private.token("token", json!("seventeen")).await);
    for wrong in [json!("seventeen"), json!(word), json!([1]), json!(true)] {
        let args = json!({"n": wrong, "t": "x", "b": false});
        let answer = react(&server.private, &reactor, args).await;
        assert_eq!(answer.faults(), ["args.n"], "{wrong}");
        assert!(!answer.text().contains("seventeen"), "{}", answer.text());
    }
}

/// The two descriptions that the specification gives are one setting of the formula (decisions §6).
#[tokio::test(flavor = "multi_thread")]
async fn rule_9_undeclared_properties_are_not_validated_and_forwarded_or_dropped() {
    let server = TestServer::start().await;
    let parameters = json!([{"name": "a", "type": "number"}]);
    let args = json!({"a": "1", "more": {"x": [1]}});
    for (setting, expected) in [
        (json!({}), json!({"a": 1, "more": {"x": [1]}})),
        (json!({"undeclared_arguments": "forward"}), json!({"a": 1, "more": {"x": [1]}})),
        (json!({"undeclared_arguments": "drop"}), json!({"a": 1})),
    ] {
        let reactor = declaring(&server, parameters.clone(), setting).await;
        assert_eq!(got(&server.private, &reactor, args.clone()).await, expected);
    }
}
