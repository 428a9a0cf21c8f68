// What the page knows while it is open. Nothing of it is written anywhere: to close or reload the tab forgets it all.

import { markedText } from "./format.js";

const resets = [];
let draw = () => {};
let asked = false;
let pages = 0;
let keepers = 0;
let owners = 0;
let failures = null;
/** Whether what was told last leads to another page. */
let leading = false;

/** Says how the page is drawn. */
export function onRedraw(how) {
  draw = how;
}

/** Has the page drawn anew, once, when what runs now is done. */
export function redraw() {
  if (asked) return;
  asked = true;
  queueMicrotask(() => {
    asked = false;
    draw();
  });
}

/**
 * An object that a page keeps what it shows in. It is made anew when what was read is forgotten, or, if it `lasts`, by signing
 * out. `keeps(held)` gives what stays of it until then for all that: what a person wrote is nowhere else.
 */
export function holder(make, { lasts = false, keeps } = {}) {
  const held = make();
  const reset = (kept) => {
    for (const name of Object.keys(held)) delete held[name];
    Object.assign(held, make(), kept);
  };
  resets.push({ reset: () => reset({}), forget: lasts ? () => {} : () => reset(keeps?.(held)), isWritten: keeps !== undefined });
  return held;
}

/** Says that another page is asked for. */
export function goOn() {
  pages += 1;
}

/**
 * What says later whether the page of now is still looked at (`isHere`), whether what was known is still known (`isKnown`), and
 * whether nobody has signed out since (`isOurs`).
 */
export function now() {
  const [page, keeper, owner] = [pages, keepers, owners];
  return { isHere: () => pages === page && keepers === keeper, isKnown: () => keepers === keeper, isOurs: () => owners === owner };
}

/** Forgets everything, keys first of all. */
export function forgetAll() {
  owners += 1;
  forget(resets.map(({ reset }) => reset));
}

/** Forgets all that was read with the keys of this tab, and them. What was written stays. */
export function forgetRead() {
  forget(resets.map((one) => one.forget));
}

/** Forgets what was written, too: it is of no use to whoever comes next. */
export function forgetWritten() {
  forget(resets.filter(({ isWritten }) => isWritten).map(({ reset }) => reset));
}

function forget(ways) {
  keepers += 1;
  for (const way of ways) way();
  redraw();
}

/** Notes what could not be read, for whoever waits for it. */
export function noteFailure(problem) {
  failures?.push(problem);
}

/** Does `work`, and gives what could not be read meanwhile. */
export async function failuresDuring(work) {
  const mine = (failures = []);
  await work();
  if (failures === mine) failures = null;
  return mine;
}

/**
 * Does `work` and keeps where it stands in `held[name]`: `{ loading }`, then `{ value }` or `{ problem }`.
 * What is overtaken is dropped: by a later call for the same name, or by a page that has gone on and put something else
 * there. Gives the value, or `undefined` if it failed or was dropped. `again` is what whoever tries it again does, if that is
 * more than this.
 */
export async function load(held, name, work, again = () => load(held, name, work)) {
  const mine = { loading: true, value: held[name]?.value, again };
  held[name] = mine;
  redraw();
  try {
    mine.value = await work();
  } catch (error) {
    mine.problem = problemOf(error);
    mine.value = undefined;
    if (held[name] === mine) noteFailure(mine.problem);
  }
  mine.loading = false;
  redraw();
  return held[name] === mine ? mine.value : undefined;
}

/** What an error says of itself. */
export function problemOf(error) {
  return error.problem ?? { title: "The console failed", detail: String(error), errors: {} };
}

/**
 * Reads a page of a list into `held.list`, its number into `held.page`. `find` takes the number of a page. Where so many
 * entries went that there is no such page any more, the last one is read.
 */
export async function loadPage(held, page, find) {
  held.page = page;
  const found = await load(held, "list", () => existing(page, find), () => loadPage(held, page, find));
  if (found) held.page = Math.min(page, Math.max(found.pagination.total_pages, 1));
  return found;
}

async function existing(page, find) {
  const found = await find(page);
  const last = found.pagination.total_pages;
  return page > last && last >= 1 ? existing(last, find) : found;
}

/** What a page shows, by the rest of its address: its list, if that names nothing that it has. */
export function viewOf(what, id) {
  if (what === "new") return what;
  return id && ["of", "edit"].includes(what) ? what : "list";
}

/** Tells those who hear the page rather than see it. What is told of a page goes with it, but for what `leads` to the next one. */
export function tell(words, { leads = false } = {}) {
  const place = document.getElementById("told");
  const text = markedText(words);
  // The same words twice would not be read twice.
  place.textContent = place.textContent === text ? `${text} ` : text;
  leading = leads;
}

/** Says that another page is shown. */
export function tellNoMore() {
  if (!leading) document.getElementById("told").textContent = "";
  leading = false;
}
