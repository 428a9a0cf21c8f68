// Applications: who holds keys, and what the keys may see.

import { ask, may, renewKey, withQuery } from "../api.js";
import { rulesOf, seen } from "../access.js";
import { forgetIssued, issued, issuedFor, keep, make, unkeptOf } from "../issued.js";
import { marked, sharedNames } from "../format.js";
import { html, nothing } from "../lit.js";
import { act, badge, confirm, copyable, empty, facts, lacking, named, pager, shown, table, time } from "../parts.js";
import { preview } from "../preview.js";
import { notify, said } from "../notices.js";
import { unlessChanged } from "../saving.js";
import { holder, load, loadPage, now, tell, viewOf } from "../state.js";
import { MEMBERS, applicationForm, leaveForm, open as openForm, readApplication, refreshForm, unkeptForm } from "./application_form.js";

export const title = "Applications";

/** Which view it is was read from the address, and with no key. */
const held = holder(() => ({ page: 1, view: "list", preview: {} }), { keeps: ({ view, id }) => (["new", "edit"].includes(view) ? { view, id } : {}) });

const address = ({ id }) => `#/applications/of/${id}`;

/** The rest of the address is nothing, `new`, or `of` or `edit` and an id. */
export function open([what, id]) {
  held.view = viewOf(what, id);
  Object.assign(held, { id, one: undefined, preview: {} });
  if (held.view === "new") openForm(undefined, { made: keep, done: shownOnce, leads: address });
  if (may("application:read")) return read();
}

function read() {
  if (held.view === "list") return list(held.page);
  return held.id ? find(held.id) : undefined;
}

/** What is written in a form stays. */
export function refresh() {
  const isForm = held.view === "new" || (held.view === "edit" && held.one?.value);
  if (isForm) return refreshForm();
  return may("application:read") ? read() : undefined;
}

function list(page) {
  return loadPage(held, page, (number) => ask("application:read", "GET", withQuery("/applications", { page: number })));
}

async function find(id) {
  const application = await load(held, "one", () => readApplication(id), () => find(id));
  if (application && held.view === "edit") openForm(application, { done: changed, leads: address });
}

function shownOnce(application) {
  if (application.key) tell("Application made; its key is shown this once", { leads: true });
  location.hash = address(application);
}

function changed(application) {
  tell("Application changed", { leads: true });
  location.hash = address(application);
}

/** The key that was made of the application that is shown, if one was. */
function shownKey() {
  return held.view === "of" ? issuedFor(held.id) : undefined;
}

/** The key that is shown, if nobody has copied it yet, or what is written. */
export function unkept() {
  const isForm = held.view === "new" || held.view === "edit";
  if (isForm) return unkeptForm();
  return held.view === "of" ? unkeptOf(held.id) : undefined;
}

/** What was written is not left behind. */
export function close() {
  leaveForm();
}

export function view() {
  if (held.view === "new") return html`${back()}<h1 tabindex="-1">New application</h1>${may("application:create") ? applicationForm() : lacking("application:create")}`;
  if (held.view === "of") return about();
  if (!may("application:read")) return html`<h1 tabindex="-1">${title}</h1>${lacking("application:read")}`;
  if (held.view === "edit") return html`${back()}<h1 tabindex="-1">Change application</h1>${may("application:update") ? shown(held.one, applicationForm) : lacking("application:update")}`;
  return html`<div class="row">
      <h1 tabindex="-1">${title}</h1>
      ${may("application:create") ? html`<a class="button end grow-none" href="#/applications/new">New application</a>` : nothing}
    </div>
    ${shown(held.list, ({ data, pagination }) => (data.length === 0 ? none() : listed(data, pagination)))}`;
}

/** The key that was just made waits for no reading: nobody can ask for it again. */
function about() {
  const mayRead = may("application:read");
  const { value, problem } = (mayRead && held.one) || {};
  // What is not there yet may still say its name.
  const name = value?.name ?? shownKey()?.name ?? (problem || !mayRead ? "Application" : undefined);
  return html`${back()}
    ${name === undefined ? nothing : html`<div class="row"><h1 tabindex="-1">${marked(name)}</h1>${value ? badge(value.type) : nothing}</div>`}
    ${issued(held.id)} ${mayRead ? shown(held.one, one) : lacking("application:read")}`;
}

function none() {
  return empty(
    "No applications.",
    may("application:create")
      ? html`<p><a href="#/applications/new">Make one</a>: its key is what other programs use the vault with.</p>`
      : html`<p><a href="#/keys">Add a key</a> that holds <code>application:create</code> to make one.</p>`,
  );
}

function back() {
  return html`<p class="back"><a href="#/applications">Applications</a></p>`;
}

function listed(data, pagination) {
  const shared = sharedNames(data);
  const row = (application) => [
    html`<a class="name" href="#/applications/of/${application.id}">${named(application, shared)}</a>`,
    badge(application.type),
    application.permissions.length > 0 ? html`<span class="small">${application.permissions.join(", ")}</span>` : "–",
    application.rules.length > 0 ? html`<div class="small pairs">${application.rules.map((rule) => html`<div><code>${rule.container}</code> ${seen(rule)}</div>`)}</div>` : "–",
    time(application.created_at),
  ];
  return html`${table("Applications, newest first", ["Name", "Type", "Permissions", "Rules", "Made"], data.map(row))}
    ${pager(pagination, "application", list)}`;
}

function one(application) {
  const erase = async () => {
    const visit = now();
    await ask("application:delete", "DELETE", `/applications/${application.id}`);
    // Its key opens nothing any more: nobody is asked about it.
    forgetIssued(application.id);
    tell("Application deleted", { leads: visit.isHere() });
    if (visit.isHere()) location.hash = "#/applications";
  };
  const unchanged = (isAsked) => unlessChanged({ seen: application, read: () => readApplication(application.id), members: MEMBERS, erase }, isAsked);
  const remove = () => confirm("Delete this application?", html`The key of “<bdi>${marked(application.name)}</bdi>” opens nothing from then on.`, "Delete", unchanged);
  const issue = async () => {
    const visit = now();
    const answer = await make(application.name, () => ask("application:update", "POST", `/applications/${application.id}/regenerate`));
    // Perhaps it ends the key that it was asked for with.
    if (visit.isOurs() && answer.key) renewKey(answer);
    keep({ ...answer, name: application.name }, visit);
    if (!visit.isKnown() || !answer.key) return;
    // It is not to be seen on the page of another one.
    if (visit.isHere()) tell("A new key is made, and shown this once");
    else notify({ title: said`A new key of ${application.name} is made.`, text: "You had gone on before: it is shown once, on its page.", leads: address(application) });
  };
  const regenerate = () =>
    confirm("Make a new key?", html`The key that “<bdi>${marked(application.name)}</bdi>” has now ends at once.`, "New key", issue, {
      after: () => document.getElementById("issued")?.focus(),
    });
  return html`<section class="card" aria-label="About">
      ${facts([
        ["Id", copyable(application.id, "id")],
        ["Made", act(application.created_at, application.created_by)],
        application.modified_at && ["Changed", act(application.modified_at, application.modified_by)],
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

function rules(application) {
  const management = application.type === "management";
  const row = (rule) => [
    rule.implied ? "Permissions, last" : String(rule.priority),
    rule.description ? html`<span class="name">${rule.description}</span>` : "–",
    management ? "–" : html`<code>${rule.container ?? "by conditions"}</code>`,
    management ? "–" : badge(seen(rule)),
    rule.permissions.map((name) => html`<code class="permission">${name}</code> `),
  ];
  return table("Rules in the order in which they decide", ["Priority", "Description", "Container", "Sees data as", "Grants"], rulesOf(application).map(row));
}
