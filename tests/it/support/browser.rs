//! A real Chromium without a window, driven over the `DevTools` protocol through a pipe.
//!
//! Where there is none, [`Browser::open`] says so beside the tests' output and gives nothing; with
//! `CHROMIUM_REQUIRED` set, as in `.ci/run`, that fails the test.

use std::io::{BufRead as _, BufReader, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use super::{TestServer, skipped};

/// The first is the browser without what a window takes, which is twice as fast.
const NAMES: [&str; 5] = [
    "chromium-headless-shell",
    "chromium",
    "chromium-browser",
    "google-chrome",
    "google-chrome-stable",
];
/// How long anything may take on a machine that is busy with everything else.
const PATIENCE: Duration = Duration::from_mins(2);
const POLL: Duration = Duration::from_millis(50);

/// What pages of tests call: finding things by what people read.
const HELPERS: &str = r#"
window.t = {
  text: () => document.body.innerText,
  name: (one) => one.innerText.replace(/\s+/g, " ").trim(),
  named: (selector, name) => [...document.querySelectorAll(selector)].find((one) =>
    one.checkVisibility() && (t.name(one) === name || one.getAttribute("aria-label") === name)),
  field: (name) => {
    const label = [...document.querySelectorAll("label")].find((one) => one.checkVisibility() && t.name(one) === name);
    return label && (label.control ?? document.getElementById(label.htmlFor));
  },
  choose: (name, value) => {
    const select = t.field(name);
    select.value = value;
    select.dispatchEvent(new Event("change", { bubbles: true }));
    return select.value === value;
  },
};
true"#;

/// Notes what the page asks for, fails what is to fail, and keeps the answer to `later.name` back until `later.go()`. It is
/// read by then: all that the page does with it is done before anything else happens there.
const LATER: &str = r#"(() => {
  const send = window.fetch;
  window.later = { asked: [], failing: [], refusing: {} };
  window.fetch = async (...given) => {
    const [request] = given;
    const { pathname } = new URL(request.url ?? request, location.href);
    const name = request instanceof Request ? `${request.method} ${pathname}` : "";
    later.asked.push(name);
    if (later.failing.includes(pathname)) throw new TypeError("it is to fail");
    const refusal = later.refusing[pathname];
    const refused = () => Response.json({ title: `Refused by ${refusal}`, detail: "It is to be." }, { status: refusal });
    const answer = refusal ? refused() : await send(...given);
    if (name !== later.name) return answer;
    later.name = undefined;
    const { ok, status, headers } = answer;
    const text = await answer.text();
    await new Promise((go) => { later.go = go; });
    return { ok, status, headers, text: async () => text };
  };
  return true;
})()"#;

/// Browsers that no test has. One takes long to start; what each test does in a context of its own is nothing to another.
static IDLE: Mutex<Vec<Chromium>> = Mutex::new(Vec::new());

/// A running browser. It ends, and what it left is removed, once nobody speaks to it any more.
struct Chromium {
    child: Child,
    commands: Option<ChildStdin>,
    messages: Receiver<Value>,
    next: u64,
}

/// A page that is open in a browser, with nothing that any other page has left.
pub struct Browser {
    chromium: Option<Chromium>,
    context: Value,
    session: Option<String>,
    complaints: Vec<String>,
}

impl Chromium {
    /// Starts one, if there is one.
    fn start() -> Option<Self> {
        let Some(program) = NAMES.into_iter().find(|name| is_there(name)) else {
            let required = std::env::var_os("CHROMIUM_REQUIRED").is_some();
            assert!(!required, "no Chromium is installed");
            // Past what the harness keeps to itself of tests that pass.
            skipped("no Chromium is installed");
            return None;
        };
        let profile = tempfile::tempdir().unwrap().keep();
        // The protocol speaks on file descriptors 3 and 4, which a shell can arrange without unsafe code. The shell waits for
        // the end, of this process too, and removes what is left.
        let run = "\"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null 2>&1; rm -rf \"$TMPDIR\"";
        let mut child = Command::new("sh")
            .args(["-c", run, program])
            .args(["--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--no-first-run"])
            .args(["--disable-gpu", "--disable-dev-shm-usage", "--disable-background-networking"])
            .args(["--disable-component-update", "--disable-sync", "--no-proxy-server"])
            .arg(format!("--user-data-dir={}", profile.display()))
            .env("TMPDIR", profile)
            .arg("about:blank")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (arriving, messages) = channel();
        let output = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || {
            for message in output.split(0).map_while(Result::ok) {
                let _ = serde_json::from_slice(&message).map(|message| arriving.send(message));
            }
        });
        let commands = child.stdin.take();
        Some(Self { child, commands, messages, next: 0 })
    }

    /// Sends a command and waits for its answer; hands on whatever comes before it.
    fn ask(
        &mut self,
        mut message: Value,
        mut note: impl FnMut(&Value),
    ) -> Result<Value, RecvTimeoutError> {
        self.next += 1;
        message["id"] = self.next.into();
        let written = [message.to_string().as_bytes(), &[0]].concat();
        let commands = self.commands.as_mut().ok_or(RecvTimeoutError::Disconnected)?;
        let sent = commands.write_all(&written).and_then(|()| commands.flush());
        sent.map_err(|_| RecvTimeoutError::Disconnected)?;
        loop {
            let message = self.messages.recv_timeout(PATIENCE)?;
            if message["id"] == self.next {
                return Ok(message);
            }
            note(&message);
        }
    }
}

impl Drop for Chromium {
    fn drop(&mut self) {
        drop(self.commands.take());
        let _ = self.child.wait();
    }
}

impl Browser {
    /// Opens a page, if there is a browser.
    pub fn open() -> Option<Self> {
        let idle = IDLE.lock().unwrap().pop();
        let chromium = idle.map_or_else(Chromium::start, Some)?;
        let (context, complaints) = (Value::Null, Vec::new());
        let mut browser = Self { chromium: Some(chromium), context, session: None, complaints };
        let context = browser.call("Target.createBrowserContext", json!({}));
        browser.context = context["browserContextId"].clone();
        let place = json!({"url": "about:blank", "browserContextId": browser.context});
        let target = browser.call("Target.createTarget", place);
        let attach = json!({"targetId": target["targetId"], "flatten": true});
        let attached = browser.call("Target.attachToTarget", attach);
        browser.session = attached["sessionId"].as_str().map(str::to_owned);
        for domain in ["Page", "Runtime", "Log", "Network"] {
            browser.call(&format!("{domain}.enable"), json!({}));
        }
        Some(browser)
    }

    /// Sends a command and waits for its answer.
    #[track_caller]
    pub fn call(&mut self, method: &str, params: Value) -> Value {
        let mut message = json!({"method": method, "params": params});
        if let Some(session) = &self.session {
            message["sessionId"] = session.as_str().into();
        }
        let Self { chromium, session, complaints, .. } = self;
        // What comes late of a page that is closed is none of this one's.
        let note = |event: &Value| {
            if event["sessionId"].as_str() == session.as_deref() {
                complaints.extend(complaint(event));
            }
        };
        match chromium.as_mut().expect("it is open").ask(message, note) {
            Ok(answer) if answer.get("error").is_none() => answer["result"].clone(),
            Ok(answer) => panic!("{method}: {}", answer["error"]),
            Err(RecvTimeoutError::Timeout) => panic!("no answer to {method}"),
            Err(RecvTimeoutError::Disconnected) => panic!("the browser ended at {method}"),
        }
    }

    /// What the browser complained about so far, but for answers of the server that refuse something.
    pub fn complaints(&mut self) -> Vec<String> {
        // Whatever was said before this answer has arrived with it.
        self.eval("true");
        let refused = |one: &String| one.contains("Failed to load resource");
        self.complaints.iter().filter(|one| !refused(one)).cloned().collect()
    }

    /// Opens an address as a new document.
    #[track_caller]
    pub fn go(&mut self, url: &str) {
        self.call("Page.navigate", json!({"url": "about:blank"}));
        self.wait("location.href === 'about:blank'");
        self.call("Page.navigate", json!({"url": url}));
        self.wait("location.href !== 'about:blank' && document.readyState === 'complete'");
        self.eval(HELPERS);
    }

    /// Gives the value of an expression, awaited.
    #[track_caller]
    pub fn eval(&mut self, expression: &str) -> Value {
        let params = json!({"expression": expression, "awaitPromise": true, "returnByValue": true});
        let answer = self.call("Runtime.evaluate", params);
        let failed = answer.get("exceptionDetails");
        assert!(failed.is_none(), "{expression}: {}", answer["exceptionDetails"]);
        answer["result"]["value"].clone()
    }

    /// Waits until an expression is true; what never becomes true fails the test.
    #[track_caller]
    pub fn wait(&mut self, expression: &str) {
        let until = Instant::now() + PATIENCE;
        while self.eval(&format!("Boolean({expression})")) != true {
            if Instant::now() > until {
                let text = self.eval("document.body?.innerText ?? ''");
                panic!("never: {expression}\n{}", text.as_str().unwrap_or_default());
            }
            std::thread::sleep(POLL);
        }
    }

    /// Waits until the page shows a text.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) {
        self.wait(&format!("t.text().includes({})", json!(text)));
    }

    /// Clicks the button or link of this name, once it is there and may be used.
    #[track_caller]
    pub fn click(&mut self, name: &str) {
        let found = format!("t.named('button, a, summary', {})", json!(name));
        self.wait(&format!("{found} && !{found}.ariaDisabled"));
        self.eval(&format!("{found}.click(), true"));
    }

    /// Types into the field of this label, in place of what it held.
    #[track_caller]
    pub fn fill(&mut self, label: &str, text: &str) {
        let field = format!("t.field({})", json!(label));
        self.wait(&field);
        self.eval(&format!("{field}.focus(), {field}.select(), true"));
        self.type_text(text);
    }

    /// Chooses a value in the list of this label, once it is offered.
    #[track_caller]
    pub fn choose(&mut self, label: &str, value: &str) {
        let (label, value) = (json!(label), json!(value));
        self.wait(&format!("t.field({label}) && t.choose({label}, {value})"));
    }

    /// Types where the focus is.
    pub fn type_text(&mut self, text: &str) {
        self.call("Input.insertText", json!({"text": text}));
    }

    /// Presses a key where the focus is.
    pub fn press(&mut self, key: &str) {
        let code = match key {
            "Backspace" => 8,
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            "ArrowUp" => 38,
            "ArrowDown" => 40,
            other => panic!("{other}"),
        };
        let mut event = json!({"type": "keyDown", "key": key, "code": key,
            "windowsVirtualKeyCode": code});
        if key == "Enter" {
            event["text"] = "\r".into();
        }
        self.call("Input.dispatchKeyEvent", event.clone());
        event["type"] = "keyUp".into();
        self.call("Input.dispatchKeyEvent", event);
    }

    /// What has the focus, by what people read.
    pub fn focused(&mut self) -> String {
        let focused = "document.activeElement";
        let name =
            format!("t.name({focused}) || {focused}.labels?.[0]?.innerText || {focused}.tagName");
        self.eval(&name).as_str().unwrap_or_default().to_owned()
    }

    /// Opens a page of the console by its address, and waits until it shows what it is about.
    #[track_caller]
    pub fn visit(&mut self, page: &str) {
        self.eval(&format!("document.activeElement.blur(), location.hash = '#/{page}', true"));
        self.shows(page);
    }

    /// The same where it is asked before whether to leave.
    #[track_caller]
    pub fn leave_for(&mut self, page: &str) {
        self.eval(&format!("location.hash = '#/{page}', true"));
        self.click("Leave");
        self.shows(page);
    }

    #[track_caller]
    fn shows(&mut self, page: &str) {
        self.wait(&format!(
            "location.hash === '#/{page}' && document.querySelector('h1') === document.activeElement \
                && !document.querySelector('.waiting, [aria-busy=true]')"
        ));
    }

    /// Waits until the page has this heading.
    #[track_caller]
    pub fn heading(&mut self, text: &str) {
        self.wait(&format!("document.querySelector('h1')?.innerText === {}", json!(text)));
    }

    /// What people read of each element of a kind.
    pub fn texts(&mut self, selector: &str) -> Vec<String> {
        let found = self.eval(&format!(
            "[...document.querySelectorAll({})].map((one) => t.name(one))",
            json!(selector)
        ));
        found.as_array().unwrap().iter().map(|one| one.as_str().unwrap().to_owned()).collect()
    }

    /// Writes what cannot be typed as text, such as a time, or nothing at all.
    #[track_caller]
    pub fn set(&mut self, label: &str, value: &str) {
        let field = format!("t.field({})", json!(label));
        self.wait(&field);
        self.eval(&format!(
            "{field}.value = {}, {field}.dispatchEvent(new Event('input', {{ bubbles: true }}))",
            json!(value)
        ));
    }

    /// Writes a new application of this name, with a right, and does not make it.
    pub fn write_application(&mut self, name: &str) {
        self.visit("applications/new");
        self.fill("Name", name);
        self.wait("document.querySelector('.checks input')");
        self.eval("document.querySelector('.checks input').click(), true");
    }

    /// Says yes in the dialog, by keyboard.
    #[track_caller]
    pub fn agree(&mut self) {
        self.wait("document.querySelector('dialog')?.open");
        self.press("Tab");
        self.press("Enter");
    }

    /// Whether the browser asks before the tab is closed or reloaded.
    pub fn asks_before_the_end(&mut self) -> bool {
        self.eval("!dispatchEvent(new Event('beforeunload', { cancelable: true }))") == true
    }

    /// Signs in to the console at an address with one key, and with others beside it.
    pub fn sign_in(&mut self, base: &str, keys: &[&str]) {
        self.go(&format!("{base}/console"));
        self.wait_for("Sign in");
        self.fill("API key", keys[0]);
        self.press("Enter");
        self.wait_for("Your access");
        for (index, key) in keys.iter().enumerate().skip(1) {
            self.fill("Another API key", key);
            self.press("Enter");
            self.wait(&format!(
                "document.querySelectorAll('.pages .keys span').length === {}",
                index + 1
            ));
        }
    }

    /// The same with both of a test server's keys.
    pub fn sign_in_to(&mut self, server: &TestServer) {
        let keys =
            [&server.management, &server.private].map(|client| client.key.as_deref().unwrap());
        self.sign_in(&format!("http://{}", server.address()), &keys);
    }

    /// A browser in the console, of which answers can be kept back and fail.
    pub fn watching(server: &TestServer) -> Option<Self> {
        let mut browser = Self::open()?;
        browser.sign_in_to(server);
        browser.watch_requests();
        Some(browser)
    }

    /// Has answers to this page kept back and fail from here on, as [`Self::hold`] and [`Self::fail`] say.
    pub fn watch_requests(&mut self) {
        self.eval(LATER);
    }

    /// Keeps the answer to this request back, once: a method and a path.
    pub fn hold(&mut self, request: &str) {
        self.eval(&format!("later.name = {}, later.go = undefined, true", json!(request)));
    }

    /// Waits until the answer that is kept back is there.
    #[track_caller]
    pub fn until_held(&mut self) {
        self.wait("later.go");
    }

    /// Gives the page what was kept back.
    pub fn let_go(&mut self) {
        self.eval("later.go(), true");
    }

    /// Has requests to these paths fail, and no others.
    pub fn fail(&mut self, paths: &[&str]) {
        self.eval(&format!("later.failing = {}, true", json!(paths)));
    }

    /// Has requests to this path be refused with this status, and no others; with none for 0.
    pub fn refuse(&mut self, path: &str, status: u16) {
        self.eval(&format!("later.refusing = {{ [{}]: {status} }}, true", json!(path)));
    }

    /// Makes the page so many pixels wide.
    pub fn set_width(&mut self, width: u32) {
        let metrics =
            json!({"width": width, "height": 900, "deviceScaleFactor": 1, "mobile": false});
        self.call("Emulation.setDeviceMetricsOverride", metrics);
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let Some(mut chromium) = self.chromium.take() else { return };
        // A test that failed may have left it in any state.
        if std::thread::panicking() {
            return;
        }
        let close = json!({"method": "Target.disposeBrowserContext",
            "params": {"browserContextId": self.context}});
        if chromium.ask(close, |_| ()).is_ok_and(|closed| closed.get("error").is_none()) {
            IDLE.lock().unwrap().push(chromium);
        }
    }
}

/// What the browser complains about: what a policy stopped, what a script failed at.
fn complaint(event: &Value) -> Option<String> {
    let params = &event["params"];
    let complaint = match event["method"].as_str()? {
        "Log.entryAdded" if params["entry"]["level"] == "error" => &params["entry"],
        "Runtime.exceptionThrown" => &params["exceptionDetails"],
        "Runtime.consoleAPICalled" if params["type"] == "error" => params,
        _ => return None,
    };
    Some(complaint.to_string())
}

fn is_there(name: &str) -> bool {
    let paths = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&paths).any(|folder| folder.join(name).is_file())
}
