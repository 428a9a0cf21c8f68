// `Blob`, `File` and `FormData`: how other servers take files.
(function (host, shared) {
  'use strict';
  // As forms break lines.
  const broken = (text) => text.replace(/\r\n?|\n/g, '\r\n');
  const whole = (value) => `${value}`.toWellFormed();
  const joined = (parts) => {
    const all = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
    let at = 0;
    for (const part of parts) {
      all.set(part, at);
      at += part.length;
    }
    return all;
  };
  const bytesOfPart = (part, endings) => {
    if (part instanceof Blob) return bytesOf(part);
    if (part instanceof ArrayBuffer || ArrayBuffer.isView(part)) return shared.bytes(part);
    const text = whole(part);
    return host.encode(endings === 'native' ? text.replace(/\r\n?/g, '\n') : text, 'utf8');
  };
  // It stands in a header of the request, which another line in it would be one of.
  const typeOf = (given) => (/^[\u0020-\u007e]*$/.test(given) ? `${given}`.toLowerCase() : '');
  class Blob {
    #bytes;
    #type;
    constructor(parts = [], options) {
      const { type = '', endings = 'transparent' } = options ?? {};
      if (typeof parts !== 'object' || typeof parts?.[Symbol.iterator] !== 'function') {
        throw new TypeError('the parts of a Blob must be in an array');
      }
      // A copy: whoever made it may write to what it was made of.
      this.#bytes = joined([...parts].map((part) => bytesOfPart(part, endings)));
      this.#type = typeOf(type);
    }
    get size() { return this.#bytes.length; }
    get type() { return this.#type; }
    get [Symbol.toStringTag]() { return 'Blob'; }
    slice(start = 0, end = this.size, type = '') {
      const part = new Blob([], { type });
      part.#bytes = this.#bytes.subarray(start, end);
      return part;
    }
    async text() {
      const text = host.decode(this.#bytes, 'utf8');
      return text.charCodeAt(0) === 0xfeff ? text.slice(1) : text;
    }
    async arrayBuffer() { return this.#bytes.slice().buffer; }
    async bytes() { return this.#bytes.slice(); }
    static bytesOf(blob) { return blob.#bytes; }
  }
  const { bytesOf } = Blob;
  delete Blob.bytesOf;
  class File extends Blob {
    #name;
    #lastModified;
    constructor(parts, name, options) {
      if (arguments.length < 2) throw new TypeError('a File takes its parts and its name');
      super(parts, options);
      this.#name = whole(name);
      const { lastModified = Date.now() } = options ?? {};
      this.#lastModified = Math.trunc(lastModified) || 0;
    }
    get name() { return this.#name; }
    get lastModified() { return this.#lastModified; }
    get [Symbol.toStringTag]() { return 'File'; }
  }
  const entry = (method, given) => {
    if (given.length < 2) throw new TypeError(`${method} takes a name and a value`);
    const [name, value, filename] = given;
    if (!(value instanceof Blob)) {
      if (filename !== undefined) throw new TypeError(`${method} takes a file name with a Blob alone`);
      return [whole(name), whole(value)];
    }
    if (value instanceof File && filename === undefined) return [whole(name), value];
    const { type, lastModified } = value;
    return [whole(name), new File([value], filename ?? 'blob', { type, lastModified })];
  };
  class FormData {
    #entries = [];
    constructor(form) {
      if (form !== undefined) throw new TypeError('there are no forms to take entries of');
    }
    get [Symbol.toStringTag]() { return 'FormData'; }
    append(...given) { this.#entries.push(entry('append', given)); }
    set(...given) {
      const made = entry('set', given);
      const at = this.#entries.findIndex(([known]) => known === made[0]);
      if (at < 0) {
        this.#entries.push(made);
      } else {
        this.#entries = this.#entries.filter(([known], index) => index <= at || known !== made[0]);
        this.#entries[at] = made;
      }
    }
    delete(name) { this.#entries = this.#entries.filter(([known]) => known !== String(name)); }
    get(name) { return this.#entries.find(([known]) => known === String(name))?.[1] ?? null; }
    getAll(name) { return this.#entries.filter(([known]) => known === String(name)).map(([, value]) => value); }
    has(name) { return this.#entries.some(([known]) => known === String(name)); }
    forEach(each, self) { for (const [name, value] of this.entries()) each.call(self, value, name, this); }
    // What changes meanwhile is seen.
    * entries() { for (let at = 0; at < this.#entries.length; at += 1) yield [...this.#entries[at]]; }
    * keys() { for (const [name] of this.entries()) yield name; }
    * values() { for (const [, value] of this.entries()) yield value; }
    [Symbol.iterator]() { return this.entries(); }
  }
  // What ends a quoted text or a header within one.
  const quoted = (text) => `"${text.replace(/\r/g, '%0D').replace(/\n/g, '%0A').replace(/"/g, '%22')}"`;
  // A form as a body, and that body's type. Nobody who fills it in knows what ends a part.
  const encoded = (form) => {
    const boundary = `----form-${host.uuid()}`;
    const parts = [];
    for (const [name, value] of form) {
      const head = `--${boundary}\r\nContent-Disposition: form-data; name=${quoted(broken(name))}`;
      if (value instanceof Blob) {
        const type = value.type === '' ? 'application/octet-stream' : value.type;
        parts.push(host.encode(`${head}; filename=${quoted(value.name)}\r\nContent-Type: ${type}\r\n\r\n`, 'utf8'), bytesOf(value));
      } else {
        parts.push(host.encode(`${head}\r\n\r\n${broken(value)}`, 'utf8'));
      }
      parts.push(host.encode('\r\n', 'utf8'));
    }
    parts.push(host.encode(`--${boundary}--\r\n`, 'utf8'));
    return [joined(parts), `multipart/form-data; boundary=${boundary}`];
  };
  // The bytes and the type of a body that is one of these.
  shared.formBody = (body) => {
    if (body instanceof Blob) return [bytesOf(body), body.type === '' ? null : body.type];
    return body instanceof FormData ? encoded(body) : undefined;
  };
  shared.Blob = Blob;
  shared.globals({ Blob, File, FormData });
})
