// Another key for who is at work on something: asked for above the page, which stays as it is.

import { addKey, isOfKey } from "./api.js";
import { html, nothing } from "./lit.js";
import { confirm, keepFocus, problemBox } from "./parts.js";
import { tell } from "./state.js";

let added = () => {};

/** Says what follows when a key was added here: what is shown is read anew. */
export function onKeyAdded(how) {
  added = how;
}

/** Takes the key out of its field at once: it is to be in one place only. */
export function takeKey(within) {
  const input = within.querySelector("input");
  const text = input.value;
  input.value = "";
  return text;
}

/** What was wrong with what a form sent. Where the key that it was sent with has ended, another one can be added from there. */
export function formProblem(problem) {
  const way = html`<p><button type="button" @click=${askForKey}>Add another key</button> What is written here stays.</p>`;
  return problemBox(problem, nothing, undefined, isOfKey(problem) ? way : nothing);
}

/** Asks for a key, and goes on with what is written. */
export function askForKey() {
  const add = async () => {
    const dialog = document.querySelector("dialog");
    try {
      const key = await addKey(takeKey(dialog));
      if (key) tell(`Signed in as ${key.name}`);
    } catch (refusal) {
      dialog.querySelector("input")?.focus();
      throw refusal;
    }
  };
  const enter = (event) => {
    if (event.key !== "Enter") return;
    event.preventDefault();
    event.target.closest("dialog").querySelector("button.main").click();
  };
  // Without a name, so that no form would send it. Drawn once, and so not by the fields of the page, which are counted.
  const text = html`<p>What is written on this page stays. A key of this tab that opens nothing any more is forgotten.</p>
    <div class="field"><label for="added-key">API key</label>
      <input id="added-key" type="password" autofocus autocomplete="off" placeholder="key_…" @keydown=${enter} /></div>`;
  const after = () => keepFocus(added(), () => document.querySelector("main form [type=submit]"));
  confirm("Add another key", text, "Add", add, { after, harmless: true });
}
