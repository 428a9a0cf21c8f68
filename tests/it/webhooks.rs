//! Webhooks: signatures, retries, secrets (decisions §8).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::binary::{Process, eventually};
use crate::support::receiver::{Action, Hook, Receiver};
use crate::support::server::{START_MS, Setup};
use crate::support::upstream::Upstream;
use crate::support::{Answer, Client, TestServer, guests};

const HOUR_MS: u64 = 3_600_000;

/// A server whose clock is right, since other implementations look at theirs, and a reactor.
async fn server() -> (TestServer, String) {
    let server = TestServer::start_with(Setup::open()).await;
    let now_ms = u64::try_from(Utc::now().timestamp_millis()).unwrap();
    server.clock.advance_ms(now_ms - START_MS);
    let reactor = guests::echo_reactor(&server).await;
    (server, reactor)
}

async fn queue(server: &TestServer, reactor: &str, url: &str) -> String {
    let body = json!({"args": {"a": 1}, "callback_url": url});
    let queued = server.private.post(&format!("/reactors/{reactor}/react"), body).await;
    queued.expect(202);
    queued.headers["location"].to_str().unwrap().to_owned()
}

/// Asks for the delivery until it is as wanted.
async fn delivery(client: &Client, place: &str, wanted: impl Fn(&Value) -> bool) -> Value {
    let began = Instant::now();
    loop {
        let result = client.get(place).await.expect(200);
        let delivery = &result["delivery"];
        if delivery.is_object() && wanted(delivery) {
            return delivery.clone();
        }
        assert!(began.elapsed() < Duration::from_mins(2), "{result}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

fn attempts(count: u64) -> impl Fn(&Value) -> bool {
    move |delivery| delivery["attempts"] == count
}

/// How long until the next try, in milliseconds.
fn wait_ms(server: &TestServer, delivery: &Value) -> i64 {
    use tokamak::clock::Clock as _;
    let next: DateTime<Utc> = delivery["next_attempt_at"].as_str().unwrap().parse().unwrap();
    next.timestamp_millis() - i64::try_from(server.clock.now_ms()).unwrap()
}

async fn secrets(server: &TestServer) -> Vec<String> {
    let listed = server.management.get("/webhooks/signing-secrets").await;
    texts(&listed)
}

fn texts(listed: &Answer) -> Vec<String> {
    let listed = listed.expect(200);
    let listed = listed.as_array().unwrap();
    listed.iter().map(|secret| secret["secret"].as_str().unwrap().to_owned()).collect()
}

fn assert_signed(hook: &Hook, secrets: &[String]) {
    for secret in secrets {
        hook.verify(secret).unwrap();
    }
    let signatures: Vec<_> = hook.header("webhook-signature").split(' ').collect();
    assert_eq!(signatures.len(), secrets.len());
    assert!(signatures.iter().all(|signature| signature.starts_with("v1,")));
    let other = "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=";
    assert!(hook.verify(other).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn signatures_are_those_of_standard_webhooks() {
    let (server, reactor) = server().await;
    let receiver = Receiver::start().await;
    let place = queue(&server, &reactor, &receiver.url()).await;
    let hook = receiver.wait(1).await.remove(0);
    assert_eq!(place.rsplit('/').next(), Some(hook.header("webhook-id")));
    assert_eq!(hook.header("content-type"), "application/json");
    let sent: i64 = hook.header("webhook-timestamp").parse().unwrap();
    assert!((Utc::now().timestamp() - sent).abs() < 60);
    let known = secrets(&server).await;
    assert_eq!(known.len(), 1);
    assert_signed(&hook, &known);
    let mut changed = hook.clone();
    changed.bytes = changed.bytes.iter().map(|byte| byte ^ 1).collect();
    assert!(changed.verify(&known[0]).is_err());
    // Nothing of the vault's keys goes out.
    assert!(hook.headers.get("svc-api-key").is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_secret_signs_for_a_day_more() {
    let (server, reactor) = server().await;
    let receiver = Receiver::start().await;
    let first = secrets(&server).await;
    let rotated = server.management.post("/webhooks/signing-secrets/rotate", json!({})).await;
    let body = rotated.expect(200);
    let both = texts(&rotated);
    assert_eq!((both.len(), &both[1]), (2, &first[0]));
    assert!(body[0].get("expires_at").is_none() && body[1]["expires_at"].is_string());
    queue(&server, &reactor, &receiver.url()).await;
    assert_signed(&receiver.wait(1).await[0], &both);
    server.clock.advance_ms(24 * HOUR_MS + 1);
    assert_eq!(secrets(&server).await, both[..1]);
    queue(&server, &reactor, &receiver.url()).await;
    let hook = &receiver.wait(2).await[1];
    assert_eq!(hook.header("webhook-signature").split(' ').count(), 1);
    // There is an end to how many sign at once.
    for _ in 0..9 {
        server.management.post("/webhooks/signing-secrets/rotate", json!({})).await.expect(200);
    }
    server.management.post("/webhooks/signing-secrets/rotate", json!({})).await.expect(409);
    let log = server.management.get("/logs?entity_type=webhook&size=50").await.text();
    for message in ["Signing secret created", "Signing secret rotated", "Signing secrets read"] {
        assert!(log.contains(message), "{message}");
    }
    assert!(!log.contains("whsec_"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotated_secret_signs_to_the_last_moment_of_its_day() {
    use tokamak::clock::Clock as _;
    let server = TestServer::start_with(Setup::open()).await;
    let reactor = guests::echo_reactor(&server).await;
    let receiver = Receiver::start().await;
    // A day behind, so that the clock is right when that day is over: who verifies looks at the time too.
    let now_ms = u64::try_from(Utc::now().timestamp_millis()).unwrap();
    server.clock.advance_ms(now_ms - START_MS - 24 * HOUR_MS);
    let first = secrets(&server).await;
    let ends_ms = i64::try_from(server.clock.now_ms() + 24 * HOUR_MS).unwrap();
    server.management.post("/webhooks/signing-secrets/rotate", json!({})).await.expect(200);
    let listed = server.management.get("/webhooks/signing-secrets").await;
    let both = texts(&listed);
    assert_eq!((both.len(), &both[1]), (2, &first[0]));
    let ends: DateTime<Utc> = listed.json()[1]["expires_at"].as_str().unwrap().parse().unwrap();
    assert_eq!(ends.timestamp_millis(), ends_ms);
    server.clock.advance_ms(24 * HOUR_MS - 1);
    assert_eq!(secrets(&server).await, both);
    queue(&server, &reactor, &receiver.url()).await;
    assert_signed(&receiver.wait(1).await[0], &both);
    server.clock.advance_ms(1);
    assert_eq!(secrets(&server).await, both[..1]);
    queue(&server, &reactor, &receiver.url()).await;
    let hook = &receiver.wait(2).await[1];
    assert_signed(hook, &both[..1]);
    assert!(hook.verify(&first[0]).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_rotation_gives_the_oldest_secret_no_more_time() {
    let server = TestServer::start_with(Setup::open()).await;
    let reactor = guests::echo_reactor(&server).await;
    let receiver = Receiver::start().await;
    // A day behind, as above.
    let now_ms = u64::try_from(Utc::now().timestamp_millis()).unwrap();
    server.clock.advance_ms(now_ms - START_MS - 24 * HOUR_MS);
    let oldest = secrets(&server).await.remove(0);
    let rotate =
        async || server.management.post("/webhooks/signing-secrets/rotate", json!({})).await;
    let ends = rotate().await.expect(200)[1]["expires_at"].clone();
    server.clock.advance_ms(12 * HOUR_MS);
    let rotated = rotate().await;
    let three = texts(&rotated);
    assert_eq!((three.len(), &three[2], &rotated.json()[2]["expires_at"]), (3, &oldest, &ends));
    server.clock.advance_ms(12 * HOUR_MS);
    assert_eq!(secrets(&server).await, three[..2]);
    queue(&server, &reactor, &receiver.url()).await;
    let hook = &receiver.wait(1).await[0];
    assert_signed(hook, &three[..2]);
    assert!(hook.verify(&oldest).is_err());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_rotation_shows_no_secret() {
    let (server, _) = server().await;
    let rotate = async || {
        let request =
            server.management.request(reqwest::Method::POST, "/webhooks/signing-secrets/rotate");
        server.management.send(request.header("SVC-IDEMPOTENCY-KEY", "rotation-1")).await
    };
    let first = rotate().await.expect(200);
    assert!(first[0]["secret"].as_str().unwrap().starts_with("whsec_"));
    let again = rotate().await;
    assert_eq!(again.headers["svc-idempotent-replay"], "true");
    assert_eq!(again.expect(200)[0]["id"], first[0]["id"]);
    assert!(!again.text().contains("whsec_"), "{}", again.text());
}

#[tokio::test(flavor = "multi_thread")]
async fn secrets_are_the_tenants_own_and_need_their_permissions() {
    let (server, _) = server().await;
    let mine = secrets(&server).await;
    let other = server.other_tenant().await;
    let theirs = texts(&other.get("/webhooks/signing-secrets").await);
    assert_ne!(mine, theirs);
    let powerless = server.application("management", &["log:read"], json!([])).await;
    for client in [&server.private, &powerless] {
        client.get("/webhooks/signing-secrets").await.expect(403);
        client.post("/webhooks/signing-secrets/rotate", json!({})).await.expect(403);
    }
    assert_eq!(secrets(&server).await, mine);
    // Many ask at once for what is not there yet: one secret is made.
    let fresh = server.other_tenant().await;
    let asked = (0..8).map(|_| fresh.get("/webhooks/signing-secrets"));
    let answers = futures::future::join_all(asked).await;
    let all: Vec<_> = answers.iter().map(texts).collect();
    assert!(all.iter().all(|texts| texts == &all[0]), "{all:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_is_tried_again_on_a_growing_schedule() {
    let (server, reactor) = server().await;
    let receiver = Receiver::with(|number| Action::Answer([500, 302, 404, 200][number])).await;
    let place = queue(&server, &reactor, &receiver.url()).await;
    let mut expected_ms = 5_000;
    for (attempt, status) in [(1, 500), (2, 302), (3, 404)] {
        let tried = delivery(&server.private, &place, attempts(attempt)).await;
        assert_eq!((&tried["status"], &tried["last_status"]), (&json!("pending"), &json!(status)));
        let wait = wait_ms(&server, &tried);
        // Longer by chance, and never shorter.
        assert!((expected_ms - 1..=expected_ms * 123 / 100).contains(&wait), "{wait}");
        assert_eq!(receiver.seen().len(), usize::try_from(attempt).unwrap());
        server.clock.advance_ms(u64::try_from(wait).unwrap() + 1);
        expected_ms *= 3;
    }
    let told = delivery(&server.private, &place, |told| told["status"] == "delivered").await;
    assert_eq!(told, json!({"status": "delivered", "attempts": 4, "last_status": 200}));
    let hooks = receiver.seen();
    assert!(hooks.iter().all(|hook| hook.header("webhook-id") == hooks[0].header("webhook-id")));
    assert!(hooks.iter().all(|hook| hook.bytes == hooks[0].bytes));
    let times: Vec<u64> =
        hooks.iter().map(|hook| hook.header("webhook-timestamp").parse().unwrap()).collect();
    assert!(times.is_sorted() && times[0] < times[3]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_redirect_is_a_failed_try_and_is_not_followed() {
    let (server, reactor) = server().await;
    let second = Receiver::start().await;
    for status in [301, 302, 303, 307, 308] {
        let to = second.url();
        let first = Receiver::with(move |_| Action::With(status, "location", to.clone())).await;
        let place = queue(&server, &reactor, &first.url()).await;
        let tried = delivery(&server.private, &place, attempts(1)).await;
        assert_eq!((&tried["status"], &tried["last_status"]), (&json!("pending"), &json!(status)));
        assert_eq!(first.seen().len(), 1);
        // The next try goes to the first one again.
        server.clock.advance_ms(u64::try_from(wait_ms(&server, &tried)).unwrap() + 1);
        let tried = delivery(&server.private, &place, attempts(2)).await;
        assert_eq!((&tried["status"], first.seen().len()), (&json!("pending"), 2));
    }
    assert!(second.seen().is_empty());
}

/// What a name stands for is looked at when it is called (decisions §8).
#[tokio::test(flavor = "multi_thread")]
async fn a_name_of_a_private_address_is_never_connected_to() {
    let strict = Setup { allow_http_callbacks: true, ..Setup::default() };
    // A name that is known to be private is refused at once. This machine's own is known to its resolver alone, which most
    // often says that it is a loopback address.
    let own = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    for (setup, name, is_reached) in
        [(Setup::open(), "localhost", true), (strict, own.trim(), false)]
    {
        let server = TestServer::start_with(setup).await;
        let reactor = guests::echo_reactor(&server).await;
        for scheme in ["http", "https"] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let port = listener.local_addr().unwrap().port();
            // Whoever connects is hung up on.
            let connections = Arc::new(AtomicUsize::new(0));
            let seen = Arc::clone(&connections);
            let listening = tokio::spawn(async move {
                while listener.accept().await.is_ok() {
                    seen.fetch_add(1, Ordering::SeqCst);
                }
            });
            let url = format!("{scheme}://{name}:{port}/hook");
            let place = queue(&server, &reactor, &url).await;
            let mut tried = Value::Null;
            for attempt in 1..=2 {
                tried = delivery(&server.private, &place, attempts(attempt)).await;
                assert_eq!((&tried["status"], tried.get("last_status")), (&json!("pending"), None));
                let wait = u64::try_from(wait_ms(&server, &tried)).unwrap();
                server.clock.advance_ms(wait + 1);
            }
            assert_eq!(connections.load(Ordering::SeqCst) > 0, is_reached, "{url}: {tried}");
            listening.abort();
        }
    }
}

/// In real time: what bounds a try is no clock that a test could move.
#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_has_fifteen_seconds_to_answer() {
    let (server, reactor) = server().await;
    let after = async |seconds: u64| {
        let receiver = Receiver::with(move |_| Action::After(Duration::from_secs(seconds))).await;
        let place = queue(&server, &reactor, &receiver.url()).await;
        delivery(&server.private, &place, attempts(1)).await
    };
    // As far from the bound as a machine that is busy may be late.
    let (in_time, too_late) = tokio::join!(after(7), after(20));
    assert_eq!(in_time, json!({"status": "delivered", "attempts": 1, "last_status": 200}));
    assert_eq!((&too_late["status"], too_late.get("last_status")), (&json!("pending"), None));
    assert_eq!(too_late["last_error"], "the request ran past its time");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_receiver_says_how_long_to_wait_or_that_it_is_gone() {
    let (server, reactor) = server().await;
    let in_seconds = Receiver::with(|_| Action::With(503, "retry-after", "1200".to_owned())).await;
    let date = (Utc::now() + chrono::Duration::hours(2)).to_rfc2822();
    let by_date =
        Receiver::with(move |_| Action::With(429, "retry-after", date.replace("+0000", "GMT")))
            .await;
    let senseless = Receiver::with(|_| Action::With(503, "retry-after", "soon".to_owned())).await;
    for (receiver, least, most) in [
        (in_seconds, 1_190_000, 1_200_000),
        (by_date, 7_100_000, 7_260_000),
        (senseless, 3_900, 6_100),
    ] {
        let place = queue(&server, &reactor, &receiver.url()).await;
        let tried = delivery(&server.private, &place, attempts(1)).await;
        let wait = wait_ms(&server, &tried);
        assert!((least..=most).contains(&wait), "{wait}");
    }
    let gone = Receiver::with(|_| Action::Answer(410)).await;
    let place = queue(&server, &reactor, &gone.url()).await;
    let ended = delivery(&server.private, &place, |delivery| delivery["status"] == "failed").await;
    assert_eq!(ended, json!({"status": "failed", "attempts": 1, "last_status": 410}));
    // Nobody else is told. Others of this process may have been given up, too.
    let none = "tokamak_webhooks_given_up_total 0";
    let began = Instant::now();
    while server.stranger().get("/metrics").await.text().lines().any(|line| line == none) {
        assert!(began.elapsed() < Duration::from_mins(1));
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_is_given_up_after_a_day_and_may_be_queued_again() {
    let (server, reactor) = server().await;
    let receiver =
        Receiver::with(|number| Action::Answer(if number < 40 { 500 } else { 200 })).await;
    let place = queue(&server, &reactor, &receiver.url()).await;
    let began = Instant::now();
    let mut elapsed_ms = 0;
    let ended = loop {
        let result = server.private.get(&place).await.expect(200);
        let tried = &result["delivery"];
        if tried["status"] == "failed" {
            break tried.clone();
        }
        assert!(began.elapsed() < Duration::from_mins(3), "{result}");
        // Before there is a result to tell, nothing is due.
        let due = tried["next_attempt_at"].is_string();
        if due && tried["attempts"].as_u64() == Some(receiver.seen().len() as u64) {
            let wait = u64::try_from(wait_ms(&server, tried).max(0)).unwrap() + 1;
            assert!(wait < 8 * HOUR_MS, "{wait}");
            elapsed_ms += wait;
            server.clock.advance_ms(wait);
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    };
    let tries = ended["attempts"].as_u64().unwrap();
    assert!((10..=16).contains(&tries), "{tries} tries");
    assert!((24 * HOUR_MS - 1_000..24 * HOUR_MS + 1_000).contains(&elapsed_ms), "{elapsed_ms}");
    assert!(ended.get("next_attempt_at").is_none());
    let again = server.private.post(&format!("{place}/redeliver"), json!({})).await.expect(202);
    assert_eq!(again["delivery"]["status"], "pending");
    let tried = delivery(&server.private, &place, attempts(tries + 1)).await;
    // The schedule begins anew.
    assert!(wait_ms(&server, &tried) < 7_000);
    assert_eq!(receiver.seen().len() as u64, tries + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_delivered_may_be_delivered_again() {
    let (server, reactor) = server().await;
    let receiver = Receiver::start().await;
    let place = queue(&server, &reactor, &receiver.url()).await;
    delivery(&server.private, &place, |told| told["status"] == "delivered").await;
    server.private.post(&format!("{place}/redeliver"), json!({})).await.expect(202);
    let hooks = receiver.wait(2).await;
    assert_eq!(hooks[0].bytes, hooks[1].bytes);
    let told = delivery(&server.private, &place, attempts(2)).await;
    assert_eq!(told["status"], "delivered");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_queued_again_during_a_try_is_tried_again_and_both_tries_count() {
    let (server, reactor) = server().await;
    let slow = Duration::from_secs(2);
    let receiver = Receiver::with(move |number| match number {
        0 => Action::After(slow),
        _ => Action::Answer(200),
    })
    .await;
    let place = queue(&server, &reactor, &receiver.url()).await;
    receiver.wait(1).await;
    let again = server.private.post(&format!("{place}/redeliver"), json!({})).await.expect(202);
    assert_eq!(
        (&again["delivery"]["status"], &again["delivery"]["attempts"]),
        (&json!("pending"), &json!(0))
    );
    let told = delivery(&server.private, &place, |told| told["status"] == "delivered").await;
    assert_eq!((&told["attempts"], receiver.seen().len()), (&json!(2), 2));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_status_is_a_success_whatever_follows_it() {
    let (server, reactor) = server().await;
    let upstream = Upstream::start().await;
    for path in ["/bytes/5000000", "/endless"] {
        let place = queue(&server, &reactor, &upstream.url(path)).await;
        let told = delivery(&server.private, &place, attempts(1)).await;
        let expected = json!({"status": "delivered", "attempts": 1, "last_status": 200});
        assert_eq!(told, expected, "{path}");
    }
    assert_eq!(upstream.seen().len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn those_that_do_not_answer_delay_nobody_else() {
    let (server, reactor) = server().await;
    // Together they would take all places that a tenant has, if each had as many as one may.
    let mut silent = Vec::new();
    for _ in 0..20 {
        silent.push(Receiver::with(|_| Action::After(Duration::from_mins(1))).await);
    }
    let prompt = Receiver::start().await;
    for _ in 0..8 {
        for silent in &silent {
            queue(&server, &reactor, &silent.url()).await;
        }
    }
    let began = Instant::now();
    silent[0].wait(1).await;
    // A try of a silent one takes fifteen seconds. A slow machine may need as long itself, once.
    let mut prompt_in_time = false;
    for round in 1..=3 {
        let asked = Instant::now();
        for _ in 0..5 {
            queue(&server, &reactor, &prompt.url()).await;
        }
        prompt.wait(5 * round).await;
        prompt_in_time = asked.elapsed() < Duration::from_secs(10);
        let tries = began.elapsed().as_secs() / 15 + 1;
        for silent in &silent {
            let seen = silent.seen().len() as u64;
            assert!(seen <= tries, "{seen}: a receiver that takes long has one at a time");
        }
        if prompt_in_time {
            break;
        }
    }
    assert!(prompt_in_time);
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_there_is_a_failed_try_without_a_status() {
    let (server, reactor) = server().await;
    // A port that was free a moment ago.
    let port = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let place = queue(&server, &reactor, &format!("http://127.0.0.1:{port}/")).await;
    let tried = delivery(&server.private, &place, attempts(1)).await;
    assert!(tried.get("last_status").is_none());
    assert_eq!(tried["status"], "pending");
    // Whoever looks at the result is told why.
    assert_eq!(tried["last_error"], "unreachable: the host refused the connection");
}

/// The example, which is built by the command that builds the tests, beside them.
fn example(secrets: &str) -> Process {
    let tests = std::env::current_exe().unwrap();
    let example = tests.parent().unwrap().with_file_name("examples").join("webhook-receiver");
    let mut command = std::process::Command::new(example);
    command.arg("127.0.0.1:0").env("WEBHOOK_SECRETS", secrets);
    Process::start(command)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_receives_what_is_signed_and_nothing_else() {
    let (server, reactor) = server().await;
    let secret = secrets(&server).await.remove(0);
    let mut receiver = example(&secret);
    let url = format!("http://{}/hook", receiver.address);
    let place = queue(&server, &reactor, &url).await;
    let told = delivery(&server.private, &place, |told| told["status"] == "delivered").await;
    assert_eq!(told["last_status"], 204);
    assert!(receiver.read_until("reactor.completed").contains(place.rsplit('/').next().unwrap()));
    server.private.post(&format!("{place}/redeliver"), json!({})).await.expect(202);
    receiver.read_until("came once more");
    let forged = Client::new(receiver.address, None).post("/hook", json!({"type": "forged"})).await;
    assert_eq!(forged.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_example_knows_what_it_dealt_with_and_not_all_of_it_for_ever() {
    const REMEMBERED: usize = 1_000;
    let (old, new) = ("whsec_b2xk", "whsec_bmV3");
    let mut receiver = example(&format!("{old} {new}"));
    let client = Client::new(receiver.address, None);
    let send = async |secret: &str, id: &str, body: &str| {
        let sent = Utc::now().timestamp();
        let signature = standardwebhooks::Webhook::new(secret).unwrap();
        let signature = signature.sign(id, sent, body.as_bytes()).unwrap();
        let request = client.request(reqwest::Method::POST, "/hook").body(body.to_owned());
        let request = request.header("webhook-id", id).header("webhook-timestamp", sent);
        client.send(request.header("webhook-signature", signature)).await.status.as_u16()
    };
    // What failed is tried again, and not taken for done.
    assert_eq!(send(old, "first", "no JSON").await, 500);
    assert_eq!(send(old, "first", "no JSON").await, 500);
    assert_eq!(send(new, "first", r#"{"type":"one"}"#).await, 204);
    assert_eq!(send(new, "first", "no JSON").await, 204);
    receiver.read_until("first came once more");
    for number in 0..REMEMBERED {
        assert_eq!(send(new, &format!("other-{number}"), "{}").await, 204);
    }
    assert_eq!(send(new, "first", r#"{"type":"again"}"#).await, 204);
    receiver.read_until(r#"first "again""#);
}

/// Deliveries of one tenant to receivers that do not answer, as many as may be in hand, keep no other tenant's waiting:
/// neither to a receiver of its own, nor to the same one.
#[tokio::test(flavor = "multi_thread")]
async fn tenants_take_turns() {
    let (server, reactor) = server().await;
    let mut silent = Vec::new();
    // More than there are places for receivers of one tenant that are not known.
    for _ in 0..70 {
        silent.push(
            Receiver::with(|number| match number {
                0 => Action::After(Duration::from_mins(1)),
                _ => Action::Answer(200),
            })
            .await,
        );
    }
    for receiver in &silent {
        queue(&server, &reactor, &receiver.url()).await;
    }
    silent[0].wait(1).await;
    let other = server.other_tenant().await;
    let body = json!({"name": "o", "type": "private", "permissions": ["token:use"]});
    let key = other.post("/applications", body).await.expect(201)["key"].clone();
    let formula = json!({"id": "6f2b0c0e-3d5a-4c38-9d6b-5a1f3c7e9b01"});
    let body = json!({"name": "r", "formula": formula, "configuration": {}});
    let made = other.post("/reactors", body).await.expect(201);
    let path = format!("/reactors/{}/react", made["id"].as_str().unwrap());
    let client = server.client(key.as_str().unwrap());
    // The second of the silent receiver's webhooks is this one.
    let args = json!({"card": {"number": "4242424242424242"}});
    let body = json!({"args": args, "callback_url": silent[0].url()});
    let mut in_time = false;
    for round in 1..=3 {
        let began = Instant::now();
        client.post(&path, body.clone()).await.expect(202);
        let own = |hook: &Hook| hook.json()["data"]["reactor_id"] == made["id"];
        let arrived = || silent[0].seen().iter().filter(|hook| own(hook)).count();
        eventually("webhook of the other tenant", || (arrived() >= round).then_some(())).await;
        // Less than a try of the silent ones takes; a slow machine may need as long itself, once.
        in_time = began.elapsed() < Duration::from_secs(10);
        if in_time {
            break;
        }
    }
    assert!(in_time);
}
