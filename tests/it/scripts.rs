//! Formulas in JavaScript over HTTP: how they come, and what they may do. How they fail is in `script_errors.rs`,
//! what bounds them in `script_limits.rs`.

use serde_json::{Value, json};

use crate::support::scripts::{formula, program, raw, react, reactor, run};
use crate::support::server::{Setup, shared_runtime};
use crate::support::upstream::Upstream;
use crate::support::{TestServer, guests};

const ECHO: &str = "module.exports = async (req) => ({ raw: req.args });";

#[tokio::test(flavor = "multi_thread")]
async fn a_script_is_made_run_changed_and_given_back() {
    let server = TestServer::start().await;
    let id =
        formula(&server, ECHO, json!({"request_parameters": [{"name": "n", "type": "number"}]}))
            .await;
    let path = format!("/reactor-formulas/{id}");
    let made = server.management.get(&path).await.expect(200);
    assert_eq!((&made["language"], &made["status"]), (&json!("javascript"), &json!("verified")));
    assert!(made.get("code").is_none());
    let kept = server.management.get(&format!("{path}/component")).await;
    assert_eq!(kept.headers["content-type"], "text/javascript; charset=utf-8");
    assert_eq!(kept.text(), ECHO);

    let reactor = guests::reactor(&server, &id, json!({})).await;
    let invoke = format!("/reactors/{reactor}/react");
    let answer = react(&server, &invoke, json!({"n": "5", "more": [null]})).await.expect(200);
    assert_eq!(answer, json!({"raw": {"n": 5, "more": [null]}}));
    react(&server, &invoke, json!({"n": "x"})).await.expect(400);

    // Another script, then no code at all, then a component, then a script again.
    let put = async |body: Value| server.management.put(&path, body).await.expect(200);
    let changed = put(json!({"name": "a", "code": "module.exports = () => ({ raw: 2 })"})).await;
    assert_ne!(changed["component_digest"], made["component_digest"]);
    assert_eq!(react(&server, &invoke, json!({})).await.expect(200), json!({"raw": 2}));
    let renamed = put(json!({"name": "b"})).await;
    assert_eq!(
        (&renamed["language"], &renamed["component_digest"]),
        (&json!("javascript"), &changed["component_digest"])
    );
    let upload = guests::upload(guests::component("probe"))["component"].clone();
    // What it is said to be without code is what it is, or refused.
    assert_eq!(put(json!({"name": "c", "language": "javascript"})).await["language"], "javascript");
    let other = server.management.put(&path, json!({"name": "c", "language": "wasm"})).await;
    assert!(other.expect(400)["errors"]["language"].is_array());
    assert_eq!(put(json!({"name": "c", "component": upload})).await["language"], "wasm");
    let echoed = react(&server, &invoke, json!({"z": 1})).await.expect(200);
    assert_eq!(echoed["raw"]["args"], json!({"z": 1}));
    assert_eq!(put(json!({"name": "d", "code": ECHO})).await["language"], "javascript");
    let component = format!("{path}/component");
    let request = server.management.request(reqwest::Method::PUT, &component);
    let request = request.header("content-type", "application/wasm");
    let answer = server.management.send(request.body(guests::component("probe").to_vec())).await;
    assert_eq!(answer.expect(200)["language"], "wasm");
}

/// What is said of a script that does not parse.
async fn refusal(server: &TestServer, code: &str) -> String {
    let body = json!({"name": "f", "language": "javascript", "code": code});
    let problem = server.management.post("/reactor-formulas", body).await.expect(422);
    let detail = problem["detail"].as_str().unwrap();
    detail
        .strip_prefix("The script does not parse: ")
        .unwrap_or_else(|| panic!("{detail}"))
        .to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_script_that_parses_has_its_place() {
    let server = TestServer::start().await;
    let twice = "invalid redefinition of lexical identifier";
    for (code, line, column, cause) in [
        ("let a = 1;\nlet a = 2;", 2, 5, twice),
        ("const a = 1;\n  const a = 2;", 2, 9, twice),
        ("let a;\nclass B {}\nclass\n  a {}", 4, 7, twice),
        ("let a;\nlet a\n  = 1;", 2, 5, twice),
        ("let á;\nlet /* ü */ á = 1;", 2, 13, twice),
        ("var a;\nlet { b, a } = {};", 2, 10, "invalid redefinition of global identifier"),
        ("{\n  let a;\n  let a;\n}", 3, 7, twice),
        ("let s = `a${'}'} '`; // '\nlet t = /[/'(]/.test(s);\nlet t;", 3, 5, twice),
        (
            "try {\n  if (1) do { f(/\\)/, [1, {\n  let: 1 }]); let a; let a; } while (1);\n} catch {}",
            3,
            26,
            twice,
        ),
        (
            "module.exports = (a) => {\n  let b;\n  let a;\n};",
            3,
            7,
            "invalid redefinition of parameter name",
        ),
        ("try {} catch (e) {\n  let e;\n}", 2, 7, twice),
        (
            "module.exports = () => {\n  for (;;) {\n    break out;\n  }\n};",
            3,
            11,
            "break/continue label not found",
        ),
        ("if (1) {\n  continue;\n}", 2, 11, "continue must be inside loop"),
        ("let a = 1;\nlet b = new.target;", 2, 13, "new.target only allowed within functions"),
        ("f();\nx = {\n  a = 1 };", 3, 5, "Unexpected token '='"),
        // Of this one the engine tells no place; it is known where the class ends, and what the name is.
        (
            "class A {\n  m() { return this.#late + (#late in {}); }\n  n() { return this.#none; }\n  #late = 1;\n}\nlet b;",
            5,
            1,
            "undefined private field '#none'",
        ),
    ] {
        let detail = refusal(&server, code).await;
        let expected = format!("at line {line}, column {column}: {cause}");
        assert!(detail.starts_with(&expected), "{code}: {detail}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_fault_of_a_long_script_has_its_place() {
    let server = TestServer::start().await;
    let line = |at: usize| format!("function f{at}(a) {{ return a.b[{at}] + g({{ c: 'd' }}); }}\n");
    let script = |lines: usize, fault: usize, wrong: &str| -> String {
        let lines = (1..=lines).map(|at| if at == fault { wrong.to_owned() } else { line(at) });
        lines.collect()
    };
    let detail = refusal(&server, &script(18_000, 17_001, "let g; let g;\n")).await;
    assert!(detail.starts_with("at line 17001, column 12: "), "{detail}");
    // Where the engine tells no place, one is searched for.
    let detail = refusal(&server, &script(2_000, 1_701, "f(1, /a(/);\n")).await;
    assert!(detail.starts_with("at line 1701, column 6: "), "{detail}");
    // Not in any length.
    let detail = refusal(&server, &script(18_000, 17_001, "f(1, /a(/);\n")).await;
    assert_eq!(detail, "expecting ')'.");
}

/// What is nested as people nest it parses, and much deeper.
#[tokio::test(flavor = "multi_thread")]
async fn parts_within_parts_parse() {
    for (open, close, depth) in [
        ("[", "]", 200),
        ("(", ")", 200),
        ("{ a: ", "}", 100),
        ("f(async () => {", "})", 60),
        ("(() => ", ")", 60),
    ] {
        let nested = format!("{}{}", open.repeat(depth), close.repeat(depth));
        let nested = if open == "(" || open == "{ a: " || open == "(() => " {
            format!("{}1{}", open.repeat(depth), close.repeat(depth))
        } else {
            nested
        };
        let code = format!(
            "function f() {{}}\nconst x = {nested};\nmodule.exports = () => ({{ raw: 1 }});"
        );
        assert_eq!(raw(&code, json!({})).await, json!(1), "{open}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_parse_is_refused_with_its_place() {
    let deep = format!("module.exports = {}1{};", "(".repeat(20_000), ")".repeat(20_000));
    let table = [
        ("module.exports = async function (req) {\n  const a = ;\n};", "at line 2, column 13: "),
        ("module.exports = function () {", "at line 1, column 31: it ends too early"),
        ("export default async () => ({})", "at line 1, column 1: "),
        ("const x = 1;\nconst y = [1, 'never ends", "at line 2, column 15: "),
        ("await 1;\n)", "at line 1, column 7: "),
        ("1;\nreturn 1;", "at line 2, column 1: "),
        ("let s = `\n\n", "at line 1, column 9: "),
        ("1;\n/* never", "at line 2, column 1: "),
        ("1;\n  /(/", "at line 2, column 3: "),
        ("1;\n  const a = /abc/gg;", "at line 2, column "),
        (deep.as_str(), "its parts are nested too deeply."),
    ];
    let server = TestServer::start().await;
    for (code, part) in table {
        let shown: String = code.chars().take(60).collect();
        let detail = refusal(&server, code).await;
        assert!(detail.starts_with(part), "{shown}: {detail}");
    }
    // An update is checked as well, and what was there stays.
    let id = formula(&server, ECHO, json!({})).await;
    let path = format!("/reactor-formulas/{id}");
    server.management.put(&path, json!({"name": "f", "code": "}"})).await.expect(422);
    assert_eq!(server.management.get(&format!("{path}/component")).await.text(), ECHO);
    let list = server.management.get("/reactor-formulas?name=script").await.expect(200);
    assert_eq!(list["pagination"]["total_items"], 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_one_run_is_there_in_the_next() {
    let code = "globalThis.count = (globalThis.count ?? 0) + 1; Array.prototype.extra = (Array.prototype.extra ?? 0) + 1;\n\
        require('tokamak').seen = (require('tokamak').seen ?? 0) + 1; console.count();\n\
        module.exports = async () => { const was = globalThis.kept; globalThis.kept = 'secret'; JSON.stringify = () => 'mine';\n\
        return { raw: [globalThis.count, [].extra, require('tokamak').seen, was ?? null, Math.random(), crypto.randomUUID()] }; };";
    let program = program(code).await;
    let mut seen = Vec::new();
    for _ in 0..4 {
        let outcome = run(&program, json!({})).await;
        assert_eq!(outcome.log[0].message, "default: 1");
        seen.push(outcome.result.unwrap().raw.unwrap());
    }
    for pair in seen.windows(2) {
        assert_eq!(pair[0].as_array().unwrap()[..4], [json!(1), json!(1), json!(1), json!(null)]);
        assert_ne!(pair[0][4], pair[1][4]);
        assert_ne!(pair[0][5], pair[1][5]);
    }
    // Nor of another script.
    let other = raw(
        "module.exports = () => ({ raw: [typeof globalThis.kept, typeof [].extra, typeof count] })",
        json!({}),
    );
    assert_eq!(other.await, json!(["undefined", "undefined", "undefined"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_go_where_they_may() {
    let (server, upstream) = (TestServer::start_with(Setup::open()).await, Upstream::start().await);
    let code = "module.exports = async ({ args: { base } }) => {\n\
        const body = new URLSearchParams({ a: 'b c' });\n\
        const sent = await fetch(`${base}/echo?x=1`, { method: 'post', headers: { 'X-Mine': 'yes' }, body });\n\
        const told = await sent.json();\n  const headers = Object.fromEntries(told.headers);\n\
        const all = await Promise.all([1, 2, 3].map((n) => fetch(`${base}/bytes/${n}`).then((r) => r.text())));\n\
        const bytes = new Uint8Array(await (await fetch(new Request(`${base}/bytes/2`))).arrayBuffer());\n\
        const followed = await fetch(`${base}/redirects/2`);\n\
        const stopped = await fetch(`${base}/redirects/2`, { redirect: 'manual' });\n\
        const failed = async (...args) => fetch(...args).then(() => 'answered', (e) => [e.name, e.code ?? null, e.message]);\n\
        return { raw: { sent: [sent.status, sent.ok, sent.headers.get('X-Answer'), sent.headers.getSetCookie()],\n\
          told: [told.method, told.uri, told.body, headers['x-mine'], headers['content-type']], all, bytes: [...bytes],\n\
          followed: [followed.status, await followed.text()], stopped: [stopped.status, stopped.headers.get('location')],\n\
          twice: await followed.text().catch((e) => e.message), refused: await failed('https://elsewhere.example/'),\n\
          invalid: await failed('nonsense'), redirect: (await failed(`${base}/redirects/1`, { redirect: 'error' }))[1],\n\
          body: (await failed(`${base}/echo`, { body: 'x' }))[0],\n\
          late: (await failed(`${base}/never`, { signal: AbortSignal.timeout(50) }))[0],\n\
          gone: (await failed(`${base}/echo`, { signal: AbortSignal.abort() }))[0] } };\n};";
    let path =
        reactor(&server, code, json!({"allowed_hosts": [upstream.address.to_string()]}), json!({}))
            .await;
    let raw =
        react(&server, &path, json!({"base": upstream.url("")})).await.expect(200)["raw"].clone();
    for (member, expected) in [
        ("sent", json!([202, true, "yes", ["a=b"]])),
        (
            "told",
            json!([
                "POST",
                "/echo?x=1",
                "a=b+c",
                "yes",
                "application/x-www-form-urlencoded;charset=UTF-8"
            ]),
        ),
        ("all", json!(["x", "xx", "xxx"])),
        ("bytes", json!([120, 120])),
        ("followed", json!([200, "arrived"])),
        ("stopped", json!([302, "/redirects/1"])),
        ("twice", json!("the body was read already")),
        ("redirect", json!("redirect")),
        ("body", json!("TypeError")),
        ("late", json!("TimeoutError")),
        ("gone", json!("AbortError")),
    ] {
        assert_eq!(raw[member], expected, "{member}: {raw}");
    }
    assert_eq!(
        raw["refused"].as_array().unwrap()[..2],
        [json!("TypeError"), json!("denied")],
        "{raw}"
    );
    assert_eq!(
        raw["invalid"].as_array().unwrap()[..2],
        [json!("TypeError"), json!("invalid")],
        "{raw}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_to_tokenize_may_be_null() {
    let server = TestServer::start().await;
    let code = "module.exports = ({ args }) => ({ raw: 1, tokenize: args.none ? null : ['x'] });";
    let path = reactor(&server, code, json!({}), json!({})).await;
    let answer = react(&server, &path, json!({"none": true})).await.expect(200);
    assert_eq!(answer, json!({"raw": 1}));
    let answer = react(&server, &path, json!({"none": false})).await.expect(200);
    assert!(answer["tokens"][0].is_string(), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn svc_is_the_vault_as_its_application_sees_it() {
    let server = TestServer::start().await;
    let all =
        ["token:create", "token:read", "token:update", "token:delete", "token:search", "token:use"];
    let reveal = json!([{"description": "", "priority": 1, "container": "/", "transform": "reveal", "permissions": all}]);
    let application = json!({"name": "svc", "type": "private", "permissions": [], "rules": reveal});
    let application = server.management.post("/applications", application).await.expect(201);
    let code = "module.exports = async ({ svc, args }) => {\n  if (svc === null) return { raw: 'none' };\n\
        const made = await svc.tokens.create({ type: 'card_number', data: '4242424242424242', metadata: { k: 'v' } });\n\
        const got = await svc.tokens.get(made.id);\n  const changed = await svc.tokens.update(made, { metadata: { k: 'w' } });\n\
        const listed = await svc.tokens.list({ type: ['card_number'] });\n  const found = await svc.tokens.search('metadata.k:w');\n\
        const [tokens, other] = await Promise.all([svc.tokenize({ a: 'x', b: [1] }), svc.tokens.tokenize('y')]);\n\
        const clear = await svc.detokenize({ a: `{{ ${tokens.a} }}`,\n\
          o: `{{ ${other} }}` });\n  const gone = await svc.tokens.delete(made.id);\n\
        const refused = await svc.tokens.get(made.id).catch((e) => [e instanceof SvcError, e.status, e.title]);\n\
        const invalid = await svc.tokens.create({ type: 'card_number', data: '1' }).catch((e) => [e.status, Object.keys(e.errors)]);\n\
        const nameless = await Promise.all([undefined, null, {}, ['x']].map((one) => svc.tokens.delete(one).catch((e) => e.name)));\n\
        if (args.uncaught) await svc.tokens.create({ type: 'card_number', data: '1' });\n\
        return { raw: { got: got.data, changed: changed.metadata.k, listed: listed.data.length, found: found.data[0].id === made.id, clear, gone: gone ?? null, refused, invalid, nameless } };\n};";
    let members = json!({"application": {"id": application["id"]}});
    let path = reactor(&server, code, json!({}), members).await;
    let answer = react(&server, &path, json!({})).await.expect(200);
    assert_eq!(
        answer["raw"],
        json!({"got": "4242424242424242", "changed": "w", "listed": 1, "found": true, "clear": {"a": "x", "o": "y"},
            "gone": null, "refused": [true, 404, "Not Found"], "invalid": [400, ["data"]], "nameless": ["TypeError", "TypeError", "TypeError", "TypeError"]})
    );
    // Which is not caught is what a formula in Rust makes of it.
    let problem = react(&server, &path, json!({"uncaught": true})).await.expect(400);
    let same = json!({"type": "card_number", "data": "1"});
    let refused = server.private.post("/tokens", same).await.expect(400);
    assert_eq!((&problem["detail"], &problem["errors"]), (&refused["detail"], &refused["errors"]));
    assert!(problem["errors"]["data"].is_array(), "{problem}");
    let without = reactor(&server, code, json!({}), json!({})).await;
    assert_eq!(react(&server, &without, json!({})).await.expect(200)["raw"], "none");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_runs_scripts_is_nobodys_formula() {
    let server = TestServer::start().await;
    let runner = tokamak::runtime::SCRIPT_RUNNER;
    // It is no official formula, and who uploads it has no script for it.
    let list = server.management.get("/reactor-formulas?size=100").await.expect(200);
    assert!(list["data"].as_array().unwrap().iter().all(|formula| formula["language"] == "wasm"));
    let made =
        server.management.post("/reactor-formulas", guests::upload(runner)).await.expect(201);
    let reactor = guests::reactor(&server, made["id"].as_str().unwrap(), json!({})).await;
    react(&server, &format!("/reactors/{reactor}/react"), json!({})).await.expect(500);
    // Nobody else asks for scripts.
    let name = b"tokamak:script/source@1.0.0";
    let at = runner.windows(name.len()).position(|window| window == name).unwrap();
    let mut other = runner.to_vec();
    other[at + name.len() - 1] = b'1';
    server.management.post("/reactor-formulas", guests::upload(&other)).await.expect(422);
    assert!(shared_runtime().script(ECHO, 0).await.is_ok());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_is_sealed_at_rest_and_there_after_a_restart() {
    let folder = tempfile::tempdir().unwrap();
    let setup = || Setup { folder: Some(folder.path().to_owned()), ..Setup::default() };
    let server = TestServer::start_with(setup()).await;
    let canary = "canaryOfTheScript";
    let code = format!("const {canary} = 1; module.exports = () => ({{ raw: {canary} }});");
    let path = reactor(&server, &code, json!({}), json!({})).await;
    assert_eq!(react(&server, &path, json!({})).await.expect(200)["raw"], 1);
    let (management, private) =
        (server.management.key.clone().unwrap(), server.private.key.clone().unwrap());
    server.stop().await;
    let mut open = vec![folder.path().to_owned()];
    while let Some(folder) = open.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                open.push(path);
            } else {
                let bytes = std::fs::read(&path).unwrap();
                assert!(!bytes.windows(canary.len()).any(|window| window == canary.as_bytes()));
            }
        }
    }
    let server = TestServer::start_with(setup()).await;
    let private = server.client(&private);
    assert_eq!(private.post(&path, json!({"args": {}})).await.expect(200)["raw"], 1);
    assert!(
        server.client(&management).get("/reactor-formulas").await.expect(200)["data"][0]["language"]
            == "javascript"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_script_burns_little() {
    let usual = "const { BadRequestError } = require('tokamak');\nconst digits = (text) => text.replace(/[^0-9]/g, '');\n\
        module.exports = async function (req) {\n  const { args: { card, customer },\n\
          configuration } = req;\n  const number = digits(card.number);\n\
        if (number.length < 12) throw new BadRequestError('no card');\n  const month = String(card.expiration_month).padStart(2, '0');\n\
        const name = [customer?.first, customer?.last].filter(Boolean).map((part) => part.trim()).join(' ');\n\
        return { raw: { last4: number.slice(-4), expires: `${month}/${card.expiration_year % 100}`, name,\n\
          mode: configuration.MODE ?? 'test' },\n\
        tokenize: { card: { type: 'card_number', data: number, metadata: { name } } } };\n};";
    let args = json!({"card": {"number": "4242 4242 4242 4242", "expiration_month": 7, "expiration_year": 2031},
        "customer": {"first": "Ada", "last": "Lovelace"}});
    for (code, most) in [(ECHO, 1_500_000), (usual, 3_000_000)] {
        let program = program(code).await;
        let mut usage = Vec::new();
        for _ in 0..20 {
            let outcome = run(&program, args.clone()).await;
            outcome.result.unwrap();
            usage.push(outcome.usage);
        }
        let quickest = usage.iter().min_by_key(|usage| usage.elapsed).unwrap();
        println!("{quickest:?}");
        assert!(quickest.fuel < most, "{quickest:?}");
    }
}
