//! Problem details, trace ids and the liberal door (decisions §1).

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::server::Setup;
use crate::support::{TestServer, guests};

#[tokio::test(flavor = "multi_thread")]
async fn a_problem_names_every_faulty_member_at_once() {
    let server = TestServer::start().await;
    let body = json!({
        "type": "nothing", "containers": ["pci"], "metadata": {"a": 1}, "expires_at": "1/1/2001",
    });
    let answer = server.private.post("/tokens", body).await;
    let expected = ["containers[0]", "data", "expires_at", "metadata.a", "type"];
    assert_eq!(answer.faults(), expected);
    // Expressions that are none on any data are named whatever else is wrong.
    let expressions = json!({
        "mask": "{{ data | nothing }}", "search_indexes": ["{{ data | nothing }}"],
        "fingerprint_expression": "{{ data | nothing }}",
    });
    let named = ["fingerprint_expression", "mask", "search_indexes[0]"];
    for (other, faults) in [
        (json!({"type": "nothing", "data": 1}), vec!["type"]),
        (json!({"type": "token"}), vec!["data"]),
        (json!({"type": "card_number", "data": "none"}), vec!["data"]),
        (json!({}), vec!["data", "type"]),
    ] {
        let mut body = expressions.clone();
        body.as_object_mut().unwrap().extend(other.as_object().unwrap().clone());
        let mut expected = [faults.as_slice(), &named].concat();
        expected.sort_unstable();
        assert_eq!(server.private.post("/tokens", body).await.faults(), expected, "{other}");
    }
    let problem = answer.json();
    assert_eq!(problem["title"], "Bad Request");
    assert_eq!(problem["status"], 400);
    assert_eq!(problem["trace_id"], answer.headers["svc-trace-id"].to_str().unwrap());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_says_what_is_wrong_and_nothing_before_it() {
    let server = TestServer::start().await;
    let tenant = json!({"name": "n", "settings": {"cvc_retention_minutes": -1, "deduplicate_tokens": "yes"}});
    let tenant = server.management.put("/tenants/self", tenant).await.expect(400)["errors"].clone();
    let whole = "must be a whole number that is not negative";
    assert_eq!(tenant["settings.cvc_retention_minutes"], json!([whole]));
    assert_eq!(tenant["settings.deduplicate_tokens"], json!(["must be true or false"]));
    let large = json!({"name": "n", "settings": {"cvc_retention_minutes": 1_099_511_627_776_u64}});
    let large = server.management.put("/tenants/self", large).await.expect(400)["errors"].clone();
    assert_eq!(large, json!({"settings.cvc_retention_minutes": ["is too large a number"]}));
    let application = json!({"name": "a", "type": "private", "rules": [5]});
    let application = server.management.post("/applications", application).await.expect(400);
    assert_eq!(application["errors"], json!({"rules[0]": ["must be an object"]}));
    let rule = json!({"description": "x".repeat(4_001), "priority": 1, "container": "/",
        "transform": "mask", "permissions": ["token:read"]});
    let application = json!({"name": "a", "type": "private", "rules": [rule]});
    let application = server.management.post("/applications", application).await.expect(400);
    let long = json!({"rules[0].description": ["must have at most 4000 characters"]});
    assert_eq!(application["errors"], long);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_an_address_to_call_back_it_is_said_what_is_wrong_with_it() {
    let server = TestServer::start_with(Setup::open()).await;
    let reactor = guests::echo_reactor(&server).await;
    let path = format!("/reactors/{reactor}/react");
    let long = format!("https://example.com/{}", "x".repeat(2_048));
    for (url, reason) in [
        ("/hook", "the address is not an absolute one"),
        ("http://127.0.0.1:99999/", "the address has a port that is no number up to 65535"),
        ("https://exa mple.com/", "the address has a host with characters that no name has"),
        (
            " http://127.0.0.1/",
            "the address has a space or a control character at its start or end",
        ),
        (long.as_str(), "must have at most 2048 characters"),
    ] {
        let body = json!({"args": {}, "callback_url": url});
        let problem = server.private.post(&path, body).await.expect(400);
        assert_eq!(problem["errors"], json!({"callback_url": [reason]}), "{url}");
    }
}

/// JSON has one kind of number only; clients whose numbers are floats write whole ones so.
#[tokio::test(flavor = "multi_thread")]
async fn whole_numbers_may_have_a_fraction_of_zero() {
    let server = TestServer::start().await;
    let search = async |body| server.private.post("/tokens/search", body).await;
    search(json!({"page": 1.0, "size": 2.0})).await.expect(200);
    for wrong in [json!(2.5), json!(-2.0), json!(1e300), json!("2")] {
        assert_eq!(search(json!({"size": wrong})).await.faults(), ["size"]);
    }
    let card = |month: Value| {
        let data = json!({"number": "4242424242424242", "expiration_month": month});
        json!({"type": "card", "data": data})
    };
    server.private.post("/tokens", card(json!(12.0))).await.expect(201);
    for wrong in [json!(12.5), json!(13.0), json!(0.0)] {
        let answer = server.private.post("/tokens", card(wrong)).await;
        assert_eq!(answer.faults(), ["data.expiration_month"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_fit_into_integers_of_32_bits() {
    let server = TestServer::start().await;
    server.private.get("/tokens?page=2147483647").await.expect(200);
    assert_eq!(server.private.get("/tokens?page=2147483648").await.faults(), ["page"]);
    let search = json!({"page": 2_147_483_648_u64});
    assert_eq!(server.private.post("/tokens/search", search).await.faults(), ["page"]);
    let application = |priority: u64| {
        json!({"name": "a", "type": "private", "rules": [{"priority": priority, "container": "/",
            "transform": "mask", "permissions": ["token:read"]}]})
    };
    server.management.post("/applications", application(2_147_483_647)).await.expect(201);
    for wrong in [0, 2_147_483_648] {
        let answer = server.management.post("/applications", application(wrong)).await;
        assert_eq!(answer.faults(), ["rules[0].priority"]);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_goes_with_the_first_page_only() {
    let server = TestServer::start().await;
    for data in ["a", "b"] {
        server.private.token("token", json!(data)).await;
    }
    let first = server.private.get("/tokens?size=1").await.expect(200);
    let next = first["pagination"]["next"].as_str().unwrap();
    let second = server.private.get(&format!("/tokens?size=1&page=1&start={next}")).await;
    assert_eq!(second.expect(200)["pagination"]["page_number"], 2);
    let other = server.private.get(&format!("/tokens?size=1&page=2&start={next}")).await;
    assert_eq!(other.faults(), ["start"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_content_type_is_the_one_the_client_names() {
    let server = TestServer::start().await;
    for (accept, expected) in [
        ("application/json", "application/json"),
        ("application/problem+json", "application/problem+json"),
        ("text/html, Application/Problem+JSON; q=0.5", "application/problem+json"),
        ("application/json, application/problem+json;q=0", "application/json"),
        ("application/problem+json-seq", "application/json"),
    ] {
        let request = server.private.request(Method::GET, "/tokens/none").header("accept", accept);
        let answer = server.private.send(request).await;
        answer.expect(404);
        assert_eq!(answer.headers["content-type"], expected);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_malformed_body_is_named_by_line_and_column() {
    let server = TestServer::start().await;
    let text = "{\n  \"type\": \"token\",\n  \"data\" \"4242424242424242\"\n}";
    let request = server.private.request(Method::POST, "/tokens");
    let request = request.header("content-type", "application/json").body(text);
    let answer = server.private.send(request).await;
    let detail = answer.expect(400)["detail"].as_str().unwrap().to_owned();
    assert!(detail.contains("line 3 column 10"), "{detail}");
    assert!(!answer.text().contains("4242"));
    // Nesting without end is no way in either, whatever stops at it.
    for levels in [65, 100, 200, 100_000] {
        let deep = format!("{{\"data\": {}{}}}", "[".repeat(levels), "]".repeat(levels));
        let request = server.private.request(Method::POST, "/tokens");
        let request = request.header("content-type", "application/json").body(deep);
        let answer = server.private.send(request).await.expect(400);
        assert_eq!(answer["detail"], "The body must not be nested more than 64 levels deep.");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_have_their_content_type_and_size() {
    let server = TestServer::start().await;
    for content_type in [None, Some("text/plain"), Some("application/merge-patch+json")] {
        let mut request = server.private.request(Method::POST, "/tokens").body("{}");
        if let Some(content_type) = content_type {
            request = request.header("content-type", content_type);
        }
        assert_eq!(server.private.send(request).await.expect(415)["status"], 415);
    }
    let request = server.private.request(Method::POST, "/tokens");
    let request = request.header("content-type", "application/json; charset=utf-8");
    let answer = server.private.send(request.body(r#"{"type":"token","data":1}"#)).await;
    answer.expect(201);
    let large = json!({"type": "token", "data": "x".repeat(5 << 20)});
    server.private.post("/tokens", large).await.expect(413);
    // Streamed without an announced length, it is cut off all the same.
    let chunks = (0..90).map(|_| Ok::<_, std::io::Error>(vec![b' '; 64 << 10]));
    let stream = reqwest::Body::wrap_stream(futures::stream::iter(chunks));
    let request = server.private.request(Method::POST, "/tokens");
    let request = request.header("content-type", "application/json").body(stream);
    server.private.send(request).await.expect(413);
    // Who is refused before the body is read sees the answer too.
    let large = json!({"type": "token", "data": "x".repeat(9 << 20)});
    server.stranger().post("/tokens", large).await.expect(401);
    server.private.get("/applications/key").await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_post_without_a_body_may_carry_any_content_type() {
    let server = TestServer::start().await;
    let made = server
        .management
        .post(
            "/applications",
            json!({
        "name": "a", "type": "private", "permissions": ["token:use"]}),
        )
        .await
        .expect(201);
    let path = format!("/applications/{}/regenerate", made["id"].as_str().unwrap());
    for content_type in ["text/plain", "application/json", "application/x-www-form-urlencoded"] {
        let request = server.management.request(Method::POST, &path);
        let request = request.header("content-type", content_type);
        server.management.send(request).await.expect(200);
    }
    // With one it is read as all others are, although nothing in it means anything here.
    let request = || server.management.request(Method::POST, &path);
    let typed = |content_type: &str| request().header("content-type", content_type);
    server.management.send(typed("text/plain").body("{}")).await.expect(415);
    server.management.send(typed("application/json").body("{")).await.expect(400);
    server
        .management
        .send(typed("application/json").body(vec![b' '; (4 << 20) + 1]))
        .await
        .expect(413);
    server.management.send(typed("application/json").body("[]")).await.expect(400);
    for body in ["null", r#"{"any":1e400}"#] {
        server.management.send(typed("application/json").body(body)).await.expect(200);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn trace_ids_are_echoed_or_made() {
    let server = TestServer::start().await;
    let request = server.private.request(Method::GET, "/healthz").header("SVC-TRACE-ID", "mine-1");
    let answer = server.private.send(request).await;
    assert_eq!(answer.headers["svc-trace-id"], "mine-1");
    let made = server.private.get("/healthz").await.headers["svc-trace-id"].clone();
    assert_eq!(made.len(), 32);
    let long = "x".repeat(200);
    let request = server.private.request(Method::GET, "/healthz").header("SVC-TRACE-ID", &long);
    assert_ne!(server.private.send(request).await.headers["svc-trace-id"], long.as_str());
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_paths_and_methods_are_problems() {
    let server = TestServer::start().await;
    assert_eq!(server.stranger().get("/nothing").await.expect(404)["title"], "Not Found");
    let answer = server.private.delete("/logs").await;
    assert_eq!(answer.expect(405)["status"], 405);
    assert!(answer.headers.contains_key("allow"));
    // A trailing slash is ignored.
    server.stranger().get("/healthz/").await.expect(200);
    server.management.get("/applications/").await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn two_keys_that_differ_are_refused_as_that() {
    let server = TestServer::start().await;
    let key = |key: &str| {
        server.private.request(Method::GET, "/applications/key").header("SVC-API-KEY", key)
    };
    let same = server.private.key.clone().unwrap();
    server.private.send(key(&same)).await.expect(200);
    for other in [server.management.key.as_deref().unwrap(), "", "nobody's"] {
        let refused = server.private.send(key(other)).await;
        let detail = &refused.expect(400)["detail"];
        assert_eq!(detail, "The request has several SVC-API-KEY that differ.", "{other}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn several_lines_of_accept_are_one_list() {
    let server = TestServer::start().await;
    for (lines, expected) in [
        (vec!["application/json", "application/problem+json"], "application/problem+json"),
        (vec!["application/problem+json", "text/html"], "application/problem+json"),
        (vec!["application/json", "text/html"], "application/json"),
    ] {
        let mut request = server.private.request(Method::GET, "/tokens/nothing");
        for line in &lines {
            request = request.header("accept", *line);
        }
        let answer = server.private.send(request).await;
        answer.expect(404);
        assert_eq!(answer.headers["content-type"], expected, "{lines:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn content_types_that_differ_are_refused() {
    let server = TestServer::start().await;
    let id = server.private.token("token", json!("a")).await;
    let json_type = "application/json";
    let patch_type = "application/merge-patch+json";
    let token = r#"{"type":"token","data":1}"#;
    for (method, path, body, lines, status) in [
        (Method::POST, "/tokens", token, [json_type, json_type], 201),
        (Method::POST, "/tokens", token, [json_type, "APPLICATION/json; charset=utf-8"], 201),
        (Method::POST, "/tokens", token, [json_type, "text/plain"], 415),
        (Method::POST, "/tokens", token, ["text/plain", json_type], 415),
        (Method::PATCH, &format!("/tokens/{id}"), "{}", [patch_type, json_type], 415),
        // Without a body any may be there.
        (Method::POST, "/tokens/search", "", ["text/plain", json_type], 200),
    ] {
        let mut request = server.private.request(method, path);
        for line in lines {
            request = request.header("content-type", line);
        }
        let answer = server.private.send(request.body(body)).await;
        let problem = answer.expect(status);
        if status == 415 {
            let detail = problem["detail"].as_str().unwrap();
            assert!(detail.contains("content types that differ"), "{lines:?} {detail}");
        }
    }
}
