//! The alerts of `examples/operation`: rules that Prometheus can read, about figures that there are, told in time whether
//! anybody sends requests or not.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use reqwest::Method;
use serde_json::json;

use crate::support::TestServer;
use crate::support::binary::reactor_of;
use crate::support::faults::Faults;

/// What a disk says that is broken.
const EIO: i64 = 5;

fn example(file: &str) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    fs::read_to_string(root.join("examples/operation").join(file)).unwrap()
}

/// A rule, by the names of its members.
type Rule = BTreeMap<String, String>;

/// Reads the rules in the form of YAML that they are written in; any other is refused.
fn rules(text: &str) -> Vec<Rule> {
    let mut lines = text.lines().filter(|line| !line.trim_start().starts_with('#'));
    for expected in ["groups:", "  - name: tokamak", "    rules:"] {
        assert_eq!(lines.next(), Some(expected));
    }
    let mut rules: Vec<Rule> = Vec::new();
    let mut block = None;
    for line in lines {
        assert!(!line.contains('\t'), "{line}");
        let inner = line.trim_start();
        match (line.len() - inner.len(), inner.strip_prefix("- "), &block) {
            (10.., None, Some(name)) => {
                let rule: &mut Rule = rules.last_mut().unwrap();
                let text = rule.entry(String::clone(name)).or_default();
                *text += inner;
                text.push('\n');
                continue;
            }
            (6, Some(_), _) => rules.push(Rule::new()),
            (8, None, _) => {}
            _ => panic!("{line:?} is no line of a rule"),
        }
        let (name, value) = inner.trim_start_matches("- ").split_once(':').unwrap();
        block = (value.trim() == "|").then(|| name.to_owned());
        if block.is_none() {
            let before = rules.last_mut().unwrap().insert(name.to_owned(), value.trim().to_owned());
            assert_eq!(before, None, "{line}");
        }
    }
    rules
}

/// The series that an expression names, each with the labels that it asks for. Names stand in quotes nowhere.
fn series(expression: &str) -> Vec<(&str, Vec<&str>)> {
    let is_part = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut found = Vec::new();
    for (at, _) in expression.match_indices(is_part) {
        let before = expression.get(..at).unwrap();
        if before.ends_with(is_part) || before.matches('"').count() % 2 == 1 {
            continue;
        }
        let rest = &expression[at..];
        let end = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
        let (name, after) = rest.split_at(end);
        if !(name == "up" || name.starts_with("tokamak_") || name.starts_with("process_")) {
            continue;
        }
        let asked = after.strip_prefix('{').and_then(|after| after.split_once('}'));
        let asked = asked.map_or("", |(asked, _)| asked).split(',').filter(|part| !part.is_empty());
        let label = |part: &str| part.find(|c: char| !is_part(c)).unwrap_or(part.len());
        found.push((name, asked.map(|part| &part[..label(part)]).collect()));
    }
    found
}

#[tokio::test(flavor = "multi_thread")]
async fn every_alert_is_a_rule_about_series_with_the_labels_that_it_names() {
    let server = TestServer::start().await;
    server.private.token("token", json!("x")).await;
    let figures = server.stranger().get("/metrics").await.text();
    let rules = rules(&example("alerts.yml"));
    assert!(rules.len() >= 6, "{rules:?}");
    let mut looked_at = 0;
    for rule in &rules {
        let members: Vec<&str> = rule.keys().map(String::as_str).collect();
        assert_eq!(members, ["alert", "annotations", "expr", "for", "labels"], "{rule:?}");
        let severities = ["{severity: critical}", "{severity: warning}"];
        assert!(severities.contains(&rule["labels"].as_str()), "{rule:?}");
        let expression = &rule["expr"];
        for (open, close) in [('(', ')'), ('[', ']'), ('{', '}')] {
            let counts = [open, close].map(|bracket| expression.matches(bracket).count());
            assert_eq!(counts[0], counts[1], "{expression}");
        }
        assert_eq!(expression.matches('"').count() % 2, 0, "{expression}");
        assert!(rule["annotations"].starts_with("{summary: \""), "{rule:?}");
        let (number, unit) = rule["for"].split_at(rule["for"].len() - 1);
        assert!(number.parse::<u32>().is_ok() && unit == "m", "{rule:?}");
        for (name, labels) in series(expression) {
            looked_at += 1;
            if name == "up" {
                assert_eq!(labels, ["job"]);
                continue;
            }
            let is_of = |line: &&str| line.split(['{', ' ']).next() == Some(name);
            let lines: Vec<&str> = figures.lines().filter(is_of).collect();
            // Of what has happened in this process some time; the unit tests hold the names of the others.
            let may_be_absent = [
                "tokamak_webhook_attempts_total",
                // The server of `tls::an_end_of_the_certificate_is_told` has it.
                "tokamak_tls_certificate_not_before_seconds",
                "tokamak_tls_certificate_not_after_seconds",
            ]
            .contains(&name);
            assert!(may_be_absent || !lines.is_empty(), "{name} is not in\n{figures}");
            for label in labels {
                let has = |line: &&str| line.contains(&format!("{label}=\""));
                assert!(lines.iter().all(has), "{name} has no {label} in\n{figures}");
            }
        }
    }
    assert!(looked_at >= 10, "{looked_at}");
}

/// Series whose labels differ match nothing, unless the rule says which labels are no matter.
#[test]
fn the_disk_is_compared_with_what_lies_on_it() {
    let rules = rules(&example("alerts.yml"));
    let disk = rules.iter().find(|rule| rule["alert"] == "DiskFills").unwrap();
    let parts: Vec<_> = disk["expr"].split(" or ").collect();
    let [free, stored] =
        ["free", "store"].map(|what| format!("tokamak_disk_bytes{{what=\"{what}\"}}"));
    assert_eq!(parts, [format!("{free} < 1e9"), format!("{free} < ignoring(what) {stored}")]);
}

#[test]
fn a_vault_that_nobody_asks_is_missed() {
    let job = "  - job_name: tokamak";
    assert!(example("prometheus.yml").lines().any(|line| line == job));
    let rules = rules(&example("alerts.yml"));
    let down = rules.iter().find(|rule| rule["alert"] == "VaultDown").unwrap();
    for part in ["up{job=\"tokamak\"} == 0\n", "absent(up{job=\"tokamak\"})\n"] {
        assert!(down["expr"].contains(part), "{down:?}");
    }
}

/// What the alert of a vault that fails looks at, in a process of its own: nobody else's faults are counted in it.
#[tokio::test(flavor = "multi_thread")]
async fn a_vault_that_takes_no_writes_says_so_in_its_figures_without_any_request() {
    let folder = tempfile::tempdir().unwrap();
    let faults = Faults::none(folder.path());
    let process = Faults::serve(folder.path());
    assert_eq!(process.figure("tokamak_ready").await, Some(1));
    // They are there before anything happens: an increase from nothing is none.
    for name in ["tokamak_faults_total", "tokamak_store_refusals_total"] {
        assert_eq!(process.figure(name).await, Some(0), "{name}");
    }
    let formulas = process.management().get("/reactor-formulas?name=card*").await.expect(200);
    let formula = formulas["data"][0]["id"].as_str().unwrap();
    let (private, path) = reactor_of(&process, formula).await;
    let card = json!({"args": {"card": {"number": "4242424242424242"}}});
    // Its code is there from here on; until then each of these waits ten seconds for it.
    let mut tries = 0;
    while private.post(&path, card.clone()).await.status != 200 {
        tries += 1;
        assert!(tries < 30, "the formula does not run");
    }
    faults.fail_syncs(EIO);
    let body = json!({"name": "a", "type": "private", "permissions": ["token:use"]});
    process.management().post("/applications", body).await.expect(503);
    assert_eq!(process.figure("tokamak_faults_total").await, Some(1));
    private.post(&path, card.clone()).await.expect(503);
    // Before the run is looked at.
    let kept = private.request(Method::POST, &path).header("svc-idempotency-key", "one");
    private.send(kept.json(&card)).await.expect(503);
    faults.fail_syncs(0);
    // From here on nobody sends anything but what the figures are asked for.
    assert_eq!(process.figure("tokamak_ready").await, Some(0));
    assert_eq!(process.figure("tokamak_faults_total").await, Some(3));
    assert!(process.figure("tokamak_store_refusals_total").await.unwrap() > 0);
    assert_eq!(process.figure("tokamak_faults_total").await, Some(3));
}
