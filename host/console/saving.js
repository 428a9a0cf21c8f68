// Writing what a form holds, and deleting. The interface has no preconditions: right before a record is written or deleted it
// is read anew, and where others have changed it since the page began with it, a person decides.
//
// The members that count are lists of `{ title, of, text }`: `of` takes the value out of a record or out of what is to be
// written, and `text` makes of such a value what is shown of it, perhaps also of its record and of what the value was before;
// without one it is shown as it is.

import { pretty } from "./format.js";
import { html, nothing } from "./lit.js";
import { same } from "./merge_patch.js";
import { notify, said } from "./notices.js";
import { formProblem } from "./new_key.js";
import { askNoMore, prose, table, time, who } from "./parts.js";
import { load, now, problemOf, redraw, tell } from "./state.js";

const CHANGED = "Somebody changed this since you opened it.";

/**
 * Does `work` and keeps where it stands in `held.sent`. `done` gets the answer if its page is still looked at. Whoever went on
 * stays where they are, and is told how it ended: of `what`, which may be `said`, and where it is, `leads(answer)`. Where a key
 * ended meanwhile, `anew(answer)` begins with what is saved.
 */
export async function save(held, what, work, { done, leads, anew }) {
  const visit = now();
  let answer;
  let problem;
  const sending = load(held, "sent", async () => {
    try {
      return (answer = await work());
    } catch (error) {
      problem = problemOf(error);
      throw error;
    }
  });
  const { sent } = held;
  await sending;
  // Whoever was asked meanwhile whether to leave was asked about what is over.
  if (visit.isHere()) await askNoMore();
  if (!visit.isOurs()) return;
  // Whoever has gone on may be at another form of this kind.
  if (!visit.isKnown() && !problem && held.sent === sent) {
    held.sent = undefined;
    anew(answer);
  }
  // Without an answer nobody knows.
  const failed = problem?.isLost ? said`${what} may have been saved` : said`${what} is not saved`;
  if (visit.isHere()) return problem ? tell(failed.text) : done(answer);
  const text = visit.isKnown() ? "You had gone on before that was known." : "A key had ended before that was known.";
  notify(problem ? { title: said`${failed}.`, text: html`${prose(problem.detail)} ${text}` } : { title: said`${what} is saved.`, text, leads: leads(answer) });
}

/** What would be lost of a form that is half filled, or perhaps of one that is being sent; nothing of one that was. */
export function unsent(sent, isWritten, letGo) {
  if (!isWritten) return undefined;
  if (sent?.loading) {
    return { title: "Leave while it is being saved?", text: "What is written in this form is being saved. If that is refused, it is nowhere else, and is lost.", letGo };
  }
  if (sent?.value !== undefined) return undefined;
  return { title: "Leave what is not saved?", text: "What is written in this form is nowhere else, and is lost.", letGo };
}

/** What stays of the sending of a form when what was read is forgotten: that it is under way. */
export function stillSent(sent) {
  return sent?.loading ? sent : undefined;
}

/**
 * Reads the record of a form anew. `work` gives it where the form is to begin with it again, and refuses what is told where
 * `notSaved` stands. Not kept in `held.sent` meanwhile: what is only read is no less unsaved for it.
 */
export async function reread(held, work) {
  const { draft, sent } = held;
  // What is being saved says itself how it went.
  if (sent?.loading) return undefined;
  const found = await load(held, "reread", work);
  if (held.draft !== draft || held.sent !== sent) return undefined;
  held.sent = { problem: held.reread?.problem };
  redraw();
  return found;
}

/** The members in which a record is not what it was, without those that are to be written as they are now. */
export function changesSince(before, after, yours, members) {
  return members.filter(({ of }) => !same(of(before), of(after)) && !(yours && same(of(after), of(yours))));
}

/** Writes if nobody has changed the record since it was `seen`; else refuses with what is different. `yours(record)` is what is to be there then. */
export async function overwrite({ seen, read, members, yours, write }) {
  const after = await read();
  refuseChanges(seen, after, yours(after), members);
  return write();
}

/** The refusal of that, if there is anything different. */
export function refuseChanges(seen, after, yours, members) {
  const found = changesSince(seen, after, yours, members);
  if (found.length === 0) return;
  const problem = { title: "Not saved", detail: CHANGED, errors: {}, changed: { seen, after, yours, found } };
  throw Object.assign(new Error(), { problem });
}

/**
 * What was wrong with what was sent. Where others have changed the record, `take(record)` goes on with theirs and
 * `over(record, members)` writes over it, in which these members are different.
 */
export function notSaved(sent, { take, over }) {
  const changed = sent?.problem?.changed;
  if (!changed) return formProblem(sent?.problem);
  const { seen, after, yours, found } = changed;
  const taken = () => {
    take(after);
    tell("What is there now is in the form");
    setTimeout(() => document.querySelector("h1")?.focus());
  };
  const written = () => {
    over(after, found);
    // The button goes with what it stands in.
    setTimeout(() => document.querySelector("main form [type=submit]")?.focus());
  };
  return html`<div class="problem" role="alert">
    <p><strong>${CHANGED}</strong></p>
    <p>Nothing of yours is saved yet.${after.modified_at ? html` The last change is of ${time(after.modified_at)}, by ${who(after.modified_by)}.` : nothing}</p>
    ${differences(found, [["When you opened it", seen], ["Now", after], ["Yours", yours]])}
    <div class="row">
      <button type="button" @click=${taken}>Drop mine and take theirs</button>
      <button type="button" class="danger" @click=${written}>Save mine over it</button>
    </div>
  </div>`;
}

function differences(found, columns) {
  const cell = ({ of, text }, record) => {
    const value = of(record);
    return value === undefined || value === null ? "–" : text ? text(value, record, of(columns[0][1])) : html`<pre class="value">${typeof value === "string" ? value : pretty(value)}</pre>`;
  };
  const heads = ["Member", ...columns.map(([head]) => head)];
  return table("What is different", heads, found.map((member) => [member.title, ...columns.map(([, record]) => cell(member, record))]));
}

/**
 * Does `erase` if nobody has changed the record since it was `seen`; else gives the question that is asked before. Nothing is
 * done once `isAsked` is false: the question was taken back while the record was read.
 */
export async function unlessChanged({ seen, read, members, erase }, isAsked) {
  const after = await read();
  if (!isAsked()) return undefined;
  const found = changesSince(seen, after, undefined, members);
  if (found.length === 0) return erase();
  return {
    title: CHANGED,
    text: html`<p>It is not deleted yet. What is different:</p>${differences(found, [["When you opened it", seen], ["Now", after]])}`,
    action: "Delete it as it is now",
    run: (isStillAsked) => unlessChanged({ seen: after, read, members, erase }, isStillAsked),
  };
}
