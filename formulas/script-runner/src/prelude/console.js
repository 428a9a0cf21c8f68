// `console`: lines of the invocation's log.
(function (host, shared) {
  'use strict';
  const DEPTH = 4;
  const LENGTH = 100;

  const quoted = (text) => `'${text.replace(/\\/g, '\\\\').replace(/'/g, "\\'").replace(/\n/g, '\\n')}'`;
  const trace = (error) => {
    if (!(error instanceof Error)) return inspect(error);
    const head = error.message === '' ? String(error.name) : `${error.name}: ${error.message}`;
    let stack = '';
    try { stack = shared.stackOf(error); } catch { /* not made by a constructor of errors */ }
    const cause = error.cause === undefined ? '' : `\n  cause: ${trace(error.cause)}`;
    return stack === '' ? head + cause : `${head}\n${stack}${cause}`;
  };
  const list = (open, parts, close) => (parts.length === 0 ? open + close : `${open} ${parts.join(', ')} ${close}`);
  const entries = (value, depth, seen) => Object.keys(value).slice(0, LENGTH).map((key) => {
    const name = /^[A-Za-z_$][\w$]*$/.test(key) ? key : quoted(key);
    return `${name}: ${inspect(value[key], depth + 1, seen)}`;
  });
  const more = (count) => (count > LENGTH ? [`… ${count - LENGTH} more`] : []);
  const inspect = (value, depth = 0, seen = []) => {
    switch (typeof value) {
      case 'string': return quoted(value);
      case 'bigint': return `${value}n`;
      case 'symbol': return value.toString();
      case 'function': return `[Function: ${value.name || 'anonymous'}]`;
      case 'object': break;
      default: return String(value);
    }
    if (value === null) return 'null';
    if (seen.includes(value)) return '[Circular]';
    if (value instanceof Error) return trace(value);
    if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'Invalid Date' : value.toISOString();
    if (value instanceof RegExp) return String(value);
    if (value instanceof Promise) return 'Promise {}';
    if (depth > DEPTH) return Array.isArray(value) ? '[Array]' : '[Object]';
    const within = [...seen, value];
    const every = (items) => items.map((item) => inspect(item, depth + 1, within));
    if (ArrayBuffer.isView(value) && !(value instanceof DataView)) {
      const shown = Array.from(value.subarray(0, LENGTH), String);
      return `${value.constructor.name}(${value.length}) ${list('[', [...shown, ...more(value.length)], ']')}`;
    }
    if (Array.isArray(value)) return list('[', [...every(value.slice(0, LENGTH)), ...more(value.length)], ']');
    if (value instanceof Map) {
      const shown = [...value].map(([key, held]) => `${inspect(key, depth + 1, within)} => ${inspect(held, depth + 1, within)}`);
      return list(`Map(${value.size}) {`, shown, '}');
    }
    if (value instanceof Set) return list(`Set(${value.size}) {`, every([...value]), '}');
    const kind = value.constructor?.name;
    const start = kind && kind !== 'Object' ? `${kind} {` : '{';
    return list(start, entries(value, depth, within), '}');
  };
  const format = (values) => {
    let rest = values;
    let head = [];
    if (typeof values[0] === 'string' && values[0].includes('%')) {
      rest = values.slice(1);
      head = [values[0].replace(/%[sdifjoOc%]/g, (mark) => {
        if (mark === '%%') return '%';
        if (rest.length === 0) return mark;
        const value = rest.shift();
        switch (mark) {
          case '%s': return typeof value === 'string' ? value : inspect(value);
          case '%d': return String(Number(value));
          case '%i': return String(Number.parseInt(value, 10));
          case '%f': return String(Number.parseFloat(value));
          case '%j': return JSON.stringify(value);
          case '%c': return '';
          default: return inspect(value);
        }
      })];
    }
    return [...head, ...rest.map((value) => (typeof value === 'string' ? value : inspect(value)))].join(' ');
  };
  const write = (level) => (...values) => host.log(level, format(values));
  const counts = new Map();
  const console = {
    log: write('info'), info: write('info'), debug: write('debug'), trace: write('trace'),
    warn: write('warn'), error: write('error'), dir: (value) => host.log('info', inspect(value)),
    assert: (held, ...values) => { if (!held) host.log('error', `Assertion failed: ${format(values)}`); },
    count: (label = 'default') => {
      counts.set(label, (counts.get(label) ?? 0) + 1);
      host.log('info', `${label}: ${counts.get(label)}`);
    },
  };
  Object.assign(shared, { trace, inspect, format });
  shared.globals({ console });
})
