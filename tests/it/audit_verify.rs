//! `tokamak verify` and the upgrade of old stores, with the real binary (decisions §9).

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::support::binary::{Process, about, assert_sound};
use crate::support::operator::copy;
use crate::support::server::Setup;
use crate::support::{Client, TestServer, guests, tamper};

/// The key of a private application that the store of the first format knows.
const OLD_PRIVATE_KEY: &str = "key_prv_Itj0A0N6xmQbWDKNMESIOnUReIZuSVZR";

/// The key of a private application that the store of the third format knows.
const PRIVATE_KEY_OF_FORMAT_3: &str = "key_prv_vfMabSUotmWoKUxVhMIuH9TbcmkjswWB";

/// The key of a private application that the store of the fifth format knows.
const PRIVATE_KEY_OF_FORMAT_5: &str = "key_prv_p4GBqHZDrfrVPE6zbvCjtUYCjopktqqb";

/// And that of the eighth.
const PRIVATE_KEY_OF_FORMAT_8: &str = "key_prv_2CVtIoHxKShmKonPHeUf94DQ9Gmt6bXh";

/// Everything in a folder but the times of its files.
fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let entry = entry.unwrap();
        let name = entry.file_name().into_string().unwrap();
        if entry.file_type().unwrap().is_dir() {
            found.extend(contents(&entry.path()));
        } else {
            found.push((name, fs::read(entry.path()).unwrap()));
        }
    }
    found.sort_unstable();
    found
}

/// What `verify` says of a damaged store, a line for each damage.
fn damages(folder: &Path, words: &[&str]) -> Vec<String> {
    let (code, out, err) = about(folder, &[&["verify"], words].concat());
    assert_eq!(code, 1, "{out}{err}");
    out.lines().filter(|line| line.starts_with("damaged: ")).map(str::to_owned).collect()
}

/// A store as a version of this format left it, in a data folder.
fn of_format(number: u32) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures");
    let store = folder.path().join("store");
    copy(&fixtures.join(format!("format-{number}")), &store);
    fs::write(store.join("lock"), "").unwrap();
    (folder, store)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_the_first_format_is_brought_under_protection() {
    let (folder, store) = of_format(1);
    let (code, _, err) = about(folder.path(), &["verify"]);
    assert!(code == 2 && err.contains("not protected yet"), "{err}");

    // A kill while it starts, wherever that comes, leaves what the next start goes on from.
    let process = Process::serve(folder.path());
    process.kill();
    assert_sound(folder.path());
    let process = Process::serve(folder.path());
    let private = Client::new(process.address, Some(OLD_PRIVATE_KEY));
    let card = private.get("/tokens/card-1").await.expect(200);
    assert_eq!(card["data"]["number"], "4242424242424242");
    let long = private.get("/tokens/long-1").await.expect(200);
    assert_eq!(long["data"].as_str().unwrap().len(), 9_000);
    assert_eq!(private.search("metadata.n:22").await, ["token-2"]);
    private.get("/tokens/token-3").await.expect(404);
    // Stored when names had no pieces, a reactor is found by its name all the same.
    let reactors = process.management().get("/reactors").await.expect(200);
    let name = reactors["data"][0]["name"].as_str().unwrap();
    let found = process.management().get(&format!("/reactors?name={name}")).await.expect(200);
    assert_eq!(found["data"][0]["id"], reactors["data"][0]["id"]);
    let none = process.management().get("/reactors?name=another*").await.expect(200);
    assert_eq!(none["pagination"]["total_items"], 0);
    let logs = process.management().get("/logs?size=100").await.expect(200);
    let total = logs["pagination"]["total_items"].as_u64().unwrap();
    assert_eq!(process.terminate(), Some(0));
    let looked_at = assert_sound(folder.path());
    // Made to look like an old one again, it is not taken for one.
    let rows = tamper::rows(&store);
    rows.insert("mformat", "1").unwrap();
    rows.flush().unwrap();
    drop(rows);
    let (code, _, err) = about(folder.path(), &["tenant", "list"]);
    assert!(code == 1 && err.contains("damaged"), "{err}");
    assert!(total > 20 && looked_at["log_entries"].as_u64().unwrap() >= total, "{looked_at}");
}

/// The third format is the last one before there was a journal.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_the_third_format_goes_on_with_a_journal() {
    let (folder, store) = of_format(3);
    let format = || tamper::rows(&store).get("mformat").unwrap().unwrap().to_vec();
    assert_eq!(format(), b"3");
    let before = assert_sound(folder.path());
    let process = Process::serve(folder.path());
    let private = Client::new(process.address, Some(PRIVATE_KEY_OF_FORMAT_3));
    private.token("token", json!("written to a journal")).await;
    process.kill();
    let after = assert_sound(folder.path());
    assert!(after["log_entries"].as_u64() > before["log_entries"].as_u64(), "{before} {after}");

    let process = Process::serve(folder.path());
    let private = Client::new(process.address, Some(PRIVATE_KEY_OF_FORMAT_3));
    let data =
        async |id: &str| private.get(&format!("/tokens/{id}")).await.expect(200)["data"].clone();
    assert_eq!(data("card-1").await["number"], "4242424242424242");
    assert_eq!(data("long-1").await.as_str().unwrap().len(), 9_000);
    assert_eq!(data("token-1").await, "changed");
    private.get("/tokens/token-3").await.expect(404);
    assert_eq!(private.search("metadata.n:22").await, ["token-2"]);
    assert_eq!(private.list("").await.len(), 5);
    assert_eq!(process.terminate(), Some(0));
    assert_eq!(format(), b"10");
    let sound = assert_sound(folder.path());
    // Entries as they were kept then, and as they are now, are told in one way.
    let (code, log, _) = about(folder.path(), &["audit", "export"]);
    let entries: Vec<Value> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!((code, Some(entries.len() as u64)), (0, sound["log_entries"].as_u64()));
    assert!(entries.iter().all(|entry| entry["message"].is_string() && entry["hash"].is_string()));
}

/// The fourth format is the first one with a journal. The store is one of now that says it is of the fourth: what is read
/// is the journal of a process that was killed. How entries and tokens were written then is held by the fixtures.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_the_fourth_format_that_was_killed_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(folder.path());
    let application = json!({"name": "p", "type": "private", "permissions": ["token:create"]});
    let made = process.management().post("/applications", application).await.expect(201);
    let client = Client::new(process.address, made["key"].as_str());
    let mut ids = Vec::new();
    for number in 0..40 {
        ids.push(client.token("token", json!(number)).await);
    }
    process.kill();
    let store = folder.path().join("store");
    assert!(fs::read(store.join("journal")).unwrap().iter().any(|byte| *byte != 0));
    let tree = tamper::rows(&store);
    assert_eq!(tree.insert("mformat", b"4".as_slice()).unwrap().unwrap(), b"10");
    tree.flush().unwrap();
    drop(tree);
    let before = assert_sound(folder.path());
    let process = Process::serve(folder.path());
    let client = Client::new(process.address, made["key"].as_str());
    for id in &ids {
        // It is there: its id is taken.
        let body = json!({"id": id, "type": "token", "data": 1});
        client.post("/tokens", body).await.expect(409);
    }
    client.token("token", json!("more")).await;
    assert_eq!(process.terminate(), Some(0));
    assert_eq!(tamper::rows(&store).get("mformat").unwrap().unwrap(), b"10");
    let after = assert_sound(folder.path());
    assert!(after["log_entries"].as_u64() > before["log_entries"].as_u64(), "{before} {after}");
}

/// The eighth format is the last one whose journal does not say what it has seen in the tree. Its process was killed, and
/// nearly all lies in the journal.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_the_eighth_format_that_was_killed_goes_on() {
    let (folder, store) = of_format(8);
    let before = assert_sound(folder.path());
    // Who only looks at it leaves it as the version of then can go on with it.
    for _ in 0..2 {
        assert_eq!(about(folder.path(), &["audit", "heads"]).0, 0);
        let journal = fs::read(store.join("journal")).unwrap();
        let has = |magic: &[u8]| journal.windows(magic.len()).any(|at| at == magic);
        assert!(has(b"tkjrnl01") && !has(b"tkjrnl02"));
        assert_eq!(tamper::rows(&store).get("mformat").unwrap().unwrap(), b"8");
    }
    for more in 0..3 {
        let process = Process::serve(folder.path());
        let private = Client::new(process.address, Some(PRIVATE_KEY_OF_FORMAT_8));
        for number in 0..12 {
            let token = private.get(&format!("/tokens/token-{number}")).await.expect(200);
            assert_eq!(token["data"], format!("data {number}"));
        }
        assert_eq!(private.search("metadata.n:7").await, ["token-7"]);
        let body = json!({"type": "token", "id": format!("more-{more}"), "data": more});
        private.post("/tokens", body).await.expect(201);
        if more == 1 {
            assert_eq!(process.terminate(), Some(0));
            assert_eq!(tamper::rows(&store).get("mformat").unwrap().unwrap(), b"10");
        } else {
            process.kill();
        }
        let after = assert_sound(folder.path());
        assert!(after["log_entries"].as_u64() > before["log_entries"].as_u64(), "{after}");
    }
}

/// The fifth format is the last one in which tokens and what is told of runs are JSON, and runs lie each in rows of its own.
#[tokio::test(flavor = "multi_thread")]
async fn a_store_of_the_fifth_format_is_read_and_goes_on() {
    const REACTOR: &str = "01a20818-bb84-7001-8fe2-68993d59f9db";
    let (folder, store) = of_format(5);
    let format = || tamper::rows(&store).get("mformat").unwrap().unwrap().to_vec();
    let rows_of_runs = || {
        let rows = tamper::rows(&store);
        [b"r\x08", b"e\x08"].map(|prefix| rows.scan_prefix(prefix).count())
    };
    assert_eq!((format(), rows_of_runs()), (b"5".to_vec(), [6, 0]));
    let before = assert_sound(folder.path());

    let process = Process::serve(folder.path());
    let private = Client::new(process.address, Some(PRIVATE_KEY_OF_FORMAT_5));
    let masked = private.get("/tokens/masked-1").await.expect(200);
    assert_eq!(masked["data"], json!({"a": ["b", 1.5, null, true]}));
    assert_eq!(masked["mask"], json!({"a": "{{ data.a[0] }}", "fixed": [1]}));
    assert_eq!(masked["expires_at"], "2090-01-01T00:00:00.000+00:00");
    assert_eq!(masked["deduplicate_token"], true);
    let card = private.get("/tokens/card-1").await.expect(200);
    assert_eq!(card["data"]["number"], "4242424242424242");
    assert_eq!(
        (&card["containers"], &card["metadata"]),
        (&json!(["/pci/eu/"]), &json!({"region": "eu", "n": "1"}))
    );
    assert_eq!(
        private.get("/tokens/long-1").await.expect(200)["data"].as_str().unwrap().len(),
        9_000
    );
    assert_eq!(private.search("metadata.n:22").await, ["changed-1"]);
    assert_eq!(private.search("data:4242").await, ["card-1"]);
    // What is written now is short, and runs lie together.
    let patched =
        private.patch("/tokens/card-1", json!({"metadata": {"n": "2"}})).await.expect(200);
    assert_eq!(
        (&patched["metadata"]["n"], &patched["created_at"]),
        (&json!("2"), &card["created_at"])
    );
    let path = format!("/reactors/{REACTOR}/react");
    for _ in 0..3 {
        let answer =
            private.post(&path, json!({"args": {"card": "{{ card-1 }}"}})).await.expect(200);
        assert_eq!(answer["raw"]["last4"], "4242");
    }
    let runs =
        process.management().get(&format!("/reactors/{REACTOR}/invocations")).await.expect(200);
    // Those of before are listed too, for the days that they are kept.
    assert!(runs["pagination"]["total_items"].as_u64() >= Some(3), "{runs}");
    assert_eq!(runs["data"][0]["status"], "completed");
    process.kill();
    let after = assert_sound(folder.path());
    assert!(after["log_entries"].as_u64() > before["log_entries"].as_u64(), "{before} {after}");
    let process = Process::serve(folder.path());
    let private = Client::new(process.address, Some(PRIVATE_KEY_OF_FORMAT_5));
    assert_eq!(private.get("/tokens/card-1").await.expect(200)["data"], card["data"]);
    assert_eq!(process.terminate(), Some(0));
    assert_eq!((format(), rows_of_runs()[1] > 0), (b"10".to_vec(), true));
}

/// Where the last record of a journal lies.
fn last_record(journal: &[u8]) -> usize {
    let number = |at: &usize| u64::from_be_bytes(journal[at + 24..at + 32].try_into().unwrap());
    let begins = |at: &usize| journal[at + 16..].starts_with(b"tkjrnl02");
    (0..journal.len()).step_by(4_096).filter(begins).max_by_key(number).unwrap()
}

/// What a power cut may leave and what somebody may do look the same without an exported head.
#[tokio::test(flavor = "multi_thread")]
async fn a_last_write_that_is_not_whole_is_told_and_a_head_tells_whether_it_was_acknowledged() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(folder.path());
    let journal = folder.path().join("store/journal");
    // What the first sweep writes is not to be the last write.
    let written = || fs::metadata(&journal).unwrap().modified().unwrap();
    let mut before = None;
    while before.replace(written()) != Some(written()) {
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    let body = json!({"name": "last", "type": "management", "permissions": ["application:read"]});
    process.management().post("/applications", body).await.expect(201);
    let heads = folder.path().join("heads.jsonl");
    let (code, told, err) = about(folder.path(), &["audit", "heads"]);
    assert_eq!(code, 0, "{err}");
    fs::write(&heads, told).unwrap();
    process.kill();
    assert_eq!(assert_sound(folder.path())["cut_short"], false);
    let mut bytes = fs::read(&journal).unwrap();
    let last = last_record(&bytes);
    bytes[last + 100] ^= 1;
    fs::write(&journal, bytes).unwrap();
    assert_eq!(assert_sound(folder.path())["cut_short"], true);
    let (code, out, _) = about(folder.path(), &["verify"]);
    assert!(code == 0 && out.contains("the last write is not whole"), "{out}");
    let damages = damages(folder.path(), &["--head", heads.to_str().unwrap()]);
    assert!(damages.len() == 1 && damages[0].contains("head"), "{damages:?}");
    // A server that starts goes on without it.
    let process = Process::serve(folder.path());
    assert_eq!(process.terminate(), Some(0));
    assert_eq!(assert_sound(folder.path())["cut_short"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_that_a_server_keeps_is_looked_into() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup { folder: Some(folder.path().to_owned()), ..Setup::open() };
    let server = TestServer::start_with(setup).await;
    let reactor = guests::echo_reactor(&server).await;
    let card = json!({"number": "4242424242424242", "cvc": "123"});
    let card = server.private.token("card", card).await;
    let session = server.application("public", &["token:create"], json!([])).await;
    session.post("/sessions", Value::Null).await.expect(201);
    let react = format!("/reactors/{reactor}/react");
    let body = json!({"args": {"card": format!("{{{{ {card} }}}}")}});
    server.private.post(&react, body.clone()).await.expect(200);
    let mut queued = body;
    queued["callback_url"] = "http://127.0.0.1:9/".into();
    server.private.post(&react, queued).await.expect(202);
    let kept = server.private.request(reqwest::Method::POST, "/tokens");
    let kept = kept.json(&json!({"type": "token", "data": 1})).header("svc-idempotency-key", "a");
    server.private.send(kept).await.expect(201);
    server.management.get("/webhooks/signing-secrets").await.expect(200);
    let update = json!({"data": "other", "metadata": {"a": "b"}});
    let token = server.private.token("token", json!("x")).await;
    server.private.patch(&format!("/tokens/{token}"), update).await.expect(200);
    server.other_tenant().await.get("/applications").await.expect(200);
    server.clock.advance_ms(2 * 60 * 60 * 1_000);
    server.vault.sweep().await.unwrap();
    server.stop().await;
    let looked_at = assert_sound(folder.path());
    assert!(looked_at["records"].as_u64() > looked_at["log_entries"].as_u64());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_damaged_is_named_and_nothing_is_changed() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(folder.path());
    let (code, _, err) = about(folder.path(), &["verify"]);
    assert!(code == 2 && err.contains("another process"), "{err}");
    let body = json!({"name": "p", "type": "private", "permissions": ["token:create"]});
    let made = process.management().post("/applications", body).await.expect(201);
    let tenant = made["tenant_id"].as_str().unwrap();
    let private = Client::new(process.address, made["key"].as_str());
    for id in ["first", "other", "third"] {
        let body = json!({"id": id, "type": "token", "data": "4242424242424242"});
        private.post("/tokens", body).await.expect(201);
    }
    assert_eq!(process.terminate(), Some(0));

    let store = folder.path().join("store");
    tamper::change(&store, tamper::TOKEN, "other");
    let before = contents(folder.path());
    let told = damages(folder.path(), &[]);
    assert_eq!(told, [format!("damaged: token  tenant {tenant}  id other: was changed")]);
    assert_eq!(contents(folder.path()), before);
    let (code, out, _) = about(folder.path(), &["verify", "--json"]);
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(code, 1);
    let named = json!({"kind": "token", "tenant": tenant, "id": "other", "what": "was changed"});
    assert_eq!((&told["sound"], &told["damaged"]), (&json!(false), &json!([named])));
    assert_eq!(told["looked_at"]["damaged"], 1);
    tamper::change(&store, tamper::TOKEN, "other");
    assert_sound(folder.path());

    // The last entry of the log goes, without a trace but in what is kept of the log as a whole.
    let rows = tamper::rows(&store);
    let last = tamper::keys(&rows, tamper::LOG, "").pop().unwrap();
    rows.remove(last).unwrap();
    rows.flush().unwrap();
    drop(rows);
    let told = damages(folder.path(), &[]);
    assert!(told.iter().any(|line| line.contains("of the log are missing")), "{told:?}");

    let (code, _, err) = about(&folder.path().join("nowhere"), &["verify"]);
    assert!(code == 2 && err.contains("there is no store"), "{err}");
    let (code, _, err) = about(folder.path(), &["verify", "--root-key-file", "/dev/null"]);
    assert!(code == 2 && err.contains("more than one source"), "{err}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_exported_head_tells_of_a_store_put_back() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(folder.path());
    process.management().get("/applications").await.expect(200);
    assert_eq!(process.terminate(), Some(0));
    let earlier = folder.path().join("earlier");
    copy(&folder.path().join("store"), &earlier);
    let (code, early_heads, _) = about(folder.path(), &["audit", "heads"]);
    assert_eq!(code, 0);

    let process = Process::serve(folder.path());
    process.management().get("/applications").await.expect(200);
    assert_eq!(process.terminate(), Some(0));
    let (_, heads, _) = about(folder.path(), &["audit", "heads"]);
    let file = folder.path().join("heads");
    let with_heads = |heads: &str| {
        fs::write(&file, heads).unwrap();
        about(folder.path(), &["verify", "--head", file.to_str().unwrap()])
    };
    for known in [&early_heads, &heads, &format!("{early_heads}\n{heads}")] {
        let (code, out, _) = with_heads(known);
        assert_eq!(code, 0, "{out}");
        assert!(out.contains("the log leads through"), "{out}");
    }
    // Of two heads of one number the wrong one is told, whichever stands first.
    let own = heads.lines().next().unwrap();
    let mut wrong: Value = serde_json::from_str(own).unwrap();
    wrong["hash"] = "00".repeat(32).into();
    for both in [format!("{wrong}\n{own}\n"), format!("{own}\n{wrong}\n")] {
        let (code, out, _) = with_heads(&both);
        assert!(code == 1 && out.contains("contradict each other"), "{out}");
    }
    fs::remove_dir_all(folder.path().join("store")).unwrap();
    copy(&earlier, &folder.path().join("store"));
    assert_eq!(with_heads(&early_heads).0, 0);
    let (code, out, _) = with_heads(&heads);
    assert!(code == 1 && out.contains("the log ends before entry"), "{out}");
    let (code, _, err) = with_heads("{}");
    assert!(code == 2 && err.contains("line 1 is no head"), "{err}");
    // A file without any says nothing, and must not be taken for one that was held against the log.
    for none in ["", " \n\n"] {
        let (code, out, err) = with_heads(none);
        assert_eq!((code, out.as_str()), (2, ""), "{err}");
        assert!(err.contains("there is no head in"), "{err}");
    }
}
