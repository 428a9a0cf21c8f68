//! What the console would lose for good: it asks before, also while a page is read anew or a key is still to come, and names
//! all of it.

use serde_json::{Value, json};

use crate::support::TestServer;
use crate::support::browser::Browser;

/// A form that is half written, of an entity: its page, and where the entity is kept.
async fn forms(server: &TestServer) -> Vec<(String, String)> {
    let application =
        json!({"name": "ours", "type": "private", "permissions": ["token:read"], "rules": []});
    let formula = json!({"name": "ours", "code": "module.exports = async () => ({ raw: {} });"});
    let used = server.management.post("/reactor-formulas", formula.clone()).await.expect(201);
    let reactor = json!({"name": "ours", "configuration": {}, "formula": {"id": used["id"]}});
    let mut made = Vec::new();
    for (page, path, body) in [
        ("applications", "/applications", application),
        ("formulas", "/reactor-formulas", formula),
        ("reactors", "/reactors", reactor),
    ] {
        let one = server.management.post(path, body).await.expect(201);
        let id = one["id"].as_str().unwrap();
        made.push((format!("{page}/edit/{id}"), format!("{path}/{id}")));
    }
    made
}

/// Waits for a question that says all of this, and takes it back.
fn is_asked(browser: &mut Browser, texts: &[&str]) {
    browser.wait("document.querySelector('dialog')?.open");
    for text in texts {
        browser
            .wait(&format!("document.querySelector('dialog').innerText.includes({})", json!(text)));
    }
    browser.press("Escape");
    browser.wait("!document.querySelector('dialog')");
}

/// Writes a new application and has it made, of which the answer is kept back.
fn make_slowly(browser: &mut Browser, name: &str) {
    browser.write_application(name);
    browser.hold("POST /applications");
    browser.click("Create");
    browser.until_held();
}

const SIGN_OUT: &str = "t.named('button', 'Sign out').click(), true";
/// The new key, where it is shown.
const SHOWN: &str = "document.querySelector('.good-news code')?.innerText";

#[tokio::test(flavor = "multi_thread")]
async fn what_is_half_written_is_asked_about_while_its_page_is_read_anew() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    for (page, path) in forms(&server).await {
        browser.visit(&page);
        browser.wait("t.field('Name')?.value === 'ours'");
        browser.wait("t.named('button', 'Save')?.ariaDisabled !== 'true'");
        browser.fill("Name", "half");
        browser.eval("document.getElementById('told').textContent = '', true");
        browser.hold(&format!("GET {path}"));
        browser.click("Refresh");
        browser.until_held();
        assert!(browser.asks_before_the_end(), "{page}");
        browser.eval("t.named('a', 'Containers').click(), true");
        is_asked(&mut browser, &["Leave what is not saved?"]);
        browser.wait(&format!("location.hash === '#/{page}'"));
        browser.let_go();
        browser.wait("document.getElementById('told').textContent.trim() === 'Read anew'");
        assert_eq!(browser.eval("t.field('Name').value"), "half", "{page}");

        // What is saved meanwhile is saved, whatever was read before.
        browser.hold(&format!("GET {path}"));
        browser.click("Refresh");
        browser.until_held();
        browser.click("Save");
        browser.heading("half");
        browser.let_go();
        assert_eq!(server.management.get(&path).await.expect(200)["name"], "half", "{page}");
        browser.wait("!document.querySelector('.problem, [aria-busy=true]')");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_still_to_come_is_not_left_without_a_question() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    let own = server.management.key.as_deref().unwrap();
    browser.sign_in(&format!("http://{}", server.address()), &[own]);
    browser.watch_requests();
    make_slowly(&mut browser, "desk");
    assert!(browser.asks_before_the_end(), "of a new application");
    let said = ["Leave without the key?", "“desk”", "being made"];
    browser.eval(SIGN_OUT);
    is_asked(&mut browser, &["Leave all of this?", said[1], said[2], "is being saved"]);
    // Once the page is left, the key is shown when it comes. Without the last key of the tab nobody would see it.
    browser.leave_for("keys");
    browser.eval("t.named('button', 'Forget this key').click(), true");
    is_asked(&mut browser, &said);
    browser.let_go();
    browser.wait(SHOWN);
    browser.click("I have kept it");
    browser.wait("!t.named('button', 'I have kept it')");
    assert!(!browser.asks_before_the_end());

    let found = server.management.get("/applications").await.expect(200);
    let id = found["data"][0]["id"].as_str().unwrap().to_owned();
    browser.visit(&format!("applications/of/{id}"));
    browser.hold(&format!("POST /applications/{id}/regenerate"));
    browser.click("New key");
    browser.agree();
    browser.until_held();
    assert!(browser.asks_before_the_end(), "of an application that had one");
    browser.click("Cancel");
    browser.wait("!document.querySelector('dialog')");
    browser.eval(SIGN_OUT);
    is_asked(&mut browser, &said);
    browser.let_go();
    browser.wait(SHOWN);
    let key = browser.eval(SHOWN);
    server.client(key.as_str().unwrap()).get("/applications/key").await.expect(200);
    browser.click("I have kept it");
    browser.wait("!t.named('button', 'I have kept it')");

    // What is refused makes none.
    browser.visit("containers");
    browser.visit(&format!("applications/of/{id}"));
    browser.refuse(&format!("/applications/{id}/regenerate"), 503);
    browser.click("New key");
    browser.agree();
    browser.wait("document.querySelector('dialog .problem')");
    assert!(!browser.asks_before_the_end());
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn all_that_signing_out_loses_is_named() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    for name in ["desk", "till"] {
        make_slowly(&mut browser, name);
        browser.leave_for("containers");
        browser.let_go();
        browser.wait_for(&format!("“{name}” is saved."));
    }
    browser.eval(SIGN_OUT);
    is_asked(&mut browser, &["“desk”", "“till”"]);
    browser.visit("reactors/new");
    browser.fill("Name", "half");
    browser.eval(SIGN_OUT);
    is_asked(&mut browser, &["“desk”", "“till”", "written in this form"]);
    assert_eq!(browser.eval("t.field('Name').value"), "half");
    assert!(browser.asks_before_the_end());
    // Whoever leaves the form leaves no more than that.
    browser.click("Your access");
    browser.click("Leave");
    browser.heading("Your access");
    browser.wait("document.querySelectorAll('.good-news code').length === 2");
    browser.eval(SIGN_OUT);
    browser.agree();
    browser.heading("Sign in");
    assert_eq!(browser.eval(SHOWN), Value::Null);
    assert!(!browser.asks_before_the_end());
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_its_page_shows_is_named_once() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    make_slowly(&mut browser, "desk");
    browser.let_go();
    browser.heading("desk");
    browser.wait(SHOWN);
    browser.eval(SIGN_OUT);
    browser.wait("document.querySelector('dialog')?.open");
    let named = browser.eval("document.querySelector('dialog').innerText.split('“desk”').length");
    assert_eq!(named, 2);
}

/// Two reactors of one formula, which answers what it is given; gives their ids.
async fn reactors(server: &TestServer) -> [String; 2] {
    let code = "module.exports = async ({ args }) => ({ raw: { args } });";
    let parameters = json!([{"name": "card", "type": "string"}]);
    let formula = json!({"name": "echo", "code": code, "request_parameters": parameters});
    let formula = server.management.post("/reactor-formulas", formula).await.expect(201);
    let mut ids = [String::new(), String::new()];
    for (id, name) in ids.iter_mut().zip(["one", "two"]) {
        let body = json!({"name": name, "configuration": {}, "formula": {"id": formula["id"]}});
        let made = server.management.post("/reactors", body).await.expect(201);
        made["id"].as_str().unwrap().clone_into(id);
    }
    ids
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_that_were_not_run_are_not_left_without_a_question() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    let [one, two] = reactors(&server).await;
    let begun = "t.field('Arguments')?.value.replace(/\\s/g, '') === '{\"card\":\"\"}'";
    let written = r#"{"card": "4242"}"#;
    browser.visit("containers");
    browser.visit(&format!("reactors/of/{one}"));
    browser.wait(begun);
    assert!(!browser.asks_before_the_end(), "nobody has written anything");
    browser.fill("Arguments", written);
    assert!(browser.asks_before_the_end());
    let other = format!("location.hash = '#/reactors/of/{two}', true");
    for leaving in [
        "t.named('a', 'Containers').click(), true",
        "history.back(), true",
        SIGN_OUT,
        other.as_str(),
    ] {
        browser.eval(leaving);
        is_asked(&mut browser, &["Leave what was not run?"]);
        browser.wait(&format!("location.hash === '#/reactors/of/{one}'"));
        assert_eq!(browser.eval("t.field('Arguments').value"), written, "{leaving}");
    }
    // What is refused before it begins was not run.
    browser.fill("Arguments", r#"{"card": "{{ no-such-token }}"}"#);
    browser.click("Run");
    browser.wait("document.querySelector('[aria-label=Result]')");
    assert!(browser.asks_before_the_end());
    browser.eval(&other);
    browser.click("Leave");
    browser.heading("two");
    browser.wait(begun);
    assert!(!browser.asks_before_the_end());
    browser.visit(&format!("reactors/of/{one}"));
    browser.wait(begun);

    browser.fill("Arguments", written);
    browser.click("Run");
    browser.wait("document.querySelector('pre.result')");
    assert!(!browser.asks_before_the_end(), "it was run");
    browser.fill("Arguments", r#"{"card": "another"}"#);
    assert!(browser.asks_before_the_end());
    browser.fill("Arguments", written);
    browser.click("Runs and deliveries");
    browser.heading("Runs");
    // A receiver is written as well.
    browser.visit(&format!("reactors/of/{two}"));
    browser.wait(begun);
    browser.eval("t.named('label', 'Run it later and tell the result as a webhook').click(), true");
    assert!(!browser.asks_before_the_end());
    browser.fill("Address of the receiver", "https://receiver.example/");
    assert!(browser.asks_before_the_end());
    // Nobody has a use for them once the reactor is deleted.
    browser.click("Delete");
    browser.agree();
    browser.heading("Reactors");
    browser.wait("!document.querySelector('dialog')");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Notes what names what is asked to be made or run, and loses the answers to changes while `losing.now`.
const LOSING: &str = "(() => {
    const send = window.fetch;
    window.losing = { names: [], now: false };
    window.fetch = async (...given) => {
        const name = given[0].headers?.get('SVC-IDEMPOTENCY-KEY');
        if (name) losing.names.push(name);
        const answer = await send(...given);
        const changes = name || ['PUT', 'PATCH'].includes(given[0].method);
        if (changes && losing.now) throw new TypeError('it is lost');
        return answer;
    };
    return true;
})()";
const PERHAPS: &str = "Perhaps it was done all the same.";

fn lose(browser: &mut Browser, now: bool) {
    browser.eval(&format!("losing.now = {now}"));
}

/// How often each name was sent, in the order of their first times.
fn times_sent(browser: &mut Browser) -> Value {
    let names = "Object.values(Object.groupBy(losing.names, (one) => one))";
    browser.eval(&format!("{names}.map((all) => all.length)"))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_done_although_no_answer_came_is_not_done_twice() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    browser.eval(LOSING);
    browser.write_application("desk");
    lose(&mut browser, true);
    browser.click("Create");
    browser.wait_for(PERHAPS);
    let told = "document.getElementById('told').textContent.trim()";
    browser.wait(&format!("{told} === 'The application “desk” may have been saved'"));
    lose(&mut browser, false);
    browser.click("Create");
    browser.heading("desk");
    let unseen = "The key of “desk” was made, and nobody can see it.";
    browser.wait_for(unseen);
    assert_eq!(browser.eval(SHOWN), Value::Null);
    assert!(!browser.asks_before_the_end(), "there is no key to keep");
    let all = server.management.get("/applications?size=100").await.expect(200);
    let desks = all["data"].as_array().unwrap().iter().filter(|one| one["name"] == "desk");
    assert_eq!(desks.count(), 1);
    assert_eq!(times_sent(&mut browser), json!([2]));

    // The same of a new key, and after that of another one.
    lose(&mut browser, true);
    browser.click("New key");
    browser.agree();
    browser.wait("document.querySelector('dialog .problem')");
    browser.wait_for(PERHAPS);
    lose(&mut browser, false);
    browser.press("Enter");
    browser.wait("!document.querySelector('dialog')");
    browser.wait_for(unseen);
    assert_eq!(browser.eval(SHOWN), Value::Null);
    browser.click("New key");
    browser.agree();
    browser.wait(SHOWN);
    browser.wait(&format!("!t.text().includes({})", json!(unseen)));
    let key = browser.eval(SHOWN);
    server.client(key.as_str().unwrap()).get("/applications/key").await.expect(200);
    assert_eq!(times_sent(&mut browser), json!([2, 2, 1]));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn another_request_goes_by_another_name() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    browser.eval(LOSING);
    browser.visit("tokens/new");
    lose(&mut browser, true);
    for data in ["one", "two"] {
        browser.fill("Data", data);
        browser.click("Create");
        browser.wait_for(PERHAPS);
    }
    lose(&mut browser, false);
    browser.click("Create");
    browser.wait_for("The token is made:");
    // What was answered is over: to ask for the same again is a wish of its own.
    browser.fill("Data", "two");
    browser.click("Create");
    browser.wait("losing.names.length === 4 && t.field('Data').value === ''");
    assert_eq!(times_sent(&mut browser), json!([1, 2, 1]));
    let made = server.private.get("/tokens").await.expect(200);
    assert_eq!(made["pagination"]["total_items"], 3);
    // What only reads has none.
    browser.visit("tokens");
    browser.wait("document.querySelectorAll('tbody tr').length === 3");
    assert_eq!(browser.eval("losing.names.length"), 4);

    // Whoever has gone on is told that it is not known.
    browser.visit("tokens/new");
    browser.fill("Data", "three");
    lose(&mut browser, true);
    browser.hold("POST /tokens");
    browser.click("Create");
    browser.until_held();
    browser.leave_for("containers");
    browser.let_go();
    browser.wait_for("The new token may have been saved.");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_of_which_the_answer_was_lost_is_not_run_again_to_see_it() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    let [one, _] = reactors(&server).await;
    browser.eval(LOSING);
    browser.visit(&format!("reactors/of/{one}"));
    browser.fill("Arguments", r#"{"card": "4242"}"#);
    lose(&mut browser, true);
    browser.click("Run");
    browser.wait_for(PERHAPS);
    browser.wait_for("does not do it twice, unless it failed.");
    lose(&mut browser, false);
    browser.click("Run");
    browser.wait_for("It ran when it was asked for first, and not again");
    browser.wait("document.querySelector('pre.result').innerText.includes('4242')");
    let path = format!("/reactors/{one}/invocations");
    let runs = server.management.get(&path).await.expect(200);
    assert_eq!(runs["pagination"]["total_items"], 1);
    browser.click("Run");
    browser.wait("document.querySelector('[aria-label=Result] .badge.good')");
    let runs = server.management.get(&path).await.expect(200);
    assert_eq!(runs["pagination"]["total_items"], 2);
    assert_eq!(times_sent(&mut browser), json!([2, 1]));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_saved_without_an_answer_is_saved_again_over_what_others_made_of_it() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    let body = |name: &str, permissions: &[&str]| json!({"name": name, "type": "private", "permissions": permissions, "rules": []});
    let made = server.management.post("/applications", body("ours", &["token:read"])).await;
    let path = format!("/applications/{}", made.expect(201)["id"].as_str().unwrap());
    browser.eval(LOSING);
    browser.visit(&path.replace("/applications/", "applications/edit/"));
    browser.wait("t.field('Name')?.value === 'ours'");
    browser.fill("Name", "mine");
    lose(&mut browser, true);
    browser.click("Save");
    browser.wait_for(PERHAPS);
    lose(&mut browser, false);
    assert_eq!(server.management.get(&path).await.expect(200)["name"], "mine");
    let wider = body("theirs", &["token:read", "token:delete"]);
    server.management.put(&path, wider).await.expect(200);
    browser.click("Save");
    browser.wait_for("Somebody changed this since you opened it.");
    browser.click("Save mine over it");
    browser.heading("mine");
    let after = server.management.get(&path).await.expect(200);
    assert_eq!((&after["name"], &after["permissions"]), (&json!("mine"), &json!(["token:read"])));
    assert_eq!(times_sent(&mut browser), json!([]));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
