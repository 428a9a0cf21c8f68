//! The audit log (interface §2.4, §4.3; decisions §10).

use serde_json::{Value, json};

use crate::support::receiver::Receiver;
use crate::support::server::Setup;
use crate::support::{TestServer, guests};

const HOUR_MS: u64 = 3_600_000;

async fn logged(server: &TestServer, query: &str) -> Vec<Value> {
    let page = server.management.get(&format!("/logs?size=100&{query}")).await.expect(200);
    page["data"].as_array().unwrap().clone()
}

fn brief(entries: &[Value]) -> Vec<String> {
    // Ids that are drawn are others each time, and digests whenever a guest is built otherwise.
    let is_digest = |word: &str| word.len() == 64 && word.bytes().all(|b| b.is_ascii_hexdigit());
    let shown = |word: &str| match uuid::Uuid::try_parse(word) {
        Ok(_) => "<id>".to_owned(),
        Err(_) if is_digest(word) => "<digest>".to_owned(),
        Err(_) => word.to_owned(),
    };
    let text = |entry: &Value, name: &str| {
        let words = entry[name].as_str().unwrap_or("-").split(' ').map(shown);
        words.collect::<Vec<_>>().join(" ")
    };
    let line = |entry: &Value| {
        format!(
            "{} {} {}: {}",
            text(entry, "actor_type"),
            text(entry, "operation"),
            text(entry, "entity_type"),
            text(entry, "message")
        )
    };
    entries.iter().rev().map(line).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_writes_its_entry() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let card = json!({"number": "4242424242424242"});
    let id = server.private.token("card", card).await;
    server.private.get(&format!("/tokens/{id}")).await.expect(200);
    let body = json!({"args": {"card": format!("{{{{ {id} }}}}")}});
    server.private.post(&format!("/reactors/{reactor}/react"), body).await.expect(200);
    server.private.post("/tokenize", json!({"a": "b"})).await.expect(200);
    server
        .revealing()
        .await
        .post("/detokenize", json!(format!("{{{{ {id} }}}}")))
        .await
        .expect(200);
    server.private.delete(&format!("/tokens/{id}")).await.expect(204);
    server.private.get("/logs").await.expect(403);
    let made = server.management.get(&format!("/reactors/{reactor}")).await.expect(200);
    let formula = made["formula"]["id"].as_str().unwrap();
    server.management.get(&format!("/reactor-formulas/{formula}/component")).await;
    server.management.get("/applications").await.expect(200);
    server.management.delete(&format!("/reactors/{reactor}")).await.expect(204);
    server.management.delete(&format!("/reactor-formulas/{formula}")).await.expect(204);
    insta::assert_snapshot!(brief(&logged(&server, "").await).join("\n"));
}

/// What is set up is changed by few, and each change of it is looked for first when something went wrong.
#[tokio::test(flavor = "multi_thread")]
async fn every_operation_on_what_is_set_up_is_an_entry() {
    let server = TestServer::start().await;
    let management = &server.management;
    let operations = async |id: &str| -> Vec<String> {
        let entries = logged(&server, &format!("entity_id={id}")).await;
        brief(&entries).iter().map(|line| line.split(' ').nth(1).unwrap().to_owned()).collect()
    };
    let body = json!({"name": "a", "type": "private", "permissions": ["token:read"]});
    let made = management.post("/applications", body.clone()).await.expect(201);
    let id = made["id"].as_str().unwrap();
    let path = format!("/applications/{id}");
    management.get(&path).await.expect(200);
    management.put(&path, body).await.expect(200);
    management.post(&format!("{path}/regenerate"), json!({})).await.expect(200);
    management.delete(&path).await.expect(204);
    assert_eq!(operations(id).await, ["create", "read", "update", "update", "delete"]);

    let formula = guests::formula(&server, "probe", json!({})).await;
    let path = format!("/reactor-formulas/{formula}");
    management.get("/reactor-formulas?name=*").await.expect(200);
    management.put(&path, json!({"name": "Renamed"})).await.expect(200);
    management.get(&format!("{path}/component")).await;
    let reactor = guests::reactor(&server, &formula, json!({})).await;
    let at = format!("/reactors/{reactor}");
    management.get("/reactors").await.expect(200);
    let body = json!({"name": "r", "formula": {"id": formula}, "configuration": {}});
    management.put(&at, body).await.expect(200);
    management.delete(&at).await.expect(204);
    management.delete(&path).await.expect(204);
    assert_eq!(operations(&reactor).await, ["create", "read", "update", "delete"]);
    assert_eq!(operations(&formula).await, ["create", "read", "update", "read", "delete"]);

    let tenant = management.get("/tenants/self").await.expect(200);
    management.put("/tenants/self", json!({"name": "Renamed"})).await.expect(200);
    let found = operations(tenant["id"].as_str().unwrap()).await;
    assert!(found.ends_with(&["read".to_owned(), "update".to_owned()]), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_that_reads_itself_is_an_entry() {
    let server = TestServer::start().await;
    let own = server.private.get("/applications/key").await.expect(200);
    let entries = logged(&server, &format!("entity_id={}", own["id"].as_str().unwrap())).await;
    let expected = [
        "application create application: Application created: granted token:create, token:delete, \
         token:read, token:search, token:update, token:use",
        "application read application: Application read by its key",
    ];
    assert_eq!(brief(&entries), expected);
    assert_eq!(entries[0]["actor_id"], own["id"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_sweep_erases_of_a_card_is_an_entry() {
    let server = TestServer::start().await;
    let card = json!({"number": "4242424242424242", "cvc": "123"});
    let id = server.private.token("card", card).await;
    let about = format!("entity_id={id}");
    let (created, erased) =
        ("application create card: Token created", "- update card: Token members erased");
    server.clock.advance_ms(HOUR_MS - 1);
    server.vault.sweep().await.unwrap();
    assert_eq!(brief(&logged(&server, &about).await), [created]);
    server.clock.advance_ms(1);
    server.vault.sweep().await.unwrap();
    assert_eq!(brief(&logged(&server, &about).await), [created, erased]);
    // Once.
    server.vault.sweep().await.unwrap();
    assert_eq!(logged(&server, &about).await.len(), 2);
}

fn operations_of(entries: &[Value]) -> Vec<&str> {
    entries.iter().map(|entry| entry["operation"].as_str().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn filters() {
    let server = TestServer::start().await;
    let card = server.private.token("card", json!({"number": "4242424242424242"})).await;
    server.clock.advance_ms(1_000);
    let bank = json!({"routing_number": "021000021", "account_number": "1"});
    server.private.token("bank", bank).await;
    server.clock.advance_ms(1_000);
    server.private.token("token", json!(1)).await;

    assert_eq!(logged(&server, "entity_type=card").await.len(), 1);
    assert_eq!(logged(&server, "entity_type=bank").await.len(), 1);
    assert_eq!(logged(&server, "entity_type=token").await.len(), 3, "cards and banks are tokens");
    assert_eq!(logged(&server, &format!("entity_type=card&entity_id={card}")).await.len(), 1);
    assert_eq!(logged(&server, &format!("entity_type=bank&entity_id={card}")).await.len(), 0);
    // An application's id, and any that is drawn, however it is spelled; a token's as it was given.
    let own = server.private.get("/applications/key").await.expect(200);
    let own = own["id"].as_str().unwrap().to_owned();
    let about = logged(&server, &format!("entity_id={own}")).await;
    assert!(!about.is_empty());
    for spelled in [own.to_uppercase(), own.replace('-', "")] {
        assert_eq!(logged(&server, &format!("entity_id={spelled}")).await, about, "{spelled}");
        let type_and_id = format!("entity_type=application&entity_id={spelled}");
        assert_eq!(logged(&server, &type_and_id).await, about, "{spelled}");
    }
    assert_ne!(card, card.to_uppercase());
    assert_eq!(logged(&server, &format!("entity_id={}", card.to_uppercase())).await.len(), 0);
    // What somebody did, on whatever; together with the others.
    let by_own = logged(&server, &format!("actor_id={own}")).await;
    assert!(by_own.iter().all(|entry| entry["actor_id"] == own.as_str()), "{by_own:?}");
    assert_eq!(operations_of(&by_own), ["read", "create", "create", "create"]);
    let narrow = format!("actor_id={}&entity_type=card&entity_id={card}", own.to_uppercase());
    assert_eq!(operations_of(&logged(&server, &narrow).await), ["create"]);
    assert_eq!(logged(&server, "actor_id=01930000-0000-7000-8000-000000000001").await.len(), 0);
    let refused = server.management.get("/logs?actor_id=me").await;
    assert_eq!(refused.expect(400)["errors"], json!({"actor_id": ["must be a UUID"]}));
    // From the start, inclusive, up to the end, exclusive.
    let range = "start_date=2026-01-01T00:00:01Z&end_date=2026-01-01T00:00:02Z";
    let found = logged(&server, range).await;
    assert_eq!(found.len(), 1);
    assert_eq!(found[0]["entity_type"], "bank");
    assert_eq!(logged(&server, "start_date=2026-01-02").await.len(), 0);
    // A bound before all that was ever logged, or after it, is as good as any.
    for (range, some) in [
        ("start_date=1969-12-31", true),
        ("start_date=0001-01-01T00:00:00Z&end_date=9999-12-31T23:59:59-12:00", true),
        ("end_date=1969-12-31T23:59:59.999Z", false),
        ("start_date=9999-12-31T23:59:59-12:00", false),
    ] {
        assert_eq!(!logged(&server, range).await.is_empty(), some, "{range}");
    }
    let answer = server.management.get("/logs?entity_type=x&start_date=y&end_date=z&page=0").await;
    assert_eq!(answer.faults(), ["end_date", "entity_type", "page", "start_date"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_entry_names_actor_and_time_and_never_data() {
    let server = TestServer::start().await;
    let own = server.private.get("/applications/key").await.expect(200);
    let body = json!({"type": "card_number", "data": "4242424242424242"});
    let made = server.private.post("/tokens", body).await;
    let id = made.expect(201)["id"].clone();
    let entries = logged(&server, &format!("entity_id={}", id.as_str().unwrap())).await;
    let expected = json!({
        "tenant_id": own["tenant_id"], "actor_id": own["id"], "actor_type": "application",
        "entity_type": "token", "entity_id": id, "operation": "create",
        "message": "Token created", "created_at": "2026-01-01T00:00:00.000+00:00",
        "trace_id": made.headers["svc-trace-id"].to_str().unwrap(),
    });
    assert_eq!(entries, [expected]);
}

#[tokio::test(flavor = "multi_thread")]
async fn denied_attempts_are_entries_too() {
    let server = TestServer::start().await;
    let id = server.private.token("card", json!({"number": "4242424242424242"})).await;
    let rule = json!([{"priority": 1, "container": "/bank/", "transform": "reveal",
        "permissions": ["token:read"]}]);
    let client = server.application("private", &[], rule).await;
    client.get(&format!("/tokens/{id}")).await.expect(403);
    client.delete(&format!("/tokens/{id}")).await.expect(403);
    let entries = logged(&server, &format!("entity_id={id}")).await;
    let expected = [
        "application create card: Token created",
        "application read card: Denied: token:read",
        "application delete card: Denied: token:delete",
    ];
    assert_eq!(brief(&entries), expected);
}

/// What decides is the rule for where the token is to lie, or for how it is to be shown.
#[tokio::test(flavor = "multi_thread")]
async fn a_denied_move_and_a_denied_detokenization_are_entries_of_the_token() {
    let server = TestServer::start().await;
    let rule = json!([{"priority": 1, "container": "/pci/", "transform": "mask",
        "permissions": ["token:read", "token:update"]}]);
    let client = server.application("private", &[], rule).await;
    let id = server.private.token("card", json!({"number": "4242424242424242"})).await;
    let path = format!("/tokens/{id}");
    client.patch(&path, json!({"containers": ["/pci/low/"]})).await.expect(200);
    let moved = client.patch(&path, json!({"containers": ["/pci/low/", "/bank/"]})).await;
    moved.expect(403);
    let reference = json!({"card": format!("{{{{ {id} }}}}")});
    let opened = client.post("/detokenize", reference.clone()).await;
    opened.expect(403);
    let entries = logged(&server, &format!("entity_id={id}")).await;
    let expected = [
        "application create card: Token created",
        "application update card: Token updated",
        "application update card: Denied: token:update",
        "application use card: Denied: token:read",
    ];
    assert_eq!(brief(&entries), expected);
    let own = client.get("/applications/key").await.expect(200);
    for (entry, answer) in entries.iter().zip([opened, moved]) {
        assert_eq!(entry["actor_id"], own["id"]);
        assert_eq!(entry["trace_id"], answer.headers["svc-trace-id"].to_str().unwrap());
    }
    // Who may read nothing is refused before any token is looked at, so that the entry names none.
    let powerless = server.application("private", &["token:create"], json!([])).await;
    let answer = powerless.post("/detokenize", reference).await;
    answer.expect(403);
    assert_eq!(logged(&server, &format!("entity_id={id}")).await, entries);
    let last = &logged(&server, "entity_type=token").await[0];
    assert_eq!(brief(std::slice::from_ref(last)), ["application use token: Denied: token:read"]);
    assert_eq!(last["trace_id"], answer.headers["svc-trace-id"].to_str().unwrap());
}

/// What is refused for some data only tells of the data: nobody reads a token so without an entry.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_is_refused_once_the_token_is_opened_is_a_look_at_it() {
    let server = TestServer::start().await;
    let id = server.private.token("social_security_number", json!("078051120")).await;
    let updater = server.application("public", &["token:update"], json!([])).await;
    let test = |digit| format!("{{{{ data | slice: 1, 1 | remove: '{digit}' }}}}");
    let patch = json!({"expires_at": "2001-01-01T00:00:00Z", "search_indexes": [test(7), test(8)]});
    let refused = updater.patch(&format!("/tokens/{id}"), patch).await;
    assert_eq!(refused.faults(), ["expires_at", "search_indexes[0]"]);
    let entries = logged(&server, &format!("entity_id={id}")).await;
    let expected = [
        "application create token: Token created",
        "application read token: Token read for a change that was refused",
    ];
    assert_eq!(brief(&entries), expected);
    let own = updater.get("/applications/key").await.expect(200);
    assert_eq!(entries[0]["actor_id"], own["id"]);
    // What is wrong with whatever token needs no look.
    updater.patch("/tokens/nothing-there", json!({"data": null})).await.expect(400);
    assert_eq!(logged(&server, "entity_id=nothing-there").await.len(), 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_attempt_is_found_by_the_id_however_its_path_spelled_it() {
    let server = TestServer::start().await;
    let own = server.private.get("/applications/key").await.expect(200);
    let id = own["id"].as_str().unwrap();
    for spelled in [id.to_owned(), id.to_uppercase(), id.replace('-', "")] {
        server.private.delete(&format!("/applications/{spelled}")).await.expect(403);
    }
    let path = format!("/logs?entity_id={id}&entity_type=application");
    let entries = server.management.get(&path).await.expect(200);
    let messages = entries["data"].as_array().unwrap().iter();
    let denied = messages.filter(|entry| entry["message"] == "Denied: application:delete");
    assert_eq!(denied.count(), 3, "{entries}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_attempt_at_a_card_or_bank_is_its_own_and_tells_the_caller_nothing() {
    let server = TestServer::start().await;
    let powerless = server.application("public", &["token:create"], json!([])).await;
    let other = server.other_tenant().await;
    let body = json!({"name": "p", "type": "private", "permissions": ["token:create"]});
    let other = other.post("/applications", body).await.expect(201);
    let other = server.client(other["key"].as_str().unwrap());
    let bank = json!({"routing_number": "021000021", "account_number": "1"});
    let data = [
        ("card", json!({"number": "4242424242424242"}), "card"),
        ("bank", bank, "bank"),
        ("token", json!(1), "token"),
    ];
    for (kind, data, logged_as) in data {
        let id = server.private.token(kind, data.clone()).await;
        let elsewhere = other.token(kind, data).await;
        let mut answers = Vec::new();
        // A token that is there, one that is another tenant's, and none.
        let none = format!("none-{kind}");
        for (id, logged_as) in [(&id, logged_as), (&elsewhere, "token"), (&none, "token")] {
            let path = format!("/tokens/{id}");
            let mut refusals = vec![powerless.get(&path).await.expect(403)];
            refusals.push(powerless.patch(&path, json!({})).await.expect(403));
            refusals.push(powerless.delete(&path).await.expect(403));
            for refusal in &mut refusals {
                refusal.as_object_mut().unwrap().remove("trace_id");
            }
            answers.push(refusals);
            let entries = logged(&server, &format!("entity_id={id}")).await;
            let denied = entries.iter().filter(|entry| {
                entry["message"].as_str().unwrap().starts_with("Denied")
                    && entry["entity_type"] == logged_as
            });
            assert_eq!(denied.count(), 3, "{kind} {entries:?}");
        }
        assert!(answers.iter().all(|refusals| refusals == &answers[0]), "{answers:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_denied_attempt_names_what_its_path_names() {
    let server = TestServer::start().await;
    let formula = guests::formula(&server, "bare", json!({})).await;
    let reactor = guests::reactor(&server, &formula, json!({})).await;
    let client = server.application("private", &["token:read"], json!([])).await;
    client.post(&format!("/reactors/{reactor}/react"), json!({})).await.expect(403);
    client.get(&format!("/reactors/{reactor}/invocations")).await.expect(403);
    let path = format!("/reactor-formulas/{formula}");
    client.get(&path).await.expect(403);
    client.get(&format!("{path}/component")).await.expect(403);
    client.put(&path, json!({})).await.expect(403);
    client.delete(&path).await.expect(403);
    client.get("/reactor-formulas").await.expect(403);
    client.post("/reactor-formulas", json!({})).await.expect(403);
    let denied = async |query: &str| {
        let mut entries = logged(&server, query).await;
        entries.retain(|entry| entry["message"].as_str().unwrap().starts_with("Denied"));
        brief(&entries)
    };
    let at_reactor = [
        "application invoke reactor: Denied: token:use",
        "application read reactor: Denied: reactor:read",
    ];
    assert_eq!(denied(&format!("entity_id={reactor}")).await, at_reactor);
    assert_eq!(denied("entity_type=reactor").await, at_reactor);
    let at_formula = [
        "application read reactor_formula: Denied: reactor:read",
        "application read reactor_formula: Denied: reactor:read",
        "application update reactor_formula: Denied: reactor:update",
        "application delete reactor_formula: Denied: reactor:delete",
    ];
    assert_eq!(denied(&format!("entity_id={formula}")).await, at_formula);
    let at_all = [
        "application read reactor_formula: Denied: reactor:read",
        "application create reactor_formula: Denied: reactor:create",
    ];
    assert_eq!(denied("entity_type=reactor_formula").await, [&at_formula[..], &at_all].concat());
    assert_eq!(denied("entity_type=token").await, Vec::<String>::new());
}

/// No permission is about sessions: what type of application it is decides.
#[tokio::test(flavor = "multi_thread")]
async fn denied_attempts_at_sessions_are_entries_too() {
    let server = TestServer::start().await;
    let public = server.application("public", &["token:create"], json!([])).await;
    server.private.post("/sessions", json!({})).await.expect(403);
    let grant = json!({"nonce": "unknown", "permissions": ["token:create"]});
    public.post("/sessions/authorize", grant).await.expect(403);
    let entries = logged(&server, "entity_type=session").await;
    let expected = [
        "application create session: Denied: session",
        "application update session: Denied: session",
    ];
    assert_eq!(brief(&entries), expected);
    for (entry, client) in entries.iter().rev().zip([&server.private, &public]) {
        let own = client.get("/applications/key").await.expect(200);
        assert_eq!(entry["actor_id"], own["id"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_that_a_rule_keeps_from_the_caller_is_logged_as_what_was_asked() {
    let server = TestServer::start_with(Setup::open()).await;
    let reactor = guests::echo_reactor(&server).await;
    let receiver = Receiver::start().await;
    let card = server.private.token("card_number", json!("4242424242424242")).await;
    let args = json!({"card": format!("{{{{ {card} }}}}")});
    let body = json!({"args": args, "callback_url": receiver.url()});
    let queued = server.private.post(&format!("/reactors/{reactor}/react"), body).await;
    queued.expect(202);
    receiver.wait(1).await;
    let rule = json!([{"priority": 1, "container": "/bank/", "transform": "reveal",
        "permissions": ["token:use"]}]);
    let client = server.application("private", &[], rule).await;
    let place = queued.headers["location"].to_str().unwrap();
    client.get(place).await.expect(403);
    client.post(&format!("{place}/redeliver"), json!({})).await.expect(403);
    let mut entries = logged(&server, &format!("entity_id={reactor}")).await;
    entries.retain(|entry| entry["message"].as_str().unwrap().starts_with("Denied"));
    let expected = [
        "application read reactor: Denied: token:use",
        "application update reactor: Denied: token:use",
    ];
    assert_eq!(brief(&entries), expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_entity_types() {
    let server = TestServer::start().await;
    let types = server.management.get("/logs/entity-types").await.expect(200);
    let expected = [
        ("Token", "token"),
        ("Card", "card"),
        ("Bank", "bank"),
        ("Application", "application"),
        ("Tenant", "tenant"),
        ("Session", "session"),
        ("Proxy", "proxy"),
        ("Reactor", "reactor"),
        ("Reactor Formula", "reactor_formula"),
        ("Webhook", "webhook"),
    ];
    let expected = expected.map(|(name, value)| json!({"display_name": name, "value": value}));
    assert_eq!(types, json!(expected));
}
