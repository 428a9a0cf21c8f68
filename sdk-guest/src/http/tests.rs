//! Requests as they leave, answers as they are read, and what becomes of failures.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::{Error, Response, Sent};
use crate::testing::{Call, FakeHttp};
use crate::{Request, http};

/// What a request looks like when it is sent.
fn sent(request: impl FnOnce() -> http::Request) -> Sent {
    let server = FakeHttp::new().json(200, json!(null));
    let formula = |_: Request<Value>| -> Result<crate::Response, crate::Error> {
        request().send()?;
        Ok(crate::Response::raw(1))
    };
    assert!(Call::new(json!({})).http(&server).run(formula).is_ok());
    server.requests().remove(0)
}

#[test]
fn each_function_has_its_method() {
    type Function = fn(String) -> http::Request;
    let table: [(Function, &str); 5] = [
        (http::get, "GET"),
        (http::post, "POST"),
        (http::put, "PUT"),
        (http::patch, "PATCH"),
        (http::delete, "DELETE"),
    ];
    for (function, method) in table {
        let sent = sent(|| function("https://a.example/x".to_owned()));
        assert_eq!((sent.method.as_str(), sent.url.as_str()), (method, "https://a.example/x"));
        assert_eq!((sent.body, sent.timeout_ms, sent.redirects), (None, None, 0));
        assert!(sent.headers.is_empty());
    }
    assert_eq!(sent(|| http::request("PURGE", "https://a.example/")).method, "PURGE");
}

#[test]
fn a_request_holds_what_was_set() {
    let sent = sent(|| {
        let request = http::post("https://a.example/").bearer("key").header("X-A", "1");
        request.header("x-a", "2").json(&json!({ "a": [1] })).timeout_ms(5).redirects(3)
    });
    assert_eq!(sent.header("AUTHORIZATION"), Some("Bearer key"));
    assert_eq!((sent.header("x-a"), sent.header("x-b")), (Some("1"), None));
    assert_eq!(sent.headers.len(), 4);
    assert_eq!((sent.timeout_ms, sent.redirects), (Some(5), 3));
    assert_eq!((sent.text(), sent.json()), (r#"{"a":[1]}"#.to_owned(), json!({ "a": [1] })));
}

#[test]
fn a_content_type_of_its_own_stays() {
    let type_of = |request: fn(http::Request) -> http::Request| {
        let sent = sent(|| request(http::post("https://a.example/")));
        let types: Vec<String> = sent
            .headers
            .iter()
            .filter(|(name, _)| name.eq_ignore_ascii_case("content-type"))
            .map(|(_, value)| value.clone())
            .collect();
        types.join(", ")
    };
    assert_eq!(type_of(|request| request.json(&1)), "application/json");
    assert_eq!(type_of(|request| request.form(&[("a", "b")])), "application/x-www-form-urlencoded");
    assert_eq!(type_of(|request| request.header("Content-Type", "text/x").json(&1)), "text/x");
    assert_eq!(type_of(|request| request.body("raw")), "");
}

#[test]
fn a_form_is_encoded() {
    let fields = [("a[b]", "1 2"), ("c", "&=")];
    assert_eq!(
        sent(|| http::post("https://a.example/").form(&fields)).text(),
        "a%5Bb%5D=1+2&c=%26%3D"
    );
}

#[test]
fn a_body_that_cannot_be_written_is_never_sent() {
    let server = FakeHttp::new().json(200, json!(null));
    let formula = |_: Request<Value>| -> Result<crate::Response, crate::Error> {
        let error = http::post("https://a.example/").json(&BTreeMap::from([([1], 2)])).send();
        assert!(matches!(error, Err(Error::Invalid(_))));
        Ok(crate::Response::raw(1))
    };
    assert!(Call::new(json!({})).http(&server).run(formula).is_ok());
    assert!(server.requests().is_empty());
}

#[test]
fn answers_are_read_without_showing_what_they_hold() {
    let answer = Response {
        status: 201,
        headers: vec![("X-Id".to_owned(), "7".to_owned()), ("x-id".to_owned(), "8".to_owned())],
        body: br#"{"number":"secret"}"#.to_vec(),
    };
    assert_eq!((answer.header("x-ID"), answer.header("id")), (Some("7"), None));
    assert_eq!(answer.json::<Value>().unwrap()["number"], "secret");
    assert_eq!(answer.text().unwrap(), r#"{"number":"secret"}"#);
    let error = answer.json::<BTreeMap<String, u8>>().unwrap_err();
    assert_eq!(error.status(), 500);
    assert!(!format!("{error:?}{answer:?}").contains("secret"));
    assert_eq!(Response::new(200, [0xff]).text().unwrap_err().status(), 500);
    for (status, success) in [(199, false), (200, true), (299, true), (300, false), (500, false)] {
        assert_eq!(Response::new(status, "").is_success(), success, "{status}");
    }
}

#[test]
fn a_mark_before_json_is_none_of_it() {
    let marked = |text: &str| Response::new(200, format!("\u{feff}{text}"));
    let answer = marked(r#"{"id": 12345678901234567890123, "n": 7}"#);
    let kept = answer.json::<Value>().unwrap();
    assert_eq!(kept["n"], 7);
    assert_eq!(answer.rounded_within("").as_deref(), Some("/id"));
    assert!(!answer.is_exact("", &kept) && answer.is_exact("/n", &kept));
    assert!(answer.exact_json::<Value>().is_err() && marked("[1]").exact_json::<Value>().is_ok());
    assert!(marked("\u{feff}[1]").json::<Value>().is_err());
}

#[test]
fn a_number_that_would_be_rounded_is_refused_when_it_is_to_be_exact() {
    let exact = Response::new(200, r#"{"a": [18446744073709551615, 0.1]}"#);
    assert_eq!(exact.exact_json::<Value>().unwrap(), exact.json::<Value>().unwrap());
    assert_eq!(exact.rounded_within(""), None);
    let long = Response::new(200, r#"{"secret": [1, 4242424242424242424242]}"#);
    let kept = long.json::<Value>().unwrap();
    assert_eq!(long.rounded_within("").as_deref(), Some("/secret/1"));
    assert_eq!(long.rounded_within("/secret/0"), None);
    assert!(!long.is_exact("/secret", &kept) && long.is_exact("/secret/0", &kept));
    assert!(long.is_exact("", &json!({ "secret": [1, null] })));
    // Names are the other server's, and what they hold nobody knows.
    let error = long.exact_json::<Value>().unwrap_err();
    assert_eq!(error.status(), 500);
    assert_eq!(error.detail(), "the answer has a number with more digits than are kept");
    for none in ["", "{", "<p>4242424242424242424242</p>", "1e400"] {
        let error = Response::new(200, none).exact_json::<Value>().unwrap_err();
        assert_eq!(error.detail(), "the answer is not the JSON that was expected", "{none}");
    }
}

#[test]
fn nothing_of_a_request_is_shown() {
    let request = http::post("https://a.example/secret").bearer("secret").json("secret");
    assert_eq!(format!("{request:?}"), r#"Request { method: "POST", .. }"#);
    let sent = sent(|| request);
    assert_eq!(format!("{sent:?}"), r#"Sent { method: "POST", .. }"#);
}

#[test]
fn failures_have_a_status_and_of_the_hosts_words_those_of_a_denial() {
    let words = || "secret.example".to_owned();
    let table = [
        (Error::Denied(words()), 500, true),
        (Error::Invalid(words()), 500, true),
        (Error::Unreachable(words()), 503, true),
        (Error::Timeout, 503, false),
        (Error::TooLarge, 500, false),
    ];
    for (error, status, worded) in table {
        // The log of the formula is where the words belong.
        assert_eq!(error.to_string().contains("secret"), worded, "{error}");
        let denied = matches!(error, Error::Denied(_));
        let told = crate::Error::from(error);
        assert_eq!(told.status(), status, "{told}");
        assert_eq!(format!("{told:?}").contains("secret"), denied, "{told:?}");
    }
    let cause = "one invocation may send 100 requests";
    let told = crate::Error::from(Error::Denied(cause.to_owned()));
    assert_eq!(told.detail(), format!("the formula's request is not allowed: {cause}"));
}

#[test]
fn what_is_nested_deeper_than_the_stack_takes_is_not_read() {
    let nested = |levels: usize| ["[".repeat(levels), "]".repeat(levels)].concat();
    let told = "the answer is nested in more levels than are read";
    for (text, expected) in [
        (nested(64), Ok(())),
        (nested(65), Err(told)),
        (nested(100_000), Err(told)),
        // It is none at all, and is not looked at any further.
        ("[".repeat(65), Err(told)),
        (format!("\u{feff}{}", nested(65)), Err(told)),
        // Brackets that are text.
        (format!(r#"{{"a\"[": "{}\\"}}"#, "[{".repeat(100)), Ok(())),
        (format!("[{}]", vec!["[]"; 1_000].join(",")), Ok(())),
    ] {
        let answer = Response::new(200, text.clone());
        let read = answer.json::<Value>().map(drop);
        assert_eq!(read.as_ref().map_err(crate::Error::detail).copied(), expected, "{text:.40}");
        assert_eq!(answer.exact_json::<Value>().is_ok(), read.is_ok());
        assert_eq!(answer.rounded_within(""), None);
    }
}

#[test]
fn why_there_is_no_answer_is_logged_in_the_hosts_words() {
    let formula = |_: Request<Value>| -> Result<crate::Response, crate::Error> {
        http::get("https://a.example/").send()?;
        Ok(crate::Response::raw(1))
    };
    let server = FakeHttp::new().fails(Error::Unreachable("its name is not known".to_owned()));
    let outcome = Call::new(json!({})).http(&server).run(formula);
    assert_eq!(outcome.error().detail(), "the other server cannot be reached");
    assert_eq!(outcome.lines(), ["the server cannot be reached: its name is not known"]);
}
