//! The description of the interface is complete and true.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tokamak::limits;
use tokamak::model::permission::Permission;
use tokamak::model::rule::PRIORITY_MAX;
use tokamak::token_type::TokenType;

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

/// What changes nothing is carried out again, whatever key it has.
const NEVER_REPEATED: [&str; 2] = ["post /tokens/search", "post /detokenize"];

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
            let open = ["/healthz", "/readyz", "/metrics"].contains(&path.as_str());
            assert_eq!(responses.contains_key("401"), !open, "{at}");
            let security = operation["security"][0].as_object().unwrap();
            assert_eq!(security.contains_key("api_key"), !open, "{at}");
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

/// What a value is, or what it refers to.
fn resolved<'a>(description: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(target) => description.pointer(target.strip_prefix('#').unwrap()).unwrap(),
        None => value,
    }
}

/// The members that a schema requires, with those of its parts.
fn required<'a>(description: &'a Value, schema: &'a Value) -> Vec<&'a Value> {
    let schema = resolved(description, schema);
    let parts = schema["allOf"].as_array().into_iter().flatten();
    let of_parts = parts.flat_map(|part| required(description, part));
    schema["required"].as_array().into_iter().flatten().chain(of_parts).collect()
}

/// What an operation says of a parameter.
fn parameter<'a>(description: &'a Value, operation: &'a Value, name: &str) -> Option<&'a Value> {
    let parameters = operation["parameters"].as_array()?;
    let mut parameters = parameters.iter().map(|parameter| resolved(description, parameter));
    parameters.find(|parameter| parameter["name"] == name)
}

#[tokio::test(flavor = "multi_thread")]
async fn headers_of_every_operation_are_described() {
    let server = TestServer::start().await;
    let description = server.stranger().get("/openapi.json").await.expect(200);
    let mut repeatable = 0;
    for (path, operations) in description["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let at = format!("{method} {path}");
            let takes_key = ["post", "put", "patch"].contains(&method.as_str());
            let key = parameter(&description, operation, "SVC-IDEMPOTENCY-KEY");
            assert_eq!(key.is_some(), takes_key, "{at}");
            if let Some(key) = key {
                repeatable += 1;
                assert_eq!((&key["in"], &key["required"]), (&json!("header"), &json!(false)));
                let expected = json!({
                    "type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[\x20-\x7e]+$",
                });
                assert_eq!(key["schema"], expected);
                let text = key["description"].as_str().unwrap();
                for said in ["24 hours", "409", "422", "`session_key`"] {
                    assert!(text.contains(said), "{said}");
                }
                let reuse = operation["responses"]["422"]["description"].as_str();
                let told = reuse.is_some_and(|text| text.contains("`SVC-IDEMPOTENCY-KEY`"));
                assert_eq!(told, !NEVER_REPEATED.contains(&at.as_str()), "{at}");
            }
            for (status, response) in operation["responses"].as_object().unwrap() {
                let header = |name: &str| {
                    response["headers"].get(name).map(|header| resolved(&description, header))
                };
                let trace = header("SVC-TRACE-ID").unwrap_or_else(|| panic!("{at} {status}"));
                assert_eq!(trace["schema"]["type"], "string");
                let is_repeated = !NEVER_REPEATED.contains(&at.as_str());
                let replays = takes_key && is_repeated && status.starts_with('2');
                assert_eq!(header("SVC-IDEMPOTENT-REPLAY").is_some(), replays, "{at} {status}");
            }
        }
    }
    assert!(repeatable >= 16, "{repeatable}");
    // What was said of a 422 before is still said.
    let formula = &description["paths"]["/reactor-formulas"]["post"]["responses"]["422"];
    assert!(formula["description"].as_str().unwrap().starts_with("The formula cannot run"));
}

/// The literals of the description are the limits of the product.
#[tokio::test(flavor = "multi_thread")]
async fn limits_are_described_as_they_are() {
    let server = TestServer::start().await;
    let description = server.stranger().get("/openapi.json").await.expect(200);
    for (place, limit) in [
        ("CreateToken/properties/containers/maxItems", limits::CONTAINERS_MAX),
        ("CreateToken/properties/search_indexes/maxItems", limits::SEARCH_INDEXES_MAX),
        ("CreateToken/properties/id/minLength", limits::TOKEN_ID_CHARS_MIN),
        ("CreateToken/properties/id/maxLength", limits::EXPRESSION_BYTES_MAX),
        ("UpdateToken/properties/containers/maxItems", limits::CONTAINERS_MAX),
        ("Container/maxLength", limits::CONTAINER_CHARS_MAX),
        ("Metadata/maxProperties", limits::METADATA_KEYS_MAX),
        ("Metadata/additionalProperties/maxLength", limits::METADATA_VALUE_CHARS_MAX),
        ("CreateApplication/properties/name/maxLength", limits::NAME_CHARS_MAX),
        ("CreateApplication/properties/rules/maxItems", limits::RULES_MAX),
        ("AuthorizeSession/properties/rules/maxItems", limits::RULES_MAX),
        ("ConditionRule/properties/conditions/maxItems", limits::CONDITIONS_MAX),
        ("ContainerRule/properties/description/maxLength", limits::DESCRIPTION_CHARS_MAX),
        ("ContainerRule/properties/priority/maximum", PRIORITY_MAX as usize),
        ("CreateFormula/properties/configuration/maxItems", limits::FORMULA_PARAMETERS_MAX),
        ("CreateFormula/properties/allowed_hosts/maxItems", limits::ALLOWED_HOSTS_MAX),
        ("CreateFormula/properties/icon/maxLength", limits::ICON_BYTES_MAX),
        ("WriteLimits/properties/memory_mb/maximum", limits::FORMULA_MEMORY_MB_MAX as usize),
        ("SearchTokens/properties/size/maximum", limits::PAGE_SIZE_MAX),
    ] {
        let found = description.pointer(&format!("/components/schemas/{place}"));
        assert_eq!(found, Some(&json!(limit)), "{place}");
    }
    let minutes = "/components/schemas/WriteTenantSettings/properties/cvc_retention_minutes";
    let minutes = description.pointer(minutes).unwrap();
    assert_eq!(minutes["maximum"], limits::CVC_RETENTION_MINUTES_MAX);
    // What stands for an absent member of a body is told in words.
    for (member, told) in [
        ("WriteLimits/properties/memory_mb", limits::FORMULA_MEMORY_MB_DEFAULT),
        ("SearchTokens/properties/size", u32::try_from(limits::PAGE_SIZE_DEFAULT).unwrap()),
        ("SearchTokens/properties/page", 1),
        (
            "WriteTenantSettings/properties/cvc_retention_minutes",
            limits::CVC_RETENTION_MINUTES_DEFAULT,
        ),
    ] {
        let member = description.pointer(&format!("/components/schemas/{member}")).unwrap();
        assert!(member.get("default").is_none(), "{member}");
        let words = member["description"].as_str().unwrap();
        assert!(words.split([' ', ',', ';']).any(|word| word == told.to_string()), "{words}");
    }
}

/// Forms of which generators of clients make something that does not compile, or that sends nothing.
#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_described_in_a_form_that_generators_do_not_take() {
    let server = TestServer::start().await;
    let description = server.stranger().get("/openapi.json").await.expect(200);
    assert_eq!(description["servers"][0]["url"], "/");
    let schemas = description["components"]["schemas"].as_object().unwrap();
    assert_eq!(schemas["TokenData"].get("anyOf").or(schemas["TokenData"].get("type")), None);
    let mut choices = 0;
    for (name, schema) in schemas {
        for choice in schema["oneOf"].as_array().into_iter().flatten() {
            choices += usize::from(choice.get("$ref").is_some());
            let is_bare = choice.get("$ref").is_none() || choice.as_object().unwrap().len() == 1;
            assert!(is_bare, "{name}: {choice}");
        }
    }
    assert!(choices >= 2, "{choices}");
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_described_as_they_are_read() {
    let server = TestServer::start().await;
    let description = server.stranger().get("/openapi.json").await.expect(200);
    let schemas = &description["components"]["schemas"];
    for (name, required) in [
        ("CreateApplication", json!(["name", "type"])),
        ("UpdateApplication", json!(["name"])),
        ("CreateFormula", json!(["name"])),
        ("UpdateFormula", json!(["name"])),
        ("CreateReactor", json!(["name", "configuration", "formula"])),
        ("UpdateReactor", json!(["name", "configuration"])),
        ("WriteLimits", Value::Null),
        ("WriteTenantSettings", Value::Null),
        ("TokenAudit", Value::Null),
    ] {
        assert!(schemas[name].is_object(), "{name}");
        assert_eq!(schemas[name]["required"], required, "{name}");
    }
    let permissions: Vec<&str> = Permission::ALL.iter().map(|one| one.as_str()).collect();
    assert_eq!(schemas["Permission"]["enum"], json!(permissions));
    let types: Vec<&str> = TokenType::all().map(TokenType::as_str).collect();
    assert_eq!(schemas["TokenType"]["enum"], json!(types));
    // In place, where generators look for it.
    let component = &description["paths"]["/reactor-formulas/{id}/component"];
    let (sent, given) = (&component["put"]["requestBody"], &component["get"]["responses"]["200"]);
    for body in [sent, given] {
        let bytes = &body["content"]["application/wasm"]["schema"];
        assert_eq!((&bytes["type"], &bytes["format"]), (&json!("string"), &json!("binary")));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_those_that_can_come() {
    let server = TestServer::start().await;
    let description = server.stranger().get("/openapi.json").await.expect(200);
    let statuses = |method: &str, path: &str| {
        let responses = description["paths"][path][method]["responses"].as_object().unwrap();
        responses.keys().cloned().collect::<Vec<_>>()
    };
    assert_eq!(
        statuses("get", "/tenants/self"),
        ["200", "401", "403", "414", "429", "431", "500", "503"]
    );
    assert_eq!(
        statuses("get", "/tokens"),
        ["200", "400", "401", "403", "414", "429", "431", "500", "503"]
    );
    assert_eq!(
        statuses("get", "/tokens/{id}"),
        ["200", "401", "403", "404", "414", "429", "431", "500", "503"]
    );
    let delete = statuses("delete", "/reactor-formulas/{id}");
    assert_eq!(delete, ["204", "401", "403", "404", "409", "414", "429", "431", "500", "503"]);
    let create = statuses("post", "/reactor-formulas");
    let expected = [
        "201", "400", "401", "403", "408", "409", "413", "414", "415", "422", "429", "431", "500",
        "503",
    ];
    assert_eq!(create, expected);
    // A formula is downloaded as what it was uploaded as.
    let component = &description["paths"]["/reactor-formulas/{id}/component"]["get"];
    let kinds = component["responses"]["200"]["content"].as_object().unwrap();
    assert_eq!(kinds.keys().collect::<Vec<_>>(), ["application/wasm", "text/javascript"]);
    // A formula may refuse with any status and body.
    let react = &description["paths"]["/reactors/{id}/react"]["post"]["responses"];
    assert!(react["default"].is_object());
    let body = &react["404"]["content"]["application/json"]["schema"];
    assert_eq!(body["anyOf"].as_array().unwrap().len(), 2);
    // What needs no key is not counted.
    assert_eq!(statuses("get", "/healthz"), ["200", "414", "431", "503"]);
    assert!(react["429"]["description"].as_str().unwrap().contains("`invoke`"));
    let wait = &description["paths"]["/tokens"]["post"]["responses"]["429"]["headers"];
    assert!(wait["Retry-After"].is_object());
}

/// What is said of a token that the caller may not read is what the description promises.
#[tokio::test(flavor = "multi_thread")]
async fn an_outline_is_as_described() {
    let server = TestServer::start().await;
    let description = server.stranger().get("/openapi.json").await.expect(200);
    server.private.token("token", json!("the same")).await;
    let blind = server.application("public", &["token:create"], json!([])).await;
    let body = json!({"type": "token", "data": "the same", "deduplicate_token": true});
    let outline = blind.post("/tokens", body).await.expect(200);
    assert!(outline.get("created_at").is_none());
    let parts = &description["components"]["schemas"]["TokenView"]["allOf"];
    let parts = parts.as_array().unwrap().iter().map(|part| resolved(&description, part));
    let parts: Vec<&Value> = parts.collect();
    for name in parts.iter().filter_map(|part| part["required"].as_array()).flatten() {
        assert!(outline.get(name.as_str().unwrap()).is_some(), "{name}");
    }
    for name in outline.as_object().unwrap().keys() {
        assert!(parts.iter().any(|part| part["properties"].get(name).is_some()), "{name}");
    }
}

/// What a repetition does not show again is not promised.
#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_answer_is_as_described() {
    let server = TestServer::start().await;
    let description = server.stranger().get("/openapi.json").await.expect(200);
    let public = server.application("public", &["token:create"], json!([])).await;
    let application = json!({"name": "a", "type": "private", "permissions": ["token:read"]});
    let nothing = || json!({});
    for (client, path, body, schema, hidden) in [
        (&server.management, "/applications", application, "ApplicationWithKey", vec!["key"]),
        (&public, "/sessions", nothing(), "NewSession", vec!["nonce", "session_key"]),
        (
            &server.management,
            "/webhooks/signing-secrets/rotate",
            nothing(),
            "SigningSecretView",
            vec!["secret"],
        ),
    ] {
        let send = async || {
            let request = client.request(reqwest::Method::POST, path).json(&body);
            client.send(request.header("SVC-IDEMPOTENCY-KEY", path)).await
        };
        let (first, repeated) = (send().await, send().await);
        assert!(first.status.is_success() && repeated.status == first.status, "{path}");
        // Of several, each is as the first.
        let one = |answer: Value| answer.get(0).cloned().unwrap_or(answer);
        let (first, repeated) = (one(first.json()), one(repeated.json()));
        let missing = first.as_object().unwrap().keys().filter(|name| repeated.get(name).is_none());
        assert_eq!(missing.collect::<std::collections::BTreeSet<_>>().len(), hidden.len());
        let promised = required(&description, &description["components"]["schemas"][schema]);
        assert!(promised.iter().any(|name| *name == "expires_at" || *name == "id"), "{path}");
        for name in promised {
            assert!(repeated.get(name.as_str().unwrap()).is_some(), "{path}: {name}");
        }
        assert!(hidden.iter().all(|name| repeated.get(name).is_none()), "{path}");
    }
}

/// The form that the description gives to the filter by metadata is one that the server reads.
#[tokio::test(flavor = "multi_thread")]
async fn the_filter_by_metadata_is_described() {
    let server = TestServer::start().await;
    let description = server.stranger().get("/openapi.json").await.expect(200);
    let list = &description["paths"]["/tokens"]["get"];
    let metadata = parameter(&description, list, "metadata").unwrap();
    assert_eq!((&metadata["in"], &metadata["required"]), (&json!("query"), &json!(false)));
    assert_eq!((&metadata["style"], &metadata["explode"]), (&json!("deepObject"), &json!(true)));
    assert_eq!(metadata["schema"]["type"], "object");
    assert_eq!(metadata["schema"]["additionalProperties"], json!({"type": "string"}));
    assert!(metadata["description"].as_str().unwrap().contains("`metadata.customer=17`"));
    for customer in ["17", "18"] {
        let body = json!({"id": format!("of-{customer}"), "type": "token", "data": 1,
            "metadata": {"customer": customer, "a[b]": customer}});
        server.private.post("/tokens", body).await.expect(201);
    }
    for query in [
        "metadata[customer]=17",
        "metadata%5Bcustomer%5D=17",
        "metadata.customer=17",
        "metadata[a[b]]=17",
        "metadata.a[b]=17",
        "metadata[customer]=17&metadata.a[b]=17",
    ] {
        assert_eq!(server.private.list(query).await, ["of-17"], "{query}");
    }
    assert_eq!(server.private.list("metadata[customer]=19").await, Vec::<String>::new());
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
    for nothing in ["/docs/nothing.js", "/docs/%ff", "/console/%ff/a", "/console/a/%ff"] {
        let problem = stranger.get(nothing).await.expect(404);
        assert_eq!(problem["detail"], "There is no such file.");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_of_which_nothing_is_required_may_be_absent() {
    let server = TestServer::start().await;
    let description = server.stranger().get("/openapi.json").await.expect(200);
    let required = |path: &str| {
        let body = &description["paths"][path]["post"]["requestBody"];
        assert!(body["content"].is_object(), "{path}");
        body["required"] == true
    };
    assert!(!required("/tokens/search") && !required("/reactors/{id}/react"));
    for path in ["/tokens", "/tokenize", "/detokenize", "/reactors", "/sessions/authorize"] {
        assert!(required(path), "{path}");
    }
}
