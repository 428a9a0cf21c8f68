//! Backups that are cut off, and gone on with or begun anew (decisions §9).

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};

use crate::disk::Mount;
use crate::support::Client;
use crate::support::binary::{
    MANAGEMENT_KEY, Process, ROOT_KEY, assert_sound, command, eventually,
};
use crate::support::operator::{done, operate};

/// Chunks that are surely there when a backup is cut off.
const CHUNKS: usize = 3;
const TOKENS: usize = 30;

/// A serving vault with enough in it for many chunks.
async fn serving(data: &Path) -> (Process, Client) {
    filled(Process::serve(data)).await
}

async fn filled(process: Process) -> (Process, Client) {
    let body = json!({"name": "p", "type": "private",
        "permissions": ["token:create", "token:read", "token:search"]});
    let made = process.management().post("/applications", body).await.expect(201);
    let client = process.management().with_key(made["key"].as_str().unwrap());
    for number in 0..TOKENS {
        let body = json!({"id": format!("before-{number}"), "type": "token",
            "data": format!("{number}").repeat(300_000)});
        client.post("/tokens", body).await.expect(201);
    }
    (process, client)
}

fn chunks(folder: &Path) -> BTreeMap<String, u64> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let named = entries.map(|entry| {
        (entry.file_name().into_string().unwrap(), entry.metadata().map_or(0, |file| file.ino()))
    });
    named.filter(|(name, _)| name.starts_with("chunk-")).collect()
}

/// Chunks whose digests are noted.
fn noted(folder: &Path) -> usize {
    let text = fs::read_to_string(folder.join("unfinished.digests")).unwrap_or_default();
    text.lines().count()
}

fn words(to: &Path) -> [&str; 3] {
    ["backup", "--to", to.to_str().unwrap()]
}

/// Kills a backup to a new folder when some of its chunks are there; gives the folder.
async fn cut_off(data: &Path, folder: &Path) -> PathBuf {
    for attempt in 0..20 {
        let to = folder.join(format!("backup-{attempt}"));
        let mut backup = command();
        backup.args(words(&to)).arg("--data-dir").arg(data).stdout(Stdio::null());
        let mut backup = backup.spawn().unwrap();
        while noted(&to) < CHUNKS && backup.try_wait().unwrap().is_none() {
            tokio::time::sleep(std::time::Duration::from_millis(1)).await;
        }
        backup.kill().unwrap();
        backup.wait().unwrap();
        if !to.join("manifest.json").exists() {
            // The last one may have been written and not noted.
            for name in chunks(&to).keys().skip(noted(&to)) {
                fs::remove_file(to.join(name)).unwrap();
            }
            return to;
        }
    }
    panic!("each backup was whole before it could be cut off");
}

fn manifest(to: &Path) -> Value {
    serde_json::from_slice(&fs::read(to.join("manifest.json")).unwrap()).unwrap()
}

/// Asserts that a backup is one of a sound vault with the tokens made before.
async fn assert_restores(to: &Path, client: &Client) {
    let folder = tempfile::tempdir().unwrap();
    done(folder.path(), Some(ROOT_KEY), &["restore", "--from", to.to_str().unwrap()]);
    assert_sound(folder.path());
    let process = Process::serve(folder.path());
    let client = Client::new(process.address, client.key.as_deref());
    for number in [0, TOKENS / 2, TOKENS - 1] {
        client.get(&format!("/tokens/before-{number}")).await.expect(200);
    }
    let after = client.get("/tokens/after").await.status;
    assert_eq!(after, 404, "it is of a later moment than the one it began with");
    assert_eq!(process.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_command_goes_on_where_it_was_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let (process, client) = serving(&data).await;
    let to = cut_off(&data, folder.path()).await;
    let (before, note) = (chunks(&to), fs::read(to.join("unfinished.json")).unwrap());
    client.post("/tokens", json!({"id": "after", "type": "token", "data": 1})).await.expect(201);
    let said = done(&data, None, &words(&to));
    assert!(said.contains("it is gone on with behind chunk"), "{said}");
    let note: Value = serde_json::from_slice(&note).unwrap();
    assert_eq!(manifest(&to)["id"], note["id"]);
    let now = chunks(&to);
    assert!(now.len() > before.len());
    assert!(before.iter().all(|(name, file)| now[name] == *file), "a chunk was written again");
    let left = fs::read_dir(&to).unwrap().count();
    assert_eq!(left, now.len() + 1, "something beside chunks and manifest is left");
    assert_restores(&to, &client).await;
    // Nothing stays of what it was read from.
    let copies = || {
        let names = fs::read_dir(data.join("store")).unwrap().flatten();
        names.filter(|entry| entry.file_name().to_str().unwrap().starts_with("gen-")).count()
    };
    eventually("end of the copy", || (copies() == 0).then_some(())).await;
    assert_eq!(process.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chunk_that_is_lost_is_sent_again_and_one_too_far_back_begins_anew() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let (process, client) = serving(&data).await;
    let to = cut_off(&data, folder.path()).await;
    let last = chunks(&to).pop_last().unwrap().0;
    fs::remove_file(to.join(&last)).unwrap();
    fs::write(to.join("file.new"), "half a chunk").unwrap();
    let said = done(&data, None, &words(&to));
    assert!(said.contains("it is gone on with"), "{said}");
    assert_restores(&to, &client).await;

    let to = cut_off(&data, &folder.path().join("more")).await;
    for name in chunks(&to).keys() {
        fs::remove_file(to.join(name)).unwrap();
    }
    let said = done(&data, None, &words(&to));
    assert!(said.contains("it is begun anew"), "{said}");
    assert_eq!(chunks(&to).len() as u64, manifest(&to)["chunks"].as_u64().unwrap());
    assert_eq!(process.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn chunks_that_were_damaged_meanwhile_are_written_anew() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let (process, client) = serving(&data).await;
    let to = cut_off(&data, folder.path()).await;
    client.post("/tokens", json!({"id": "after", "type": "token", "data": 1})).await.expect(201);
    let mut names: Vec<_> = chunks(&to).into_keys().collect();
    let last = to.join(names.pop().unwrap());
    let mut bytes = fs::read(&last).unwrap();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(&last, bytes).unwrap();
    fs::write(to.join(names.pop().unwrap()), "").unwrap();
    let said = done(&data, None, &words(&to));
    let expected = format!(
        "2 of its chunks are not as they were written, and it is gone on with behind chunk {}.",
        names.len()
    );
    assert!(said.contains(&expected), "{said}");
    assert_restores(&to, &client).await;

    // Nothing before the first one is there to go on behind.
    let to = cut_off(&data, &folder.path().join("more")).await;
    fs::write(to.join("chunk-000001"), "").unwrap();
    let said = done(&data, None, &words(&to));
    let expected = "1 of its chunks is not as it was written, and it is begun anew.";
    assert!(said.contains(expected), "{said}");
    let restored = folder.path().join("restored");
    done(&restored, Some(ROOT_KEY), &["restore", "--from", to.to_str().unwrap()]);
    assert_eq!(process.terminate(), Some(0));
}

/// Asks a server whether it has the rest of a backup, and hangs up; gives what it answers.
fn kept(data: &Path, id: &Value, chunks: usize) -> Value {
    let mut stream = UnixStream::connect(data.join("control.sock")).unwrap();
    let body = json!({"id": id, "chunks": chunks, "is_kept": true}).to_string();
    let length = body.len();
    let head = format!("POST /backup HTTP/1.0\r\nhost: t\r\ncontent-length: {length}\r\n\r\n");
    stream.write_all([head, body].concat().as_bytes()).unwrap();
    let mut answer = BufReader::new(stream);
    let mut line = String::new();
    while line != "\r\n" {
        line.clear();
        assert!(answer.read_line(&mut line).unwrap() > 0);
    }
    let (mut kind, mut length) = ([0], [0; 4]);
    answer.read_exact(&mut kind).unwrap();
    answer.read_exact(&mut length).unwrap();
    assert_eq!(kind, *b"b");
    let mut text = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap()];
    answer.read_exact(&mut text).unwrap();
    serde_json::from_slice(&text).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_only_asks_whether_the_rest_is_kept_is_no_backup_that_was_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let (data, log) = (folder.path().join("data"), folder.path().join("log"));
    let mut serve = command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--cache-mb", "32", "--log", "warn"]);
    serve.arg("--data-dir").arg(&data).stderr(File::create(&log).unwrap());
    serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
    let (process, client) = filled(Process::start(serve)).await;
    let cuts = || fs::read_to_string(&log).unwrap().matches("a backup was cut off").count();
    let to = cut_off(&data, folder.path()).await;
    eventually("word of the one that was killed", || (cuts() == 1).then_some(())).await;
    let note = fs::read(to.join("unfinished.json")).unwrap();
    let note: Value = serde_json::from_slice(&note).unwrap();
    let chunks = noted(&to);
    for _ in 0..5 {
        assert_eq!(kept(&data, &note["id"], chunks), json!({"id": note["id"], "chunks": chunks}));
    }
    // Of another one it has nothing, nor what it has not sent yet. That begins none, and ends none.
    let other = json!("00000000-0000-4000-8000-000000000000");
    for (id, chunks) in [(&other, chunks), (&note["id"], 1_000_000)] {
        assert_ne!(kept(&data, id, chunks)["id"], *id);
    }
    let said = done(&data, None, &words(&to));
    assert!(said.contains("it is gone on with behind chunk"), "{said}");
    assert_eq!(cuts(), 1);
    assert_restores(&to, &client).await;
    assert_eq!(process.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_keeps_any_more_begins_anew() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let (process, _) = serving(&data).await;
    let anew = |data: &Path, to: &Path, root_key: Option<&str>| {
        let note: Value =
            serde_json::from_slice(&fs::read(to.join("unfinished.json")).unwrap()).unwrap();
        let said = done(data, root_key, &words(to));
        assert!(said.contains("it is begun anew"), "{said}");
        assert_ne!(manifest(to)["id"], note["id"]);
        assert_eq!(fs::read_dir(to).unwrap().count(), chunks(to).len() + 1);
    };
    // Another backup does not wait for the one that was cut off, and ends it.
    let first = cut_off(&data, &folder.path().join("1")).await;
    done(&data, None, &words(&folder.path().join("other")));
    anew(&data, &first, None);
    // Nor does compacting.
    let second = cut_off(&data, &folder.path().join("2")).await;
    done(&data, None, &["compact"]);
    anew(&data, &second, None);
    // Nor does the end of the server, after which its files are gone.
    let third = cut_off(&data, &folder.path().join("3")).await;
    let fourth = folder.path().join("4");
    fs::create_dir(&fourth).unwrap();
    for entry in fs::read_dir(&third).unwrap().flatten() {
        fs::copy(entry.path(), fourth.join(entry.file_name())).unwrap();
    }
    assert_eq!(process.terminate(), Some(0));
    let process = Process::serve(&data);
    anew(&data, &third, None);
    assert_eq!(process.terminate(), Some(0));
    // Without a server each is of its own moment.
    anew(&data, &fourth, Some(ROOT_KEY));
    assert_sound(&data);
}

/// What they are read from holds what the key before opens.
#[tokio::test(flavor = "multi_thread")]
async fn a_new_root_key_ends_one_that_was_cut_off_and_one_that_is_cut_off_later() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let (process, _) = serving(&data).await;
    let rotate = |letter: &str| {
        let tell = format!("echo {}", STANDARD.encode(letter.repeat(32)));
        done(&data, None, &["keys", "rotate", "--root", "--new-root-key-command", &tell]);
    };
    let first = cut_off(&data, &folder.path().join("1")).await;
    rotate("x");
    assert!(done(&data, None, &words(&first)).contains("it is begun anew"));
    // Of one that is under way the command holds what it has, and goes no further meanwhile.
    let to = folder.path().join("2");
    let mut backup = command();
    backup.args(words(&to)).arg("--data-dir").arg(&data).stdout(Stdio::null());
    let mut backup = backup.spawn().unwrap();
    while noted(&to) < 1 {
        tokio::time::sleep(std::time::Duration::from_millis(1)).await;
    }
    let id = backup.id().to_string();
    assert!(Command::new("kill").args(["-STOP", &id]).status().unwrap().success());
    let is_under_way = !to.join("manifest.json").exists();
    rotate("y");
    backup.kill().unwrap();
    backup.wait().unwrap();
    if is_under_way {
        assert!(done(&data, None, &words(&to)).contains("it is begun anew"));
    }
    let status = || done(&data, None, &["keys", "status"]);
    eventually("end of what old keys were in", || (!status().contains("still")).then_some(()))
        .await;
    assert_eq!(process.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_to_a_full_disk_goes_on_when_there_is_space() {
    let Some(disk) = Mount::make(4) else { return };
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let (process, client) = serving(&data).await;
    let to = disk.path().join("backup");
    let (code, _, err) = operate(&data, None, &words(&to));
    assert!(code == 1 && err.contains("No space left"), "{err}");
    assert!(!to.join("manifest.json").exists());
    // The server is none the worse for it.
    client.post("/tokens", json!({"id": "after", "type": "token", "data": 1})).await.expect(201);
    disk.resize(200);
    let said = done(&data, None, &words(&to));
    assert!(said.contains("it is gone on with behind chunk"), "{said}");
    assert_restores(&to, &client).await;
    assert_eq!(process.terminate(), Some(0));
}
