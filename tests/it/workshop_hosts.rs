//! `tokamak formula test`: what a case says of other hosts, of log lines and of long runs.

use std::fs;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::guests;
use crate::support::workshop::{BUILT, expect, project_of, run, told};

const CHARGES: &str = "https://api.processor.example/charges";

/// A project of the formula that sends what its arguments say, to one host.
fn sender(cases: &[(&str, Value)]) -> TempDir {
    let project = project_of(guests::component("fetch"), cases);
    let manifest = json!({ "name": "tried", "language": "rust",
        "allowed_hosts": ["api.processor.example"] });
    fs::write(project.path().join("formula.json"), manifest.to_string()).unwrap();
    project
}

fn charge(amount: u64) -> Value {
    json!({ "method": "POST", "url": CHARGES, "body": json!({ "amount": amount }).to_string(),
        "headers": [["content-type", "application/json"], ["Idempotency-Key", "k-1"]] })
}

fn differences(project: &TempDir, code: i32) -> Vec<Value> {
    let tested = told(project.path(), code, &[&["test"], &BUILT[..]].concat());
    let cases = tested["cases"].as_array().unwrap();
    cases.iter().map(|case| case["differences"].clone()).collect()
}

#[test]
fn a_case_answers_in_place_of_other_hosts() {
    let answers = |response: Value| {
        json!([{
            "request": { "method": "POST", "url": CHARGES, "body": { "amount": 100 },
                "headers": { "idempotency-key": "*", "Content-Type": "application/json" } },
            "response": response,
        }])
    };
    let answered = |http: Value, raw: Value| json!({ "request": { "args": charge(100) }, "http": http, "expected": { "raw": raw } });
    let json_type = json!([["content-type", "application/json"]]);
    let project = sender(&[
        (
            "a-json",
            answered(
                answers(json!({ "status": 201, "body": { "id": "ch_1" } })),
                json!({ "status": 201, "headers": json_type, "body": "{\"id\":\"ch_1\"}",
                    "body_bytes": 13, "made": 1 }),
            ),
        ),
        (
            "b-text",
            answered(
                answers(json!({ "headers": { "X-Count": "1" }, "body": "done" })),
                json!({ "status": 200, "headers": [["x-count", "1"]], "body": "done",
                    "body_bytes": 4, "made": 1 }),
            ),
        ),
        (
            "c-timeout",
            answered(
                json!([{ "error": "timeout" }]),
                json!({ "error": "timeout", "reason": "", "made": 1 }),
            ),
        ),
        (
            "d-too-large",
            answered(
                json!([{ "error": "too-large" }]),
                json!({ "error": "too-large", "reason": "", "made": 1 }),
            ),
        ),
        (
            "e-unreachable",
            answered(
                json!([{ "error": "unreachable" }]),
                json!({ "error": "unreachable", "reason": "*", "made": 1 }),
            ),
        ),
    ]);
    assert_eq!(differences(&project, 0), vec![json!([]); 5]);
}

#[test]
fn what_a_formula_sends_otherwise_is_a_difference() {
    let ok = json!({ "status": 200 });
    let exchange = |request: Value| json!({ "request": request, "response": ok });
    let sends = |args: Value, http: Value| json!({ "request": { "args": args }, "http": http, "expected": { "raw": "*" } });
    let twice = |mut args: Value| {
        args["times"] = 2.into();
        args
    };
    let any = json!({ "response": ok });
    let other = json!({ "url": "https://api.processor.example/refunds", "response": ok });
    let other_host = json!({ "url": "https://elsewhere.example/" });
    let project = sender(&[
        ("a-body", sends(charge(7), json!([exchange(json!({ "body": { "amount": 8 } }))]))),
        ("b-header", sends(charge(7), json!([exchange(json!({ "headers": { "x-a": "*" } }))]))),
        ("c-elsewhere", sends(charge(7), json!([exchange(json!({ "url": other["url"] }))]))),
        ("d-none", sends(charge(7), json!([]))),
        ("e-twice", sends(twice(charge(7)), json!([any]))),
        ("f-once", sends(charge(7), json!([any, any]))),
        // The formula's own hosts hold.
        ("g-host", sends(other_host, json!([]))),
        ("h-twice", sends(twice(charge(7)), json!([any, any]))),
    ]);
    let sent = format!("POST \"{CHARGES}\"");
    assert_eq!(
        differences(&project, 1),
        [
            json!([
                format!("http[0].request.body.amount: expected 8, got 7 ({sent})"),
                "http[0]: * * was not sent",
            ]),
            json!([
                format!("http[0].request.headers.x-a: expected \"*\", is absent ({sent})"),
                "http[0]: * * was not sent",
            ]),
            json!([
                format!("http: {sent} is not expected"),
                "http[0]: * https://api.processor.example/refunds was not sent",
            ]),
            json!([format!("http: {sent} is not expected")]),
            json!([format!("http: {sent} is not expected")]),
            json!(["http[1]: * * was not sent"]),
            json!([
                "http: GET \"https://elsewhere.example/\" is not sent: denied: the host is not an allowed one"
            ]),
            json!([]),
        ]
    );
    // The formula is told why, and what it says of that is shown.
    let tested = told(project.path(), 1, &[&["test", "d-none"], &BUILT[..]].concat());
    let raw = &tested["cases"][0]["response"]["raw"];
    assert_eq!(raw["reason"], "the case has no answer to this request", "{tested}");
    let tested = told(project.path(), 1, &[&["test", "g-host"], &BUILT[..]].concat());
    let raw = &tested["cases"][0]["response"]["raw"];
    assert_eq!(raw["error"], "denied", "{tested}");
    let shown = expect(project.path(), 1, &[&["test", "e-twice"], &BUILT[..]].concat());
    assert!(shown.contains(&format!("    http: {sent} is not expected")), "{shown}");
}

#[test]
fn requests_beside_each_other_are_answered_in_their_order() {
    let get = json!({ "url": CHARGES });
    let answers: Vec<Value> = (0..12).map(|n| json!({ "response": { "body": [n] } })).collect();
    let order: Vec<usize> = (0..12).collect();
    let bodies: Vec<Value> = (0..12)
        .map(|n| json!({ "status": 200, "headers": "*", "body": format!("[{n}]"), "body_bytes": "*" }))
        .collect();
    let all = json!({ "request": { "args": { "all": vec![get.clone(); 12], "order": order } },
        "http": answers, "expected": { "raw": bodies } });
    // Those that are given up were sent, too.
    let given_up = json!({ "request": { "args": { "all": vec![get; 3], "order": [] } },
        "http": answers[..3], "expected": { "raw": [] } });
    let cases: Vec<(String, Value)> = (0..10)
        .flat_map(|n| [(format!("all-{n}"), all.clone()), (format!("none-{n}"), given_up.clone())])
        .collect();
    let cases: Vec<(&str, Value)> = cases.iter().map(|(n, case)| (&**n, case.clone())).collect();
    assert_eq!(differences(&sender(&cases), 0), vec![json!([]); 20]);
}

#[test]
fn a_redirect_is_followed_if_the_formula_asks_for_that() {
    let case = |redirects: u8, http: Value, raw: Value| {
        let args = json!({ "url": CHARGES, "redirects": redirects });
        json!({ "request": { "args": args }, "http": http, "expected": { "raw": raw } })
    };
    let to =
        |place: &str| json!({ "response": { "status": 302, "headers": { "location": place } } });
    let there = json!({ "request": { "url": "https://api.processor.example/there" },
        "response": { "body": "there" } });
    let elsewhere = "https://elsewhere.example/";
    let status = |status: u16| json!({ "status": status, "headers": "*", "body": "*", "body_bytes": "*", "made": 1 });
    let project = sender(&[
        ("a-follows", case(1, json!([to("/there"), there]), status(200))),
        ("b-does-not", case(0, json!([to("/there")]), status(302))),
        (
            "c-elsewhere",
            case(1, json!([to(elsewhere)]), json!({ "error": "denied", "reason": "*", "made": 1 })),
        ),
        ("d-once", case(1, json!([to("/there"), to("/there")]), status(302))),
    ]);
    assert_eq!(differences(&project, 0), vec![json!([]); 4]);
}

#[test]
fn an_answer_is_as_one_of_a_host_may_be() {
    let case = |args: Value, response: Value, raw: Value| {
        json!({ "request": { "args": args }, "http": [{ "response": response }],
            "expected": { "raw": raw } })
    };
    let get = |method: &str| json!({ "url": CHARGES, "method": method });
    let empty = |status: u16| json!({ "status": status, "headers": "*", "body": "", "body_bytes": 0, "made": 1 });
    let error = |error: &str| json!({ "error": error, "reason": "*", "made": 1 });
    let project = sender(&[
        ("a-head", case(get("HEAD"), json!({ "body": "text" }), empty(200))),
        ("b-none", case(get("DELETE"), json!({ "status": 204, "body": "text" }), empty(204))),
        (
            "c-large",
            case(get("GET"), json!({ "body": "x".repeat((4 << 20) + 1) }), error("too-large")),
        ),
        ("d-header", case(get("GET"), json!({ "headers": { "a b": "c" } }), error("invalid"))),
    ]);
    assert_eq!(differences(&project, 0), vec![json!([]); 4]);
}

#[test]
fn a_case_says_what_is_logged() {
    let lines = json!([["info", "charging 100"], ["warn", "took 3 s"]]);
    let case = |log: Value| {
        json!({ "request": { "args": { "behaviour": "log", "lines": lines } }, "log": log,
            "expected": "*" })
    };
    let project = project_of(
        guests::component("probe"),
        &[
            ("a-right", case(json!(["charging 100", "*"]))),
            ("b-levels", case(json!([{ "level": "info" }, { "level": "warn", "message": "*" }]))),
            ("c-other", case(json!(["charging 1", { "level": "error" }]))),
            ("d-fewer", case(json!([]))),
            ("e-more", case(json!(["charging 100", "*", "*"]))),
            // What the server says of a run is none of the formula's lines.
            (
                "f-server",
                json!({ "request": { "args": { "behaviour": "abort" } }, "log": [],
                    "error": { "status": 500 } }),
            ),
        ],
    );
    assert_eq!(
        differences(&project, 1),
        [
            json!([]),
            json!([]),
            json!([
                "log[0]: expected \"charging 1\", got \"charging 100\"",
                "log[1].level: expected \"error\", got \"warn\"",
            ]),
            json!(["log: expected 0 lines, got 2"]),
            json!(["log: expected 3 lines, got 2"]),
            json!([]),
        ]
    );
}

#[test]
fn a_long_run_has_its_time_and_is_waited_for() {
    let project = project_of(
        guests::component("probe"),
        &[
            ("a-usual", json!({ "expected": { "raw": "*" } })),
            ("b-long", json!({ "request": { "timeout_ms": 120_000 }, "expected": { "raw": "*" } })),
        ],
    );
    let left = |ran: &Value| {
        let ends = ran["response"]["raw"]["invocation"]["deadline_ms"].as_i64().unwrap();
        ends - chrono::Utc::now().timestamp_millis()
    };
    let tested = told(project.path(), 0, &[&["test"], &BUILT[..]].concat());
    assert!(left(&tested["cases"][0]) <= 10_000, "{tested}");
    assert!((60_000..=120_000).contains(&left(&tested["cases"][1])), "{tested}");
    let given = [&["run", "--timeout-ms", "120000"], &BUILT[..]].concat();
    let ran = told(project.path(), 0, &given);
    assert!((60_000..=120_000).contains(&left(&ran)), "{ran}");
    let given = [&["run", "--timeout-ms", "1"], &BUILT[..]].concat();
    let (code, _, stderr) = run(crate::support::workshop::formula(project.path(), &given));
    assert!(code == 2 && stderr.contains("10000"), "{stderr}");
}
