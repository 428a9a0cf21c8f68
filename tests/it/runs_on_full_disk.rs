//! Runs that nothing can be stored of: they are not begun, and one that was is not told as if it had not been.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use serde_json::json;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpListener;

use crate::support::scripts::reactor;
use crate::support::server::{Setup, store_with_disk};
use crate::support::upstream::Upstream;
use crate::support::{Answer, TestServer};

const MIB: u64 = 1 << 20;
/// Less than is kept free for what was begun; and less than anything is stored with.
const LITTLE: u64 = 100 * MIB;
const NONE: u64 = 10 * MIB;

/// Tells the other server that it has begun, and goes on once that has answered.
const PAYS: &str = "module.exports = async ({ args: { at } }) => {\n\
    const answer = await fetch(at, { method: 'POST' });\n\
    return { raw: answer.status, tokenize: 'receipt' };\n};";

/// A server, and how much its disk has free.
async fn server() -> (TestServer, Arc<AtomicU64>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let (store, free) = store_with_disk(&folder.path().join("store"));
    let setup = Setup { store: Some(store), ..Setup::open() };
    (TestServer::start_with(setup).await, free, folder)
}

async fn pay(server: &TestServer, path: &str, at: &str) -> Answer {
    server.private.post(path, json!({"args": {"at": at}})).await
}

/// Another server, which fills the disk before it answers; gives where it listens.
async fn filling(free: &Arc<AtomicU64>, left: u64) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (free, address) = (Arc::clone(free), listener.local_addr().unwrap());
    tokio::spawn(async move {
        let (mut asked, _) = listener.accept().await.unwrap();
        assert_eq!(asked.read_u8().await.unwrap(), b'P');
        free.store(left, Ordering::SeqCst);
        let answer = b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\nconnection: close\r\n\r\n";
        asked.write_all(answer).await.unwrap();
    });
    format!("http://{address}/")
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_cannot_be_stored_does_not_begin() {
    let (server, free, _folder) = server().await;
    let upstream = Upstream::start().await;
    let members = json!({"allowed_hosts": ["*"]});
    let path = reactor(&server, PAYS, members, json!({})).await;
    let at = upstream.url("/echo");
    pay(&server, &path, &at).await.expect(200);
    let before = upstream.seen().len();
    for left in [LITTLE, NONE] {
        free.store(left, Ordering::SeqCst);
        for _ in 0..3 {
            let refused = pay(&server, &path, &at).await;
            assert!(refused.headers.contains_key("retry-after"), "{left}");
            refused.expect(503);
        }
        assert_eq!(upstream.seen().len(), before, "{left}");
    }
    free.store(1 << 40, Ordering::SeqCst);
    pay(&server, &path, &at).await.expect(200);
    assert_eq!(upstream.seen().len(), before + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_has_begun_is_stored_with_what_is_kept_free_or_told_as_interrupted() {
    let (server, free, _folder) = server().await;
    let members = json!({"allowed_hosts": ["*"]});
    let path = reactor(&server, PAYS, members, json!({})).await;
    for (left, status) in [(LITTLE, 200), (NONE, 500)] {
        free.store(1 << 40, Ordering::SeqCst);
        let answer = pay(&server, &path, &filling(&free, left).await).await;
        assert!(!answer.headers.contains_key("retry-after"), "{left}");
        let is_named = answer.headers.contains_key("svc-invocation-id");
        let answer = answer.expect(status);
        if status == 200 {
            assert_eq!(answer["raw"], 200, "{answer}");
            let kept = answer["tokens"].as_str().unwrap();
            server.private.get(&format!("/tokens/{kept}")).await.expect(200);
        } else {
            assert!(is_named);
            assert_eq!(answer["title"], "Reactor Interrupted");
            assert!(answer["detail"].as_str().unwrap().contains("could not be stored"), "{answer}");
        }
    }
}

/// What is kept free is for runs that may have done something, and for whoever reads and deletes.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_run_makes_that_has_done_nothing_else_is_as_new_as_any_token() {
    let (server, free, _folder) = server().await;
    let code = "module.exports = () => ({ tokenize: 'new' });";
    let path = reactor(&server, code, json!({}), json!({})).await;
    let run = async || server.private.post(&path, json!({"args": {}})).await;
    run().await.expect(200);
    free.store(LITTLE, Ordering::SeqCst);
    let refused = run().await;
    assert!(refused.headers.contains_key("retry-after"));
    refused.expect(503);
    free.store(1 << 40, Ordering::SeqCst);
    run().await.expect(200);
}
