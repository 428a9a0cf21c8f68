// Completion of search queries: what may stand where the caret is. Pure; the server alone decides what is valid.

const FIELDS = [
  ["id:", "the token's id"],
  ["type:", "the token's type"],
  ["container:", "a container, quoted; with a trailing * those below it too"],
  ["metadata.", "a key of the metadata"],
  ["data:", "a value that a search index made of the data"],
  ["fingerprint:", "same contents, same fingerprint"],
  ["created_at:", "a day, or a range"],
  ["modified_at:", "a day, or a range"],
  ["created_by:", "id of an application or a session"],
  ["modified_by:", "id of an application or a session"],
];
const OPERATORS = [
  ["AND ", "both"],
  ["OR ", "one of them"],
];
const BEFORE_TERM = [
  ["NOT ", "not what follows"],
  ["(", "a group"],
];

/** The pieces before the caret: words, quoted texts, ranges and parentheses, and whether the last one is still open. */
function pieces(text) {
  const found = [];
  let at = 0;
  while (at < text.length) {
    if (/\s/.test(text[at])) {
      at += 1;
      continue;
    }
    const start = at;
    if ("()".includes(text[at])) {
      at += 1;
    } else {
      let closing = "";
      while (at < text.length && (closing !== "" || !/[\s()]/.test(text[at]))) {
        const one = text[at];
        if (one === "\\") at += 1;
        else if (closing === "" && one === '"') closing = '"';
        else if (closing === "" && "[{".includes(one)) closing = "range";
        else if (one === closing || (closing === "range" && "]}".includes(one))) closing = "";
        at += 1;
      }
    }
    found.push({ start, text: text.slice(start, at) });
  }
  return found;
}

/** Whether after these pieces a term or a group must come. */
function wantsTerm(before) {
  const last = before.at(-1)?.text;
  return last === undefined || ["AND", "OR", "NOT", "!", "-", "("].includes(last);
}

/**
 * What could be written at the caret. `known` holds `types`, `containers` and `keys` (of metadata) to offer.
 * Gives `{ from, to, options }`: each option is `{ text, hint }` and takes the place of what stands from `from` to `to`.
 */
export function complete(text, caret, known) {
  const before = pieces(text.slice(0, caret));
  const piece = before.at(-1);
  // A space that is quoted or behind a backslash ends nothing.
  const typing = piece !== undefined && piece.start + piece.text.length === caret && !"()".includes(piece.text);
  const last = typing ? before.pop() : undefined;
  const from = last?.start ?? caret;
  const begun = last?.text ?? "";
  const to = last ? endOf(text, last.start, caret) : caret;
  if (!wantsTerm(before)) return { from, to, options: matching(OPERATORS, begun) };
  // `-` and `!` may stand right before a term.
  const sign = /^[!-]*/.exec(begun)[0];
  const term = begun.slice(sign.length);
  const values = valuesOf(term, known);
  const options = values ?? [...FIELDS, ...(sign === "" ? BEFORE_TERM : [])];
  return { from: from + sign.length, to, options: matching(options, term) };
}

/** Where what begins at `start` ends, at the caret or behind it. A quote that is not closed yet takes no other term with it. */
function endOf(text, start, caret) {
  const whole = pieces(text).find((one) => one.start === start)?.text ?? "";
  const rest = text.slice(caret, start + whole.length);
  const other = rest.search(/\s(?:AND|OR)\s/);
  return caret + (other < 0 ? rest.length : other);
}

/** Values of the field that a term begins with; `undefined` while the field is not complete. */
function valuesOf(term, known) {
  const quoted = (value) => (/^[\w.@-]+$/.test(value) ? value : quote(value));
  if (term.startsWith("metadata.")) return known.keys.map((key) => [`metadata.${escaped(key)}:`, "metadata"]);
  const colon = term.indexOf(":");
  if (colon < 0) return undefined;
  const field = term.slice(0, colon);
  if (field === "type") return known.types.map((type) => [`type:${type} `, "type"]);
  if (field === "container") {
    const below = (place) => [`container:${quote(`${place}*`)} `, "and below"];
    return placesOf(known.containers).flatMap((place) => (known.containers.includes(place) ? [[`container:${quoted(place)} `, "this one"], below(place)] : [below(place)]));
  }
  if (field === "created_at" || field === "modified_at") return times(field);
  return [];
}

/** Containers with those that they lie in, each before what lies in it. Everything lies in the root. */
function placesOf(containers) {
  const above = (place) => [...place.matchAll(/(?<=.)\//g)].map(({ index }) => place.slice(0, index + 1));
  return [...new Set([...containers, ...containers.flatMap(above)])].sort();
}

function times(field) {
  const day = (back) => new Date(Date.now() - back * 86_400_000).toISOString().slice(0, 10);
  return [
    [`${field}:${day(0)} `, "today, UTC"],
    [`${field}:[${day(7)} TO *] `, "the last seven days"],
    [`${field}:[${day(30)} TO *] `, "the last thirty days"],
  ];
}

/** The options that go on as it is begun. Whoever writes a value without its quote is offered it with one. */
function matching(options, begun) {
  const bare = (text) => text.toLowerCase().replace(/^(\w+:)"/, "$1");
  const wanted = bare(begun);
  return options
    .filter(([text]) => bare(text).startsWith(wanted) && text.trim() !== begun)
    .slice(0, 12)
    .map(([text, hint]) => ({ text, hint }));
}

/** A key as it stands in the name of a field. */
function escaped(key) {
  return key.replace(/[\s:"\\()[\]{}]/g, "\\$&");
}

/** A value as a query quotes it. */
export function quote(value) {
  return `"${value.replace(/["\\]/g, "\\$&")}"`;
}
