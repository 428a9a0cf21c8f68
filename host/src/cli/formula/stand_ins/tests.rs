//! What fits which request, and what is told of the rest.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Exchange, StandIns};
use crate::runtime::{GuestHttpError, GuestHttpRequest, GuestHttpResponse};
use crate::vault::StandIn as _;

fn exchanges(text: Value) -> Vec<Exchange> {
    serde_json::from_value(text).unwrap()
}

fn request(method: &str, url: &str, body: Option<&str>) -> GuestHttpRequest {
    GuestHttpRequest {
        method: method.to_owned(),
        url: url.to_owned(),
        headers: vec![("Accept".to_owned(), "a".to_owned()), ("accept".to_owned(), "b".to_owned())],
        body: body.map(|body| body.as_bytes().to_vec()),
        timeout: Duration::from_secs(1),
        redirects: 0,
    }
}

/// What one exchange finds in a request.
fn found(expected: &Value, request: &GuestHttpRequest) -> Vec<String> {
    let exchange = json!([{ "request": expected, "response": {} }]);
    exchanges(exchange)[0].differences(request).1
}

#[test]
fn only_what_is_named_of_a_request_has_to_be_so() {
    let get = request("GET", "https://a.example", None);
    for expected in [
        json!({}),
        json!({ "method": "GET" }),
        json!({ "method": "*", "url": "*" }),
        json!({ "url": "https://A.example:443/" }),
        json!({ "headers": { "ACCEPT": "a, b" } }),
    ] {
        assert_eq!(found(&expected, &get), [""; 0], "{expected}");
    }
    for (expected, part) in [
        (json!({ "method": "POST" }), "method: expected \"POST\", got \"GET\""),
        (json!({ "url": "https://a.example/b" }), "url: expected"),
        (json!({ "headers": { "accept": "a" } }), "headers.accept: expected \"a\", got \"a, b\""),
        (json!({ "headers": { "x": "*" } }), "headers.x: expected \"*\", is absent"),
        (json!({ "body": "*" }), "body: expected \"*\", is absent"),
        (json!({ "body": null }), "body: expected null, is absent"),
    ] {
        let found = found(&expected, &get);
        assert!(found.len() == 1 && found[0].starts_with(part), "{expected}: {found:?}");
    }
}

#[test]
fn a_body_is_compared_as_what_is_expected() {
    let post = |body: &str| request("POST", "https://a.example", Some(body));
    assert_eq!(
        found(&json!({ "body": { "a": [1, "*"] } }), &post(r#"{ "a": [1.0, {}] }"#)),
        [""; 0]
    );
    assert_eq!(found(&json!({ "body": "a=1&b=2" }), &post("a=1&b=2")), [""; 0]);
    assert_eq!(found(&json!({ "body": "{}" }), &post("{}")), [""; 0]);
    assert_eq!(found(&json!({ "body": {} }), &post("no JSON")).len(), 1);
    assert_eq!(found(&json!({ "body": {} }), &post(r#"{"a":1}"#)).len(), 1);
    let mut odd = post("");
    odd.body = Some(vec![0xff]);
    assert_eq!(found(&json!({ "body": "x" }), &odd).len(), 1);
}

#[test]
fn each_exchange_answers_one_request_whatever_their_order() {
    let stand_ins = StandIns::default();
    stand_ins.begin(Some(exchanges(json!([
        { "request": { "url": "https://a.example/1" }, "response": { "body": [1] } },
        { "request": { "url": "https://a.example/2" }, "response": { "status": 404,
            "headers": { "Content-Type": "application/problem+json" }, "body": {} } },
        { "request": { "url": "https://a.example/2" }, "error": "unreachable" },
        { "request": { "url": "https://a.example/3" }, "error": "timeout" },
    ]))));
    let ask = |path: &str| {
        stand_ins.answer(&request("GET", &format!("https://a.example/{path}"), None)).unwrap()
    };
    let answer = |status: u16, content_type: &str, body: &str| GuestHttpResponse {
        status,
        headers: vec![("content-type".to_owned(), content_type.to_owned())],
        body: body.as_bytes().to_vec(),
    };
    assert!(ask("2") == Ok(answer(404, "application/problem+json", "{}")));
    assert!(ask("1") == Ok(answer(200, "application/json", "[1]")));
    assert!(matches!(ask("2"), Err(GuestHttpError::Unreachable("the case says so"))));
    assert!(
        matches!(ask("2"), Err(GuestHttpError::Unreachable(told)) if told.contains("no answer"))
    );
    assert_eq!(
        stand_ins.end(),
        [
            "http: GET \"https://a.example/2\" is not expected",
            "http[3]: * https://a.example/3 was not sent"
        ]
    );
    // And then nothing stands in any more.
    assert!(stand_ins.answer(&request("GET", "https://a.example", None)).is_none());
    assert_eq!(stand_ins.end(), [""; 0]);
    stand_ins.begin(None);
    assert!(stand_ins.answer(&request("GET", "https://a.example", None)).is_none());
}

#[test]
fn the_exchange_that_fits_best_says_what_is_other() {
    let stand_ins = StandIns::default();
    let url = "https://a.example/";
    stand_ins.begin(Some(exchanges(json!([
        { "request": { "url": "https://b.example/" }, "response": {} },
        { "request": { "url": url, "body": { "a": 1, "b": 2 } }, "response": {} },
        { "request": { "url": url, "body": { "a": 1, "b": 3 } }, "response": {} },
    ]))));
    assert!(stand_ins.answer(&request("PUT", url, Some(r#"{"a":0,"b":3}"#))).unwrap().is_err());
    let told = stand_ins.end();
    let of_body = format!("http[2].request.body.a: expected 1, got 0 (PUT \"{url}\")");
    assert_eq!(told.first(), Some(&of_body), "{told:?}");
    assert_eq!(told.len(), 4, "{told:?}");
}

#[test]
fn what_cannot_be_answered_is_refused() {
    let fault = |text: Value| exchanges(json!([text]))[0].fault();
    assert!(fault(json!({})).is_some_and(|fault| fault.contains("either")));
    assert!(fault(json!({ "response": {}, "error": "timeout" })).is_some());
    for status in [0, 101, 199, 600] {
        assert!(fault(json!({ "response": { "status": status } })).is_some(), "{status}");
    }
    assert_eq!(fault(json!({ "response": { "status": 599 } })), None);
    assert!(serde_json::from_value::<Exchange>(json!({ "answer": {} })).is_err());
    assert!(serde_json::from_value::<Exchange>(json!({ "error": "gone" })).is_err());
}
