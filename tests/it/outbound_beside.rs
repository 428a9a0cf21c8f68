//! Requests that a formula begins are under way beside each other, and each is answered by itself (wit/formula.wit).

use serde_json::{Value, json};

use crate::outbound::World;
use crate::support::Answer;

impl World {
    async fn react_beside(&self, all: &[Value], order: &[usize]) -> Answer {
        let args = json!({ "args": { "all": all, "order": order } });
        self.server.private.post(&self.path, args).await
    }

    /// What came of requests that were begun in their order, in that of their answers.
    async fn begin(&self, all: &[Value], order: &[usize]) -> Vec<Value> {
        let answer = self.react_beside(all, order).await.expect(200);
        answer["raw"].as_array().unwrap().clone()
    }

    fn getting(&self, path: &str) -> Value {
        json!({ "url": self.upstream.url(path) })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn several_are_under_way_at_a_time() {
    let world = World::new().await;
    // Each is answered when all of them are there.
    let answers = world.begin(&vec![world.getting("/meet"); 3], &[0, 1, 2]).await;
    let mut told: Vec<Value> = answers.iter().map(|answer| answer["body"].clone()).collect();
    told.sort_unstable_by_key(Value::to_string);
    assert_eq!(told, ["false", "false", "true"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn each_has_its_own_answer_whichever_is_asked_first() {
    let world = World::new().await;
    let all: Vec<Value> = (1..=20).map(|count| world.getting(&format!("/bytes/{count}"))).collect();
    // More than are under way at a time, and the last of them first.
    let backwards: Vec<usize> = (0..20).rev().collect();
    let answers = world.begin(&all, &backwards).await;
    let told: Vec<&Value> = answers.iter().map(|answer| &answer["body_bytes"]).collect();
    let expected: Vec<Value> = (1..=20).rev().map(Value::from).collect();
    assert_eq!(told, expected.iter().collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_taken_once() {
    let world = World::new().await;
    let answers = world.begin(&[world.getting("/bytes/3")], &[0, 0]).await;
    assert_eq!(answers[0]["body_bytes"], 3);
    let again = json!({ "error": "invalid", "reason": "the answer was taken already" });
    assert_eq!(answers[1], again);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_given_up_leaves_its_place_to_another() {
    let world = World::new().await;
    let mut all = vec![world.getting("/never"); 8];
    all.push(world.getting("/bytes/3"));
    let answers = world.begin(&all, &[8]).await;
    assert_eq!(answers[0]["body_bytes"], 3);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_is_told_in_the_place_of_its_answer() {
    let world = World::new().await;
    let elsewhere = json!({ "url": "https://elsewhere.example/" });
    let late = json!({ "url": world.upstream.url("/never"), "timeout_ms": 50 });
    let odd = json!({ "url": world.upstream.url("/echo"), "method": "TRACE" });
    let all = [elsewhere, world.getting("/bytes/3"), late, odd];
    let answers = world.begin(&all, &[0, 1, 2, 3]).await;
    let errors: Vec<&Value> = answers.iter().map(|answer| &answer["error"]).collect();
    assert_eq!(errors, [&json!("denied"), &Value::Null, &json!("timeout"), &json!("invalid")]);
    // All that a run begins counts as what it sends.
    let all = vec![world.getting("/bytes/1"); 101];
    let answers = world.begin(&all, &[0, 99, 100]).await;
    assert_eq!((&answers[0]["status"], &answers[1]["status"]), (&json!(200), &json!(200)));
    assert_eq!(answers[2]["error"], "denied", "{}", answers[2]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_ends_gives_up_what_it_began() {
    let world = World::new().await;
    let answer = world.react_beside(&vec![world.getting("/never"); 3], &[]).await;
    assert_eq!(answer.expect(200)["raw"], json!([]));
    // One that waits for them ends at its time, as one that sends does.
    let mut all = vec![world.getting("/never"); 2];
    all[1]["timeout_ms"] = json!(10);
    let answers = world.begin(&all, &[1]).await;
    assert_eq!(answers[0]["error"], "timeout");
}
