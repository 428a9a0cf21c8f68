//! Keys that are made in the console: the server tells each once, and the console keeps it in sight until somebody says that
//! it is kept, whatever becomes of the keys that the tab is signed in with.

use serde_json::{Value, json};

use crate::support::browser::Browser;
use crate::support::{Client, TestServer};

/// The new key, where it is shown.
const SHOWN: &str = "document.querySelector('.good-news code')?.innerText";
const RIGHTS: [&str; 4] =
    ["application:create", "application:read", "application:update", "application:delete"];

/// Makes an application on its page, and waits for its key if it is to come.
fn make(browser: &mut Browser, name: &str) {
    browser.write_application(name);
    browser.click("Create");
}

fn shown(browser: &mut Browser) -> String {
    browser.wait(SHOWN);
    browser.eval(SHOWN).as_str().unwrap().to_owned()
}

/// The id of another management application, and its key.
async fn other(server: &TestServer, rights: &[&str]) -> (String, String) {
    let client = server.application("management", rights, json!([])).await;
    let own = client.get("/applications/key").await.expect(200);
    (own["id"].as_str().unwrap().to_owned(), client.key.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tab_goes_on_with_the_new_key_of_its_own_application() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    let (id, old) = other(&server, &RIGHTS).await;
    browser.sign_in(&format!("http://{}", server.address()), &[&old]);
    browser.visit(&format!("applications/of/{id}"));
    browser.click("New key");
    browser.agree();
    let key = shown(&mut browser);
    server.client(&old).get("/applications/key").await.expect(401);
    server.client(&key).get("/applications/key").await.expect(200);

    browser.eval("document.getElementById('told').textContent = '', true");
    browser.click("Refresh");
    browser.wait("document.getElementById('told').textContent.trim() === 'Read anew'");
    assert_eq!(shown(&mut browser), key);
    assert_eq!(browser.eval("document.querySelector('.notice')"), Value::Null);
    assert!(browser.asks_before_the_end());
    browser.click("I have kept it");
    browser.visit("applications");
    browser.wait("document.querySelector('tbody tr')");
    assert_eq!(browser.eval(SHOWN), Value::Null);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_nobody_kept_outlives_the_one_it_was_made_with() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    let base = format!("http://{}", server.address());
    let (id, own) = other(&server, &RIGHTS).await;
    browser.sign_in(&base, &[&own, server.private.key.as_deref().unwrap()]);
    make(&mut browser, "desk");
    let key = shown(&mut browser);
    server.management.delete(&format!("/applications/{id}")).await.expect(204);
    browser.click("Refresh");
    browser.wait_for("opens nothing any more.");
    browser.wait_for("No key in this tab holds application:read.");
    assert_eq!(shown(&mut browser), key);
    assert!(browser.asks_before_the_end());
    browser.click("I have kept it");
    browser.wait("!t.named('button', 'I have kept it')");

    // Also if no other one is left: then it stands where the next one is asked for.
    let (id, own) = other(&server, &RIGHTS).await;
    browser.sign_in(&base, &[&own]);
    make(&mut browser, "till");
    let key = shown(&mut browser);
    server.management.delete(&format!("/applications/{id}")).await.expect(204);
    browser.click("Refresh");
    browser.wait("document.querySelector('h1')?.innerText === 'Sign in'");
    assert_eq!(shown(&mut browser), key);
    assert!(browser.asks_before_the_end());
    browser.fill("API key", server.management.key.as_deref().unwrap());
    browser.press("Enter");
    browser.wait_for("Your access");
    assert_eq!(shown(&mut browser), key);
    browser.click("I have kept it");
    browser.wait("!t.named('button', 'I have kept it')");
    browser.visit("applications");
    assert!(!browser.asks_before_the_end());
    browser.visit("keys");
    assert_eq!(browser.eval(SHOWN), Value::Null);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn forgetting_a_key_forgets_none_that_nobody_kept() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    browser.hold("POST /applications");
    make(&mut browser, "desk");
    browser.until_held();
    browser.leave_for("containers");
    browser.let_go();
    browser.wait_for("“desk” is saved.");
    browser.visit("keys");
    let key = shown(&mut browser);
    let forget = "t.named('button', 'Forget this key').click(), true";
    browser.eval(forget);
    browser.wait("document.querySelectorAll('.pages .keys span').length === 1");
    assert_eq!(shown(&mut browser), key);
    // Without the last key of the tab nobody is signed in.
    browser.eval(forget);
    browser.wait_for("Leave without the key?");
    browser.press("Escape");
    browser.wait("!document.querySelector('dialog')");
    assert_eq!(shown(&mut browser), key);
    browser.eval(forget);
    browser.agree();
    browser.wait("document.querySelector('h1')?.innerText === 'Sign in'");
    assert_eq!(browser.eval(SHOWN), Value::Null);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_is_shown_to_a_maker_who_may_not_read_its_application() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    let (_, own) = other(&server, &["application:create"]).await;
    browser.sign_in(&format!("http://{}", server.address()), &[&own]);
    make(&mut browser, "desk");
    let key = shown(&mut browser);
    assert_eq!(browser.eval("document.querySelector('h1').innerText"), "desk");
    let made = server.client(&key).get("/applications/key").await.expect(200);
    assert_eq!(made["name"], "desk");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_comes_after_the_one_it_replaces_was_found_to_have_ended_is_not_lost() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    let (id, own) = other(&server, &RIGHTS).await;
    let base = format!("http://{}", server.address());
    browser.sign_in(&base, &[&own, server.private.key.as_deref().unwrap()]);
    browser.watch_requests();
    browser.visit(&format!("applications/of/{id}"));
    browser.click("New key");
    browser.hold(&format!("POST /applications/{id}/regenerate"));
    browser.wait("document.querySelector('dialog')?.open");
    browser.press("Tab");
    browser.press("Enter");
    browser.until_held();
    browser.click("Cancel");
    browser.visit("keys");
    browser.wait_for("opens nothing any more.");
    assert_eq!(browser.eval(SHOWN), Value::Null);
    browser.let_go();
    let key = shown(&mut browser);
    server.client(&key).get("/applications/key").await.expect(200);
    browser.wait_for("is made.");
    assert!(browser.asks_before_the_end());
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Adds a key that the server is slow to know, and does something meanwhile that leaves nobody signed in.
fn leave_while_adding(browser: &mut Browser, key: &str, leave: &str, told: &str) {
    browser.wait("t.field('Another API key')");
    browser.hold("GET /applications/key");
    browser.fill("Another API key", key);
    browser.press("Enter");
    browser.until_held();
    browser.click(leave);
    browser.heading("Sign in");
    browser.let_go();
    assert_eq!(browser.eval("document.querySelector('.pages') === null"), true, "{leave}");
    assert_eq!(browser.eval("document.getElementById('told').textContent.trim()"), told);
    browser.wait("document.activeElement === document.querySelector('h1')");
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_signed_out_is_not_signed_in_by_a_key_that_was_being_added() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    let key = server.private.key.clone().unwrap();
    leave_while_adding(&mut browser, &key, "Sign out", "Signed out");
    // Without its last key, too, nobody is signed in.
    browser.fill("API key", &key);
    browser.press("Enter");
    let own = server.private.get("/applications/key").await.expect(200);
    let told = format!("The key of {} is forgotten", own["name"].as_str().unwrap());
    leave_while_adding(&mut browser, &key, "Forget this key", &told);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

const NUMBER: &str = "4242424242424242";
const MASKED: &str = "XXXXXXXXXXXX4242";
const REVEALED: &str = "document.querySelector('.revealed')";

/// A rule on everything.
fn rule(transform: &str) -> Value {
    json!([{"description": "", "priority": 1, "container": "/", "transform": transform,
        "permissions": ["token:read", "token:search"]}])
}

/// Waits for what is shown of a token's data, and how it is called; then hides it.
fn shows(browser: &mut Browser, data: &str, label: &str) {
    browser.wait(&format!("{REVEALED}?.innerText === {}", json!(data)));
    assert_eq!(browser.eval(&format!("{REVEALED}.ariaLabel")), label);
    let told = "document.getElementById('told').textContent.trim()";
    browser.wait(&format!("{told} === {}", json!(format!("{label} is shown"))));
    browser.click("Hide");
    browser.wait(&format!("{told} === {}", json!(format!("{label} is hidden"))));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_revealed_by_the_rules_of_now_and_nothing_else_is_called_plaintext() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    let token = json!({"id": "a-number", "type": "card_number", "data": NUMBER});
    server.private.post("/tokens", token).await.expect(201);
    let body = json!({"name": "clerk", "type": "private", "rules": rule("reveal")});
    let made = server.management.post("/applications", body).await.expect(201);
    let path = format!("/applications/{}", made["id"].as_str().unwrap());
    let masking = server.application("private", &["token:read"], json!([])).await;
    let keys = [made["key"].as_str().unwrap(), masking.key.as_deref().unwrap()];
    browser.sign_in(&format!("http://{}", server.address()), &keys);
    browser.watch_requests();
    browser.visit("tokens/of/a-number");
    browser.click("Reveal");
    shows(&mut browser, NUMBER, "Plaintext");

    // What the rules are by now is not known.
    browser.refuse("/applications/key", 503);
    browser.click("Reveal");
    browser.wait_for("Refused by 503");
    assert_eq!(browser.eval(REVEALED), Value::Null);
    browser.refuse("", 0);
    // Another rule decides by now.
    let body = json!({"name": "clerk", "rules": rule("mask")});
    server.management.put(&path, body).await.expect(200);
    browser.eval("later.asked = [], true");
    browser.click("Reveal");
    browser.wait_for("clerk may not see this token in plaintext any more.");
    browser.wait_for("What clerk may do has changed.");
    browser.wait("document.activeElement === document.querySelector('h1')");
    assert_eq!(browser.eval("later.asked.includes('GET /tokens/a-number')"), false);
    assert_eq!(browser.eval(REVEALED), Value::Null);

    // The token comes to lie where another rule decides.
    let rules = json!([{"description": "", "priority": 1, "container": "/pci/",
        "transform": "reveal", "permissions": ["token:read"]}]);
    let body = json!({"name": "clerk", "permissions": ["token:read"], "rules": rules});
    server.management.put(&path, body).await.expect(200);
    browser.visit("keys");
    browser.visit("tokens/of/a-number");
    let moved = json!({"containers": ["/elsewhere/"]});
    server.private.patch("/tokens/a-number", moved).await.expect(200);
    browser.click("Reveal");
    shows(&mut browser, MASKED, "Data as clerk sees it");

    // The key has ended: what another one sees is shown.
    let body = json!({"name": "clerk", "rules": rule("reveal")});
    server.management.put(&path, body).await.expect(200);
    browser.visit("keys");
    browser.visit("tokens/of/a-number");
    server.management.post(&format!("{path}/regenerate"), json!({})).await.expect(200);
    browser.click("Reveal");
    browser.wait_for("The key of clerk opens nothing any more.");
    browser.wait_for("No key in this tab may see it in plaintext.");
    browser.wait_for(MASKED);
    browser.heading("Token a-number");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// The key of a session with these rules.
async fn session(public: &Client, revealing: &Client, rules: Value) -> String {
    let opened = public.post("/sessions", json!({})).await.expect(201);
    let grant = json!({"nonce": opened["nonce"], "rules": rules});
    revealing.post("/sessions/authorize", grant).await.expect(200);
    opened["session_key"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_session_sees_is_called_that() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    let token = json!({"id": "a-number", "type": "card_number", "data": NUMBER});
    server.private.post("/tokens", token).await.expect(201);
    let revealing = server.revealing().await;
    let public = server.application("public", &["token:create"], json!([])).await;
    let base = format!("http://{}", server.address());
    for (transform, seen) in [("reveal", Some(NUMBER)), ("mask", Some(MASKED)), ("redact", None)] {
        let session = session(&public, &revealing, rule(transform)).await;
        browser.sign_in(&base, &[&session]);
        browser.visit("tokens/of/a-number");
        browser.wait_for("which may see it masked; that is logged.");
        browser.click("Reveal");
        match seen {
            Some(data) => shows(&mut browser, data, "Data as this session sees it"),
            None => browser.wait_for("It was read, and this session sees no data of it."),
        }
        assert_eq!(browser.eval(REVEALED), Value::Null, "{transform}");
        // A key that is known to show it is taken before a session.
        browser.sign_in(&base, &[&session, revealing.key.as_deref().unwrap()]);
        browser.visit("tokens/of/a-number");
        browser.click("Reveal");
        shows(&mut browser, NUMBER, "Plaintext");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_of_two_tenants_are_not_in_one_tab() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    let other = server.other_tenant().await.key.unwrap();
    browser.sign_in_to(&server);
    browser.fill("Another API key", &other);
    browser.press("Enter");
    browser.wait_for("This key is of another tenant: sign out first.");
    browser.wait("document.activeElement.ariaInvalid === 'true'");
    assert_eq!(browser.texts(".pages .keys span").len(), 2);
    browser.click("Sign out");
    browser.fill("API key", &other);
    browser.press("Enter");
    browser.wait_for("Your access");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_takes_nothing_from_what_other_keys_may_do() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    let token = json!({"id": "a-number", "type": "card_number", "data": NUMBER});
    server.private.post("/tokens", token).await.expect(201);
    let revealing = server.revealing().await;
    let public = server.application("public", &["token:create"], json!([])).await;
    let rules = json!([{"description": "", "priority": 1, "container": "/", "transform": "mask",
        "permissions": ["token:read"]}]);
    let session = &*session(&public, &revealing, rules).await;
    let base = format!("http://{}", server.address());
    let search = |browser: &mut Browser| {
        browser.fill("Search", "type:card_number");
        browser.press("Enter");
    };
    // It may read and not search: what there is is listed, and a query is refused.
    browser.sign_in(&base, &[session]);
    browser.visit("tokens");
    browser.wait_for("a-number");
    search(&mut browser);
    browser.wait("document.querySelector('main .problem')");

    let reading = server.application("private", &["token:read"], json!([])).await;
    let own = server.private.get("/applications/key").await.expect(200);
    let seen = |name: &str| format!("as {name} sees them");
    browser.sign_in(&base, &[session, reading.key.as_deref().unwrap()]);
    browser.visit("tokens");
    browser.wait_for(&seen("test"));
    // The key that may search is asked before the session, which was there first.
    browser.sign_in(&base, &[session, server.private.key.as_deref().unwrap()]);
    browser.visit("tokens");
    search(&mut browser);
    browser.wait("document.querySelector('tbody tr')");
    browser.wait_for(&seen(own["name"].as_str().unwrap()));
    browser.visit("containers");
    browser.wait_for("pci/");
    assert_eq!(browser.eval("document.querySelector('main .problem')"), Value::Null);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_page_that_a_browser_brings_back_holds_no_key() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    let token = json!({"id": "a-number", "type": "card_number", "data": NUMBER});
    server.private.post("/tokens", token).await.expect(201);
    browser.sign_in_to(&server);
    browser.visit("tokens/of/a-number");
    let shown = "(kind, persisted) => dispatchEvent(new PageTransitionEvent(kind, { persisted }))";
    browser.eval(&format!("({shown})('pageshow', false)"));
    browser.wait_for(MASKED);
    for kind in ["pagehide", "pageshow"] {
        browser.eval(&format!("({shown})('{kind}', true)"));
        browser.heading("Sign in");
        assert_eq!(browser.eval(&format!("t.text().includes('{MASKED}')")), false, "{kind}");
        browser.fill("API key", server.private.key.as_deref().unwrap());
        browser.press("Enter");
        browser.wait("document.querySelectorAll('.pages .keys span').length === 1");
        browser.wait_for(MASKED);
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
