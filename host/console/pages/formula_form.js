// Making and changing a formula: a script written here, or a component from a file.

import { ask, segment } from "../api.js";
import { areaField, field, form, heldWhile, jsonOf, notSent, selectField, submitButton, textField, wordsOf } from "../fields.js";
import { compact, marked, pretty } from "../format.js";
import { html, nothing } from "../lit.js";
import { same } from "../merge_patch.js";
import { said } from "../notices.js";
import { missing } from "../parts.js";
import { changesSince, notSaved, overwrite, refuseChanges, reread, save, stillSent, unsent } from "../saving.js";
import { holder, load, redraw } from "../state.js";

const EXAMPLE = `// Gets { args, configuration } and gives { raw } or { tokenize }.
module.exports = async function (request) {
  console.log("hello");
  return { raw: { got: Object.keys(request.args ?? {}) } };
};
`;

/** What is written of a formula, and what others may have changed. */
export const MEMBERS = [
  { title: "Name", of: ({ name }) => name, text: (name) => html`<pre class="value">${marked(name)}</pre>` },
  { title: "Description", of: ({ description }) => description || undefined },
  { title: "Icon", of: ({ icon }) => icon ?? undefined, text: (icon) => compact(icon, 60) },
  { title: "Program", of: ({ component_digest: digest }) => digest, text: (digest) => html`<code title=${digest}>${compact(digest, 22)}</code>` },
  { title: "Hosts it may reach", of: ({ allowed_hosts: hosts }) => hosts ?? [], text: (hosts) => (hosts.length === 0 ? "none" : html`<code>${hosts.join(" ")}</code>`) },
  { title: "Configuration of a reactor", of: ({ configuration }) => configuration },
  { title: "Arguments of a run", of: ({ request_parameters: parameters }) => parameters },
  { title: "Undeclared arguments", of: ({ undeclared_arguments: undeclared }) => undeclared, text: (undeclared) => (undeclared === "drop" ? "are dropped" : "are passed on") },
  { title: "Memory in MiB", of: ({ limits }) => limits?.memory_mb },
];

const fresh = () => ({ name: "", description: "", language: "javascript", code: EXAMPLE, file: undefined, hosts: "", parameters: "[]", configuration: "[]", undeclared: "forward", memory: "" });
/** `waits` says that what was written to is to be read anew before it is shown: a key has ended. */
const held = holder(() => ({ draft: fresh(), seen: undefined }), {
  keeps: ({ draft, seen, ends, sent }) => (unkeptForm() ? { draft, seen, ends, sent: stillSent(sent), waits: true } : {}),
});

/** Reads one anew. */
export function readFormula(id) {
  return ask("reactor:read", "GET", `/reactor-formulas/${segment(id)}`);
}

/** Opens the form of a formula as it is now, or of a new one. What was written to it before a key ended is there still. */
export function open(formula, ends) {
  if (!held.waits) return begin(formula, ends);
  held.waits = false;
  if (formula?.language === "javascript" && held.draft.codeBefore === undefined) readCode(held.draft);
}

/** Begins with a formula as it is, or with a new one. `ends` are what `save` does with the answer. */
function begin(formula, ends) {
  const draft = formula ? draftOf(formula) : fresh();
  Object.assign(held, { draft, seen: formula, ends, sent: undefined, read: undefined, waits: false });
  // A file that was chosen for what was written before is none of this.
  for (const input of document.querySelectorAll("main input[type=file]")) input.value = "";
  redraw();
  if (formula?.language === "javascript") readCode(draft);
}

/** Whether it is not as it was begun with. Code is read for itself. */
function isWritten({ draft, seen }) {
  if (!seen) return !same(draft, fresh());
  const { code, codeBefore } = draft;
  return !same(draft, { ...draftOf(seen), code, codeBefore }) || !["", codeBefore].includes(code);
}

/** What is written and would be lost. */
export function unkeptForm() {
  return unsent(held.sent, isWritten(held), leaveForm);
}

/** Leaves nothing of it behind. */
export function leaveForm() {
  Object.assign(held, { draft: fresh(), seen: undefined, waits: false });
}

/** Reads anew whether somebody has changed the formula. */
export async function refreshForm() {
  const { draft, seen, ends } = held;
  if (!seen) return;
  if (held.read?.problem) await readCode(draft);
  const after = await reread(held, async () => {
    const found = await readFormula(seen.id);
    if (changesSince(seen, found, undefined, MEMBERS).length === 0) return undefined;
    if (!isWritten({ draft, seen })) return found;
    refuseChanges(seen, found, yoursOf(draft, found), MEMBERS);
    return undefined;
  });
  if (after) begin(after, ends);
}

function draftOf(formula) {
  return {
    id: formula.id,
    icon: formula.icon,
    name: formula.name,
    description: formula.description ?? "",
    language: formula.language,
    code: "",
    codeBefore: undefined,
    file: undefined,
    hosts: formula.allowed_hosts.join(" "),
    parameters: pretty(formula.request_parameters),
    configuration: pretty(formula.configuration),
    undeclared: formula.undeclared_arguments,
    memory: String(formula.limits.memory_mb),
  };
}

async function readCode(draft) {
  const read = () => ask("reactor:read", "GET", `/reactor-formulas/${draft.id}/component`, { text: true });
  const code = await load(held, "read", read, () => readCode(draft));
  if (code !== undefined) Object.assign(draft, { code, codeBefore: code });
  redraw();
}

export function formulaForm() {
  const { draft } = held;
  const take = (formula) => begin(formula, held.ends);
  const over = (formula) => {
    held.seen = formula;
    return submit();
  };
  // What could not be read would be written as nothing.
  const isRead = !draft.id || draft.language !== "javascript" || draft.codeBefore !== undefined;
  return html`<section class="card">
    ${form(
      submit,
      html`${heldWhile(held.sent, fields(draft))}
        ${notSaved(held.sent, { take, over })} ${isRead ? nothing : missing(held.read, "The code")}
        ${submitButton(draft.id ? "Save" : "Create", held.sent, isRead)}`,
      "Formula",
    )}
  </section>`;
}

function fields(draft) {
  const at = (path) => [held.sent?.problem, path];
  return html`${textField("Name", draft, "name", { required: true, at: at("name") })} ${areaField("Description", draft, "description", { at: at("description"), rows: 2 })}
    ${draft.id ? nothing : languageField(draft)}
    ${draft.language === "javascript" ? areaField("Code", draft, "code", { at: at("code"), rows: 14, required: true }) : componentField(draft, at("component"))}
    ${textField("Hosts it may reach", draft, "hosts", { at: at("allowed_hosts"), hint: "Names apart by spaces; none when empty" })}
    <details>
      <summary>Declared values and limits</summary>
      ${areaField("Configuration of a reactor", draft, "configuration", { at: at("configuration"), rows: 4, hint: 'JSON, such as [{"name": "url", "type": "string"}]' })}
      ${areaField("Arguments of a run", draft, "parameters", { at: at("request_parameters"), rows: 4, hint: 'JSON, such as [{"name": "card", "type": "object"}]' })}
      ${selectField("Undeclared arguments", draft, "undeclared", [["forward", "are passed on"], ["drop", "are dropped"]], { at: at("undeclared_arguments") })}
      ${textField("Memory in MiB", draft, "memory", { at: at("limits"), type: "number", placeholder: "64" })}
    </details>`;
}

function languageField(draft) {
  const languages = [["javascript", "JavaScript"], ["wasm", "WebAssembly component"]];
  return selectField("Language", draft, "language", languages, { changed: () => chooseFile(draft, undefined) });
}

/** The draft holds what the field shows; it is read when it is sent. */
function chooseFile(draft, file) {
  draft.file = file;
  redraw();
}

function componentField(draft, at) {
  const chosen = (event) => chooseFile(draft, event.target.files[0]);
  // A file of the same name that is chosen again is no change to browsers, although it may have been made anew meanwhile.
  const file = (id, hint, faulty) => html`<input
    id=${id} type="file" accept=".wasm,application/wasm" ?required=${!draft.id} aria-describedby=${hint} aria-invalid=${faulty}
    @change=${chosen} @cancel=${chosen} />`;
  const asItIs = draft.id ? "; without one, what is there stays" : "";
  return field("Component", file, `Made by tokamak formula build; 32 MiB at most${asItIs}`, at);
}

/** The component as it is sent: of the file that the field shows when it has been read. */
async function componentOf(draft) {
  for (;;) {
    const { file, language } = draft;
    if (!file || language === "javascript") return undefined;
    const component = await base64(file).catch(() => undefined);
    if (draft.file !== file) continue;
    if (component !== undefined) return component;
    const fault = "cannot be read; it may have changed since it was chosen: choose it again";
    throw notSent("The file cannot be read.", { component: [fault] });
  }
}

async function base64(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  let text = "";
  for (let at = 0; at < bytes.length; at += 0x8000) text += String.fromCharCode(...bytes.subarray(at, at + 0x8000));
  return btoa(text);
}

/** What is sent, but for a component. */
function body(draft) {
  const errors = {};
  const made = {
    name: draft.name,
    description: draft.description || undefined,
    icon: draft.icon,
    code: draft.language === "javascript" && draft.code !== draft.codeBefore ? draft.code : undefined,
    allowed_hosts: wordsOf(draft.hosts),
    request_parameters: jsonOf(draft.parameters, "request_parameters", errors),
    configuration: jsonOf(draft.configuration, "configuration", errors),
    undeclared_arguments: draft.undeclared,
    limits: draft.memory === "" ? undefined : { memory_mb: Number(draft.memory) },
  };
  if (Object.keys(errors).length > 0) throw notSent("Some fields cannot be read.", errors);
  return made;
}

/** What is to be stored, as a formula: a program that is not sent stays what it is. */
function yoursOf(draft, after) {
  const made = body(draft);
  const isSent = made.code !== undefined || draft.file !== undefined;
  return { ...made, component_digest: isSent ? "what is written here" : after.component_digest };
}

async function submit() {
  const { draft, seen, ends } = held;
  const write = async () => {
    const component = await componentOf(draft);
    const sent = { body: { ...body(draft), component } };
    const asking = seen
      ? ask("reactor:update", "PUT", `/reactor-formulas/${seen.id}`, sent)
      : ask("reactor:create", "POST", "/reactor-formulas", sent);
    const answer = await asking.catch((refusal) => notRunnable(draft, refusal));
    if (held.draft === draft) held.draft = fresh();
    return answer;
  };
  const rewrite = () => overwrite({ seen, read: () => readFormula(seen.id), members: MEMBERS, yours: (after) => yoursOf(draft, after), write });
  await save(held, said`The formula “${draft.name}”`, seen ? rewrite : write, { ...ends, anew: (answer) => begin(seen && answer, ends) });
}

/** What is said of a program that cannot run names no member: it is of the field that the program comes from. */
function notRunnable({ language }, refusal) {
  const { problem } = refusal;
  if (problem?.status === 422 && Object.keys(problem.errors).length === 0) {
    problem.errors = { [language === "javascript" ? "code" : "component"]: [problem.detail] };
  }
  throw refusal;
}
