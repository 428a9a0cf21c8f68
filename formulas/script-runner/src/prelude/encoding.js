// Text and bytes: `TextEncoder`, `TextDecoder`, `atob`, `btoa`, `structuredClone`.
(function (host, shared) {
  'use strict';
  // The bytes of an ArrayBuffer or of any view of one, without a copy.
  shared.bytes = (value, what = 'the value') => {
    if (value instanceof Uint8Array) return value;
    if (ArrayBuffer.isView(value)) return new Uint8Array(value.buffer, value.byteOffset, value.byteLength);
    if (value instanceof ArrayBuffer) return new Uint8Array(value);
    throw new TypeError(`${what} must be an ArrayBuffer or a view of one`);
  };
  class TextEncoder {
    get encoding() { return 'utf-8'; }
    encode(text = '') { return host.encode(String(text), 'utf8'); }
    encodeInto(text, into) {
      const bytes = this.encode(text);
      let written = Math.min(bytes.length, into.length);
      // Not within a character.
      while (written < bytes.length && (bytes[written] & 0xc0) === 0x80) written -= 1;
      into.set(bytes.subarray(0, written));
      return { read: host.decode(bytes.subarray(0, written), 'utf8').length, written };
    }
  }
  const LABELS = { 'utf-8': 'utf8', utf8: 'utf8', 'utf-16le': 'utf16le', 'utf-16': 'utf16le', 'latin1': 'latin1', 'iso-8859-1': 'latin1', 'ascii': 'latin1', 'us-ascii': 'latin1' };
  const NAMES = { utf8: 'utf-8', utf16le: 'utf-16le', latin1: 'windows-1252' };
  class TextDecoder {
    #encoding;
    constructor(label = 'utf-8', { fatal = false, ignoreBOM = false } = {}) {
      this.#encoding = LABELS[String(label).trim().toLowerCase()];
      if (this.#encoding === undefined) throw new RangeError(`the encoding ${label} is not known`);
      this.fatal = Boolean(fatal);
      this.ignoreBOM = Boolean(ignoreBOM);
    }
    get encoding() { return NAMES[this.#encoding]; }
    decode(given, { stream = false } = {}) {
      // What a part ends in the middle of would be lost.
      if (stream) throw new TypeError('a text is decoded as a whole, and not in parts');
      if (given === undefined) return '';
      const bytes = shared.bytes(given);
      if (this.fatal && this.#encoding === 'utf8' && !host.isUtf8(bytes)) {
        throw new TypeError('the bytes are no UTF-8');
      }
      let text = host.decode(bytes, this.#encoding);
      if (this.#encoding === 'utf16le' && (bytes.length % 2 !== 0 || !text.isWellFormed())) {
        if (this.fatal) throw new TypeError('the bytes are no UTF-16');
        // Half a unit at the end goes with half a pair before it.
        const isLost = bytes.length % 2 !== 0 && !/[\ud800-\udbff]$/.test(text);
        text = text.toWellFormed() + (isLost ? '\ufffd' : '');
      }
      return !this.ignoreBOM && text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
    }
  }
  // Numbers of errors from before they had names, which some libraries still look at.
  const CODES = {
    IndexSizeError: 1, HierarchyRequestError: 3, WrongDocumentError: 4, InvalidCharacterError: 5, NoModificationAllowedError: 7,
    NotFoundError: 8, NotSupportedError: 9, InUseAttributeError: 10, InvalidStateError: 11, SyntaxError: 12,
    InvalidModificationError: 13, NamespaceError: 14, InvalidAccessError: 15, TypeMismatchError: 17, SecurityError: 18,
    NetworkError: 19, AbortError: 20, URLMismatchError: 21, QuotaExceededError: 22, TimeoutError: 23, InvalidNodeTypeError: 24,
    DataCloneError: 25,
  };
  class DOMException extends Error {
    #name;
    constructor(message = '', options = 'Error') {
      const { name = 'Error', cause } = typeof options === 'object' && options !== null ? options : { name: options };
      super(message, cause === undefined ? undefined : { cause });
      this.#name = String(name);
    }
    get name() { return this.#name; }
    get code() { return Object.hasOwn(CODES, this.#name) ? CODES[this.#name] : 0; }
  }
  const refused = (why) => new DOMException(why, 'InvalidCharacterError');
  const btoa = (given) => {
    const text = String(given);
    if (/[^\u0000-\u00ff]/.test(text)) throw refused('the string has characters beyond Latin-1');
    return host.decode(host.encode(text, 'latin1'), 'base64');
  };
  const atob = (given) => {
    let text = String(given).replace(/[\t\n\f\r ]/g, '');
    if (text.length % 4 === 0) text = text.replace(/==?$/, '');
    if (text.length % 4 === 1 || /[^A-Za-z0-9+/]/.test(text)) throw refused('the string is no base64');
    return host.decode(host.encode(text, 'base64'), 'latin1');
  };

  const { defineProperty } = Object;
  const { toString } = Object.prototype;
  const OTHERS = new Set(['Promise', 'WeakMap', 'WeakSet', 'WeakRef', 'Symbol', 'Generator', 'AsyncGenerator'].map((kind) => `[object ${kind}]`));
  const cloned = (value, known) => {
    if (typeof value === 'function' || typeof value === 'symbol') {
      throw new DOMException('functions and symbols cannot be cloned', 'DataCloneError');
    }
    if (value === null || typeof value !== 'object') return value;
    if (known.has(value)) return known.get(value);
    const keep = (copy) => { known.set(value, copy); return copy; };
    // Nobody can change one.
    if (value instanceof shared.Blob) return value;
    if (value instanceof Date) return keep(new Date(value.getTime()));
    for (const kind of [Number, String, Boolean, BigInt]) if (value instanceof kind) return keep(Object(value.valueOf()));
    if (value instanceof RegExp) return keep(new RegExp(value.source, value.flags));
    if (value instanceof ArrayBuffer) return keep(value.slice(0));
    if (ArrayBuffer.isView(value)) {
      const kind = value instanceof shared.Buffer ? Uint8Array : value.constructor;
      // Views of the same bytes stay so.
      return keep(new kind(cloned(value.buffer, known), value.byteOffset, value.length ?? value.byteLength));
    }
    if (value instanceof Map) {
      const copy = keep(new Map());
      for (const [key, held] of [...value]) copy.set(cloned(key, known), cloned(held, known));
      return copy;
    }
    if (value instanceof Set) {
      const copy = keep(new Set());
      for (const held of [...value]) copy.add(cloned(held, known));
      return copy;
    }
    if (value instanceof Error) {
      const kind = { TypeError, RangeError, SyntaxError, ReferenceError, EvalError, URIError }[value.name] ?? Error;
      return keep(new kind(value.message, value.cause === undefined ? undefined : { cause: cloned(value.cause, known) }));
    }
    if (OTHERS.has(toString.call(value))) {
      throw new DOMException('this kind of object cannot be cloned', 'DataCloneError');
    }
    const copy = keep(Array.isArray(value) ? new Array(value.length) : {});
    for (const key of Object.keys(value)) {
      const held = cloned(value[key], known);
      // To assign that one would give the copy a prototype.
      if (key === '__proto__') defineProperty(copy, key, { value: held, writable: true, enumerable: true, configurable: true });
      else copy[key] = held;
    }
    return copy;
  };
  function structuredClone(value, { transfer = [] } = {}) {
    if (arguments.length === 0) throw new TypeError('structuredClone takes a value');
    if (transfer.length > 0) throw new DOMException('nothing can be transferred here', 'DataCloneError');
    return cloned(value, new Map());
  }
  shared.DOMException = DOMException;
  shared.globals({ TextEncoder, TextDecoder, DOMException, atob, btoa, structuredClone });
})
