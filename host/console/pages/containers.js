// Containers as a tree. The server has no list of them: each is found through a token that lies in it.
//
// Below a container, a search asks for tokens in none of the children that are known; what it finds names another child,
// until nothing is found. That is one search for each container, and each reads a token. What it cannot find is a container
// all of whose tokens lie in others too. Counts come from pages past the end, which read no token.

import { ask, may } from "../api.js";
import { asContainer } from "../access.js";
import { counted } from "../format.js";
import { html, nothing } from "../lit.js";
import { empty, lacking, shown } from "../parts.js";
import { quote } from "../query.js";
import { holder, load, now, redraw, tell } from "../state.js";
import { searchFor } from "./tokens.js";

export const title = "Containers";

/** A query has at most 64 terms. */
const CHILDREN_MAX = 60;
const PAST_THE_END = 2_000_000_000;

const held = holder(() => ({ open: new Set(["/"]), nodes: {} }));

export function open() {
  held.nodes = {};
  return refresh();
}

/** What is unfolded stays so; what is folded is read when it is unfolded. The root's count stands even then. */
export function refresh() {
  const seen = new Set(["/", ...held.open]);
  for (const path of Object.keys(held.nodes)) if (!seen.has(path)) delete held.nodes[path];
  return may("token:search") ? Promise.all([...seen].map(look)) : undefined;
}

function look(path) {
  const visit = now();
  return load(held.nodes, path, async () => {
    const children = await childrenOf(path, visit);
    // Nobody waits for it any more.
    if (!visit.isHere()) return undefined;
    const places = [path, `${path}*`, ...children.map((child) => `${child}*`)];
    const [own, all, ...counts] = await Promise.all(places.map(countIn));
    return { own, all, children, counts };
  });
}

async function search(query, page, size) {
  return ask("token:search", "POST", "/tokens/search", { body: { query, page, size } });
}

async function countIn(container) {
  return (await search(`container:${quote(container)}`, PAST_THE_END, 1)).pagination.total_items;
}

/** The containers right below this one that hold tokens, or have descendants that do. */
async function childrenOf(path, visit) {
  const children = new Set();
  while (children.size < CHILDREN_MAX && visit.isHere()) {
    const known = [path, ...[...children].map((child) => `${child}*`)];
    const others = known.map((one) => `NOT container:${quote(one)}`).join(" AND ");
    const { data } = await search(`container:${quote(`${path}*`)} AND ${others}`, 1, 1);
    const names = data.flatMap((token) => token.containers ?? []).map((one) => childOn(path, one));
    const before = children.size;
    for (const name of names) if (name) children.add(name);
    if (children.size === before) break;
  }
  return [...children].sort();
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

function node(path, count) {
  const isOpen = held.open.has(path);
  const name = path === "/" ? "/" : `${path.split("/").at(-2)}/`;
  const total = count ?? held.nodes[path]?.value?.all;
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

function below(path, { own, children, counts }) {
  if (children.length === 0 && path === "/" && own === 0) {
    return empty("No tokens yet.", may("token:create") ? html`<p><a href="#/tokens/new">Make one</a>: its containers are shown here.</p>` : html`<p>What programs make is shown here.</p>`);
  }
  return html`<ul>
      ${children.map((child, index) => html`<li>${node(child, counts[index])}</li>`)}
    </ul>
    ${own > 0 && children.length > 0 ? html`<p class="small">${counted(own, "token")} in <code>${path}</code> itself</p>` : nothing}
    ${children.length === 0 ? html`<p class="small">Nothing below; its count leads to its tokens.</p>` : nothing}
    ${children.length >= CHILDREN_MAX ? html`<p class="small">More than ${CHILDREN_MAX} containers: not all are shown.</p>` : nothing}`;
}
