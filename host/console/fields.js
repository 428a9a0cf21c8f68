// Forms and their fields. What a server finds wrong with a member stands at the field that the member comes from.

import { jsonFrom, markedText, roundedIn } from "./format.js";
import { faultIn } from "./json_fault.js";
import { html, nothing } from "./lit.js";
import { joined } from "./parts.js";
import { redraw } from "./state.js";

let fields = 0;

/** Labels of one drawing are numbered from the start, so that they stay what they are. */
export function restartFields() {
  fields = 0;
}

/** What a problem says of a member and of what lies in it. */
export function faultsAt(problem, path) {
  const within = ([own]) => own === path || own.startsWith(`${path}.`) || own.startsWith(`${path}[`);
  return Object.entries(problem?.errors ?? {})
    .filter(within)
    .flatMap(([own, texts]) => texts.map((text) => (own === path ? text : `${placeIn(own.slice(path.length))}: ${text}`)));
}

/** Where in a member: people count entries of a list from one. */
function placeIn(rest) {
  return rest.replace(/^\./, "").replace(/^\[(\d+)\]/, (_, index) => `no. ${Number(index) + 1}`);
}

/** The same as text on the page, for members that have no field of one line. */
export function faultList(problem, path, id = nothing) {
  const faults = faultsAt(problem, path);
  return faults.length === 0 ? nothing : html`<p class="fault" id=${id}>${joined(faults)}</p>`;
}

/**
 * A label with its control. `control` is called with its id and the attributes that a reader needs: the ids of what
 * describes it and whether it is faulty. `at` is a problem and the member that the field stands for.
 */
export function field(label, control, hint, at = []) {
  const id = `field-${(fields += 1)}`;
  const [problem, path] = at;
  const faulty = path !== undefined && faultsAt(problem, path).length > 0;
  const described = [hint ? `${id}-hint` : "", faulty ? `${id}-fault` : ""].join(" ").trim();
  return html`<div class="field">
    <label for=${id}>${label}</label>
    ${control(id, described === "" ? nothing : described, faulty ? "true" : nothing)}
    ${faulty ? faultList(problem, path, `${id}-fault`) : nothing}
    ${hint ? html`<p class="hint" id=${`${id}-hint`}>${hint}</p>` : nothing}
  </div>`;
}

/** A field of one line, kept in `held[name]`. */
export function textField(label, held, name, options = {}) {
  const { hint, type = "text", required = false, placeholder = "", list, step, at } = options;
  const control = (id, described, faulty) => html`<input
    id=${id} type=${type} .value=${held[name] ?? ""} placeholder=${placeholder} ?required=${required} step=${step ?? nothing}
    aria-describedby=${described} aria-invalid=${faulty} list=${list ?? nothing}
    autocomplete="off" autocapitalize="off" spellcheck="false"
    @input=${(event) => keep(held, name, event.target)} />`;
  return field(label, control, hint, at);
}

/**
 * Keeps what a field holds, unless that is half of a time or a number: then it has no value, and to write that back into it would
 * take the other half away. What was there before stays until there is another, and the form is not sent meanwhile.
 */
function keep(held, name, input) {
  if (!input.validity.badInput) set(held, name, input.value);
}

/** A field of several lines. */
export function areaField(label, held, name, options = {}) {
  const { hint, rows = 5, placeholder = "", required = false, at } = options;
  const control = (id, described, faulty) => html`<textarea
    id=${id} rows=${rows} .value=${held[name] ?? ""} placeholder=${placeholder} ?required=${required}
    aria-describedby=${described} aria-invalid=${faulty} autocomplete="off" autocapitalize="off" spellcheck="false"
    @input=${(event) => set(held, name, event.target.value)}></textarea>`;
  return field(label, control, hint, at);
}

/** A choice. `options` are values, or pairs of value and text. */
export function selectField(label, held, name, options, settings = {}) {
  const pairs = options.map((option) => (Array.isArray(option) ? option : [option, option]));
  const changed = (event) => {
    set(held, name, event.target.value);
    settings.changed?.(event.target.value);
  };
  const control = (id, described, faulty) => html`<select
    id=${id} ?required=${settings.required} aria-describedby=${described} aria-invalid=${faulty} @change=${changed}>
    ${pairs.map(([value, text]) => html`<option value=${value} .selected=${(held[name] ?? "") === value}>${markedText(text)}</option>`)}
  </select>`;
  return field(label, control, settings.hint, settings.at);
}

/** A box to tick. */
export function checkbox(label, checked, change) {
  return html`<label class="check">
    <input type="checkbox" .checked=${checked} @change=${(event) => change(event.target.checked)} />
    <span>${label}</span>
  </label>`;
}

function set(held, name, value) {
  held[name] = value;
  redraw();
}

/** A form that does something of its own when it is sent. If a field turns out to be faulty, it gets the focus. */
export function form(submit, content, label) {
  const send = async (event) => {
    event.preventDefault();
    const sent = event.currentTarget;
    const button = sent.querySelector("[type=submit]");
    if (button.ariaDisabled) return;
    // What is held still while it is sent has no focus, and the button says how that goes.
    const from = document.activeElement?.closest(".held") ? document.activeElement : undefined;
    if (from) button.focus({ preventScroll: true });
    await submit();
    // After what was found is drawn.
    setTimeout(() => toFault(sent) || (document.activeElement === button && from?.focus({ preventScroll: true })));
  };
  return html`<form @submit=${send} @invalid=${UNFOLDING} aria-label=${label ?? nothing}>${content}</form>`;
}

/** The fields of a form that saves, held still while it is `sent`: what would be written then is not sent, and goes with the form. */
export function heldWhile(sent, content) {
  return html`<div class="held" ?inert=${sent?.loading === true}>${content}</div>`;
}

/** What the browser finds faulty before anything is sent: it tells of it only where it can be seen. */
const UNFOLDING = { handleEvent: (event) => unfold(event.target), capture: true };

function unfold(control) {
  const folded = control.closest("details");
  if (folded) folded.open = true;
}

function toFault(sent) {
  // Boxes have no way to be faulty together: what is said of them describes their group.
  const faulty = sent.querySelector("[aria-invalid], [aria-describedby^=fault-] input");
  if (!faulty) return false;
  unfold(faulty);
  faulty.focus();
  return true;
}

/**
 * The button that sends a form, which says when it is busy, and does nothing while the form is not `complete`. It stays what
 * the focus is on: `disabled` would take it away.
 */
export function submitButton(text, loaded, complete = true) {
  const busy = loaded?.loading === true;
  return html`<button type="submit" class="main" aria-disabled=${busy || !complete ? "true" : nothing}>${busy ? "Working…" : text}</button>`;
}

/** A problem of the console's own, before anything is sent, in the form of the server's. */
export function notSent(detail, errors = {}) {
  return Object.assign(new Error(), { problem: { title: "Not sent", detail, errors } });
}

/** A text as JSON. What cannot be read or would be sent as something else is noted in `errors`, by its member. */
export function jsonOf(text, path, errors) {
  try {
    const value = jsonFrom(text);
    const rounded = roundedIn(text);
    if (rounded.length > 0) errors[path] = [`has numbers that this browser would round: ${rounded.join(", ")}`];
    return value;
  } catch {
    errors[path] = [notJson(text)];
    return undefined;
  }
}

/** Where it stops being that. What stands there is not repeated: it may be sensitive. */
function notJson(text) {
  const fault = faultIn(text);
  if (!fault) return "is JSON that this browser cannot read";
  const place = `line ${fault.line}, column ${fault.column}`;
  return fault.isEnd ? `is not JSON: it ends too early, at ${place}` : `is not JSON: look at ${place}`;
}

/** Words of one line, such as containers, apart by spaces or commas; `undefined` if there are none. */
export function wordsOf(text) {
  return text.trim() === "" ? undefined : text.trim().split(/[\s,]+/);
}

/** Lines that are not empty. */
export function linesOf(text) {
  return text.split("\n").map((line) => line.trim()).filter((line) => line !== "");
}

/** Metadata of pairs of key and value. Keys that are missing or there twice are noted in `errors`: one of two would be lost. */
export function metadataOf(pairs, errors) {
  const keys = pairs.map(([key]) => key);
  if (keys.includes("")) errors.metadata = ["has a value without a key"];
  else if (new Set(keys).size < keys.length) errors.metadata = ["has a key twice"];
  return Object.fromEntries(pairs);
}

/** A mask as it is written: an expression as it stands, anything else as JSON. */
export function maskOf(text, errors) {
  const written = text.trim();
  const isJson = /^[[{"]/.test(written) && !written.startsWith("{{");
  return isJson ? jsonOf(written, "mask", errors) : written;
}
