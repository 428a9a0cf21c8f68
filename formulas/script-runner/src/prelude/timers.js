// Timers, and what is waited for when nothing else is left to do: the next of them, or an answer to a request.
(function (host, shared) {
  'use strict';
  const waiting = [];
  let next = 1;
  const add = (call, delay, every, values) => {
    if (typeof call !== 'function') throw new TypeError('a timer takes a function');
    const wait = Math.max(1, Math.trunc(Number(delay)) || 0);
    const id = next++;
    waiting.push({ id, at: host.now() + wait, every: every ? wait : 0, call, values });
    return id;
  };
  const remove = (id) => {
    const at = waiting.findIndex((timer) => timer.id === id);
    if (at >= 0) waiting.splice(at, 1);
  };
  // Waits for the timer that is due first and calls it, or for an answer if one comes before; false when there is neither.
  shared.fire = () => {
    if (waiting.length === 0) return shared.isFetching() && shared.takeAnswer(undefined);
    let first = waiting[0];
    for (const timer of waiting) if (timer.at < first.at) first = timer;
    const left = Math.max(0, first.at - host.now());
    if (shared.isFetching()) {
      if (shared.takeAnswer(Math.ceil(left))) return true;
    } else if (left > 0) host.sleep(left);
    if (first.every > 0) first.at = host.now() + first.every;
    else remove(first.id);
    first.call(...first.values);
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
    queueMicrotask: (call) => { Promise.resolve().then(call); },
    performance: { now: () => host.now(), timeOrigin: 0 },
  });
})
