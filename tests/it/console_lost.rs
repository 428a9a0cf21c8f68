//! What the console would lose for good: it asks before, also while a page is read anew or a key is still to come, and names
//! all of it.

use serde_json::json;

use crate::support::TestServer;
use crate::support::browser::Browser;

/// A form that is half written, of an entity: its page, and where the entity is kept.
async fn forms(server: &TestServer) -> Vec<(String, String)> {
    let application =
        json!({"name": "ours", "type": "private", "permissions": ["token:read"], "rules": []});
    let formula = json!({"name": "ours", "code": "module.exports = async () => ({ raw: {} });"});
    let used = server.management.post("/reactor-formulas", formula.clone()).await.expect(201);
    let reactor = json!({"name": "ours", "configuration": {}, "formula": {"id": used["id"]}});
    let mut made = Vec::new();
    for (page, path, body) in [
        ("applications", "/applications", application),
        ("formulas", "/reactor-formulas", formula),
        ("reactors", "/reactors", reactor),
    ] {
        let one = server.management.post(path, body).await.expect(201);
        let id = one["id"].as_str().unwrap();
        made.push((format!("{page}/edit/{id}"), format!("{path}/{id}")));
    }
    made
}

/// Waits for a question that says all of this, and takes it back.
fn is_asked(browser: &mut Browser, texts: &[&str]) {
    browser.wait("document.querySelector('dialog')?.open");
    for text in texts {
        browser
            .wait(&format!("document.querySelector('dialog').innerText.includes({})", json!(text)));
    }
    browser.press("Escape");
    browser.wait("!document.querySelector('dialog')");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_half_written_is_asked_about_while_its_page_is_read_anew() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    for (page, path) in forms(&server).await {
        browser.visit(&page);
        browser.wait("t.field('Name')?.value === 'ours'");
        browser.wait("t.named('button', 'Save')?.ariaDisabled !== 'true'");
        browser.fill("Name", "half");
        browser.eval("document.getElementById('told').textContent = '', true");
        browser.hold(&format!("GET {path}"));
        browser.click("Refresh");
        browser.until_held();
        assert!(browser.asks_before_the_end(), "{page}");
        browser.eval("t.named('a', 'Containers').click(), true");
        is_asked(&mut browser, &["Leave what is not saved?"]);
        browser.wait(&format!("location.hash === '#/{page}'"));
        browser.let_go();
        browser.wait("document.getElementById('told').textContent.trim() === 'Read anew'");
        assert_eq!(browser.eval("t.field('Name').value"), "half", "{page}");

        // What is saved meanwhile is saved, whatever was read before.
        browser.hold(&format!("GET {path}"));
        browser.click("Refresh");
        browser.until_held();
        browser.click("Save");
        browser.heading("half");
        browser.let_go();
        assert_eq!(server.management.get(&path).await.expect(200)["name"], "half", "{page}");
        browser.wait("!document.querySelector('.problem, [aria-busy=true]')");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
