// Where a text stops being JSON. Browsers say it each in their own way, and some quote what stands there, which may be sensitive.
// Pure.

const SPACE = /[ \t\n\r]*/y;
const QUOTE = /"/y;
/** One after the other: a browser has no room for all of a long text in one step. */
const PIECE = /[^"\\\u0000-\u001f]+|\\(?:["\\/bfnrt]|u[0-9a-f]{4})/iy;
const COLON = /:/y;
const COMMA = /,/y;
const OPENING = /[[{]/y;
const OTHER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null/y;

/** Where what stands there cannot go on, as `{ line, column, isEnd }`, counted from one; `undefined` where all of it is JSON. */
export function faultIn(text) {
  const at = readable(text);
  if (at === undefined) return undefined;
  const before = text.slice(0, at).split("\n");
  return { line: before.length, column: [...before.at(-1)].length + 1, isEnd: at === text.length };
}

/** How many characters begin some JSON; `undefined` if all of them are one. */
function readable(text) {
  /** What closes what is open, the innermost last. */
  const closing = [];
  let at = 0;
  let wanted = "value";
  const take = (pattern) => {
    pattern.lastIndex = at;
    const found = pattern.exec(text)?.[0];
    at += found?.length ?? 0;
    return found;
  };
  const takeText = () => {
    if (take(QUOTE) === undefined) return false;
    while (take(PIECE) !== undefined);
    return take(QUOTE) !== undefined;
  };
  const close = () => {
    const isClosed = closing.length > 0 && text[at] === closing.at(-1);
    if (isClosed) at += 1;
    return isClosed && closing.pop() !== undefined;
  };
  for (let isFirst = false; ; ) {
    take(SPACE);
    if (wanted === "more") {
      if (closing.length === 0) return at === text.length ? undefined : at;
      if (close()) continue;
      if (take(COMMA) === undefined) return at;
      wanted = closing.at(-1) === "}" ? "name" : "value";
    } else if (isFirst && close()) {
      wanted = "more";
      isFirst = false;
    } else if (wanted === "name") {
      if (!takeText()) return at;
      take(SPACE);
      if (take(COLON) === undefined) return at;
      [wanted, isFirst] = ["value", false];
    } else {
      const opened = take(OPENING);
      if (opened === undefined) {
        if (!(text[at] === '"' ? takeText() : take(OTHER))) return at;
        [wanted, isFirst] = ["more", false];
      } else {
        closing.push(opened === "{" ? "}" : "]");
        [wanted, isFirst] = [opened === "{" ? "name" : "value", true];
      }
    }
  }
}
