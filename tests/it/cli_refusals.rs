//! What commands refuse: they name the option, the file or the folder that is to blame, and leave nothing behind.

use std::fs::{self, Permissions};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use crate::support::TestServer;
use crate::support::binary::{Process, ROOT_KEY, about, assert_sound, command, run};
use crate::support::operator::{copy, done, operate};

const NEW_ROOT_KEY: &str = "QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI=";
const UNKNOWN: &str = "00000000-0000-4000-8000-000000000000";

/// Names that are none.
fn no_names() -> [String; 5] {
    let none = ["", " ", "two\nlines", "\u{1b}[2J"].map(str::to_owned);
    let [empty, blank, lines, escape] = none;
    [empty, blank, lines, escape, "n".repeat(201)]
}

/// What `serve` says, with these flags, that does not come to serve.
fn serve(data: &Path, flags: &[&str]) -> String {
    let words = [&["serve", "--listen", "127.0.0.1:0"], flags].concat();
    let (code, out, err) = operate(data, Some(ROOT_KEY), &words);
    assert_eq!((code, out.as_str()), (1, ""), "{flags:?}: {err}");
    err
}

#[test]
fn numbers_that_nothing_works_with_are_refused_before_anything_is_opened() {
    let folder = tempfile::tempdir().unwrap();
    let (data, file) = (folder.path().join("data"), folder.path().join("tokamak.toml"));
    for (option, value, expected) in [
        ("cache-mb", "0", "--cache-mb must be from 1 to 16777216\n"),
        ("cache-mb", "17592186044416", "--cache-mb must be from 1 to 16777216\n"),
        ("compiled-cache-mb", "17592186044416", "--compiled-cache-mb must be from 0 to 16777216\n"),
        ("reactor-memory-mb", "0", "--reactor-memory-mb must be from 1 to 16777216\n"),
        ("programs-memory-mb", "0", "--programs-memory-mb must be from 1 to 16777216\n"),
        ("reactor-fuel-per-ms", "0", "--reactor-fuel-per-ms must be from 1 to "),
    ] {
        let flag = format!("--{option}");
        let by_flag = serve(&data, &[flag.as_str(), value]);
        fs::write(&file, format!("{option} = {value}\n")).unwrap();
        let by_file = serve(&data, &["--config", file.to_str().unwrap()]);
        let mut with_variable = command();
        with_variable.args(["serve", "--data-dir"]).arg(&data).env("TOKAMAK_ROOT_KEY", ROOT_KEY);
        with_variable.env(format!("TOKAMAK_{}", option.replace('-', "_").to_uppercase()), value);
        let (code, _, by_variable) = run(with_variable);
        assert_eq!(code, 1, "{by_variable}");
        for said in [by_flag, by_file, by_variable] {
            assert!(said.starts_with("tokamak: ") && said.contains(expected), "{said}");
        }
    }
    // Other commands open the store with the same options.
    let (code, _, err) = about(&data, &["verify", "--cache-mb", "0"]);
    assert!(code == 2 && err.contains("--cache-mb must be"), "{err}");
    assert!(!data.exists());
}

#[test]
fn where_no_vault_is_none_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let (none, empty) = (folder.path().join("none"), folder.path().join("empty"));
    fs::create_dir(&empty).unwrap();
    let commands: [&[&str]; 10] = [
        &["keys", "rotate", "--root"],
        &["keys", "rotate", "--all-tenants"],
        &["keys", "rotate", "--tenant", UNKNOWN],
        &["keys", "status"],
        &["audit", "heads"],
        &["audit", "export"],
        &["tenant", "list"],
        &["tenant", "key", UNKNOWN],
        &["tenant", "erase", UNKNOWN, "--yes"],
        &["compact"],
    ];
    for words in commands {
        for data in [&none, &empty] {
            let mut without = command();
            without.args(words).arg("--data-dir").arg(data);
            without.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_NEW_ROOT_KEY", NEW_ROOT_KEY);
            let (code, out, err) = run(without);
            assert_eq!((code, out.as_str()), (1, ""), "{words:?}: {err}");
            assert!(err.ends_with(&format!("there is no store in {}\n", data.display())), "{err}");
        }
    }
    assert!(!none.exists());
    assert_eq!(fs::read_dir(&empty).unwrap().count(), 0);
    let (code, _, err) = about(&none, &["verify"]);
    assert!(code == 2 && err.contains("there is no store in"), "{err}");
    // The first tenant may be made before a server runs.
    done(&none, Some(ROOT_KEY), &["tenant", "create", "first"]);
    assert!(done(&none, Some(ROOT_KEY), &["tenant", "list"]).contains("  first\n"));
    // But not in the store of another vault.
    let store = none.join("store");
    let (code, _, err) = operate(&store, Some(ROOT_KEY), &["tenant", "create", "second"]);
    assert!(code == 1 && err.contains("is the store of a vault"), "{err}");
    assert!(!store.join("store").exists());
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_have_names_that_are_names() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let create = |name: &str| operate(&data, Some(ROOT_KEY), &["tenant", "create", name]);
    let refused = || {
        for name in no_names() {
            let (code, out, err) = create(&name);
            assert_eq!((code, out.as_str()), (1, ""), "{name:?}: {err}");
            assert!(err.starts_with("tokamak: name: must "), "{err}");
        }
    };
    refused();
    assert!(!data.exists());
    let process = Process::serve(&data);
    refused();
    assert_eq!(create(&"n".repeat(200)).0, 0);
    // A tenant may call itself anything; who reads that in a terminal sees it spelt out.
    let forged = json!({"name": "evil\n\u{1b}[31mforged"});
    process.management().put("/tenants/self", forged).await.expect(200);
    for words in [["tenant", "list"], ["keys", "status"]] {
        let told = done(&data, Some(ROOT_KEY), &words);
        assert!(told.contains("evil\\n\\u{1b}[31mforged"), "{told}");
        assert!(!told.contains('\u{1b}'), "{told}");
    }
    assert_eq!(process.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_checked_whoever_gives_them() {
    let server = TestServer::start().await;
    for name in no_names() {
        let refused = server.vault.create_tenant(&name, None).await.unwrap_err();
        assert_eq!(refused.describe().status, 400, "{name:?}");
        // Who is not at a terminal may name things in any characters.
        if name.contains(['\n', '\u{1b}']) {
            continue;
        }
        let renamed = server.management.put("/tenants/self", json!({"name": name})).await;
        assert_eq!(renamed.faults(), ["name"], "{name:?}");
        let body = json!({"name": name, "type": "private", "permissions": ["token:create"]});
        let made = server.management.post("/applications", body).await;
        assert_eq!(made.faults(), ["name"], "{name:?}");
    }
    let named = json!({"name": "Läden & Söhne 日本 😀\n"});
    server.management.put("/tenants/self", named).await.expect(200);
}

/// The files that hold the rows, once they were made anew.
fn rows_of(data: &Path) -> PathBuf {
    let entries = fs::read_dir(data.join("store")).unwrap().map(|entry| entry.unwrap().path());
    let is_one = |path: &PathBuf| path.file_name().unwrap().to_str().unwrap().starts_with("gen-");
    entries.filter(is_one).map(|path| path.join("db")).next().unwrap()
}

#[test]
fn a_store_with_a_flipped_bit_is_damaged_and_not_unavailable() {
    const PLACES: usize = 12;
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    for name in ["first", "second"] {
        done(&data, Some(ROOT_KEY), &["tenant", "create", name]);
    }
    done(&data, Some(ROOT_KEY), &["compact"]);
    assert_sound(&data);
    let file = rows_of(&data);
    let good = fs::read(&file).unwrap();
    let used: Vec<usize> = (0..good.len()).filter(|at| good[*at] != 0).collect();
    let mut damaged = 0;
    for place in 0..PLACES {
        let at = used[used.len() * place / PLACES];
        let mut bytes = good.clone();
        bytes[at] ^= 1;
        fs::write(&file, &bytes).unwrap();
        let (code, out, err) = about(&data, &["verify", "--json"]);
        // A bit may lie where nothing is read.
        assert!([0, 1].contains(&code), "at {at}: {out}{err}");
        let told: Value = serde_json::from_str(&out).unwrap();
        assert_eq!(told["sound"], code == 0, "at {at}: {told}");
        assert_eq!(told["looked_at"]["damaged"] == 0, code == 0, "at {at}: {told}");
        damaged += code;
        if err.contains("the storage is damaged") && err.contains("gen-") {
            // The store is named, not the copy that was looked at.
            assert!(err.contains(data.to_str().unwrap()), "{err}");
            assert!(err.contains("restore a backup"), "{err}");
            let opened = tempfile::tempdir().unwrap();
            copy(&data, opened.path());
            let (code, _, err) = about(opened.path(), &["tenant", "list"]);
            assert!(code == 1 && err.contains("the storage is damaged"), "at {at}: {err}");
        }
    }
    assert!(damaged > 0);
    fs::write(&file, &good).unwrap();
    assert_sound(&data);
}

#[test]
fn what_is_to_blame_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let (data, file) = (folder.path().join("data"), folder.path().join("file"));
    fs::write(&file, "").unwrap();
    let said = serve(&file, &[]);
    assert!(said.contains(&format!("{}, is no folder", file.display())), "{said}");
    let said = serve(Path::new("/proc/none"), &[]);
    assert!(said.contains("/proc/none, cannot be made: "), "{said}");

    let mut log = command();
    log.args(["serve", "--listen", "127.0.0.1:0", "--log", "foo=bar=baz", "--data-dir"]).arg(&data);
    let (code, _, err) = run(log);
    assert!(code == 1 && err.contains("--log foo=bar=baz: "), "{err}");
    let mut log = command();
    log.args(["serve", "--listen", "127.0.0.1:0", "--log", "warning", "--data-dir"]).arg(&data);
    let (code, _, err) = run(log);
    assert!(code == 1 && err.contains("--log warning: \"warning\" is no level"), "{err}");

    let with_key = |arguments: &[&str]| {
        let create: &[&str] = &["tenant", "create", "a"];
        let (code, _, err) = operate(&data, None, &[create, arguments].concat());
        assert_eq!(code, 1, "{err}");
        err
    };
    // Whatever the key is, there is nothing here that it could open.
    for command in ["tenant list", "verify"] {
        let words: Vec<&str> = command.split(' ').collect();
        let (code, _, err) =
            operate(&data, None, &[&words[..], &["--root-key-command", ""]].concat());
        assert!(code != 0 && err.contains("there is no store in"), "{err}");
    }
    let said = with_key(&["--root-key-command", ""]);
    assert!(said.contains("--root-key-command is empty"), "{said}");
    let said = with_key(&["--root-key-file", folder.path().to_str().unwrap()]);
    assert!(said.contains("is a folder") && !said.contains("chmod"), "{said}");

    let nowhere = folder.path().join("nowhere");
    let from = nowhere.to_str().unwrap();
    let (code, _, err) = about(&data, &["restore", "--from", from]);
    assert!(code == 2 && err.contains(&format!("{from}: ")), "{err}");
    assert!(!err.contains("incomplete") && !data.exists(), "{err}");

    let in_the_way = file.to_str().unwrap();
    done(&data, Some(ROOT_KEY), &["tenant", "create", "first"]);
    let (code, _, err) = about(&data, &["backup", "--to", in_the_way]);
    assert!(code == 1 && err.contains(&format!("{in_the_way} is no folder")), "{err}");
    let mut man = command();
    man.args(["man", "--to", in_the_way]);
    let (code, _, err) = run(man);
    assert!(code == 1 && err.contains(&format!("tokamak: {in_the_way}: ")), "{err}");

    let dev = folder.path().join("dev");
    fs::create_dir(&dev).unwrap();
    fs::write(dev.join("keys.json"), "{}").unwrap();
    let (code, err) = dev_ends(&dev);
    assert!(code == 1 && err.contains("keys.json: missing field"), "{err}");
}

#[test]
fn a_backup_that_comes_to_nothing_leaves_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (data, made) = (folder.path().join("data"), folder.path().join("made"));
    done(&data, Some(ROOT_KEY), &["tenant", "create", "first"]);
    let backup = |to: &Path| {
        let words = ["backup", "--to", to.to_str().unwrap()];
        let (code, _, err) = operate(&data, Some(NEW_ROOT_KEY), &words);
        assert!(code == 1 && err.contains("does not open this store"), "{err}");
    };
    backup(&made.join("deep"));
    assert!(!made.exists());
    // The operator's own stays.
    fs::create_dir(&made).unwrap();
    backup(&made.join("deep"));
    backup(&made);
    assert_eq!(fs::read_dir(&made).unwrap().count(), 0);
}

#[test]
fn an_endpoint_that_cannot_be_used_is_told_of_without_its_password() {
    let folder = tempfile::tempdir().unwrap();
    for endpoint in ["http://user:hunter2@no host", "https://c:4318/v1/traces?token=hunter2 x\\"] {
        let said = serve(folder.path(), &["--otlp-endpoint", endpoint]);
        assert!(said.contains("--otlp-endpoint") && !said.contains("hunter2"), "{said}");
    }
}

#[test]
fn a_root_key_that_is_given_in_the_place_of_something_else_is_not_repeated() {
    let folder = tempfile::tempdir().unwrap();
    let key = NEW_ROOT_KEY;
    for option in ["--root-key-file", "--root-key-command"] {
        let data = folder.path().join("data");
        let (code, out, err) = operate(&data, None, &["serve", option, key]);
        assert_eq!((code, out.as_str()), (1, ""), "{err}");
        assert!(err.contains("not the key itself") && !err.contains(key), "{err}");
    }
    let file = folder.path().join("tokamak.toml");
    fs::write(&file, format!("root-key = \"{key}\"\n")).unwrap();
    let data = folder.path().join("data");
    let (code, _, err) = operate(&data, None, &["serve", "--config", file.to_str().unwrap()]);
    assert!(code != 0 && err.contains("line 1, column 1: unknown field"), "{err}");
    assert!(!err.contains(key), "{err}");
}

#[test]
fn where_the_address_is_taken_no_vault_is_begun_and_no_key_is_spent() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    let (code, out, err) = operate(&data, Some(ROOT_KEY), &["serve", "--listen", &address]);
    assert_eq!((code, out.as_str()), (1, ""), "{err}");
    assert!(err.contains(&format!("cannot listen on {address}: ")), "{err}");
    assert!(!data.join("store").exists());
}

/// `dev` on a folder that it does not take.
fn dev_ends(folder: &Path) -> (i32, String) {
    let mut dev = command();
    dev.args(["dev", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder);
    let (code, _, err) = run(dev);
    (code, err)
}

#[test]
fn a_log_is_exported_only_of_a_tenant_that_there_is() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(folder.path());
    let words = ["audit", "export", "--tenant", UNKNOWN];
    let refused = || {
        let (code, out, err) = operate(folder.path(), Some(ROOT_KEY), &words);
        assert_eq!((code, out.as_str()), (1, ""), "{err}");
        assert!(err.contains("There is no such tenant"), "{err}");
    };
    refused();
    assert_eq!(process.terminate(), Some(0));
    refused();
    assert!(!done(folder.path(), Some(ROOT_KEY), &["audit", "export"]).is_empty());
}

#[test]
fn dev_takes_the_root_key_of_its_store_and_nobody_elses() {
    let folder = tempfile::tempdir().unwrap();
    let start = || {
        let mut dev = command();
        dev.args(["dev", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder.path());
        let mut process = Process::start(dev);
        process.read_until("start again");
        assert_eq!(process.terminate(), Some(0));
    };
    start();
    let (key, aside) = (folder.path().join("root-key"), folder.path().join("aside"));
    fs::rename(&key, &aside).unwrap();
    let (code, err) = dev_ends(folder.path());
    assert!(code == 1 && err.contains(&format!("{} is missing", key.display())), "{err}");
    assert!(!key.exists(), "another key would be in its place");
    fs::rename(&aside, &key).unwrap();
    fs::set_permissions(&key, Permissions::from_mode(0o644)).unwrap();
    let (code, err) = dev_ends(folder.path());
    assert!(code == 1 && err.contains("(mode 644)"), "{err}");
    fs::set_permissions(&key, Permissions::from_mode(0o600)).unwrap();
    start();
}

#[test]
fn no_vault_is_begun_where_the_disk_of_another_is_not_mounted() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    done(&data, Some(ROOT_KEY), &["tenant", "create", "first"]);
    fs::rename(data.join("store"), folder.path().join("unmounted")).unwrap();
    // As a file system is that nothing was written to, and a start that was refused may leave it.
    fs::create_dir_all(data.join("store/lost+found")).unwrap();
    fs::write(data.join("store/lock"), "").unwrap();
    fs::create_dir_all(data.join("compiled")).unwrap();
    fs::write(data.join("compiled/a"), "").unwrap();
    let said = serve(&data, &[]);
    assert!(said.contains("there is no store in") && said.contains("mount the store"), "{said}");
    let (code, _, err) = about(&data, &["tenant", "list"]);
    assert!(code == 1 && err.contains("there is no store in"), "{err}");
    fs::remove_dir_all(data.join("store")).unwrap();
    fs::rename(folder.path().join("unmounted"), data.join("store")).unwrap();
    assert_sound(&data);
}

#[test]
fn a_restore_that_is_refused_leaves_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let (data, to) = (folder.path().join("data"), folder.path().join("backup"));
    done(&data, Some(ROOT_KEY), &["tenant", "create", "first"]);
    done(&data, Some(ROOT_KEY), &["backup", "--to", to.to_str().unwrap()]);
    let chunk = to.join("chunk-000001");
    let good = fs::read(&chunk).unwrap();
    let mut wrong = good.clone();
    *wrong.last_mut().unwrap() ^= 1;
    fs::write(&chunk, &wrong).unwrap();
    let (made, given) = (folder.path().join("made"), folder.path().join("given"));
    fs::create_dir(&given).unwrap();
    let restore = |data: &Path| about(data, &["restore", "--from", to.to_str().unwrap()]);
    for data in [&made.join("deep"), &given] {
        let (code, _, err) = restore(data);
        assert!(code == 2 && err.contains("chunk 1 was changed"), "{err}");
    }
    assert!(!made.exists());
    // The operator's own folder stays.
    assert_eq!(fs::read_dir(&given).unwrap().count(), 0);
    fs::write(&chunk, &good).unwrap();
    for data in [&made.join("deep"), &given] {
        assert_eq!(restore(data).0, 0);
        assert_sound(data);
    }
}

#[test]
fn whoever_asks_for_json_is_told_in_json_why_there_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("missing");
    let to = folder.path().join("backup");
    let to = ["backup", "--to", to.to_str().unwrap()];
    for words in [
        &["tenant", "list"][..],
        &["keys", "status"],
        &["keys", "rotate", "--all-tenants"],
        &["compact"],
        &to,
    ] {
        let (code, out, err) = about(&missing, &[words, &["--json"]].concat());
        assert_eq!(code, 1, "{words:?}: {err}");
        let told: Value = serde_json::from_str(&out).unwrap();
        let why = told["error"].as_str().unwrap();
        assert!(err.contains(why), "{words:?}: {why} beside {err}");
        // Whoever reads text is told once.
        let (code, out, again) = about(&missing, words);
        assert_eq!((code, out.as_str(), again), (1, "", err), "{words:?}");
    }
}
