//! Where an error of a script is said to be: at what failed, and not at what was evaluated last before it.

use serde_json::json;

use crate::support::scripts::{program, run};

/// What begins every script here, so that the first line of each body is its second.
const HEAD: &str = "module.exports = async ({ args }) => { const u = undefined;\n";

/// Bodies of scripts, and the line and the column where each fails.
const PLACES: [(&str, &str); 26] = [
    // Calls and constructors whose arguments are in later lines.
    ("JSON.parse(\n  ['{']\n    .join(''),\n);", "2:6"),
    ("throw new Error(\n  'a' +\n  'b',\n  { cause: new Error('z') },\n);", "2:7"),
    ("new u(\n  String(1),\n);", "2:1"),
    ("const o = {};\no.f(\n  String(1),\n  ...[2],\n);", "3:3"),
    ("(() => { null.f(); })(\n  String(1),\n);", "2:15"),
    ("String(1);\nawait u`a\n${1}`;", "3:7"),
    // Members, however they are reached.
    ("const o = {\n  a: String(1),\n  b: u.x,\n  c: 3,\n};", "4:8"),
    ("[1, 2]\n  .map((n) => n)\n  .nope\n  .forEach((n) => n);", "5:4"),
    ("[1, 2]\n  .map((n) => n)\n  .nope((n) => n);", "4:4"),
    ("const key = 'x';\nString(u\n  [key]);", "4:3"),
    ("class A { #x = 1; static g(o) {\n  return o.#x;\n} }\nA.g(\n  {},\n);", "3:12"),
    ("const o = { get a() {\n  return null.x;\n} };\nString(\n  o.a);", "3:15"),
    ("if (\n  String(1) &&\n  u.x === 1\n) String(2);", "4:5"),
    ("const f = (a, b = a.b.c) => {\n  return a;\n};\nf({});", "2:23"),
    ("class A {\n  static x = String(1);\n  static y = null.z;\n}", "4:19"),
    // Patterns.
    ("console.log(1);\nconst { number } = args.card;", "3:7"),
    ("console.log(1);\nconst [, low] = args.card;", "3:7"),
    ("const {\n  a,\n  b: { c },\n} = { a: 1 };", "4:6"),
    ("for (const { a } of [\n  { a: 1 }, null]) {\n  String(a);\n}", "2:12"),
    ("const f = ({ a }) => a;\nf(\n  null);", "2:12"),
    // Assignments and operators.
    ("u.x =\n  String(5);", "2:5"),
    ("const o = {};\no.a.b +=\n  1;", "3:5"),
    ("const o = Object.freeze({ a: null });\n'use strict';\no.a ??=\n  null.b;", "5:8"),
    ("const r = String(1) && (1n +\n  2);", "2:28"),
    ("const r =\n  'a' in\n  5;", "3:7"),
    ("const v = String(1) +\n  nope +\n  String(2);", "3:3"),
];

#[tokio::test(flavor = "multi_thread")]
async fn an_error_is_where_it_came_of() {
    for (body, place) in PLACES {
        let outcome = run(&program(&format!("{HEAD}{body}\n}};")).await, json!({})).await;
        assert!(outcome.result.is_err(), "{body}");
        let line = &outcome.log.last().unwrap().message;
        let first = line.lines().find_map(|line| line.strip_prefix("    at formula.js:"));
        assert_eq!(first, Some(place), "{body}: {line}");
    }
}
