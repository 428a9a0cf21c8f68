//! Bodies with more than one fault: none hides another that does not follow from it (decisions §1).

use serde_json::{Value, json};

use crate::support::{TestServer, guests};

/// No entity has this id.
const NOTHING: &str = "00000000-0000-7000-8000-000000000000";

/// An object with these members set, or taken out where they are `null`.
fn with(mut object: Value, members: Value) -> Value {
    let object_members = object.as_object_mut().unwrap();
    for (name, value) in members.as_object().unwrap() {
        if value.is_null() {
            object_members.remove(name);
        } else {
            object_members.insert(name.clone(), value.clone());
        }
    }
    object
}

#[tokio::test(flavor = "multi_thread")]
async fn a_type_that_is_none_hides_no_expression_that_cannot_be_evaluated() {
    let server = TestServer::start().await;
    let body = json!({"type": "nothing", "data": {"a": 1},
        "mask": {"b": "{{ data.x | json: '$.q' }}"}, "search_indexes": ["{{ data.missing }}"],
        "fingerprint_expression": "{{ data.a | json: '$.q' }}"});
    let named = ["fingerprint_expression", "mask.b", "search_indexes[0]"];
    for kind in [json!("nothing"), json!(5), json!(null)] {
        let body = with(body.clone(), json!({"type": kind}));
        let answer = server.private.post("/tokens", body).await;
        assert_eq!(answer.faults(), [&named[..], &["type"]].concat(), "{kind}");
    }
    // What only another type would mind is no fault of a body that has none.
    for data in [json!("no card"), json!(1), json!({"number": "1"})] {
        let body = json!({"type": "nothing", "data": data});
        assert_eq!(server.private.post("/tokens", body).await.faults(), ["type"], "{data}");
    }
    assert!(server.private.list("").await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_priority_is_told_to_be_another_rules_whatever_else_is_wrong_with_either() {
    let server = TestServer::start().await;
    let rule = json!({"description": "d", "priority": 1, "container": "/", "transform": "mask",
        "permissions": ["token:read"]});
    let refused = async |rules: Value| {
        let application = json!({"name": "n", "type": "private", "rules": rules});
        let made = server.management.post("/applications", application).await.faults();
        let session = json!({"nonce": "n", "rules": rules});
        let granted = server.private.post("/sessions/authorize", session).await.faults();
        assert_eq!(made, granted, "{rules}");
        made
    };
    for (member, value) in [
        ("transform", json!("show")),
        ("transform", json!(null)),
        ("permissions", json!(null)),
        ("permissions", json!(5)),
        ("container", json!("x")),
        ("description", json!(5)),
    ] {
        let faulty = with(rule.clone(), json!({member: value}));
        for (faulty_at, rules) in [(0, json!([faulty, rule])), (1, json!([rule, faulty]))] {
            let mut expected =
                [format!("rules[{faulty_at}].{member}"), "rules[1].priority".to_owned()];
            expected.sort();
            assert_eq!(refused(rules).await, expected, "{member} {value}");
        }
    }
    // Of one that is none nothing more is told.
    let none = with(rule, json!({"priority": 0}));
    let body = json!({"name": "n", "type": "private", "rules": [none, none]});
    let problem = server.management.post("/applications", body).await.expect(400);
    for index in 0..2 {
        let told = &problem["errors"][format!("rules[{index}].priority")];
        assert_eq!(told.as_array().unwrap().len(), 1, "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_faulty_declaration_is_still_one_of_its_name() {
    let server = TestServer::start().await;
    let entry = json!({"name": "a", "type": "string"});
    for list in ["configuration", "request_parameters"] {
        for (member, value) in
            [("type", json!("text")), ("type", json!(null)), ("optional", json!(5))]
        {
            let faulty = with(entry.clone(), json!({member: value}));
            let formula = json!({"name": "n", "code": "module.exports = () => {}",
                list: [faulty, entry]});
            let answer = server.management.post("/reactor-formulas", formula).await;
            let expected = [format!("{list}[0].{member}"), format!("{list}[1].name")];
            assert_eq!(answer.faults(), expected, "{member} {value}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_reactor_is_told_of_its_application_whatever_its_formula_is() {
    let server = TestServer::start().await;
    let body = json!({"name": "n", "type": "management", "permissions": ["log:read"]});
    let management = server.management.post("/applications", body).await.expect(201);
    let formula = guests::formula(&server, "bare", json!({})).await;
    let post = async |formula: &Value, application: &Value| {
        let body = json!({"name": "r", "configuration": {}, "formula": formula,
            "application": {"id": application}});
        server.management.post("/reactors", body).await.faults()
    };
    for application in [&json!(NOTHING), &management["id"]] {
        for (reference, fault) in [
            (json!({"id": NOTHING}), "formula.id"),
            (json!({"id": "x"}), "formula.id"),
            (json!({}), "formula.id"),
            (json!(null), "formula"),
        ] {
            let faults = post(&reference, application).await;
            assert_eq!(faults, ["application.id", fault], "{reference} {application}");
        }
        assert_eq!(post(&json!({"id": formula}), application).await, ["application.id"]);
    }
    // As one is that is not there, if its body is refused before that.
    let path = format!("/reactors/{NOTHING}");
    for application in [&json!(NOTHING), &management["id"]] {
        let body = json!({"name": 5, "configuration": {}, "application": {"id": application}});
        let answer = server.management.put(&path, body.clone()).await;
        assert_eq!(answer.faults(), ["application.id", "name"], "{application}");
        server.management.put(&path, with(body, json!({"name": "r"}))).await.expect(404);
    }
    let right = json!({"name": "r", "configuration": {}});
    server.management.put(&path, right).await.expect(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_of_no_token_is_told_of_its_mask_and_metadata_too() {
    let server = TestServer::start().await;
    let patch = json!({"search_indexes": ["{{ data"], "mask": {"a": "{{ data | nothing }}", "b": null},
        "metadata": {"a": 5, "b": null, "": "c"}});
    let faults = ["mask.a", "metadata.", "metadata.a", "search_indexes[0]"];
    assert_eq!(server.private.patch("/tokens/nothing", patch.clone()).await.faults(), faults);
    // By themselves, too, they come before the token that is not there.
    for member in ["mask", "metadata"] {
        let patch = json!({ member: patch[member] });
        let answer = server.private.patch("/tokens/nothing", patch).await;
        assert!(answer.faults().iter().all(|path| path.starts_with(member)), "{member}");
    }
    let right = json!({"mask": {"a": "{{ data }}", "b": null}, "metadata": {"a": "b", "": null}});
    server.private.patch("/tokens/nothing", right).await.expect(404);
    // A token that is there is told the same, and is as it was.
    let id = server.private.token("token", json!("a")).await;
    let before = server.private.get(&format!("/tokens/{id}")).await.expect(200);
    assert_eq!(server.private.patch(&format!("/tokens/{id}"), patch).await.faults(), faults);
    assert_eq!(server.private.get(&format!("/tokens/{id}")).await.expect(200), before);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_index_expression_that_is_none_hides_no_other_that_cannot_be_evaluated() {
    let server = TestServer::start().await;
    let id = server.private.token("token", json!({"a": "b"})).await;
    let many: Vec<_> = (0..21).map(|_| "{{ data.missing }}").collect();
    let each: Vec<_> = (0..20).map(|index| format!("[{index}]")).collect();
    for (indexes, wrong) in [
        (json!(["{{ data", "{{ data.missing }}", "{{ data.a }}"]), "[0] [1]".to_owned()),
        (
            json!(["{{ data.missing }}", 5, "{{ data.a }}", "{{ data | nothing }}"]),
            "[0] [1] [3]".to_owned(),
        ),
        (json!([null, "{{ data.missing }}"]), "[0] [1]".to_owned()),
        // No more are evaluated than there may be.
        (json!(many), format!(" {}", each.join(" "))),
    ] {
        let mut expected: Vec<_> =
            wrong.split(' ').map(|place| format!("search_indexes{place}")).collect();
        expected.sort_unstable();
        let body = json!({"type": "token", "data": {"a": "b"}, "search_indexes": indexes});
        assert_eq!(server.private.post("/tokens", body).await.faults(), expected, "{indexes}");
        let patch = json!({ "search_indexes": indexes });
        let answer = server.private.patch(&format!("/tokens/{id}"), patch).await;
        assert_eq!(answer.faults(), expected, "{indexes}");
    }
    let found = server.private.get(&format!("/tokens/{id}")).await.expect(200);
    assert_eq!(found.get("search_indexes"), None);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_part_of_a_mask_that_is_none_hides_no_other_that_cannot_be_evaluated() {
    let server = TestServer::start().await;
    let mask =
        json!({"a": "{{ data.q }}", "b": ["{{ data | zz }}", "{{ data }}", "{{ data"], "c": 5});
    let body = json!({"type": "token", "data": "x", "mask": mask});
    let faults = ["mask.a", "mask.b[0]", "mask.b[2]"];
    assert_eq!(server.private.post("/tokens", body).await.faults(), faults);
    let id = server.private.token("token", json!("x")).await;
    let answer = server.private.patch(&format!("/tokens/{id}"), json!({ "mask": mask })).await;
    assert_eq!(answer.faults(), faults);
}

/// A reactor of a formula that wants a number `n` and a text `t`; gives where it runs.
async fn wanting(server: &TestServer) -> String {
    let parameters = json!([{"name": "n", "type": "number"}, {"name": "t", "type": "string"}]);
    let formula = guests::formula(server, "probe", json!({"request_parameters": parameters})).await;
    format!("/reactors/{}/react", guests::reactor(server, &formula, json!({})).await)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_or_a_time_that_is_none_hides_nothing_that_is_wrong_with_the_arguments() {
    let server = TestServer::start().await;
    let path = wanting(&server).await;
    let token = format!("{{{{ {} }}}}", server.private.token("token", json!("no number")).await);
    let gone = format!("{{{{ {NOTHING} }}}}");
    let table = [
        (json!(null), "args args.n args.t"),
        (json!({}), "args.n args.t"),
        (json!({"n": "many", "t": "x"}), "args.n"),
        (json!({"n": gone, "t": []}), "args.n args.t"),
        (json!({"n": "{{ open", "t": []}), "args.n args.t"),
        (json!({"n": "many", "t": "{{ open"}), "args.n args.t"),
        // Nothing follows from what is not there to be looked at.
        (json!(5), "args"),
        (json!({"n": "{{ open", "t": gone}), "args.n args.t"),
        (json!({"n": 1, "t": ["{{ open"]}), "args.t args.t[0]"),
        // Nobody has decided whether the caller may use it.
        (json!({"n": token, "t": "x"}), ""),
    ];
    for (args, expected) in table {
        for (wrong, fault) in [
            (json!({"timeout_ms": "x"}), "timeout_ms"),
            (json!({"timeout_ms": 20_000}), "timeout_ms"),
            (json!({"callback_url": 5}), "callback_url"),
            (json!({"callback_url": "ftp://example.com/"}), "callback_url"),
            (json!({"callback_url": "https://example.com/", "timeout_ms": 1}), "timeout_ms"),
        ] {
            let body = with(wrong, json!({"args": args}));
            let mut expected: Vec<_> = expected.split_whitespace().chain([fault]).collect();
            expected.sort_unstable();
            let answer = server.private.post(&path, body.clone()).await;
            assert_eq!(answer.faults(), expected, "{body}");
        }
    }
    // No token was opened for any of these.
    let logs = server.management.get("/logs?entity_type=token&size=100").await.text();
    assert!(!logs.contains("Token used"), "{logs}");
    // Without a reactor there is nothing to compare the arguments with.
    let nowhere = format!("/reactors/{NOTHING}/react");
    let body = json!({"timeout_ms": 20_000});
    assert_eq!(server.private.post(&nowhere, body).await.faults(), ["timeout_ms"]);
    // A time is not said to want an address that is there, but none.
    let body = json!({"args": {"n": 1, "t": "x"}, "callback_url": 5, "timeout_ms": 20_000});
    assert_eq!(server.private.post(&path, body).await.faults(), ["callback_url"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reference_that_cannot_be_filled_hides_nothing_that_is_wrong_beside_it() {
    let server = TestServer::start().await;
    let path = wanting(&server).await;
    let token = server.private.token("token", json!({"a": 1})).await;
    let nothing = format!("{{{{ {token} | json: '$.b' }}}}");
    for (args, expected) in [
        (json!({"n": nothing}), vec!["args.n", "args.t"]),
        (json!({"n": "many", "t": "x", "more": nothing}), vec!["args.more", "args.n"]),
        (json!({"n": "{{ open"}), vec!["args.n", "args.t"]),
        (json!({"n": "{{ open", "t": format!("{{{{ {NOTHING} }}}}")}), vec!["args.n", "args.t"]),
    ] {
        let answer = server.private.post(&path, json!({"args": args})).await;
        assert_eq!(answer.faults(), expected, "{args}");
    }
}
