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
    #listeners = [];
    addEventListener(type, listener, options) {
      if (listener === null || listener === undefined) return;
      const name = String(type);
      if (this.#listeners.some((one) => one.name === name && one.listener === listener)) return;
      const { once = false, signal } = typeof options === 'object' && options !== null ? options : {};
      if (signal?.aborted) return;
      this.#listeners.push({ name, listener, once });
      signal?.addEventListener('abort', () => this.removeEventListener(name, listener));
    }
    removeEventListener(type, listener) {
      const name = String(type);
      this.#listeners = this.#listeners.filter((one) => one.name !== name || one.listener !== listener);
    }
    dispatchEvent(event) {
      begin(event, this);
      // Those that are there now, less those that others of them remove.
      for (const one of [...this.#listeners]) {
        if (one.name !== event.type || !this.#listeners.includes(one)) continue;
        if (one.once) this.removeEventListener(one.name, one.listener);
        try {
          if (typeof one.listener === 'function') one.listener.call(this, event);
          else one.listener.handleEvent(event);
        } catch (error) {
          shared.tellUncaught(error);
        }
        if (isStopped(event)) break;
      }
      return !event.defaultPrevented;
    }
  }
  // An event that is dispatched to one listener alone.
  shared.eventOf = (type, target) => {
    const event = new Event(type);
    begin(event, target);
    return event;
  };
  shared.globals({ Event, EventTarget });
})
