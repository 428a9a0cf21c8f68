//! What scripts answer with that is no answer, or not all of one; and what their authors are told of it.

use serde_json::json;

use crate::support::TestServer;
use crate::support::scripts::{program, raw, react, reactor, run, told};

/// A function that throws a response with these headers, an expression of JavaScript.
fn custom(headers: &str) -> String {
    format!(
        "module.exports = ({{ args }}) => {{\n\
         throw new CustomHttpResponseError({{ status: 422, headers: {headers}, body: 1 }});\n}};"
    )
}

/// Clients give up on a head of some more.
#[tokio::test(flavor = "multi_thread")]
async fn headers_of_a_custom_response_have_at_most_8_kib_together() {
    let server = TestServer::start().await;
    let headers = "{ 'x-a': 'a'.repeat(args.a), 'x-b': 'b'.repeat(args.b) }";
    let path = reactor(&server, &custom(headers), json!({}), json!({})).await;
    // Both names take three bytes.
    let fits = react(&server, &path, json!({"a": 4_096, "b": 4_090})).await;
    assert_eq!((fits.status.as_u16(), fits.headers["x-b"].len()), (422, 4_090));
    for args in [json!({"a": 4_096, "b": 4_091}), json!({"a": 1, "b": 3_900_000})] {
        let answer = react(&server, &path, args.clone()).await;
        assert!(!answer.headers.contains_key("x-a"), "{args}");
        let problem = answer.expect(500);
        let detail = "The formula's answer cannot be used: its headers are too large.";
        assert_eq!(problem["detail"], detail, "{args}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_of_a_custom_response_may_be_a_headers() {
    let server = TestServer::start().await;
    for (headers, status) in [
        ("new Headers({ 'X-Kind': 'tea', 'Retry-After': 3 })", 422),
        ("[['X-Kind', 'tea'], ['Retry-After', 3]]", 422),
        ("new Response('', { headers: { 'X-Kind': 'tea', 'Retry-After': '3' } }).headers", 500),
        ("new Response(null, { headers: { 'X-Kind': 'tea', 'Retry-After': '3' } }).headers", 422),
        ("new Headers({ 'X-Kind': 'tea', 'Set-Cookie': 'a=b' })", 500),
    ] {
        let path = reactor(&server, &custom(headers), json!({}), json!({})).await;
        let answer = react(&server, &path, json!({})).await;
        assert_eq!(answer.status.as_u16(), status, "{headers}: {}", answer.text());
        let sent = ["x-kind", "retry-after"].map(|name| answer.headers.get(name));
        let expected = (status == 422).then_some(["tea", "3"]);
        let sent = sent.map(|value| value.map(|value| value.to_str().unwrap()));
        assert_eq!(sent, expected.map_or([None, None], |values| values.map(Some)), "{headers}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_body_of_a_custom_response_that_json_cannot_hold_is_told_as_such() {
    let none = "The custom response's body must be a value that JSON has.";
    for (body, detail, logged) in [
        ("1n", "uncaught TypeError;", "Uncaught TypeError"),
        ("cyclic", "uncaught TypeError;", "Uncaught TypeError"),
        ("() => 1", none, none),
        ("Symbol('s')", none, none),
        (
            "{ toJSON() { throw new RangeError('4242'); } }",
            "uncaught RangeError at line 3, column",
            "Uncaught RangeError\n    at formula.js:3:",
        ),
    ] {
        let code = format!(
            "const cyclic = {{}}; cyclic.cyclic = cyclic;\nmodule.exports = () => {{\n\
             throw new CustomHttpResponseError({{ status: 422, body: {body} }});\n}};"
        );
        let outcome = run(&program(&code).await, json!({})).await;
        let failure = told(&outcome.result.unwrap_err());
        assert!(failure.starts_with("Runtime: ") && failure.contains(detail), "{body}: {failure}");
        let [line] = &outcome.log[..] else { panic!("{body}: {:?}", outcome.log) };
        assert!(line.message.starts_with(logged), "{body}: {}", line.message);
        assert!(!line.message.contains("4242"), "{body}: {}", line.message);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_error_that_is_returned_is_as_if_it_were_thrown() {
    for (returned, expected) in [
        ("new BadRequestError('no')", "BadRequest: no []"),
        ("Promise.resolve(new RateLimitError('no'))", "RateLimit: no []"),
        ("new (class Mine extends InvalidPaymentMethodError {})('no')", "InvalidPaymentMethod: no"),
        ("new CustomHttpResponseError({ status: 418 })", "Custom(418"),
        ("new TypeError('no')", "uncaught TypeError at line 1"),
    ] {
        let program = program(&format!("module.exports = () => {returned};")).await;
        let failure = told(&run(&program, json!({})).await.result.unwrap_err());
        assert!(failure.contains(expected), "{returned}: {failure}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_not_there_yet_is_no_answer() {
    let generator = "returned a generator or another iterable";
    for (formula, expected) in [
        ("function* () { yield new BadRequestError('no'); }", generator),
        ("async function* () { yield 1; }", generator),
        ("() => new Map([['raw', 1]])", generator),
        ("() => ({ raw: Promise.resolve(1) })", "raw is a promise"),
        ("() => ({ raw: (async () => 1)(), tokenize: 'x' })", "raw is a promise"),
        ("() => ({ tokenize: { then() {} } })", "tokenize is a promise"),
    ] {
        let outcome = run(&program(&format!("module.exports = {formula};")).await, json!({})).await;
        let failure = told(&outcome.result.unwrap_err());
        let is_told = failure.starts_with("Runtime: ") && failure.contains(expected);
        assert!(is_told, "{formula}: {failure}");
        let logged = outcome.log.iter().any(|line| line.message.contains(expected));
        assert!(logged, "{formula}: {:?}", outcome.log);
    }
    let code = "module.exports = async () => ({ raw: { then: 'a member', next: await 1 } });";
    assert_eq!(raw(code, json!({})).await, json!({"then": "a member", "next": 1}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_without_data_is_refused_and_its_type_is_not_kept() {
    let server = TestServer::start().await;
    let code = "module.exports = ({ args }) => ({ tokenize: eval(`(${args.code})`) });";
    let path = reactor(&server, code, json!({}), json!({})).await;
    for (code, member) in [
        ("{ type: 'token', data: undefined }", "tokenize.data"),
        ("{ a: [{ type: 'card', data: () => 1 }], b: 1 }", "tokenize.a[0].data"),
    ] {
        let answer = react(&server, &path, json!({"code": code})).await;
        assert_eq!(answer.faults(), [member], "{}", answer.text());
    }
    // Within a token's own parts nothing is a token, and what JSON leaves out is left out.
    let kept = "{ type: 'token', data: { type: 1, data: undefined }, metadata: { type: 'a', data: undefined } }";
    let answer = react(&server, &path, json!({"code": kept})).await.expect(200);
    assert_eq!(answer["tokens"]["metadata"], json!({"type": "a"}));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_line_of_any_length_can_be_logged() {
    for text in ["'x'.repeat(9 << 20)", "'€'.repeat(1 << 18)"] {
        let code =
            format!("module.exports = () => {{ console.log({text}); return {{ raw: 1 }}; }}");
        let outcome = run(&program(&code).await, json!({})).await;
        assert_eq!(outcome.result.unwrap().raw, Some(json!(1)), "{text}");
        let line = &outcome.log[0].message;
        assert!((60_000..=64 << 10).contains(&line.len()), "{text}: {}", line.len());
        assert!(line.chars().all(|c| matches!(c, 'x' | '€')) && outcome.log_truncated, "{text}");
    }
}

/// Addresses may hold secrets.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_that_is_not_answered_is_logged_with_its_reason_and_place_but_no_address() {
    let code = "module.exports = async ({ args: { before } }) => {\n  const url = 'https://a.example/?key=4242';\n\
          for (let n = 0; n < before; n += 1) await fetch(url).catch(() => {});\n  await null;\n  await fetch(url);\n};";
    let program = program(code).await;
    for (before, reason) in
        [(0, "the formula has no network"), (100, "one invocation may send 100 requests")]
    {
        let outcome = run(&program, json!({"before": before})).await;
        let expected = format!("Runtime: the formula's request is not allowed: {reason} []");
        assert_eq!(told(&outcome.result.unwrap_err()), expected);
        let [line] = &outcome.log[..] else { panic!("{:?}", outcome.log) };
        let place = format!("Uncaught TypeError: {reason}\n    at formula.js:5:");
        assert!(line.message.starts_with(&place), "{}", line.message);
        assert!(!line.message.contains("4242"), "{}", line.message);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_said_to_have_a_stack_only_if_it_has_one() {
    let cyclic = "const a = {}; a.a = a;";
    for (body, has_stack) in [
        ("await new Response('4242').clone().json(); throw new Error('x');".to_owned(), true),
        ("await new Response('no JSON').json();".to_owned(), true),
        (format!("{cyclic} return {{ raw: a }};"), false),
        (format!("{cyclic} return {{ tokenize: a }};"), false),
        ("return { raw: 1n };".to_owned(), false),
        ("throw 'a value';".to_owned(), false),
        ("throw new Error('x');".to_owned(), true),
    ] {
        let code = format!("module.exports = async () => {{ {body} }};");
        let outcome = run(&program(&code).await, json!({})).await;
        let failure = told(&outcome.result.unwrap_err());
        let [line] = &outcome.log[..] else { panic!("{body}: {:?}", outcome.log) };
        assert_eq!(line.message.contains("\n    at formula.js:"), has_stack, "{}", line.message);
        assert_eq!(failure.contains("log has its stack"), has_stack, "{body}: {failure}");
        assert!(failure.contains("`tokamak formula run` shows"), "{body}: {failure}");
    }
}

/// It would be written as an empty object, whatever is in it.
#[tokio::test(flavor = "multi_thread")]
async fn what_can_only_be_gone_through_is_no_part_of_an_answer() {
    for (part, said) in [
        ("raw: new Set(['4242'])", Some("raw")),
        ("raw: new Map([['a', 1]]).entries()", Some("raw")),
        ("raw: '4242'.matchAll(/4/g)", Some("raw")),
        ("raw: (async function* () { yield 1; })()", Some("raw")),
        ("tokenize: new Set(['4242'])", Some("tokenize")),
        ("tokenize: (function* () { yield 1; })()", Some("tokenize")),
        ("raw: Object.assign(new Set(), { toJSON: () => 1 })", None),
        ("raw: [...new Set([1])]", None),
        ("raw: Buffer.from('a')", None),
        ("raw: new Uint8Array(1)", None),
        ("raw: new String('a')", None),
    ] {
        let code = format!("module.exports = () => ({{ {part} }});");
        let outcome = run(&program(&code).await, json!({})).await;
        let failure = outcome.result.err().map(|failure| told(&failure));
        let is_told = |name: &str| format!("Runtime: {name} is a generator or another iterable");
        let expected = said.map(is_told);
        let is_same = failure
            .as_deref()
            .map(|failure| failure.starts_with(expected.as_deref().unwrap_or("-")));
        assert_eq!(is_same, said.map(|_| true), "{part}: {failure:?}");
    }
}

/// Authors name their own errors.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_of_a_class_of_ones_own_may_have_a_name_of_its_own() {
    let server = TestServer::start().await;
    for (class, given, status) in [
        ("CustomHttpResponseError", "{ status: 402, body: { a: 1 } }", 402),
        ("SvcError", "{ status: 403, detail: 'no' }", 403),
        ("BadRequestError", "'no'", 400),
    ] {
        let code = format!(
            "class Mine extends {class} {{ constructor() {{ super({given}); this.name = 'Mine'; }} }}\n\
             module.exports = () => {{ throw new Mine(); }};"
        );
        let path = reactor(&server, &code, json!({}), json!({})).await;
        react(&server, &path, json!({})).await.expect(status);
    }
}
