//! The console when somebody goes on before the server has answered: what comes late belongs to a page that was left,
//! and takes nothing over on the one that is looked at.

use serde_json::{Value, json};

use crate::support::browser::Browser;
use crate::support::{TestServer, guests};

const SCRIPT: &str =
    "module.exports = async (request) => ({ raw: { of: request.configuration.NAME } });";

fn visit(browser: &mut Browser, page: &str) {
    browser.eval(&format!("location.hash = '#/{page}', true"));
}

/// Two entities, `one` and `two`, of what `body` makes of a name; gives their ids.
async fn pair(server: &TestServer, path: &str, body: impl Fn(&str) -> Value) -> [String; 2] {
    let mut ids = [String::new(), String::new()];
    for (id, name) in ids.iter_mut().zip(["one", "two"]) {
        let made = server.management.post(path, body(name)).await.expect(201);
        made["id"].as_str().unwrap().clone_into(id);
    }
    ids
}

fn application(name: &str) -> Value {
    json!({"name": name, "type": "private", "permissions": ["token:read"], "rules": []})
}

fn formula(name: &str) -> Value {
    let parameters = json!([{"name": "NAME", "type": "string"}]);
    json!({"name": name, "code": SCRIPT, "configuration": parameters})
}

async fn reactors(server: &TestServer) -> [String; 2] {
    let made = server.management.post("/reactor-formulas", formula("of both")).await.expect(201);
    pair(server, "/reactors", |name| {
        json!({"name": name, "formula": {"id": made["id"]}, "configuration": {"NAME": name}})
    })
    .await
}

/// What the reactor answered, once it did.
fn result(browser: &mut Browser) -> Value {
    browser.wait("document.querySelector('pre.result')");
    let text = browser.eval("document.querySelector('pre.result').innerText");
    serde_json::from_str(text.as_str().unwrap()).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_changes_what_its_address_names_whatever_was_asked_for_before() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    let applications = pair(&server, "/applications", application).await;
    let formulas = pair(&server, "/reactor-formulas", formula).await;
    let reactors = reactors(&server).await;
    for (page, path, [one, two]) in [
        ("applications", "/applications", applications),
        ("formulas", "/reactor-formulas", formulas),
        ("reactors", "/reactors", reactors),
    ] {
        browser.hold(&format!("GET {path}/{one}"));
        visit(&mut browser, &format!("{page}/edit/{one}"));
        browser.until_held();
        visit(&mut browser, &format!("{page}/edit/{two}"));
        // Code is read for itself, where there is some.
        browser.wait("t.field('Name')?.value === 'two' && t.field('Code')?.value !== ''");
        browser.let_go();
        assert_eq!(browser.eval("t.field('Name').value"), "two", "{page}");
        browser.fill("Name", "changed");
        browser.click("Save");
        browser.heading("changed");
        for (id, name) in [(one, "one"), (two, "changed")] {
            let kept = server.management.get(&format!("{path}/{id}")).await.expect(200);
            assert_eq!(kept["name"], name, "{page}");
        }
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Nothing but the entity itself is asked for here: no other answer has the page drawn once more.
#[tokio::test(flavor = "multi_thread")]
async fn a_form_shows_what_it_changes_as_soon_as_that_is_there() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    let script = server.management.post("/reactor-formulas", formula("script")).await.expect(201);
    let component = guests::formula(&server, "bare", json!({"name": "component"})).await;
    let rights = ["reactor:read", "reactor:update"];
    let narrow = server.application("management", &rights, json!([])).await;
    let [one, two] = reactors(&server).await;
    browser.sign_in(&format!("http://{}", server.address()), &[narrow.key.as_deref().unwrap()]);
    for (page, name) in [
        (format!("formulas/edit/{}", script["id"].as_str().unwrap()), "script"),
        (format!("formulas/edit/{component}"), "component"),
        (format!("reactors/edit/{one}"), "one"),
        (format!("reactors/edit/{two}"), "two"),
    ] {
        visit(&mut browser, &page);
        browser.wait(&format!("t.field('Name')?.value === {}", json!(name)));
    }
    // Also when the page knows the reactor already.
    visit(&mut browser, &format!("reactors/of/{one}"));
    browser.heading("one");
    visit(&mut browser, &format!("reactors/edit/{one}"));
    browser.wait("t.field('Name')?.value === 'one'");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_not_given_what_another_one_holds() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    for id in ["one", "two"] {
        let token = json!({"id": id, "type": "token", "data": id, "metadata": {"of": id}});
        server.private.post("/tokens", token).await.expect(201);
    }
    browser.hold("GET /tokens/one");
    visit(&mut browser, "tokens/edit/one");
    browser.until_held();
    visit(&mut browser, "tokens/edit/two");
    browser.wait("t.field('Value 1')?.value === 'two'");
    browser.let_go();
    assert_eq!(browser.eval("t.field('Value 1').value"), "two");
    browser.fill("Containers", "/pci/low/");
    browser.wait_for("Saving changes containers.");
    browser.click("Save");
    browser.wait_for("The token is changed.");
    let kept = server.private.get("/tokens/two").await.expect(200);
    assert_eq!(kept["metadata"], json!({"of": "two"}));
    assert_eq!(kept["containers"], json!(["/pci/low/"]));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_reactor_that_the_page_shows_is_the_one_that_runs() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    let [one, two] = reactors(&server).await;
    browser.hold(&format!("GET /reactors/{one}"));
    visit(&mut browser, &format!("reactors/of/{one}"));
    browser.until_held();
    visit(&mut browser, &format!("reactors/of/{two}"));
    browser.heading("two");
    browser.let_go();
    browser.click("Run");
    assert_eq!(result(&mut browser)["raw"]["of"], "two");

    // Whoever runs one and goes on has run that one, and sees nothing of it with the other.
    visit(&mut browser, &format!("reactors/of/{one}"));
    browser.heading("one");
    browser.hold(&format!("GET /reactors/{one}/invocations"));
    browser.click("Run");
    browser.until_held();
    visit(&mut browser, &format!("reactors/of/{two}"));
    browser.heading("two");
    browser.eval("later.asked = [], true");
    browser.let_go();
    browser.wait("later.asked.some((name) => name.endsWith('/react'))");
    let ran = browser.eval("later.asked.filter((name) => name.endsWith('/react'))");
    assert_eq!(ran, json!([format!("POST /reactors/{one}/react")]));
    browser.click("Run");
    assert_eq!(result(&mut browser)["raw"]["of"], "two");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_new_key_is_not_shown_on_the_page_of_another_application() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    let [one, two] = pair(&server, "/applications", application).await;
    visit(&mut browser, &format!("applications/of/{one}"));
    browser.heading("one");
    browser.hold(&format!("POST /applications/{one}/regenerate"));
    browser.click("New key");
    browser.wait("document.querySelector('dialog')?.open");
    browser.press("Tab");
    browser.press("Enter");
    browser.until_held();
    visit(&mut browser, &format!("applications/of/{two}"));
    browser.heading("two");
    browser.let_go();
    browser.wait("!document.querySelector('dialog')");
    assert_eq!(browser.eval("document.querySelector('h1').innerText"), "two");
    assert_eq!(browser.eval("document.documentElement.outerHTML.includes('key_prv_')"), false);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Before tokens are listed it is read what the keys may do, which may take longer for the older search.
#[tokio::test(flavor = "multi_thread")]
async fn an_older_search_takes_nothing_over_and_none_is_sent_for_a_page_that_was_left() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    for id in ["one", "two"] {
        let token = json!({"id": id, "type": "token", "data": id});
        server.private.post("/tokens", token).await.expect(201);
    }
    browser.visit("tokens");
    let search = |browser: &mut Browser, query: &str| {
        browser.fill("Search", query);
        browser.press("Enter");
    };
    browser.hold("GET /applications/key");
    search(&mut browser, "id:one");
    browser.until_held();
    search(&mut browser, "id:two");
    browser.wait(
        "document.querySelectorAll('tbody tr').length === 1
            && document.querySelector('tbody th').innerText.trim() === 'two'",
    );
    browser.eval("later.asked = [], true");
    browser.let_go();
    assert_eq!(browser.eval("later.asked"), json!([]));

    browser.hold("GET /applications/key");
    search(&mut browser, "id:one");
    browser.until_held();
    browser.visit("keys");
    browser.eval("later.asked = [], true");
    browser.let_go();
    assert_eq!(browser.eval("later.asked"), json!([]));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
