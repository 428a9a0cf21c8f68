// The basics of Node's `Buffer`.
(function (host, shared) {
  'use strict';
  const ENCODINGS = {
    utf8: 'utf8', 'utf-8': 'utf8', hex: 'hex', base64: 'base64', base64url: 'base64url', latin1: 'latin1',
    binary: 'latin1', ascii: 'ascii', utf16le: 'utf16le', 'utf-16le': 'utf16le', ucs2: 'utf16le', 'ucs-2': 'utf16le',
  };
  const encodingOf = (name) => {
    const known = ENCODINGS[String(name ?? 'utf8').toLowerCase()];
    if (known === undefined) throw new TypeError(`Unknown encoding: ${name}`);
    return known;
  };
  const whole = (number) => Math.trunc(Number(number)) || 0;
  const bytesOf = (bytes, start, end) => Uint8Array.prototype.subarray.call(bytes, Math.max(0, start), Math.max(0, end));
  // What is looked for, and how far its places are apart.
  const wantedOf = (value, name) => {
    const encoding = encodingOf(name);
    return typeof value === 'string' ? [host.encode(value, encoding), encoding === 'utf16le' ? 2 : 1] : [value, 1];
  };
  // A place that is counted from the end when it is negative.
  const fromStart = (at, length) => (at < 0 ? Math.max(0, length + at) : at);
  const over = (bytes) => new Buffer(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const isText = (value) => typeof value === 'string' || value instanceof String;
  class Buffer extends Uint8Array {
    // As in Node, where old scripts still write it so. As in arrays, a text or what is not there would be no bytes, and a key
    // that signs nothing.
    constructor(value, encoding, length) {
      if (typeof value === 'number') super(value);
      else if (value instanceof ArrayBuffer) super(value, encoding, length);
      else {
        const bytes = Buffer.from(value, encoding);
        super(bytes.buffer, bytes.byteOffset, bytes.byteLength);
      }
    }
    static from(value, encoding, length) {
      if (isText(value)) return over(host.encode(String(value), encodingOf(encoding)));
      if (value instanceof ArrayBuffer) return new Buffer(value, encoding, length);
      if (ArrayBuffer.isView(value)) {
        const numbers = value instanceof DataView ? shared.bytes(value) : value;
        const copy = new Buffer(numbers.length);
        copy.set(numbers);
        return copy;
      }
      if (value?.type === 'Buffer' && Array.isArray(value.data)) return Buffer.from(value.data);
      if (typeof value === 'object' && typeof value?.length === 'number') {
        const copy = new Buffer(value.length);
        for (let at = 0; at < value.length; at += 1) copy[at] = value[at];
        return copy;
      }
      throw new TypeError('Buffer.from takes a string, an array, a buffer or a view of one');
    }
    static of(...bytes) { return Buffer.from(bytes); }
    static alloc(length, fill, encoding) {
      const made = new Buffer(length);
      return fill === undefined ? made : made.fill(fill, 0, length, encoding);
    }
    static allocUnsafe(length) { return new Buffer(length); }
    static isBuffer(value) { return value instanceof Buffer; }
    static isEncoding(name) { return ENCODINGS[String(name).toLowerCase()] !== undefined; }
    static byteLength(value, encoding) {
      if (isText(value)) return Buffer.from(value, encoding).length;
      if (value instanceof ArrayBuffer || ArrayBuffer.isView(value)) return value.byteLength;
      throw new TypeError('Buffer.byteLength takes a string, an ArrayBuffer or a view of one');
    }
    static concat(parts, total = parts.reduce((sum, part) => sum + part.length, 0)) {
      if (!parts.every((part) => part instanceof Uint8Array)) throw new TypeError('Buffer.concat takes buffers');
      const made = new Buffer(total);
      let at = 0;
      for (const part of parts) {
        if (at >= total) break;
        const taken = part.subarray(0, total - at);
        made.set(taken, at);
        at += taken.length;
      }
      return made;
    }
    static compare(one, other) {
      const length = Math.min(one.length, other.length);
      for (let at = 0; at < length; at += 1) {
        if (one[at] !== other[at]) return one[at] < other[at] ? -1 : 1;
      }
      return Math.sign(one.length - other.length);
    }
    // Unlike those of `subarray`, its numbers do not count from the end.
    toString(encoding, start = 0, end = this.length) {
      return host.decode(super.subarray(Math.max(0, start), Math.max(0, end)), encodingOf(encoding));
    }
    toJSON() { return { type: 'Buffer', data: Array.from(this) }; }
    equals(other) { return Buffer.compare(this, other) === 0; }
    compare(other, otherStart = 0, otherEnd = other.length, start = 0, end = this.length) {
      return Buffer.compare(bytesOf(this, start, end), bytesOf(other, otherStart, otherEnd));
    }
    slice(start, end) { return this.subarray(start, end); }
    subarray(start, end) { return over(super.subarray(start, end)); }
    // As in Node, an encoding may stand in the place of the numbers before it.
    write(text, start = 0, length = this.length - start, encoding = 'utf8') {
      if (typeof start === 'string') return this.write(text, 0, this.length, start);
      if (typeof length === 'string') return this.write(text, start, this.length - start, length);
      const known = encodingOf(encoding);
      const bytes = host.encode(text, known);
      let written = Math.min(bytes.length, length, this.length - start);
      // Not within a character.
      if (known === 'utf8') while (written < bytes.length && (bytes[written] & 0xc0) === 0x80) written -= 1;
      if (known === 'utf16le') written -= written % 2;
      this.set(bytes.subarray(0, written), start);
      return written;
    }
    copy(into, at = 0, start = 0, end = this.length) {
      if (at < 0 || start < 0 || start > this.length) throw new RangeError('the place is outside of the buffer');
      if (at >= into.length || start >= end) return 0;
      const taken = super.subarray(start, Math.min(end, start + into.length - at));
      into.set(taken, at);
      return taken.length;
    }
    fill(value, start = 0, end = this.length, encoding = 'utf8') {
      if (typeof start === 'string') return this.fill(value, 0, this.length, start);
      if (typeof end === 'string') return this.fill(value, start, this.length, end);
      if (typeof value === 'number') return super.fill(value, start, end);
      const bytes = typeof value === 'string' ? host.encode(value, encodingOf(encoding)) : value;
      for (let at = start; at < end; at += 1) this[at] = bytes.length === 0 ? 0 : bytes[(at - start) % bytes.length];
      return this;
    }
    #has(wanted, at) {
      let same = 0;
      while (same < wanted.length && this[at + same] === wanted[same]) same += 1;
      return same === wanted.length;
    }
    indexOf(value, start = 0, encoding = 'utf8') {
      if (typeof start === 'string') return this.indexOf(value, 0, start);
      if (typeof value === 'number') return super.indexOf(value & 255, start);
      const [wanted, step] = wantedOf(value, encoding);
      const first = fromStart(whole(start), this.length);
      if (wanted.length === 0) return Math.min(first, this.length);
      for (let at = first; at + wanted.length <= this.length; at += step) {
        if (this.#has(wanted, at)) return at;
      }
      return -1;
    }
    lastIndexOf(value, start = this.length, encoding = 'utf8') {
      if (typeof start === 'string') return this.lastIndexOf(value, this.length, start);
      if (typeof value === 'number') return super.lastIndexOf(value & 255, start);
      const [wanted, step] = wantedOf(value, encoding);
      const given = Number.isNaN(Number(start)) ? this.length : whole(start);
      const last = given < 0 ? this.length + given : given;
      for (let at = Math.min(last, this.length - wanted.length); at >= 0; at -= 1) {
        if (at % step === 0 && this.#has(wanted, at)) return at;
      }
      return -1;
    }
    includes(value, start, encoding) { return this.indexOf(value, start, encoding) !== -1; }
  }
  const view = (bytes) => new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  for (const [name, width, method, least, most] of [
    ['UInt8', 1, 'Uint8', 0, 255], ['Int8', 1, 'Int8', -128, 127],
    ['UInt16', 2, 'Uint16', 0, 65535], ['Int16', 2, 'Int16', -32768, 32767],
    ['UInt32', 4, 'Uint32', 0, 4294967295], ['Int32', 4, 'Int32', -2147483648, 2147483647],
    ['Float', 4, 'Float32', -Infinity, Infinity], ['Double', 8, 'Float64', -Infinity, Infinity],
    ['BigUInt64', 8, 'BigUint64', 0n, 2n ** 64n - 1n], ['BigInt64', 8, 'BigInt64', -(2n ** 63n), 2n ** 63n - 1n],
  ]) {
    for (const [order, little] of width === 1 ? [['', true]] : [['LE', true], ['BE', false]]) {
      Buffer.prototype[`read${name}${order}`] = function (at = 0) { return view(this)[`get${method}`](at, little); };
      Buffer.prototype[`write${name}${order}`] = function (value, at = 0) {
        if (value < least || value > most) throw new RangeError(`the value is none of ${least} to ${most}`);
        view(this)[`set${method}`](at, value, little);
        return at + width;
      };
      // Node has both spellings.
      const other = name.replace('UInt', 'Uint');
      for (const does of name === other ? [] : ['read', 'write']) {
        Buffer.prototype[`${does}${other}${order}`] = Buffer.prototype[`${does}${name}${order}`];
      }
    }
  }
  shared.Buffer = Buffer;
  shared.globals({ Buffer });
})
