//! What the console says to whoever sees it for the first time: what a formula gets, what there is no record of, who did
//! something, how it stands now.

use serde_json::json;

use crate::support::TestServer;
use crate::support::browser::Browser;

/// Opens a page of the console by its address, and waits until it shows what it is about.
fn visit(browser: &mut Browser, page: &str) {
    browser.eval(&format!("document.activeElement.blur(), location.hash = '#/{page}', true"));
    browser.wait(&format!(
        "location.hash === '#/{page}' && document.querySelector('h1') === document.activeElement \
            && !document.querySelector('.waiting, [aria-busy=true]')"
    ));
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
        visit(&mut browser, "containers");
        visit(&mut browser, &format!("applications/of/{}", application["id"].as_str().unwrap()));
        browser.fill("Containers of a token", containers);
        browser.wait(&format!(
            "[...document.querySelectorAll('tr')].some((row) => t.name(row).startsWith('token:use ')
                && t.name(row).endsWith({}))",
            json!(expected)
        ));
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
