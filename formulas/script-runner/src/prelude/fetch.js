// `fetch`. Requests are under way beside each other; the host looks at where they go and counts them.
(function (host, shared) {
  'use strict';
  const { parse, stringify } = JSON;
  class Headers {
    #held = new Map();
    constructor(given = []) {
      const pairs = given === null || typeof given[Symbol.iterator] === 'function' ? given ?? [] : Object.entries(given);
      for (const [name, value] of pairs) this.append(name, value);
    }
    append(name, value) {
      const key = String(name).toLowerCase();
      this.#held.set(key, [...(this.#held.get(key) ?? []), String(value).trim()]);
    }
    set(name, value) { this.#held.set(String(name).toLowerCase(), [String(value).trim()]); }
    delete(name) { this.#held.delete(String(name).toLowerCase()); }
    has(name) { return this.#held.has(String(name).toLowerCase()); }
    get(name) { return this.#held.get(String(name).toLowerCase())?.join(', ') ?? null; }
    getSetCookie() { return [...(this.#held.get('set-cookie') ?? [])]; }
    forEach(each, self) { for (const [name, value] of this) each.call(self, value, name, this); }
    * entries() {
      for (const name of [...this.#held.keys()].sort()) {
        // Cookies may hold commas: no two are one.
        for (const value of name === 'set-cookie' ? this.getSetCookie() : [this.get(name)]) yield [name, value];
      }
    }
    * keys() { for (const [name] of this.entries()) yield name; }
    * values() { for (const [, value] of this.entries()) yield value; }
    [Symbol.iterator]() { return this.entries(); }
  }
  // A body as bytes, with the type that says what it is.
  const read = (body) => {
    if (body === undefined || body === null) return [undefined, null];
    if (body instanceof URLSearchParams) return [host.encode(body.toString(), 'utf8'), 'application/x-www-form-urlencoded;charset=UTF-8'];
    if (body instanceof ArrayBuffer || ArrayBuffer.isView(body)) return [shared.bytes(body), null];
    const ofForm = shared.formBody(body);
    if (ofForm !== undefined) return ofForm;
    if (typeof body === 'object' && Symbol.asyncIterator in body) throw new TypeError('a body is sent whole: it cannot be a stream');
    return [host.encode(String(body), 'utf8'), 'text/plain;charset=UTF-8'];
  };
  class Body {
    #bytes;
    #used = false;
    constructor(bytes) { this.#bytes = bytes; }
    get bodyUsed() { return this.#used; }
    #take() {
      if (this.#used) throw new TypeError('the body was read already');
      this.#used = true;
      return this.#bytes ?? new Uint8Array(0);
    }
    #text() {
      const text = host.decode(this.#take(), 'utf8');
      return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
    }
    async text() { return this.#text(); }
    // At once, so that an error has the place of the call.
    async json() { return parse(this.#text()); }
    async arrayBuffer() { return this.#take().slice().buffer; }
    async bytes() { return this.#take().slice(); }
    async blob() { return new Blob([this.#take()], { type: this.headers.get('content-type') ?? '' }); }
    static bytesOf(body) { return body.#bytes; }
  }
  const { bytesOf } = Body;
  delete Body.bytesOf;
  class Response extends Body {
    constructor(body, { status = 200, statusText = '', headers } = {}, url = '') {
      const [bytes, type] = read(body);
      super(bytes);
      this.headers = new Headers(headers);
      if (type !== null && !this.headers.has('content-type')) this.headers.set('content-type', type);
      Object.assign(this, { status, statusText, url, redirected: false, type: 'basic' });
    }
    get ok() { return this.status >= 200 && this.status < 300; }
    clone() {
      if (this.bodyUsed) throw new TypeError('the body was read already');
      return new Response(bytesOf(this), this, this.url);
    }
    static json(value, init = {}) {
      const headers = new Headers(init.headers);
      if (!headers.has('content-type')) headers.set('content-type', 'application/json');
      return new Response(stringify(value), { ...init, headers });
    }
  }
  class Request extends Body {
    constructor(input, init = {}) {
      const base = input instanceof Request ? input : {};
      const [bytes, type] = init.body === undefined && base instanceof Request ? [bytesOf(base), null] : read(init.body);
      super(bytes);
      this.url = input instanceof Request ? input.url : String(input);
      this.method = String(init.method ?? base.method ?? 'GET').replace(/^(get|put|post|head|delete|options)$/i, (name) => name.toUpperCase());
      this.headers = new Headers(init.headers ?? base.headers);
      if (type !== null && !this.headers.has('content-type')) this.headers.set('content-type', type);
      this.redirect = String(init.redirect ?? base.redirect ?? 'follow');
      if (!['follow', 'error', 'manual'].includes(this.redirect)) throw new TypeError('redirect must be follow, error or manual');
      this.signal = init.signal ?? base.signal ?? null;
    }
    clone() {
      if (this.bodyUsed) throw new TypeError('the body was read already');
      return new Request(this);
    }
  }
  // Why signals end by themselves.
  const lateness = new WeakSet();
  const late = () => {
    const reason = new shared.DOMException('it took too long', 'TimeoutError');
    lateness.add(reason);
    return reason;
  };
  const { addEventListener, dispatchEvent } = EventTarget.prototype;
  // Only ours are made.
  const OURS = Symbol('ours');
  class AbortSignal extends EventTarget {
    #isAborted = false;
    // Whether listeners were told of it, or are about to be.
    #isTold = false;
    #reason;
    #until = Infinity;
    // Those that it ends with, none of which has others, and those that end with it.
    #sources = [];
    #dependents = [];
    #requests = new Set();
    #onabort = null;
    #hears = false;
    constructor(whose) {
      super();
      if (whose !== OURS) throw new TypeError('a signal is made by an AbortController, or by AbortSignal.timeout, abort and any');
    }
    get onabort() { return this.#onabort; }
    // In its turn among the listeners.
    set onabort(call) {
      this.#onabort = typeof call === 'function' ? call : null;
      if (this.#hears || this.#onabort === null) return;
      this.#hears = true;
      addEventListener.call(this, 'abort', (event) => { this.#onabort?.call(this, event); });
    }
    static timeout(limit) {
      if (typeof limit !== 'number' || !(limit >= 0 && limit < Infinity)) {
        throw new TypeError('a signal ends after a number of milliseconds, 0 or more');
      }
      const signal = new AbortSignal(OURS);
      signal.#until = host.now() + limit;
      shared.after(limit, () => signal.#end(late()));
      return signal;
    }
    static abort(reason = new shared.DOMException('it was aborted', 'AbortError')) {
      const signal = new AbortSignal(OURS);
      signal.#end(reason);
      return signal;
    }
    static any(sources) {
      const signal = new AbortSignal(OURS);
      const first = new Set();
      for (const source of sources) {
        source.#look();
        if (source.#isAborted) return AbortSignal.abort(source.#reason);
        for (const one of source.#sources.length > 0 ? source.#sources : [source]) first.add(one);
      }
      for (const source of first) source.#dependents.push(signal);
      signal.#sources = [...first];
      return signal;
    }
    get aborted() {
      this.#look();
      return this.#isAborted;
    }
    get reason() {
      this.#look();
      return this.#reason;
    }
    throwIfAborted() { if (this.aborted) throw this.#reason; }
    // A script may compute, or ask the vault, past a signal's time: then it has ended before its timer tells. To look at it
    // calls nobody.
    #look() {
      if (this.#isAborted) return;
      if (this.#until < Infinity && host.now() >= this.#until) this.#settle(late());
      for (const source of this.#sources) {
        source.#look();
        if (source.#isAborted) this.#settle(source.#reason);
      }
    }
    #settle(reason) {
      if (this.#isAborted) return;
      this.#isAborted = true;
      this.#reason = reason;
    }
    // All have ended before anybody hears of it, and those that end with it tell theirs after its own.
    #end(reason) {
      if (this.#isTold) return;
      this.#settle(reason);
      const ended = [this, ...this.#dependents].filter((signal) => !signal.#isTold);
      for (const signal of ended) {
        signal.#settle(this.#reason);
        signal.#isTold = true;
      }
      for (const signal of ended) signal.#tell();
    }
    #tell() {
      // First and apart: what listeners do keeps no request going.
      for (const giveUp of this.#requests) giveUp(this.#reason);
      this.#requests.clear();
      dispatchEvent.call(this, new Event('abort'));
    }
    #endAt() { return Math.min(this.#until, ...this.#sources.map((source) => source.#endAt())); }
    static end(signal, reason) { signal.#end(reason); }
    // When it ends by itself, as the host tells the time.
    static endAt(signal) { return #until in signal ? signal.#endAt() : Infinity; }
    // Has a request given up when a signal ends, which may be one of the script's own making; what undoes it.
    static watch(signal, giveUp) {
      if (#until in signal) {
        signal.#requests.add(giveUp);
        return () => signal.#requests.delete(giveUp);
      }
      const listener = () => giveUp(signal.reason);
      signal.addEventListener('abort', listener);
      return () => signal.removeEventListener('abort', listener);
    }
  }
  const { end, endAt, watch } = AbortSignal;
  for (const name of ['end', 'endAt', 'watch']) delete AbortSignal[name];
  class AbortController {
    constructor() { this.signal = new AbortSignal(OURS); }
    abort(reason) { end(this.signal, AbortSignal.abort(reason).reason); }
  }
  // What an unanswered request becomes if nobody catches it, as in formulas in Rust.
  const FATES = {
    denied: ['runtime', "the formula's request is not allowed"],
    invalid: ['runtime', "the formula's request is not valid"],
    unreachable: ['service-unavailable', 'the other server cannot be reached'],
    timeout: ['service-unavailable', 'the other server did not answer in time'],
    'too-large': ['runtime', "the formula's request or its answer is too large"],
    redirect: ['runtime', 'the other server redirects where that is not followed, or too often'],
  };
  // What the host says of it is in fixed words, so it may be logged. An address may not: it may hold anything.
  const fateOf = (code, said, call) => {
    const [kind, words] = FATES[code] ?? [];
    const why = code === 'timeout' ? words : said;
    return { kind, detail: code === 'denied' ? `${words}: ${why}` : words, why, call };
  };
  const failed = (code, said, call) => {
    const fate = fateOf(code, said, call);
    const error = code === 'timeout'
      ? new shared.DOMException(fate.why, 'TimeoutError')
      : Object.assign(new TypeError(`fetch failed: ${fate.why}`), { code });
    return shared.hiding(error, fate);
  };
  // What a request fails with whose signal has ended: by itself, as if the host had not waited longer.
  const givenUp = (reason, call) => (lateness.has(reason) ? shared.hiding(reason, fateOf('timeout', '', call)) : reason);
  // As many are sent at a time as the host has places for, and has room for their bodies. The others wait here in their order,
  // as part of the script's memory, where one that is aborted is never sent.
  const PLACES = 8;
  const BYTES_MAX = 8 * 2 ** 20;
  // More than the host sends, and less than what it ends a run for that hands it as much.
  const HANDED_BYTES_MAX = 6 * 2 ** 20;
  // Who waits for an answer, by the request's number; and who waits for a place.
  const waiting = new Map();
  const queue = new Set();
  let sent = 0;
  const fits = ({ bytes }) => waiting.size < PLACES && (waiting.size === 0 || sent + bytes <= BYTES_MAX);
  const beginNext = () => {
    for (const one of queue) {
      if (!fits(one)) return;
      queue.delete(one);
      one.begin();
    }
  };
  // Takes a request out that is over, and gives its place to the next.
  const takeOut = (number) => {
    const one = waiting.get(number);
    waiting.delete(number);
    sent -= one.bytes;
    beginNext();
    return one;
  };
  shared.isFetching = () => waiting.size > 0;
  // Waits for an answer, at most so many milliseconds, and hands it on; whether there was one.
  shared.takeAnswer = (within) => {
    const answer = host.answer(within);
    if (answer === undefined) return false;
    takeOut(answer.number).take(answer);
    return true;
  };
  // The answer to a request of so many bytes, which is sent when it is its turn.
  const answered = ({ bytes, send, keep }, signal, call) => new Promise((resolve, reject) => {
    let number;
    const one = { bytes };
    const stop = signal ? watch(signal, (reason) => {
      if (!queue.delete(one) && waiting.has(number)) {
        host.abandon(number);
        takeOut(number);
      }
      beginNext();
      reject(givenUp(reason, call));
    }) : () => {};
    one.take = (answer) => {
      stop();
      resolve(answer);
    };
    one.begin = () => {
      try {
        // It may have ended before its timer tells.
        if (signal?.aborted) throw givenUp(signal.reason, call);
        number = send();
      } catch (error) {
        // It is this request's, in whoever's place it begins.
        stop();
        reject(error);
        return;
      }
      waiting.set(number, one);
      sent += bytes;
    };
    queue.add(one);
    beginNext();
    if (queue.has(one)) keep();
  });
  const fetch = async (input, init) => {
    const request = new Request(input, init);
    const { signal } = request;
    // When there is an answer, the script's calls that led here are over.
    const call = new Error();
    if (signal?.aborted) throw givenUp(signal.reason, call);
    const bytes = bytesOf(request);
    if (bytes !== undefined && (request.method === 'GET' || request.method === 'HEAD')) {
      throw new TypeError('a request that gets something has no body');
    }
    const redirects = request.redirect === 'follow' ? 10 : 0;
    // What a library counts right, the host counts as well.
    const isCounted = ([name, value]) => name === 'content-length' && value === String(bytes?.byteLength ?? 0);
    const headers = [...request.headers].filter((header) => !isCounted(header)).flat();
    const until = signal === null ? Infinity : endAt(signal);
    const timeout = () => (until < Infinity ? Math.max(1, Math.ceil(until - host.now())) : undefined);
    const { method, url } = request;
    const letters = headers.reduce((sum, text) => sum + text.length, url.length);
    if ((bytes?.byteLength ?? 0) + 3 * letters > HANDED_BYTES_MAX) {
      throw failed('too-large', 'there are too many bytes or headers', call);
    }
    let body = bytes;
    const send = () => host.begin({ method, url, headers, body, timeout: timeout(), redirects });
    // One that waits has what it was given: the script may use its buffer again.
    const keep = () => { if (body !== undefined) body = new Uint8Array(body); };
    const answer = await answered({ bytes: bytes?.byteLength ?? 0, send, keep }, signal, call);
    if (answer.error === 'timeout' && signal?.aborted) throw givenUp(signal.reason, call);
    if (answer.error !== undefined) throw failed(answer.error, answer.why, call);
    const pairs = [];
    for (let at = 0; at < answer.headers.length; at += 2) pairs.push([answer.headers[at], answer.headers[at + 1]]);
    const isRedirect = [301, 302, 303, 307, 308].includes(answer.status);
    if (request.redirect === 'error' && isRedirect) throw failed('redirect', 'the answer is a redirect', call);
    if (request.redirect === 'follow' && isRedirect && pairs.some(([name]) => name === 'location')) {
      throw failed('redirect', 'there are too many redirects', call);
    }
    const place = new URL(url);
    place.hash = '';
    return new Response(answer.body, { status: answer.status, headers: pairs }, place.href);
  };
  shared.globals({ fetch, Headers, Request, Response, AbortSignal, AbortController });
})
