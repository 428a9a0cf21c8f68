// Pieces that pages are made of.

import { html, nothing } from "./lit.js";
import { count, counted, localTime, plural } from "./format.js";
import { holder, load, redraw, tell } from "./state.js";

/** What went wrong, as the server said it; with an id where it describes a field. */
export function problemBox(problem, id = nothing) {
  if (!problem) return nothing;
  const errors = Object.entries(problem.errors ?? {});
  return html`<div class="problem" role="alert" id=${id}>
    <p><strong>${problem.title}</strong></p>
    <p class="detail">${problem.detail}</p>
    ${errors.length === 0
      ? nothing
      : html`<ul>
          ${errors.map(([path, texts]) => html`<li><code>${path}</code> ${texts.join("; ")}</li>`)}
        </ul>`}
    ${problem.trace_id ? html`<p class="small">Trace <code>${problem.trace_id}</code></p>` : nothing}
  </div>`;
}

/** What `load` keeps: waiting, a problem, or what `view` makes of the value. */
export function shown(loaded, view) {
  if (!loaded) return nothing;
  if (loaded.problem) return problemBox(loaded.problem);
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

/** A time, the exact one as its title. */
export function time(text) {
  return text ? html`<time datetime=${text} title=${text}>${localTime(text)}</time>` : "–";
}

/** A word with a colour that says the same. */
export function badge(text, tone = "plain") {
  return html`<span class="badge ${tone}">${text}</span>`;
}

/** Words in which code stands between backticks. */
export function prose(text) {
  return text.split(/`([^`]+)`/).map((part, index) => (index % 2 === 1 ? html`<code>${part}</code>` : part));
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
  return html`<div class="scroll" role="region" aria-label=${caption} tabindex="0">
    <table role="table">
      <caption class="polite">${caption}</caption>
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
    type="button" class="quiet" aria-disabled=${able ? nothing : "true"} @click=${() => able && go(to)}>${label}</button>`;
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

/** A text to copy, such as an id. */
export function copyable(text, label) {
  const copy = async () => {
    await navigator.clipboard.writeText(text);
    tell(`${label} copied`);
  };
  // Browsers offer the clipboard to secure origins only; elsewhere the text can be selected.
  const able = globalThis.navigator?.clipboard !== undefined;
  return html`<span class="copyable"><code>${text}</code>
    ${able ? html`<button type="button" class="quiet small" @click=${copy} aria-label=${`Copy ${label}`}>Copy</button>` : nothing}
  </span>`;
}

const asked = holder(() => ({ question: null }));

/** Asks before something that cannot be undone. `text` is a view, with names in `<bdi>`. `run` is what is done then, `after` what follows when the dialog is closed. */
export function confirm(title, text, action, run, after) {
  asked.question = { title, text, action, run, after };
  redraw();
}

/** The dialog that asks. */
export function dialog() {
  const question = asked.question;
  if (!question) return nothing;
  // The dialog closes itself, so that the focus goes back to where it was.
  const close = () => document.querySelector("dialog")?.close();
  const closed = () => {
    Object.assign(asked, { question: null, done: undefined });
    redraw();
  };
  const busy = asked.done?.loading === true;
  const go = async () => {
    if (busy) return;
    await load(asked, "done", question.run);
    if (asked.done?.problem) return;
    close();
    question.after?.();
  };
  queueMicrotask(() => {
    const element = document.querySelector("dialog");
    // Once: it may have been closed since it was drawn.
    if (!element || question.opened) return;
    question.opened = true;
    element.showModal();
  });
  return html`<dialog aria-labelledby="question" @close=${closed}>
    <h2 id="question">${question.title}</h2>
    <p>${question.text}</p>
    ${problemBox(asked.done?.problem)}
    <div class="row end">
      <button type="button" class="quiet" @click=${close} autofocus>Cancel</button>
      <button type="button" class="danger" @click=${go} aria-disabled=${busy ? "true" : nothing}>${question.action}</button>
    </div>
  </dialog>`;
}
