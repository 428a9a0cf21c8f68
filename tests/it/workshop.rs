//! `tokamak formula` as those who write formulas meet it: projects and the local loop.
//!
//! The project that is built here lies outside the repository and depends on the SDK by path.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::support::binary::{MANAGEMENT_KEY, Process};
use crate::support::workshop::{BUILT, expect, formula, project_of, root, run, told};
use crate::support::{TestServer, guests};

#[tokio::test(flavor = "multi_thread")]
async fn a_rust_project_goes_from_nothing_to_a_server() {
    let folder = tempfile::tempdir().unwrap();
    let sdk = root().join("sdk-guest");
    let made = told(folder.path(), 0, &["new", "card-check", "--sdk", sdk.to_str().unwrap()]);
    let project = folder.path().join("card-check");
    let files = made["files"].as_array().unwrap();
    assert!(files.len() >= 7);
    for file in files {
        assert!(project.join(file.as_str().unwrap()).is_file(), "{file}");
    }
    // The versions that are at hand here.
    fs::copy(root().join("Cargo.lock"), project.join("Cargo.lock")).unwrap();

    let built = told(&project, 0, &["build"]);
    assert!(Path::new(built["path"].as_str().unwrap()).is_file());
    let checked = told(&project, 0, &["check"]);
    assert_eq!(checked["status"], "verified", "{checked}");
    assert_eq!(checked["exports"], json!(["tokamak:formula/reactor@1.1.0"]));
    assert_eq!(
        checked["declared_by_the_component"],
        json!(["request_parameters", "configuration"])
    );
    let tested = told(&project, 0, &["test"]);
    assert_eq!((&tested["passed"], &tested["failed"]), (&json!(2), &json!(0)), "{tested}");
    let ran = told(&project, 0, &["run", "--args", "sample.json", "--config", "limit=1000"]);
    assert_eq!(ran["response"]["raw"], json!({ "approved": 100, "last_four": "4242" }));
    assert_eq!(ran["invocation"]["log"][0]["message"], "a number of 16 digits");

    // What was compiled once is there from then on.
    let compiled = fs::read_dir(project.join(".tokamak/compiled")).unwrap().count();
    assert!(compiled >= 1);

    let data = tempfile::tempdir().unwrap();
    let server = Process::serve(data.path());
    let address = format!("http://{}", server.address);
    let push = ["push", "--url", &address, "--key", MANAGEMENT_KEY];
    let created = told(&project, 0, &push);
    assert_eq!(created["status"], "created", "{created}");
    let declared = json!([
        { "name": "card.number", "description": "The number, without separators.", "type": "string", "optional": false },
        { "name": "amount", "description": "The amount, in minor units.", "type": "number", "optional": false },
    ]);
    assert_eq!(created["formula"]["request_parameters"], declared);

    // A mistake is shown by the case that it breaks, and the next push replaces the formula.
    let source = project.join("src/lib.rs");
    let text = fs::read_to_string(&source).unwrap().replace("is over the limit", "is too much");
    fs::write(&source, text).unwrap();
    let tested = told(&project, 1, &["test"]);
    let differences = &tested["cases"][1]["differences"];
    let expected =
        "error.errors.args.amount[0]: expected \"is over the limit\", got \"is too much\"";
    assert_eq!(*differences, json!([expected]));
    let updated = told(&project, 0, &push);
    assert_eq!(updated["status"], "updated", "{updated}");
    assert_eq!(updated["formula"]["id"], created["formula"]["id"]);
    assert_ne!(updated["formula"]["component_digest"], created["formula"]["component_digest"]);

    let management = server.management();
    let body = json!({ "name": "a", "formula": { "id": updated["formula"]["id"] }, "configuration": { "limit": 5 } });
    let reactor = management.post("/reactors", body).await.expect(201);
    let body = json!({ "name": "a", "type": "private", "permissions": ["token:use"] });
    let key = management.post("/applications", body).await.expect(201);
    let caller = management.with_key(key["key"].as_str().unwrap());
    let path = format!("/reactors/{}/react", reactor["id"].as_str().unwrap());
    let args = json!({ "args": { "card": { "number": "4242424242424242" }, "amount": "6" } });
    let refused = caller.post(&path, args).await.expect(400);
    assert_eq!(refused["errors"]["args.amount"], json!(["is too much"]));

    // What does not compile is cargo's to tell.
    fs::write(&source, "fn broken(").unwrap();
    let (code, _, stderr) = run(formula(&project, &["test"]));
    assert_eq!(code, 2);
    assert!(stderr.contains("src/lib.rs:1") && stderr.contains("does not build"), "{stderr}");
}

#[test]
fn a_new_project_touches_nothing_that_is_there() {
    let folder = tempfile::tempdir().unwrap();
    for language in ["javascript", "python", "go"] {
        let printed =
            expect(folder.path(), 0, &["new", &format!("in-{language}"), "--lang", language]);
        let project = folder.path().join(format!("in-{language}"));
        let cautioned = printed.contains("caution no test builds this template");
        assert_eq!(cautioned, language == "go", "{printed}");
        let files = printed.lines().filter_map(|line| line.strip_prefix("  "));
        for file in files.take_while(|file| !file.starts_with("cd ")) {
            let text = fs::read_to_string(project.join(file)).unwrap();
            assert!(!text.contains("@NAME@") && !text.contains("@LANGUAGE@"), "{file}");
            assert!(
                file != "formula.json" || text.contains(&format!("\"language\": \"{language}\""))
            );
            if Path::new(file).extension().is_some_and(|extension| extension == "json") {
                serde_json::from_str::<Value>(&text)
                    .unwrap_or_else(|error| panic!("{file}: {error}"));
            }
        }
    }
    let source = folder.path().join("in-python/formula.py");
    fs::write(&source, "mine").unwrap();
    fs::remove_file(folder.path().join("in-python/sample.json")).unwrap();
    let (code, _, stderr) = run(formula(folder.path(), &["new", "in-python", "--lang", "python"]));
    assert!(code == 2 && stderr.contains("is there already; nothing was written"), "{stderr}");
    assert_eq!(fs::read_to_string(&source).unwrap(), "mine");
    assert!(!folder.path().join("in-python/sample.json").exists());

    for (name, part) in [("Upper", "small letter"), ("a/b", "small letter"), ("fn", "package")] {
        let (code, _, stderr) = run(formula(folder.path(), &["new", name, "--lang", "go"]));
        assert!(code == 2 && stderr.contains(part), "{name}: {stderr}");
        assert!(!folder.path().join(name).exists());
    }
    let (code, _, stderr) = run(formula(folder.path(), &["new", "a", "--sdk", "/nowhere"]));
    assert!(code == 2 && stderr.contains("/nowhere"), "{stderr}");
    let (code, _, stderr) = run(formula(folder.path(), &["new", "a", "--lang", "cobol"]));
    assert!(code == 2 && stderr.contains("javascript"), "{stderr}");
    let (code, _, stderr) = run(formula(folder.path(), &["run"]));
    assert!(code == 2 && stderr.contains("formula new"), "{stderr}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_check_says_what_a_server_says() {
    let server = TestServer::start().await;
    for package in ["probe", "sockets", "files"] {
        let component = guests::component(package);
        let said = server.management.post("/reactor-formulas", guests::upload(component)).await;
        let project = project_of(component, &[]);
        let code = i32::from(said.status != 201);
        let checked = told(project.path(), code, &[&["check"], &BUILT[..]].concat());
        assert_eq!(checked["bytes"], component.len());
        let error = &checked["error"];
        if said.status == 201 {
            assert_eq!((&checked["status"], error), (&json!("verified"), &Value::Null));
            assert_eq!(checked["formula"]["component_digest"], said.json()["component_digest"]);
            continue;
        }
        assert_eq!((&checked["status"], &error["status"]), (&json!("refused"), &json!(422)));
        assert_eq!(error["detail"], said.json()["detail"], "{package}");
        let printed = expect(project.path(), 1, &[&["check"], &BUILT[..]].concat());
        assert!(printed.contains(error["detail"].as_str().unwrap()), "{printed}");
    }
    // The rest of the request is checked as well.
    let project = project_of(guests::component("bare"), &[]);
    let manifest = json!({ "name": "", "limits": { "memory_mb": 0 } });
    fs::write(project.path().join("formula.json"), manifest.to_string()).unwrap();
    fs::write(project.path().join("Cargo.toml"), "").unwrap();
    let checked = told(project.path(), 1, &[&["check"], &BUILT[..]].concat());
    let errors = checked["error"]["errors"].as_object().unwrap();
    assert!(errors.contains_key("name") && errors.contains_key("limits.memory_mb"), "{errors:?}");
}

#[test]
fn a_run_shows_how_it_went() {
    let project = project_of(guests::component("probe"), &[]);
    let run = |code: i32, args: Value, more: &[&str]| {
        fs::write(project.path().join("args.json"), args.to_string()).unwrap();
        let options = [&["run", "--args", "args.json"], &BUILT[..], more].concat();
        (told(project.path(), code, &options), expect(project.path(), code, &options))
    };
    // Arguments may be given in place of a file.
    let given = r#"{ "behaviour": "respond", "raw": "given" }"#;
    let ran = told(project.path(), 0, &[&["run", "--args", given], &BUILT[..]].concat());
    assert_eq!(ran["response"]["raw"], "given", "{ran}");
    let card = r#"card={"type":"card","data":{"number":"4242424242424242"}}"#;
    let args = json!({ "behaviour": "echo", "card": "{{ card }}", "text": "{{ text }}" });
    let more = ["--token", card, "--token", "text=\"plain\""];
    let (told, shown) = run(0, args, &more);
    assert_eq!(told["status"], "completed", "{told}");
    assert_eq!(told["response"]["raw"]["args"]["card"]["number"], "4242424242424242");
    assert_eq!(told["response"]["raw"]["args"]["text"], "plain");
    assert!(told["invocation"]["fuel"].as_u64().unwrap() > 1_000);
    assert!(told["invocation"]["memory_peak_bytes"].as_u64().unwrap() > 10_000);
    assert!(shown.starts_with("completed  ") && shown.contains(" fuel, "), "{shown}");

    // `svc` is the vault's own, with the types and masks of a server; without an application there is none.
    let create = json!({ "behaviour": "svc", "operation": "create", "input": { "type": "card_number", "data": "4242424242424242" } });
    let (made, _) = run(0, create.clone(), &[]);
    assert_eq!(made["response"]["raw"]["data"], "XXXXXXXXXXXX4242", "{made}");
    let (without, _) = run(1, create, &["--no-svc"]);
    assert_eq!(without["error"]["status"], 500, "{without}");

    let lines = json!({ "behaviour": "log", "lines": [["warn", "mind the gap"]] });
    let (told, shown) = run(0, lines, &[]);
    assert_eq!(told["invocation"]["log"][0], json!({ "level": "warn", "message": "mind the gap" }));
    assert!(shown.contains("  warn  mind the gap"), "{shown}");
    let fail = json!({ "behaviour": "fail", "kind": "invalid_payment_method", "detail": "no money",
        "errors": [["args.card", "is empty"]] });
    let (told, shown) = run(1, fail, &[]);
    assert_eq!((&told["status"], &told["error"]["status"]), (&json!("failed"), &json!(402)));
    assert!(shown.contains("no money") && shown.contains("args.card: is empty"), "{shown}");
    let (told, _) = run(1, json!({ "behaviour": "panic", "message": "oh" }), &[]);
    assert_eq!(told["error"]["title"], "Reactor Runtime Error", "{told}");
    let (told, shown) = run(1, json!({ "card": "{{ nobody }}" }), &[]);
    assert_eq!((&told["error"]["status"], told.get("invocation")), (&json!(400), None));
    assert!(shown.contains("before it ran"), "{shown}");
}

#[test]
fn what_is_given_wrongly_is_named() {
    let project = project_of(guests::component("bare"), &[]);
    fs::write(project.path().join("args.json"), "{\n  no").unwrap();
    for (more, part) in [
        (vec!["--args", "args.json"], "no JSON at line 2, column 3"),
        (vec!["--args", "missing.json"], "missing.json"),
        (vec!["--config", "limit"], "--config"),
        (vec!["--token", "id={"], "--token id"),
        (vec!["--component", "absent.wasm"], "absent.wasm"),
    ] {
        let with_component = !more.contains(&"--component");
        let built = if with_component { &BUILT[..] } else { &[] };
        let (code, _, stderr) = run(formula(project.path(), &[&["run"], built, &more].concat()));
        assert!(code == 2 && stderr.contains(part), "{more:?}: {stderr}");
    }
}

#[test]
fn a_script_is_told_in_json_what_kept_a_formula_from_being_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let of_rust = folder.path().join("of-rust");
    fs::create_dir_all(&of_rust).unwrap();
    fs::write(of_rust.join("formula.json"), r#"{ "language": "rust" }"#).unwrap();
    let built = project_of(guests::component("bare"), &[]);
    let without_cases = project_of(guests::component("bare"), &[]);
    fs::remove_dir(without_cases.path().join("cases")).unwrap();
    let nobody = ["push", "--url", "http://127.0.0.1:9", "--key", "k"];
    for (project, arguments, part) in [
        (folder.path(), &["check"][..], "formula.json"),
        (&of_rust, &["build"], "https://rustup.rs"),
        (built.path(), &["build", "--component", "absent.wasm"], "absent.wasm"),
        (built.path(), &["run", "--args", "absent.json"], "absent.json"),
        (built.path(), &[&["test", "nothing-named-so"], &BUILT[..]].concat(), "no such cases"),
        (without_cases.path(), &[&["test"], &BUILT[..]].concat(), "no cases"),
        (built.path(), &[&nobody[..], &BUILT].concat(), "http://127.0.0.1:9"),
        (folder.path(), &["new", "of-rust", "--lang", "javascript"], "is there already"),
    ] {
        let mut command = formula(project, &[arguments, &["--json"]].concat());
        command.env("PATH", "/nowhere");
        let (code, stdout, stderr) = run(command);
        assert_eq!(code, 2, "{arguments:?}: {stdout} {stderr}");
        let told: Value = serde_json::from_str(&stdout)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error}: {stdout:?} {stderr}"));
        assert_eq!((&told["status"], stderr.as_str()), (&json!("error"), ""), "{arguments:?}");
        assert!(told["error"].as_str().unwrap().contains(part), "{arguments:?}: {told}");
    }
}

#[test]
fn cases_tell_where_they_differ() {
    let echo = |text: &str| json!({ "request": { "args": text } });
    let answered = |raw: Value, expected: Value| {
        let args = json!({ "behaviour": "respond", "raw": raw, "tokenize": { "t": "x" } });
        json!({ "request": { "args": args }, "expected": { "raw": expected, "tokens": { "t": "*" } } })
    };
    let other = json!({ "behaviour": "svc", "operation": "get", "input": "of-another-case", "catch": true });
    let project = project_of(
        guests::component("probe"),
        &[
            ("a-right", answered(json!({ "a": [1, 2] }), json!({ "a": [1, 2] }))),
            ("b-wrong", answered(json!({ "a": [1, 2], "b": 1 }), json!({ "a": [1, 3] }))),
            ("c-fails", json!({ "request": echo("x")["request"], "error": { "status": 400 } })),
            (
                "d-makes",
                json!({ "tokens": { "of-another-case": "x" }, "request": { "args": { "behaviour": "clock" } },
                "expected": { "raw": { "now_ms": "*" } } }),
            ),
            ("e-alone", json!({ "request": { "args": other }, "expected": { "raw": "*" } })),
        ],
    );
    let tested = told(project.path(), 1, &[&["test"], &BUILT[..]].concat());
    assert_eq!((&tested["passed"], &tested["failed"]), (&json!(4), &json!(1)), "{tested}");
    let wrong = &tested["cases"][1];
    assert_eq!(wrong["name"], "b-wrong");
    let expected =
        ["response.raw.a[1]: expected 3, got 2", "response.raw.b: is not expected, got 1"];
    assert_eq!(wrong["differences"], json!(expected));
    // No case sees the tokens of another.
    assert!(tested["cases"][4]["response"]["raw"].to_string().contains("404"), "{tested}");
    let printed = expect(project.path(), 1, &[&["test"], &BUILT[..]].concat());
    assert!(printed.contains("FAILED  b-wrong") && printed.contains(expected[0]), "{printed}");
    assert!(printed.ends_with("failed 1 of 5 cases\n"), "{printed}");
    let only = expect(project.path(), 0, &[&["test", "right"], &BUILT[..]].concat());
    assert!(only.contains("passed 1 of 1 case\n"), "{only}");
    expect(project.path(), 2, &[&["test", "nothing-named-so"], &BUILT[..]].concat());
}

#[test]
fn colours_are_for_terminals() {
    let project = project_of(guests::component("probe"), &[]);
    let printed = |variables: &[(&str, &str)]| {
        let mut check = formula(project.path(), &[&["check"], &BUILT[..]].concat());
        check.envs(variables.iter().copied());
        run(check).1
    };
    assert!(!printed(&[]).contains('\x1b'));
    assert!(printed(&[("CLICOLOR_FORCE", "1")]).contains('\x1b'));
    assert!(!printed(&[("CLICOLOR_FORCE", "1"), ("NO_COLOR", "1")]).contains('\x1b'));
}

/// The lines of a stream, read on a thread of its own.
fn lines(stream: impl std::io::Read + Send + 'static) -> Receiver<String> {
    let (sending, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stream).lines().map_while(Result::ok) {
            let _ = sending.send(line);
        }
    });
    lines
}

/// Reads on until a line holds this text.
fn wait_for(lines: &Receiver<String>, text: &str) {
    loop {
        let line = lines.recv_timeout(Duration::from_mins(2));
        if line.unwrap_or_else(|_| panic!("no {text:?}")).contains(text) {
            return;
        }
    }
}

#[test]
fn what_it_prints_to_is_no_change() {
    let project = project_of(guests::component("probe"), &[]);
    let path = project.path().join("printed");
    let printed = fs::File::create(&path).unwrap();
    let mut check =
        formula(project.path(), &[&["build", "--watch", "--json"], &BUILT[..]].concat());
    let mut child = check.stdout(printed).stderr(Stdio::piped()).spawn().unwrap();
    let told = lines(child.stderr.take().unwrap());
    wait_for(&told, "waiting for a change");
    // Several looks later it is still waiting.
    std::thread::sleep(Duration::from_secs(1));
    assert_eq!(fs::read_to_string(&path).unwrap().lines().count(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(told.recv_timeout(Duration::from_mins(1)).is_err());
}

#[test]
fn a_change_runs_it_again() {
    let answer = |expected: u32| {
        let args = json!({ "behaviour": "respond", "raw": 1 });
        json!({ "request": { "args": args }, "expected": { "raw": expected } })
    };
    let project = project_of(guests::component("probe"), &[("one", answer(1))]);
    let mut test = formula(project.path(), &[&["test", "--watch"], &BUILT[..]].concat());
    let mut child = test.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let printed = lines(child.stdout.take().unwrap());
    let told = lines(child.stderr.take().unwrap());
    wait_for(&printed, "passed 1 of 1");
    wait_for(&told, "waiting for a change");
    fs::write(project.path().join("cases/one.json"), answer(2).to_string()).unwrap();
    wait_for(&printed, "expected 2, got 1");
    wait_for(&told, "waiting for a change");
    fs::write(project.path().join("cases/one.json"), "{ }").unwrap();
    wait_for(&told, "either `expected` or `error`");
    child.kill().unwrap();
    child.wait().unwrap();
}
