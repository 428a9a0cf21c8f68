//! What becomes of the endpoint's answer.

use super::{ErrorKind, FakeHttp, HttpError, Response, Value, answering, call, card, json};

#[test]
fn answers_are_mapped() {
    let body = json!({ "id": "c-1", "card": { "number": "4242", "brand": "visa" }, "list": [1, 2], "a/b": 3 });
    let all = json!({ "status": 200, "body": body });
    let table = [
        (json!({}), all.clone(), json!(null)),
        (json!({ "raw_path": "" }), body.clone(), json!(null)),
        (json!({ "raw_path": "/card/brand" }), json!("visa"), json!(null)),
        (json!({ "raw_path": "/gone" }), json!(null), json!(null)),
        (json!({ "tokenize_path": "/card/number" }), json!({ "status": 200 }), json!("4242")),
        (
            json!({ "tokenize_path": "/card", "tokenize_type": "card", "raw_path": "/id" }),
            json!("c-1"),
            json!({ "type": "card", "data": { "number": "4242", "brand": "visa" } }),
        ),
        (
            json!({ "redact": "[\"/card/number\", \"/list/0\", \"/gone/x\", \"/a~1b\"]", "raw_path": "" }),
            json!({ "id": "c-1", "card": { "brand": "visa" }, "list": [null, 2] }),
            json!(null),
        ),
        (
            json!({ "redact": "[\"/*/number\", \"/list/*\", \"/id/*\", \"/card/*/x\"]", "raw_path": "" }),
            json!({ "id": "c-1", "card": { "brand": "visa" }, "list": [null, null], "a/b": 3 }),
            json!(null),
        ),
        (json!({ "redact": "[\"/*\"]", "raw_path": "" }), json!({}), json!(null)),
        // What is tokenized may be what is left out of the rest.
        (
            json!({ "redact": "[\"/card\"]", "raw_path": "/card", "tokenize_path": "/card/number" }),
            json!(null),
            json!("4242"),
        ),
    ];
    for (configuration, raw, tokenize) in table {
        let outcome = call(&card(), configuration.clone(), &answering(body.clone()));
        assert_eq!((outcome.raw(), outcome.tokenize()), (raw, tokenize), "{configuration}");
        assert_eq!(outcome.lines(), ["the endpoint answered 200"]);
    }
}

#[test]
fn a_star_stands_for_every_item_and_member() {
    let body = json!({ "items": [
        { "id": 1, "cards": { "a": { "number": "1", "b": [2] }, "*": { "number": "3" } } }, 5, [{ "id": 4 }],
    ], "x/y": { "~": 6, "**": 7 } });
    let table = [
        (json!(["/items/*/id"]), "/items/0/id", "/items/2/0/id"),
        (json!(["/items/*/*/id"]), "/items/2/0/id", "/items/0/id"),
        (json!(["/items/0/cards/*/number"]), "/items/0/cards/a/number", "/items/0/cards/a/b/0"),
        (json!(["/items/0/cards/*/number"]), "/items/0/cards/*/number", "/items/1"),
        (json!(["/items/0/cards/a/b/*"]), "/items/0/cards/a/b/0", "/items/0/cards/a/number"),
        (json!(["/*/~0"]), "/x~1y/~0", "/x~1y/**"),
        (json!(["/x~1y/**"]), "/x~1y/**", "/x~1y/~0"),
    ];
    for (redact, gone, kept) in table {
        let configuration = json!({ "redact": redact.to_string(), "raw_path": "" });
        let raw = call(&card(), configuration, &answering(body.clone())).raw();
        assert!(raw.pointer(gone).is_none_or(Value::is_null), "{redact}: {raw}");
        assert_eq!(raw.pointer(kept), body.pointer(kept), "{redact}: {raw}");
    }
}

#[test]
fn numbers_that_came_out_rounded_are_refused() {
    let body = r#"{"a": {"n": 4242424242424242424242, "m": 1}, "l": [0.1, 0.12345678901234567890], "s": "4242424242424242424242"}"#;
    let answered = |body: &str, configuration: Value| {
        call(&card(), configuration, &FakeHttp::new().then(Ok(Response::new(200, body))))
    };
    let refused = [
        (json!({}), "returned", None),
        (json!({ "raw_path": "" }), "returned", Some("")),
        (json!({ "raw_path": "/a" }), "returned", Some("/a")),
        (json!({ "raw_path": "/l" }), "returned", Some("/l")),
        (json!({ "redact": "[\"/a/*\"]" }), "returned", None),
        (json!({ "tokenize_path": "/a/n" }), "tokenized", Some("/a/n")),
        (json!({ "tokenize_path": "/a/n", "tokenize_type": "token" }), "tokenized", Some("/a/n")),
        (json!({ "tokenize_path": "/a", "raw_path": "/s" }), "tokenized", Some("/a")),
        (json!({ "tokenize_path": "/s", "raw_path": "/a" }), "returned", Some("/a")),
    ];
    for (configuration, done, path) in refused {
        let outcome = answered(body, configuration.clone());
        let error = outcome.error();
        assert_eq!(error.kind(), Some(ErrorKind::Runtime), "{configuration}");
        // Names in the answer may be as secret as what they name.
        let place = path.map(|path| format!(", at {path:?}")).unwrap_or_default();
        let detail = format!(
            "what would be {done} of the endpoint's answer has a number with more digits than are kept{place}"
        );
        assert_eq!(error.detail(), detail, "{configuration}");
    }
    let taken = [
        (json!({ "raw_path": "/a/m" }), json!(1), json!(null)),
        (json!({ "raw_path": "/s" }), json!("4242424242424242424242"), json!(null)),
        (json!({ "raw_path": "/a", "redact": "[\"/a/n\"]" }), json!({ "m": 1 }), json!(null)),
        (json!({ "raw_path": "/l", "redact": "[\"/l/1\"]" }), json!([0.1, null]), json!(null)),
        (
            json!({ "tokenize_path": "/s" }),
            json!({ "status": 200 }),
            json!("4242424242424242424242"),
        ),
    ];
    for (configuration, raw, tokenize) in taken {
        let outcome = answered(body, configuration.clone());
        assert_eq!((outcome.raw(), outcome.tokenize()), (raw, tokenize), "{configuration}");
    }
    let whole = answered("18446744073709551616", json!({}));
    assert!(whole.error().detail().ends_with("are kept"), "{}", whole.error());
    // As for who reads it, the last of a name counts.
    let twice = answered(r#"{"n": 4242424242424242424242, "n": 1}"#, json!({ "raw_path": "/n" }));
    assert_eq!(twice.raw(), 1);
    let large = answered(r#"{"n": 1e400}"#, json!({ "raw_path": "/m" }));
    assert_eq!(large.error().detail(), "the endpoint's answer has a number that is too large");
    // A text is no number, whatever is in it.
    let text = "4242424242424242424242 cards";
    assert_eq!(answered(text, json!({})).raw()["body"], text);
}

#[test]
fn answers_that_are_not_json_are_text() {
    let raw = |body: &[u8]| {
        let network = FakeHttp::new().then(Ok(Response::new(200, body)));
        call(&card(), json!({}), &network).raw()["body"].clone()
    };
    assert_eq!(raw(b"<ok/>"), json!("<ok/>"));
    assert_eq!(raw(b""), json!(null));
    for body in [&b"\xff"[..], b"secret"] {
        let network = FakeHttp::new().then(Ok(Response::new(200, body)));
        let outcome = call(&card(), json!({ "tokenize_path": "/a" }), &network);
        assert_eq!(outcome.error().kind(), Some(ErrorKind::Runtime));
        assert!(!format!("{:?}", outcome.error()).contains("secret"));
    }
}

#[test]
fn a_lone_number_in_what_is_said_to_be_text_is_text() {
    let raw = |content_type: Option<&str>, body: &str| {
        let headers = content_type.map(|said| ("Content-Type".to_owned(), said.to_owned()));
        let headers = headers.into_iter().collect();
        let response = Response { status: 200, headers, body: body.into() };
        call(&card(), json!({ "raw_path": "" }), &FakeHttp::new().then(Ok(response))).raw()
    };
    for text in ["123e45", "100e2", "1.10", "12345678901234567890123", "1e999", "true", "null", "7"]
    {
        for said in ["text/plain", "TEXT/html; charset=utf-8"] {
            assert_eq!(raw(Some(said), text), *text, "{said}");
        }
    }
    for said in [None, Some("application/json"), Some("text/json"), Some("text"), Some("")] {
        assert_eq!(raw(said, "100e2"), 10_000.0, "{said:?}");
    }
    // Many say so of any JSON.
    assert_eq!(raw(Some("text/plain"), r#"{"a":[1]}"#), json!({ "a": [1] }));
    assert_eq!(raw(Some("text/plain"), r#""a""#), "a");
}

#[test]
fn nothing_is_left_of_a_lone_number_when_something_is_to_be_left_out() {
    for number in ["4242424242424242", "true", " 7 "] {
        let network = FakeHttp::new().then(Ok(Response::new(200, number)));
        let redact = json!({ "redact": json!(["/number"]).to_string() });
        let outcome = call(&card(), redact, &network);
        assert_eq!(outcome.raw(), json!({ "status": 200, "body": null }));
    }
}

#[test]
fn a_mark_before_json_is_none_of_it() {
    let marked = |text: &str| {
        FakeHttp::new().then(Ok(Response::new(200, format!("\u{feff}{text}").as_str())))
    };
    let redact = json!({ "redact": json!(["/card/number"]).to_string() });
    let outcome = call(&card(), redact, &marked(r#"{"card":{"number":"secret"},"id":7}"#));
    assert_eq!(outcome.raw(), json!({ "status": 200, "body": { "card": {}, "id": 7 } }));
    let long = call(&card(), json!({}), &marked(r#"{"id":12345678901234567890123}"#));
    assert_eq!(long.error().kind(), Some(ErrorKind::Runtime));
    let text = call(&card(), json!({}), &marked("<ok/>"));
    assert_eq!(text.raw()["body"], json!("<ok/>"));
}

#[test]
fn nothing_is_left_of_a_text_when_something_is_to_be_left_out() {
    let card = r#"{ "card": { "number": "secret" } }"#;
    let texts = [
        format!(")]}}',\n{card}"),
        format!("{card}\n{card}\n"),
        format!("{card},"),
        // JSON, but of one string, in which there may be JSON again.
        json!(card).to_string(),
    ];
    let redact = json!(["/card/number"]).to_string();
    let table = [
        (json!({ "redact": redact }), json!({ "status": 200, "body": null })),
        (json!({ "redact": redact, "raw_path": "" }), json!(null)),
        (json!({ "redact": redact, "raw_path": "/card" }), json!(null)),
    ];
    for text in &texts {
        let network = || FakeHttp::new().then(Ok(Response::new(200, text.as_str())));
        for (configuration, raw) in &table {
            let outcome = call(&self::card(), configuration.clone(), &network());
            assert_eq!(outcome.raw(), *raw, "{text} {configuration}");
        }
        let nothing = call(&self::card(), json!({ "redact": "[]" }), &network()).raw();
        assert!(nothing["body"].as_str().unwrap().contains("secret"), "{text}");
        // A token may hold what is left out of the rest.
        let kept = json!({ "redact": redact, "tokenize_path": "", "raw_path": "" });
        let outcome = call(&self::card(), kept, &network());
        assert_eq!(outcome.raw(), json!(null), "{text}");
        assert!(outcome.tokenize().as_str().unwrap().contains("secret"), "{text}");
    }
}

#[test]
fn unexpected_statuses_are_told_and_no_bodies() {
    let table = [
        (200, "201", ErrorKind::Runtime),
        (302, "200-299", ErrorKind::Runtime),
        (400, "200-299", ErrorKind::Runtime),
        (401, "200-299", ErrorKind::Runtime),
        (429, "200-299", ErrorKind::RateLimit),
        (500, "200-299", ErrorKind::Runtime),
        (502, "200-299", ErrorKind::ServiceUnavailable),
        (503, "200-299", ErrorKind::ServiceUnavailable),
        (504, "200-299", ErrorKind::ServiceUnavailable),
    ];
    for (status, expected, kind) in table {
        let network = FakeHttp::new().json(status, json!({ "echo": "4242424242424242" }));
        let outcome = call(&card(), json!({ "expected_status": expected }), &network);
        assert_eq!(outcome.error().kind(), Some(kind), "{status}");
        assert_eq!(outcome.error().detail(), format!("the endpoint answered {status}"));
        assert!(!format!("{:?}{:?}", outcome.error(), outcome.log()).contains("4242"));
    }
    let network = FakeHttp::new().json(404, json!("no"));
    let outcome = call(&card(), json!({ "expected_status": "200,404" }), &network);
    assert_eq!(outcome.raw(), json!({ "status": 404, "body": "no" }));
}

#[test]
fn what_gives_no_answer_is_told_with_the_hosts_words_in_the_log() {
    let words = || "no connection".to_owned();
    for (error, kind) in [
        (HttpError::Unreachable(words()), ErrorKind::ServiceUnavailable),
        (HttpError::Timeout, ErrorKind::ServiceUnavailable),
        (HttpError::Denied(words()), ErrorKind::Runtime),
        (HttpError::Invalid(words()), ErrorKind::Runtime),
        (HttpError::TooLarge, ErrorKind::Runtime),
    ] {
        let outcome = call(&card(), json!({}), &FakeHttp::new().fails(error.clone()));
        assert_eq!(outcome.error().kind(), Some(kind));
        assert_eq!(outcome.lines(), [error.to_string()]);
        assert!(!format!("{:?}{:?}", outcome.error(), outcome.log()).contains("4242"));
    }
}
