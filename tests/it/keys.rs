//! Where the root key comes from, and how it changes (decisions §9).

use std::fs::{self, Permissions};
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};

use serde_json::{Value, json};
use tokamak::crypto::keys::RootKey;
use tokamak::model::id::TenantId;

use crate::support::Client;
use crate::support::binary::{MANAGEMENT_KEY, Process, ROOT_KEY, command, eventually, run};
use crate::support::operator::{
    NOBODY, SYSTEM, TENANT_KEYS, copy, done, occurrences, operate, record, tenant_keys,
};
use crate::support::server::open_store;

const NEW_KEY: &str = "QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI=";

fn key_file(folder: &Path, name: &str, key: &str) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, key).unwrap();
    fs::set_permissions(&path, Permissions::from_mode(0o600)).unwrap();
    path
}

/// Serves with these arguments instead of a key in the environment.
fn serve(data: &Path, arguments: &[&str]) -> Process {
    let mut serve = command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--cache-mb", "32", "--log", "warn"]);
    serve.arg("--data-dir").arg(data).args(arguments).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
    Process::start(serve)
}

#[test]
fn the_root_key_comes_from_a_file_or_a_command() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let file = key_file(folder.path(), "key", ROOT_KEY);
    let file = file.to_str().unwrap();
    assert_eq!(serve(&data, &["--root-key-file", file]).terminate(), Some(0));
    let ask = format!("sh -c 'cat \"{file}\" | cat'");
    assert_eq!(serve(&data, &["--root-key-command", &ask]).terminate(), Some(0));
    // Who asks for the certificate to be read anew before there is one to be read ends nothing.
    let ask = format!("sh -c 'kill -HUP $PPID; cat \"{file}\"'");
    assert_eq!(serve(&data, &["--root-key-command", &ask]).terminate(), Some(0));
    let ask = format!("/bin/cat {file}");
    done(&data, None, &["keys", "status", "--root-key-command", &ask]);
    // What another command prints is another key.
    let other = format!("echo {NEW_KEY}");
    let (code, _, stderr) = operate(&data, None, &["keys", "status", "--root-key-command", &other]);
    assert!(code == 1 && stderr.contains("the root key does not open this store"), "{stderr}");
}

/// systemd lets a service read its credentials by an access list, which the mode shows as the group's permission.
#[test]
fn a_credential_of_the_service_is_a_file_of_its_own() {
    let folder = tempfile::tempdir().unwrap();
    let (data, credentials) = (folder.path().join("data"), folder.path().join("credentials"));
    fs::create_dir(&credentials).unwrap();
    let file = key_file(&credentials, "root-key", ROOT_KEY);
    let arguments = ["--root-key-file", file.to_str().unwrap()];
    assert_eq!(serve(&data, &arguments).terminate(), Some(0));
    fs::set_permissions(&file, Permissions::from_mode(0o440)).unwrap();
    let status = |credentials: &Path| {
        let mut status = command();
        status.args(["keys", "status", "--data-dir"]).arg(&data).args(arguments);
        status.env("CREDENTIALS_DIRECTORY", credentials);
        run(status)
    };
    let (code, _, stderr) = status(&credentials);
    assert_eq!(code, 0, "{stderr}");
    let (code, _, stderr) = status(folder.path());
    assert!(code == 1 && stderr.contains("mode 440"), "{stderr}");
}

#[test]
fn a_root_key_that_cannot_be_had_is_a_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    let file = key_file(folder.path(), "key", ROOT_KEY);
    let file = file.to_str().unwrap();
    let data = folder.path().join("data");
    let refused = |key: Option<&str>, arguments: &[&str]| {
        let create: &[&str] = &["tenant", "create", "a"];
        let arguments = [create, arguments].concat();
        let (code, stdout, stderr) = operate(&data, key, &arguments);
        assert_eq!(code, 1, "{stdout} {stderr}");
        assert!(!stderr.contains(ROOT_KEY), "{stderr}");
        stderr
    };
    let two = refused(Some(ROOT_KEY), &["--root-key-file", file]);
    assert!(two.contains("TOKAMAK_ROOT_KEY, --root-key-file"), "{two}");
    let two = refused(None, &["--root-key-command", "echo", "--root-key-file", file]);
    assert!(two.contains("--root-key-file, --root-key-command"), "{two}");
    let script = format!("sh -c 'cat {file}; echo {ROOT_KEY} was refused >&2; exit 7'");
    let failed = refused(None, &["--root-key-command", &script]);
    assert!(failed.contains("exit status: 7; it said: [hidden]= was refused"), "{failed}");
    let slow = ["--root-key-command", "sleep 600", "--root-key-command-seconds", "1"];
    assert!(refused(None, &slow).contains("took over 1 s"));
    fs::set_permissions(file, Permissions::from_mode(0o640)).unwrap();
    assert!(refused(None, &["--root-key-file", file]).contains("mode 640"));
    assert!(!data.exists(), "nothing is made before there is a key");
}

#[test]
fn options_of_a_new_root_key_are_for_the_root_key_alone() {
    let folder = tempfile::tempdir().unwrap();
    let id = "00000000-0000-4000-8000-000000000000";
    for which in [&["--all-tenants"][..], &["--tenant", id]] {
        for option in ["--new-root-key-file", "--new-root-key-command"] {
            let words = [&["keys", "rotate"], which, &[option, "x"]].concat();
            let (code, _, stderr) = operate(folder.path(), Some(ROOT_KEY), &words);
            assert_eq!(code, 2, "{words:?}: {stderr}");
            assert!(stderr.contains(option) && stderr.contains(which[0]), "{words:?}: {stderr}");
        }
    }
}

#[test]
fn the_command_for_a_new_root_key_has_the_time_that_the_file_gives() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokamak.toml");
    fs::write(&file, "root-key-command-seconds = 1\n").unwrap();
    let slow = ["keys", "rotate", "--root", "--new-root-key-command", "sleep 600", "--config"];
    let words = [&slow[..], &[file.to_str().unwrap()]].concat();
    let (code, _, stderr) = operate(&folder.path().join("data"), None, &words);
    assert!(code == 1 && stderr.contains("took over 1 s"), "{stderr}");
}

#[test]
fn where_a_server_ends_before_it_answers_either_root_key_may_count() {
    let folder = tempfile::tempdir().unwrap();
    let listener = UnixListener::bind(folder.path().join("control.sock")).unwrap();
    let server = std::thread::spawn(move || {
        let (mut asked, _) = listener.accept().unwrap();
        assert!(asked.read(&mut [0; 64]).unwrap() > 0);
    });
    let new = key_file(folder.path(), "new", NEW_KEY);
    let rotate = ["keys", "rotate", "--root", "--new-root-key-file", new.to_str().unwrap()];
    let (code, stdout, stderr) = operate(folder.path(), None, &rotate);
    server.join().unwrap();
    assert_eq!((code, stdout.as_str()), (1, ""), "{stderr}");
    assert!(stderr.contains("the old root key counts or the new one"), "{stderr}");
}

async fn token(process: &Process) -> (Client, String) {
    let body = json!({"name": "one", "type": "private", "permissions": [],
        "rules": [{"description": "all", "priority": 1, "container": "/", "transform": "reveal",
            "permissions": ["token:create", "token:read"]}]});
    let made = process.management().post("/applications", body).await.expect(201);
    let client = Client::new(process.address, made["key"].as_str());
    let id = client.token("token", json!("kept through it all")).await;
    (client, id)
}

fn status(data: &Path, key: Option<&str>) -> Value {
    serde_json::from_str(&done(data, key, &["keys", "status", "--json"])).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_root_key_changes_while_serving_and_the_old_one_is_gone() {
    let folder = tempfile::tempdir().unwrap();
    let (data, before) = (folder.path().join("data"), folder.path().join("before"));
    done(&data, Some(ROOT_KEY), &["tenant", "create", "first"]);
    done(&data, Some(ROOT_KEY), &["tenant", "create", "second"]);
    copy(&data, &before);
    let process = serve(
        &data,
        &[
            "--root-key-file",
            key_file(folder.path(), "old", ROOT_KEY).to_str().unwrap(),
            "--compact-seconds",
            "0",
        ],
    );
    let first = status(&data, None);
    let new = key_file(folder.path(), "new", NEW_KEY);
    let rotate = ["keys", "rotate", "--root", "--new-root-key-file", new.to_str().unwrap()];
    let said = done(&data, None, &rotate);
    assert!(said.contains("the keys of 2 tenants and"), "{said}");
    assert_ne!(status(&data, None)["root_key_id"], first["root_key_id"]);
    let (code, _, stderr) = operate(&data, None, &rotate);
    assert!(code == 1 && stderr.contains("the root key already"), "{stderr}");
    let (code, _, stderr) = operate(&data, None, &["keys", "rotate", "--root"]);
    assert!(code == 1 && stderr.contains("there is no new root key"), "{stderr}");
    let left = || (!status(&data, None)["old_keys_in_files"].as_bool().unwrap()).then_some(());
    eventually("store without the old key", left).await;
    assert_eq!(process.terminate(), Some(0));

    let (code, _, stderr) = operate(&data, Some(ROOT_KEY), &["tenant", "list"]);
    assert!(code == 1 && stderr.contains("the root key does not open this store"), "{stderr}");
    let listed = done(&data, Some(NEW_KEY), &["tenant", "list"]);
    assert!(listed.contains("first") && listed.contains("second"), "{listed}");
    // Once: the second attempt changed nothing.
    assert_eq!(rotations(&data, NOBODY), ["Root key rotated"]);

    // What the old key wrapped is in no file any more, and it opens nothing that is there.
    let old = open_store(&before.join("store")).await;
    let now = open_store(&data.join("store")).await;
    let tenants = status_tenants(&first);
    for (kind, tenant) in tenants.iter().map(|id| (TENANT_KEYS, *id)).chain([(SYSTEM, NOBODY)]) {
        let wrapped = record(&old, kind, tenant, "keys").await.unwrap().body;
        assert!(occurrences(&before, &wrapped) > 0);
        assert_eq!(occurrences(&data, &wrapped), 0);
    }
    let (old_key, new_key) = (RootKey::parse(ROOT_KEY).unwrap(), RootKey::parse(NEW_KEY).unwrap());
    for tenant in tenants {
        assert!(tenant_keys(&now, tenant, &old_key).await.is_none());
        assert!(tenant_keys(&now, tenant, &new_key).await.is_some());
    }
}

fn status_tenants(status: &Value) -> Vec<TenantId> {
    let tenants = status["tenants"].as_array().unwrap().iter();
    tenants.map(|tenant| tenant["tenant_id"].as_str().unwrap().parse().unwrap()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_root_key_changes_without_a_server_too() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(folder.path());
    let (client, id) = token(&process).await;
    assert_eq!(process.terminate(), Some(0));
    let mut rotate = command();
    rotate.args(["keys", "rotate", "--root", "--json", "--data-dir"]).arg(folder.path());
    rotate.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_NEW_ROOT_KEY", NEW_KEY);
    let output = rotate.output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "{\"keys\":2}\n");
    let process = serve(folder.path(), &["--root-key-command", &format!("echo {NEW_KEY}")]);
    let client = Client::new(process.address, client.key.as_deref());
    let read = client.get(&format!("/tokens/{id}")).await.expect(200);
    assert_eq!(read["data"], "kept through it all");
    assert_eq!(process.terminate(), Some(0));
}

/// What the log of a tenant, or of the vault itself, says of rotations; each is the operator's, in no request.
fn rotations(data: &Path, tenant: TenantId) -> Vec<String> {
    let lines = done(data, Some(NEW_KEY), &["audit", "export", "--tenant", &tenant.to_string()]);
    let entries = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let rotations = entries.filter(|entry| entry["message"].as_str().unwrap().contains("rotated"));
    let told = |entry: Value| {
        assert_eq!((&entry["actor_type"], &entry["operation"]), (&json!("user"), &json!("update")));
        assert_eq!(entry["entity_id"], tenant.to_string());
        assert!(entry.get("actor_id").is_none() && entry.get("trace_id").is_none(), "{entry}");
        entry["message"].as_str().unwrap().to_owned()
    };
    rotations.map(told).collect()
}

#[test]
fn a_tenants_rotation_is_an_entry_of_its_log() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let key = Some(NEW_KEY);
    done(data, key, &["tenant", "create", "first"]);
    done(data, key, &["tenant", "create", "second"]);
    let [first, second] = status_tenants(&status(data, key))[..] else { panic!("two tenants") };
    done(data, key, &["keys", "rotate", "--tenant", &first.to_string()]);
    let told = |tenant| rotations(data, tenant).len();
    assert_eq!(
        (rotations(data, first), told(second), told(NOBODY)),
        (vec!["Key rotated".to_owned()], 0, 0)
    );
    // What the vault keeps for itself has a key and a log, too.
    done(data, key, &["keys", "rotate", "--all-tenants"]);
    assert_eq!((told(first), told(second), told(NOBODY)), (2, 1, 1));
    assert!(done(data, key, &["verify"]).contains("nothing is damaged"));
}
