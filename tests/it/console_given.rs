//! What the console sends is what its forms show, what it shows after is what may be seen by now, and nobody's choice of
//! another kind or place is an end of what was written.

use serde_json::{Value, json};

use crate::support::TestServer;
use crate::support::browser::Browser;

const NUMBER: &str = "4242424242424242";
const SCRIPT: &str = "module.exports = async ({ args }) => ({ raw: { seen: args.text } });";

fn id(entity: &Value) -> String {
    entity["id"].as_str().unwrap().to_owned()
}

/// A formula that declares texts of these names; gives its id.
async fn formula(server: &TestServer, name: &str, declared: &[&str]) -> String {
    let entry = |name: &&str| json!({"name": name, "type": "string", "optional": true});
    let configuration: Vec<Value> = declared.iter().map(entry).collect();
    let body = json!({"name": name, "code": SCRIPT, "configuration": configuration});
    id(&server.management.post("/reactor-formulas", body).await.expect(201))
}

async fn reactor(server: &TestServer, formula: &str, configuration: Value) -> String {
    let body = json!({"name": "ours", "formula": {"id": formula}, "configuration": configuration});
    id(&server.management.post("/reactors", body).await.expect(201))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_change_gives_back_is_hidden_by_the_rules_of_now() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    let rules = |transform: &str| {
        let permissions = ["token:create", "token:read", "token:update"];
        json!([{"description": "", "priority": 1, "container": "/pci/", "transform": transform, "permissions": permissions}])
    };
    let body = json!({"name": "desk", "type": "private", "rules": rules("mask")});
    let desk = server.management.post("/applications", body).await.expect(201);
    let client = server.client(desk["key"].as_str().unwrap());
    let card = json!({"id": "a-card", "type": "card", "data": {"number": NUMBER}});
    client.post("/tokens", card).await.expect(201);
    browser.sign_in(&format!("http://{}", server.address()), &[client.key.as_deref().unwrap()]);
    browser.visit("tokens/edit/a-card");
    browser.wait("t.field('Change of the data')");
    let body = json!({"name": "desk", "rules": rules("reveal")});
    server.management.put(&format!("/applications/{}", id(&desk)), body).await.expect(200);
    browser.fill("Change of the data", r#"{"expiration_month": 5}"#);
    browser.click("Save");
    browser.wait_for("The token is changed.");
    browser.wait_for("What has changed");
    let page = browser.eval("document.body.innerHTML");
    assert!(!page.as_str().unwrap().contains(NUMBER));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_that_somebody_else_has_changed_is_not_written_over_without_a_question() {
    let server = TestServer::start().await;
    let token = json!({"id": "moved", "type": "token", "data": 1, "containers": ["/general/"]});
    server.private.post("/tokens", token).await.expect(201);
    let Some(mut browser) = Browser::watching(&server) else { return };
    let containers =
        async || server.private.get("/tokens/moved").await.expect(200)["containers"].clone();
    browser.visit("tokens/edit/moved");
    browser.wait("t.field('Containers')");
    let move_it = json!({"containers": ["/pci/"]});
    server.private.patch("/tokens/moved", move_it).await.expect(200);
    browser.fill("Containers", "/general/ /extra/");
    browser.click("Save");
    browser.wait_for("Somebody changed this since you opened it.");
    assert_eq!(containers().await, json!(["/pci/"]));
    browser.click("Save mine over it");
    browser.wait_for("The token is changed.");
    assert_eq!(containers().await, json!(["/general/", "/extra/"]));
    // What nobody else has changed is not asked about, nor what is not written.
    browser.visit("tokens/edit/moved");
    browser.wait("t.field('Containers')?.value === '/general/ /extra/'");
    server.private.patch("/tokens/moved", json!({"metadata": {"a": "b"}})).await.expect(200);
    browser.fill("Containers", "/extra/");
    browser.click("Save");
    browser.wait_for("The token is changed.");
    assert_eq!(containers().await, json!(["/extra/"]));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// The rows of the table of this name, their cells apart by bars.
fn rows(browser: &mut Browser, name: &str) -> Value {
    browser.eval(&format!(
        "[...document.querySelectorAll('[aria-label=\"{name}\"] tbody tr')].map((row) =>
            [...row.children].map((cell) => cell.innerText.replace(/\\s+/g, ' ').trim()).join(' | '))"
    ))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_somebody_else_has_changed_of_a_token_is_not_written_over_without_a_question() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    let parts = json!({"a": "{{ data.a }}", "b": "{{ data.b }}"});
    for (id, data, mask) in
        [("whole", json!("value"), json!("{{ data }}")), ("parts", json!({"a": 1, "b": 2}), parts)]
    {
        let token = json!({"id": id, "type": "token", "data": data, "mask": mask,
            "metadata": {"k": "orig", "o": "1"}});
        server.private.post("/tokens", token).await.expect(201);
    }
    browser.visit("tokens/edit/whole");
    browser.wait("t.field('Value 1')?.value === 'orig'");
    let theirs = json!({"metadata": {"k": "theirs"}, "mask": "theirs",
        "expires_at": "2039-01-01T00:00:00Z"});
    server.private.patch("/tokens/whole", theirs).await.expect(200);
    browser.fill("Value 1", "mine");
    browser.set("Mask", "mine");
    browser.click("Save");
    browser.wait_for("Somebody changed this since you opened it.");
    let different = ["Metadata k | orig | theirs | mine", "Mask | {{ data }} | theirs | mine"];
    assert_eq!(rows(&mut browser, "What is different"), json!(different));
    let kept = server.private.get("/tokens/whole").await.expect(200);
    assert_eq!((&kept["mask"], &kept["metadata"]["k"]), (&json!("theirs"), &json!("theirs")));
    browser.click("Save mine over it");
    browser.wait_for("The token is changed.");
    // What is told is this change, and none of theirs.
    let changed = [
        r#"Metadata | { "k": "theirs", "o": "1" } | { "k": "mine", "o": "1" }"#,
        "Mask | theirs | mine",
    ];
    assert_eq!(rows(&mut browser, "What has changed"), json!(changed));
    let kept = server.private.get("/tokens/whole").await.expect(200);
    assert_eq!(kept["metadata"], json!({"k": "mine", "o": "1"}));
    assert!(kept["expires_at"].as_str().unwrap().starts_with("2039-01-01"), "{kept}");

    // A mask in place of that of which a part was written.
    browser.visit("tokens/edit/parts");
    browser.wait("t.field('Value 1')?.value === 'orig'");
    server.private.patch("/tokens/parts", json!({"mask": "theirs"})).await.expect(200);
    let mine = json!({"a": "mine", "b": "{{ data.b }}"});
    browser.set("Mask", &mine.to_string());
    browser.click("Save");
    browser.wait_for("Somebody changed this since you opened it.");
    let different = ["Mask a | {{ data.a }} | theirs | mine"];
    assert_eq!(rows(&mut browser, "What is different"), json!(different));
    browser.click("Save mine over it");
    browser.wait_for("The token is changed.");
    assert_eq!(server.private.get("/tokens/parts").await.expect(200)["mask"], mine);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_are_sent_that_the_formula_declares() {
    let server = TestServer::start().await;
    let first = formula(&server, "first", &["n", "secret"]).await;
    let second = formula(&server, "second", &[]).await;
    let there = reactor(&server, &first, json!({"n": "1", "secret": "x"})).await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    browser.visit("reactors/new");
    browser.wait("t.field('Formula')");
    browser.fill("Name", "switched");
    browser.choose("Formula", &first);
    browser.fill("secret (optional)", "typed for the first");
    browser.choose("Formula", &second);
    browser.wait("!t.field('secret (optional)')");
    browser.click("Create");
    browser.heading("switched");
    let listed = server.management.get("/reactors?name=switched").await.expect(200);
    assert_eq!(listed["data"][0]["configuration"], json!({}));

    let entry = json!({"name": "n", "type": "string", "optional": true});
    let body = json!({"name": "first", "code": SCRIPT, "configuration": [entry]});
    server.management.put(&format!("/reactor-formulas/{first}"), body).await.expect(200);
    browser.visit(&format!("reactors/edit/{there}"));
    browser.wait_for("Its formula does not declare secret any more: saving drops that.");
    browser.fill("Name", "renamed");
    browser.click("Save");
    browser.heading("renamed");
    let kept = server.management.get(&format!("/reactors/{there}")).await.expect(200);
    assert_eq!((&kept["name"], &kept["configuration"]), (&json!("renamed"), &json!({"n": "1"})));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_passes_over_another_type_keeps_what_was_ticked() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    browser.sign_in_to(&server);
    browser.visit("applications/new");
    browser.fill("Name", "kept");
    browser.click("Add a rule");
    let box_of = |name: &str| {
        format!(
            "[...document.querySelectorAll('fieldset.rule .check')].find((one) => one.innerText.startsWith('{name}'))"
        )
    };
    browser.wait(&box_of("token:delete"));
    browser.eval(&format!("{}.click(), true", box_of("token:delete")));
    for over in ["public", "management"] {
        browser.choose("Type", over);
        browser.wait(&format!("!{}", box_of("token:delete")));
        browser.choose("Type", "private");
        browser.wait(&format!("{}?.querySelector('input').checked", box_of("token:delete")));
    }
    browser.click("Create");
    browser.heading("kept");
    let listed = server.management.get("/applications").await.expect(200);
    let permissions = listed["data"][0]["rules"][0]["permissions"].clone();
    assert_eq!(permissions, json!(["token:create", "token:delete"]), "{listed}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_goes_through_reactors_stays_at_the_choice() {
    let server = TestServer::start().await;
    let of = formula(&server, "f", &[]).await;
    let all = [reactor(&server, &of, json!({})).await, reactor(&server, &of, json!({})).await];
    let Some(mut browser) = Browser::watching(&server) else { return };
    browser.visit("invocations");
    browser.wait("t.field('Reactor')?.options.length === 3");
    browser.eval("t.field('Reactor').focus(), true");
    for passed in 0..2 {
        let before = browser.eval("location.hash");
        browser.press("ArrowDown");
        browser.wait(&format!("location.hash !== {before}"));
        browser.wait(&format!("{}.includes(t.field('Reactor')?.value)", json!(all)));
        browser.wait("location.hash.endsWith(t.field('Reactor').value)");
        browser.wait("!document.querySelector('[aria-busy=true]')");
        assert_eq!(browser.eval("document.activeElement === t.field('Reactor')"), true, "{passed}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_does_not_wait_for_whoever_comes_back() {
    let server = TestServer::start().await;
    let of = formula(&server, "f", &[]).await;
    let one = reactor(&server, &of, json!({})).await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    let page = format!("reactors/of/{one}");
    browser.visit(&page);
    browser.wait("t.field('Arguments')");
    browser.set("Arguments", &json!({"text": NUMBER}).to_string());
    browser.click("Run");
    browser.wait_for("\"seen\"");
    browser.visit("tokens");
    browser.eval("history.back(), true");
    browser.wait("t.field('Arguments')");
    assert_eq!(browser.eval("document.body.innerText.includes('\"seen\"')"), false);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn clear_leaves_no_half_of_a_time() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    browser.visit("logs");
    browser.wait("t.field('From')");
    browser.set("From", "2001-02-03T04:05");
    browser.eval("t.field('From').focus(), true");
    browser.press("Backspace");
    browser.wait("t.field('From').validity.badInput");
    browser.click("Clear");
    browser.wait("!t.field('From').validity.badInput");
    browser.choose("Entity", "application");
    browser.click("Filter");
    browser.wait("location.hash === '#/logs/application'");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
