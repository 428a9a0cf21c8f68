// Runs of a reactor, and the telling of their results.

import { ask, may, segment, withQuery } from "../api.js";
import { choiceField, loadChoices } from "../choices.js";
import { form, submitButton, textField } from "../fields.js";
import { bytes, count, counted, duration, pretty } from "../format.js";
import { html, nothing } from "../lit.js";
import { badge, copyable, empty, facts, keepFocus, lacking, long, pager, problemBox, shown, table, time } from "../parts.js";
import { holder, load, loadPage, now, redraw, tell } from "../state.js";

export const title = "Runs";

/** When a run that is not settled is read again, each after the one before; later ones are for whoever asks. Each is logged. */
const AGAIN_AFTER_MS = [500, 1000, 2000, 4000, 8000];

/** What is kept by ids of an address: without a prototype there is none that was not put there. */
const byId = () => Object.create(null);

/** `waited` are runs of which it is known that somebody waited for the answer. */
const held = holder(() => ({ page: 1, jobs: byId(), mine: byId(), waited: new Set(), reactor: "", chosen: "", unfolded: new Set() }));

/** Keeps a run that was queued from this tab, and follows it: lists show a run only when it has ended. */
export function remember(reactor, job) {
  const id = job.invocation_id;
  (held.mine[reactor] ??= []).unshift(id);
  held.jobs[id] = { value: job };
  follow(reactor, id);
}

/** Keeps that somebody waited for the answer of a run: it has no delivery. */
export function rememberWaited(run) {
  held.waited.add(run);
}

/** A run that was queued from this tab, as it was last read. */
export function queuedJob(job) {
  return jobView(held.jobs[job.invocation_id]?.value ?? job);
}

/** The rest of the address is a reactor's id, and perhaps a run's. */
export function open(rest) {
  held.inPlace = undefined;
  readChoices();
  return show(rest);
}

function show([reactor, run]) {
  held.reactor = reactor ?? "";
  held.chosen = held.reactor;
  held.run = run;
  held.jobs = byId();
  held.page = 1;
  held.unfolded.clear();
  return read();
}

/** Whoever goes through the choices stays at them, also where the next one is chosen before this one is shown. */
export function takes(rest) {
  if (location.hash !== held.inPlace) return false;
  keepFocus(show(rest));
  redraw();
  return true;
}

function readChoices() {
  return may("reactor:read") ? loadChoices(held, "reactors", "reactor:read", "/reactors") : undefined;
}

function read() {
  if (!held.reactor) return undefined;
  if (held.run) return look(held.run);
  return Promise.all([list(held.page), ...(held.mine[held.reactor] ?? []).map(look)]);
}

/** What is unfolded stays so. */
export function refresh() {
  return Promise.all([readChoices(), read()]);
}

function list(page) {
  if (!may("reactor:read")) return undefined;
  const path = `/reactors/${segment(held.reactor)}/invocations`;
  return loadPage(held, page, (number) => ask("reactor:read", "GET", withQuery(path, { page: number })));
}

function readJob(reactor, run) {
  return ask("token:use", "GET", `/reactors/${segment(reactor)}/results/${segment(run)}`);
}

async function look(run) {
  const { reactor } = held;
  if (await load(held.jobs, run, () => readJob(reactor, run), () => look(run))) follow(reactor, run);
  // Results are kept for as long as the records of runs are.
  else if (held.jobs[run]?.problem?.status === 404 && held.record?.id === run) rememberWaited(run);
}

/** Reads a run again a few times, until it is settled, its page is left or somebody else reads it. */
async function follow(reactor, run) {
  const visit = now();
  const mine = held.jobs[run];
  const isOurs = () => visit.isHere() && held.jobs[run] === mine;
  for (const wait of AGAIN_AFTER_MS) {
    if (isSettled(mine.value)) return;
    await new Promise((after) => setTimeout(after, wait));
    if (!isOurs()) return;
    const job = await readJob(reactor, run).catch(() => undefined);
    if (!job || !isOurs()) return;
    mine.value = job;
    redraw();
  }
}

function isSettled({ status, delivery }) {
  return ["completed", "failed"].includes(status) && delivery?.status !== "pending";
}

/** Whether something of a run is asked for that has not been answered. */
function isBusy(run) {
  return held.jobs[run]?.loading === true;
}

async function redeliver(run) {
  const path = `/reactors/${segment(held.reactor)}/results/${segment(run)}/redeliver`;
  const { reactor } = held;
  if (!(await load(held.jobs, run, () => ask("token:use", "POST", path), () => redeliver(run)))) return;
  tell("The delivery is queued again");
  follow(reactor, run);
}

export function view() {
  return html`${held.run ? html`<p class="back"><a href="#/invocations/${held.reactor}">Runs</a></p>` : nothing}
    <h1 tabindex="-1">${held.run ? html`Run <code>${held.run}</code>` : title}</h1>
    ${held.run ? delivery(held.run) : html`${choose()} ${held.reactor ? runs() : unchosen()}`}`;
}

function choose() {
  if (!may("reactor:read") && !may("token:use")) return lacking("reactor:read");
  const go = (id) => {
    held.inPlace = id ? `#/invocations/${id}` : "#/invocations";
    location.hash = held.inPlace;
  };
  const settings = { none: "Choose one", changed: go, own: held.reactor === "" ? undefined : { id: held.reactor, name: held.reactor } };
  const openRun = () => {
    location.hash = `#/invocations/${segment((held.reactor || held.wantedReactor || "").trim())}/${segment(held.wanted.trim())}`;
  };
  return html`${may("reactor:read") ? choiceField("Reactor", held, "chosen", { lists: held, from: "reactors" }, settings) : nothing}
    ${problemBox(held.reactors?.problem, nothing, held.reactors?.again)}
    ${may("token:use")
      ? html`<details>
          <summary>Open an asynchronous run by its id</summary>
          ${form(openRun, html`${held.reactor ? nothing : textField("Id of the reactor", held, "wantedReactor", { required: true })}
            ${textField("Id of the run", held, "wanted", { required: true })} ${submitButton("Open")}`, "Open a run")}
        </details>`
      : nothing}`;
}

function unchosen() {
  if (!may("reactor:read")) return nothing;
  if (held.reactors?.value?.total === 0) return empty("No reactors yet, and so no runs.", html`<p><a href="#/reactors/new">Make a reactor</a>, and run it on its page.</p>`);
  return empty("Choose a reactor to see how its runs went.");
}

function runs() {
  const mine = held.mine[held.reactor] ?? [];
  return html`${mine.length > 0
      ? html`<section class="card"><h2>Queued from this tab</h2>${mine.map((run) => html`<div class="part">${shown(held.jobs[run], (job) => jobView(job, actions(job)))}</div>`)}</section>`
      : nothing}
    ${may("reactor:read") ? shown(held.list, ended) : nothing}`;
}

function ended({ data, pagination }) {
  if (data.length === 0) return empty("No run of this reactor has ended in the last days.", html`<p><a href="#/reactors/of/${held.reactor}">Run it</a> on its page.</p>`);
  // Results are for those who may run it.
  const mayUse = may("token:use");
  const row = (run) => [
    time(run.finished_at),
    html`${badge(run.status, run.status === "completed" ? "good" : "bad")}${run.error ? html`<br /><span class="small">${run.error}</span>` : nothing}`,
    duration(run.elapsed_us),
    count(run.fuel),
    bytes(run.memory_peak_bytes),
    run.log.length === 0
      ? "none"
      : html`<details .open=${held.unfolded.has(run.id)} @toggle=${(event) => fold(run.id, event.target.open)}><summary>${counted(run.log.length, "line")}</summary>${lines(run)}</details>`,
    ...(mayUse ? [deliveryOf(run)] : []),
  ];
  const heads = ["Ended", "How", "Time", "Fuel", "Memory", "Log", ...(mayUse ? ["Result"] : [])];
  return html`${table("Runs that have ended, newest first", heads, data.map(row))}
    ${pager(pagination, "run", list)}`;
}

/** The way to what was told of a run, unless nothing was. Its record does not say whether somebody waited for it. */
function deliveryOf(run) {
  if (held.waited.has(run.id)) return html`<span class="small">none: its caller waited</span>`;
  const show = () => {
    held.record = run;
  };
  return html`<a href="#/invocations/${held.reactor}/${run.id}" @click=${show} aria-label=${`Delivery, if asynchronous, of ${run.id}`}>Delivery, if asynchronous</a>`;
}

/** Rows move down as runs end: what is unfolded stays with its run. */
function fold(run, isOpen) {
  if (isOpen) held.unfolded.add(run);
  else held.unfolded.delete(run);
}

/** How a run went. */
export function outcome(run) {
  return html`<div class="part">
    <div class="row">${badge(run.status, run.status === "completed" ? "good" : "bad")} ${run.error ? html`<span>${run.error}</span>` : nothing}</div>
    ${facts([["Time", duration(run.elapsed_us)], ["Fuel", count(run.fuel)], ["Memory at most", bytes(run.memory_peak_bytes)], ["Run", copyable(run.id, "id of the run")], ...(run.trace_id ? [["Trace", copyable(run.trace_id, "trace id")]] : [])])}
    <h3>Log lines</h3>
    ${lines(run)}
  </div>`;
}

function lines(run) {
  if (run.log.length === 0) return html`<p class="muted">It logged nothing.</p>`;
  return html`<div class="lines" tabindex="0" role="region" aria-label=${`Log lines of ${run.id}`}>
      <ol>${run.log.map((line) => html`<li class=${line.level}><span class="level">${line.level}</span> <span>${line.message}</span></li>`)}</ol>
    </div>
    ${run.log_truncated ? html`<p class="small">It logged more than is kept.</p>` : nothing}`;
}

function delivery(run) {
  if (!may("token:use")) return lacking("token:use");
  const loaded = held.jobs[run];
  if (loaded?.problem?.status === 404) {
    return undelivered(held.record?.id === run ? held.record : undefined);
  }
  return html`<section class="card">${shown(loaded, (job) => html`${jobView(job, actions(job))}`)}</section>`;
}

/** What is said of a run that is not asynchronous; of one that the list has a record of, nothing else can be the reason. */
function undelivered(record) {
  const others = html`<p>Most likely its caller waited for the answer. Results of queued runs are kept for seven days.</p>`;
  return html`${record ? empty("This run has no delivery: its caller waited for the answer.") : empty("There is no run of this id that has a delivery.", others)}
    ${record ? html`<section class="card"><h2>How it went</h2>${outcome(record)}</section>` : nothing}`;
}

function actions(job) {
  const run = job.invocation_id;
  // Each would overtake the other, and what is overtaken is not told.
  const once = (work) => () => isBusy(run) || keepFocus(work(run));
  const off = isBusy(run) ? "true" : nothing;
  const ended = job.status === "completed" || job.status === "failed";
  return html`<div class="row">
    <button type="button" class="quiet" aria-disabled=${off} @click=${once(look)}>Look again</button>
    ${ended ? html`<button type="button" class="main" aria-disabled=${off} @click=${once(redeliver)}>Deliver again</button>` : nothing}
  </div>`;
}

const TONES = { completed: "good", delivered: "good", failed: "bad", queued: "plain", running: "accent", pending: "warn" };

/** An asynchronous run and its delivery. */
function jobView(job, more = nothing) {
  const told = job.delivery;
  return html`${facts([
      ["Run", copyable(job.invocation_id, "id of the run")],
      ["Status", badge(job.status, TONES[job.status])],
      ["Queued", time(job.created_at)],
      job.started_at && ["Began", time(job.started_at)],
      job.finished_at && ["Ended", time(job.finished_at)],
      told && ["Delivery", html`${badge(told.status, TONES[told.status])} ${tries(told)}`],
      told?.next_attempt_at && ["Next try", time(told.next_attempt_at)],
    ])}
    ${job.response
      ? html`<details>
          <summary>Result</summary>
          <pre tabindex="0" role="region" aria-label=${`Result of ${job.invocation_id}`}>${long(pretty(job.response))}</pre>
        </details>`
      : nothing}
    ${job.error ? problemBox(job.error) : nothing} ${job.error?.body === undefined ? nothing : shaped(job)} ${more}`;
}

/** The answer that a formula shaped itself: its problem says no more than its status. */
function shaped({ invocation_id: run, error: { headers, body } }) {
  return html`<p class="small">What the formula answered:</p>
    <pre tabindex="0" role="region" aria-label=${`Answer of ${run}`}>${pretty({ headers, body })}</pre>`;
}

function tries({ attempts, last_status: last, last_error: error }) {
  const answer = last ? `, last answered ${last}` : attempts > 0 ? ", no answer" : "";
  return `${counted(attempts, "try")}${answer}${error ? (last ? `; the last try: ${error}` : `: ${error}`) : ""}`;
}

/** Nothing of one reactor's runs is left for another's. */
export function close() {
  held.list = undefined;
  redraw();
}
