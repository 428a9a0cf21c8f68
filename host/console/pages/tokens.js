// Tokens: searched, shown masked, revealed one by one.

import { ask, keyFor, keysFor, may, revealingKey, segment, withQuery } from "../api.js";
import { brief, compact, counted, pretty } from "../format.js";
import { html, nothing } from "../lit.js";
import { badge, confirm, copyable, empty, facts, form, lacking, pager, problemBox, selectField, shown, submitButton, table, time } from "../parts.js";
import { searchBox } from "../search_box.js";
import { holder, load, redraw, tell } from "../state.js";
import { createToken } from "./token_form.js";
import { knownTypes } from "./token_types.js";

export const title = "Tokens";

const REVEALED_MS = 30_000;

const held = holder(() => ({ query: "", size: "20", page: 1, view: "list" }));
let hiding;

/** The rest of the address is nothing, `new`, or `of` and a token's id. */
export function open([what, id]) {
  hide();
  held.view = what === "new" ? "new" : id ? "one" : "list";
  knownTypes();
  if (held.view === "list" && able()) list(held.page);
  if (held.view === "one") {
    // Nothing of another token is to be seen in its place.
    Object.assign(held, { id, one: undefined });
    find(id);
  }
}

/** What was revealed is not left behind. */
export function close() {
  hide();
}

/** Shows what a query finds. */
export function searchFor(query) {
  Object.assign(held, { query, page: 1 });
  location.hash = "#/tokens";
}

function able() {
  return may("token:search") || may("token:read");
}

async function list(page) {
  held.page = page;
  const size = Number(held.size);
  const found = await load(held, "list", async () => {
    if (may("token:search")) {
      const key = keyFor("token:search");
      const body = { query: held.query.trim() === "" ? null : held.query, page, size };
      return masked(key, "token:search", await ask("token:search", "POST", "/tokens/search", { body, key }));
    }
    const key = keyFor("token:read");
    return masked(key, "token:read", await ask("token:read", "GET", withQuery("/tokens", { page, size }), { key }));
  });
  if (found) tell(`${counted(found.pagination.total_items, "token")} found`);
}

/** Plaintext that a key's rules would show is dropped: it is shown for one token at a time, when asked for. */
function masked(key, permission, answer) {
  for (const token of answer.data) conceal(key, permission, token);
  return { ...answer, seenBy: key.name };
}

function conceal(key, permission, token) {
  if (token.data !== undefined && key.mayReveal(permission, token.containers ?? ["/"])) {
    delete token.data;
    token.concealed = true;
  }
  return token;
}

async function find(id) {
  await load(held, "one", async () => {
    const keys = keysFor("token:read");
    for (const key of keys) {
      try {
        return conceal(key, "token:read", await ask("token:read", "GET", `/tokens/${segment(id)}`, { key }));
      } catch (refusal) {
        // Rules may close to one key what they open to another.
        if (refusal.problem?.status !== 403 || key === keys.at(-1)) throw refusal;
      }
    }
    return ask("token:read", "GET", `/tokens/${segment(id)}`);
  });
}

export function view() {
  if (held.view === "new") return createToken();
  if (!able()) {
    return html`<h1 tabindex="-1">${title}</h1>
      ${lacking("token:search")}
      ${may("token:create") ? html`<p><a class="button" href="#/tokens/new">New token</a></p>` : nothing}`;
  }
  return held.view === "one" ? one() : listed();
}

function listed() {
  const known = () => ({
    types: knownTypes(),
    containers: unique(held.list?.value?.data.flatMap((token) => token.containers ?? [])),
    keys: unique(held.list?.value?.data.flatMap((token) => Object.keys(token.metadata ?? {}))),
  });
  const search = () => {
    held.caret = undefined;
    list(1);
  };
  return html`<div class="row">
      <h1 tabindex="-1">${title}</h1>
      ${may("token:create") ? html`<a class="button end grow-none" href="#/tokens/new">New token</a>` : nothing}
    </div>
    ${may("token:search")
      ? form(
          search,
          html`${searchBox(held, known)}
            <div class="row">
              ${submitButton("Search")}
              ${selectField("Tokens on a page", held, "size", ["20", "50", "100"], { changed: search })}
            </div>`,
          "Search of tokens",
        )
      : html`<p>This key lists tokens and may not search them.</p>`}
    ${shown(held.list, found)}`;
}

function unique(values) {
  return [...new Set(values ?? [])].sort();
}

function found({ data, pagination, seenBy }) {
  const note = html` <span class="small">as ${seenBy} sees them; each read is in the audit log</span>`;
  if (data.length === 0 && pagination.total_items === 0) return empty("No token is found.");
  const row = (token) => [
    html`<a href="#/tokens/of/${segment(token.id)}"><code class="whole" title=${token.id}>${compact(brief(token.id), 40)}</code></a>`,
    token.type,
    dataCell(token),
    html`<code>${(token.containers ?? []).join(" ")}</code>`,
    metadata(token),
    time(token.created_at),
  ];
  const heads = ["Id", "Type", "Data", "Containers", "Metadata", "Made"];
  return html`${table("Tokens, newest first", heads, data.map(row))} ${pager(pagination, "token", list, note)}`;
}

function dataCell(token) {
  if (token.concealed) return html`<span class="muted" title="Shown when it is revealed">••••••</span>`;
  return token.data === undefined ? html`<span class="muted">not shown</span>` : html`<code class="data">${dataText(token.data)}</code>`;
}

/** The members of an object one after the other, anything else as it is. */
function dataText(data) {
  if (data === null || typeof data !== "object" || Array.isArray(data)) return compact(data, 60);
  const pairs = Object.entries(data).map(([name, value]) => html`<span class="pair"><em>${name}</em> ${compact(value, 40)}</span> `);
  return pairs.length > 6 ? [...pairs.slice(0, 6), "…"] : pairs;
}

function metadata(token) {
  const pairs = Object.entries(token.metadata ?? {});
  return pairs.map(([key, value]) => html`<span class="pair"><em>${key}</em> ${compact(value, 40)}</span> `);
}

function one() {
  return html`<p class="back"><a href="#/tokens">Tokens</a></p>
    <h1 tabindex="-1">Token <code>${held.id}</code></h1>
    ${shown(held.one, detail)}`;
}

function detail(token) {
  const json = (value) => (value === undefined || value === null ? undefined : html`<pre>${typeof value === "string" ? value : pretty(value)}</pre>`);
  const remove = () =>
    confirm("Delete this token?", `The data of ${token.id} is erased for good; the audit log keeps that it was there.`, "Delete", async () => {
      await ask("token:delete", "DELETE", `/tokens/${segment(token.id)}`);
      tell("Token deleted");
      location.hash = "#/tokens";
    });
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
        ["Mask", json(token.mask)],
        ["Search indexes", token.search_indexes && html`<code>${token.search_indexes.join(" ")}</code>`],
        ["Made", html`${time(token.created_at)} by <code>${token.created_by}</code>`],
        token.modified_at && ["Changed", html`${time(token.modified_at)} by <code>${token.modified_by}</code>`],
        token.expires_at && ["Ends", time(token.expires_at)],
      ])}
      <div class="row">
        ${may("log:read") ? html`<a class="button" href="#/logs/token/${segment(token.id)}">Audit log of this token</a>` : nothing}
        ${may("token:delete") ? html`<button type="button" class="danger" @click=${remove}>Delete</button>` : nothing}
      </div>
    </section>`;
}

function data(token) {
  if (held.revealed?.value) {
    return html`<pre class="revealed" tabindex="0" aria-label="Plaintext">${text(held.revealed.value.data)}</pre>
      <div class="row">
        <button type="button" class="main" @click=${hide}>Hide</button>
        <span class="small">Hidden by itself after 30 seconds. That it was read is in the audit log.</span>
      </div>`;
  }
  const key = revealingKey(token.containers ?? ["/"]);
  const shownNow = token.concealed
    ? html`<p class="muted">••••••</p>`
    : token.data === undefined
      ? html`<p class="muted">The rule that decides shows no data of this token, or it has no mask.</p>`
      : html`<pre>${text(token.data)}</pre>`;
  return html`${shownNow} ${problemBox(held.revealed?.problem)}
    ${key
      ? html`<div class="row">
          <button type="button" class="main" @click=${() => reveal(token, key)} ?disabled=${held.revealed?.loading === true}>Reveal</button>
          <span class="small">Reads it as ${key.name}; that is logged.</span>
        </div>`
      : html`<p class="small">No key in this tab may see it in plaintext.</p>`}`;
}

function text(value) {
  return typeof value === "string" ? value : pretty(value);
}

async function reveal(token, key) {
  const got = await load(held, "revealed", () => ask("token:read", "GET", `/tokens/${segment(token.id)}`, { key }));
  if (!got) return;
  tell("Plaintext is shown");
  hiding = setTimeout(hide, REVEALED_MS);
  queueMicrotask(() => document.querySelector(".revealed")?.focus());
}

/** Takes plaintext off the page. */
function hide() {
  clearTimeout(hiding);
  if (held.revealed === undefined) return;
  held.revealed = undefined;
  redraw();
}

addEventListener("visibilitychange", () => document.hidden && hide());
