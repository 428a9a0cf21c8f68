// Keys that were made here. The server tells a key in the answer to one request and never again: it stays, whatever is read or
// forgotten meanwhile, until somebody says that it is kept or signs out.

import { html, nothing } from "./lit.js";
import { notify } from "./notices.js";
import { copyable } from "./parts.js";
import { holder, redraw, tell } from "./state.js";

const held = holder(() => ({ keys: {} }), { lasts: true });

/** Keeps what the server answered for whoever asked for it, on the visit of then. */
export function keep({ id, name, key }, visit) {
  // Whoever has signed out is gone, and it is not for whoever signs in next.
  if (!visit.isOurs()) return;
  held.keys[id] = { id, name, key, isKept: false };
  redraw();
  if (visit.isKnown()) return;
  notify({ title: `A new key of ${name} is made.`, text: "It came late, and is shown once, on “Your access”." });
}

/** The key that was made of this application, if one was. */
export function issuedFor(id) {
  return held.keys[id];
}

/** The application is gone, and its key opens nothing. */
export function forgetIssued(id) {
  delete held.keys[id];
}

/** What is kept elsewhere goes with the page that showed it. */
export function forgetKept() {
  for (const { id } of Object.values(held.keys).filter(({ isKept }) => isKept)) delete held.keys[id];
}

/** What would be lost of these keys, as a page says it of itself. */
export function unkept(keys = Object.values(held.keys)) {
  const lost = keys.filter((one) => one && !one.isKept);
  if (lost.length === 0) return undefined;
  return {
    title: "Leave without the key?",
    text: "A key that was just made is shown once, and was not copied: nobody can read it again.",
    letGo: () => {
      for (const one of lost) one.isKept = true;
    },
  };
}

/** The key that was made of one application, where that is looked at. */
export function issued(id) {
  const made = held.keys[id];
  return made ? box(made, "issued", "The key") : nothing;
}

/** All of them, for who cannot look at each where it belongs: perhaps no key of the tab reads applications any more. */
export function allIssued() {
  return Object.values(held.keys).map((made) => box(made, `issued-${made.id}`, html`The key of “<bdi>${made.name}</bdi>”`));
}

function box(made, id, what) {
  const kept = () => {
    made.isKept = true;
    redraw();
  };
  const put = () => {
    kept();
    tell("The page can be left");
    queueMicrotask(() => document.getElementById(id)?.focus());
  };
  return html`<div class="good-news" id=${id} role="group" aria-label=${`The key of ${made.name}`} tabindex="-1">
    <p>${what}, shown this once:</p>
    <p>${copyable(made.key, `key of ${made.name}`, kept)}</p>
    ${made.isKept
      ? html`<p class="small">It is gone from here when this page is left.</p>`
      : html`<p class="row"><button type="button" class="quiet" aria-label=${`I have kept it, of ${made.name}`} @click=${put}>I have kept it</button>
          <span class="small">Nobody can read it again once it is gone from here.</span></p>`}
  </div>`;
}
