// `crypto` of the web, with digests and HMAC, and as much of Node's module.
(function (host, shared) {
  'use strict';
  const { bytes } = shared;
  const HASHES = { 'SHA-1': 20, 'SHA-256': 32, 'SHA-384': 48, 'SHA-512': 64 };
  const BLOCKS = { 'SHA-1': 64, 'SHA-256': 64, 'SHA-384': 128, 'SHA-512': 128 };
  const unsupported = (what) => new shared.DOMException(`${what} is not supported`, 'NotSupportedError');
  const nameOf = (algorithm) => String(typeof algorithm === 'string' ? algorithm : algorithm?.name).toUpperCase();
  const hashOf = (algorithm) => {
    const name = nameOf(algorithm);
    if (!(name in HASHES)) throw unsupported(name);
    return name;
  };
  const buffer = (array) => array.buffer;
  class CryptoKey {
    #secret;
    constructor(secret, algorithm, extractable, usages) {
      this.#secret = secret;
      Object.assign(this, { type: 'secret', algorithm, extractable, usages });
    }
    static secretOf(key) { return key.#secret; }
  }
  const { secretOf } = CryptoKey;
  delete CryptoKey.secretOf;
  const keyFor = (key, usage) => {
    if (!(key instanceof CryptoKey) || !key.usages.includes(usage)) {
      throw new shared.DOMException(`the key is not for ${usage}`, 'InvalidAccessError');
    }
    return secretOf(key);
  };
  const same = (one, other) => {
    let differ = one.length ^ other.length;
    for (let at = 0; at < one.length; at += 1) differ |= one[at] ^ other[at % other.length];
    return differ === 0 && other.length === one.length;
  };
  const hmac = (algorithm) => {
    if (nameOf(algorithm) !== 'HMAC') throw unsupported(nameOf(algorithm));
  };
  const usagesOf = (usages) => {
    const found = [...usages];
    const isOthers = found.some((usage) => usage !== 'sign' && usage !== 'verify');
    if (found.length === 0 || isOthers) throw new shared.DOMException('a key of HMAC is for sign, verify or both', 'SyntaxError');
    return found;
  };
  const subtle = {
    async digest(algorithm, data) { return buffer(host.digest(hashOf(algorithm), bytes(data))); },
    async importKey(format, data, algorithm, extractable, usages) {
      hmac(algorithm);
      const hash = { name: hashOf(algorithm.hash) };
      let secret;
      if (format === 'raw') secret = bytes(data).slice();
      else if (format === 'jwk' && data.kty === 'oct') secret = host.encode(data.k, 'base64url');
      else throw unsupported(`the format ${format}`);
      // Most often what was to be there is missing.
      if (secret.length === 0) throw new shared.DOMException('the key is empty', 'DataError');
      return new CryptoKey(secret, { name: 'HMAC', hash, length: secret.length * 8 }, Boolean(extractable), usagesOf(usages));
    },
    async exportKey(format, key) {
      if (!key.extractable) throw new shared.DOMException('the key is not extractable', 'InvalidAccessError');
      if (format === 'raw') return buffer(secretOf(key).slice());
      if (format === 'jwk') return { kty: 'oct', k: host.decode(secretOf(key), 'base64url'), ext: true, key_ops: key.usages };
      throw unsupported(`the format ${format}`);
    },
    async generateKey(algorithm, extractable, usages) {
      hmac(algorithm);
      const hash = { name: hashOf(algorithm.hash) };
      const length = algorithm.length ?? BLOCKS[hash.name] * 8;
      return new CryptoKey(host.random(Math.ceil(length / 8)), { name: 'HMAC', hash, length }, Boolean(extractable), usagesOf(usages));
    },
    async sign(algorithm, key, data) {
      hmac(algorithm);
      return buffer(host.hmac(key.algorithm.hash.name, keyFor(key, 'sign'), bytes(data)));
    },
    async verify(algorithm, key, signature, data) {
      hmac(algorithm);
      return same(host.hmac(key.algorithm.hash.name, keyFor(key, 'verify'), bytes(data)), bytes(signature));
    },
  };
  const crypto = {
    subtle,
    randomUUID: () => host.uuid(),
    getRandomValues(view) {
      if (!ArrayBuffer.isView(view) || /Float|DataView/.test(view.constructor.name)) throw new TypeError('an integer array is needed');
      if (view.byteLength > 65536) throw new shared.DOMException('at most 65536 bytes at a time', 'QuotaExceededError');
      bytes(view).set(host.random(view.byteLength));
      return view;
    },
  };

  const input = (data, encoding) => (typeof data === 'string' ? shared.Buffer.from(data, encoding) : bytes(data));
  const NODE_HASHES = { sha1: 'SHA-1', sha256: 'SHA-256', sha384: 'SHA-384', sha512: 'SHA-512' };
  const nodeHash = (name) => {
    const known = NODE_HASHES[String(name).toLowerCase().replace('-', '')];
    if (known === undefined) throw new Error(`the digest ${name} is not supported`);
    return known;
  };
  class Hash {
    #parts = [];
    #finish;
    constructor(finish) { this.#finish = finish; }
    update(data, encoding) { this.#parts.push(input(data, encoding).slice()); return this; }
    digest(encoding) {
      if (this.#finish === null) throw new Error('the digest was taken already');
      const made = shared.Buffer.from(this.#finish(shared.Buffer.concat(this.#parts)));
      this.#finish = null;
      return encoding === undefined ? made : made.toString(encoding);
    }
  }
  shared.nodeCrypto = {
    ...crypto,
    webcrypto: crypto,
    createHash: (name) => { const hash = nodeHash(name); return new Hash((data) => host.digest(hash, data)); },
    createHmac: (name, key) => {
      const [hash, secret] = [nodeHash(name), input(key).slice()];
      return new Hash((data) => host.hmac(hash, secret, data));
    },
    randomBytes: (length) => shared.Buffer.from(host.random(length)),
    randomInt(low, high) {
      const [least, limit] = high === undefined ? [0, low] : [low, high];
      const range = limit - least;
      if (!Number.isSafeInteger(range) || range < 1 || range > 2 ** 32) throw new RangeError('the range is from 1 to 2 ** 32');
      const fair = 2 ** 32 - (2 ** 32 % range);
      for (;;) {
        const drawn = shared.Buffer.from(host.random(4)).readUInt32LE();
        if (drawn < fair) return least + (drawn % range);
      }
    },
    timingSafeEqual(one, other) {
      const [a, b] = [bytes(one), bytes(other)];
      if (a.length !== b.length) throw new RangeError('the lengths differ');
      return same(a, b);
    },
  };
  // The engine's own is seeded when it is set up: every run would draw the same numbers.
  const { random } = { random() { return host.number(); } };
  Object.defineProperty(Math, 'random', { value: random, writable: true, configurable: true, enumerable: false });
  shared.globals({ crypto, CryptoKey });
})
