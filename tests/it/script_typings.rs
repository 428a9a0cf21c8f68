//! The typings that come with a project in JavaScript declare what scripts find, all of it and nothing else.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use crate::support::TestServer;
use crate::support::scripts::{raw, react, reactor};

const TYPINGS: &str =
    include_str!("../../host/src/cli/formula/templates/javascript/tokamak.d.ts.in");

/// What the language itself has, which the typings leave to `lib` of `jsconfig.json`.
const LANGUAGE: &[&str] = &[
    "AggregateError",
    "Array",
    "ArrayBuffer",
    "AsyncDisposableStack",
    "BigInt",
    "BigInt64Array",
    "BigUint64Array",
    "Boolean",
    "DataView",
    "Date",
    "DisposableStack",
    "Error",
    "EvalError",
    "FinalizationRegistry",
    "Float16Array",
    "Float32Array",
    "Float64Array",
    "Function",
    "Infinity",
    "Int16Array",
    "Int32Array",
    "Int8Array",
    "InternalError",
    "Iterator",
    "JSON",
    "Map",
    "Math",
    "NaN",
    "Number",
    "Object",
    "Promise",
    "Proxy",
    "RangeError",
    "ReferenceError",
    "Reflect",
    "RegExp",
    "Set",
    "SharedArrayBuffer",
    "String",
    "SuppressedError",
    "Symbol",
    "SyntaxError",
    "TypeError",
    "URIError",
    "Uint16Array",
    "Uint32Array",
    "Uint8Array",
    "Uint8ClampedArray",
    "WeakMap",
    "WeakRef",
    "WeakSet",
    "decodeURI",
    "decodeURIComponent",
    "encodeURI",
    "encodeURIComponent",
    "escape",
    "eval",
    "globalThis",
    "isFinite",
    "isNaN",
    "parseFloat",
    "parseInt",
    "undefined",
    "unescape",
];

type Names = BTreeSet<String>;

fn texts(value: &Value) -> Names {
    value.as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// The name that a line begins with, behind words that are no name.
fn name_of<'a>(line: &'a str, before: &[&str]) -> Option<&'a str> {
    let mut rest = line;
    for word in before {
        rest = rest.strip_prefix(word).unwrap_or(rest);
    }
    let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
    (end > 0).then(|| &rest[..end])
}

/// The members that a declaration has, which begins like this: those of its lines that are indented once.
fn declared(head: &str) -> Names {
    let at = TYPINGS.find(head).unwrap_or_else(|| panic!("{head} is not declared"));
    let block = &TYPINGS[at..];
    let block = &block[block.find('\n').unwrap()..block.find("\n}").unwrap()];
    let lines = block.lines().filter_map(|line| line.strip_prefix("  "));
    let lines = lines.filter(|line| !line.starts_with([' ', '/', '}', ')', '[']));
    lines
        .filter_map(|line| name_of(line, &["private ", "readonly "]))
        .filter(|name| !["constructor", "static", "new"].contains(name))
        .map(str::to_owned)
        .collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn every_global_name_is_declared_and_no_other() {
    let found =
        raw("module.exports = () => ({ raw: Object.getOwnPropertyNames(globalThis) });", json!({}));
    let found: Names =
        texts(&found.await).into_iter().filter(|name| !LANGUAGE.contains(&&**name)).collect();
    let kinds = ["function ", "class ", "const ", "var "];
    let lines = TYPINGS.lines().filter_map(|line| line.strip_prefix("declare "));
    let lines = lines.filter(|line| kinds.iter().any(|kind| line.starts_with(kind)));
    let declared: Names =
        lines.filter_map(|line| name_of(line, &kinds)).map(str::to_owned).collect();
    assert_eq!(found, declared);
}

/// Values of the sandbox, and the declarations of what they have.
const VALUES: &[(&str, &[&str])] = &[
    ("new Headers()", &["declare class Headers"]),
    ("new Request('http://a')", &["declare class Request", "interface Body"]),
    ("new Response()", &["declare class Response", "interface Body"]),
    ("new Blob()", &["declare class Blob"]),
    ("new File([], 'a')", &["declare class File", "declare class Blob"]),
    ("new FormData()", &["declare class FormData"]),
    ("new AbortController()", &["declare class AbortController"]),
    ("new AbortController().signal", &["declare class AbortSignal", "declare class EventTarget"]),
    ("new Event('a')", &["declare class Event "]),
    ("new EventTarget()", &["declare class EventTarget"]),
    ("new URL('http://a')", &["declare class URL "]),
    ("new URLSearchParams()", &["declare class URLSearchParams"]),
    ("new TextEncoder()", &["declare class TextEncoder"]),
    ("new TextDecoder()", &["declare class TextDecoder"]),
    ("crypto", &["interface Crypto "]),
    ("crypto.subtle", &["interface SubtleCrypto"]),
    ("require('crypto')", &["interface NodeCrypto", "interface Crypto "]),
    ("require('crypto').createHash('sha256')", &["interface Digest"]),
    ("require('util')", &["interface NodeUtil"]),
    ("require('timers')", &["interface NodeTimers "]),
    ("require('timers/promises')", &["interface NodeTimersPromises"]),
    ("require('tokamak')", &["  const errors: {"]),
    ("console", &["declare var console"]),
    ("performance", &[]),
];

#[tokio::test(flavor = "multi_thread")]
async fn every_member_is_declared_and_no_other() {
    let each: Vec<&str> = VALUES.iter().map(|(value, _)| *value).collect();
    let code = format!(
        "const members = (value) => {{\n\
           const names = new Set();\n\
           for (let at = value; at !== null && at !== Object.prototype; at = Object.getPrototypeOf(at)) {{\n\
             for (const name of Object.getOwnPropertyNames(at)) if (name !== 'constructor') names.add(name);\n\
           }}\n\
           return [...names];\n\
         }};\n\
         module.exports = () => ({{ raw: [{}].map(members) }});",
        each.join(", ")
    );
    let found = raw(&code, json!({})).await;
    for ((value, heads), found) in VALUES.iter().zip(found.as_array().unwrap()) {
        let mut expected: Names = heads.iter().flat_map(|head| declared_errors(head)).collect();
        if *value == "performance" {
            expected.insert("now".to_owned());
        }
        assert_eq!(texts(found), expected, "{value}");
    }
}

/// As [`declared`], of a block that is indented itself, too.
fn declared_errors(head: &str) -> Names {
    let Some(inner) = head.strip_prefix("  ") else { return declared(head) };
    let block = &TYPINGS[TYPINGS.find(inner).unwrap()..];
    let block = &block[block.find('\n').unwrap()..block.find("\n  }").unwrap()];
    block.lines().filter_map(|line| name_of(line.trim(), &[])).map(str::to_owned).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn buffers_have_what_is_declared() {
    let code = "module.exports = () => { const own = Object.getOwnPropertyNames(Buffer.prototype);\n\
        return { raw: [own.filter((name) => name !== 'constructor'), Object.getOwnPropertyNames(Buffer)] }; };";
    let found = raw(code, json!({})).await;
    assert_eq!(texts(&found[0]), declared("interface Buffer "));
    let of_functions = ["length", "name", "prototype"].map(str::to_owned);
    let statics: Names =
        texts(&found[1]).into_iter().filter(|name| !of_functions.contains(name)).collect();
    let mut expected = declared("interface BufferConstructor");
    expected.remove("prototype");
    assert_eq!(statics, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_call_gets_is_declared() {
    let server = TestServer::start().await;
    let code = "module.exports = (req) => ({ raw: [req, req.invocation, req.svc, req.svc.tokens].map(Object.keys) });";
    let body = json!({"name": "svc", "type": "private", "permissions": ["token:read"]});
    let application = server.management.post("/applications", body).await.expect(201);
    let bound = json!({"application": {"id": application["id"]}});
    let path = reactor(&server, code, json!({}), bound).await;
    let found = react(&server, &path, json!({})).await.expect(200)["raw"].clone();
    let heads =
        ["interface FormulaRequest", "interface Invocation", "interface Svc ", "interface Tokens"];
    for (head, found) in heads.iter().zip(found.as_array().unwrap()) {
        assert_eq!(texts(found), declared(head), "{head}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_module_is_declared_and_no_other() {
    let code = "module.exports = () => { try { require('x'); } catch (e) { return { raw: e.message }; } };";
    let said = raw(code, json!({})).await;
    let (_, names) = said.as_str().unwrap().split_once("; there are ").unwrap();
    let found: Names = names.split(", ").map(str::to_owned).collect();
    let declared = TYPINGS.lines().filter_map(|line| line.strip_prefix("declare module '"));
    let declared = declared.filter_map(|rest| rest.strip_suffix("' {"));
    let declared: Names =
        declared.map(|name| name.strip_prefix("node:").unwrap_or(name).to_owned()).collect();
    assert_eq!(found, declared);
}
