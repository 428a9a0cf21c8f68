//! Searching tokens: one test for each rule of interface §4.2, and what decisions §5 adds.

use serde_json::{Value, json};

use crate::support::TestServer;

/// Makes tokens with these ids and members; the clock moves by a second before each.
async fn make(server: &TestServer, tokens: &[(&str, Value)]) {
    for (id, members) in tokens {
        server.clock.advance_ms(1_000);
        let mut body = json!({"id": id, "type": "token", "data": id});
        body.as_object_mut().unwrap().extend(members.as_object().unwrap().clone());
        server.private.post("/tokens", body).await.expect(201);
    }
}

async fn some_tokens(server: &TestServer) {
    let tokens = [
        ("one", json!({"metadata": {"tier": "Gold", "city": "New York"}})),
        ("two", json!({"metadata": {"tier": "silver"}, "containers": ["/a/b/"]})),
        ("six", json!({"metadata": {"tier": "gold"}, "containers": ["/a/b/c/", "/d/"]})),
        (
            "card",
            json!({"type": "card", "data": {"number": "4242424242424242"},
            "metadata": {"tier": "silver"}}),
        ),
        ("ssn", json!({"type": "social_security_number", "data": "123-45-6789"})),
    ];
    make(server, &tokens).await;
}

/// Each query with what it finds, newest first.
async fn finds(server: &TestServer, table: &[(&str, &[&str])]) {
    for (query, expected) in table {
        assert_eq!(server.private.search(query).await, *expected, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_1_terms_operators_and_groups() {
    let server = TestServer::start().await;
    some_tokens(&server).await;
    finds(
        &server,
        &[
            ("id:one", &["one"]),
            ("id:one OR id:two", &["two", "one"]),
            ("type:token AND metadata.tier:gold", &["six", "one"]),
            ("type:token AND NOT metadata.tier:gold", &["two"]),
            ("type:token AND !metadata.tier:gold", &["two"]),
            ("type:token AND -metadata.tier:gold", &["two"]),
            ("id:one OR type:card AND metadata.tier:gold", &["one"]),
            ("(id:one OR type:card) AND metadata.tier:silver", &["card"]),
            ("NOT (type:token OR type:card)", &["ssn"]),
        ],
    )
    .await;
    let faults = server.private.post("/tokens/search", json!({"query": "id:a and id:b"})).await;
    assert_eq!(faults.faults(), ["query"]);
    let message = faults.json()["errors"]["query"][0].as_str().unwrap().to_owned();
    assert!(message.starts_with("at character 6: expected "), "{message}");
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_2_a_value_with_spaces_is_quoted() {
    let server = TestServer::start().await;
    some_tokens(&server).await;
    finds(
        &server,
        &[("metadata.city:\"New York\"", &["one"]), (r"metadata.city:New\ York", &["one"])],
    )
    .await;
    let bare = server.private.post("/tokens/search", json!({"query": "metadata.city:New York"}));
    assert_eq!(bare.await.faults(), ["query"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_3_metadata_matches_exactly_but_for_case() {
    let server = TestServer::start().await;
    some_tokens(&server).await;
    finds(
        &server,
        &[
            ("metadata.tier:GOLD", &["six", "one"]),
            ("metadata.tier:gol", &[]),
            ("metadata.Tier:gold", &[]),
            ("metadata.other:gold", &[]),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_4_containers_alone_or_with_all_below() {
    let server = TestServer::start().await;
    some_tokens(&server).await;
    finds(
        &server,
        &[
            ("container:\"/a/b/\"", &["two"]),
            ("container:\"/a/\"", &[]),
            ("container:\"/a/*\"", &["six", "two"]),
            ("container:\"/A/B/*\"", &["six", "two"]),
            ("container:\"/d/\"", &["six"]),
            ("container:\"/*\"", &["ssn", "card", "six", "two", "one"]),
        ],
    )
    .await;
    for wrong in ["container:\"/a*\"", "container:\"/*/b/\"", "container:a"] {
        let answer = server.private.post("/tokens/search", json!({"query": wrong})).await;
        assert_eq!(answer.faults(), ["query"], "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_5_dates_have_ranges() {
    let server = TestServer::start().await;
    some_tokens(&server).await;
    let token = |id: &str| format!("/tokens/{id}");
    let made = server.private.get(&token("two")).await.expect(200);
    let at = made["created_at"].as_str().unwrap();
    let day = &at[..10];
    server.clock.advance_ms(1_000);
    server.private.patch(&token("one"), json!({"metadata": {"x": "y"}})).await.expect(200);
    finds(
        &server,
        &[
            (&format!("created_at:\"{at}\""), &["two"]),
            (&format!("created_at:[\"{at}\" TO *]"), &["ssn", "card", "six", "two"]),
            (&format!("created_at:{{\"{at}\" TO *}}"), &["ssn", "card", "six"]),
            (&format!("created_at:[* TO \"{at}\"]"), &["two", "one"]),
            (&format!("created_at:{{* TO \"{at}\"}}"), &["one"]),
            (&format!("created_at:{day}"), &["ssn", "card", "six", "two", "one"]),
            (&format!("created_at:[{day} TO {day}] AND type:card"), &["card"]),
            (&format!("created_at:{{{day} TO *}}"), &[]),
            ("created_at:[* TO 2001-01-01]", &[]),
            (&format!("created_at:[0001-01-01 TO {day}] AND type:card"), &["card"]),
            ("created_at:[0001-01-01 TO 9999-12-31T23:59:59-01:00] AND type:card", &["card"]),
            ("created_at:[0001-01-01 TO 1969-12-31]", &[]),
            ("modified_at:[* TO *]", &["one"]),
            (&format!("modified_at:[{day} TO {day}]"), &["one"]),
            ("NOT modified_at:[* TO *] AND type:token", &["six", "two"]),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_6_other_features_of_lucene_are_refused() {
    let server = TestServer::start().await;
    let operators = ["id:a&&id:b", "id:a||id:b", "id:a or id:b", "id:a and id:b", "not id:a"];
    let others =
        ["id:a*", "id:a?", "id:a~", "id:a^2", "a", "id:[a TO b]", "_exists_:id", "+id:a", "id:*"];
    for query in [&operators[..], &others].concat() {
        let answer = server.private.post("/tokens/search", json!({"query": query})).await;
        assert_eq!(answer.faults(), ["query"], "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_7_data_matches_an_index_exactly_but_for_case() {
    let server = TestServer::start().await;
    let indexes = json!(["{{ data.name }}", "{{ data.name | split: ' ' | last }}"]);
    let data = json!({"name": "Ada Lovelace"});
    make(&server, &[("ada", json!({"data": data, "search_indexes": indexes}))]).await;
    let number = json!({"type": "card_number", "data": "4242424242424242",
        "search_indexes": ["{{ data | last4 }}"]});
    make(&server, &[("number", number)]).await;
    finds(
        &server,
        &[
            ("data:\"ada lovelace\"", &["ada"]),
            ("data:LOVELACE", &["ada"]),
            ("data:ada", &[]),
            ("data:lovelac", &[]),
            // Indexes are taken for every type (decisions §5).
            ("data:4242", &["number"]),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_8_default_indexes() {
    let server = TestServer::start().await;
    some_tokens(&server).await;
    make(&server, &[("ein", json!({"type": "employer_id_number", "data": "12-3456789"}))]).await;
    make(
        &server,
        &[(
            "ein-none",
            json!({"type": "employer_id_number", "data": "12-3456789",
        "search_indexes": []}),
        )],
    )
    .await;
    finds(
        &server,
        &[
            ("data:\"123-45-6789\"", &["ssn"]),
            ("data:123456789", &["ein", "ssn"]),
            ("data:6789", &["ein", "ssn"]),
            ("data:12\\-3456789", &["ein"]),
            ("data:one", &[]),
            ("data:4242", &[]),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn rule_9_several_tokens_may_match_the_last_four() {
    let server = TestServer::start().await;
    for (id, ssn) in [("aaa", "111-11-1234"), ("bbb", "222-22-1234")] {
        make(&server, &[(id, json!({"type": "social_security_number", "data": ssn}))]).await;
    }
    finds(&server, &[("data:1234", &["bbb", "aaa"])]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_field_of_the_table() {
    let server = TestServer::start().await;
    some_tokens(&server).await;
    let card = server.private.get("/tokens/card").await.expect(200);
    let by = server.private.get("/applications/key").await.expect(200);
    let by = by["id"].as_str().unwrap();
    server.private.patch("/tokens/two", json!({"data": 2})).await.expect(200);
    let fingerprint = format!("fingerprint:{}", card["fingerprint"].as_str().unwrap());
    finds(
        &server,
        &[
            (&fingerprint, &["card"]),
            (&format!("created_by:{by}"), &["ssn", "card", "six", "two", "one"]),
            (&format!("modified_by:{by}"), &["two"]),
            (&format!("created_by:{}", by.to_uppercase()), &["ssn", "card", "six", "two", "one"]),
            ("created_by:nobody", &[]),
            ("type:unknown", &[]),
        ],
    )
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_cursors_and_totals() {
    let server = TestServer::start().await;
    for number in 0..25 {
        let body = json!({"id": format!("n{number:02}"), "type": "token", "data": number});
        server.private.post("/tokens", body).await.expect(201);
    }
    let search = async |body: Value| server.private.post("/tokens/search", body).await.expect(200);
    let first = search(json!({"query": null})).await;
    let pagination = &first["pagination"];
    assert_eq!(
        (&pagination["total_items"], &pagination["page_size"], &pagination["total_pages"]),
        (&json!(25), &json!(20), &json!(2))
    );
    // Made in the same millisecond: ties are broken by id, the later first.
    assert_eq!(first["data"][0]["id"], "n24");
    let next = search(json!({"start": pagination["next"]})).await;
    let second = search(json!({"page": 2, "query": ""})).await;
    assert_eq!(next, second);
    assert_eq!(second["data"].as_array().unwrap().len(), 5);
    assert!(second["pagination"].get("next").is_none());
    assert_eq!(search(json!({"page": 9})).await["data"], json!([]));
    for (body, member) in [
        (json!({"size": 101}), "size"),
        (json!({"size": 0}), "size"),
        (json!({"page": 0}), "page"),
        (json!({"page": "1"}), "page"),
        (json!({"query": 4}), "query"),
        (json!({"start": "x"}), "start"),
    ] {
        assert_eq!(server.private.post("/tokens/search", body).await.faults(), [member]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_search_sees_what_was_acknowledged_before_it() {
    let server = TestServer::start().await;
    for number in 0..200 {
        let body = json!({"type": "token", "data": 1, "metadata": {"n": number.to_string()}});
        let made = server.private.post("/tokens", body).await.expect(201);
        let found = server.private.search(&format!("metadata.n:{number}")).await;
        assert_eq!(found, [made["id"].as_str().unwrap()]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn each_token_is_shown_by_its_own_rule_and_what_no_rule_covers_is_not_there() {
    let server = TestServer::start().await;
    for (id, container) in [("aaa", "/a/"), ("bbb", "/b/"), ("ccc", "/c/"), ("abc", "/a/x/")] {
        make(&server, &[(id, json!({"containers": [container], "mask": "masked"}))]).await;
    }
    let rule = |priority: u32, container: &str, transform: &str, permission: &str| {
        json!({"description": "", "priority": priority, "container": container,
            "transform": transform, "permissions": [permission]})
    };
    let rules = json!([
        rule(1, "/a/x/", "redact", "token:search"),
        rule(2, "/a/", "reveal", "token:search"),
        rule(3, "/b/", "mask", "token:search"),
        rule(4, "/c/", "reveal", "token:read"),
    ]);
    let client = server.application("private", &[], rules).await;
    let found = client.post("/tokens/search", json!({"query": "type:token"})).await.expect(200);
    let shown: Vec<_> = found["data"]
        .as_array()
        .unwrap()
        .iter()
        .map(|token| (token["id"].as_str().unwrap(), token.get("data").cloned()))
        .collect();
    assert_eq!(shown, [("abc", None), ("bbb", Some(json!("masked"))), ("aaa", Some(json!("aaa")))]);
    assert_eq!(found["pagination"]["total_items"], 3);
    assert_eq!(client.search("id:ccc").await, Vec::<String>::new());
    assert_eq!(client.search("NOT id:aaa").await, ["abc", "bbb"]);
    assert_eq!(client.list("").await, ["ccc"]);
    // Every token that was shown is in the log.
    let logs = server.management.get("/logs?entity_id=abc&size=1").await.expect(200);
    assert_eq!(logs["data"][0]["message"], "Token found by a search");
}

#[tokio::test(flavor = "multi_thread")]
async fn indexes_of_data_are_not_in_the_store_in_clear() {
    let server = TestServer::start().await;
    let secret = "zq7unfindable";
    let body = json!({"type": "token", "data": secret, "search_indexes": ["{{ data }}"],
        "metadata": {"note": "plainlyvisible9"}});
    server.private.post("/tokens", body).await.expect(201);
    assert_eq!(server.private.search(&format!("data:{secret}")).await.len(), 1);
    for file in std::fs::read_dir(server.folder().join("store")).unwrap() {
        let path = file.unwrap().path();
        if path.is_file() {
            let bytes = std::fs::read(&path).unwrap();
            for text in [secret, "plainlyvisible9"] {
                let found = bytes.windows(text.len()).any(|window| window == text.as_bytes());
                assert!(!found, "{text} in {}", path.display());
            }
        }
    }
}
