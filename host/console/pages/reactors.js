// Reactors: formulas with their configuration, to be run.

import { ask, may, segment, withQuery } from "../api.js";
import { form, submitButton, textField } from "../fields.js";
import { marked, markedText, pretty, sharedNames } from "../format.js";
import { html, nothing } from "../lit.js";
import { act, confirm, copyable, empty, facts, lacking, named, pager, shown, table, time } from "../parts.js";
import { unlessChanged } from "../saving.js";
import { holder, load, loadPage, now, tell, viewOf } from "../state.js";
import { MEMBERS, hidden, leaveForm, open as openForm, reactorForm, readReactor, refreshForm, unkeptForm } from "./reactor_form.js";
import { beginTrying, leaveTrial, tryReactor, unkeptTrial } from "./try_reactor.js";

export const title = "Reactors";

/** Which view it is was read from the address, and with no key. */
const held = holder(() => ({ page: 1, view: "list" }), { keeps: ({ view, id }) => (view === "list" ? {} : { view, id }) });

const ENDED = "an application that has ended";

const address = ({ id }) => `#/reactors/of/${id}`;

const ends = {
  leads: address,
  done: (reactor) => {
    tell("Reactor saved", { leads: true });
    location.hash = address(reactor);
  },
};

/** The rest of the address is nothing, `new` and perhaps a formula's id, or `of` or `edit` and a reactor's. */
export function open([what, id]) {
  held.view = viewOf(what, id);
  Object.assign(held, { id, one: undefined });
  if (held.view === "new") openForm(undefined, ends, id);
  else return read();
}

function read() {
  if (held.view !== "list") return find(held.id);
  return may("reactor:read") ? list(held.page) : undefined;
}

/** What is written in a form stays. */
export function refresh() {
  const isForm = held.view === "new" || (held.view === "edit" && held.one?.value);
  return isForm ? refreshForm() : read();
}

/** What is written of a reactor, or to run it with. */
export function unkept() {
  if (held.view === "of") return unkeptTrial();
  return held.view === "new" || held.view === "edit" ? unkeptForm() : undefined;
}

/** What was written is not left behind. */
export function close() {
  leaveForm();
  leaveTrial();
}

function list(page) {
  return loadPage(held, page, (number) => ask("reactor:read", "GET", withQuery("/reactors", { page: number })));
}

async function find(id) {
  beginTrying(id);
  if (!may("reactor:read")) return;
  const reactor = await load(held, "one", () => readReactor(id), () => find(id));
  if (!reactor) return;
  beginTrying(id, reactor.formula);
  if (held.view === "edit") openForm(reactor, ends);
}

export function view() {
  if (held.view === "new") return html`${back()}<h1 tabindex="-1">New reactor</h1>${may("reactor:create") ? reactorForm() : lacking("reactor:create")}`;
  if (held.view === "edit") return html`${back()}<h1 tabindex="-1">Change reactor</h1>${may("reactor:update") ? shown(held.one, reactorForm) : lacking("reactor:update")}`;
  if (held.view === "of") return html`${back()}${one()}`;
  return html`<div class="row">
      <h1 tabindex="-1">${title}</h1>
      ${may("reactor:create") ? html`<a class="button end grow-none" href="#/reactors/new">New reactor</a>` : nothing}
    </div>
    ${may("reactor:read") ? shown(held.list, ({ data, pagination }) => (data.length === 0 ? none() : listed(data, pagination))) : withoutList()}`;
}

function none() {
  return empty(
    "No reactors yet.",
    may("reactor:create")
      ? html`<p><a href="#/reactors/new">Make one</a> of a formula: it is what runs.</p>`
      : html`<p><a href="#/keys">Add a key</a> that holds <code>reactor:create</code> to make one.</p>`,
  );
}

function back() {
  return html`<p class="back"><a href="#/reactors">Reactors</a></p>`;
}

/** A key that may run reactors may not list them. */
function withoutList() {
  if (!may("token:use")) return lacking("reactor:read");
  const go = () => {
    location.hash = `#/reactors/of/${segment(held.wanted.trim())}`;
  };
  return html`<section class="card">
    <p>The key in this tab may run reactors and may not list them. Add a management key to see them, or name one:</p>
    ${form(go, html`${textField("Id of a reactor", held, "wanted", { required: true })} ${submitButton("Open")}`, "Open a reactor")}
  </section>`;
}

function listed(data, pagination) {
  const shared = sharedNames(data);
  const [formulas, applications] = ["formula", "application"].map((one) => sharedNames(data.map((reactor) => reactor[one]).filter(Boolean)));
  const row = (reactor) => [
    html`<a class="name" href="#/reactors/of/${reactor.id}">${named(reactor, shared)}</a>`,
    html`<a class="name" href="#/formulas/of/${reactor.formula.id}">${named(reactor.formula, formulas)}</a>`,
    reactor.application ? html`<span class="name">${named(reactor.application, applications)}</span>` : reactor.application_id ? ENDED : "–",
    time(reactor.created_at),
    html`<a href="#/invocations/${reactor.id}" aria-label=${markedText(`Runs of ${reactor.name}`)}>Runs</a>`,
  ];
  return html`${table("Reactors, newest first", ["Name", "Formula", "Acts as", "Made", "Runs"], data.map(row))}
    ${pager(pagination, "reactor", list)}`;
}

function one() {
  if (!may("reactor:read")) return html`<h1 tabindex="-1">Reactor <code>${marked(held.id)}</code></h1>${tryReactor()}`;
  // What cannot be read has a heading, too.
  const heading = held.one?.problem ? html`<h1 tabindex="-1">Reactor</h1>` : nothing;
  return html`${heading}${shown(held.one, (reactor) => html`<h1 tabindex="-1">${marked(reactor.name)}</h1>
    <section class="card" aria-label="About">
      ${facts([
        ["Id", copyable(reactor.id, "id")],
        ["Formula", html`<a href="#/formulas/of/${reactor.formula.id}">${marked(reactor.formula.name)}</a>`],
        ["Acts as", reactor.application ? marked(reactor.application.name) : (reactor.application_id ? html`${ENDED}: <code>${reactor.application_id}</code>` : "nobody")],
        ["Configuration", Object.keys(reactor.configuration).length > 0 ? html`<pre tabindex="0" role="region" aria-label="Configuration">${pretty(hidden(reactor.configuration))}</pre>` : "none"],
        ["Made", act(reactor.created_at, reactor.created_by)],
        reactor.modified_at && ["Changed", act(reactor.modified_at, reactor.modified_by)],
      ])}
      <div class="row">
        <a class="button" href="#/invocations/${reactor.id}">Runs and deliveries</a>
        ${may("reactor:update") ? html`<a class="button" href="#/reactors/edit/${reactor.id}">Change</a>` : nothing}
        ${may("reactor:delete") ? html`<button type="button" class="danger" @click=${() => remove(reactor)}>Delete</button>` : nothing}
      </div>
    </section>
    ${tryReactor()}`)}`;
}

function remove(reactor) {
  const erase = async () => {
    const visit = now();
    await ask("reactor:delete", "DELETE", `/reactors/${reactor.id}`);
    tell("Reactor deleted", { leads: visit.isHere() });
    if (!visit.isHere()) return;
    // What was to be run on it is of no more use: nobody is asked about it.
    unkeptTrial()?.letGo();
    location.hash = "#/reactors";
  };
  const unchanged = (isAsked) => unlessChanged({ seen: reactor, read: () => readReactor(reactor.id), members: MEMBERS, erase }, isAsked);
  confirm("Delete this reactor?", html`“<bdi>${marked(reactor.name)}</bdi>” cannot be run any more.`, "Delete", unchanged);
}
