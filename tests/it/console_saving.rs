//! Saving and deleting in the console: what others changed meanwhile is not written over unseen, what ends late leads nobody
//! away, and a key that is shown once is not left without a question.

use serde_json::{Value, json};

use crate::support::browser::Browser;
use crate::support::{Client, TestServer, guests};

const CHANGED: &str = "Somebody changed this since you opened it.";
/// More than a browser's own numbers hold, and its neighbour that they would take it for.
const LARGE: [u64; 2] = [9_007_199_254_740_993, 9_007_199_254_740_992];

/// An entity of the console: the page that it is on, where it is kept, and what somebody else writes of it.
struct Kept {
    page: &'static str,
    path: String,
    id: String,
}

impl Kept {
    async fn write(&self, client: &Client, name: &str) {
        let body = match self.page {
            "applications" => json!({"name": name, "permissions": ["token:read"], "rules": []}),
            "reactors" => json!({"name": name, "configuration": {"NAME": "another"}}),
            _ => json!({"name": name, "description": name}),
        };
        client.put(&self.path, body).await.expect(200);
    }

    async fn name(&self, client: &Client) -> Value {
        client.get(&self.path).await.expect(200)["name"].clone()
    }
}

/// One of each, of the name `ours`.
async fn all(server: &TestServer) -> [Kept; 3] {
    let make = async |page, path: &str, body: Value| {
        let made = server.management.post(path, body).await.expect(201);
        let id = made["id"].as_str().unwrap().to_owned();
        Kept { page, path: format!("{path}/{id}"), id }
    };
    let application =
        json!({"name": "ours", "type": "private", "permissions": ["token:read"], "rules": []});
    let configuration = json!([{"name": "NAME", "type": "string"}]);
    let formula = json!({"name": "ours", "configuration": configuration,
        "code": "module.exports = async () => ({ raw: {} });"});
    let used = server.management.post("/reactor-formulas", formula.clone()).await.expect(201);
    let reactor =
        json!({"name": "ours", "configuration": {"NAME": "one"}, "formula": {"id": used["id"]}});
    [
        make("applications", "/applications", application).await,
        make("formulas", "/reactor-formulas", formula).await,
        make("reactors", "/reactors", reactor).await,
    ]
}

/// Opens the form of an entity, once all that it offers is there.
fn edit(browser: &mut Browser, kept: &Kept, name: &str) {
    browser.visit(&format!("{}/edit/{}", kept.page, kept.id));
    browser.wait(&format!("t.field('Name')?.value === '{name}'"));
    browser.wait("t.named('button', 'Save')?.ariaDisabled !== 'true'");
}

/// The cells of what is different, apart by bars.
fn differences(browser: &mut Browser) -> Vec<String> {
    browser.wait_for(CHANGED);
    let found = browser.eval(
        "[...document.querySelectorAll('[aria-label=\"What is different\"] tbody tr')].map((row) =>
            [...row.children].map((cell) => cell.innerText.replace(/\\s+/g, ' ').trim()).join(' | '))",
    );
    found.as_array().unwrap().iter().map(|row| row.as_str().unwrap().to_owned()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_saved_meanwhile_is_shown_before_it_is_written_over() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    let client = &server.management;
    for kept in all(&server).await {
        edit(&mut browser, &kept, "ours");
        browser.fill("Name", "mine");
        kept.write(client, "theirs").await;
        browser.click("Save");
        let told = differences(&mut browser);
        assert!(told.contains(&"Name | ours | theirs | mine".to_owned()), "{told:?}");
        assert_eq!(kept.name(client).await, "theirs", "{}", kept.page);
        browser.click("Drop mine and take theirs");
        browser.wait("t.field('Name')?.value === 'theirs' && !document.querySelector('.problem')");

        // Whoever writes over it has seen what it is by then.
        browser.fill("Name", "mine");
        kept.write(client, "theirs again").await;
        browser.click("Save");
        browser.wait_for("theirs again");
        kept.write(client, "theirs once more").await;
        browser.click("Save mine over it");
        browser.wait_for("theirs once more");
        assert_eq!(kept.name(client).await, "theirs once more", "{}", kept.page);
        browser.click("Save mine over it");
        browser.heading("mine");
        assert_eq!(kept.name(client).await, "mine", "{}", kept.page);
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_says_the_same_is_no_change_and_a_large_number_is_itself() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    let formula = json!({"name": "of both", "code": "module.exports = async () => ({ raw: {} });",
        "configuration": [{"name": "N", "type": "number"}, {"name": "SECRET", "type": "string"}]});
    let formula = server.management.post("/reactor-formulas", formula).await.expect(201);
    let configuration = |number: u64, secret: &str| json!({"N": number, "SECRET": secret});
    let body = json!({"name": "ours", "formula": {"id": formula["id"]},
        "configuration": configuration(LARGE[0], "hidden-one")});
    let made = server.management.post("/reactors", body).await.expect(201);
    let id = made["id"].as_str().unwrap().to_owned();
    let kept = Kept { page: "reactors", path: format!("/reactors/{id}"), id };
    let write = async |number: u64, secret: &str| {
        let body = json!({"name": "ours", "configuration": configuration(number, secret)});
        server.management.put(&kept.path, body).await.expect(200);
    };
    edit(&mut browser, &kept, "ours");
    browser.fill("Name", "mine");
    write(LARGE[0], "hidden-one").await;
    browser.click("Save");
    browser.heading("mine");

    edit(&mut browser, &kept, "mine");
    browser.fill("Name", "mine again");
    write(LARGE[1], "hidden-two").await;
    browser.click("Save");
    let told = differences(&mut browser);
    let row = told.iter().find(|row| row.starts_with("Configuration")).unwrap();
    for number in LARGE {
        assert!(row.contains(&number.to_string()), "{row}");
    }
    // What may be a secret is not shown, but that it is another one is.
    assert!(row.contains("•••• (10 characters, another value)"), "{row}");
    assert_eq!(browser.eval("document.documentElement.outerHTML.includes('hidden-')"), false);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_changed_is_shown_before_it_is_deleted() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    for kept in all(&server).await {
        browser.visit(&format!("{}/of/{}", kept.page, kept.id));
        kept.write(&server.management, "theirs").await;
        browser.click("Delete");
        browser.agree();
        let told = differences(&mut browser);
        assert!(told.contains(&"Name | ours | theirs".to_owned()), "{told:?}");
        // Whoever says yes twice in a hurry has not said it to this.
        assert_eq!(browser.focused(), "Cancel");
        assert_eq!(kept.name(&server.management).await, "theirs", "{}", kept.page);
        browser.click("Delete it as it is now");
        browser.wait(&format!("location.hash === '#/{}'", kept.page));
        server.management.get(&kept.path).await.expect(404);
        browser.wait("!document.querySelector('dialog')");
    }
    let token = json!({"id": "a-token", "type": "token", "data": "value"});
    server.private.post("/tokens", token).await.expect(201);
    browser.visit("tokens/of/a-token");
    server.private.patch("/tokens/a-token", json!({"data": "another"})).await.expect(200);
    browser.click("Delete");
    browser.agree();
    let told = differences(&mut browser);
    assert!(told.iter().any(|row| row.starts_with("Changed | – | ")), "{told:?}");
    browser.click("Cancel");
    browser.wait("!document.querySelector('dialog')");
    server.private.get("/tokens/a-token").await.expect(200);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deletion_that_is_taken_back_while_the_record_is_read_is_not_done() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    for kept in all(&server).await {
        browser.visit(&format!("{}/of/{}", kept.page, kept.id));
        browser.click("Delete");
        browser.hold(&format!("GET {}", kept.path));
        browser.agree();
        browser.until_held();
        browser.click("Cancel");
        browser.wait("!document.querySelector('dialog')");
        browser.let_go();
        // What is sent after it is answered after it.
        browser.click("Refresh");
        browser.wait("document.getElementById('told').textContent.trim() === 'Read anew'");
        server.management.get(&kept.path).await.expect(200);
        browser.eval("document.getElementById('told').textContent = '', true");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_comes_after_its_maker_signed_out_is_shown_to_nobody() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    write_application(&mut browser, "desk");
    browser.hold("POST /applications");
    browser.click("Create");
    browser.until_held();
    browser.click("Sign out");
    browser.agree();
    browser.wait_for("Sign in");
    browser.let_go();
    browser.fill("API key", server.management.key.as_deref().unwrap());
    browser.press("Enter");
    browser.wait_for("Your access");
    let made = server.management.get("/applications").await.expect(200);
    let id = made["data"][0]["id"].as_str().unwrap().to_owned();
    browser.visit(&format!("applications/of/{id}"));
    browser.heading("desk");
    assert_eq!(browser.eval(KEY), false);
    assert_eq!(browser.eval("document.body.innerText.includes('key_prv_')"), false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_save_that_ends_late_is_told_and_leads_nobody_away() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    for kept in all(&server).await {
        edit(&mut browser, &kept, "ours");
        browser.fill("Name", "mine");
        browser.hold(&format!("PUT {}", kept.path));
        browser.click("Save");
        browser.until_held();
        browser.leave_for("containers");
        browser.let_go();
        browser.wait_for("“mine” is saved.");
        assert_eq!(browser.eval("location.hash"), "#/containers");
        assert_eq!(browser.eval("document.querySelector('h1').innerText"), "Containers");
        browser.click("Look at it");
        browser.heading("mine");
        browser.click("Put away");
        browser.wait("!document.querySelector('.notice')");
    }
    // What was refused is told as well.
    browser.visit("tokens/new");
    browser.choose("Type", "card_number");
    browser.fill("Data", "1234");
    browser.hold("POST /tokens");
    browser.click("Create");
    browser.until_held();
    browser.leave_for("containers");
    browser.let_go();
    browser.wait_for("The new token is not saved.");
    assert_eq!(browser.eval("location.hash"), "#/containers");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Writes a new application, without sending it.
fn write_application(browser: &mut Browser, name: &str) {
    browser.visit("applications/new");
    browser.fill("Name", name);
    browser.wait("document.querySelector('.checks input')");
    browser.eval("document.querySelector('.checks input').click(), true");
}

const KEY: &str = "document.documentElement.outerHTML.includes('key_prv_')";

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_nobody_kept_is_not_left_without_a_question() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    assert!(!browser.asks_before_the_end());
    write_application(&mut browser, "desk");
    browser.click("Create");
    browser.heading("desk");
    browser.wait(KEY);
    assert!(browser.asks_before_the_end());
    let address = browser.eval("location.hash");
    let stays = format!("location.hash === {address} && !document.querySelector('dialog')");
    for leaving in [
        "t.named('a', 'Tokens').click(), true",
        "history.back(), true",
        "t.named('button', 'Sign out').click(), true",
    ] {
        browser.eval(leaving);
        browser.wait("document.querySelector('dialog')?.open");
        browser.wait_for("Leave without the key?");
        browser.press("Escape");
        browser.wait(&stays);
        assert_eq!(browser.eval(KEY), true, "{leaving}");
    }
    browser.click("Tokens");
    browser.agree();
    browser.heading("Tokens");
    assert_eq!(browser.eval(KEY), false);
    assert!(!browser.asks_before_the_end());

    // Whoever has kept it goes on as ever.
    browser.visit(address.as_str().unwrap().trim_start_matches("#/"));
    browser.click("New key");
    browser.agree();
    browser.wait(KEY);
    browser.wait("!document.querySelector('dialog')");
    browser.click("I have kept it");
    browser.wait("!t.named('button', 'I have kept it')");
    assert!(!browser.asks_before_the_end());
    browser.click("Tokens");
    browser.heading("Tokens");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_comes_after_its_page_was_left_is_shown_on_the_page_of_its_application() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    write_application(&mut browser, "desk");
    browser.hold("POST /applications");
    browser.click("Create");
    browser.until_held();
    browser.leave_for("containers");
    browser.let_go();
    browser.wait_for("“desk” is saved.");
    assert_eq!(browser.eval(KEY), false);
    assert_eq!(browser.eval("location.hash"), "#/containers");
    assert!(browser.asks_before_the_end(), "the key is nowhere else");
    browser.click("Look at it");
    browser.heading("desk");
    let key = browser.eval("document.querySelector('#issued code').innerText");
    let own = server.client(key.as_str().unwrap()).get("/applications/key").await.expect(200);
    assert_eq!(own["name"], "desk");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_was_chosen_goes_with_what_is_dropped() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    let id = guests::formula(&server, "bare", json!({"name": "ours"})).await;
    browser.sign_in_to(&server);
    browser.visit(&format!("formulas/edit/{id}"));
    browser.wait("t.field('Component')");
    let chosen = browser.eval(
        "(() => {
            const field = t.field('Component');
            const chosen = new DataTransfer();
            chosen.items.add(new File(['no component'], 'one.wasm'));
            field.files = chosen.files;
            field.dispatchEvent(new Event('change'));
            return field.files.length;
        })()",
    );
    assert_eq!(chosen, 1);
    let path = format!("/reactor-formulas/{id}");
    server.management.put(&path, json!({"name": "theirs"})).await.expect(200);
    browser.click("Save");
    browser.wait_for(CHANGED);
    browser.click("Drop mine and take theirs");
    browser.wait("t.field('Name').value === 'theirs'");
    assert_eq!(browser.eval("t.field('Component').files.length"), 0);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
