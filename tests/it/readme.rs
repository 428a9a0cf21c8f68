//! The README: its walk-through, run as it stands there against the real binary, and its limits.

use std::fs;
use std::path::Path;
use std::process::Command;

use tokamak::limits as l;

use crate::support::binary::{Process, command, run};

/// A block to run, and what its answer must hold.
struct Step {
    script: String,
    answer: String,
}

fn steps(readme: &str) -> Vec<Step> {
    let blocks = readme.split("<!-- run -->\n```sh\n").skip(1);
    blocks
        .map(|rest| {
            let (script, rest) = rest.split_once("```\n").unwrap();
            let answer = rest.split_once("<!-- answer: ").unwrap().1.split_once(" -->").unwrap().0;
            Step { script: script.to_owned(), answer: answer.to_owned() }
        })
        .collect()
}

/// What the README has people type before they make a reactor of their own formula; a script, since it needs no build.
fn push_a_formula(folder: &Path, address: &str) {
    let formula = |folder: &Path, arguments: &[&str]| {
        let mut formula = command();
        formula.current_dir(folder).arg("formula").args(arguments);
        let (code, stdout, stderr) = run(formula);
        assert_eq!(code, 0, "{arguments:?}: {stdout}{stderr}");
    };
    formula(folder, &["new", "card-check", "--lang", "javascript"]);
    let push = ["push", "--url", address, "--key-file", "../data/keys.json"];
    formula(&folder.join("card-check"), &push);
}

#[test]
fn the_walk_through_works_as_written() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let steps = steps(&fs::read_to_string(root.join("README.md")).unwrap());
    assert!(steps.len() >= 6, "the walk-through has {} steps", steps.len());
    let folder = tempfile::tempdir().unwrap();
    let mut dev = command();
    dev.args(["dev", "--listen", "127.0.0.1:0", "--data-dir"]).arg(folder.path().join("data"));
    let mut process = Process::start(dev);
    process.read_until("start again");
    let key = |name: &str| {
        let line = process.printed.iter().find(|line| line.starts_with(name)).unwrap();
        line.rsplit(' ').next().unwrap().to_owned()
    };
    push_a_formula(folder.path(), &format!("http://{}", process.address));
    for Step { script, answer } in steps {
        let output = Command::new("sh")
            .args(["-eu", "-c", &script])
            .current_dir(folder.path())
            .env("BASE", format!("http://{}", process.address))
            .env("MANAGEMENT", key("management key"))
            .env("PRIVATE", key("private key"))
            .output()
            .unwrap();
        let printed = String::from_utf8_lossy(&output.stdout);
        assert!(printed.contains(&answer), "no {answer} in {printed}\nafter {script}");
    }
}

#[test]
fn no_heading_stands_there_twice() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let text = fs::read_to_string(root.join("README.md")).unwrap();
    let mut headings: Vec<&str> = Vec::new();
    let mut in_code = false;
    for line in text.lines() {
        in_code ^= line.starts_with("```");
        if line.starts_with('#') && !in_code {
            assert!(!headings.contains(&line), "{line}");
            headings.push(line);
        }
    }
    assert!(headings.len() > 10, "{headings:?}");
}

/// A number with its thousands apart.
fn number(number: impl TryInto<u64>) -> String {
    let digits = number.try_into().ok().unwrap().to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().map(|group| str::from_utf8(group).unwrap()).collect();
    groups.join(",")
}

fn bytes(bytes: usize) -> String {
    let (size, unit) =
        if bytes.is_multiple_of(1 << 20) { (bytes >> 20, "MiB") } else { (bytes >> 10, "KiB") };
    format!("{size} {unit}")
}

fn mib(mib: u32) -> String {
    bytes((mib as usize) << 20)
}

/// A time in the largest unit that measures it.
fn time(ms: u64) -> String {
    let units = [("day", 86_400_000), ("hour", 3_600_000), ("minute", 60_000), ("second", 1_000)];
    let (unit, of) = units.into_iter().find(|(_, of)| ms.is_multiple_of(*of)).unwrap();
    let count = ms / of;
    format!("{count} {unit}{}", if count == 1 { "" } else { "s" })
}

/// What the README's table of limits says, made of the limits themselves.
fn limits() -> Vec<(&'static str, String)> {
    vec![
        (
            "JSON body",
            format!(
                "{}, nested {} levels deep; of a formula as much more as a component may have in it",
                bytes(l::REQUEST_BODY_BYTES_MAX),
                l::JSON_DEPTH_MAX
            ),
        ),
        (
            "bodies in memory, all together",
            format!(
                "{}, of one tenant half; the first {} of each do not count",
                bytes(l::BODIES_BYTES_MAX),
                bytes(l::BODY_BYTES_FREE)
            ),
        ),
        (
            "tokens that requests have read, in memory, all together",
            format!(
                "{}, of one tenant half; the first {} of each request do not count",
                bytes(l::OPENED_BYTES_MAX),
                bytes(l::OPENED_BYTES_FREE)
            ),
        ),
        (
            "address, all headers",
            format!(
                "{}, {} in {} headers",
                bytes(l::URI_BYTES_MAX),
                bytes(l::HEADERS_BYTES_MAX),
                l::HEADERS_MAX
            ),
        ),
        ("a trace id of the client's", format!("{} characters", l::TRACE_ID_CHARS_MAX)),
        (
            "idempotency key",
            format!(
                "{} characters; its answer is kept for {}",
                l::IDEMPOTENCY_KEY_CHARS_MAX,
                time(l::IDEMPOTENT_ANSWER_MS)
            ),
        ),
        (
            "entries of a page",
            format!("{}; {} unless asked for", l::PAGE_SIZE_MAX, l::PAGE_SIZE_DEFAULT),
        ),
        (
            "search query",
            format!(
                "{}, {} terms, parentheses {} deep",
                bytes(l::QUERY_BYTES_MAX),
                l::QUERY_TERMS_MAX,
                l::QUERY_LEVELS_MAX
            ),
        ),
        ("`id`", format!("{} to {} characters", l::TOKEN_ID_CHARS_MIN, l::TOKEN_ID_CHARS_MAX)),
        (
            "`data`, `mask`",
            format!("{}, {}", bytes(l::TOKEN_DATA_BYTES_MAX), bytes(l::TOKEN_MASK_BYTES_MAX)),
        ),
        (
            "`containers`, `search_indexes`",
            format!(
                "{}, {}; a container {} characters, {} segments; those of a token {} segments",
                l::CONTAINERS_MAX,
                l::SEARCH_INDEXES_MAX,
                l::CONTAINER_CHARS_MAX,
                l::CONTAINER_SEGMENTS_MAX,
                l::CONTAINERS_SEGMENTS_MAX
            ),
        ),
        (
            "`metadata`",
            format!(
                "{} entries; keys {} characters, values {}",
                l::METADATA_KEYS_MAX,
                l::METADATA_KEY_CHARS_MAX,
                number(l::METADATA_VALUE_CHARS_MAX)
            ),
        ),
        (
            "an alias that is taken",
            format!("drawn {} times, then an id of the server's own", l::ALIAS_TRIES_MAX),
        ),
        (
            "`cvc` of a card",
            format!(
                "kept for {}, or as the tenant's settings say up to {}",
                time(u64::from(l::CVC_RETENTION_MINUTES_DEFAULT) * 60_000),
                time(u64::from(l::CVC_RETENTION_MINUTES_MAX) * 60_000)
            ),
        ),
        (
            "tokens read or made by one call",
            format!(
                "{}; {} in the place of references",
                l::TOKENS_PER_CALL_MAX,
                bytes(l::FILLED_BYTES_MAX)
            ),
        ),
        (
            "rules, conditions of a session's rule",
            format!("{}, {}", l::RULES_MAX, l::CONDITIONS_MAX),
        ),
        (
            "a session",
            format!("{}, authorized up to {}", time(l::SESSION_MS), time(l::SESSION_MS_MAX)),
        ),
        (
            "of an application, reactor or formula; a description",
            format!("{} characters, {}", l::NAME_CHARS_MAX, number(l::DESCRIPTION_CHARS_MAX)),
        ),
        (
            "a component, a script",
            format!("{}, {}", bytes(l::COMPONENT_BYTES_MAX), bytes(l::SCRIPT_BYTES_MAX)),
        ),
        (
            "`configuration`, `request_parameters`, `allowed_hosts`",
            format!("{0}, {0}, {1}", l::FORMULA_PARAMETERS_MAX, l::ALLOWED_HOSTS_MAX),
        ),
        (
            "time",
            format!(
                "{}; queued ones {}",
                time(l::REACT_TIMEOUT_MS),
                time(l::ASYNCHRONOUS_TIMEOUT_MS_MAX)
            ),
        ),
        (
            "memory",
            format!(
                "{}; {} unless the formula asks",
                mib(l::FORMULA_MEMORY_MB_MAX),
                mib(l::FORMULA_MEMORY_MB_DEFAULT)
            ),
        ),
        (
            "calls of `svc`, requests to hosts",
            format!(
                "{}, {}; a body or an answer {}, requests under way {} together",
                number(l::SVC_CALLS_MAX),
                l::HTTP_CALLS_MAX,
                bytes(l::HTTP_BODY_BYTES_MAX),
                bytes(l::HTTP_BODIES_UNDER_WAY_BYTES_MAX)
            ),
        ),
        (
            "answer",
            format!(
                "{}, nested {} levels deep; {} headers of its own, {} together",
                bytes(l::RESPONSE_BYTES_MAX),
                l::RESPONSE_DEPTH_MAX,
                l::CUSTOM_HEADERS_MAX,
                bytes(l::CUSTOM_HEADERS_BYTES_MAX)
            ),
        ),
        ("log lines", bytes(l::INVOCATION_LOG_BYTES_MAX)),
        ("what came of it", format!("kept for {}", time(l::INVOCATION_KEPT_MS))),
        (
            "runs of a tenant that wait",
            format!("{} (`--reactor-jobs-waiting-per-tenant`)", number(l::JOBS_WAITING_DEFAULT)),
        ),
        ("tries to begin a run", number(l::JOB_TRIES_MAX)),
        ("`callback_url`", format!("{} characters", number(l::CALLBACK_URL_CHARS_MAX))),
        (
            "a webhook's body",
            format!(
                "{}: an answer, with its tokens in place: {} of them in full, and the others in outline",
                bytes(l::WEBHOOK_BODY_BYTES_MAX),
                bytes(l::SHOWN_BYTES_MAX)
            ),
        ),
        ("a receiver's answer", format!("awaited for {}", time(l::DELIVERY_TIMEOUT_MS))),
        (
            "waits between tries",
            format!(
                "{} to {}, for {}",
                time(l::DELIVERY_INTERVAL_MS_MIN),
                time(l::DELIVERY_INTERVAL_MS_MAX),
                time(l::DELIVERY_WINDOW_MS)
            ),
        ),
        (
            "sent to prompt ones at the same time",
            format!(
                "{}, of a tenant {}, to one receiver {}",
                l::DELIVERIES_PROMPT_MAX,
                l::DELIVERIES_PROMPT_PER_TENANT_MAX,
                l::DELIVERIES_PER_RECEIVER_MAX
            ),
        ),
        (
            "beside them, to receivers not told anything before",
            format!(
                "{}, of a tenant {}, to one receiver 1",
                l::DELIVERIES_UNKNOWN_MAX,
                l::DELIVERIES_UNKNOWN_PER_TENANT_MAX
            ),
        ),
        ("a slow receiver", format!("one that took {} the last time", time(l::DELIVERY_SLOW_MS))),
        (
            "beside them, to slow ones",
            format!(
                "{}, of a tenant {}, to one receiver {}",
                l::DELIVERIES_SLOW_MAX,
                l::DELIVERIES_SLOW_PER_TENANT_MAX,
                l::DELIVERIES_PER_SLOW_RECEIVER_MAX
            ),
        ),
        ("what has ended", format!("removed after {}", time(l::SWEEP_INTERVAL_MS))),
    ]
}

#[test]
fn the_limits_are_told_as_they_are() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let text = fs::read_to_string(root.join("README.md")).unwrap();
    let section = text.split("\n## Limits\n").nth(1).unwrap().split("\n## ").next().unwrap();
    let rows = section.lines().filter(|line| line.starts_with('|')).skip(2);
    let told: Vec<(&str, String)> = rows
        .map(|row| {
            let cells: Vec<&str> = row.trim_matches('|').split('|').map(str::trim).collect();
            let [.., what, limit] = cells[..] else { panic!("{row}") };
            (what, limit.to_owned())
        })
        .collect();
    assert_eq!(told, limits());
}
