// The types that a token may have, from the server's description of itself.

import { holder, load } from "../state.js";

const held = holder(() => ({}));

/** The names of all types; none until the description has come. */
export function knownTypes() {
  if (!held.types) {
    load(held, "types", async () => {
      const answer = await fetch("/openapi.json", { credentials: "omit" });
      return (await answer.json()).components.schemas.TokenType.enum;
    });
  }
  return held.types.value ?? [];
}
