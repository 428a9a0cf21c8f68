//! `tokamak serve` and `tokamak tenant` as their operator meets them (decisions §9).

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::{Command, Output};

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::binary::{MANAGEMENT_KEY, Process, ROOT_KEY, command, reactor_of};
use crate::support::upstream::Upstream;
use crate::support::{Client, guests};

fn run(mut command: Command) -> (i32, String, String) {
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

#[tokio::test(flavor = "multi_thread")]
async fn sigterm_drains_and_exits_0() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(folder.path());
    let client = process.management();
    client.get("/healthz").await.expect(200);
    client.get("/readyz").await.expect(200);
    client.get("/applications").await.expect(200);
    assert_eq!(process.terminate(), Some(0));
}

#[test]
fn a_wrong_root_key_is_a_clear_error() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(Process::serve(folder.path()).terminate(), Some(0));
    let mut serve = command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder.path());
    serve.env("TOKAMAK_ROOT_KEY", "QkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkJCQkI=");
    let (code, _, stderr) = run(serve);
    assert_eq!(code, 1);
    assert!(stderr.contains("the root key does not open this store"), "{stderr}");
    // The right one still opens it.
    assert_eq!(Process::serve(folder.path()).terminate(), Some(0));
}

#[test]
fn options_that_cannot_be_used_are_named() {
    let folder = tempfile::tempdir().unwrap();
    let serve = || {
        let mut serve = command();
        serve.arg("serve");
        serve
    };
    let (code, _, stderr) = run(serve());
    assert!(code != 0 && stderr.contains("--data-dir is required"), "{stderr}");

    let mut no_key = serve();
    no_key.arg("--data-dir").arg(folder.path());
    let (code, _, stderr) = run(no_key);
    assert!(code != 0 && stderr.contains("there is no root key"), "{stderr}");

    let mut short_key = serve();
    short_key.arg("--data-dir").arg(folder.path()).env("TOKAMAK_ROOT_KEY", "c2hvcnQ=");
    let (code, _, stderr) = run(short_key);
    assert!(code != 0 && stderr.contains("32 bytes in base64"), "{stderr}");

    let mut unknown = serve();
    unknown.arg("--lissten").arg("x");
    let (code, _, stderr) = run(unknown);
    assert!(code == 2 && stderr.contains("--lissten"), "{stderr}");

    let mut misspelt = serve();
    misspelt.arg("--data-dir").arg(folder.path()).env("TOKAMAK_LISSTEN", "x");
    let (code, _, stderr) = run(misspelt);
    assert!(code == 1 && stderr.contains("TOKAMAK_LISSTEN"), "{stderr}");

    // Kubernetes sets such ones for a service of this name.
    let mut linked = serve();
    linked.arg("--data-dir").arg(folder.path()).env("TOKAMAK_PORT", "tcp://10.0.0.1:80");
    let (code, _, stderr) = run(linked);
    assert!(code == 1 && stderr.contains("TOKAMAK_PORT"), "{stderr}");
    assert!(stderr.contains("enableServiceLinks: false"), "{stderr}");
}

#[test]
fn help_names_variables_and_tells_none_of_their_values() {
    for words in [&["serve"][..], &["tenant", "list"], &["keys", "rotate"], &["verify"]] {
        let mut help = command();
        help.args(words).arg("--help").env("TOKAMAK_ROOT_KEY_COMMAND", "get --password hunter2");
        help.env("TOKAMAK_OTLP_ENDPOINT", "http://user:hunter2@collector");
        let (code, stdout, stderr) = run(help);
        assert_eq!(code, 0, "{words:?}: {stderr}");
        assert!(stdout.contains("[env: TOKAMAK_ROOT_KEY_COMMAND]"), "{words:?}: {stdout}");
        assert!(!stdout.contains("hunter2"), "{words:?}: {stdout}");
    }
}

#[test]
fn a_variable_without_a_value_is_none() {
    let folder = tempfile::tempdir().unwrap();
    let mut serve = command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder.path());
    serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
    let empty = ["CACHE_MB", "CONFINE", "CONFIG", "LOG", "ROOT_KEY_FILE", "TLS_CERTIFICATE"];
    for name in empty {
        serve.env(format!("TOKAMAK_{name}"), "");
    }
    assert_eq!(Process::start(serve).terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn private_networks_are_opened_by_the_environment_or_a_flag() {
    let upstream = Upstream::start().await;
    let (all, single) = ("TOKAMAK_ALLOW_PRIVATE_NETWORKS", "TOKAMAK_ALLOW_NETWORKS");
    for (variable, flag, expected) in [
        (None, None, false),
        (Some((all, "true")), None, true),
        (Some((all, "1")), None, true),
        (None, Some("--allow-private-networks"), true),
        (Some((all, "true")), Some("--allow-private-networks=false"), false),
        (Some((single, "10.0.0.0/8,127.0.0.1")), None, true),
        (None, Some("--allow-networks=127.0.0.0/8"), true),
        (Some((single, "127.0.0.1")), Some("--allow-networks=10.0.0.0/8"), false),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut serve = command();
        serve.args(["serve", "--listen", "127.0.0.1:0", "--cache-mb", "32", "--data-dir"]);
        serve.arg(folder.path()).args(flag);
        serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
        if let Some((name, value)) = variable {
            serve.env(name, value);
        }
        let process = Process::start(serve);
        let seen = guests::fetch(&process.management(), &upstream.url("/echo")).await;
        assert_eq!(seen["status"] == 202, expected, "{variable:?} {flag:?}: {seen}");
        assert_eq!(seen["error"] == "denied", !expected, "{variable:?} {flag:?}: {seen}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn callbacks_over_http_are_allowed_by_the_environment_or_a_flag() {
    // One of the formulas that ship with the product.
    const INSIGHTS: &str = "6f2b0c0e-3d5a-4c38-9d6b-5a1f3c7e9b01";
    for (variable, flag, over_http) in [
        (None, None, 400),
        (Some("true"), None, 202),
        (None, Some("--allow-http-callbacks"), 202),
        (Some("true"), Some("--allow-http-callbacks=false"), 400),
    ] {
        let folder = tempfile::tempdir().unwrap();
        let mut serve = command();
        serve.args(["serve", "--listen", "127.0.0.1:0", "--cache-mb", "32", "--data-dir"]);
        serve.arg(folder.path()).args(flag);
        serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
        if let Some(value) = variable {
            serve.env("TOKAMAK_ALLOW_HTTP_CALLBACKS", value);
        }
        let process = Process::start(serve);
        let (client, react) = reactor_of(&process, INSIGHTS).await;
        for (url, expected) in [
            ("http://hooks.invalid/", over_http),
            ("https://hooks.invalid/", 202),
            // It opens no way to private networks.
            ("http://127.0.0.1:9/", 400),
        ] {
            let args = json!({"card": {"number": "4242424242424242"}});
            let answer = client.post(&react, json!({"args": args, "callback_url": url})).await;
            assert_eq!(answer.status, expected, "{variable:?} {flag:?} {url}: {}", answer.text());
            if expected == 400 {
                assert_eq!(answer.faults(), ["callback_url"], "{variable:?} {flag:?} {url}");
            }
        }
    }
}

#[cfg(target_os = "linux")]
#[test]
fn as_many_files_as_are_allowed() {
    let folder = tempfile::tempdir().unwrap();
    let program = command().get_program().to_owned();
    let shell = "ulimit -S -n 200 && exec \"$@\"";
    let mut limited = Command::new("sh");
    limited.args(["-c", shell, "sh"]).arg(program);
    limited.args(["serve", "--listen", "127.0.0.1:0", "--log", "warn", "--data-dir"]);
    limited.arg(folder.path());
    for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TOKAMAK_")) {
        limited.env_remove(name);
    }
    limited.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
    let process = Process::start(limited);
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", process.id())).unwrap();
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"));
    let numbers: Vec<_> = line.unwrap().split_whitespace().collect();
    assert!(numbers[0] == numbers[1] && numbers[0] != "200", "{numbers:?}");
    assert_eq!(process.terminate(), Some(0));
}

#[test]
fn a_second_process_on_one_folder_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let first = Process::serve(folder.path());
    let mut second = command();
    second.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder.path());
    second.env("TOKAMAK_ROOT_KEY", ROOT_KEY);
    let (code, _, stderr) = run(second);
    assert!(code == 1 && stderr.contains("another process"), "{stderr}");
    for (more, expected) in [
        ([].as_slice(), "another process"),
        // Before logging begins, too.
        (&["--otlp-endpoint", "none"], "--otlp-endpoint"),
    ] {
        let mut in_json = command();
        in_json.args(["serve", "--listen", "127.0.0.1:0", "--log", "off", "--log-format", "json"]);
        in_json.args(more).arg("--data-dir").arg(folder.path()).env("TOKAMAK_ROOT_KEY", ROOT_KEY);
        let (code, _, stderr) = run(in_json);
        let told: Value = serde_json::from_str(&stderr).unwrap();
        assert!(code == 1 && told["level"] == "ERROR", "{stderr}");
        assert!(told["message"].as_str().unwrap().contains(expected), "{stderr}");
    }
    assert_eq!(first.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_bootstrap_key_is_printed_once_when_none_is_given() {
    let folder = tempfile::tempdir().unwrap();
    let serve = || {
        let mut serve = command();
        serve.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder.path());
        serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY);
        serve
    };
    let first = Process::start(serve());
    let line = first.printed.iter().find(|line| line.contains("shown once")).unwrap();
    let key = line.rsplit(' ').next().unwrap();
    Client::new(first.address, Some(key)).get("/applications").await.expect(200);
    assert_eq!(first.terminate(), Some(0));
    let second = Process::start(serve());
    assert!(!second.printed.iter().any(|line| line.contains("key")), "{:?}", second.printed);
    assert_eq!(second.terminate(), Some(0));
}

#[test]
fn a_bootstrap_key_that_is_none_is_refused_before_anything_is_made() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let random = MANAGEMENT_KEY.strip_prefix("key_mgt_").unwrap();
    let wrong = [
        "a".to_owned(),
        random.to_owned(),
        format!("key_mgt_{}", &random[..21]),
        format!("key_mgt_{}", "x".repeat(121)),
        format!("key_ses_{random}"),
        format!("{MANAGEMENT_KEY} "),
    ];
    for key in wrong {
        let mut serve = command();
        serve.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(&data);
        serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", &key);
        let (code, stdout, stderr) = run(serve);
        assert_eq!(code, 1, "{key:?}");
        assert!(stderr.contains("TOKAMAK_BOOTSTRAP_KEY must be key_mgt_"), "{stderr}");
        assert!(key == "a" || !(stdout + &stderr).contains(&key), "a key is told to nobody");
        assert!(!data.exists());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_environment_that_is_no_text_stops_nothing_but_secrets() {
    let odd = OsStr::from_bytes(b"\xff\xfe");
    let folder = tempfile::tempdir().unwrap();
    let serve = || {
        let mut serve = command();
        serve.args(["serve", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder.path());
        serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
        serve
    };
    let mut among_odd = serve();
    among_odd.env("SOMEBODY_ELSES", odd).env(odd, "x");
    let process = Process::start(among_odd);
    process.management().get("/applications").await.expect(200);
    assert_eq!(process.terminate(), Some(0));
    for name in ["TOKAMAK_ROOT_KEY", "TOKAMAK_BOOTSTRAP_KEY"] {
        let mut with_odd = serve();
        with_odd.env(name, odd);
        let (code, _, stderr) = run(with_odd);
        assert_eq!(code, 1, "{stderr}");
        assert!(stderr.contains(&format!("{name} in the environment is no UTF-8")), "{stderr}");
    }
}

#[test]
fn a_new_data_folder_is_its_owners_alone() {
    let folder = tempfile::tempdir().unwrap();
    let mode = |folder: &Path| std::fs::metadata(folder).unwrap().permissions().mode() & 0o777;
    let new = folder.path().join("new");
    assert_eq!(Process::serve(&new).terminate(), Some(0));
    assert_eq!(mode(&new), 0o700);
    // One that is there stays as its operator made it.
    let shared = folder.path().join("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::set_permissions(&shared, std::fs::Permissions::from_mode(0o750)).unwrap();
    assert_eq!(Process::serve(&shared).terminate(), Some(0));
    assert_eq!(mode(&shared), 0o750);
}

#[tokio::test(flavor = "multi_thread")]
async fn options_come_from_a_file_too() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokamak.toml");
    let data = folder.path().join("data");
    let text = format!("data-dir = {data:?}\nlisten = \"127.0.0.1:0\"\nlog-format = \"json\"\n");
    std::fs::write(&file, text).unwrap();
    let mut serve = command();
    serve.args(["serve", "--config"]).arg(&file);
    serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
    let process = Process::start(serve);
    process.management().get("/applications").await.expect(200);
    assert_eq!(process.terminate(), Some(0));
    assert!(data.join("store").is_dir());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_line_about_a_request_names_its_trace() {
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut serve = command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--log", "debug", "--log-format", "json"]);
    serve.arg("--data-dir").arg(folder.path().join("data"));
    serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
    serve.stderr(std::fs::File::create(&log).unwrap());
    let process = Process::start(serve);
    let management = process.management();
    let read = management.request(Method::GET, "/applications");
    management.send(read.header("SVC-TRACE-ID", "trace-of-a-read")).await.expect(200);
    // What writes runs in a task of its own.
    let body = json!({"name": "p", "type": "private", "permissions": ["token:read"]});
    let write = management.request(Method::POST, "/applications").json(&body);
    management.send(write.header("SVC-TRACE-ID", "trace-of-a-write")).await.expect(201);
    assert_eq!(process.terminate(), Some(0));
    let log = std::fs::read_to_string(&log).unwrap();
    let lines = log.lines().filter_map(|line| serde_json::from_str::<Value>(line).ok());
    let answered = lines.filter(|line| line["message"] == "answered");
    let told = answered.map(|line| {
        let span = &line["span"];
        json!([span["method"], line["status"], span["trace_id"]])
    });
    let expected = json!([["GET", 200, "trace-of-a-read"], ["POST", 201, "trace-of-a-write"]]);
    assert_eq!(told.collect::<Value>(), expected, "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn tenants_are_made_and_listed() {
    let folder = tempfile::tempdir().unwrap();
    assert_eq!(Process::serve(folder.path()).terminate(), Some(0));
    let tenant = |arguments: &[&str]| {
        let mut tenant = command();
        tenant.arg("tenant").args(arguments).arg("--json").arg("--data-dir").arg(folder.path());
        tenant.env("TOKAMAK_ROOT_KEY", ROOT_KEY);
        let (code, stdout, stderr) = run(tenant);
        assert_eq!(code, 0, "{stderr}");
        serde_json::from_str::<Value>(&stdout).unwrap()
    };
    let made = tenant(&["create", "Second"]);
    let listed = tenant(&["list"]);
    assert_eq!(listed.as_array().unwrap().len(), 2);
    assert_eq!(listed[0]["id"], made["id"]);
    assert_eq!(listed[0]["name"], "Second");
    let process = Process::serve(folder.path());
    let key = made["management_key"].as_str().unwrap();
    let own = Client::new(process.address, Some(key)).get("/applications/key").await.expect(200);
    assert_eq!(own["tenant_id"], made["id"]);
}
