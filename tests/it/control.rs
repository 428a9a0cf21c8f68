//! The socket by which commands reach a running server (decisions §9).

use std::fs::{self, Permissions};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _};
use std::os::unix::process::CommandExt as _;

use crate::support::binary::{Process, command};
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
        [["tenant", "erase", unknown].as_slice(), &["keys", "rotate", "--tenant", unknown]]
    {
        let (code, _, stderr) = operate(folder.path(), None, arguments);
        assert!(code == 1 && stderr.contains("no such tenant"), "{stderr}");
    }
    // What needs the folder for itself still says so.
    assert_eq!(process.terminate(), Some(0));
    assert!(!socket.exists());
    let (code, _, stderr) = operate(folder.path(), None, &["keys", "status"]);
    assert!(code == 1 && stderr.contains("there is no root key"), "{stderr}");
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
    for wrong in [&["keys", "rotate"][..], &["keys", "rotate", "--root", "--all-tenants"]] {
        assert_eq!(command().args(wrong).output().unwrap().status.code(), Some(2), "{wrong:?}");
    }
}
