//! Forms of the console while they are being saved: they are not left without a question, nothing is written in them that
//! would not be sent, and whoever is asked is where they were when it is known how that ended. Of a server that hangs nothing
//! is waited for without end.

use std::net::SocketAddr;

use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

use crate::support::TestServer;
use crate::support::browser::Browser;

const ASKED: &str = "Leave while it is being saved?";
const SIGN_OUT: &str = "t.named('button', 'Sign out').click(), true";
const LEAVE: &str = "t.named('a', 'Containers').click(), true";

/// A form: its page, the field that is written in, the button that sends it, and the first request of saving, by its method
/// and path.
pub struct Form {
    pub page: String,
    pub field: &'static str,
    button: &'static str,
    request: (&'static str, String),
}

impl Form {
    /// Writes in it and has it sent, of which the answer is kept back.
    fn send(&self, browser: &mut Browser, text: &str) {
        browser.fill(self.field, text);
        let (method, path) = &self.request;
        browser.hold(&format!("{method} {path}"));
        browser.click(self.button);
        browser.until_held();
    }

    fn holds(&self, text: &str) -> String {
        format!(
            "location.hash === '#/{}' && t.field('{}')?.value === '{text}'",
            self.page, self.field
        )
    }
}

/// Two of everything that is written in forms: a new one, and one that is there.
pub async fn forms(server: &TestServer) -> Vec<Form> {
    let formula = json!({"name": "ours", "code": "module.exports = async () => ({ raw: {} });"});
    let used = server.management.post("/reactor-formulas", formula.clone()).await.expect(201);
    let application =
        json!({"name": "ours", "type": "private", "permissions": ["token:read"], "rules": []});
    let reactor = json!({"name": "ours", "configuration": {}, "formula": {"id": used["id"]}});
    let token = json!({"type": "token", "data": "value"});
    let mut forms = Vec::new();
    for (client, page, path, body) in [
        (&server.management, "applications", "/applications", application),
        (&server.management, "formulas", "/reactor-formulas", formula),
        (&server.management, "reactors", "/reactors", reactor),
        (&server.private, "tokens", "/tokens", token),
    ] {
        let made = client.post(path, body).await.expect(201);
        let id = made["id"].as_str().unwrap();
        let [new, old] = if page == "tokens" { ["Data", "Containers"] } else { ["Name"; 2] };
        forms.push(Form {
            page: format!("{page}/new"),
            field: new,
            button: "Create",
            request: ("POST", path.to_owned()),
        });
        // It is read anew before it is written.
        forms.push(Form {
            page: format!("{page}/edit/{id}"),
            field: old,
            button: "Save",
            request: ("GET", format!("{path}/{id}")),
        });
    }
    forms
}

/// Opens it, once all that it offers is there, and chooses what is not to be left out.
fn open(browser: &mut Browser, form: &Form) {
    browser.visit(&form.page);
    browser.wait(&format!("t.named('button', '{}')?.ariaDisabled === null", form.button));
    if form.page == "applications/new" {
        browser.eval("document.querySelector('.checks input').click(), true");
    }
    if form.page == "reactors/new" {
        browser.wait("t.field('Formula')?.options.length > 1");
        browser.eval("t.choose('Formula', t.field('Formula').options[1].value)");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_being_saved_is_not_left_without_a_question_and_stays_if_it_is_refused() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    for form in forms(&server).await {
        let page = &form.page;
        open(&mut browser, &form);
        browser.refuse(&form.request.1, 400);
        form.send(&mut browser, "/mine/");
        assert!(browser.asks_before_the_end(), "{page}");
        for leaving in [LEAVE, "history.back(), true", SIGN_OUT] {
            browser.eval(leaving);
            browser
                .wait_for("is being saved. If that is refused, it is nowhere else, and is lost.");
            browser.press("Escape");
            browser.wait(&format!("{} && !document.querySelector('dialog')", form.holds("/mine/")));
        }
        // Nobody leaves on the word that it is being saved once it is refused.
        browser.eval(LEAVE);
        browser.wait_for(ASKED);
        browser.let_go();
        browser.wait("!document.querySelector('dialog') && document.querySelector('.problem')");
        browser.wait(&form.holds("/mine/"));
        browser.wait_for("Refused by 400");
        browser.refuse("", 0);
        browser.eval(LEAVE);
        browser.wait_for("Leave what is not saved?");
        browser.click("Leave");
        browser.heading("Containers");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_is_asked_while_it_is_saved_is_where_it_is_saved() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    for form in forms(&server).await {
        open(&mut browser, &form);
        form.send(&mut browser, "/mine/");
        let leads = form.page.replace("/edit/", "/of/");
        // Also where the way leads to the same as saving does.
        browser.eval(&if form.page.starts_with("tokens/edit") {
            "t.named('a', 'Back to the token').click(), true".to_owned()
        } else {
            LEAVE.to_owned()
        });
        browser.wait_for(ASKED);
        browser.let_go();
        match form.page.as_str() {
            "tokens/new" => browser.wait("document.activeElement.id === 'made'"),
            page if page.ends_with("/new") => browser.heading("/mine/"),
            _ => browser.wait(&format!("location.hash === '#/{leads}'")),
        }
        browser.wait("!document.querySelector('dialog, .problem, .waiting')");
        browser.wait("document.querySelector('h1')?.innerText !== 'Containers'");
        if let Some(key) = form.page.strip_prefix("applications/new") {
            assert_eq!(key, "");
            browser.click("I have kept it");
            browser.wait("!t.named('button', 'I have kept it')");
        }
        assert!(!browser.asks_before_the_end(), "{}", form.page);
        browser.visit("containers");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_written_that_is_not_saved_and_the_focus_comes_back() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    for form in forms(&server).await {
        let (page, field) = (&form.page, form.field);
        // In a field of several lines Enter sends nothing.
        let at = match (page.as_str(), field) {
            ("tokens/new", _) => continue,
            _ => format!("t.field('{field}')"),
        };
        open(&mut browser, &form);
        browser.refuse(&form.request.1, 400);
        browser.fill(field, "/mine/");
        browser.hold(&format!("{} {}", form.request.0, form.request.1));
        browser.press("Enter");
        browser.until_held();
        browser.wait("document.activeElement.innerText === 'Working…'");
        browser.type_text("more");
        browser.eval(&format!("{at}.focus(), true"));
        browser.type_text("more");
        assert_eq!(browser.eval(&format!("{at}.value")), "/mine/", "{page}");
        assert_eq!(browser.focused(), "Working…", "{page}");
        browser.let_go();
        browser.wait_for("Refused by 400");
        browser.wait(&format!("document.activeElement === {at}"));
        browser.type_text("more");
        assert_eq!(browser.eval(&format!("{at}.value")), "/mine/more", "{page}");
        browser.refuse("", 0);
        browser.leave_for("containers");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_others_changed_is_not_taken_while_a_token_is_saved() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::watching(&server) else { return };
    let token = json!({"id": "one", "type": "token", "data": "value", "metadata": {"a": "1"}});
    server.private.post("/tokens", token).await.expect(201);
    browser.visit("tokens/edit/one");
    browser.fill("Value 1", "mine");
    server.private.patch("/tokens/one", json!({"metadata": {"b": "2"}})).await.expect(200);
    browser.click("Refresh");
    browser.wait_for("Somebody changed this token since you opened it.");
    browser.hold("PATCH /tokens/one");
    browser.click("Save");
    browser.until_held();
    let take = "t.named('button', 'Drop mine and take theirs')";
    browser.wait(&format!("{take}.ariaDisabled === 'true'"));
    browser.eval(&format!("{take}.click(), true"));
    assert_eq!(browser.eval("t.field('Value 1')?.value"), "mine");
    browser.let_go();
    browser.wait_for("The token is changed.");
    let kept: Value = server.private.get("/tokens/one").await.expect(200);
    assert_eq!(kept["metadata"], json!({"a": "mine", "b": "2"}));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// What comes through of answers.
#[derive(Clone, Copy, Debug)]
enum Passing {
    All,
    Nothing,
    /// Heads, and the first byte of what follows.
    Heads,
}

/// Stands before a server, which does what it is asked: gives its address, and what says how much of the answers comes
/// through.
async fn before(server: &TestServer) -> (SocketAddr, watch::Sender<Passing>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (passing, told) = watch::channel(Passing::All);
    let server = server.address();
    tokio::spawn(async move {
        while let Ok((near, _)) = listener.accept().await {
            let far = TcpStream::connect(server).await.unwrap();
            tokio::spawn(pass(near, far, told.clone()));
        }
    });
    (address, passing)
}

/// Passes on what is asked, and of what is answered as much as comes through.
async fn pass(near: TcpStream, far: TcpStream, passing: watch::Receiver<Passing>) {
    let (mut asked, mut answers) = near.into_split();
    let (mut answered, mut asks) = far.into_split();
    tokio::spawn(async move { tokio::io::copy(&mut asked, &mut asks).await });
    let mut piece = vec![0; 64 << 10];
    while let Ok(count @ 1..) = answered.read(&mut piece).await {
        let now = *passing.borrow();
        let head = piece[..count].windows(4).position(|four| four == b"\r\n\r\n");
        let through = match now {
            Passing::All => count,
            Passing::Nothing => 0,
            Passing::Heads => head.map_or(0, |at| count.min(at + 5)),
        };
        if answers.write_all(&piece[..through]).await.is_err() {
            return;
        }
    }
}

/// Has what the page waits for longest pass in no time, while `hurries`.
const HURRY: &str = "(() => {
    const set = window.setTimeout;
    window.setTimeout = (go, ms, ...given) =>
        set(go, window.hurries && ms >= 10_000 ? ms / 100 : ms, ...given);
    return true;
})()";

#[tokio::test(flavor = "multi_thread")]
async fn of_a_server_that_hangs_nothing_is_waited_for_without_end() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    let (address, passing) = before(&server).await;
    let keys = [&server.management, &server.private].map(|client| client.key.as_deref().unwrap());
    browser.sign_in(&format!("http://{address}"), &keys);
    browser.eval(HURRY);
    let set = |browser: &mut Browser, now: Passing| {
        let hurries = !matches!(now, Passing::All);
        browser.eval(&format!("window.hurries = {hurries}, true"));
        passing.send(now).unwrap();
    };
    for (now, title, change) in
        [(Passing::Nothing, "No answer", 60), (Passing::Heads, "No whole answer", 30)]
    {
        browser.visit("tokens/new");
        browser.fill("Data", title);
        browser.wait("t.named('button', 'Create')?.ariaDisabled === null");
        set(&mut browser, now);
        browser.click("Create");
        browser.wait_for("Perhaps it was done all the same.");
        browser.wait_for(title);
        browser.wait_for(&format!("Nothing came from the server for {change} seconds."));
        let told = "document.getElementById('told').textContent.trim()";
        browser.wait(&format!("{told} === 'The new token may have been saved'"));
        assert_eq!(browser.eval("t.field('Data').value"), title);
        // It was done, and is not done twice.
        set(&mut browser, Passing::All);
        browser.click("Create");
        browser.wait_for("The token is made:");

        set(&mut browser, now);
        for page in ["tokens", "containers", "applications", "reactors", "logs", "keys"] {
            browser.visit(page);
            browser.wait_for(title);
            browser.wait("t.named('button', 'Try again')");
        }
        browser.visit("formulas");
        set(&mut browser, Passing::All);
        browser.click("Try again");
        browser.wait("document.querySelector('tbody tr') && !document.querySelector('.problem')");
    }
    let all = server.private.get("/tokens?size=100").await.expect(200);
    assert_eq!(all["pagination"]["total_items"], 2);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_server_that_hangs_a_page_is_left_at_once() {
    let server = TestServer::start().await;
    let Some(mut browser) = Browser::open() else { return };
    let (address, passing) = before(&server).await;
    browser.sign_in(&format!("http://{address}"), &[server.management.key.as_deref().unwrap()]);
    browser.eval(HURRY);
    passing.send(Passing::Nothing).unwrap();
    browser.click("Formulas");
    browser.wait("document.querySelector('main').ariaBusy === 'true'");
    // What may be done is read before a page opens, and it opens without that; what it shows is waited for longer.
    browser.eval("window.hurries = true");
    browser.click("Reactors");
    browser.heading("Reactors");
    browser.wait("document.querySelector('main').ariaBusy === 'false'");
    browser.wait_for("Nothing came from the server for 30 seconds.");
    browser.eval("window.hurries = false");
    passing.send(Passing::All).unwrap();
    browser.click("Formulas");
    browser.wait("document.querySelector('tbody tr') && !document.querySelector('.problem')");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
