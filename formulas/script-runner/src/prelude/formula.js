// A call of the formula: the request, the module that the script fills, the answer. This file comes last.
(function (host, shared) {
  'use strict';
  const { parse, stringify } = JSON;
  const { SvcError } = shared;
  const call = async (operation, ...texts) => {
    const [granted, text] = host.svc(operation, ...texts);
    if (!granted) throw new SvcError(parse(text));
    return text === '' ? undefined : parse(text);
  };
  const isNothing = (value) => ['undefined', 'function', 'symbol'].includes(typeof value);
  // Whether a body of a token has nothing as its data.
  const lacksData = (value) => {
    if (typeof value !== 'object' || value === null) return false;
    if (Object.hasOwn(value, 'type') && Object.hasOwn(value, 'data')) return isNothing(value.data);
    for (const name of Object.keys(value)) if (lacksData(value[name])) return true;
    return false;
  };
  // JSON leaves such data out, and what is left would be no body any more: its type would be kept. The vault says what is wrong.
  const withNull = function (name, value) {
    return name === 'data' && isNothing(value) && Object.hasOwn(this, 'type') ? null : value;
  };
  const tokenized = (value) => {
    const made = stringify(value);
    return lacksData(value) ? stringify(value, withNull) : made;
  };
  const text = (value, what, write = stringify) => {
    const made = write(value);
    if (made === undefined) throw new TypeError(`${what} must be a value that JSON has`);
    return made;
  };
  const id = (given) => {
    const found = typeof given === 'object' && given !== null ? given.id : given;
    if (typeof found !== 'string' && typeof found !== 'number') throw new TypeError('a token is named by its id');
    return String(found);
  };
  const svc = () => {
    const tokenize = async (value) => call('tokenize', text(value, 'what is tokenized', tokenized));
    const detokenize = async (value) => call('detokenize', text(value, 'what is detokenized'));
    return {
      tokens: {
        create: async (token) => call('create', text(token, 'a token')),
        get: async (token) => call('get', id(token)),
        list: async (filter = {}) => call('list', text(filter, 'a filter')),
        search: async (query = {}) => call('search', text(typeof query === 'string' ? { query } : query, 'a search')),
        update: async (token, patch) => call('update', id(token), text(patch, 'a patch')),
        delete: async (token) => call('delete', id(token)),
        tokenize,
        detokenize,
      },
      tokenize,
      detokenize,
    };
  };

  const MODULES = {
    tokamak: () => ({ ...shared.errors }),
    buffer: () => ({ Buffer: shared.Buffer, Blob, File, atob, btoa }),
    crypto: () => shared.nodeCrypto,
    url: () => ({ URL, URLSearchParams }),
    util: () => ({ TextEncoder, TextDecoder, inspect: (value) => shared.inspect(value), format: (...values) => shared.format(values) }),
    timers: () => shared.timers,
    'timers/promises': () => ({
      setTimeout: (delay, value, { signal } = {}) => new Promise((resolve, reject) => {
        // As Node has it, where the code of others is a number.
        const aborted = () => Object.defineProperty(new shared.DOMException('The operation was aborted', { name: 'AbortError', cause: signal.reason }), 'code', { value: 'ABORT_ERR' });
        const end = () => reject(aborted());
        if (signal?.aborted) return end();
        const stop = () => {
          shared.timers.clearTimeout(id);
          end();
        };
        const id = shared.timers.setTimeout(() => {
          signal?.removeEventListener('abort', stop);
          resolve(value);
        }, delay);
        return signal?.addEventListener('abort', stop);
      }),
    }),
    'node-fetch': () => Object.assign(shared.fetch, { default: shared.fetch, Headers, Request, Response, FormData, Blob, File }),
  };
  shared.fetch = fetch;
  const loaded = new Map();
  const require = (given) => {
    const name = String(given).replace(/^node:/, '');
    if (!Object.hasOwn(MODULES, name)) {
      throw new Error(`Cannot find module '${given}'; there are ${Object.keys(MODULES).join(', ')}`);
    }
    if (!loaded.has(name)) loaded.set(name, MODULES[name]());
    return loaded.get(name);
  };
  const module = { exports: {} };
  shared.globals({ require, module, exports: module.exports, global: globalThis, self: globalThis });

  const RESPONSE = 'The script must return an object with raw, tokenize or both, or nothing';
  // For the caller and for the script's author, who reads the log.
  const unusable = (words) => {
    host.log('error', words);
    return new shared.errors.ReactorRuntimeError(words);
  };
  const isIterable = (value) => typeof value[Symbol.iterator] === 'function' || typeof value[Symbol.asyncIterator] === 'function';
  const isEmptied = (value) => typeof value === 'object' && value !== null && isIterable(value) && typeof value.toJSON !== 'function'
    && !(Array.isArray(value) || ArrayBuffer.isView(value) || value instanceof String);
  const part = (response, name, write) => {
    const value = response[name];
    // It would be written as an empty object, whatever comes of it.
    if (typeof value?.then === 'function') throw unusable(`${name} is a promise; the script must wait for it.`);
    if (isEmptied(value)) throw unusable(`${name} is a generator or another iterable, which JSON has not; make an array of it.`);
    const made = write(value);
    if (made === undefined && value !== undefined) throw unusable(`${name} must be a value that JSON has.`);
    return made;
  };
  const exported = () => {
    const { exports } = module;
    return typeof exports === 'function' ? exports : exports?.default;
  };
  const hasFormula = () => typeof exported() === 'function';
  // Settles with the answer's two texts.
  const react = async (args, configuration, invocation, bound) => {
    const formula = exported();
    if (typeof formula !== 'function') {
      // What was to leave one may be among them.
      shared.tellRejections();
      throw unusable('The script must assign a function to module.exports.');
    }
    const response = await formula({ args, configuration, svc: bound ? svc() : null, invocation });
    if (response === undefined || response === null) return [undefined, undefined];
    // One that should have been thrown: a refusal must not become an answer.
    if (response instanceof Error) throw response;
    if (typeof response !== 'object' || Array.isArray(response)) throw unusable(`${RESPONSE}.`);
    if (isIterable(response)) throw unusable(`${RESPONSE}; it returned a generator or another iterable.`);
    return [part(response, 'raw', stringify), part(response, 'tokenize', tokenized)];
  };
  const { fire, describe, rejected, tellRejections } = shared;
  return { react, hasFormula, fire, describe, rejected, tellRejections };
})
