// Formulas: the programs that reactors run.

import { ask, may, segment, withQuery } from "../api.js";
import { areaField, field, form, jsonOf, notSent, selectField, submitButton, textField, wordsOf } from "../fields.js";
import { html, nothing } from "../lit.js";
import { badge, confirm, copyable, empty, facts, lacking, pager, problemBox, shown, table, time } from "../parts.js";
import { holder, load, redraw, tell } from "../state.js";

export const title = "Formulas";

const EXAMPLE = `// Gets { args, configuration } and gives { raw } or { tokenize }.
module.exports = async function (request) {
  console.log("hello");
  return { raw: { got: Object.keys(request.args ?? {}) } };
};
`;

const fresh = () => ({ name: "", description: "", language: "javascript", code: EXAMPLE, component: undefined, hosts: "", parameters: "[]", configuration: "[]" });
const held = holder(() => ({ page: 1, view: "list", draft: fresh() }));

export function open([what, id]) {
  held.view = what === "new" ? "new" : id ? "of" : "list";
  Object.assign(held, { id, one: undefined, code: undefined });
  if (!may("reactor:read")) return;
  if (held.view === "list") list(held.page);
  if (id) load(held, "one", () => ask("reactor:read", "GET", `/reactor-formulas/${segment(id)}`));
}

function list(page) {
  held.page = page;
  load(held, "list", () => ask("reactor:read", "GET", withQuery("/reactor-formulas", { page })));
}

export function view() {
  if (held.view === "new") return html`${back()}<h1 tabindex="-1">New formula</h1>${may("reactor:create") ? make() : lacking("reactor:create")}`;
  if (!may("reactor:read")) return html`<h1 tabindex="-1">${title}</h1>${lacking("reactor:read")}`;
  if (held.view === "of") return html`${back()}${shown(held.one, one)}`;
  return html`<div class="row">
      <h1 tabindex="-1">${title}</h1>
      ${may("reactor:create") ? html`<a class="button end grow-none" href="#/formulas/new">New formula</a>` : nothing}
    </div>
    ${shown(held.list, ({ data, pagination }) => (data.length === 0 ? empty("No formulas.") : listed(data, pagination)))}`;
}

function back() {
  return html`<p class="back"><a href="#/formulas">Formulas</a></p>`;
}

function listed(data, pagination) {
  const row = (formula) => [
    html`<a href="#/formulas/of/${formula.id}">${formula.name}</a>`,
    badge(formula.type, formula.type === "official" ? "accent" : "plain"),
    formula.language,
    html`<span class="clamp">${formula.description ?? "–"}</span>`,
    formula.allowed_hosts.length > 0 ? html`<code>${formula.allowed_hosts.join(" ")}</code>` : "none",
  ];
  return html`${table("Formulas", ["Name", "Whose", "Language", "Description", "Hosts it may reach"], data.map(row))}
    ${pager(pagination, "formula", list)}`;
}

function one(formula) {
  const remove = () =>
    confirm("Delete this formula?", `${formula.name} must not be used by any reactor.`, "Delete", async () => {
      await ask("reactor:delete", "DELETE", `/reactor-formulas/${formula.id}`);
      tell("Formula deleted");
      location.hash = "#/formulas";
    });
  const showCode = () => load(held, "code", () => ask("reactor:read", "GET", `/reactor-formulas/${formula.id}/component`, { text: true }));
  return html`<div class="row"><h1 tabindex="-1">${formula.name}</h1>${badge(formula.type)} ${badge(formula.status, "good")}</div>
    <section class="card" aria-label="About">
      ${formula.description ? html`<p>${formula.description}</p>` : nothing}
      ${facts([
        ["Id", copyable(formula.id, "id")],
        ["Language", formula.language],
        ["Hosts it may reach", formula.allowed_hosts.length > 0 ? html`<code>${formula.allowed_hosts.join(" ")}</code>` : "none"],
        ["Memory", `${formula.limits.memory_mb} MiB`],
        ["Undeclared arguments", formula.undeclared_arguments === "drop" ? "are dropped" : "are passed on"],
        ["SHA-256", html`<code>${formula.component_digest}</code>`],
        formula.created_at && ["Made", time(formula.created_at)],
      ])}
      <div class="row">
        ${may("reactor:create") ? html`<a class="button" href="#/reactors/new/${formula.id}">New reactor of it</a>` : nothing}
        ${formula.language === "javascript" ? html`<button type="button" class="quiet" @click=${showCode}>Show the code</button>` : nothing}
        ${formula.type === "private" && may("reactor:delete") ? html`<button type="button" class="danger" @click=${remove}>Delete</button>` : nothing}
      </div>
      ${shown(held.code, (code) => html`<pre tabindex="0" aria-label="Code">${code}</pre>`)}
    </section>
    <section class="card"><h2>Configuration of a reactor</h2>${parameters(formula.configuration)}</section>
    <section class="card"><h2>Arguments of a run</h2>${parameters(formula.request_parameters)}</section>`;
}

function parameters(list) {
  if (list.length === 0) return html`<p class="muted">None is declared.</p>`;
  const row = (one) => [html`<code>${one.name}</code>`, one.type, one.optional ? "optional" : "required", one.description ?? "–"];
  return table("Declared values", ["Name", "Type", "Needed", "Description"], list.map(row));
}

function make() {
  const { draft } = held;
  const at = (path) => [held.sent?.problem, path];
  const chosen = async (event) => {
    draft.component = await base64(event.target.files[0]);
    redraw();
  };
  const file = (id, hint, faulty) => html`<input id=${id} type="file" accept=".wasm,application/wasm" required aria-describedby=${hint} aria-invalid=${faulty} @change=${chosen} />`;
  return html`<section class="card">
    ${form(
      submit,
      html`${textField("Name", draft, "name", { required: true, at: at("name") })} ${textField("Description", draft, "description", { at: at("description") })}
        ${selectField("Language", draft, "language", [["javascript", "JavaScript"], ["wasm", "WebAssembly component"]])}
        ${draft.language === "javascript"
          ? areaField("Code", draft, "code", { at: at("code"), rows: 14, required: true })
          : field("Component", file, "Made by tokamak formula build; 32 MiB at most", at("component"))}
        ${textField("Hosts it may reach", draft, "hosts", { at: at("allowed_hosts"), hint: "Names apart by spaces; none when empty" })}
        <details>
          <summary>Declared values</summary>
          ${areaField("Configuration of a reactor", draft, "configuration", { at: at("configuration"), rows: 4, hint: 'JSON, such as [{"name": "url", "type": "string"}]' })}
          ${areaField("Arguments of a run", draft, "parameters", { at: at("request_parameters"), rows: 4, hint: 'JSON, such as [{"name": "card", "type": "object"}]' })}
        </details>
        ${problemBox(held.sent?.problem)} ${submitButton("Create", held.sent)}`,
      "New formula",
    )}
  </section>`;
}

async function base64(file) {
  if (!file) return undefined;
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

async function submit() {
  const { name, description, language, code, component, hosts, parameters: declared, configuration } = held.draft;
  const made = await load(held, "sent", () => {
    const errors = {};
    const body = {
      name,
      description: description || undefined,
      [language === "javascript" ? "code" : "component"]: language === "javascript" ? code : component,
      allowed_hosts: wordsOf(hosts),
      request_parameters: jsonOf(declared, "request_parameters", errors),
      configuration: jsonOf(configuration, "configuration", errors),
    };
    if (Object.keys(errors).length > 0) throw notSent("Some fields cannot be read.", errors);
    return ask("reactor:create", "POST", "/reactor-formulas", { body });
  });
  if (!made) return;
  held.draft = fresh();
  tell("Formula made");
  location.hash = `#/formulas/of/${made.id}`;
}
