// The server's figures, read from the text that Prometheus reads. Pure.

const LINE = /^([a-z_:][a-z0-9_:]*)(?:\{(.*)\})? ([0-9.e+-]+|\+Inf|NaN)$/i;
const LABEL = /([a-z_]+)="((?:[^"\\]|\\.)*)"/gi;

/** Every sample: `{ name, labels, value }`. */
export function parse(text) {
  const found = [];
  for (const line of text.split("\n")) {
    const match = line.startsWith("#") ? null : LINE.exec(line);
    if (!match) continue;
    const labels = {};
    for (const [, name, value] of (match[2] ?? "").matchAll(LABEL)) labels[name] = value.replace(/\\(.)/g, "$1");
    found.push({ name: match[1], labels, value: Number(match[3]) });
  }
  return found;
}

/** What is looked at of all samples: requests without those for the figures themselves, times, queues. */
export function digest(samples) {
  const made = { requests: 0, failed: 0, times: new Map(), routes: new Map(), invocations: 0, runTimes: new Map(), waiting: {}, fuel: 0, memory: 0, running: 0 };
  const add = (map, key, value) => map.set(key, (map.get(key) ?? 0) + value);
  for (const { name, labels, value } of samples) {
    if (labels.route === "/metrics") continue;
    const edge = labels.le === "+Inf" ? Infinity : Number(labels.le);
    switch (name) {
      case "tokamak_http_requests_total":
        made.requests += value;
        // What formulas chose is 400 or more, and not told apart.
        if (labels.status === "formula" || Number(labels.status) >= 400) made.failed += value;
        break;
      case "tokamak_http_request_duration_seconds_bucket": {
        add(made.times, edge, value);
        const route = `${labels.method} ${labels.route}`;
        if (!made.routes.has(route)) made.routes.set(route, new Map());
        add(made.routes.get(route), edge, value);
        break;
      }
      case "tokamak_invocations_total":
        made.invocations += value;
        break;
      case "tokamak_invocation_duration_seconds_bucket":
        add(made.runTimes, edge, value);
        break;
      case "tokamak_invocation_fuel_total":
        made.fuel = value;
        break;
      case "tokamak_waiting":
        made.waiting[labels.what] = value;
        break;
      case "tokamak_http_requests_in_flight":
        made.running = value;
        break;
      case "process_resident_memory_bytes":
        made.memory = value;
        break;
    }
  }
  return made;
}

/** Whether a server that was read `before` has been started anew since: what it counts never falls otherwise. */
export function isAnew(before, after) {
  const fell = ([route, buckets]) => [...buckets].some(([edge, value]) => value > (after.routes.get(route)?.get(edge) ?? 0));
  return after.requests < before.requests || [...before.routes].some(fell);
}

/** What came in between two digests: buckets of a histogram. */
export function risen(before, after) {
  return new Map([...after].map(([edge, value]) => [edge, Math.max(0, value - (before?.get(edge) ?? 0))]));
}

/** How many observations buckets hold. */
export function total(buckets) {
  return buckets.get(Infinity) ?? 0;
}

/** The value below which this part of the observations lies, between the edges of its bucket in proportion. */
export function quantile(buckets, part) {
  const all = total(buckets);
  if (all === 0) return null;
  const wanted = all * part;
  let [lower, below] = [0, 0];
  for (const [edge, upTo] of [...buckets].sort(([a], [b]) => a - b)) {
    if (upTo >= wanted) {
      if (edge === Infinity) return lower;
      return lower + ((edge - lower) * (wanted - below)) / Math.max(upTo - below, Number.MIN_VALUE);
    }
    [lower, below] = [edge, upTo];
  }
  return lower;
}

/** One point of the charts: rates in a second, times in milliseconds, counts. */
export function between(before, after, seconds) {
  const times = risen(before.times, after.times);
  const runs = risen(before.runTimes, after.runTimes);
  const ms = (value) => (value === null ? null : value * 1000);
  return {
    requests: Math.max(0, after.requests - before.requests) / seconds,
    refused: Math.max(0, after.failed - before.failed) / seconds,
    p50: ms(quantile(times, 0.5)),
    p99: ms(quantile(times, 0.99)),
    runs: Math.max(0, after.invocations - before.invocations) / seconds,
    run_p50: ms(quantile(runs, 0.5)),
    run_p99: ms(quantile(runs, 0.99)),
    queued: after.waiting.jobs_queued ?? 0,
    running: after.waiting.jobs_running ?? 0,
    deliveries: after.waiting.deliveries_pending ?? 0,
  };
}
