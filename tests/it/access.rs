//! Who sees what: rules × containers × permissions × transforms, as a table a person can read (decisions §2).

use std::fmt::Write as _;

use serde_json::{Value, json};

use crate::support::{Answer, Client, TestServer};

const CONTAINERS: &[&[&str]] =
    &[&["/pci/high/"], &["/pci/"], &["/pci-test/"], &["/bank/"], &["/pci/high/", "/bank/"], &["/"]];

/// Where tokens are moved to: none of them lies there before.
const DESTINATIONS: [&str; 2] = ["/pci/low/", "/bank/low/"];

/// What an application does, in the order in which [`row`] does it. `update` leaves a token where it is.
const COLUMNS: [&str; 10] = [
    "create",
    "read",
    "list",
    "search",
    "update",
    "to /pci/low/",
    "to /bank/low/",
    "detokenize",
    "use",
    "delete",
];

/// Name, permissions and rules of an application.
fn applications() -> Vec<(&'static str, Vec<&'static str>, Value)> {
    let rule = |priority: u32, container: &str, transform: &str, permissions: &[&str]| {
        json!({"priority": priority, "container": container, "transform": transform,
            "permissions": permissions})
    };
    let all =
        ["token:create", "token:read", "token:search", "token:update", "token:delete", "token:use"];
    vec![
        ("permissions alone", all.to_vec(), json!([])),
        ("reveal on root", vec![], json!([rule(1, "/", "reveal", &all)])),
        ("reveal on /pci/", vec![], json!([rule(1, "/pci/", "reveal", &all)])),
        (
            "redact /pci/high/, then reveal root",
            vec![],
            json!([rule(5, "/", "reveal", &all), rule(1, "/pci/high/", "redact", &all)]),
        ),
        (
            "redact /bank/, then permission to read",
            vec!["token:read"],
            json!([rule(1, "/bank/", "redact", &["token:read"])]),
        ),
        (
            "create on /pci/ and read on /bank/",
            vec![],
            json!([
                rule(1, "/pci/", "mask", &["token:create"]),
                rule(2, "/bank/", "reveal", &["token:read"])
            ]),
        ),
        (
            "update on /pci/ and search on /bank/",
            vec![],
            json!([
                rule(1, "/pci/", "mask", &["token:update"]),
                rule(2, "/bank/", "reveal", &["token:search"])
            ]),
        ),
        ("use alone", vec!["token:use"], json!([])),
    ]
}

/// What a response shows of the token `"123-45-6789"`.
fn shown(answer: &Answer) -> String {
    shown_of(answer.status.as_u16(), &answer.json())
}

fn shown_of(status: u16, body: &Value) -> String {
    match (status, body.get("data").and_then(Value::as_str)) {
        (200 | 201, Some("123-45-6789")) => "reveal".to_owned(),
        (200 | 201, Some("XXX-XX-6789")) => "mask".to_owned(),
        (200 | 201, None) => "redact".to_owned(),
        (204, _) => "yes".to_owned(),
        (status, _) => status.to_string(),
    }
}

/// What a page shows of it that can hold no other token.
fn shown_on(page: &Answer) -> String {
    let status = page.status.as_u16();
    if status != 200 {
        return status.to_string();
    }
    let page = page.json();
    let tokens = page["data"].as_array().unwrap();
    assert_eq!(page["pagination"]["total_items"], tokens.len());
    tokens.first().map_or_else(|| "absent".to_owned(), |token| shown_of(status, token))
}

fn ssn(containers: &[&str]) -> Value {
    json!({"type": "social_security_number", "data": "123-45-6789", "containers": containers})
}

async fn used(client: &Client, reactor: &str, token: &str) -> String {
    let body = json!({"args": {"value": format!("{{{{ {token} }}}}")}});
    let answer = client.post(&format!("/reactors/{reactor}/react"), body).await;
    let status = answer.status.as_u16();
    if status != 200 {
        return status.to_string();
    }
    match answer.json()["raw"]["args"]["value"].as_str() {
        Some("123-45-6789") => "reveal".to_owned(),
        Some("XXX-XX-6789") => "mask".to_owned(),
        _ => "redact".to_owned(),
    }
}

async fn moved(client: &Client, token: &str, container: &str) -> String {
    let patch = json!({"containers": [container]});
    shown(&client.patch(&format!("/tokens/{token}"), patch).await)
}

/// What an application gets of tokens in these containers, for each of [`COLUMNS`]; `maker` makes them.
async fn row(
    client: &Client,
    maker: &Client,
    reactor: &str,
    containers: &[&str],
) -> [String; COLUMNS.len()] {
    let new = async || {
        let made = maker.post("/tokens", ssn(containers)).await.expect(201);
        made["id"].as_str().unwrap().to_owned()
    };
    let id = new().await;
    let path = format!("/tokens/{id}");
    let query = json!({"query": format!("id:{id}")});
    let reference = json!({"data": format!("{{{{ {id} }}}}")});
    let [near, far] = DESTINATIONS;
    [
        shown(&client.post("/tokens", ssn(containers)).await),
        shown(&client.get(&path).await),
        shown_on(&client.get(&format!("/tokens?id={id}")).await),
        shown_on(&client.post("/tokens/search", query).await),
        shown(&client.patch(&path, json!({"metadata": {"k": "v"}})).await),
        // One that was moved lies elsewhere for all that comes after it.
        moved(client, &new().await, near).await,
        moved(client, &new().await, far).await,
        shown(&client.post("/detokenize", reference).await),
        used(client, reactor, &id).await,
        shown(&client.delete(&path).await),
    ]
}

/// A line of the table: a title and its cells below their columns.
fn line<T: AsRef<str>>(title: &str, cells: &[T]) -> String {
    let mut line = format!("{title:<40}");
    for (cell, column) in cells.iter().zip(COLUMNS) {
        let _ = write!(line, " {:<width$}", cell.as_ref(), width = column.len().max(6));
    }
    line.trim_end().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn the_matrix() {
    let server = TestServer::start().await;
    let reactor = crate::support::guests::echo_reactor(&server).await;
    let maker = server.revealing().await;
    let mut table = String::new();
    for (name, permissions, rules) in applications() {
        let client = server.application("private", &permissions, rules).await;
        let _ = writeln!(table, "{}", line(name, &COLUMNS));
        for containers in CONTAINERS {
            let cells = row(&client, &maker, &reactor, containers).await;
            let place = format!("  {}", containers.join(" + "));
            let written = line(&place, &cells);
            let [_, read, list, _, _, _, _, detokenize, ..] = &cells;
            // Whatever the table says, a list has what may be read, as it is read, and plaintext is for who sees it.
            let hidden = read == "403" && list == "absent";
            assert!(list == read || hidden, "{name}\n{written}");
            assert_eq!(detokenize == "reveal", read == "reveal", "{name}\n{written}");
            let _ = writeln!(table, "{written}");
        }
    }
    insta::assert_snapshot!(table);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_without_a_mask_is_redacted_where_it_would_be_masked() {
    let server = TestServer::start().await;
    let body = json!({"type": "social_security_number", "data": "123-45-6789", "mask": null});
    let made = server.private.post("/tokens", body).await.expect(201);
    assert!(made.get("data").is_none() && made.get("mask").is_none());
    let path = format!("/tokens/{}", made["id"].as_str().unwrap());
    assert!(server.private.get(&path).await.expect(200).get("data").is_none());
    assert_eq!(server.revealing().await.get(&path).await.expect(200)["data"], "123-45-6789");
}

#[tokio::test(flavor = "multi_thread")]
async fn redact_keeps_the_mask() {
    let server = TestServer::start().await;
    let made = server.private.post("/tokens", ssn(&["/pci/"])).await.expect(201);
    let rule = json!([{"priority": 1, "container": "/", "transform": "redact",
        "permissions": ["token:read"]}]);
    let client = server.application("private", &[], rule).await;
    let path = format!("/tokens/{}", made["id"].as_str().unwrap());
    let seen = client.get(&path).await.expect(200);
    assert!(seen.get("data").is_none());
    assert_eq!(seen["mask"], "{{ data | reveal_last: 4 }}");
}
