//! A tenant is erased at once by destroying its keys, and then leaves the files too.

use std::fs::{self, File};
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use tempfile::TempDir;
use tokamak::crypto::keys::RootKey;
use tokamak::http::Serving;
use tokamak::model::id::TenantId;
use tokamak::store::Store;

use crate::support::binary::{
    MANAGEMENT_KEY, Process, ROOT_KEY, about, assert_sound, command, eventually,
};
use crate::support::operator::{
    NOBODY, TENANT_KEYS, copy, done, occurrences, operate, record, records, tenant_keys,
};
use crate::support::server::{Setup, open_store};
use crate::support::wrapped::{Ending, Wrapped};
use crate::support::{Client, TestServer, tamper};

/// The kind of notes on erased tenants.
const ERASED: u8 = 21;

async fn some_token(management: &Client) -> (Client, String) {
    let body =
        json!({"name": "one", "type": "private", "permissions": ["token:create", "token:read"]});
    let made = management.post("/applications", body).await.expect(201);
    let client = management.with_key(made["key"].as_str().unwrap());
    let id = client.token("card_number", json!("4242424242424242")).await;
    (client, id)
}

fn id_of(made: &str) -> (TenantId, String) {
    let made: serde_json::Value = serde_json::from_str(made).unwrap();
    let text = |member: &str| made[member].as_str().unwrap().to_owned();
    (text("id").parse().unwrap(), text("management_key"))
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erased_tenant_is_gone_for_good_while_the_others_go_on() {
    let folder = tempfile::tempdir().unwrap();
    let (data, before) = (folder.path().join("data"), folder.path().join("before"));
    assert_eq!(Process::serve(&data).terminate(), Some(0));
    let create = ["tenant", "create", "to be erased", "--json"];
    let (tenant, key) = id_of(&done(&data, Some(ROOT_KEY), &create));
    let process = Process::serve(&data);
    let management = Client::new(process.address, Some(&key));
    let (client, id) = some_token(&management).await;
    let (other, other_id) = some_token(&process.management()).await;
    assert_eq!(process.terminate(), Some(0));
    copy(&data, &before);
    let store = open_store(&before.join("store")).await;
    let wrapped = record(&store, TENANT_KEYS, tenant, "keys").await.unwrap().body;
    drop(store);
    assert!(occurrences(&data, &wrapped) > 0);

    let process = Process::serve(&data);
    let at = |client: &Client| Client::new(process.address, client.key.as_deref());
    let (client, other, management) = (at(&client), at(&other), at(&management));
    client.get(&format!("/tokens/{id}")).await.expect(200);
    done(&data, None, &["tenant", "erase", &tenant.to_string(), "--yes"]);
    client.get(&format!("/tokens/{id}")).await.expect(401);
    management.get("/applications").await.expect(401);
    other.get(&format!("/tokens/{other_id}")).await.expect(200);
    // Nothing is left of the keys, once what else there was is swept and the store compacted.
    eventually("end of the keys", || (occurrences(&data, &wrapped) == 0).then_some(())).await;
    let (code, _, stderr) =
        operate(&data, None, &["tenant", "erase", &tenant.to_string(), "--yes"]);
    assert!(code == 1 && stderr.contains("no such tenant"), "{stderr}");
    let status = done(&data, None, &["keys", "status"]);
    assert!(!status.contains(&tenant.to_string()), "{status}");
    assert_eq!(process.terminate(), Some(0));

    // Nor does anything open in a copy that is made now, with all keys there are.
    let after = folder.path().join("after");
    copy(&data, &after);
    let store = open_store(&after.join("store")).await;
    assert_eq!(records(&store, tenant).await, []);
    drop(store);
    let process = Process::serve(&after);
    Client::new(process.address, client.key.as_deref()).get("/tokens").await.expect(401);
    let other = Client::new(process.address, other.key.as_deref());
    other.get(&format!("/tokens/{other_id}")).await.expect(200);
    assert_eq!(process.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_server_it_is_done_by_the_command() {
    let folder = tempfile::tempdir().unwrap();
    let (tenant, _) =
        id_of(&done(folder.path(), Some(ROOT_KEY), &["tenant", "create", "one", "--json"]));
    let (kept, _) =
        id_of(&done(folder.path(), Some(ROOT_KEY), &["tenant", "create", "two", "--json"]));
    let (code, said, refused) =
        operate(folder.path(), Some(ROOT_KEY), &["tenant", "erase", &tenant.to_string()]);
    assert_eq!((code, said.as_str()), (1, ""), "{refused}");
    assert!(refused.contains("--yes"), "{refused}");
    let tenants = done(folder.path(), Some(ROOT_KEY), &["tenant", "list"]);
    assert!(tenants.contains(&tenant.to_string()), "{tenants}");
    let said =
        done(folder.path(), Some(ROOT_KEY), &["tenant", "erase", &tenant.to_string(), "--yes"]);
    assert!(said.contains("is removed"), "{said}");
    let store = open_store(&folder.path().join("store")).await;
    assert_eq!(records(&store, tenant).await, []);
    let root = RootKey::parse(ROOT_KEY).unwrap();
    assert!(tenant_keys(&store, kept, &root).await.is_some());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_an_erased_tenant_leaves_until_it_is_swept_is_not_called_damaged() {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup { folder: Some(folder.path().to_owned()), ..Setup::default() };
    let server = TestServer::start_with(setup).await;
    let doomed = server.other_tenant().await;
    let (_, id) = some_token(&doomed).await;
    let own = doomed.get("/applications/key").await.expect(200);
    let tenant: TenantId = own["tenant_id"].as_str().unwrap().parse().unwrap();
    server.vault.erase_tenant(tenant).await.unwrap();
    server.stop().await;
    let store = open_store(&folder.path().join("store")).await;
    assert!(!records(&store, tenant).await.is_empty(), "it was swept");
    drop(store);
    let (code, out, _) = about(folder.path(), &["keys", "status"]);
    let told =
        format!("What tenant {tenant} left when it was erased is in the store's files still");
    assert!(code == 0 && out.contains(&told), "{out}");
    let looked_at = assert_sound(folder.path());
    assert!(looked_at["log_entries"].as_u64() > Some(2), "{looked_at}");
    // What nobody can open is still as it was stored, or else named.
    let store = folder.path().join("store");
    tamper::change(&store, tamper::TOKEN, &id);
    let (code, out, _) = about(folder.path(), &["verify"]);
    let named = format!("damaged: token  tenant {tenant}  id {id}: was changed");
    assert!(code == 1 && out.lines().any(|line| line == named), "{out}");
    tamper::change(&store, tamper::TOKEN, &id);
    // Without the note that says so, a tenant without keys is a damaged one.
    let rows = tamper::rows(&store);
    let note = tamper::keys(&rows, ERASED, &tenant.to_string()).pop().unwrap();
    rows.remove(note).unwrap();
    rows.flush().unwrap();
    drop(rows);
    let (code, out, _) = about(folder.path(), &["verify"]);
    assert!(code == 1 && out.contains("its tenant's keys are not there"), "{out}");
}

/// A server, its store, and a tenant with a log that was erased, whose records are there still.
async fn just_erased() -> (TestServer, Arc<dyn Store>, TenantId, TempDir) {
    let (server, store, tenant, folder) = doomed(Serving::default()).await;
    server.vault.erase_tenant(tenant).await.unwrap();
    assert!(!records(store.as_ref(), tenant).await.is_empty());
    (server, store, tenant, folder)
}

/// A server, its store, and a tenant with a log.
async fn doomed(serving: Serving) -> (TestServer, Arc<dyn Store>, TenantId, TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store: Arc<dyn Store> = Arc::new(open_store(&folder.path().join("store")).await);
    let setup = Setup { store: Some(Arc::clone(&store)), serving, ..Setup::default() };
    let server = TestServer::start_with(setup).await;
    let doomed = server.other_tenant().await;
    let (client, id) = some_token(&doomed).await;
    for _ in 0..250 {
        client.get(&format!("/tokens/{id}")).await.expect(200);
    }
    let own = doomed.get("/applications/key").await.expect(200);
    let tenant: TenantId = own["tenant_id"].as_str().unwrap().parse().unwrap();
    (server, store, tenant, folder)
}

/// Waits until nothing of a tenant is found any more.
async fn gone(store: &dyn Store, tenant: TenantId) {
    for _ in 0..1_200 {
        if records(store, tenant).await.is_empty() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("within a minute: something of the tenant is there");
}

async fn notes(store: &dyn Store) -> usize {
    records(store, NOBODY).await.iter().filter(|one| one.kind.0 == ERASED).count()
}

#[tokio::test(flavor = "multi_thread")]
async fn sweeps_at_once_go_one_after_the_other() {
    let (server, store, tenant, folder) = just_erased().await;
    // As long as a backup is read, the files are not made anew, and the note stays.
    let backup = server.vault.backup().await.unwrap();
    let sweep = || {
        let vault = server.vault.clone();
        tokio::spawn(async move { vault.sweep_erased().await })
    };
    let sweeps = [sweep(), sweep(), sweep()];
    gone(store.as_ref(), tenant).await;
    assert_eq!(notes(store.as_ref()).await, 1);
    assert!(!sweeps.iter().any(tokio::task::JoinHandle::is_finished));
    let erased = async || server.vault.keys_status().await.unwrap().erased_in_files;
    assert_eq!(erased().await, [tenant]);
    drop(backup);
    let mut removed = Vec::new();
    for sweep in sweeps {
        removed.push(sweep.await.unwrap().unwrap());
    }
    removed.sort_unstable();
    assert!(removed[..2] == [0, 0] && removed[2] > 250, "{removed:?}");
    assert_eq!(notes(store.as_ref()).await, 0);
    assert_eq!(erased().await, []);
    // One made the files anew; the others found nothing to be done.
    let names = std::fs::read_dir(folder.path().join("store")).unwrap();
    let names = names.map(|one| one.unwrap().file_name().into_string().unwrap());
    let generations: Vec<String> = names.filter(|name| name.starts_with("gen-")).collect();
    assert_eq!(generations, ["gen-1"]);
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_ended_goes_before_a_sweep_waits_for_a_backup() {
    let (server, store, tenant, _folder) = just_erased().await;
    let body =
        json!({"id": "ends", "type": "token", "data": "x", "expires_at": "2026-01-01T01:00:00Z"});
    server.private.post("/tokens", body).await.expect(201);
    server.clock.advance_ms(2 * 60 * 60 * 1_000);
    let backup = server.vault.backup().await.unwrap();
    let sweeping = tokio::spawn({
        let vault = server.vault.clone();
        async move { vault.sweep().await }
    });
    let mut told = String::new();
    for _ in 0..1_200 {
        told = server.management.get("/logs?entity_type=token&entity_id=ends").await.text();
        if told.contains("Token expired") {
            break;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(told.contains("Token expired"), "{told}");
    gone(store.as_ref(), tenant).await;
    assert!(!sweeping.is_finished() && notes(store.as_ref()).await == 1);
    drop(backup);
    sweeping.await.unwrap().unwrap();
    assert_eq!(notes(store.as_ref()).await, 0);
    server.stop().await;
}

/// Waits until the log tells that a token has ended and was removed.
async fn expired(server: &TestServer, id: &str) {
    for _ in 0..1_200 {
        let logs = format!("/logs?entity_type=token&entity_id={id}");
        if server.management.get(&logs).await.text().contains("Token expired") {
            return;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("within a minute: {id} is still there");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_goes_on_removing_what_has_ended_while_a_backup_is_taken() {
    let serving = Serving { sweep_every: Some(Duration::from_millis(50)), ..Serving::default() };
    let (server, store, tenant, _folder) = doomed(serving).await;
    let backup = server.vault.backup().await.unwrap();
    server.vault.erase_tenant(tenant).await.unwrap();
    // What the tenant left is removed, but for the note, which waits for the backup.
    gone(store.as_ref(), tenant).await;
    for (id, hour) in [("first", 1), ("second", 3), ("third", 5)] {
        let body = json!({"id": id, "type": "token", "data": "x",
            "expires_at": format!("2026-01-01T{hour:02}:00:00Z")});
        server.private.post("/tokens", body).await.expect(201);
    }
    for id in ["first", "second", "third"] {
        server.clock.advance_ms(2 * 60 * 60 * 1_000);
        expired(&server, id).await;
    }
    assert_eq!(notes(store.as_ref()).await, 1);
    drop(backup);
    for _ in 0..1_200 {
        if notes(store.as_ref()).await == 0 {
            return server.stop().await;
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    panic!("within a minute: the note on the erased tenant is still there");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_erasure_that_ends_anywhere_is_whole_or_has_not_begun() {
    let base = tempfile::tempdir().unwrap();
    let setup = Setup { folder: Some(base.path().to_owned()), ..Setup::default() };
    let server = TestServer::start_with(setup).await;
    let doomed = server.other_tenant().await;
    let (client, id) = some_token(&doomed).await;
    let (other, other_id) = some_token(&server.management).await;
    let own = doomed.get("/applications/key").await.expect(200);
    let tenant: TenantId = own["tenant_id"].as_str().unwrap().parse().unwrap();
    server.stop().await;

    let (mut erased, mut alive) = (0, 0);
    for steps in 0.. {
        let folder = tempfile::tempdir().unwrap();
        copy(base.path(), folder.path());
        let ending = Wrapped::<Ending>::new(open_store(&folder.path().join("store")).await);
        let start = |store| {
            let folder = Some(folder.path().to_owned());
            TestServer::start_with(Setup { folder, store, ..Setup::default() })
        };
        let server = start(Some(Arc::clone(&ending) as _)).await;
        ending.hook.end_after(steps);
        let done = server.vault.erase_tenant(tenant).await;
        let swept = server.vault.sweep_erased().await;
        server.stop().await;
        drop(ending);

        let server = start(None).await;
        let read =
            server.client(client.key.as_deref().unwrap()).get(&format!("/tokens/{id}")).await;
        let other = server.client(other.key.as_deref().unwrap());
        other.get(&format!("/tokens/{other_id}")).await.expect(200);
        if done.is_ok() {
            read.expect(401);
            erased += 1;
            // The next sweep finishes what was begun.
            server.vault.sweep().await.unwrap();
        } else {
            read.expect(200);
            alive += 1;
        }
        server.stop().await;
        let store = open_store(&folder.path().join("store")).await;
        assert_eq!(records(&store, tenant).await.is_empty(), done.is_ok());
        assert!(records(&store, NOBODY).await.iter().all(|one| one.kind.0 != 21));
        if done.is_ok() && swept.is_ok() {
            break;
        }
    }
    assert!(alive >= 1 && erased >= 2, "{alive} {erased}");
}

#[tokio::test(flavor = "multi_thread")]
async fn after_the_last_tenant_none_is_made_whose_key_had_ended() {
    let folder = tempfile::tempdir().unwrap();
    let (data, log) = (folder.path().join("data"), folder.path().join("log"));
    let started = || {
        let mut serve = command();
        serve.args(["serve", "--listen", "127.0.0.1:0", "--log", "info", "--data-dir"]);
        serve.arg(&data).env("TOKAMAK_ROOT_KEY", ROOT_KEY);
        serve.env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY).stderr(File::create(&log).unwrap());
        Process::start(serve)
    };
    let asked = async |process: &Process, status| {
        let client = Client::new(process.address, Some(MANAGEMENT_KEY));
        client.get("/tenants/self").await.expect(status)
    };
    let process = started();
    let own = asked(&process, 200).await;
    let erase = ["tenant", "erase", own["id"].as_str().unwrap(), "--yes"];
    eventually("socket", || data.join("control.sock").exists().then_some(())).await;
    done(&data, None, &erase);
    asked(&process, 401).await;
    assert_eq!(process.terminate(), Some(0));
    let process = started();
    asked(&process, 401).await;
    assert_eq!(process.terminate(), Some(0));
    let told = fs::read_to_string(&log).unwrap();
    assert!(told.contains("`tokamak tenant create` makes another"), "{told}");
    assert_eq!(done(&data, Some(ROOT_KEY), &["tenant", "list"]), "");
}
