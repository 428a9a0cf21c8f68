//! Compiling: in a process of its own that is bounded, holds nobody up, and is gone when nobody waits for it.

use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use tokamak::runtime::{CompileBounds, Compiler, Runtime, RuntimeConfig};

use crate::support::binary::{MANAGEMENT_KEY, Process, ROOT_KEY, command, compiling, eventually};
use crate::support::hostile_components::{
    copied, described, hungry, nested, slow, sparse, variant,
};
use crate::support::server::{Setup, runtime};
use crate::support::{Answer, Client, TestServer, guests};

const MEMORY_MB: u64 = 1_536;

/// A server that lets each compilation take this much computing time.
async fn server(cpu_seconds: u64) -> TestServer {
    let bounds = CompileBounds { memory_mb: MEMORY_MB, cpu_seconds };
    let runtime = Some(runtime(4, bounds, None));
    TestServer::start_with(Setup { runtime, ..Setup::default() }).await
}

async fn upload(client: &Client, component: &[u8]) -> Answer {
    client.post("/reactor-formulas", guests::upload(component)).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_costs_the_compiler_too_much_is_refused_and_the_server_lives() {
    // The bound that ends each first is its own: time for one, memory for the other.
    for (name, component, cpu_seconds) in [
        ("slow", slow(), 1),
        ("nested", nested(), 1),
        ("hungry", hungry(), 60),
        ("copied", copied(), 60),
    ] {
        let server = server(cpu_seconds).await;
        let began = Instant::now();
        let problem = upload(&server.management, &component).await.expect(422);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.starts_with("Compiling the component takes too much "), "{name}: {problem}");
        // A processor that is shared may take its time, but not for ever.
        assert!(began.elapsed() < Duration::from_mins(5), "{name}: {:?}", began.elapsed());
        let found = server.management.get("/reactor-formulas").await.expect(200);
        let own = found["data"].as_array().unwrap().iter().filter(|f| f["type"] == "private");
        assert_eq!(own.count(), 0, "{name}");
    }
    let server = server(60).await;
    let reactor = guests::echo_reactor(&server).await;
    server.private.post(&format!("/reactors/{reactor}/react"), json!({})).await.expect(200);
}

#[tokio::test(flavor = "multi_thread")]
async fn all_who_wait_for_a_component_learn_of_one_try() {
    // As many uploads as a tenant may have at a time.
    const AT_ONCE: usize = 4;
    // More time than requests that are sent at once may lie apart.
    let server = server(15).await;
    let body = guests::upload(&slow());
    let uploads = (0..AT_ONCE).map(|_| {
        let (client, body) = (server.management.clone(), body.clone());
        tokio::spawn(async move { client.post("/reactor-formulas", body).await })
    });
    let mut uploads: Vec<_> = uploads.collect();
    let mut tries = std::collections::BTreeSet::new();
    while !uploads.iter().all(tokio::task::JoinHandle::is_finished) {
        tries.extend(compiling(std::process::id(), "--cpu-seconds 15"));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    for upload in &mut uploads {
        upload.await.unwrap().expect(422);
    }
    assert_eq!(tries.len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_that_does_not_compile_is_told_why() {
    let server = server(60).await;
    let core = guests::CORE_MODULE;
    assert!(upload(&server.management, core).await.expect(422)["detail"].is_string());
    // Valid, but nothing that runs here: the world is looked at after compiling.
    let text =
        r#"(component (instance $i) (export "tokamak:formula/reactor@1.0.0" (instance $i)))"#;
    let problem = upload(&server.management, &wat::parse_str(text).unwrap()).await.expect(422);
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("another world"), "{detail}");
    // The right name, and a function that takes and gives nothing.
    let text = r#"(component
        (core module $m (func (export "f")))
        (core instance $i (instantiate $m))
        (func $f (canon lift (core func $i "f")))
        (instance $r (export "react" (func $f)))
        (export "tokamak:formula/reactor@1.0.0" (instance $r)))"#;
    let problem = upload(&server.management, &wat::parse_str(text).unwrap()).await.expect(422);
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("another world"), "{detail}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_whose_code_would_take_many_times_as_much_once_it_is_loaded_is_refused() {
    let server = server(60).await;
    let problem = upload(&server.management, &described()).await.expect(422);
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.starts_with("The component has too many types, imports, exports"), "{detail}");
    // Bytes that lie far apart make no image of what is between, which would be more than is kept.
    let problem = upload(&server.management, &sparse()).await.expect(422);
    assert!(problem["detail"].as_str().unwrap().contains("another world"), "{problem}");
}

/// A component that imports this function of the contract, and a `reactor` in this version.
fn of_contract(version: &str, function: &str, reactor: &str) -> Vec<u8> {
    let text = format!(
        r#"(component
            (import "tokamak:formula/http@{version}" (instance (export "{function}" (func))))
            (instance $i)
            (export "tokamak:formula/reactor@{reactor}" (instance $i)))"#
    );
    wat::parse_str(text).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_does_not_fit_of_a_component_is_named_and_whether_it_was_built_for_a_later_host() {
    let server = server(63).await;
    for (component, told) in [
        (of_contract("1.1.0", "begun", "1.1.0"), ["another world", "`begun`"]),
        (
            of_contract("1.9.0", "begun", "1.1.0"),
            ["built for tokamak:formula/http@1.9.0", "`begun`"],
        ),
        (of_contract("1.9.0", "begun", "1.1.0"), ["has tokamak:formula/reactor@1.1.0", "`begun`"]),
        (of_contract("2.0.0", "begun", "1.1.0"), ["imports tokamak:formula/http@2.0.0", "provide"]),
        (of_contract("1.1.0", "begun", "2.0.0"), ["not export", "reactor of version 1"]),
        (of_contract("1.1.0", "begun", "0.9.0"), ["not export", "reactor of version 1"]),
    ] {
        let problem = upload(&server.management, &component).await.expect(422);
        let detail = problem["detail"].as_str().unwrap();
        assert!(told.iter().all(|part| detail.contains(part)), "{told:?}: {detail}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_of_more_parts_than_a_slot_has_room_for_is_told_so() {
    let server = server(62).await;
    let component = |instances: usize| {
        let instances = "(core instance (instantiate $m))".repeat(instances);
        let export = r#"(export "tokamak:formula/reactor@1.0.0" (instance $i))"#;
        let text = format!("(component (core module $m) {instances} (instance $i) {export})");
        wat::parse_str(text).unwrap()
    };
    for (instances, told) in [(64, "another world"), (65, "64 instances of core modules")] {
        let problem = upload(&server.management, &component(instances)).await.expect(422);
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(told), "{instances}: {detail}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_small_component_does_not_wait_behind_a_large_one() {
    let server = server(61).await;
    let large = variant(&slow(), &vec![0; 600 << 10]);
    let client = server.management.clone();
    let uploading = tokio::spawn(async move { upload(&client, &large).await });
    let at_work = || compiling(std::process::id(), "--cpu-seconds 61").pop();
    let child = eventually("process that compiles the large one", at_work).await;
    upload(&server.management, guests::component("bare")).await.expect(201);
    assert!(!uploading.is_finished());
    assert!(compiling(std::process::id(), "--cpu-seconds 61").contains(&child));
    uploading.abort();
}

/// What the kernel tells of a process.
fn told(id: u32, file: &str) -> String {
    std::fs::read_to_string(format!("/proc/{id}/{file}")).unwrap()
}

/// Uploads what takes long to compile; gives the process that does, and the upload.
async fn begin(process: &Process) -> (u32, tokio::task::JoinHandle<Answer>) {
    let client = process.management();
    let uploading = tokio::spawn(async move { upload(&client, &slow()).await });
    let parent = process.id();
    // The formulas that ship come first.
    let at_work = move || {
        compiling(parent, "").into_iter().find(|id| {
            let stat = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
            // The fourteenth field: computing time, in hundredths of a second.
            let time = stat.split_whitespace().nth(13).and_then(|time| time.parse::<u64>().ok());
            time.is_some_and(|time| time > 300)
        })
    };
    (eventually("process that compiles for long", at_work).await, uploading)
}

async fn gone(id: u32) {
    let look = || (!std::path::Path::new(&format!("/proc/{id}")).exists()).then_some(());
    eventually("end of the process that compiles", look).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_is_stopped_does_not_wait_for_the_compiler() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(folder.path());
    let (child, uploading) = begin(&process).await;
    // The process that compiles knows no key of ours, and is bounded.
    assert_eq!(told(child, "environ"), "RAYON_NUM_THREADS=2\0");
    let limits = told(child, "limits");
    let limit = |name: &str| {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
        line[name.len()..].split_whitespace().next().unwrap().to_owned()
    };
    assert_eq!(limit("Max address space"), (2_048_u64 << 20).to_string());
    assert_eq!(limit("Max cpu time"), "60");
    assert_eq!(limit("Max core file size"), "0");
    assert_eq!(limit("Max file size"), "0");
    // Its caller hangs up; compiling goes on, for whoever comes next.
    uploading.abort();
    let _ = uploading.await;
    let began = Instant::now();
    assert_eq!(process.terminate(), Some(0));
    // Less than the minute that the compiler has.
    assert!(began.elapsed() < Duration::from_secs(50), "{:?}", began.elapsed());
    gone(child).await;
}

/// A server that is confined lets nothing that it starts say so: this one is not.
#[tokio::test(flavor = "multi_thread")]
async fn without_memory_the_compiler_is_ended_before_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let mut serve = command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--log", "warn", "--confine=false"]);
    serve.arg("--data-dir").arg(folder.path());
    serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
    let process = Process::start(serve);
    // It says so before it compiles, and this one has done so for long.
    let (child, uploading) = begin(&process).await;
    assert_eq!(told(child, "oom_score_adj").trim(), "1000");
    assert_ne!(told(process.id(), "oom_score_adj").trim(), "1000");
    // Which is the fault of nobody's component.
    let child = Pid::from_raw(i32::try_from(child).unwrap()).unwrap();
    kill_process(child, Signal::KILL).unwrap();
    let answer = uploading.await.unwrap();
    let problem = answer.expect(503);
    assert!(problem["detail"].as_str().unwrap().contains("no memory left"), "{problem}");
    assert!(answer.headers["retry-after"].to_str().unwrap().parse::<u32>().unwrap() > 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_compiler_does_not_outlive_a_server_that_crashed() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(folder.path());
    let (child, uploading) = begin(&process).await;
    process.kill();
    gone(child).await;
    uploading.abort();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_formula_is_not_compiled_in_time_is_told_so_and_to_come_again() {
    let folder = tempfile::tempdir().unwrap();
    let setup = |react_timeout_ms| Setup {
        folder: Some(folder.path().to_owned()),
        react_timeout_ms,
        runtime: Some(runtime(4, CompileBounds::default(), None)),
        ..Setup::default()
    };
    let first = TestServer::start_with(setup(10_000)).await;
    let reactor = guests::echo_reactor(&first).await;
    let keys = [&first.management, &first.private].map(|client| client.key.clone().unwrap());
    first.stop().await;
    // Far less than the process needs to start.
    let second = TestServer::start_with(setup(40)).await;
    let [management, private] = keys.map(|key| second.client(&key));
    let path = format!("/reactors/{reactor}/react");
    let answer = private.post(&path, json!({})).await;
    let problem = answer.expect(503);
    assert_eq!(problem["title"], "Formula Still Compiling");
    assert!(problem["detail"].as_str().unwrap().contains("did not begin"), "{problem}");
    assert!(answer.headers["retry-after"].to_str().unwrap().parse::<u32>().unwrap() > 0);
    let runs = management.get(&format!("/reactors/{reactor}/invocations")).await.expect(200);
    let run: &Value = &runs["data"][0];
    assert_eq!((&run["status"], &run["fuel"]), (&json!("failed"), &json!(0)));
    assert_eq!(run["error"], problem["title"]);
    // What it began is finished for those that come after.
    let mut answered = false;
    for _ in 0..1_800 {
        answered = private.post(&path, json!({})).await.status == 200;
        if answered {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    assert!(answered);
}

/// A runtime whose compiler is not there.
fn without_a_compiler() -> Runtime {
    let program = "/nowhere/tokamak".into();
    let compiler = Compiler::Process { program, bounds: CompileBounds::default() };
    Runtime::new(RuntimeConfig { compiler, ..RuntimeConfig::new(2) }).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_that_were_opened_are_in_the_log_when_the_program_cannot_be_had() {
    let folder = tempfile::tempdir().unwrap();
    let setup = |runtime| Setup {
        folder: Some(folder.path().to_owned()),
        runtime: Some(runtime),
        ..Setup::default()
    };
    let first = TestServer::start_with(setup(runtime(2, CompileBounds::default(), None))).await;
    let reactor = guests::echo_reactor(&first).await;
    let token = first.private.token("card_number", json!("4242424242424242")).await;
    let keys = [&first.management, &first.private].map(|client| client.key.clone().unwrap());
    first.stop().await;
    let second = TestServer::start_with(setup(without_a_compiler())).await;
    let [management, private] = keys.map(|key| second.client(&key));
    let args = json!({"args": {"number": format!("{{{{ {token} }}}}")}});
    let problem = private.post(&format!("/reactors/{reactor}/react"), args).await.expect(500);
    assert_eq!(problem["detail"], "The server failed to handle the request.");
    let path = format!("/logs?entity_type=token&entity_id={token}");
    let logs = management.get(&path).await.expect(200);
    let used = |entry: &Value| entry["operation"] == "use";
    assert!(logs["data"].as_array().unwrap().iter().any(used), "{logs}");
    // It did not run, and is no invocation.
    let runs = management.get(&format!("/reactors/{reactor}/invocations")).await.expect(200);
    assert_eq!(runs["pagination"]["total_items"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_compiler_that_cannot_be_started_is_a_fault_of_ours() {
    let runtime = Some(without_a_compiler());
    let server = TestServer::start_with(Setup { runtime, ..Setup::default() }).await;
    let answer = upload(&server.management, guests::component("bare")).await;
    let problem = answer.expect(500);
    assert_eq!(problem["detail"], "The server failed to handle the request.");
    assert!(!answer.text().contains("nowhere"));
    server.private.token("token", json!(1)).await;
}
