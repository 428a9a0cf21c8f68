// Signing in: a key, and what it may do.

import { addKey, session } from "../api.js";
import { field, form, submitButton } from "../fields.js";
import { allIssued } from "../issued.js";
import { html, nothing } from "../lit.js";
import { takeKey } from "../new_key.js";
import { problemBox } from "../parts.js";
import { holder, load, now, tell } from "../state.js";

export const title = "Sign in";

const held = holder(() => ({}));

/** The form that takes a key. */
export function keyForm(state, label, action, done = () => {}) {
  const submit = async () => {
    const text = takeKey(document.getElementById("key-form"));
    const visit = now();
    const key = await load(state, "adding", () => addKey(text));
    // Who has signed out meanwhile is at another form.
    if (!visit.isOurs()) return;
    if (key) {
      tell(`Signed in as ${key.name}`, { leads: session.keys.length === 1 });
      done(key);
    } else {
      document.querySelector("#key-form input")?.focus();
    }
  };
  // A password field, so that nobody reads over a shoulder; without a name, so that no form would send it.
  const problem = state.adding?.problem;
  const input = (id) => html`<input id=${id} type="password" required autocomplete="off" placeholder="key_…"
    aria-describedby=${problem ? "key-fault" : nothing} aria-invalid=${problem?.status === 401 || problem?.isOtherKey ? "true" : nothing} />`;
  return html`<div id="key-form">
    ${form(submit, html`${field(label, input)} ${problemBox(problem, "key-fault")} ${submitButton(action, state.adding)}`, label)}
  </div>`;
}

/** `drop` forgets what is written on the page that was open when the last key ended, if something is. */
export function view(drop) {
  const waiting = html`<p class="small"><strong>What you wrote is kept in this tab</strong>, and is there again once you sign in.
    <button type="button" class="quiet small" @click=${drop}>Drop it</button></p>`;
  // Those that were made with a key that has ended since.
  return html`${allIssued()}<section class="card narrow">
    <h1 tabindex="-1">Sign in</h1>
    <p>With the key of an application. More keys can be added later: a management key sees applications, reactors and the
      audit log, a private key sees tokens and runs reactors.</p>
    ${keyForm(held, "API key", "Sign in")} ${drop ? waiting : nothing}
    <p class="small">Keys stay in the memory of this tab. They are not stored and in no address; closing or reloading the tab
      forgets them.</p>
  </section>`;
}
