//! What the console says to whoever sees it for the first time: what a formula gets, what there is no record of, who did
//! something, how it stands now.

use serde_json::{Value, json};
use tokamak::clock::Clock as _;

use crate::support::TestServer;
use crate::support::browser::Browser;
use crate::support::receiver::Receiver;
use crate::support::scripts;
use crate::support::server::Setup;

/// A reactor that logs a line and answers, or fails if it is told to; gives its id.
async fn reactor(server: &TestServer) -> String {
    let code = "module.exports = async ({ args }) => { console.log('a line');
        if (args.fail) throw new Error('as told'); return { raw: { args } }; };";
    let formula = json!({"name": "lines", "code": code});
    let formula = server.management.post("/reactor-formulas", formula).await.expect(201);
    let body = json!({"name": "one", "configuration": {}, "formula": {"id": formula["id"]}});
    let made = server.management.post("/reactors", body).await.expect(201);
    made["id"].as_str().unwrap().to_owned()
}

/// One that ran once.
async fn reactor_that_ran(server: &TestServer) -> String {
    let reactor = reactor(server).await;
    let path = format!("/reactors/{reactor}/react");
    server.private.post(&path, json!({"args": {}})).await.expect(200);
    reactor
}

#[tokio::test(flavor = "multi_thread")]
async fn the_preview_says_what_a_formula_gets() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    browser.sign_in_to(&server);
    let rule = |priority: u32, container: &str, transform: &str| {
        json!({"description": "", "priority": priority, "container": container,
            "transform": transform, "permissions": ["token:use"]})
    };
    let body = json!({"name": "uses", "type": "private", "permissions": ["token:read"],
        "rules": [rule(1, "/a/", "mask"), rule(2, "/b/", "redact"), rule(3, "/c/", "reveal")]});
    let uses = server.management.post("/applications", body).await.expect(201);
    let body = json!({"name": "all", "type": "private", "permissions": ["token:use"], "rules": []});
    let all = server.management.post("/applications", body).await.expect(201);
    for (application, containers, expected) in [
        (&uses, "/a/", "its formula gets masked data"),
        (&uses, "/b/", "its formula gets nothing"),
        (&uses, "/c/", "its formula gets plaintext"),
        // The first rule that speaks of any of them, in their order, as on the server.
        (&uses, "/c/ /a/", "its formula gets masked data"),
        (&uses, "/d/", "refused"),
        (&all, "/d/", "its formula gets plaintext"),
    ] {
        browser.visit("containers");
        browser.visit(&format!("applications/of/{}", application["id"].as_str().unwrap()));
        browser.fill("Containers of a token", containers);
        browser.wait(&format!(
            "[...document.querySelectorAll('tr')].some((row) => t.name(row).startsWith('token:use ')
                && t.name(row).endsWith({}))",
            json!(expected)
        ));
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_refused_before_it_begins_is_answered_at_once() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    let reactor = reactor(&server).await;
    browser.visit(&format!("reactors/of/{reactor}"));
    let looks = format!(
        "later.asked.filter((one) => one === 'GET /reactors/{reactor}/invocations').length"
    );
    browser.fill("Arguments", r#"{"of": "{{ no-such-token }}"}"#);
    browser.click("Run");
    browser.wait("document.querySelector('[aria-label=Result]')");
    browser.wait_for("It was refused before the formula began: there is no record of it.");
    assert_eq!(browser.eval(&looks), 1);
    // What has failed has a record.
    browser.fill("Arguments", r#"{"fail": true}"#);
    browser.click("Run");
    browser.wait_for("a line");
    browser.wait("document.querySelector('[aria-label=Result] .badge.bad')");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_run_that_could_not_be_stored_nobody_is_told_that_it_did_not_begin() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    let reactor = reactor(&server).await;
    browser.visit(&format!("reactors/of/{reactor}"));
    // As when the disk is full by the time that the formula has ended.
    browser.refuse(&format!("/reactors/{reactor}/react"), 507);
    browser.click("Run");
    browser.wait_for("The formula may have run, and done what it does");
    assert_eq!(
        browser.eval("document.body.innerText.includes('before the formula began')"),
        json!(false)
    );
    // As when a proxy waited no longer: there is a record, once the run has ended.
    browser.eval("window.later ??= {}, later.before = later.asked.length, true");
    browser.click("Run");
    let looks = format!("'GET /reactors/{reactor}/invocations'");
    browser.wait(&format!(
        "later.asked.slice(later.before).filter((one) => one === {looks}).length > 1"
    ));
    let path = format!("/reactors/{reactor}/react");
    server.private.post(&path, json!({"args": {"fail": true}})).await.expect(500);
    browser.wait("document.querySelector('[aria-label=Result] .badge.bad')");
    // It may be that of another run.
    browser.wait_for("The formula may have run, and done what it does");
    // As when the network is gone by then, or what answers is no server of this kind.
    for answer in ["throw new TypeError('gone')", "return new Response('<html>', {status: 200})"] {
        browser.visit("containers");
        browser.visit(&format!("reactors/of/{reactor}"));
        browser.eval(&format!(
            "window.fetch = ((send) => async (...given) => {{
                if (given[0].url?.endsWith({}) && given[0].method === 'POST') {{ {answer} }}
                return send(...given);
            }})(window.fetch), true",
            json!(path)
        ));
        browser.click("Run");
        browser.wait_for("The formula may have run, and done what it does");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_route_is_among_the_figures() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    for path in ["tokens", "applications", "reactors", "reactor-formulas", "logs", "permissions"] {
        server.management.get(&format!("/{path}")).await;
        server.management.get(&format!("/{path}/none")).await;
        server.management.delete(&format!("/{path}/none")).await;
    }
    browser.sign_in_to(&server);
    browser.visit("figures");
    browser.wait("document.querySelector('[aria-label=\"Requests by route\"] tbody tr')");
    let routes = browser.texts("[aria-label='Requests by route'] tbody th");
    assert!(routes.len() > 12, "{routes:?}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_was_waited_for_is_said_to_have_no_delivery() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    let reactor = reactor_that_ran(&server).await;
    browser.sign_in_to(&server);
    browser.visit(&format!("invocations/{reactor}"));
    browser.eval("document.querySelector('td:last-child a').click(), true");
    browser.wait("document.querySelector('h1')?.innerText.startsWith('Run ')");
    browser.wait_for("This run has no delivery: its caller waited for the answer.");
    // How it went is known from the list.
    browser.wait_for("a line");
    // What is known by now is not offered any more.
    browser.eval("document.querySelector('.back a').click(), true");
    browser.wait(UNOFFERED);

    // Nor is it of what failed while this tab waited.
    browser.visit(&format!("reactors/of/{reactor}"));
    browser.fill("Arguments", r#"{"fail": true}"#);
    browser.click("Run");
    browser.wait("document.querySelector('[aria-label=Result] .badge.bad')");
    browser.visit(&format!("invocations/{reactor}"));
    browser.wait("document.querySelectorAll('tbody tr').length === 2");
    browser.wait(UNOFFERED);
    // Whoever comes by the address alone is told what it may be.
    browser.visit(&format!("invocations/{reactor}/01a202f8-eb06-7000-a69c-5ccae9a0e2df"));
    browser.wait_for("Most likely its caller waited for the answer.");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// No row leads to a delivery, and each says why.
const UNOFFERED: &str = "document.querySelector('tbody tr')
    && [...document.querySelectorAll('tbody td:last-child')].every((one) => !one.querySelector('a')
        && one.innerText.includes('its caller waited'))";

const DELIVERED: &str =
    "[...document.querySelectorAll('.badge')].some((one) => one.innerText === 'delivered')";

#[tokio::test(flavor = "multi_thread")]
async fn a_run_that_is_not_settled_is_read_again_by_itself() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start_with(Setup::open()).await;
    let receiver = Receiver::start().await;
    let reactor = reactor(&server).await;
    browser.sign_in_to(&server);
    browser.watch_requests();
    browser.visit(&format!("reactors/of/{reactor}"));
    browser.eval("t.named('label', 'Run it later and tell the result as a webhook').click(), true");
    browser.fill("Address of the receiver", &receiver.url());
    browser.click("Run");
    browser.wait_for("Queued");
    browser.wait(DELIVERED);
    let id = receiver.wait(1).await[0].json()["data"]["invocation_id"].clone();

    browser.visit(&format!("invocations/{reactor}/{}", id.as_str().unwrap()));
    browser.wait(DELIVERED);
    browser.click("Deliver again");
    browser.wait("document.getElementById('told').textContent.includes('queued again')");
    receiver.wait(2).await;
    browser.wait(DELIVERED);
    // What is settled is left alone.
    let asked = "later.asked.filter((one) => one.includes('/results/')).length";
    let before = browser.eval(asked);
    std::thread::sleep(std::time::Duration::from_millis(1500));
    assert_eq!(browser.eval(asked), before);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_belongs_together_stays_so_on_a_narrow_screen() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    browser.sign_in_to(&server);
    browser.set_width(390);
    for page in ["applications", "formulas", "reactors", "tokens"] {
        browser.visit(page);
        let beside = browser.eval(
            "(([heading, button]) => button.top < heading.bottom && heading.top < button.bottom
                && heading.right <= button.left)(
                [...document.querySelectorAll('.row:has(> h1) > *')].map((one) => one.getBoundingClientRect()))",
        );
        assert_eq!(beside, true, "{page}");
    }
    browser.visit("applications/new");
    browser.wait("document.querySelector('.checks input')");
    let lines = browser.eval(
        "[...document.querySelectorAll('legend')].map((one) =>
            Math.round(one.getBoundingClientRect().height / parseFloat(getComputedStyle(one).lineHeight)))",
    );
    assert_eq!(lines, json!([1]));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_is_folded_makes_no_row_higher() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    let reactor = reactor_that_ran(&server).await;
    browser.sign_in_to(&server);
    browser.set_width(1280);
    browser.visit(&format!("invocations/{reactor}"));
    // A run's record may come after its answer.
    while browser.eval("document.querySelector('td summary') === null") == true {
        browser.click("Refresh");
    }
    let below = browser.eval(
        "(([cell, folded]) => cell.bottom - folded.bottom)(
            ['td:has(summary)', 'td details'].map((one) => document.querySelector(one).getBoundingClientRect()))",
    );
    assert!(below.as_f64().unwrap() < 12.0, "{below}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn data_of_parts_has_an_example_that_is_not_stored() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    browser.sign_in_to(&server);
    browser.visit("tokens/new");
    for (kind, number) in [("card", "4242424242424242"), ("bank", "021000021")] {
        browser.choose("Type", kind);
        let hint = "document.getElementById(t.field('Data').getAttribute('aria-describedby'))";
        browser.wait(&format!("{hint}?.innerText.includes({})", json!(number)));
        let hint = browser.eval(&format!("{hint}.innerText"));
        let hint = hint.as_str().unwrap();
        // Whoever takes the example for a test gets a token.
        let data: Value = serde_json::from_str(&hint[hint.find('{').unwrap()..]).unwrap();
        server.private.post("/tokens", json!({"type": kind, "data": data})).await.expect(201);
        let begun = browser.eval("t.field('Data').value");
        let begun: Value = serde_json::from_str(begun.as_str().unwrap()).unwrap();
        for (name, value) in begun.as_object().unwrap() {
            assert!(value == "" || value.is_null(), "{name} of {kind}");
        }
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_did_something_is_named() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    server.private.post("/tokens", json!({"id": "one", "type": "token", "data": "value"})).await;
    server.private.patch("/tokens/one", json!({"data": "another"})).await.expect(200);
    let names = [&server.private, &server.management].map(async |client| {
        client.get("/applications/key").await.expect(200)["name"].as_str().unwrap().to_owned()
    });
    let [private, management] = names;
    let (private, management) = (private.await, management.await);
    browser.sign_in_to(&server);
    browser.visit("tokens/of/one");
    for title in ["Made", "Changed"] {
        let written = format!(
            "[...document.querySelectorAll('dl div')].find((row) => row.firstElementChild.innerText === '{title}')?.innerText"
        );
        let written = browser.eval(&written);
        assert!(written.as_str().unwrap().ends_with(&format!("by {private}")), "{written}");
    }
    // What the server does of itself has no id.
    server.management.get("/webhooks/signing-secrets").await.expect(200);
    browser.visit("logs");
    let whose = browser.texts("[aria-label^='Entries'] td:last-child");
    assert!(whose.iter().all(|one| !one.is_empty()), "{whose:?}");
    assert!(whose.iter().any(|one| one == "the command line"), "{whose:?}");

    let body =
        json!({"name": "ours", "type": "private", "permissions": ["token:read"], "rules": []});
    let made = server.management.post("/applications", body).await.expect(201);
    let id = made["id"].as_str().unwrap();
    browser.visit(&format!("applications/edit/{id}"));
    browser.fill("Name", "mine");
    let body = json!({"name": "theirs", "permissions": ["token:read"], "rules": []});
    server.management.put(&format!("/applications/{id}"), body).await.expect(200);
    browser.click("Save");
    browser.wait_for(&format!("by {management}."));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn whom_a_reactor_acts_as_is_read_whole_on_a_narrow_screen() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    let names = ["The payment gateway that settles cards every night", &"M".repeat(60)];
    let mut ids = vec![String::new()];
    for name in names {
        let body =
            json!({"name": name, "type": "private", "permissions": ["token:read"], "rules": []});
        let made = server.management.post("/applications", body).await.expect(201);
        ids.push(made["id"].as_str().unwrap().to_owned());
    }
    browser.set_width(390);
    browser.sign_in_to(&server);
    browser.visit("reactors/new");
    // How high the text of the choice would be beside the arrow, and how high the choice is.
    let heights = "(({ clientWidth, clientHeight, selectedOptions: [chosen] }, style) => {
            const room = (one, two) => parseFloat(style[one]) + parseFloat(style[two]);
            const copy = document.createElement('div');
            copy.textContent = chosen.text;
            const width = `${clientWidth - room('paddingLeft', 'paddingRight') - 20}px`;
            // Lines of a choice are apart as the font has it.
            Object.assign(copy.style, { font: style.font, lineHeight: 'normal', width, overflowWrap: 'anywhere' });
            document.body.append(copy);
            const height = copy.offsetHeight;
            copy.remove();
            return height <= clientHeight - room('paddingTop', 'paddingBottom') + 2;
        })(t.field('Acts as'), getComputedStyle(t.field('Acts as')))";
    for id in &ids {
        browser.choose("Acts as", id);
        browser.wait(heights);
        let main = "document.querySelector('main')";
        assert_eq!(browser.eval(&format!("{main}.scrollWidth <= {main}.clientWidth")), true);
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_queued_formula_answered_itself_is_shown() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start_with(Setup::open()).await;
    let receiver = Receiver::start().await;
    let code = "const { CustomHttpResponseError } = require('tokamak');\n\
        module.exports = async () => { throw new CustomHttpResponseError({\n\
        status: 402, headers: { 'x-why': 'no money' }, body: { declined: true } }); };";
    let path = scripts::reactor(&server, code, json!({}), json!({})).await;
    let body = json!({"args": {}, "callback_url": receiver.url()});
    let queued = server.private.post(&path, body).await.expect(202);
    receiver.wait(1).await;
    browser.sign_in_to(&server);
    let reactor = path.trim_start_matches("/reactors/").trim_end_matches("/react");
    let run = queued["invocation_id"].as_str().unwrap();
    browser.visit(&format!("invocations/{reactor}/{run}"));
    browser.wait_for("The formula answered 402.");
    browser.wait_for("\"x-why\": \"no money\"");
    browser.wait_for("\"declined\": true");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_copy_that_fails_is_told() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    browser.sign_in_to(&server);
    browser.eval(
        "Object.defineProperty(navigator, 'clipboard', { value: {
            writeText: async () => { throw new Error('not allowed'); } } }), true",
    );
    browser.click("Copy application id");
    browser.wait_for("Could not be copied: select the text.");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// What the result of a run says of one thing.
fn fact(browser: &mut Browser, name: &str) -> Value {
    browser.eval(&format!(
        "[...document.querySelectorAll('#result dl div')].find((row) =>
            row.firstElementChild.innerText === {})?.lastElementChild.innerText",
        json!(name)
    ))
}

#[tokio::test(flavor = "multi_thread")]
async fn whom_a_reactor_is_run_as_is_chosen_and_named() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    let reactor = reactor(&server).await;
    let token = json!({"id": "a-number", "type": "card_number", "data": "4242424242424242"});
    server.private.post("/tokens", token).await.expect(201);
    let rule = json!([{"description": "", "priority": 1, "container": "/", "transform": "mask",
        "permissions": ["token:use"]}]);
    let masking = server.application("private", &[], rule).await;
    let own = server.private.get("/applications/key").await.expect(200);
    let keys = [&server.management, &masking, &server.private];
    let keys = keys.map(|client| client.key.as_deref().unwrap());
    browser.sign_in(&format!("http://{}", server.address()), &keys);
    browser.visit(&format!("reactors/of/{reactor}"));
    browser.fill("Arguments", r#"{"number": "{{ a-number }}"}"#);
    // The first of them, which is said.
    assert_eq!(browser.eval("t.field('Run as').selectedOptions[0].text"), "test");
    browser.click("Run");
    browser.wait("document.querySelector('pre.result')?.innerText.includes('XXXXXXXXXXXX4242')");
    assert_eq!(fact(&mut browser, "Run as"), "test");
    browser.choose("Run as", own["id"].as_str().unwrap());
    browser.click("Run");
    browser.wait("document.querySelector('pre.result')?.innerText.includes('4242424242424242')");
    assert_eq!(fact(&mut browser, "Run as"), own["name"]);

    // Where there is one there is nothing to choose, and it is named all the same.
    browser.visit("keys");
    browser.click("Forget this key, of test");
    browser.visit(&format!("reactors/of/{reactor}"));
    browser.wait("t.named('button', 'Run')");
    assert_eq!(browser.eval("t.field('Run as') === undefined"), true);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_is_in_sight_on_a_small_screen() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    let reactor = reactor(&server).await;
    browser.set_width(360);
    browser.sign_in_to(&server);
    browser.visit(&format!("reactors/of/{reactor}"));
    browser.eval("document.querySelector('main form').style.paddingTop = '60rem', true");
    browser.eval("t.named('button', 'Run').focus(), true");
    browser.press("Enter");
    browser.wait("document.activeElement.ariaLabel === 'Result'");
    let below = browser.eval("document.getElementById('result').offsetTop > innerHeight");
    assert_eq!(below, true);
    let place = "document.activeElement.getBoundingClientRect()";
    browser.wait(&format!("{place}.top >= 0 && {place}.top < innerHeight - 100"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// It confines the reactor still: nothing runs. A rename must not take that away unseen.
#[tokio::test(flavor = "multi_thread")]
async fn an_application_that_has_ended_is_told_and_not_dropped_by_a_rename() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    let reactor = reactor(&server).await;
    let ends = i64::try_from(server.clock.now_ms() + 60_000).unwrap();
    let ends = chrono::DateTime::from_timestamp_millis(ends).unwrap().to_rfc3339();
    let acting = json!({"name": "acting", "type": "private", "permissions": ["token:create"],
        "expires_at": ends});
    let acting = server.management.post("/applications", acting).await.expect(201);
    let body = json!({"name": "one", "configuration": {}, "application": {"id": acting["id"]}});
    let path = format!("/reactors/{reactor}");
    server.management.put(&path, body).await.expect(200);
    server.clock.advance_ms(120_000);
    browser.sign_in_to(&server);
    browser.visit(&format!("reactors/of/{reactor}"));
    browser.wait_for("an application that has ended");
    browser.visit(&format!("reactors/edit/{reactor}"));
    browser.wait("t.field('Acts as')?.selectedOptions[0].text.includes('that has ended')");
    browser.fill("Name", "two");
    browser.press("Enter");
    browser.wait_for("is no application");
    let kept = server.management.get(&path).await.expect(200);
    assert_eq!((&kept["name"], &kept["application_id"]), (&json!("one"), &acting["id"]));
    // To have none is to be said.
    browser.choose("Acts as", "");
    browser.fill("Name", "two");
    browser.press("Enter");
    browser.heading("two");
    let freed = server.management.get(&path).await.expect(200);
    assert!(freed.get("application_id").is_none(), "{freed}");
}
