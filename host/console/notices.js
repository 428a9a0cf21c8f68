// What is told above every page until it is put away: rights that have changed, and what ended after its page was left.

import { marked } from "./format.js";
import { html, nothing } from "./lit.js";
import { holder, redraw, tell } from "./state.js";

const NOTICES_MAX = 5;

const held = holder(() => ({ notices: [] }));

/** A sentence with names in it, as a `text` and as a `view`, in which a name that is written the other way turns nothing around. */
export function said(pieces, ...names) {
  const texts = pieces.map((piece, index) => piece + (names[index]?.text ?? names[index] ?? ""));
  const isolated = (name) => name?.view ?? html`<bdi>${marked(name)}</bdi>`;
  return { text: texts.join(""), view: pieces.map((piece, index) => [piece, index < names.length ? isolated(names[index]) : nothing]) };
}

/** Tells something: `title`, which may be `said`, `text`, and perhaps `lists` of a name and rights, where it `leads`, and the id that it is `of`. */
export function notify(...told) {
  // What was told before is forgotten with a key that ended.
  held.notices = [...told, ...held.notices].slice(0, NOTICES_MAX);
  tell(told.map(({ title }) => title.text ?? title).join(" "));
  redraw();
}

/** What was told and is not put away. */
export function notices() {
  return held.notices.map((one) => html`<div class="notice">
    <div class="row"><p class="grow"><strong>${one.title.view ?? one.title}</strong> ${one.text}
        ${one.leads ? html`<a href=${one.leads}>Look at it</a>` : nothing}</p>
      <button type="button" class="quiet" @click=${() => putAway(one)}>Put away</button></div>
    ${(one.lists ?? []).map(([name, rights]) => html`<p class="small">${name}:</p>
      <ul>${rights.map((right) => html`<li><code>${right}</code></li>`)}</ul>`)}
  </div>`);
}

/** What was told of this id holds no more. */
export function outdate(id) {
  held.notices = held.notices.filter((one) => one.of !== id);
}

function putAway(one) {
  held.notices = held.notices.filter((other) => other !== one);
  redraw();
  document.querySelector("h1")?.focus();
}
