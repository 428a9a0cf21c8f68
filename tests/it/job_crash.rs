//! Asynchronous runs and `kill -9` of the real binary: one result each, at least one delivery, and never a second run of
//! what had begun (decisions §7).

use std::collections::HashMap;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::binary::{MANAGEMENT_KEY, Process, ROOT_KEY, assert_sound, command};
use crate::support::operator::done;
use crate::support::receiver::{Action, Receiver};
use crate::support::{Client, guests};

fn serve(folder: &Path) -> Process {
    serve_with(folder, &[])
}

fn serve_with(folder: &Path, options: &[&str]) -> Process {
    let open = ["--allow-private-networks", "--allow-http-callbacks"];
    serve_as(folder, &[&open[..], options].concat())
}

/// A server of these options, which may reach nothing of this machine without one.
fn serve_as(folder: &Path, options: &[&str]) -> Process {
    let mut serve = command();
    serve.arg("serve").args(options);
    serve.args(["--listen", "127.0.0.1:0", "--cache-mb", "32", "--log", "error"]);
    serve.arg("--data-dir").arg(folder);
    serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
    Process::start(serve)
}

struct Site {
    key: String,
    reactor: String,
}

impl Site {
    async fn set_up(process: &Process) -> Self {
        let management = process.management();
        let body = json!({"name": "p", "type": "private",
            "permissions": ["token:use", "token:create", "token:read", "token:search"]});
        let made = management.post("/applications", body).await.expect(201);
        let formula = guests::send(&management, "probe", json!({})).await;
        let body = json!({"name": "r", "formula": {"id": formula}, "configuration": {},
            "application": {"id": made["id"]}});
        let reactor = management.post("/reactors", body).await.expect(201);
        Self {
            key: made["key"].as_str().unwrap().to_owned(),
            reactor: reactor["id"].as_str().unwrap().to_owned(),
        }
    }

    fn client(&self, process: &Process) -> Client {
        Client::new(process.address, Some(&self.key))
    }

    async fn queue(&self, client: &Client, args: &Value, url: &str) -> Option<String> {
        let body = json!({"args": args, "callback_url": url, "timeout_ms": 200_000});
        let path = format!("/reactors/{}/react", self.reactor);
        let request = client.request(reqwest::Method::POST, &path).json(&body);
        let answer = request.send().await.ok()?;
        let accepted = answer.status() == 202;
        let place = answer.headers().get("location")?.to_str().ok()?.to_owned();
        accepted.then_some(place)
    }
}

async fn wait_for(client: &Client, place: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let result = client.get(place).await.expect(200);
        if wanted(&result) {
            return result;
        }
        assert!(began.elapsed() < Duration::from_mins(3), "{result}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

fn delivered(result: &Value) -> bool {
    result["delivery"]["status"] == "delivered"
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_while_it_runs_it_is_interrupted_and_not_run_again() {
    let folder = tempfile::tempdir().unwrap();
    let process = serve(folder.path());
    let site = Site::set_up(&process).await;
    let receiver = Receiver::start().await;
    let client = site.client(&process);
    let args = json!({"behaviour": "sleep", "ms": 100_000});
    let place = site.queue(&client, &args, &receiver.url()).await.unwrap();
    wait_for(&client, &place, |result| result["status"] == "running").await;
    process.kill();
    let process = serve(folder.path());
    let client = site.client(&process);
    let result = wait_for(&client, &place, delivered).await;
    assert_eq!(
        (&result["status"], &result["error"]["title"]),
        (&json!("failed"), &json!("Reactor Interrupted"))
    );
    let told = receiver.wait(1).await[0].json();
    assert_eq!(
        (&told["type"], &told["data"]["error"]),
        (&json!("reactor.failed"), &result["error"])
    );
    assert_eq!(process.terminate(), Some(0));
}

/// A backup does not know whether what waited when it was made has run since.
#[tokio::test(flavor = "multi_thread")]
async fn a_restored_vault_runs_nothing_that_was_accepted_before_its_backup() {
    let folder = tempfile::tempdir().unwrap();
    let (data, to, restored) =
        (folder.path().join("data"), folder.path().join("backup"), folder.path().join("restored"));
    let process = serve_with(&data, &["--reactor-jobs", "1"]);
    let site = Site::set_up(&process).await;
    let receiver = Receiver::start().await;
    let client = site.client(&process);
    let sleep = json!({"behaviour": "sleep", "ms": 100_000});
    let running = site.queue(&client, &sleep, &receiver.url()).await.unwrap();
    wait_for(&client, &running, |result| result["status"] == "running").await;
    let waits = site.queue(&client, &json!({}), &receiver.url()).await.unwrap();
    assert_eq!(client.get(&waits).await.expect(200)["status"], "queued");
    done(&data, None, &["backup", "--to", to.to_str().unwrap()]);
    process.kill();

    let from = ["restore", "--json", "--from", to.to_str().unwrap()];
    let told: Value = serde_json::from_str(&done(&restored, Some(ROOT_KEY), &from)).unwrap();
    assert_eq!((&told["runs_interrupted"], &told["sound"]), (&json!(2), &json!(true)));
    assert_sound(&restored);
    let process = serve(&restored);
    let client = site.client(&process);
    for place in [&running, &waits] {
        let result = wait_for(&client, place, delivered).await;
        assert_eq!(
            (&result["status"], &result["error"]["title"]),
            (&json!("failed"), &json!("Reactor Interrupted"))
        );
        assert!(result["error"]["detail"].as_str().unwrap().contains("restored from a backup"));
    }
    for hook in receiver.wait(2).await {
        assert_eq!(hook.json()["type"], "reactor.failed");
    }
    assert_eq!(process.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_while_it_waits_it_runs_after_the_restart() {
    let folder = tempfile::tempdir().unwrap();
    let process = serve(folder.path());
    let site = Site::set_up(&process).await;
    let receiver = Receiver::start().await;
    let client = site.client(&process);
    let sleep = json!({"behaviour": "sleep", "ms": 100_000});
    let mut running = Vec::new();
    // As many as one tenant's runs at a time.
    for _ in 0..32 {
        running.push(site.queue(&client, &sleep, &receiver.url()).await.unwrap());
    }
    for place in &running {
        wait_for(&client, place, |result| result["status"] == "running").await;
    }
    let args = json!({"behaviour": "respond", "raw": "after the restart"});
    let waiting = site.queue(&client, &args, &receiver.url()).await.unwrap();
    process.kill();
    let process = serve(folder.path());
    let client = site.client(&process);
    let result = wait_for(&client, &waiting, delivered).await;
    assert_eq!(result["response"], json!({"raw": "after the restart"}));
    for place in &running {
        let result = wait_for(&client, place, delivered).await;
        assert_eq!(result["error"]["title"], "Reactor Interrupted");
    }
    assert_eq!(receiver.wait(33).await.len(), 33);
}

#[tokio::test(flavor = "multi_thread")]
async fn killed_before_it_was_told_it_is_told_after_the_restart() {
    let folder = tempfile::tempdir().unwrap();
    let process = serve(folder.path());
    let site = Site::set_up(&process).await;
    let client = site.client(&process);
    // The first try is under way when the server dies; the second comes from its successor.
    let receiver = Receiver::with(|number| match number {
        0 => Action::After(Duration::from_secs(30)),
        _ => Action::Answer(200),
    })
    .await;
    let args = json!({"behaviour": "respond", "raw": 7});
    let place = site.queue(&client, &args, &receiver.url()).await.unwrap();
    receiver.wait(1).await;
    process.kill();
    let process = serve(folder.path());
    let result = wait_for(&site.client(&process), &place, delivered).await;
    assert_eq!(result["response"], json!({"raw": 7}));
    let hooks = receiver.wait(2).await;
    assert_eq!(hooks[0].header("webhook-id"), hooks[1].header("webhook-id"));
    assert_eq!(hooks[0].bytes, hooks[1].bytes);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_queued_over_http_is_not_told_once_that_is_forbidden() {
    let folder = tempfile::tempdir().unwrap();
    let process = serve(folder.path());
    let site = Site::set_up(&process).await;
    let client = site.client(&process);
    let receiver = Receiver::with(|number| match number {
        0 => Action::After(Duration::from_secs(30)),
        _ => Action::Answer(200),
    })
    .await;
    let args = json!({"behaviour": "echo"});
    let place = site.queue(&client, &args, &receiver.url()).await.unwrap();
    receiver.wait(1).await;
    process.kill();
    let process = serve_as(folder.path(), &["--allow-private-networks"]);
    let tried = |result: &Value| result["delivery"]["attempts"].as_u64() >= Some(1);
    let result = wait_for(&site.client(&process), &place, tried).await;
    let delivery = &result["delivery"];
    assert_eq!(delivery["status"], "pending", "{delivery}");
    assert_eq!(delivery["last_error"], "denied: the address must begin with https://");
    assert_eq!(receiver.seen().len(), 1);
    assert_eq!(process.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restart_goes_on_with_the_schedule() {
    let folder = tempfile::tempdir().unwrap();
    let process = serve(folder.path());
    let site = Site::set_up(&process).await;
    let client = site.client(&process);
    let receiver = Receiver::with(|_| Action::With(503, "retry-after", "3600".to_owned())).await;
    let args = json!({"behaviour": "echo"});
    let place = site.queue(&client, &args, &receiver.url()).await.unwrap();
    let tried = |result: &Value| result["delivery"]["attempts"] == 1;
    let before = wait_for(&client, &place, tried).await;
    assert_eq!(process.terminate(), Some(0));
    let process = serve(folder.path());
    tokio::time::sleep(Duration::from_millis(1_500)).await;
    let after = wait_for(&site.client(&process), &place, tried).await;
    assert_eq!(after["delivery"], before["delivery"]);
    assert_eq!(receiver.seen().len(), 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_lets_a_short_run_finish() {
    let folder = tempfile::tempdir().unwrap();
    let process = serve(folder.path());
    let site = Site::set_up(&process).await;
    let client = site.client(&process);
    let receiver = Receiver::start().await;
    let args = json!({"behaviour": "sleep", "ms": 8_000});
    let place = site.queue(&client, &args, &receiver.url()).await.unwrap();
    wait_for(&client, &place, |result| result["status"] == "running").await;
    assert_eq!(process.terminate(), Some(0));
    let process = serve(folder.path());
    let result = wait_for(&site.client(&process), &place, delivered).await;
    assert_eq!(result["status"], "completed");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stop_begins_nothing_more() {
    let folder = tempfile::tempdir().unwrap();
    let process = serve(folder.path());
    let site = Site::set_up(&process).await;
    let client = site.client(&process);
    let receiver = Receiver::start().await;
    let sleep = json!({"behaviour": "sleep", "ms": 8_000});
    for _ in 0..32 {
        site.queue(&client, &sleep, &receiver.url()).await.unwrap();
    }
    let args = json!({"behaviour": "respond", "raw": "not before the restart"});
    let waiting = site.queue(&client, &args, &receiver.url()).await.unwrap();
    assert_eq!(process.terminate(), Some(0));
    let process = serve(folder.path());
    let client = site.client(&process);
    let result = wait_for(&client, &waiting, delivered).await;
    assert_eq!(
        (&result["status"], &result["response"]["raw"]),
        (&json!("completed"), &json!("not before the restart"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn an_interrupted_run_is_in_the_log_with_what_it_was_given() {
    let folder = tempfile::tempdir().unwrap();
    let process = serve(folder.path());
    let site = Site::set_up(&process).await;
    let client = site.client(&process);
    let receiver = Receiver::start().await;
    let token = client.token("card_number", json!("4242424242424242")).await;
    let args = json!({"behaviour": "sleep", "ms": 100_000, "card": format!("{{{{ {token} }}}}")});
    let place = site.queue(&client, &args, &receiver.url()).await.unwrap();
    wait_for(&client, &place, |result| result["status"] == "running").await;
    process.kill();
    let process = serve(folder.path());
    wait_for(&site.client(&process), &place, delivered).await;
    let entries = process.management().get(&format!("/logs?entity_id={token}")).await.text();
    assert_eq!(entries.matches("Token used by reactor").count(), 1, "{entries}");
    let entries = process.management().get(&format!("/logs?entity_id={}", site.reactor)).await;
    assert!(entries.text().contains("Reactor invoked: Reactor Interrupted"));
    let path = format!("/reactors/{}/invocations", site.reactor);
    let listed = process.management().get(&path).await.expect(200);
    assert_eq!(listed["data"][0]["error"], "Reactor Interrupted");
    let counted = "tokamak_invocations_total{outcome=\"Reactor Interrupted\"}";
    assert_eq!(process.figure(counted).await, Some(1));
    // Whoever ends a server ends its runs.
    assert_eq!(process.figure("tokamak_faults_total").await, Some(0));
}

/// Rounds of load, each ended by a kill at another moment.
const ROUNDS: u64 = 4;
/// Runs that each of three callers asks for in a round, at most.
const RUNS_MAX: usize = 16;
/// Runs that are accepted in a round before its kill, at least.
const ACCEPTED_MIN: usize = 6;

#[tokio::test(flavor = "multi_thread")]
async fn under_load_and_kills_every_accepted_run_ends_once_and_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let receiver = Receiver::listening(listener, |_| Action::Answer(200));
    let process = serve(folder.path());
    let site = Site::set_up(&process).await;
    process.kill();
    let mut accepted = Vec::new();
    for round in 0..ROUNDS {
        let process = serve(folder.path());
        let client = site.client(&process);
        let load_time = Duration::from_millis(130 + round * 430);
        let count = AtomicUsize::new(0);
        let load = async |worker: u64| {
            let mut accepted = Vec::new();
            while accepted.len() < RUNS_MAX {
                // What a run does is to make one token that names it: runs are counted by what they left.
                let name = format!("run-{round}-{worker}-{}", accepted.len());
                let args = json!({"behaviour": "svc", "operation": "tokenize", "input": {
                    "type": "token", "data": 1, "metadata": {"run": name}
                }});
                match site.queue(&client, &args, &receiver.url()).await {
                    Some(place) => {
                        accepted.push((place, name));
                        count.fetch_add(1, Ordering::Relaxed);
                    }
                    // The server is dead.
                    None => break,
                }
            }
            accepted
        };
        let killed = async {
            tokio::time::sleep(load_time).await;
            let began = Instant::now();
            while count.load(Ordering::Relaxed) < ACCEPTED_MIN {
                assert!(began.elapsed() < Duration::from_mins(3), "hardly a run is accepted");
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
            process.kill();
        };
        let (a, b, c, ()) = tokio::join!(load(1), load(2), load(3), killed);
        accepted.extend(a.into_iter().chain(b).chain(c));
    }
    assert!(accepted.len() > 20, "only {} were accepted", accepted.len());
    let process = serve(folder.path());
    let client = site.client(&process);
    let (mut completed, mut interrupted) = (0, 0);
    for (place, name) in &accepted {
        let result = wait_for(&client, place, delivered).await;
        let found = client.search(&format!("metadata.run:{name}")).await;
        // One that was interrupted may have come as far as its token.
        assert!(found.len() <= 1, "{name} ran {} times: {result}", found.len());
        if result["status"] == "completed" {
            completed += 1;
            assert_eq!(found.len(), 1, "{name}: {result}");
        } else {
            interrupted += 1;
            assert_eq!(result["error"]["title"], "Reactor Interrupted", "{result}");
        }
    }
    let mut told: HashMap<String, Vec<Value>> = HashMap::new();
    for hook in receiver.seen() {
        let body = hook.json();
        told.entry(hook.header("webhook-id").to_owned()).or_default().push(body);
    }
    for (place, name) in &accepted {
        let bodies = &told[place.rsplit('/').next().unwrap()];
        assert!(bodies.iter().all(|body| *body == bodies[0]), "{name} has two results");
    }
    println!("{completed} completed, {interrupted} interrupted");
    assert!(completed > 0);
    assert_eq!(process.terminate(), Some(0));
    assert_sound(folder.path());
}

/// Somebody waits for it, so that no job tells of it: only the log does.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_somebody_waits_for_is_in_the_log_though_the_server_is_killed() {
    let folder = tempfile::tempdir().unwrap();
    let process = serve(folder.path());
    let site = Site::set_up(&process).await;
    let client = site.client(&process);
    let path = format!("/reactors/{}/react", site.reactor);
    let body = json!({"args": {"behaviour": "sleep", "ms": 9_000}});
    let run = client.request(reqwest::Method::POST, &path).json(&body).send();
    let run = tokio::spawn(run);
    let entries = format!("/logs?entity_id={}&size=100", site.reactor);
    let begun = async |process: &Process| {
        let text = process.management().get(&entries).await.text();
        (text.matches("Reactor run begun").count(), text.matches("Reactor invoked").count())
    };
    let began = Instant::now();
    while begun(&process).await.0 == 0 {
        assert!(began.elapsed() < Duration::from_mins(1));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    process.kill();
    assert!(run.await.unwrap().is_err());
    let process = serve(folder.path());
    assert_eq!(begun(&process).await, (1, 0));
    // One that ends is told of twice.
    let body = json!({"args": {"behaviour": "echo"}});
    site.client(&process).post(&path, body).await.expect(200);
    assert_eq!(begun(&process).await, (2, 1));
}
