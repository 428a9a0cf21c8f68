//! What commands print, where nobody can read it: on a full disk, and behind a pipe that is closed.

use std::fs::OpenOptions;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::disk::Mount;
use crate::support::binary::{Process, ROOT_KEY, about, command};
use crate::support::operator::{done, operate};

/// A command on a folder that prints to where nothing can be printed; gives its exit code and what it complains of.
fn lost(folder: &Path, words: &[&str], to: impl Into<Stdio>) -> (Option<i32>, String) {
    let mut lost = command();
    lost.args(words).stdout(to).env("TOKAMAK_ROOT_KEY", ROOT_KEY);
    if !words.iter().any(|word| ["config", "completions", "man", "--help"].contains(word)) {
        lost.args(["--log", "error", "--data-dir"]).arg(folder);
    }
    ended(lost)
}

fn ended(mut command: Command) -> (Option<i32>, String) {
    let output = command.stderr(Stdio::piped()).spawn().unwrap().wait_with_output().unwrap();
    (output.status.code(), String::from_utf8(output.stderr).unwrap())
}

fn full() -> Stdio {
    OpenOptions::new().write(true).open("/dev/full").unwrap().into()
}

fn closed() -> Stdio {
    let (reader, writer) = std::io::pipe().unwrap();
    drop(reader);
    writer.into()
}

#[test]
fn what_cannot_be_printed_is_told_and_no_success() {
    let folder = tempfile::tempdir().unwrap();
    done(folder.path(), Some(ROOT_KEY), &["tenant", "create", "first"]);
    let elsewhere = tempfile::tempdir().unwrap();
    let backup = elsewhere.path().join("backup");
    let commands: [&[&str]; 12] = [
        &["tenant", "list"],
        &["tenant", "list", "--json"],
        &["audit", "heads"],
        &["audit", "export"],
        &["keys", "status"],
        &["verify"],
        &["verify", "--json"],
        &["backup", "--to", backup.to_str().unwrap()],
        &["config", "reference"],
        &["completions", "bash"],
        &["man"],
        &["--help"],
    ];
    for words in commands {
        let (code, err) = lost(folder.path(), words, full());
        assert_eq!(code, Some(3), "{words:?}: {err}");
        let expected = "tokamak: what is to be printed is lost: No space left on device";
        assert_eq!(err.matches(expected).count(), 1, "{words:?}: {err}");
    }
    for words in &commands[..7] {
        let (code, err) = lost(folder.path(), words, closed());
        assert_eq!((code, err.as_str()), (Some(3), ""), "{words:?}");
    }
    // What failed has failed, whoever is told.
    let (code, err) = lost(&folder.path().join("none"), &["tenant", "list"], full());
    assert!(code == Some(1) && err.contains("there is no store in"), "{err}");
}

#[test]
fn a_running_server_s_answers_are_lost_no_less() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(folder.path());
    for words in [["audit", "export"], ["audit", "heads"], ["tenant", "list"]] {
        for to in [full(), closed()] {
            let (code, err) = lost(folder.path(), &words, to);
            assert_eq!(code, Some(3), "{words:?}: {err}");
        }
    }
    assert_eq!(process.terminate(), Some(0));
}

#[test]
fn a_key_that_nobody_saw_is_told_of_and_another_can_be_made() {
    let folder = tempfile::tempdir().unwrap();
    for (name, to) in [("first", full()), ("second", closed())] {
        let (code, err) = lost(folder.path(), &["tenant", "create", name, "--json"], to);
        assert_eq!(code, Some(3), "{err}");
        assert!(err.contains("is lost, since it is kept nowhere"), "{err}");
        assert!(err.contains("tokamak tenant key ID") && !err.contains("key_mgt_"), "{err}");
    }
    let listed = done(folder.path(), Some(ROOT_KEY), &["tenant", "list", "--json"]);
    let listed: Value = serde_json::from_str(&listed).unwrap();
    for tenant in listed.as_array().unwrap() {
        let id = tenant["id"].as_str().unwrap();
        let (code, err) = lost(folder.path(), &["tenant", "key", id], full());
        assert!(code == Some(3) && err.contains("is lost, since it is kept nowhere"), "{err}");
        let printed = done(folder.path(), Some(ROOT_KEY), &["tenant", "key", id]);
        assert!(printed.contains("management key, shown once: key_mgt_"), "{printed}");
    }
}

#[test]
fn scripts_are_given_an_object_where_nothing_could_be_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let none = folder.path().join("none");
    let (code, out, err) = about(&none, &["verify", "--json"]);
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &told["sound"]), (2, &Value::Null));
    assert!(err.contains(told["error"].as_str().unwrap()), "{told} {err}");
    let from = none.to_str().unwrap();
    let (code, out, err) =
        about(&folder.path().join("new"), &["restore", "--json", "--from", from]);
    let told: Value = serde_json::from_str(&out).unwrap();
    assert_eq!((code, &told["restored"]), (2, &Value::Null));
    assert!(err.contains(told["error"].as_str().unwrap()), "{told} {err}");
}

#[test]
fn a_restore_to_a_full_disk_says_so() {
    let Some(disk) = Mount::make(1) else { return };
    let folder = tempfile::tempdir().unwrap();
    let (data, backup) = (folder.path().join("data"), folder.path().join("backup"));
    done(&data, Some(ROOT_KEY), &["tenant", "create", "first"]);
    done(&data, Some(ROOT_KEY), &["backup", "--to", backup.to_str().unwrap()]);
    let to = disk.path().join("data");
    let words = ["restore", "--from", backup.to_str().unwrap()];
    let (code, _, err) = operate(&to, Some(ROOT_KEY), &words);
    assert!(code == 2 && err.contains("is full: the vault needs more space"), "{err}");
    assert!(!to.exists());
}

#[test]
fn shells_are_offered_what_help_shows() {
    let completions = |shell: &str| {
        let mut completions = command();
        completions.args(["completions", shell]);
        let output = completions.output().unwrap();
        assert_eq!(output.status.code(), Some(0));
        String::from_utf8(output.stdout).unwrap()
    };
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = completions(shell);
        assert!(script.contains("rate-limit-read") && script.contains("verify"), "{shell}");
        assert!(!script.contains("compile-component"), "{shell}");
    }
    // Of `serve` alone.
    assert_eq!(completions("fish").matches("-l rate-limit-read ").count(), 1);
    assert!(completions("fish").matches("-l data-dir ").count() > 5);
}
