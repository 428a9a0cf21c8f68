// The keys of this tab: whose they are and what they may do.

import { ask, dropKey, may, session } from "../api.js";
import { rulesOf, seen } from "../access.js";
import { marked, markedText } from "../format.js";
import { allIssued, allUnkept } from "../issued.js";
import { html, nothing } from "../lit.js";
import { badge, confirm, copyable, facts, lostTogether, problemBox, shown, table, time } from "../parts.js";
import { forgetAll, holder, load, tell } from "../state.js";
import { keyForm } from "./sign_in.js";

export const title = "Your access";

const held = holder(() => ({}));

export function open() {
  return refresh();
}

/** What is written for a key stays. */
export function refresh() {
  const permissions = load(held, "permissions", async () => {
    const all = await ask("", "GET", "/permissions", { key: session.keys[0] });
    return new Map(all.map((one) => [one.type, one.description]));
  });
  const own = may("tenant:read") ? load(held, "tenant", () => ask("tenant:read", "GET", "/tenants/self")) : undefined;
  return Promise.all([permissions, own]);
}

export function view() {
  return html`<h1 tabindex="-1">${title}</h1>
    ${allIssued()} ${tenant()} ${held.permissions?.problem
      ? html`<p class="small"><strong>What permissions allow could not be read.</strong></p>${problemBox(held.permissions.problem, nothing, held.permissions.again)}`
      : nothing}
    ${session.keys.map(keyCard)}
    <section class="card">
      <h2>Add a key</h2>
      <p>Each request is sent with a key of this tab that may do it. Where several may read tokens, one that shows them
        masked is taken, and a session last of all. Whom a reactor is run as is chosen on its page.</p>
      ${keyForm(held, "Another API key", "Add", open)}
    </section>`;
}

function tenant() {
  if (!held.tenant) return nothing;
  return shown(held.tenant, (own) => html`<p class="lead">Tenant <strong>${marked(own.name)}</strong></p>`);
}

function keyCard(key) {
  const { application } = key;
  const forget = () => {
    // Without the last key nobody is signed in.
    const isLast = session.keys.length === 1;
    const lost = isLast ? lostTogether(allUnkept()) : undefined;
    const done = () => {
      if (isLast) forgetAll();
      else dropKey(key);
      tell(`The key of ${key.name} is forgotten`);
      if (isLast) return;
      open();
      queueMicrotask(() => document.querySelector("h1")?.focus());
    };
    if (lost) confirm(lost.title, lost.text, "Leave", async () => lost.letGo(), { after: done });
    else done();
  };
  return html`<section class="card" aria-label=${markedText(key.name)}>
    <div class="row">
      <h2>${marked(key.name)}</h2>
      ${badge(key.type)}
      <div class="row end grow">
        <button type="button" class="quiet" aria-label=${markedText(`Forget this key, of ${key.name}`)} @click=${forget}>Forget this key</button>
      </div>
    </div>
    ${facts([
      ["Application", copyable(application.id, "application id")],
      // Those of a session are its own, which the server does not tell.
      !key.isSession && ["Made", time(application.created_at)],
      !key.isSession && application.expires_at && ["Ends", time(application.expires_at)],
    ])}
    ${key.isSession
      ? html`<p>A session has the rights it was authorized with, which the server does not tell. What it may not do is
          refused.</p>`
      : rights(application)}
  </section>`;
}

function rights(application) {
  const rows = rulesOf(application).map((rule) => [
    rule.implied ? "Permissions" : `Rule ${rule.priority}`,
    html`${rule.description ? html`<span class="name">${rule.description}</span><br />` : nothing}${rule.permissions.map(permission)}`,
    application.type === "management" ? "–" : html`<code>${rule.container ?? "by conditions"}</code>`,
    application.type === "management" ? "–" : seen(rule),
  ]);
  return table(`What ${application.name} may do`, ["From", "Grants", "Container", "Sees data as"], rows);
}

function permission(name) {
  const text = held.permissions?.value?.get(name);
  return html`<span class="permission" title=${text ?? nothing}><code>${name}</code></span> `;
}
