// Rights that change while the console is open. They are read anew as each page opens or is read again, and before tokens
// are listed: what may be asked for, and what counts as plaintext, depends on them.

import { changedRights } from "./access.js";
import { readKeysAgain } from "./api.js";
import { notify, said } from "./notices.js";

/** Reads them anew, and says what is different. */
export async function readRights() {
  const found = await readKeysAgain();
  if (found.length > 0) notify(...found.map(notice));
}

function notice({ key, before, ended }) {
  if (ended) return { title: said`The key of ${key.name} opens nothing any more.`, text: "It was revoked, replaced or has ended, and is forgotten here." };
  const { gained, lost } = changedRights(before, key.application);
  const lists = [["New", gained], ["No more", lost]].filter(([, rights]) => rights.length > 0);
  return { title: said`What ${key.name} may do has changed.`, text: lists.length === 0 ? "Its rules decide in another order." : "", lists };
}
