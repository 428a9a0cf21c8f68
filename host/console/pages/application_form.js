// Making and changing an application, with the preview of what its key would see.

import { ask, segment, session } from "../api.js";
import { asContainer } from "../access.js";
import { checkbox, faultList, faultsAt, form, heldWhile, selectField, submitButton, textField } from "../fields.js";
import { fromTimeField, marked } from "../format.js";
import { make } from "../issued.js";
import { html, nothing } from "../lit.js";
import { same } from "../merge_patch.js";
import { said } from "../notices.js";
import { missing } from "../parts.js";
import { preview } from "../preview.js";
import { notSaved, overwrite, refuseChanges, reread, save, stillSent, unsent } from "../saving.js";
import { holder, load, now, redraw, tell } from "../state.js";

const TYPES = [["private", "private: a backend that keeps its key"], ["public", "public: a browser or device"], ["management", "management"]];
const TRANSFORMS = [["reveal", "plaintext (reveal)"], ["mask", "masked (mask)"], ["redact", "nothing (redact)"]];

/** What is written of an application, and what others may have changed. */
export const MEMBERS = [
  { title: "Name", of: ({ name }) => name, text: (name) => html`<pre class="value">${marked(name)}</pre>` },
  { title: "Permissions", of: ({ permissions }) => permissions, text: (names) => (names.length === 0 ? "none" : names.map((name) => html`<code class="permission">${name}</code> `)) },
  { title: "Rules", of: ({ rules }) => rules },
];

/** `waits` says that what was written to is to be read anew before it is shown: a key has ended. */
const held = holder(() => ({ draft: undefined, seen: undefined, preview: {} }), {
  keeps: ({ draft, seen, ends, sent }) => (unkeptForm() ? { draft, seen, ends, sent: stillSent(sent), waits: true } : {}),
});

/** Reads one anew. */
export function readApplication(id) {
  return ask("application:read", "GET", `/applications/${segment(id)}`);
}

/** Opens the form of an application as it is now, or of a new one. What was written to it before a key ended is there still. */
export function open(application, ends) {
  if (!held.waits) return begin(application, ends);
  held.waits = false;
  return readPermissions();
}

/** Begins with an application as it is, or with a new one. `ends` are what `save` does with the answer, and `made(answer, visit)`. */
function begin(application, ends) {
  Object.assign(held, { draft: draftOf(application), seen: application, ends, sent: undefined, preview: {}, waits: false });
  readPermissions();
}

function draftOf(application) {
  return structuredClone(application ?? { name: "", type: "private", permissions: [], rules: [] });
}

/** What is written and would be lost. */
export function unkeptForm() {
  const { draft, seen, sent } = held;
  const isWritten = draft !== undefined && !same(draft, draftOf(seen));
  return unsent(sent, isWritten, leaveForm);
}

/** Leaves nothing of it behind. */
export function leaveForm() {
  Object.assign(held, { draft: undefined, waits: false });
}

function readPermissions() {
  return load(held, "permissions", () => ask("", "GET", "/permissions", { key: session.keys[0] }));
}

/** Reads anew what may be chosen, and whether somebody has changed the application. */
export async function refreshForm() {
  const { draft, seen, ends } = held;
  await readPermissions();
  if (!seen) return;
  const after = await reread(held, async () => {
    const found = await readApplication(seen.id);
    if (same(draft, draftOf(seen))) return found;
    refuseChanges(seen, found, bodyOf(draft), MEMBERS);
    return undefined;
  });
  if (after) begin(after, ends);
}

/** What of the grants fits the type: the rest is kept, for who only passes over another type. */
function fitting({ type, permissions, rules }) {
  if (!held.permissions?.value) return { permissions, rules };
  const able = (names) => names.filter((name) => grantable(type).some((one) => one.type === name));
  const kept = type === "management" ? [] : rules;
  return { permissions: able(permissions), rules: kept.map((rule) => ({ ...rule, permissions: able(rule.permissions) })) };
}

function bodyOf(draft) {
  const { name } = draft;
  const { permissions, rules } = fitting(draft);
  // A container that was left empty is refused by the server; it does not mean everything.
  const written = (container) => (container?.trim() ? asContainer(container) : undefined);
  return { name, permissions, rules: rules.map((rule) => ({ ...rule, priority: Number(rule.priority), container: written(rule.container) })) };
}

async function submit() {
  const { draft, seen, ends } = held;
  const yours = bodyOf(draft);
  const visit = now();
  const write = async () => {
    const answer = seen
      ? await ask("application:update", "PUT", `/applications/${seen.id}`, { body: yours })
      : await make(draft.name, () => ask("application:create", "POST", "/applications", { body: { ...yours, type: draft.type, expires_at: fromTimeField(draft.ends) } }));
    ends.made?.(answer, visit);
    return answer;
  };
  const read = () => readApplication(seen.id);
  await save(held, said`The application “${draft.name}”`, () => (seen ? overwrite({ seen, read, members: MEMBERS, yours: () => yours, write }) : write()), { ...ends, anew: (answer) => begin(seen && answer, ends) });
}

export function applicationForm() {
  const draft = held.draft;
  if (!draft) return nothing;
  const take = (application) => begin(application, held.ends);
  const over = (application) => {
    held.seen = application;
    return submit();
  };
  return html`<section class="card">
      ${form(
        submit,
        html`${heldWhile(held.sent, fields(draft))}
          ${notSaved(held.sent, { take, over })} ${missing(held.permissions, "Permissions")}
          ${submitButton(draft.id ? "Save" : "Create", held.sent, held.permissions?.value !== undefined)}`,
        "Application",
      )}
    </section>
    <section class="card">
      <h2>What may this key see?</h2>
      ${preview({ ...draft, ...fitting(draft) }, held.preview)}
    </section>`;
}

function fields(draft) {
  const problem = held.sent?.problem;
  const at = (path) => [problem, path];
  return html`${textField("Name", draft, "name", { required: true, at: at("name") })}
    ${draft.id ? nothing : selectField("Type", draft, "type", TYPES, { changed: redraw, at: at("type") })}
    ${draft.id ? nothing : textField("Ends", draft, "ends", { type: "datetime-local", at: at("expires_at"), hint: "UTC. Empty: it does not end; this cannot be changed later" })}
    <fieldset aria-describedby=${faultId(problem, "permissions") ?? nothing}>
      <legend>Permissions on everything</legend>
      ${draft.type === "management" ? nothing : html`<p class="small">They show data masked. Rules come first.</p>`}
      ${grants(draft, draft)} ${permissionFaults(problem, "permissions")}
    </fieldset>
    ${draft.type === "management" ? nothing : rules(draft)}`;
}

/** What an application of this type may hold. */
function grantable(type) {
  return (held.permissions?.value ?? []).filter((one) => one.application_types.includes(type));
}

/** Boxes for it. */
function grants(draft, holds) {
  const possible = grantable(draft.type);
  const change = (name, on) => {
    holds.permissions = on ? [...holds.permissions, name] : holds.permissions.filter((other) => other !== name);
    redraw();
  };
  return html`<div class="checks">
    ${possible.map(({ type, description }) => checkbox(html`<code>${type}</code> <span class="small">${description}</span>`, holds.permissions.includes(type), (on) => change(type, on)))}
  </div>`;
}

/** The id of what is said of permissions, where something is. */
function faultId(problem, path) {
  return faultsAt(problem, path).length > 0 ? `fault-${path.replace(/\W+/g, "-")}` : undefined;
}

/** What is said of them. Their first box gets the focus, as any field that is faulty does. */
function permissionFaults(problem, path) {
  return faultList(problem, path, faultId(problem, path));
}

function rules(draft) {
  const add = () => {
    const priority = Math.max(0, ...draft.rules.map((rule) => Number(rule.priority))) + 1;
    draft.rules.push({ priority, description: "", container: "/pci/", transform: "mask", permissions: ["token:create"] });
    redraw();
  };
  return html`${draft.rules.map((rule, index) => oneRule(draft, rule, `rules[${index}]`))} ${draft.rules.length === 0 ? faultList(held.sent?.problem, "rules") : nothing}
    <div class="row"><button type="button" class="quiet" id="add-rule" @click=${add}>Add a rule</button></div>`;
}

function oneRule(draft, rule, path) {
  const problem = held.sent?.problem;
  const at = (member) => [problem, `${path}.${member}`];
  const remove = () => {
    const index = draft.rules.indexOf(rule);
    draft.rules = draft.rules.filter((other) => other !== rule);
    redraw();
    tell(`Rule ${rule.priority} is removed`);
    queueMicrotask(() => (document.querySelectorAll(".remove-rule")[index] ?? document.getElementById("add-rule"))?.focus());
  };
  return html`<fieldset class="rule">
    <legend>Rule ${rule.priority}</legend>
    <div class="columns">
      ${textField("Priority", rule, "priority", { type: "number", at: at("priority") })} ${textField("Container", rule, "container", { at: at("container") })}
      ${selectField("Sees data as", rule, "transform", TRANSFORMS, { at: at("transform") })}
    </div>
    ${textField("Description", rule, "description", { at: at("description") })}
    <div role="group" aria-label="Permissions" aria-describedby=${faultId(problem, `${path}.permissions`) ?? nothing}>
      ${grants(draft, rule)} ${permissionFaults(problem, `${path}.permissions`)}
    </div>
    <div class="row end"><button type="button" class="quiet remove-rule" @click=${remove}>Remove rule ${rule.priority}</button></div>
  </fieldset>`;
}
