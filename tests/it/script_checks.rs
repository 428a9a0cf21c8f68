//! Scripts that arrive when there is no slot or no memory to check them in: that says nothing of the script.

use std::time::Duration;

use serde_json::json;
use tokamak::runtime::{Call, Runtime, RuntimeConfig};
use tokio::task::JoinHandle;

use crate::support::scripts::call;
use crate::support::server::Setup;
use crate::support::{Answer, Client, TestServer};

async fn server(config: RuntimeConfig) -> (TestServer, Runtime) {
    let runtime = Runtime::new(config).unwrap();
    let setup = Setup { runtime: Some(runtime.clone()), ..Setup::default() };
    (TestServer::start_with(setup).await, runtime)
}

async fn send(client: &Client) -> Answer {
    let body = json!({"name": "s", "code": "module.exports = () => ({ raw: 1 });"});
    client.post("/reactor-formulas", body).await
}

/// In real time: what bounds the wait is no clock that a test could move.
#[tokio::test(flavor = "multi_thread")]
async fn a_script_for_which_no_slot_is_free_in_time_is_not_called_wrong() {
    let (server, runtime) = server(RuntimeConfig::new(1)).await;
    // So that what runs scripts is there.
    send(&server.management).await.expect(201);
    let slot = runtime.acquire(1, Duration::from_mins(1)).await.unwrap();
    let refused = send(&server.management).await;
    let problem = refused.expect(429);
    assert_eq!(problem["detail"], "As many reactors of the tenant run and wait as may; try again.");
    assert!(refused.headers.contains_key("retry-after"));
    drop(slot);
    send(&server.management).await.expect(201);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_for_which_there_is_no_memory_in_the_tenants_part_is_not_called_wrong() {
    // Half of this is less than what runs scripts takes.
    let config = RuntimeConfig { memory_bytes: 1 << 20, ..RuntimeConfig::new(1) };
    let (server, _) = server(config).await;
    let refused = send(&server.management).await;
    let problem = refused.expect(429);
    assert_eq!(problem["detail"], "The tenant's reactors hold all the memory they may.");
    assert!(refused.headers.contains_key("retry-after"));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_for_which_others_leave_no_memory_is_not_called_wrong() {
    // Two of these runs take nearly all of it, each what its owner may have.
    let config = RuntimeConfig { memory_bytes: 12 << 20, ..RuntimeConfig::new(4) };
    let (server, runtime) = server(config).await;
    send(&server.management).await.expect(201);
    let holds = "module.exports = async () => { const held = [];\n\
          try { for (;;) held.push(new Uint8Array(64 << 10).fill(1)); } catch { held.pop(); }\n\
          await new Promise((done) => setTimeout(done, 100_000)); return { raw: held.length }; };";
    let holds = runtime.script(holds, 1).await.unwrap();
    let hold = |owner| {
        let (runtime, holds) = (runtime.clone(), holds.clone());
        let call = Call { owner, ..call(json!({}), 10_000_000_000) };
        tokio::spawn(async move { runtime.invoke(&holds, call).await })
    };
    let mut held = [1, 2].map(hold);
    let refused = async {
        loop {
            let answer = send(&server.management).await;
            if answer.status != 201 {
                return answer;
            }
            // What looks whether it is held may have been in its way.
            for (run, owner) in held.iter_mut().zip([1, 2]) {
                if run.is_finished() {
                    *run = hold(owner);
                }
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    };
    let refused = tokio::time::timeout(Duration::from_mins(1), refused).await.unwrap();
    let detail = "The server has no memory left for the formula.";
    assert_eq!(refused.expect(503)["detail"], detail);
    held.iter().for_each(JoinHandle::abort);
    let taken = async { while send(&server.management).await.status != 201 {} };
    tokio::time::timeout(Duration::from_mins(1), taken).await.unwrap();
}
