// The server's interface, as any other client uses it. Keys live here, in memory, and go out in one header.

import { decide, grants, sameRights } from "./access.js";
import { jsonFrom } from "./format.js";
import { problemIn } from "./problem.js";
import { forgetRead, forgetWritten, holder, noteFailure, now, problemOf, redraw } from "./state.js";

/**
 * How long an answer is waited for in silence, in milliseconds: until it begins, and for each further piece of it. Rights are
 * read before a page opens, which goes on without them.
 */
const PATIENCE_MS = { rights: 10_000, read: 30_000, change: 60_000, run: 120_000 };
/** What the slowest line carries that the server goes on with: what is sent by it is waited for as well. */
const SLOW_BYTES_PER_MS = 8;

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
    // Sessions of one application are told apart by the order in which they were added.
    this.ordinal = 1;
    // The problem, where its rights could not be read when they were last asked for.
    this.unread = undefined;
    // Whether the server said so. Who sends unknown keys too often is answered nothing at all.
    this.hasEnded = false;
  }

  get id() {
    return this.application.id + (this.isSession ? ` session ${this.ordinal}` : "");
  }

  get name() {
    if (!this.isSession) return this.application.name;
    return `Session ${this.ordinal > 1 ? `${this.ordinal} ` : ""}of ${this.application.name}`;
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

  /** Whether the other is the same key, or the one before or after it of one application. */
  stands(other) {
    if (this.isSession !== other.isSession || this.application.id !== other.application.id) return false;
    return !this.isSession || this.#secret === other.#secret;
  }

  send(request) {
    request.headers.set("SVC-API-KEY", this.#secret);
    return fetch(request);
  }
}

/** The keys of this tab, and the tenant that the last of them was of. */
export const session = holder(() => ({ keys: [], tenant: undefined }), { keeps: ({ tenant }) => ({ tenant }) });

/**
 * What a person asked to be changed and is not known to have been: each with what names it to the server, which does not do
 * twice what it did under one name. Bodies may hold plaintext: they are kept for as long as their page is looked at.
 */
const asked = holder(() => ({ changes: [] }));

/** Answers that the server repeated: what was asked for was done before, and the answer to that was lost. */
const repeated = new WeakSet();

/** Whether this answer was given before. It lacks what is told only once. */
export function isRepeated(answer) {
  return repeated.has(answer);
}

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
  // What is written was written for another tenant.
  if (session.tenant !== undefined && session.tenant !== body.tenant_id) forgetWritten();
  const key = new Key(secret, body);
  const same = session.keys.find((other) => other.stands(key));
  const sessions = session.keys.filter((other) => other.isSession && other.application.id === body.id);
  key.ordinal = same?.ordinal ?? Math.max(0, ...sessions.map(({ ordinal }) => ordinal)) + 1;
  Object.assign(session, { keys: [...session.keys.filter((other) => other !== same), key], tenant: body.tenant_id });
  redraw();
  return key;
}

/** Forgets one key, with everything that was read. What was written stays. */
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
  if (key.hasEnded) return { key, ended: true };
  const before = key.application;
  try {
    key.application = (await send(key, "GET", "/applications/key", { patience: PATIENCE_MS.rights })).body;
    key.unread = undefined;
  } catch (refusal) {
    if (key.hasEnded) return { key, ended: true };
    // A server that does not answer now says nothing about the key.
    key.unread = problemOf(refusal);
    noteFailure(key.unread);
    return null;
  }
  return key.isSession || sameRights(before, key.application) ? null : { key, before };
}

/**
 * The keys of this tab that have a permission. Those that show tokens masked come first: plaintext is asked for by name.
 * Sessions, which may have it, come last.
 */
export function keysFor(permission) {
  const place = (key) => (key.isSession ? 2 : key.reveals ? 1 : 0);
  return session.keys.filter((key) => key.may(permission)).sort((a, b) => place(a) - place(b));
}

/** What the first of these keys is answered that is not refused: rules may close to one what they open to another. */
export async function withAnyOf(keys, work) {
  for (const key of keys.slice(0, -1)) {
    try {
      return await work(key);
    } catch (refusal) {
      // What a run that began is answered may be the formula's own word, and it would run again.
      if (refusal.problem?.status !== 403 || refusal.problem.run) throw refusal;
    }
  }
  return work(keys.at(-1));
}

/** The same of all keys with this permission. */
export function withAnyKey(permission, work) {
  return withAnyOf(keysFor(permission), work);
}

/** The keys that may do this to a token in these containers. */
export function keysAt(permission, containers) {
  return keysFor(permission).filter((key) => key.mayAt(permission, containers));
}

/** The first of them, if there is one. */
export function keyAt(permission, containers) {
  return keysAt(permission, containers)[0];
}

/** The key that shows a token in these containers in plaintext, if there is one; a session, which may, if no other key does. */
export function revealingKey(containers) {
  const able = session.keys.filter((key) => key.may("token:read") && key.mayReveal("token:read", containers));
  return able.find((key) => !key.isSession) ?? able[0];
}

/** Whether any key of this tab has a permission. */
export function may(permission) {
  return keysFor(permission).length > 0;
}

/**
 * Sends a request with a key that has `permission`, or with `options.key`. Gives the body of the answer.
 *
 * Options: `body` (JSON), `bytes` and `type` (anything else), `key`, `text` (give the body as text).
 */
export async function ask(permission, method, path, options = {}) {
  const keys = options.key ? [options.key] : keysFor(permission);
  if (keys.length === 0) {
    const detail = `No key in this tab holds ${permission}.`;
    throw new Refusal({ title: "No key for this", detail, errors: {}, isUnsent: true });
  }
  return (await withAnyOf(keys, (key) => send(key, method, path, options))).body;
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
  const change = changeOf({ key, method, path, body });
  if (change?.name) headers.set("SVC-IDEMPOTENCY-KEY", change.name);
  const waiting = { ending: new AbortController(), patience: options.patience ?? patienceOf(change, body) };
  const own = { cache: "no-store", credentials: "omit", redirect: "error", referrerPolicy: "no-referrer", signal: waiting.ending.signal };
  try {
    const answer = await answered(key, () => new Request(path, { method, headers, body, ...own }), waiting, options.text);
    asked.changes = asked.changes.filter((one) => one !== change);
    return answer;
  } catch (refusal) {
    if (isOfKey(refusal.problem)) key.hasEnded = true;
    if (change) keepAsking(change, refusal.problem);
    throw refusal;
  }
}

/** Whether a problem is that the key opens nothing: a formula, or what stands before the server, says nothing of it. */
export function isOfKey(problem) {
  return problem?.status === 401 && Boolean(problem.trace_id) && !problem.run;
}

/** How long a request may stay without an answer. One that changes nothing may be sent again at any time. */
function patienceOf(change, body) {
  if (!change) return PATIENCE_MS.read;
  const own = change.path.endsWith("/react") ? PATIENCE_MS.run : PATIENCE_MS.change;
  return own + (body?.length ?? 0) / SLOW_BYTES_PER_MS;
}

/** Waits for what comes next of a request, and breaks it off where that is too long: a server may hang, or a line be cut. */
async function heard({ ending, patience }, work) {
  const timer = setTimeout(() => ending.abort(), patience);
  try {
    return await work;
  } finally {
    clearTimeout(timer);
  }
}

/** What is answered, if it is a success. */
async function answered(key, request, waiting, asText) {
  let response;
  try {
    response = await heard(waiting, key.send(request()));
  } catch {
    lost("No answer", why(waiting, "The server cannot be reached."));
  }
  const more = { ...waiting, patience: Math.min(waiting.patience, PATIENCE_MS.read) };
  const text = await textOf(response, more).catch(() => lost("No whole answer", why(more, "The server's answer broke off.")));
  if (!response.ok) throw new Refusal(problemIn(response, text));
  const body = asText ? text : parsed(text);
  if (response.headers.get("svc-idempotent-replay") === "true" && body instanceof Object) repeated.add(body);
  return { status: response.status, body };
}

/** The text of an answer, which may be long and slow for as long as more of it comes. */
async function textOf(response, waiting) {
  if (!response.body) return response.text();
  const pieces = response.body.getReader();
  const decoder = new TextDecoder();
  let text = "";
  for (;;) {
    const { done, value } = await heard(waiting, pieces.read());
    if (done) return text + decoder.decode();
    text += decoder.decode(value, { stream: true });
  }
}

function why({ ending, patience }, otherwise) {
  return ending.signal.aborted ? `Nothing came from the server for ${Math.round(patience / 1000)} seconds.` : otherwise;
}

function lost(title, detail) {
  throw new Refusal({ title, detail, errors: {}, isLost: true });
}

function parsed(text) {
  try {
    return text === "" ? null : jsonFrom(text);
  } catch {
    return lost("No answer", "What answered is no server of this kind.");
  }
}

/** What a request that changes something is known by as long as it is not known to be done. One that changes nothing is none. */
function changeOf(request) {
  const { method, path } = request;
  asked.changes = asked.changes.filter(({ visit }) => visit.isHere());
  if (method === "GET" || path === "/tokens/search") return undefined;
  const isSame = (one) => Object.keys(request).every((member) => one[member] === request[member]);
  // What else there is comes to the same when it is done again, and must be: somebody may have changed it since.
  return asked.changes.find(isSame) ?? { ...request, name: method === "POST" ? newName() : undefined, visit: now(), isLost: false };
}

/** Has the same request go by the same name until it is done. */
function keepAsking(change, problem) {
  if (!asked.changes.includes(change)) asked.changes.push(change);
  if (problem?.isLost) {
    change.isLost = true;
    problem.detail += " Perhaps it was done all the same.";
    if (change.name && change.visit.isHere()) {
      // The server keeps no failure, and what a formula did before it failed is done.
      const unless = change.path.endsWith("/react") ? ", unless it failed" : "";
      problem.detail += ` To ask for the very same again on this page does not do it twice${unless}.`;
    }
  }
  if (problem) problem.isLost = change.isLost;
}

/** `crypto.randomUUID` is for secure origins only. */
function newName() {
  return [...crypto.getRandomValues(new Uint8Array(16))].map((byte) => byte.toString(16).padStart(2, "0")).join("");
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
