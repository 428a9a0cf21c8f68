//! Applications (interface §2.3, §4.4; decisions §2).

use serde_json::{Value, json};

use crate::support::{Client, TestServer};

fn private() -> Value {
    json!({"name": "checkout", "type": "private", "permissions": ["token:use"]})
}

/// Makes an application that holds this permission; gives it with its key.
async fn make(server: &TestServer, kind: &str, permission: &str) -> Value {
    let body = json!({"name": "n", "type": kind, "permissions": [permission]});
    server.management.post("/applications", body).await.expect(201)
}

fn path_of(application: &Value) -> String {
    format!("/applications/{}", application["id"].as_str().unwrap())
}

/// The id of the application that a client's key belongs to.
async fn own_id(client: &Client) -> Value {
    client.get("/applications/key").await.expect(200)["id"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_seven_operations() {
    let server = TestServer::start().await;
    let management = &server.management;
    let answer = management.post("/applications", private()).await;
    let made = answer.expect(201);
    let id = made["id"].as_str().unwrap();
    assert_eq!(answer.headers["location"], format!("/applications/{id}"));
    assert_eq!(made["created_at"], "2026-01-01T00:00:00.000+00:00");
    assert_eq!(made["rules"], json!([]));
    assert!(made["created_by"].is_string());
    assert!(made.get("modified_at").is_none() && made.get("expires_at").is_none());
    let key = made["key"].as_str().unwrap();
    assert!(key.starts_with("key_prv_") && key.len() == 40, "{key}");

    let path = format!("/applications/{id}");
    let read = management.get(&path).await.expect(200);
    assert!(read.get("key").is_none(), "a key is shown once");
    let client = server.client(key);
    assert_eq!(client.get("/applications/key").await.expect(200), read);

    let list = management.get(&format!("/applications?id={id}&id[]={id}")).await.expect(200);
    assert_eq!(list["data"], json!([read]));
    assert_eq!(list["pagination"]["total_items"], 1);

    let body = json!({"name": "renamed", "permissions": ["token:create"]});
    let updated = management.put(&path, body).await.expect(200);
    assert_eq!(updated["name"], "renamed");
    assert_eq!(updated["permissions"], json!(["token:create"]));
    assert!(updated["modified_at"].is_string() && updated["modified_by"].is_string());
    // The new rights hold at once.
    client.post("/tokens", json!({"type": "token", "data": 1})).await.expect(201);

    let renewed = management.post(&format!("{path}/regenerate"), json!({})).await.expect(200);
    let new_key = renewed["key"].as_str().unwrap();
    assert_ne!(new_key, key);
    client.get("/applications/key").await.expect(401);
    server.client(new_key).get("/applications/key").await.expect(200);

    assert_eq!(management.delete(&path).await.expect(204), Value::Null);
    management.get(&path).await.expect(404);
    management.delete(&path).await.expect(404);
    server.client(new_key).get("/applications/key").await.expect(401);
}

/// 32 characters of 62 are 190 bits; the specification wants 128 at least.
#[tokio::test(flavor = "multi_thread")]
async fn a_key_begins_with_whose_it_is_and_is_long() {
    let server = TestServer::start().await;
    let mut keys = Vec::new();
    for (kind, permission, prefix) in [
        ("management", "log:read", "key_mgt_"),
        ("private", "token:use", "key_prv_"),
        ("public", "token:create", "key_pub_"),
    ] {
        let made = make(&server, kind, permission).await;
        let renew = format!("{}/regenerate", path_of(&made));
        let renewed = server.management.post(&renew, json!({})).await.expect(200);
        keys.extend([(prefix, made["key"].clone()), (prefix, renewed["key"].clone())]);
    }
    let public = server.application("public", &["token:create"], json!([])).await;
    for _ in 0..2 {
        let opened = public.post("/sessions", json!({})).await.expect(201);
        keys.push(("key_ses_", opened["session_key"].clone()));
    }
    let mut drawn = std::collections::BTreeSet::new();
    for (prefix, key) in keys {
        let random = key.as_str().unwrap().strip_prefix(prefix);
        let random = random.unwrap_or_else(|| panic!("{key} does not begin with {prefix}"));
        assert_eq!(random.len(), 32, "{key}");
        assert!(random.bytes().all(|byte| byte.is_ascii_alphanumeric()), "{key}");
        drawn.insert(random.to_owned());
    }
    assert_eq!(drawn.len(), 8, "{drawn:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_of_a_new_application_is_named() {
    let server = TestServer::start().await;
    let rule = |change: Value| {
        let mut rule = json!({"description": "d", "priority": 1, "container": "/a/",
            "transform": "mask", "permissions": ["token:read"]});
        rule.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        json!({"name": "n", "type": "private", "rules": [rule]})
    };
    let long = "n".repeat(201);
    for (body, expected) in [
        (json!({}), vec!["name", "permissions", "type"]),
        (json!({"name": "", "type": "private", "permissions": ["token:use"]}), vec!["name"]),
        (json!({"name": long, "type": "private", "permissions": ["token:use"]}), vec!["name"]),
        (json!({"name": "n", "type": "other", "permissions": ["token:use"]}), vec!["type"]),
        (json!({"name": "n", "type": "private"}), vec!["permissions"]),
        (
            json!({"name": "n", "type": "private", "permissions": [], "rules": []}),
            vec!["permissions"],
        ),
        (
            json!({"name": "n", "type": "private", "permissions": ["token:use", "a", "log:read"]}),
            vec!["permissions[1]", "permissions[2]"],
        ),
        (
            json!({"name": "n", "type": "public", "permissions": ["token:read"]}),
            vec!["permissions[0]"],
        ),
        (
            json!({"name": "n", "type": "management", "permissions": ["token:create"]}),
            vec!["permissions[0]"],
        ),
        (
            json!({"name": "n", "type": "private", "permissions": ["token:use"], "expires_at": "soon"}),
            vec!["expires_at"],
        ),
        (
            json!({"name": "n", "type": "private", "permissions": ["token:use"],
            "expires_at": "2025-12-31T23:59:59Z"}),
            vec!["expires_at"],
        ),
        (
            json!({"name": "n", "type": "management", "permissions": ["log:read"],
            "rules": [{"priority": 1, "container": "/", "transform": "mask",
                "permissions": ["token:read"]}]}),
            vec!["rules", "rules[0].permissions[0]"],
        ),
        (
            json!({"name": "n", "type": "management", "permissions": ["log:read"],
            "rules": [{"priority": 1, "transform": "mask", "permissions": ["token:read"]}]}),
            vec!["rules", "rules[0].permissions[0]"],
        ),
        (rule(json!({"priority": 0})), vec!["rules[0].priority"]),
        (rule(json!({"priority": null})), vec!["rules[0].priority"]),
        (rule(json!({"container": "a"})), vec!["rules[0].container"]),
        (rule(json!({"container": null})), vec!["rules[0].container"]),
        (rule(json!({"transform": "show"})), vec!["rules[0].transform"]),
        (rule(json!({"permissions": []})), vec!["rules[0].permissions"]),
        (rule(json!({"permissions": ["token:fly"]})), vec!["rules[0].permissions[0]"]),
        (rule(json!({"conditions": [{"attribute": "id"}]})), vec!["rules[0].conditions"]),
        (json!({"name": "n", "type": "private", "rules": [1]}), vec!["rules[0]"]),
    ] {
        let answer = server.management.post("/applications", body.clone()).await;
        assert_eq!(answer.faults(), expected, "{body}");
    }
    // A permission that does not fit is named, with the type that may not hold it.
    let body = json!({"name": "n", "type": "public", "permissions": ["token:read"]});
    let text = server.management.post("/applications", body).await.text();
    assert!(text.contains("token:read cannot be held by public applications"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn every_fault_of_a_change_is_named_and_nothing_is_changed() {
    let server = TestServer::start().await;
    let private = make(&server, "private", "token:use").await;
    let public = make(&server, "public", "token:create").await;
    let management = make(&server, "management", "log:read").await;
    let holding = |permissions: &[&str]| json!({"name": "n", "permissions": permissions});
    let ruled = |permissions: &[&str], priority: u32, granted: &str| {
        json!({"name": "n", "permissions": permissions, "rules": [{"description": "d",
            "priority": priority, "container": "/a/", "transform": "mask",
            "permissions": [granted]}]})
    };
    let named = |name: &str| json!({"name": name, "permissions": ["token:use"]});
    let mut all = ruled(&["token:use", "token:fly"], 0, "log:read");
    all["name"] = json!("");
    for (application, change, expected) in [
        (&private, json!({}), vec!["name", "permissions"]),
        (&private, json!({"name": "n"}), vec!["permissions"]),
        (&private, json!({"name": "n", "permissions": [], "rules": []}), vec!["permissions"]),
        (&private, named(""), vec!["name"]),
        (&private, named(&"ü".repeat(201)), vec!["name"]),
        (&private, holding(&["application:create"]), vec!["permissions[0]"]),
        (&private, ruled(&[], 0, "token:read"), vec!["rules[0].priority"]),
        (&private, ruled(&[], 1, "log:read"), vec!["rules[0].permissions[0]"]),
        (&public, holding(&["token:read"]), vec!["permissions[0]"]),
        (&public, holding(&["token:create", "token:use"]), vec!["permissions[1]"]),
        (&public, ruled(&[], 1, "token:read"), vec!["rules[0].permissions[0]"]),
        (&management, holding(&["token:create"]), vec!["permissions[0]"]),
        (
            &management,
            ruled(&["log:read"], 1, "token:read"),
            vec!["rules", "rules[0].permissions[0]"],
        ),
        (
            &private,
            all,
            vec!["name", "permissions[1]", "rules[0].permissions[0]", "rules[0].priority"],
        ),
    ] {
        let path = path_of(application);
        let before = server.management.get(&path).await.expect(200);
        let answer = server.management.put(&path, change.clone()).await;
        assert_eq!(answer.faults(), expected, "{change}");
        assert_eq!(server.management.get(&path).await.expect(200), before, "{change}");
    }
    // What an application is and when it ends are no part of a change: they are not even read.
    let longest = "ü".repeat(200);
    let change = json!({"name": longest, "type": "management", "expires_at": "soon",
        "permissions": ["token:use"]});
    let changed = server.management.put(&path_of(&private), change).await.expect(200);
    assert_eq!(changed["name"], longest.as_str());
    assert_eq!((&changed["type"], changed.get("expires_at")), (&json!("private"), None));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_permission_that_is_unknown_or_does_not_fit_is_named() {
    let server = TestServer::start().await;
    let made = make(&server, "private", "token:use").await;
    let rule = json!({"description": "", "priority": 1, "container": "/", "transform": "mask",
        "permissions": ["token:swim"]});
    let body = json!({"name": "n", "type": "private",
        "permissions": ["token:use", "token:fly", "log:read"], "rules": [rule]});
    let created = server.management.post("/applications", body.clone()).await;
    let changed = server.management.put(&path_of(&made), body).await;
    for answer in [created, changed] {
        let told = answer.expect(400)["errors"].clone();
        for (member, name) in [
            ("permissions[1]", "token:fly"),
            ("permissions[2]", "log:read"),
            ("rules[0].permissions[0]", "token:swim"),
        ] {
            let message = told[member][0].as_str().unwrap();
            assert!(message.contains(name), "{told}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_leaves_a_list_out_empties_it() {
    let server = TestServer::start().await;
    let number = server.private.token("card_number", json!("4242424242424242")).await;
    let ssn = server.private.token("social_security_number", json!("123-45-6789")).await;
    let rules = json!([{"description": "", "priority": 1, "container": "/pci/",
        "transform": "reveal", "permissions": ["token:read"]}]);
    let body =
        json!({"name": "n", "type": "private", "permissions": ["token:read"], "rules": rules});
    let made = server.management.post("/applications", body).await.expect(201);
    let (path, client) = (path_of(&made), server.client(made["key"].as_str().unwrap()));
    let read = async |id: &str| client.get(&format!("/tokens/{id}")).await;
    assert_eq!(read(&number).await.expect(200)["data"], "4242424242424242");
    // Without the rule the permission decides, at once.
    let change = json!({"name": "n", "permissions": ["token:read"]});
    let changed = server.management.put(&path, change).await.expect(200);
    assert_eq!((&changed["permissions"], &changed["rules"]), (&made["permissions"], &json!([])));
    assert_eq!(server.management.get(&path).await.expect(200), changed);
    assert_eq!(read(&number).await.expect(200)["data"], "XXXXXXXXXXXX4242");
    assert_eq!(read(&ssn).await.expect(200)["data"], "XXX-XX-6789");
    // Without the permission nothing but the rule does.
    let change = json!({"name": "n", "rules": rules});
    let changed = server.management.put(&path, change).await.expect(200);
    assert_eq!((&changed["permissions"], &changed["rules"]), (&json!([]), &made["rules"]));
    assert_eq!(server.management.get(&path).await.expect(200), changed);
    assert_eq!(read(&number).await.expect(200)["data"], "4242424242424242");
    read(&ssn).await.expect(403);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_operation_needs_its_permission_and_is_logged() {
    let server = TestServer::start().await;
    let made = make(&server, "private", "token:use").await;
    let path = path_of(&made);
    for (permission, statuses) in [
        ("tenant:read", [403, 403, 403, 403, 403]),
        ("log:read", [403, 403, 403, 403, 200]),
        ("application:read", [403, 200, 403, 403, 403]),
        ("application:create", [201, 403, 403, 403, 403]),
        ("application:update", [403, 403, 200, 403, 403]),
        ("application:delete", [403, 403, 403, 204, 403]),
    ] {
        let client = server.application("management", &[permission], json!([])).await;
        let [create, read, update, delete, log] = statuses;
        assert_eq!(client.post("/applications", private()).await.status, create, "{permission}");
        for path in ["/applications", &path] {
            assert_eq!(client.get(path).await.status, read, "{permission} {path}");
        }
        let change = json!({"name": "n", "permissions": ["token:read"]});
        assert_eq!(client.put(&path, change).await.status, update, "{permission}");
        let renewed = client.post(&format!("{path}/regenerate"), json!({})).await;
        assert_eq!(renewed.status, update, "{permission}");
        for path in ["/logs", "/logs/entity-types"] {
            assert_eq!(client.get(path).await.status, log, "{permission} {path}");
        }
        assert_eq!(client.delete(&path).await.status, delete, "{permission}");
    }
    let logs = format!("/logs?entity_id={}&size=100", made["id"].as_str().unwrap());
    let logs = server.management.get(&logs).await.expect(200);
    let entries = logs["data"].as_array().unwrap().iter();
    let messages = entries.map(|entry| entry["message"].as_str().unwrap().to_owned());
    let (denied, done): (Vec<_>, Vec<_>) =
        messages.partition(|message| message.starts_with("Denied"));
    let expected = [
        "Application deleted",
        "Application key regenerated",
        "Application updated: granted token:read; withdrawn token:use",
        "Application read",
        "Application listed",
        "Application created: granted token:use",
    ];
    assert_eq!(done, expected);
    let count = |permission: &str| {
        denied.iter().filter(|message| **message == format!("Denied: {permission}")).count()
    };
    // Of what names it, by the five that may not: a read, two changes and a deletion each.
    let counts = ["application:read", "application:update", "application:delete"].map(count);
    assert_eq!((counts, denied.len()), ([5, 10, 5], 20), "{denied:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_sees_itself_by_its_id_without_a_permission_and_no_other_one() {
    let server = TestServer::start().await;
    let other = path_of(&make(&server, "private", "token:use").await);
    for (kind, permission) in
        [("private", "token:use"), ("public", "token:create"), ("management", "log:read")]
    {
        let mut made = make(&server, kind, permission).await;
        let client = server.client(made["key"].as_str().unwrap());
        made.as_object_mut().unwrap().remove("key");
        assert_eq!(client.get(&path_of(&made)).await.expect(200), made);
        assert_eq!(client.get("/applications/key").await.expect(200), made);
        let nothing = "/applications/00000000-0000-7000-8000-000000000000";
        for path in ["/applications", nothing, &other] {
            assert_eq!(client.get(path).await.status, 403, "{kind} {path}");
        }
        let logs = format!("/logs?entity_id={}", made["id"].as_str().unwrap());
        let logs = server.management.get(&logs).await.expect(200)["data"].clone();
        let messages = logs.as_array().unwrap().iter().map(|entry| entry["message"].clone());
        let (read, created) =
            ("Application read by its key", format!("Application created: granted {permission}"));
        assert_eq!(messages.collect::<Vec<_>>(), [read, read, &created], "{kind}");
        assert_eq!(logs[0]["actor_id"], made["id"], "{kind}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_made_an_application_and_who_changed_it_last_is_told() {
    let server = TestServer::start().await;
    let changer = server.application("management", &["application:update"], json!([])).await;
    let (first, second) = (own_id(&server.management).await, own_id(&changer).await);
    let made = make(&server, "private", "token:use").await;
    assert_eq!(made["created_by"], first);
    let path = path_of(&made);
    let change = || json!({"name": "n", "permissions": ["token:use"]});
    server.clock.advance_ms(1_000);
    let changed = changer.put(&path, change()).await.expect(200);
    server.clock.advance_ms(1_000);
    let renewed = changer.post(&format!("{path}/regenerate"), json!({})).await.expect(200);
    server.clock.advance_ms(1_000);
    let changed_back = server.management.put(&path, change()).await.expect(200);
    let read = server.management.get(&path).await.expect(200);
    for (shown, by, at) in [
        (changed, &second, "2026-01-01T00:00:01.000+00:00"),
        (renewed, &second, "2026-01-01T00:00:02.000+00:00"),
        (changed_back, &first, "2026-01-01T00:00:03.000+00:00"),
        (read, &first, "2026-01-01T00:00:03.000+00:00"),
    ] {
        assert_eq!(shown["created_by"], first, "{shown}");
        assert_eq!(shown["created_at"], made["created_at"], "{shown}");
        assert_eq!((&shown["modified_by"], &shown["modified_at"]), (by, &json!(at)), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn priorities_are_unique() {
    let server = TestServer::start().await;
    let rule = |priority: u32| {
        json!({"priority": priority, "container": "/", "transform": "mask",
        "permissions": ["token:read"]})
    };
    let body = json!({"name": "n", "type": "private", "rules": [rule(2), rule(1), rule(2)]});
    let answer = server.management.post("/applications", body).await;
    assert_eq!(answer.faults(), ["rules[2].priority"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_neither_deletes_nor_disarms_itself() {
    let server = TestServer::start().await;
    let own = server.management.get("/applications/key").await.expect(200);
    let path = format!("/applications/{}", own["id"].as_str().unwrap());
    server.management.delete(&path).await.expect(409);
    let body = json!({"name": "n", "permissions": ["application:read"]});
    assert_eq!(server.management.put(&path, body).await.faults(), ["permissions"]);
    let body = json!({"name": "n", "permissions": ["application:update"]});
    server.management.put(&path, body).await.expect(200);
    server.management.get("/applications").await.expect(403);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_expired_key_fails_at_once_and_the_record_goes() {
    let server = TestServer::start().await;
    let mut body = private();
    body["expires_at"] = json!("2026-01-01T01:00:00+00:00");
    let made = server.management.post("/applications", body).await.expect(201);
    assert_eq!(made["expires_at"], "2026-01-01T01:00:00.000+00:00");
    let client = server.client(made["key"].as_str().unwrap());
    let path = format!("/applications/{}", made["id"].as_str().unwrap());
    server.clock.advance_ms(3_599_999);
    client.get("/applications/key").await.expect(200);
    server.clock.advance_ms(1);
    client.get("/applications/key").await.expect(401);
    server.management.get(&path).await.expect(404);
    // What it asked for may go on for minutes, and looks at it.
    assert_eq!(server.vault.sweep().await.unwrap().0, 0);
    server.clock.advance_ms(420_000);
    assert_eq!(server.vault.sweep().await.unwrap().0, 1);
    assert_eq!(server.vault.sweep().await.unwrap().0, 0);
    let logs = server.management.get("/logs?entity_type=application&size=1").await.expect(200);
    assert_eq!(logs["data"][0]["message"], "Application expired");
    assert_eq!(logs["data"][0]["operation"], "delete");
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_are_paged_newest_first() {
    let server = TestServer::start().await;
    for index in 0..7 {
        let mut body = private();
        body["name"] = json!(format!("app {index}"));
        server.management.post("/applications", body).await.expect(201);
        server.clock.advance_ms(1);
    }
    // Two of the server's own come before these.
    let first = server.management.get("/applications?size=4").await.expect(200);
    let names = |page: &Value| -> Vec<String> {
        let data = page["data"].as_array().unwrap();
        data.iter().map(|entry| entry["name"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names(&first), ["app 6", "app 5", "app 4", "app 3"]);
    let pagination = &first["pagination"];
    let expected = json!({"total_items": 9, "page_number": 1, "page_size": 4, "total_pages": 3,
        "next": pagination["next"]});
    assert_eq!(*pagination, expected);
    let next = pagination["next"].as_str().unwrap();
    // What is made meanwhile does not shift what follows a cursor.
    server.management.post("/applications", private()).await.expect(201);
    let second = server.management.get(&format!("/applications?size=4&start={next}")).await;
    let second = second.expect(200);
    assert_eq!(names(&second)[..3], ["app 2", "app 1", "app 0"]);
    assert_eq!(second["pagination"]["page_number"], 2);
    let last = server.management.get("/applications?size=4&page=3").await.expect(200);
    assert_eq!(names(&last).len(), 2);
    assert!(last["pagination"].get("next").is_none());
    let beyond = server.management.get("/applications?size=4&page=99").await.expect(200);
    assert_eq!(beyond["data"], json!([]));
    for wrong in ["page=0", "size=101", "size=0", "page=x", "start=!", "id=x"] {
        let name = wrong.split('=').next().unwrap();
        let answer = server.management.get(&format!("/applications?{wrong}")).await;
        assert_eq!(answer.faults(), [name], "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_loses_a_race_is_made_anew() {
    let server = TestServer::start().await;
    let made = server.management.post("/applications", private()).await.expect(201);
    let path = format!("/applications/{}", made["id"].as_str().unwrap());
    for round in 0..10 {
        let body = json!({"name": format!("n {round}"), "permissions": ["token:use"]});
        let renew = format!("{path}/regenerate");
        let (changed, renewed) = tokio::join!(
            server.management.put(&path, body),
            server.management.post(&renew, json!({}))
        );
        // Of two, one loses at most once, and neither undoes the other.
        changed.expect(200);
        let key = renewed.expect(200)["key"].as_str().unwrap().to_owned();
        let own = server.client(&key).get("/applications/key").await.expect(200);
        assert_eq!(own["name"], format!("n {round}"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_is_at_the_member_that_has_it_and_hides_no_other() {
    let server = TestServer::start().await;
    // Of permissions that are refused, or there twice, each keeps its place.
    for (permissions, faulty) in [
        (json!(["token:read", "token:read", "log:read"]), &["rules[0].permissions[2]"][..]),
        (json!(["no", "log:read"]), &["rules[0].permissions[0]", "rules[0].permissions[1]"]),
        (json!(["token:read", 7, "no"]), &["rules[0].permissions[1]", "rules[0].permissions[2]"]),
    ] {
        let rule = json!([{"description": "", "priority": 1, "container": "/", "transform": "mask",
            "permissions": permissions}]);
        let nobody = json!({"name": "one", "rules": rule});
        let path = "/applications/00000000-0000-7000-8000-000000000000";
        assert_eq!(server.management.put(path, nobody).await.faults(), faulty);
    }
    let own = own_id(&server.management).await;
    let disarmed = json!({"name": "", "permissions": ["application:read"]});
    let answer =
        server.management.put(&format!("/applications/{}", own.as_str().unwrap()), disarmed).await;
    assert_eq!(answer.faults(), ["name", "permissions"]);
}
