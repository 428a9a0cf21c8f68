//! One invocation inside the process: instance, call, result.
//!
//! `card_insights` is the whole of it. `instance` runs the same component on a request that it refuses at once, so that
//! nearly nothing but the sandbox is left; the difference is the formula's own work. Look at the median, and compare
//! within one run.
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
}

static WORLD: LazyLock<World> = LazyLock::new(|| {
    let threads = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let runtime = Runtime::new(RuntimeConfig::new(16)).unwrap();
    let shipped = tokamak::vault::official_component("card-insights").unwrap();
    let program = threads.block_on(runtime.compile(shipped.to_vec(), Purpose::run(1))).unwrap();
    World { threads, runtime, program }
});

fn call(args: &str) -> Call {
    Call {
        args: args.to_owned(),
        configuration: "{}".to_owned(),
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

fn run(bencher: Bencher<'_, '_>, args: &str, answers: bool) {
    bencher.bench(|| {
        let outcome = WORLD.threads.block_on(WORLD.runtime.invoke(&WORLD.program, call(args)));
        assert_eq!(outcome.result.is_ok(), answers);
        outcome.usage.fuel
    });
}

#[divan::bench(sample_count = 2_000, sample_size = 10)]
fn card_insights(bencher: Bencher<'_, '_>) {
    let card =
        r#"{"card":{"number":"4242424242424242","expiration_month":12,"expiration_year":2030}}"#;
    run(bencher, card, true);
}

#[divan::bench(sample_count = 2_000, sample_size = 10)]
fn instance(bencher: Bencher<'_, '_>) {
    run(bencher, "0", false);
}

fn main() {
    LazyLock::force(&WORLD);
    divan::main();
}
