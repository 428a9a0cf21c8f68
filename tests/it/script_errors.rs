//! Scripts that fail: with which status, and what is told of it.

use serde_json::json;

use crate::support::TestServer;
use crate::support::scripts::{program, raw, react, reactor, run, run_within, told};
use crate::support::server::Setup;

#[tokio::test(flavor = "multi_thread")]
async fn errors_have_their_statuses() {
    let server = TestServer::start().await;
    let code = "const errors = require('tokamak');\nclass Declined extends InvalidPaymentMethodError {}\n\
        module.exports = async ({ args: { name, given, options } }) => {\n\
        if (name === 'Declined') throw new Declined(given);\n  throw new errors[name](given, options);\n};";
    let path = reactor(&server, code, json!({}), json!({})).await;
    for (name, status, title) in [
        ("AuthenticationError", 401, "Unauthorized"),
        ("AuthorizationError", 403, "Forbidden"),
        ("BadRequestError", 400, "Bad Request"),
        ("InvalidPaymentMethodError", 402, "Invalid Payment Method"),
        ("Declined", 402, "Invalid Payment Method"),
        ("RateLimitError", 429, "Too Many Requests"),
        ("ReactorRuntimeError", 500, "Reactor Runtime Error"),
        ("ServiceUnavailableError", 503, "Service Unavailable"),
    ] {
        let problem =
            react(&server, &path, json!({"name": name, "given": "in words"})).await.expect(status);
        assert_eq!(
            (&problem["title"], &problem["detail"]),
            (&json!(title), &json!("in words")),
            "{name}"
        );
        let silent = react(&server, &path, json!({"name": name})).await.expect(status);
        assert!(silent["detail"].as_str().unwrap().len() > 10, "{name}: {silent}");
    }
    let errors = json!({"a.b": "one", "c": ["two", 3]});
    let expected = json!({"a.b": ["one"], "c": ["two", "3"]});
    for args in [
        json!({"name": "BadRequestError", "given": "no", "options": {"errors": errors}}),
        json!({"name": "BadRequestError", "given": {"detail": "no", "errors": errors}}),
    ] {
        let problem = react(&server, &path, args).await.expect(400);
        assert_eq!((&problem["detail"], &problem["errors"]), (&json!("no"), &expected));
    }
    let given = json!({"status": 418, "headers": {"X-Pot": "tea"}, "body": {"short": true}});
    let answer =
        react(&server, &path, json!({"name": "CustomHttpResponseError", "given": given})).await;
    assert_eq!(answer.expect(418), json!({"short": true}));
    assert_eq!(answer.headers["x-pot"], "tea");
    for given in [
        json!({"status": 200}),
        json!({}),
        json!({"status": 70_000}),
        json!({"status": 400, "headers": {"set-cookie": "a"}}),
    ] {
        let problem =
            react(&server, &path, json!({"name": "CustomHttpResponseError", "given": given})).await;
        assert_eq!(problem.expect(500)["title"], "Reactor Runtime Error");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_caught_says_where_but_not_what() {
    let secret = "4242424242424242";
    for (body, place, logged) in [
        (
            "async ({ args }) => {\n  throw new Error(args.number);\n}",
            "uncaught Error at line 2, column",
            "Error: 4242424242424242\n",
        ),
        (
            "({ args }) => {\n\n  return args.number.nothing.there;\n}",
            "uncaught TypeError at line 3, column",
            "TypeError: ",
        ),
        (
            "async ({ args }) => {\n  await null;\n  return inner(args);\n};\nfunction inner(args) {\n  args[args.number]();\n}",
            "uncaught TypeError at line 6, column",
            "inner (formula.js:6:",
        ),
        (
            "async ({ args }) => {\n  JSON.parse(args.number + 'x');\n}",
            "uncaught SyntaxError at line 2, column",
            "SyntaxError: ",
        ),
        (
            "async ({ args }) => { throw args.number; }",
            "an uncaught value;",
            "Uncaught '4242424242424242'",
        ),
        (
            "async ({ args }) => { const e = new Error('x'); e.name = args.number; throw e; }",
            "uncaught Error at line 1",
            "4242424242424242: x",
        ),
        ("async () => { throw undefined; }", "an uncaught value;", "Uncaught undefined"),
        ("async () => missing", "uncaught ReferenceError at line 1", "missing"),
        (
            "async () => { throw { get name() { throw 1; }, get constructor() { throw 2; } }; }",
            "cannot be read",
            "",
        ),
    ] {
        let program = program(&format!("module.exports = {body}")).await;
        let outcome = run(&program, json!({"number": secret})).await;
        let failure = told(&outcome.result.unwrap_err());
        assert!(failure.contains(place) && failure.contains("Runtime"), "{body}: {failure}");
        assert!(!failure.contains(secret), "{failure}");
        let log = outcome.log.iter().map(|line| line.message.as_str()).collect::<String>();
        assert!(log.contains(logged), "{body}: {log}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_formula_says_so() {
    for (code, part) in [
        ("", "must assign a function to module.exports"),
        ("exports.handler = () => 1", "must assign a function to module.exports"),
        ("module.exports = 5", "must assign a function to module.exports"),
        ("module.exports = () => 5", "must return an object with raw, tokenize or both"),
        ("module.exports = () => [1]", "must return an object with raw, tokenize or both"),
        ("module.exports = () => ({ raw: () => 1 })", "raw must be a value that JSON has"),
        ("module.exports = () => ({ raw: 1n })", "uncaught TypeError"),
        (
            "module.exports = () => { const a = {}; a.a = a; return { raw: a }; }",
            "uncaught TypeError",
        ),
        ("module.exports = () => new Promise(() => {})", "promise is never settled"),
        ("throw new BadRequestError('at once')", "at once"),
        ("const a = 1;\nnull.x;", "uncaught TypeError at line 2"),
    ] {
        let outcome = run(&program(code).await, json!({})).await;
        let failure = told(&outcome.result.unwrap_err());
        assert!(failure.contains(part), "{code}: {failure}");
    }
    // These are formulas, if unusual ones.
    for (code, expected) in [
        ("module.exports = () => {}", json!(null)),
        ("module.exports = () => null", json!(null)),
        ("exports.default = async () => ({ raw: 1 })", json!(1)),
        ("module.exports = class { static raw() {} }.raw.bind(null)", json!(null)),
        (
            "'use strict'; var module; module.exports = function () { return { raw: this === undefined }; }",
            json!(true),
        ),
        ("module.exports = async () => ({ raw: new Date(0) })", json!("1970-01-01T00:00:00.000Z")),
    ] {
        assert_eq!(raw(code, json!({})).await, expected, "{code}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hostile_scripts_end_in_their_problems() {
    let table = [
        ("for (;;) {}", "OutOfFuel"),
        ("module.exports = async () => { for (;;) await null; }", "OutOfFuel"),
        (
            "module.exports = () => new Promise((r) => { const again = () => Promise.resolve().then(again); again(); })",
            "OutOfFuel",
        ),
        ("module.exports = () => { const f = () => f() + 1; return f(); }", "too deeply"),
        ("module.exports = () => { const f = () => [1].map(f); return f(); }", "too deeply"),
        (
            "module.exports = () => { const f = () => JSON.stringify({ get a() { return f(); } }); return f(); }",
            "too deeply",
        ),
        (
            "module.exports = () => { let a = []; for (let i = 0; i < 1e5; i += 1) a = [a]; return { raw: a }; }",
            "",
        ),
        (
            "module.exports = () => { const all = []; for (;;) all.push(new Uint8Array(1 << 20)); }",
            "RangeError",
        ),
        ("module.exports = () => { let s = 'x'; for (;;) s += s; }", ""),
        ("module.exports = () => /(a+)+$/.test('a'.repeat(40) + 'b')", "OutOfFuel"),
        ("module.exports = () => 'x'.repeat(2 ** 29)", ""),
        ("module.exports = () => new Array(2 ** 32 - 1).fill(0)", ""),
        ("module.exports = () => 10n ** 10n ** 8n", ""),
        ("for (;;) console.log('x'.repeat(1000));", "OutOfFuel"),
        ("module.exports = () => ({ raw: 'x'.repeat(5 << 20) })", ""),
        ("module.exports = () => eval('('.repeat(1e5))", ""),
    ];
    for (code, part) in table {
        let outcome = run_within(&program(code).await, json!({}), 3_000_000_000).await;
        let failure = told(&outcome.result.unwrap_err());
        assert!(failure.contains(part), "{code}: {failure}");
        assert!(!failure.contains("HostFault"), "{code}: {failure}");
    }
    assert_eq!(
        raw("module.exports = async (req) => ({ raw: req.args });", json!([1])).await,
        json!([1])
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_has_the_limits_of_any_formula() {
    let setup = Setup { fuel_per_ms: 500_000, react_timeout_ms: 2_000, ..Setup::default() };
    let server = TestServer::start_with(setup).await;
    let code = "module.exports = async ({ args }) => {\n  if (args.what === 'loop') for (;;) {}\n\
        if (args.what === 'wait') await new Promise((r) => setTimeout(r, 1e9));\n  if (args.what === 'memory') for (const all = []; ; ) all.push(new Uint8Array(1 << 20));\n};";
    let path = reactor(&server, code, json!({"limits": {"memory_mb": 16}}), json!({})).await;
    for (what, status, title) in [
        ("loop", 504, "Reactor Timeout"),
        ("wait", 504, "Reactor Timeout"),
        ("memory", 500, "Reactor Runtime Error"),
    ] {
        let problem = react(&server, &path, json!({"what": what})).await.expect(status);
        assert_eq!(problem["title"], title, "{what}: {problem}");
    }
}
