// Choosing one of many: all that there are, up to a limit, and a filter where they are more than a list is good for.

import { ask, withQuery } from "./api.js";
import { selectField, textField } from "./fields.js";
import { brief, count, sharedNames } from "./format.js";
import { html, nothing } from "./lit.js";
import { keepFocus, problemBox } from "./parts.js";
import { load, redraw } from "./state.js";

const PAGE = 100;
const MAX = 1000;
/** More than these are filtered. */
const FEW = 20;
const ID = /^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Reads the entries of a list, page after page, into `held[name]`: `{ data, total }`. */
export function loadChoices(held, name, permission, path) {
  return load(held, name, async () => {
    const found = new Map();
    let total = 0;
    for (let page = 1; page <= MAX / PAGE; page += 1) {
      const { data, pagination } = await ask(permission, "GET", withQuery(path, { size: PAGE, page }));
      // What is made meanwhile pushes others on to the next page.
      for (const one of data) found.set(one.id, one);
      total = pagination.total_items;
      if (page >= pagination.total_pages) break;
    }
    return { data: [...found.values()], total, permission, path };
  });
}

/**
 * A choice among them, kept as an id in `held[name]`. `lists` holds what `loadChoices` read as `lists[from]`, and what is
 * typed. `settings` are those of a choice, and `none`, the text for no choice, `own`, an entry that stays a choice whether it
 * was read or not, `text(entry)`, and `fits(entry)`.
 */
export function choiceField(label, held, name, { lists, from }, settings) {
  const { none, own, text = (one) => one.name, fits = () => true } = settings;
  const list = lists[from]?.value;
  const typed = `${from}_typed`;
  const wanted = (lists[typed] ?? "").trim().toLowerCase();
  const read = (list?.data ?? []).filter(fits);
  const able = own && !read.some((one) => one.id === own.id) ? [own, ...read] : read;
  const shared = sharedNames(able, text);
  // Equal names are told apart by what the id ends with.
  const named = (one) => (shared.has(text(one)) ? `${text(one)} ${brief(one.id)}` : text(one));
  const few = able.length <= FEW && !isCut(list);
  const shown = able.filter((one) => one.id === held[name] || few || one.id === wanted || named(one).toLowerCase().includes(wanted));
  // What is chosen stays in sight, whatever was read since.
  const unread = held[name] && !able.some((one) => one.id === held[name]) ? [[held[name], held[name]]] : [];
  const choice = selectField(label, held, name, [["", none], ...unread, ...shown.map((one) => [one.id, named(one)])], settings);
  if (few) return choice;
  const known = able.some((one) => one.id === wanted);
  const byId = isCut(list) && ID.test(wanted) && !known ? () => keepFocus(add(lists, from, wanted), () => controlOf(label)) : undefined;
  // Enter in a filter is no wish to save.
  const stay = (event) => {
    if (event.key === "Enter" && event.target.tagName === "INPUT") event.preventDefault();
  };
  return html`<div class="columns" @keydown=${stay}>
      ${textField(`Filter of “${label}”`, lists, typed, { hint: told(list, shown.length, able.length) })} ${choice}
    </div>
    ${byId ? html`<div class="row"><button type="button" class="quiet" @click=${byId}>Offer the one of this id</button></div>` : nothing}
    ${problemBox(lists[`${from}_added`]?.problem)}`;
}

function controlOf(label) {
  return [...document.querySelectorAll("main label")].find((one) => one.textContent === label)?.control;
}

function isCut(list) {
  return list !== undefined && list.total > list.data.length;
}

function told(list, shown, able) {
  const offered = `${count(shown)} of ${count(able)} offered.`;
  if (!isCut(list)) return `Part of a name. ${offered}`;
  return `Part of a name, or a whole id. ${offered} There are ${count(list.total)}: only the first ${count(list.data.length)} were read, and others are found by their id.`;
}

/** Reads one that the list was cut off before. */
async function add(lists, from, id) {
  const list = lists[from].value;
  const one = await load(lists, `${from}_added`, () => ask(list.permission, "GET", `${list.path}/${id}`));
  if (one) list.data = [one, ...list.data];
  redraw();
}
