// Tokens: searched and listed, masked.

import { ask, keysFor, may, segment, withAnyKey, withQuery } from "../api.js";
import { form, selectField, submitButton } from "../fields.js";
import { brief, compact, counted, marked } from "../format.js";
import { html, nothing } from "../lit.js";
import { empty, inShort, keepFocus, lacking, pager, problemBox, shown, table, time } from "../parts.js";
import { isObject, same } from "../merge_patch.js";
import { readRights } from "../rights.js";
import { QUERY_FAULT, searchBox } from "../search_box.js";
import { holder, loadPage, tell, viewOf } from "../state.js";
import { closeToken, conceal, metadata, openToken, refreshToken, viewToken } from "./token.js";
import { beginEdit, editToken, openEdit, refreshEdit, unkeptEdit } from "./token_edit.js";
import { createToken, leaveForm, unkeptForm } from "./token_form.js";
import { knownTypes, readTypes } from "./token_types.js";

export const title = "Tokens";

/** `asked` is what was searched for; the form holds what is written, which may be another query already. */
const begun = () => ({ query: "", size: "20", asked: "", page: 1, view: "list", searches: new Map() });
const held = holder(begun, { keeps: ({ view }) => (["new", "edit"].includes(view) ? { view } : {}) });
/** Of the last search. Numbers that a reload or another key left in the history lead nowhere: none is given twice. */
let lastNumber = 0;
/** What stands for the last list that was asked for, while the page is open. */
let asking;

/** The rest of the address is nothing, `new`, or `of` or `edit` and a token's id. */
export function open([what, id]) {
  held.view = viewOf(what, id);
  readTypes();
  if (held.view === "list") {
    takeSearch();
    // What was written and not asked for would not be of the list that is shown.
    held.query = held.asked;
    if (able()) return list(held.page);
  }
  // What the token's page forgets with a key that has ended, this one forgets as well.
  if (held.view === "of") openToken(id, () => open([what, id]));
  if (held.view === "edit") openEdit(id);
}

/** What is written and not asked for stays. */
export function refresh() {
  if (held.view === "of") return refreshToken();
  if (held.view === "edit") return refreshEdit();
  if (held.view === "new") return readTypes();
  return able() ? Promise.all([readTypes(), list(held.page)]) : undefined;
}

/** What was revealed or written is not left behind. */
export function close() {
  asking = undefined;
  closeToken();
  leaveForm();
  beginEdit(undefined);
}

/** What is written of a token. */
export function unkept() {
  if (held.view === "edit") return unkeptEdit();
  return held.view === "new" ? unkeptForm() : undefined;
}

/** Shows what this entry of the browser's history is of; for one that is of nothing yet, what is shown. */
export function cameBack() {
  if (held.view !== "list") return undefined;
  const before = searchOf(held);
  takeSearch();
  // Whoever follows the link to where they are stays there.
  if (same(before, searchOf(held))) return undefined;
  Object.assign(held, { query: held.asked, caret: undefined });
  return able() ? listAgain(held.page) : undefined;
}

/**
 * Searches are steps on the way back. The browser keeps its history on disk, where no query may come, which may hold plaintext:
 * what it keeps is a number, and what that stands for is here.
 */
function takeSearch() {
  const known = held.searches.get(history.state?.search);
  if (known) Object.assign(held, known);
  else history.replaceState({ search: numbered() }, "");
}

function searchOf({ asked, size, page }) {
  return { asked, size, page };
}

function numbered() {
  lastNumber = Math.max(lastNumber + 1, Date.now());
  held.searches.set(lastNumber, searchOf(held));
  return lastNumber;
}

/** A step of its own in the history. A browser refuses more than so many of them in a time; the search is shown all the same. */
function step() {
  try {
    history.pushState({ search: numbered() }, "");
  } catch { /* Back leads one step further. */ }
}

/** Goes on to another search or another page of it. */
function goTo(search) {
  const before = held.searches.get(history.state?.search);
  Object.assign(held, search);
  if (!before || !same(before, searchOf(held))) step();
  return listAgain(held.page);
}

/** Shows what a query finds. */
export function searchFor(query) {
  Object.assign(held, { query, asked: query, page: 1 });
  // An entry that is of nothing yet.
  location.hash = "#/tokens";
}

function able() {
  return may("token:search") || may("token:read");
}

/** Shows a page of what is searched for, by the rules of now: somebody may have changed them since the page was opened. */
async function listAgain(page) {
  const mine = (asking = {});
  await readRights();
  // Somebody went on meanwhile, or asked for something else.
  if (asking !== mine) return;
  await list(page);
}

async function list(page) {
  const found = await loadPage(held, page, find);
  if (found) tell(`${counted(found.pagination.total_items, "token")} found`);
}

/** A page of what is searched for. A session may turn out to be one that may not search: without a query, to list is the same. */
async function find(page) {
  const size = Number(held.size);
  const query = held.asked.trim() === "" ? null : held.asked;
  const searched = async (key) => masked(key, "token:search", await ask("token:search", "POST", "/tokens/search", { body: { query, page, size }, key }));
  const read = async (key) => masked(key, "token:read", await ask("token:read", "GET", withQuery("/tokens", { page, size }), { key }));
  if (!may("token:search")) return withAnyKey("token:read", read);
  try {
    return await withAnyKey("token:search", searched);
  } catch (refusal) {
    const isUntold = keysFor("token:search").every((key) => key.isSession);
    if (!isUntold || query !== null || refusal.problem?.status !== 403) throw refusal;
    return withAnyKey("token:read", read);
  }
}

/** Plaintext that a key's rules would show is dropped: it is shown for one token at a time, when asked for. */
function masked(key, permission, answer) {
  for (const token of answer.data) conceal(key, permission, token);
  return { ...answer, seenBy: key.name };
}

export function view() {
  if (held.view === "new") return createToken();
  if (held.view !== "list" && !may("token:read")) return html`<h1 tabindex="-1">Token</h1>${lacking("token:read")}`;
  if (!able()) {
    return html`<h1 tabindex="-1">${title}</h1>
      ${lacking("token:search")}
      ${may("token:create") ? html`<p><a class="button" href="#/tokens/new">New token</a></p>` : nothing}`;
  }
  if (held.view === "of") return viewToken();
  return held.view === "edit" ? editToken() : listed();
}

function listed() {
  const known = () => ({
    types: knownTypes(),
    containers: unique(held.list?.value?.data.flatMap((token) => token.containers ?? [])),
    keys: unique(held.list?.value?.data.flatMap((token) => Object.keys(token.metadata ?? {}))),
  });
  const problem = held.list?.problem;
  const search = () => goTo({ caret: undefined, asked: held.query, page: 1 });
  return html`<div class="row">
      <h1 tabindex="-1">${title}</h1>
      ${may("token:create") ? html`<a class="button end grow-none" href="#/tokens/new">New token</a>` : nothing}
    </div>
    ${may("token:search")
      ? form(
          search,
          html`${searchBox(held, known, problem?.status === 400)}
            <div class="row">
              ${submitButton("Search")}
              ${selectField("Tokens on a page", held, "size", ["20", "50", "100"], { changed: search })}
            </div>`,
          "Search of tokens",
        )
      : html`<p>This key lists tokens and may not search them.</p>`}
    ${problem ? problemBox(problem, QUERY_FAULT, problem.status === 400 ? undefined : () => listAgain(held.page)) : shown(held.list, found)}`;
}

function unique(values) {
  return [...new Set(values ?? [])].sort();
}

function found({ data, pagination, seenBy }) {
  const note = html` <span class="small">as <bdi>${marked(seenBy)}</bdi> sees them; each read is in the audit log</span>`;
  if (data.length === 0 && pagination.total_items === 0) return none();
  const row = (token) => [
    html`<a class="whole" href="#/tokens/of/${segment(token.id)}"><code title=${token.id}>${marked(compact(brief(token.id), 40))}</code></a>`,
    token.type,
    dataCell(token),
    html`<code class="places">${(token.containers ?? []).join(" ")}</code>`,
    token.metadata && html`<div class="pairs">${metadata(token, 40)}</div>`,
    time(token.created_at),
  ];
  const heads = ["Id", "Type", "Data", "Containers", "Metadata", "Made"];
  return html`${table("Tokens, newest first", heads, data.map(row))} ${pager(pagination, "token", (page) => goTo({ page }), note)}`;
}

function none() {
  const all = () => goTo({ query: "", asked: "", caret: undefined, page: 1 });
  if (held.asked.trim() !== "") {
    return empty("No token is found.", html`<p><button type="button" @click=${() => keepFocus(all())}>Search for all</button> or change the query above.</p>`);
  }
  const make = html`<p><a href="#/tokens/new">Make one</a>, or let a program make them.</p>`;
  return empty("No token is found.", may("token:create") ? make : html`<p><a href="#/keys">Add a key</a> that sees others, or that holds <code>token:create</code>.</p>`);
}

function dataCell(token) {
  if (token.concealed) return html`<span class="muted" title="Shown when it is revealed">••••••</span>`;
  return token.data === undefined ? html`<span class="muted">not shown</span>` : html`<code class="data">${dataText(token.data)}</code>`;
}

/** The members of an object one after the other, anything else as it is. */
function dataText(data) {
  if (!isObject(data) || Object.keys(data).length === 0) return inShort(data, 60);
  const pairs = Object.entries(data).map(([name, value]) => html`<span class="pair"><em><bdi>${name}</bdi></em> <bdi>${inShort(value, 40)}</bdi></span> `);
  return pairs.length > 6 ? [...pairs.slice(0, 6), "…"] : pairs;
}

