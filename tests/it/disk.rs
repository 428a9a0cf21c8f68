//! Faults of the disk: full, not to be written to, and files that were cut short or overwritten.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::{FileExt as _, MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

use serde_json::{Value, json};
use tokamak::crypto::entropy::SystemEntropy;
use tokamak::crypto::integrity::IntegrityKey;
use tokamak::crypto::seal::Key;
use tokamak::model::id::TenantId;
use tokamak::store::sled::SledStore;
use tokamak::store::{Batch, Expect, Kind, Protection, Put, Record, Store as _, StoreError};

use crate::support::binary::{MANAGEMENT_KEY, Process, ROOT_KEY, about, assert_sound, command};
use crate::support::operator::copy;
use crate::support::skipped;

const NOBODY: u32 = 65_534;
const MIB: u64 = 1 << 20;

/// A file system of its own in memory, unmounted when dropped.
pub struct Mount {
    folder: tempfile::TempDir,
}

impl Mount {
    /// One of so many MiB; `None` where this process may not mount.
    pub fn make(mb: u64) -> Option<Self> {
        let folder = tempfile::tempdir().unwrap();
        let size = format!("size={mb}m");
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &size, "tmpfs"]).arg(folder.path());
        let output = mount.output().ok().filter(|output| output.status.success());
        if output.is_none() {
            skipped("this process may not mount a file system");
        }
        output.map(|_| Self { folder })
    }

    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Gives it another size.
    pub fn resize(&self, mb: u64) {
        let mut mount = Command::new("mount");
        mount.args(["-o", &format!("remount,size={mb}m")]).arg(self.path());
        assert!(mount.status().unwrap().success());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg("-l").arg(self.folder.path()).status();
    }
}

/// Fills the file system so that so many bytes stay free.
fn fill(folder: &Path, leave: u64) -> PathBuf {
    let path = folder.join("filler");
    let disk = rustix::fs::statvfs(folder).unwrap();
    let free = disk.f_bavail * disk.f_frsize;
    let file = fs::File::create(&path).unwrap();
    rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, free - leave).unwrap();
    path
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_stops_what_is_new_and_nothing_else() {
    let Some(disk) = Mount::make(600) else { return };
    let process = Process::serve(&disk.path().join("data"));
    let management = process.management();
    let body = json!({"name": "a", "type": "private",
        "permissions": ["token:create", "token:read", "token:delete", "token:search"]});
    let made = management.post("/applications", body).await.expect(201);
    let client = management.with_key(made["key"].as_str().unwrap());
    let token = json!({"type": "token", "data": "kept", "id": "first"});
    client.post("/tokens", token).await.expect(201);
    client.post("/tokens", json!({"type": "token", "data": "x", "id": "second"})).await.expect(201);
    for round in 0..2 {
        let filler = fill(disk.path(), 100 * MIB);
        let answer = client.post("/tokens", json!({"type": "token", "data": "new"})).await;
        let problem = answer.expect(503);
        assert_eq!(problem["title"], "Service Unavailable");
        let full = "The disk is full: nothing new is stored until there is space again.";
        assert_eq!(problem["detail"], full);
        assert_eq!(answer.headers["retry-after"], "10");
        let figures = management.get("/metrics").await.text();
        let counted = format!("tokamak_store_refusals_total {}\n", round + 1);
        assert!(figures.contains(&counted), "{figures}");
        management.get("/readyz").await.expect(503);
        management.get("/healthz").await.expect(200);
        // Reading goes on, and its log entries are written.
        client.get("/tokens/first").await.expect(200);
        assert_eq!(client.list("id=first").await, ["first"]);
        let entries = management.get("/logs?entity_id=first").await.expect(200);
        assert!(entries["pagination"]["total_items"].as_u64().unwrap() > 2 * round + 1);
        if round == 0 {
            client.delete("/tokens/second").await.expect(204);
        }
        // Space that returns is noticed without a restart.
        fs::remove_file(filler).unwrap();
        client.post("/tokens", json!({"type": "token", "data": "new"})).await.expect(201);
        management.get("/readyz").await.expect(200);
    }
    // All but nothing is left: reading stops too, with a problem, and goes on afterwards.
    let filler = fill(disk.path(), 30 * MIB);
    client.get("/tokens/first").await.expect(503);
    fs::remove_file(filler).unwrap();
    client.get("/tokens/first").await.expect(200);
    assert_eq!(process.terminate(), Some(0));
    let process = Process::serve(&disk.path().join("data"));
    process
        .management()
        .with_key(client.key.as_deref().unwrap())
        .get("/tokens/first")
        .await
        .expect(200);
    assert_eq!(process.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_rights_are_taken_away_and_what_filled_it_is_removed() {
    let Some(disk) = Mount::make(700) else { return };
    let data = disk.path().join("data");
    let process = Process::serve(&data);
    let management = process.management();
    let body =
        json!({"name": "a", "type": "private", "permissions": ["token:create", "token:delete"]});
    let [first, second] = [
        management.post("/applications", body.clone()).await.expect(201),
        management.post("/applications", body).await.expect(201),
    ];
    let path = |made: &Value| format!("/applications/{}", made["id"].as_str().unwrap());
    let client = management.with_key(first["key"].as_str().unwrap());
    let code = "module.exports = () => ({});";
    let formula = json!({"name": "f", "code": code});
    let formula = management.post("/reactor-formulas", formula).await.expect(201);
    fill(disk.path(), 220 * MIB);
    // What fills the rest is the vault's own.
    let mut made = Vec::new();
    loop {
        let large = json!({"type": "token", "data": "x".repeat(1_000_000)});
        let answer = client.post("/tokens", large).await;
        if answer.status == 503 {
            break;
        }
        made.push(answer.expect(201)["id"].as_str().unwrap().to_owned());
    }
    assert!(made.len() > 10, "{}", made.len());
    // A stolen key is of no use from then on.
    let key =
        management.post(&format!("{}/regenerate", path(&second)), json!({})).await.expect(200);
    assert_ne!(key["key"], second["key"]);
    let less = json!({"name": "a", "permissions": ["token:read"]});
    management.put(&path(&second), less).await.expect(200);
    management.delete(&path(&second)).await.expect(204);
    let formula = format!("/reactor-formulas/{}", formula["id"].as_str().unwrap());
    // Nor is anything sent any more to where it was.
    management.put(&formula, json!({"name": "f", "allowed_hosts": []})).await.expect(200);
    let figures = management.get("/metrics").await.text();
    let free =
        figures.lines().find_map(|line| line.strip_prefix("tokamak_disk_bytes{what=\"free\"} "));
    assert!(free.unwrap().parse::<u64>().unwrap() < 132 * MIB, "{figures}");
    management.delete(&formula).await.expect(204);
    let (code, out, err) = about(&data, &["audit", "export"]);
    assert!(code == 0 && out.contains("Application key regenerated"), "{err}");
    for id in &made {
        client.delete(&format!("/tokens/{id}")).await.expect(204);
    }
    // There is no room for files as large as those that there are.
    let (code, out, err) = about(&data, &["compact"]);
    assert_eq!(code, 0, "{out}{err}");
    client.post("/tokens", json!({"type": "token", "data": "new"})).await.expect(201);
    management.get("/readyz").await.expect(200);
    assert_eq!(process.terminate(), Some(0));
    assert_sound(&data);
}

#[test]
fn a_folder_that_cannot_be_written_to_is_a_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o755)).unwrap();
    let data = folder.path().join("data");
    assert_eq!(Process::serve(&data).terminate(), Some(0));
    let root = fs::metadata("/proc/self").unwrap().uid() == 0;
    let serve = |id: Option<u32>| {
        let mut serve = command();
        serve.args(["serve", "--listen", "127.0.0.1:0", "--log", "error", "--data-dir"]).arg(&data);
        serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
        if let Some(id) = id {
            serve.uid(id).gid(id);
        }
        let output = serve.output().unwrap();
        (output.status.code(), String::from_utf8(output.stderr).unwrap())
    };
    // Whoever it belongs to has no right to write.
    let mode = |mode: u32, owner: Option<u32>| {
        for path in [data.clone(), data.join("store")] {
            if root {
                chown(&path, owner, owner).unwrap();
            }
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
        for entry in fs::read_dir(data.join("store")).unwrap() {
            let path = entry.unwrap().path();
            if root {
                chown(&path, owner, owner).unwrap();
            }
            let mode = if path.is_dir() { mode } else { mode & 0o666 };
            fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        }
    };
    mode(0o555, Some(NOBODY));
    let (code, said) = serve(root.then_some(NOBODY));
    assert_eq!(code, Some(1), "{said}");
    assert!(said.contains("store cannot be written to: Permission denied"), "{said}");
    mode(0o755, Some(0).filter(|_| root));
    // A file system that takes no writes says so itself.
    if let Some(disk) = Mount::make(600) {
        let data = disk.path().join("data");
        assert_eq!(Process::serve(&data).terminate(), Some(0));
        let remount = ["-o", "remount,ro"];
        assert!(Command::new("mount").args(remount).arg(disk.path()).status().unwrap().success());
        let mut serve = command();
        serve.args(["serve", "--listen", "127.0.0.1:0", "--log", "error", "--data-dir"]).arg(&data);
        let output = serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("Read-only file system"), "{said}");
    }
    assert_eq!(Process::serve(&data).terminate(), Some(0));
}

/// Opens a store as the vault does.
fn open(folder: &Path) -> Result<SledStore, StoreError> {
    let store = SledStore::open(folder, 8 * MIB)?;
    let key = IntegrityKey::derive(&Key::default());
    let entropy = Arc::new(SystemEntropy::new().unwrap());
    store.protect(Protection { key, entropy }, None)?;
    Ok(store)
}

/// A store with some records, closed.
async fn store(folder: &Path) {
    let store = open(folder).unwrap();
    for number in 0..60 {
        let record = record(number);
        let puts = vec![Put { record, expect: Expect::Absent }];
        store.commit(Batch { puts, ..Batch::default() }).await.unwrap();
    }
}

fn record(number: usize) -> Record {
    Record {
        kind: Kind(200),
        tenant: TenantId(uuid::Uuid::from_u128(1)),
        id: format!("record {number}"),
        version: 0,
        order_ms: 1,
        body: vec![u8::try_from(number).unwrap(); 1 + 700 * (number % 9)],
        terms: Vec::new(),
        numbers: Vec::new(),
        uniques: Vec::new(),
    }
}

/// Does something to a file.
type Damage = Box<dyn Fn(&Path)>;

/// Ways to damage a file of so many bytes.
fn damages(bytes: u64) -> Vec<(String, Damage)> {
    let mut damages: Vec<(String, Damage)> = Vec::new();
    for left in [0, 1, 7, 100, bytes / 3, bytes / 2, bytes.saturating_sub(1)] {
        let cut = move |path: &Path| {
            OpenOptions::new().write(true).open(path).unwrap().set_len(left).unwrap();
        };
        damages.push((format!("cut to {left}"), Box::new(cut)));
    }
    for at in [0, 9, 500, bytes / 4, bytes / 2, bytes.saturating_sub(20)] {
        for garbage in [[0_u8; 16], [0xFF; 16], *b"overwritten here"] {
            let overwrite = move |path: &Path| {
                OpenOptions::new()
                    .write(true)
                    .open(path)
                    .unwrap()
                    .write_all_at(&garbage, at)
                    .unwrap();
            };
            damages.push((format!("overwritten at {at} by {garbage:?}"), Box::new(overwrite)));
        }
    }
    damages.push(("gone".to_owned(), Box::new(|path| fs::remove_file(path).unwrap())));
    damages
}

#[tokio::test(flavor = "multi_thread")]
async fn damaged_files_are_an_error_or_recovered_from_and_never_a_panic() {
    let folder = tempfile::tempdir().unwrap();
    let whole = folder.path().join("whole");
    store(&whole).await;
    // Threads of the store's may still hold its lock.
    crate::support::server::open_store(&whole).await;
    let (mut opened, mut refused) = (0, 0);
    for name in ["db", "conf", "journal"] {
        let bytes = fs::metadata(whole.join(name)).unwrap().len();
        for (number, (what, damage)) in damages(bytes).into_iter().enumerate() {
            let damaged = folder.path().join(format!("{name} {number}"));
            copy(&whole, &damaged);
            damage(&damaged.join(name));
            let outcome = std::panic::catch_unwind(|| open(&damaged));
            match outcome.unwrap_or_else(|_| panic!("{name} {what} ends in a panic")) {
                Ok(store) => {
                    opened += 1;
                    // Whatever is there is whole.
                    let ids: Vec<_> = (0..60).map(|number| record(number).id).collect();
                    let ids: Vec<_> = ids.iter().map(String::as_str).collect();
                    let first = record(0);
                    let found = store.find(first.kind, first.tenant, &ids).await;
                    for (number, found) in found.into_iter().flatten().enumerate() {
                        if let Some(found) = found {
                            assert_eq!(found.body, record(number).body, "{name} {what}");
                        }
                    }
                }
                Err(error) => {
                    refused += 1;
                    assert!(!error.to_string().is_empty(), "{name} {what}");
                }
            }
            let _ = fs::remove_dir_all(&damaged);
        }
    }
    assert!(opened > 0 && refused > 0, "{opened} opened, {refused} refused");
}

/// A record of a server's journal.
#[derive(Debug)]
struct Kept {
    /// Where it begins.
    at: usize,
    /// Its number.
    number: u64,
    /// Up to which number nothing of the journal was needed when it was written.
    settled: u64,
}

/// The records of the journal, by their numbers: a digest of 16 bytes, eight that are always the same, the numbers.
fn journal(data: &Path) -> Vec<Kept> {
    let bytes = fs::read(data.join("store/journal")).unwrap();
    let number = |at: usize| u64::from_be_bytes(bytes[at..at + 8].try_into().unwrap());
    let pages = (0..bytes.len()).step_by(4 << 10);
    let begins = pages.filter(|at| bytes[at + 16..].starts_with(b"tkjrnl02"));
    let mut kept: Vec<Kept> =
        begins.map(|at| Kept { at, number: number(at + 24), settled: number(at + 32) }).collect();
    kept.sort_by_key(|record| record.number);
    kept
}

/// A server on data that another one left; none if it refuses them. What it says of them goes into a file.
fn serve_again(data: &Path, said: &Path) -> Option<Process> {
    let mut serve = command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--cache-mb", "32", "--log", "warn"]);
    serve.arg("--data-dir").arg(data);
    serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
    serve.stderr(fs::File::create(said).unwrap());
    Process::try_start(serve)
}

/// Makes tokens until the journal holds some that the tree may not have, and kills the server.
async fn killed_with_a_journal(data: &Path) -> (String, Vec<String>) {
    let process = Process::serve(data);
    let rule = json!([{"description": "all", "priority": 1, "container": "/", "transform": "reveal",
        "permissions": ["token:create", "token:read"]}]);
    let body = json!({"name": "p", "type": "private", "permissions": [], "rules": rule});
    let private = process.management().post("/applications", body).await.expect(201);
    let key = private["key"].as_str().unwrap().to_owned();
    let private = process.management().with_key(&key);
    let mut made = Vec::new();
    loop {
        let id = format!("one-{}", made.len());
        private.post("/tokens", json!({"type": "token", "id": id, "data": id})).await.expect(201);
        made.push(id);
        let kept = journal(data);
        let last = kept.last().unwrap();
        if made.len() >= 5 && last.number - last.settled >= 4 {
            break;
        }
        assert!(made.len() < 100, "the journal is never needed: {kept:?}");
    }
    process.kill();
    (key, made)
}

/// A byte that was changed in a group that is needed is noticed. In the last one it is a write that was cut short, for all
/// that a file can tell: then that one may be gone, and all others are as they were.
#[tokio::test(flavor = "multi_thread")]
async fn a_changed_byte_of_the_journal_is_refused_or_takes_the_last_write_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (whole, said) = (folder.path().join("whole"), folder.path().join("said"));
    let (key, made) = killed_with_a_journal(&whole).await;
    let kept = journal(&whole);
    let last = kept.last().unwrap();
    let needed: Vec<&Kept> = kept.iter().filter(|one| one.number > last.settled).collect();
    for record in [needed[0], needed[needed.len() / 2], needed[needed.len() - 2], last] {
        for at in [0, 20, 31, 39, 43, 100].map(|offset| record.at + offset) {
            let damaged = folder.path().join("damaged");
            copy(&whole, &damaged);
            let path = damaged.join("store/journal");
            let mut bytes = fs::read(&path).unwrap();
            bytes[at] ^= 1;
            fs::write(&path, bytes).unwrap();
            let process = serve_again(&damaged, &said);
            let told = fs::read_to_string(&said).unwrap();
            assert!(!told.contains("panicked"), "{record:?} {at}: {told}");
            assert_eq!(process.is_some(), record.number == last.number, "{record:?} {at}: {told}");
            let Some(process) = process else {
                assert!(told.contains("its journal was changed"), "{record:?} {at}: {told}");
                fs::remove_dir_all(&damaged).unwrap();
                continue;
            };
            let client = process.management().with_key(&key);
            for id in &made {
                let answer = client.get(&format!("/tokens/{id}")).await;
                if answer.status == 404 {
                    assert_eq!(Some(id), made.last(), "{at}");
                } else {
                    assert_eq!(answer.expect(200)["data"], *id, "{at}");
                }
            }
            process.kill();
            fs::remove_dir_all(&damaged).unwrap();
        }
    }
}

/// Without its journal a killed server's store lacks what was acknowledged: no server takes it, and `verify` says so. With
/// the file back, nothing is missing.
#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_is_gone_or_emptied_is_refused_and_put_back_it_is_all_there() {
    let folder = tempfile::tempdir().unwrap();
    let (data, said) = (folder.path().join("data"), folder.path().join("said"));
    let (key, made) = killed_with_a_journal(&data).await;
    let path = data.join("store/journal");
    let whole = fs::read(&path).unwrap();
    for left in [None, Some(0), Some(whole.len())] {
        fs::remove_file(&path).unwrap();
        if let Some(length) = left {
            fs::write(&path, vec![0; length]).unwrap();
        }
        assert!(serve_again(&data, &said).is_none(), "{left:?}");
        let told = fs::read_to_string(&said).unwrap();
        assert!(told.contains("its journal is missing") && !told.contains("panicked"), "{told}");
        let mut verify = command();
        verify.arg("verify").arg("--data-dir").arg(&data).env("TOKAMAK_ROOT_KEY", ROOT_KEY);
        let output = verify.output().unwrap();
        let told = String::from_utf8_lossy(&output.stdout).into_owned()
            + &String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{left:?}: {told}");
        assert!(told.contains("its journal is missing"), "{told}");
        fs::write(&path, &whole).unwrap();
    }
    let process = serve_again(&data, &said).unwrap();
    let client = process.management().with_key(&key);
    for id in &made {
        assert_eq!(client.get(&format!("/tokens/{id}")).await.expect(200)["data"], *id);
    }
}
