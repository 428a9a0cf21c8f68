//! Backups of a serving vault, and vaults made of them, with the real binary (decisions §9).

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::{Value, json};
use tokamak::crypto::keys::RootKey;
use tokamak::store::sled::SledStore;

use crate::support::Client;
use crate::support::binary::{
    Process, ROOT_KEY, assert_sound, command, ending_signals, eventually, run,
};
use crate::support::operator::{copy, done, occurrences, operate};

/// Another 32 bytes in base64.
const NEXT_ROOT_KEY: &str = "QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI=";
/// The key of a private application in the vault that the backup of version 1 was made of.
const OLD_PRIVATE_KEY: &str = "key_prv_oosbmyQu4vmTtXymV66igU5KMHM0LJww";

fn backup(data: &Path, root_key: Option<&str>, to: &Path) -> Value {
    let told = done(data, root_key, &["backup", "--json", "--to", to.to_str().unwrap()]);
    serde_json::from_str(&told).unwrap()
}

fn restore(data: &Path, root_key: &str, from: &Path) -> (i32, String, String) {
    operate(data, Some(root_key), &["restore", "--json", "--from", from.to_str().unwrap()])
}

/// Asserts that a backup is refused, and that nothing comes of it; gives what was said.
#[track_caller]
fn refused(from: &Path, root_key: &str) -> String {
    let data = tempfile::tempdir().unwrap();
    let (code, out, err) = restore(data.path(), root_key, from);
    assert_eq!(code, 2, "{out}{err}");
    assert_eq!(fs::read_dir(data.path()).unwrap().count(), 0, "{err}");
    err
}

async fn private(process: &Process) -> (Client, String) {
    let rule = json!([{"description": "all", "priority": 1, "container": "/", "transform": "reveal",
        "permissions": ["token:create", "token:read", "token:search", "token:delete"]}]);
    let body = json!({"name": "load", "type": "private", "permissions": [], "rules": rule});
    let made = process.management().post("/applications", body).await.expect(201);
    let key = made["key"].as_str().unwrap().to_owned();
    (Client::new(process.address, Some(&key)), key)
}

/// Makes tokens, every third long, and gives those that were acknowledged with their lengths.
async fn churn(client: Client, stop: Arc<AtomicBool>) -> Vec<(String, usize)> {
    let mut made = Vec::new();
    while !stop.load(Ordering::Acquire) {
        let length = if made.len() % 3 == 2 { 20_000 } else { 500 };
        let body = json!({"type": "token", "data": "x".repeat(length)});
        let token = client.post("/tokens", body).await.expect(201);
        made.push((token["id"].as_str().unwrap().to_owned(), length));
    }
    made
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_under_load_holds_everything_acknowledged_before() {
    let folder = tempfile::tempdir().unwrap();
    let (data, to, restored) =
        (folder.path().join("data"), folder.path().join("backup"), folder.path().join("restored"));
    let process = Process::serve(&data);
    let (client, key) = private(&process).await;
    let mut before = Vec::new();
    for number in 0..60 {
        let body = json!({"id": format!("before-{number}"), "type": "token",
            "data": format!("{number}").repeat(20_000), "metadata": {"n": format!("{number}")}});
        before.push(client.post("/tokens", body).await.expect(201)["id"].clone());
    }
    client.delete("/tokens/before-3").await.expect(204);
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..3)
        .map(|_| tokio::spawn(churn(Client::new(process.address, Some(&key)), Arc::clone(&stop))))
        .collect();
    let backed_up = "tokamak_store_backed_up_timestamp_seconds";
    assert_eq!(process.figure(backed_up).await, Some(0));
    // No root key: the server has it.
    let manifest = tokio::task::spawn_blocking({
        let (data, to) = (data.clone(), to.clone());
        move || backup(&data, None, &to)
    });
    let manifest = manifest.await.unwrap();
    assert!(process.figure(backed_up).await > Some(1_700_000_000));
    stop.store(true, Ordering::Release);
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!((&manifest["format"], &manifest["version"]), (&"tokamak-backup".into(), &1.into()));
    let chunks = manifest["chunks"].as_u64().unwrap();
    assert!(chunks >= 2, "{manifest}");
    assert_eq!(fs::read_dir(&to).unwrap().count() as u64, chunks + 1);
    // Ids lie open in the store, not in the backup.
    assert!(occurrences(&data.join("store"), b"before-7") > 0);
    assert_eq!(occurrences(&to, b"before-7"), 0);
    // Nothing is left of what it was read from.
    let copies = || {
        fs::read_dir(data.join("store"))
            .unwrap()
            .flatten()
            .filter(|entry| entry.file_name().to_str().unwrap().starts_with("gen-"))
            .count()
    };
    eventually("end of the copy", || (copies() == 0).then_some(())).await;
    // The server goes on, and compacts as ever.
    client.get("/tokens/before-1").await.expect(200);
    done(&data, None, &["compact"]);
    assert_eq!(process.terminate(), Some(0));
    assert_sound(&data);

    let (code, out, err) = restore(&restored, ROOT_KEY, &to);
    assert_eq!(code, 0, "{out}{err}");
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((&told["sound"], &told["restored"]["id"]), (&true.into(), &manifest["id"]));
    assert_sound(&restored);
    let process = Process::serve(&restored);
    let client = Client::new(process.address, Some(&key));
    for (number, id) in before.iter().enumerate().filter(|(number, _)| *number != 3) {
        let token = client.get(&format!("/tokens/{}", id.as_str().unwrap())).await.expect(200);
        assert_eq!(token["data"], format!("{number}").repeat(20_000));
    }
    client.get("/tokens/before-3").await.expect(404);
    assert_eq!(client.search("metadata.n:42").await, ["before-42"]);
    client.post("/tokens", json!({"type": "token", "data": 1})).await.expect(201);
    assert_eq!(process.terminate(), Some(0));
    assert_sound(&restored);
}

/// A stopped vault with enough in it for several chunks, and a backup of it.
async fn stopped(folder: &Path) -> String {
    let data = folder.join("data");
    let process = Process::serve(&data);
    let (client, key) = private(&process).await;
    for number in 0..6 {
        let body = json!({"id": format!("long-{number}"), "type": "token",
            "data": format!("{number}").repeat(600_000)});
        client.post("/tokens", body).await.expect(201);
    }
    assert_eq!(process.terminate(), Some(0));
    let manifest = backup(&data, Some(ROOT_KEY), &folder.join("backup"));
    assert!(manifest["chunks"].as_u64().unwrap() >= 3, "{manifest}");
    key
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_damaged_is_named_and_nothing_comes_of_it() {
    let folder = tempfile::tempdir().unwrap();
    stopped(folder.path()).await;
    let good = folder.path().join("backup");
    let chunk = |at: &Path, number: u32| at.join(format!("chunk-{number:06}"));
    let wrong = |change: &dyn Fn(&Path)| {
        let wrong = tempfile::tempdir().unwrap();
        copy(&good, wrong.path());
        change(wrong.path());
        refused(wrong.path(), ROOT_KEY)
    };
    let said = wrong(&|at| fs::remove_file(chunk(at, 2)).unwrap());
    assert!(said.contains("chunk-000002 is missing"), "{said}");
    let said = wrong(&|at| {
        let mut bytes = fs::read(chunk(at, 2)).unwrap();
        bytes[5_000] ^= 1;
        fs::write(chunk(at, 2), bytes).unwrap();
    });
    assert!(said.contains("chunk 2 was changed"), "{said}");
    let said = wrong(&|at| {
        fs::rename(chunk(at, 1), at.join("aside")).unwrap();
        fs::rename(chunk(at, 2), chunk(at, 1)).unwrap();
        fs::rename(at.join("aside"), chunk(at, 2)).unwrap();
    });
    assert!(said.contains("chunk 1 is not in its place: the file holds chunk 2"), "{said}");
    let said = wrong(&|at| {
        fs::File::options().write(true).open(chunk(at, 3)).unwrap().set_len(700).unwrap();
    });
    assert!(said.contains("chunk 3 has not its length"), "{said}");
    let said = wrong(&|at| {
        fs::copy(chunk(at, 1), chunk(at, 999)).unwrap();
    });
    assert!(said.contains("chunk-000999 is no chunk of this backup"), "{said}");
    let said = wrong(&|at| fs::remove_file(at.join("manifest.json")).unwrap());
    assert!(said.contains("incomplete"), "{said}");
    let said = wrong(&|at| {
        let text = fs::read_to_string(at.join("manifest.json")).unwrap();
        fs::write(at.join("manifest.json"), text.replace("\"version\": 1", "\"version\": 2"))
            .unwrap();
    });
    assert!(said.contains("version 2"), "{said}");
    let said = refused(&good, NEXT_ROOT_KEY);
    assert!(said.contains("another root key"), "{said}");
    let said = refused(&folder.path().join("data"), ROOT_KEY);
    assert!(said.contains("incomplete"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn folders_that_hold_anything_are_left_as_they_are() {
    let folder = tempfile::tempdir().unwrap();
    stopped(folder.path()).await;
    let (data, to) = (folder.path().join("data"), folder.path().join("backup"));
    // A vault is not restored over another one.
    let (code, _, err) = restore(&data, ROOT_KEY, &to);
    assert!(code == 2 && err.contains("is not empty"), "{err}");
    assert_sound(&data);
    let (code, _, err) = restore(&to, ROOT_KEY, &to);
    assert!(code == 2 && err.contains("is the backup: name another folder"), "{err}");
    // Nor a backup over a backup, or over anything else.
    let words =
        |to: &Path| ["backup".to_owned(), "--to".to_owned(), to.to_str().unwrap().to_owned()];
    let try_to = |data: &Path, to: &Path| {
        let words = words(to);
        operate(data, Some(ROOT_KEY), &words.each_ref().map(String::as_str))
    };
    let (code, _, err) = try_to(&data, &to);
    assert!(code == 1 && err.contains("holds a backup already"), "{err}");
    let (code, _, err) = try_to(&data, folder.path());
    assert!(code == 1 && err.contains("is not empty"), "{err}");
    // Where no vault is, none is made.
    let none = folder.path().join("none");
    let (code, _, err) = try_to(&none, &folder.path().join("other"));
    assert!(code == 1 && err.contains("there is no store"), "{err}");
    assert!(!none.exists() && !folder.path().join("other").exists());
    // What an unfinished backup left is not read, and not in the way of the next.
    fs::remove_file(to.join("manifest.json")).unwrap();
    assert!(refused(&to, ROOT_KEY).contains("incomplete"));
    let (code, out, err) = try_to(&data, &to);
    assert!(code == 0 && out.contains("begun anew"), "{out}{err}");
    // So it is with an unfinished vault.
    let restored = folder.path().join("restored");
    fs::create_dir_all(restored.join("store.restoring/db")).unwrap();
    let (code, out, err) = restore(&restored, ROOT_KEY, &to);
    assert_eq!(code, 0, "{out}{err}");
    assert!(!restored.join("store.restoring").exists());
    assert_sound(&restored);
}

/// A restore that waits for a chunk: nobody writes to the pipe in its place.
async fn waiting(data: &Path, from: &Path) -> Child {
    let mut restore = command();
    restore.args(["restore", "--from"]).arg(from).arg("--data-dir").arg(data);
    let child = restore.env("TOKAMAK_ROOT_KEY", ROOT_KEY).spawn().unwrap();
    let begun = || data.join("store.restoring").exists().then_some(());
    eventually("store that is being made", begun).await;
    child
}

#[tokio::test(flavor = "multi_thread")]
async fn a_restore_that_does_not_come_to_its_end_leaves_no_place_for_another_vault() {
    let folder = tempfile::tempdir().unwrap();
    stopped(folder.path()).await;
    let (to, chunk) = (folder.path().join("backup"), "backup/chunk-000002");
    let (chunk, aside) = (folder.path().join(chunk), folder.path().join("aside"));
    fs::rename(&chunk, &aside).unwrap();
    assert!(Command::new("mkfifo").arg(&chunk).status().unwrap().success());
    let restored = folder.path().join("made/restored");
    // Told to end, it leaves nothing.
    for signal in ending_signals() {
        let mut child = waiting(&restored, &to).await;
        let id = child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(2), "{signal}");
        assert!(!folder.path().join("made").exists(), "{signal}");
    }
    // Killed, it leaves what tells the next command.
    let mut child = waiting(&restored, &to).await;
    // Until then nobody else makes a store in its place.
    let (code, _, err) = restore(&restored, ROOT_KEY, &to);
    assert!(code == 2 && err.contains("another restore"), "{err}");
    assert!(restored.join("store.restoring").exists());
    child.kill().unwrap();
    child.wait().unwrap();
    let serve = ["serve", "--listen", "127.0.0.1:0"];
    for words in [&serve[..], &["tenant", "create", "first"]] {
        let (code, out, err) = operate(&restored, Some(ROOT_KEY), words);
        assert_eq!((code, out.as_str()), (1, ""), "{words:?}: {err}");
        assert!(err.contains("has not come to its end: run it again"), "{words:?}: {err}");
        assert!(err.contains("restored/store.restoring"), "{words:?}: {err}");
    }
    assert_eq!(fs::read_dir(&restored).unwrap().count(), 1);
    fs::rename(&aside, &chunk).unwrap();
    let (code, out, err) = restore(&restored, ROOT_KEY, &to);
    assert_eq!(code, 0, "{out}{err}");
    assert_sound(&restored);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_second_backup_clears_what_the_first_left_before_it_begins() {
    let folder = tempfile::tempdir().unwrap();
    stopped(folder.path()).await;
    let (data, to) = (folder.path().join("data"), folder.path().join("backup"));
    let names = || {
        let names = fs::read_dir(&to).unwrap().map(|one| one.unwrap().file_name());
        let mut names: Vec<_> = names.map(|name| name.into_string().unwrap()).collect();
        names.sort_unstable();
        names
    };
    // A first one that had more than the second will have, and did not come to its end.
    let whole = names();
    fs::remove_file(to.join("manifest.json")).unwrap();
    for left in ["chunk-000099", "file.new", "manifest.new"] {
        fs::write(to.join(left), left).unwrap();
    }
    let note = json!({"id": uuid::Uuid::nil(), "chunks": 0});
    fs::write(to.join("unfinished.json"), note.to_string()).unwrap();
    // One that comes to nothing has cleared it: a third would take the two for one.
    let words = ["backup", "--to", to.to_str().unwrap()];
    let (code, out, err) = operate(&data, Some(NEXT_ROOT_KEY), &words);
    assert!(code != 0 && out.contains("begun anew"), "{out}{err}");
    assert_eq!(names(), [""; 0]);
    // So it is where a server gives the second.
    let process = Process::serve(&data);
    for left in ["chunk-000001", "chunk-000099", "file.new"] {
        fs::write(to.join(left), left).unwrap();
    }
    fs::write(to.join("unfinished.json"), note.to_string()).unwrap();
    assert!(done(&data, None, &words).contains("begun anew"));
    assert_eq!(names(), whole);
    assert_eq!(process.terminate(), Some(0));
    let restored = folder.path().join("restored");
    assert_eq!(restore(&restored, ROOT_KEY, &to).0, 0);
    assert_sound(&restored);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_opens_with_the_root_key_of_its_time() {
    let folder = tempfile::tempdir().unwrap();
    let key = stopped(folder.path()).await;
    let (data, to) = (folder.path().join("data"), folder.path().join("backup"));
    let rotate = |data: &Path| {
        let mut rotate = command();
        rotate.args(["keys", "rotate", "--root", "--data-dir"]).arg(data);
        rotate.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_NEW_ROOT_KEY", NEXT_ROOT_KEY);
        let (code, out, err) = run(rotate);
        assert_eq!(code, 0, "{out}{err}");
    };
    rotate(&data);
    let id = |key: &str| {
        let id = RootKey::parse(key).unwrap().id();
        uuid::Uuid::from_bytes(id).simple().to_string()
    };
    let said = refused(&to, NEXT_ROOT_KEY);
    assert!(said.contains(&id(ROOT_KEY)) && said.contains(&id(NEXT_ROOT_KEY)), "{said}");
    assert!(said.contains("keys rotate --root") && !said.contains(NEXT_ROOT_KEY), "{said}");
    let restored = folder.path().join("restored");
    let (code, out, err) = restore(&restored, ROOT_KEY, &to);
    assert_eq!(code, 0, "{out}{err}");
    rotate(&restored);
    // The next backup needs the next key.
    let second = folder.path().join("second");
    backup(&restored, Some(NEXT_ROOT_KEY), &second);
    assert!(refused(&second, ROOT_KEY).contains(&id(NEXT_ROOT_KEY)));
    let third = folder.path().join("third");
    let (code, out, err) = restore(&third, NEXT_ROOT_KEY, &second);
    assert_eq!(code, 0, "{out}{err}");
    let mut serve = command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(&third);
    let process = Process::start({
        serve.env("TOKAMAK_ROOT_KEY", NEXT_ROOT_KEY);
        serve
    });
    let client = Client::new(process.address, Some(&key));
    let token = client.get("/tokens/long-4").await.expect(200);
    assert_eq!(token["data"], "4".repeat(600_000));
    assert_eq!(process.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_that_is_killed_leaves_no_backup_and_a_server_that_goes_on() {
    let folder = tempfile::tempdir().unwrap();
    stopped(folder.path()).await;
    let (data, to) = (folder.path().join("data"), folder.path().join("killed"));
    let process = Process::serve(&data);
    let mut take = command();
    take.args(["backup", "--to"]).arg(&to).arg("--data-dir").arg(&data);
    let mut taking = take.spawn().unwrap();
    eventually("folder", || to.exists().then_some(())).await;
    taking.kill().unwrap();
    taking.wait().unwrap();
    // It came to its end or it did not.
    if !to.join("manifest.json").exists() {
        assert!(refused(&to, ROOT_KEY).contains("incomplete"));
        backup(&data, None, &to);
    }
    // Neither is the server killed for it, nor does it keep what the command did not take.
    done(&data, None, &["compact"]);
    let restored = folder.path().join("restored");
    let (code, out, err) = restore(&restored, ROOT_KEY, &to);
    assert_eq!(code, 0, "{out}{err}");
    // A server that is killed while it gives one leaves what the next start removes.
    let mut taking = command();
    taking.args(["backup", "--to"]).arg(folder.path().join("cut")).arg("--data-dir").arg(&data);
    let mut taking = taking.stderr(std::process::Stdio::null()).spawn().unwrap();
    eventually("folder", || folder.path().join("cut").exists().then_some(())).await;
    process.kill();
    let came_to_its_end = taking.wait().unwrap().success();
    assert_eq!(folder.path().join("cut/manifest.json").exists(), came_to_its_end);
    assert_eq!(Process::serve(&data).terminate(), Some(0));
    let generations = fs::read_dir(data.join("store")).unwrap().flatten();
    let generations =
        generations.filter(|one| one.file_name().to_str().unwrap().starts_with("gen-")).count();
    assert!(generations <= 1);
    drop(SledStore::open(&data.join("store"), 8 << 20).unwrap());
    assert_sound(&data);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_of_the_first_version_is_restored() {
    let folder = tempfile::tempdir().unwrap();
    let fixture = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/fixtures/backup-1");
    let (code, out, err) = restore(folder.path(), ROOT_KEY, &fixture);
    assert_eq!(code, 0, "{out}{err}");
    assert_sound(folder.path());
    // Whatever the umask of who restored it.
    let store = fs::read_dir(folder.path().join("store")).unwrap();
    for entry in store.map(Result::unwrap) {
        let mode = entry.metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{:?} has mode {mode:o}", entry.file_name());
    }
    let process = Process::serve(folder.path());
    let client = Client::new(process.address, Some(OLD_PRIVATE_KEY));
    let card = client.get("/tokens/card-1").await.expect(200);
    assert_eq!(card["data"]["number"], "4242424242424242");
    let long = client.get("/tokens/long-1").await.expect(200);
    assert_eq!(long["data"], "x".repeat(20_000));
    assert_eq!(client.search("metadata.n:22").await, ["card-1"]);
    assert_eq!(process.terminate(), Some(0));
}

/// Lost with the disk that it guards against, it would be none.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_into_the_data_folder_is_refused_with_a_server_and_without() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let process = Process::serve(&data);
    let refused = |to: &Path, root_key: Option<&str>| {
        let (code, _, err) = operate(&data, root_key, &["backup", "--to", to.to_str().unwrap()]);
        assert_eq!(code, 1, "{err}");
        assert!(err.contains(&format!("{} lies in the data folder", to.display())), "{err}");
    };
    let within = data.join("backups/today");
    refused(&within, None);
    refused(&data, None);
    assert_eq!(process.terminate(), Some(0));
    refused(&within, Some(ROOT_KEY));
    assert!(!data.join("backups").exists());
    backup(&data, Some(ROOT_KEY), &folder.path().join("data-backup"));
}

/// A timer's and a person's: one of them is made, whichever was first to make the folder.
#[tokio::test(flavor = "multi_thread")]
async fn of_backups_to_one_folder_at_the_same_time_one_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let process = Process::serve(&data);
    private(&process).await;
    for round in 0..6 {
        let to = folder.path().join(format!("to-{round}/deep"));
        let begin = || {
            let mut backup = command();
            backup.arg("backup").arg("--to").arg(&to).arg("--data-dir").arg(&data);
            backup.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
        };
        let both = [begin(), begin()].map(|backup| backup.wait_with_output().unwrap());
        let made = both.iter().filter(|output| output.status.success()).count();
        let said = both.map(|output| String::from_utf8(output.stderr).unwrap());
        assert_eq!(made, 1, "{round}: {said:?}");
        let why = ["is under way", "holds a backup already"];
        assert!(why.iter().any(|why| said.concat().contains(why)), "{said:?}");
        assert!(to.join("manifest.json").is_file());
    }
}
