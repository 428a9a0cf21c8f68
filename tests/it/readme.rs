//! The README's walk-through, run as it stands there against the real binary.

use std::fs;
use std::path::Path;
use std::process::Command;

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
