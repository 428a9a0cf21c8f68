//! A script's top level is evaluated once where it can be, and no run can tell: each begins with what it left, and none
//! sees anything of another.

use std::time::Duration;

use serde_json::{Value, json};
use tokamak::runtime::{Failure, Program, Runtime, RuntimeConfig};
use tokio::task::JoinHandle;

use crate::support::scripts::{call, program, run, run_within, told};

/// Whether every run of it begins with what its top level left.
fn is_prepared(program: &Program) -> bool {
    program.script().unwrap().is_prepared()
}

async fn answer(program: &Program, args: Value) -> Value {
    let outcome = run(program, args).await;
    outcome.result.unwrap_or_else(|failure| panic!("{}", told(&failure))).raw.unwrap_or_default()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_begins_with_what_the_top_level_left_and_leaves_nothing_to_the_next() {
    let code = "let calls = 0; const seen = new Map([['top', 1]]); const list = [1, 2, 3];\n\
        class Card { #digits; constructor(digits) { this.#digits = digits; } get last4() { return this.#digits.slice(-4); } }\n\
        const symbol = Symbol('s'); const pattern = /(?<month>\\d\\d)/g; const later = Promise.resolve('resolved');\n\
        const generated = (function* () { yield 'first'; yield 'second'; })(); generated.next();\n\
        const { ReactorRuntimeError } = require('tokamak'); globalThis.shared ??= [];\n\
        module.exports = async ({ args, configuration, invocation }) => {\n\
          calls += 1; seen.set(args.name, true); list.push(args.name); shared.push(args.name); Array.prototype.mine = args.name;\n\
          return { raw: { calls, seen: [...seen.keys()], list, shared, last4: new Card(args.number).last4, later: await later,\n\
            generated: generated.next().value, month: pattern.exec('12/30').groups.month, symbol: String(symbol), key: configuration.KEY,\n\
            id: invocation.id.length, attempt: invocation.attempt, kind: new ReactorRuntimeError('x') instanceof Error } };\n};";
    let script = program(code).await;
    assert!(!is_prepared(&script));
    for name in ["one", "two", "three"] {
        let raw = answer(&script, json!({"name": name, "number": "4242424242421881"})).await;
        assert_eq!(
            raw,
            json!({"calls": 1, "seen": ["top", name], "list": [1, 2, 3, name], "shared": [name], "last4": "1881",
                "later": "resolved", "generated": "second", "month": "12", "symbol": "Symbol(s)", "key": "configured",
                "id": 36, "attempt": 1, "kind": true})
        );
        assert!(is_prepared(&script), "{name}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_a_promise_at_the_top_level_is_part_of_it() {
    let leave = "module.exports = () => ({ raw: { t } });";
    for (top, expected) in [
        (format!("let t; Promise.resolve(5).then((v) => {{ t = v; }}); {leave}"), json!({"t": 5})),
        (
            format!("let t; (async () => {{ for (t = 0; t < 9; t += 1) await null; }})(); {leave}"),
            json!({"t": 9}),
        ),
        (format!("const t = 1; Promise.resolve().then(() => {{ {leave} }});"), json!({"t": 1})),
        (format!("(async () => {{ const t = await 2; {leave} }})();"), json!({"t": 2})),
    ] {
        let script = program(&top).await;
        for _ in 0..2 {
            assert_eq!(answer(&script, json!({})).await, expected, "{top}");
            assert!(is_prepared(&script), "{top}");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_promise_that_the_top_level_leaves_rejected_may_be_looked_after_in_each_run() {
    let code = "Promise.resolve().then(() => { throw new RangeError('4242'); });\n\
        const late = (async () => { await null; throw new TypeError('late'); })();\n\
        module.exports = async () => ({ raw: await late.catch((error) => error.message) });";
    let script = program(code).await;
    for _ in 0..2 {
        let outcome = run(&script, json!({})).await;
        assert_eq!(outcome.result.unwrap().raw, Some(json!("late")));
        let [line] = &outcome.log[..] else { panic!("{:?}", outcome.log) };
        let rejection = "Unhandled rejection: RangeError\n    at formula.js:1:";
        assert!(line.message.starts_with(rejection), "{}", line.message);
        assert!(is_prepared(&script));
    }
    // One that kept the script from leaving a function says why there is none.
    let script = program("(async () => {\n  await null;\n  null.member;\n})();").await;
    for _ in 0..2 {
        let outcome = run(&script, json!({})).await;
        let none = "The script must assign a function to module.exports.";
        assert_eq!(told(&outcome.result.unwrap_err()), format!("Runtime: {none} []"));
        let [why, line] = &outcome.log[..] else { panic!("{:?}", outcome.log) };
        let rejection = "Unhandled rejection: TypeError\n    at formula.js:3:";
        assert!(why.message.starts_with(rejection), "{}", why.message);
        assert_eq!(line.message, none);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_host_is_asked_for_is_asked_for_in_each_run() {
    for top in [
        "const made = crypto.randomUUID();",
        "const made = Math.random();",
        "const made = [...crypto.getRandomValues(new Uint8Array(16))].join();",
        "const made = require('crypto').randomBytes(16).toString('hex');",
        "let made; Promise.resolve().then(() => { made = Math.random(); });",
    ] {
        let script = program(&format!("{top} module.exports = () => ({{ raw: made }});")).await;
        let (one, two) = (answer(&script, json!({})).await, answer(&script, json!({})).await);
        assert_ne!(one, two, "{top}");
        assert!(!is_prepared(&script), "{top}");
    }
    for top in [
        "const made = Date.now() > 1.7e12;",
        "const made = new Date().getTime() > 1.7e12;",
        "const made = performance.now() >= 0;",
        "console.time('top'); const made = true;",
        "const made = setTimeout(() => {}, 1) > 0;",
        "const made = true; console.log('told');",
        "const made = true; queueMicrotask(() => console.log('told'));",
        "let made; (async () => { await null; made = Date.now() > 1.7e12; })();",
        "const made = true; fetch('https://nowhere.example').catch(() => {});",
    ] {
        let script = program(&format!("{top} module.exports = () => ({{ raw: made }});")).await;
        for _ in 0..2 {
            let outcome = run(&script, json!({})).await;
            let lines: Vec<&str> = outcome.log.iter().map(|line| line.message.as_str()).collect();
            let expected: &[&str] = if top.contains("told") { &["told"] } else { &[] };
            assert_eq!(lines, expected, "{top}");
            assert_eq!(outcome.result.unwrap().raw, Some(json!(true)), "{top}");
        }
        assert!(!is_prepared(&script), "{top}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_of_one_image_draw_numbers_of_their_own() {
    let code = "const draw = () => [Math.random(), crypto.randomUUID(), require('crypto').randomInt(2 ** 32)];\n\
        module.exports = () => ({ raw: draw() });";
    let script = program(code).await;
    let mut seen = Vec::new();
    for _ in 0..5 {
        let Value::Array(drawn) = answer(&script, json!({})).await else { panic!("no numbers") };
        for value in drawn {
            assert!(!seen.contains(&value), "{value} twice");
            seen.push(value);
        }
    }
    assert!(is_prepared(&script));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_top_level_that_fails_or_takes_long_is_evaluated_in_each_run() {
    let fails = program("const x = 1;\nnull.member;\nmodule.exports = () => {};").await;
    for _ in 0..2 {
        let outcome = run(&fails, json!({})).await;
        let failure = told(&outcome.result.unwrap_err());
        assert!(failure.contains("uncaught TypeError at line 2"), "{failure}");
        assert!(outcome.log[0].message.starts_with("Uncaught TypeError"), "{:?}", outcome.log);
    }
    assert!(!is_prepared(&fails));

    let endless = program("for (;;) {}").await;
    for _ in 0..2 {
        let outcome = run_within(&endless, json!({}), 20_000_000).await;
        assert_eq!(outcome.result, Err(Failure::OutOfFuel));
    }
    assert!(!is_prepared(&endless));

    let code = "const all = Array.from({ length: 40_000 }, (_, at) => ({ at, text: `number ${at}` }));\n\
        module.exports = ({ args: { at } }) => ({ raw: all[at].text + all.length });";
    let large = program(code).await;
    for at in [0, 39_999] {
        assert_eq!(answer(&large, json!({"at": at})).await, json!(format!("number {at}40000")));
    }
    assert!(!is_prepared(&large));
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_may_have_more_memory_than_the_set_up() {
    let code = "const table = new Map(); for (let at = 0; at < 6000; at += 1) table.set(`key${at}`, { at });\n\
        const zeros = new Uint8Array(3 << 20); zeros[3_000_000] = 7;\n\
        module.exports = ({ args: { at } }) => { const got = table.get(`key${at}`).at; table.clear();\n\
          const more = new Uint8Array(1 << 14);\n\
          return { raw: [got, zeros[3_000_000], zeros[2_999_999], more.every((byte) => byte === 0)] }; };";
    let script = program(code).await;
    for at in [0, 17, 5_999] {
        assert_eq!(answer(&script, json!({"at": at})).await, json!([at, 7, 0, true]));
        assert!(is_prepared(&script));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_tell_their_place_in_every_run() {
    let code = "const fail = (what) => {\n  throw new TypeError(what);\n};\nmodule.exports = ({ args }) => fail(args.what);";
    let script = program(code).await;
    for what in ["one", "two"] {
        let outcome = run(&script, json!({"what": what})).await;
        let failure = told(&outcome.result.unwrap_err());
        assert!(failure.contains("uncaught TypeError at line 2, column"), "{failure}");
        let lines = "Uncaught TypeError\n    at formula.js:2:9\n    at formula.js:4:";
        assert!(outcome.log[0].message.starts_with(lines), "{:?}", outcome.log);
    }
    assert!(is_prepared(&script));
}

#[tokio::test(flavor = "multi_thread")]
async fn runs_that_begin_together_prepare_a_script_once_and_answer_each_for_itself() {
    let code = "const table = Array.from({ length: 2000 }, (_, at) => ({ at }));\n\
        module.exports = async ({ args: { at } }) => { table[at].at += 1; await null;\n\
          return { raw: table.reduce((sum, row) => sum + row.at, 0) + at }; };";
    let script = program(code).await;
    let runs = (0..40).map(|at| {
        let script = script.clone();
        tokio::spawn(async move { answer(&script, json!({"at": at})).await })
    });
    let runs: Vec<_> = runs.collect();
    for (at, run) in runs.into_iter().enumerate() {
        assert_eq!(run.await.unwrap(), json!(1_999_000 + 1 + at));
    }
    assert!(is_prepared(&script));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_for_which_there_was_no_memory_is_prepared_by_a_later_run() {
    let config = RuntimeConfig { memory_bytes: 32 << 20, ..RuntimeConfig::new(32) };
    let runtime = Runtime::new(config).unwrap();
    let holds = "module.exports = async () => { const held = new Uint8Array(1 << 20).fill(1);\n\
          await new Promise((done) => setTimeout(done, 100_000)); return { raw: held.length }; };";
    // Parsing takes memory too: everything is there before it is gone.
    let holds = runtime.script(holds, 0).await.unwrap();
    let other = runtime.script("module.exports = () => ({ raw: 1 });", 0).await.unwrap();
    let code = "const table = Array.from({ length: 100 }, (_, at) => at); module.exports = () => ({ raw: table.length });";
    let script = runtime.script(code, 0).await.unwrap();
    let run = async |program: &Program| {
        runtime.invoke(program, call(json!({}), 10_000_000_000)).await.result
    };
    assert_eq!(run(&other).await.unwrap().raw, Some(json!(1)));
    // Runs of one owner hold what they may, one after the other.
    let mut held = Vec::new();
    while run(&other).await != Err(Failure::OwnerOutOfMemory) {
        assert!(held.len() < 15, "there is more memory than there should be");
        let (runtime, program) = (runtime.clone(), holds.clone());
        held.push(tokio::spawn(async move {
            runtime.invoke(&program, call(json!({}), 10_000_000_000)).await
        }));
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    assert_eq!(run(&script).await, Err(Failure::OwnerOutOfMemory));
    assert!(!is_prepared(&script));
    held.iter().for_each(JoinHandle::abort);
    let again = async { while run(&other).await.is_err() {} };
    tokio::time::timeout(Duration::from_mins(1), again).await.unwrap();
    assert_eq!(run(&script).await.unwrap().raw, Some(json!(100)));
    assert!(is_prepared(&script), "what kept it from being prepared was none of the script");
}
