// Applications: who holds keys, and what the keys may see.

import { ask, may, segment, withQuery } from "../api.js";
import { rulesOf, seen } from "../access.js";
import { html, nothing } from "../lit.js";
import { badge, confirm, copyable, empty, facts, lacking, pager, shown, table, time } from "../parts.js";
import { preview } from "../preview.js";
import { holder, load, loadPage, redraw, tell } from "../state.js";
import { applicationForm, begin } from "./application_form.js";

export const title = "Applications";

const held = holder(() => ({ page: 1, view: "list", preview: {} }));

/** The rest of the address is nothing, `new`, or `of` or `edit` and an id. */
export function open([what, id]) {
  held.view = what === "new" ? "new" : id ? what : "list";
  if (held.id !== id) held.issued = undefined;
  Object.assign(held, { id, one: undefined, preview: {} });
  if (held.view === "new") begin(undefined, shownOnce);
  if (!may("application:read")) return;
  if (held.view === "list") list(held.page);
  if (id) find(id);
}

function list(page) {
  loadPage(held, page, (number) => ask("application:read", "GET", withQuery("/applications", { page: number })));
}

async function find(id) {
  const application = await load(held, "one", () => ask("application:read", "GET", `/applications/${segment(id)}`));
  if (application && held.view === "edit") begin(application, changed);
}

/** A key is in the answer of this one request and never again. */
function shownOnce(application) {
  held.issued = application.key;
  held.id = application.id;
  tell("Application made; its key is shown this once");
  location.hash = `#/applications/of/${application.id}`;
}

function changed(application) {
  tell("Application changed");
  location.hash = `#/applications/of/${application.id}`;
}

/** Leaving forgets a key that was shown. */
export function close() {
  if (held.view !== "new") held.issued = undefined;
}

export function view() {
  if (held.view === "new") return html`${back()}<h1 tabindex="-1">New application</h1>${may("application:create") ? applicationForm() : lacking("application:create")}`;
  if (!may("application:read")) return html`<h1 tabindex="-1">${title}</h1>${lacking("application:read")}`;
  if (held.view === "edit") return html`${back()}<h1 tabindex="-1">Change application</h1>${shown(held.one, applicationForm)}`;
  if (held.view === "of") return html`${back()}${shown(held.one, one)}`;
  return html`<div class="row">
      <h1 tabindex="-1">${title}</h1>
      ${may("application:create") ? html`<a class="button end grow-none" href="#/applications/new">New application</a>` : nothing}
    </div>
    ${shown(held.list, ({ data, pagination }) => (data.length === 0 ? empty("No applications.") : listed(data, pagination)))}`;
}

function back() {
  return html`<p class="back"><a href="#/applications">Applications</a></p>`;
}

function listed(data, pagination) {
  const row = (application) => [
    html`<a class="name" href="#/applications/of/${application.id}"><bdi>${application.name}</bdi></a>`,
    badge(application.type),
    application.permissions.length > 0 ? html`<span class="small">${application.permissions.join(", ")}</span>` : "–",
    application.rules.length > 0 ? html`<div class="small">${application.rules.map((rule) => html`<div><code>${rule.container}</code> ${seen(rule)}</div>`)}</div>` : "–",
    time(application.created_at),
  ];
  return html`${table("Applications, newest first", ["Name", "Type", "Permissions", "Rules", "Made"], data.map(row))}
    ${pager(pagination, "application", list)}`;
}

function one(application) {
  const remove = () =>
    confirm("Delete this application?", html`The key of “<bdi>${application.name}</bdi>” opens nothing from then on.`, "Delete", async () => {
      await ask("application:delete", "DELETE", `/applications/${application.id}`);
      tell("Application deleted");
      location.hash = "#/applications";
    });
  const issue = async () => {
    const { key } = await ask("application:update", "POST", `/applications/${application.id}/regenerate`);
    // It is not to be seen on the page of another one.
    if (held.id !== application.id) {
      tell(`A new key of ${application.name} is made, and not shown: its page was left`);
      return;
    }
    held.issued = key;
    redraw();
    tell("A new key is made, and shown this once");
  };
  const regenerate = () =>
    confirm("Make a new key?", html`The key that “<bdi>${application.name}</bdi>” has now ends at once.`, "New key", issue, () =>
      document.getElementById("issued")?.focus());
  return html`<div class="row"><h1 tabindex="-1">${application.name}</h1>${badge(application.type)}</div>
    ${issued()}
    <section class="card" aria-label="About">
      ${facts([
        ["Id", copyable(application.id, "id")],
        ["Made", time(application.created_at)],
        application.modified_at && ["Changed", time(application.modified_at)],
        application.expires_at && ["Ends", time(application.expires_at)],
      ])}
      <div class="row">
        ${may("application:update")
          ? html`<a class="button" href="#/applications/edit/${application.id}">Change</a>
              <button type="button" class="quiet" @click=${regenerate}>New key</button>`
          : nothing}
        ${may("application:delete") ? html`<button type="button" class="danger" @click=${remove}>Delete</button>` : nothing}
      </div>
    </section>
    <section class="card"><h2>Rules</h2>${rules(application)}</section>
    <section class="card"><h2>What may this key see?</h2>${preview(application, held.preview)}</section>`;
}

function issued() {
  if (!held.issued) return nothing;
  return html`<div class="good-news" id="issued" role="group" aria-label="The application's key" tabindex="-1">
    <p>The key, shown this once:</p>
    <p>${copyable(held.issued, "key")}</p>
  </div>`;
}

function rules(application) {
  const management = application.type === "management";
  const row = (rule) => [
    rule.implied ? "Permissions, last" : String(rule.priority),
    rule.description ?? "–",
    management ? "–" : html`<code>${rule.container ?? "by conditions"}</code>`,
    management ? "–" : badge(seen(rule)),
    rule.permissions.map((name) => html`<code class="permission">${name}</code> `),
  ];
  return table("Rules in the order in which they decide", ["Priority", "Description", "Container", "Sees data as", "Grants"], rulesOf(application).map(row));
}
