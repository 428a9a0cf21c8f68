// Timers, and what is waited for when nothing else is left to do: the next of them, or an answer to a request.
(function (host, shared) {
  'use strict';
  const WAIT_MAX = 2 ** 31 - 1;
  // By their ids; and in a heap, none due before the one at half its place. Those that were removed stay in the heap for a
  // while, without a call.
  const known = new Map();
  let heap = [];
  let next = 1;
  const isBefore = (one, other) => one.at < other.at || (one.at === other.at && one.id < other.id);
  const lift = (timer) => {
    let place = heap.length;
    while (place > 0 && isBefore(timer, heap[(place - 1) >> 1])) {
      heap[place] = heap[(place - 1) >> 1];
      place = (place - 1) >> 1;
    }
    heap[place] = timer;
  };
  const takeFirst = () => {
    const first = heap[0];
    const last = heap.pop();
    if (heap.length === 0) return first;
    let place = 0;
    for (;;) {
      let below = 2 * place + 1;
      if (below + 1 < heap.length && isBefore(heap[below + 1], heap[below])) below += 1;
      if (below >= heap.length || !isBefore(heap[below], last)) break;
      heap[place] = heap[below];
      place = below;
    }
    heap[place] = last;
    return first;
  };
  const add = (call, delay, every, values) => {
    if (typeof call !== 'function') throw new TypeError('a timer takes a function');
    const asked = Math.trunc(Number(delay));
    // As in Node: what is no such wait is none.
    const wait = asked >= 1 && asked <= WAIT_MAX ? asked : 1;
    const timer = { id: next++, at: host.now() + wait, every: every ? wait : 0, call, values };
    known.set(timer.id, timer);
    lift(timer);
    return timer.id;
  };
  const remove = (id) => {
    const timer = known.get(Number(id));
    if (timer === undefined) return;
    known.delete(timer.id);
    timer.call = timer.values = null;
    if (heap.length > 2 * known.size + 100) {
      const left = heap.filter((one) => one.call !== null);
      heap = [];
      left.forEach(lift);
    }
  };
  // Waits for the timer that is due first and calls it, or for an answer if one comes before; false when there is neither.
  shared.fire = () => {
    while (heap.length > 0 && heap[0].call === null) takeFirst();
    if (heap.length === 0) return shared.isFetching() && shared.takeAnswer(undefined);
    const first = heap[0];
    const left = Math.max(0, first.at - host.now());
    if (shared.isFetching()) {
      if (shared.takeAnswer(Math.ceil(left))) return true;
    } else if (left > 0) host.sleep(left);
    const { call, values } = takeFirst();
    if (first.every > 0) {
      first.at = host.now() + first.every;
      lift(first);
    } else known.delete(first.id);
    call(...values);
    return true;
  };
  // For other files: what a script puts in a timer's place is its own.
  shared.after = (wait, call) => add(call, wait, false, []);
  shared.timers = {
    setTimeout: (call, delay, ...values) => add(call, delay, false, values),
    setInterval: (call, delay, ...values) => add(call, delay, true, values),
    setImmediate: (call, ...values) => add(call, 0, false, values),
    clearTimeout: remove, clearInterval: remove, clearImmediate: remove,
  };
  shared.globals({
    ...shared.timers,
    queueMicrotask: (call) => {
      if (typeof call !== 'function') throw new TypeError('queueMicrotask takes a function');
      Promise.resolve().then(call);
    },
    performance: { now: () => host.now() },
  });
})
