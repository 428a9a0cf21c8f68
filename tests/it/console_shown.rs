//! What the console shows of what is easily overlooked: data that is empty, who made and changed something, entries of one
//! name, tries that nobody answered, and what is more than there is room for.

use serde_json::json;

use crate::support::TestServer;
use crate::support::browser::Browser;
use crate::support::scripts;

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
