//! One invocation inside the process: instance, call, result.
//!
//! `card_insights` is the whole of it. `instance` runs the same component on a request that it refuses at once, so that
//! nearly nothing but the sandbox is left; the difference is the formula's own work. Look at the median, and compare
//! within one run. `script_least` and `script_usual` are scripts, whose top levels are evaluated once as in the server;
//! `script_in_full` is the usual one with a top level that asks for the time, and so is parsed and evaluated in each run.
//!
//! `cargo bench --bench invoke`

#![allow(clippy::unwrap_used, missing_docs, reason = "a benchmark fails by panicking")]

use std::sync::LazyLock;
use std::time::Duration;

use divan::Bencher;
use tokamak::runtime::{Budget, Call, GuestInvocation, Program, Purpose, Runtime, RuntimeConfig};

struct World {
    threads: tokio::runtime::Runtime,
    runtime: Runtime,
    program: Program,
    least: Program,
    usual: Program,
    in_full: Program,
}

/// The least that a script can be.
const LEAST: &str = "module.exports = async (req) => ({ raw: 1 });";
/// One of the usual kind: it looks through its arguments, formats some and hands others on to be tokenized.
const USUAL: &str = "
const { BadRequestError } = require('tokamak');
const digits = (text) => text.replace(/[^0-9]/g, '');
module.exports = async function (req) {
  const { args: { card, customer }, configuration } = req;
  const number = digits(card.number);
  if (number.length < 12) throw new BadRequestError('no card', { errors: { 'args.card.number': 'too short' } });
  const month = String(card.expiration_month).padStart(2, '0');
  const name = [customer?.first, customer?.last].filter(Boolean).map((part) => part.trim()).join(' ');
  return {
    raw: { last4: number.slice(-4), expires: `${month}/${card.expiration_year % 100}`, name, mode: configuration.MODE ?? 'test' },
    tokenize: { card: { type: 'card_number', data: number, metadata: { name } } },
  };
};
";

const USUAL_ARGS: &str = r#"{"card":{"number":"4242 4242 4242 4242","expiration_month":7,"expiration_year":2031},"customer":{"first":"Ada","last":"Lovelace"}}"#;

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let threads = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let runtime = Runtime::new(RuntimeConfig::new(16)).unwrap();
    let shipped = tokamak::vault::official_component("card-insights").unwrap();
    let program = threads.block_on(runtime.compile(shipped.to_vec(), Purpose::run(1))).unwrap();
    let script = |code: &str| threads.block_on(runtime.script(code, 1)).unwrap();
    let (least, usual) = (script(LEAST), script(USUAL));
    let in_full = script(&format!("const began = Date.now();\n{USUAL}"));
    World { threads, runtime, program, least, usual, in_full }
});

fn call(args: &str) -> Call {
    Call {
        args: args.to_owned().into(),
        configuration: "{}".to_owned().into(),
        vault: None,
        http: None,
        invocation: GuestInvocation {
            id: "0192a7c0-0000-7000-8000-000000000000".to_owned(),
            reactor_id: "0192a7c0-0000-7000-8000-000000000001".to_owned(),
            attempt: 1,
            deadline_ms: 1_800_000_000_000,
        },
        owner: 1,
        budget: Budget {
            memory_bytes: 64 << 20,
            timeout: Duration::from_secs(10),
            fuel: 100_000_000_000,
        },
    }
}

fn run(bencher: Bencher<'_, '_>, program: &Program, args: &str, answers: bool) {
    bencher.bench(|| {
        let outcome = WORLD.threads.block_on(WORLD.runtime.invoke(program, call(args)));
        assert_eq!(outcome.result.is_ok(), answers);
        outcome.usage.fuel
    });
}

#[divan::bench(sample_count = 2_000, sample_size = 10)]
fn card_insights(bencher: Bencher<'_, '_>) {
    let card =
        r#"{"card":{"number":"4242424242424242","expiration_month":12,"expiration_year":2030}}"#;
    run(bencher, &WORLD.program, card, true);
}

#[divan::bench(sample_count = 2_000, sample_size = 10)]
fn instance(bencher: Bencher<'_, '_>) {
    run(bencher, &WORLD.program, "0", false);
}

#[divan::bench(sample_count = 500, sample_size = 10)]
fn script_least(bencher: Bencher<'_, '_>) {
    run(bencher, &WORLD.least, "{}", true);
}

#[divan::bench(sample_count = 500, sample_size = 10)]
fn script_usual(bencher: Bencher<'_, '_>) {
    run(bencher, &WORLD.usual, USUAL_ARGS, true);
}

#[divan::bench(sample_count = 500, sample_size = 10)]
fn script_in_full(bencher: Bencher<'_, '_>) {
    run(bencher, &WORLD.in_full, USUAL_ARGS, true);
}

fn main() {
    LazyLock::force(&WORLD);
    divan::main();
}
