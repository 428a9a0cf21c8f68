// Making and changing a reactor: which formula, with which configuration, acting as whom.

import { ask, may, segment } from "../api.js";
import { choiceField, loadChoices } from "../choices.js";
import { areaField, checkbox, form, heldWhile, selectField, submitButton, textField } from "../fields.js";
import { counted, marked, pretty } from "../format.js";
import { html, nothing } from "../lit.js";
import { same } from "../merge_patch.js";
import { said } from "../notices.js";
import { missing, prose } from "../parts.js";
import { changesSince, notSaved, overwrite, refuseChanges, reread, save, stillSent, unsent } from "../saving.js";
import { holder, redraw } from "../state.js";

/** What is written of a reactor, and what others may have changed. */
export const MEMBERS = [
  { title: "Name", of: ({ name }) => name, text: (name) => html`<pre class="value">${marked(name)}</pre>` },
  { title: "Acts as", of: ({ application, application_id: id }) => id ?? application?.id, text: (id, { application }) => (application ? marked(application.name) : html`<code>${id}</code>`) },
  { title: "Configuration", of: ({ configuration }) => configuration, text: (configuration, _, before) => html`<pre class="value">${pretty(hidden(configuration, before))}</pre>` },
];

/** `waits` says that what was written to is to be read anew before it is shown: a key has ended. */
const held = holder(() => ({ draft: undefined, seen: undefined }), {
  keeps: ({ draft, begun, seen, reactor, ends, sent }) => (unkeptForm() ? { draft, begun, seen, reactor, ends, sent: stillSent(sent), waits: true } : {}),
});

/** Reads one anew. */
export function readReactor(id) {
  return ask("reactor:read", "GET", `/reactors/${segment(id)}`);
}

/** Values of a configuration may be secrets: names and the kinds of values are shown, and whether one is other than `before`. */
export function hidden(configuration, before = configuration) {
  const told = ([name, value]) => {
    const isOther = Object.hasOwn(before, name) && !same(before[name], value);
    return [name, typeof value === "string" ? `•••• (${counted(value.length, "character")}${isOther ? ", another value" : ""})` : value];
  };
  return Object.fromEntries(Object.entries(configuration).map(told));
}

/** Opens the form of a reactor as it is now, or of a new one. What was written to it before a key ended is there still. */
export function open(reactor, ends, formula) {
  if (!held.waits) return begin(reactor, ends, formula);
  held.waits = false;
  return readChoices();
}

/** Begins with a reactor as it is, or with a new one, perhaps of a formula. `ends` are what `save` does with the answer. */
function begin(reactor, ends, formula = "") {
  Object.assign(held, { draft: draftOf(reactor, formula), begun: draftOf(reactor, formula), seen: reactor, reactor, ends, sent: undefined, waits: false });
  // What was filtered by for another one would hide choices of this one.
  Object.assign(held, { formulas_typed: "", applications_typed: "" });
  redraw();
  readChoices();
}

function draftOf(reactor, formula) {
  return reactor
    ? {
        id: reactor.id,
        name: reactor.name,
        formula: reactor.formula.id,
        application: reactor.application_id ?? "",
        values: plain(reactor),
        removed: [],
      }
    : { name: "", formula, application: "", values: Object.create(null), removed: [] };
}

/** What is written and would be lost. */
export function unkeptForm() {
  const { draft, begun, reactor, sent } = held;
  const of = (written) => ({ ...bodyOf(written, reactor), formula: written.formula });
  return unsent(sent, draft !== undefined && !same(of(draft), of(begun)), leaveForm);
}

/** Leaves nothing of it behind. */
export function leaveForm() {
  Object.assign(held, { draft: undefined, waits: false });
}

function readChoices() {
  const formulas = !held.reactor && may("reactor:read") && loadChoices(held, "formulas", "reactor:read", "/reactor-formulas");
  const applications = may("application:read") && loadChoices(held, "applications", "application:read", "/applications");
  return Promise.all([formulas, applications]);
}

/** Reads anew what may be chosen, and whether somebody has changed the reactor. */
export async function refreshForm() {
  const { draft, seen, ends } = held;
  await readChoices();
  if (!seen) return;
  const after = await reread(held, async () => {
    const found = await readReactor(seen.id);
    if (changesSince(seen, found, undefined, MEMBERS).length === 0) return undefined;
    if (same(draft, draftOf(seen))) return found;
    refuseChanges(seen, found, named(bodyOf(draft, held.reactor)), MEMBERS);
    return undefined;
  });
  if (after) begin(after, ends);
}

/**
 * Declared numbers and truth values as their fields hold them. Only texts may be secrets. Without a prototype: an entry may be
 * called as what every object has.
 */
function plain({ configuration, formula }) {
  const isPlain = (value) => ["number", "boolean"].includes(typeof value) || JSON.isRawJSON?.(value);
  const able = formula.configuration.filter(({ name }) => isPlain(configuration[name]));
  const written = able.map(({ name }) => [name, JSON.stringify(configuration[name])]);
  return Object.assign(Object.create(null), Object.fromEntries(written));
}

export function reactorForm() {
  const { draft, reactor } = held;
  if (!draft) return nothing;
  const take = (found) => begin(found, held.ends);
  const over = (found) => {
    held.seen = found;
    return submit();
  };
  return html`<section class="card">
    ${form(
      submit,
      html`${heldWhile(held.sent, fields(draft, reactor))}
        ${notSaved(held.sent, { take, over })} ${submitButton(draft.id ? "Save" : "Create", held.sent, isComplete())}`,
      "Reactor",
    )}
  </section>`;
}

function fields(draft, reactor) {
  const at = (path) => [held.sent?.problem, path];
  const formula = formulaOf(draft, reactor);
  const dropped = Object.entries(reactor?.configuration ?? {}).filter((entry) => !declares(draft, reactor)(entry));
  return html`${textField("Name", draft, "name", { required: true, at: at("name") })}
    ${reactor ? nothing : chooseFormula(at("formula"))}
    ${formula && formula.configuration.length > 0
      ? html`<fieldset><legend>Configuration</legend>${formula.configuration.map((entry) => value(entry, at))}</fieldset>`
      : nothing}
    ${dropped.length > 0 ? html`<p>Its formula does not declare ${dropped.map(([entry]) => html`<code>${entry}</code> `)} any more: saving drops that.</p>` : nothing}
    ${chooseApplication(at("application"))}`;
}

/** Whether all that may be chosen is there. What a key may not read is no choice, which is said. */
function isComplete() {
  if (!held.reactor && !held.formulas?.value) return false;
  return !may("application:read") || held.applications?.value !== undefined;
}

function chooseFormula(at) {
  if (!may("reactor:read")) {
    return html`<p>No key in this tab holds <code>reactor:read</code>, and so no formula can be chosen. <a href="#/keys">Add a key</a> of an application that does.</p>`;
  }
  const field = choiceField("Formula", held.draft, "formula", { lists: held, from: "formulas" }, { none: "Choose one", at });
  return html`${field} ${missing(held.formulas, "Formulas")}`;
}

/** Whom it may act as. Whom it acts as now stays a choice, also where nobody may list applications. */
function chooseApplication(at) {
  const settings = {
    none: "nobody: no rights of its own",
    // One that has ended stays the choice, too: whoever saves is to choose again, and not to have that done unseen.
    own: held.reactor?.application ?? (held.reactor?.application_id && { id: held.reactor.application_id, name: "An application that has ended" }),
    text: (one) => (one.type ? `${one.name} (${one.type})` : one.name),
    fits: ({ type }) => type !== "management",
    hint: may("application:read") ? undefined : html`No key in this tab holds <code>application:read</code>: no other application is offered.`,
    at,
  };
  const field = choiceField("Acts as", held.draft, "application", { lists: held, from: "applications" }, settings);
  return html`${field} ${may("application:read") ? missing(held.applications, "Applications") : nothing}`;
}

/** Texts that are there may be secrets: they are not shown, and stay unless something is written. What is shown is as it is left. */
function value(entry, at) {
  const { draft, reactor } = held;
  const has = (values) => Object.hasOwn(values, entry.name);
  const isThere = reactor !== undefined && has(reactor.configuration) && !has(plain(reactor));
  const remove = (on) => {
    draft.removed = on ? [...draft.removed, entry.name] : draft.removed.filter((other) => other !== entry.name);
    redraw();
  };
  const label = `${entry.name}${entry.optional ? " (optional)" : ""}`;
  const own = {
    hint: html`${entry.type}. ${isThere ? "Empty: as it is. " : ""}${prose(entry.description ?? "")}`,
    required: !entry.optional && !isThere,
    at: at(`configuration.${entry.name}`),
  };
  return html`${valueField(entry, label, own)}
    ${isThere && entry.optional ? checkbox(`Remove ${entry.name}`, draft.removed.includes(entry.name), remove) : nothing}`;
}

function valueField({ name, type }, label, own) {
  const { values } = held.draft;
  if (type === "boolean") return selectField(label, values, name, [["", "not set"], "true", "false"], own);
  // A text may have lines, as a certificate has.
  return type === "string" ? areaField(label, values, name, { ...own, rows: 2 }) : textField(label, values, name, own);
}

/** The formula that it is of, or is to be of, as far as that is known. */
function formulaOf({ formula }, reactor) {
  return reactor?.formula ?? held.formulas?.value?.data.find((one) => one.id === formula);
}

/** Whether the formula has a field for an entry: what it does not declare, or does not any more, is not sent. */
function declares(draft, reactor) {
  const formula = formulaOf(draft, reactor);
  return ([entry]) => formula === undefined || formula.configuration.some(({ name }) => name === entry);
}

function bodyOf(draft, reactor) {
  const { name, application, values, removed } = draft;
  const shown = reactor ? plain(reactor) : {};
  const isShown = (entry) => Object.hasOwn(shown, entry);
  // What nobody touched goes back as it came: a text that says the same may be read as something else.
  const kept = Object.entries(reactor?.configuration ?? {}).filter(([entry]) =>
    (isShown(entry) ? values[entry] === shown[entry] : !removed.includes(entry)));
  const given = Object.entries(values).filter(([entry, written]) => written !== "" && !(isShown(entry) && written === shown[entry]));
  const body = { name, configuration: Object.fromEntries([...kept, ...given].filter(declares(draft, reactor))) };
  return { ...body, application: application ? { id: application } : null };
}

async function submit() {
  const { draft, seen, reactor, ends } = held;
  const body = bodyOf(draft, reactor);
  const write = async () => {
    const answer = await (seen
      ? ask("reactor:update", "PUT", `/reactors/${seen.id}`, { body })
      : ask("reactor:create", "POST", "/reactors", { body: { ...body, formula: { id: draft.formula } } }));
    if (held.draft === draft) held.draft = undefined;
    return answer;
  };
  const read = () => readReactor(seen.id);
  await save(held, said`The reactor “${draft.name}”`, () => (seen ? overwrite({ seen, read, members: MEMBERS, yours: () => named(body), write }) : write()), { ...ends, anew: (answer) => begin(seen && answer, ends) });
}

/** The same with the name of whom it acts as, as far as that is known. */
function named(body) {
  const { applications, reactor } = held;
  const all = [...(applications?.value?.data ?? []), reactor?.application].filter(Boolean);
  return { ...body, application: all.find((one) => one.id === body.application?.id) ?? body.application };
}
