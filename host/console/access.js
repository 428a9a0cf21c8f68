// Which rule of an application decides, as the server does it (the server's answer is what counts; this is a preview).
//
// Rules come first, by priority; `permissions` act as one more rule on `/`, last, which masks. The rule that decides is
// the first that grants the permission and covers the token.

/** Rights on tokens, in the order in which they are shown. */
export const TOKEN_RIGHTS = ["token:read", "token:search", "token:create", "token:update", "token:delete", "token:use"];

/** Rights whose answers hold data. */
export const SHOWS_DATA = ["token:read", "token:search", "token:create", "token:update"];

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
  return containers.every((place) => first([place])) ? first(containers) : null;
}

/** What a transform leaves of `data`, in words. */
const SEEN = { reveal: "plaintext", mask: "masked", redact: "nothing" };

/** What a reader sees of `data`, in words. */
export function seen(rule) {
  if (!rule) return "refused";
  return SEEN[rule.transform] ?? rule.transform;
}

/** What a formula gets of `data` by a rule that grants `token:use`, in words. `permissions` mask what is shown, and this is not. */
export function fed(rule) {
  if (rule.implied) return SEEN.reveal;
  return rule.transform === "mask" ? "masked data" : seen(rule);
}

/** A container as it is written: with a slash at both ends, in lower case. */
export function asContainer(text) {
  const inner = text.trim().toLowerCase().replace(/^\/+|\/+$/g, "");
  return inner === "" ? "/" : `/${inner}/`;
}

/** What a rule grants, each right in words. */
function inWords(application, rule) {
  if (application.type === "management") return rule.permissions;
  const place = rule.implied ? "everywhere" : rule.container ? `in ${rule.container}` : "by conditions";
  const shows = (right) => {
    if (right === "token:use") return `, its formula gets ${fed(rule)}`;
    return SHOWS_DATA.includes(right) ? `, data ${rule.transform === "redact" ? "unseen" : seen(rule)}` : "";
  };
  return rule.permissions.map((right) => `${right} ${place}${shows(right)}`);
}

/** What an application holds after a change and did not before, and the reverse, each in words. */
export function changedRights(before, after) {
  const words = (application) => rulesOf(application).flatMap((rule) => inWords(application, rule));
  const [old, now] = [words(before), words(after)];
  return { gained: now.filter((one) => !old.includes(one)), lost: old.filter((one) => !now.includes(one)) };
}

/** Whether two states of an application decide alike: equal rules in the same order, whatever their numbers. */
export function sameRights(before, after) {
  const decisive = ({ container, transform, permissions }) => [container, transform, [...permissions].sort()];
  const written = (application) => JSON.stringify(rulesOf(application).map(decisive));
  return written(before) === written(after);
}
