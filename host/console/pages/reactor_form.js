// Making and changing a reactor: which formula, with which configuration, acting as whom.

import { ask, may, withQuery } from "../api.js";
import { checkbox, form, selectField, submitButton, textField } from "../fields.js";
import { html, nothing } from "../lit.js";
import { problemBox, prose } from "../parts.js";
import { holder, load, redraw, tell } from "../state.js";

const held = holder(() => ({ draft: undefined, done: undefined }));

/** Begins with a reactor as it is, or with a new one, perhaps of a formula; `done` gets what the server answers. */
export function begin(reactor, done, formula = "") {
  const draft = reactor
    ? {
        id: reactor.id,
        name: reactor.name,
        formula: reactor.formula.id,
        application: reactor.application?.id ?? "",
        values: plain(reactor),
        removed: [],
      }
    : { name: "", formula, application: "", values: {}, removed: [] };
  Object.assign(held, { draft, done, reactor, sent: undefined });
  redraw();
  if (!reactor && may("reactor:read")) {
    load(held, "formulas", async () => (await ask("reactor:read", "GET", withQuery("/reactor-formulas", { size: 100 }))).data);
  }
  if (!may("application:read")) return;
  load(held, "applications", async () => {
    const { data } = await ask("application:read", "GET", withQuery("/applications", { size: 100 }));
    return data.filter((application) => application.type !== "management");
  });
}

/** Declared numbers and truth values as their fields hold them. Only texts may be secrets. */
function plain({ configuration, formula }) {
  const isPlain = (value) => ["number", "boolean"].includes(typeof value) || JSON.isRawJSON?.(value);
  const able = formula.configuration.filter(({ name }) => isPlain(configuration[name]));
  return Object.fromEntries(able.map(({ name }) => [name, JSON.stringify(configuration[name])]));
}

export function reactorForm() {
  const { draft, reactor } = held;
  if (!draft) return nothing;
  const at = (path) => [held.sent?.problem, path];
  const formulas = reactor ? [reactor.formula] : (held.formulas?.value ?? []);
  const formula = formulas.find((one) => one.id === draft.formula);
  return html`<section class="card">
    ${form(
      submit,
      html`${textField("Name", draft, "name", { required: true, at: at("name") })}
        ${reactor ? nothing : selectField("Formula", draft, "formula", [["", "Choose one"], ...formulas.map((one) => [one.id, one.name])], { at: at("formula") })}
        ${formula && formula.configuration.length > 0
          ? html`<fieldset><legend>Configuration</legend>${formula.configuration.map((entry) => value(entry, at))}</fieldset>`
          : nothing}
        ${selectField("Acts as", draft, "application", [["", "nobody: the formula has no rights of its own"], ...applications()], { at: at("application") })}
        ${problemBox(held.sent?.problem)} ${submitButton(draft.id ? "Save" : "Create", held.sent)}`,
      "Reactor",
    )}
  </section>`;
}

/** Whom it may act as. Whom it acts as now stays a choice, also where nobody may list applications. */
function applications() {
  const own = held.reactor?.application;
  const listed = held.applications?.value ?? [];
  const all = own && !listed.some((one) => one.id === own.id) ? [own, ...listed] : listed;
  return all.map((one) => [one.id, one.type ? `${one.name} (${one.type})` : one.name]);
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
  return html`${entry.type === "boolean"
      ? selectField(label, draft.values, entry.name, [["", "not set"], "true", "false"], own)
      : textField(label, draft.values, entry.name, own)}
    ${isThere && entry.optional ? checkbox(`Remove ${entry.name}`, draft.removed.includes(entry.name), remove) : nothing}`;
}

async function submit() {
  const { draft, done, reactor } = held;
  const { name, formula, application, values, removed } = draft;
  const shown = reactor ? plain(reactor) : {};
  const isShown = (entry) => Object.hasOwn(shown, entry);
  // What nobody touched goes back as it came: a text that says the same may be read as something else.
  const kept = Object.entries(reactor?.configuration ?? {}).filter(([entry]) =>
    (isShown(entry) ? values[entry] === shown[entry] : !removed.includes(entry)));
  const given = Object.entries(values).filter(([entry, written]) => written !== "" && !(isShown(entry) && written === shown[entry]));
  const body = { name, configuration: Object.fromEntries([...kept, ...given]) };
  if (application) body.application = { id: application };
  const answer = await load(held, "sent", () => (draft.id
    ? ask("reactor:update", "PUT", `/reactors/${draft.id}`, { body })
    : ask("reactor:create", "POST", "/reactors", { body: { ...body, formula: { id: formula } } })));
  if (!answer) {
    if (held.sent?.problem) tell("The reactor is not saved");
    return;
  }
  held.draft = undefined;
  tell(draft.id ? "Reactor changed" : "Reactor made");
  done(answer);
}
