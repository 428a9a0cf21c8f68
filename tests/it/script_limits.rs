//! Scripts that do not end, or take more than they may have.

use serde_json::json;

use crate::support::TestServer;
use crate::support::scripts::{program, raw, react, reactor, run, run_within, told};
use crate::support::server::Setup;

#[tokio::test(flavor = "multi_thread")]
async fn hostile_scripts_end_in_their_problems() {
    let table = [
        ("for (;;) {}", "OutOfFuel"),
        ("module.exports = async () => { for (;;) await null; }", "OutOfFuel"),
        (
            "(async () => { for (;;) await null; })(); module.exports = () => ({ raw: 1 });",
            "OutOfFuel",
        ),
        (
            "module.exports = () => new Promise((r) => { const again = () => Promise.resolve().then(again); again(); })",
            "OutOfFuel",
        ),
        ("module.exports = () => { const f = () => f() + 1; return f(); }", "uncaught RangeError"),
        (
            "module.exports = () => { const f = () => [1].map(f); return f(); }",
            "uncaught RangeError",
        ),
        // What a call takes of the stack at once is looked at before it is taken.
        (
            "module.exports = () => Math.max.bind(null, ...new Array(40000).fill(1))()",
            "uncaught RangeError",
        ),
        (
            "module.exports = () => { const f = () => JSON.stringify({ get a() { return f(); } }); return f(); }",
            "uncaught RangeError",
        ),
        (
            "module.exports = () => { let a = []; for (let i = 0; i < 1e5; i += 1) a = [a]; return { raw: a }; }",
            "",
        ),
        (
            "module.exports = () => { const all = []; for (;;) all.push(new Uint8Array(1 << 20)); }",
            "OutOfMemory",
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

/// What is thrown then may be an error that says so, another one, or nothing, as there is no memory for it.
#[tokio::test(flavor = "multi_thread")]
async fn a_script_that_needs_more_memory_than_there_is_ends_as_any_formula() {
    for made in [
        "{ a: [1, 2, 3] }",
        "() => a",
        "new Error('x')",
        "Promise.resolve({})",
        "JSON.parse('[{}]')",
        "[...'abc']",
    ] {
        let code = format!(
            "const held = new Uint8Array(61 << 20);\n\
             module.exports = async () => {{ const a = [held]; for (;;) a.push({made}); }};"
        );
        let outcome = run(&program(&code).await, json!({})).await;
        let failure = outcome.result.as_ref().map_err(told).unwrap_err();
        assert_eq!(failure, "OutOfMemory", "{made}");
        assert!(
            outcome.log.iter().all(|line| !line.message.contains("panicked")),
            "{:?}",
            outcome.log
        );
    }
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
