// Changing a token: what is different goes out as a JSON Merge Patch, and what has changed is told.

import { ask, keyAt, keysAt, segment, session, withAnyKey, withAnyOf } from "../api.js";
import { areaField, faultList, form, heldWhile, jsonOf, linesOf, maskOf, metadataOf, notSent, selectField, submitButton, textField, wordsOf } from "../fields.js";
import { count, forTimeField, fromTimeField, marked, pretty } from "../format.js";
import { html, nothing } from "../lit.js";
import { hasNullMember, isObject, patchBetween, patched, pathsOf, placesOf, same, valueAt, withAt } from "../merge_patch.js";
import { lacking, orEmpty, problemBox, shown, table, time } from "../parts.js";
import { readRights } from "../rights.js";
import { notSaved, overwrite, save, stillSent, unsent } from "../saving.js";
import { holder, load, redraw, tell } from "../state.js";
import { announce, conceal, findAs, findToken } from "./token.js";

/** Types of which the data is an object. */
const OBJECTS = ["card", "bank"];
const MEMBERS = [
  ["metadata", "Metadata"],
  ["containers", "Containers"],
  ["expires_at", "Ends"],
  ["mask", "Mask"],
  ["search_indexes", "Search indexes"],
  ["fingerprint_expression", "Fingerprint of"],
  ["fingerprint", "Fingerprint"],
  ["deduplicate_token", "Gives way to its like"],
];

/** Members that are named of those that a change writes: data may have any number. */
const NAMED_MAX = 20;

/** `waiting` is what was written to a token that is to be read anew before it is shown: a key has ended. */
const held = holder(() => ({}), {
  keeps: ({ id, one, waiting, sent }) => (unkeptEdit() ? { id, waiting: one?.value ?? waiting, sent: stillSent(sent) } : { id }),
});

/** Opens the form of a token as it is now. What was written to it before a key ended is there still. */
export function openEdit(id) {
  if (!held.waiting || held.id !== id) return beginEdit(id);
  return load(held, "one", () => found(id));
}

/** Begins with a token as it is; without an id, forgets what was written. */
export function beginEdit(id) {
  Object.assign(held, { id, one: undefined, waiting: undefined, sent: undefined, again: undefined });
  if (id === undefined) return undefined;
  // What is written stays with the token that it is of, and is dropped with it.
  return load(held, "one", () => found(id));
}

/** What is written and would be lost. */
export function unkeptEdit() {
  const { one, waiting, sent } = held;
  // Of a token that could not be saved as it is, nothing is written either.
  const changes = (token, draft) => {
    const errors = {};
    return { patch: patchOf(token, draft, errors), errors };
  };
  const { token, draft } = one?.value ?? waiting ?? {};
  const isWritten = token && !same(changes(token, draft), changes(token, draftOf(token)));
  return unsent(sent, isWritten, () => beginEdit(undefined));
}

async function found(id) {
  const token = await findToken(id);
  const { waiting } = held;
  if (!waiting || waiting.token.id !== id) return { token, draft: draftOf(token) };
  held.waiting = undefined;
  // Of its data is shown what this key sees.
  const { data, concealed } = token;
  const isOld = waiting.isOld || waiting.token.modified_at !== token.modified_at;
  return { token: { ...waiting.token, data, concealed }, draft: waiting.draft, isOld };
}

/** Reads the token anew. What is written stays with the token that it was written to: what differs from that one is sent. */
export async function refreshEdit() {
  const { id, one } = held;
  if (!one?.value) return load(held, "one", () => found(id));
  const { token, draft } = one.value;
  const read = await load(held, "again", () => found(id), refreshEdit);
  if (!read || held.one !== one) return;
  if (same(draft, draftOf(token))) one.value = read;
  else one.value.isOld = token.modified_at !== read.token.modified_at;
  redraw();
}

function draftOf(token) {
  const text = (value) => (value === undefined || value === null ? "" : typeof value === "string" ? value : pretty(value));
  return {
    metadata: Object.entries(token.metadata ?? {}).map(([key, value]) => ({ key, value, hasLines: /[\r\n]/.test(value) })),
    containers: (token.containers ?? []).join(" "),
    ends: token.expires_at ? forTimeField(token.expires_at) : "",
    mask: text(token.mask),
    data: "",
    written: writtenAs(token),
    indexes: (token.search_indexes ?? []).join("\n"),
    fingerprint: token.fingerprint_expression ?? "",
    deduplicate: String(token.deduplicate_token ?? ""),
  };
}

/**
 * How a change of the data is written: as `text` or as `json`, or nothing that could be known. Where data is hidden, or a mask
 * made a text of it, it may be an object still, of which a text would leave nothing.
 */
function writtenAs({ type, data }) {
  if (type !== "token") return OBJECTS.includes(type) ? "json" : "text";
  return isObject(data) || Array.isArray(data) ? "json" : "";
}

/** What leads from the token to what is written. Members that cannot be read are noted in `errors`. */
function patchOf(token, draft, errors) {
  const begun = draftOf(token);
  // What was not touched stays as it is: a field may be read as something else than what it was filled from.
  const touched = (name, member) => (same(draft[name], begun[name]) ? undefined : member());
  const patch = {
    metadata: touched("metadata", () => patchBetween(token.metadata ?? {}, writtenMetadata(draft, errors))),
    containers: touched("containers", () => patchBetween(token.containers, wordsOf(draft.containers) ?? [])),
    expires_at: touched("ends", () => fromTimeField(draft.ends) ?? null),
    mask: touched("mask", () => patchBetween(token.mask ?? undefined, writtenMask(draft, errors))),
    search_indexes: touched("indexes", () => patchBetween(token.search_indexes ?? [], linesOf(draft.indexes))),
    fingerprint_expression: touched("fingerprint", () => patchBetween(token.fingerprint_expression, draft.fingerprint.trim() || undefined)),
    deduplicate_token: touched("deduplicate", () => patchBetween(token.deduplicate_token, { true: true, false: false }[draft.deduplicate])),
  };
  if (draft.data !== "") patch.data = writtenData(draft, errors);
  return Object.fromEntries(Object.entries(patch).filter(([, value]) => value !== undefined));
}

function writtenData({ data, written }, errors) {
  if (written === "json") return jsonOf(data, "data", errors);
  if (written === "text") return data;
  errors.data = ["is text or JSON: say which"];
  return undefined;
}

function writtenMask({ mask }, errors) {
  const written = mask.trim() === "" ? undefined : maskOf(mask, errors);
  if (hasNullMember(written)) errors.mask = ["has a member that is null, which a change cannot write"];
  return written;
}

function writtenMetadata({ metadata }, errors) {
  const pairs = metadata.filter(({ key, value }) => key !== "" || value !== "");
  return metadataOf(pairs.map(({ key, value }) => [key, value]), errors);
}

/** The keys to change it with: best those that may write to where the token goes, too. */
function updatingKeys(token, patch) {
  const able = keysAt("token:update", token.containers ?? ["/"]);
  const reaches = (key) => (patch.containers ?? []).every((place) => key.mayAt("token:update", [place]));
  return [...able.filter(reaches), ...able.filter((key) => !reaches(key))];
}

async function changed(key, id, patch) {
  const own = { key, bytes: JSON.stringify(patch), type: "application/merge-patch+json" };
  const token = await ask("token:update", "PATCH", `/tokens/${segment(id)}`, own);
  await readRights();
  return { token: concealed(key, "token:update", token), wroteData: "data" in patch };
}

/** By the rules of now, once they are read: what they were may not say whether what came back is plaintext. */
function concealed(key, permission, token) {
  if (key.unread === undefined && session.keys.includes(key)) return conceal(key, permission, token);
  delete token.data;
  return { ...token, concealed: true };
}

/** The members that a patch writes, as they are shown where others have changed them. What others made of data is not seen. */
function membersOf(patch) {
  const member = (place) => {
    const [name, ...rest] = place;
    const title = MEMBERS.find(([own]) => own === name)[1];
    const of = (token) => valueAt(token, reached(token, place)) ?? undefined;
    const own = { place, title: rest.length > 0 ? html`${title} <code>${rest.join(".")}</code>` : title, of };
    if (name !== "expires_at") return own;
    // One time may be written in several ways.
    return { ...own, of: ({ expires_at: at }) => (at ? new Date(at).toISOString() : undefined), text: (at) => time(at) };
  };
  return placesOf(patch).filter(([name]) => name !== "data").map(member);
}

/** How far a place is there: a mask of members may be an expression by now, in place of them all. */
function reached(token, place) {
  // Where there is no metadata, there is none of this key.
  if (place[0] === "metadata") return place;
  const length = 1 + place.findIndex((_, index) => !isObject(valueAt(token, place.slice(0, index + 1))));
  return length === 0 ? place : place.slice(0, length);
}

async function submit() {
  const { token: seen, draft } = held.one.value;
  // What the change is told by, and who read it: others may have changed what it does not write.
  let before;
  let reader;
  const work = async () => {
    const errors = {};
    const patch = patchOf(seen, draft, errors);
    if (Object.keys(errors).length > 0) throw notSent("Some fields cannot be read.", errors);
    if (Object.keys(patch).length === 0) throw notSent("Nothing is different from what the token is.");
    const write = () => withAnyOf(updatingKeys(before, patch), (key) => changed(key, seen.id, patch));
    const find = async (key) => {
      before = await findAs(key, seen.id);
      reader = key;
      return before;
    };
    const read = () => withAnyKey("token:read", find);
    return overwrite({ seen, read, members: membersOf(patch), yours: (after) => patched(after, patch), write });
  };
  const leads = ({ token }) => `#/tokens/of/${segment(token.id)}`;
  const done = (after) => {
    announce(after.token.id, news(concealed(reader, "token:read", before), after));
    tell("Token changed", { leads: true });
    location.hash = leads(after);
  };
  await save(held, `The token ${seen.id}`, work, { done, leads, anew: () => beginEdit(seen.id) });
}

/** What is different now, in a table. */
function news(before, { token, wroteData }) {
  if (token.id !== before.id) {
    return html`<div class="good-news" role="status"><p>With this change <code>${marked(before.id)}</code> had the contents of this token,
      and gave way to it: it is gone, and this one is as it was.</p></div>`;
  }
  // A repeated answer to whoever may not read it is an outline.
  if (token.created_at === undefined) return html`<div class="good-news" role="status"><p>The token is changed.</p></div>`;
  const text = (value) => (value === undefined || value === null ? "–" : codeOf(value));
  const written = (name, value) => (name === "expires_at" ? time(value) : text(value));
  const differs = MEMBERS.filter(([name]) => !same(before[name], token[name]));
  const rows = differs.map(([name, title]) => [title, written(name, before[name]), written(name, token[name])]);
  if (wroteData) rows.unshift(["Data", dataText(before), dataText(token)]);
  return html`<div class="good-news" role="status"><p>The token is changed.</p></div>
    <section class="card"><h2>What has changed</h2>${table("What has changed", ["Member", "Before", "Now"], rows)}</section>`;
}

function dataText(token) {
  if (token.concealed) return "••••••";
  return token.data === undefined ? "not shown" : codeOf(token.data);
}

function codeOf(value) {
  return html`<code>${typeof value === "string" ? orEmpty(value) : pretty(value)}</code>`;
}

export function editToken() {
  return html`<p class="back"><a href="#/tokens/of/${segment(held.id ?? "")}">Back to the token</a></p>
    <h1 tabindex="-1">Change token <code>${marked(held.id)}</code></h1>
    ${shown(held.one, fields)} ${held.waiting && held.one?.problem ? kept() : nothing}`;
}

/** Said where a key that read the token has ended, and no other one reads it. */
function kept() {
  return html`<p><strong>What you wrote is kept in this tab</strong>, and is there again once a key reads this token.
    <a href="#/keys">Add a key</a> that does.</p>`;
}

function fields({ token, draft, isOld }) {
  if (!keyAt("token:update", token.containers ?? ["/"])) return lacking("token:update");
  const take = () => beginEdit(token.id);
  // What is written stays, and is what differs from what is there now in its place.
  const over = (after, found) => {
    const ends = found.map(({ place }) => reached(after, place));
    const seen = ends.reduce((made, place) => withAt(made, place, valueAt(after, place)), token);
    Object.assign(held.one.value, { token: seen, isOld: false });
    return submit();
  };
  return html`${problemBox(held.again?.problem, nothing, held.again?.again)} ${isOld ? others(token) : nothing}
  <section class="card">
    ${form(
      submit,
      html`${heldWhile(held.sent, members(token, draft))}
        ${willChange(token, draft)} ${notSaved(held.sent, { take, over })} ${submitButton("Save", held.sent)}`,
      "Token",
    )}
  </section>`;
}

function members(token, draft) {
  const problem = held.sent?.problem;
  const at = (path) => [problem, path];
  return html`${metadataFields(draft, problem)}
    ${textField("Containers", draft, "containers", { at: at("containers"), hint: "Apart by spaces; where it goes needs a rule, too" })}
    ${textField("Ends", draft, "ends", { at: at("expires_at"), type: "datetime-local", step: "1", hint: "UTC. Empty: it does not end" })}
    ${areaField("Mask", draft, "mask", { at: at("mask"), rows: 5, hint: "An expression, or JSON with expressions; without one, masked data is not shown at all" })}
    ${dataField(token, draft, at("data"))}
    <details>
      <summary>More</summary>
      ${areaField("Search indexes", draft, "indexes", { at: at("search_indexes"), rows: 2, hint: "An expression each line, such as {{ data.number | last4 }}" })}
      ${textField("Fingerprint of", draft, "fingerprint", { at: at("fingerprint_expression"), hint: "An expression; that of the type when empty" })}
      ${selectField("Gives way to one of the same contents", draft, "deduplicate", [["", "as the tenant has it"], ["true", "yes"], ["false", "no"]], { at: at("deduplicate_token") })}
    </details>`;
}

function others(token) {
  const isSent = held.sent?.loading === true;
  const take = () => {
    if (isSent) return;
    beginEdit(token.id);
    document.querySelector("h1")?.focus();
  };
  return html`<div class="notice" role="status">
    <p><strong>Somebody changed this token since you opened it.</strong> Saving changes what is named below and nothing else.</p>
    <p><button type="button" aria-disabled=${isSent ? "true" : nothing} @click=${take}>Drop mine and take theirs</button></p>
  </div>`;
}

function metadataFields(draft, problem) {
  const change = (pairs) => {
    draft.metadata = pairs;
    redraw();
  };
  const named = (pair, index) => pair.key || `pair ${index + 1}`;
  const add = () => change([...draft.metadata, { key: "", value: "" }]);
  const remove = (pair, index) => {
    change(draft.metadata.filter((other) => other !== pair));
    queueMicrotask(() => (document.querySelectorAll(".remove-pair")[index] ?? document.getElementById("add-pair"))?.focus());
  };
  const valueOf = (pair, index) => {
    const at = pair.key === "" ? [] : [problem, `metadata.${pair.key}`];
    // A field of one line would make one line of it.
    const field = pair.hasLines ? areaField : textField;
    return field(`Value ${index + 1}`, pair, "value", { at, rows: 3 });
  };
  const row = (pair, index) => html`<div class="columns with-button">
    ${textField(`Key ${index + 1}`, pair, "key")} ${valueOf(pair, index)}
    <button type="button" class="quiet remove-pair" aria-label=${`Remove ${named(pair, index)}`} @click=${() => remove(pair, index)}>
      Remove
    </button>
  </div>`;
  return html`<fieldset>
    <legend>Metadata, nothing sensitive</legend>
    ${draft.metadata.map(row)} ${faultList(problem, "metadata")}
    <div class="row"><button type="button" class="quiet" id="add-pair" @click=${add}>Add a pair</button></div>
  </fieldset>`;
}

function dataField(token, draft, at) {
  const hints = {
    json: 'Empty: as it is. JSON that is merged into the data: {"name": "value"} writes a member, {"name": null} removes it',
    text: "Empty: as it is. The new value, as text",
    "": "Empty: as it is. The data is not shown here: whether it is text or JSON is to be said below",
  };
  const ways = [["", "Choose"], ["text", "Text, in place of all the data"], ["json", "JSON, merged into the data"]];
  return html`${areaField("Change of the data", draft, "data", { at, rows: 4, hint: hints[draft.written] })}
    ${token.type === "token" ? selectField("The change is", draft, "written", ways, { required: draft.data !== "" }) : nothing}`;
}

function willChange(token, draft) {
  const patch = patchOf(token, draft, {});
  const paths = pathsOf(patch);
  const named = paths.slice(0, NAMED_MAX).map((path, index) => html`${index > 0 ? ", " : ""}<code>${path}</code>`);
  if (paths.length > NAMED_MAX) named.push(` and ${count(paths.length - NAMED_MAX)} more`);
  return html`<p class="small">${paths.length === 0 ? "Nothing is changed yet." : html`Saving changes ${named}.`}
    ${"data" in patch ? leavesOfData(token, patch.data) : nothing}</p>`;
}

/** What becomes of the rest of the data: members are merged into an object, and anything else takes the place of all. */
function leavesOfData({ type }, change) {
  if (!isObject(change)) return html`That replaces the whole of <code>data</code>.`;
  if (OBJECTS.includes(type)) return nothing;
  return html`If <code>data</code> is an object now, its other members stay; if not, that replaces the whole of it.`;
}
