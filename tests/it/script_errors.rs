//! Scripts that fail: with which status, and what is told of it.

use serde_json::{Value, json};

use crate::support::TestServer;
use crate::support::scripts::{program, raw, react, reactor, run, told};
use crate::support::server::Setup;
use crate::support::upstream::Upstream;
use crate::support::workshop;

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
        let answer = react(&server, &path, json!({"name": name, "given": "in words"})).await;
        // The caller's own key was right.
        assert!(!answer.headers.contains_key("www-authenticate"), "{name}");
        let problem = answer.expect(status);
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

/// Bodies of formulas that end with an error, what the caller is told of each, and what is kept in the log.
const UNCAUGHT: [(&str, &str, &str); 13] = [
    (
        "async ({ args }) => {\n  throw new Error(args.number);\n}",
        "uncaught Error at line 2, column",
        "Uncaught Error\n    at formula.js:2:",
    ),
    (
        "({ args }) => {\n\n  return args.number.nothing.there;\n}",
        "uncaught TypeError at line 3, column",
        "Uncaught TypeError\n    at formula.js:3:",
    ),
    (
        "async ({ args }) => {\n  await null;\n  return inner(args);\n};\nfunction inner(args) {\n  args[args.number]();\n}",
        "uncaught TypeError at line 6, column",
        "Uncaught TypeError\n    at formula.js:6:7\n    at formula.js:3:",
    ),
    (
        "async ({ args }) => {\n  JSON.parse(args.number + 'x');\n}",
        "uncaught SyntaxError at line 2, column",
        "Uncaught SyntaxError\n    at formula.js:2:",
    ),
    ("async ({ args }) => { throw args.number; }", "an uncaught value;", "Uncaught value"),
    (
        "async ({ args }) => { const e = new Error('x'); e.name = args.number; throw e; }",
        "uncaught Error at line 1",
        "Uncaught Error\n    at formula.js:1:",
    ),
    (
        "async ({ args }) => {\n  throw new RangeError('x', { cause: new Error(args.number) }); }",
        "uncaught RangeError at line 2",
        "\n  cause: Error\n    at formula.js:2:",
    ),
    (
        "async ({ args }) => {\n  throw new Error(`\n(formula.js:${args.number}:1)`); }",
        "uncaught Error at line 2, column",
        "Uncaught Error\n    at formula.js:2:",
    ),
    (
        "async ({ args }) => {\n  ({ [args.number]() { throw new Error('x'); } })[args.number](); }",
        "uncaught Error at line 2, column",
        "Uncaught Error\n    at formula.js:2:",
    ),
    // Of an error of the script's own, where it was made and not where its class is.
    (
        "async ({ args }) => {\n  class Mine extends Error {}\n  class Other extends Mine { constructor(m) { super(m); } }\n\
         throw new Other(args.number); }",
        "uncaught Error at line 4, column",
        "Uncaught Error\n    at formula.js:4:",
    ),
    (
        "async ({ args }) => {\n  await Promise.any([\n  Promise.reject(new RangeError(args.number))]); }",
        "an uncaught AggregateError",
        "\n  error: RangeError\n    at formula.js:3:",
    ),
    ("async () => { throw undefined; }", "an uncaught value;", "Uncaught value"),
    (
        "async () => { throw { get name() { throw 1; }, get constructor() { throw 2; } }; }",
        "an uncaught value;",
        "Uncaught value",
    ),
];

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_caught_says_where_but_not_what() {
    let secret = "4242424242424242";
    for (body, place, logged) in UNCAUGHT {
        let program = program(&format!("module.exports = {body}")).await;
        let outcome = run(&program, json!({"number": secret})).await;
        let failure = told(&outcome.result.unwrap_err());
        assert!(failure.contains(place) && failure.contains("Runtime"), "{body}: {failure}");
        assert!(!failure.contains(secret), "{failure}");
        let [line] = &outcome.log[..] else { panic!("{body}: {:?}", outcome.log) };
        assert!(line.message.contains(logged), "{body}: {}", line.message);
        assert!(!line.message.contains(secret), "{body}: {}", line.message);
    }
}

/// A call that is not awaited fails without the answer showing it.
#[tokio::test(flavor = "multi_thread")]
async fn rejections_that_nobody_looks_after_are_logged_without_their_words() {
    let code = "Promise.reject(new RangeError('at the top'));\n\
        module.exports = async ({ args }) => {\n  const late = Promise.reject(new Error('caught late'));\n\
          (async () => { await null; throw new TypeError(args.number); })();\n  queueMicrotask(() => { throw args.number; });\n\
          Promise.reject(1).catch(() => 2);\n  await null;\n  try { await late; } catch { /* looked after */ }\n\
          if (args.fails) throw new BadRequestError('no');\n  return { raw: 1 };\n};";
    let program = program(code).await;
    for _ in 0..2 {
        let outcome = run(&program, json!({"number": "4242424242424242"})).await;
        assert_eq!(outcome.result.unwrap().raw, Some(json!(1)));
        let lines: Vec<String> =
            outcome.log.iter().map(|line| format!("{:?} {}", line.level, line.message)).collect();
        let [top, thrown, value] = &lines[..] else { panic!("{lines:?}") };
        let told = "Warn Unhandled rejection: ";
        assert!(top.starts_with(&format!("{told}RangeError\n    at formula.js:1:")), "{lines:?}");
        let place = format!("{told}TypeError\n    at formula.js:4:");
        assert!(thrown.starts_with(&place), "{lines:?}");
        assert_eq!(value, &format!("{told}value"));
        assert!(!lines.concat().contains("4242"), "{lines:?}");
    }
    // What cannot be looked at is told as a value, and many are counted.
    let hostile = "module.exports = () => {\n  const loop = new Error('l'); loop.cause = loop;\n\
          const bad = { get() { throw 1; }, getPrototypeOf() { throw 2; } };\n\
          for (const reason of [loop, new Proxy({}, bad), Object.defineProperty(new Error('n'), 'name', { get() { throw 3; } }),\n\
            Object.assign(new Error('s'), { name: Symbol('s') }), null]) Promise.reject(reason);\n\
          for (let n = 0; n < 100; n += 1) Promise.reject(n);\n  return { raw: 1 };\n};";
    let outcome = run(&self::program(hostile).await, json!({})).await;
    assert_eq!(outcome.result.unwrap().raw, Some(json!(1)));
    let last = &outcome.log.last().unwrap().message;
    assert_eq!((outcome.log.len(), last.as_str()), (21, "Unhandled rejections: 85 more"));
    // The failure that is told is the run's own.
    let outcome = run(&program, json!({"fails": true})).await;
    assert_eq!(told(&outcome.result.unwrap_err()), "BadRequest: no []");
    assert!(outcome.log.is_empty(), "{:?}", outcome.log);
}

/// Half of a character, as `slice` leaves it, is none in JSON.
#[tokio::test(flavor = "multi_thread")]
async fn halves_of_characters_are_told_as_what_they_are() {
    let server = TestServer::start().await;
    let code = "module.exports = ({ args: { fails } }) => {\n  const half = '\u{1f600}'.slice(0, 1);\n\
        if (fails) throw new BadRequestError(`a\\\\ud83d${half}`, { errors: { [half]: half } });\n\
        return { raw: { [half]: [`${half}\\\\ud83d`, '\u{1f600}'] } };\n};";
    let path = reactor(&server, code, json!({}), json!({})).await;
    let problem = react(&server, &path, json!({"fails": true})).await.expect(400);
    assert_eq!(problem["detail"], "a\\ud83d\u{fffd}");
    assert_eq!(problem["errors"], json!({"\u{fffd}": ["\u{fffd}"]}));
    let answer = react(&server, &path, json!({})).await.expect(200);
    assert_eq!(answer["raw"], json!({"\u{fffd}": ["\u{fffd}\\ud83d", "\u{1f600}"]}));
    // JSON that a script wrote itself, and texts that are none.
    for (text, expected) in [
        (r#"JSON.rawJSON('"\\ud83d\\ude00"')"#, json!("\u{1f600}")),
        (r#"JSON.rawJSON('"\\uD83D\\u0041"')"#, json!("\u{fffd}A")),
        (r"'\\\\é😀'.slice(0, 4)", json!("\\\\é\u{fffd}")),
    ] {
        let code = format!("module.exports = () => ({{ raw: {text} }});");
        assert_eq!(raw(&code, json!({})).await, expected, "{text}");
    }
    let code = r#"module.exports = async () => {
        Array.prototype.then = function (resolve) { delete Array.prototype.then; resolve(['"\\udab€"', undefined]); };
        return { raw: 1 };
    };"#;
    let failure = run(&program(code).await, json!({})).await.result.unwrap_err();
    assert!(!told(&failure).contains("panicked"), "{}", told(&failure));
}

#[tokio::test(flavor = "multi_thread")]
async fn svc_takes_halves_of_characters_as_what_they_are() {
    let server = TestServer::start().await;
    let permissions = ["token:create", "token:read", "token:use"];
    let rules = json!([{"description": "", "priority": 1, "container": "/", "transform": "reveal", "permissions": permissions}]);
    let application = json!({"name": "svc", "type": "private", "permissions": [], "rules": rules});
    let application = server.management.post("/applications", application).await.expect(201);
    let code = "module.exports = async ({ svc }) => {\n  const token = await svc.tokenize('a😀'.slice(0, 2));\n\
        return { raw: await svc.detokenize({ a: `{{ ${token} }}` }) };\n};";
    let members = json!({"application": {"id": application["id"]}});
    let path = reactor(&server, code, json!({}), members).await;
    let answer = react(&server, &path, json!({})).await.expect(200);
    assert_eq!(answer["raw"], json!({"a": "a\u{fffd}"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_too_large_for_the_vault_can_be_caught_however_large_it_is() {
    let server = TestServer::start().await;
    let code = "module.exports = async ({ svc }) => {\n  const raw = [];\n\
        for (const length of [5e6, 9e6]) {\n\
        try { await svc.tokens.create({ type: 'token', data: 'x'.repeat(length) }); }\n\
        catch (error) { raw.push([error.status, error.errors]); }\n  }\n  return { raw };\n};";
    let application = json!({"name": "svc", "type": "private", "permissions": ["token:create"]});
    let application = server.management.post("/applications", application).await.expect(201);
    let members = json!({"application": {"id": application["id"]}});
    let path = reactor(&server, code, json!({}), members).await;
    let answer = react(&server, &path, json!({})).await.expect(200);
    let refusal = json!([400, {"": ["must have at most 4194304 bytes"]}]);
    assert_eq!(answer["raw"], json!([refusal, refusal]));
}

#[tokio::test(flavor = "multi_thread")]
async fn no_invocation_shows_what_was_thrown_and_trying_out_does() {
    let code = "module.exports = ({ args }) => {\n  throw new Error(`refused ${args.number}`);\n};";
    let server = TestServer::start().await;
    let path = reactor(&server, code, json!({}), json!({})).await;
    react(&server, &path, json!({"number": "4242424242424242"})).await.expect(500);
    let invocations = format!("{}/invocations", path.strip_suffix("/react").unwrap());
    let list = server.management.get(&invocations).await.expect(200);
    let line = list["data"][0]["log"][0]["message"].as_str().unwrap();
    assert!(line.starts_with("Uncaught Error\n    at formula.js:2:"), "{line}");
    assert!(!list.to_string().contains("4242"), "{list}");

    let project = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| std::fs::write(project.path().join(name), text).unwrap();
    write("formula.json", &json!({"name": "tried", "language": "javascript"}).to_string());
    write("formula.js", code);
    write("args.json", &json!({"number": "4242424242424242"}).to_string());
    let ran = workshop::told(project.path(), 1, &["run", "--args", "args.json"]);
    let line = ran["invocation"]["log"][0]["message"].as_str().unwrap();
    assert!(line.starts_with("Uncaught Error: refused 4242424242424242\n"), "{ran}");
}

/// As `From<Problem>` of the SDK in Rust has them.
#[tokio::test(flavor = "multi_thread")]
async fn refusals_of_the_vault_become_what_they_do_in_rust() {
    let code = "module.exports = ({ args }) => { throw new SvcError(args); };";
    let program = program(code).await;
    for (status, kind) in [
        (400, "BadRequest"),
        (401, "Authentication"),
        (402, "InvalidPaymentMethod"),
        (403, "Authorization"),
        (404, "BadRequest"),
        (409, "BadRequest"),
        (413, "BadRequest"),
        (415, "BadRequest"),
        (422, "BadRequest"),
        (429, "RateLimit"),
        (500, "Runtime"),
        (503, "ServiceUnavailable"),
    ] {
        let errors = json!({"data.number": ["is no number", "is missing"]});
        let problem =
            json!({"status": status, "title": "Titled", "detail": "in words", "errors": errors});
        let outcome = run(&program, problem).await;
        let expected =
            format!("{kind}: in words {:?}", [("data.number", ["is no number", "is missing"])]);
        assert_eq!(told(&outcome.result.unwrap_err()), expected, "{status}");
        assert!(outcome.log.is_empty(), "{status}: {:?}", outcome.log);
    }
    let untold = run(&program, json!({"status": 404, "title": "Not Found", "detail": ""})).await;
    assert_eq!(told(&untold.result.unwrap_err()), "BadRequest: Not Found []");
    // One that a script makes of words alone, or of nothing.
    for (args, expected) in
        [(json!("a"), "Runtime: a []"), (Value::Null, "Runtime: The vault refused it. []")]
    {
        let own = run(&program, args).await;
        assert_eq!(told(&own.result.unwrap_err()), expected);
    }
}

/// As `From<http::Error>` of the SDK in Rust has them.
#[tokio::test(flavor = "multi_thread")]
async fn unanswered_requests_become_what_they_do_in_rust() {
    let (server, upstream) = (TestServer::start_with(Setup::open()).await, Upstream::start().await);
    let code = "module.exports = async ({ args: { url, options = {}, ms } }) => {\n\
        if (ms) options.signal = AbortSignal.timeout(ms);\n  await fetch(url, options);\n};";
    let hosts = [upstream.address.to_string(), "127.0.0.1:1".to_owned()];
    let path = reactor(&server, code, json!({"allowed_hosts": hosts}), json!({})).await;
    let never = upstream.url("/never");
    for (args, status, detail) in [
        (json!({"url": "http://127.0.0.1:1/"}), 503, "the other server cannot be reached"),
        (json!({"url": never, "ms": 50}), 503, "the other server did not answer in time"),
        (
            json!({"url": "https://a.example"}),
            500,
            "the formula's request is not allowed: the host is not an allowed one",
        ),
        (json!({"url": "nonsense"}), 500, "the formula's request is not valid"),
        (
            json!({"url": upstream.url("/bytes/5000000")}),
            500,
            "the formula's request or its answer is too large",
        ),
        (
            json!({"url": upstream.url("/redirects/1"), "options": {"redirect": "error"}}),
            500,
            "the other server redirects where that is not followed",
        ),
        (
            json!({"url": upstream.url("/redirects/11")}),
            500,
            "the other server redirects where that is not followed",
        ),
        (
            json!({"url": upstream.url("/redirects/1"), "options": {"redirect": "zzz"}}),
            500,
            "The script ended with an uncaught TypeError",
        ),
    ] {
        let problem = react(&server, &path, args.clone()).await.expect(status);
        let found = problem["detail"].as_str().unwrap();
        assert!(found.starts_with(detail), "{args}: {found}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_leaves_nothing_to_call_is_not_taken() {
    let server = TestServer::start().await;
    let body = |code: &str| json!({"name": "s", "code": code});
    let good = body("module.exports = () => ({ raw: 1 });");
    let made = server.management.post("/reactor-formulas", good.clone()).await.expect(201);
    let path = format!("/reactor-formulas/{}", made["id"].as_str().unwrap());
    for code in ["", "exports.handler = () => 1", "module.exports = 5", "module.exports = null"] {
        for refused in [
            server.management.post("/reactor-formulas", body(code)).await,
            server.management.put(&path, body(code)).await,
        ] {
            let detail = &refused.expect(422)["detail"];
            assert_eq!(detail, "The script must assign a function to module.exports.", "{code}");
        }
    }
    server.management.put(&path, good).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_no_formula_says_so() {
    for (code, part) in [
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

/// The usual way to collect them leaves some without a word.
#[tokio::test(flavor = "multi_thread")]
async fn members_of_which_nothing_is_said_are_no_faults() {
    let code = "module.exports = () => { throw new BadRequestError('no', { errors: { a: 'wrong', b: undefined, c: null } }); };";
    let outcome = run(&program(code).await, json!({})).await;
    let told = told(&outcome.result.unwrap_err());
    assert!(
        told.contains("wrong") && !told.contains("null") && !told.contains("undefined"),
        "{told}"
    );
}
