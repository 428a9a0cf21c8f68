// Pieces that pages are made of.

import { session } from "./api.js";
import { html, nothing } from "./lit.js";
import { brief, compact, count, counted, inPieces, marked, markedText, plural, sharedNames, utcTime } from "./format.js";
import { notify } from "./notices.js";
import { holder, load, redraw, tell } from "./state.js";

/** A text that may be very long. */
export function long(text) {
  const pieces = inPieces(text);
  return pieces.length > 1 ? pieces.map((piece) => html`<span>${piece}</span>`) : text;
}

/** A text as it is, or that it is empty: nothing would look as if nothing was there. */
export function orEmpty(text) {
  return text === "" ? html`<i class="muted">empty text</i>` : text;
}

/** A value in one line, cut off where it is long. */
export function inShort(value, max) {
  return orEmpty(compact(value, max));
}

/**
 * What went wrong, as the server said it; with an id where it describes a field, with what is done to try it again, and with a
 * `way` on.
 */
export function problemBox(problem, id = nothing, again = undefined, way = nothing) {
  if (!problem) return nothing;
  // What is said of the only member that is named is not said twice.
  const errors = Object.entries(problem.errors ?? {}).filter(([, texts]) => texts.length !== 1 || texts[0] !== problem.detail);
  return html`<div class="problem" role="alert" id=${id}>
    <p><strong>${problem.title}</strong></p>
    <p class="detail">${prose(problem.detail ?? "")}</p>
    ${errors.length === 0
      ? nothing
      : html`<ul>
          ${errors.map(([path, texts]) => html`<li><code>${path}</code> ${joined(texts)}</li>`)}
        </ul>`}
    ${problem.trace_id ? html`<p class="small">Trace <code>${problem.trace_id}</code></p>` : nothing}
    ${again ? html`<p><button type="button" class="again" @click=${() => tryAgain(again)}>Try again</button></p>` : nothing} ${way}
  </div>`;
}

function tryAgain(again) {
  return keepFocus(again());
}

/**
 * Waits for `work`. Where the button that began it went with what it stood in, and the focus with it, it goes to the way to
 * try again if it failed, and else to the heading; or to what `place` gives.
 */
export async function keepFocus(work, place = () => undefined) {
  const done = await work;
  // After what was found is drawn.
  setTimeout(() => {
    if (document.activeElement !== document.body) return;
    (place() ?? document.querySelector("main .again") ?? document.querySelector("h1"))?.focus({ preventScroll: true });
  });
  return done;
}

/**
 * What stands in for choices that a form offers while they are not there: which they are, and the way to try again. Nothing
 * once they are.
 */
export function missing(loaded, what) {
  if (loaded?.problem) {
    return html`<p class="small"><strong>${what} could not be read</strong>, and nothing can be sent without them.</p>
      ${problemBox(loaded.problem, nothing, loaded.again)}`;
  }
  return loaded?.value === undefined ? html`<p class="waiting">Loading ${what.toLowerCase()}…</p>` : nothing;
}

/** What `load` keeps: waiting, a problem, or what `view` makes of the value. */
export function shown(loaded, view) {
  if (!loaded) return nothing;
  if (loaded.problem) return problemBox(loaded.problem, nothing, loaded.again);
  if (loaded.value === undefined) return html`<p class="waiting">Loading…</p>`;
  return html`<div class=${loaded.loading ? "stale" : ""} aria-busy=${loaded.loading ? "true" : "false"}>
    ${view(loaded.value)}
  </div>`;
}

/** Said where there is nothing to show. */
export function empty(text, more = nothing) {
  return html`<div class="empty"><p>${text}</p>${more}</div>`;
}

/** Said where no key of this tab may do what a page does. */
export function lacking(permission) {
  return html`<div class="empty">
    <p>No key in this tab holds <code>${permission}</code>.</p>
    <p><a href="#/keys">Add a key</a> of an application that does.</p>
  </div>`;
}

/** A time in UTC, the exact one as its title. */
export function time(text) {
  return text ? html`<time datetime=${text} title=${text}>${utcTime(text)}</time>` : "–";
}

/** Who has this id: applications of this tab's keys by their names; others would have to be read, which would be an entry of the log. */
export function who(id, text = id) {
  const all = session.keys.map((key) => key.application);
  const known = all.find((one) => one.id === id);
  return known ? html`<span title=${id}>${named(known, sharedNames(all))}</span>` : html`<code title=${id}>${marked(text)}</code>`;
}

/** When something was done, and by whom; of what ships or was made at the command line nobody is known. */
export function act(at, by) {
  return by ? html`${time(at)} by ${who(by)}` : time(at);
}

/** The name of an entry, with the end of its id where it is one of those that others have, too. */
export function named({ id, name }, shared) {
  return html`<bdi>${marked(name)}</bdi>${shared.has(name) ? html` <code class="small brief" title=${id}>${brief(id)}</code>` : nothing}`;
}

/** A word with a colour that says the same. */
export function badge(text, tone = "plain") {
  return html`<span class="badge ${tone}">${text}</span>`;
}

/** Words in which code stands between backticks. */
export function prose(text) {
  return text.split(/`([^`]+)`/).map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : part));
}

/** Several of them in one line. */
export function joined(texts) {
  return texts.map((text, index) => [index > 0 ? "; " : "", prose(text)]);
}

/** Names and values, one below the other. Rows without a value are left out. */
export function facts(rows) {
  const there = rows.filter((row) => row && row[1] !== undefined && row[1] !== null && row[1] !== "");
  return html`<dl class="facts">
    ${there.map(([name, value]) => html`<div><dt>${name}</dt><dd>${value}</dd></div>`)}
  </dl>`;
}

/**
 * A table that can be scrolled by keyboard where it is too wide; on narrow screens each row stands as a block, of which the
 * roles say that it is a row still. `heads` are texts, `rows` lists of cells.
 */
export function table(caption, heads, rows) {
  return html`<div class="scroll" role="region" aria-label=${markedText(caption)} tabindex="0">
    <table role="table">
      <caption class="polite">${markedText(caption)}</caption>
      <thead role="rowgroup"><tr role="row">${heads.map((head) => html`<th scope="col" role="columnheader">${head}</th>`)}</tr></thead>
      <tbody role="rowgroup">
        ${rows.map((cells) => html`<tr role="row">
          ${cells.map((cell, index) => (index === 0
            ? html`<th scope="row" role="rowheader" data-head=${heads[index]}>${cell}</th>`
            : html`<td role="cell" data-head=${heads[index]}>${cell}</td>`))}
        </tr>`)}
      </tbody>
    </table>
  </div>`;
}

/** Which entries of how many are shown, and the way to the others. `go` takes the number of a page. */
export function pager(pagination, noun, go, note = nothing) {
  const { total_items: total, page_number: page, page_size: size, total_pages: pages } = pagination;
  const first = (page - 1) * size + 1;
  const last = Math.min(page * size, total);
  // Where it leads nowhere it is not `disabled`, which would take the focus from whoever has just come there by it.
  const button = (label, to, able) => html`<button
    type="button" class="quiet" aria-disabled=${able ? nothing : "true"} @click=${() => able && keepFocus(go(to))}>${label}</button>`;
  return html`<nav class="pager" aria-label="Pages">
    <p>${total === 0 ? `No ${plural(noun)}` : html`${count(first)}–${count(last)} of <strong>${counted(total, noun)}</strong>`}${note}</p>
    ${pages > 1
      ? html`<div class="row">
          ${button("First", 1, page > 1)} ${button("Previous", page - 1, page > 1)}
          <span class="small">Page ${count(page)} of ${count(pages)}</span>
          ${button("Next", page + 1, page < pages)} ${button("Last", pages, page < pages)}
        </div>`
      : nothing}
  </nav>`;
}

/** A text to copy, such as an id; `copied` is what follows. */
export function copyable(text, label, copied = () => {}) {
  const copy = async () => {
    try {
      await navigator.clipboard.writeText(text);
    } catch {
      // Browsers refuse it where the page may not, or is not looked at.
      notify({ title: "Could not be copied: select the text.", text: "" });
      return;
    }
    copied();
    tell(`${label} copied`);
  };
  // Browsers offer the clipboard to secure origins only; elsewhere the text can be selected.
  const able = globalThis.navigator?.clipboard !== undefined;
  return html`<span class="copyable"><code>${marked(text)}</code>
    ${able ? html`<button type="button" class="quiet small" @click=${copy} aria-label=${markedText(`Copy ${label}`)}>Copy</button>` : nothing}
  </span>`;
}

const asked = holder(() => ({ question: null }));

/**
 * Asks before something that cannot be undone. `text` is a view, with names in `<bdi>`. `run` is what is done then; it is given
 * what tells whether it is asked still, and may give another question, which is asked before anything is done. Of `ends`,
 * `after` follows when it is done and the dialog closed, and `otherwise` when it is closed without. What is `harmless` does not
 * look as if it destroyed something.
 */
export function confirm(title, text, action, run, ends = {}) {
  Object.assign(asked, { question: { title, text, action, run, ...ends }, done: undefined });
  redraw();
}

/** What would be lost, of several, each `{ title, text, letGo }` or nothing, in one question. */
export function lostTogether(losses) {
  const all = losses.filter(Boolean);
  if (all.length < 2) return all[0];
  const letGo = () => {
    for (const one of all) one.letGo();
  };
  return { title: "Leave all of this?", text: html`<ul>${all.map(({ text }) => html`<li>${text}</li>`)}</ul>`, letGo };
}

/** Takes a question back. It is done once whoever was asked is where they were. */
export async function askNoMore() {
  const open = document.querySelector("dialog[open]");
  if (!open) return;
  const closed = new Promise((done) => open.addEventListener("close", done, { once: true }));
  open.close();
  await closed;
}

/** The dialog that asks. */
export function dialog() {
  const question = asked.question;
  if (!question) return nothing;
  const closed = () => {
    Object.assign(asked, { question: null, done: undefined });
    redraw();
    if (!question.isDone) question.otherwise?.();
  };
  const busy = asked.done?.loading === true;
  const go = async () => {
    if (busy) return;
    const isAsked = () => asked.question === question && document.querySelector("dialog")?.open === true;
    const next = await load(asked, "done", () => question.run(isAsked));
    // Taken back meanwhile, or not done.
    if (!isAsked() || asked.done?.problem) return;
    if (next?.run) return askNext(question, next);
    question.isDone = true;
    // The dialog closes itself, so that the focus goes back to where it was.
    askNoMore();
    question.after?.();
  };
  queueMicrotask(() => {
    const element = document.querySelector("dialog");
    // Once: it may have been closed since it was drawn.
    if (!element || question.opened) return;
    question.opened = true;
    if (!element.open) element.showModal();
  });
  return html`<dialog aria-labelledby="question" @close=${closed}>
    <h2 id="question">${question.title}</h2>
    <div class="asked" role=${question.isNext ? "alert" : nothing}>${question.text}</div>
    ${problemBox(asked.done?.problem)}
    <div class="row end">
      <button type="button" class="quiet" @click=${askNoMore} autofocus>Cancel</button>
      <button type="button" class=${question.harmless ? "main" : "danger"} @click=${go} aria-disabled=${busy ? "true" : nothing}>${question.action}</button>
    </div>
  </dialog>`;
}

/** Whoever has just said yes by a key is not to say it twice by it. */
function askNext(question, next) {
  Object.assign(question, next, { isNext: true });
  asked.done = undefined;
  redraw();
  document.querySelector("dialog [autofocus]")?.focus();
}
