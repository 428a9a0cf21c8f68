// How values are written for people, and numbers read as they were written.

import { html } from "./lit.js";

/** One picture, of several characters, of which some alone would not be seen. */
const PICTURE = /\p{Extended_Pictographic}[\ufe0e\ufe0f]?\p{EMod}?(?:\u200d\p{Extended_Pictographic}\ufe0f?\p{EMod}?)*|[#*\d]\ufe0f\u20e3/u;
/** What leaves no mark where it is shown, or turns the order of what is around it. */
const UNSEEN = /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{DI}\u2800]/u;
const PICTURES_OR_UNSEEN = new RegExp(`(${PICTURE.source}|${UNSEEN.source})`, "u");

const PIECE_LENGTH = 2000;
const numbers = new Intl.NumberFormat("en");
// One zone for everybody, which is named: people in several look at the same record, and searches are by days of it.
const times = new Intl.DateTimeFormat("en-GB", { dateStyle: "medium", timeStyle: "medium", timeZone: "UTC" });

/** A whole number with its groups apart. */
export function count(value) {
  return numbers.format(value);
}

/** Several of a noun. */
export function plural(noun) {
  return noun.endsWith("y") ? `${noun.slice(0, -1)}ies` : `${noun}s`;
}

/** "1 token", "2 tokens". */
export function counted(value, noun) {
  return `${count(value)} ${value === 1 ? noun : plural(noun)}`;
}

/** A point in time, with its zone. */
export function utcTime(text) {
  const time = new Date(text);
  return Number.isNaN(time.getTime()) ? text : `${times.format(time)}\u00a0UTC`;
}

/** A point in time as a field for a date and time holds it, in UTC. */
export function forTimeField(text) {
  const at = new Date(text);
  const written = Number.isNaN(at.getTime()) ? "" : at.toISOString();
  // Such a field has no place for years of more digits.
  return /^\d{4}-/.test(written) ? written.slice(0, 19) : "";
}

/** What such a field holds, as the server reads it; `undefined` if it is empty. */
export function fromTimeField(text) {
  if (!text) return undefined;
  const at = new Date(`${text}Z`);
  return Number.isNaN(at.getTime()) ? text : at.toISOString();
}

/** A figure and its unit, which stay on one line. */
export function measured(figure, unit) {
  return `${figure}\u00a0${unit}`;
}

/** A number with three digits or so, however large it is. */
function digits(value) {
  return value >= 100 ? String(Math.round(value)) : value.toPrecision(3);
}

/** A duration in microseconds. */
export function duration(us) {
  if (us < 999.5) return measured(Math.round(us), "µs");
  if (us < 999_500) return measured(digits(us / 1000), "ms");
  return measured(digits(us / 1_000_000), "s");
}

/** A number of bytes. */
export function bytes(value) {
  if (value < 1024) return measured(value, "B");
  if (value < 1024 * 1024) return measured((value / 1024).toFixed(1), "KiB");
  return measured((value / 1024 / 1024).toFixed(1), "MiB");
}

/** A figure for an axis or a reading: short, but not a lie. */
export function short(value) {
  if (!Number.isFinite(value)) return "–";
  if (value === 0) return "0";
  if (value >= 999_500) return measured(digits(value / 1_000_000), "M");
  if (value >= 10_000) return measured(digits(value / 1000), "k");
  return value >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(3)));
}

/**
 * The value of a JSON text. A number that would be rounded stays the text that it was, so that it is shown and sent on as
 * it came; a browser that cannot keep it rounds it.
 */
export function jsonFrom(text) {
  if (!JSON.rawJSON) return JSON.parse(text);
  return JSON.parse(text, (_, value, { source }) =>
    (typeof value === "number" && !isExact(source) ? JSON.rawJSON(source) : value));
}

/** Numbers of a JSON text that this browser would send on as others. */
export function roundedIn(text) {
  if (JSON.rawJSON) return [];
  const [...found] = text.matchAll(/"(?:[^"\\]|\\.)*"|-?\d[\d.eE+-]*/g);
  return found.map(([part]) => part).filter((part) => !part.startsWith('"') && !isExact(part));
}

function isExact(source) {
  return decimal(source) === decimal(String(Number(source)));
}

/** A number's digits without the zeros around them, and the power of ten that they are of. */
function decimal(text) {
  const [, sign, whole, part = "", power = "0"] = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/i.exec(text) ?? [];
  if (whole === undefined) return undefined;
  const digits = (whole + part).replace(/^0+/, "");
  const short = digits.replace(/0+$/, "");
  return short === "" ? "0" : `${sign}${short}e${Number(power) - part.length + digits.length - short.length}`;
}

/** JSON over several lines. */
export function pretty(value) {
  return JSON.stringify(value, null, 2);
}

/** JSON in one line, cut off where it is long. */
export function compact(value, max = 120) {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length > max ? `${[...text.slice(0, 2 * max)].slice(0, max).join("")}…` : text;
}

/**
 * A name or an id with what nobody would see in it: two that look alike may be two, and one of nothing else would be no link.
 * What stands there stays what it is, so that it can be selected.
 */
export function marked(text) {
  if (!UNSEEN.test(text)) return text;
  return pieces(text).map((piece) => (isUnseen(piece) ? html`<span class="unseen" data-sign=${numbered(piece)}>${piece}</span>` : piece));
}

/** The same where there is place for nothing but text. */
export function markedText(text) {
  return UNSEEN.test(text) ? pieces(text).map((piece) => (isUnseen(piece) ? `[${numbered(piece)}]` : piece)).join("") : text;
}

function pieces(text) {
  return text.split(PICTURES_OR_UNSEEN).filter((piece) => piece !== "");
}

/** A picture has more than one character, and one of those may be unseen. */
function isUnseen(piece) {
  return [...piece].length === 1 && UNSEEN.test(piece);
}

function numbered(sign) {
  return `U+${sign.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}

/** A text in pieces of some thousand characters: to lay out a long one whole takes some browsers minutes, if it is not Latin. */
export function inPieces(text) {
  const pieces = [];
  for (let from = 0; from < text.length; ) {
    let to = from + PIECE_LENGTH;
    // None ends within a character.
    if (to < text.length && /[\udc00-\udfff]/.test(text[to])) to += 1;
    pieces.push(text.slice(from, to));
    from = to;
  }
  return pieces;
}

/** Names that several of these entries have, or texts: their ids tell them apart. */
export function sharedNames(entries, text = ({ name }) => name) {
  const ids = new Map();
  const shared = new Set();
  for (const one of entries) {
    const name = text(one);
    if (ids.has(name) && ids.get(name) !== one.id) shared.add(name);
    ids.set(name, one.id);
  }
  return shared;
}

/** The beginning of an id; the whole one is in the title. */
export function brief(id) {
  return id.length > 13 && /^[0-9a-f]{8}-/.test(id) ? `…${id.slice(-12)}` : id;
}
