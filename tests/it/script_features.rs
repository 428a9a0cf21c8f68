//! A sample of the language, feature by feature: `tests/fixtures/script-features.txt` says what each is worth.
//!
//! `script_language.rs` has what formulas use most, and the interfaces around the language.

use serde_json::Value;

use crate::support::scripts::evaluate;

const FEATURES: &str = include_str!("../fixtures/script-features.txt");

/// The groups of the file: each a name, with its expressions and their values.
fn groups() -> Vec<(&'static str, Vec<(&'static str, Value)>)> {
    let groups = FEATURES.split("\n# ").skip(1).map(|group| {
        let (name, rows) = group.split_once('\n').unwrap();
        let lines: Vec<&str> = rows.lines().filter(|line| !line.is_empty()).collect();
        let rows = lines.chunks(2).map(|row| {
            let [expression, value] = row else { panic!("{row:?} has no value") };
            assert!(value.starts_with("    "), "{value} is no value of {expression}");
            (*expression, serde_json::from_str(value).unwrap())
        });
        (name, rows.collect())
    });
    groups.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_feature_is_worth_what_other_engines_make_of_it() {
    let groups = groups();
    let count: usize = groups.iter().map(|(_, rows)| rows.len()).sum();
    assert!(count > 250, "{count}");
    let mut different = Vec::new();
    for (name, rows) in groups {
        let expressions: Vec<&str> = rows.iter().map(|(expression, _)| *expression).collect();
        for ((expression, expected), value) in rows.iter().zip(evaluate(&expressions).await) {
            if *expected != value {
                different.push(format!("{name}: {expression}\n  is {value}, not {expected}"));
            }
        }
    }
    assert!(different.is_empty(), "{}", different.join("\n"));
}
