// The frame around the pages, and the way from an address to a page. Addresses are fragments, which browsers do not
// send; they hold names of pages, ids and filters of the log, never keys, queries or values.

import { session } from "./api.js";
import { restartFields } from "./fields.js";
import { marked, markedText } from "./format.js";
import { allUnkept, forgetKept } from "./issued.js";
import { html, nothing } from "./lit.js";
import { askForKey, onKeyAdded } from "./new_key.js";
import { notices } from "./notices.js";
import { askNoMore, confirm, dialog, lostTogether } from "./parts.js";
import { readRights } from "./rights.js";
import { failuresDuring, forgetAll, goOn, now, redraw, tell, tellNoMore } from "./state.js";
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

// To add a page: a file that exports `title`, `open(rest, query)`, `view()` and `refresh()`, which reads anew what is shown and
// leaves alone what somebody has written; and a row here. A page may export `close()`; `takes(rest, query)`, which shows another
// address of it in place and says whether it did; `cameBack()`, which shows what another entry of the history, of the same
// address, is of; and `unkept()`, which says what would be lost for good without what it shows now. Where a key ends, `open` is
// called again without `close`: what `unkept` says is to be there then, as far as another key may see it.
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
/** The page that was open when the last key ended, if something is written on it: it is opened again with the next key. */
let waiting = null;
/** What stands for an opening that is under way, of the last page that was asked for: what the keys may do is read anew before. */
let opening = null;
let menuOpen = false;
/** What stands for a reading anew that is under way. */
let refreshing = null;
/** The address of the page that is open, what the page was told of it, and whether the way back to it is under way. */
let at = "";
let parts = [];
let staying = false;
/** Whether the heading of a page is to get the focus as soon as it is there. */
let wantsFocus = false;

function named(name) {
  return PAGES.find(([own]) => own === name)?.[1];
}

/** Opens the page that the address names. */
async function follow() {
  if (session.keys.length === 0) return;
  const goesOn = Boolean(waiting?.unkept?.());
  // Whoever has gone on without a key comes to what they wrote first, which is left from there.
  if (goesOn) location.hash = at;
  waiting = null;
  if (staying || !(goesOn || mayGo())) {
    staying = false;
    return;
  }
  goOn();
  at = location.hash;
  const [path, query] = at.replace(/^#\/?/, "").split("?");
  const [name, ...rest] = path.split("/").map(decodePart);
  parts = [rest, new URLSearchParams(query)];
  const page = named(name);
  if (!page) {
    location.replace("#/keys");
    return;
  }
  if (page === current && opening === null && page.takes?.(...parts)) return;
  // What is asked is of the page that is left, or has just been answered.
  askNoMore();
  tellNoMore();
  current?.close?.();
  forgetKept();
  current = page;
  menuOpen = false;
  refreshing = null;
  const mine = (opening = {});
  redraw();
  await readRights();
  // Somebody went on meanwhile, or the last key has ended.
  if (opening !== mine || session.keys.length === 0) return;
  opening = null;
  wantsFocus = true;
  page.open(...parts);
  redraw();
}

/** Asks before the page is left with something on it that is nowhere else. */
function mayGo() {
  const lost = current?.unkept?.();
  if (!lost) return true;
  if (location.hash === at) {
    // Whoever was asked has come back by themselves.
    askNoMore();
    return false;
  }
  const stay = () => {
    if (location.hash === at) return;
    staying = true;
    location.hash = at;
  };
  confirm(lost.title, lost.text, "Leave", async () => lost.letGo(), { after: follow, otherwise: stay });
  return false;
}

addEventListener("beforeunload", (event) => {
  if (lostBySigningOut()) event.preventDefault();
});

/** Reads anew what the page shows, by the rules of now. */
async function refresh() {
  if (refreshing !== null) return;
  const visit = now();
  const mine = (refreshing = {});
  redraw();
  const failures = await failuresDuring(async () => {
    await readRights();
    // Somebody went on meanwhile, or the last key has ended.
    if (refreshing !== mine) return;
    // With a key that ended all that was shown is forgotten, and what was written is shown as far as another key may see it.
    await (visit.isKnown() ? current.refresh() : current.open(...parts));
  });
  if (refreshing !== mine) return;
  refreshing = null;
  redraw();
  // What others changed was read; the form says it.
  const failed = failures.find(({ changed }) => !changed);
  tell(failed ? `Not all could be read anew: ${failed.title}` : "Read anew");
}

function refreshButton() {
  if (opening !== null || !current?.refresh) return nothing;
  return html`<div class="refresh"><button type="button" class="quiet" aria-disabled=${refreshing === null ? nothing : "true"} @click=${refresh}>Refresh</button></div>`;
}

/** The page's heading, without ids: they may be of tokens, and browsers keep titles in their history. */
function nameDocument() {
  const heading = document.querySelector("main h1")?.cloneNode(true);
  if (!heading) return;
  for (const id of heading.querySelectorAll("code")) id.remove();
  document.title = `${markedText(heading.textContent.trim())} · Tokamak console`;
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
onKeyAdded(refresh);
// A browser may keep a page that was left as it stands, with its keys, and bring it back.
for (const name of ["pagehide", "pageshow"]) addEventListener(name, ({ persisted }) => persisted && out());
addEventListener("popstate", () => {
  // Another address is followed as such.
  if (current !== null && opening === null && location.hash === at) current.cameBack?.();
});

/** What would be lost with all that is known: every key that was made or is still to come, and what the page says of itself. */
function lostBySigningOut() {
  const own = (current ?? waiting)?.unkept?.();
  // That of the page may be one of the keys.
  return lostTogether([...allUnkept(), own?.isOfKey ? undefined : own]);
}

function out() {
  waiting = null;
  forgetAll();
  tell("Signed out");
}

function signOut() {
  const lost = lostBySigningOut();
  if (lost) confirm(lost.title, lost.text, "Sign out", async () => lost.letGo(), { after: out });
  else out();
}

/** Drops what waits for the next key. */
function dropWritten() {
  waiting?.close?.();
  waiting = null;
  tell("It is dropped");
  redraw();
  queueMicrotask(() => document.querySelector("#key-form input")?.focus());
}

/** A link to where a key is added leads away from what is written here: it is asked for above it. */
function stayForKey(event) {
  if (!event.target.closest('a[href="#/keys"]') || !current?.unkept?.()) return;
  event.preventDefault();
  askForKey();
}

/** Without a key there is nothing to show. What is written waits for the next one, unless somebody signed out. */
function leave() {
  if (current.unkept?.()) waiting = current;
  else current.close?.();
  forgetKept();
  current = null;
  opening = null;
  refreshing = null;
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
      <main id="main" tabindex="-1" aria-busy=${opening !== null} @click=${stayForKey}>
        ${notices()} ${signedIn ? html`${refreshButton()}${content()}` : signIn.view(waiting?.unkept?.() ? dropWritten : undefined)}</main>
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
    <p class="brand"><a href=${signedIn ? "#/keys" : "#/"}>Tokamak</a></p>
    <div class="row end grow">
      <button type="button" class="quiet" @click=${toggleTheme}>${isDark() ? "Light" : "Dark"}<span class="polite"> colours</span></button>
      ${signedIn ? html`<button type="button" class="quiet" @click=${signOut}>Sign out</button>` : nothing}
    </div>
    ${signedIn
      ? html`<button type="button" class="quiet menu" aria-expanded=${menuOpen} aria-controls="pages" @click=${toggleMenu}>Menu</button>`
      : nothing}
  </header>`;
}

function navigation() {
  const link = ([name, page]) => html`<li>
    <a href="#/${name}" aria-current=${page === current ? "page" : nothing}>${page.title}</a>
  </li>`;
  return html`<nav id="pages" class=${menuOpen ? "pages open" : "pages"} aria-label="Console">
    <ul>${PAGES.map(link)}</ul>
    <p class="small keys">
      ${session.keys.map((key) => html`<span><bdi>${marked(key.name)}</bdi>${key.name.toLowerCase() === key.type ? nothing : html` <em>${key.type}</em>`}</span>`)}
    </p>
  </nav>`;
}
