//! Forms of the console: what is folded away in them, what they begin with, which key sends them, and who is shown none.

use serde_json::{Value, json};

use crate::support::browser::Browser;
use crate::support::{TestServer, guests};

/// A formula that ships with the product.
const OFFICIAL: &str = "6f2b0c0e-3d5a-4c38-9d6b-5a1f3c7e9b01";
const ECHO: &str = "module.exports = async ({ args }) => ({ raw: { args } });";
const FOLD: &str = "document.querySelector('main details').open = false, true";
const SUBMIT: &str = "document.querySelector('main [type=submit]')";

/// Whether what was folded is open, and the field of this label in it has the focus.
fn unfolded_at(label: &str) -> String {
    let details = "document.querySelector('main details')";
    format!("{details}.open && document.activeElement === t.field({})", json!(label))
}

fn base(server: &TestServer) -> String {
    format!("http://{}", server.address())
}

/// A formula of [`ECHO`] that declares one argument.
fn declaring(argument: &str) -> Value {
    json!({"name": "echo", "code": ECHO,
        "request_parameters": [{"name": argument, "type": "string"}]})
}

/// A formula that declares this argument, and a reactor of it; gives their ids.
async fn reactor(server: &TestServer, argument: &str) -> (String, String) {
    let formula = declaring(argument);
    let formula = server.management.post("/reactor-formulas", formula).await.expect(201);
    let body = json!({"name": "echoes", "configuration": {}, "formula": {"id": formula["id"]}});
    let made = server.management.post("/reactors", body).await.expect(201);
    let id = |entity: &Value| entity["id"].as_str().unwrap().to_owned();
    (id(&formula), id(&made))
}

#[tokio::test(flavor = "multi_thread")]
async fn what_the_browser_finds_faulty_in_a_folded_part_is_unfolded_and_gets_the_focus() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    browser.sign_in_to(&server);
    browser.visit("tokens/new");
    browser.fill("Data", "value");
    browser.click("More");
    browser.wait("t.field('Ends')");
    // The first part of a time is no time yet.
    browser.eval("t.field('Ends').focus(), true");
    browser.press("ArrowUp");
    browser.wait("t.field('Ends').validity.badInput");
    browser.eval(FOLD);
    browser.click("Create");
    browser.wait(&unfolded_at("Ends"));
    let tokens = server.private.get("/tokens").await.expect(200);
    assert_eq!(tokens["pagination"]["total_items"], 0);
    browser.click("Tokens");
    browser.click("Leave");
    browser.heading("Tokens");

    browser.visit("formulas/new");
    browser.fill("Name", "halves");
    browser.click("Declared values and limits");
    browser.fill("Memory in MiB", "64.5");
    browser.eval(FOLD);
    browser.click("Create");
    browser.wait(&unfolded_at("Memory in MiB"));
    browser.fill("Memory in MiB", "64");
    browser.eval(FOLD);
    browser.click("Create");
    browser.heading("halves");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rule_keeps_no_right_that_the_type_chosen_after_it_may_not_hold() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    browser.sign_in_to(&server);
    browser.visit("applications/new");
    browser.fill("Name", "shop");
    browser.click("Add a rule");
    browser.wait("document.querySelector('fieldset.rule .check')");
    let reading = "[...document.querySelectorAll('fieldset.rule .check')]
        .find((one) => one.innerText.startsWith('token:read'))";
    browser.eval(&format!("{reading}.click(), true"));
    browser.wait(&format!("{reading}.querySelector('input').checked"));
    browser.choose("Type", "public");
    browser.wait(&format!("!{reading}"));
    browser.click("Create");
    browser.heading("shop");
    browser.wait("document.querySelector('.good-news code')");
    let key = browser.eval("document.querySelector('.good-news code').innerText");
    let shop = server.client(key.as_str().unwrap());
    let made = shop.get("/applications/key").await.expect(200);
    assert_eq!(made["type"], "public");
    assert_eq!(made["rules"][0]["permissions"], json!(["token:create"]));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn arguments_begin_as_the_formula_of_now_declares_them_and_stay_if_written_by_hand() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    let (formula, reactor) = reactor(&server, "one").await;
    let formula = format!("/reactor-formulas/{formula}");
    let page = format!("reactors/of/{reactor}");
    let written = "t.field('Arguments')?.value.replace(/\\s/g, '')";
    browser.sign_in_to(&server);
    browser.visit(&page);
    browser.wait(&format!("{written} === '{{\"one\":\"\"}}'"));
    server.management.put(&formula, declaring("two")).await.expect(200);
    browser.visit("formulas");
    browser.visit(&page);
    browser.wait(&format!("{written} === '{{\"two\":\"\"}}'"));

    let by_hand = r#"{"three":"by-hand"}"#;
    browser.fill("Arguments", by_hand);
    server.management.put(&formula, declaring("three")).await.expect(200);
    browser.eval("document.getElementById('told').textContent = '', true");
    browser.click("Refresh");
    browser.wait("document.getElementById('told').textContent.trim() === 'Read anew'");
    assert_eq!(browser.eval(written), by_hand);
    // What was run may be left, and is there again.
    browser.click("Run");
    browser.wait("document.querySelector('pre.result')?.innerText.includes('by-hand')");
    browser.visit("formulas");
    browser.visit(&page);
    browser.wait("t.field('Arguments')");
    assert_eq!(browser.eval(written), by_hand);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn the_preview_begins_with_the_container_of_the_rules_until_another_is_written() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    browser.sign_in_to(&server);
    browser.visit("applications/new");
    let asked = "t.field('Containers of a token')?.value";
    browser.wait(&format!("{asked} === '/general/high/'"));
    browser.click("Add a rule");
    browser.wait(&format!("{asked} === '/pci/'"));
    browser.fill("Container", "/bank/");
    browser.wait(&format!("{asked} === '/bank/'"));
    browser.fill("Containers of a token", "/pci/low/");
    browser.fill("Container", "/pci/");
    browser.wait_for("rule 1 on /pci/");
    assert_eq!(browser.eval(asked), "/pci/low/");
    browser.click("Remove rule 1");
    browser.wait("!document.querySelector('fieldset.rule')");
    assert_eq!(browser.eval(asked), "/pci/low/");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_without_containers_is_made_by_the_key_that_may_make_it_where_its_type_lies() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    let rule = json!([{"description": "", "priority": 1, "container": "/bank/",
        "transform": "mask", "permissions": ["token:create"]}]);
    let bank = server.application("private", &[], rule).await;
    let keys = [&bank, &server.private].map(|client| client.key.as_deref().unwrap());
    browser.sign_in(&base(&server), &keys);
    browser.visit("tokens/new");
    browser.choose("Type", "card");
    let card = r#"{"number": "4242424242424242", "expiration_month": 12, "expiration_year": 2030}"#;
    browser.fill("Data", card);
    browser.click("Create");
    browser.wait_for("The token is made:");
    let tokens = server.private.get("/tokens").await.expect(200);
    let own = server.private.get("/applications/key").await.expect(200);
    assert_eq!(tokens["pagination"]["total_items"], 1);
    assert_eq!(tokens["data"][0]["type"], "card");
    assert_eq!(tokens["data"][0]["created_by"], own["id"]);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_form_is_shown_to_who_may_read_a_record_and_not_change_it() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    let own = server.private.get("/applications/key").await.expect(200);
    let (formula, _) = reactor(&server, "one").await;
    for (page, right, lacking) in [
        (
            format!("applications/edit/{}", own["id"].as_str().unwrap()),
            "application:read",
            "application:update",
        ),
        (format!("formulas/edit/{formula}"), "reactor:read", "reactor:update"),
    ] {
        let reading = server.application("management", &[right], json!([])).await;
        browser.sign_in(&base(&server), &[reading.key.as_deref().unwrap()]);
        browser.visit(&page);
        browser.wait_for(&format!("No key in this tab holds {lacking}."));
        assert_eq!(browser.eval(SUBMIT), Value::Null, "{page}");
        assert!(!browser.asks_before_the_end(), "{page}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn no_form_is_shown_of_a_formula_that_comes_with_the_server() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    browser.sign_in_to(&server);
    browser.visit(&format!("formulas/edit/{OFFICIAL}"));
    browser.wait_for("An official formula comes with the server, and is not changed.");
    assert_eq!(browser.eval(SUBMIT), Value::Null);
    assert!(!browser.asks_before_the_end());
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn an_address_that_names_no_view_of_a_page_leads_to_its_list_and_asks_for_no_more() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    reactor(&server, "one").await;
    server.private.token("token", json!("value")).await;
    browser.sign_in_to(&server);
    browser.watch_requests();
    for (page, heading) in [
        ("reactors", "Reactors"),
        ("applications", "Applications"),
        ("formulas", "Formulas"),
        ("tokens", "Tokens"),
    ] {
        browser.visit(&format!("{page}/bogus/an-id"));
        browser.heading(heading);
        browser.wait("document.querySelector('main tbody tr')");
        let asked = browser.eval("later.asked.filter((one) => one.includes('an-id'))");
        assert_eq!(asked, json!([]), "{page}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Notes the components that are sent, has files read only when `reads[name].go()` says so, and chooses files by `pick(name)`.
const FILES: &str = "window.sent = [], window.reads = {},
    window.fetch = ((send) => async (...given) => {
        if (['POST', 'PUT'].includes(given[0].method)) {
            const { component } = JSON.parse(await given[0].clone().text());
            sent.push(component && atob(component));
        }
        return send(...given);
    })(window.fetch),
    File.prototype.arrayBuffer = function () {
        return new Promise((go, fail) => {
            reads[this.name] = {
                go: () => Blob.prototype.arrayBuffer.call(this).then(go),
                fail: () => fail(new DOMException('It is gone.', 'NotReadableError')),
            };
        });
    },
    window.pick = (name) => {
        const chosen = new DataTransfer();
        chosen.items.add(new File([name], name));
        const field = t.field('Component');
        field.files = chosen.files;
        return field.dispatchEvent(new Event('change', { bubbles: true }));
    }, true";

#[tokio::test(flavor = "multi_thread")]
async fn the_file_that_is_sent_is_the_one_that_is_shown() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    browser.sign_in_to(&server);
    browser.eval(FILES);
    browser.visit("formulas/new");
    browser.fill("Name", "of a file");
    browser.choose("Language", "wasm");
    browser.wait("t.field('Component')");
    browser.eval("pick('big'), pick('small')");
    browser.click("Create");
    browser.wait("reads.small");
    // A large one may come long after a small one.
    browser.eval("reads.small.go(), true");
    browser.eval("reads.big?.go(), true");
    browser.wait_for("The formula is no WebAssembly component.");
    assert_eq!(browser.eval("sent"), json!(["small"]));

    // So is one that is chosen while another one is read.
    browser.eval("sent = [], pick('first')");
    browser.click("Create");
    browser.wait("reads.first");
    browser.eval("pick('second'), reads.first.go(), true");
    browser.wait("reads.second");
    browser.eval("reads.second.go(), true");
    browser.wait("sent.length > 0 && document.querySelector('.problem')");
    assert_eq!(browser.eval("sent"), json!(["second"]));

    // What cannot be read is said at the field, and nothing is sent.
    browser.eval("sent = [], pick('gone')");
    browser.click("Create");
    browser.wait("reads.gone");
    browser.eval("reads.gone.fail(), true");
    browser.wait("document.querySelector('p.fault')?.innerText.startsWith('cannot be read')");
    browser.wait("document.activeElement === t.field('Component')");
    assert_eq!(browser.eval("t.field('Component').ariaInvalid"), "true");
    // Nor is a file of a field that has been away.
    browser.choose("Language", "javascript");
    browser.wait("t.field('Code')");
    browser.choose("Language", "wasm");
    browser.wait("t.field('Component')");
    browser.click("Create");
    browser.wait("t.field('Component').validity.valueMissing");
    assert_eq!(browser.eval("sent"), json!([]));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_formula_is_not_saved_without_the_file_that_is_still_read() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    let formula = guests::formula(&server, "bare", json!({"name": "compiled"})).await;
    browser.sign_in_to(&server);
    browser.eval(FILES);
    browser.visit(&format!("formulas/edit/{formula}"));
    browser.wait("t.field('Component')");
    browser.eval("pick('another')");
    browser.click("Save");
    browser.wait("reads.another");
    assert_eq!(browser.eval("sent"), json!([]));
    browser.eval("reads.another.go(), true");
    browser.wait_for("The formula is no WebAssembly component.");
    assert_eq!(browser.eval("sent"), json!(["another"]));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// The server's refusal names no member.
#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_cannot_run_is_refused_at_its_field() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    browser.sign_in_to(&server);
    browser.visit("formulas/new");
    browser.fill("Code", "no script (");
    browser.fill("Name", "one");
    browser.click("Create");
    browser.wait("t.field('Code').ariaInvalid === 'true'");
    browser.wait("document.activeElement === t.field('Code')");
    let fault = browser.texts("p.fault").remove(0);
    assert!(fault.contains("does not parse"), "{fault}");
    // It is said once more where all is said that went wrong, and no more than that.
    assert_eq!(browser.texts(".problem .detail"), [fault]);
    assert_eq!(browser.texts(".problem li"), Vec::<String>::new());

    browser.choose("Language", "wasm");
    browser.wait("t.field('Component')");
    browser.eval(
        "(() => {
            const chosen = new DataTransfer();
            chosen.items.add(new File(['no component'], 'one.wasm'));
            t.field('Component').files = chosen.files;
            t.field('Component').dispatchEvent(new Event('change'));
            return true;
        })()",
    );
    browser.click("Create");
    browser.wait("t.field('Component').ariaInvalid === 'true'");
    browser.wait("document.activeElement === t.field('Component')");
    assert_eq!(browser.texts("p.fault"), ["The formula is no WebAssembly component."]);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_of_metadata_that_is_there_twice_is_refused_in_a_new_token_as_well() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    browser.sign_in_to(&server);
    browser.visit("tokens/new");
    browser.fill("Data", "value");
    browser.click("More");
    browser.set("Metadata", "customer=17\n customer = 18");
    browser.click("Create");
    browser.wait("document.querySelector('p.fault')?.innerText === 'has a key twice'");
    let tokens = server.private.get("/tokens").await.expect(200);
    assert_eq!(tokens["pagination"]["total_items"], 0);
    browser.set("Metadata", "customer=17\nname=a=b");
    browser.click("Create");
    browser.wait_for("The token is made");
    let tokens = server.private.get("/tokens").await.expect(200);
    assert_eq!(tokens["data"][0]["metadata"], json!({"customer": "17", "name": "a=b"}));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_is_not_said_to_be_as_old_as_its_application() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    let body = json!({"name": "till", "type": "public", "permissions": ["token:create"],
        "rules": [], "expires_at": "2039-01-01T00:00:00Z"});
    let till = server.management.post("/applications", body).await.expect(201);
    let till = server.client(till["key"].as_str().unwrap());
    let opened = till.post("/sessions", json!({})).await.expect(201);
    let session = opened["session_key"].as_str().unwrap();
    let other = till.post("/sessions", json!({})).await.expect(201);
    let other = other["session_key"].as_str().unwrap();
    browser.sign_in(&base(&server), &[session, till.key.as_deref().unwrap(), other]);
    browser.fill("Another API key", session);
    browser.press("Enter");
    browser.wait("[...document.querySelectorAll('.pages .keys span')].at(-1).innerText.startsWith('Session of till')");
    let mut facts = |name: &str| browser.texts(&format!("section[aria-label='{name}'] dt"));
    assert_eq!(facts("till"), ["Application", "Made", "Ends"]);
    assert_eq!(facts("Session of till"), ["Application"]);
    // Each session is a key of its own, and the same one is not there twice.
    assert_eq!(facts("Session 2 of till"), ["Application"]);
    assert_eq!(facts("Session 3 of till"), Vec::<String>::new());
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// While a part of a time is missing it has no value: what is there already stays, and a token keeps its end until it has
/// another.
#[tokio::test(flavor = "multi_thread")]
async fn a_field_that_is_half_written_keeps_what_is_there() {
    let server = TestServer::start().await;
    let end = "2039-12-06T07:08:09Z";
    let token = json!({"id": "ends", "type": "token", "data": "a", "expires_at": end});
    server.private.post("/tokens", token).await.expect(201);
    let Some(mut browser) = Browser::watching(&server) else { return };
    browser.visit("tokens/edit/ends");
    browser.wait("t.field('Ends').value === '2039-12-06T07:08:09'");
    browser.eval("t.field('Ends').focus()");
    // The part that comes first, whichever that is where this browser is.
    browser.press("Backspace");
    browser.wait("t.field('Ends').validity.badInput");
    browser.wait_for("Nothing is changed yet");
    // The other parts are there still.
    browser.press("ArrowUp");
    browser.wait(
        "t.field('Ends').value.startsWith('2039-') && t.field('Ends').value.endsWith('T07:08:09')",
    );
    browser.wait_for("expires_at");
}
