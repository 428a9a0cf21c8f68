// Live figures of the server, as long as the page is open. They are of the whole process, all tenants together, and the
// server answers them to the networks that its operator names.

import { chart } from "../charts.js";
import { bytes, count, duration } from "../format.js";
import { html, nothing } from "../lit.js";
import { facts, problemBox, table } from "../parts.js";
import { between, digest, isAnew, parse, quantile, risen, total } from "../metrics.js";
import { holder, noteFailure, redraw } from "../state.js";

export const title = "Live figures";

const EVERY_MS = 2000;
/** What the charts show. */
const SPAN_MS = 300_000;
/** A reading that takes longer counts as missed. */
const PATIENCE_MS = 30_000;

/** `since` is how many requests each route has had while the page is open, also by servers that have ended meanwhile. */
const held = holder(() => ({ points: [], since: new Map() }));
let timer;
/** What stands for the reading that is under way. */
let reading;

export function open() {
  Object.assign(held, { points: [], since: new Map(), until: performance.now(), last: undefined, problem: undefined, refused: false });
  look();
}

/** Reads them without waiting for the next time. */
export function refresh() {
  return look();
}

export function close() {
  clearTimeout(timer);
  reading = undefined;
}

async function look() {
  clearTimeout(timer);
  const mine = (reading = {});
  const found = await read();
  // It is of a page that was left, or overtaken.
  if (reading !== mine) return;
  timer = setTimeout(look, EVERY_MS);
  held.until = performance.now();
  if (!found) missed({ title: "No answer", detail: "The server cannot be reached.", errors: {} });
  else if (found.ok) take(digest(parse(found.text)));
  else refused(found.status, found.text);
  redraw();
}

/** What is answered, if anything is. */
async function read() {
  const own = { cache: "no-store", credentials: "omit", signal: AbortSignal.timeout(PATIENCE_MS) };
  try {
    const answer = await fetch("/metrics", own);
    return { ok: answer.ok, status: answer.status, text: await answer.text() };
  } catch {
    return undefined;
  }
}

/** Says why there are no figures, and leaves a gap in the lines. */
function missed(problem) {
  held.problem = problem;
  noteFailure(problem);
  if (held.points.length > 0) place({});
}

/** Whose address may not see them will not see them later; anything else may be over at the next reading. */
function refused(status, text) {
  held.refused = status === 403;
  if (held.refused) close();
  missed({ title: "No figures", detail: `The server answered ${status}.`, errors: {}, ...described(text) });
}

/** What a problem says of itself; what stands before the server may answer with anything. */
function described(text) {
  try {
    const { title, detail } = JSON.parse(text);
    return typeof title === "string" && typeof detail === "string" ? { title, detail } : {};
  } catch {
    return {};
  }
}

/** Adds a point of now, and drops those that are too old. */
function place(point) {
  const at = held.until;
  held.points = [...held.points, { at, ...point }].filter((one) => at - one.at <= SPAN_MS);
}

function take(now) {
  const at = held.until;
  Object.assign(held, { problem: undefined, refused: false });
  if (held.last) {
    const seconds = (at - held.last.at) / 1000;
    // A server that was started meanwhile counts from nothing.
    const before = isAnew(held.last.figures, now) ? digest([]) : held.last.figures;
    place(between(before, now, seconds));
    for (const [route, buckets] of now.routes) {
      held.since.set(route, since(route) + total(risen(before.routes.get(route), buckets)));
    }
  }
  held.last = { at, figures: now };
}

function since(route) {
  return held.since.get(route) ?? 0;
}

export function view() {
  return html`<h1 tabindex="-1">${title}</h1>
    ${held.refused
      ? html`<div class="empty"><p>This server does not show its figures to your address.</p>
          <p>They are answered to the networks that <code>--metrics-networks</code> names, which is the server's own machine
            unless its operator says otherwise. No key changes that. Open the console from there, or ask the operator to name your network.</p></div>`
      : html`${problemBox(held.problem)} ${charts()} ${routes()}`}`;
}

function charts() {
  const { points, until } = held;
  const own = { points, until, span: SPAN_MS };
  const now = held.last?.figures;
  return html`<p class="small">Of the whole server, all tenants together; read every two seconds while this page is open, without
      the readings themselves.</p>
    <div class="charts">
      ${chart("Requests", "a second", [["requests", "all"], ["refused", "4xx and 5xx"]], own)}
      ${chart("Latency of requests", "milliseconds", [["p50", "median"], ["p99", "99 of 100"]], own)}
      ${chart("Runs of reactors", "a second", [["runs", "ended"]], own)}
      ${chart("Time of runs", "milliseconds", [["run_p50", "median"], ["run_p99", "99 of 100"]], own)}
      ${chart("Queue", "asynchronous runs and webhooks", [["queued", "queued"], ["running", "running"], ["deliveries", "to be delivered"]], own)}
      ${now
        ? html`<section class="card" aria-label="Since the server started">
            <h2>Since the server started</h2>
            ${facts([["Requests", count(now.requests)], ["Refused or failed", count(now.failed)], ["Runs of reactors", count(now.invocations)], ["Fuel", count(now.fuel)], ["Memory now", bytes(now.memory)]])}
          </section>`
        : nothing}
    </div>`;
}

/** What matches none is counted together. */
function routeName(route) {
  return route.endsWith(" -") ? html`<code>${route}</code> <span class="small">requests that match no route</span>` : html`<code>${route}</code>`;
}

/** The table says in numbers what the charts draw, and by which routes. */
function routes() {
  const now = held.last?.figures;
  if (!now) return nothing;
  const ms = (value) => (value === null ? "–" : duration(value * 1_000_000));
  // A server that was started anew may not know routes yet that another one has answered.
  const answered = [...held.since.keys()].filter((route) => since(route) > 0);
  const rows = [...new Set([...now.routes.keys(), ...answered])]
    .map((route) => ({ route, buckets: now.routes.get(route) ?? new Map() }))
    .sort((a, b) => total(b.buckets) - total(a.buckets))
    .map(({ route, buckets }) => [routeName(route), count(total(buckets)), count(since(route)), ms(quantile(buckets, 0.5)), ms(quantile(buckets, 0.99))]);
  return html`<section class="card"><h2>Routes</h2>
    ${table("Requests by route", ["Route", "Answered", "While this page is open", "Median", "99 of 100 within"], rows)}</section>`;
}
