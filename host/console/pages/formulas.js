// Formulas: the programs that reactors run.

import { ask, may, withQuery } from "../api.js";
import { marked, measured, sharedNames } from "../format.js";
import { html, nothing } from "../lit.js";
import { act, badge, confirm, copyable, empty, facts, lacking, named, pager, prose, shown, table } from "../parts.js";
import { unlessChanged } from "../saving.js";
import { holder, load, loadPage, now, tell, viewOf } from "../state.js";
import { MEMBERS, formulaForm, leaveForm, open as openForm, readFormula, refreshForm, unkeptForm } from "./formula_form.js";

export const title = "Formulas";

/** Which view it is was read from the address, and with no key. */
const held = holder(() => ({ page: 1, view: "list" }), { keeps: ({ view, id }) => (["new", "edit"].includes(view) ? { view, id } : {}) });

const address = ({ id }) => `#/formulas/of/${id}`;

const ends = {
  leads: address,
  done: (formula) => {
    tell("Formula saved", { leads: true });
    location.hash = address(formula);
  },
};

/** The rest of the address is nothing, `new`, or `of` or `edit` and an id. */
export function open([what, id]) {
  held.view = viewOf(what, id);
  Object.assign(held, { id, one: undefined, code: undefined });
  if (held.view === "new") openForm(undefined, ends);
  if (may("reactor:read")) return read();
}

function read() {
  if (held.view === "list") return list(held.page);
  return held.id ? find(held.id) : undefined;
}

/** What is written in a form stays. */
export async function refresh() {
  const isForm = held.view === "new" || (held.view === "edit" && held.one?.value);
  if (isForm) return refreshForm();
  if (!may("reactor:read")) return;
  await read();
  if (held.code?.value !== undefined) await showCode(held.id);
}

/** What is written of a formula. */
export function unkept() {
  return held.view === "new" || held.view === "edit" ? unkeptForm() : undefined;
}

/** What was written is not left behind. */
export function close() {
  leaveForm();
}

async function find(id) {
  const formula = await load(held, "one", () => readFormula(id), () => find(id));
  if (formula && held.view === "edit" && formula.type !== "official") openForm(formula, ends);
}

function list(page) {
  return loadPage(held, page, (number) => ask("reactor:read", "GET", withQuery("/reactor-formulas", { page: number })));
}

function showCode(id) {
  return load(held, "code", () => ask("reactor:read", "GET", `/reactor-formulas/${id}/component`, { text: true }));
}

export function view() {
  if (held.view === "new") return html`${back()}<h1 tabindex="-1">New formula</h1>${may("reactor:create") ? formulaForm() : lacking("reactor:create")}`;
  if (!may("reactor:read")) return html`<h1 tabindex="-1">${title}</h1>${lacking("reactor:read")}`;
  if (held.view === "edit") return html`${back()}<h1 tabindex="-1">Change formula</h1>${may("reactor:update") ? shown(held.one, changing) : lacking("reactor:update")}`;
  if (held.view === "of") {
    // What cannot be read has a heading, too.
    return html`${back()}${held.one?.problem ? html`<h1 tabindex="-1">Formula</h1>` : nothing}${shown(held.one, one)}`;
  }
  return html`<div class="row">
      <h1 tabindex="-1">${title}</h1>
      ${may("reactor:create") ? html`<a class="button end grow-none" href="#/formulas/new">New formula</a>` : nothing}
    </div>
    ${shown(held.list, ({ data, pagination }) => (data.length === 0 ? none() : listed(data, pagination)))}`;
}

function changing({ type }) {
  return type === "official" ? html`<p>An official formula comes with the server, and is not changed.</p>` : formulaForm();
}

function none() {
  return empty(
    "No formulas.",
    may("reactor:create")
      ? html`<p><a href="#/formulas/new">Make one</a> of a script or a component, and then a reactor of it.</p>`
      : html`<p><a href="#/keys">Add a key</a> that holds <code>reactor:create</code> to make one.</p>`,
  );
}

function back() {
  return html`<p class="back"><a href="#/formulas">Formulas</a></p>`;
}

function listed(data, pagination) {
  const shared = sharedNames(data);
  const row = (formula) => [
    html`<a class="name" href="#/formulas/of/${formula.id}">${named(formula, shared)}</a>`,
    whose(formula),
    formula.language,
    formula.description ? html`<span class="clamp">${prose(formula.description)}</span>` : "–",
    formula.allowed_hosts.length > 0 ? html`<code>${formula.allowed_hosts.join(" ")}</code>` : "none",
  ];
  return html`${table("Formulas", ["Name", "Whose", "Language", "Description", "Hosts it may reach"], data.map(row))}
    ${pager(pagination, "formula", list)}`;
}

function whose({ type }) {
  return type === "private" ? badge("own") : badge(type, "accent");
}

function one(formula) {
  const erase = async () => {
    const visit = now();
    await ask("reactor:delete", "DELETE", `/reactor-formulas/${formula.id}`);
    tell("Formula deleted", { leads: visit.isHere() });
    if (visit.isHere()) location.hash = "#/formulas";
  };
  const unchanged = (isAsked) => unlessChanged({ seen: formula, read: () => readFormula(formula.id), members: MEMBERS, erase }, isAsked);
  const remove = () => confirm("Delete this formula?", html`“<bdi>${marked(formula.name)}</bdi>” must not be used by any reactor.`, "Delete", unchanged);
  return html`<div class="row"><h1 tabindex="-1">${marked(formula.name)}</h1>${whose(formula)} ${badge(formula.status, "good")}</div>
    <section class="card" aria-label="About">
      ${formula.description ? html`<p>${prose(formula.description)}</p>` : nothing}
      ${facts([
        ["Id", copyable(formula.id, "id")],
        ["Language", formula.language],
        ["Hosts it may reach", formula.allowed_hosts.length > 0 ? html`<code>${formula.allowed_hosts.join(" ")}</code>` : "none"],
        ["Memory", measured(formula.limits.memory_mb, "MiB")],
        ["Undeclared arguments", formula.undeclared_arguments === "drop" ? "are dropped" : "are passed on"],
        ["SHA-256", html`<code>${formula.component_digest}</code>`],
        // Those that ship were made with the program.
        formula.type === "private" && ["Made", act(formula.created_at, formula.created_by)],
        formula.type === "private" && formula.modified_at && ["Changed", act(formula.modified_at, formula.modified_by)],
      ])}
      <div class="row">
        ${may("reactor:create") ? html`<a class="button" href="#/reactors/new/${formula.id}">New reactor of it</a>` : nothing}
        ${formula.language === "javascript" ? html`<button type="button" class="quiet" @click=${() => showCode(formula.id)}>Show the code</button>` : nothing}
        ${formula.type === "private" && may("reactor:update") ? html`<a class="button" href="#/formulas/edit/${formula.id}">Change</a>` : nothing}
        ${formula.type === "private" && may("reactor:delete") ? html`<button type="button" class="danger" @click=${remove}>Delete</button>` : nothing}
      </div>
      ${shown(held.code, (code) => html`<pre tabindex="0" role="region" aria-label="Code">${code}</pre>`)}
    </section>
    <section class="card"><h2>Configuration of a reactor</h2>${parameters("Declared configuration", formula.configuration)}</section>
    <section class="card"><h2>Arguments of a run</h2>${parameters("Declared arguments", formula.request_parameters)}</section>`;
}

function parameters(caption, list) {
  if (list.length === 0) return html`<p class="muted">None is declared. What a formula is to get is declared where it is changed.</p>`;
  const row = ({ name, type, optional, description }) => [
    html`<code>${marked(name)}</code>`,
    type,
    optional ? "optional" : "required",
    description ? html`<div>${prose(description)}</div>` : "–",
  ];
  return table(caption, ["Name", "Type", "Needed", "Description"], list.map(row));
}
