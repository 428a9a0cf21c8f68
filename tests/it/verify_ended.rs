//! `tokamak verify` that does not come to its end: nothing of the store stays where it was looked at.

use std::fs;
use std::path::Path;
use std::process::{Child, Command};

use crate::support::binary::{ROOT_KEY, about, command, ending_signals, eventually};
use crate::support::operator::done;

/// What lies in a folder.
fn count(folder: &Path) -> usize {
    fs::read_dir(folder).unwrap().count()
}

/// A `verify` that waits while it copies the store: nobody writes to a pipe in it.
async fn waiting(data: &Path, scratch: &Path) -> Child {
    let pipe = data.join("store/pipe");
    if !pipe.exists() {
        assert!(Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    }
    let before = count(scratch);
    let mut verify = command();
    verify.arg("verify").arg("--scratch").arg(scratch).arg("--data-dir").arg(data);
    let child = verify.env("TOKAMAK_ROOT_KEY", ROOT_KEY).spawn().unwrap();
    eventually("copy", || (count(scratch) > before).then_some(())).await;
    child
}

#[tokio::test(flavor = "multi_thread")]
async fn a_verify_that_is_told_to_end_leaves_no_copy() {
    let folder = tempfile::tempdir().unwrap();
    let (data, scratch) = (folder.path().join("data"), folder.path().join("scratch"));
    fs::create_dir(&scratch).unwrap();
    done(&data, Some(ROOT_KEY), &["tenant", "create", "first"]);
    for signal in ending_signals() {
        let mut child = waiting(&data, &scratch).await;
        let id = child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        assert_eq!(child.wait().unwrap().code(), Some(2), "{signal}");
        assert_eq!(count(&scratch), 0, "{signal}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_killed_verify_left_goes_with_the_next_and_what_another_looks_at_stays() {
    let folder = tempfile::tempdir().unwrap();
    let (data, scratch) = (folder.path().join("data"), folder.path().join("scratch"));
    fs::create_dir(&scratch).unwrap();
    done(&data, Some(ROOT_KEY), &["tenant", "create", "first"]);
    let mut killed = waiting(&data, &scratch).await;
    let mut other = waiting(&data, &scratch).await;
    killed.kill().unwrap();
    killed.wait().unwrap();
    assert_eq!(count(&scratch), 2);
    fs::remove_file(data.join("store/pipe")).unwrap();
    let (code, out, err) = about(&data, &["verify", "--scratch", scratch.to_str().unwrap()]);
    assert_eq!(code, 0, "{out}{err}");
    // The other one's.
    assert_eq!(count(&scratch), 1);
    other.kill().unwrap();
    other.wait().unwrap();
    let (code, out, err) = about(&data, &["verify", "--scratch", scratch.to_str().unwrap()]);
    assert_eq!(code, 0, "{out}{err}");
    assert_eq!(count(&scratch), 0);
}
