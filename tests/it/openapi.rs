//! The description of the interface is complete and true.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::support::TestServer;

fn references(value: &Value, found: &mut BTreeSet<String>) {
    match value {
        Value::Object(members) => {
            if let Some(Value::String(target)) = members.get("$ref") {
                found.insert(target.clone());
            }
            members.values().for_each(|inner| references(inner, found));
        }
        Value::Array(items) => items.iter().for_each(|inner| references(inner, found)),
        _ => {}
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_is_described() {
    let server = TestServer::start().await;
    let description = server.stranger().get("/openapi.json").await.expect(200);
    assert!(description["openapi"].as_str().unwrap().starts_with("3.1"));
    let mut identifiers = BTreeSet::new();
    for (path, operations) in description["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let at = format!("{method} {path}");
            assert!(operation["summary"].is_string(), "{at} has no summary");
            assert!(identifiers.insert(operation["operationId"].clone().to_string()), "{at}");
            let responses = operation["responses"].as_object().unwrap();
            assert!(responses.keys().any(|status| status.starts_with('2')), "{at}");
            let open = ["/healthz", "/readyz"].contains(&path.as_str());
            assert_eq!(responses.contains_key("401"), !open, "{at}");
            assert_eq!(operation.get("security").is_some(), open, "{at}");
            if path.contains("{id}") {
                assert!(responses.contains_key("404"), "{at}");
            }
        }
    }
    let mut found = BTreeSet::new();
    references(&description, &mut found);
    for reference in found {
        let pointer = reference.strip_prefix('#').unwrap();
        assert!(description.pointer(pointer).is_some(), "{reference} leads nowhere");
    }
}

/// The operations of the interface that this version serves, as the specification names them.
#[tokio::test(flavor = "multi_thread")]
async fn the_operations_are_those_of_the_specification() {
    let server = TestServer::start().await;
    let description = server.stranger().get("/openapi.json").await.expect(200);
    let mut operations = Vec::new();
    for (path, methods) in description["paths"].as_object().unwrap() {
        for method in methods.as_object().unwrap().keys() {
            operations.push(format!("{} {path}", method.to_uppercase()));
        }
    }
    operations.sort();
    insta::assert_snapshot!(operations.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_needs_no_key_and_nothing_from_elsewhere() {
    let server = TestServer::start().await;
    let stranger = server.stranger();
    for path in ["/docs", "/docs/", "/docs/index.html"] {
        let page = stranger.get(path).await;
        assert_eq!(page.status, 200, "{path}");
        assert!(page.text().contains("swagger-ui"), "{path}");
    }
    let page = stranger.get("/docs/index.html").await.text();
    let is_source =
        |part: &&str| part.rsplit('.').next().is_some_and(|end| end == "js" || end == "css");
    let sources: Vec<&str> = page.split(['"', '\'']).filter(is_source).collect();
    assert!(sources.len() >= 3, "{sources:?}");
    for source in sources {
        assert!(!source.contains("//"), "{source}");
        let path = format!("/docs/{}", source.trim_start_matches("./"));
        assert_eq!(stranger.get(&path).await.status, 200, "{path}");
    }
    assert!(stranger.get("/docs/swagger-initializer.js").await.text().contains("/openapi.json"));
    stranger.get("/docs/nothing.js").await.expect(404);
}
