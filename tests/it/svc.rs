//! `svc`: what a formula may do with the vault (decisions §7).

use serde_json::{Value, json};
use tokamak::limits::SVC_CALLS_MAX;

use crate::support::{TestServer, guests};

const ALL: [&str; 6] =
    ["token:create", "token:read", "token:update", "token:delete", "token:search", "token:use"];

/// A server and a reactor that acts as an application with these rights; gives the application's id too.
async fn reactor(kind: &str, permissions: &[&str], rules: Value) -> (TestServer, String, String) {
    let server = TestServer::start().await;
    let body = json!({"name": "svc", "type": kind, "permissions": permissions, "rules": rules});
    let application = server.management.post("/applications", body).await.expect(201);
    let id = application["id"].as_str().unwrap().to_owned();
    let formula = guests::formula(&server, "probe", json!({})).await;
    let reactor = guests::reactor(&server, &formula, json!({"application": {"id": id}})).await;
    (server, reactor, id)
}

async fn call(server: &TestServer, reactor: &str, operation: &str, input: Value) -> Value {
    let args = json!({"behaviour": "svc", "operation": operation, "input": input, "catch": true});
    let answer =
        server.private.post(&format!("/reactors/{reactor}/react"), json!({"args": args})).await;
    answer.expect(200)["raw"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_works() {
    let reveal = json!([{"description": "", "priority": 1, "container": "/", "transform": "reveal", "permissions": ALL}]);
    let (server, reactor, application) = reactor("private", &[], reveal).await;
    let call =
        async |operation: &str, input: Value| call(&server, &reactor, operation, input).await;
    let made = call("create", json!({"type": "card_number", "data": "4242424242424242"})).await;
    let id = made["id"].clone();
    assert_eq!(made["data"], "4242424242424242");
    assert_eq!(call("get", id.clone()).await, made);
    let changed = call("update", json!({"id": id, "patch": {"metadata": {"k": "v"}}})).await;
    assert_eq!(changed["id"], id);
    let listed = call("list", json!({"type": ["card_number"]})).await;
    assert_eq!((&listed["total"], &listed["tokens"][0]["id"]), (&json!(1), &id));
    let found = call("search", json!({"query": "metadata.k:V"})).await;
    assert_eq!(
        (&found["total"], &found["tokens"][0]["data"]),
        (&json!(1), &json!("4242424242424242"))
    );
    let tokens = call("tokenize", json!({"a": "x", "b": [1]})).await;
    let references = json!([
        format!("<< {} >>", tokens["a"].as_str().unwrap()),
        format!("<< {} >>", tokens["b"][0].as_str().unwrap())
    ]);
    assert_eq!(call("detokenize", references).await, json!(["x", 1]));
    assert_eq!(call("delete", id.clone()).await, Value::Null);
    let gone = call("get", id).await;
    assert_eq!((&gone["status"], &gone["title"]), (&json!(404), &json!("Not Found")));
    // The application acted, and the log says so.
    let logs = server.management.get("/logs?entity_type=token&size=50").await.expect(200);
    let by_it = logs["data"]
        .as_array()
        .unwrap()
        .iter()
        .filter(|entry| entry["actor_id"] == application.as_str());
    assert!(by_it.count() >= 8);
}

#[tokio::test(flavor = "multi_thread")]
async fn it_has_the_rights_of_the_application_and_no_more() {
    let rules = json!([{"description": "", "priority": 1, "container": "/pci/", "transform": "mask", "permissions": ["token:read", "token:search"]}]);
    let (server, reactor, _) = reactor("private", &["token:create"], rules).await;
    let make = async |container: &str| {
        let body =
            json!({"type": "card_number", "data": "4242424242424242", "containers": [container]});
        server.private.post("/tokens", body).await.expect(201)["id"].clone()
    };
    let (inside, outside) = (make("/pci/").await, make("/bank/").await);
    let call =
        async |operation: &str, input: Value| call(&server, &reactor, operation, input).await;
    assert_eq!(call("get", inside.clone()).await["data"], "XXXXXXXXXXXX4242");
    for (operation, input) in [
        ("get", outside.clone()),
        ("delete", inside.clone()),
        ("update", json!({"id": inside, "patch": {}})),
        ("detokenize", json!(format!("<< {} >>", inside.as_str().unwrap()))),
    ] {
        assert_eq!(call(operation, input).await["status"], 403, "{operation}");
    }
    assert_eq!(call("search", json!({"query": "type:card_number"})).await["total"], 1);
    assert_eq!(call("list", json!({})).await["total"], 1);
    let refused = call("search", json!({"query": "nonsense"})).await;
    assert_eq!((&refused["status"], &refused["errors"][0][0]), (&json!(400), &json!("query")));
    let refused = call("create", json!({"type": "card_number", "data": "1"})).await;
    assert_eq!((&refused["status"], &refused["errors"][0][0]), (&json!(400), &json!("data")));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_becomes_the_formulas_error_and_without_application_there_is_no_svc() {
    let (server, reactor, _) = reactor("public", &["token:create"], json!([])).await;
    let args = json!({"behaviour": "svc", "operation": "get", "input": "x"});
    let answer =
        server.private.post(&format!("/reactors/{reactor}/react"), json!({"args": args})).await;
    assert_eq!(answer.expect(403)["title"], "Forbidden");
    let without = guests::echo_reactor(&server).await;
    let answer =
        server.private.post(&format!("/reactors/{without}/react"), json!({"args": args})).await;
    assert_eq!(answer.expect(500)["detail"], "there is no svc");
    // What is tokenized is made by the reactor's application, whatever the caller may do.
    let user = server.application("private", &["token:use"], json!([])).await;
    let body = json!({"args": {"behaviour": "respond", "tokenize": "x"}});
    let made = user.post(&format!("/reactors/{reactor}/react"), body).await.expect(200);
    let id = made["tokens"].as_str().unwrap();
    server.private.get(&format!("/tokens/{id}")).await.expect(200);
}

/// Over HTTP an address bounds what is named; a formula may name whatever it likes.
#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_cannot_be_an_id_does_not_get_into_the_log() {
    let (server, reactor, _) = reactor("private", &["token:create"], json!([])).await;
    let long = "x".repeat(1 << 20);
    for (operation, input) in [
        ("get", json!(long)),
        ("delete", json!(long)),
        ("update", json!({"id": long, "patch": {}})),
        ("get", json!("no/id")),
        ("get", json!("my-token")),
    ] {
        assert_eq!(call(&server, &reactor, operation, input).await["status"], 403, "{operation}");
    }
    let logs = server.management.get("/logs?entity_type=token&size=100").await;
    assert!(logs.bytes.len() < 1 << 16, "{} bytes", logs.bytes.len());
    let logs = logs.expect(200);
    // The newest come first. What may be an id is named, whether there is such a token or not.
    let denied = logs["data"].as_array().unwrap().iter();
    let named: Vec<_> = denied.map(|entry| (&entry["message"], &entry["entity_id"])).collect();
    let [read, update, delete] =
        ["read", "update", "delete"].map(|what| json!(format!("Denied: token:{what}")));
    let (empty, id) = (json!(""), json!("my-token"));
    let expected =
        [(&read, &id), (&read, &empty), (&update, &empty), (&delete, &empty), (&read, &empty)];
    assert_eq!(named, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn that_a_token_was_given_is_in_the_log_before_the_formula_can_store_it_anew() {
    let (server, reactor, _) = reactor("private", &["token:create"], json!([])).await;
    let given = server.private.token("token", json!("seen")).await;
    let input = json!({"type": "token", "data": format!("{{{{ {given} }}}}")});
    let made = call(&server, &reactor, "create", input).await["id"].clone();
    let logs = server.management.get("/logs?entity_type=token&size=50").await.expect(200);
    // The newest come first.
    let place = |id: &str, operation: &str| {
        let wanted = |entry: &Value| entry["entity_id"] == id && entry["operation"] == operation;
        logs["data"].as_array().unwrap().iter().position(wanted).unwrap()
    };
    assert!(place(made.as_str().unwrap(), "create") < place(&given, "use"));
    let used = logs["data"].as_array().unwrap().iter().filter(|entry| entry["operation"] == "use");
    assert_eq!(used.count(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_key_is_nowhere_in_what_a_formula_sees() {
    let (server, reactor, _) = reactor("private", &["token:create"], json!([])).await;
    let seen = server.private.post(&format!("/reactors/{reactor}/react"), json!({})).await;
    assert_eq!(seen.expect(200)["raw"]["svc"], true);
    assert!(!seen.text().contains("key_"));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_that_ended_stops_its_reactors() {
    let server = TestServer::start().await;
    let body = json!({"name": "a", "type": "private", "permissions": ["token:read"], "expires_at": "2026-01-01T01:00:00Z"});
    let application = server.management.post("/applications", body).await.expect(201);
    let formula = guests::formula(&server, "probe", json!({})).await;
    let reactor =
        guests::reactor(&server, &formula, json!({"application": {"id": application["id"]}})).await;
    let path = format!("/reactors/{reactor}/react");
    server.private.post(&path, json!({})).await.expect(200);
    server.clock.advance_ms(3_600_000);
    server.private.post(&path, json!({})).await.expect(409);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_operation_needs_the_applications_own_permission() {
    let table = [
        ("create", json!({"type": "token", "data": 1}), "token:create"),
        ("tokenize", json!({"a": 1}), "token:create"),
        ("get", json!("my-token"), "token:read"),
        ("list", json!({}), "token:read"),
        ("detokenize", json!("<< my-token >>"), "token:read"),
        ("search", json!({"query": "id:my-token"}), "token:search"),
        ("update", json!({"id": "my-token", "patch": {"metadata": {"a": "b"}}}), "token:update"),
        ("delete", json!("my-token"), "token:delete"),
    ];
    for permission in ["token:create", "token:read", "token:search", "token:update", "token:delete"]
    {
        let rules = json!([{"description": "", "priority": 1, "container": "/",
            "transform": "reveal", "permissions": [permission]}]);
        let (server, reactor, application) = reactor("private", &[], rules).await;
        let kept = json!({"id": "my-token", "type": "token", "data": "kept"});
        server.private.post("/tokens", kept).await.expect(201);
        for (operation, input, needed) in &table {
            let result = call(&server, &reactor, operation, input.clone()).await;
            let status = result.get("status").and_then(Value::as_u64);
            let expected = (*needed != permission).then_some(403);
            assert_eq!(status, expected, "{operation} with {permission}: {result}");
        }
        // The refusals are the application's own in the log, not the caller's.
        let logs = server.management.get("/logs?size=100").await.expect(200);
        let entries = logs["data"].as_array().unwrap().iter();
        let mut denied: Vec<_> = entries
            .filter(|entry| entry["message"].as_str().unwrap().starts_with("Denied"))
            .map(|entry| {
                assert_eq!(entry["actor_id"], application.as_str(), "{entry}");
                entry["message"].as_str().unwrap()["Denied: ".len()..].to_owned()
            })
            .collect();
        denied.sort_unstable();
        let mut expected: Vec<_> =
            table.iter().map(|row| row.2).filter(|needed| *needed != permission).collect();
        expected.sort_unstable();
        assert_eq!(denied, expected, "{permission}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn it_sees_by_its_own_transform_and_not_by_the_callers() {
    let number = "4242424242424242";
    for (transform, seen) in
        [("reveal", json!(number)), ("mask", json!("XXXXXXXXXXXX4242")), ("redact", Value::Null)]
    {
        let rules = json!([{"description": "", "priority": 1, "container": "/",
            "transform": transform, "permissions": ["token:read", "token:search"]}]);
        let (server, reactor, _) = reactor("private", &[], rules).await;
        // The caller sees nothing of it in an answer, and all of it in an argument.
        let caller = json!([
            {"description": "", "priority": 1, "container": "/", "transform": "redact",
                "permissions": ["token:read"]},
            {"description": "", "priority": 2, "container": "/", "transform": "reveal",
                "permissions": ["token:use"]},
        ]);
        let caller = server.application("private", &[], caller).await;
        let id = server.private.token("card_number", json!(number)).await;
        let ask = async |operation: &str, input: Value| {
            let args = json!({"behaviour": "svc", "operation": operation, "input": input,
                "catch": true});
            let path = format!("/reactors/{reactor}/react");
            caller.post(&path, json!({"args": args})).await.expect(200)["raw"].clone()
        };
        assert_eq!(ask("get", json!(id)).await["data"], seen, "{transform}");
        assert_eq!(ask("list", json!({})).await["tokens"][0]["data"], seen, "{transform}");
        let found = ask("search", json!({"query": format!("id:{id}")})).await;
        assert_eq!(found["tokens"][0]["data"], seen, "{transform}");
        let opened = ask("detokenize", json!([format!("<< {id} >>")])).await;
        match transform {
            "reveal" => assert_eq!(opened, json!([number])),
            _ => assert_eq!(opened["status"], 403, "{transform}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_it_makes_lies_where_its_rules_allow() {
    let rules = json!([{"description": "", "priority": 1, "container": "/general/",
        "transform": "reveal", "permissions": ["token:create", "token:read"]}]);
    let (server, reactor, application) = reactor("private", &[], rules).await;
    let made = call(&server, &reactor, "create", json!({"type": "token", "data": {"a": 1}})).await;
    let path = format!("/tokens/{}", made["id"].as_str().unwrap());
    let kept = server.revealing().await.get(&path).await.expect(200);
    assert_eq!((&kept["data"], &kept["created_by"]), (&json!({"a": 1}), &json!(application)));
    // The default container of cards is outside, alone and within a value: all or none.
    let card = json!({"type": "card_number", "data": "4242424242424242"});
    let before = server.private.list("").await;
    for (operation, input) in
        [("create", card.clone()), ("tokenize", json!(["fine", {"deep": card.clone()}]))]
    {
        assert_eq!(call(&server, &reactor, operation, input).await["status"], 403, "{operation}");
    }
    // So for what the formula answers to be tokenized, although the caller might.
    let args = json!({"behaviour": "respond", "tokenize": ["fine", card]});
    let react = format!("/reactors/{reactor}/react");
    server.private.post(&react, json!({"args": args})).await.expect(403);
    assert_eq!(server.private.list("").await, before);
    let args = json!({"behaviour": "respond", "tokenize": {"a": "x"}});
    let made = server.private.post(&react, json!({"args": args})).await.expect(200);
    let path = format!("/tokens/{}", made["tokens"]["a"].as_str().unwrap());
    assert_eq!(server.private.get(&path).await.expect(200)["created_by"], application.as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_taken_away_are_gone_at_the_next_run_and_tenants_stay_apart() {
    let (server, reactor, application) = reactor("private", &["token:read"], json!([])).await;
    let id = server.private.token("token", json!(1)).await;
    assert_eq!(call(&server, &reactor, "get", json!(id)).await["id"], id.as_str());
    let less = json!({"name": "less", "permissions": ["token:search"]});
    let path = format!("/applications/{application}");
    server.management.put(&path, less).await.expect(200);
    assert_eq!(call(&server, &reactor, "get", json!(id)).await["status"], 403);
    // A new key changes nothing: none ever was in the sandbox.
    server.management.post(&format!("{path}/regenerate"), json!({})).await.expect(200);
    assert_eq!(call(&server, &reactor, "search", json!({})).await["total"], 1);

    let other = server.other_tenant().await;
    let body = json!({"name": "p", "type": "private", "permissions": ALL});
    let stranger = other.post("/applications", body).await.expect(201);
    let stranger = server.client(stranger["key"].as_str().unwrap());
    let foreign = stranger.token("token", json!("theirs")).await;
    server.management.put(&path, json!({"name": "all", "permissions": ALL})).await.expect(200);
    assert_eq!(call(&server, &reactor, "get", json!(foreign)).await["status"], 404);
    assert_eq!(call(&server, &reactor, "delete", json!(foreign)).await["status"], 404);
    let update = json!({"id": foreign, "patch": {"data": 1}});
    assert_eq!(call(&server, &reactor, "update", update).await["status"], 404);
    let opened = call(&server, &reactor, "detokenize", json!(format!("<< {foreign} >>"))).await;
    assert_eq!(opened["status"], 400);
    let found = call(&server, &reactor, "search", json!({"query": format!("id:{foreign}")})).await;
    assert_eq!(found["total"], 0);
    stranger.get(&format!("/tokens/{foreign}")).await.expect(200);
}

/// To try again would come to the same, so nobody is told to.
#[tokio::test(flavor = "multi_thread")]
async fn who_calls_the_vault_too_often_is_not_told_to_try_again() {
    let server = TestServer::start().await;
    let made = json!({"name": "acting", "type": "private", "permissions": ["token:read"]});
    let made = server.management.post("/applications", made).await.expect(201);
    let code = "module.exports = async ({ args, svc }) => {
        let calls = 0;
        for (; calls < args.calls; calls++) {
            await svc.tokens.get('nobody').catch((error) => {
                if (error.status !== 404) throw error;
            });
        }
        return { raw: calls };
    };";
    let formula = json!({"name": "often", "code": code});
    let formula = server.management.post("/reactor-formulas", formula).await.expect(201);
    let body = json!({"name": "r", "configuration": {}, "formula": {"id": formula["id"]},
        "application": {"id": made["id"]}});
    let reactor = server.management.post("/reactors", body).await.expect(201);
    let react = format!("/reactors/{}/react", reactor["id"].as_str().unwrap());
    let calls = json!({"args": {"calls": SVC_CALLS_MAX}});
    assert_eq!(server.private.post(&react, calls).await.expect(200)["raw"], SVC_CALLS_MAX);
    let more = json!({"args": {"calls": SVC_CALLS_MAX + 1}});
    let answer = server.private.post(&react, more).await;
    assert!(answer.expect(500)["detail"].as_str().unwrap().contains("1000 times"));
    assert!(!answer.headers.contains_key("retry-after"));
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_taken_away_are_gone_in_a_run_that_goes_on() {
    let server = TestServer::start().await;
    server.private.token("token", json!("a")).await;
    let rules = json!([{"description": "all", "priority": 1, "container": "/", "transform": "reveal",
        "permissions": ["token:create", "token:read"]}]);
    for (code, what, status) in [
        ("return { raw: await svc.tokens.list({}) };", "narrow", 403),
        ("return { raw: await svc.tokens.list({}) };", "delete", 401),
        ("return { tokenize: 'b' };", "narrow", 403),
        ("return { tokenize: 'b' };", "delete", 409),
    ] {
        let body = json!({"name": "acting", "type": "private", "rules": rules});
        let made = server.management.post("/applications", body).await.expect(201);
        let application = made["id"].as_str().unwrap();
        let code = format!(
            "module.exports = async ({{ args, svc }}) => {{
                if (args.begun) {{
                    await svc.tokens.create({{ type: 'token', data: 1, metadata: {{ run: args.begun }} }});
                    await new Promise((done) => setTimeout(done, 2500));
                }}
                {code} }};"
        );
        let formula = json!({"name": "slow", "code": code});
        let formula = server.management.post("/reactor-formulas", formula).await.expect(201);
        let body = json!({"name": "r", "configuration": {}, "formula": {"id": formula["id"]},
            "application": {"id": application}});
        let reactor = server.management.post("/reactors", body).await.expect(201);
        let reactor = format!("/reactors/{}", reactor["id"].as_str().unwrap());
        let react = format!("{reactor}/react");
        server.private.post(&react, json!({"args": {}})).await.expect(200);
        let run = server.private.post(&react, json!({"args": {"begun": reactor}}));
        let begun = format!("/tokens?metadata.run={reactor}");
        let take_away = async {
            while server.private.get(&begun).await.expect(200)["pagination"]["total_items"] != 1 {
                tokio::task::yield_now().await;
            }
            let path = format!("/applications/{application}");
            if what == "delete" {
                server.management.delete(&reactor).await.expect(204);
                server.management.delete(&path).await.expect(204);
            } else {
                let body = json!({"name": "acting", "permissions": ["token:search"]});
                server.management.put(&path, body).await.expect(200);
            }
        };
        let (answer, ()) = tokio::join!(run, take_away);
        assert_eq!(answer.status, status, "{code} {what}: {}", answer.text());
    }
}
