//! What the console shows of what is easily overlooked: data that is empty, who made and changed something, entries of one
//! name, tries that nobody answered, and what is more than there is room for.

use serde_json::{Value, json};

use crate::support::TestServer;
use crate::support::browser::Browser;
use crate::support::scripts;

const SCRIPT: &str = "module.exports = async () => ({ raw: {} });";

fn id(entity: &Value) -> String {
    entity["id"].as_str().unwrap().to_owned()
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
