//! Formulas (decisions §6).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::guests::{self, CORE_MODULE, EMPTY_COMPONENT, component};
use crate::support::{Answer, Client, TestServer};

const INSIGHTS: &str = "/reactor-formulas/6f2b0c0e-3d5a-4c38-9d6b-5a1f3c7e9b01";

/// How many formulas ship with the product.
const OFFICIAL: usize = 5;

async fn create(server: &TestServer, bytes: &[u8]) -> Answer {
    let body = json!({"name": "f", "component": STANDARD.encode(bytes)});
    server.management.post("/reactor-formulas", body).await
}

async fn upload(server: &TestServer, path: &str, bytes: &[u8]) -> Answer {
    let request = server.management.request(Method::PUT, path).body(bytes.to_vec());
    server.management.send(request.header("content-type", "application/wasm")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_run_is_refused_by_what_is_wrong_with_it() {
    let server = TestServer::start().await;
    let truncated = &component("probe")[..10_000];
    let table: [(&[u8], &str); 6] = [
        (component("files"), "wasi:filesystem/"),
        (component("sockets"), "wasi:sockets/"),
        (EMPTY_COMPONENT, "tokamak:formula/reactor"),
        (CORE_MODULE, "core module"),
        (truncated, ""),
        (b"not wasm at all", ""),
    ];
    for (bytes, part) in table {
        let answer = create(&server, bytes).await;
        assert_eq!(answer.status, 422, "{part}");
        let problem = answer.json();
        let detail = problem["detail"].as_str().unwrap();
        assert!(detail.contains(part), "{part} in {detail}");
    }
    // Nothing of them stays.
    let list = server.management.get("/reactor-formulas").await.expect(200);
    assert_eq!(list["pagination"]["total_items"], OFFICIAL);
}

#[tokio::test(flavor = "multi_thread")]
async fn bodies_are_checked_whole() {
    let server = TestServer::start().await;
    let good = STANDARD.encode(component("probe"));
    let table = [
        (json!({}), vec!["component", "name"]),
        (json!({"name": "", "component": "!"}), vec!["component", "name"]),
        (json!({"name": "x".repeat(201), "component": good}), vec!["name"]),
        (json!({"name": "f", "component": good, "code": "x"}), vec!["code"]),
        (
            json!({"name": "f", "component": good, "configuration": [{"name": "a", "type": "object"}],
                "request_parameters": [{"name": "b"}], "undeclared_arguments": "keep",
                "limits": {"memory_mb": 513}, "allowed_hosts": [""]}),
            vec![
                "allowed_hosts[0]",
                "configuration[0].type",
                "limits.memory_mb",
                "request_parameters[0].type",
                "undeclared_arguments",
            ],
        ),
    ];
    for (body, expected) in table {
        let answer = server.management.post("/reactor-formulas", body).await;
        assert_eq!(answer.faults(), expected, "{}", answer.text());
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn hosts_that_no_address_is_at_are_refused() {
    let server = TestServer::start().await;
    let hosts = json!(["127.0.0.1", "127.1", "2130706433", "999.1.1.1", "*.127.0.0.1", "0x7f.1"]);
    let body = json!({"name": "f", "code": "module.exports = () => {}", "allowed_hosts": hosts});
    let problem = server.management.post("/reactor-formulas", body).await.expect(400);
    let told = |index: usize| problem["errors"][format!("allowed_hosts[{index}]")][0].as_str();
    assert_eq!(told(0), None);
    for (index, part) in [
        (1, "four decimal"),
        (2, "four decimal"),
        (3, "is none"),
        (4, "below"),
        (5, "four decimal"),
    ] {
        assert!(told(index).unwrap().contains(part), "{problem}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_formula_is_made_read_changed_and_deleted() {
    let server = TestServer::start().await;
    let members = json!({
        "name": "Probe", "description": "does as told", "icon": "https://example.com/i.png",
        "configuration": [{"name": "a", "type": "string"}],
        "request_parameters": [{"name": "b.c", "type": "object", "optional": true}],
        "undeclared_arguments": "drop", "allowed_hosts": ["*.example.com"],
        "limits": {"memory_mb": 32},
    });
    let id = guests::formula(&server, "probe", members.clone()).await;
    let path = format!("/reactor-formulas/{id}");
    let made = server.management.get(&path).await.expect(200);
    for (member, value) in members.as_object().unwrap() {
        match member.as_str() {
            "configuration" | "request_parameters" => {
                assert_eq!(made[member][0]["name"], value[0]["name"]);
            }
            _ => assert_eq!(made[member], *value, "{member}"),
        }
    }
    assert_eq!(
        (&made["status"], &made["type"], &made["language"]),
        (&json!("verified"), &json!("private"), &json!("wasm"))
    );
    assert!(made.get("component").is_none());
    let digest = made["component_digest"].as_str().unwrap();
    assert_eq!(digest.len(), 64);

    let changed = server.management.put(&path, json!({"name": "Renamed"})).await.expect(200);
    assert_eq!(
        (&changed["name"], &changed["component_digest"]),
        (&json!("Renamed"), &json!(digest))
    );
    assert!(changed.get("description").is_none());
    server.management.delete(&path).await.expect(204);
    server.management.get(&path).await.expect(404);
    server.management.get(&format!("{path}/component")).await.expect(404);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_is_replaced_and_given_back() {
    let server = TestServer::start().await;
    let id = guests::formula(&server, "probe", json!({})).await;
    let path = format!("/reactor-formulas/{id}/component");
    let got = server.management.get(&path).await;
    assert_eq!(got.headers["content-type"], "application/wasm");
    assert_eq!(got.bytes, component("probe"));
    let answer = upload(&server, &path, component("tables")).await.expect(200);
    let before = server.management.get(&format!("/reactor-formulas/{id}")).await.expect(200);
    assert_eq!(answer["component_digest"], before["component_digest"]);
    assert_eq!(server.management.get(&path).await.bytes, component("tables"));
    upload(&server, &path, CORE_MODULE).await.expect(422);
    let json = server.management.put(&path, json!({})).await;
    json.expect(415);
    // What was refused has replaced nothing.
    assert_eq!(server.management.get(&path).await.bytes, component("tables"));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_made_a_formula_and_who_changed_it_last_is_told() {
    let server = TestServer::start().await;
    let id =
        async |client: &Client| client.get("/applications/key").await.expect(200)["id"].clone();
    let changer = server.application("management", &["reactor:update"], json!([])).await;
    let (first, second) = (id(&server.management).await, id(&changer).await);
    let made = create(&server, component("bare")).await.expect(201);
    assert_eq!(made["created_by"], first);
    assert_eq!(made["created_at"], "2026-01-01T00:00:00.000+00:00");
    assert!(made.get("modified_by").is_none() && made.get("modified_at").is_none());
    let path = format!("/reactor-formulas/{}", made["id"].as_str().unwrap());
    let read = async || server.management.get(&path).await.expect(200);
    assert_eq!(read().await, made);
    server.clock.advance_ms(1_000);
    let changed = changer.put(&path, json!({"name": "n"})).await.expect(200);
    let read_changed = read().await;
    server.clock.advance_ms(1_000);
    let replaced = upload(&server, &format!("{path}/component"), component("tables")).await;
    for (shown, by, at) in [
        (changed, &second, "2026-01-01T00:00:01.000+00:00"),
        (read_changed, &second, "2026-01-01T00:00:01.000+00:00"),
        (replaced.expect(200), &first, "2026-01-01T00:00:02.000+00:00"),
        (read().await, &first, "2026-01-01T00:00:02.000+00:00"),
    ] {
        assert_eq!(shown["created_by"], first, "{shown}");
        assert_eq!(shown["created_at"], made["created_at"], "{shown}");
        assert_eq!((&shown["modified_by"], &shown["modified_at"]), (by, &json!(at)), "{shown}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn lists_filter_by_id_and_name() {
    let server = TestServer::start().await;
    let one = guests::formula(&server, "probe", json!({"name": "Alpha one"})).await;
    server.clock.advance_ms(1);
    guests::formula(&server, "probe", json!({"name": "alpha two"})).await;
    let names = async |query: &str| -> Vec<String> {
        let page = server.management.get(&format!("/reactor-formulas?{query}")).await.expect(200);
        let names = page["data"].as_array().unwrap().iter().map(|formula| formula["name"].clone());
        names.map(|name| name.as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("name=*lpha*").await, ["alpha two", "Alpha one"]);
    assert_eq!(names("name=*one").await, ["Alpha one"]);
    assert_eq!(names("name=alpha").await, Vec::<String>::new());
    assert_eq!(names(&format!("id={one}")).await, ["Alpha one"]);
    assert_eq!(names("").await.len(), 2 + OFFICIAL);
}

#[tokio::test(flavor = "multi_thread")]
async fn official_formulas_are_everybodys_and_read_only() {
    let server = TestServer::start().await;
    let other = server.other_tenant().await;
    for client in [&server.management, &other] {
        let formula = client.get(INSIGHTS).await.expect(200);
        assert_eq!(
            (&formula["type"], &formula["name"]),
            (&json!("official"), &json!("card-insights"))
        );
        assert!(client.get(&format!("{INSIGHTS}/component")).await.bytes.starts_with(b"\0asm"));
        client.put(INSIGHTS, json!({"name": "mine"})).await.expect(409);
        client.delete(INSIGHTS).await.expect(409);
    }
    let path = format!("{INSIGHTS}/component");
    upload(&server, &path, component("probe")).await.expect(409);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_formula_in_use_stays_and_another_tenants_is_not_there() {
    let server = TestServer::start().await;
    let id = guests::formula(&server, "probe", json!({})).await;
    let reactor = guests::reactor(&server, &id, json!({})).await;
    let path = format!("/reactor-formulas/{id}");
    server.management.delete(&path).await.expect(409);
    let other = server.other_tenant().await;
    other.get(&path).await.expect(404);
    other.put(&path, json!({"name": "x"})).await.expect(404);
    other.delete(&path).await.expect(404);
    let body = json!({"name": "r", "formula": {"id": id}, "configuration": {}});
    assert_eq!(other.post("/reactors", body).await.faults(), ["formula.id"]);
    server.management.delete(&format!("/reactors/{reactor}")).await.expect(204);
    server.management.delete(&path).await.expect(204);
}

#[tokio::test(flavor = "multi_thread")]
async fn every_operation_is_logged() {
    let server = TestServer::start().await;
    let id = guests::formula(&server, "probe", json!({})).await;
    let path = format!("/reactor-formulas/{id}");
    server.management.get(&path).await.expect(200);
    server.management.put(&path, json!({"name": "x"})).await.expect(200);
    server.management.delete(&path).await.expect(204);
    let path = format!("/logs?entity_type=reactor_formula&entity_id={id}");
    let logs = server.management.get(&path).await.expect(200);
    let operations: Vec<&Value> =
        logs["data"].as_array().unwrap().iter().map(|e| &e["operation"]).collect();
    assert_eq!(operations, ["delete", "update", "read", "create"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn digests_are_those_of_the_bytes_and_reactors_run_what_was_put_last() {
    let server = TestServer::start().await;
    // SHA-256 by a program that is not ours.
    let file = server.folder().join("component");
    let sha256 = |bytes: &[u8]| {
        std::fs::write(&file, bytes).unwrap();
        let output = std::process::Command::new("sha256sum").arg(&file).output().unwrap();
        String::from_utf8(output.stdout).unwrap()[..64].to_owned()
    };
    let id = guests::formula(&server, "probe", json!({})).await;
    let reactor = guests::reactor(&server, &id, json!({})).await;
    let react = format!("/reactors/{reactor}/react");
    let path = format!("/reactor-formulas/{id}");
    let read = async || server.management.get(&path).await.expect(200);
    assert_eq!(read().await["component_digest"], sha256(component("probe")));
    let args = json!({"args": {"a": 1}});
    let echoed = server.private.post(&react, args.clone()).await.expect(200);
    assert_eq!(echoed["raw"]["args"], json!({"a": 1}));
    // By the component's own path, then by the formula's.
    let put = upload(&server, &format!("{path}/component"), component("bare")).await.expect(200);
    assert_eq!(put["component_digest"], sha256(component("bare")));
    assert_eq!(read().await, put);
    assert_eq!(server.private.post(&react, args.clone()).await.expect(200)["raw"], json!({"a": 1}));
    let body = json!({"name": "again", "component": STANDARD.encode(component("probe"))});
    let put = server.management.put(&path, body).await.expect(200);
    assert_eq!(put["component_digest"], sha256(component("probe")));
    let echoed = server.private.post(&react, args).await.expect(200);
    assert_eq!(echoed["raw"]["args"], json!({"a": 1}));
    let refused = json!({"name": "no", "component": STANDARD.encode(CORE_MODULE)});
    server.management.put(&path, refused).await.expect(422);
    assert_eq!(read().await, put);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_script_has_room_for_what_runs_it() {
    let server = TestServer::start().await;
    let with = |memory_mb: u64| json!({"name": "s", "limits": {"memory_mb": memory_mb}});
    let script = |memory_mb: u64| {
        let mut body = with(memory_mb);
        body["code"] = json!("module.exports = () => ({ raw: 1 });");
        body
    };
    let refusal = json!({"limits.memory_mb": ["must be at least 2 for a script"]});
    let formulas = "/reactor-formulas";
    let refused = server.management.post(formulas, script(1)).await;
    assert_eq!(refused.expect(400)["errors"], refusal);
    let made = server.management.post(formulas, script(2)).await.expect(201);
    let path = format!("{formulas}/{}", made["id"].as_str().unwrap());
    // Nor is it taken from it, whether the code comes along or not.
    for body in [with(1), script(1)] {
        let refused = server.management.put(&path, body).await;
        assert_eq!(refused.expect(400)["errors"], refusal);
    }
    server.management.put(&path, with(2)).await.expect(200);
    let component = guests::formula(&server, "bare", json!({"limits": {"memory_mb": 1}})).await;
    let path = format!("{formulas}/{component}");
    server.management.put(&path, with(1)).await.expect(200);
    let refused = server.management.put(&path, script(1)).await;
    assert_eq!(refused.expect(400)["errors"], refusal);
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_are_whole_numbers_of_mebibytes() {
    let server = TestServer::start().await;
    let id = guests::formula(&server, "probe", json!({})).await;
    let path = format!("/reactor-formulas/{id}");
    let put = async |limits: Value| {
        server.management.put(&path, json!({"name": "f", "limits": limits})).await
    };
    for (limits, memory_mb) in [
        (json!(null), 64),
        (json!({}), 64),
        (json!({"memory_mb": null}), 64),
        (json!({"memory_mb": 1}), 1),
        (json!({"memory_mb": 512}), 512),
    ] {
        assert_eq!(put(limits).await.expect(200)["limits"], json!({"memory_mb": memory_mb}));
    }
    for wrong in [json!(0), json!(513), json!(-1), json!(1.5), json!("64"), json!([]), json!(1e12)]
    {
        let faults = put(json!({"memory_mb": wrong})).await.faults();
        assert_eq!(faults, ["limits.memory_mb"], "{wrong}");
    }
    for wrong in [json!(64), json!("64"), json!([64])] {
        assert_eq!(put(wrong.clone()).await.faults(), ["limits"], "{wrong}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_is_given_exactly_once_and_is_no_larger_than_allowed() {
    let server = TestServer::start().await;
    let good = STANDARD.encode(component("bare"));
    for (body, expected) in [
        (json!({"name": "f", "component": null, "code": null}), "component"),
        (json!({"name": "f", "component": 5}), "component"),
        (json!({"name": "f", "component": "AGFzbQ"}), "component"),
        (json!({"name": "f", "code": 1}), "code"),
        (json!({"name": "f", "code": "x".repeat((1 << 20) + 1)}), "code"),
        (json!({"name": "f", "code": "1", "language": "wasm"}), "language"),
        (json!({"name": "f", "component": good, "language": "javascript"}), "language"),
        (json!({"name": "f", "code": "export default 1", "component": good}), "code"),
    ] {
        let answer = server.management.post("/reactor-formulas", body.clone()).await;
        assert_eq!(answer.faults(), [expected], "{body}");
    }
    let answer = create(&server, component("bare")).await;
    let id = answer.expect(201)["id"].as_str().unwrap().to_owned();
    assert_eq!(answer.headers["location"], format!("/reactor-formulas/{id}"));
    let path = format!("/reactor-formulas/{id}/component");
    let large = vec![0; (32 << 20) + 1];
    upload(&server, &path, &large).await.expect(413);
    upload(&server, &path, b"").await.expect(422);
    assert_eq!(server.management.get(&path).await.bytes, component("bare"));
}

#[tokio::test(flavor = "multi_thread")]
async fn formulas_are_governed_by_the_reactor_permissions() {
    let server = TestServer::start().await;
    let id = guests::formula(&server, "bare", json!({})).await;
    let path = format!("/reactor-formulas/{id}");
    let bare = STANDARD.encode(component("bare"));
    let body = json!({"name": "f", "component": bare});
    // Each row: who holds this permission alone, and the statuses of read, create, update, delete.
    for (permission, statuses) in [
        ("reactor:read", [200, 403, 403, 403]),
        ("reactor:create", [403, 201, 403, 403]),
        ("reactor:update", [403, 403, 200, 403]),
        ("application:read", [403, 403, 403, 403]),
        ("reactor:delete", [403, 403, 403, 204]),
    ] {
        let client = server.application("management", &[permission], json!([])).await;
        let [read, create, update, delete] = statuses;
        for path in [path.clone(), format!("{path}/component"), "/reactor-formulas".to_owned()] {
            assert_eq!(client.get(&path).await.status, read, "{permission} {path}");
        }
        let made = client.post("/reactor-formulas", body.clone()).await;
        assert_eq!(made.status, create, "{permission}");
        let put = client.put(&path, json!({"name": "f"})).await;
        assert_eq!(put.status, update, "{permission}");
        assert_eq!(client.delete(&path).await.status, delete, "{permission}");
    }
    // A private application holds none of them.
    server.private.get("/reactor-formulas").await.expect(403);
}

#[tokio::test(flavor = "multi_thread")]
async fn pages_go_on_from_a_tenants_own_formulas_to_the_official_ones() {
    let server = TestServer::start().await;
    let mut own = Vec::new();
    for _ in 0..4 {
        own.insert(0, guests::formula(&server, "bare", json!({})).await);
        server.clock.advance_ms(1);
    }
    let row = async |query: &str| -> Vec<String> {
        let page = server.management.get(&format!("/reactor-formulas?{query}")).await.expect(200);
        let ids = page["data"].as_array().unwrap().iter().map(|formula| &formula["id"]);
        ids.map(|id| id.as_str().unwrap().to_owned()).collect()
    };
    let all = row("name=*&size=100").await;
    assert_eq!((&all[..4], all.len()), (&own[..], 4 + OFFICIAL));
    assert_eq!(row("size=100").await, all);
    // The last own formula ends a page, stands within one, or is alone on one.
    for size in 1..=5 + OFFICIAL {
        let path = format!("/reactor-formulas?size={size}");
        let (mut seen, mut next) = (Vec::new(), String::new());
        for number in 1_usize.. {
            let page = server.management.get(&format!("{path}{next}")).await.expect(200);
            let pagination = &page["pagination"];
            assert_eq!(pagination["total_items"], 4 + OFFICIAL, "{size} {number}");
            assert_eq!(pagination["page_number"], number, "{size}");
            let numbered = server.management.get(&format!("{path}&page={number}")).await;
            assert_eq!(numbered.expect(200), page, "{size} {number}");
            let ids = page["data"].as_array().unwrap().iter().map(|formula| &formula["id"]);
            seen.extend(ids.map(|id| id.as_str().unwrap().to_owned()));
            match pagination["next"].as_str() {
                Some(cursor) => next = format!("&start={cursor}"),
                None => break,
            }
        }
        assert_eq!(seen, all, "{size}");
        let beyond = server.management.get(&format!("{path}&page=99")).await.expect(200);
        assert_eq!(
            (&beyond["data"], &beyond["pagination"]["total_items"]),
            (&json!([]), &json!(4 + OFFICIAL))
        );
    }
    let official = &all[5];
    let some = format!("id={official}&id={}&id={}", own[1], own[3]);
    assert_eq!(row(&some).await, [own[1].as_str(), &own[3], official]);
    assert_eq!(row(&format!("{some}&size=2&page=2")).await, [official.as_str()]);
    assert_eq!(row(&format!("{some}&name=bare")).await, [own[1].as_str(), &own[3]]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_loses_a_race_is_made_anew() {
    let server = TestServer::start().await;
    let id = guests::formula(&server, "bare", json!({})).await;
    let path = format!("/reactor-formulas/{id}");
    for round in 0..10 {
        let [first, second] = ["a", "b"].map(|name| json!({"name": format!("{name} {round}")}));
        let (first, second) =
            tokio::join!(server.management.put(&path, first), server.management.put(&path, second));
        // Of two, one loses at most once.
        first.expect(200);
        second.expect(200);
    }
}
