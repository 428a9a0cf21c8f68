//! The console for those who use no mouse or see no screen, and on narrow screens.

use serde_json::{Value, json};

use crate::support::TestServer;
use crate::support::browser::Browser;

const PAGES: [&str; 15] = [
    "tokens",
    "tokens/new",
    "tokens/of/a-card",
    "tokens/edit/a-card",
    "containers",
    "applications",
    "applications/new",
    "formulas",
    "formulas/new",
    "reactors",
    "reactors/new",
    "invocations",
    "logs",
    "figures",
    "keys",
];

/// What is wrong with a page, as far as that can be told without looking.
const FAULTS: &str = r#"(() => {
  const faults = [];
  const all = (selector) => [...document.querySelectorAll(selector)];
  const say = (fault, element) => faults.push(`${fault}: ${element?.outerHTML.slice(0, 120) ?? ""}`);
  if (all("h1").length !== 1) say("not one h1");
  for (const landmark of ["main", "header", "nav[aria-label=Console]"]) if (all(landmark).length !== 1) say(`not one ${landmark}`);
  if (!document.documentElement.lang) say("no language");
  if (!document.querySelector("[aria-live=polite]")) say("nothing live");
  for (const control of all("input, select, textarea")) {
    if (![...(control.labels ?? [])].some((label) => label.textContent.trim() !== "")) say("no label", control);
  }
  for (const control of all("button, a")) {
    if (control.innerText.trim() === "" && !control.getAttribute("aria-label") && control.checkVisibility()) say("no name", control);
  }
  for (const one of all("[tabindex]")) if (Number(one.getAttribute("tabindex")) > 0) say("own order", one);
  for (const one of all("[aria-describedby], [aria-controls]")) {
    for (const name of ["aria-describedby", "aria-controls"]) {
      const id = one.getAttribute(name);
      if (id && !document.getElementById(id)) say(`${name} leads nowhere`, one);
    }
  }
  const ids = all("[id]").map((one) => one.id);
  for (const id of ids) if (ids.filter((other) => other === id).length > 1) say(`id ${id} twice`);
  const levels = all("h1, h2, h3").map((one) => Number(one.tagName[1]));
  levels.forEach((level, index) => { if (index > 0 && level > levels[index - 1] + 1) say("a level of headings is left out"); });
  const excess = document.documentElement.scrollWidth - innerWidth;
  if (excess > 0) say(`wider than the screen by ${excess}`);
  return faults;
})()"#;

/// The contrast of every text with what lies behind it, where it is below what WCAG 2.2 asks for (AA).
const PALE: &str = r#"(() => {
  const canvas = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
  const read = (colour) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = colour;
    canvas.fillRect(0, 0, 1, 1);
    const [r, g, b, a] = canvas.getImageData(0, 0, 1, 1).data;
    return [r, g, b, a / 255];
  };
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const ground = (element) => {
    for (let one = element; one; one = one.parentElement) {
      const colour = read(getComputedStyle(one).backgroundColor);
      if (colour[3] > 0.99) return colour;
    }
    return [255, 255, 255, 1];
  };
  const pale = [];
  for (const element of document.querySelectorAll("body *")) {
    const own = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim() !== "");
    if (!own || !element.checkVisibility() || element.ariaDisabled || element.closest("svg, .polite, .stale, .skip")) continue;
    const [a, b] = [light(read(getComputedStyle(element).color)), light(ground(element))].sort((x, y) => y - x);
    if ((a + 0.05) / (b + 0.05) < 4.5) pale.push(`${((a + 0.05) / (b + 0.05)).toFixed(2)} ${element.outerHTML.slice(0, 120)}`);
  }
  return pale;
})()"#;

async fn filled() -> TestServer {
    let server = TestServer::start().await;
    let card =
        json!({"number": "4242424242424242", "expiration_month": 12, "expiration_year": 2030});
    let token =
        json!({"id": "a-card", "type": "card", "data": card, "metadata": {"customer": "17"}});
    server.private.post("/tokens", token).await.expect(201);
    server
}

#[tokio::test(flavor = "multi_thread")]
async fn every_page_has_its_names_and_fits_every_screen_in_light_and_dark() {
    let Some(mut browser) = Browser::open() else { return };
    let server = filled().await;
    browser.sign_in_to(&server);
    for scheme in ["light", "dark"] {
        let features = json!({"features": [{"name": "prefers-color-scheme", "value": scheme}]});
        browser.call("Emulation.setEmulatedMedia", features);
        for page in PAGES {
            browser.visit(page);
            for width in [1280, 390, 320] {
                browser.set_width(width);
                assert_eq!(browser.eval(FAULTS), json!([]), "{page} at {width}");
            }
            browser.set_width(1280);
            assert_eq!(browser.eval(PALE), json!([]), "{page} in {scheme}");
        }
        let dark = browser.eval("getComputedStyle(document.body).backgroundColor");
        let expected = if scheme == "dark" { "rgb(15, 18, 22)" } else { "rgb(245, 246, 248)" };
        assert_eq!(dark, expected);
    }
    // The switch goes against the system.
    browser.click("Light colours");
    browser.wait("getComputedStyle(document.body).backgroundColor === 'rgb(245, 246, 248)'");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn everything_is_reached_by_keyboard_in_the_order_it_is_read() {
    let Some(mut browser) = Browser::open() else { return };
    let server = filled().await;
    browser.go(&format!("http://{}/console", server.address()));
    browser.wait_for("Sign in");
    let walk = |browser: &mut Browser, expected: &[&str]| {
        for name in expected {
            browser.press("Tab");
            assert_eq!(browser.focused(), *name);
        }
    };
    walk(&mut browser, &["Skip to content", "Tokamak", "Dark colours", "API key"]);
    browser.type_text(server.private.key.as_deref().unwrap());
    browser.press("Enter");
    browser.wait_for("Your access");
    browser.wait("document.activeElement === document.querySelector('h1')");
    // From a link of the menu, Enter leads to the page, and its heading has the focus.
    browser.eval("document.querySelector('.brand a').focus(), true");
    walk(&mut browser, &["Dark colours", "Sign out", "Tokens", "Containers"]);
    browser.press("Enter");
    browser.wait("document.activeElement === document.querySelector('h1')");
    assert_eq!(browser.focused(), "Containers");
    assert_eq!(browser.eval("document.title"), "Containers · Tokamak console");
    browser.wait_for("pci/");
    browser.wait("!document.querySelector('[aria-busy=true]')");
    walk(&mut browser, &["▾ /", "1 token", "▸ pci/"]);
    browser.press("Enter");
    browser.wait_for("high/");
    browser.wait("!document.querySelector('[aria-busy=true]')");
    assert_eq!(browser.eval("document.activeElement.getAttribute('aria-expanded')"), "true");
    walk(&mut browser, &["1 token", "▸ high/"]);
    // Every place that the focus comes to is seen to have it.
    let outline = browser.eval("getComputedStyle(document.activeElement).outlineStyle");
    assert_eq!(outline, "solid");
    // So it is where the menu is folded.
    browser.set_width(390);
    browser.eval("document.querySelector('.brand a').focus(), true");
    walk(&mut browser, &["Dark colours", "Sign out", "Menu"]);
    browser.press("Enter");
    walk(&mut browser, &["Tokens"]);
    browser.press("Escape");
    assert_eq!(browser.focused(), "Menu");
    browser.set_width(1280);
    // A dialog takes the focus, and gives it back.
    browser.visit("tokens/of/a-card");
    browser.click("Delete");
    browser.wait("document.querySelector('dialog')?.open");
    assert_eq!(browser.focused(), "Cancel");
    browser.press("Escape");
    browser.wait("!document.querySelector('dialog')");
    let kept: Value = server.private.get("/tokens/a-card").await.expect(200);
    assert_eq!(kept["id"], "a-card");
    browser.click("Delete");
    browser.wait("document.querySelector('dialog')?.open");
    browser.press("Tab");
    assert_eq!(browser.focused(), "Delete");
    browser.press("Enter");
    browser.wait("location.hash === '#/tokens'");
    server.private.get("/tokens/a-card").await.expect(404);
}
