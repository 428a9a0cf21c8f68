//! Whose the data folder is: root leaves nothing in somebody else's, and nobody else may put anything there.

use std::fs::{self, File, Permissions};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _, chown};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use tokamak::clock::ManualClock;
use tokamak::vault::Vault;

use crate::disk::Mount;
use crate::support::binary::{MANAGEMENT_KEY, Process, ROOT_KEY, command, run};
use crate::support::operator::{done, operate};
use crate::support::server::{START_MS, Setup, foundation};
use crate::support::skipped;

const NEW_ROOT_KEY: &str = "QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI=";
const NOBODY: u32 = 65_534;
const SOMEBODY: u32 = 64_001;

/// Only root can be somebody else for the sake of a test. What is refused to whom is tested in `cli::folder` too, where
/// nobody need be root.
fn is_root() -> bool {
    let is_root = fs::metadata("/proc/self").unwrap().uid() == 0;
    if !is_root {
        skipped("this process is not root, and can be nobody else");
    }
    is_root
}

/// A folder that others may enter, with one in it that is nobody's.
fn nobodys() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    set_mode(folder.path(), 0o755);
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    set_mode(&data, 0o700);
    chown(&data, Some(NOBODY), Some(NOBODY)).unwrap();
    (folder, data)
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
}

/// A command about a folder, run by nobody.
fn as_nobody(data: &Path, words: &[&str]) -> Command {
    let mut command = command();
    command.args(words).args(["--log", "warn", "--data-dir"]).arg(data);
    command.env("TOKAMAK_ROOT_KEY", ROOT_KEY).uid(NOBODY).gid(NOBODY);
    command
}

/// Everything below a folder, and the folder.
fn all(folder: &Path) -> Vec<PathBuf> {
    let mut all = vec![folder.to_owned()];
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() { all.extend(self::all(&path)) } else { all.push(path) }
    }
    all
}

#[test]
fn root_leaves_nothing_in_the_folder_of_another_user() {
    if !is_root() {
        return;
    }
    let (folder, data) = nobodys();
    let backup = folder.path().join("backup");
    let refused = |words: &[&str], expected: i32| {
        let (code, out, err) = operate(&data, Some(ROOT_KEY), words);
        assert_eq!((code, out.as_str()), (expected, ""), "{words:?}: {err}");
        assert!(err.contains(&format!("belongs to user {NOBODY}, ")), "{words:?}: {err}");
        assert!(err.contains(&format!("setpriv --reuid {NOBODY}")), "{words:?}: {err}");
    };
    // Before there is a store, too.
    refused(&["tenant", "create", "first"], 1);
    refused(&["serve", "--listen", "127.0.0.1:0"], 1);
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0);

    assert_eq!(run(as_nobody(&data, &["tenant", "create", "first"])).0, 0);
    let commands: [&[&str]; 7] = [
        &["tenant", "list"],
        &["tenant", "create", "second"],
        &["keys", "status"],
        &["keys", "rotate", "--all-tenants"],
        &["audit", "heads"],
        &["compact"],
        &["serve", "--listen", "127.0.0.1:0"],
    ];
    for words in commands {
        refused(words, 1);
    }
    refused(&["backup", "--to", backup.to_str().unwrap()], 1);
    // What is only looked at is not made anything in.
    done(&data, Some(ROOT_KEY), &["verify"]);
    for path in all(&data) {
        assert_eq!(fs::metadata(&path).unwrap().uid(), NOBODY, "{}", path.display());
    }
    let (code, out, err) = run(as_nobody(&data, &["tenant", "list"]));
    assert!(code == 0 && out.contains("first") && !out.contains("second"), "{out}{err}");
}

#[test]
fn root_restores_nothing_to_the_folder_of_another_user() {
    if !is_root() {
        return;
    }
    let (folder, data) = nobodys();
    let (own, backup) = (folder.path().join("own"), folder.path().join("backup"));
    done(&own, Some(ROOT_KEY), &["tenant", "create", "first"]);
    let backup = backup.to_str().unwrap();
    done(&own, Some(ROOT_KEY), &["backup", "--to", backup]);
    let (code, _, err) = operate(&data, Some(ROOT_KEY), &["restore", "--from", backup]);
    assert!(code == 2 && err.contains(&format!("belongs to user {NOBODY}, ")), "{err}");
    assert_eq!(fs::read_dir(&data).unwrap().count(), 0);
    let own = folder.path().join("another");
    done(&own, Some(ROOT_KEY), &["restore", "--from", backup]);
}

#[test]
fn what_a_user_may_not_open_is_named_with_what_to_do() {
    if !is_root() {
        return;
    }
    let (_folder, data) = nobodys();
    let list = || run(as_nobody(&data, &["tenant", "list"]));
    assert_eq!(run(as_nobody(&data, &["tenant", "create", "first"])).0, 0);
    let refused = |closed: &Path, named: &Path| {
        let mode = fs::metadata(closed).unwrap().mode();
        chown(closed, Some(0), Some(0)).unwrap();
        set_mode(closed, 0o700);
        let (code, _, err) = list();
        assert!(code == 1 && err.contains("Permission denied"), "{}: {err}", closed.display());
        assert!(err.contains(named.to_str().unwrap()), "{}: {err}", closed.display());
        assert!(err.contains(&format!("user {NOBODY}, ")), "{err}");
        assert!(err.contains("chown -R"), "{err}");
        chown(closed, Some(NOBODY), Some(NOBODY)).unwrap();
        set_mode(closed, mode);
    };
    let store = data.join("store");
    for name in ["conf", "db", "journal"] {
        refused(&store.join(name), &store.join(name));
    }
    refused(&store.join("lock"), &store);
    refused(&store, &store);
    assert_eq!(run(as_nobody(&data, &["compact"])).0, 0);
    let next = store.join("gen-1");
    refused(&next, &next);
    refused(&next.join("db"), &next.join("db"));
    let (code, out, err) = list();
    assert!(code == 0 && out.contains("first"), "{out}{err}");
}

#[test]
fn a_disk_that_takes_nothing_new_is_named() {
    let Some(disk) = Mount::make(100) else { return };
    let data = disk.path().join("data");
    let (code, _, err) = operate(&data, Some(ROOT_KEY), &["tenant", "create", "first"]);
    assert!(code == 1 && err.contains("the disk is full"), "{err}");
    assert!(err.contains(data.join("store").to_str().unwrap()), "{err}");
}

#[test]
fn what_is_made_in_a_data_folder_is_for_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (made, given) = (folder.path().join("made"), folder.path().join("given"));
    fs::create_dir(&given).unwrap();
    set_mode(&given, 0o755);
    for data in [&made, &given] {
        assert_eq!(Process::serve(data).terminate(), Some(0));
        done(data, Some(ROOT_KEY), &["tenant", "create", "second"]);
        done(data, Some(ROOT_KEY), &["compact"]);
        let theirs = all(data).into_iter().filter(|path| *path != given);
        for path in theirs {
            let mode = fs::symlink_metadata(&path).unwrap().mode();
            assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
        }
    }
    assert_eq!(fs::metadata(&given).unwrap().mode() & 0o777, 0o755);
}

#[test]
fn what_dev_makes_is_for_its_owner_alone() {
    let folder = tempfile::tempdir().unwrap();
    let (made, given) = (folder.path().join("made"), folder.path().join("given"));
    fs::create_dir(&given).unwrap();
    set_mode(&given, 0o755);
    for data in [&made, &given] {
        let mut dev = command();
        dev.args(["dev", "--listen", "127.0.0.1:0", "--data-dir"]).arg(data);
        assert_eq!(Process::start(dev).terminate(), Some(0));
        for path in all(data).into_iter().filter(|path| *path != given) {
            let mode = fs::symlink_metadata(&path).unwrap().mode();
            assert_eq!(mode & 0o077, 0, "{}: {mode:o}", path.display());
        }
    }
}

#[test]
fn no_vault_is_begun_in_a_folder_that_everybody_may_write_to_and_one_that_is_there_is_served() {
    let folder = tempfile::tempdir().unwrap();
    let (data, log) = (folder.path().join("data"), folder.path().join("log"));
    let serve = || {
        let mut serve = command();
        serve.args(["serve", "--listen", "127.0.0.1:0", "--log", "warn", "--data-dir"]).arg(&data);
        serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).stderr(File::create(&log).unwrap());
        serve
    };
    fs::create_dir(&data).unwrap();
    set_mode(&data, 0o777);
    let named = format!("{} may be written to by everybody (mode 777)", data.display());
    let (code, _, err) = operate(&data, Some(ROOT_KEY), &["tenant", "create", "first"]);
    assert!(code == 1 && err.contains(&named) && err.contains("chmod"), "{err}");
    assert!(Process::try_start(serve()).is_none(), "it is served");
    assert!(fs::read_dir(&data).unwrap().next().is_none());

    set_mode(&data, 0o700);
    done(&data, Some(ROOT_KEY), &["tenant", "create", "first"]);
    for path in [data.clone(), data.join("store")] {
        set_mode(&path, 0o777);
        done(&data, Some(ROOT_KEY), &["tenant", "list"]);
        let process = Process::start(serve());
        let named = format!("{} may be written to by everybody (mode 777)", path.display());
        assert!(fs::read_to_string(&log).unwrap().contains(&named));
        assert_eq!(process.terminate(), Some(0));
        set_mode(&path, 0o770);
        done(&data, Some(ROOT_KEY), &["tenant", "list"]);
    }
}

#[test]
fn root_asks_the_server_whose_store_is_its_own_in_a_folder_of_root() {
    if !is_root() {
        return;
    }
    let (_folder, data) = nobodys();
    chown(&data, Some(0), Some(NOBODY)).unwrap();
    set_mode(&data, 0o2770);
    let process = Process::start(as_nobody(&data, &["serve", "--listen", "127.0.0.1:0"]));
    let status = || operate(&data, None, &["keys", "status"]);
    assert_eq!(status().0, 0, "{}", status().2);
    // Whoever may swap the store is as good as its owner.
    set_mode(&data, 0o2777);
    let (code, _, err) = status();
    assert!(code == 1 && err.contains("it was asked nothing"), "{err}");
    assert_eq!(process.terminate(), Some(0));
}

#[test]
fn a_stranger_who_took_the_sockets_place_is_asked_nothing() {
    if !is_root() {
        return;
    }
    let (folder, theirs) = nobodys();
    let ours = folder.path().join("ours");
    fs::create_dir(&ours).unwrap();
    chown(&ours, Some(SOMEBODY), Some(SOMEBODY)).unwrap();
    let process = Process::start(as_nobody(&theirs, &["serve", "--listen", "127.0.0.1:0"]));
    let key_id = |data: &Path| {
        let status = done(data, None, &["keys", "status", "--json"]);
        serde_json::from_str::<Value>(&status).unwrap()["root_key_id"].clone()
    };
    let before = key_id(&theirs);
    let (place, taken) = (theirs.join("control.sock"), ours.join("control.sock"));
    fs::rename(&place, &taken).unwrap();
    for words in [["keys", "rotate", "--root"].as_slice(), &["keys", "status"]] {
        let mut ask = command();
        ask.args(words).arg("--data-dir").arg(&ours).env("TOKAMAK_NEW_ROOT_KEY", NEW_ROOT_KEY);
        let (code, out, err) = run(ask);
        assert_eq!((code, out.as_str()), (1, ""), "{words:?}: {err}");
        assert!(err.contains(&format!("a process of user {NOBODY}, ")), "{err}");
        assert!(err.contains(&format!("belongs to user {SOMEBODY}: ")), "{err}");
        assert!(err.contains(taken.to_str().unwrap()), "{err}");
    }
    fs::rename(&taken, &place).unwrap();
    assert_eq!(key_id(&theirs), before, "a stranger was given the new root key");
    assert_eq!(process.terminate(), Some(0));
}

/// A folder with a tenant whose last rotation is under way.
async fn rotating(folder: &Path) -> String {
    let setup = Setup { folder: Some(folder.to_owned()), ..Setup::default() };
    let clock = ManualClock::new(START_MS);
    let vault = Vault::open(foundation(setup, folder, &clock).await).await.unwrap();
    let tenant = vault.bootstrap(None).await.unwrap().unwrap().tenant.id;
    vault.rotate_tenant_key(tenant).await.unwrap();
    vault.close();
    tenant.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_that_a_rotation_of_all_leaves_out_are_named() {
    let rotate = ["keys", "rotate", "--all-tenants"];
    let folder = tempfile::tempdir().unwrap();
    let tenant = rotating(folder.path()).await;
    let told = done(folder.path(), Some(ROOT_KEY), &[&rotate[..], &["--json"]].concat());
    let told: Value = serde_json::from_str(&told).unwrap();
    assert_eq!(told, json!({"keys": 1, "skipped": [tenant]}));
    // By now that is over.
    let told = done(folder.path(), Some(ROOT_KEY), &[&rotate[..], &["--json"]].concat());
    assert_eq!(serde_json::from_str::<Value>(&told).unwrap(), json!({"keys": 2}));

    let folder = tempfile::tempdir().unwrap();
    let tenant = rotating(folder.path()).await;
    let told = done(folder.path(), Some(ROOT_KEY), &rotate);
    assert!(told.contains("1 key was drawn") && told.contains("still under way"), "{told}");
    assert!(told.contains(&tenant), "{told}");
}

#[test]
fn a_bootstrap_key_that_is_ignored_is_told_of_without_the_key() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    for (key, ignored) in
        [(MANAGEMENT_KEY, false), ("key_mgt_ABCDEFGHIJ0123456789abcdefghij99", true)]
    {
        let mut serve = command();
        serve.args(["serve", "--listen", "127.0.0.1:0", "--log", "info", "--data-dir"]);
        serve.arg(folder.path().join("data")).env("TOKAMAK_ROOT_KEY", ROOT_KEY);
        serve.env("TOKAMAK_BOOTSTRAP_KEY", key).stderr(File::create(&log).unwrap());
        assert_eq!(Process::start(serve).terminate(), Some(0));
        let told = fs::read_to_string(&log).unwrap();
        assert_eq!(told.contains("TOKAMAK_BOOTSTRAP_KEY is ignored"), ignored, "{told}");
        assert!(!told.contains(key), "{told}");
    }
}
