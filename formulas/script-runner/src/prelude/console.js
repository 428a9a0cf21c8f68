// `console`: lines of the invocation's log.
(function (host, shared) {
  'use strict';
  const DEPTH = 4;
  const DEPTH_MAX = 10;
  const LENGTH = 100;

  // To look at a value runs what the script made of it, such as a getter or a proxy: what fails there is no failure of the
  // script, unless nothing goes any more. Only where that may be is it asked, which takes memory.
  const Internal = InternalError;
  const mayBeOfMemory = (error) => {
    try {
      return error === null || error instanceof Internal;
    } catch {
      return false;
    }
  };
  const readable = (make) => {
    try {
      return make();
    } catch (error) {
      if (mayBeOfMemory(error) && host.isFull()) throw error;
      return '[unreadable]';
    }
  };
  const quoted = (text) => `'${text.replace(/\\/g, '\\\\').replace(/'/g, "\\'").replace(/\n/g, '\\n')}'`;
  // What is told of an error otherwise.
  const TOLD = ['name', 'message', 'stack', 'cause'];
  const trace = (error, depth = 0, seen = []) => {
    if (!(error instanceof Error)) return inspect(error, depth, seen);
    if (seen.includes(error)) return '[Circular]';
    if (depth > DEPTH) return '[Error]';
    const path = [...seen, error];
    const head = error.message === '' ? String(error.name) : `${error.name}: ${error.message}`;
    let stack = '';
    try { stack = shared.stackOf(error); } catch { /* not made by a constructor of errors */ }
    const within = shared.within(error, depth).map(([name, one]) => `\n  ${name}: ${trace(one, depth + 1, path)}`).join('');
    const own = Object.keys(error).slice(0, LENGTH).filter((key) => !TOLD.includes(key) && !(key === 'errors' && error instanceof AggregateError));
    const more = own.length > 0 ? list(' {', entries(error, own, depth, path), '}') : '';
    return head + (stack === '' ? '' : `\n${stack}`) + more + within;
  };
  const list = (open, parts, close) => (parts.length === 0 ? open + close : `${open} ${parts.join(', ')} ${close}`);
  const entries = (value, keys, depth, seen) => keys.map((key) => {
    const name = /^[A-Za-z_$][\w$]*$/.test(key) ? key : quoted(key);
    return `${name}: ${readable(() => inspect(value[key], depth + 1, seen))}`;
  });
  // As many as are shown of what has no places.
  const first = (items) => {
    const found = [];
    for (const item of items) if (found.push(item) === LENGTH) break;
    return found;
  };
  const more = (count) => (count > LENGTH ? [`… ${count - LENGTH} more`] : []);
  const inspect = (...given) => readable(() => shown(...given));
  const shown = (value, depth = 0, seen = []) => {
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
    if (value instanceof Error) return trace(value, depth, seen);
    if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'Invalid Date' : value.toISOString();
    if (value instanceof RegExp) return String(value);
    if (value instanceof Promise) return 'Promise {}';
    if (depth > DEPTH) return Array.isArray(value) ? '[Array]' : '[Object]';
    const within = [...seen, value];
    const every = (items) => items.map((item) => inspect(item, depth + 1, within));
    if (ArrayBuffer.isView(value) && !(value instanceof DataView)) {
      const numbers = Array.from(value.subarray(0, LENGTH), String);
      return `${value.constructor.name}(${value.length}) ${list('[', [...numbers, ...more(value.length)], ']')}`;
    }
    if (Array.isArray(value)) return list('[', [...every(value.slice(0, LENGTH)), ...more(value.length)], ']');
    const pairs = (items) => items.map(([key, held]) => `${inspect(key, depth + 1, within)} => ${inspect(held, depth + 1, within)}`);
    if (value instanceof Map) return list(`Map(${value.size}) {`, [...pairs(first(value)), ...more(value.size)], '}');
    if (value instanceof Set) return list(`Set(${value.size}) {`, [...every(first(value)), ...more(value.size)], '}');
    if (value instanceof URL) return `URL { ${quoted(value.href)} }`;
    for (const kind of [Headers, URLSearchParams]) {
      if (value instanceof kind) return list(`${kind.name} {`, pairs(first(value)), '}');
    }
    const kind = value.constructor?.name;
    const start = kind && kind !== 'Object' ? `${kind} {` : '{';
    return list(start, entries(value, Object.keys(value).slice(0, LENGTH), depth, within), '}');
  };
  const inPlaceOf = (mark, value) => {
    switch (mark) {
      case '%s': return typeof value === 'string' ? value : inspect(value);
      case '%d': return String(Number(value));
      case '%i': return String(Number.parseInt(value, 10));
      case '%f': return String(Number.parseFloat(value));
      case '%j': return JSON.stringify(value);
      case '%c': return '';
      default: return inspect(value);
    }
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
        return readable(() => inPlaceOf(mark, value));
      })];
    }
    return [...head, ...rest.map((value) => (typeof value === 'string' ? value : inspect(value)))].join(' ');
  };
  // What groups indent by.
  let indent = '';
  const put = (level, text) => host.log(level, indent === '' ? text : indent + text.replaceAll('\n', `\n${indent}`));
  const write = (level) => (...values) => put(level, format(values));
  const group = (...labels) => {
    if (labels.length > 0) put('info', format(labels));
    indent += '  ';
  };

  const pad = (cells, widths) => `│ ${cells.map((cell, at) => cell.padEnd(widths[at])).join(' │ ')} │`;
  const rule = ([left, middle, right], widths) => left + widths.map((width) => '─'.repeat(width + 2)).join(middle) + right;
  const grid = (rows) => {
    const widths = rows[0].map((_, at) => Math.max(...rows.map((row) => row[at].length)));
    const [head, ...body] = rows.map((row) => pad(row, widths));
    return [rule('┌┬┐', widths), head, rule('├┼┤', widths), ...body, rule('└┴┘', widths)].join('\n');
  };
  const isObject = (value) => typeof value === 'object' && value !== null;
  // What is shown at most: rows and columns.
  const rowsOf = (value) => {
    if (value instanceof Map) return first(value).map(([key, held]) => [inspect(key), held]);
    if (value instanceof Set) return first(value).map((held, at) => [String(at), held]);
    return Object.keys(value).slice(0, LENGTH).map((key) => [key, value[key]]);
  };
  const inRows = (value, wanted) => {
    if (!isObject(value)) return format([value]);
    const rows = rowsOf(value);
    const keys = wanted?.map(String) ?? [...new Set(rows.flatMap(([, row]) => (isObject(row) ? Object.keys(row) : [])))].slice(0, LENGTH);
    const plain = rows.some(([, row]) => !isObject(row)) ? ['Values'] : [];
    const body = rows.map(([name, row]) => {
      const cells = keys.map((key) => (isObject(row) && Object.hasOwn(row, key) ? inspect(row[key], DEPTH) : ''));
      return [name, ...cells, ...plain.map(() => (isObject(row) ? '' : inspect(row)))];
    });
    return grid([['(index)', ...keys, ...plain], ...body]);
  };

  const table = (...given) => put('info', readable(() => inRows(...given)));

  const named = (label) => readable(() => String(label));
  const counts = new Map();
  const started = new Map();
  // Asks for the time only when it is called: a top level that does is evaluated in every run.
  const elapsed = (label, values, ends) => {
    const from = started.get(label);
    if (from === undefined) return put('warn', `No such label '${label}'`);
    put('info', [`${label}: ${(host.now() - from).toFixed(3)}ms`, ...(values.length > 0 ? [format(values)] : [])].join(' '));
    return ends && started.delete(label);
  };
  const console = {
    log: write('info'), info: write('info'), debug: write('debug'), warn: write('warn'), error: write('error'), table,
    trace: (...values) => put('trace', [`Trace: ${format(values)}`, shared.stackOf(new Error())].join('\n')),
    dir: (value, options) => {
      const { depth = DEPTH } = options ?? {};
      put('info', inspect(value, DEPTH - Math.min(depth ?? DEPTH_MAX, DEPTH_MAX)));
    },
    assert: (held, ...values) => {
      if (!held) put('error', values.length > 0 ? `Assertion failed: ${format(values)}` : 'Assertion failed');
    },
    count: (label = 'default') => {
      const name = named(label);
      counts.set(name, (counts.get(name) ?? 0) + 1);
      put('info', `${name}: ${counts.get(name)}`);
    },
    countReset: (label = 'default') => {
      const name = named(label);
      if (!counts.delete(name)) put('warn', `Count for '${name}' does not exist`);
    },
    group, groupCollapsed: group, groupEnd: () => { indent = indent.slice(2); },
    time: (label = 'default') => {
      const name = named(label);
      if (started.has(name)) put('warn', `Label '${name}' already exists`);
      else started.set(name, host.now());
    },
    timeLog: (label = 'default', ...values) => { elapsed(named(label), values, false); },
    timeEnd: (label = 'default') => { elapsed(named(label), [], true); },
  };
  Object.assign(shared, { trace, inspect, format });
  shared.globals({ console });
})
