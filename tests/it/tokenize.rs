//! `/tokenize` and `/detokenize` (decisions §3).

use serde_json::{Value, json};

use crate::support::{Answer, TestServer, guests};

#[tokio::test(flavor = "multi_thread")]
async fn the_shape_is_kept() {
    let server = TestServer::start().await;
    let client = server.revealing().await;
    let value = json!({
        "order": {"number": 17, "paid": false, "note": null},
        "card": {"type": "card", "data": {"number": "4242424242424242"}, "metadata": {"a": "b"}},
        "names": ["Jane", "John"],
    });
    let tokens = client.post("/tokenize", value).await.expect(200);
    assert_eq!(tokens["order"]["note"], json!(null));
    assert_eq!(tokens["card"]["type"], "card");
    assert_eq!(tokens["card"]["metadata"]["a"], "b");
    let id = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    for token in [&tokens["order"]["number"], &tokens["order"]["paid"], &tokens["names"][1]] {
        let read = client.get(&format!("/tokens/{}", id(token))).await.expect(200);
        assert_eq!(read["type"], "token");
    }
    let references = json!({
        "number": format!("{{{{ {} }}}}", id(&tokens["order"]["number"])),
        "text": format!("{{{{ {} }}}} & {{{{{}|upcase}}}}", id(&tokens["names"][0]), id(&tokens["names"][1])),
        "brand": format!("{{{{ token: {} | json: '$.type' }}}}", id(&tokens["card"]["id"])),
        "card": [format!("{{{{ {} }}}}", id(&tokens["card"]["id"]))],
        "plain": {"a": 1},
    });
    let values = client.post("/detokenize", references).await.expect(200);
    let expected = json!({"number": 17, "text": "Jane & JOHN", "brand": "card",
        "card": [{"number": "4242424242424242"}], "plain": {"a": 1}});
    assert_eq!(values, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_or_none() {
    let server = TestServer::start().await;
    let value = json!({
        "good": {"id": "good-one", "type": "token", "data": 1},
        "bad": [{"type": "card", "data": {"number": "1"}}, {"type": "x", "data": 1}],
    });
    let answer = server.private.post("/tokenize", value).await;
    assert_eq!(answer.faults(), ["bad[0].data.number", "bad[1].type"]);
    server.private.get("/tokens/good-one").await.expect(404);

    let value = json!([{"id": "one-of-two", "type": "token", "data": 1},
        {"id": "taken", "type": "token", "data": 1}]);
    server.private.post("/tokens", json!({"id": "taken", "type": "token", "data": 0})).await;
    server.private.post("/tokenize", value).await.expect(409);
    server.private.get("/tokens/one-of-two").await.expect(404);

    let many = json!((0..101).collect::<Vec<_>>());
    server.private.post("/tokenize", many).await.expect(400);
    let hundred = json!((0..100).collect::<Vec<_>>());
    let made = server.private.post("/tokenize", hundred).await.expect(200);
    assert_eq!(made.as_array().unwrap().len(), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_that_many_of_one_call_evaluate_to_are_drawn_for_all_but_one() {
    let server = TestServer::start().await;
    let one = |id: &str| json!({"id": id, "type": "token", "data": 1});
    let value = json!(vec![one("same-{{ 1 }}"); 60]);
    let mut all = std::collections::BTreeSet::new();
    for named in [true, false] {
        let made = server.private.post("/tokenize", value.clone()).await.expect(200);
        let made: Vec<_> = made.as_array().unwrap().iter().map(Value::to_string).collect();
        // The second time, the one that is no UUID is taken by what was stored before.
        let is_named = |id: &&String| id.contains("same-1");
        assert_eq!(made.iter().filter(is_named).count(), usize::from(named));
        all.extend(made);
    }
    assert_eq!(all.len(), 120);
    // What its caller chose is a conflict, whichever of the two comes first.
    for value in
        [json!([one("same-{{ 1 }}"), one("same-1")]), json!([one("same-1"), one("new-one")])]
    {
        server.private.post("/tokenize", value).await.expect(409);
    }
    server.private.get("/tokens/new-one").await.expect(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn detokenizing_needs_reveal_on_every_token() {
    let server = TestServer::start().await;
    let id = server.private.token("token", json!("a")).await;
    let reference = json!({"x": format!("{{{{ {id} }}}}")});
    server.private.post("/detokenize", reference.clone()).await.expect(403);
    let client = server.revealing().await;
    assert_eq!(client.post("/detokenize", reference).await.expect(200), json!({"x": "a"}));
    let missing = json!({"x": ["{{ never-was }}"], "y": "{{ unclosed"});
    assert_eq!(client.post("/detokenize", missing).await.faults(), ["x[0]", "y"]);
    let missing = json!({"x": ["{{ never-was }}"]});
    assert_eq!(client.post("/detokenize", missing).await.faults(), ["x[0]"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_chosen_as_an_id_is_taken_once_and_by_nothing_else() {
    let server = TestServer::start().await;
    let token = |id: &str, data: u32| json!({"type": "token", "id": id, "data": data});
    let twice = json!([token("one", 1), token("one", 2)]);
    let problem = server.private.post("/tokenize", twice).await.expect(409);
    assert_eq!(problem["detail"], "Two tokens of the request have the id one.");
    server.private.get("/tokens/one").await.expect(404);
    // What is evaluated gives way, in whatever order they stand.
    for (at, order) in [[true, false], [false, true]].into_iter().enumerate() {
        let chosen = format!("way-{at}-5");
        let evaluated = format!("way-{at}-{{{{ data }}}}");
        let of = |is_chosen| if is_chosen { token(&chosen, 1) } else { token(&evaluated, 5) };
        let tokens = order.map(of);
        let made = server.private.post("/tokenize", json!(tokens)).await.expect(200);
        let ids: Vec<&str> = (0..2).map(|at| made[at]["id"].as_str().unwrap()).collect();
        assert_eq!(ids.iter().filter(|id| **id == chosen).count(), 1, "{made}");
        let kept = server.private.get(&format!("/tokens/{chosen}")).await.expect(200);
        assert_eq!(ids[usize::from(order[1])], chosen, "{kept}");
    }
}

/// Of several tokens, it is said which one is not to be had, or where no token may be made.
#[tokio::test(flavor = "multi_thread")]
async fn what_no_rule_grants_is_named() {
    let server = TestServer::start().await;
    let all = ["token:create", "token:read", "token:update", "token:use"];
    let rule = |container: &str, transform: &str| json!([{"description": "", "priority": 1, "container": container, "transform": transform, "permissions": all}]);
    let allowed = server.application("private", &[], rule("/a/", "reveal")).await;
    let masked = server.application("private", &[], rule("/", "mask")).await;
    let token = |id: &str, containers: Value| json!({"type": "token", "id": id, "data": 1, "containers": containers});
    let owner = server.application("private", &[], rule("/", "reveal")).await;
    for (id, containers) in
        [("in-a", json!(["/a/"])), ("in-b", json!(["/b/"])), ("in-both", json!(["/a/", "/b/"]))]
    {
        owner.post("/tokens", token(id, containers)).await.expect(201);
    }
    let detail = |answer: Answer| answer.expect(403)["detail"].as_str().unwrap().to_owned();

    let both = json!(["{{ in-a }}", "{{ in-b }}"]);
    assert_eq!(
        detail(allowed.post("/detokenize", both.clone()).await),
        "The rule that decides for the token in-b does not grant token:read with the transform reveal."
    );
    assert_eq!(
        detail(masked.post("/detokenize", json!(["{{ in-a }}"])).await),
        "The rule that decides for the token in-a does not grant token:read with the transform reveal."
    );
    let reactor = guests::echo_reactor(&server).await;
    let path = format!("/reactors/{reactor}/react");
    let react =
        async |references: Value| allowed.post(&path, json!({"args": {"x": references}})).await;
    assert_eq!(
        detail(react(both).await),
        "No rule of the application grants token:use for the token in-b."
    );
    assert_eq!(
        detail(react(json!("{{ in-both }}")).await),
        "No rule of the application grants token:use for each container of the token in-both."
    );
    let several =
        json!({"x": token("n-1", json!(["/a/"])), "y": token("n-2", json!(["/a/", "/c/"]))});
    assert_eq!(
        detail(allowed.post("/tokenize", several).await),
        "No rule of the application grants token:create in the container /c/."
    );
    allowed.get("/tokens/n-1").await.expect(404);
    let patch = json!({"containers": ["/a/", "/d/"]});
    assert_eq!(
        detail(allowed.patch("/tokens/in-a", patch).await),
        "No rule of the application grants token:update in the container /d/."
    );
    assert_eq!(
        detail(allowed.get("/tokens/in-b").await),
        "No rule of the application grants token:read for the token in-b."
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn all_ids_of_a_batch_that_are_taken_are_named() {
    let server = TestServer::start().await;
    let batch = |ids: &[&str]| -> Value {
        ids.iter().map(|id| json!({"id": id, "type": "token", "data": id})).collect()
    };
    server.private.post("/tokenize", batch(&["id-a", "id-b", "id-c"])).await.expect(200);
    for (ids, told) in [
        (&["id-d", "id-b"][..], "A token with the id id-b exists already."),
        (
            &["id-c", "id-d", "id-a", "id-e", "id-b"],
            "Tokens with these ids exist already: id-c, id-a, id-b.",
        ),
    ] {
        let refused = server.private.post("/tokenize", batch(ids)).await.expect(409);
        assert_eq!(refused["detail"], told);
    }
    server.private.get("/tokens/id-d").await.expect(404);
    // Without them it is made.
    server.private.post("/tokenize", batch(&["id-d", "id-e"])).await.expect(200);
}
