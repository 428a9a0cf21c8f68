//! Reactors: making, reading, changing and deleting them (interface §4.5, decisions §7).

use futures::StreamExt as _;
use futures::future::join_all;
use serde_json::{Value, json};
use tokamak::clock::Clock as _;

use crate::support::{Answer, Client, TestServer, guests};

async fn configured(server: &TestServer) -> String {
    let configuration = json!([
        {"name": "url", "type": "string"},
        {"name": "retries", "type": "number"},
        {"name": "live", "type": "boolean", "optional": true},
    ]);
    guests::formula(server, "probe", json!({"configuration": configuration})).await
}

fn body(formula: &str, configuration: Value) -> Value {
    json!({"name": "r", "formula": {"id": formula}, "configuration": configuration})
}

async fn application(server: &TestServer, kind: &str, permission: &str) -> String {
    let body = json!({"name": "a", "type": kind, "permissions": [permission]});
    let made = server.management.post("/applications", body).await.expect(201);
    made["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn configuration_must_satisfy_the_formula() {
    let server = TestServer::start().await;
    let formula = configured(&server).await;
    let table = [
        (json!({}), vec!["configuration.retries", "configuration.url"]),
        (json!({"url": "x"}), vec!["configuration.retries"]),
        (json!({"url": "x", "retries": "many"}), vec!["configuration.retries"]),
        (json!({"url": "x", "retries": 1, "live": "maybe"}), vec!["configuration.live"]),
        (json!({"url": "x", "retries": 1, "other": 1}), vec!["configuration.other"]),
        (json!({"url": {}, "retries": null}), vec!["configuration.retries", "configuration.url"]),
    ];
    for (configuration, expected) in table {
        let shown = configuration.to_string();
        let answer = server.management.post("/reactors", body(&formula, configuration)).await;
        assert_eq!(answer.faults(), expected, "{shown}");
    }
    // What can be cast is cast.
    let configuration = json!({"url": "x", "retries": "3", "live": "true"});
    let made = server.management.post("/reactors", body(&formula, configuration)).await.expect(201);
    assert_eq!(made["configuration"], json!({"url": "x", "retries": 3, "live": true}));
    assert_eq!(made["formula"]["id"], formula.as_str());
    assert!(made["formula"].get("component").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_checked_whole() {
    let server = TestServer::start().await;
    let formula = guests::formula(&server, "probe", json!({})).await;
    let management = application(&server, "management", "log:read").await;
    let nothing = "00000000-0000-7000-8000-000000000000";
    let table = [
        (json!({}), vec!["configuration", "formula", "name"]),
        (
            json!({"name": "x".repeat(201), "formula": {"id": "x"}, "configuration": {}}),
            vec!["formula.id", "name"],
        ),
        (
            json!({"name": "r", "formula": {}, "configuration": []}),
            vec!["configuration", "formula.id"],
        ),
        (body(nothing, json!({})), vec!["formula.id"]),
    ];
    for (body, expected) in table {
        let shown = body.to_string();
        assert_eq!(server.management.post("/reactors", body).await.faults(), expected, "{shown}");
    }
    for application in [management.as_str(), nothing, "x"] {
        let mut body = body(&formula, json!({}));
        body["application"] = json!({"id": application});
        let answer = server.management.post("/reactors", body).await;
        assert_eq!(answer.faults(), ["application.id"], "{application}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reactor_is_made_read_changed_listed_and_deleted() {
    let server = TestServer::start().await;
    let formula = configured(&server).await;
    let application = application(&server, "private", "token:read").await;
    let mut new = body(&formula, json!({"url": "x", "retries": 1}));
    new["application"] = json!({"id": application});
    let answer = server.management.post("/reactors", new).await;
    let made = answer.expect(201);
    let path = format!("/reactors/{}", made["id"].as_str().unwrap());
    assert_eq!(answer.headers["location"], path.as_str());
    assert_eq!(made["application"]["id"], application.as_str());
    assert!(made["application"].get("key").is_none());
    assert_eq!(server.management.get(&path).await.expect(200), made);
    // The application is held while the reactor needs it.
    let holder = format!("/applications/{application}");
    server.management.delete(&holder).await.expect(409);
    let change = json!({"name": "Second name", "configuration": {"url": "y", "retries": 2}, "formula": {"id": "ignored"}});
    let changed = server.management.put(&path, change).await.expect(200);
    assert_eq!(
        (&changed["name"], &changed["configuration"]["url"]),
        (&json!("Second name"), &json!("y"))
    );
    assert!(changed.get("application").is_none());
    server.management.delete(&holder).await.expect(204);
    let faulty = json!({"name": "n", "configuration": {"url": "y"}});
    assert_eq!(server.management.put(&path, faulty).await.faults(), ["configuration.retries"]);

    let count = async |query: &str| {
        let page = server.management.get(&format!("/reactors?{query}")).await.expect(200);
        page["pagination"]["total_items"].as_u64().unwrap()
    };
    assert_eq!((count("").await, count("name=*name").await, count("name=second").await), (1, 1, 0));
    let id = made["id"].as_str().unwrap();
    assert_eq!(count(&format!("id={id}&name=*")).await, 1);
    server.management.delete(&path).await.expect(204);
    server.management.get(&path).await.expect(404);
    assert_eq!(count("").await, 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn another_tenants_reactors_and_applications_are_not_there() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let foreign = application(&server, "private", "token:read").await;
    let other = server.other_tenant().await;
    let path = format!("/reactors/{reactor}");
    other.get(&path).await.expect(404);
    other.delete(&path).await.expect(404);
    other.get(&format!("{path}/invocations")).await.expect(404);
    let official = "6f2b0c0e-3d5a-4c38-9d6b-5a1f3c7e9b01";
    let mut new = body(official, json!({}));
    new["application"] = json!({"id": foreign});
    assert_eq!(other.post("/reactors", new).await.faults(), ["application.id"]);
    let key = json!({"name": "p", "type": "private", "permissions": ["token:use"]});
    let key = other.post("/applications", key).await.expect(201)["key"].clone();
    let user = server.client(key.as_str().unwrap());
    user.post(&format!("{path}/react"), json!({})).await.expect(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn names_have_up_to_200_characters_and_are_found_by_wildcard_and_id() {
    let server = TestServer::start().await;
    let formula = guests::formula(&server, "bare", json!({})).await;
    let longest = "ü".repeat(200);
    let mut ids = Vec::new();
    for name in ["Charge card", "charge bank", "50% off", "a.b[c]", &longest] {
        server.clock.advance_ms(1);
        ids.push(guests::reactor(&server, &formula, json!({"name": name})).await);
    }
    for wrong in [json!(""), json!("ü".repeat(201)), json!(5), json!(null)] {
        let new = json!({"name": wrong, "formula": {"id": formula}, "configuration": {}});
        assert_eq!(server.management.post("/reactors", new.clone()).await.faults(), ["name"]);
        let path = format!("/reactors/{}", ids[0]);
        assert_eq!(server.management.put(&path, new).await.faults(), ["name"], "{wrong}");
    }
    let found = async |query: &str| {
        let page = server.management.get(&format!("/reactors?{query}")).await.expect(200);
        let all = page["data"].as_array().unwrap().iter();
        all.map(|reactor| {
            let id = reactor["id"].as_str().unwrap();
            ids.iter().position(|known| known == id).unwrap()
        })
        .collect::<Vec<_>>()
    };
    for (query, expected) in [
        ("", vec![4, 3, 2, 1, 0]),
        ("name=*", vec![4, 3, 2, 1, 0]),
        ("name=charge*", vec![1, 0]),
        ("name=*CARD", vec![0]),
        ("name=*r*e*", vec![1, 0]),
        ("name=charge", vec![]),
        ("name=charge%20card", vec![0]),
        ("name=charge+bank", vec![1]),
        ("name=50%25*", vec![2]),
        // Nothing but the asterisk is special.
        ("name=a?b*", vec![]),
        ("name=.*", vec![]),
        ("name=a.b[c]", vec![3]),
        ("name=*&size=2", vec![4, 3]),
        ("name=*&size=2&page=3", vec![0]),
        ("name=*&size=2&page=4", vec![]),
    ] {
        assert_eq!(found(query).await, expected, "{query}");
    }
    let both = format!("id={}&id[]={}", ids[0], ids[3]);
    assert_eq!(found(&both).await, [3, 0]);
    assert_eq!(found(&format!("{both}&name=charge*")).await, [0]);
    assert_eq!(found("id=00000000-0000-7000-8000-000000000000").await, Vec::<usize>::new());
    let wrong = server.management.get("/reactors?id=x&size=101&page=0").await;
    assert_eq!(wrong.faults(), ["id", "page", "size"]);
}

/// A rename must not turn what an application confined into what runs with every caller's own rights.
#[tokio::test(flavor = "multi_thread")]
async fn the_application_of_a_reactor_that_has_ended_is_told_and_not_dropped_unasked() {
    let server = TestServer::start().await;
    let management = &server.management;
    let formula = configured(&server).await;
    let ends = chrono::DateTime::from_timestamp_millis(
        i64::try_from(server.clock.now_ms() + 60_000).unwrap(),
    );
    let acting = json!({"name": "a", "type": "private", "permissions": ["token:create"],
        "expires_at": ends.unwrap().to_rfc3339()});
    let acting = management.post("/applications", acting).await.expect(201)["id"].clone();
    let values = json!({"url": "u", "retries": 1});
    let with = |application: Value| {
        let mut body = body(&formula, values.clone());
        body["application"] = application;
        body
    };
    let made = management.post("/reactors", with(json!({"id": acting}))).await.expect(201);
    let at = format!("/reactors/{}", made["id"].as_str().unwrap());
    assert_eq!((&made["application_id"], &made["application"]["id"]), (&acting, &acting));
    // As ever, what says nothing of an application that there is has none afterwards.
    let none = management.put(&at, body(&formula, values.clone())).await.expect(200);
    assert!(none.get("application_id").is_none() && none.get("application").is_none(), "{none}");
    management.put(&at, with(json!({"id": acting}))).await.expect(200);

    server.clock.advance_ms(120_000);
    let shown = management.get(&at).await.expect(200);
    assert_eq!((&shown["application_id"], shown.get("application")), (&acting, None));
    let refused = management.put(&at, body(&formula, values.clone())).await;
    assert_eq!(refused.faults(), ["application"]);
    assert_eq!(management.put(&at, with(json!({"id": acting}))).await.faults(), ["application.id"]);
    assert_eq!(management.get(&at).await.expect(200), shown);
    let freed = management.put(&at, with(Value::Null)).await.expect(200);
    assert!(freed.get("application_id").is_none(), "{freed}");
}

/// Neither can be deleted before: which they are is found by what stands in the way.
#[tokio::test(flavor = "multi_thread")]
async fn reactors_of_a_formula_and_of_an_application_are_listed() {
    let server = TestServer::start().await;
    let management = &server.management;
    let (used, other) = (configured(&server).await, configured(&server).await);
    let acting = application(&server, "private", "token:read").await;
    let mut made = Vec::new();
    for (name, formula, acts) in
        [("a", &used, true), ("b", &used, false), ("c", &other, true), ("d", &other, false)]
    {
        let mut body = body(formula, json!({"url": "u", "retries": 1}));
        body["name"] = json!(name);
        if acts {
            body["application"] = json!({"id": acting});
        }
        let reactor = management.post("/reactors", body).await.expect(201);
        made.push(reactor["id"].as_str().unwrap().to_owned());
    }
    let names = async |query: &str| {
        let page = management.get(&format!("/reactors?{query}")).await.expect(200);
        let mut names = String::new();
        for reactor in page["data"].as_array().unwrap() {
            names.push_str(reactor["name"].as_str().unwrap());
        }
        (names, page["pagination"]["total_items"].as_u64().unwrap())
    };
    let missing = uuid::Uuid::from_u128(7);
    for (query, expected) in [
        (format!("formula_id={used}"), "ba"),
        (format!("application_id={acting}"), "ca"),
        (format!("formula_id={used}&application_id={acting}"), "a"),
        (format!("formula_id={used}&name=*"), "ba"),
        (format!("application_id={acting}&name=c"), "c"),
        (format!("formula_id={other}&id={}&id={}", made[0], made[2]), "c"),
        (format!("formula_id={missing}"), ""),
        (format!("application_id={missing}&name=*"), ""),
        (format!("formula_id={}", used.to_uppercase()), "ba"),
    ] {
        let total = u64::try_from(expected.len()).unwrap();
        assert_eq!(names(&query).await, (expected.to_owned(), total), "{query}");
    }
    for query in ["formula_id=x", "application_id="] {
        let name = query.split_once('=').unwrap().0;
        assert_eq!(management.get(&format!("/reactors?{query}")).await.faults(), [name]);
    }
    for path in [format!("/reactor-formulas/{used}"), format!("/applications/{acting}")] {
        let problem = management.delete(&path).await.expect(409);
        assert!(problem["detail"].as_str().unwrap().contains("GET /reactors"), "{problem}");
    }
    // Of another tenant, none is.
    let theirs = server.other_tenant().await.get(&format!("/reactors?formula_id={used}")).await;
    assert_eq!(theirs.expect(200)["pagination"]["total_items"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_update_is_checked_like_a_new_reactor_and_leaves_all_as_it_was_when_refused() {
    let server = TestServer::start().await;
    let formula = configured(&server).await;
    let public = application(&server, "public", "token:create").await;
    let management = application(&server, "management", "log:read").await;
    let other = server.other_tenant().await;
    let foreign = json!({"name": "p", "type": "private", "permissions": ["token:use"]});
    let foreign = other.post("/applications", foreign).await.expect(201)["id"].clone();
    let mut new = body(&formula, json!({"url": "x", "retries": 1}));
    new["application"] = json!({"id": public});
    let made = server.management.post("/reactors", new).await.expect(201);
    assert_eq!(made["application"]["type"], "public");
    let path = format!("/reactors/{}", made["id"].as_str().unwrap());
    for (configuration, application, expected) in [
        (json!({}), json!(null), vec!["configuration.retries", "configuration.url"]),
        (
            json!({"url": [], "retries": true, "live": 1, "more": 1}),
            json!({"id": management}),
            vec![
                "application.id",
                "configuration.live",
                "configuration.more",
                "configuration.retries",
                "configuration.url",
            ],
        ),
        (json!({"url": "y", "retries": 2}), json!({"id": foreign}), vec!["application.id"]),
        (json!({"url": "y", "retries": 2}), json!({"id": "x"}), vec!["application.id"]),
        (json!({"url": "y", "retries": 2}), json!({}), vec!["application.id"]),
        (json!({"url": "y", "retries": 2}), json!("x"), vec!["application"]),
        (json!("x"), json!(null), vec!["configuration"]),
        (json!(null), json!(null), vec!["configuration"]),
    ] {
        let change =
            json!({"name": "n", "configuration": configuration, "application": application});
        let faults = server.management.put(&path, change.clone()).await.faults();
        assert_eq!(faults, expected, "{change}");
    }
    assert_eq!(server.management.get(&path).await.expect(200), made);
    server.clock.advance_ms(1_000);
    let change = json!({"name": "n", "configuration": {"url": "y", "retries": 2}});
    let changed = server.management.put(&path, change).await.expect(200);
    assert_eq!(changed["modified_at"], "2026-01-01T00:00:01.000+00:00");
    assert_eq!(changed["modified_by"], made["created_by"]);
    assert_eq!(changed["formula"]["id"], formula.as_str());
    assert_eq!(server.management.get(&path).await.expect(200), changed);
}

#[tokio::test(flavor = "multi_thread")]
async fn who_made_a_reactor_and_who_changed_it_last_is_told() {
    let server = TestServer::start().await;
    let id =
        async |client: &Client| client.get("/applications/key").await.expect(200)["id"].clone();
    let changer = server.application("management", &["reactor:update"], json!([])).await;
    let (first, second) = (id(&server.management).await, id(&changer).await);
    let formula = guests::formula(&server, "bare", json!({})).await;
    let made = server.management.post("/reactors", body(&formula, json!({}))).await.expect(201);
    assert_eq!(made["created_by"], first);
    assert!(made.get("modified_by").is_none() && made.get("modified_at").is_none());
    let path = format!("/reactors/{}", made["id"].as_str().unwrap());
    server.clock.advance_ms(1_000);
    let change = json!({"name": "n", "configuration": {}});
    let changed = changer.put(&path, change).await.expect(200);
    let read = server.management.get(&path).await.expect(200);
    for shown in [changed, read] {
        assert_eq!(shown["created_by"], first, "{shown}");
        assert_eq!(shown["created_at"], made["created_at"], "{shown}");
        assert_eq!(shown["modified_by"], second, "{shown}");
        assert_eq!(shown["modified_at"], "2026-01-01T00:00:01.000+00:00", "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_operation_needs_its_permission_and_is_logged() {
    let server = TestServer::start().await;
    let formula = guests::formula(&server, "bare", json!({})).await;
    let reactor = guests::reactor(&server, &formula, json!({})).await;
    let path = format!("/reactors/{reactor}");
    for (permission, statuses) in [
        ("reactor:read", [200, 403, 403, 403]),
        ("reactor:create", [403, 201, 403, 403]),
        ("reactor:update", [403, 403, 200, 403]),
        ("reactor:delete", [403, 403, 403, 204]),
    ] {
        let client = server.application("management", &[permission], json!([])).await;
        let [read, create, update, delete] = statuses;
        for path in [path.clone(), format!("{path}/invocations"), "/reactors".to_owned()] {
            assert_eq!(client.get(&path).await.status, read, "{permission} {path}");
        }
        let made = client.post("/reactors", body(&formula, json!({}))).await;
        assert_eq!(made.status, create, "{permission}");
        let change = json!({"name": "n", "configuration": {}});
        assert_eq!(client.put(&path, change).await.status, update, "{permission}");
        // No management application may run what it manages.
        client.post(&format!("{path}/react"), json!({})).await.expect(403);
        assert_eq!(client.delete(&path).await.status, delete, "{permission}");
    }
    let logs = format!("/logs?entity_id={reactor}&size=100");
    let logs = server.management.get(&logs).await.expect(200);
    let entries = logs["data"].as_array().unwrap().iter();
    let done = entries.map(|entry| entry["message"].as_str().unwrap().to_owned());
    let (denied, done): (Vec<_>, Vec<_>) = done.partition(|message| message.starts_with("Denied"));
    let expected = [
        "Reactor deleted",
        "Reactor updated: other name",
        "Reactor listed",
        "Invocations listed",
        "Reactor read",
        "Reactor created",
    ];
    assert_eq!(done, expected);
    let count = |permission: &str| {
        denied.iter().filter(|message| **message == format!("Denied: {permission}")).count()
    };
    // Reading it and its runs three times each, writing it three times each, running it each time.
    let counts = ["reactor:read", "reactor:update", "reactor:delete", "token:use"].map(count);
    assert_eq!(counts, [6, 3, 3, 4], "{denied:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn many_are_made_and_changed_at_once_on_one_formula_and_application() {
    let server = TestServer::start().await;
    let formula = guests::formula(&server, "bare", json!({})).await;
    let application = application(&server, "private", "token:read").await;
    let mut new = body(&formula, json!({}));
    new["application"] = json!({"id": application});
    let made = join_all((0..12).map(|_| server.management.post("/reactors", new.clone()))).await;
    let path =
        |answer: &Answer| format!("/reactors/{}", answer.expect(201)["id"].as_str().unwrap());
    let paths: Vec<String> = made.iter().map(path).collect();
    let change = json!({"name": "n", "configuration": {}, "application": {"id": application}});
    let put = async |path: String| server.management.put(&path, change.clone()).await;
    for answer in join_all(paths.into_iter().map(put)).await {
        answer.expect(200);
    }
    let page = server.management.get("/reactors?name=n").await.expect(200);
    assert_eq!(page["pagination"]["total_items"], 12);
    // What they refer to is still what it was, and still held.
    server.management.delete(&format!("/reactor-formulas/{formula}")).await.expect(409);
    let holder = format!("/applications/{application}");
    server.management.delete(&holder).await.expect(409);
    assert!(server.management.get(&holder).await.expect(200).get("modified_at").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_reactor_outlives_its_formula_whatever_comes_first() {
    let server = TestServer::start().await;
    for _ in 0..10 {
        let formula = guests::formula(&server, "bare", json!({})).await;
        let path = format!("/reactor-formulas/{formula}");
        let make = server.management.post("/reactors", body(&formula, json!({})));
        let (made, deleted) = tokio::join!(make, server.management.delete(&path));
        match (made.status.as_u16(), deleted.status.as_u16()) {
            (201, 409) => drop(server.management.get(&path).await.expect(200)),
            (400, 204) => assert_eq!(made.faults(), ["formula.id"]),
            other => panic!("{other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_go_on_where_the_last_one_ended_with_and_without_a_name() {
    let server = TestServer::start().await;
    let formula = guests::formula(&server, "bare", json!({})).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        ids.insert(0, guests::reactor(&server, &formula, json!({})).await);
    }
    for filter in ["", "&name=*", &format!("&id={}", ids.join("&id="))] {
        let path = format!("/reactors?size=2{filter}");
        let (mut seen, mut next) = (Vec::new(), String::new());
        for number in 1..=3 {
            let page = server.management.get(&format!("{path}{next}")).await.expect(200);
            assert_eq!(page["pagination"]["total_items"], 5, "{filter}");
            assert_eq!(page["pagination"]["page_number"], number, "{filter}");
            let numbered = format!("{path}&page={number}");
            assert_eq!(server.management.get(&numbered).await.expect(200), page, "{filter}");
            let found = page["data"].as_array().unwrap().iter();
            seen.extend(found.map(|reactor| reactor["id"].as_str().unwrap().to_owned()));
            match page["pagination"]["next"].as_str() {
                Some(cursor) => next = format!("&start={cursor}"),
                None => assert_eq!(number, 3, "{filter}"),
            }
        }
        assert_eq!(seen, ids, "{filter}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_name_is_found_among_however_many() {
    let server = TestServer::start().await;
    let formula = json!({"id": "6f2b0c0e-3d5a-4c38-9d6b-5a1f3c7e9b01"});
    let make = |number: u64| {
        let body = json!({"name": format!("R-{number}"), "formula": formula, "configuration": {}});
        let client = server.management.clone();
        async move { client.post("/reactors", body).await.expect(201)["id"].clone() }
    };
    let last = make(0).await;
    let many = futures::stream::iter(1..=2_100).map(make).buffer_unordered(64);
    assert_eq!(many.count().await, 2_100);
    let total = async |query: &str| {
        let found = server.management.get(&format!("/reactors?{query}")).await.expect(200);
        found["pagination"]["total_items"].as_u64().unwrap()
    };
    for (query, expected) in [
        ("name=r-*", 2_101),
        ("name=*", 2_101),
        ("name=r-20*", 111),
        ("name=*-1*00", 11),
        ("name=r-2100", 1),
        ("name=*x*", 0),
    ] {
        assert_eq!(total(query).await, expected, "{query}");
    }
    // Deep pages by number and by cursor show the same.
    let page = async |rest: &str| {
        let path = format!("/reactors?name=r-*&size=100&{rest}");
        server.management.get(&path).await.expect(200)
    };
    let cursor = page("page=20").await["pagination"]["next"].as_str().unwrap().to_owned();
    assert_eq!(page("page=21").await, page(&format!("start={cursor}")).await);
    let path = format!("/reactors?name=r-*&id={}", last.as_str().unwrap());
    let found = server.management.get(&path).await.expect(200);
    assert_eq!((&found["data"][0]["id"], found["data"].as_array().unwrap().len()), (&last, 1));
    // A new name is found, and the one before is not.
    let renamed = json!({"name": "another", "configuration": {}});
    let path = format!("/reactors/{}", last.as_str().unwrap());
    server.management.put(&path, renamed).await.expect(200);
    assert_eq!((total("name=r-0").await, total("name=an*er").await), (0, 1));
}

/// It is shown with its rules: who read them is in its log, too.
#[tokio::test(flavor = "multi_thread")]
async fn an_application_that_is_shown_with_a_reactor_is_told_of_in_its_log() {
    let server = TestServer::start().await;
    let formula = guests::formula(&server, "bare", json!({})).await;
    let application = application(&server, "private", "token:read").await;
    let mut with = body(&formula, json!({}));
    with["application"] = json!({"id": application});
    let made = server.management.post("/reactors", with.clone()).await.expect(201);
    server.management.post("/reactors", with).await.expect(201);
    let path = format!("/reactors/{}", made["id"].as_str().unwrap());
    let client = server.application("management", &["reactor:read"], json!([])).await;
    assert!(client.get(&path).await.expect(200)["application"].is_object());
    client.get("/reactors").await.expect(200);
    let logs = format!("/logs?entity_id={application}");
    let logs = server.management.get(&logs).await.expect(200);
    let entries = logs["data"].as_array().unwrap().iter();
    let told: Vec<_> = entries.map(|entry| entry["message"].as_str().unwrap()).collect();
    let shown = "Application shown with a reactor";
    // Once for the list, however many reactors it shows with it.
    let created = "Application created: granted token:read";
    assert_eq!(told, [shown, shown, shown, shown, created]);
}
