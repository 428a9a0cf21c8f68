// Keys that were made here. The server tells a key in the answer to one request and never again: it stays, whatever is read or
// forgotten meanwhile, until somebody says that it is kept or signs out.

import { marked, markedText } from "./format.js";
import { html, nothing } from "./lit.js";
import { notify, outdate, said } from "./notices.js";
import { copyable } from "./parts.js";
import { holder, redraw, tell } from "./state.js";

const WITHOUT = "Leave without the key?";

/** Ids may come from an address: without a prototype there is none that was not put here. */
const held = holder(() => ({ keys: Object.create(null), coming: new Set() }), { lasts: true });

/** Does `work`, which has the server make a key for an application of this name: until it is answered, the key is still to come. */
export async function make(name, work) {
  const { coming } = held;
  const one = { name };
  coming.add(one);
  try {
    return await work();
  } finally {
    coming.delete(one);
  }
}

/** Keeps what the server answered for whoever asked for it, on the visit of then. */
export function keep({ id, name, key }, visit) {
  // Whoever has signed out is gone, and it is not for whoever signs in next.
  if (!visit.isOurs()) return;
  outdate(id);
  if (key === undefined) return tellLost(id, name);
  held.keys[id] = { id, name, key, isKept: false };
  redraw();
  if (visit.isKnown()) return;
  notify({ title: said`A new key of ${name} is made.`, text: "It came late, and is shown once, on “Your access”." });
}

/** An answer that is repeated has no key, and the one before it, if there was one, has ended. */
function tellLost(id, name) {
  delete held.keys[id];
  redraw();
  notify({
    title: said`The key of “${name}” was made, and nobody can see it.`,
    text: "It was in an answer that was lost, and is not shown again. Make another one on the application's page, by “New key”.",
    leads: `#/applications/of/${id}`,
    of: id,
  });
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

/** What would be lost of the key that was made of this application, as a page says it of itself. */
export function unkeptOf(id) {
  const one = held.keys[id];
  if (!one || one.isKept) return undefined;
  return {
    isOfKey: true,
    title: WITHOUT,
    text: html`The key of “<bdi>${marked(one.name)}</bdi>” was just made, is shown once and was not copied: nobody can read it again.`,
    letGo: () => {
      one.isKept = true;
    },
  };
}

/** What would be lost of all keys if nobody stayed signed in, each for itself. */
export function allUnkept() {
  const coming = ({ name }) => ({
    title: WITHOUT,
    text: html`A key of “<bdi>${marked(name)}</bdi>” is being made. It will be shown once, and nobody can read it if you do not wait for it.`,
    letGo: () => {},
  });
  return [...Object.keys(held.keys).map(unkeptOf).filter(Boolean), ...[...held.coming].map(coming)];
}

/** The key that was made of one application, where that is looked at. */
export function issued(id) {
  const made = held.keys[id];
  return made ? box(made, "issued", "The key") : nothing;
}

/** All of them, for who cannot look at each where it belongs: perhaps no key of the tab reads applications any more. */
export function allIssued() {
  return Object.values(held.keys).map((made) => box(made, `issued-${made.id}`, html`The key of “<bdi>${marked(made.name)}</bdi>”`));
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
  return html`<div class="good-news" id=${id} role="group" aria-label=${markedText(`The key of ${made.name}`)} tabindex="-1">
    <p>${what}, shown this once:</p>
    <p>${copyable(made.key, `key of ${made.name}`, kept)}</p>
    ${made.isKept
      ? html`<p class="small">It is gone from here when this page is left.</p>`
      : html`<p class="row"><button type="button" class="quiet" aria-label=${markedText(`I have kept it, of ${made.name}`)} @click=${put}>I have kept it</button>
          <span class="small">Nobody can read it again once it is gone from here.</span></p>`}
  </div>`;
}
