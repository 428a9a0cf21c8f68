// The audit log, with its filters.

import { ask, may, session, withQuery } from "../api.js";
import { form, selectField, submitButton, textField } from "../fields.js";
import { brief, compact } from "../format.js";
import { html, nothing } from "../lit.js";
import { badge, empty, lacking, pager, shown, table, time } from "../parts.js";
import { holder, load, loadPage, tell } from "../state.js";

export const title = "Audit log";

const TONES = { create: "good", update: "warn", delete: "bad", use: "accent", invoke: "accent" };

const held = holder(() => ({ entity_type: "", entity_id: "", from: "", to: "", page: 1 }));

/** The rest of the address is a type of entity and an id. */
export function open([type, id]) {
  if (!may("log:read")) return;
  if (type !== undefined) Object.assign(held, { entity_type: type, entity_id: id ?? "", page: 1 });
  if (!held.types) load(held, "types", () => ask("log:read", "GET", "/logs/entity-types"));
  list(held.page);
}

async function list(page) {
  const { entity_type, entity_id } = held;
  const filter = { entity_type, entity_id: entity_id.trim(), start_date: utc(held.from), end_date: utc(held.to) };
  const found = await loadPage(held, page, (number) => ask("log:read", "GET", withQuery("/logs", { ...filter, page: number, size: 50 })));
  if (found) tell(`${found.pagination.total_items} entries`);
}

/** What a field for a date and time holds is of the zone of who looks. */
function utc(text) {
  const at = new Date(text);
  return text === "" || Number.isNaN(at.getTime()) ? "" : at.toISOString();
}

export function view() {
  if (!may("log:read")) return html`<h1 tabindex="-1">${title}</h1>${lacking("log:read")}`;
  return html`<h1 tabindex="-1">${title}</h1>
    ${filters()} ${shown(held.list, (found) => entries(found))}`;
}

function filters() {
  const types = (held.types?.value ?? []).map(({ value, display_name: name }) => [value, name]);
  const reset = () => {
    Object.assign(held, { entity_type: "", entity_id: "", from: "", to: "" });
    list(1);
  };
  return form(
    () => list(1),
    html`<div class="filters">
      ${selectField("Entity", held, "entity_type", [["", "Any"], ...types])}
      ${textField("Id of the entity", held, "entity_id")}
      ${textField("From", held, "from", { type: "datetime-local" })} ${textField("Before", held, "to", { type: "datetime-local" })}
      <div class="row">
        ${submitButton("Filter")}
        <button type="button" class="quiet" @click=${reset}>Clear</button>
      </div>
    </div>`,
    "Filters of the log",
  );
}

/** Keys of this tab by their names; others would have to be read, which would be an entry of its own. */
function who(id) {
  const known = session.keys.find((key) => key.application.id === id);
  return known ? html`<bdi title=${id}>${known.name}</bdi>` : html`<code title=${id}>${brief(id)}</code>`;
}

function entries({ data, pagination }) {
  if (data.length === 0) return empty("No entry is like this.");
  const row = (entry) => [
    time(entry.created_at),
    badge(entry.operation, entry.message.startsWith("Denied") ? "bad" : (TONES[entry.operation] ?? "plain")),
    html`<span class="small">${entry.entity_type}</span><br /><a href="#/logs/${entry.entity_type}/${encodeURIComponent(entry.entity_id)}"><code title=${entry.entity_id}>${compact(brief(entry.entity_id), 40)}</code></a>`,
    entry.message,
    entry.actor_id ? html`<span class="small">${entry.actor_type}</span><br />${who(entry.actor_id)}` : nothing,
  ];
  return html`${table("Entries of the log, newest first", ["When", "Operation", "Entity", "What happened", "Who"], data.map(row))}
  ${pager({ ...pagination }, "entry", list)}`;
}
