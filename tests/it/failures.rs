//! How runs fail, and what formulas leave in the log (decisions §7).

use serde_json::{Value, json};

use crate::support::{Answer, TestServer, guests};

async fn react(server: &TestServer, reactor: &str, args: Value) -> Answer {
    server.private.post(&format!("/reactors/{reactor}/react"), json!({"args": args})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn every_kind_of_error_has_its_status() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let table = [
        ("authentication", 401, "Unauthorized"),
        ("authorization", 403, "Forbidden"),
        ("bad_request", 400, "Bad Request"),
        ("invalid_payment_method", 402, "Invalid Payment Method"),
        ("rate_limit", 429, "Too Many Requests"),
        ("runtime", 500, "Reactor Runtime Error"),
        ("service_unavailable", 503, "Service Unavailable"),
    ];
    for (kind, status, title) in table {
        let args = json!({"behaviour": "fail", "kind": kind, "detail": "as told",
            "errors": [["args.a", "first"], ["args.a", "second"], ["b", "third"]]});
        let problem = react(&server, &reactor, args).await.expect(status);
        assert_eq!((&problem["title"], &problem["detail"]), (&json!(title), &json!("as told")));
        assert_eq!(problem["errors"], json!({"args.a": ["first", "second"], "b": ["third"]}));
        assert_eq!(problem["status"], status);
        assert!(problem["trace_id"].is_string());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_formula_shapes_its_own_response() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let custom = |status: u16, headers: Value| json!({"behaviour": "custom", "status": status, "headers": headers, "body": {"why": "teapot"}});
    let answer =
        react(&server, &reactor, custom(418, json!([["x-kind", "tea"], ["retry-after", "3"]])))
            .await;
    assert_eq!(answer.expect(418), json!({"why": "teapot"}));
    assert_eq!(
        (&answer.headers["x-kind"], &answer.headers["retry-after"]),
        (&"tea".parse().unwrap(), &"3".parse().unwrap())
    );
    assert!(answer.headers.contains_key("svc-trace-id"));
    // What is no response of a formula is its failure.
    for (status, headers) in [
        (200, json!([])),
        (399, json!([])),
        (600, json!([])),
        (418, json!([["bad name", "x"]])),
        (418, json!([["x", "a\nb"]])),
        (418, json!([["content-length", "5"]])),
        (418, json!([["connection", "close"]])),
    ] {
        let shown = headers.to_string();
        let answer = react(&server, &reactor, custom(status, headers)).await;
        assert_eq!(answer.expect(500)["title"], "Reactor Runtime Error", "{status} {shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_formula_without_the_sdk_works_and_its_mistakes_are_its_own() {
    let server = TestServer::start().await;
    let formula = guests::formula(&server, "bare", json!({})).await;
    let reactor = guests::reactor(&server, &formula, json!({})).await;
    assert_eq!(
        react(&server, &reactor, json!({"a": [1]})).await.expect(200),
        json!({"raw": {"a": [1]}})
    );
    // A kept component is compiled anew after its formula changed.
    let probe = guests::component("probe").to_vec();
    let put = server
        .management
        .request(reqwest::Method::PUT, &format!("/reactor-formulas/{formula}/component"))
        .body(probe);
    server.management.send(put.header("content-type", "application/wasm")).await.expect(200);
    assert_eq!(
        react(&server, &reactor, json!({"a": 1})).await.expect(200)["raw"]["args"],
        json!({"a": 1})
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn log_lines_are_kept_with_the_invocation_and_nothing_else_is() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let secret = "5105105105105100";
    let log =
        json!({"behaviour": "log", "lines": [["info", "one"], ["error", "two"]], "unused": secret});
    react(&server, &reactor, log).await.expect(200);
    server.clock.advance_ms(1);
    let print = json!({"behaviour": "print", "stdout": "out\n", "stderr": "err\n"});
    react(&server, &reactor, print).await.expect(200);
    server.clock.advance_ms(1);
    react(&server, &reactor, json!({"behaviour": "respond", "raw": secret})).await.expect(200);
    server.clock.advance_ms(1);
    react(&server, &reactor, json!({"behaviour": "panic", "message": "quietly"})).await.expect(500);
    let path = format!("/reactors/{reactor}/invocations");
    let answer = server.management.get(&path).await;
    let page = answer.expect(200);
    assert!(!answer.text().contains(secret));
    let runs = page["data"].as_array().unwrap();
    let lines = |run: &Value| -> Vec<(String, String)> {
        let lines = run["log"].as_array().unwrap().iter();
        let text = |line: &Value, member: &str| line[member].as_str().unwrap().trim().to_owned();
        lines.map(|line| (text(line, "level"), text(line, "message"))).collect()
    };
    let pair = |level: &str, message: &str| (level.to_owned(), message.to_owned());
    assert_eq!(lines(&runs[3]), [pair("info", "one"), pair("error", "two")]);
    let mut printed = lines(&runs[2]);
    printed.sort();
    assert_eq!(printed, [pair("stderr", "err"), pair("stdout", "out")]);
    assert_eq!(
        (&runs[0]["status"], &runs[0]["error"]),
        (&json!("failed"), &json!("Reactor Runtime Error"))
    );
    // Who looks into it need not be who asked for it.
    let last = lines(&runs[0]).pop().unwrap();
    assert!(last.0 == "server" && last.1.starts_with("The formula trapped: "), "{last:?}");
    assert_eq!(runs[3]["status"], "completed");
    for run in runs {
        assert!(
            run["fuel"].as_u64().unwrap() > 0 && run["memory_peak_bytes"].as_u64().unwrap() > 0
        );
        assert_eq!(run["log_truncated"], false);
    }
    server.private.get(&path).await.expect(403);
    // Kept for seven days.
    server.clock.advance_ms(7 * 24 * 3_600_000);
    assert_eq!(server.management.get(&path).await.expect(200)["pagination"]["total_items"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_has_at_most_64_kib() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let log = json!({"behaviour": "log", "lines": [["info", "x".repeat(1_000)]], "repeat": 200});
    react(&server, &reactor, log).await.expect(200);
    let page = server.management.get(&format!("/reactors/{reactor}/invocations")).await.expect(200);
    let run = &page["data"][0];
    let bytes: usize = run["log"]
        .as_array()
        .unwrap()
        .iter()
        .map(|line| line["message"].as_str().unwrap().len())
        .sum();
    assert!(bytes <= 64 << 10 && bytes > 58 << 10, "{bytes}");
    assert_eq!(run["log_truncated"], true);
}

#[tokio::test(flavor = "multi_thread")]
async fn invocations_and_uses_are_in_the_audit_log() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let token = server.private.token("card", json!({"number": "4242424242424242"})).await;
    let reference = format!("{{{{ {token} }}}}");
    react(&server, &reactor, json!({"a": reference})).await.expect(200);
    react(&server, &reactor, json!({"a": reference, "behaviour": "panic", "message": "x"}))
        .await
        .expect(500);
    let of = async |id: &str| {
        let page = server.management.get(&format!("/logs?entity_id={id}")).await.expect(200);
        let messages = page["data"].as_array().unwrap().iter().map(|entry| {
            format!(
                "{} {} {}",
                entry["entity_type"].as_str().unwrap(),
                entry["operation"].as_str().unwrap(),
                entry["message"].as_str().unwrap()
            )
        });
        messages.collect::<Vec<_>>()
    };
    assert_eq!(
        of(&reactor).await,
        [
            "reactor invoke Reactor invoked: Reactor Runtime Error",
            "reactor invoke Reactor invoked",
            "reactor create Reactor created",
        ]
    );
    assert_eq!(
        of(&token).await,
        [
            format!("card use Token used by reactor {reactor}"),
            format!("card use Token used by reactor {reactor}"),
            "card create Token created".to_owned(),
        ]
    );
}
