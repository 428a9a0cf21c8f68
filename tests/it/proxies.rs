//! What the environment says of proxies is not for what the server sends on behalf of others: a proxy would look up
//! names itself, past what is checked here (decisions §6, §8). Nor is it for what the command line sends to a server: a
//! proxy would read the key that goes along.

use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use tokio::net::TcpListener;

use crate::support::binary::{MANAGEMENT_KEY, Process, ROOT_KEY, command, run};
use crate::support::guests;
use crate::support::receiver::Receiver;
use crate::support::upstream::Upstream;
use crate::support::workshop::{BUILT, formula, project_of};

/// Something that listens as a proxy would, and counts who connects.
async fn proxy() -> (String, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let connections = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&connections);
    tokio::spawn(async move {
        while listener.accept().await.is_ok() {
            seen.fetch_add(1, Ordering::SeqCst);
        }
    });
    (url, connections)
}

/// Has the environment of a command name a proxy for everything.
fn through(command: &mut Command, proxy: &str) {
    for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
        command.env(name, proxy).env(name.to_lowercase(), proxy);
    }
    for name in ["NO_PROXY", "no_proxy", "REQUEST_METHOD"] {
        command.env_remove(name);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_goes_through_a_proxy_of_the_environment() {
    let folder = tempfile::tempdir().unwrap();
    let (proxy, connections) = proxy().await;
    let mut serve = command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--cache-mb", "32", "--log", "warn"]);
    serve.args(["--allow-private-networks", "--allow-http-callbacks", "--data-dir"]);
    serve.arg(folder.path());
    serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
    through(&mut serve, &proxy);
    let process = Process::start(serve);
    let management = process.management();
    let upstream = Upstream::start().await;
    let seen = guests::fetch(&management, &upstream.url("/echo")).await;
    assert_eq!((&seen["status"], upstream.seen().len()), (&json!(202), 1), "{seen}");
    // With TLS the way leads there too, although nobody listens any more.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    let seen = guests::fetch(&management, &format!("https://127.0.0.1:{port}/")).await;
    assert_eq!(seen["error"], "unreachable", "{seen}");

    let receiver = Receiver::start().await;
    let formula = guests::send(&management, "probe", json!({})).await;
    let body = json!({"name": "probe", "formula": {"id": formula}, "configuration": {}});
    let reactor = management.post("/reactors", body).await.expect(201);
    let body = json!({"name": "a", "type": "private", "permissions": ["token:use"]});
    let application = management.post("/applications", body).await.expect(201);
    let caller = management.with_key(application["key"].as_str().unwrap());
    let path = format!("/reactors/{}/react", reactor["id"].as_str().unwrap());
    let body = json!({"args": {"behaviour": "echo"}, "callback_url": receiver.url()});
    caller.post(&path, body).await.expect(202);
    assert_eq!(receiver.wait(1).await[0].json()["type"], "reactor.completed");
    assert_eq!(connections.load(Ordering::SeqCst), 0);
    assert_eq!(process.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_push_gives_its_key_to_no_proxy_of_the_environment() {
    let data = tempfile::tempdir().unwrap();
    let server = Process::serve(data.path());
    let address = format!("http://{}", server.address);
    let (proxy, connections) = proxy().await;
    let project = project_of(guests::component("bare"), &[]);
    let arguments = [&["push", "--url", &address, "--key", MANAGEMENT_KEY], &BUILT[..]].concat();
    let mut push = formula(project.path(), &arguments);
    through(&mut push, &proxy);
    let (code, _, stderr) = run(push);
    assert_eq!((code, connections.load(Ordering::SeqCst)), (0, 0), "{stderr}");
}
