//! Numbers that would be rounded are refused wherever they would be kept or handed on, and named by their path.

use reqwest::Method;
use serde_json::json;

use crate::support::{Answer, Client, TestServer, guests};

const LONG: &str = "12345678901234567890123";

/// Sends a body as it is: a JSON value would have rounded its numbers already.
async fn send(client: &Client, method: Method, path: &str, body: &str) -> Answer {
    let content_type = match method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let request = client.request(method, path).header("content-type", content_type);
    client.send(request.body(body.to_owned())).await
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_that_would_be_rounded_are_named() {
    let server = TestServer::start().await;
    let formula = guests::formula(&server, "bare", json!({})).await;
    let reactor = guests::echo_reactor(&server).await;
    let id = server.private.token("token", json!({"a": 1})).await;
    let token = format!("/tokens/{id}");
    let react = format!("/reactors/{reactor}/react");
    let (post, put, patch) = (Method::POST, Method::PUT, Method::PATCH);
    for (client, method, path, body, fault) in [
        (
            &server.private,
            &post,
            "/tokens",
            r#"{"type":"token","data":{"a":[0,LONG]}}"#,
            "data.a[1]",
        ),
        (&server.private, &post, "/tokens", r#"{"type":"token","data":1,"mask":LONG}"#, "mask"),
        (
            &server.private,
            &post,
            "/tokens",
            r#"{"type":"token","data":1,"metadata":{"k":LONG}}"#,
            "metadata.k",
        ),
        (&server.private, &patch, &token, r#"{"data":{"a":LONG}}"#, "data.a"),
        (&server.private, &patch, &token, r#"{"data":{"b":0.1234567890123456789012}}"#, "data.b"),
        (&server.private, &post, "/tokenize", "LONG", ""),
        (&server.private, &post, "/tokenize", r#"{"x":[1e-400]}"#, "x[0]"),
        (&server.private, &post, "/detokenize", r#"[1,"abc",-LONG]"#, "[2]"),
        (&server.private, &post, &react, r#"{"args":{"n":LONG}}"#, "args.n"),
        (
            &server.management,
            &post,
            "/reactors",
            r#"{"name":"r","formula":{"id":"FORMULA"},"configuration":{"n":LONG}}"#,
            "configuration.n",
        ),
        (
            &server.management,
            &put,
            &format!("/reactors/{reactor}"),
            r#"{"name":"r","configuration":{"n":LONG}}"#,
            "configuration.n",
        ),
    ] {
        let body = body.replace("LONG", LONG).replace("FORMULA", &formula);
        let answer = send(client, method.clone(), path, &body).await;
        assert_eq!(answer.faults(), [fault], "{method} {path} {body}");
        let reason = answer.json()["errors"][fault][0].as_str().unwrap().to_owned();
        let told = if body.contains("1e-400") {
            "too small"
        } else {
            "more digits than a number can hold"
        };
        assert!(reason.contains(told), "{reason}");
        assert!(!answer.text().contains("123456789012"), "a value is quoted");
    }
    assert_eq!(server.private.list("").await, [id]);
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_that_fit_come_back_as_they_were() {
    let server = TestServer::start().await;
    let client = server.revealing().await;
    for number in
        ["18446744073709551615", "-9223372036854775808", "0.1", "9007199254740993", "-2.5"]
    {
        let body = format!(r#"{{"type":"token","data":[{number},0.30000000000000004]}}"#);
        let answer = send(&client, Method::POST, "/tokens", &body).await;
        answer.expect(201);
        assert!(answer.text().contains(&format!("[{number},0.30000000000000004]")), "{number}");
    }
    // What is ignored may be anything.
    let body = format!(r#"{{"type":"token","data":1,"nothing":{{"to":[{LONG}]}}}}"#);
    send(&client, Method::POST, "/tokens", &body).await.expect(201);
    // Long digits in a text are a text.
    let body = format!(r#"{{"type":"token","data":"{LONG}"}}"#);
    assert_eq!(send(&client, Method::POST, "/tokens", &body).await.expect(201)["data"], LONG);
}

#[tokio::test(flavor = "multi_thread")]
async fn texts_are_not_cast_to_other_numbers() {
    let server = TestServer::start().await;
    let members = json!({"request_parameters": [
        {"name": "n", "type": "number", "optional": true},
        {"name": "o", "type": "object", "optional": true},
    ]});
    let formula = guests::formula(&server, "probe", members).await;
    let reactor = guests::reactor(&server, &formula, json!({})).await;
    let react = async |args| {
        server.private.post(&format!("/reactors/{reactor}/react"), json!({"args": args})).await
    };
    react(json!({"n": "0.1", "o": "{\"a\": 1.5}"})).await.expect(200);
    for args in [
        json!({"n": LONG}),
        json!({"n": "0.1234567890123456789012"}),
        json!({"o": format!("{{\"a\": [{LONG}]}}")}),
    ] {
        let member = args.as_object().unwrap().keys().next().unwrap().clone();
        assert_eq!(react(args.clone()).await.faults(), [format!("args.{member}")], "{args}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_that_do_not_fit_hide_no_other_faults() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let id = server.private.token("token", json!({"a": 1})).await;
    let token = format!("/tokens/{id}");
    let react = format!("/reactors/{reactor}/react");
    let (private, management) = (&server.private, &server.management);
    let (post, put, patch) = (Method::POST, Method::PUT, Method::PATCH);
    for (client, method, path, body, faults) in [
        (
            private,
            &post,
            "/tokens",
            r#"{"type":"nothing","data":{"a":[0,NUMBER]},"mask":"{{ data","containers":["x"],"metadata":{"k":NUMBER,"l":5}}"#,
            "containers[0] data.a[1] mask metadata.k metadata.l type",
        ),
        (
            private,
            &post,
            "/tokens",
            r#"{"type":"card","data":{"number":"1","expiration_year":NUMBER},"deduplicate_token":NUMBER}"#,
            "data.expiration_year data.number deduplicate_token",
        ),
        (
            private,
            &patch,
            &token,
            r#"{"data":{"a":NUMBER},"mask":[NUMBER,"{{"],"expires_at":"x"}"#,
            "data.a expires_at mask[0] mask[1]",
        ),
        (
            private,
            &post,
            "/tokenize",
            r#"[{"type":"x","data":NUMBER},{"type":"card","data":1}]"#,
            "[0].data [0].type [1].data",
        ),
        (private, &post, "/detokenize", r#"{"a":NUMBER,"b":"{{ abc }}"}"#, "a b"),
        (
            private,
            &post,
            "/tokens/search",
            r#"{"query":"a b","page":NUMBER,"size":101}"#,
            "page query size",
        ),
        (
            private,
            &post,
            &react,
            r#"{"args":{"n":NUMBER,"t":"{{ abc }}","u":"{{ | }}"},"timeout_ms":NUMBER}"#,
            "args.n args.t args.u timeout_ms",
        ),
        (
            management,
            &put,
            &format!("/reactors/{reactor}"),
            r#"{"configuration":{"n":NUMBER},"application":{"id":"x"}}"#,
            "application.id configuration.n name",
        ),
        (
            management,
            &post,
            "/applications",
            r#"{"name":NUMBER,"type":"private","rules":[{"priority":1,"container":"/","transform":"mask","permissions":["token:read"]},{"priority":NUMBER,"container":"x","transform":"mask","permissions":["x",NUMBER]}]}"#,
            "name rules[1].container rules[1].permissions[0] rules[1].permissions[1] rules[1].priority",
        ),
        (
            management,
            &put,
            "/tenants/self",
            r#"{"name":" ","settings":{"cvc_retention_minutes":NUMBER}}"#,
            "name settings.cvc_retention_minutes",
        ),
        (management, &put, "/tenants/self", "[NUMBER]", " [0]"),
    ] {
        for (number, reason) in
            [(LONG, "more digits"), ("1e400", "too large"), ("-1e400", "too large")]
        {
            let body = body.replace("NUMBER", number);
            let answer = send(client, method.clone(), path, &body).await;
            assert_eq!(answer.faults().join(" "), faults, "{method} {path} {body}");
            assert!(answer.text().contains(reason), "{body} {}", answer.text());
        }
    }
    assert_eq!(server.private.list("").await, [id]);
    // What is ignored may be anything, and what is no JSON is said where it is none.
    let body = r#"{"type":"token","data":1,"nothing":[1e400]}"#;
    send(private, post.clone(), "/tokens", body).await.expect(201);
    let problem = send(private, post.clone(), "/tokens", "{\"data\":1e400,\n x").await.expect(400);
    assert!(problem["detail"].as_str().unwrap().contains("line 2"), "{problem}");
    let deep = format!(r#"{{"type":"token","data":[1e400,{}"#, "[".repeat(2_000_000));
    send(private, post, "/tokens", &deep).await.expect(400);
}
