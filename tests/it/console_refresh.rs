//! The console's pages are read anew without being left, choices and lists that could not be read are said and tried
//! again, times name their zone, and where nothing is there it says what to do.

use serde_json::{Value, json};

use crate::support::TestServer;
use crate::support::browser::Browser;

const SCRIPT: &str = "module.exports = async ({ args }) => { \
    console.log('run ' + args.number); return { raw: {} }; };";

/// Reads the page anew, by keyboard.
fn refresh(browser: &mut Browser) {
    browser.wait("t.named('button', 'Refresh')");
    browser.eval(
        "document.getElementById('told').textContent = '', t.named('button', 'Refresh').focus()",
    );
    browser.press("Enter");
    browser.wait("document.getElementById('told').textContent.trim() === 'Read anew'");
    assert_eq!(browser.focused(), "Refresh", "the focus is lost");
}

/// Reads the page anew, which does not succeed in all.
fn refresh_in_vain(browser: &mut Browser, title: &str) {
    browser.wait("t.named('button', 'Refresh')");
    browser.eval("document.getElementById('told').textContent = '', true");
    browser.click("Refresh");
    let told = json!(format!("Not all could be read anew: {title}"));
    browser.wait(&format!("document.getElementById('told').textContent.trim() === {told}"));
}

/// What the field of this label holds.
fn value(browser: &mut Browser, label: &str) -> Value {
    browser.eval(&format!("t.field({})?.value", json!(label)))
}

fn id(entity: &Value) -> String {
    entity["id"].as_str().unwrap().to_owned()
}

fn application(name: &str) -> Value {
    json!({"name": name, "type": "private", "permissions": ["token:read"], "rules": []})
}

/// So many reactors of one formula, by their ids.
async fn reactors(server: &TestServer, count: usize) -> Vec<String> {
    let body = json!({"name": "logs", "code": SCRIPT});
    let formula = server.management.post("/reactor-formulas", body).await.expect(201);
    let mut ids = Vec::new();
    for number in 0..count {
        let body = json!({"name": format!("reactor {number}"), "configuration": {},
            "formula": {"id": formula["id"]}});
        ids.push(id(&server.management.post("/reactors", body).await.expect(201)));
    }
    ids
}

/// Pages that read something, each with the path of what it is about, which is made.
async fn pages(server: &TestServer) -> Vec<(String, String)> {
    let token = json!({"id": "a-token", "type": "token", "data": "value"});
    server.private.post("/tokens", token).await.expect(201);
    let application = server.management.post("/applications", application("one")).await;
    let application = id(&application.expect(201));
    let reactor = reactors(server, 1).await.remove(0);
    let listed = server.management.get("/reactor-formulas?name=logs").await.expect(200);
    let formula = id(&listed["data"][0]);
    let mut pages = Vec::new();
    for (page, path) in [
        ("tokens", "/tokens/search"),
        ("tokens/of/a-token", "/tokens/a-token"),
        ("tokens/edit/a-token", "/tokens/a-token"),
        ("containers", "/tokens/search"),
        ("applications", "/applications"),
        ("applications/of/{application}", "/applications/{application}"),
        ("applications/edit/{application}", "/applications/{application}"),
        ("formulas", "/reactor-formulas"),
        ("formulas/of/{formula}", "/reactor-formulas/{formula}"),
        ("reactors", "/reactors"),
        ("reactors/of/{reactor}", "/reactors/{reactor}"),
        ("reactors/edit/{reactor}", "/reactors/{reactor}"),
        ("invocations", "/reactors"),
        ("invocations/{reactor}", "/reactors/{reactor}/invocations"),
        ("logs", "/logs"),
        ("keys", "/permissions"),
    ] {
        pages.push([page, path].map(|one| {
            one.replace("{application}", &application)
                .replace("{formula}", &formula)
                .replace("{reactor}", &reactor)
        }));
    }
    pages.into_iter().map(Into::into).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_list_is_read_anew_where_it_stands() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    let token = json!({"type": "token", "data": "value"});
    for _ in 0..21 {
        server.private.post("/tokens", token.clone()).await.expect(201);
    }
    browser.visit("tokens");
    browser.fill("Search", "type:token");
    browser.press("Escape");
    browser.press("Enter");
    browser.wait_for("1–20 of 21 tokens");
    browser.click("Next");
    browser.wait_for("21–21 of 21 tokens");
    // What is written and not searched for is not asked for, and not lost.
    browser.fill("Search", "type:card");
    browser.press("Escape");
    server.private.post("/tokens", token).await.expect(201);
    refresh(&mut browser);
    browser.wait_for("21–22 of 22 tokens");
    assert_eq!(value(&mut browser, "Search"), "type:card");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_unfolded_stays_with_its_run() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    let reactor = reactors(&server, 1).await.remove(0);
    let run = async |number: u64| {
        let body = json!({"args": {"number": number}});
        server.private.post(&format!("/reactors/{reactor}/react"), body).await.expect(200);
    };
    let until = |browser: &mut Browser, rows: u64| {
        // A run's record may come after its answer.
        while browser.eval("document.querySelectorAll('tbody tr').length") != rows {
            refresh(browser);
        }
    };
    run(1).await;
    browser.visit(&format!("invocations/{reactor}"));
    until(&mut browser, 1);
    browser.eval("document.querySelector('tbody summary').click(), true");
    browser.wait_for("run 1");
    run(2).await;
    until(&mut browser, 2);
    browser.wait("[...document.querySelectorAll('tbody details')].map((one) => one.open).join() === 'false,true'");
    browser.wait_for("run 1");
    assert_eq!(browser.eval("t.text().includes('run 2')"), false);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Goes on, also from a page that asks about what is half written.
fn leave(browser: &mut Browser) {
    browser.eval("location.hash = '#/containers', true");
    let left = "document.querySelector('h1')?.innerText === 'Containers'";
    browser.wait(&format!("document.querySelector('dialog')?.open || {left}"));
    if browser.eval("document.querySelector('dialog') !== null") == true {
        browser.click("Leave");
    }
    browser.wait(left);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_keeps_what_is_written_when_its_page_is_read_anew() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    let token = json!({"id": "a-token", "type": "token", "data": "value", "metadata": {"a": "1"}});
    server.private.post("/tokens", token).await.expect(201);
    let application = server.management.post("/applications", application("before")).await;
    let application = id(&application.expect(201));
    let reactor = reactors(&server, 1).await.remove(0);
    for (page, label) in [
        ("tokens/new".to_owned(), "Data"),
        ("tokens/edit/a-token".to_owned(), "Containers"),
        ("applications/new".to_owned(), "Name"),
        (format!("applications/edit/{application}"), "Name"),
        ("formulas/new".to_owned(), "Name"),
        ("reactors/new".to_owned(), "Name"),
        (format!("reactors/edit/{reactor}"), "Name"),
        (format!("reactors/of/{reactor}"), "Arguments"),
        ("logs".to_owned(), "Id of the entity"),
        ("keys".to_owned(), "Another API key"),
    ] {
        browser.visit(&page);
        browser.fill(label, "written");
        refresh(&mut browser);
        assert_eq!(value(&mut browser, label), "written", "{page}");
        assert_eq!(browser.eval("document.querySelector('.problem')"), Value::Null, "{page}");
        leave(&mut browser);
    }
    // Where nothing was written, what others wrote is there; where something was, it is told.
    let path = format!("/applications/{application}");
    let body = |name: &str| json!({"name": name, "permissions": ["token:read"], "rules": []});
    browser.visit(&format!("applications/edit/{application}"));
    server.management.put(&path, body("after")).await.expect(200);
    refresh(&mut browser);
    browser.wait("t.field('Name')?.value === 'after'");
    browser.fill("Name", "written");
    server.management.put(&path, body("later")).await.expect(200);
    refresh(&mut browser);
    browser.wait_for("Somebody changed this since you opened it.");
    assert_eq!(value(&mut browser, "Name"), "written");
    leave(&mut browser);
    browser.visit("tokens/edit/a-token");
    browser.fill("Containers", "/pci/low/");
    let patch = json!({"metadata": {"b": "2"}});
    server.private.patch("/tokens/a-token", patch).await.expect(200);
    refresh(&mut browser);
    browser.wait_for("Somebody changed this token since you opened it.");
    assert_eq!(value(&mut browser, "Containers"), "/pci/low/");
    browser.click("Drop mine and take theirs");
    browser.wait("t.field('Key 2')?.value === 'b'");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_could_not_be_read_is_tried_again_on_its_page() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    for (page, path) in pages(&server).await {
        browser.fail(&[path.as_str()]);
        browser.eval(&format!("location.hash = '#/{page}', true"));
        browser.wait("t.named('button', 'Try again')");
        browser.fail(&[]);
        browser.eval("t.named('button', 'Try again').focus(), true");
        browser.press("Enter");
        browser.wait(
            "!document.querySelector('.problem, .waiting, [aria-busy=true]') \
                && document.activeElement === document.querySelector('h1')",
        );
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_whose_choices_could_not_be_read_says_so_and_sends_nothing() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    let application = server.management.post("/applications", application("one")).await;
    let application = id(&application.expect(201));
    let reactor = reactors(&server, 1).await.remove(0);
    let listed = server.management.get("/reactor-formulas?name=logs").await.expect(200);
    let formula = id(&listed["data"][0]);
    for (page, path, said, button) in [
        ("tokens/new".to_owned(), "/openapi.json".to_owned(), "Types of tokens", "Create"),
        ("applications/new".to_owned(), "/permissions".to_owned(), "Permissions", "Create"),
        (
            format!("applications/edit/{application}"),
            "/permissions".to_owned(),
            "Permissions",
            "Save",
        ),
        ("reactors/new".to_owned(), "/reactor-formulas".to_owned(), "Formulas", "Create"),
        (format!("reactors/edit/{reactor}"), "/applications".to_owned(), "Applications", "Save"),
        (
            format!("formulas/edit/{formula}"),
            format!("/reactor-formulas/{formula}/component"),
            "The code",
            "Save",
        ),
    ] {
        browser.sign_in_to(&server);
        browser.watch_requests();
        browser.fail(&[path.as_str()]);
        browser.eval(&format!("location.hash = '#/{page}', true"));
        browser.wait_for(&format!("{said} could not be read"));
        let able = format!("t.named('button', '{button}').ariaDisabled !== 'true'");
        assert_eq!(browser.eval(&able), false, "{page}");
        // Nor is it sent by a key.
        browser.eval("document.querySelector('main form').requestSubmit(), true");
        browser.fail(&[]);
        browser.click("Try again");
        browser.wait(&able);
        let sent = "later.asked.some((one) => /^P(OST|UT)/.test(one))";
        assert_eq!(browser.eval(sent), false, "{page}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn each_of_many_can_be_chosen() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    let all = reactors(&server, 101).await;
    browser.visit("invocations");
    browser.wait("t.field('Reactor')?.options.length === 102");
    browser.fill("Filter of “Reactor”", "REACTOR 10");
    let offered = "[...t.field('Reactor').options].map((one) => one.text).join()";
    browser.wait(&format!("{offered} === 'Choose one,reactor 100,reactor 10'"));
    browser.choose("Reactor", &all[100]);
    browser.wait(&format!("location.hash === '#/invocations/{}'", all[100]));

    // A list that was cut off says so, and what lies beyond is found by its id.
    browser.eval(
        "(() => {
            const send = window.fetch;
            window.fetch = async (...given) => {
                const answer = await send(...given);
                if (new URL(given[0].url ?? given[0], location.href).pathname !== '/applications') return answer;
                const body = await answer.json();
                body.pagination.total_items = 5000;
                body.data = body.data.filter((one) => one.name !== 'beyond');
                return Response.json(body);
            };
            return true;
        })()",
    );
    browser.visit("reactors/new");
    browser.wait_for("There are 5,000: only the first");
    let beyond = server.management.post("/applications", application("beyond")).await;
    let beyond = id(&beyond.expect(201));
    browser.fill("Filter of “Acts as”", &beyond);
    browser.eval(
        "['submit', 'invalid'].map((kind) => document.addEventListener(kind, () => window.isSent = true, true)), true",
    );
    browser.press("Enter");
    let offer = "t.named('button', 'Offer the one of this id')";
    browser.wait(offer);
    browser.eval(&format!("{offer}.focus(), true"));
    browser.press("Enter");
    browser.wait("document.activeElement === t.field('Acts as')");
    browser.choose("Acts as", &beyond);
    assert_eq!(browser.eval("window.isSent ?? false"), false, "Enter in a filter sends the form");
    let chosen = "t.field('Acts as').selectedOptions[0].text";
    assert_eq!(browser.eval(chosen), "beyond (private)");
    // A list that is read anew lacks it, and the form sends it all the same.
    refresh(&mut browser);
    assert_eq!(browser.eval(chosen), beyond.as_str());
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn times_are_of_one_zone_which_they_name() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    browser.call("Emulation.setTimezoneOverride", json!({"timezoneId": "America/New_York"}));
    let token = json!({"id": "a-token", "type": "token", "data": "value",
        "expires_at": "2039-05-06T09:08:07+02:00"});
    server.private.post("/tokens", token).await.expect(201);
    browser.visit("tokens/of/a-token");
    browser.wait_for("6 May 2039, 07:08:07\u{a0}UTC");
    for page in ["tokens", "tokens/of/a-token", "applications", "logs", "keys"] {
        browser.visit(page);
        let unnamed = browser.eval(
            "[...document.querySelectorAll('time')].filter((one) => !one.innerText.endsWith('UTC')
                || one.title !== one.dateTime || !/T.*(Z|[+-]\\d\\d:\\d\\d)$/.test(one.title)).length",
        );
        assert_eq!(unnamed, 0, "{page}");
        assert_ne!(browser.eval("document.querySelectorAll('time').length"), 0, "{page}");
    }
    // What is written is of the same zone.
    browser.visit("tokens/edit/a-token");
    assert_eq!(value(&mut browser, "Ends"), "2039-05-06T07:08:07");
    browser.set("Ends", "2039-05-06T10:00:00");
    browser.click("Save");
    browser.wait_for("The token is changed.");
    let kept = server.private.get("/tokens/a-token").await.expect(200);
    assert!(kept["expires_at"].as_str().unwrap().starts_with("2039-05-06T10:00:00"), "{kept}");
    browser.visit("logs");
    browser.set("From", "2001-02-03T04:05");
    browser.click("Filter");
    browser.wait(
        "performance.getEntriesByType('resource')
            .some((one) => one.name.includes('start_date=2001-02-03T04%3A05%3A00.000Z'))",
    );
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn where_nothing_is_there_it_says_what_to_do() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    for (page, leads) in [
        ("tokens", "#/tokens/new"),
        ("containers", "#/tokens/new"),
        ("reactors", "#/reactors/new"),
        ("invocations", "#/reactors/new"),
    ] {
        browser.visit(page);
        browser.wait("document.querySelector('.empty a')");
        let link = browser.eval("document.querySelector('.empty a').getAttribute('href')");
        assert_eq!(link, leads, "{page}");
    }
    let reactor = reactors(&server, 1).await.remove(0);
    browser.visit(&format!("invocations/{reactor}"));
    browser.click("Run it");
    browser.wait("document.querySelector('h1')?.innerText === 'reactor 0'");
    // What a search or a filter hides is shown again from there.
    server.private.post("/tokens", json!({"type": "token", "data": "value"})).await.expect(201);
    browser.visit("tokens");
    browser.fill("Search", "type:card");
    browser.press("Escape");
    browser.press("Enter");
    browser.click("Search for all");
    browser.wait_for("1–1 of 1 token");
    assert_eq!(value(&mut browser, "Search"), "");
    browser.visit("logs/proxy/none");
    browser.click("Clear the filters");
    browser.wait("location.hash === '#/logs' && document.querySelector('tbody tr')");
    assert_eq!(value(&mut browser, "Id of the entity"), "");
    // Who acted leads to what is logged of it, where its whole id stands.
    let actor = server.management.get("/logs?size=1").await.expect(200)["data"][0].clone();
    browser.eval("document.querySelector('tbody td:nth-child(5) a').click(), true");
    let actor = actor["actor_id"].as_str().unwrap();
    browser.wait(&format!("location.hash === '#/logs/application/{actor}'"));
    browser.wait(&format!("t.field('Id of the entity')?.value === '{actor}'"));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn filters_of_the_log_are_steps_on_the_way_back_and_searches_are_in_no_address() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    browser.visit("tokens");
    browser.fill("Search", "metadata.name:somebody");
    browser.press("Escape");
    browser.press("Enter");
    browser.wait_for("No token is found.");
    assert_eq!(browser.eval("location.hash"), "#/tokens");
    browser.visit("logs");
    browser.choose("Entity", "application");
    browser.eval("t.named('button', 'Filter').focus(), true");
    browser.press("Enter");
    browser.wait("location.hash === '#/logs/application'");
    // The address is there before the page follows it, which sets the filters as they stand there.
    browser.wait(
        "(() => {
            const types = [...document.querySelectorAll('tbody td:nth-child(3) .small')];
            return types.length > 0 && types.every((type) => type.innerText === 'application');
        })() && !document.querySelector('[aria-busy=true]')",
    );
    assert_eq!(browser.focused(), "Filter", "the focus is not lost");
    browser.set("Before", "2001-01-01T00:00");
    browser.click("Filter");
    browser.wait("location.hash === '#/logs/application?to=2001-01-01T00%3A00'");
    browser.wait_for("No entry is like this.");
    for (step, entity, before, rows) in [
        ("back", "application", "", "document.querySelector('tbody tr')"),
        ("back", "", "", "document.querySelector('tbody tr')"),
        ("forward", "application", "", "document.querySelector('tbody tr')"),
        ("forward", "application", "2001-01-01T00:00", "document.querySelector('.empty')"),
    ] {
        browser.eval(&format!("history.{step}(), true"));
        browser.wait(&format!(
            "t.field('Entity')?.value === '{entity}' && t.field('Before')?.value === '{before}' \
                && !document.querySelector('[aria-busy=true]') && {rows}"
        ));
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_refused_when_a_page_is_read_anew_is_told_and_shown() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    let figures = ("figures".to_owned(), "/metrics".to_owned());
    for (page, path) in pages(&server).await.into_iter().chain([figures]) {
        browser.visit(&page);
        for status in [404, 503, 403] {
            let title = format!("Refused by {status}");
            // Whose figures they are not is told where to look from.
            let said = match (page.as_str(), status) {
                ("figures", 403) => "This server does not show its figures to your address.",
                _ => &title,
            };
            browser.refuse(&path, status);
            refresh_in_vain(&mut browser, &title);
            browser.wait(&format!(
                "document.querySelector('main').innerText.includes({})",
                json!(said)
            ));
        }
        // Whoever stays goes on as soon as the server does.
        browser.refuse("", 0);
        refresh(&mut browser);
        let left = browser.eval(
            "/Refused by|does not show its figures/.test(document.querySelector('main').innerText)",
        );
        assert_eq!(left, false, "{page}");
    }
    // What the keys may do now is not known then; they are no worse for it.
    browser.visit("applications/new");
    browser.refuse("/applications/key", 503);
    refresh_in_vain(&mut browser, "Refused by 503");
    let keys = browser.eval("document.querySelectorAll('.pages .keys span').length");
    assert_eq!(keys, 2);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_container_that_was_folded_is_read_anew_when_it_is_unfolded() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    let make = async |container: &str| {
        let token = json!({"type": "token", "data": "value", "containers": [container]});
        server.private.post("/tokens", token).await.expect(201);
    };
    make("/pci/high/").await;
    browser.visit("containers");
    browser.click("▸ pci/");
    browser.wait_for("high/");
    browser.click("▾ pci/");
    make("/pci/low/").await;
    refresh(&mut browser);
    browser.click("▸ pci/");
    browser.wait_for("low/");
    // The count of all stands beside the root, folded or not.
    browser.click("▾ /");
    make("/pci/low/").await;
    refresh(&mut browser);
    browser.wait_for("3 tokens");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
