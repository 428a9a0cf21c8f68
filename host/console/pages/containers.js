// Containers as a tree. The server has no list of them: each is found through a token that lies in it.
//
// Below a container, a search asks for tokens in none of the children that are known; what it finds names another child,
// until nothing is found. That is one search for each container, and each reads a token. What it cannot find is a container
// all of whose tokens lie in others too. Counts come from pages past the end, which read no token.
//
// That is more than a server with a limit answers at once: a few are asked for at a time, and what is refused as too often is
// asked for again when the server says, as long as somebody waits for it.

import { ask, may } from "../api.js";
import { asContainer } from "../access.js";
import { counted } from "../format.js";
import { html, nothing } from "../lit.js";
import { empty, lacking, problemBox, shown } from "../parts.js";
import { quote } from "../query.js";
import { holder, load, noteFailure, now, problemOf, redraw, tell } from "../state.js";
import { searchFor } from "./tokens.js";

export const title = "Containers";

/** A query has at most 64 terms. */
const CHILDREN_MAX = 60;
const PAST_THE_END = 2_000_000_000;

/** Searches that are under way at a time. */
const LANES = 4;
/** How long nothing may be answered but that it is too often. */
const PATIENCE_MS = 60_000;

/** What takes turns: how many are under way, who waits for one of them to end, and when one was last answered. */
const inTurn = () => ({ busy: 0, waiting: [], answered: performance.now() });
const held = holder(() => ({ open: new Set(["/"]), nodes: {}, turns: inTurn() }));

export function open() {
  // Nobody waits for what the page asked for when it was left.
  Object.assign(held, { nodes: {}, turns: inTurn() });
  return refresh();
}

/** What is unfolded stays so; what is folded is read when it is unfolded. The root's count stands even then. */
export function refresh() {
  const seen = new Set(["/", ...held.open]);
  for (const path of Object.keys(held.nodes)) if (!seen.has(path)) delete held.nodes[path];
  return may("token:search") ? Promise.all([...seen].map(look)) : undefined;
}

function look(path) {
  const { nodes, turns } = held;
  const visit = now();
  turns.answered = performance.now();
  const work = async () => {
    const mine = nodes[path];
    // Nobody waits for it once the page is left or read anew.
    const search = searcher(turns, () => visit.isHere() && held.nodes === nodes && nodes[path] === mine);
    const children = await childrenOf(path, search);
    if (!children) return undefined;
    // Names are shown while they are counted, with the counts of before.
    const found = (mine.value = { children, counts: { ...mine.value?.counts } });
    redraw();
    const places = [path, `${path}*`, ...children.map((child) => `${child}*`)];
    try {
      await Promise.all(places.map((place) => count(place, found, search)));
    } catch (error) {
      // What is known stays.
      found.problem = problemOf(error);
      noteFailure(found.problem);
    }
    return found;
  };
  return load(nodes, path, work, () => look(path));
}

/** What searches by turns and waits where it is to; it gives nothing once nobody `isWaiting`. */
function searcher(turns, isWaiting) {
  return (query, page) => turn(turns, async () => {
    while (isWaiting()) {
      try {
        const found = await ask("token:search", "POST", "/tokens/search", { body: { query, page, size: 1 } });
        turns.answered = performance.now();
        return isWaiting() ? found : undefined;
      } catch (refusal) {
        const wait_ms = 1000 * (refusal.problem?.wait ?? 1);
        if (refusal.problem?.status !== 429 || performance.now() + wait_ms > turns.answered + PATIENCE_MS) throw refusal;
        await new Promise((go) => setTimeout(go, wait_ms));
      }
    }
    return undefined;
  });
}

/** Does `work` when fewer than so many others are under way. */
async function turn(turns, work) {
  if (turns.busy >= LANES) await new Promise((go) => turns.waiting.push(go));
  else turns.busy += 1;
  try {
    return await work();
  } finally {
    const next = turns.waiting.shift();
    if (next) next();
    else turns.busy -= 1;
  }
}

async function count(place, { counts }, search) {
  const found = await search(`container:${quote(place)}`, PAST_THE_END);
  if (!found) return;
  counts[place] = found.pagination.total_items;
  redraw();
}

/** The containers right below this one that hold tokens, or have descendants that do; nothing once nobody waits for them. */
async function childrenOf(path, search) {
  const children = new Set();
  // One more than are shown tells that there are more.
  while (children.size <= CHILDREN_MAX) {
    const known = [path, ...[...children].map((child) => `${child}*`)];
    const others = known.map((one) => `NOT container:${quote(one)}`).join(" AND ");
    const found = await search(`container:${quote(`${path}*`)} AND ${others}`, 1);
    if (!found) return undefined;
    const names = found.data.flatMap((token) => token.containers ?? []).map((one) => childOn(path, one));
    const before = children.size;
    for (const name of names) if (name) children.add(name);
    if (children.size === before) break;
  }
  const shown = [...children].sort().slice(0, CHILDREN_MAX);
  return Object.assign(shown, { hasMore: children.size > CHILDREN_MAX });
}

/** The child of `path` on the way to `container`, if it lies below. */
function childOn(path, container) {
  const place = asContainer(container);
  if (!place.startsWith(path) || place === path) return undefined;
  return `${path}${place.slice(path.length).split("/")[0]}/`;
}

function toggle(path) {
  if (held.open.has(path)) held.open.delete(path);
  else {
    held.open.add(path);
    if (!held.nodes[path]) look(path);
    tell(`${path} opened`);
  }
  redraw();
}

export function view() {
  return html`<h1 tabindex="-1">${title}</h1>
    ${may("token:search")
      ? html`<section class="card tree">${node("/", undefined)}</section>
          <p class="small">Counts are of the tokens that the key may search, in a container and below it. A container exists as
            long as a token lies in it; one whose tokens all lie in others too may be missing here.</p>`
      : lacking("token:search")}`;
}

function node(path, known) {
  const isOpen = held.open.has(path);
  const name = path === "/" ? "/" : `${path.split("/").at(-2)}/`;
  const total = known ?? held.nodes[path]?.value?.counts[`${path}*`];
  return html`<div class="node">
    <button type="button" class="twisty" aria-expanded=${isOpen} @click=${() => toggle(path)}>
      <span aria-hidden="true">${isOpen ? "▾" : "▸"}</span> <code>${name}</code>
    </button>
    ${total === undefined ? nothing : html`<a href="#/tokens" @click=${(event) => showTokens(event, path)}>${counted(total, "token")}</a>`}
    ${isOpen ? html`<div class="below">${shown(held.nodes[path], (found) => below(path, found))}</div>` : nothing}
  </div>`;
}

function showTokens(event, path) {
  event.preventDefault();
  searchFor(`container:${quote(`${path}*`)}`);
}

function below(path, { children, counts, problem }) {
  const own = counts[path];
  if (children.length === 0 && path === "/" && own === 0) {
    return empty("No tokens yet.", may("token:create") ? html`<p><a href="#/tokens/new">Make one</a>: its containers are shown here.</p>` : html`<p>What programs make is shown here.</p>`);
  }
  return html`<ul>
      ${children.map((child) => html`<li>${node(child, counts[`${child}*`])}</li>`)}
    </ul>
    ${own > 0 && children.length > 0 ? html`<p class="small">${counted(own, "token")} in <code>${path}</code> itself</p>` : nothing}
    ${children.length === 0 ? html`<p class="small">Nothing below; its count leads to its tokens.</p>` : nothing}
    ${children.hasMore ? html`<p class="small">More than ${CHILDREN_MAX} containers: not all are shown.</p>` : nothing}
    ${problemBox(problem, nothing, () => look(path))}`;
}
