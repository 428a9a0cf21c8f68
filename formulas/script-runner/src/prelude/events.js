// Events and their targets, as libraries that were written for browsers use them among themselves.
(function (host, shared) {
  'use strict';
  class Event {
    #type;
    #isCancelable;
    #isPrevented = false;
    #isStopped = false;
    #target = null;
    constructor(type, options) {
      if (arguments.length === 0) throw new TypeError('an event has a type');
      const { cancelable = false } = options ?? {};
      this.#type = String(type);
      this.#isCancelable = Boolean(cancelable);
    }
    get type() { return this.#type; }
    get target() { return this.#target; }
    get currentTarget() { return this.#target; }
    get cancelable() { return this.#isCancelable; }
    get bubbles() { return false; }
    get defaultPrevented() { return this.#isPrevented; }
    preventDefault() { if (this.#isCancelable) this.#isPrevented = true; }
    stopPropagation() {}
    stopImmediatePropagation() { this.#isStopped = true; }
    static begin(event, target) {
      if (!(#type in event)) throw new TypeError('an event is dispatched');
      event.#target = target;
      event.#isStopped = false;
    }
    static isStopped(event) { return event.#isStopped; }
  }
  const { begin, isStopped } = Event;
  for (const name of ['begin', 'isStopped']) delete Event[name];
  class EventTarget {
    // By their types, and of each type in their order. One that is removed while others are told is told no more.
    #listeners = new Map();
    addEventListener(type, listener, options) {
      if (listener === null || listener === undefined) return;
      if (typeof listener !== 'function' && typeof listener !== 'object') throw new TypeError('a listener is a function or an object');
      const name = String(type);
      const { once = false, signal } = typeof options === 'object' && options !== null ? options : {};
      if (!this.#listeners.has(name)) this.#listeners.set(name, new Map());
      const all = this.#listeners.get(name);
      if (signal?.aborted || all.has(listener)) return;
      all.set(listener, { once: Boolean(once), isRemoved: false });
      signal?.addEventListener('abort', () => this.removeEventListener(name, listener));
    }
    removeEventListener(type, listener) {
      const all = this.#listeners.get(String(type));
      const one = all?.get(listener);
      if (one === undefined) return;
      one.isRemoved = true;
      all.delete(listener);
    }
    dispatchEvent(event) {
      begin(event, this);
      const all = this.#listeners.get(event.type) ?? [];
      // Those that are there now, less those that others of them remove.
      for (const [listener, one] of [...all]) {
        if (one.isRemoved) continue;
        if (one.once) this.removeEventListener(event.type, listener);
        try {
          if (typeof listener === 'function') listener.call(this, event);
          else listener.handleEvent(event);
        } catch (error) {
          shared.tellUncaught(error);
        }
        if (isStopped(event)) break;
      }
      return !event.defaultPrevented;
    }
  }
  shared.globals({ Event, EventTarget });
})
