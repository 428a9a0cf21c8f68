// Errors of decisions §7, and what becomes of anything that a script throws.
(function (host, shared) {
  'use strict';
  const KIND = Symbol('kind');
  const { stringify } = JSON;
  const stackOf = Object.getOwnPropertyDescriptor(Error.prototype, 'stack').get;

  class ReactorError extends Error {
    constructor(detail, options) {
      const given = detail !== null && typeof detail === 'object' ? detail : { detail };
      const text = given.detail ?? given.message;
      super(text === undefined ? undefined : String(text), options);
      this.errors = given.errors ?? options?.errors ?? {};
    }
  }
  const define = (name, kind, words) => {
    const made = {
      [name]: class extends ReactorError {
        constructor(detail, options) {
          super(detail ?? words, options);
          if (this.message === '') this.message = words;
        }
      },
    }[name];
    Object.defineProperty(made.prototype, 'name', { value: name, writable: true, configurable: true });
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
    get name() { return 'CustomHttpResponseError'; }
  }
  CustomHttpResponseError.prototype[KIND] = 'custom';
  // What the vault refuses, and what another server does not answer, as formulas in Rust word them.
  class SvcError extends Error {
    constructor({ status, title, detail, errors }) {
      super(detail);
      Object.assign(this, { status, title, detail, errors });
    }
    get name() { return 'SvcError'; }
  }
  const REFUSALS = { 400: 'bad-request', 401: 'authentication', 403: 'authorization', 429: 'rate-limit', 503: 'service-unavailable' };

  // Where in the script an error was made, as `line:column`.
  const place = (error) => {
    try {
      return /\(formula\.js:(\d+):(\d+)\)/.exec(String(stackOf.call(error)));
    } catch {
      return null;
    }
  };
  const NAMES = ['Error', 'TypeError', 'RangeError', 'ReferenceError', 'SyntaxError', 'URIError', 'EvalError', 'AggregateError'];
  const nameOf = (error) => {
    const name = error instanceof Error ? String(error.name) : '';
    return NAMES.includes(name) ? name : error instanceof Error ? 'Error' : 'value';
  };
  const pairs = (errors) => Object.entries(errors ?? {})
    .map(([path, said]) => [path, (Array.isArray(said) ? said : [said]).map(String)]);

  const uncaught = (error) => {
    const at = place(error);
    const where = at ? ` at line ${at[1]}, column ${at[2]}` : '';
    // What an error says may hold what the script was given: it is for the log, not for the caller.
    host.log('error', `Uncaught ${shared.trace(error)}`);
    return { kind: 'runtime', detail: `The script ended with an uncaught ${nameOf(error)}${where}; the invocation's log says more.` };
  };
  const describe = (error) => {
    const kind = error !== null && typeof error === 'object' ? error[KIND] : undefined;
    if (kind === 'custom') {
      const headers = Object.entries(error.headers ?? {}).map(([name, value]) => [name, String(value)]);
      return { kind, status: Number(error.status), headers, body: stringify(error.body ?? null) };
    }
    if (kind !== undefined) return { kind, detail: String(error.message), errors: pairs(error.errors) };
    if (error instanceof SvcError && REFUSALS[error.status]) {
      return { kind: REFUSALS[error.status], detail: `The vault refused: ${error.detail}` };
    }
    return uncaught(error);
  };
  shared.describe = (error) => {
    try {
      return stringify(describe(error));
    } catch {
      // Getters of a thrown object may throw as well.
      return stringify({ kind: 'runtime', detail: 'The script ended with a value that cannot be read.' });
    }
  };
  shared.stackOf = (error) => {
    const lines = String(stackOf.call(error) ?? '').split('\n');
    return lines.filter((line) => line.includes('(formula.js:')).join('\n');
  };
  Object.assign(shared, { SvcError, ReactorError });
  shared.errors = { ReactorError, ...classes, CustomHttpResponseError, SvcError };
  shared.globals(shared.errors);
})
