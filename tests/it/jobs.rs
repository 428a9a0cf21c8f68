//! Asynchronous runs (interface §4.5, §6; decisions §7).

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokamak::config::JobLimits;

use crate::support::receiver::{Action, Receiver};
use crate::support::server::{START_MS, Setup};
use crate::support::{Answer, Client, TestServer, guests};

const HOUR_MS: u64 = 3_600_000;

/// A server with a reactor of `probe`.
async fn server() -> (TestServer, String) {
    let server = TestServer::start_with(Setup::open()).await;
    let formula = guests::formula(&server, "probe", json!({})).await;
    let reactor = guests::reactor(&server, &formula, json!({})).await;
    (server, reactor)
}

async fn queue(client: &Client, reactor: &str, args: Value, callback: &str) -> Answer {
    let body = json!({"args": args, "callback_url": callback});
    client.post(&format!("/reactors/{reactor}/react"), body).await
}

fn location(queued: &Answer) -> String {
    queued.headers["location"].to_str().unwrap().to_owned()
}

/// Asks for a result until it is as wanted.
async fn result(client: &Client, location: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let result = client.get(location).await.expect(200);
        if wanted(&result) {
            return result;
        }
        assert!(began.elapsed() < Duration::from_mins(2), "{result}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn delivered(result: &Value) -> bool {
    result["delivery"]["status"] == "delivered"
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_queued_done_kept_and_told() {
    let (server, reactor) = server().await;
    let receiver = Receiver::start().await;
    let card = server.private.token("card_number", json!("4242424242424242")).await;
    let args =
        json!({"behaviour": "respond", "raw": {"seen": format!("{{{{ {card} | last4 }}}}")}});
    let queued = queue(&server.private, &reactor, args, &receiver.url()).await;
    let body = queued.expect(202);
    assert_eq!((&body["status"], &body["reactor_id"]), (&json!("queued"), &json!(reactor)));
    assert!(body.get("response").is_none() && body.get("delivery").is_none());
    let place = location(&queued);
    let id = body["invocation_id"].as_str().unwrap();
    assert_eq!(place, format!("/reactors/{reactor}/results/{id}"));
    let result = result(&server.private, &place, delivered).await;
    assert_eq!(result["status"], "completed");
    assert_eq!(result["response"], json!({"raw": {"seen": "4242"}}));
    assert_eq!(
        result["delivery"],
        json!({"status": "delivered", "attempts": 1, "last_status": 204})
    );
    for time in ["created_at", "started_at", "finished_at"] {
        assert!(result[time].is_string(), "{time}");
    }
    let hooks = receiver.wait(1).await;
    let told = hooks[0].json();
    assert_eq!(told["type"], "reactor.completed");
    assert_eq!(told["timestamp"], result["finished_at"]);
    let data = &told["data"];
    assert_eq!(data["invocation_id"], id);
    assert_eq!(data["reactor_id"], json!(reactor));
    let own = server.private.get("/applications/key").await.expect(200);
    assert_eq!(data["tenant_id"], own["tenant_id"].as_str().unwrap());
    assert!(data["elapsed_ms"].is_u64());
    assert_eq!(data["response"], result["response"]);
    assert!(data.get("error").is_none());
    // The run stands among the reactor's invocations as any other, and in the log.
    let listed = server.management.get(&format!("/reactors/{reactor}/invocations")).await;
    assert_eq!(listed.expect(200)["data"][0]["id"], id);
    let entries = server.management.get(&format!("/logs?entity_id={reactor}&size=50")).await;
    let text = entries.text();
    let to = receiver.url();
    let to = to.get(..to.rfind(':').unwrap() + 2).unwrap();
    let queued = format!("Reactor run queued, to be told to {to}");
    let read = format!("Reactor result read: {id}");
    for message in [queued.as_str(), "Reactor invoked", &read] {
        assert!(text.contains(message), "{message} is not in {text}");
    }
    let used = server.management.get(&format!("/logs?entity_id={card}")).await.text();
    assert!(used.contains(&format!("Token used by reactor {reactor}")));
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_checked_before_202() {
    let server = TestServer::start_with(Setup::open()).await;
    let declared = json!({"request_parameters": [{"name": "n", "type": "number"}]});
    let formula = guests::formula(&server, "probe", declared).await;
    let reactor = guests::reactor(&server, &formula, json!({})).await;
    let path = format!("/reactors/{reactor}/react");
    let url = "http://127.0.0.1:9/hook";
    let secret = server.private.token("token", json!("no number")).await;
    let long = format!("https://example.com/{}", "x".repeat(2_048));
    for (body, fault) in [
        (json!({"args": {"n": 1}, "timeout_ms": 20_000}), "timeout_ms"),
        (json!({"args": {"n": 1}, "timeout_ms": 9_999, "callback_url": url}), "timeout_ms"),
        (json!({"args": {"n": 1}, "timeout_ms": 210_001, "callback_url": url}), "timeout_ms"),
        (json!({"args": {"n": 1}, "timeout_ms": "x", "callback_url": url}), "timeout_ms"),
        (json!({"args": {"n": 1}, "callback_url": "no address"}), "callback_url"),
        (json!({"args": {"n": "{{ x | }}"}, "timeout_ms": 1}), "args.n timeout_ms"),
        (json!({"args": {"n": 1}, "callback_url": "ftp://example.com/"}), "callback_url"),
        (json!({"args": {"n": 1}, "callback_url": "https://user:pw@example.com/"}), "callback_url"),
        (json!({"args": {"n": 1}, "callback_url": long}), "callback_url"),
        (json!({"args": {"n": 1}, "callback_url": 7}), "callback_url"),
        (json!({"callback_url": url}), "args"),
        (json!({"args": {"n": "{{ no-such-token }}"}, "callback_url": url}), "args.n"),
        (json!({"args": {"n": format!("{{{{ {secret} }}}}")}, "callback_url": url}), "args.n"),
    ] {
        let answer = server.private.post(&path, body.clone()).await;
        answer.expect(400);
        let faults = answer.faults();
        for fault in fault.split(' ') {
            assert!(faults.iter().any(|path| path.starts_with(fault)), "{body}: {faults:?}");
        }
    }
    let body = json!({"args": {"n": 1}, "callback_url": url});
    let powerless = server.application("private", &["token:read"], json!([])).await;
    powerless.post(&path, body.clone()).await.expect(403);
    let missing = "/reactors/00000000-0000-4000-8000-000000000000/react";
    server.private.post(missing, body).await.expect(404);
    let jobs = server.management.get(&format!("/reactors/{reactor}/invocations")).await;
    assert_eq!(jobs.expect(200)["pagination"]["total_items"], 0);
}

#[tokio::test(flavor = "multi_thread")]
async fn callbacks_are_https_and_public_unless_the_operator_says_otherwise() {
    let strict = Setup::default();
    let server = TestServer::start_with(strict).await;
    let reactor = guests::echo_reactor(&server).await;
    for (url, expected) in [
        ("https://example.com/hook", 202),
        ("http://example.com/hook", 400),
        ("https://127.0.0.1/hook", 400),
        ("https://localhost/hook", 400),
        ("https://localhost./hook", 400),
        ("https://Any.LocalHost:8443/hook", 400),
        ("https://localhost.example.com/hook", 202),
        ("https://[::ffff:10.0.0.1]/hook", 400),
        ("https://0x7f.1/hook", 400),
        ("https://2130706433/hook", 400),
        ("https://169.254.169.254/latest", 400),
    ] {
        let answer = queue(&server.private, &reactor, json!({}), url).await;
        assert_eq!(answer.status, expected, "{url}: {}", answer.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_fails_is_told_as_its_problem() {
    let (server, reactor) = server().await;
    let cases = [
        (json!({"behaviour": "fail", "kind": "rate_limit", "detail": "slow"}), 429, "slow"),
        (
            json!({"behaviour": "custom", "status": 418, "body": {"tea": true}}),
            418,
            "The formula answered 418",
        ),
        (json!({"behaviour": "no such"}), 400, ""),
    ];
    for (args, status, detail) in cases {
        let receiver = Receiver::start().await;
        let queued = queue(&server.private, &reactor, args, &receiver.url()).await;
        queued.expect(202);
        let told = receiver.wait(1).await[0].json();
        assert_eq!(told["type"], "reactor.failed");
        let error = &told["data"]["error"];
        assert_eq!(error["status"], status, "{told}");
        assert!(error["title"].is_string());
        let found = error["detail"].as_str().unwrap();
        assert!(found.to_lowercase().contains(&detail.to_lowercase()), "{found}");
        if status == 418 {
            assert_eq!(error["body"], json!({"tea": true}));
        }
        let result = result(&server.private, &location(&queued), delivered).await;
        assert_eq!((&result["status"], &result["error"]), (&json!("failed"), error));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_run_tokenizes_is_made_and_told() {
    let (server, reactor) = server().await;
    let receiver = Receiver::start().await;
    let args = json!({"behaviour": "respond", "raw": 1, "tokenize": {"card": {
        "type": "card_number", "data": "5555555555554444"
    }}});
    let queued = queue(&server.private, &reactor, args, &receiver.url()).await;
    queued.expect(202);
    let told = receiver.wait(1).await[0].json();
    let response = &told["data"]["response"];
    let id = response["tokens"]["card"]["id"].as_str().unwrap();
    assert_eq!(
        (&response["raw"], &response["tokens"]["card"]["data"]),
        (&json!(1), &json!("XXXXXXXXXXXX4444"))
    );
    server.private.get(&format!("/tokens/{id}")).await.expect(200);
    let kept = result(&server.private, &location(&queued), delivered).await;
    assert_eq!(&kept["response"], response);
}

/// A try that fails told the receiver all the same.
#[tokio::test(flavor = "multi_thread")]
async fn every_try_to_tell_of_tokens_is_in_their_log() {
    let (server, reactor) = server().await;
    let receiver = Receiver::with(|n| Action::Answer(if n == 0 { 500 } else { 204 })).await;
    let args = json!({"behaviour": "respond", "tokenize": {"type": "token", "data": "told"}});
    let queued = queue(&server.private, &reactor, args, &receiver.url()).await;
    queued.expect(202);
    let told = receiver.wait(1).await[0].json();
    let id = told["data"]["response"]["tokens"]["id"].as_str().unwrap().to_owned();
    let first = entries(&server, &id, "read").await;
    assert_eq!(
        (first.len(), &first[0]["message"]),
        (1, &json!("Token read to send a reactor result"))
    );
    // To ask for the result would be a read as well.
    while receiver.seen().len() < 2 {
        server.clock.advance_ms(60_000);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(entries(&server, &id, "read").await.len(), 2);
}

/// What the log has of an operation on a token.
async fn entries(server: &TestServer, token: &str, operation: &str) -> Vec<Value> {
    let page = server.management.get(&format!("/logs?entity_id={token}")).await.expect(200);
    let entries = page["data"].as_array().unwrap().iter();
    entries.filter(|entry| entry["operation"] == operation).cloned().collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn results_are_for_those_who_may_use_what_went_in() {
    let (server, reactor) = server().await;
    let receiver = Receiver::start().await;
    let card = server.private.token("card_number", json!("4242424242424242")).await;
    let args = json!({"behaviour": "respond", "raw": format!("{{{{ {card} }}}}")});
    let queued = queue(&server.private, &reactor, args, &receiver.url()).await;
    let id = queued.expect(202)["invocation_id"].as_str().unwrap().to_owned();
    let place = location(&queued);
    receiver.wait(1).await;
    let rules = |container: &str| {
        json!([{"description": "", "priority": 1, "container": container,
            "transform": "reveal", "permissions": ["token:use"]}])
    };
    let again = format!("{place}/redeliver");
    let other_reactor = guests::echo_reactor(&server).await;
    let elsewhere = format!("/reactors/{other_reactor}/results/{id}");
    for (client, expected) in [
        (server.application("private", &[], rules("/pci/")).await, 200),
        (server.application("private", &[], rules("/bank/")).await, 403),
        (server.application("private", &["token:read"], json!([])).await, 403),
        (server.management.clone(), 403),
        (server.stranger(), 401),
    ] {
        client.get(&place).await.expect(expected);
        let answer = client.post(&again, json!({})).await;
        assert_eq!(
            answer.status,
            if expected == 200 { 202 } else { expected },
            "{}",
            answer.text()
        );
        let missing = if expected == 200 { 404 } else { expected };
        if expected != 403 {
            client.get(&elsewhere).await.expect(missing);
        }
    }
    let other = server.other_tenant().await;
    let body = json!({"name": "a", "type": "private", "permissions": ["token:use"]});
    let made = other.post("/applications", body).await.expect(201);
    let other = server.client(made["key"].as_str().unwrap());
    other.get(&place).await.expect(404);
    other.post(&again, json!({})).await.expect(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_taken_away_before_a_run_begins_are_not_used() {
    let jobs = JobLimits::new(Some(4), Some(1), None);
    let server = TestServer::start_with(Setup { jobs, ..Setup::open() }).await;
    let reactor = guests::echo_reactor(&server).await;
    let receiver = Receiver::start().await;
    let body = json!({"name": "short-lived", "type": "private", "permissions": ["token:use", "token:create"]});
    let made = server.management.post("/applications", body).await.expect(201);
    let id = made["id"].as_str().unwrap();
    let client = server.client(made["key"].as_str().unwrap());
    // One run at a time: the next one waits.
    let sleep = json!({"behaviour": "sleep", "ms": 8_000});
    let first = queue(&server.private, &reactor, sleep, &receiver.url()).await;
    result(&server.private, &location(&first), |result| result["status"] == "running").await;
    let token = client.token("card", json!({"number": "4242424242424242"})).await;
    let args = json!({"behaviour": "echo", "a": format!("{{{{ {token} }}}}")});
    let last = queue(&client, &reactor, args, &receiver.url()).await;
    last.expect(202);
    server.management.delete(&format!("/applications/{id}")).await.expect(204);
    let failed = |result: &Value| result["status"] == "failed";
    let result = result(&server.private, &location(&last), failed).await;
    assert_eq!(result["error"]["status"], 401);
    // Whoever receives this has sent no key.
    let told = "The application or session that asked for the run has ended.";
    assert_eq!(result["error"]["detail"], told);
    // The token was opened when it was accepted.
    let entries = entries(&server, &token, "use").await;
    let [entry] = entries.as_slice() else { panic!("{entries:?}") };
    assert_eq!(
        (&entry["message"], &entry["entity_type"], &entry["actor_id"]),
        (
            &json!(format!("Token used to check a run of reactor {reactor}")),
            &json!("card"),
            &json!(id)
        )
    );
    assert_eq!(entry["trace_id"], last.headers["svc-trace-id"].to_str().unwrap());
    // Each is told once.
    let hooks = receiver.wait(2).await;
    let mut ids: Vec<_> = hooks.iter().map(|hook| hook.header("webhook-id").to_owned()).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_is_said_so_and_other_tenants_have_their_own() {
    let jobs = JobLimits::new(Some(4), Some(1), Some(3));
    let server = TestServer::start_with(Setup { jobs, ..Setup::open() }).await;
    let reactor = guests::echo_reactor(&server).await;
    let receiver = Receiver::start().await;
    let sleep = json!({"behaviour": "sleep", "ms": 8_000});
    let first = queue(&server.private, &reactor, sleep, &receiver.url()).await;
    first.expect(202);
    let running = |result: &Value| result["status"] == "running";
    result(&server.private, &location(&first), running).await;
    let echo = json!({"behaviour": "echo"});
    for _ in 0..3 {
        queue(&server.private, &reactor, echo.clone(), &receiver.url()).await.expect(202);
    }
    let card = server.private.token("card_number", json!("4242424242424242")).await;
    let with_card = json!({"behaviour": "echo", "card": format!("{{{{ {card} }}}}")});
    let refused = queue(&server.private, &reactor, with_card, &receiver.url()).await;
    let problem = refused.expect(429);
    assert!(problem["detail"].as_str().unwrap().contains("queue"), "{problem}");
    // The token was read for it, and that is in the log.
    let logs = server.management.get(&format!("/logs?entity_id={card}")).await.text();
    assert_eq!(logs.matches("Token used by reactor").count(), 1, "{logs}");
    assert!(refused.headers.contains_key("retry-after"));
    // Somebody who waits for the answer does not wait in this queue.
    server
        .private
        .post(&format!("/reactors/{reactor}/react"), json!({"args": echo}))
        .await
        .expect(200);
    assert_eq!(receiver.wait(4).await.len(), 4);
    queue(&server.private, &reactor, echo, &receiver.url()).await.expect(202);
    receiver.wait(5).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_at_once_are_no_more_than_the_queue_takes() {
    let jobs = JobLimits::new(Some(4), Some(1), Some(3));
    let server = TestServer::start_with(Setup { jobs, ..Setup::open() }).await;
    let reactor = guests::echo_reactor(&server).await;
    let receiver = Receiver::start().await;
    let body = json!({"args": {"behaviour": "sleep", "ms": 200_000}, "timeout_ms": 210_000,
        "callback_url": receiver.url()});
    let first = server.private.post(&format!("/reactors/{reactor}/react"), body).await;
    result(&server.private, &location(&first), |result| result["status"] == "running").await;
    let url = receiver.url();
    let many = (0..60).map(|_| queue(&server.private, &reactor, json!({}), &url));
    let answers = futures::future::join_all(many).await;
    let queued = answers.iter().filter(|answer| answer.status == 202).count();
    assert!((1..=3).contains(&queued), "{queued}");
    assert!(answers.iter().all(|answer| [202, 429].contains(&answer.status.as_u16())));
    // Who was refused takes no place: what is left of the queue is there for the next.
    for _ in queued..3 {
        queue(&server.private, &reactor, json!({}), &url).await.expect(202);
    }
    queue(&server.private, &reactor, json!({}), &url).await.expect(429);
}

#[tokio::test(flavor = "multi_thread")]
async fn results_are_kept_for_seven_days() {
    let (server, reactor) = server().await;
    let receiver = Receiver::start().await;
    let queued =
        queue(&server.private, &reactor, json!({"behaviour": "echo"}), &receiver.url()).await;
    queued.expect(202);
    let place = location(&queued);
    result(&server.private, &place, delivered).await;
    server.clock.advance_ms(HOUR_MS * (7 * 24 - 1));
    server.private.get(&place).await.expect(200);
    server.clock.advance_ms(2 * HOUR_MS);
    server.private.get(&place).await.expect(404);
    server.private.post(&format!("{place}/redeliver"), json!({})).await.expect(404);
    // The job, its delivery, its invocation.
    assert_eq!(server.vault.sweep().await.unwrap().0, 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_of_the_arguments_lies_on_the_disk() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup { folder: Some(folder.path().to_owned()), ..Setup::open() };
    let server = TestServer::start_with(setup).await;
    let formula = guests::formula(&server, "probe", json!({})).await;
    let reactor = guests::reactor(&server, &formula, json!({})).await;
    let receiver = Receiver::start().await;
    let token = server.private.token("token", json!("canary-of-a-token-7311")).await;
    let args = json!({
        "behaviour": "respond",
        "raw": ["canary-in-the-arguments-7312", format!("{{{{ {token} }}}}")],
    });
    queue(&server.private, &reactor, args, &receiver.url()).await.expect(202);
    let told = receiver.wait(1).await[0].json();
    assert_eq!(told["data"]["response"]["raw"][1], "canary-of-a-token-7311");
    server.stop().await;
    let mut looked_at = 0;
    for entry in std::fs::read_dir(folder.path().join("store")).unwrap() {
        let entry = entry.unwrap();
        if entry.file_type().unwrap().is_file() {
            let bytes = std::fs::read(entry.path()).unwrap();
            looked_at += bytes.len();
            for canary in [b"canary-of".as_slice(), b"canary-in", b"/hook"] {
                let found = bytes.windows(canary.len()).any(|window| window == canary);
                assert!(!found, "{:?} holds plaintext", entry.path());
            }
        }
    }
    assert!(looked_at > 1_000);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_always_says_where_its_delivery_stands() {
    let jobs = JobLimits::new(Some(4), Some(1), None);
    let server = TestServer::start_with(Setup { jobs, ..Setup::open() }).await;
    let reactor = guests::echo_reactor(&server).await;
    let receiver = Receiver::start().await;
    let sleep = json!({"behaviour": "sleep", "ms": 8_000});
    let running = queue(&server.private, &reactor, sleep, &receiver.url()).await;
    let is_running = |result: &Value| result["status"] == "running";
    let waiting = queue(&server.private, &reactor, json!({}), &receiver.url()).await;
    let result = result(&server.private, &location(&running), is_running).await;
    let nothing_yet = json!({"status": "pending", "attempts": 0});
    assert_eq!(result["delivery"], nothing_yet);
    let result = server.private.get(&location(&waiting)).await.expect(200);
    assert_eq!(result["delivery"], nothing_yet);
    let redeliver = format!("{}/redeliver", location(&waiting));
    server.private.post(&redeliver, json!({})).await.expect(409);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_tokens_that_are_gone_a_result_says_which_they_were_and_no_more() {
    let (server, reactor) = server().await;
    let client = server.revealing().await;
    let receiver = Receiver::start().await;
    let token = |data: &str| json!({"type": "token", "data": data, "metadata": {"k": "noted"}});
    let args = json!({"behaviour": "respond",
        "tokenize": {"gone": token("secret-1"), "kept": token("secret-2")}});
    let queued = queue(&client, &reactor, args, &receiver.url()).await;
    queued.expect(202);
    let place = location(&queued);
    let before = result(&client, &place, delivered).await["response"]["tokens"].clone();
    assert_eq!(
        (&before["gone"]["data"], &before["kept"]["data"]),
        (&json!("secret-1"), &json!("secret-2"))
    );
    let id = before["gone"]["id"].as_str().unwrap();
    client.delete(&format!("/tokens/{id}")).await.expect(204);
    let answer = client.get(&place).await;
    let after = answer.expect(200)["response"]["tokens"].clone();
    assert_eq!((&after["gone"]["id"], &after["kept"]), (&json!(id), &before["kept"]));
    assert!(!answer.text().contains("secret-1") && after["gone"].get("metadata").is_none());
    // Neither is it told again.
    client.post(&format!("{place}/redeliver"), json!({})).await.expect(202);
    let told = receiver.wait(2).await;
    assert!(told[0].json().to_string().contains("secret-1"));
    assert_eq!(told[1].json()["data"]["response"]["tokens"], after);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_largest_answer_is_told_whole() {
    let (server, reactor) = server().await;
    let receiver = Receiver::start().await;
    let bytes = (4 << 20) - 2;
    let args = json!({"behaviour": "output", "bytes": bytes});
    let queued = queue(&server.private, &reactor, args, &receiver.url()).await;
    let told = receiver.wait(1).await[0].json();
    assert_eq!(told["data"]["response"]["raw"].as_str().unwrap().len(), bytes);
    result(&server.private, &location(&queued), delivered).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_nested_too_deep_is_the_formulas_failure() {
    let (server, reactor) = server().await;
    let receiver = Receiver::start().await;
    for (levels, completed) in [(120, true), (121, false)] {
        let args = json!({"behaviour": "nest", "levels": levels});
        let path = format!("/reactors/{reactor}/react");
        let direct = server.private.post(&path, json!({"args": args})).await;
        let queued = queue(&server.private, &reactor, args, &receiver.url()).await;
        let result = result(&server.private, &location(&queued), delivered).await;
        if completed {
            assert_eq!(direct.expect(200), result["response"]);
        } else {
            let problem = direct.expect(500);
            assert_eq!(problem["title"], "Reactor Runtime Error");
            assert!(problem["detail"].as_str().unwrap().contains("nested too deep"), "{problem}");
            assert_eq!(result["error"]["detail"], problem["detail"]);
        }
    }
    assert_eq!(receiver.seen().len(), 2);
}

/// Queues a run; without `timeout_ms` when there is none.
async fn queue_within(
    server: &TestServer,
    reactor: &str,
    args: Value,
    timeout_ms: Option<u64>,
    callback: &str,
) -> Answer {
    let mut body = json!({"args": args, "callback_url": callback});
    if let Some(timeout_ms) = timeout_ms {
        body["timeout_ms"] = timeout_ms.into();
    }
    let queued = server.private.post(&format!("/reactors/{reactor}/react"), body).await;
    queued.expect(202);
    queued
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_told_how_long_it_may_take() {
    let (server, reactor) = server().await;
    let receiver = Receiver::start().await;
    for (timeout_ms, told_ms) in [
        (None, 10_000),
        (Some(10_000), 10_000),
        (Some(10_001), 10_001),
        (Some(209_999), 209_999),
        (Some(210_000), 210_000),
    ] {
        let echo = json!({"behaviour": "echo"});
        let queued = queue_within(&server, &reactor, echo, timeout_ms, &receiver.url()).await;
        let result = result(&server.private, &location(&queued), delivered).await;
        let deadline_ms = &result["response"]["raw"]["invocation"]["deadline_ms"];
        // The server's clock stands still.
        assert_eq!(*deadline_ms, START_MS + told_ms, "{timeout_ms:?}: {result}");
    }
}

/// In real time: what bounds a run is no clock that a test could move.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_does_not_end_ends_with_its_time() {
    let (server, reactor) = server().await;
    let receiver = Receiver::start().await;
    let mut runs = Vec::new();
    for (timeout_ms, least_ms) in [(None, 10_000), (Some(10_000), 10_000), (Some(14_000), 14_000)] {
        let sleep = json!({"behaviour": "sleep", "ms": 200_000});
        let queued = queue_within(&server, &reactor, sleep, timeout_ms, &receiver.url()).await;
        runs.push((location(&queued), least_ms));
    }
    for (place, least_ms) in runs {
        let result = result(&server.private, &place, delivered).await;
        let error = &result["error"];
        assert_eq!((&result["status"], &error["status"]), (&json!("failed"), &json!(504)));
        assert_eq!(error["title"], "Reactor Timeout", "{error}");
        assert!(error["detail"].as_str().unwrap().contains("deadline"), "{error}");
        let hooks = receiver.seen();
        let hook = hooks.iter().find(|hook| place.ends_with(hook.header("webhook-id"))).unwrap();
        let told = hook.json();
        assert_eq!((&told["type"], &told["data"]["error"]), (&json!("reactor.failed"), error));
        let elapsed_ms = told["data"]["elapsed_ms"].as_u64().unwrap();
        // Far above what a machine needs that is busy with all the other tests, and far below any longer bound.
        assert!((least_ms - 100..least_ms + 40_000).contains(&elapsed_ms), "{elapsed_ms}");
    }
}
