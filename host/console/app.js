// The frame around the pages, and the way from an address to a page. Addresses are fragments, which browsers do not
// send; they hold names of pages and ids, never keys, queries or values.

import { session } from "./api.js";
import { restartFields } from "./fields.js";
import { html, nothing } from "./lit.js";
import { dialog } from "./parts.js";
import { notices, readRights } from "./rights.js";
import { forgetAll, redraw, tell } from "./state.js";
import { isDark, toggleTheme } from "./theme.js";
import * as applications from "./pages/applications.js";
import * as containers from "./pages/containers.js";
import * as figures from "./pages/figures.js";
import * as formulas from "./pages/formulas.js";
import * as invocations from "./pages/invocations.js";
import * as keys from "./pages/keys.js";
import * as logs from "./pages/logs.js";
import * as reactors from "./pages/reactors.js";
import * as signIn from "./pages/sign_in.js";
import * as tokens from "./pages/tokens.js";

// To add a page: a file that exports `title`, `open(rest)` and `view()`, and perhaps `close()`; and a row here.
const PAGES = [
  ["tokens", tokens],
  ["containers", containers],
  ["applications", applications],
  ["formulas", formulas],
  ["reactors", reactors],
  ["invocations", invocations],
  ["logs", logs],
  ["figures", figures],
  ["keys", keys],
];

let current = null;
/** What stands for an opening that is under way, of the last page that was asked for: what the keys may do is read anew before. */
let opening = null;
let menuOpen = false;
/** Whether the heading of a page is to get the focus as soon as it is there. */
let wantsFocus = false;

function named(name) {
  return PAGES.find(([own]) => own === name)?.[1];
}

/** Opens the page that the address names. */
async function follow() {
  if (session.keys.length === 0) return;
  const [name, ...rest] = location.hash.replace(/^#\/?/, "").split("/").map(decodePart);
  const page = named(name);
  if (!page) {
    location.replace("#/keys");
    return;
  }
  current?.close?.();
  current = page;
  menuOpen = false;
  const mine = (opening = {});
  redraw();
  await readRights();
  // Somebody went on meanwhile, or the last key has ended.
  if (opening !== mine || session.keys.length === 0) return;
  opening = null;
  wantsFocus = true;
  page.open(rest);
  redraw();
}

/** The page's heading, without ids: they may be of tokens, and browsers keep titles in their history. */
function nameDocument() {
  const heading = document.querySelector("main h1")?.cloneNode(true);
  if (!heading) return;
  for (const id of heading.querySelectorAll("code")) id.remove();
  document.title = `${heading.textContent.trim()} · Tokamak console`;
}

/** Where those who hear the page go on. Some headings wait for what the page is about. */
function focusHeading() {
  // What is drawn may still be what stands there until the page opens.
  const heading = document.querySelector("main:not([aria-busy=true]) h1");
  if (!wantsFocus || !heading) return;
  wantsFocus = false;
  heading.focus();
  scrollTo(0, 0);
}

function decodePart(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}

addEventListener("hashchange", follow);

function signOut() {
  forgetAll();
  tell("Signed out");
}

/** Without a key there is nothing to show. */
function leave() {
  current.close?.();
  current = null;
  opening = null;
  wantsFocus = true;
}

function toMain(event) {
  event.preventDefault();
  document.querySelector("main")?.focus();
}

function toggleMenu() {
  menuOpen = !menuOpen;
  redraw();
}

function closeMenuByKey(event) {
  if (event.key !== "Escape" || !menuOpen) return;
  toggleMenu();
  document.querySelector(".menu")?.focus();
}

/** The whole page. */
export function frame() {
  restartFields();
  const signedIn = session.keys.length > 0;
  if (signedIn && current === null) queueMicrotask(follow);
  if (!signedIn && current !== null) leave();
  queueMicrotask(() => {
    nameDocument();
    focusHeading();
  });
  return html`
    <a class="skip" href="#main" @click=${toMain}>Skip to content</a>
    <div class=${signedIn ? "frame" : "frame bare"} @keydown=${closeMenuByKey}>
      ${header(signedIn)} ${signedIn ? navigation() : nothing}
      <main id="main" tabindex="-1" aria-busy=${opening !== null}>${notices()} ${signedIn ? content() : signIn.view()}</main>
    </div>
    ${dialog()}
  `;
}

/** The page, as soon as it is open. */
function content() {
  if (opening === null) return current?.view() ?? nothing;
  return html`<h1 tabindex="-1">${current.title}</h1><p class="waiting">Loading…</p>`;
}

function header(signedIn) {
  return html`<header>
    ${signedIn
      ? html`<button type="button" class="quiet menu" aria-expanded=${menuOpen} aria-controls="pages" @click=${toggleMenu}>Menu</button>`
      : nothing}
    <p class="brand"><a href=${signedIn ? "#/keys" : "#/"}>Tokamak</a></p>
    <div class="row end grow">
      <button type="button" class="quiet" @click=${toggleTheme}>${isDark() ? "Light" : "Dark"}<span class="polite"> colours</span></button>
      ${signedIn ? html`<button type="button" class="quiet" @click=${signOut}>Sign out</button>` : nothing}
    </div>
  </header>`;
}

function navigation() {
  const link = ([name, page]) => html`<li>
    <a href="#/${name}" aria-current=${page === current ? "page" : nothing}>${page.title}</a>
  </li>`;
  return html`<nav id="pages" class=${menuOpen ? "pages open" : "pages"} aria-label="Console">
    <ul>${PAGES.map(link)}</ul>
    <p class="small keys">
      ${session.keys.map((key) => html`<span>${key.name}${key.name.toLowerCase() === key.type ? nothing : html` <em>${key.type}</em>`}</span>`)}
    </p>
  </nav>`;
}
