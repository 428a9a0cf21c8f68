// The audit log, with its filters. They are in the address, so that the way back leads to what was looked at before.

import { ask, may, segment, withQuery } from "../api.js";
import { form, selectField, submitButton, textField } from "../fields.js";
import { brief, compact, counted, fromTimeField, marked } from "../format.js";
import { html, nothing } from "../lit.js";
import { badge, empty, keepFocus, lacking, pager, problemBox, shown, table, time, who } from "../parts.js";
import { holder, load, loadPage, redraw, tell } from "../state.js";

export const title = "Audit log";

const TONES = { create: "good", update: "warn", delete: "bad", use: "accent", invoke: "accent" };

const NONE = { entity_type: "", entity_id: "", by: "", from: "", to: "" };
/** `filter` is what is looked at, the members beside it are what the form holds, of which `problem` says what is wrong. */
const held = holder(() => ({ ...NONE, filter: NONE, page: 1, inPlace: false, problem: undefined }));

/** The rest of the address is a type of entity and an id, or nothing; `query` holds who acted, times and the number of a page. */
export function open([type = "", id = ""], query) {
  held.filter = { ...NONE, entity_type: type, entity_id: id };
  for (const name of ["by", "from", "to"]) held.filter[name] = query.get(name) ?? "";
  Object.assign(held, held.filter, { page: Math.max(1, Number.parseInt(query.get("page") ?? "1", 10) || 1), inPlace: false });
  if (!may("log:read")) return undefined;
  if (!held.types?.value) readTypes();
  return list(held.page);
}

/** Whoever filters or turns a page stays where they are on it. */
export function takes(rest, query) {
  if (!held.inPlace) return false;
  keepFocus(open(rest, query));
  redraw();
  return true;
}

/** What is written in the filters and not asked for stays. */
export function refresh() {
  return may("log:read") ? Promise.all([readTypes(), list(held.page)]) : undefined;
}

function readTypes() {
  return load(held, "types", () => ask("log:read", "GET", "/logs/entity-types"));
}

function show({ entity_type, entity_id, by, from, to }, page) {
  const path = [entity_type, entity_id.trim()].map(segment).join("/").replace(/\/+$/, "");
  const wanted = withQuery(path === "" ? "#/logs" : `#/logs/${path}`, { by: by.trim(), from, to, page: page > 1 ? page : "" });
  if (wanted === location.hash) return keepFocus(list(page));
  held.inPlace = true;
  location.hash = wanted;
  return undefined;
}

/** What is wrong with times between which nothing can lie, in the form of the server's. */
function faultOf({ from, to }) {
  const isBackwards = from !== "" && to !== "" && Date.parse(`${from}Z`) >= Date.parse(`${to}Z`);
  return isBackwards ? { errors: { end_date: ["must be later than From"] } } : undefined;
}

function filter() {
  held.problem = faultOf(held);
  return held.problem ? redraw() : show(held, 1);
}

async function list(page) {
  held.problem = faultOf(held.filter);
  if (held.problem) {
    held.list = undefined;
    return;
  }
  const { entity_type, entity_id, by, from, to } = held.filter;
  const filter = { entity_type, entity_id, actor_id: by, start_date: fromTimeField(from), end_date: fromTimeField(to) };
  const found = await loadPage(held, page, (number) => ask("log:read", "GET", withQuery("/logs", { ...filter, page: number, size: 50 })));
  if (found) tell(counted(found.pagination.total_items, "entry"));
}

export function view() {
  if (!may("log:read")) return html`<h1 tabindex="-1">${title}</h1>${lacking("log:read")}`;
  return html`<h1 tabindex="-1">${title}</h1>
    ${filters()} ${shown(held.list, (found) => entries(found))}`;
}

function filters() {
  const read = (held.types?.value ?? []).map(({ value, display_name: name }) => [value, name]);
  const { entity_type: type } = held;
  // What is filtered by is said, whether the list of types is there or not.
  const types = type === "" || read.some(([value]) => value === type) ? read : [...read, [type, type]];
  return html`${filterForm(types)} ${held.types?.problem ? html`<p class="small"><strong>Types of entities could not be read.</strong></p>
    ${problemBox(held.types.problem, nothing, held.types.again)}` : nothing}`;
}

function reset() {
  Object.assign(held, NONE);
  // Half of a time is no value that could be set to nothing.
  for (const field of document.querySelectorAll("main input:invalid")) field.value = "";
  return show(NONE, 1);
}

function filterForm(types) {
  return form(
    filter,
    html`<div class="filters">
      ${selectField("Entity", held, "entity_type", [["", "Any"], ...types])}
      ${textField("Id of the entity", held, "entity_id")}
      ${textField("Id of who acted", held, "by")}
      ${textField("From", held, "from", { type: "datetime-local", step: "1", hint: "UTC" })}
      ${textField("Before", held, "to", { type: "datetime-local", step: "1", hint: "UTC", at: [held.problem, "end_date"] })}
      <div class="row">
        ${submitButton("Filter")}
        <button type="button" class="quiet" @click=${reset}>Clear</button>
      </div>
    </div>`,
    "Filters of the log",
  );
}

/** Who acted: who does something at the command line has no id, and the server has nothing. */
function actor({ actor_id: id, actor_type: type }) {
  // Its own entries are there with its whole id.
  if (id) return html`<span class="small">${type}</span><br /><a href="#/logs/${type}/${encodeURIComponent(id)}">${who(id, brief(id))}</a>`;
  return html`<span class="small">${{ user: "the command line", undefined: "the server" }[type] ?? type}</span>`;
}

function entries({ data, pagination }) {
  if (data.length === 0) {
    return empty("No entry is like this.", html`<p><button type="button" @click=${reset}>Clear the filters</button> or change them above.</p>`);
  }
  const row = (entry) => [
    time(entry.created_at),
    badge(entry.operation, entry.message.startsWith("Denied") ? "bad" : (TONES[entry.operation] ?? "plain")),
    html`<span class="small">${entry.entity_type}</span><br /><a href="#/logs/${entry.entity_type}/${encodeURIComponent(entry.entity_id)}"><code title=${entry.entity_id}>${marked(compact(brief(entry.entity_id), 40))}</code></a>`,
    html`${marked(entry.message)}${entry.trace_id ? html`<br /><span class="small">Trace <code title=${entry.trace_id}>${compact(brief(entry.trace_id), 24)}</code></span>` : nothing}`,
    actor(entry),
  ];
  return html`${table("Entries of the log, newest first", ["When", "Operation", "Entity", "What happened", "Who"], data.map(row))}
  ${pager({ ...pagination }, "entry", (page) => show(held.filter, page))}`;
}
