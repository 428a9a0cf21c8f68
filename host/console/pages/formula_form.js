// Making and changing a formula: a script written here, or a component from a file.

import { ask } from "../api.js";
import { areaField, field, form, jsonOf, notSent, selectField, submitButton, textField, wordsOf } from "../fields.js";
import { pretty } from "../format.js";
import { html, nothing } from "../lit.js";
import { problemBox } from "../parts.js";
import { holder, load, redraw, tell } from "../state.js";

const EXAMPLE = `// Gets { args, configuration } and gives { raw } or { tokenize }.
module.exports = async function (request) {
  console.log("hello");
  return { raw: { got: Object.keys(request.args ?? {}) } };
};
`;

const fresh = () => ({ name: "", description: "", language: "javascript", code: EXAMPLE, component: undefined, hosts: "", parameters: "[]", configuration: "[]", undeclared: "forward", memory: "" });
const held = holder(() => ({ draft: fresh(), done: undefined }));

/** Begins with a formula as it is, or with a new one; `done` gets what the server answers. */
export function begin(formula, done) {
  // What was written for a new one is kept until it is made.
  const draft = formula ? draftOf(formula) : held.draft.id ? fresh() : held.draft;
  Object.assign(held, { draft, done, sent: undefined, read: undefined });
  redraw();
  if (formula?.language === "javascript") readCode(draft);
}

function draftOf(formula) {
  return {
    id: formula.id,
    icon: formula.icon,
    name: formula.name,
    description: formula.description ?? "",
    language: formula.language,
    code: "",
    component: undefined,
    hosts: formula.allowed_hosts.join(" "),
    parameters: pretty(formula.request_parameters),
    configuration: pretty(formula.configuration),
    undeclared: formula.undeclared_arguments,
    memory: String(formula.limits.memory_mb),
  };
}

async function readCode(draft) {
  const code = await load(held, "read", () => ask("reactor:read", "GET", `/reactor-formulas/${draft.id}/component`, { text: true }));
  if (code !== undefined) Object.assign(draft, { code, codeBefore: code });
  redraw();
}

export function formulaForm() {
  const { draft } = held;
  const at = (path) => [held.sent?.problem, path];
  return html`<section class="card">
    ${form(
      submit,
      html`${textField("Name", draft, "name", { required: true, at: at("name") })} ${textField("Description", draft, "description", { at: at("description") })}
        ${draft.id ? nothing : selectField("Language", draft, "language", [["javascript", "JavaScript"], ["wasm", "WebAssembly component"]])}
        ${draft.language === "javascript" ? areaField("Code", draft, "code", { at: at("code"), rows: 14, required: true }) : componentField(draft, at("component"))}
        ${textField("Hosts it may reach", draft, "hosts", { at: at("allowed_hosts"), hint: "Names apart by spaces; none when empty" })}
        <details>
          <summary>Declared values and limits</summary>
          ${areaField("Configuration of a reactor", draft, "configuration", { at: at("configuration"), rows: 4, hint: 'JSON, such as [{"name": "url", "type": "string"}]' })}
          ${areaField("Arguments of a run", draft, "parameters", { at: at("request_parameters"), rows: 4, hint: 'JSON, such as [{"name": "card", "type": "object"}]' })}
          ${selectField("Undeclared arguments", draft, "undeclared", [["forward", "are passed on"], ["drop", "are dropped"]], { at: at("undeclared_arguments") })}
          ${textField("Memory in MiB", draft, "memory", { at: at("limits"), type: "number", placeholder: "64" })}
        </details>
        ${problemBox(held.read?.problem)} ${problemBox(held.sent?.problem)} ${submitButton(draft.id ? "Save" : "Create", held.sent)}`,
      "Formula",
    )}
  </section>`;
}

function componentField(draft, at) {
  const chosen = async (event) => {
    draft.component = await base64(event.target.files[0]);
    redraw();
  };
  const file = (id, hint, faulty) => html`<input id=${id} type="file" accept=".wasm,application/wasm" ?required=${!draft.id} aria-describedby=${hint} aria-invalid=${faulty} @change=${chosen} />`;
  const asItIs = draft.id ? "; without one, what is there stays" : "";
  return field("Component", file, `Made by tokamak formula build; 32 MiB at most${asItIs}`, at);
}

async function base64(file) {
  if (!file) return undefined;
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

function body(draft) {
  const errors = {};
  const made = {
    name: draft.name,
    description: draft.description || undefined,
    icon: draft.icon,
    code: draft.language === "javascript" && draft.code !== draft.codeBefore ? draft.code : undefined,
    component: draft.language === "javascript" ? undefined : draft.component,
    allowed_hosts: wordsOf(draft.hosts),
    request_parameters: jsonOf(draft.parameters, "request_parameters", errors),
    configuration: jsonOf(draft.configuration, "configuration", errors),
    undeclared_arguments: draft.undeclared,
    limits: draft.memory === "" ? undefined : { memory_mb: Number(draft.memory) },
  };
  if (Object.keys(errors).length > 0) throw notSent("Some fields cannot be read.", errors);
  return made;
}

async function submit() {
  const { draft, done } = held;
  const answer = await load(held, "sent", () => (draft.id
    ? ask("reactor:update", "PUT", `/reactor-formulas/${draft.id}`, { body: body(draft) })
    : ask("reactor:create", "POST", "/reactor-formulas", { body: body(draft) })));
  if (!answer) {
    if (held.sent?.problem) tell("The formula is not saved");
    return;
  }
  held.draft = fresh();
  tell(draft.id ? "Formula changed" : "Formula made");
  done(answer);
}
