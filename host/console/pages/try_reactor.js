// Running a reactor: arguments in, result, log lines, fuel and time out.

import { ask, isRepeated, keysFor, may, segment, withQuery } from "../api.js";
import { areaField, checkbox, form, jsonOf, notSent, selectField, submitButton, textField } from "../fields.js";
import { brief, marked, measured, pretty } from "../format.js";
import { html, nothing } from "../lit.js";
import { same } from "../merge_patch.js";
import { formProblem } from "../new_key.js";
import { facts, lacking, long } from "../parts.js";
import { holder, load, now, redraw, tell } from "../state.js";
import { outcome, queuedJob, remember, rememberWaited } from "./invocations.js";

/** The record of a run may be there a moment after its answer. */
const RECORD_TRIES = 5;
const RECORD_WAIT_MS = 200;

const fresh = (args) => ({ args, later: false, callback: "", timeout: "" });
const held = holder(() => ({}), {
  keeps: ({ id, begun, args, later, callback, timeout }) => (unkeptTrial() ? { id, begun, args, later, callback, timeout } : {}),
});

/** Begins with a reactor; with its formula, the arguments begin as it declares them. */
export function beginTrying(id, formula) {
  if (held.id !== id) Object.assign(held, { id, begun: "{}", ...fresh("{}"), ran: undefined, tried: undefined, formula: undefined });
  if (!formula) return;
  // It may have changed since the last visit.
  const begun = pretty(sample(formula.request_parameters));
  if (held.args === held.begun) held.args = begun;
  Object.assign(held, { formula, begun });
  redraw();
}

/** What is written, without what is not sent. */
function written({ args, later, callback, timeout }) {
  return later ? { args, callback, timeout } : { args, callback: "", timeout: "" };
}

/** What is written and would be lost: what was run, or is running, is not. */
export function unkeptTrial() {
  const { begun, ran, tried } = held;
  const now = written(held);
  const { value, problem } = ran?.value ?? {};
  const isRun = (ran?.loading || value !== undefined || problem?.run) && same(now, tried);
  if (isRun || same(now, written(fresh(begun))) || same(now, written(fresh("")))) return undefined;
  return {
    title: "Leave what was not run?",
    text: "The arguments that are written here are nowhere else, and are lost.",
    letGo: () => Object.assign(held, fresh(begun), { ran: undefined }),
  };
}

/** Leaves no answer behind: it may hold plaintext, and is among the reactor's runs as far as it is kept. */
export function leaveTrial() {
  if (!held.ran?.loading) held.ran = undefined;
}

/** Arguments to start from: the required ones, each with a value that shows its type; of what has parts, a token is all of them. */
function sample(parameters) {
  const values = { string: "", number: 0, boolean: false, object: "{{ token-id }}", array: [] };
  // An argument may be called as what every object has.
  const made = Object.create(null);
  for (const { name, type, optional } of parameters) {
    if (optional) continue;
    const [first, ...parts] = name.split(".");
    made[first] = parts.length > 0 ? values.object : values[type];
  }
  return made;
}

/** The key to run it with: the one that was chosen, as long as it is there. */
function runner() {
  const able = keysFor("token:use");
  return able.find((key) => key.id === held.as) ?? able[0];
}

async function submit() {
  // Somebody may go on to another reactor before this one has answered.
  const { id, later } = held;
  const visit = now();
  const begun = document.activeElement;
  held.tried = written(held);
  const ran = await load(held, "ran", async () => {
    const errors = {};
    const args = held.args.trim() === "" ? undefined : jsonOf(held.args, "args", errors);
    if (errors.args) throw notSent("The arguments cannot be read.", errors);
    const body = { args };
    if (later) {
      body.callback_url = held.callback;
      if (held.timeout !== "") body.timeout_ms = Number(held.timeout);
    }
    const key = runner();
    const as = key?.name;
    const before = await newest(id);
    const began = performance.now();
    const answer = await ask("token:use", "POST", `/reactors/${segment(id)}/react`, { body, key })
      .then((value) => ({ value }), (error) => ({ problem: error.problem ?? { title: "The console failed", detail: String(error), errors: {} } }));
    const took = performance.now() - began;
    if (later && answer.value) {
      remember(id, answer.value);
      return { ...answer, as, took, queued: true };
    }
    if (isRepeated(answer.value)) return { ...answer, as, took, isRepeated: true };
    const { status, run, isUnsent, isLost } = answer.problem ?? {};
    const isRefused = isUnsent || (!isLost && run === null && status < 500);
    if (run && !later) rememberWaited(run);
    // A server that just failed may fail again.
    const records = before && !isRefused ? await recordsSince(id, before).catch(() => undefined) : undefined;
    // The formula may have done its work before its record could not be stored, or while somebody between answered, or
    // nobody did.
    const isUnknown = answer.problem !== undefined && !run && !isRefused;
    return { ...answer, as, took, isRefused, isUnknown, records };
  });
  if (ran && visit.isHere()) setTimeout(() => toResult(begun));
  if (ran) tell(ran.queued ? "The run is queued" : ran.value ? "The reactor answered" : ran.isUnknown ? "It may have run" : "The run failed");
  else if (held.ran?.problem) tell("Nothing was run");
}

/** The result is below the form, which may be longer than the screen. Whoever has gone on from where they were stays there. */
function toResult(begun) {
  const result = document.getElementById("result");
  if (!result || ![begun, document.body].includes(document.activeElement)) return;
  result.focus({ preventScroll: true });
  const isCalm = matchMedia("(prefers-reduced-motion: reduce)").matches;
  result.scrollIntoView({ block: "nearest", behavior: isCalm ? "instant" : "smooth" });
}

/** The newest records of runs, for those who may read them. */
async function newest(id) {
  if (!may("reactor:read")) return undefined;
  const path = withQuery(`/reactors/${segment(id)}/invocations`, { size: 10 });
  return (await ask("reactor:read", "GET", path)).data;
}

/** Records that were not there before: that of this run, and of others that ended meanwhile. */
async function recordsSince(id, before) {
  const known = new Set(before.map((record) => record.id));
  for (let again = 0; again < RECORD_TRIES; again += 1) {
    const fresh = (await newest(id)).filter((record) => !known.has(record.id));
    if (fresh.length > 0) return fresh;
    await new Promise((after) => setTimeout(after, RECORD_WAIT_MS));
  }
  return [];
}

export function tryReactor() {
  if (!may("token:use")) return html`<section class="card"><h2>Try it</h2>${lacking("token:use")}</section>`;
  // What the vault refuses; a formula may name arguments, too.
  const at = (path) => [held.ran?.value?.problem ?? held.ran?.problem, path];
  return html`<section class="card">
      <h2>Try it</h2>
      ${form(
        submit,
        html`${areaField("Arguments", held, "args", { at: at("args"), rows: 6, hint: "JSON. {{ token-id }} stands for the data of a token, which the formula sees and this page does not." })}
          ${checkbox("Run it later and tell the result as a webhook", held.later, (on) => { held.later = on; redraw(); })}
          ${held.later
            ? html`<div class="columns">
                ${textField("Address of the receiver", held, "callback", { at: at("callback_url"), type: "url", required: true, placeholder: "https://" })}
                ${textField("Time in milliseconds", held, "timeout", { at: at("timeout_ms"), type: "number", placeholder: "10000" })}
              </div>`
            : nothing}
          ${chooseRunner()} ${submitButton("Run", held.ran)}`,
        "Run the reactor",
      )}
      ${formProblem(held.ran?.problem)}
    </section>
    ${held.ran?.value && !held.ran.loading ? result(held.ran.value) : nothing}`;
}

/** Where several keys may run it, a person says which: what the formula gets depends on it. */
function chooseRunner() {
  const able = keysFor("token:use");
  if (able.length < 2) return nothing;
  const isAlone = ({ name }) => able.filter((other) => other.name === name).length === 1;
  const choices = able.map((key) => [key.id, isAlone(key) ? key.name : `${key.name} ${brief(key.application.id)}`]);
  return selectField("Run as", held, "as", choices, { hint: "The rules of this key say what the formula gets of tokens." });
}

function result({ value, problem, as, took, isRefused, isUnknown, isRepeated: again, records, queued }) {
  const by = facts([as && ["Run as", html`<bdi>${marked(as)}</bdi>`], !queued && ["Seen from here", measured(took.toFixed(0), "ms")]]);
  if (queued) {
    return html`<section class="card" id="result" aria-label="Queued run" tabindex="-1">
      <h2>Queued run</h2>${queuedJob(value)} ${by}<p><a href="#/invocations/${held.id}">Follow it</a></p>
    </section>`;
  }
  return html`<section class="card" id="result" aria-label="Result" tabindex="-1">
    <h2>Result</h2>
    ${problem ? formProblem(problem) : html`<pre class="result" tabindex="0" role="region" aria-label="Answer">${long(pretty(value))}</pre>`}
    ${by}
    ${again ? html`<p class="small">It ran when it was asked for first, and not again: this is the answer that was lost. <a href="#/invocations/${held.id}">Its record</a> is among its runs.</p>`
      : isRefused ? html`<p class="small">It was refused before the formula began: there is no record of it.</p>`
      : isUnknown ? html`<p class="small">Which record is that of this run is not known. The formula may have run, and done what it does: look there before you run it again.</p>
        ${records?.length > 0 ? recorded(records) : nothing}`
      : recorded(records)}
  </section>`;
}

function recorded(records) {
  if (records === undefined) {
    return html`<p class="small">Log lines and fuel are shown to keys that hold <code>reactor:read</code>. <a href="#/keys">Add one</a>.</p>`;
  }
  if (records.length === 0) return html`<p class="small">No record of this run was found.</p>`;
  return html`${records.length > 1 ? html`<p class="small">Several runs of this reactor ended meanwhile:</p>` : nothing}
    ${records.map(outcome)}`;
}
