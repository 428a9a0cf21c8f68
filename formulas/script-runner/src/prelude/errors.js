// Errors of decisions §7, and what becomes of anything that a script throws.
(function (host, shared) {
  'use strict';
  const KIND = Symbol('kind');
  const KINDS = [
    'authentication', 'authorization', 'bad-request', 'custom', 'invalid-payment-method', 'rate-limit', 'runtime', 'service-unavailable',
  ];
  const { stringify } = JSON;
  const { get: stackOf } = Object.getOwnPropertyDescriptor(Error.prototype, 'stack');
  const { toString: wordsOf } = Error.prototype;
  // What an error of ours does not show: `kind` and `detail`, what becomes of it if nobody catches it; `why`, what it says
  // in fixed words; `call`, an error made where the script made the call, if this one was made later.
  const hidden = new WeakMap();
  const hide = WeakMap.prototype.set.bind(hidden);
  const hiddenOf = WeakMap.prototype.get.bind(hidden);
  shared.hiding = (error, what) => {
    hide(error, what);
    return error;
  };
  const madeAt = (error) => stackOf.call(hiddenOf(error)?.call ?? error);
  // With the error's words before it, as elsewhere, and without what is not the script's. What a script sets is its own: it is
  // not looked at.
  Object.defineProperty(Error.prototype, 'stack', {
    configurable: true,
    get() {
      const stack = madeAt(this);
      if (typeof stack !== 'string') return stack;
      const lines = stack.trimEnd().split('\n').filter((line) => line !== '' && !line.includes(' (tokamak/'));
      let words = [];
      try { words = [wordsOf.call(this)]; } catch { /* only the places */ }
      return [...words, ...lines].join('\n');
    },
    set(value) { Object.defineProperty(this, 'stack', { value, writable: true, configurable: true, enumerable: false }); },
  });

  class ReactorError extends Error {
    constructor(detail, options) {
      const given = detail !== null && typeof detail === 'object' ? detail : { detail };
      const text = given.detail ?? given.message;
      super(text === undefined ? undefined : String(text), options);
      this.errors = given.errors ?? options?.errors ?? {};
    }
  }
  // What a class made of it may change.
  const named = (made, value) => Object.defineProperty(made.prototype, 'name', { value, writable: true, configurable: true });
  const define = (name, kind, words) => {
    const made = {
      [name]: class extends ReactorError {
        constructor(detail, options) {
          super(detail ?? words, options);
          if (this.message === '') this.message = words;
        }
      },
    }[name];
    named(made, name);
    made.prototype[KIND] = kind;
    return made;
  };
  const classes = {
    AuthenticationError: define('AuthenticationError', 'authentication', 'The credentials are not known.'),
    AuthorizationError: define('AuthorizationError', 'authorization', 'It is not allowed.'),
    BadRequestError: define('BadRequestError', 'bad-request', 'The request is invalid.'),
    InvalidPaymentMethodError: define(
      'InvalidPaymentMethodError', 'invalid-payment-method', 'The payment method cannot be charged.'),
    RateLimitError: define('RateLimitError', 'rate-limit', 'There were too many requests.'),
    ReactorRuntimeError: define('ReactorRuntimeError', 'runtime', 'The formula failed.'),
    ServiceUnavailableError: define(
      'ServiceUnavailableError', 'service-unavailable', 'A service that is needed is not available.'),
  };
  class CustomHttpResponseError extends Error {
    constructor({ status, headers = {}, body = null } = {}) {
      super(`custom response ${status}`);
      Object.assign(this, { status, headers, body });
    }
  }
  CustomHttpResponseError.prototype[KIND] = 'custom';
  // What the vault refuses.
  class SvcError extends Error {
    constructor(given) {
      // A script may make one of its own, as it makes others: of what it says.
      const { status, title, detail, errors } = given !== null && typeof given === 'object' ? given : { detail: given };
      super(detail);
      Object.assign(this, { status, title, detail, errors });
    }
  }
  named(CustomHttpResponseError, 'CustomHttpResponseError');
  named(SvcError, 'SvcError');
  // What a refusal becomes that nobody catches, as in formulas in Rust: others of 400 to 499 are bad requests.
  const REFUSALS = {
    401: 'authentication', 402: 'invalid-payment-method', 403: 'authorization', 429: 'rate-limit', 503: 'service-unavailable',
  };
  const refusal = ({ status, title, detail, errors }) => ({
    kind: REFUSALS[status] ?? (status >= 400 && status <= 499 ? 'bad-request' : 'runtime'),
    detail: String(detail || title || 'The vault refused it.'),
    errors: pairs(errors),
  });

  // The names of an error's own classes: calls of their constructors are not where it was made.
  const madeBy = (error) => {
    const names = new Set();
    try {
      let prototype = Object.getPrototypeOf(error);
      for (let depth = 0; prototype && prototype !== Error.prototype && depth < 16; depth += 1) {
        names.add(prototype.constructor?.name);
        prototype = Object.getPrototypeOf(prototype);
      }
    } catch { /* those found so far */ }
    return names;
  };
  // Where in the script the calls were that led to an error, the last first, each as `[line, column]`.
  const placesOf = (error) => {
    try {
      const found = [...String(madeAt(error)).matchAll(/^    at (.*) \(formula\.js:(\d+):(\d+)\)$/gm)];
      const names = madeBy(error);
      while (found.length > 1 && names.has(found[0][1])) found.shift();
      return found.map(([, , line, column]) => [Number(line), host.column(Number(line), Number(column))]);
    } catch {
      return [];
    }
  };
  const NAMES = ['Error', 'TypeError', 'RangeError', 'ReferenceError', 'SyntaxError', 'URIError', 'EvalError', 'AggregateError',
    'InternalError'];
  const nameOf = (error) => {
    const name = error instanceof Error ? String(error.name) : '';
    return NAMES.includes(name) ? name : error instanceof Error ? 'Error' : 'value';
  };
  // A member of which nothing is said is right.
  const pairs = (errors) => Object.entries(errors ?? {})
    .filter(([, said]) => said !== undefined && said !== null)
    .map(([path, said]) => [path, (Array.isArray(said) ? said : [said]).map(String)]);

  // Errors within an error: its cause, and those of which it says that all of them came.
  const WITHIN_MAX = 8;
  shared.within = (error, depth) => {
    if (!(error instanceof Error) || depth > 3) return [];
    const cause = error.cause === undefined ? [] : [['cause', error.cause]];
    const all = error instanceof AggregateError && Array.isArray(error.errors) ? error.errors.slice(0, WITHIN_MAX) : [];
    return [...cause, ...all.map((one) => ['error', one])];
  };
  // An error without what it says, unless in fixed words, nor names that a script may have given anything: what is kept
  // with a run.
  const bare = (error, depth = 0) => {
    const why = hiddenOf(error)?.why;
    const words = why === undefined ? '' : `: ${why}`;
    const places = placesOf(error).map(([line, column]) => `\n    at formula.js:${line}:${column}`);
    const within = shared.within(error, depth).map(([name, one]) => `\n  ${name}: ${bare(one, depth + 1)}`);
    return nameOf(error) + words + places.join('') + within.join('');
  };
  // What it says may hold what the script was given: it is for who tries the script out, not for the caller or the log.
  const tell = (error) => host.log('error', `Uncaught ${host.inWords() ? shared.trace(error) : bare(error)}`);
  // As any formula ends that needs more than there is: the server knows whose fault it is.
  const endIfFull = (error) => {
    const isOfMemory = error === null || error instanceof InternalError;
    if (isOfMemory && (error?.message === 'out of memory' || host.isFull())) host.outOfMemory();
  };
  const uncaught = (error) => {
    const [at] = placesOf(error);
    const where = at ? ` at line ${at[0]}, column ${at[1]}` : '';
    endIfFull(error);
    tell(error);
    // Values have none, nor have errors that are made when no call of the script is under way: as its answer is written.
    const stack = bare(error).includes('\n    at ') ? "the invocation's log has its stack, and " : '';
    const more = `${stack}\`tokamak formula run\` shows what it says`;
    return { kind: 'runtime', detail: `The script ended with an uncaught ${nameOf(error)}${where}; ${more}.` };
  };
  // A `Headers`, or what one may be made of.
  const headersOf = (given) => {
    const found = typeof given?.[Symbol.iterator] === 'function' ? [...given] : Object.entries(given ?? {});
    return found.map(([name, value]) => [String(name), String(value)]);
  };
  const custom = (error) => {
    let body;
    try {
      body = stringify(error.body ?? null);
    } catch (failure) {
      if (host.isFull()) host.outOfMemory();
      return uncaught(failure);
    }
    if (body === undefined) {
      // For the caller and for the script's author, who reads the log.
      const detail = "The custom response's body must be a value that JSON has.";
      host.log('error', detail);
      return { kind: 'runtime', detail };
    }
    return { kind: 'custom', status: Number(error.status), headers: headersOf(error.headers), body };
  };
  const describe = (error) => {
    const marked = error !== null && typeof error === 'object' ? error[KIND] : undefined;
    const kind = KINDS.includes(marked) ? marked : undefined;
    if (kind === 'custom') return custom(error);
    if (kind !== undefined) return { kind, detail: String(error.message), errors: pairs(error.errors) };
    if (error instanceof SvcError) return refusal(error);
    const fate = hiddenOf(error);
    if (fate?.kind === undefined) return uncaught(error);
    tell(error);
    return { kind: fate.kind, detail: fate.detail };
  };
  // Rejections that nobody looks after, or not yet: failures that the answer does not show, such as a call that is not awaited.
  // So many are kept, and the rest is counted.
  const REJECTIONS_MAX = 20;
  const rejections = new Map();
  const keep = Map.prototype.set.bind(rejections);
  const forget = Map.prototype.delete.bind(rejections);
  let more = 0;
  shared.rejected = (promise, reason, isHandled) => {
    if (isHandled) {
      if (!forget(promise)) more = Math.max(0, more - 1);
    } else if (rejections.size < REJECTIONS_MAX) keep(promise, reason);
    else more += 1;
  };
  const toldOf = (reason) => {
    try {
      return host.inWords() ? shared.trace(reason) : bare(reason);
    } catch {
      return 'value';
    }
  };
  // What is thrown where the script cannot catch it and the run goes on.
  shared.tellUncaught = (error) => {
    try {
      endIfFull(error);
    } catch { /* a thrown proxy, say */ }
    host.log('error', `Uncaught ${toldOf(error)}`);
  };
  shared.tellRejections = () => {
    const reasons = [...rejections.values()];
    const rest = more;
    for (const reason of reasons) host.log('warn', `Unhandled rejection: ${toldOf(reason)}`);
    if (rest > 0) host.log('warn', `Unhandled rejections: ${rest} more`);
  };
  shared.describe = (error) => {
    try {
      return stringify(describe(error));
    } catch {
      if (host.isFull()) host.outOfMemory();
      // Getters of a thrown object may throw as well.
      return stringify({ kind: 'runtime', detail: 'The script ended with a value that cannot be read.' });
    }
  };
  shared.stackOf = (error) => {
    const lines = String(madeAt(error) ?? '').split('\n');
    return lines.filter((line) => line.includes('(formula.js:')).join('\n');
  };
  Object.assign(shared, { SvcError, ReactorError });
  shared.errors = { ReactorError, ...classes, CustomHttpResponseError, SvcError };
  shared.globals(shared.errors);
})
