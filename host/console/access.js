// Which rule of an application decides, as the server does it (the server's answer is what counts; this is a preview).
//
// Rules come first, by priority; `permissions` act as one more rule on `/`, last, which masks. The rule that decides is
// the first that grants the permission and covers the token.

/** Rights on tokens, in the order in which they are shown. */
export const TOKEN_RIGHTS = ["token:read", "token:search", "token:create", "token:update", "token:delete", "token:use"];

/** What needs a rule for every container of a token; for the rest one container is enough. */
const NEEDS_EVERY = ["token:create", "token:use"];

/** An application's rules in the order in which they are asked, its permissions as the last of them. */
export function rulesOf(application) {
  const rules = [...(application.rules ?? [])].sort((a, b) => a.priority - b.priority);
  const permissions = application.permissions ?? [];
  if (permissions.length > 0) {
    rules.push({ implied: true, container: "/", transform: "mask", permissions });
  }
  return rules;
}

/** Whether any rule grants this at all. */
export function grants(application, permission) {
  return rulesOf(application).some((rule) => rule.permissions.includes(permission));
}

/** Whether a rule's container is this one or an ancestor of it. One that is not written yet covers nothing. */
export function covers(container, place) {
  const written = (container ?? "").trim() !== "";
  return written && asContainer(place).startsWith(asContainer(container));
}

/** The rule that decides about a token in these containers; `null` if it is refused. */
export function decide(application, permission, containers) {
  const rules = rulesOf(application).filter((rule) => rule.permissions.includes(permission));
  const first = (places) => rules.find((rule) => places.some((place) => covers(rule.container, place))) ?? null;
  if (!NEEDS_EVERY.includes(permission)) return first(containers);
  const each = containers.map((place) => first([place]));
  return each.includes(null) ? null : (each[0] ?? null);
}

/** What a reader sees of `data`, in words. */
export function seen(rule) {
  if (!rule) return "refused";
  return { reveal: "plaintext", mask: "masked", redact: "nothing" }[rule.transform] ?? rule.transform;
}

/** A container as it is written: with a slash at both ends, in lower case. */
export function asContainer(text) {
  const inner = text.trim().toLowerCase().replace(/^\/+|\/+$/g, "");
  return inner === "" ? "/" : `/${inner}/`;
}
