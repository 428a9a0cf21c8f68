//! The console in a real browser: what people do there, with what it may not leave behind.

use reqwest::Method;
use serde_json::{Value, json};

use crate::support::TestServer;
use crate::support::binary::{MANAGEMENT_KEY, Process, ROOT_KEY, command};
use crate::support::browser::Browser;
use crate::support::scripts;

const NUMBER: &str = "4242424242424242";
const SCRIPT: &str = "module.exports = async function (request) { \
    console.log('a line of the formula'); \
    return { raw: { ends: request.args.card.number.slice(-4) } }; };";

fn keys(server: &TestServer) -> (String, String) {
    (server.management.key.clone().unwrap(), server.private.key.clone().unwrap())
}

async fn reads_of(server: &TestServer, id: &str) -> usize {
    let path = format!("/logs?entity_type=token&entity_id={id}&size=100");
    let page = server.management.get(&path).await.expect(200);
    let entries = page["data"].as_array().unwrap();
    entries.iter().filter(|entry| entry["operation"] == "read").count()
}

/// A reactor that runs [`SCRIPT`]; gives its id.
async fn reactor(server: &TestServer) -> String {
    let body = json!({"name": "ends of cards", "code": SCRIPT,
        "request_parameters": [{"name": "card", "type": "object"}]});
    let formula = server.management.post("/reactor-formulas", body).await.expect(201);
    let body = json!({"name": "four at the end", "configuration": {},
        "formula": {"id": formula["id"]}});
    let made = server.management.post("/reactors", body).await.expect(201);
    made["id"].as_str().unwrap().to_owned()
}

/// That no key is anywhere but in the page's memory.
fn leaves_nothing(browser: &mut Browser, keys: &[&str]) {
    let left = browser.eval(
        "(async () => JSON.stringify({
            local: localStorage.length, session: sessionStorage.length, cookie: document.cookie,
            databases: (await indexedDB.databases()).length, name: window.name,
            places: [location.href, document.referrer, ...performance.getEntriesByType('resource').map((one) => one.name)],
            state: history.state, html: document.documentElement.outerHTML,
            values: [...document.querySelectorAll('input, textarea')].map((one) => one.value),
        }))()",
    );
    let text = left.as_str().unwrap();
    let left: Value = serde_json::from_str(text).unwrap();
    for (place, expected) in [
        ("local", json!(0)),
        ("session", json!(0)),
        ("cookie", json!("")),
        ("databases", json!(0)),
        ("name", json!("")),
        ("state", Value::Null),
    ] {
        assert_eq!(left[place], expected, "{place}");
    }
    for key in keys {
        assert!(!text.contains(*key), "a key is in the page or in an address");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_person_makes_finds_reveals_and_runs() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    let revealing = server.revealing().await.key.unwrap();
    let reactor = reactor(&server).await;
    let (management, private) = keys(&server);
    let all = [management.as_str(), private.as_str(), revealing.as_str()];
    let base = format!("http://{}", server.address());
    browser.sign_in(&base, &all);

    // A card is made.
    browser.click("Tokens");
    browser.click("New token");
    browser.choose("Type", "card");
    let card = json!({"number": NUMBER, "expiration_month": 12, "expiration_year": 2030});
    browser.fill("Data", &card.to_string());
    browser.click("More");
    browser.fill("Id", "a-card");
    browser.fill("Metadata", "customer=17");
    browser.click("Create");
    browser.wait_for("The token is made");
    assert_eq!(browser.eval("t.field('Data').value"), "", "plaintext is left in the form");

    // It is found, by a query that is completed, and seen masked.
    browser.click("Tokens");
    browser.fill("Search", "metadata.c");
    browser
        .wait("document.querySelector('[role=option]')?.innerText.includes('metadata.customer:')");
    browser.press("ArrowDown");
    browser.press("Enter");
    browser.type_text("17 AND type:ca");
    browser.wait("document.querySelectorAll('[role=option]').length === 2");
    browser.press("ArrowDown");
    browser.press("Enter");
    assert_eq!(browser.eval("t.field('Search').value"), "metadata.customer:17 AND type:card ");
    browser.press("Escape");
    browser.eval("document.getElementById('told').textContent = '', true");
    browser.press("Enter");
    // The list before the search shows the same, and the search is a read of its own in the log.
    browser.wait("document.getElementById('told').textContent.trim() === '1 token found'");
    browser.wait_for("XXXXXXXXXXXX4242");
    assert_eq!(
        browser.eval(&format!("document.documentElement.outerHTML.includes('{NUMBER}')")),
        false
    );

    // It is revealed, which is a read of its own in the log.
    browser.click("a-card");
    browser.wait_for("Reads it as test; that is logged.");
    let before = reads_of(&server, "a-card").await;
    browser.click("Reveal");
    browser.wait(&format!("document.querySelector('.revealed')?.innerText.includes('{NUMBER}')"));
    assert_eq!(reads_of(&server, "a-card").await, before + 1);
    assert!(browser.focused().contains(NUMBER), "the focus is on what is shown");
    browser.eval("t.named('button', 'Hide').focus(), true");
    browser.press("Enter");
    browser.wait(&format!("!document.documentElement.outerHTML.includes('{NUMBER}')"));
    assert_eq!(browser.focused(), "Reveal", "the focus is not lost");
    browser.wait("document.getElementById('told').textContent.trim() === 'Plaintext is hidden'");
    assert_eq!(browser.eval("document.title"), "Token · Tokamak console", "ids are in no title");

    // A reactor runs on it.
    browser.click("Reactors");
    browser.click("four at the end");
    browser.wait("t.field('Arguments')?.value.includes('{{ token-id }}')");
    browser.fill("Arguments", "{ no json");
    browser.click("Run");
    browser.wait("document.activeElement === t.field('Arguments')");
    assert_eq!(browser.eval("t.field('Arguments').ariaInvalid"), "true");
    browser.fill("Arguments", r#"{"card": "{{ a-card }}"}"#);
    browser.eval("t.named('button', 'Run').focus(), true");
    browser.press("Enter");
    browser.wait_for("a line of the formula");
    // The result is below the form, which may be longer than the screen.
    browser.wait("document.activeElement.ariaLabel === 'Result'");
    let result = browser.eval("document.querySelector('pre.result').innerText");
    let result: Value = serde_json::from_str(result.as_str().unwrap()).unwrap();
    assert_eq!(result["raw"]["ends"], "4242");
    let text = browser.eval("t.text()");
    for told in ["Fuel", "Time", "completed"] {
        assert!(text.as_str().unwrap().contains(told), "{text}");
    }
    browser.click("Runs and deliveries");
    browser.wait_for("1 run");
    assert!(browser.eval("location.hash").as_str().unwrap().ends_with(&reactor));

    // The log tells of all that.
    browser.click("Audit log");
    browser.choose("Entity", "card");
    browser.fill("Id of the entity", "a-card");
    browser.press("Enter");
    browser.wait_for("Token used by reactor");
    // And of what one of the keys did.
    let own = server.management.get("/applications/key").await.expect(200);
    let own = own["id"].as_str().unwrap();
    browser.click("Clear");
    browser.fill("Id of who acted", own);
    browser.press("Enter");
    browser.wait(&format!("location.hash === '#/logs?by={own}'"));
    browser.wait_for("Reactor listed");
    browser.wait("!t.text().includes('Token used by reactor')");

    leaves_nothing(&mut browser, &all);
    assert_eq!(browser.complaints(), Vec::<String>::new());
    browser.click("Sign out");
    browser.wait_for("With the key of an application.");
    assert_eq!(browser.eval("t.text().includes('a-card')"), false);
    leaves_nothing(&mut browser, &all);
}

#[tokio::test(flavor = "multi_thread")]
async fn refusals_are_shown_as_the_server_says_them() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    let base = format!("http://{}", server.address());
    browser.go(&format!("{base}/console"));
    browser.wait_for("Sign in");
    browser.fill("API key", "key_prv_00000000000000000000000000000000");
    browser.press("Enter");
    browser.wait_for("Unauthorized");
    browser.wait("document.activeElement.type === 'password'");
    assert_eq!(browser.eval("document.activeElement.ariaInvalid"), "true");
    assert_eq!(
        browser.eval("document.activeElement.getAttribute('aria-describedby')"),
        browser.eval("document.querySelector('.problem').id")
    );
    let (_, private) = keys(&server);
    browser.fill("API key", &private);
    browser.press("Enter");
    browser.wait_for("Your access");
    // What the key may not do is said, not tried.
    browser.click("Audit log");
    browser.wait_for("No key in this tab holds log:read.");
    browser.click("Tokens");
    browser.fill("Search", "bogus:1");
    browser.press("Escape");
    browser.press("Enter");
    browser.wait_for("at character 1");
    browser.wait("document.activeElement === t.field('Search')");
    assert_eq!(browser.eval("t.field('Search').ariaInvalid"), "true");
    browser.click("New token");
    browser.choose("Type", "card_number");
    browser.fill("Data", "1234");
    browser.click("Create");
    browser.wait("document.querySelector('.problem code')?.innerText === 'data'");
    // Figures are shown to this machine. They are of the whole process, other tests' servers included.
    browser.click("Live figures");
    browser.click("Leave");
    browser.wait("document.querySelectorAll('.chart .line').length > 0");
    browser.wait(
        "document.querySelectorAll('[aria-label=\"Requests by route\"] tbody tr').length > 0",
    );
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// It may have a title and a detail, as the server's own errors have, and be like them in nothing else.
#[tokio::test(flavor = "multi_thread")]
async fn an_error_that_a_formula_shaped_is_shown_and_the_page_goes_on() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    let code = "const { CustomHttpResponseError } = require('tokamak');\n\
        module.exports = async ({ args }) => {\n\
        throw new CustomHttpResponseError({ status: 400, body: args });\n};";
    let path = scripts::reactor(&server, code, json!({}), json!({})).await;
    browser.sign_in_to(&server);
    let page = path.trim_end_matches("/react").replace("/reactors/", "#/reactors/of/");
    browser.eval(&format!("location.hash = '{page}', true"));
    for (number, mut body) in [
        json!({"errors": {"code": "51"}}),
        json!({"errors": {"args": {"code": 51}, "code": [51]}}),
        json!({"errors": "51"}),
        json!({"errors": ["51", ["52", 53]]}),
        json!({"errors": null}),
        json!({"trace_id": {"_$litType$": 1}}),
    ]
    .into_iter()
    .enumerate()
    {
        body["title"] = format!("Declined {number}").into();
        body["detail"] = "no".into();
        browser.fill("Arguments", &body.to_string());
        browser.click("Run");
        browser.wait_for(&format!("Declined {number}"));
    }
    // What is said in the server's form is still shown where it belongs.
    let errors = json!({"code": "51", "args": ["is not a card"]});
    let body = json!({"title": "Declined", "detail": "no", "errors": errors});
    browser.fill("Arguments", &body.to_string());
    browser.click("Run");
    browser.wait("document.querySelector('p.fault')?.innerText === 'is not a card'");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_may_not_see_figures_is_told_why() {
    let Some(mut browser) = Browser::open() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut serve = command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--cache-mb", "32", "--log", "warn"]);
    serve.args(["--metrics-networks", "10.9.8.0/24"]).arg("--data-dir").arg(folder.path());
    serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
    let process = Process::start(serve);
    browser.sign_in(&format!("http://{}", process.address), &[MANAGEMENT_KEY]);
    browser.click("Live figures");
    browser.wait_for("--metrics-networks");
    assert_eq!(browser.eval("document.querySelectorAll('.chart').length"), 0);
    // Nor may this key read tokens, which is another right than to search them.
    browser.eval("location.hash = '#/tokens/of/a-card', true");
    browser.wait_for("No key in this tab holds token:read.");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// The console computes which rule decides; the server's answers are what it must agree with.
#[tokio::test(flavor = "multi_thread")]
async fn the_preview_of_rules_agrees_with_the_server() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    let body = json!({"name": "mixed", "type": "private", "permissions": ["token:read"], "rules": [
        {"priority": 7, "container": "/pci/", "transform": "mask", "permissions": ["token:read", "token:create"], "description": "b"},
        {"priority": 3, "container": "/pci/high/", "transform": "reveal", "permissions": ["token:read"], "description": "a"},
        {"priority": 9, "container": "/pii/high/", "transform": "redact", "permissions": ["token:read", "token:create"], "description": "c"},
    ]});
    let made = server.management.post("/applications", body).await.expect(201);
    let mixed = server.client(made["key"].as_str().unwrap());
    let own = mixed.get("/applications/key").await.expect(200);
    let base = format!("http://{}", server.address());
    browser.go(&format!("{base}/console"));
    let module = "document.querySelector('script').src.replace('main.js', 'access.js')";
    browser.eval(&format!(
        "import({module}).then((module) => {{ window.access = module; return true; }})"
    ));
    let decided = |browser: &mut Browser, permission: &str, places: &Value| {
        let call = format!("access.seen(access.decide({own}, '{permission}', {places}))");
        browser.eval(&call).as_str().unwrap().to_owned()
    };
    for (number, places) in [
        json!(["/pci/high/"]),
        json!(["/pci/high/deep/er/"]),
        json!(["/pci/highest/"]),
        json!(["/pci/low/"]),
        json!(["/pii/high/"]),
        json!(["/general/"]),
        json!(["/general/", "/pci/high/"]),
        json!(["/pii/high/", "/pci/low/"]),
        json!(["/"]),
    ]
    .iter()
    .enumerate()
    {
        let id = format!("token-{number}");
        let token = json!({"id": id, "type": "card_number", "data": NUMBER, "containers": places});
        server.private.post("/tokens", token).await.expect(201);
        let answer = mixed.get(&format!("/tokens/{id}")).await.expect(200);
        let seen = match answer.get("data").and_then(Value::as_str) {
            Some(NUMBER) => "plaintext",
            Some(_) => "masked",
            None => "nothing",
        };
        assert_eq!(decided(&mut browser, "token:read", places), seen, "{places}");
        let token = json!({"type": "card_number", "data": NUMBER, "containers": places});
        let created = mixed.post("/tokens", token).await.status == 201;
        let allowed = decided(&mut browser, "token:create", places) != "refused";
        assert_eq!(allowed, created, "token:create in {places}");
        let deleted = mixed.send(mixed.request(Method::DELETE, &format!("/tokens/{id}"))).await;
        assert_eq!(deleted.status, 403);
        assert_eq!(decided(&mut browser, "token:delete", places), "refused");
    }
}

/// A session is not told its rights: what it reads counts as plaintext until it is asked for.
#[tokio::test(flavor = "multi_thread")]
async fn what_a_session_or_a_revealing_key_lists_is_concealed() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    let card = json!({"id": "a-number", "type": "card_number", "data": NUMBER});
    server.private.post("/tokens", card).await.expect(201);
    let revealing = server.revealing().await;
    let public = server.application("public", &["token:create"], json!([])).await;
    let opened = public.post("/sessions", json!({})).await.expect(201);
    let grant = json!({"nonce": opened["nonce"], "rules": [{"description": "", "priority": 1,
        "container": "/pci/", "transform": "reveal", "permissions": ["token:read", "token:search"]}]});
    revealing.post("/sessions/authorize", grant).await.expect(200);
    let base = format!("http://{}", server.address());
    let session = opened["session_key"].as_str().unwrap();
    for key in [session, revealing.key.as_deref().unwrap()] {
        browser.sign_in(&base, &[key]);
        browser.click("Tokens");
        browser.wait_for("a-number");
        browser.wait_for("••••••");
        let html = format!("document.documentElement.outerHTML.includes('{NUMBER}')");
        assert_eq!(browser.eval(&html), false);
        browser.click("a-number");
        browser.wait_for("that is logged.");
        assert_eq!(browser.eval(&html), false);
        browser.click("Reveal");
        browser.wait(&html);
        // Whoever goes on leaves nothing behind.
        browser.click("Containers");
        browser.wait(&format!("!{html}"));
        browser.wait_for("pci/");
        leaves_nothing(&mut browser, &[key]);
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_completion_takes_the_place_of_its_whole_term() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    browser.sign_in_to(&server);
    browser.visit("tokens");
    browser.fill("Search", "type:card_count AND id:1");
    browser.eval("t.field('Search').setSelectionRange(10, 10), t.field('Search').click(), true");
    browser.wait("document.querySelectorAll('[role=option]').length === 1");
    browser.press("ArrowDown");
    browser.press("Enter");
    let written = browser.eval("t.field('Search').value.replace(/ +/g, ' ')");
    assert_eq!(written, "type:card_number AND id:1");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_completion_that_is_marked_is_in_sight_in_any_colours() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    browser.sign_in_to(&server);
    browser.visit("tokens");
    let forced = json!({"features": [{"name": "forced-colors", "value": "active"}]});
    browser.call("Emulation.setEmulatedMedia", forced);
    browser.wait("t.field('Search')");
    browser.eval("t.field('Search').focus(), true");
    browser.press("ArrowDown");
    let options = "[...document.querySelectorAll('[role=option]')]";
    browser.wait(&format!("{options}.length === 12"));
    let list = "document.querySelector('[role=listbox]')";
    assert_eq!(browser.eval(&format!("{list}.scrollHeight > {list}.clientHeight")), true);
    for index in 0..12 {
        browser.press("ArrowDown");
        let marked = format!("{options}.find((one) => one.ariaSelected === 'true')");
        browser.wait(&format!("{options}.indexOf({marked}) === {index}"));
        let seen = browser.eval(&format!(
            "((one, list) => one.top >= list.top - 1 && one.bottom <= list.bottom + 1)(
                {marked}.getBoundingClientRect(), {list}.getBoundingClientRect())"
        ));
        assert_eq!(seen, true, "{index}");
        let outlined = browser.eval(&format!(
            "{options}.filter((one) => getComputedStyle(one).outlineStyle === 'solid').length"
        ));
        assert_eq!(outlined, 1, "{index}");
        assert_eq!(browser.eval(&format!("getComputedStyle({marked}).outlineStyle")), "solid");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
