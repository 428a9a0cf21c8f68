// Reactors: formulas with their configuration, to be run.

import { ask, may, segment, withQuery } from "../api.js";
import { form, selectField, submitButton, textField } from "../fields.js";
import { pretty } from "../format.js";
import { html, nothing } from "../lit.js";
import { confirm, copyable, empty, facts, lacking, pager, problemBox, shown, table, time } from "../parts.js";
import { holder, load, tell } from "../state.js";
import { beginTrying, tryReactor } from "./try_reactor.js";

export const title = "Reactors";

const held = holder(() => ({ page: 1, view: "list", draft: {} }));

/** The rest of the address is nothing, `new` and perhaps a formula's id, or `of` and a reactor's. */
export function open([what, id]) {
  held.view = what === "new" ? "new" : id ? "of" : "list";
  Object.assign(held, { id, one: undefined, sent: undefined });
  if (held.view === "new") prepare(id);
  if (held.view === "of") find(id);
  if (held.view === "list" && may("reactor:read")) list(held.page);
}

function list(page) {
  held.page = page;
  load(held, "list", () => ask("reactor:read", "GET", withQuery("/reactors", { page })));
}

async function find(id) {
  beginTrying(id);
  if (!may("reactor:read")) return;
  const reactor = await load(held, "one", () => ask("reactor:read", "GET", `/reactors/${segment(id)}`));
  if (reactor) beginTrying(id, reactor.formula);
}

function prepare(formula) {
  held.draft = { name: "", formula: formula ?? "", application: "", values: {} };
  if (!may("reactor:read")) return;
  load(held, "formulas", async () => (await ask("reactor:read", "GET", withQuery("/reactor-formulas", { size: 100 }))).data);
  if (!may("application:read")) return;
  load(held, "applications", async () => {
    const { data } = await ask("application:read", "GET", withQuery("/applications", { size: 100 }));
    return data.filter((application) => application.type !== "management");
  });
}

export function view() {
  if (held.view === "new") return html`${back()}<h1 tabindex="-1">New reactor</h1>${may("reactor:create") ? make() : lacking("reactor:create")}`;
  if (held.view === "of") return html`${back()}${one()}`;
  return html`<div class="row">
      <h1 tabindex="-1">${title}</h1>
      ${may("reactor:create") ? html`<a class="button end grow-none" href="#/reactors/new">New reactor</a>` : nothing}
    </div>
    ${may("reactor:read") ? shown(held.list, ({ data, pagination }) => (data.length === 0 ? empty("No reactors yet.") : listed(data, pagination))) : withoutList()}`;
}

function back() {
  return html`<p class="back"><a href="#/reactors">Reactors</a></p>`;
}

/** A key that may run reactors may not list them. */
function withoutList() {
  if (!may("token:use")) return lacking("reactor:read");
  const go = () => {
    location.hash = `#/reactors/of/${segment(held.wanted.trim())}`;
  };
  return html`<section class="card">
    <p>The key in this tab may run reactors and may not list them. Add a management key to see them, or name one:</p>
    ${form(go, html`${textField("Id of a reactor", held, "wanted", { required: true })} ${submitButton("Open")}`, "Open a reactor")}
  </section>`;
}

function listed(data, pagination) {
  const row = (reactor) => [
    html`<a href="#/reactors/of/${reactor.id}">${reactor.name}</a>`,
    html`<a href="#/formulas/of/${reactor.formula.id}">${reactor.formula.name}</a>`,
    reactor.application?.name ?? "–",
    time(reactor.created_at),
    html`<a href="#/invocations/${reactor.id}">Runs</a>`,
  ];
  return html`${table("Reactors, newest first", ["Name", "Formula", "Acts as", "Made", "Runs"], data.map(row))}
    ${pager(pagination, "reactor", list)}`;
}

function one() {
  if (!may("reactor:read")) return html`<h1 tabindex="-1">Reactor <code>${held.id}</code></h1>${tryReactor()}`;
  return shown(held.one, (reactor) => html`<h1 tabindex="-1">${reactor.name}</h1>
    <section class="card" aria-label="About">
      ${facts([
        ["Id", copyable(reactor.id, "id")],
        ["Formula", html`<a href="#/formulas/of/${reactor.formula.id}">${reactor.formula.name}</a>`],
        ["Acts as", reactor.application?.name ?? "nobody"],
        ["Configuration", Object.keys(reactor.configuration).length > 0 ? html`<pre>${pretty(hidden(reactor.configuration))}</pre>` : "none"],
        ["Made", time(reactor.created_at)],
      ])}
      <div class="row">
        <a class="button" href="#/invocations/${reactor.id}">Runs and deliveries</a>
        ${may("reactor:delete") ? html`<button type="button" class="danger" @click=${() => remove(reactor)}>Delete</button>` : nothing}
      </div>
    </section>
    ${tryReactor()}`);
}

/** Values of a configuration may be secrets: names and the kinds of values are shown. */
function hidden(configuration) {
  const shownValue = (value) => (typeof value === "string" ? `•••• (${value.length} characters)` : value);
  return Object.fromEntries(Object.entries(configuration).map(([name, value]) => [name, shownValue(value)]));
}

function remove(reactor) {
  confirm("Delete this reactor?", `${reactor.name} cannot be run any more.`, "Delete", async () => {
    await ask("reactor:delete", "DELETE", `/reactors/${reactor.id}`);
    tell("Reactor deleted");
    location.hash = "#/reactors";
  });
}

function make() {
  const { draft } = held;
  const at = (path) => [held.sent?.problem, path];
  const formulas = held.formulas?.value ?? [];
  const formula = formulas.find((one) => one.id === draft.formula);
  const applications = (held.applications?.value ?? []).map((one) => [one.id, `${one.name} (${one.type})`]);
  const value = (entry) => textField(`${entry.name}${entry.optional ? " (optional)" : ""}`, draft.values, entry.name, {
    hint: `${entry.type}. ${entry.description ?? ""}`,
    required: !entry.optional,
    at: at(`configuration.${entry.name}`),
  });
  return html`<section class="card">
    ${form(
      submit,
      html`${textField("Name", draft, "name", { required: true, at: at("name") })}
        ${selectField("Formula", draft, "formula", [["", "Choose one"], ...formulas.map((one) => [one.id, one.name])], { at: at("formula") })}
        ${formula && formula.configuration.length > 0 ? html`<fieldset><legend>Configuration</legend>${formula.configuration.map(value)}</fieldset>` : nothing}
        ${selectField("Acts as", draft, "application", [["", "nobody: the formula has no rights of its own"], ...applications], { at: at("application") })}
        ${problemBox(held.sent?.problem)} ${submitButton("Create", held.sent)}`,
      "New reactor",
    )}
  </section>`;
}

async function submit() {
  const { name, formula, application, values } = held.draft;
  const given = Object.entries(values).filter(([, value]) => value !== "");
  const body = { name, formula: { id: formula }, configuration: Object.fromEntries(given) };
  if (application) body.application = { id: application };
  const made = await load(held, "sent", () => ask("reactor:create", "POST", "/reactors", { body }));
  if (!made) return;
  tell("Reactor made");
  location.hash = `#/reactors/of/${made.id}`;
}
