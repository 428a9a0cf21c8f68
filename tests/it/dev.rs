//! `tokamak dev`: one command, and everything is there; a second start keeps it.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::json;

use crate::support::binary::{Process, command, compiling, is_ignored, run};
use crate::support::operator::done;
use crate::support::upstream::Upstream;
use crate::support::{Client, guests, skipped};

fn dev(folder: &Path) -> Process {
    let mut dev = command();
    dev.args(["dev", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder);
    let mut process = Process::start(dev);
    // The address comes first; the rest is printed in one piece after it.
    process.read_until("start again");
    process
}

fn value<'a>(process: &'a Process, name: &str) -> &'a str {
    let line = process.printed.iter().find(|line| line.starts_with(name)).unwrap();
    line.rsplit(' ').next().unwrap()
}

/// The same, with what it complained of until then.
fn dev_complaining(folder: &Path) -> (Process, String) {
    let errors = tempfile::NamedTempFile::new().unwrap();
    let mut dev = command();
    dev.args(["dev", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder);
    dev.stderr(errors.reopen().unwrap());
    let mut process = Process::start(dev);
    process.read_until("start again");
    (process, fs::read_to_string(errors.path()).unwrap())
}

/// The printed commands.
fn curls(process: &Process) -> Vec<String> {
    let lines = process.printed.iter().map(|line| line.trim());
    lines.filter(|line| line.starts_with("curl")).map(str::to_owned).collect()
}

/// The compiled components that are kept, with their inodes: one that is compiled anew has another.
fn compiled(folder: &Path) -> Vec<(PathBuf, u64)> {
    let files = fs::read_dir(folder.join("compiled")).into_iter().flatten();
    let mut files: Vec<_> = files
        .map(|entry| entry.unwrap().path())
        .map(|path| (path.clone(), fs::metadata(path).unwrap().ino()))
        .collect();
    files.sort();
    files
}

/// Runs a printed command as it would be pasted.
fn paste(line: &str) -> serde_json::Value {
    let output = Command::new("sh").arg("-c").arg(line).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).unwrap()
}

#[test]
fn the_printed_commands_work_and_a_second_start_keeps_all() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path().join("dev");
    let first = dev(&folder);
    let keys =
        (value(&first, "management key").to_owned(), value(&first, "private key").to_owned());
    assert!(keys.0.starts_with("key_mgt_") && keys.1.starts_with("key_prv_"));
    let commands = curls(&first);
    assert_eq!(commands.len(), 3);
    let reactor = format!("/reactors/{}/react ", value(&first, "reactor "));
    assert!(commands[1].contains(&reactor), "{reactor}");
    let token = paste(&commands[0]);
    assert_eq!(token["id"], "my-card");
    assert_eq!(token["data"]["number"], "XXXXXXXXXXXX4242");
    let insights = paste(&commands[1]);
    assert_eq!(insights["raw"]["last4"], "4242", "{insights}");
    assert!(paste(&commands[2])["pagination"]["total_items"].as_u64().unwrap() > 3);
    assert_eq!(first.terminate(), Some(0));

    for (name, mode) in [("", 0o700), ("root-key", 0o600), ("keys.json", 0o600)] {
        let metadata = fs::metadata(folder.join(name)).unwrap();
        assert_eq!(metadata.permissions().mode() & 0o777, mode, "{name}");
    }
    let before = compiled(&folder);
    assert!(!before.is_empty());
    let second = dev(&folder);
    assert!(compiling(second.id(), "").is_empty(), "nothing is being compiled");
    assert_eq!(compiled(&folder), before, "nothing was compiled anew");
    assert_eq!(value(&second, "management key"), keys.0);
    assert_eq!(value(&second, "private key"), keys.1);
    let again = curls(&second);
    let react = |line: &str| line.split("/reactors/").nth(1).unwrap()[..36].to_owned();
    assert_eq!(react(&again[1]), react(&commands[1]), "the reactor is the same");
    assert_eq!(paste(&again[1])["raw"]["last4"], "4242", "the card is still there");
}

#[test]
fn without_a_folder_data_is_kept_where_it_was_started() {
    let folder = tempfile::tempdir().unwrap();
    let mut dev = command();
    dev.args(["dev", "--listen", "127.0.0.1:0"]).current_dir(folder.path());
    let mut process = Process::start(dev);
    process.read_until("start again");
    let keys = fs::read_to_string(folder.path().join(".tokamak/keys.json")).unwrap();
    for name in ["management key", "private key"] {
        assert!(keys.contains(value(&process, name)), "{name}");
    }
    assert!(folder.path().join(".tokamak/store").is_dir());
    // All of it is in there.
    assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
    assert_eq!(process.terminate(), Some(0));
}

#[test]
fn it_ends_with_its_terminal() {
    const HANG_UP: u64 = 1;
    if is_ignored(HANG_UP) {
        // As under `nohup`: what is started so outlives its terminal.
        return skipped("this process ignores the end of its terminal");
    }
    let folder = tempfile::tempdir().unwrap();
    let process = dev(folder.path());
    let id = process.id().to_string();
    assert!(Command::new("kill").args(["-HUP", &id]).status().unwrap().success());
    assert_eq!(process.wait(), Some(0));
}

#[test]
fn an_address_that_is_taken_is_told_before_anything_is_made() {
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("dev");
    let mut dev = command();
    dev.args(["dev", "--listen", &address, "--data-dir"]).arg(&data);
    let (code, _, stderr) = run(dev);
    assert_eq!(code, 1, "{stderr}");
    assert!(stderr.contains(&address) && stderr.contains("--listen"), "{stderr}");
    assert!(!data.exists());
}

/// What a process has computed so far, in all of its threads.
fn computed(id: u32) -> Duration {
    let stat = fs::read_to_string(format!("/proc/{id}/stat")).unwrap();
    // Behind the name, which may hold anything: the fields from the third one on. The fourteenth and the fifteenth are
    // times, in hundredths of a second.
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap().split_whitespace().collect();
    let hundredths = |at: usize| fields[at - 3].parse::<u64>().unwrap();
    Duration::from_millis((hundredths(14) + hundredths(15)) * 10)
}

/// How long a start takes depends on what else the machine does. What it computes does not, or hardly: that is held to two
/// seconds, as if it had a processor to itself and a disk that answers at once. A neighbour that takes the processor's
/// caches or its clock may still double it now and then, so the best of some counts.
#[test]
fn a_second_start_computes_for_less_than_two_seconds_and_keeps_data_and_keys() {
    const STARTS: usize = 5;
    let folder = tempfile::tempdir().unwrap();
    let first = dev(folder.path());
    let keys = ["management key", "private key"].map(|name| value(&first, name).to_owned());
    paste(&curls(&first)[0]);
    assert_eq!(first.terminate(), Some(0));
    let mut least = Duration::MAX;
    for _ in 0..STARTS {
        let began = Instant::now();
        let again = dev(folder.path());
        let (took, computed) = (began.elapsed(), computed(again.id()));
        println!("a second start took {took:?} and computed for {computed:?}");
        least = least.min(computed);
        assert_eq!(["management key", "private key"].map(|name| value(&again, name)), keys);
        assert_eq!(paste(&curls(&again)[1])["raw"]["last4"], "4242", "the card is still there");
        assert_eq!(again.terminate(), Some(0));
        if least < Duration::from_secs(2) {
            return;
        }
    }
    panic!("a second start computes for {least:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn formulas_reach_this_machine() {
    let upstream = Upstream::start().await;
    let folder = tempfile::tempdir().unwrap();
    let process = dev(folder.path());
    let management = Client::new(process.address, Some(value(&process, "management key")));
    let seen = guests::fetch(&management, &upstream.url("/echo")).await;
    assert_eq!(seen["status"], 202, "{seen}");
}

/// Gives an application another key; gives that.
async fn regenerate(manager: &Client, id: &str) -> String {
    let made = manager.post(&format!("/applications/{id}/regenerate"), json!({})).await.expect(200);
    made["key"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_that_were_replaced_meanwhile_are_made_anew_or_told_of_and_the_rest_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("keys.json");
    let first = dev(folder.path());
    let keys = ["management key", "private key"].map(|name| value(&first, name).to_owned());
    let manager = Client::new(first.address, Some(&keys[0]));
    let applications = manager.get("/applications").await.expect(200)["data"].clone();
    let application = |kind: &str| {
        let mut all = applications.as_array().unwrap().iter();
        all.find(|application| application["type"] == kind).unwrap().clone()
    };
    let (management, private) = (application("management"), application("private"));
    regenerate(&manager, private["id"].as_str().unwrap()).await;
    assert_eq!(first.terminate(), Some(0));

    // The private key: a new one takes its place, and stays.
    let (second, told) = dev_complaining(folder.path());
    assert!(told.contains("keys.json: private_key had ended"), "{told}");
    let new = value(&second, "private key").to_owned();
    assert!(new.starts_with("key_prv_") && new != keys[1], "{new}");
    assert!(fs::read_to_string(&kept).unwrap().contains(&new));
    paste(&curls(&second)[0]);
    assert_eq!(paste(&curls(&second)[1])["raw"]["last4"], "4242");
    let reactor = value(&second, "reactor ").to_owned();
    let manager = Client::new(second.address, Some(&keys[0]));
    let management_key = regenerate(&manager, management["id"].as_str().unwrap()).await;
    assert_eq!(second.terminate(), Some(0));

    // The management key, which nobody but its owner knows by now.
    let (third, told) = dev_complaining(folder.path());
    assert!(told.contains(kept.to_str().unwrap()) && told.contains("management_key"), "{told}");
    assert!(!third.printed.iter().any(|line| line.contains(&keys[0])), "{:?}", third.printed);
    assert_eq!(value(&third, "private key"), new);
    assert_eq!(curls(&third).len(), 1, "{:?}", third.printed);
    Client::new(third.address, Some(&new)).get("/tokens/my-card").await.expect(200);
    assert_eq!(third.terminate(), Some(0));
    let text = fs::read_to_string(&kept).unwrap().replace(&keys[0], &management_key);
    fs::write(&kept, text).unwrap();
    let (fourth, told) = dev_complaining(folder.path());
    assert!(!told.contains("keys.json") && !told.contains("reactor"), "{told}");
    assert_eq!(value(&fourth, "management key"), management_key);
    assert_eq!(value(&fourth, "reactor "), reactor);

    // The right to look for the reactor.
    let manager = Client::new(fourth.address, Some(&management_key));
    let held = management["permissions"].as_array().unwrap().iter();
    let held: Vec<_> =
        held.filter(|held| !held.as_str().unwrap().starts_with("reactor:")).collect();
    let body = json!({"name": "Management", "permissions": held});
    let path = format!("/applications/{}", management["id"].as_str().unwrap());
    manager.put(&path, body).await.expect(200);
    assert_eq!(fourth.terminate(), Some(0));
    let (fifth, told) = dev_complaining(folder.path());
    assert!(told.contains("reactor:read"), "{told}");
    assert_eq!(value(&fifth, "management key"), management_key);
    assert_eq!(curls(&fifth).len(), 2, "{:?}", fifth.printed);
    Client::new(fifth.address, Some(&new)).get("/tokens/my-card").await.expect(200);
}

#[test]
fn keys_whose_file_is_lost_are_made_anew() {
    let folder = tempfile::tempdir().unwrap();
    let kept = folder.path().join("keys.json");
    let first = dev(folder.path());
    let reactor = value(&first, "reactor ").to_owned();
    assert_eq!(first.terminate(), Some(0));
    fs::remove_file(&kept).unwrap();
    let (second, told) = dev_complaining(folder.path());
    assert!(told.contains("keys.json was missing"), "{told}");
    assert!(!told.contains("does not work") && !told.contains("had ended"), "{told}");
    let text = fs::read_to_string(&kept).unwrap();
    for (name, tag) in [("management key", "key_mgt_"), ("private key", "key_prv_")] {
        let key = value(&second, name);
        assert!(key.starts_with(tag) && text.contains(key), "{key}");
    }
    assert_eq!(value(&second, "reactor "), reactor);
    for curl in curls(&second) {
        paste(&curl);
    }
    assert_eq!(second.terminate(), Some(0));
    let (_third, told) = dev_complaining(folder.path());
    assert!(!told.contains("keys.json"), "{told}");
}

#[test]
fn after_its_tenant_was_erased_everything_that_is_printed_works() {
    let folder = tempfile::tempdir().unwrap();
    let first = dev(folder.path());
    let private = value(&first, "private key").to_owned();
    assert_eq!(first.terminate(), Some(0));
    let key = fs::read_to_string(folder.path().join("root-key")).unwrap();
    let tenants = done(folder.path(), Some(&key), &["tenant", "list", "--json"]);
    let tenants: serde_json::Value = serde_json::from_str(&tenants).unwrap();
    let id = tenants[0]["id"].as_str().unwrap();
    done(folder.path(), Some(&key), &["tenant", "erase", id, "--yes"]);
    let second = dev(folder.path());
    assert_ne!(value(&second, "private key"), private);
    let commands = curls(&second);
    assert_eq!(paste(&commands[0])["id"], "my-card");
    assert_eq!(paste(&commands[1])["raw"]["last4"], "4242");
    assert!(paste(&commands[2])["pagination"]["total_items"].as_u64().unwrap() > 0);
}

/// A server's folder least of all.
#[test]
fn options_of_the_environment_are_not_taken_and_that_is_said() {
    let folder = tempfile::tempdir().unwrap();
    let errors = tempfile::NamedTempFile::new().unwrap();
    let mut dev = command();
    dev.args(["dev", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder.path().join("own"));
    dev.env("TOKAMAK_DATA_DIR", folder.path().join("other")).env("TOKAMAK_LOG", "debug");
    dev.stderr(errors.reopen().unwrap());
    let mut process = Process::start(dev);
    process.read_until("start again");
    let said = fs::read_to_string(errors.path()).unwrap();
    assert!(said.contains("TOKAMAK_DATA_DIR, TOKAMAK_LOG are not heeded"), "{said}");
    assert!(folder.path().join("own").exists() && !folder.path().join("other").exists());
    assert_eq!(process.terminate(), Some(0));
}
