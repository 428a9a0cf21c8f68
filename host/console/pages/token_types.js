// The types that a token may have, from the server's description of itself.

import { holder, load } from "../state.js";

/** A form waits for them: what takes longer counts as not answered. */
const PATIENCE_MS = 30_000;

const held = holder(() => ({}));

/** Reads them, unless they were read. */
export function readTypes() {
  if (held.types?.value || held.types?.loading) return undefined;
  return load(held, "types", async () => {
    const own = { credentials: "omit", signal: AbortSignal.timeout(PATIENCE_MS) };
    const answer = await fetch("/openapi.json", own).catch(() => undefined);
    const names = (await answer?.json().catch(() => undefined))?.components?.schemas?.TokenType?.enum;
    if (Array.isArray(names)) return names;
    const detail = answer ? `The server answered ${answer.status} without its description.` : "The server cannot be reached.";
    throw Object.assign(new Error(), { problem: { title: "No answer", detail, errors: {} } });
  });
}

/** Where the reading stands. */
export function types() {
  return held.types;
}

/** The names of all types; none until the description has come. */
export function knownTypes() {
  return held.types?.value ?? [];
}
