//! The console for those who manage: applications and their keys, formulas, reactors, deliveries, containers.

use std::time::Duration;

use serde_json::{Value, json};
use tokamak::config::RateLimits;

use crate::support::TestServer;
use crate::support::browser::Browser;
use crate::support::receiver::Receiver;
use crate::support::server::Setup;

const SCRIPT: &str =
    "module.exports = async (request) => ({ raw: { of: request.configuration.NAME } });";

/// Whether all that a page counts is there.
const COUNTED: &str = "!document.querySelector('[aria-busy=true]')";

/// The rows of the first table of the page that has this caption.
fn rows(browser: &mut Browser, caption: &str) -> Vec<String> {
    let found = browser.eval(&format!(
        "[...document.querySelectorAll('table')].find((one) => one.caption.innerText === {})
            ?.querySelectorAll('tbody tr').values().map((row) => row.innerText.replace(/\\s+/g, ' ').trim()).toArray() ?? []",
        json!(caption)
    ));
    found.as_array().unwrap().iter().map(|row| row.as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_application_is_made_with_its_rules_and_its_key_is_shown_once() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    browser.sign_in_to(&server);
    browser.click("Applications");
    browser.click("New application");
    browser.fill("Name", "desk");
    browser.click("Add a rule");
    browser.eval("t.named('button', 'Remove rule 1').focus(), true");
    browser.press("Enter");
    browser.wait("document.activeElement === t.named('button', 'Add a rule')");
    browser.click("Add a rule");
    browser.fill("Container", "PCI/High");
    browser.choose("Sees data as", "reveal");
    // The rule's own boxes come after those of the permissions on everything.
    browser.eval("document.querySelectorAll('fieldset.rule input[type=checkbox]').forEach((box) => { if (box.parentElement.innerText.includes('token:read') !== box.checked) box.click(); }), true");
    // The preview follows what is written, before anything is sent.
    browser.fill("Containers of a token", "/pci/high/cards/");
    browser.wait_for("rule 1 on");
    let preview = rows(&mut browser, "What the key may do there");
    assert!(
        preview.iter().any(|row| row.starts_with("token:read") && row.ends_with("plaintext")),
        "{preview:?}"
    );
    assert!(
        preview.iter().any(|row| row.starts_with("token:use") && row.ends_with("refused")),
        "{preview:?}"
    );
    browser.click("Create");
    browser.heading("desk");
    browser.wait_for("The key, shown this once:");
    let key = browser.eval("document.querySelector('.good-news code').innerText");
    let desk = server.client(key.as_str().unwrap());
    let own = desk.get("/applications/key").await.expect(200);
    assert_eq!(own["rules"][0]["container"], "/pci/high/");
    assert_eq!(own["rules"][0]["transform"], "reveal");
    assert_eq!(own["rules"][0]["permissions"], json!(["token:read"]));

    // Whoever leaves and comes back does not see it again.
    browser.click("I have kept it");
    browser.click("Applications");
    browser.wait("document.querySelector('h1')?.innerText === 'Applications'");
    browser.click("desk");
    browser.heading("desk");
    let html = "document.documentElement.outerHTML";
    assert_eq!(browser.eval(&format!("{html}.includes({key})")), false);

    // It is changed, and gets another key.
    browser.click("Change");
    browser.heading("Change application");
    browser.fill("Name", "front desk");
    browser.click("Save");
    browser.heading("front desk");
    browser.click("New key");
    browser.wait("document.querySelector('dialog')?.open");
    browser.press("Tab");
    browser.press("Enter");
    browser.wait_for("The key, shown this once:");
    browser.wait("document.activeElement.id === 'issued'");
    desk.get("/applications/key").await.expect(401);
    let again = browser.eval("document.querySelector('.good-news code').innerText");
    let again = server.client(again.as_str().unwrap());
    assert_eq!(again.get("/applications/key").await.expect(200)["name"], "front desk");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_formula_becomes_a_reactor_whose_results_are_told_and_told_again() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start_with(Setup::open()).await;
    let receiver = Receiver::start().await;
    browser.sign_in_to(&server);
    browser.click("Formulas");
    browser.click("New formula");
    browser.fill("Name", "who");
    browser.fill("Code", SCRIPT);
    browser.click("Declared values and limits");
    browser.fill("Configuration of a reactor", r#"[{"name": "NAME", "type": "string"}]"#);
    browser.click("Create");
    browser.heading("who");
    browser.click("Show the code");
    browser.wait_for("request.configuration.NAME");
    browser.click("New reactor of it");
    browser.heading("New reactor");
    browser.fill("Name", "who it is");
    browser.fill("NAME", "a-hidden-value");
    browser.click("Create");
    browser.heading("who it is");
    browser.wait_for("•••• (14 characters)");
    assert_eq!(
        browser.eval("document.documentElement.outerHTML.includes('a-hidden-value')"),
        false
    );

    browser.click("Run");
    browser.wait_for("\"of\": \"a-hidden-value\"");
    browser.eval("t.named('label', 'Run it later and tell the result as a webhook').click(), true");
    browser.fill("Address of the receiver", &receiver.url());
    browser.click("Run");
    browser.wait_for("Queued");
    browser.wait("document.getElementById('told').textContent === 'The run is queued'");
    receiver.wait(1).await;
    browser.click("Follow it");
    browser.heading("Runs");
    let delivered =
        "[...document.querySelectorAll('.badge')].some((one) => one.innerText === 'delivered')";
    browser.wait_for("Look again");
    while browser.eval(delivered) == false {
        browser.click("Look again");
        browser.wait("document.querySelector('[aria-busy=false]')");
    }
    browser.click("Deliver again");
    let told = receiver.wait(2).await;
    assert_eq!(told[0].header("webhook-id"), told[1].header("webhook-id"));
    assert_eq!(told[1].json()["data"]["response"]["raw"]["of"], "a-hidden-value");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_are_found_through_tokens_and_counted() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    for container in ["/a/", "/a/b/", "/a/b/", "/a/c/d/", "/e-1/", "/"] {
        let token = json!({"type": "token", "data": "value", "containers": [container]});
        server.private.post("/tokens", token).await.expect(201);
    }
    browser.sign_in_to(&server);
    browser.click("Containers");
    browser.wait_for("a/");
    browser.wait(COUNTED);
    let tree = |browser: &mut Browser| -> Value {
        browser.eval("[...document.querySelectorAll('.node')].map((node) => [...node.children].slice(0, 2).map((one) => one.innerText.replace(/[▾▸]/, '').trim()).join(' '))")
    };
    assert_eq!(tree(&mut browser), json!(["/ 6 tokens", "a/ 4 tokens", "e-1/ 1 token"]));
    browser.wait_for("1 token in / itself");
    browser.eval("t.named('button', '▸ a/').click(), true");
    browser.wait_for("c/");
    browser.eval("t.named('button', '▸ c/').click(), true");
    browser.wait_for("d/");
    browser.wait(COUNTED);
    let expected = json!([
        "/ 6 tokens",
        "a/ 4 tokens",
        "b/ 2 tokens",
        "c/ 1 token",
        "d/ 1 token",
        "e-1/ 1 token"
    ]);
    assert_eq!(tree(&mut browser), expected);
    // A count leads to the tokens.
    browser.click("4 tokens");
    browser.wait("document.querySelector('h1')?.innerText === 'Tokens'");
    browser.wait_for("1–4 of 4 tokens");
    assert_eq!(browser.eval("t.field('Search').value"), "container:\"/a/*\"");
    assert_eq!(browser.eval("location.hash"), "#/tokens", "queries are in no address");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// As many as need more searches than the key may send at once, of which others beside it are not kept from any.
#[tokio::test(flavor = "multi_thread")]
async fn containers_are_counted_although_that_takes_more_searches_than_a_key_may_send_at_once() {
    let Some(mut browser) = Browser::open() else { return };
    let rates = RateLimits { search: "20".parse().unwrap(), ..RateLimits::default() };
    let server = TestServer::start_with(Setup { rates, ..Setup::default() }).await;
    for number in 10..50 {
        let token =
            json!({"type": "token", "data": "value", "containers": [format!("/c-{number}/")]});
        server.private.post("/tokens", token).await.expect(201);
    }
    browser.sign_in_to(&server);
    browser.eval(
        "window.live = 0, window.most = 0, window.refused = 0, window.searches = 0,
        window.fetch = ((send) => async (...given) => {
            if (!given[0].url?.endsWith('/tokens/search')) return send(...given);
            searches += 1;
            live += 1;
            most = Math.max(most, live);
            const answer = await send(...given);
            live -= 1;
            if (answer.status === 429) refused += 1;
            return answer;
        })(window.fetch), true",
    );
    // The server's clock stands still unless it is moved.
    let clock = server.clock.clone();
    let passing = tokio::spawn(async move {
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            clock.advance_ms(1_000);
        }
    });
    browser.visit("containers");
    assert_eq!(browser.texts(".problem"), Vec::<String>::new());
    assert_eq!(browser.eval("document.querySelectorAll('.tree li').length"), 40);
    assert_eq!(browser.eval("document.querySelectorAll('.node > a').length"), 41);
    browser.wait_for("40 tokens");
    assert_eq!(browser.eval("refused > 0 && most > 1 && most <= 4"), true);

    // Whoever has gone on waits for none of them.
    passing.abort();
    browser.eval("refused = 0, t.named('button', 'Refresh').click(), true");
    browser.wait("refused > 0");
    browser.visit("keys");
    let before = browser.eval("searches");
    std::thread::sleep(Duration::from_millis(2500));
    assert_eq!(browser.eval("searches"), before);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn names_of_containers_are_shown_while_they_are_counted_and_stay_if_that_fails() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    for container in ["/a/", "/b/"] {
        let token = json!({"type": "token", "data": "value", "containers": [container]});
        server.private.post("/tokens", token).await.expect(201);
    }
    browser.sign_in_to(&server);
    // Counts are asked for by a page past the end. As when others use the key's whole rate for an hour.
    browser.eval(
        "window.fetch = ((send) => async (...given) => {
            if (!given[0].url?.endsWith('/tokens/search')) return send(...given);
            const { page } = JSON.parse(await given[0].clone().text());
            if (page === 1) return send(...given);
            await new Promise((go) => { window.go = go; });
            return Response.json({ title: 'Too Many Requests', detail: 'Too often.' },
                { status: 429, headers: { 'Retry-After': '3600' } });
        })(window.fetch), true",
    );
    browser.eval("location.hash = '#/containers', true");
    browser.wait("window.go && t.named('button', '▸ a/') && t.named('button', '▸ b/')");
    browser.eval("go(), true");
    browser.wait_for("Too Many Requests");
    assert_eq!(browser.texts(".twisty"), ["▾ /", "▸ a/", "▸ b/"]);
    browser.wait("t.named('button', 'Try again')");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn choices_of_equal_names_are_told_apart() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    let mut expected = Vec::new();
    for name in ["twin", "twin", "single"] {
        let body =
            json!({"name": name, "type": "private", "permissions": ["token:read"], "rules": []});
        let made = server.management.post("/applications", body).await.expect(201);
        let id = made["id"].as_str().unwrap();
        expected.push(match name {
            "twin" => format!("twin (private) …{}", &id[id.len() - 12..]),
            _ => "single (private)".to_owned(),
        });
    }
    browser.sign_in_to(&server);
    browser.visit("reactors/new");
    browser.wait("t.field('Acts as')?.options.length > 3");
    let offered = browser.eval("[...t.field('Acts as').options].map((one) => one.text)");
    let offered = offered.as_array().unwrap();
    for text in &expected {
        assert!(offered.iter().any(|one| one == text), "{text} is not among {offered:?}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
