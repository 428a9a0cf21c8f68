// JSON Merge Patch (RFC 7396), as far as a page needs it: what leads from one value to another. Pure.

/** Whether a value has members. A number that is kept as its text has none. */
export function isObject(value) {
  return value !== null && typeof value === "object" && !Array.isArray(value) && !isKeptNumber(value);
}

function isKeptNumber(value) {
  return JSON.isRawJSON?.(value) === true;
}

/** Whether two values are equal as JSON; the order of members does not count. */
export function same(one, other) {
  if (isObject(one) && isObject(other)) {
    const names = Object.keys(one);
    return names.length === Object.keys(other).length && names.every((name) => Object.hasOwn(other, name) && same(one[name], other[name]));
  }
  if (Array.isArray(one) && Array.isArray(other)) {
    return one.length === other.length && one.every((value, index) => same(value, other[index]));
  }
  if (isKeptNumber(one) && isKeptNumber(other)) return one.rawJSON === other.rawJSON;
  return one === other;
}

/** The patch that makes `after` of `before`; `undefined` where they are equal, `null` where there is nothing after. */
export function patchBetween(before, after) {
  if (after === undefined) return before === undefined ? undefined : null;
  if (same(before, after)) return undefined;
  if (!isObject(before) || !isObject(after)) return after;
  const removed = Object.keys(before).filter((name) => !Object.hasOwn(after, name)).map((name) => [name, null]);
  const others = Object.entries(after)
    .map(([name, value]) => [name, patchBetween(Object.hasOwn(before, name) ? before[name] : undefined, value)])
    .filter(([, patch]) => patch !== undefined);
  return Object.fromEntries([...removed, ...others]);
}

/** Whether a value has a member that is `null`: a patch cannot say that, since its `null` removes. */
export function hasNullMember(value) {
  if (!isObject(value)) return false;
  return Object.values(value).some((inner) => inner === null || hasNullMember(inner));
}

/** The places that a patch writes or removes, each as the names that lead to it. */
export function placesOf(patch, place = []) {
  const inner = ([name, value]) => {
    const own = [...place, name];
    return isObject(value) && Object.keys(value).length > 0 ? placesOf(value, own) : [own];
  };
  return isObject(patch) ? Object.entries(patch).flatMap(inner) : [place];
}

/** The same as they are shown. */
export function pathsOf(patch) {
  return placesOf(patch).map((place) => place.join(".") + (valueAt(patch, place) === null ? " (removed)" : ""));
}

/** What is at a place, if something is. */
export function valueAt(value, place) {
  return place.reduce((inner, name) => (isObject(inner) && Object.hasOwn(inner, name) ? inner[name] : undefined), value);
}

/** The same value with another one at a place; without one there, if that is `undefined`. */
export function withAt(value, [name, ...rest], other) {
  if (name === undefined) return other;
  const members = new Map(isObject(value) ? Object.entries(value) : []);
  const made = withAt(members.get(name), rest, other);
  if (made === undefined) members.delete(name);
  else members.set(name, made);
  return Object.fromEntries(members);
}

/** What a patch makes of a value. */
export function patched(value, patch) {
  if (!isObject(patch)) return patch;
  const members = new Map(isObject(value) ? Object.entries(value) : []);
  for (const [name, inner] of Object.entries(patch)) {
    if (inner === null) members.delete(name);
    else members.set(name, patched(members.get(name), inner));
  }
  return Object.fromEntries(members);
}
