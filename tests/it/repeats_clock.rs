//! What a repeated request finds while the clock is in doubt: one that was set forward by mistake has nothing carried
//! out again.

use reqwest::Method;
use serde_json::json;

use crate::support::{Answer, TestServer, guests};

const DAY_MS: u64 = 24 * 3_600_000;
const STEP_MS: i64 = 2 * 24 * 3_600_000;

fn is_replay(answer: &Answer) -> bool {
    answer.headers.contains_key("svc-idempotent-replay")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_clock_that_is_set_forward_has_no_run_carried_out_again() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let react = async |number: u32| {
        let request = server.private.request(Method::POST, &format!("/reactors/{reactor}/react"));
        let request = request.header("SVC-IDEMPOTENCY-KEY", "k");
        server.private.send(request.json(&json!({"args": {"number": number}}))).await
    };
    let runs = async || {
        let path = format!("/reactors/{reactor}/invocations");
        let listed = server.management.get(&path).await.expect(200);
        listed["pagination"]["total_items"].as_u64().unwrap()
    };
    // The clock is seen before it is set.
    server.vault.sweep().await.unwrap();
    let first = react(1).await.expect(200);
    server.clock.set_by_ms(STEP_MS);
    let again = react(1).await;
    assert!(is_replay(&again), "{}", again.text());
    assert_eq!(again.expect(200), first);
    react(2).await.expect(422);
    // Set right, all is as before.
    server.clock.set_by_ms(-STEP_MS);
    let again = react(1).await;
    assert!(is_replay(&again));
    assert_eq!((again.expect(200), runs().await), (first, 1));
    // One that was really to be set is believed after a day, and the answer has ended by it.
    server.clock.set_by_ms(STEP_MS);
    assert!(is_replay(&react(1).await));
    server.clock.advance_ms(DAY_MS);
    let anew = react(1).await;
    anew.expect(200);
    assert!(!is_replay(&anew));
    assert_eq!(runs().await, 2);
}
