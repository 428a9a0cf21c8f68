// The field of a search with its list of completions: the combobox pattern of the ARIA practices guide.

import { html, nothing } from "./lit.js";
import { complete } from "./query.js";
import { redraw } from "./state.js";

const LIST = "completions";
/** The id of what says why a query was refused. */
export const QUERY_FAULT = "query-fault";

/**
 * The field, kept in `held.query`. `known` gives what is offered as values; `held.caret` holds where completions are wanted,
 * if they are, and `held.active` which of them is marked. What is offered follows what becomes known meanwhile. Where the query
 * was `refused`, the element of the id `QUERY_FAULT` says why.
 */
export function searchBox(held, known, refused) {
  const found = held.caret === undefined ? undefined : complete(held.query, held.caret, known());
  const offered = found?.options ?? [];
  const open = offered.length > 0;
  if (held.active >= offered.length) held.active = -1;
  const offer = (input) => {
    Object.assign(held, { query: input.value, caret: input.selectionStart ?? input.value.length, active: -1 });
    redraw();
  };
  const close = () => {
    held.caret = undefined;
    redraw();
  };
  const take = (input, option) => {
    const { from, to } = found;
    const rest = input.value.slice(to);
    const start = input.value.slice(0, from) + option.text;
    input.value = start + rest;
    input.setSelectionRange(start.length, start.length);
    input.focus();
    offer(input);
  };
  const keys = (event) => {
    const input = event.target;
    if (event.key === "ArrowDown" && !open) offer(input);
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      const step = event.key === "ArrowDown" ? 1 : -1;
      held.active = (held.active + step + offered.length + (held.active < 0 && step < 0 ? 1 : 0)) % offered.length;
      redraw();
      // More are offered than the list has room for.
      queueMicrotask(() => document.getElementById(`${LIST}-${held.active}`)?.scrollIntoView({ block: "nearest" }));
    } else if (event.key === "Enter" && open && held.active >= 0) take(input, offered[held.active]);
    else if (event.key === "Escape" && open) close();
    else return;
    event.preventDefault();
  };
  const option = (one, index) => html`<li
    role="option" id=${`${LIST}-${index}`} aria-selected=${index === held.active}
    @mousedown=${(event) => {
      // Before the field would lose its focus.
      event.preventDefault();
      take(document.getElementById("query"), one);
    }}><code>${one.text.trim()}</code> <span class="small">${one.hint}</span></li>`;
  return html`<div class="search">
    <label for="query">Search</label>
    <input id="query" role="combobox" type="text" .value=${held.query} placeholder="type:card AND metadata.customer:17"
      aria-expanded=${open} aria-controls=${LIST} aria-autocomplete="list"
      aria-describedby=${refused ? `query-hint ${QUERY_FAULT}` : "query-hint"} aria-invalid=${refused ? "true" : nothing}
      aria-activedescendant=${open && held.active >= 0 ? `${LIST}-${held.active}` : nothing}
      autocomplete="off" autocapitalize="off" spellcheck="false"
      @input=${(event) => offer(event.target)} @click=${(event) => offer(event.target)} @keydown=${keys} @blur=${close} />
    <ul role="listbox" id=${LIST} aria-label="Completions" ?hidden=${!open}>${offered.map(option)}</ul>
    <p class="hint" id="query-hint">Terms such as <code>type:card</code>, joined by <code>AND</code>, <code>OR</code>,
      <code>NOT</code>. Arrow keys choose a completion.</p>
  </div>`;
}
