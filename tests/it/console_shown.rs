//! What the console shows of what is easily overlooked: data that is empty, who made and changed something, entries of one
//! name, what nobody would see in a name, tries that nobody answered, and what is more than there is room for.

use serde_json::{Value, json};

use crate::support::TestServer;
use crate::support::browser::Browser;
use crate::support::scripts;
use crate::support::server::Setup;

const SCRIPT: &str = "module.exports = async () => ({ raw: {} });";

fn id(entity: &Value) -> String {
    entity["id"].as_str().unwrap().to_owned()
}

/// What stands beside a name on a page.
fn fact(browser: &mut Browser, name: &str) -> String {
    let row = format!(
        "[...document.querySelectorAll('dl div')].find((row) => row.firstElementChild.innerText === '{name}')"
    );
    browser.wait(&row);
    browser.eval(&format!("t.name({row}.lastElementChild)")).as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_empty_is_told_from_what_is_not_there() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    for (id, data, mask) in [
        ("text", json!(""), json!("{{ data }}")),
        ("object", json!({}), json!({})),
        ("member", json!({"a": "", "b": "x"}), json!({"a": "{{ data.a }}", "b": "{{ data.b }}"})),
    ] {
        let token = json!({"id": id, "type": "token", "data": data, "mask": mask,
            "metadata": {"note": ""}});
        server.private.post("/tokens", token).await.expect(201);
    }
    browser.sign_in_to(&server);
    browser.visit("tokens");
    browser.wait("document.querySelectorAll('tbody tr').length === 3");
    let mut data = browser.texts("tbody [data-head=Data]");
    data.sort();
    assert_eq!(data, ["a empty text b x", "empty text", "{}"]);
    assert_eq!(browser.texts("tbody [data-head=Metadata]"), ["note empty text"; 3]);
    for (id, shown) in [("text", "empty text"), ("object", "{}")] {
        browser.visit(&format!("tokens/of/{id}"));
        browser.wait(&format!(
            "document.querySelector('[aria-label=Data] pre')?.innerText === '{shown}'"
        ));
    }
    // The same in plaintext.
    let revealing = server.revealing().await.key.unwrap();
    browser.sign_in(&format!("http://{}", server.address()), &[&revealing]);
    browser.visit("tokens/of/text");
    browser.click("Reveal");
    browser.wait("document.querySelector('.revealed')?.innerText === 'empty text'");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_may_be_long_is_scrolled_by_keyboard() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    let mask: serde_json::Map<_, _> =
        (0..40).map(|n| (format!("m{n}"), json!("{{ data }}"))).collect();
    let token = json!({"id": "large", "type": "token", "data": "x", "mask": mask});
    server.private.post("/tokens", token).await.expect(201);
    let declared = json!([{"name": "NAME", "type": "string"}]);
    let formula = json!({"name": "f", "code": SCRIPT, "configuration": declared});
    let formula = server.management.post("/reactor-formulas", formula).await.expect(201);
    let reactor =
        json!({"name": "r", "formula": {"id": formula["id"]}, "configuration": {"NAME": "a"}});
    let reactor = id(&server.management.post("/reactors", reactor).await.expect(201));
    browser.sign_in_to(&server);
    for (page, names) in [
        ("tokens/of/large".to_owned(), json!(["Masked data", "Mask"])),
        (format!("reactors/of/{reactor}"), json!(["Configuration"])),
    ] {
        browser.visit(&page);
        browser.wait("document.querySelector('main pre')");
        let areas = browser.eval(
            "[...document.querySelectorAll('main pre')].map((one) =>
                one.tabIndex === 0 && one.role === 'region' && one.ariaLabel)",
        );
        assert_eq!(areas, names, "{page}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_large_change_a_few_members_are_named() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    server.private.post("/tokens", json!({"id": "one", "type": "token", "data": {}})).await;
    browser.sign_in_to(&server);
    browser.visit("tokens/edit/one");
    browser.choose("The change is", "json");
    for (members, named, more) in [(20, 20, None), (4_021, 20, Some("and 4,001 more"))] {
        let data: serde_json::Map<_, _> =
            (0..members).map(|n| (format!("m{n}"), json!(n))).collect();
        browser.set("Change of the data", &json!(data).to_string());
        browser.wait("t.text().includes('Saving changes data.m0, ')");
        let said = "[...document.querySelectorAll('p.small')].find((one) => one.innerText.startsWith('Saving changes'))";
        browser
            .wait(&format!("{said}?.innerText.includes({})", json!(more.unwrap_or("data.m19."))));
        let count = browser.eval(&format!(
            "[...{said}.querySelectorAll('code')].filter((one) => one.innerText !== 'data').length"
        ));
        assert_eq!(count, named, "{members}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn times_of_the_log_have_seconds_and_none_between_which_nothing_lies_are_asked_for() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    browser.visit("logs");
    browser.set("From", "2026-01-01T00:00:30");
    let is_faulty = "t.field('Before')?.ariaInvalid === 'true' && document.querySelector('p.fault')?.innerText === 'must be later than From'";
    for before in ["2026-01-01T00:00:30", "2026-01-01T00:00:29", "2025-12-31T23:59"] {
        browser.set("Before", before);
        browser.eval("later.asked = [], document.activeElement.blur(), true");
        browser.click("Filter");
        browser.wait("document.activeElement === t.field('Before')");
        assert_eq!(browser.eval(is_faulty), true, "{before}");
        assert_eq!(browser.eval("[location.hash, later.asked]"), json!(["#/logs", []]));
    }
    browser.set("Before", "2026-01-01T00:00:31");
    browser.click("Filter");
    browser
        .wait("location.hash.includes('T00%3A00%3A30') && location.hash.includes('T00%3A00%3A31')");
    browser.wait_for("No entry is like this.");
    assert_eq!(browser.eval("t.field('Before').ariaInvalid"), Value::Null);
    // So is what an address asks for, and the filters can be cleared.
    browser.eval("location.hash = '#/logs?from=2026-01-02T00:00&to=2026-01-01T00:00', true");
    browser.wait(is_faulty);
    assert_eq!(browser.eval("document.querySelector('.empty')"), Value::Null);
    browser.click("Clear");
    browser.wait("document.querySelector('tbody tr') && !document.querySelector('p.fault')");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn code_in_what_went_wrong_stands_as_code() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    let code = "const { CustomHttpResponseError } = require('tokamak');\n\
        module.exports = async ({ args }) => {\n\
        throw new CustomHttpResponseError({ status: 400, body: args });\n};";
    let path = scripts::reactor(&server, code, json!({}), json!({})).await;
    browser.sign_in_to(&server);
    browser.visit(
        path.trim_end_matches("/react")
            .trim_start_matches('/')
            .replace("reactors/", "reactors/of/")
            .as_str(),
    );
    let body = json!({"title": "Declined", "detail": "Send `card` or ` alone.",
        "errors": {"args": ["is no `card`", "nor a `bank`"]}});
    browser.fill("Arguments", &body.to_string());
    browser.click("Run");
    browser.wait_for("Declined");
    assert_eq!(browser.texts(".problem .detail"), ["Send card or ` alone."]);
    let code = browser.texts(".problem .detail code, .problem li code");
    assert_eq!(code, ["card", "args", "card", "bank"]);
    assert_eq!(browser.texts(".fault"), ["is no card; nor a bank"]);
    assert_eq!(browser.texts(".fault code"), ["card", "bank"]);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_try_that_nobody_answered_is_said_to_be_that() {
    let server = TestServer::start_with(Setup::open()).await;
    let Some(mut browser) = Browser::open() else { return };
    let path = scripts::reactor(&server, SCRIPT, json!({}), json!({})).await;
    // Nobody listens there.
    let free = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/", free.local_addr().unwrap());
    drop(free);
    let body = json!({"args": {}, "callback_url": url});
    let queued = server.private.post(&path, body).await.json();
    let run = queued["invocation_id"].as_str().unwrap();
    let reactor = path.trim_start_matches("/reactors/").trim_end_matches("/react");
    browser.sign_in_to(&server);
    browser.visit(&format!("invocations/{reactor}/{run}"));
    // The page itself reads it again for a while, which a busy machine may need longer than.
    for _ in 0..600 {
        if fact(&mut browser, "Delivery").contains("1 try, no answer") {
            break;
        }
        browser.click("Look again");
        browser.wait("document.querySelector('[aria-busy=false]')");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    let told = "pending 1 try, no answer: unreachable: the host refused the connection";
    assert_eq!(fact(&mut browser, "Delivery"), told);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn who_made_and_changed_something_is_named() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    let client = &server.management;
    let own = client.get("/applications/key").await.expect(200);
    let by = format!(" by {}", own["name"].as_str().unwrap());
    let application = json!({"name": "a", "type": "private", "permissions": ["token:read"]});
    let formula = json!({"name": "f", "code": SCRIPT});
    let used = client.post("/reactor-formulas", formula.clone()).await.expect(201);
    let reactor = json!({"name": "r", "configuration": {}, "formula": {"id": used["id"]}});
    browser.sign_in_to(&server);
    for (page, path, body, change) in [
        (
            "applications",
            "/applications",
            application,
            json!({"name": "b", "permissions": ["token:read"]}),
        ),
        ("formulas", "/reactor-formulas", formula, json!({"name": "b"})),
        ("reactors", "/reactors", reactor, json!({"name": "b", "configuration": {}})),
    ] {
        let made = id(&client.post(path, body).await.expect(201));
        browser.visit(&format!("{page}/of/{made}"));
        assert!(fact(&mut browser, "Made").ends_with(&by), "{page}");
        assert!(!browser.texts("dt").contains(&"Changed".to_owned()), "{page}");
        client.put(&format!("{path}/{made}"), change).await.expect(200);
        browser.click("Refresh");
        browser.heading("b");
        assert!(fact(&mut browser, "Changed").ends_with(&by), "{page}");
    }
    // Of what ships nobody is known.
    browser.visit("formulas");
    browser.click("card-insights");
    browser.wait_for("SHA-256");
    assert!(!browser.texts("dt").contains(&"Made".to_owned()));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn entries_of_one_name_are_told_apart_in_lists() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    let client = &server.management;
    let end = |id: &str| format!("…{}", &id[id.len() - 12..]);
    let mut twins = Vec::new();
    for name in ["twin", "twin", "single"] {
        let body = json!({"name": name, "type": "private", "permissions": ["token:read"]});
        twins.push(id(&client.post("/applications", body).await.expect(201)));
    }
    let formula = json!({"name": "used twice", "code": SCRIPT});
    let formula = client.post("/reactor-formulas", formula).await.expect(201);
    for (name, application) in [("one", 0), ("two", 0), ("three", 1), ("four", 2)] {
        let body = json!({"name": name, "configuration": {}, "formula": {"id": formula["id"]},
            "application": {"id": twins[application]}});
        client.post("/reactors", body).await.expect(201);
    }
    let twin = |number: usize| format!("twin {}", end(&twins[number]));
    browser.sign_in_to(&server);
    browser.visit("applications");
    browser.wait("document.querySelectorAll('tbody tr').length > 3");
    let names = browser.texts("tbody th");
    assert_eq!(names[..3], ["single".to_owned(), twin(1), twin(0)]);
    browser.visit("reactors");
    browser.wait("document.querySelectorAll('tbody tr').length === 4");
    let acting = browser.texts("tbody [data-head='Acts as']");
    assert_eq!(acting, ["single".to_owned(), twin(1), twin(0), twin(0)]);
    // It is one formula.
    assert_eq!(browser.texts("tbody [data-head=Formula]"), ["used twice"; 4]);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_nobody_would_see_in_a_name_is_shown_by_its_number() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    let client = &server.management;
    let blank = "\u{200b}\u{200b}\u{200b}x";
    let turned = "pay\u{202e}roll\u{202c}";
    // A picture of several characters is one that is seen.
    let pictures = "\u{1f469}\u{200d}\u{1f4bb} \u{2764}\u{fe0f}";
    let mut made = Vec::new();
    for name in [blank, turned, "a\nb", "x\u{fe0f}", pictures] {
        let body = json!({"name": name, "type": "private", "permissions": ["token:read"]});
        made.push(id(&client.post("/applications", body).await.expect(201)));
    }
    let formula = json!({"name": blank, "code": SCRIPT});
    let formula = client.post("/reactor-formulas", formula).await.expect(201);
    let reactor = json!({"name": blank, "configuration": {}, "formula": {"id": formula["id"]},
        "application": {"id": made[0]}});
    client.post("/reactors", reactor).await.expect(201);
    let token = json!({"id": "to\u{2060}ken", "type": "token", "data": "value"});
    server.private.post("/tokens", token).await.expect(201);
    browser.sign_in_to(&server);
    let signs = |browser: &mut Browser, selector: &str| {
        browser.wait(&format!("document.querySelector({})", json!(selector)));
        browser.eval(&format!(
            "[...document.querySelectorAll({})].map((one) =>
                [...one.querySelectorAll('.unseen')].map(({{ dataset }}) => dataset.sign).join(' '))",
            json!(selector)
        ))
    };
    let blanks = "U+200B U+200B U+200B";
    browser.visit("applications");
    let names = signs(&mut browser, "tbody th a");
    let names = &names.as_array().unwrap()[..5];
    assert_eq!(names, ["", "U+FE0F", "U+000A", "U+202E U+202C", blanks].map(Value::from));
    // The name is what it was, and there is a place to click at.
    let link = format!("document.querySelector('tbody a[href$=\"{}\"]')", made[0]);
    assert_eq!(browser.eval(&format!("{link}.textContent.trim()")), blank);
    let hit = format!(
        "(({{ left, right, top, bottom }}) => right - left > 20 && {link}.contains(
            document.elementFromPoint((left + right) / 2, (top + bottom) / 2)))(
            {link}.querySelector('.unseen').getBoundingClientRect())"
    );
    assert_eq!(browser.eval(&hit), true);
    browser.eval(&format!("{link}.click(), true"));
    browser.heading(blank);
    assert_eq!(signs(&mut browser, "h1"), json!([blanks]));
    browser.wait("document.title === '[U+200B][U+200B][U+200B]x · Tokamak console'");

    browser.visit("reactors");
    let three = [blanks; 3].join(" ");
    assert_eq!(signs(&mut browser, "tbody tr"), json!([three]));
    browser.visit("reactors/new");
    let chosen = "[...t.field('Acts as').options].map(({ text }) => text)";
    browser.wait(&format!("{chosen}.includes('[U+200B][U+200B][U+200B]x (private)')"));
    browser.visit("tokens");
    browser.click("to\u{2060}ken");
    browser.wait("document.querySelector('.copyable code')");
    let shown = signs(&mut browser, "h1, .copyable code");
    // The fingerprint comes after the id.
    assert_eq!(shown.as_array().unwrap()[..2], ["U+2060", "U+2060"].map(Value::from));
    let id = "document.querySelector('.copyable code').textContent";
    assert_eq!(browser.eval(id), "to\u{2060}ken");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_matches_no_route_is_said_to_be_that() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    server.management.get("/no-such-route").await.expect(404);
    browser.sign_in_to(&server);
    browser.visit("figures");
    browser.wait("document.querySelector('[aria-label=\"Requests by route\"] tbody tr')");
    let routes = browser.texts("[aria-label='Requests by route'] tbody th");
    assert!(routes.contains(&"GET - requests that match no route".to_owned()), "{routes:?}");
    assert!(routes.contains(&"GET /applications/key".to_owned()), "{routes:?}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
