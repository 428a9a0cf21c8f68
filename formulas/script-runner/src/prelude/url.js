// `URL` and `URLSearchParams`; the parsing is the host's.
(function (host, shared) {
  'use strict';
  const decode = (text) => host.decode(host.percentDecode(text.replace(/\+/g, ' ')), 'utf8');
  const encode = (text) => encodeURIComponent(String(text).toWellFormed())
    .replace(/[!'()~]/g, (mark) => `%${mark.charCodeAt(0).toString(16).toUpperCase()}`).replace(/%20/g, '+');
  // A symbol is none, and says so.
  const text = (value) => `${value}`;
  const read = (query) => query.replace(/^\?/, '').split('&').filter((part) => part !== '').map((part) => {
    const at = part.indexOf('=');
    return (at < 0 ? [part, ''] : [part.slice(0, at), part.slice(at + 1)]).map(decode);
  });
  class URLSearchParams {
    #pairs = [];
    #changed = () => {};
    constructor(given = '') {
      if (given !== null && typeof given === 'object') {
        const pairs = typeof given[Symbol.iterator] === 'function' ? given : Object.entries(given);
        for (const pair of pairs) {
          const [name, value, ...more] = pair;
          if (value === undefined && pair.length < 2 || more.length > 0) throw new TypeError('a parameter is a name and a value');
          this.#pairs.push([text(name), text(value)]);
        }
        return;
      }
      this.#pairs = read(String(given));
    }
    // Those of an address, which is told when they change, and tells when it does.
    static of(query, changed) {
      const params = new URLSearchParams();
      params.#changed = changed;
      params.#pairs = read(query);
      return [params, (changedTo) => { params.#pairs = read(changedTo); }];
    }
    get size() { return this.#pairs.length; }
    append(name, value) {
      if (arguments.length < 2) throw new TypeError('append takes a name and a value');
      this.#pairs.push([text(name), text(value)]);
      this.#changed();
    }
    delete(name, value) {
      this.#pairs = this.#pairs.filter(([known, held]) => known !== String(name) || (value !== undefined && held !== String(value)));
      this.#changed();
    }
    get(name) { return this.#pairs.find(([known]) => known === String(name))?.[1] ?? null; }
    getAll(name) { return this.#pairs.filter(([known]) => known === String(name)).map(([, value]) => value); }
    has(name, value) {
      return this.#pairs.some(([known, held]) => known === String(name) && (value === undefined || held === String(value)));
    }
    set(name, value) {
      if (arguments.length < 2) throw new TypeError('set takes a name and a value');
      const at = this.#pairs.findIndex(([known]) => known === String(name));
      if (at < 0) {
        this.#pairs.push([String(name), String(value)]);
      } else {
        this.#pairs = this.#pairs.filter(([known], index) => index <= at || known !== String(name));
        this.#pairs[at] = [String(name), String(value)];
      }
      this.#changed();
    }
    sort() { this.#pairs.sort(([one], [other]) => (one < other ? -1 : one > other ? 1 : 0)); this.#changed(); }
    forEach(each, self) { for (const [name, value] of this) each.call(self, value, name, this); }
    // What changes meanwhile is seen.
    * entries() { for (let at = 0; at < this.#pairs.length; at += 1) yield [...this.#pairs[at]]; }
    * keys() { for (const [name] of this.entries()) yield name; }
    * values() { for (const [, value] of this.entries()) yield value; }
    [Symbol.iterator]() { return this.entries(); }
    toString() { return this.#pairs.map(([name, value]) => `${encode(name)}=${encode(value)}`).join('&'); }
  }
  const { of } = URLSearchParams;
  delete URLSearchParams.of;
  class URL {
    #known;
    #params = null;
    #refill = () => {};
    // Whether the parameters have changed: the query is written when it is wanted.
    #isStale = false;
    get #parts() {
      if (this.#isStale) {
        this.#isStale = false;
        this.#known = host.urlSet(this.#known.href, 'search', this.#params.toString());
      }
      return this.#known;
    }
    set #parts(parts) {
      this.#isStale = false;
      this.#known = parts;
    }
    constructor(url, base) {
      const parts = host.url(String(url), base === undefined ? undefined : String(base));
      if (parts === undefined) throw new TypeError('Invalid URL');
      this.#parts = parts;
    }
    static canParse(url, base) { return host.url(String(url), base === undefined ? undefined : String(base)) !== undefined; }
    static parse(url, base) { return URL.canParse(url, base) ? new URL(url, base) : null; }
    _set(part, value) {
      this.#parts = host.urlSet(this.#parts.href, part, String(value));
      if (part === 'search') this.#refill(this.#parts.search);
    }
    _part(part) { return this.#parts[part]; }
    get searchParams() {
      if (this.#params === null) {
        [this.#params, this.#refill] = of(this.#parts.search, () => { this.#isStale = true; });
      }
      return this.#params;
    }
    get origin() { return this.#parts.origin; }
    get href() { return this.#parts.href; }
    set href(value) {
      if (host.url(String(value), undefined) === undefined) throw new TypeError('Invalid URL');
      this.#parts = host.url(String(value), undefined);
      this.#refill(this.#parts.search);
    }
    toString() { return this.href; }
    toJSON() { return this.href; }
  }
  const { _set, _part } = URL.prototype;
  delete URL.prototype._set;
  delete URL.prototype._part;
  for (const part of ['protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'hash']) {
    Object.defineProperty(URL.prototype, part, {
      get() { return _part.call(this, part); },
      set(value) { _set.call(this, part, value); },
      enumerable: true,
      configurable: true,
    });
  }
  shared.globals({ URL, URLSearchParams });
})
