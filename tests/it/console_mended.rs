//! The console with what is not as it should be: texts that are no keys, answers that are no figures, pages that are
//! gone, names that are long or run from right to left, numbers that a browser would round.

use serde_json::{Value, json};

use crate::support::TestServer;
use crate::support::browser::Browser;
use crate::support::receiver::Receiver;
use crate::support::server::Setup;

/// More than a browser's own numbers hold.
const LARGE: u64 = 9_007_199_254_740_993;
const SCRIPT: &str = "module.exports = async (request) => { \
    console.log('a line'); return { raw: request.configuration }; };";

/// A reactor of [`SCRIPT`] with a number in its configuration; gives its id.
async fn reactor(server: &TestServer) -> String {
    let body = json!({"name": "logs", "code": SCRIPT,
        "configuration": [{"name": "N", "type": "number"}]});
    let formula = server.management.post("/reactor-formulas", body).await.expect(201);
    let body = json!({"name": "one", "configuration": {"N": LARGE},
        "formula": {"id": formula["id"]}});
    let made = server.management.post("/reactors", body).await.expect(201);
    made["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_text_that_no_header_holds_is_said_to_be_no_key() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    for text in ["key_prv_\u{430}\u{431}", "\u{201c}key_prv_1\u{201d}", "key_prv_\u{1}1"] {
        browser.go(&format!("http://{}/console", server.address()));
        browser.fill("API key", text);
        browser.press("Enter");
        browser.wait("document.querySelector('.problem')");
        assert_eq!(browser.texts(".problem strong"), ["Not a key"], "{text:?}");
        browser.wait("t.field('API key').ariaInvalid === 'true'");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_go_on_after_an_answer_that_was_none() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    browser.sign_in_to(&server);
    browser.eval(
        "window.send = window.fetch, window.fetch = (...given) => given[0] === '/metrics'
            ? Promise.resolve(new Response('<html>', { status: 502 })) : send(...given), true",
    );
    browser.visit("figures");
    browser.wait_for("The server answered 502.");
    browser.eval("window.fetch = window.send, true");
    browser.wait("document.querySelector('[aria-label=\"Since the server started\"]')");
    assert_eq!(browser.eval("document.querySelector('.problem')"), Value::Null);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_shows_its_last_page_where_the_page_it_was_at_is_gone() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    browser.sign_in_to(&server);
    let application =
        json!({"name": "a", "type": "management", "permissions": ["log:read"], "rules": []});
    let token = json!({"type": "token", "data": "value"});
    for (client, page, noun, body) in [
        (&server.management, "applications", "applications", application),
        (&server.private, "tokens", "tokens", token),
    ] {
        let path = format!("/{page}");
        let mut ids = Vec::new();
        for _ in 0..21 {
            let made = client.post(&path, body.clone()).await.expect(201);
            ids.push(made["id"].as_str().unwrap().to_owned());
        }
        browser.visit(page);
        browser.click("Next");
        browser.wait_for("Page 2 of 2");
        browser.wait("!document.querySelector('[aria-busy=true]')");
        browser.visit("keys");
        for id in &ids[..10] {
            client.delete(&format!("{path}/{id}")).await.expect(204);
        }
        browser.visit(page);
        let listed = client.get(&path).await.expect(200);
        let total = &listed["pagination"]["total_items"];
        let expected = format!("1–{total} of {total} {noun}");
        browser.wait_for(&expected);
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_read_has_a_heading_where_the_focus_goes() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    browser.sign_in_to(&server);
    let gone = "00000000-0000-4000-8000-000000000000";
    for page in ["tokens", "applications", "formulas", "reactors"] {
        for view in ["of", "edit"] {
            browser.visit(&format!("{page}/{view}/{gone}"));
            browser.wait_for("Not Found");
        }
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn long_names_push_nothing_off_the_page() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    browser.set_width(1400);
    browser.sign_in_to(&server);
    let long = "M".repeat(120);
    let application =
        json!({"name": long, "type": "management", "permissions": ["log:read"], "rules": []});
    let made = server.management.post("/applications", application).await.expect(201);
    let token = json!({"id": long, "type": "token", "data": "value", "metadata": {"key": long}});
    server.private.post("/tokens", token).await.expect(201);
    let wide = "[...document.querySelectorAll('.scroll, dialog, main')]
        .filter((one) => one.scrollWidth > one.clientWidth).length";
    let logs = format!("logs/token/{long}");
    for page in ["applications", "tokens", logs.as_str()] {
        browser.visit(page);
        assert_eq!(browser.eval("document.querySelectorAll('tbody').length"), 1, "{page}");
        assert_eq!(browser.eval(wide), 0, "{page}");
    }
    browser.visit(&format!("applications/of/{}", made["id"].as_str().unwrap()));
    browser.click("Delete");
    browser.wait("document.querySelector('dialog')?.open");
    assert_eq!(browser.eval(wide), 0, "the dialog");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_description_of_a_rule_pushes_nothing_out_of_its_row() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    let rules = json!([{"description": "M".repeat(300), "priority": 1, "container": "/pci/",
        "transform": "mask", "permissions": ["token:read"]}]);
    let described = server.application("private", &[], rules).await;
    let own = described.get("/applications/key").await.expect(200);
    let keys = [&server.management, &described].map(|client| client.key.as_deref().unwrap());
    browser.set_width(1280);
    browser.sign_in(&format!("http://{}", server.address()), &keys);
    let wide = "[...document.querySelectorAll('.scroll, main')]
        .filter((one) => one.scrollWidth > one.clientWidth).length";
    for page in [format!("applications/of/{}", own["id"].as_str().unwrap()), "keys".to_owned()] {
        browser.visit(&page);
        browser.wait_for("MMM");
        assert_eq!(browser.eval(wide), 0, "{page}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn names_from_right_to_left_turn_nothing_else_around() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    browser.sign_in_to(&server);
    let name = "\u{202e}abc";
    let application =
        json!({"name": name, "type": "management", "permissions": ["log:read"], "rules": []});
    let made = server.management.post("/applications", application).await.expect(201);
    let token =
        json!({"id": "a-token", "type": "token", "data": "value", "metadata": {"key": name}});
    server.private.post("/tokens", token).await.expect(201);
    browser.visit("applications");
    assert!(browser.texts("tbody th bdi").contains(&name.to_owned()));
    browser.visit("tokens");
    assert_eq!(browser.texts(".pair bdi"), ["key", name]);
    browser.visit("tokens/of/a-token");
    assert_eq!(browser.texts(".pair bdi"), ["key", name]);
    browser.visit(&format!("applications/of/{}", made["id"].as_str().unwrap()));
    browser.click("Delete");
    browser.wait("document.querySelector('dialog')?.open");
    assert_eq!(browser.texts("dialog bdi"), [name]);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_run_is_delivered_again_once_and_its_lines_are_scrolled_by_keyboard() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start_with(Setup::open()).await;
    let receiver = Receiver::start().await;
    let reactor = reactor(&server).await;
    browser.sign_in_to(&server);
    let body = json!({"args": {}, "callback_url": receiver.url()});
    let queued = server.private.post(&format!("/reactors/{reactor}/react"), body).await.json();
    receiver.wait(1).await;
    browser.visit(&format!("invocations/{reactor}/{}", queued["invocation_id"].as_str().unwrap()));
    while browser.eval("Boolean(t.named('button', 'Deliver again'))") == false {
        browser.click("Look again");
    }
    browser.wait("!t.named('button', 'Deliver again').ariaDisabled");
    let sent = browser.eval(
        "(() => {
            const send = window.fetch;
            let sent = 0;
            window.fetch = (request) => { sent += 1; return send(request); };
            const button = t.named('button', 'Deliver again');
            button.click();
            button.click();
            return sent;
        })()",
    );
    assert_eq!(sent, 1);
    browser.wait("document.getElementById('told').textContent.includes('queued again')");

    browser.visit(&format!("invocations/{reactor}"));
    browser.wait("document.querySelector('.lines')");
    let lines = browser.eval(
        "(({ tabIndex, role, ariaLabel, firstElementChild: list }) =>
            [tabIndex, role, ariaLabel.startsWith('Log lines of'), list.tagName, list.role]
        )(document.querySelector('.lines'))",
    );
    assert_eq!(lines, json!([0, "region", true, "OL", null]));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn large_numbers_are_shown_and_sent_as_they_are_written() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    let client = server.revealing().await;
    let reactor = reactor(&server).await;
    let keys = [&server.management, &client].map(|client| client.key.as_deref().unwrap());
    browser.sign_in(&format!("http://{}", server.address()), &keys);

    browser.visit("tokens/new");
    browser.choose("Type", "card");
    browser.choose("Type", "token");
    browser.eval("t.named('label', 'The data is JSON').click(), true");
    browser.fill("Data", &format!("{{\"n\": {LARGE}}}"));
    browser.click("More");
    browser.fill("Id", "large");
    browser.click("Create");
    browser.wait_for("The token is made");
    assert_eq!(client.get("/tokens/large").await.expect(200)["data"]["n"], LARGE);
    browser.visit("tokens/of/large");
    browser.click("Reveal");
    browser.wait_for(&format!("\"n\": {LARGE}"));

    // What nobody touched is what it was.
    browser.visit(&format!("reactors/edit/{reactor}"));
    browser.wait(&format!("t.field('N')?.value === '{LARGE}'"));
    browser.fill("Name", "two");
    browser.click("Save");
    browser.wait("document.querySelector('h1')?.innerText === 'two'");
    let kept = server.management.get(&format!("/reactors/{reactor}")).await.expect(200);
    assert_eq!(kept["configuration"]["N"], LARGE);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_browser_that_cannot_keep_a_large_number_names_it() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    let reactor = reactor(&server).await;
    browser.sign_in_to(&server);
    browser.eval("delete JSON.rawJSON");
    browser.visit(&format!("reactors/of/{reactor}"));
    browser.fill("Arguments", &format!("{{\"a9007199254740993\\\"\": [1.50, {LARGE}, -1e400]}}"));
    browser.click("Run");
    browser.wait("document.querySelector('.fault')");
    let expected = format!("has numbers that this browser would round: {LARGE}, -1e400");
    assert_eq!(browser.texts(".fault"), [expected]);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_come_although_each_answer_takes_longer_than_they_are_apart() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    browser.sign_in_to(&server);
    browser.eval(
        "window.send = window.fetch, window.fetch = async (...given) => {
            if (given[0] === '/metrics') await new Promise((go) => setTimeout(go, 2500));
            return send(...given);
        }, true",
    );
    browser.visit("figures");
    browser.wait("document.querySelector('[aria-label=\"Since the server started\"]')");
    browser.wait("document.querySelector('.chart path')");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_go_on_from_where_they_were_when_the_server_is_started_anew() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    browser.sign_in_to(&server);
    browser.eval(
        "window.answered = { a: 100, b: 7 },
        window.fetch = ((send) => async (...given) => {
            if (given[0] !== '/metrics') return send(...given);
            const of = (name) => `{${name}method=\"GET\",route=\"/`;
            const lines = Object.entries(answered).flatMap(([route, count]) => [
                `tokamak_http_requests_total${of('status=\"200\",')}${route}\"} ${count}`,
                `tokamak_http_request_duration_seconds_bucket${of('le=\"+Inf\",')}${route}\"} ${count}`,
            ]);
            return new Response(lines.join('\\n'));
        })(window.fetch), true",
    );
    let rows = "[...document.querySelectorAll('[aria-label=\"Requests by route\"] tbody tr')]
        .map((row) => [...row.children].slice(0, 3).map((cell) => cell.innerText).join(' '))";
    browser.visit("figures");
    for (answered, expected) in [
        ("{ a: 100, b: 7 }", ["GET /a 100 0", "GET /b 7 0"]),
        ("{ a: 110, b: 8 }", ["GET /a 110 10", "GET /b 8 1"]),
        // It is started anew, and has answered one of them.
        ("{ a: 50 }", ["GET /a 50 60", "GET /b 0 1"]),
        ("{ a: 55 }", ["GET /a 55 65", "GET /b 0 1"]),
    ] {
        browser.eval(&format!("answered = {answered}, true"));
        browser.wait(&format!("{rows}.join() === {}", json!(expected.join(","))));
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_chart_has_a_gap_where_nothing_was_read() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    browser.visit("figures");
    let lines = "document.querySelector('.chart')?.querySelectorAll('path.line-0')";
    let begins = format!("parseFloat({lines}[0].getAttribute('d').slice(1))");
    browser.wait(&format!("{lines}?.length === 1"));
    let before = browser.eval(&begins).as_f64().unwrap();
    browser.fail(&["/metrics"]);
    browser.wait_for("The server cannot be reached.");
    browser.fail(&[]);
    browser.wait(&format!("{lines}.length === 2"));
    // Time went on meanwhile.
    let after = browser.eval(&begins).as_f64().unwrap();
    assert!(after < before - 5.0, "{after} and before {before}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn long_addresses_and_paths_fit_a_narrow_screen() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    let long = format!("https://{}.example/", "a".repeat(200));
    let formula = json!({"name": "long", "description": long, "code": SCRIPT,
        "configuration": [{"name": "url", "type": "string", "description": long}]});
    let formula = server.management.post("/reactor-formulas", formula).await.expect(201);
    let formula = formula["id"].as_str().unwrap();
    let container = format!("/{}/", "c".repeat(50));
    let token = json!({"type": "token", "data": "value", "containers": [container]});
    server.private.post("/tokens", token).await.expect(201);
    browser.set_width(360);
    browser.sign_in_to(&server);
    for (page, shown) in [
        (format!("formulas/of/{formula}"), "document.querySelector('.card p')"),
        (format!("reactors/new/{formula}"), "t.field('url')"),
        ("containers".to_owned(), "document.querySelectorAll('.twisty').length > 1"),
    ] {
        browser.visit(&page);
        browser.wait(shown);
        let root = "document.documentElement";
        assert_eq!(
            browser.eval(&format!("{root}.scrollWidth <= {root}.clientWidth")),
            true,
            "{page}"
        );
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn ids_that_stand_for_something_else_in_a_browser_are_ids_of_nothing() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    browser.sign_in_to(&server);
    for (page, said) in [
        ("applications/of/constructor", "There is no such application."),
        ("applications/of/__proto__", "There is no such application."),
        ("invocations/constructor", "There is no such reactor."),
        ("invocations/x/constructor", "There is no run of this id that has a delivery."),
        ("tokens/of/..", "No address leads to what has this id."),
        ("reactors/of/.", "No address leads to what has this id."),
    ] {
        browser.visit(page);
        browser.wait_for(said);
        assert_eq!(browser.eval("document.querySelector('.good-news')"), Value::Null, "{page}");
        assert!(!browser.asks_before_the_end(), "{page}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Presses a button by keyboard.
fn press(browser: &mut Browser, name: &str) {
    let button = format!("t.named('button', {})", json!(name));
    browser.wait(&format!("{button} && !{button}.ariaDisabled"));
    browser.eval(&format!("{button}.focus(), true"));
    browser.press("Enter");
}

const AT_HEADING: &str = "document.activeElement === document.querySelector('h1')";
const AT_TRYING_AGAIN: &str = "document.activeElement === t.named('button', 'Try again')";

#[tokio::test(flavor = "multi_thread")]
async fn the_focus_does_not_go_with_the_button_that_was_pressed() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    for number in 0..21 {
        let token = json!({"id": format!("token-{number}"), "type": "token", "data": "value"});
        server.private.post("/tokens", token).await.expect(201);
    }
    browser.visit("tokens");
    browser.fill("Search", "id:nothing");
    browser.press("Enter");
    browser.wait_for("No token is found.");
    press(&mut browser, "Search for all");
    browser.wait(AT_HEADING);
    browser.wait("document.querySelectorAll('tbody tr').length === 20");

    browser.fail(&["/tokens/search"]);
    press(&mut browser, "Next");
    browser.wait(AT_TRYING_AGAIN);
    browser.fail(&[]);
    browser.press("Enter");
    browser.wait(&format!("document.querySelector('tbody') && {AT_HEADING}"));

    browser.visit("logs/token/nothing");
    browser.wait_for("No entry is like this.");
    press(&mut browser, "Clear the filters");
    browser.wait(&format!("location.hash === '#/logs' && {AT_HEADING}"));
    browser.wait("document.querySelector('tbody tr')");
    let told = "document.getElementById('told').textContent";
    browser.wait(&format!("{told}.endsWith('entries')"));
    // What was told of one page is not of the next.
    browser.visit("keys");
    assert_eq!(browser.eval(told), "");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_delivery_that_failed_to_be_asked_for_is_tried_again_as_that() {
    let server = TestServer::start_with(Setup::open()).await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    let receiver = Receiver::start().await;
    let reactor = reactor(&server).await;
    let body = json!({"args": {}, "callback_url": receiver.url()});
    let queued = server.private.post(&format!("/reactors/{reactor}/react"), body).await.json();
    receiver.wait(1).await;
    let run = queued["invocation_id"].as_str().unwrap();
    browser.visit(&format!("invocations/{reactor}/{run}"));
    let path = format!("/reactors/{reactor}/results/{run}");
    browser.fail(&[path.as_str()]);
    press(&mut browser, "Look again");
    browser.wait(AT_TRYING_AGAIN);
    browser.fail(&[]);
    browser.press("Enter");
    browser.wait(AT_HEADING);
    while browser.eval("Boolean(t.named('button', 'Deliver again'))") == false {
        browser.click("Look again");
    }
    let redelivery = format!("{path}/redeliver");
    browser.fail(&[redelivery.as_str()]);
    press(&mut browser, "Deliver again");
    browser.wait(AT_TRYING_AGAIN);
    browser.fail(&[]);
    browser.press("Enter");
    browser.wait("document.getElementById('told').textContent.includes('queued again')");
    receiver.wait(2).await;
    browser.wait(
        "[...document.querySelectorAll('.badge')].some((one) => one.innerText === 'delivered')",
    );
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
