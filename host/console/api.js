// The server's interface, as any other client uses it. Keys live here, in memory, and go out in one header.

import { decide, grants, sameRights } from "./access.js";
import { jsonFrom } from "./format.js";
import { forgetRead, holder, noteFailure, now, problemOf as problemIn, redraw } from "./state.js";

/** An answer that is an error, with the problem that the server described. */
export class Refusal extends Error {
  constructor(problem) {
    super(problem.detail);
    this.problem = problem;
  }
}

/** A key and what it may do. The secret has no name outside of this class. */
class Key {
  #secret;

  constructor(secret, application) {
    this.#secret = secret;
    this.application = application;
    // A session's rights are not told to it: what it tries is answered by the server.
    this.isSession = secret.startsWith("key_ses_");
    // The problem, where its rights could not be read when they were last asked for.
    this.unread = undefined;
  }

  get id() {
    return this.application.id + (this.isSession ? " session" : "");
  }

  get name() {
    return this.isSession ? `Session of ${this.application.name}` : this.application.name;
  }

  get type() {
    return this.isSession ? "session" : this.application.type;
  }

  may(permission) {
    return this.isSession ? permission.startsWith("token:") : grants(this.application, permission);
  }

  /** Whether it may do this to a token in these containers, as far as that is known. */
  mayAt(permission, containers) {
    return this.isSession ? this.may(permission) : decide(this.application, permission, containers) !== null;
  }

  /** Whether what comes back for tokens in these containers may be plaintext. */
  mayReveal(permission, containers) {
    return this.isSession || decide(this.application, permission, containers)?.transform === "reveal";
  }

  /** Whether some rule of it reveals at all. */
  get reveals() {
    return this.isSession || (this.application.rules ?? []).some((rule) => rule.transform === "reveal");
  }

  send(request) {
    request.headers.set("SVC-API-KEY", this.#secret);
    return fetch(request);
  }
}

export const session = holder(() => ({ keys: [] }));

/** Takes a key into this tab, if the server knows it and nobody has signed out meanwhile. */
export async function addKey(text) {
  const secret = text.trim();
  // A header holds nothing else, and the browser's own complaint about it would look as if the server were away.
  if (!/^[\x20-\x7e]*$/.test(secret)) {
    const detail = "This text holds characters that are in no key, such as letters of another alphabet or line breaks. Copy the key again.";
    throw new Refusal({ title: "Not a key", detail, errors: {}, isOtherKey: true });
  }
  const visit = now();
  const asking = new Key(secret, { id: "", name: "" });
  const { body } = await send(asking, "GET", "/applications/key", {});
  // Whoever has signed out is not signed in again by what comes late.
  if (!visit.isOurs()) return undefined;
  if (session.keys.some(({ application }) => application.tenant_id !== body.tenant_id)) {
    // Pages show what one of the keys sees, and would not say whose it is.
    const detail = "This key is of another tenant: sign out first.";
    throw new Refusal({ title: "Not added", detail, errors: {}, isOtherKey: true });
  }
  const key = new Key(secret, body);
  session.keys = [...session.keys.filter((other) => other.id !== key.id), key];
  redraw();
  return key;
}

/** Forgets one key, with everything that was read. */
export function dropKey(key) {
  const rest = session.keys.filter((other) => other !== key);
  forgetRead();
  session.keys = rest;
}

/** Goes on with the new key of an application of which this tab has the key that it ends. */
export function renewKey({ id, key: secret }) {
  session.keys = session.keys.map((key) => (key.id === id ? new Key(secret, key.application) : key));
}

/**
 * Reads anew what the keys of this tab may do: rules are changed while somebody looks. Gives what is different, as
 * `{ key, before }` of a key whose rights are others now, and `{ key, ended: true }` of one that opens nothing any more,
 * which is forgotten with everything that was read.
 */
export async function readKeysAgain() {
  const answers = await Promise.all(session.keys.map(readAgain));
  // What is said of a key that was renewed meanwhile is of the old one.
  const found = answers.filter((one) => one && session.keys.includes(one.key));
  for (const { key } of found.filter(({ ended }) => ended)) dropKey(key);
  return found;
}

async function readAgain(key) {
  const before = key.application;
  try {
    key.application = (await send(key, "GET", "/applications/key", {})).body;
    key.unread = undefined;
  } catch (refusal) {
    if (refusal.problem?.status === 401) return { key, ended: true };
    // A server that does not answer now says nothing about the key.
    key.unread = problemIn(refusal);
    noteFailure(key.unread);
    return null;
  }
  return key.isSession || sameRights(before, key.application) ? null : { key, before };
}

/** The keys of this tab that have a permission. Those that show tokens masked come first: plaintext is asked for by name. */
export function keysFor(permission) {
  const able = session.keys.filter((key) => key.may(permission));
  return [...able.filter((key) => !key.reveals), ...able.filter((key) => key.reveals)];
}

/** The first of them, which requests are sent with. */
export function keyFor(permission) {
  return keysFor(permission)[0];
}

/** What the first key with this permission is answered that is not refused: rules may close to one what they open to another. */
export async function withAnyKey(permission, work) {
  const keys = keysFor(permission);
  for (const key of keys.slice(0, -1)) {
    try {
      return await work(key);
    } catch (refusal) {
      if (refusal.problem?.status !== 403) throw refusal;
    }
  }
  return work(keys.at(-1));
}

/** The key that may do this to a token in these containers, if there is one. */
export function keyAt(permission, containers) {
  return keysFor(permission).find((key) => key.mayAt(permission, containers));
}

/** The key that shows a token in these containers in plaintext, if there is one; a session, which may, if no other key does. */
export function revealingKey(containers) {
  const able = session.keys.filter((key) => key.may("token:read") && key.mayReveal("token:read", containers));
  return able.find((key) => !key.isSession) ?? able[0];
}

/** Whether any key of this tab has a permission. */
export function may(permission) {
  return keyFor(permission) !== undefined;
}

/**
 * Sends a request with the key that has `permission`, or with `options.key`. Gives the body of the answer.
 *
 * Options: `body` (JSON), `bytes` and `type` (anything else), `key`, `text` (give the body as text).
 */
export async function ask(permission, method, path, options = {}) {
  const key = options.key ?? keyFor(permission);
  if (!key) {
    const detail = `No key in this tab holds ${permission}.`;
    throw new Refusal({ title: "No key for this", detail, errors: {}, isUnsent: true });
  }
  return (await send(key, method, path, options)).body;
}

async function send(key, method, path, options) {
  // Browsers take these parts for ways up, and would ask for something else.
  if (path.split("?")[0].split("/").some((part) => part === "." || part === "..")) {
    const detail = "No address leads to what has this id.";
    throw new Refusal({ title: "Not asked for", detail, errors: {}, isUnsent: true });
  }
  const headers = new Headers({ Accept: "application/problem+json, application/json" });
  let body = options.bytes;
  if (options.body !== undefined) {
    body = JSON.stringify(options.body);
    headers.set("Content-Type", "application/json");
  } else if (options.type) {
    headers.set("Content-Type", options.type);
  }
  const own = { cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer" };
  let response;
  try {
    response = await key.send(new Request(path, { method, headers, body, ...own }));
  } catch {
    throw new Refusal({ title: "No answer", detail: "The server cannot be reached.", errors: {} });
  }
  const text = await response.text().catch(() => {
    throw new Refusal({ title: "No whole answer", detail: "The server's answer broke off.", errors: {} });
  });
  if (!response.ok) throw new Refusal(problemOf(response, text));
  return { status: response.status, body: options.text ? text : parsed(text) };
}

function parsed(text) {
  return text === "" ? null : jsonFrom(text);
}

/** What went wrong; an answer that a formula shaped may be anything. */
function problemOf(response, text) {
  let body = null;
  try {
    body = JSON.parse(text);
  } catch {
    // It is shown as it is.
  }
  const isProblem = typeof body?.title === "string" && typeof body?.detail === "string";
  const { status } = response;
  const trace = response.headers.get("svc-trace-id");
  // Only a run that began has one.
  const run = response.headers.get("svc-invocation-id");
  // Seconds; what stands before the server may say a date, or nothing.
  const wait = Number(response.headers.get("retry-after")) || undefined;
  if (isProblem) return { title: body.title, status, detail: body.detail, errors: errorsOf(body), trace_id: trace, run, wait };
  return {
    title: `Status ${status}`,
    status,
    detail: text === "" ? "The answer is empty." : text.slice(0, 4000),
    errors: {},
    trace_id: trace,
    run,
    wait,
  };
}

/** What is said of members, as far as it has the server's form: lists of texts. */
function errorsOf({ errors }) {
  const isTexts = (texts) => Array.isArray(texts) && texts.every((text) => typeof text === "string");
  return Object.fromEntries(Object.entries(errors ?? {}).filter(([, texts]) => isTexts(texts)));
}

/** An address with these parameters, of which empty ones are left out and lists are repeated. */
export function withQuery(path, parameters) {
  const query = new URLSearchParams();
  for (const [name, value] of Object.entries(parameters)) {
    for (const one of Array.isArray(value) ? value : [value]) {
      if (one !== undefined && one !== null && one !== "") query.append(name, one);
    }
  }
  const text = query.toString();
  return text === "" ? path : `${path}?${text}`;
}

/** A part of a path. */
export const segment = encodeURIComponent;
