// Rights that change while the console is open. They are read anew as each page opens and before tokens are listed: what
// may be asked for, and what counts as plaintext, depends on them.

import { changedRights } from "./access.js";
import { readKeysAgain } from "./api.js";
import { html, nothing } from "./lit.js";
import { holder, redraw, tell } from "./state.js";

const NOTICES_MAX = 5;

const held = holder(() => ({ notices: [] }));

/** Reads them anew, and says what is different. */
export async function readRights() {
  const found = await readKeysAgain();
  if (found.length === 0) return;
  // What was said before is forgotten with a key that ended.
  held.notices = [...found.map(notice), ...held.notices].slice(0, NOTICES_MAX);
  tell(found.map((one) => notice(one).title).join(" "));
  redraw();
}

function notice({ key, before, ended }) {
  if (ended) return { title: `The key of ${key.name} opens nothing any more.`, text: "It was revoked, replaced or has ended, and is forgotten here.", lists: [] };
  const { gained, lost } = changedRights(before, key.application);
  const lists = [["New", gained], ["No more", lost]].filter(([, rights]) => rights.length > 0);
  return { title: `What ${key.name} may do has changed.`, text: lists.length === 0 ? "Its rules decide in another order." : "", lists };
}

/** What was noticed, until it is put away. */
export function notices() {
  return held.notices.map((one) => html`<div class="notice">
    <div class="row"><p class="grow"><strong>${one.title}</strong> ${one.text}</p>
      <button type="button" class="quiet" @click=${() => putAway(one)}>Put away</button></div>
    ${one.lists.map(([name, rights]) => html`<p class="small">${name}:</p>
      <ul>${rights.map((right) => html`<li><code>${right}</code></li>`)}</ul>`)}
  </div>`);
}

function putAway(one) {
  held.notices = held.notices.filter((other) => other !== one);
  redraw();
  document.querySelector("h1")?.focus();
}
