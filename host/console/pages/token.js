// One token: shown masked, revealed for a moment, deleted.

import { ask, keyAt, keysAt, may, revealingKey, segment, session, withAnyKey, withAnyOf } from "../api.js";
import { marked, markedText, pretty } from "../format.js";
import { html, nothing } from "../lit.js";
import { act, badge, confirm, copyable, facts, inShort, long, orEmpty, problemBox, shown, time } from "../parts.js";
import { readRights } from "../rights.js";
import { unlessChanged } from "../saving.js";
import { holder, load, now, redraw, tell } from "../state.js";

const REVEALED_MS = 30_000;
/** What others may have changed. That data was is told by the time alone. */
const MEMBERS = [
  { title: "Changed", of: ({ modified_at: at }) => at, text: (at) => time(at) },
  { title: "Containers", of: ({ containers }) => containers },
  { title: "Metadata", of: ({ metadata: pairs }) => pairs },
  { title: "Mask", of: ({ mask }) => mask },
  { title: "Ends", of: ({ expires_at: at }) => at, text: (at) => time(at) },
];

const held = holder(() => ({}));
let hiding;
/** What stands for the last revealing, while the page is open. */
let revealing;

/** Begins with a token. Nothing of another one is to be seen in its place. `reopen` opens the page anew, once all is forgotten. */
export function openToken(id, reopen) {
  const news = held.news?.fresh && held.news.id === id ? { ...held.news, fresh: false } : undefined;
  Object.assign(held, { id, one: undefined, news, reopen });
  readToken();
}

function readToken() {
  const { id } = held;
  return load(held, "one", () => findToken(id));
}

/** Reads it anew. What was revealed may be another value now. */
export function refreshToken() {
  hideHere();
  return readToken();
}

/** Leaves nothing that was revealed behind. */
export function closeToken() {
  revealing = undefined;
  hide();
}

/** Takes plaintext out of an answer that a key got: it is shown for one token at a time, when asked for. */
export function conceal(key, permission, token) {
  if (token.data !== undefined && key.mayReveal(permission, token.containers ?? ["/"])) {
    delete token.data;
    token.concealed = true;
  }
  return token;
}

/** The token as the first key that may read it sees it. */
export async function findToken(id) {
  return withAnyKey("token:read", (key) => findAs(key, id));
}

/** The same as one key sees it. */
export async function findAs(key, id) {
  const token = await ask("token:read", "GET", `/tokens/${segment(id)}`, { key });
  return conceal(key, "token:read", token);
}

/** Keys and values of a token's metadata. */
export function metadata(token, max = Infinity) {
  const pairs = Object.entries(token.metadata ?? {});
  return pairs.map(([key, value]) => html`<span class="pair"><em><bdi>${key}</bdi></em> <bdi>${inShort(value, max)}</bdi></span> `);
}

/** What is told on the page of a token that is opened next: a view made of what has just happened to it. */
export function announce(id, news) {
  held.news = { id, news, fresh: true };
}

/** The page of one token. */
export function viewToken() {
  return html`<p class="back"><a href="#/tokens">Tokens</a></p>
    <h1 tabindex="-1">Token <code>${marked(held.id)}</code></h1>
    ${held.news?.id === held.id ? held.news.news : nothing} ${shown(held.one, detail)}`;
}

function detail(token) {
  const places = token.containers ?? ["/"];
  const mask = token.mask ?? undefined;
  const erase = async () => {
    const visit = now();
    await withAnyOf(keysAt("token:delete", places), (key) => ask("token:delete", "DELETE", `/tokens/${segment(token.id)}`, { key }));
    tell("Token deleted", { leads: visit.isHere() });
    if (visit.isHere()) location.hash = "#/tokens";
  };
  const unchanged = (isAsked) => unlessChanged({ seen: token, read: () => findToken(token.id), members: MEMBERS, erase }, isAsked);
  const remove = () =>
    confirm("Delete this token?", html`The data of “<bdi>${marked(token.id)}</bdi>” is erased for good; the audit log keeps that it was there.`, "Delete", unchanged);
  return html`<section class="card" aria-label="Data">
      <div class="row"><h2>Data</h2>${badge(token.type)}</div>
      ${data(token)}
    </section>
    <section class="card" aria-label="About">
      ${facts([
        ["Id", copyable(token.id, "id")],
        ["Containers", html`<code>${(token.containers ?? []).join(" ")}</code>`],
        ["Metadata", Object.keys(token.metadata ?? {}).length > 0 ? metadata(token) : undefined],
        ["Fingerprint", token.fingerprint && copyable(token.fingerprint, "fingerprint")],
        ["Mask", mask === undefined ? undefined : html`<pre tabindex="0" role="region" aria-label="Mask">${text(mask)}</pre>`],
        ["Fingerprint of", token.fingerprint_expression && html`<code>${token.fingerprint_expression}</code>`],
        ["Search indexes", token.search_indexes && html`<code>${token.search_indexes.join(" ")}</code>`],
        ["Made", act(token.created_at, token.created_by)],
        token.modified_at && ["Changed", act(token.modified_at, token.modified_by)],
        token.expires_at && ["Ends", time(token.expires_at)],
      ])}
      <div class="row">
        ${may("log:read") ? html`<a class="button" href="#/logs/token/${segment(token.id)}">Audit log of this token</a>` : nothing}
        ${keyAt("token:update", places) ? html`<a class="button" href="#/tokens/edit/${segment(token.id)}">Change</a>` : nothing}
        ${keyAt("token:delete", places) ? html`<button type="button" class="danger" @click=${remove}>Delete</button>` : nothing}
      </div>
    </section>`;
}

function data(token) {
  const got = held.revealed?.value;
  if (got && got.data !== undefined) {
    return html`<div id="plaintext">
      ${got.why ? html`<p><bdi>${marked(got.label)}</bdi>. ${got.why}</p>` : nothing}
      <pre class="revealed" tabindex="0" role="region" aria-label=${markedText(got.label)}>${text(got.data)}</pre>
      <div class="row">
        <button type="button" class="main" @click=${hideHere}>Hide</button>
        <span class="small">Hidden by itself after 30 seconds. That it was read is in the audit log.</span>
      </div>
    </div>`;
  }
  const key = revealingKey(token.containers ?? ["/"]);
  const busy = held.revealed?.loading === true;
  const shownNow = token.concealed
    ? html`<p class="muted">••••••</p>`
    : token.data === undefined
      ? html`<p class="muted">The rule that decides shows no data of this token, or it has no mask.</p>`
      : html`<pre tabindex="0" role="region" aria-label="Masked data">${text(token.data)}</pre>`;
  return html`${shownNow} ${got ? html`<p>It was read, and <bdi>${marked(got.by)}</bdi> sees no data of it.</p>` : nothing}
    ${problemBox(held.revealed?.problem)}
    ${key
      ? html`<div class="row">
          <button type="button" class="main" id="reveal" aria-disabled=${busy ? "true" : nothing} @click=${() => reveal(token, key)}>
            Reveal
          </button>
          <span class="small">Reads it as <bdi>${marked(key.name)}</bdi>${key.isSession ? ", which may see it masked" : ""}; that is logged.</span>
        </div>`
      : html`<p class="small">No key in this tab may see it in plaintext. <a href="#/keys">Add one</a> of an application with a rule that reveals it.</p>`}`;
}

function text(value) {
  return value === "" ? orEmpty(value) : long(typeof value === "string" ? value : pretty(value));
}

async function reveal(token, key) {
  if (held.revealed?.loading) return;
  const mine = (revealing = {});
  const got = await load(held, "revealed", () => revealed(token, key, mine));
  // Somebody went on meanwhile, or another reading overtook this one.
  if (revealing !== mine) return;
  if (!got || held.revealed?.value !== got) {
    // The button is gone with the right.
    return queueMicrotask(() => document.activeElement === document.body && document.querySelector("h1")?.focus());
  }
  if (got.data === undefined) return tell(`${got.by} sees no data of it`);
  tell(`${got.label} is shown`);
  hiding = setTimeout(hideHere, REVEALED_MS);
  queueMicrotask(() => document.querySelector(".revealed")?.focus());
}

/** What a key sees of a token, by the rules of now: what they were may not say whether it is plaintext. */
async function revealed(token, key, mine) {
  const visit = now();
  const { revealed: asked, reopen } = held;
  await readRights();
  if (revealing !== mine) return undefined;
  if (!visit.isKnown()) {
    // With a key that has ended everything is forgotten; without the last one nobody is here.
    if (session.keys.length > 0) reopen();
    return undefined;
  }
  // It was to be hidden meanwhile.
  if (held.revealed !== asked) return undefined;
  if (key.unread) throw Object.assign(new Error(), { problem: key.unread });
  if (!session.keys.includes(key) || !mayReveal(key, token)) {
    const detail = `${key.name} may not see this token in plaintext any more.`;
    throw Object.assign(new Error(), { problem: { title: "Not revealed", detail, errors: {} } });
  }
  const read = await ask("token:read", "GET", `/tokens/${segment(token.id)}`, { key });
  return { data: read.data, ...described(key, read) };
}

function mayReveal(key, token) {
  return key.may("token:read") && key.mayReveal("token:read", token.containers ?? ["/"]);
}

/** What that is called. It may lie in other containers by now than those that the page shows. */
function described(key, read) {
  const by = key.isSession ? "this session" : key.name;
  if (!key.isSession && mayReveal(key, read)) return { by, label: "Plaintext" };
  const why = key.isSession
    ? "It may be masked: a session's rights are not told to it."
    : "It is not plaintext: another rule decides by now.";
  return { by, label: `Data as ${by} sees it`, why };
}

/** Takes plaintext off the page. */
function hide() {
  clearTimeout(hiding);
  if (held.revealed === undefined) return;
  held.revealed = undefined;
  redraw();
}

/** The same while the token stays on the page: who was at what goes finds the way back to it. */
function hideHere() {
  const got = held.revealed?.value;
  if (got?.data === undefined) return hide();
  const within = document.activeElement?.closest("#plaintext");
  hide();
  tell(`${got.label} is hidden`);
  if (within) queueMicrotask(() => document.getElementById("reveal")?.focus());
}

addEventListener("visibilitychange", () => document.hidden && hideHere());
