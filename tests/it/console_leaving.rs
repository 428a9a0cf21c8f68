//! The console when its pages are left: what is asked on a page goes with it, and what is half written is not lost unasked.

use serde_json::json;

use crate::support::TestServer;
use crate::support::browser::Browser;

/// One of everything that can be deleted: its page, the heading of the list before it, where it is kept, and its id.
async fn all(server: &TestServer) -> Vec<(&'static str, &'static str, &'static str, String)> {
    let formula = json!({"name": "one", "code": "module.exports = async () => ({ raw: {} });"});
    let used = server.management.post("/reactor-formulas", formula.clone()).await.expect(201);
    let application =
        json!({"name": "one", "type": "private", "permissions": ["token:read"], "rules": []});
    let reactor = json!({"name": "one", "configuration": {}, "formula": {"id": used["id"]}});
    let token = json!({"type": "token", "data": "value"});
    let mut made = Vec::new();
    for (client, page, title, path, body) in [
        (&server.management, "applications", "Applications", "/applications", application),
        (&server.management, "formulas", "Formulas", "/reactor-formulas", formula),
        (&server.management, "reactors", "Reactors", "/reactors", reactor),
        (&server.private, "tokens", "Tokens", "/tokens", token),
    ] {
        let one = client.post(path, body).await.expect(201);
        made.push((page, title, path, one["id"].as_str().unwrap().to_owned()));
    }
    made
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_goes_with_its_page_and_nothing_is_done() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    for (page, title, path, id) in all(&server).await {
        let client = if page == "tokens" { &server.private } else { &server.management };
        let path = format!("{path}/{id}");
        for agreed in [false, true] {
            browser.visit("containers");
            browser.visit(page);
            browser.visit(&format!("{page}/of/{id}"));
            browser.click("Delete");
            browser.wait("document.querySelector('dialog')?.open");
            if agreed {
                // It is read anew before it is deleted.
                browser.hold(&format!("GET {path}"));
                browser.press("Tab");
                browser.press("Enter");
                browser.until_held();
            }
            browser.eval("history.back(), true");
            browser.heading(title);
            browser.wait("!document.querySelector('dialog')");
            if agreed {
                browser.let_go();
            }
            browser.wait("document.querySelector('h1') === document.activeElement");
            browser.click("Refresh");
            browser.wait("document.getElementById('told').textContent.trim() === 'Read anew'");
            client.get(&path).await.expect(200);
            browser.eval("document.getElementById('told').textContent = '', true");
        }
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_made_a_token_is_where_its_id_is() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    browser.set_width(1280);
    browser.sign_in_to(&server);
    browser.visit("tokens/new");
    for _ in 0..2 {
        browser.wait("t.field('Type')?.options.length > 1");
        browser.fill("Data", "value");
        if browser.eval("document.querySelector('main details').open") == false {
            browser.click("More");
        }
        browser.eval("t.named('button', 'Create').focus(), true");
        browser.press("Enter");
        browser.wait("document.activeElement.matches('.good-news')");
        let seen = "(({ top, bottom }) => top >= 0 && bottom <= innerHeight)(document.activeElement.getBoundingClientRect())";
        browser.wait(seen);
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn searches_are_steps_on_the_way_back_and_the_browser_keeps_none() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    for number in ["one", "two"] {
        let token = json!({"id": number, "type": "token", "data": format!("secret-{number}"),
            "metadata": {"number": number}, "search_indexes": ["{{ data }}"]});
        server.private.post("/tokens", token).await.expect(201);
    }
    let seen = |browser: &mut Browser, query: &str, size: &str, ids: &str| {
        browser.wait(&format!(
            "[t.field('Search')?.value, t.field('Tokens on a page')?.value,
                [...document.querySelectorAll('tbody th')].map(t.name).join()].join() === {}
                && !document.querySelector('[aria-busy=true]')",
            json!([query, size, ids].join(","))
        ));
    };
    let secret = r#"data:"secret-two""#;
    browser.visit("tokens");
    seen(&mut browser, "", "20", "two,one");
    for (query, id) in [("metadata.number:one", "one"), (secret, "two")] {
        browser.fill("Search", query);
        browser.press("Escape");
        browser.press("Enter");
        seen(&mut browser, query, "20", id);
    }
    browser.choose("Tokens on a page", "50");
    seen(&mut browser, secret, "50", "two");
    browser.click("two");
    browser.wait("document.querySelector('h1')?.innerText === 'Token two'");
    browser.eval("history.back(), true");
    seen(&mut browser, secret, "50", "two");
    // The link to the list leads nowhere from there.
    let asked = "later.asked.filter((one) => one === 'POST /tokens/search').length";
    let before = browser.eval(asked);
    browser.click("Tokens");
    for (step, query, size, ids) in [
        ("back()", secret, "20", "two"),
        ("back()", "metadata.number:one", "20", "one"),
        ("forward()", secret, "20", "two"),
        ("go(-2)", "", "20", "two,one"),
    ] {
        assert_eq!(browser.eval("history.state").as_object().unwrap().len(), 1);
        assert!(browser.eval("history.state.search").is_u64(), "a number and no query is kept");
        browser.eval(&format!("history.{step}, true"));
        seen(&mut browser, query, size, ids);
    }
    assert_eq!(browser.eval(asked).as_u64().unwrap() - before.as_u64().unwrap(), 4);
    let history = browser.call("Page.getNavigationHistory", json!({})).to_string();
    assert!(!history.contains("secret") && !history.contains("metadata"), "{history}");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// As browsers refuse when a key is held down.
#[tokio::test(flavor = "multi_thread")]
async fn a_search_is_shown_also_where_the_browser_takes_no_more_steps() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    for id in ["one", "two"] {
        let token = json!({"id": id, "type": "token", "data": 1, "metadata": {"number": id}});
        server.private.post("/tokens", token).await.expect(201);
    }
    browser.visit("tokens");
    browser.wait("document.querySelectorAll('tbody th').length === 2");
    browser.eval(
        "history.pushState = () => { throw new DOMException('too many', 'SecurityError'); }, true",
    );
    browser.fill("Search", "metadata.number:one");
    browser.press("Escape");
    browser.press("Enter");
    browser.wait("[...document.querySelectorAll('tbody th')].map(t.name).join() === 'one'");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Which the console could not send as it is: that is no reason to think that somebody wrote something.
#[tokio::test(flavor = "multi_thread")]
async fn of_a_token_that_only_the_api_can_make_nothing_is_half_written() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    let token = json!({"type": "token", "data": "x", "mask": {"a": null, "b": "{{ data }}"},
        "search_indexes": [" {{ data }}"]});
    let made = server.private.post("/tokens", token).await.expect(201);
    browser.visit(&format!("tokens/edit/{}", made["id"].as_str().unwrap()));
    browser.wait("document.querySelector('main form')");
    assert!(!browser.asks_before_the_end());
    browser.click("Containers");
    browser.heading("Containers");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_half_written_is_not_left_without_a_question() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    browser.sign_in_to(&server);
    let mut forms = Vec::new();
    for (page, _, _, id) in all(&server).await {
        let fields = if page == "tokens" { ["Data", "Containers"] } else { ["Name", "Name"] };
        forms.push((format!("{page}/new"), fields[0]));
        forms.push((format!("{page}/edit/{id}"), fields[1]));
    }
    for (page, field) in &forms {
        browser.visit(page);
        browser.wait("document.querySelector('main form')");
        assert!(!browser.asks_before_the_end(), "{page}");
        browser.click("Containers");
        browser.heading("Containers");

        browser.visit(page);
        browser.fill(field, "half");
        assert!(browser.asks_before_the_end(), "{page}");
        for leaving in ["t.named('a', 'Containers').click(), true", "history.back(), true"] {
            browser.eval(leaving);
            browser.wait_for("Leave what is not saved?");
            browser.press("Escape");
            browser.wait(&format!(
                "location.hash === '#/{page}' && !document.querySelector('dialog')"
            ));
            assert_eq!(browser.eval(&format!("t.field('{field}').value")), "half");
        }
        browser.eval("t.named('button', 'Sign out').click(), true");
        browser.wait_for("Leave what is not saved?");
        browser.press("Escape");
        browser.wait("!document.querySelector('dialog')");
        browser.click("Containers");
        browser.click("Leave");
        browser.heading("Containers");
        assert!(!browser.asks_before_the_end(), "{page}");
        browser.visit(page);
        browser.wait(&format!("t.field('{field}') && t.field('{field}').value !== 'half'"));
        browser.visit("containers");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn containers_that_nobody_looks_at_are_not_searched_for() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    for container in ["/a/", "/b/", "/c/"] {
        let token = json!({"type": "token", "data": "value", "containers": [container]});
        server.private.post("/tokens", token).await.expect(201);
    }
    browser.hold("POST /tokens/search");
    browser.eval("location.hash = '#/containers', true");
    browser.until_held();
    browser.visit("applications");
    browser.eval("later.asked = [], true");
    browser.let_go();
    assert_eq!(browser.eval("later.asked"), json!([]));
    // Whoever comes back finds all of them.
    browser.visit("containers");
    for name in ["a/", "b/", "c/"] {
        browser.wait_for(&format!("▸ {name}"));
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
