//! The console when a key ends while something is written: that stays, is shown as far as another key may see what it is
//! written to, and is sent with another key.

use serde_json::json;

use crate::console_sending;
use crate::support::browser::Browser;
use crate::support::{Client, TestServer};

const ENDED: &str = "opens nothing any more.";
const KEPT: &str = "What you wrote is kept in this tab";

fn base(server: &TestServer) -> String {
    format!("http://{}", server.address())
}

fn key(client: &Client) -> &str {
    client.key.as_deref().unwrap()
}

/// A private application that is to end: its path, and a client of it.
async fn ending(server: &TestServer, permissions: &[&str]) -> (String, Client) {
    let client = server.application("private", permissions, json!([])).await;
    let own = client.get("/applications/key").await.expect(200);
    (format!("/applications/{}", own["id"].as_str().unwrap()), client)
}

/// Adds a key in the dialog that asks for one.
fn add(browser: &mut Browser, key: &str) {
    browser.wait("document.querySelector('dialog')?.open");
    browser.wait("document.activeElement === t.field('API key')");
    browser.type_text(key);
    browser.press("Enter");
}

/// Everything that can be written in: its page, and a field of it.
async fn forms(server: &TestServer) -> Vec<(String, &'static str)> {
    let saved = console_sending::forms(server).await.into_iter();
    let mut forms: Vec<_> = saved.map(|form| (form.page, form.field)).collect();
    let reactors = forms.iter().filter_map(|(page, _)| page.strip_prefix("reactors/edit/"));
    let runs: Vec<_> = reactors.map(|id| (format!("reactors/of/{id}"), "Arguments")).collect();
    forms.extend(runs);
    forms
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_is_there_after_a_key_that_it_does_not_need_has_ended() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    for (page, field) in forms(&server).await {
        let (path, ending) = ending(&server, &["token:read"]).await;
        let keys = [&server.management, &server.private, &ending].map(key);
        browser.sign_in(&base(&server), &keys);
        browser.visit(&page);
        browser.fill(field, "half");
        server.management.delete(&path).await.expect(204);
        browser.eval("document.getElementById('told').textContent = '', true");
        browser.click("Refresh");
        browser.wait_for(ENDED);
        browser.wait("document.getElementById('told').textContent.trim() === 'Read anew'");
        browser.wait(&format!("t.field('{field}')?.value === 'half'"));
        assert!(browser.asks_before_the_end(), "{page}");
        browser.leave_for("containers");
        assert!(!browser.asks_before_the_end(), "{page}");
        // What was left is not there again.
        browser.visit(&page);
        browser.wait(&format!("t.field('{field}') && t.field('{field}').value !== 'half'"));
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Writes a new token with the only key of the tab, which ends.
async fn write_with_a_key_that_ends(browser: &mut Browser, server: &TestServer) {
    let (path, ending) = ending(server, &["token:create", "token:read"]).await;
    browser.sign_in(&base(server), &[key(&ending)]);
    browser.visit("tokens/new");
    browser.fill("Data", "half");
    server.management.delete(&path).await.expect(204);
    browser.click("Refresh");
    browser.heading("Sign in");
    browser.wait_for(KEPT);
    assert!(browser.asks_before_the_end());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_written_waits_for_the_next_key_where_the_last_one_has_ended() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    write_with_a_key_that_ends(&mut browser, &server).await;
    // Whoever goes elsewhere meanwhile comes to it first.
    browser.eval("location.hash = '#/tokens', true");
    browser.fill("API key", key(&server.private));
    browser.press("Enter");
    browser.wait("t.field('Data')?.value === 'half' && location.hash === '#/tokens/new'");
    browser.click("Create");
    browser.wait_for("The token is made:");
    assert!(!browser.asks_before_the_end());

    write_with_a_key_that_ends(&mut browser, &server).await;
    browser.click("Drop it");
    browser.wait("document.activeElement === t.field('API key')");
    assert!(!browser.asks_before_the_end());
    browser.type_text(key(&server.private));
    browser.press("Enter");
    browser.wait("t.field('Data')?.value === ''");

    // It is not for another tenant.
    write_with_a_key_that_ends(&mut browser, &server).await;
    let other = server.other_tenant().await;
    browser.fill("API key", key(&other));
    browser.press("Enter");
    browser.wait_for("No key in this tab holds token:create.");
    assert!(!browser.asks_before_the_end());
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_key_is_added_from_where_a_form_says_that_its_own_opens_nothing() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    let token = json!({"id": "one", "type": "token", "data": "value", "metadata": {"k": "v"}});
    server.private.post("/tokens", token).await.expect(201);
    let formula = json!({"name": "echo", "code": "module.exports = async ({ args }) => ({ raw: { args } });"});
    let formula = server.management.post("/reactor-formulas", formula).await.expect(201);
    let reactor = json!({"name": "echoes", "configuration": {}, "formula": {"id": formula["id"]}});
    let reactor = server.management.post("/reactors", reactor).await.expect(201);
    let rights = ["token:create", "token:read", "token:update", "token:use"];
    for (page, field, written, button, done) in [
        (
            "tokens/new".to_owned(),
            "Data",
            "mine",
            "Create",
            "t.text().includes('The token is made:')",
        ),
        (
            "tokens/edit/one".to_owned(),
            "Value 1",
            "mine",
            "Save",
            "t.text().includes('The token is changed.')",
        ),
        (
            format!("reactors/of/{}", reactor["id"].as_str().unwrap()),
            "Arguments",
            r#"{"a":1}"#,
            "Run",
            "document.querySelector('pre.result')",
        ),
    ] {
        let (path, ending) = ending(&server, &rights).await;
        browser.sign_in(&base(&server), &[key(&ending)]);
        browser.visit(&page);
        browser.fill(field, written);
        server.management.delete(&path).await.expect(204);
        browser.click(button);
        browser.click("Add another key");
        add(&mut browser, "key_prv_00000000000000000000000000000000");
        browser.wait("document.querySelector('dialog .problem')");
        add(&mut browser, key(&server.private));
        browser.wait("!document.querySelector('dialog')");
        // What the tab holds no more is asked for nothing.
        browser.wait_for(ENDED);
        browser.wait("document.querySelectorAll('.pages .keys span').length === 1");
        browser.wait(&format!("t.field('{field}')?.value === {}", json!(written)));
        assert!(browser.asks_before_the_end(), "{page}");
        browser.click(button);
        browser.wait(done);
        assert!(!browser.asks_before_the_end(), "{page}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_no_other_key_may_see_is_hidden_until_one_may() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    let token = json!({"id": "one", "type": "token", "data": "value", "metadata": {"k": "v"}});
    server.private.post("/tokens", token).await.expect(201);
    let rules = json!([{"description": "", "priority": 1, "container": "/pci/", "transform": "mask",
        "permissions": ["token:read", "token:update"]}]);
    let narrow = server.application("private", &[], rules).await;
    let rights = ["token:create", "token:read", "token:update"];
    for (page, field, said) in [
        ("tokens/edit/one", "Value 1", KEPT),
        ("tokens/new", "Data", "No key in this tab holds token:create."),
    ] {
        let (path, ending) = ending(&server, &rights).await;
        browser.sign_in(&base(&server), &[key(&narrow), key(&ending)]);
        browser.visit(page);
        browser.fill(field, "mine");
        server.management.delete(&path).await.expect(204);
        browser.click("Refresh");
        browser.wait_for(ENDED);
        browser.wait_for(said);
        assert_eq!(browser.eval(&format!("t.field('{field}') === undefined")), true, "{page}");
        assert!(browser.asks_before_the_end(), "{page}");
        browser.click("Add a key");
        add(&mut browser, key(&server.private));
        browser.wait(&format!("t.field('{field}')?.value === 'mine'"));
        assert_eq!(browser.eval("location.hash"), format!("#/{page}"));
        browser.leave_for("containers");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_saved_while_a_key_ends_is_told_and_written_no_more() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    let (path, ending) = ending(&server, &["token:read"]).await;
    browser.sign_in(&base(&server), &[key(&server.private), key(&ending)]);
    browser.watch_requests();
    browser.visit("tokens/new");
    browser.fill("Data", "mine");
    browser.hold("POST /tokens");
    browser.click("Create");
    browser.until_held();
    server.management.delete(&path).await.expect(204);
    browser.click("Refresh");
    browser.wait_for(ENDED);
    assert!(browser.asks_before_the_end());
    browser.let_go();
    browser.wait_for("The new token is saved.");
    browser.wait("t.field('Data')?.value === ''");
    assert!(!browser.asks_before_the_end());
    let made = server.private.get("/tokens").await.expect(200);
    assert_eq!(made["pagination"]["total_items"], 1);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
