// A new token.

import { ask, keysAt, keysFor, may, segment, withAnyOf } from "../api.js";
import { areaField, checkbox, form, heldWhile, jsonOf, linesOf, maskOf, metadataOf, notSent, selectField, submitButton, textField, wordsOf } from "../fields.js";
import { fromTimeField } from "../format.js";
import { html, nothing } from "../lit.js";
import { formProblem } from "../new_key.js";
import { copyable, lacking, missing } from "../parts.js";
import { save, stillSent, unsent } from "../saving.js";
import { holder, redraw, tell } from "../state.js";
import { knownTypes, types } from "./token_types.js";

/** Data to start from, of the types that are objects. It holds no value: what nobody has written is not stored. */
const SHAPES = {
  card: '{\n  "number": "",\n  "expiration_month": null,\n  "expiration_year": null,\n  "cvc": null\n}',
  bank: '{\n  "routing_number": "",\n  "account_number": ""\n}',
};
/** How such data is written. */
const EXAMPLES = {
  card: '{"number": "4242424242424242", "expiration_month": 12, "expiration_year": 2030, "cvc": "123"}',
  bank: '{"routing_number": "021000021", "account_number": "00001"}',
};

const fresh = () => ({ type: "token", data: "", json: false, id: "", containers: "", metadata: "", indexes: "", mask: "", expires_at: "", deduplicate: false });
const held = holder(fresh, { keeps: () => ({ ...held, made: undefined, sent: stillSent(held.sent) }) });

/** Whether the data is JSON rather than the text itself. */
function isJson() {
  return held.type in SHAPES || (held.type === "token" && held.json);
}

function dataHint() {
  if (!isJson()) return "The value itself, as text";
  return held.type in EXAMPLES ? html`JSON, such as <code>${EXAMPLES[held.type]}</code>` : "JSON";
}

/** The body of the request. What cannot be read is a problem of the console's own, in the words of the server's. */
function body() {
  const errors = {};
  const lines = linesOf(held.metadata).map((line) => ({ line, at: line.indexOf("=") }));
  const pairs = lines.map(({ line, at }) => [line.slice(0, at).trim(), line.slice(at + 1).trim()]);
  const metadata = metadataOf(pairs, errors);
  if (lines.some(({ at }) => at < 1)) errors.metadata = ["must be lines of key=value"];
  const made = {
    id: held.id.trim() || undefined,
    type: held.type,
    data: isJson() ? jsonOf(held.data, "data", errors) : held.data,
    containers: wordsOf(held.containers),
    metadata: held.metadata.trim() === "" ? undefined : metadata,
    search_indexes: held.indexes.trim() === "" ? undefined : linesOf(held.indexes),
    mask: held.mask.trim() === "" ? undefined : maskOf(held.mask, errors),
    expires_at: fromTimeField(held.expires_at),
    deduplicate_token: held.deduplicate ? true : undefined,
  };
  if (Object.keys(errors).length > 0) throw notSent("Some fields cannot be read.", errors);
  return made;
}

/** Leaves no plaintext behind. */
export function leaveForm() {
  Object.assign(held, fresh(), { made: undefined, sent: undefined });
}

/** What is written and would be lost. */
export function unkeptForm() {
  const { data, sent } = held;
  const isAdded = Object.entries(fresh()).some(([name, begun]) => !["type", "json", "data"].includes(name) && held[name] !== begun);
  return unsent(sent, isAdded || !["", ...Object.values(SHAPES)].includes(data), leaveForm);
}

async function submit() {
  const work = async () => {
    const made = body();
    // Without containers, where it lies is for the server to say.
    const able = made.containers ? keysAt("token:create", made.containers) : keysFor("token:create");
    return withAnyOf(able, (key) => ask("token:create", "POST", "/tokens", { body: made, key }));
  };
  const done = (token) => {
    // The form held plaintext.
    Object.assign(held, fresh(), { made: token, sent: undefined });
    tell("Token made");
    redraw();
    // The id is above the form, which may be longer than the screen.
    queueMicrotask(() => document.getElementById("made")?.focus());
  };
  await save(held, "The new token", work, { done, leads: ({ id }) => `#/tokens/of/${segment(id)}`, anew: leaveForm });
}

export function createToken() {
  if (!may("token:create")) return html`<h1 tabindex="-1">New token</h1>${lacking("token:create")}`;
  const names = knownTypes();
  return html`<p class="back"><a href="#/tokens">Tokens</a></p>
    <h1 tabindex="-1">New token</h1>
    ${made()}
    <section class="card">
      ${form(
        submit,
        html`${heldWhile(held.sent, fields(names))}
          ${formProblem(held.sent?.problem)} ${missing(types(), "Types of tokens")}
          ${submitButton("Create", held.sent, names.length > 0)}`,
        "New token",
      )}
    </section>`;
}

function fields(names) {
  const shape = (type) => {
    if (held.data.trim() === "" || Object.values(SHAPES).includes(held.data)) held.data = SHAPES[type] ?? "";
  };
  const at = (path) => [held.sent?.problem, path];
  return html`${selectField("Type", held, "type", names.length > 0 ? names : ["token"], { changed: shape, at: at("type") })}
    ${areaField("Data", held, "data", { at: at("data"), rows: 7, required: true, hint: dataHint() })}
    ${held.type === "token" ? checkbox("The data is JSON", held.json, (on) => { held.json = on; redraw(); }) : nothing}
    <details>
      <summary>More</summary>
      ${textField("Id", held, "id", { at: at("id"), hint: "A value that is not sensitive, or an expression; a new UUID when empty" })}
      ${textField("Containers", held, "containers", { at: at("containers"), hint: "Such as /pci/high/, apart by spaces; those of the type when empty" })}
      ${areaField("Metadata", held, "metadata", { at: at("metadata"), rows: 3, hint: "A line each: key=value; nothing sensitive" })}
      ${areaField("Search indexes", held, "indexes", { at: at("search_indexes"), rows: 2, hint: "An expression each line, such as {{ data.number | last4 }}" })}
      ${areaField("Mask", held, "mask", { at: at("mask"), rows: 3, hint: "An expression, or JSON with expressions; that of the type when empty" })}
      ${textField("Ends", held, "expires_at", { at: at("expires_at"), type: "datetime-local", hint: "UTC. Empty: it does not end" })}
      ${checkbox("If there is a token of the same contents, take that one", held.deduplicate, (on) => { held.deduplicate = on; redraw(); })}
    </details>`;
}

function made() {
  const token = held.made;
  if (!token) return nothing;
  const what = token._extras?.deduplicated ? "There was a token of these contents:" : "The token is made:";
  return html`<div class="good-news" id="made" role="group" aria-label="The token that was made" tabindex="-1">
    <p>${what}</p>
    <p>${copyable(token.id, "id")}</p>
    <p><a href="#/tokens/of/${segment(token.id)}">Look at it</a></p>
  </div>`;
}
