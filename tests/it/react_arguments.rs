//! What becomes of arguments: every cast, nested names, what tokens may not do (interface §4.5).

use serde_json::{Value, json};

use crate::support::{Answer, TestServer, guests};

const KINDS: [&str; 5] = ["string", "number", "boolean", "object", "array"];

async fn react(server: &TestServer, reactor: &str, args: Value) -> Answer {
    server.private.post(&format!("/reactors/{reactor}/react"), json!({"args": args})).await
}

/// What the formula got for these arguments.
async fn got(server: &TestServer, reactor: &str, args: Value) -> Value {
    react(server, reactor, args).await.expect(200)["raw"]["args"].clone()
}

/// A reactor of `probe` that declares these parameters.
async fn declaring(server: &TestServer, parameters: Value, undeclared: &str) -> String {
    let members = json!({"request_parameters": parameters, "undeclared_arguments": undeclared});
    let formula = guests::formula(server, "probe", members).await;
    guests::reactor(server, &formula, json!({})).await
}

/// A reactor with an optional parameter of every type, each named as its type.
async fn of_every_type(server: &TestServer) -> String {
    let parameters = KINDS.map(|kind| json!({"name": kind, "type": kind, "optional": true}));
    declaring(server, json!(parameters), "forward").await
}

/// What each value becomes as each of [`KINDS`]; `-` where it cannot be cast.
fn casts() -> Vec<(Value, [Value; 5])> {
    let no = || json!("-");
    vec![
        (json!("word"), [json!("word"), no(), no(), no(), no()]),
        (json!(""), [json!(""), no(), no(), no(), no()]),
        (json!("12"), [json!("12"), json!(12), no(), no(), no()]),
        (json!("-1.5e2"), [json!("-1.5e2"), json!(-150.0), no(), no(), no()]),
        (json!(" 12"), [json!(" 12"), json!(12), no(), no(), no()]),
        (json!("+12"), [json!("+12"), no(), no(), no(), no()]),
        (json!("012"), [json!("012"), json!(12), no(), no(), no()]),
        (json!("-012"), [json!("-012"), json!(-12), no(), no(), no()]),
        (json!("0x1f"), [json!("0x1f"), no(), no(), no(), no()]),
        (json!("NaN"), [json!("NaN"), no(), no(), no(), no()]),
        (json!("1e999"), [json!("1e999"), no(), no(), no(), no()]),
        // Whole, but no 64 bits hold it: it would come out rounded.
        (
            json!("12345678901234567890123"),
            [json!("12345678901234567890123"), no(), no(), no(), no()],
        ),
        (
            json!("18446744073709551615"),
            [json!("18446744073709551615"), json!(u64::MAX), no(), no(), no()],
        ),
        (json!("true"), [json!("true"), no(), json!(true), no(), no()]),
        (json!("FALSE"), [json!("FALSE"), no(), json!(false), no(), no()]),
        (json!("true\n"), [json!("true\n"), no(), json!(true), no(), no()]),
        (json!("yes"), [json!("yes"), no(), no(), no(), no()]),
        (json!("{\"a\": 1}"), [json!("{\"a\": 1}"), no(), no(), json!({"a": 1}), no()]),
        (json!("[1, null]"), [json!("[1, null]"), no(), no(), no(), json!([1, null])]),
        (json!("{\"a\": "), [json!("{\"a\": "), no(), no(), no(), no()]),
        (json!(0), [json!("0"), json!(0), no(), no(), no()]),
        (json!(1), [json!("1"), json!(1), no(), no(), no()]),
        (json!(-2.5), [json!("-2.5"), json!(-2.5), no(), no(), no()]),
        (json!(true), [json!("true"), no(), json!(true), no(), no()]),
        (json!(false), [json!("false"), no(), json!(false), no(), no()]),
        (json!({"a": 1}), [no(), no(), no(), json!({"a": 1}), no()]),
        (json!({}), [no(), no(), no(), json!({}), no()]),
        (json!([1]), [no(), no(), no(), no(), json!([1])]),
        (json!([]), [no(), no(), no(), no(), json!([])]),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn every_type_to_every_type_plain_and_from_a_token() {
    let server = TestServer::start().await;
    let reactor = of_every_type(&server).await;
    for (value, expected) in casts() {
        let token = server.private.token("token", value.clone()).await;
        for given in [value.clone(), json!(format!("{{{{ {token} }}}}"))] {
            for (kind, wanted) in KINDS.iter().zip(&expected) {
                let answer = react(&server, &reactor, json!({*kind: given.clone()})).await;
                let shown = format!("{value} to {kind}, given as {given}");
                if *wanted == json!("-") {
                    assert_eq!(answer.faults(), [format!("args.{kind}")], "{shown}");
                } else {
                    let args = answer.expect(200)["raw"]["args"].clone();
                    assert_eq!(args, json!({*kind: wanted}), "{shown}");
                }
            }
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn spaces_around_a_reference_make_no_other_number() {
    let server = TestServer::start().await;
    let reactor = of_every_type(&server).await;
    for (kind, value) in [("number", json!(12)), ("boolean", json!(true))] {
        let token = server.private.token("token", value.clone()).await;
        let args = json!({kind: format!(" {{{{ {token} }}}}\n")});
        assert_eq!(got(&server, &reactor, args).await, json!({kind: value}));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_number_that_is_too_large_is_said_to_be_so() {
    let server = TestServer::start().await;
    let reactor = of_every_type(&server).await;
    let answer = react(&server, &reactor, json!({"number": "1e400"})).await;
    let reason = "cannot be cast to number: is too large a number";
    assert_eq!(answer.expect(400)["errors"], json!({"args.number": [reason]}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_names_the_type_and_never_the_value() {
    let server = TestServer::start().await;
    let reactor = of_every_type(&server).await;
    let secret = "not-to-be-repeated";
    let token = server.private.token("token", json!({"secret": secret})).await;
    let reference = format!("{{{{ {token} | json: '$.secret' }}}}");
    let args = json!({"number": reference, "boolean": reference, "object": reference,
        "array": reference, "string": [reference]});
    let answer = react(&server, &reactor, args).await;
    let problem = answer.expect(400);
    for kind in KINDS {
        let message = problem["errors"][format!("args.{kind}")][0].as_str().unwrap();
        assert!(message.contains(kind), "{message}");
    }
    assert!(!answer.text().contains(secret));
}

#[tokio::test(flavor = "multi_thread")]
async fn null_is_absent() {
    let server = TestServer::start().await;
    let parameters = json!([{"name": "a", "type": "string"},
        {"name": "b", "type": "number", "optional": true},
        {"name": "c.d", "type": "boolean", "optional": true}]);
    let reactor = declaring(&server, parameters, "forward").await;
    let args = json!({"a": "x", "b": null, "c": {"d": null, "e": null}});
    assert_eq!(got(&server, &reactor, args).await, json!({"a": "x", "c": {"e": null}}));
    assert_eq!(react(&server, &reactor, json!({"a": null})).await.faults(), ["args.a"]);
    // As is the data of a token.
    let token = server.private.token("token", json!({"none": null})).await;
    let args = json!({"a": format!("{{{{ {token} | json: '$.none' }}}}")});
    assert_eq!(react(&server, &reactor, args).await.faults(), ["args.a"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn args_are_required_as_soon_as_a_parameter_is_declared() {
    let server = TestServer::start().await;
    let optional = json!([{"name": "a", "type": "string", "optional": true}]);
    let reactor = declaring(&server, optional, "forward").await;
    let path = format!("/reactors/{reactor}/react");
    for body in [json!({}), json!({"args": null})] {
        assert_eq!(server.private.post(&path, body).await.faults(), ["args"]);
    }
    assert_eq!(got(&server, &reactor, json!({})).await, json!({}));
    let required = json!([{"name": "b.c", "type": "string"}, {"name": "a", "type": "string"}]);
    let reactor = declaring(&server, required, "forward").await;
    let path = format!("/reactors/{reactor}/react");
    let faults = server.private.post(&path, json!({})).await.faults();
    assert_eq!(faults, ["args", "args.a", "args.b.c"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn dotted_names_lead_into_objects_and_every_fault_is_told_at_once() {
    let server = TestServer::start().await;
    let parameters = json!([
        {"name": "user.address.city", "type": "string"},
        {"name": "user.address.zip", "type": "number"},
        {"name": "user.age", "type": "number", "optional": true},
        {"name": "order", "type": "object"},
        {"name": "order.total", "type": "number"},
    ]);
    let reactor = declaring(&server, parameters, "drop").await;
    let good = json!({"user": {"address": {"city": 1, "zip": "2", "x": 3}, "y": 4},
        "order": "{\"total\": \"5\", \"note\": \"6\"}", "z": 7});
    let expected = json!({"user": {"address": {"city": "1", "zip": 2}}, "order": {"total": 5}});
    assert_eq!(got(&server, &reactor, good).await, expected);
    let required = ["args.order", "args.order.total", "args.user.address.city"];
    for (args, expected) in [
        (json!({}), vec![required[0], required[1], required[2], "args.user.address.zip"]),
        (json!({"user": {"address": {"zip": 1}}}), required.to_vec()),
        (
            json!({"user": {"address": {"city": {}, "zip": "x"}, "age": []},
                "order": {"total": "x"}}),
            vec!["args.order.total", required[2], "args.user.address.zip", "args.user.age"],
        ),
        // A name with dots is no way around the objects.
        (
            json!({"user.address.city": "x", "user.address.zip": 1, "order": {"total": 1}}),
            vec![required[2], "args.user.address.zip"],
        ),
        (json!({"order": 1, "user": {"address": {"city": "", "zip": 0}}}), vec![required[0]]),
    ] {
        let shown = args.to_string();
        assert_eq!(react(&server, &reactor, args).await.faults(), expected, "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_token_supplies_nested_parameters_after_it_was_opened() {
    let server = TestServer::start().await;
    let parameters = json!([
        {"name": "bank.routing_number", "type": "number"},
        {"name": "bank.account_number", "type": "string"},
        {"name": "text.a", "type": "number", "optional": true},
    ]);
    let reactor = declaring(&server, parameters, "forward").await;
    let data = json!({"routing_number": "121000358", "account_number": "0012"});
    let bank = format!("{{{{ {} }}}}", server.private.token("bank", data).await);
    let expected = json!({"routing_number": 121_000_358, "account_number": "0012"});
    assert_eq!(got(&server, &reactor, json!({"bank": bank})).await["bank"], expected);
    // A token of JSON text is an object where one is declared.
    let text = server.private.token("token", json!("{\"a\": \"3\"}")).await;
    let args = json!({"bank": bank, "text": format!("{{{{ {text} }}}}")});
    assert_eq!(got(&server, &reactor, args).await["text"], json!({"a": 3}));
    let card = server.private.token("token", json!({"routing_number": "x"})).await;
    let faults = react(&server, &reactor, json!({"bank": format!("{{{{ {card} }}}}")})).await;
    assert_eq!(faults.faults(), ["args.bank.account_number", "args.bank.routing_number"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_token_holds_is_never_read_as_a_reference() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let secret = server.private.token("token", json!("the secret")).await;
    let reference = format!("{{{{ {secret} }}}}");
    let deceit = server.private.token("token", json!({"say": reference})).await;
    let args = json!({"whole": format!("{{{{ {deceit} }}}}"),
        "part": format!("> {{{{ {deceit} | json: '$.say' }}}} <")});
    let expected = json!({"whole": {"say": reference}, "part": format!("> {reference} <")});
    assert_eq!(got(&server, &reactor, args).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_whole_token_is_shaped_by_the_rule_too() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let path = format!("/reactors/{reactor}/react");
    let number = "4242424242424242";
    let id = server.private.token("card_number", json!(number)).await;
    let (data, whole) = (format!("{{{{ {id} }}}}"), format!("{{{{ token: {id} }}}}"));
    for (transform, shown) in
        [("reveal", json!(number)), ("mask", json!("XXXXXXXXXXXX4242")), ("redact", Value::Null)]
    {
        let rules = json!([{"description": "", "priority": 1, "container": "/pci/",
            "transform": transform, "permissions": ["token:use"]}]);
        let user = server.application("private", &[], rules).await;
        let body = json!({"args": {"data": data, "whole": whole}});
        let answer = user.post(&path, body).await;
        let args = answer.expect(200)["raw"]["args"].clone();
        assert_eq!(args["data"], shown, "{transform}");
        assert_eq!(args["whole"].get("data").unwrap_or(&Value::Null), &shown, "{transform}");
        assert_eq!(
            (&args["whole"]["id"], &args["whole"]["type"]),
            (&json!(id), &json!("card_number"))
        );
        assert_eq!(answer.text().contains(number), transform == "reveal", "{transform}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_do_not_grow_without_bound() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let big = server.private.token("token", json!("x".repeat(1_000_000))).await;
    let reference = format!("{{{{ {big} }}}}");
    let times = |count: usize| json!({"all": vec![&reference; count]});
    let answer = react(&server, &reactor, times(40)).await;
    assert!(answer.faults().iter().all(|path| path.starts_with("args.all[")), "{}", answer.text());
    let fits = json!({"all": vec![&reference; 3], "behaviour": "respond", "raw": "fine"});
    assert_eq!(react(&server, &reactor, fits).await.expect(200)["raw"], "fine");
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tenants_token_looks_as_if_it_never_was() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let other = server.other_tenant().await;
    let body = json!({"name": "p", "type": "private", "permissions": ["token:create"]});
    let made = other.post("/applications", body).await.expect(201);
    let stranger = server.client(made["key"].as_str().unwrap());
    let foreign = stranger.token("token", json!("theirs")).await;
    let ask = async |id: &str| {
        let mut problem =
            react(&server, &reactor, json!({"a": format!("{{{{ {id} }}}}")})).await.expect(400);
        problem["trace_id"].take();
        problem
    };
    assert_eq!(ask(&foreign).await, ask("00000000-0000-7000-8000-000000000000").await);
    // So does their reactor, whatever the body.
    let mut problems = Vec::new();
    for id in [reactor.as_str(), "00000000-0000-7000-8000-000000000000"] {
        let body = json!({"name": "p", "type": "private", "permissions": ["token:use"]});
        let made = other.post("/applications", body).await.expect(201);
        let user = server.client(made["key"].as_str().unwrap());
        let answer = user.post(&format!("/reactors/{id}/react"), json!({"args": {"a": 1}})).await;
        let mut problem = answer.expect(404);
        problem["trace_id"].take();
        problems.push(problem);
    }
    assert_eq!(problems[0], problems[1]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_is_missing_does_not_hide_what_else_is_wrong() {
    let server = TestServer::start().await;
    let parameters = json!([
        {"name": "amount", "type": "number"},
        {"name": "card", "type": "object"},
        {"name": "card.number", "type": "string"},
        {"name": "card.expiration_year", "type": "number"},
        {"name": "live", "type": "boolean"},
        {"name": "user.name", "type": "string"},
        {"name": "user.age", "type": "number"},
    ]);
    let reactor = declaring(&server, parameters, "forward").await;
    let gone = "{{ 00000000-0000-7000-8000-000000000000 }}";
    let there = format!("{{{{ {} }}}}", server.private.token("token", json!("no number")).await);
    let table = [
        // What a token would bring is not known, above or below where it stands.
        (json!({"card": gone, "amount": "much"}), "card amount live user.age user.name"),
        (
            json!({"card": {"number": "1", "expiration_year": gone}, "user": {"name": "n"}}),
            "card.expiration_year amount live user.age",
        ),
        (
            json!({"card": gone, "amount": gone, "live": gone, "user": gone}),
            "amount card live user",
        ),
        (
            json!({"card": {"number": gone}, "extra": gone, "live": "maybe"}),
            "amount card.expiration_year card.number extra live user.age user.name",
        ),
        // Nor is one looked at that is there: nobody has decided whether the caller may use it.
        (
            json!({"card": gone, "amount": there, "live": true, "user": {"name": [], "age": 1}}),
            "card user.name",
        ),
    ];
    for (args, expected) in table {
        let mut expected: Vec<_> = expected.split(' ').map(|path| format!("args.{path}")).collect();
        expected.sort();
        let answer = react(&server, &reactor, args.clone()).await;
        assert_eq!(answer.status, 400, "{args}");
        assert_eq!(answer.faults(), expected, "{args}");
        assert!(answer.text().contains("refers to a token that does not exist"), "{args}");
    }
    // With more references than faults can name, nothing is said of the others.
    let many: Vec<_> = (0..101).map(|_| gone).collect();
    let answer = react(&server, &reactor, json!({"list": many, "amount": "much"})).await;
    assert!(answer.faults().iter().all(|path| path.is_empty() || path.starts_with("args.list[")));
}

/// What looks like an expression and is none is what it is; what cannot be read has one fault, and not another one for it.
#[tokio::test(flavor = "multi_thread")]
async fn what_only_looks_like_an_expression_is_not_missing() {
    let server = TestServer::start().await;
    let parameters = json!([{"name": "a", "type": "string"}, {"name": "b", "type": "number"}]);
    let reactor = declaring(&server, parameters, "forward").await;
    for (args, expected) in [
        (json!({"a": "5 {% x", "b": "y"}), vec!["args.b", "timeout_ms"]),
        (json!({"a": "{{ no id", "b": "y"}), vec!["args.a", "args.b", "timeout_ms"]),
        (json!({"a": "5 {% x"}), vec!["args.b", "timeout_ms"]),
    ] {
        let body = json!({"args": args, "timeout_ms": 20_000});
        let answer = server.private.post(&format!("/reactors/{reactor}/react"), body).await;
        assert_eq!(answer.faults(), expected, "{}", answer.text());
        assert!(!answer.text().contains("\"args.a\":[\"is required\"]"), "{}", answer.text());
        let told = answer.expect(400)["errors"]["args.a"].clone();
        assert!(told.as_array().is_none_or(|told| told.len() == 1), "{told}");
    }
    assert_eq!(got(&server, &reactor, json!({"a": "5 {% x", "b": 1})).await["a"], "5 {% x");
}
