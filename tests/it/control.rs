//! The socket by which commands reach a running server (decisions §9).

use std::collections::BTreeSet;
use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::support::Client;
use crate::support::binary::{Process, ROOT_KEY, command};
use crate::support::operator::{done, operate};

#[test]
fn commands_reach_a_running_server_without_a_root_key() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(folder.path());
    let socket = folder.path().join("control.sock");
    let metadata = fs::symlink_metadata(&socket).unwrap();
    assert!(metadata.file_type().is_socket());
    assert_eq!(metadata.mode() & 0o777, 0o600);
    let status = done(folder.path(), None, &["keys", "status", "--json"]);
    let status: serde_json::Value = serde_json::from_str(&status).unwrap();
    assert_eq!(status["tenants"][0]["version"], 1, "{status}");
    assert!(done(folder.path(), None, &["keys", "status"]).contains("version 1"));
    assert!(done(folder.path(), None, &["compact"]).contains("bytes"));
    let unknown = "00000000-0000-4000-8000-000000000000";
    for arguments in
        [["tenant", "erase", unknown, "--yes"].as_slice(), &["keys", "rotate", "--tenant", unknown]]
    {
        let (code, _, stderr) = operate(folder.path(), None, arguments);
        assert!(code == 1 && stderr.contains("no such tenant"), "{stderr}");
    }
    // What needs the folder for itself still says so.
    let (code, _, stderr) = operate(folder.path(), Some(ROOT_KEY), &["verify"]);
    assert!(code == 2 && stderr.contains("another process uses"), "{stderr}");
    assert_eq!(process.terminate(), Some(0));
    assert!(!socket.exists());
    let (code, _, stderr) = operate(folder.path(), None, &["keys", "status"]);
    assert!(code == 1 && stderr.contains("there is no root key"), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_are_made_and_listed_while_it_runs() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(folder.path());
    let made = done(folder.path(), None, &["tenant", "create", "second", "--json"]);
    let made: serde_json::Value = serde_json::from_str(&made).unwrap();
    assert_eq!(made["name"], "second");
    let management = Client::new(process.address, made["management_key"].as_str());
    let own = management.get("/tenants/self").await.expect(200);
    assert_eq!((&own["id"], &own["name"]), (&made["id"], &made["name"]));
    let said = done(folder.path(), None, &["tenant", "create", "third"]);
    assert!(said.contains("tenant: ") && said.contains("shown once: key_mgt_"), "{said}");
    let names = |root_key: Option<&str>| {
        let listed = done(folder.path(), root_key, &["tenant", "list", "--json"]);
        let listed: Vec<serde_json::Value> = serde_json::from_str(&listed).unwrap();
        let name = |tenant: &serde_json::Value| tenant["name"].as_str().unwrap().to_owned();
        listed.iter().map(name).collect::<Vec<_>>()
    };
    let while_it_runs = names(None);
    assert_eq!(while_it_runs.len(), 3);
    assert!(done(folder.path(), None, &["tenant", "list"]).contains("  second\n"));
    assert_eq!(process.terminate(), Some(0));
    assert_eq!(names(Some(ROOT_KEY)), while_it_runs);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_log_is_exported_while_it_is_written_to() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(folder.path());
    let management = process.management();
    for _ in 0..30 {
        management.get("/applications").await.expect(200);
    }
    let stop = Arc::new(AtomicBool::new(false));
    let writers: Vec<_> = (0..3)
        .map(|_| {
            let (client, stop) = (process.management(), Arc::clone(&stop));
            tokio::spawn(async move {
                while !stop.load(Ordering::Acquire) {
                    client.get("/applications").await.expect(200);
                }
            })
        })
        .collect();
    let data = folder.path().to_owned();
    let export = move |data: &Path, root_key: Option<&str>, words: &[&str]| {
        let lines = done(data, root_key, &[&["audit"], words].concat());
        let lines = lines.lines().map(|line| serde_json::from_str(line).unwrap());
        lines.collect::<Vec<serde_json::Value>>()
    };
    let exported = tokio::task::spawn_blocking(move || {
        (0..4)
            .map(|_| (export(&data, None, &["export"]), export(&data, None, &["heads"])))
            .collect::<Vec<_>>()
    });
    let exported = exported.await.unwrap();
    stop.store(true, Ordering::Release);
    for writer in writers {
        writer.await.unwrap();
    }
    assert_eq!(process.terminate(), Some(0));
    // Each is the beginning of what there is at the end, without a gap and without one twice.
    let all = export(folder.path(), Some(ROOT_KEY), &["export"]);
    let owner = |entry: &serde_json::Value| entry["tenant_id"].as_str().unwrap().to_owned();
    let tenants: BTreeSet<_> = all.iter().map(owner).collect();
    assert!(all.len() > 35 && !tenants.is_empty());
    let file = folder.path().join("heads");
    for (entries, heads) in exported {
        assert!(entries.len() > 30);
        for tenant in &tenants {
            let of = |all: &[serde_json::Value]| {
                let own = all.iter().filter(|entry| entry["tenant_id"] == **tenant);
                let mut own: Vec<_> = own.cloned().collect();
                // They come by the times when they were made. The chain has them as they were committed.
                own.sort_by_key(|entry| entry["sequence"].as_u64());
                own
            };
            let (some, all) = (of(&entries), of(&all));
            assert_eq!(some, all[..some.len()]);
        }
        let heads =
            heads.iter().flat_map(|head| [head.to_string(), "\n".to_owned()]).collect::<String>();
        fs::write(&file, heads).unwrap();
        let verified = ["verify", "--head", file.to_str().unwrap()];
        assert!(done(folder.path(), Some(ROOT_KEY), &verified).contains("leads through"));
    }
}

#[test]
fn a_socket_that_was_left_is_replaced_and_a_long_path_is_none_too_long() {
    let folder = tempfile::tempdir().unwrap();
    let long = folder.path().join("a".repeat(120)).join("b".repeat(120));
    fs::create_dir_all(&long).unwrap();
    let process = Process::serve(&long);
    done(&long, None, &["keys", "status"]);
    process.kill();
    assert!(long.join("control.sock").exists());
    // Nobody listens there: the command does the work itself.
    let (code, _, stderr) = operate(&long, None, &["keys", "status"]);
    assert!(code == 1 && stderr.contains("there is no root key"), "{stderr}");
    let process = Process::serve(&long);
    done(&long, None, &["keys", "status"]);
    assert_eq!(process.terminate(), Some(0));
}

#[test]
fn strangers_are_not_answered_even_if_the_socket_is_open_to_them() {
    let folder = tempfile::tempdir().unwrap();
    if fs::metadata("/proc/self").unwrap().uid() != 0 {
        // Only root can be somebody else for the sake of a test.
        return;
    }
    let process = Process::serve(folder.path());
    fs::set_permissions(folder.path(), Permissions::from_mode(0o755)).unwrap();
    let as_nobody = || {
        let mut status = command();
        status.args(["keys", "status", "--data-dir"]).arg(folder.path());
        status.uid(65_534).gid(65_534);
        let output = status.output().unwrap();
        assert!(!output.status.success());
        String::from_utf8(output.stderr).unwrap()
    };
    let stderr = as_nobody();
    assert!(stderr.contains("cannot be asked"), "{stderr}");
    let socket = folder.path().join("control.sock");
    fs::set_permissions(socket, Permissions::from_mode(0o666)).unwrap();
    let stderr = as_nobody();
    assert!(stderr.contains("the server"), "{stderr}");
    assert!(!stderr.contains("cannot be asked"), "{stderr}");
    done(folder.path(), None, &["keys", "status"]);
    assert_eq!(process.terminate(), Some(0));
}

#[test]
fn the_help_names_what_can_be_done() {
    for (arguments, expected) in [
        (["keys", "rotate", "--help"], "--all-tenants"),
        (["keys", "status", "--help"], "--json"),
        (["tenant", "erase", "--help"], "destroyed"),
    ] {
        let output = command().args(arguments).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains(expected), "{text}");
    }
    // What only a server can be told is in the way of those who look for something else.
    for (arguments, shown) in [
        (&["serve", "--help"][..], true),
        (&["tenant", "erase", "--help"], false),
        (&["tenant", "erase", "-h"], false),
        (&["keys", "rotate", "--help"], false),
        (&["verify", "--help"], false),
    ] {
        let output = command().args(arguments).output().unwrap();
        let text = String::from_utf8(output.stdout).unwrap();
        assert_eq!(text.contains("--rate-limit-read"), shown, "{text}");
        assert_eq!(text.contains("--listen"), shown, "{text}");
        assert!(text.contains("--root-key-command") && text.contains("--data-dir"), "{text}");
    }
    for wrong in [&["keys", "rotate"][..], &["keys", "rotate", "--root", "--all-tenants"]] {
        assert_eq!(command().args(wrong).output().unwrap().status.code(), Some(2), "{wrong:?}");
    }
}
