//! `tokamak formula`: what it is given reaches the formula as it is, and what the formula answers is shown whole.

use std::fs;

use serde_json::{Value, json};

use crate::support::guests;
use crate::support::workshop::{BUILT, expect, formula, project_of, run, told};

#[test]
fn a_value_of_the_configuration_is_what_the_formula_declares() {
    let project = project_of(guests::component("probe"), &[]);
    let entry = |name: &str, kind: &str| json!({ "name": name, "type": kind, "optional": true });
    let manifest = json!({ "name": "tried", "language": "rust", "configuration": [
        entry("text", "string"), entry("number", "number"), entry("flag", "boolean"),
    ] });
    fs::write(project.path().join("formula.json"), manifest.to_string()).unwrap();
    let run = |code: i32, given: &str| {
        told(project.path(), code, &[&["run", "--config", given], &BUILT[..]].concat())
    };
    for (given, expected) in [
        ("text=1234567890123456789012", json!({ "text": "1234567890123456789012" })),
        ("text=1.10", json!({ "text": "1.10" })),
        ("text=1e5", json!({ "text": "1e5" })),
        ("text=null", json!({ "text": "null" })),
        ("text=true", json!({ "text": "true" })),
        ("number=5", json!({ "number": 5 })),
        ("flag=true", json!({ "flag": true })),
    ] {
        let ran = run(0, given);
        assert_eq!(ran["response"]["raw"]["configuration"], expected, "{given}: {ran}");
    }
    let refused = run(1, "number=five");
    assert!(refused["error"]["errors"].get("configuration.number").is_some(), "{refused}");
}

#[test]
fn numbers_that_a_server_refuses_are_refused() {
    let long = "12345678901234567890123";
    let case = format!(r#"{{"request": {{"args": {{"n": {long}}}}}, "error": {{"status": 400}}}}"#);
    let project = project_of(guests::component("probe"), &[]);
    fs::create_dir_all(project.path().join("cases")).unwrap();
    fs::write(project.path().join("cases/long.json"), case).unwrap();
    fs::write(project.path().join("args.json"), format!(r#"{{"n": [{long}]}}"#)).unwrap();
    let args = format!(r#"{{"n": {long}}}"#);
    let token = format!("id={args}");
    for (arguments, place) in [
        (["run", "--args", &args], "--args: n: has more digits"),
        (["run", "--args", "args.json"], "--args args.json: n[0]: has more digits"),
        (["run", "--token", &token], "--token id: n: has more digits"),
        (["test", "--component", "built.wasm"], "long.json: request.args.n: has more digits"),
    ] {
        let built = if arguments[0] == "run" { &BUILT[..] } else { &[] };
        let (code, _, stderr) = run(formula(project.path(), &[&arguments[..], built].concat()));
        assert!(code == 2 && stderr.contains(place), "{arguments:?}: {stderr}");
    }
}

#[test]
fn a_component_that_is_there_needs_no_language() {
    let project = project_of(guests::component("bare"), &[]);
    for manifest in [json!({ "name": "comp", "language": "wasm" }), json!({ "name": "comp" })] {
        fs::write(project.path().join("formula.json"), manifest.to_string()).unwrap();
        for command in ["build", "check"] {
            let said = told(project.path(), 0, &[&[command], &BUILT[..]].concat());
            assert_eq!(said["language"], "wasm", "{said}");
        }
        // Without it, what is missing is told and what is there.
        let (code, _, stderr) = run(formula(project.path(), &["check"]));
        let said = manifest["language"].as_str().unwrap_or("language is missing");
        assert!(code == 2 && stderr.contains(said) && stderr.contains("--component"), "{stderr}");
    }
    fs::write(project.path().join("formula.json"), r#"{ "language": "cobol" }"#).unwrap();
    let (code, _, stderr) = run(formula(project.path(), &[&["check"], &BUILT[..]].concat()));
    assert!(code == 2 && stderr.contains("\"cobol\" is not known"), "{stderr}");
}

#[test]
fn an_answer_of_the_formulas_own_is_shown_and_compared_with_its_headers() {
    let args = json!({ "behaviour": "custom", "status": 409, "body": { "a": 1 },
        "headers": [["X-Order", "17"], ["retry-after", "3"]] });
    let case = |headers: Value| {
        let error = json!({ "status": 409, "headers": headers, "body": { "a": 1 } });
        json!({ "request": { "args": args }, "error": error })
    };
    let project = project_of(
        guests::component("probe"),
        &[
            ("a-right", case(json!({ "x-order": "17" }))),
            ("b-wrong", case(json!({ "x-order": "18" }))),
            ("c-absent", case(json!({ "x-other": "*" }))),
        ],
    );
    let given = args.to_string();
    let options = [&["run", "--args", &given], &BUILT[..]].concat();
    let ran = told(project.path(), 1, &options);
    let headers = json!({ "x-order": "17", "retry-after": "3" });
    assert_eq!((&ran["error"]["headers"], &ran["error"]["body"]), (&headers, &json!({ "a": 1 })));
    let shown = expect(project.path(), 1, &options);
    assert!(shown.contains("\nretry-after: 3\nx-order: 17\n"), "{shown}");

    let tested = told(project.path(), 1, &[&["test"], &BUILT[..]].concat());
    let differences: Vec<&Value> =
        tested["cases"].as_array().unwrap().iter().map(|case| &case["differences"]).collect();
    let expected = [
        json!([]),
        json!(["error.headers.x-order: expected \"18\", got \"17\""]),
        json!(["error.headers.x-other: expected \"*\", is absent"]),
    ];
    assert_eq!(differences, expected.iter().collect::<Vec<_>>(), "{tested}");
}

#[test]
fn arguments_that_would_be_dropped_are_named() {
    let written = r#"{"request_parameters":[],"undeclared":["payload","order.way"]}"#;
    let written = written.replace('"', "\\\"");
    let text = format!(r#"(component (core module (@custom "tokamak:parameters" "{written}")))"#);
    let project = project_of(&wat::parse_str(text).unwrap(), &[]);
    let build = [&["build"], &BUILT[..]].concat();
    let manifest = |undeclared: &str| {
        let manifest =
            json!({ "name": "a", "language": "rust", "undeclared_arguments": undeclared });
        fs::write(project.path().join("formula.json"), manifest.to_string()).unwrap();
    };
    manifest("drop");
    assert_eq!(told(project.path(), 0, &build)["dropped"], json!(["payload", "order.way"]));
    let shown = expect(project.path(), 0, &build);
    assert!(shown.contains("caution payload never reaches the formula"), "{shown}");
    manifest("forward");
    assert_eq!(told(project.path(), 0, &build)["dropped"], json!([]));
    assert!(!expect(project.path(), 0, &build).contains("caution"));
}

#[test]
fn a_case_says_what_may_be_done_behind_svc() {
    let reads = |operation: &str, input: Value| json!({ "behaviour": "svc", "operation": operation, "input": input, "catch": true });
    let args = reads("detokenize", json!({ "a": "<< note-1 >>" }));
    let rule = json!({ "priority": 1, "container": "/", "transform": "reveal",
        "permissions": ["token:read"] });
    let tokens =
        json!({ "note-1": { "type": "token", "data": "secret", "containers": ["/general/"] } });
    let case = |svc: Value| json!({ "tokens": tokens, "svc": svc, "request": { "args": args }, "expected": { "raw": "*" } });
    let project = project_of(
        guests::component("probe"),
        &[
            ("a-whole", case(json!(true))),
            ("b-reveals", case(json!({ "rules": [rule] }))),
            ("c-wrong", case(json!({ "rules": [{ "priority": 0 }] }))),
        ],
    );
    let tested = told(project.path(), 1, &[&["test"], &BUILT[..]].concat());
    let raw = |index: usize| tested["cases"][index]["response"]["raw"].to_string();
    assert!(raw(0).contains("403") && !raw(0).contains("secret"), "{tested}");
    assert!(raw(1).contains("secret"), "{tested}");
    let errors = tested["cases"][2]["error"]["errors"].as_object().unwrap();
    assert!(errors.contains_key("svc.rules[0].priority"), "{tested}");

    // The same for one run, from a file or on the command line.
    let (given, svc) = (args.to_string(), json!({ "rules": [rule] }).to_string());
    fs::write(project.path().join("svc.json"), &svc).unwrap();
    for svc in ["svc.json", &svc] {
        let run = ["run", "--args", &given, "--token", "note-1=\"secret\"", "--svc", svc];
        let ran = told(project.path(), 0, &[&run[..], &BUILT[..]].concat());
        assert!(ran["response"]["raw"].to_string().contains("secret"), "{ran}");
    }
    let both = [&["run", "--no-svc", "--svc", "svc.json"], &BUILT[..]].concat();
    assert_eq!(run(formula(project.path(), &both)).0, 2);
    fs::write(project.path().join("cases/d-none.json"), r#"{ "svc": 7, "expected": {} }"#).unwrap();
    let (code, _, stderr) = run(formula(project.path(), &[&["test"], &BUILT[..]].concat()));
    assert!(code == 2 && stderr.contains("`svc` must be true, false, or an object"), "{stderr}");
}

#[test]
fn an_error_that_is_expected_is_the_formulas_own() {
    let refused = json!({ "status": 400 });
    let args = json!({ "behaviour": "fail", "kind": "bad_request", "detail": "no", "errors": [] });
    let request = json!({ "args": args });
    let case = |member: &str, value: Value| {
        let mut case = json!({ "request": request, "error": refused });
        case[member] = value;
        case
    };
    let project = project_of(
        guests::component("probe"),
        &[
            ("a-request", json!({ "request": { "args": 7 }, "error": refused })),
            ("b-tokens", case("tokens", json!({ "card": { "type": "card", "data": {} } }))),
            ("c-svc", case("svc", json!({ "permissions": ["bogus"] }))),
            ("d-configuration", case("configuration", json!({ "undeclared": 5 }))),
            ("e-own", json!({ "request": request, "error": refused })),
        ],
    );
    let manifest = json!({ "name": "tried", "language": "rust",
        "configuration": [{ "name": "limit", "type": "number", "optional": true }] });
    fs::write(project.path().join("formula.json"), manifest.to_string()).unwrap();
    let tested = told(project.path(), 1, &[&["test"], &BUILT[..]].concat());
    assert_eq!((&tested["passed"], &tested["failed"]), (&json!(2), &json!(3)), "{tested}");
    for (index, part) in [(1, "tokens"), (2, "svc"), (3, "configuration")] {
        let told = tested["cases"][index]["differences"].to_string();
        assert!(told.contains("the formula was not asked") && told.contains(part), "{told}");
    }
}
