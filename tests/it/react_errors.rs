//! Failures of runs at their edges, and what is kept of a run: never what went in or came out
//! (decisions §1, §7, §10).

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::{Answer, TestServer, guests};

const SECRET: &str = "5105105105105100";

async fn react(server: &TestServer, reactor: &str, args: Value) -> Answer {
    server.private.post(&format!("/reactors/{reactor}/react"), json!({"args": args})).await
}

/// The newest invocation of a reactor.
async fn last_run(server: &TestServer, reactor: &str) -> Value {
    let path = format!("/reactors/{reactor}/invocations?size=1");
    let page = server.management.get(&path).await.expect(200);
    page["data"][0].clone()
}

fn bytes_of(run: &Value) -> usize {
    let lines = run["log"].as_array().unwrap().iter();
    lines.map(|line| line["message"].as_str().unwrap().len()).sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reported_failure_is_a_problem_like_any_other() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let path = format!("/reactors/{reactor}/react");
    let args = json!({"behaviour": "fail", "kind": "invalid_payment_method", "detail": "declined"});
    for accept in ["application/json", "application/problem+json"] {
        let request = server.private.request(Method::POST, &path).json(&json!({"args": args}));
        let request = request.header("accept", accept).header("svc-trace-id", "trace-7");
        let answer = server.private.send(request).await;
        assert_eq!(answer.headers["content-type"], accept);
        let expected = json!({"title": "Invalid Payment Method", "status": 402,
            "detail": "declined", "trace_id": "trace-7"});
        assert_eq!(answer.expect(402), expected, "no errors, no member for them");
    }
    assert_eq!(last_run(&server, &reactor).await["error"], "Invalid Payment Method");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_failed_is_named_so_that_its_log_is_found() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    for args in [
        json!({"behaviour": "fail", "kind": "bad_request"}),
        json!({"behaviour": "custom", "status": 418, "headers": [], "body": {}}),
        json!({"behaviour": "respond", "raw": 1, "tokenize": {"type": "card", "data": 5}}),
    ] {
        let answer = react(&server, &reactor, args).await;
        assert!(answer.status.is_client_error(), "{}", answer.text());
        let named = answer.headers["svc-invocation-id"].to_str().unwrap();
        let path = format!("/reactors/{reactor}/invocations");
        let page = server.management.get(&path).await.expect(200);
        let mut runs = page["data"].as_array().unwrap().iter();
        assert_eq!(runs.find(|run| run["id"] == named).unwrap()["status"], "failed");
    }
    // What never ran has no log.
    for args in [json!({"a": "{{ absent }}"}), json!([])] {
        let answer = react(&server, &reactor, args).await;
        answer.expect(400);
        assert!(!answer.headers.contains_key("svc-invocation-id"));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_asks_too_often_is_told_when_to_ask_again() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let custom = |headers: Value| {
        json!({"behaviour": "custom", "status": 429, "headers": headers,
            "body": {}})
    };
    for (args, expected) in [
        (json!({"behaviour": "fail", "kind": "rate_limit"}), Some("1")),
        (custom(json!([])), Some("1")),
        (custom(json!([["Retry-After", "30"]])), Some("30")),
        (json!({"behaviour": "fail", "kind": "service_unavailable"}), None),
    ] {
        let answer = react(&server, &reactor, args.clone()).await;
        assert_eq!(answer.status.as_u16(), if expected.is_some() { 429 } else { 503 });
        let wait = answer.headers.get("retry-after").map(|wait| wait.to_str().unwrap());
        assert_eq!(wait, expected, "{args}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_custom_response_has_the_status_headers_and_body_it_was_given() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let custom = |status: u16, headers: Value, body: Value| {
        json!({"behaviour": "custom", "status": status,
            "headers": headers, "body": body})
    };
    for status in [400, 401, 409, 451, 500, 599] {
        for body in [json!({"a": [1, null]}), json!("text"), json!(null), json!([])] {
            let answer = react(&server, &reactor, custom(status, json!([]), body.clone())).await;
            assert_eq!(answer.status, status);
            let got: Value = serde_json::from_slice(&answer.bytes).unwrap();
            assert_eq!(got, body, "{status}");
            assert_eq!(answer.headers["content-type"], "application/json");
        }
    }
    assert_eq!(last_run(&server, &reactor).await["status"], "failed");
    let fifty: Vec<_> = (0..50).map(|index| json!([format!("x-{index}"), "v"])).collect();
    let answer = react(&server, &reactor, custom(400, json!(fifty), json!(1))).await;
    assert_eq!((answer.status.as_u16(), &answer.headers["x-49"]), (400, &"v".parse().unwrap()));
    assert_eq!(answer.headers["cache-control"], "no-store");
    // The content type that the answer has anyway may be said.
    for content_type in ["application/json", "Application/JSON; charset=utf-8"] {
        let headers = json!([["Content-Type", content_type], ["x-a", "v"]]);
        let answer = react(&server, &reactor, custom(422, headers, json!({"a": 1}))).await;
        assert_eq!((answer.status.as_u16(), &answer.headers["x-a"]), (422, &"v".parse().unwrap()));
        assert_eq!(answer.headers.get_all("content-type").iter().count(), 1);
    }
    // Headers that are the server's alone.
    let mut refused: Vec<Value> = [
        "Set-Cookie",
        "content-type",
        "Content-Encoding",
        "alt-svc",
        "cache-control",
        "clear-site-data",
        "keep-alive",
        "location",
        "X-Accel-Redirect",
        "SVC-Trace-Id",
        "svc-idempotent-replay",
        "transfer-encoding",
        "upgrade",
    ]
    .iter()
    .map(|name| json!([[name, "x"]]))
    .collect();
    refused
        .push(json!((0..51).map(|index| json!([format!("x-{index}"), "v"])).collect::<Vec<_>>()));
    for headers in refused {
        let shown = headers.to_string();
        let answer = react(&server, &reactor, custom(400, headers, json!(SECRET))).await;
        let problem = answer.expect(500);
        assert_eq!(problem["title"], "Reactor Runtime Error", "{shown}");
        assert!(!answer.headers.contains_key("set-cookie") && !answer.text().contains(SECRET));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_cannot_be_given_is_the_formulas_failure() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let output = |bytes: usize| json!({"behaviour": "output", "bytes": bytes});
    // Two quotation marks are part of the answer.
    react(&server, &reactor, output((4 << 20) - 2)).await.expect(200);
    for bytes in [(4 << 20) - 1, 12 << 20] {
        let problem = react(&server, &reactor, output(bytes)).await.expect(500);
        assert_eq!(problem["title"], "Reactor Runtime Error", "{bytes}");
        assert!(problem["detail"].as_str().unwrap().contains("too large"), "{bytes}: {problem}");
    }
    assert_eq!(last_run(&server, &reactor).await["error"], "Reactor Runtime Error");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_tokenized_leaves_a_failed_run_and_no_token() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let taken = json!({"id": "taken-id", "type": "token", "data": 0});
    server.private.post("/tokens", taken.clone()).await.expect(201);
    let many = json!((0..101).collect::<Vec<_>>());
    let table = [
        (many, 400, "Bad Request"),
        (json!(["fine", {"type": "nothing", "data": 1}]), 400, "Bad Request"),
        (
            json!(["fine", {"type": "card", "data": {"number": SECRET, "cvc": 1}}]),
            400,
            "Bad Request",
        ),
        (json!(["fine", taken]), 409, "Conflict"),
    ];
    for (tokenize, status, title) in table {
        let args = json!({"behaviour": "respond", "raw": "unseen", "tokenize": tokenize});
        let answer = react(&server, &reactor, args).await;
        assert_eq!(answer.expect(status)["title"], title);
        assert!(!answer.text().contains("unseen") && !answer.text().contains(SECRET));
        let run = last_run(&server, &reactor).await;
        assert_eq!((&run["status"], &run["error"]), (&json!("failed"), &json!(title)));
        assert_eq!(server.private.list("").await, ["taken-id"]);
    }
    let hundred = json!({"behaviour": "respond", "tokenize": (0..100).collect::<Vec<_>>()});
    let made = react(&server, &reactor, hundred).await.expect(200);
    assert_eq!(made["tokens"].as_array().unwrap().len(), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_requests_leave_no_run() {
    let server = TestServer::start().await;
    let parameters = json!({"request_parameters": [{"name": "a", "type": "number"}]});
    let formula = guests::formula(&server, "probe", parameters).await;
    let reactor = guests::reactor(&server, &formula, json!({})).await;
    let path = format!("/reactors/{reactor}");
    for args in [json!({}), json!({"a": "x"}), json!({"a": "{{ nobody }}"})] {
        react(&server, &reactor, args).await.expect(400);
    }
    let outsider = server.application("private", &["token:read"], json!([])).await;
    outsider.post(&format!("{path}/react"), json!({"args": {"a": 1}})).await.expect(403);
    let page = server.management.get(&format!("{path}/invocations")).await.expect(200);
    assert_eq!(page["pagination"]["total_items"], 0);
    let logs = server.management.get(&format!("/logs?entity_id={reactor}")).await.expect(200);
    let messages: Vec<_> =
        logs["data"].as_array().unwrap().iter().map(|entry| entry["message"].clone()).collect();
    assert_eq!(messages[1], "Denied: token:use", "{messages:?}");
    assert!(!messages.iter().any(|message| message == "Reactor invoked"));
}

#[tokio::test(flavor = "multi_thread")]
async fn neither_arguments_nor_results_are_kept() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let token = server.private.token("card_number", json!(SECRET)).await;
    let reference = format!("{{{{ {token} }}}}");
    for args in [
        json!({"a": reference, "b": SECRET}),
        json!({"behaviour": "respond", "raw": reference, "tokenize": [SECRET]}),
        json!({"behaviour": "respond",
            "tokenize": {"type": "card", "data": {"number": SECRET, "cvc": "x"}}}),
        json!({"behaviour": "custom", "status": 418, "headers": [["x-secret", SECRET]],
            "body": SECRET}),
        json!({"behaviour": "fail", "kind": "runtime", "detail": SECRET,
            "errors": [[SECRET, SECRET]]}),
        json!({"behaviour": "abort", "unused": reference}),
        json!({"behaviour": reference}),
    ] {
        react(&server, &reactor, args).await;
    }
    for path in [format!("/reactors/{reactor}/invocations"), "/logs?size=100".to_owned()] {
        let answer = server.management.get(&path).await;
        assert!(answer.expect(200)["data"].as_array().unwrap().len() >= 7);
        assert!(!answer.text().contains(SECRET), "{path}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_keeps_levels_order_and_whole_characters() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let levels = ["trace", "debug", "info", "warn", "error"];
    let lines: Vec<_> = levels.iter().map(|level| json!([level, format!("at {level}")])).collect();
    react(&server, &reactor, json!({"behaviour": "log", "lines": lines})).await.expect(200);
    let run = last_run(&server, &reactor).await;
    let expected: Vec<_> = levels
        .iter()
        .map(|level| json!({"level": level, "message": format!("at {level}")}))
        .collect();
    assert_eq!(run["log"], json!(expected));
    // A bound that falls into a character leaves it out.
    let euros = "€".repeat(1_000);
    for args in [
        json!({"behaviour": "log", "lines": [["info", euros]], "repeat": 100}),
        json!({"behaviour": "print", "stdout": euros, "repeat": 100}),
        json!({"behaviour": "print", "stderr": format!("{euros}\n"), "repeat": 100}),
    ] {
        server.clock.advance_ms(1);
        react(&server, &reactor, args.clone()).await.expect(200);
        let run = last_run(&server, &reactor).await;
        assert_eq!(run["log_truncated"], true, "{}", args["behaviour"]);
        let bytes = bytes_of(&run);
        assert!((60_000..=64 << 10).contains(&bytes), "{bytes}");
        for line in run["log"].as_array().unwrap() {
            let message = line["message"].as_str().unwrap();
            assert!(message.chars().all(|character| character == '€'), "{}", line["level"]);
        }
    }
    // Many empty lines are bounded too.
    server.clock.advance_ms(1);
    let empty = json!({"behaviour": "log", "lines": [["info", ""]], "repeat": 50_000});
    react(&server, &reactor, empty).await.expect(200);
    let run = last_run(&server, &reactor).await;
    assert!(run["log"].as_array().unwrap().len() <= 64 << 10);
    assert_eq!(run["log_truncated"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_are_listed_newest_first_page_by_page_and_by_reactor() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let formula = server.management.get(&format!("/reactors/{reactor}")).await.expect(200);
    let formula = formula["formula"]["id"].as_str().unwrap().to_owned();
    let sibling = guests::reactor(&server, &formula, json!({})).await;
    let mut ids = Vec::new();
    for _ in 0..5 {
        server.clock.advance_ms(1);
        let answer = react(&server, &reactor, json!({})).await.expect(200);
        ids.insert(0, answer["raw"]["invocation"]["id"].clone());
        react(&server, &sibling, json!({})).await.expect(200);
    }
    let path = format!("/reactors/{reactor}/invocations?size=2");
    let mut seen = Vec::new();
    let mut next = String::new();
    loop {
        let page = server.management.get(&format!("{path}{next}")).await.expect(200);
        assert_eq!(page["pagination"]["total_items"], 5);
        seen.extend(page["data"].as_array().unwrap().iter().map(|run| run["id"].clone()));
        match page["pagination"]["next"].as_str() {
            Some(cursor) => next = format!("&start={cursor}"),
            None => break,
        }
    }
    assert_eq!(seen, ids);
    assert_eq!(
        server.management.get(&format!("{path}&page=3")).await.expect(200)["data"][0]["id"],
        ids[4]
    );
    assert_eq!(server.management.get(&format!("{path}&page=0")).await.faults(), ["page"]);
    server.management.delete(&format!("/reactors/{reactor}")).await.expect(204);
    server.management.get(&path).await.expect(404);
    react(&server, &reactor, json!({})).await.expect(404);
}
