//! What an operator sees and is given: figures, completions, manual pages, examples of how to run it (decisions §9).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use tokamak::limits as l;

use crate::support::binary::{MANAGEMENT_KEY, Process, ROOT_KEY, command};
use crate::support::{Client, TestServer, skipped};

fn example(file: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    fs::read_to_string(root.join("examples/operation").join(file)).unwrap()
}

fn printed(arguments: &[&str]) -> String {
    let output = command().args(arguments).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

async fn figures(client: &Client) -> String {
    let answer = client.get("/metrics").await;
    assert_eq!(answer.status, 200);
    let content_type = answer.headers["content-type"].to_str().unwrap();
    assert!(content_type.starts_with("application/openmetrics-text"), "{content_type}");
    String::from_utf8(answer.bytes).unwrap()
}

fn figure(text: &str, series: &str) -> f64 {
    let line = text.lines().find(|line| line.starts_with(&format!("{series} ")));
    line.map_or(0.0, |line| line.rsplit(' ').next().unwrap().parse().unwrap())
}

/// The process is this test's own: nobody else's requests are counted in it.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_server_does_is_counted_and_tells_nothing_of_what_it_keeps() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::serve(folder.path());
    let management = process.management();
    let rules = json!({"name": "writer", "type": "private",
        "permissions": ["token:create", "token:read", "token:use"]});
    let writer = management.post("/applications", rules).await.expect(201);
    let writer = management.with_key(writer["key"].as_str().unwrap());
    let token = json!({"id": "told-to-nobody", "type": "token", "data": "a value of somebody"});
    writer.post("/tokens", token).await.expect(201);
    for _ in 0..3 {
        writer.get("/tokens/told-to-nobody").await.expect(200);
    }
    writer.get("/tokens/not-there").await.expect(404);

    let stranger = Client::new(process.address, None);
    stranger.get("/tokens/x").await.expect(401);
    let text = figures(&stranger).await;
    let requests = "tokamak_http_requests_total";
    for (labels, count) in [
        (r#"{method="POST",route="/tokens",status="201"}"#, 1.0),
        (r#"{method="GET",route="/tokens/{id}",status="200"}"#, 3.0),
        (r#"{method="GET",route="/tokens/{id}",status="404"}"#, 1.0),
        (r#"{method="GET",route="/tokens/{id}",status="401"}"#, 1.0),
    ] {
        assert!((figure(&text, &format!("{requests}{labels}")) - count).abs() < 0.5, "{text}");
    }
    assert!(figure(&text, "tokamak_store_commit_duration_seconds_count") >= 5.0, "{text}");
    assert!(figure(&text, "process_resident_memory_bytes") > 1e6);
    for hidden in ["told-to-nobody", "a value of somebody", MANAGEMENT_KEY, "not-there", "writer"] {
        assert!(!text.contains(hidden), "{hidden} stands in\n{text}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_are_shown_to_named_networks_only() {
    let folder = tempfile::tempdir().unwrap();
    let serve = |networks: &str| {
        let mut serve = command();
        serve.args(["serve", "--listen", "127.0.0.1:0", "--cache-mb", "32", "--log", "warn"]);
        serve.arg("--metrics-networks").arg(networks).arg("--data-dir").arg(folder.path());
        serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
        Process::start(serve)
    };
    let elsewhere = serve("10.9.8.0/24,fd00::/8");
    // Not even a key opens it.
    let refused = elsewhere.management().get("/metrics").await.expect(403);
    assert_eq!(refused["detail"], "Figures are not shown to this address.");
    assert_eq!(elsewhere.terminate(), Some(0));
    let here = serve("10.9.8.0/24,127.0.0.1");
    figures(&here.management()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn every_figure_that_is_drawn_or_watched_is_there() {
    let server = TestServer::start().await;
    // Each kind of thing happens once, so that each series is there.
    run_something(&server).await;
    let text = figures(&server.stranger()).await;
    let known: BTreeSet<&str> = text
        .lines()
        .filter(|line| !line.starts_with('#'))
        .map(|line| line.split(['{', ' ']).next().unwrap())
        .collect();
    let files = ["alerts.yml", "grafana/tokamak.json"].map(example);
    let mut named = BTreeSet::new();
    for file in &files {
        let is_part = |c: char| !c.is_ascii_alphanumeric() && c != '_';
        let words = file
            .split(is_part)
            .filter(|word| word.starts_with("tokamak_") || word.starts_with("process_"));
        named.extend(words);
    }
    assert!(named.len() >= 10, "{named:?}");
    // Webhooks are sent by a test of their own, and so is TLS spoken; the unit tests hold the names.
    let is_elsewhere = |name: &str| {
        name == "tokamak_webhook_attempts_total" || name.starts_with("tokamak_tls_certificate_")
    };
    let missing: Vec<_> =
        named.iter().filter(|name| !known.contains(*name) && !is_elsewhere(name)).collect();
    assert!(missing.is_empty(), "{missing:?} in\n{text}");
}

async fn run_something(server: &TestServer) {
    server.private.token("token", json!("x")).await;
    let formulas = server.management.get("/reactor-formulas?name=card*").await.expect(200);
    let formula = &formulas["data"][0]["id"];
    let reactor = json!({"name": "r", "formula": {"id": formula}, "configuration": {}});
    let reactor = server.management.post("/reactors", reactor).await.expect(201);
    let path = format!("/reactors/{}/react", reactor["id"].as_str().unwrap());
    let args = json!({"args": {"card": {"number": "4242424242424242",
        "expiration_month": 12, "expiration_year": 2030}}});
    server.private.post(&path, args).await.expect(200);
}

#[test]
fn shells_and_manuals_know_every_command() {
    let commands: Vec<String> = printed(&["--help"])
        .lines()
        .skip_while(|line| !line.starts_with("Commands:"))
        .skip(1)
        .take_while(|line| line.starts_with("  "))
        // Not the second line of what is said of one.
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next().map(str::to_owned))
        .filter(|name| name != "help")
        .collect();
    assert!(commands.len() >= 5, "{commands:?}");
    for shell in ["bash", "zsh", "fish"] {
        let script = printed(&["completions", shell]);
        for command in &commands {
            assert!(script.contains(command.as_str()), "{shell} does not know {command}");
        }
        assert!(script.contains("root-key-file"), "{shell} does not know the options");
    }
    let folder = tempfile::tempdir().unwrap();
    printed(&["man", "--to", folder.path().to_str().unwrap()]);
    for command in &commands {
        let page = fs::read_to_string(folder.path().join(format!("tokamak-{command}.1")));
        assert!(page.unwrap().contains(".SH SYNOPSIS"), "{command}");
    }
    assert!(printed(&["man"]).contains("tokamak"));
    // Units and containers set variables and no options.
    let page = fs::read_to_string(folder.path().join("tokamak-serve.1")).unwrap();
    assert!(page.contains("TOKAMAK_ROOT_KEY_FILE"), "{page}");
}

#[test]
fn a_shell_takes_its_script() {
    let script = printed(&["completions", "bash"]);
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("tokamak.bash");
    fs::write(&file, script).unwrap();
    let checked = Command::new("bash").arg("-n").arg(&file).status();
    match checked {
        Ok(status) => assert!(status.success()),
        Err(error) => skipped(&format!("there is no bash ({error})")),
    }
}

#[test]
fn the_reference_has_every_option_with_its_variable() {
    let help = printed(&["serve", "--help"]);
    let reference = printed(&["config", "reference"]);
    let mut count = 0;
    for word in help.split_whitespace().filter(|word| word.starts_with("--")) {
        let name: String =
            word.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
        if name == "--help" || name.len() < 4 {
            continue;
        }
        let variable = name[2..].replace('-', "_").to_uppercase();
        let row = reference.lines().find(|row| {
            let rest = row.strip_prefix("| `").and_then(|row| row.strip_prefix(&name));
            rest.is_some_and(|rest| rest.starts_with([' ', '[']))
        });
        let row = row.unwrap_or_else(|| panic!("{name} is not in\n{reference}"));
        // As it is written: some take a value behind `=` alone.
        let joined = help.contains(&format!("{name}[="));
        assert_eq!(row.starts_with(&format!("| `{name}[=")), joined, "{row}");
        assert!(row.contains(&format!("`TOKAMAK_{variable}`")), "{row}");
        count += 1;
    }
    assert!(count >= 20, "{count}");
}

/// The example's options are options, and its unit names the signal and the flags that there are.
#[test]
fn the_examples_name_what_there_is() {
    let reference = printed(&["config", "reference"]);
    let file: toml::Table = toml::from_str(&example("tokamak.toml")).unwrap();
    for name in file.keys() {
        assert!(reference.contains(&format!("| `--{name}")), "{name}");
    }
    for file in ["tokamak.service", "compose.yaml"] {
        for name in flags(&example(file)) {
            let known = name == "config" || reference.contains(&format!("| `--{name} "));
            // The commands in the comments are other programs'.
            let others = ["name", "build", "collect", "pipe", "pty", "quiet", "wait", "from"];
            assert!(known || others.contains(&name.as_str()), "{file}: --{name}");
        }
    }
    let image = example("Containerfile");
    let is_part = |c: char| !c.is_ascii_uppercase() && c != '_';
    let variables: BTreeSet<&str> =
        image.split(is_part).filter(|word| word.starts_with("TOKAMAK_")).collect();
    assert!(variables.len() >= 3, "{variables:?}");
    for variable in variables {
        assert!(reference.contains(&format!("`{variable}`")), "Containerfile: {variable}");
    }
    let dashboard: Value = serde_json::from_str(&example("grafana/tokamak.json")).unwrap();
    assert!(dashboard["panels"].as_array().unwrap().len() >= 10);
}

/// Whether a file is kept from what an image is built of: of the lines that name it or a folder above it the last counts.
fn is_ignored(rules: &str, path: &str) -> bool {
    let rules = rules.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
    rules.fold(false, |ignored, rule| {
        let (name, is_taken_back) =
            rule.strip_prefix('!').map_or((rule, false), |name| (name, true));
        let named = match name.strip_prefix("**/") {
            Some(name) => path.split('/').any(|part| part == name),
            None => name == "*" || path.split('/').next() == Some(name),
        };
        // Nothing else is understood here.
        assert!(
            !name.trim_start_matches("**/").trim_start_matches('*').contains(['/', '*', '?']),
            "{rule}"
        );
        if named { !is_taken_back } else { ignored }
    })
}

/// What is copied into the image: the sources that it is built of, without history, data and keys.
#[test]
fn an_image_is_built_of_sources_alone() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let rules = fs::read_to_string(root.join(".dockerignore")).unwrap();
    for path in [
        ".git/config",
        ".tokamak/keys.json",
        "target/release/tokamak",
        "root-key",
        "new.key",
        "reactor.json",
        "data/store/db",
        "card-check/.tokamak/x",
        "examples/operation/root-key",
        "formulas/script-runner/target/x",
        "host/.tokamak/keys.json",
        "host/root-key",
    ] {
        assert!(is_ignored(&rules, path), "{path} is copied");
    }
    for path in [
        ".cargo/config.toml",
        "Cargo.lock",
        "Cargo.toml",
        "formulas/script-runner/script-runner.wasm",
        "host/Cargo.toml",
        "host/console/index.html",
        "host/src/cli/root_key.rs",
        "sdk-guest/macros/Cargo.toml",
        "wit/formula.wit",
    ] {
        assert!(root.join(path).exists() && !is_ignored(&rules, path), "{path} is not copied");
    }
    // Where compose looks for the key, and no commit takes it along.
    let compose = example("compose.yaml");
    assert!(
        compose.contains("file: ./root-key") && compose.contains("> examples/operation/root-key")
    );
    let kept_out = fs::read_to_string(root.join(".gitignore")).unwrap();
    assert!(kept_out.lines().any(|line| line == "root-key"));
}

/// The names of the flags in a text, in which each stands apart or between quotes.
fn flags(text: &str) -> BTreeSet<String> {
    let words = text.split(|c: char| c.is_whitespace() || "\"',`()=|[]".contains(c));
    words
        .filter_map(|word| word.strip_prefix("--"))
        .map(|word| word.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect())
        .filter(|name: &String| name.starts_with(|c: char| c.is_ascii_lowercase()))
        .collect()
}

/// What the README tells to type can be typed.
#[test]
fn every_flag_of_the_readme_is_one() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let named = flags(&fs::read_to_string(root.join("README.md")).unwrap());
    assert!(named.len() >= 40, "{named:?}");
    let known = flags(&printed(&["completions", "bash"]));
    // Those of cargo, of a test that is run by it, of setpriv, and of esbuild.
    let others = [
        "release",
        "example",
        "bench",
        "test",
        "long",
        "reuid",
        "regid",
        "clear-groups",
        "bundle",
        "minify",
        "format",
        "footer",
        "platform",
        "external",
        "target",
        "supported",
        "outfile",
    ];
    let unknown: Vec<_> = named
        .iter()
        .filter(|name| !known.contains(*name) && !others.contains(&name.as_str()))
        .collect();
    assert!(unknown.is_empty(), "{unknown:?}");
}

/// Each series that is drawn, watched or described, with the labels that it is asked for by.
#[tokio::test(flavor = "multi_thread")]
async fn every_label_that_is_asked_for_is_there() {
    let server = TestServer::start().await;
    run_something(&server).await;
    let text = figures(&server.stranger()).await;
    let mut known: BTreeMap<&str, BTreeSet<String>> = BTreeMap::new();
    for line in text.lines().filter(|line| !line.starts_with('#')) {
        let (name, rest) = line.split_once(['{', ' ']).unwrap();
        let labels = if line.contains('{') { labels_in(rest) } else { BTreeSet::new() };
        known.entry(name).or_default().extend(labels);
    }
    // Made by the first webhook, which is another test's.
    known.entry("tokamak_webhook_attempts_total").or_default().insert("outcome".to_owned());
    let all: BTreeSet<String> = known.values().flatten().cloned().collect();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let readme = fs::read_to_string(root.join("README.md")).unwrap();
    let mut asked = 0;
    for file in [example("alerts.yml"), example("grafana/tokamak.json"), readme] {
        for (at, _) in file.match_indices("tokamak_") {
            let name: &str =
                file[at..].split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next().unwrap();
            let Some(selector) = file[at + name.len()..].strip_prefix('{') else { continue };
            // The table of the README names histograms as a whole.
            let bucket = format!("{name}_bucket");
            let own = known.get(name).or_else(|| known.get(bucket.as_str()));
            let own = own.unwrap_or_else(|| panic!("{name} is not in\n{text}"));
            for label in labels_in(selector) {
                assert!(own.contains(&label), "{name} has no {label}, but {own:?}");
                asked += 1;
            }
        }
        for list in file.split("by (").skip(1).filter_map(|rest| rest.split(')').next()) {
            for label in list.split(',').map(str::trim).filter(|label| !label.contains(' ')) {
                assert!(all.contains(label), "by ({label}) is not in {all:?}");
                asked += 1;
            }
        }
    }
    assert!(asked >= 20, "{asked}");
}

/// What an alert compares labels with is what they can hold.
#[tokio::test(flavor = "multi_thread")]
async fn alerts_name_routes_and_outcomes_that_there_are() {
    let server = TestServer::start().await;
    let description = server.stranger().get("/openapi.json").await.expect(200);
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let titles = fs::read_to_string(root.join("host/src/vault/run_error.rs")).unwrap();
    let alerts = example("alerts.yml");
    let values = |label: &str| -> BTreeSet<String> {
        let named = alerts.split(label).skip(1).filter_map(|rest| {
            let compared = rest.trim_start_matches(['=', '!', '~']).strip_prefix('"')?;
            compared.split('"').next()
        });
        named.flat_map(|values| values.split('|')).map(str::to_owned).collect()
    };
    let (routes, outcomes) = (values("route"), values("outcome"));
    assert!(!routes.is_empty() && !outcomes.is_empty(), "{routes:?} {outcomes:?}");
    for route in routes {
        assert!(description["paths"].get(&route).is_some(), "there is no {route}");
    }
    for outcome in outcomes.iter().filter(|outcome| *outcome != "accepted") {
        assert!(titles.contains(&format!("\"{outcome}\"")), "no run ends as {outcome}");
    }
}

/// The names of labels between braces, of which the first is open already.
fn labels_in(selector: &str) -> BTreeSet<String> {
    let inner = selector.split('}').next().unwrap();
    let mut quoted = false;
    let outside: String = inner
        .chars()
        .filter(|c| {
            quoted ^= *c == '"';
            !quoted && !"\"\\".contains(*c)
        })
        .collect();
    let names = outside.split(',').map(|pair| pair.trim_end_matches(['=', '!', '~']).trim());
    names.filter(|name| !name.is_empty()).map(str::to_owned).collect()
}

/// A short benchmark of everything, its figures kept, compared with themselves and drawn.
#[test]
fn a_benchmark_measures_all_its_work_beside_its_yardsticks() {
    let folder = tempfile::tempdir().unwrap();
    let (figures, page) = (folder.path().join("figures.json"), folder.path().join("page.html"));
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    let small = ["benchmark", "--seconds", "1", "--tokens", "200", "--connections", "1,4"];
    let written = [
        "--json".to_owned(),
        "--output".to_owned(),
        path(&figures),
        "--report".to_owned(),
        path(&page),
    ];
    let arguments: Vec<&str> =
        small.into_iter().chain(written.iter().map(String::as_str)).collect();
    let report: Value = serde_json::from_str(&printed(&arguments)).unwrap();
    let works: BTreeSet<&str> = report["measures"]
        .as_array()
        .unwrap()
        .iter()
        .map(|measure| {
            assert_eq!(measure["failed"], 0, "{measure}");
            assert!(measure["per_second"].as_f64().unwrap() > 0.0, "{measure}");
            measure["work"].as_str().unwrap()
        })
        .collect();
    let expected = [
        "asynchronous",
        "create",
        "delete",
        "echo",
        "get",
        "list",
        "react",
        "script",
        "search",
        "update",
    ];
    assert_eq!(works.into_iter().collect::<Vec<_>>(), expected);
    for measure in report["measures"].as_array().unwrap() {
        let waits = measure["syncs_per_second"].as_f64().is_some_and(|syncs| syncs > 0.0);
        // What is logged is on the disk before it is answered.
        assert_eq!(waits, measure["work"] != "echo", "{measure}");
    }
    assert!(report["appends"][0]["per_second"].as_f64().unwrap() > 0.0);
    assert!(report["footprint"]["disk_bytes"].as_u64().unwrap() > 0);
    let kept: Value = serde_json::from_slice(&fs::read(&figures).unwrap()).unwrap();
    assert_eq!(kept, report);
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("<svg") && page.contains("asynchronous"), "{page}");

    let compared = printed(&[
        "benchmark",
        "--seconds",
        "1",
        "--tokens",
        "200",
        "--connections",
        "4",
        "--only",
        "get",
        "--compare",
        &path(&figures),
    ]);
    let row = compared.lines().find(|line| line.trim_start().starts_with("get")).unwrap();
    assert!(row.split_whitespace().last().unwrap().parse::<f64>().unwrap() > 0.0, "{compared}");
}

/// Told to stop, it takes with it what it started, whatever that is doing.
#[test]
fn a_benchmark_that_is_stopped_leaves_no_server_and_no_folder() {
    let folder = tempfile::tempdir().unwrap();
    let names = || {
        let names = fs::read_dir(folder.path()).unwrap();
        names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect::<Vec<_>>()
    };
    let mut benchmark = command();
    benchmark.args(["benchmark", "--seconds", "600", "--only", "echo"]);
    benchmark.env("TMPDIR", folder.path()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut benchmark = benchmark.spawn().unwrap();
    let began = Instant::now();
    let kept = folder.path().join(format!("tokamak-{}", benchmark.id()));
    let mut lock = None;
    while lock.is_none() {
        assert!(began.elapsed() < Duration::from_mins(2), "no server is begun: {:?}", names());
        std::thread::sleep(Duration::from_millis(20));
        lock = fs::File::open(kept.join("store/lock")).ok();
    }
    let stopped = Command::new("kill").arg(benchmark.id().to_string()).status().unwrap();
    assert!(stopped.success());
    assert_eq!(benchmark.wait().unwrap().code(), Some(1));
    assert_eq!(names(), Vec::<String>::new());
    // Whoever serves a store has its file to itself.
    lock.unwrap().try_lock().unwrap();
}

/// Behind a proxy all clients have one address: a stranger's wrong keys must not lock out everybody's.
#[test]
fn where_a_proxy_is_in_front_no_address_is_locked_out() {
    let serve = example("compose.yaml");
    assert!(serve.contains(r#""--lock-out-after", "0""#), "{serve}");
    let settings: toml::Table = example("tokamak.toml").parse().unwrap();
    assert_eq!(settings["lock-out-after"].as_integer(), Some(0));
    assert!(!settings.contains_key("rate-limit-unauthenticated"));
}

/// What shares the container's memory is counted, and has room there.
#[test]
fn the_memory_of_the_container_is_what_its_comment_adds_up() {
    // What tokens take of applications and of the log, for a tenant that has no other room.
    const OPENED_BESIDE_MB: u64 = 128;
    let compose = example("compose.yaml");
    let given = |option: &str| -> u64 {
        let value = compose.split(&format!(r#""--{option}", ""#)).nth(1).unwrap();
        value.split('"').next().unwrap().parse().unwrap()
    };
    let counted = [
        given("reactor-memory-mb"),
        (given("connections-max") * 2 * l::CONNECTION_BUFFER_BYTES_MAX as u64) >> 20,
        (l::BODIES_BYTES_MAX >> 20) as u64,
        (l::OPENED_BYTES_MAX >> 20) as u64 + OPENED_BESIDE_MB,
        l::PROGRAMS_MEMORY_MB_DEFAULT,
        2 * l::CACHE_MB_DEFAULT,
        l::COMPILE_MEMORY_MB_MAX,
    ];
    let together_mb: u64 = counted.iter().sum();
    let told = format!("together {},{:03}.", together_mb / 1_000, together_mb % 1_000);
    assert!(compose.contains(&told), "{told} of {counted:?}");
    for limit in ["mem_limit: ", "memswap_limit: "] {
        let gib =
            compose.split(&format!("\n    {limit}")).nth(1).unwrap().split('g').next().unwrap();
        assert!((gib.parse::<u64>().unwrap() << 10) > together_mb, "{limit}{gib}");
    }
}
