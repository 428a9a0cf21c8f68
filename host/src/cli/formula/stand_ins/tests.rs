//! What fits which request, and what is told of the rest.

use std::time::Duration;

use serde_json::{Value, json};

use super::{Exchange, StandIns};
use crate::egress::{Answer, EgressError, Outbound, StandIn as _, Wanted};

fn exchanges(text: Value) -> Vec<Exchange> {
    serde_json::from_value(text).unwrap()
}

fn request(method: &str, url: &str, body: Option<&str>) -> Outbound {
    Outbound {
        method: method.to_owned(),
        url: url.to_owned(),
        headers: vec![("Accept".to_owned(), "a".to_owned()), ("accept".to_owned(), "b".to_owned())],
        body: body.map(|body| body.to_owned().into()),
        body_bytes_max: 1 << 20,
        timeout: Duration::from_secs(1),
        redirects: 0,
        https_only: false,
        owner: 0,
        wanted: Wanted::Whole,
        repeatable: false,
    }
}

/// What one exchange finds in a request.
fn found(expected: &Value, request: &Outbound) -> Vec<String> {
    let exchange = json!([{ "request": expected, "response": {} }]);
    exchanges(exchange)[0].differences(request).found
}

#[test]
fn only_what_is_named_of_a_request_has_to_be_so() {
    let get = request("GET", "https://a.example", None);
    for expected in [
        json!({}),
        json!({ "method": "GET" }),
        json!({ "method": "*", "url": "*" }),
        json!({ "url": "https://A.example:443/" }),
        json!({ "url": "https://a.example/#top" }),
        json!({ "url": "https://*.example/*" }),
        json!({ "headers": { "authorization": null }, "body": null }),
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
        (json!({ "body": {} }), "body: expected {}, is absent"),
        (json!({ "form": {} }), "form: expected {}, is absent"),
        (json!({ "url": "https://*.other/" }), "url: expected \"https://*.other/\", got"),
        (json!({ "headers": { "accept": null } }), "headers.accept: expected null, got"),
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
    odd.body = Some(vec![0xff, 0xfe].into());
    assert_eq!(found(&json!({ "body": "x" }), &odd).len(), 1);
    assert_eq!(found(&json!({ "body": "\u{fffd}\u{fffd}" }), &odd).len(), 1);
    assert_eq!(found(&json!({ "body_base64": "//4=" }), &odd), [""; 0]);
    let text = post("name=\"a\"\r\n\r\n1é");
    for contained in [json!("name=\"a\""), json!(["1é", "\r\n\r\n1", ""]), json!([])] {
        assert_eq!(found(&json!({ "body_contains": contained }), &text), [""; 0], "{contained}");
    }
    let found_without = found(&json!({ "body_contains": ["1", "*", "é2"] }), &text);
    assert_eq!(
        found_without,
        ["*", "é2"].map(|part| format!("body_contains: \"{part}\" is not in it"))
    );
    let none = request("GET", "https://a.example", None);
    assert_eq!(found(&json!({ "body_contains": "a" }), &none).len(), 1);
    let mut files = post("--x");
    files.headers.push(("content-type".to_owned(), "multipart/form-data; boundary=x".to_owned()));
    let told = found(&json!({ "form": { "a": "1" } }), &files);
    assert!(told.len() == 1 && told[0].contains("body_contains looks into it"), "{told:?}");
    assert_eq!(found(&json!({ "body_base64": "/w==" }), &odd).len(), 1);
    let form = json!({ "amount": "1 0", "card[number]": "*", "item": ["a", "b"], "none": "" });
    let sent = post("amount=1+0&card%5Bnumber%5D=4242&item=a&item=b&none");
    assert_eq!(found(&json!({ "form": form }), &sent), [""; 0]);
    let told = found(&json!({ "form": { "amount": "10", "more": "1" } }), &post("amount=9"));
    assert_eq!(
        told,
        ["form.amount: expected \"10\", got \"9\"", "form.more: expected \"1\", is absent"]
    );
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
    let ask =
        |path: &str| stand_ins.answer(&request("GET", &format!("https://a.example/{path}"), None));
    let answer = |status: u16, content_type: &str, body: &str| Answer {
        status,
        headers: vec![("content-type".to_owned(), content_type.to_owned())],
        body: body.as_bytes().to_vec(),
    };
    assert!(ask("2") == Ok(answer(404, "application/problem+json", "{}")));
    assert!(ask("1") == Ok(answer(200, "application/json", "[1]")));
    assert!(matches!(ask("2"), Err(EgressError::Unreachable("the case says so"))));
    assert!(matches!(ask("2"), Err(EgressError::Unreachable(told)) if told.contains("no answer")));
    assert_eq!(
        stand_ins.end(),
        [
            "http: GET \"https://a.example/2\" is not expected",
            "http[3]: * https://a.example/3 was not sent"
        ]
    );
    // And then nothing stands in any more.
    assert!(!stand_ins.stands());
    assert_eq!(stand_ins.end(), [""; 0]);
    stand_ins.begin(None);
    assert!(!stand_ins.stands());
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
    assert!(stand_ins.answer(&request("PUT", url, Some(r#"{"a":0,"b":3}"#))).is_err());
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
    for (exchange, part) in [
        (json!({ "response": { "body": "a", "body_base64": "YQ==" } }), "either"),
        (json!({ "response": { "body_base64": "?" } }), "base 64"),
        (json!({ "request": { "body_base64": "?" }, "response": {} }), "base 64"),
    ] {
        assert!(fault(exchange.clone()).is_some_and(|told| told.contains(part)), "{exchange}");
    }
    assert!(serde_json::from_value::<Exchange>(json!({ "answer": {} })).is_err());
    assert!(serde_json::from_value::<Exchange>(json!({ "error": "gone" })).is_err());
}

#[test]
fn what_is_not_sent_is_expected_as_such_or_a_difference() {
    let stand_ins = StandIns::default();
    let one = || request("GET", "https://a.example/", None);
    stand_ins.begin(Some(exchanges(json!([{ "response": {} }, { "error": "denied" }]))));
    stand_ins.refused(&one(), EgressError::Denied("not allowed"));
    stand_ins.refused(&one(), EgressError::Invalid("no method"));
    let invalid = "http: GET \"https://a.example/\" is not sent: invalid: no method";
    assert_eq!(stand_ins.end(), [invalid, "http[0]: * * was not sent"]);
    // And one that is expected to be refused is not answered.
    stand_ins.begin(Some(exchanges(json!([{ "error": "invalid" }, { "error": "too-large" }]))));
    assert_eq!(stand_ins.answer(&one()), Err(EgressError::TooLarge));
    assert!(stand_ins.answer(&one()).is_err());
    assert_eq!(stand_ins.end().len(), 2);
}

#[test]
fn a_header_may_come_more_than_once_and_a_body_be_any_bytes() {
    let exchange = json!([{ "response": { "headers": { "Set-Cookie": ["a=1", "b=2"], "x": "1" },
        "body_base64": "AP8=" } }]);
    let answer = exchanges(exchange)[0].answer().unwrap();
    let header = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let headers = vec![header("set-cookie", "a=1"), header("set-cookie", "b=2"), header("x", "1")];
    assert_eq!(answer, Answer { status: 200, headers, body: vec![0, 255] });
    let odd = json!([{ "response": { "headers": { "a": 1 } } }]);
    let told = serde_json::from_value::<Vec<Exchange>>(odd).unwrap_err().to_string();
    assert!(told.contains("a header must be a text, or an array of texts"), "{told}");
}

#[test]
fn an_address_may_have_parts_that_are_anything() {
    for (pattern, text, expected) in [
        ("a", "a", true),
        ("a", "ab", false),
        ("*", "", true),
        ("a*", "abc", true),
        ("a*", "ba", false),
        ("*c", "abc", true),
        ("a*c", "abc", true),
        ("a*c", "ac", true),
        ("a*a", "a", false),
        ("a*b*c", "a1b2c", true),
        ("a*b*c", "a1c2b", false),
        ("a*b*b", "ab", false),
        ("a**c", "abc", true),
    ] {
        assert_eq!(super::fits(pattern, text), expected, "{pattern} {text}");
    }
}
