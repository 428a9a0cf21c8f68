//! `tokamak tenant key`: a tenant that nobody can manage any more gets another management application.

use serde_json::{Value, json};

use crate::support::Client;
use crate::support::binary::{Process, ROOT_KEY};
use crate::support::operator::{done, operate};

const UNKNOWN: &str = "01930000-0000-7000-8000-00000000000f";
/// What belongs to no tenant, the log of the vault itself above all.
const SYSTEM: &str = "00000000-0000-0000-0000-000000000000";

fn parsed(printed: &str) -> Value {
    serde_json::from_str(printed).unwrap()
}

fn text(made: &Value, member: &str) -> String {
    made[member].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_whose_keys_are_all_lost_can_be_managed_again() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let process = Process::serve(data);
    let management = process.management();
    let own = management.get("/applications/key").await.expect(200);
    let tenant = text(&own, "tenant_id");
    let reads = json!([{"priority": 1, "container": "/", "transform": "reveal",
        "permissions": ["token:create", "token:read"]}]);
    let body = json!({"name": "one", "type": "private", "rules": reads});
    let made = management.post("/applications", body).await.expect(201);
    let private = management.with_key(made["key"].as_str().unwrap());
    let token = private.token("token", json!("kept")).await;
    // Its answer is lost on the way.
    let path = format!("/applications/{}/regenerate", text(&own, "id"));
    management.post(&path, json!({})).await.expect(200);
    management.get("/applications").await.expect(401);

    let printed = done(data, None, &["tenant", "key", &tenant]);
    let key = printed.lines().find_map(|line| line.strip_prefix("management key, shown once: "));
    let first = management.with_key(key.unwrap());
    let listed = first.get("/applications").await.expect(200);
    assert_eq!(listed["pagination"]["total_items"], 3);
    assert_eq!(private.get(&format!("/tokens/{token}")).await.expect(200)["data"], "kept");
    let found = first.get("/applications/key").await.expect(200);
    let application = printed.lines().find_map(|line| line.strip_prefix("application: "));
    assert_eq!(found["id"], application.unwrap());
    assert_eq!(found["permissions"], own["permissions"]);
    // The log tells of it as what was typed at the server.
    let path = format!("/logs?entity_type=application&entity_id={}", text(&found, "id"));
    let entries = first.get(&path).await.expect(200);
    let entry = entries["data"].as_array().unwrap().iter().find(|it| it["operation"] == "create");
    let entry = entry.unwrap();
    assert_eq!(entry["actor_type"], "user");
    assert!(entry.get("actor_id").is_none() && !entry.to_string().contains("key_mgt_"), "{entry}");
    assert_eq!(process.terminate(), Some(0));

    // Without a server, too.
    let second = parsed(&done(data, Some(ROOT_KEY), &["tenant", "key", &tenant, "--json"]));
    let process = Process::serve(data);
    let client = Client::new(process.address, Some(&text(&second, "management_key")));
    let found = client.get("/applications/key").await.expect(200);
    assert_eq!(found["id"], second["application_id"]);
    assert_eq!(process.terminate(), Some(0));
}

#[tokio::test(flavor = "multi_thread")]
async fn only_a_tenant_that_is_there_gets_a_key() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path();
    let other = parsed(&done(data, Some(ROOT_KEY), &["tenant", "create", "b", "--json"]));
    let erased = parsed(&done(data, Some(ROOT_KEY), &["tenant", "create", "a", "--json"]));
    let erased = text(&erased, "id");
    done(data, Some(ROOT_KEY), &["tenant", "erase", &erased, "--yes"]);
    let refused = |root: Option<&str>| {
        for id in [erased.as_str(), SYSTEM, UNKNOWN] {
            let (code, out, err) = operate(data, root, &["tenant", "key", id]);
            assert_eq!((code, out.as_str()), (1, ""), "{id}: {err}");
            assert!(err.contains("There is no such tenant."), "{id}: {err}");
        }
        let (code, _, err) = operate(data, root, &["tenant", "key", "x"]);
        assert!(code == 2 && err.contains("ID"), "{err}");
    };
    refused(Some(ROOT_KEY));
    let process = Process::serve(data);
    refused(None);
    // Nothing was made, of others neither.
    let client = Client::new(process.address, Some(&text(&other, "management_key")));
    let listed = client.get("/applications").await.expect(200);
    assert_eq!(listed["pagination"]["total_items"], 1);
    assert_eq!(process.terminate(), Some(0));
}
