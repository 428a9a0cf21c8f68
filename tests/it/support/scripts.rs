//! Scripts: run by themselves in a sandbox, or as formulas of a server.

use std::time::Duration;

use serde_json::{Value, json};
use tokamak::runtime::{Budget, Call, Failure, GuestInvocation, Outcome, Program};

use super::server::shared_runtime;
use super::{Answer, TestServer, guests};

/// A script as a program of the sandbox that all tests share.
pub async fn program(code: &str) -> Program {
    shared_runtime().script(code, 0).await.unwrap()
}

/// Runs a program with nothing around it.
pub async fn run(program: &Program, args: Value) -> Outcome {
    run_within(program, args, 10_000_000_000).await
}

/// The same with so much fuel.
pub async fn run_within(program: &Program, args: Value, fuel: u64) -> Outcome {
    shared_runtime().invoke(program, call(args, fuel)).await
}

/// A call with these arguments and so much fuel, and nothing around it.
pub fn call(args: Value, fuel: u64) -> Call {
    Call {
        args: args.to_string().into(),
        configuration: json!({ "KEY": "configured" }).to_string().into(),
        vault: None,
        http: None,
        invocation: GuestInvocation {
            id: "0192a7c0-0000-7000-8000-000000000000".to_owned(),
            reactor_id: "0192a7c0-0000-7000-8000-000000000001".to_owned(),
            attempt: 1,
            deadline_ms: 1_800_000_000_000,
        },
        owner: 0,
        budget: Budget { memory_bytes: 64 << 20, timeout: Duration::from_mins(2), fuel },
    }
}

/// A failure with the formula's own words, which its `Debug` leaves out.
pub fn told(failure: &Failure) -> String {
    match failure {
        Failure::Reported { kind, detail, errors } => format!("{kind:?}: {detail} {errors:?}"),
        other => format!("{other:?}"),
    }
}

/// What a script answers with as `raw`.
pub async fn raw(code: &str, args: Value) -> Value {
    let outcome = run(&program(code).await, args).await;
    let lines: Vec<&str> = outcome.log.iter().map(|line| line.message.as_str()).collect();
    outcome.result.unwrap_or_else(|failure| panic!("{failure:?} {lines:?}")).raw.unwrap_or_default()
}

/// Evaluates expressions in one run, each on its own; `await` works in them.
pub async fn evaluate(expressions: &[&str]) -> Vec<Value> {
    let each = expressions.iter().map(|expression| {
        format!("await (async () => {{ try {{ return {expression}; }} catch (e) {{ return `${{e.name}}: ${{e.message}}`; }} }})()")
    });
    let each: Vec<String> = each.collect();
    let code = format!("module.exports = async (req) => ({{ raw: [\n{}\n] }});", each.join(",\n"));
    let Value::Array(values) = raw(&code, json!({})).await else { panic!("no array") };
    values
}

/// Makes a formula of a script; `members` are added to the request. Gives its id.
pub async fn formula(server: &TestServer, code: &str, members: Value) -> String {
    let mut body = json!({ "name": "script", "language": "javascript", "code": code });
    for (name, value) in members.as_object().unwrap() {
        body[name] = value.clone();
    }
    let answer = server.management.post("/reactor-formulas", body).await;
    answer.expect(201)["id"].as_str().unwrap().to_owned()
}

/// Makes a formula and a reactor of it. Gives the address to invoke it at.
pub async fn reactor(
    server: &TestServer,
    code: &str,
    formula_members: Value,
    members: Value,
) -> String {
    let id = formula(server, code, formula_members).await;
    let reactor = guests::reactor(server, &id, members).await;
    format!("/reactors/{reactor}/react")
}

/// Invokes it.
pub async fn react(server: &TestServer, path: &str, args: Value) -> Answer {
    server.private.post(path, json!({ "args": args })).await
}
