//! Changes of keys, cut off after each single step they take: whatever is on the disk then opens, and is finished.

use std::path::Path;
use std::sync::Arc;

use serde_json::json;
use tokamak::crypto::keys::RootKey;
use tokamak::crypto::seal;
use tokamak::model::id::TenantId;
use tokamak::store::{Batch, Expect, Put, Store as _};
use tokamak::vault::KeyStatus;

use crate::support::operator::{
    NOBODY, SYSTEM, TENANT_KEYS, TOKEN, copy, record, records, tenant_keys,
};
use crate::support::server::{Setup, open_store, root_key};
use crate::support::wrapped::{Ending, Wrapped};
use crate::support::{Client, TestServer};

fn new_root() -> RootKey {
    RootKey::parse("QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI=").unwrap()
}

/// A folder with two tenants; the keys that read the tokens of each, with the tokens.
struct Base {
    folder: tempfile::TempDir,
    tenants: Vec<(TenantId, String, Vec<String>)>,
}

const TOKENS: usize = 25;

async fn base() -> Base {
    let folder = tempfile::tempdir().unwrap();
    let setup = Setup { folder: Some(folder.path().to_owned()), ..Setup::default() };
    let server = TestServer::start_with(setup).await;
    let mut tenants = Vec::new();
    for management in [server.management.clone(), server.other_tenant().await] {
        let own = management.get("/applications/key").await.expect(200);
        let body = json!({"name": "reader", "type": "private",
            "permissions": ["token:create", "token:read", "token:update", "token:search"]});
        let made = management.post("/applications", body).await.expect(201);
        let client = server.client(made["key"].as_str().unwrap());
        let mut tokens = Vec::new();
        for number in 0..TOKENS {
            tokens.push(client.token("card_number", json!("4242424242424242")).await);
            let metadata = json!({"metadata": {"n": number.to_string()}});
            client.patch(&format!("/tokens/{}", tokens[number]), metadata).await.expect(200);
        }
        // Longer than a row of the store.
        tokens.push(client.token("token", json!("x".repeat(30_000))).await);
        let tenant = own["tenant_id"].as_str().unwrap().parse().unwrap();
        tenants.push((tenant, client.key.unwrap(), tokens));
    }
    server.stop().await;
    Base { folder, tenants }
}

/// A server on a copy that can be ended.
async fn start(folder: &Path, root: RootKey) -> (TestServer, Arc<Wrapped<Ending>>) {
    let ending = Wrapped::new(open_store(&folder.join("store")).await);
    let setup = Setup {
        folder: Some(folder.to_owned()),
        root_key: Some(root),
        store: Some(Arc::clone(&ending) as _),
        ..Setup::default()
    };
    (TestServer::start_with(setup).await, ending)
}

async fn status(server: &TestServer, tenant: TenantId) -> KeyStatus {
    let status = server.vault.keys_status().await.unwrap();
    status.tenants.into_iter().find(|one| one.tenant_id == tenant).unwrap()
}

/// Everything reads as it did, and can be changed.
async fn check(server: &TestServer, base: &Base) {
    for (_, key, tokens) in &base.tenants {
        let client: Client = server.client(key);
        for id in tokens {
            client.get(&format!("/tokens/{id}")).await.expect(200);
        }
        let body = json!({"metadata": {"n": "after"}});
        client.patch(&format!("/tokens/{}", tokens[0]), body).await.expect(200);
        assert_eq!(client.search("metadata.n:5").await, [tokens[5].clone()]);
        client.token("token", json!("new")).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_the_root_key_that_ends_anywhere_leaves_one_key_that_counts() {
    let base = base().await;
    let mut counted = [0, 0];
    for steps in 0.. {
        let folder = tempfile::tempdir().unwrap();
        copy(base.folder.path(), folder.path());
        let (server, ending) = start(folder.path(), root_key()).await;
        ending.hook.end_after(steps);
        let done = server.vault.rotate_root_key(new_root()).await;
        server.stop().await;
        drop(ending);

        let store = open_store(&folder.path().join("store")).await;
        let by = record(&store, SYSTEM, NOBODY, "keys").await.unwrap().terms[0].0;
        let settled = record(&store, SYSTEM, NOBODY, "root key rotation").await.is_none();
        drop(store);
        let new_counts = by == new_root().id();
        assert!(new_counts || by == root_key().id());
        // Whoever asked is told which of the two counts, also when the rest is left to the next start.
        assert_eq!(new_counts, done.is_ok());
        counted[usize::from(new_counts)] += 1;
        let root = if new_counts { new_root() } else { root_key() };
        let (server, _) = start(folder.path(), root.clone()).await;
        check(&server, &base).await;
        // And what was begun can be done, or done again.
        let next = if new_counts { root_key() } else { new_root() };
        assert!(server.vault.rotate_root_key(next.clone()).await.is_ok());
        check(&server, &base).await;
        server.stop().await;
        let store = open_store(&folder.path().join("store")).await;
        for (tenant, ..) in &base.tenants {
            assert!(tenant_keys(&store, *tenant, &next).await.is_some());
            assert!(tenant_keys(&store, *tenant, &root).await.is_none());
            let left = record(&store, TENANT_KEYS, *tenant, "keys by the next root key").await;
            assert_eq!(left, None);
        }
        if new_counts && settled {
            break;
        }
    }
    assert!(counted[0] >= 2 && counted[1] >= 2, "{counted:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn sealing_anew_that_ends_anywhere_goes_on_and_leaves_nothing_behind() {
    let base = base().await;
    let (tenant, ..) = base.tenants[0];
    let mut told = 0;
    for steps in 0.. {
        let folder = tempfile::tempdir().unwrap();
        copy(base.folder.path(), folder.path());
        let (server, ending) = start(folder.path(), root_key()).await;
        ending.hook.end_after(steps);
        let rotated = server.vault.rotate_tenant_key(tenant).await;
        let done = server.vault.reseal().await;
        if rotated.is_ok() && done.is_err() {
            let status = status(&server, tenant).await;
            assert_eq!((status.version, status.older_versions), (2, vec![1]));
            // What is told is on the disk: the first step drew the key, the others sealed anew.
            let progress = status.resealing.map(|progress| (progress.resealed, progress.total));
            assert!(progress.is_none() || steps > 1, "{progress:?}");
            told += usize::from(progress.is_some());
            assert!(progress.is_none_or(|(some, all)| 0 < some && some <= all), "{progress:?}");
        }
        server.stop().await;
        drop(ending);

        let (server, _) = start(folder.path(), root_key()).await;
        check(&server, &base).await;
        if rotated.is_err() {
            server.vault.rotate_tenant_key(tenant).await.unwrap();
        }
        server.vault.reseal().await.unwrap();
        check(&server, &base).await;
        let status = status(&server, tenant).await;
        assert_eq!((status.version, status.older_versions, status.resealing), (2, vec![], None));
        server.stop().await;

        let store = open_store(&folder.path().join("store")).await;
        let keys = tenant_keys(&store, tenant, &root_key()).await.unwrap();
        assert!(keys.opening_key(1).is_none() && keys.opening_key(2).is_some());
        let records = records(&store, tenant).await;
        assert!(records.len() > TOKENS * 2);
        for record in records.iter().filter(|record| record.kind != TENANT_KEYS) {
            assert_eq!(seal::version_of(&record.body), Some(2), "{:?}", record.kind);
        }
        // The other tenant's are as they were.
        let others = tenant_keys(&store, base.tenants[1].0, &root_key()).await.unwrap();
        assert_eq!(others.sealing_key().0, 1);
        if rotated.is_ok() && done.is_ok() {
            // Of some of these the server itself took one, as for the time.
            assert!(steps > 3 && told + 3 >= steps, "{told} of {steps}");
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_record_that_does_not_open_keeps_the_older_key_until_it_is_gone() {
    let base = base().await;
    let (tenant, ..) = base.tenants[0];
    let (server, store) = start(base.folder.path(), root_key()).await;
    let mut damaged = records(store.as_ref(), tenant).await;
    let mut damaged =
        damaged.swap_remove(damaged.iter().position(|one| one.kind == TOKEN).unwrap());
    damaged.id = "damaged".to_owned();
    damaged.uniques.clear();
    let put = Put { record: damaged, expect: Expect::Absent };
    store.commit(Batch { puts: vec![put], ..Batch::default() }).await.unwrap();
    assert_eq!(server.vault.rotate_tenant_key(tenant).await.unwrap(), 2);
    server.vault.reseal().await.unwrap();
    assert_eq!(status(&server, tenant).await.older_versions, [1]);
    // Everything else is sealed anew, and reads.
    check(&server, &base).await;
    assert!(server.vault.rotate_tenant_key(tenant).await.is_err());
    server.vault.reseal().await.unwrap();
    assert_eq!(status(&server, tenant).await.older_versions, [1]);
    let removal = tokamak::store::Removal {
        kind: TOKEN,
        tenant,
        id: "damaged".to_owned(),
        expect: Expect::Any,
    };
    store.commit(Batch { removals: vec![removal], ..Batch::default() }).await.unwrap();
    server.stop().await;
    drop(store);
    let (server, _) = start(base.folder.path(), root_key()).await;
    server.vault.reseal().await.unwrap();
    assert_eq!(status(&server, tenant).await.older_versions, Vec::<u32>::new());
    check(&server, &base).await;
}
