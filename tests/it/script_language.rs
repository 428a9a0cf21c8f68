//! What a script can use: the language, and the interfaces around it. Tables of expressions with their values.

use serde_json::{Value, json};

use crate::support::scripts::{evaluate, program, raw, run};

async fn check(table: &[(&str, Value)]) {
    let expressions: Vec<&str> = table.iter().map(|(expression, _)| *expression).collect();
    let values = evaluate(&expressions).await;
    let different: Vec<String> = table
        .iter()
        .zip(values)
        .filter(|((_, expected), value)| expected != value)
        .map(|((expression, expected), value)| {
            format!("{expression}\n  is {value}, not {expected}")
        })
        .collect();
    assert!(different.is_empty(), "{}", different.join("\n"));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_language() {
    check(&[
        ("1 + 1", json!(2)),
        ("0.1 + 0.2", json!(0.1 + 0.2)),
        ("9007199254740993n * 2n + ''", json!("18014398509481986")),
        ("({ a: 1, ...{ b: 2 } })", json!({"a": 1, "b": 2})),
        ("(({ a, b = 2, ...rest }) => [a, b, rest])({ a: 1, c: 3 })", json!([1, 2, {"c": 3}])),
        ("null ?? undefined?.x ?? 'none'", json!("none")),
        ("[...'añ😀'].length", json!(3)),
        ("'😀'.length", json!(2)),
        ("`${[3, 1, 2].sort()}|${[1, 2, 3].at(-1)}`", json!("1,2,3|3")),
        ("[3, 1, 2].toSorted((a, b) => b - a)", json!([3, 2, 1])),
        ("Object.groupBy([1, 2, 3], (n) => (n % 2 ? 'odd' : 'even'))", json!({"odd": [1, 3], "even": [2]})),
        ("Object.fromEntries(new Map([['a', 1]]))", json!({"a": 1})),
        ("[...new Set([1, 1, 2])]", json!([1, 2])),
        ("'2030-08-26'.replace(/(?<y>\\d+)-(?<m>\\d+)-(?<d>\\d+)/u, '$<d>.$<m>.$<y>')", json!("26.08.2030")),
        ("[...'a1b22'.matchAll(/\\d+/g)].map(([m]) => m)", json!(["1", "22"])),
        ("'straße'.toUpperCase() + 'É'.normalize('NFD').length", json!("STRASSE2")),
        ("[1, [2, [3]]].flat(Infinity)", json!([1, 2, 3])),
        ("(function* () { yield 1; yield* [2, 3]; })().toArray?.() ?? [1, 2, 3]", json!([1, 2, 3])),
        ("(() => { class A { #x = 1; static s = 2; get x() { return this.#x; } } return new A().x + A.s; })()", json!(3)),
        ("(() => { label: for (const a of [1, 2]) { for (;;) { continue label; } } return 'out'; })()", json!("out")),
        ("(() => { try { null.x; } catch (e) { return e instanceof TypeError; } finally { } })()", json!(true)),
        ("new Date(Date.UTC(2030, 7, 26, 19, 23, 57)).toISOString()", json!("2030-08-26T19:23:57.000Z")),
        ("new Date('2030-08-26T19:23:57+02:00').getTime()", json!(1_913_995_437_000_i64)),
        ("new Date(2030, 0, 1).getTimezoneOffset()", json!(0)),
        ("['2024-10-14 15:11:31-05:30', '2024-10-14 15:11:31.123456-05:00', '2024-10-14 15:11:31-0500', '2024-10-14 15:11:31+05:30', 'Mon Oct 14 2024 15:11:31 GMT-0500', 'Oct 14, 2024 3:11 PM'].map((text) => new Date(text).toISOString().slice(0, 19))", json!(["2024-10-14T20:41:31", "2024-10-14T20:11:31", "2024-10-14T20:11:31", "2024-10-14T09:41:31", "2024-10-14T20:11:31", "2024-10-14T15:11:00"])),
        ("['15:11:31 14-Oct-2024', '10:00 2024-10-14', '3:04 PM 10-14-2024', '08:30 01-Feb-2025', '12:00 AM 1-1-2025', '10:00 Oct-14-2024', '3:04 PM -0500 10/14/2024'].map((text) => new Date(text).toISOString().slice(0, 19))", json!(["2024-10-14T15:11:31", "2024-10-14T10:00:00", "2024-10-14T15:04:00", "2025-02-01T08:30:00", "2025-01-01T00:00:00", "2024-10-14T10:00:00", "2024-10-14T20:04:00"])),
        ("['02/45/1990', 'Feb 45, 1990', '3/32/2024', '0/1/2024', '2024-015', '2024-366', '1:00 2:00 1/1/2024'].every((text) => isNaN(new Date(text)))", json!(true)),
        ("['2/4/1990', 'Feb 4, 1990', '4 Feb 1990', 'Sun Feb 04 1990 00:00:00 GMT+0000 (UTC)', '1990/2/4'].map((text) => new Date(text).getTime())", json!(vec![634_089_600_000_i64; 5])),
        ("(() => { const t = new EventTarget(); const told = []; t.addEventListener('a', (e) => { told.push([e.type, e.target === t]); e.preventDefault(); }, { once: true }); t.addEventListener('a', { handleEvent() { told.push('second'); } }); return [t.dispatchEvent(new Event('a', { cancelable: true })), t.dispatchEvent(new Event('a')), told, self === globalThis]; })()", json!([false, true, [["a", true], "second", "second"], true])),
        ("(() => { const t = new EventTarget(); let n = 0; const arm = () => t.addEventListener('a', () => { n += 1; arm(); }); arm(); t.dispatchEvent(new Event('a', null)); return [n, t.dispatchEvent(new Event('a')), n]; })()", json!([1, true, 3])),
        ("(() => { const s = AbortSignal.abort(1); const c = new AbortController(); const told = []; c.signal.onabort = (e) => told.push(['on', e.type, e.target === c.signal, e instanceof Event]); c.signal.addEventListener('abort', (e) => told.push(['once', e instanceof Event]), { once: true }); c.abort('why'); c.abort(); c.signal.dispatchEvent(new Event('abort')); return [s instanceof EventTarget, told]; })()", json!([true, [["on", "abort", true, true], ["once", true], ["on", "abort", true, true]]])),
        ("[['AbortError', 20], ['TimeoutError', 23], ['Mine', 0], ['toString', 0]].every(([name, code]) => new DOMException('m', name).code === code) && new DOMException('m', { name: 'DataError', cause: 1 }).cause === 1", json!(true)),
        ("(() => { const c = new AbortController(); let n = 0; const told = []; for (let i = 0; i < 3000; i += 1) c.signal.addEventListener('abort', () => { n += 1; }); c.signal.onabort = () => told.push(n); c.signal.addEventListener('abort', () => told.push('last')); c.signal.dispatchEvent(new Event('abort')); c.abort(); return [n, told]; })()", json!([6000, [3000, "last", 6000, "last"]])),
        ("[() => new AbortSignal(), () => new EventTarget().addEventListener('a', 5), () => Buffer.from(() => 'key'), () => new Buffer((a, b) => 1), () => Buffer.concat([() => 1]), () => Buffer.byteLength(() => 1)].map((f) => { try { return f(); } catch (e) { return e.name; } })", json!(["TypeError", "TypeError", "TypeError", "TypeError", "TypeError", "TypeError"])),
        ("[Buffer.alloc(4).writeUint32LE(1), Buffer.from([1, 0]).readUint16LE(), Buffer.from([1]).readUint8(), Buffer.from({ length: 2, 0: 1, 1: 2 }).toString('hex')]", json!([4, 1, 1, "0102"])),
        ("Math.abs(Date.now() - new Date().getTime()) < 60000 && Date.now() > 1.7e12", json!(true)),
        ("JSON.stringify({ b: undefined, a: [undefined, () => 1, NaN], d: new Date(0) })", json!("{\"a\":[null,null,null],\"d\":\"1970-01-01T00:00:00.000Z\"}")),
        ("JSON.parse('{\"a\": [1, 2.5, \"x\"]}')", json!({"a": [1, 2.5, "x"]})),
        ("(1234.5678).toFixed(2) + (255).toString(16) + parseInt('0x1f')", json!("1234.57ff31")),
        ("new Proxy({}, { get: (_, name) => name }).anything", json!("anything")),
        ("Reflect.ownKeys({ b: 1, a: 2, 1: 3 })", json!(["1", "b", "a"])),
        ("(() => { let { a } = { a: 1 }; a ||= 5; a &&= 7; let b = null; b ??= 9; return [a, b]; })()", json!([7, 9])),
        ("new Error('x', { cause: 'y' }).cause", json!("y")),
        ("[typeof globalThis, typeof global, typeof window, typeof process, typeof Deno]", json!(["object", "object", "undefined", "undefined", "undefined"])),
        ("Array.from({ length: 3 }, (_, i) => i * i)", json!([0, 1, 4])),
        ("encodeURIComponent('ü &') + decodeURIComponent('%C3%BC')", json!("%C3%BC%20%26ü")),
        ("2 ** 10 + (7 & 3) + (-7 >>> 28) + (1 << 4)", json!(1024 + 3 + 15 + 16)),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn promises_and_timers() {
    check(&[
        ("await Promise.all([1, Promise.resolve(2), (async () => 3)()])", json!([1, 2, 3])),
        ("await Promise.race([new Promise(() => {}), Promise.resolve('won')])", json!("won")),
        ("await Promise.any([Promise.reject(1), Promise.resolve(2)])", json!(2)),
        ("(await Promise.allSettled([Promise.reject(1), 2])).map((s) => s.status)", json!(["rejected", "fulfilled"])),
        ("await Promise.reject(new RangeError('no')).catch((e) => e.message).finally(() => 1)", json!("no")),
        ("(() => { try { queueMicrotask('x'); } catch (error) { return error.message; } })()", json!("queueMicrotask takes a function")),
        ("'timeOrigin' in performance", json!(false)),
        ("await (async () => { const seen = []; setTimeout(() => seen.push('timer'), 0); queueMicrotask(() => seen.push('micro')); seen.push('now'); await new Promise((r) => setTimeout(r, 5)); return seen; })()", json!(["now", "micro", "timer"])),
        ("await (async () => { const at = performance.now(); await new Promise((r) => setTimeout(r, 20)); return performance.now() - at >= 19; })()", json!(true)),
        ("await (async () => { let n = 0; await new Promise((r) => { const id = setInterval(() => { n += 1; if (n === 3) { clearInterval(id); r(); } }, 1); }); return n; })()", json!(3)),
        ("await (async () => { const id = setTimeout(() => { throw new Error('late'); }, 1); clearTimeout(id); return await require('timers/promises').setTimeout(3, 'slept'); })()", json!("slept")),
        ("await (async () => { const { setTimeout: wait } = require('timers/promises'); const one = new AbortController(); const slept = wait(5000, 1, { signal: one.signal }).catch((e) => [e.name, e.cause === one.signal.reason]); await wait(1); one.abort(); return [await slept, await wait(9, 1, { signal: one.signal }).catch((e) => e.name), await wait(1, 'ok', { signal: new AbortController().signal })]; })()", json!([["AbortError", true], "AbortError", "ok"])),
        ("await (async () => { let sum = 0; for await (const n of (async function* () { yield 1; yield 2; })()) sum += n; return sum; })()", json!(3)),
        ("await { then: (resolve) => resolve('thenable') }", json!("thenable")),
        ("await (async () => { const seen = []; for (const [at, ms] of [90, 30, 60, 30, 1].entries()) setTimeout(() => seen.push(at), ms); clearTimeout(setTimeout(() => seen.push('gone'), 45)); await new Promise((r) => setTimeout(r, 120)); return seen; })()", json!([4, 1, 3, 2, 0])),
        ("await (async () => { const seen = []; for (const ms of [Infinity, 2 ** 31, -5, NaN]) setTimeout(() => seen.push(String(ms)), ms); clearTimeout(String(setTimeout(() => seen.push('gone'), 1))); await new Promise((r) => setTimeout(r, 20)); return seen; })()", json!(["Infinity", "2147483648", "-5", "NaN"])),
        // As many as a run has time for, if each one costs little.
        ("await (async () => { const seen = []; const gone = []; for (let at = 0; at < 10000; at += 1) { setTimeout(() => seen.push(at), 1); gone.push(setTimeout(() => seen.push('gone'), 50)); } gone.forEach(clearTimeout); await new Promise((r) => setTimeout(r, 60)); return [seen.length, seen.every((one, at) => one === at)]; })()", json!([10_000, true])),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn text_and_bytes() {
    check(&[
        ("[...new TextEncoder().encode('añ😀')]", json!([97, 195, 177, 240, 159, 152, 128])),
        ("new TextDecoder().decode(new Uint8Array([0xef, 0xbb, 0xbf, 104, 105]))", json!("hi")),
        ("new TextDecoder('utf-8', { fatal: true }).decode(new Uint8Array([255]))", json!("TypeError: the bytes are no UTF-8")),
        ("[[65, 0, 66], [0, 0xd8, 65, 0], [0, 0xd8, 1]].map((bytes) => new TextDecoder('utf-16le').decode(new Uint8Array(bytes)))", json!(["A\u{fffd}", "\u{fffd}A", "\u{fffd}"])),
        ("['utf8', 'utf-16', 'latin1'].map((label) => new TextDecoder(label).encoding)", json!(["utf-8", "utf-16le", "windows-1252"])),
        ("new TextDecoder('utf-16le', { fatal: true }).decode(new Uint8Array([0, 0xd8]))", json!("TypeError: the bytes are no UTF-16")),
        ("new TextDecoder().decode(new Uint8Array([0xe2]), { stream: true })", json!("TypeError: a text is decoded as a whole, and not in parts")),
        ("new TextDecoder().decode(new Uint8Array([97, 255]))", json!("a\u{fffd}")),
        ("new TextDecoder('utf-16le').decode(new Uint8Array([104, 0, 105, 0]))", json!("hi")),
        ("new TextEncoder().encodeInto('aé', new Uint8Array(2))", json!({"read": 1, "written": 1})),
        ("btoa('hello\\xff') + '|' + atob(' aGVs bG8 ')", json!("aGVsbG//|hello")),
        ("btoa('€')", json!("InvalidCharacterError: the string has characters beyond Latin-1")),
        ("atob('a')", json!("InvalidCharacterError: the string is no base64")),
        ("Buffer.from('héllo').toString('hex')", json!("68c3a96c6c6f")),
        ("Buffer.from('68c3a9zz', 'hex').toString()", json!("hé")),
        ("[new Buffer('abc'), new Buffer('6162', 'hex'), Buffer.from(new String('ab')), new Buffer(2), new Buffer([1, 2])].map((b) => b.toString('hex'))", json!(["616263", "6162", "6162", "0000", "0102"])),
        ("[undefined, null, {}, true].map((value) => { try { return new Buffer(value).length; } catch (e) { return e.name; } }).concat(new Buffer({ type: 'Buffer', data: [1, 2] }).toString('hex'), Buffer.from(new DataView(new Uint8Array([1, 2, 3]).buffer, 1)).toString('hex'), new Buffer(new Uint16Array([1, 258])).toString('hex'), new Buffer(new Uint8Array([1, 2, 3]).buffer, 1, 1).toString('hex'))", json!(["TypeError", "TypeError", "TypeError", "TypeError", "0102", "0203", "0102", "02"])),
        ("require('crypto').createHmac('sha256', new Buffer('key')).update('a').digest('hex') === require('crypto').createHmac('sha256', 'key').update('a').digest('hex')", json!(true)),
        ("Buffer.from('aGk', 'base64').toString('utf8') + Buffer.from('-_-_', 'base64url').toString('base64')", json!("hi+/+/")),
        ("Buffer.concat([Buffer.from('a'), Buffer.from([98]), new Uint8Array([99])]).toString()", json!("abc")),
        ("[Buffer.from('abc').length, Buffer.byteLength('é'), Buffer.alloc(2, 'x').toString()]", json!([3, 2, "xx"])),
        ("[Buffer.from('abc').slice(1).toString(), Buffer.from('abcd').subarray(1, 3).toString()]", json!(["bc", "bc"])),
        ("[Buffer.from('a').equals(Buffer.from('a')), Buffer.from('a').equals(Buffer.from('b'))]", json!([true, false])),
        ("(() => { const b = Buffer.alloc(8); b.writeUInt32BE(0xdeadbeef); b.writeInt16LE(-2, 4); return [b.toString('hex'), b.readUInt32BE(0), b.readInt16LE(4)]; })()", json!(["deadbeeffeff0000", 3_735_928_559_u32, -2])),
        ("[Buffer.from('hello').indexOf('ll'), Buffer.from('hello').includes('z'), Buffer.compare(Buffer.from('a'), Buffer.from('b'))]", json!([2, false, -1])),
        ("Buffer.from('hi')", json!({"type": "Buffer", "data": [104, 105]})),
        ("(() => { const b = Buffer.alloc(4); return [b.write('ff00', 1, 'hex'), b.write('aa', 'hex'), b.write('0102', 3, 1, 'hex'), b.write('é', 'latin1'), b.toString('hex')]; })()", json!([2, 1, 1, 1, "e9ff0001"])),
        ("[Buffer.alloc(3).fill('ab', 'hex'), Buffer.alloc(3).fill('ab', 1, 'hex'), Buffer.alloc(3).fill('ab', 0, 2, 'hex'), Buffer.alloc(3).fill('ab', 0, 'hex')].map((b) => b.toString('hex'))", json!(["ababab", "00abab", "abab00", "ababab"])),
        ("[Buffer.from('aabb', 'hex').indexOf('bb', 'hex'), Buffer.from('aabb', 'hex').includes('bb', 'hex'), Buffer.from('aabb', 'hex').includes('cc', 'hex')]", json!([1, true, false])),
        ("[Buffer.from('a.b.c').lastIndexOf('.'), Buffer.from('a.b.c').lastIndexOf('.', 2), Buffer.from('abab').lastIndexOf('ab', -3), Buffer.from('abab').lastIndexOf(97), Buffer.from('ab').lastIndexOf('abc')]", json!([3, 1, 0, 2, -1])),
        ("[Buffer.from('hello').indexOf('l', -2), Buffer.from('hello').includes('h', -2), Buffer.from('hello').indexOf(364, -9), Buffer.from('abc').toString('utf8', -2), Buffer.from('abc').toString('utf8', 1, -1)]", json!([3, false, 2, "abc", ""])),
        ("[Buffer.from('abc').indexOf('c', 1.5), Buffer.from('abc').indexOf('', 9), Buffer.from([97, 98, 0]).indexOf('b', 'utf16le'), Buffer.from('a-b', 'utf16le').lastIndexOf('b', 'utf16le'), Buffer.from('abc').lastIndexOf('b', NaN)]", json!([2, 3, -1, 4, 1])),
        ("[Buffer.from('abcd').compare(Buffer.from('xbcx'), 1, 3, 1, 3), Buffer.from('b').compare(Buffer.from('a')), Buffer.from('ab').copy(Buffer.alloc(1), 1), Buffer.from('ab').copy(Buffer.alloc(3), 2)]", json!([0, 1, 0, 1])),
        ("Buffer.from('ab').copy(Buffer.alloc(3), 0, 3)", json!("RangeError: the place is outside of the buffer")),
        ("[Buffer.alloc(2).write('a€'), Buffer.alloc(3).write('ab', 'utf16le'), Buffer.alloc(4).write('a€')]", json!([1, 2, 4])),
        ("Buffer.alloc(2).writeUInt16BE(70000)", json!("RangeError: the value is none of 0 to 65535")),
        ("Buffer.alloc(1).writeInt8(-129)", json!("RangeError: the value is none of -128 to 127")),
        ("Buffer.alloc(8).writeBigUInt64LE(-1n)", json!("RangeError: the value is none of 0 to 18446744073709551615")),
        ("[Buffer.alloc(2).writeUInt16BE(65535), Buffer.alloc(4).writeInt32LE(-2147483648), Buffer.alloc(4).writeFloatBE(1e300)]", json!([2, 4, 4])),
        ("Buffer.alloc(1).write('a', 'nonsense')", json!("TypeError: Unknown encoding: nonsense")),
        ("[Buffer.isBuffer(Buffer.alloc(1)), Buffer.from('x') instanceof Uint8Array, Buffer.from('ÿ', 'latin1')[0]]", json!([true, true, 255])),
        ("(() => { const shared = Buffer.from('abc'); shared.subarray(0, 1)[0] = 122; return shared.toString(); })()", json!("zbc")),
        ("(() => { const a = { d: new Date(0), m: new Map([[1, { x: [1] }]]), s: new Set([2]) }; a.self = a; const b = structuredClone(a); b.m.get(1).x.push(2); return [b.self === b, b.d instanceof Date, a.m.get(1).x.length, b.s.has(2)]; })()", json!([true, true, 1, true])),
        ("(() => { const a = JSON.parse('{\"__proto__\":{\"admin\":true},\"x\":1}'); const b = structuredClone(a); return [b.admin === undefined, Object.keys(b), Object.getPrototypeOf(b) === Object.prototype]; })()", json!([true, ["__proto__", "x"], true])),
        ("[structuredClone(Object(5)) + 1, structuredClone(Object('a')) + 'b', structuredClone({ a: Object(true) }).a.valueOf()]", json!([6, "ab", true])),
        ("(() => { const b = new Uint8Array(4); const c = structuredClone({ one: b.subarray(1), two: new DataView(b.buffer) }); c.one[0] = 7; return [c.two.getUint8(1), c.one.length, b[1]]; })()", json!([7, 3, 0])),
        ("(() => { const m = new Map([[{ get x() { m.set('more', 1); return 1; } }, 2]]); return structuredClone(m).size; })()", json!(1)),
        ("structuredClone((function* () {})())", json!("DataCloneError: this kind of object cannot be cloned")),
        ("structuredClone(new ArrayBuffer(1), { transfer: [new ArrayBuffer(1)] })", json!("DataCloneError: nothing can be transferred here")),
        ("structuredClone(() => 1)", json!("DataCloneError: functions and symbols cannot be cloned")),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses() {
    check(&[
        ("new URL('../b?x=1#h', 'https://u:p@Example.com:8443/a/c').href", json!("https://u:p@example.com:8443/b?x=1#h")),
        ("(({ protocol, username, password, host, hostname, port, pathname, search, hash, origin }) => [protocol, username, password, host, hostname, port, pathname, search, hash, origin])(new URL('https://u:p@h.example:8443/a?b=c#d'))",
            json!(["https:", "u", "p", "h.example:8443", "h.example", "8443", "/a", "?b=c", "#d", "https://h.example:8443"])),
        ("new URL('nonsense')", json!("TypeError: Invalid URL")),
        ("[URL.canParse('https://a'), URL.canParse('x'), URL.parse('x')]", json!([true, false, null])),
        ("(() => { const u = new URL('https://a.example/?x=1'); u.searchParams.append('y', 'ä b&'); u.pathname = '/p q'; u.port = 99; u.hash = 'z'; return String(u); })()", json!("https://a.example:99/p%20q?x=1&y=%C3%A4+b%26#z")),
        ("(() => { const u = new URL('https://a.example/?a=1'); const p = u.searchParams; u.search = '?b=2'; p.append('c', '3'); return [u.href, u.searchParams === p, p.get('b')]; })()", json!(["https://a.example/?b=2&c=3", true, "2"])),
        ("(() => { const u = new URL('https://a.example/?a=1'); const p = u.searchParams; p.set('a', 2); u.hash = 'h'; const before = u.href; u.href = 'https://b.example/?z'; p.append('y', 1); return [before, p.has('a'), u.href, new URL(u).search]; })()", json!(["https://a.example/?a=2#h", false, "https://b.example/?z=&y=1", "?z=&y=1"])),
        ("(() => { const u = new URL('https://a.example/'); for (let at = 0; at < 5000; at += 1) u.searchParams.append('k', at); return u.href.length; })()", json!(33_908)),
        ("JSON.stringify({ u: new URL('https://münchen.example') })", json!("{\"u\":\"https://xn--mnchen-3ya.example/\"}")),
        ("new URLSearchParams({ a: 1, b: 'x y' }).toString()", json!("a=1&b=x+y")),
        ("[...new URLSearchParams('?a=1&a=2&b=%20+')]", json!([["a", "1"], ["a", "2"], ["b", "  "]])),
        ("(() => { const p = new URLSearchParams('a=1&b=2&a=3'); p.delete('b'); p.set('a', 9); p.append('c', '~*()'); return [p.getAll('a'), p.get('b'), p.has('c'), p.size, String(p)]; })()", json!([["9"], null, true, 2, "a=9&c=%7E*%28%29"])),
        ("(() => { const p = new URLSearchParams('a=1&b=2&c=3'); for (const [name] of p) p.delete(name); return String(p); })()", json!("b=2")),
        ("new URLSearchParams([['a']])", json!("TypeError: a parameter is a name and a value")),
        ("new URLSearchParams().append('a')", json!("TypeError: append takes a name and a value")),
        ("new URLSearchParams([['q', 'a=b&c']]).toString()", json!("q=a%3Db%26c")),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn digests_and_randomness() {
    let hmac = "await (async () => {\n\
        const imported = ['raw', new TextEncoder().encode('key'), { name: 'HMAC', hash: 'SHA-256' }, true, ['sign', 'verify']];\n\
        const key = await crypto.subtle.importKey(...imported);\n\
        const data = new TextEncoder().encode('The quick brown fox jumps over the lazy dog');\n\
        const mac = await crypto.subtle.sign('HMAC', key, data);\n\
        const bad = new Uint8Array(mac.slice(0)); bad[0] ^= 1;\n\
        const verify = (signature) => crypto.subtle.verify('HMAC', key, signature, data);\n\
        return [Buffer.from(mac).toString('hex'), await verify(mac), await verify(bad),\n\
          (await crypto.subtle.exportKey('jwk', key)).k];\n})()";
    let fox = "f7bc83f430538424b13298e6aa6fb143ef4d59a14946175997479dbc2d1a3cd8";
    check(&[
        (hmac, json!([fox, true, false, "a2V5"])),
        ("Buffer.from(await crypto.subtle.digest('SHA-256', Buffer.from('abc'))).toString('hex')", json!("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad")),
        ("(await crypto.subtle.digest({ name: 'sha-512' }, new ArrayBuffer(0))).byteLength", json!(64)),
        ("await (async () => { const b = new ArrayBuffer(1, { maxByteLength: 9 }), u = new Uint8Array(b); b.resize(3); u.set([97, 98, 99]); const d = await crypto.subtle.digest('SHA-256', u); b.resize(2); return [Buffer.from(d).toString('hex').slice(0, 8), new TextDecoder().decode(u), new TextDecoder().decode(new Uint8Array(b, 1))]; })()", json!(["ba7816bf", "ab", "b"])),
        // What is missing is no key.
        ("await crypto.subtle.importKey('raw', new Uint8Array(0), { name: 'HMAC', hash: 'SHA-256' }, false, ['sign'])", json!("DataError: the key is empty")),
        ("await crypto.subtle.importKey('raw', new Uint8Array(1), { name: 'HMAC', hash: 'SHA-256' }, false, [])", json!("SyntaxError: a key of HMAC is for sign, verify or both")),
        ("await crypto.subtle.generateKey({ name: 'HMAC', hash: 'SHA-1' }, false, ['encrypt'])", json!("SyntaxError: a key of HMAC is for sign, verify or both")),
        ("await new Request('https://a.example', { method: 'POST', body: 'b' }).clone().text()", json!("b")),
        ("await fetch('https://a.example', { method: 'POST', body: (async function* () {})() })", json!("TypeError: a body is sent whole: it cannot be a stream")),
        ("await crypto.subtle.digest('MD5', Buffer.from(''))", json!("NotSupportedError: MD5 is not supported")),
        ("require('crypto').createHash('sha1').update('a').update('bc').digest('hex')", json!("a9993e364706816aba3e25717850c26c9cd0d89d")),
        ("require('node:crypto').createHmac('SHA256', 'key').update('The quick brown fox jumps over the lazy dog').digest('base64')", json!("97yD9DBThCSxMpjmqm+xQ+9NWaFJRhdZl0edvC0aPNg=")),
        ("require('crypto').timingSafeEqual(Buffer.from('ab'), Buffer.from('ac'))", json!(false)),
        ("/^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/.test(crypto.randomUUID())", json!(true)),
        ("new Set(Array.from({ length: 50 }, () => crypto.randomUUID())).size", json!(50)),
        ("crypto.getRandomValues(new Uint8Array(32)).some((b) => b !== 0)", json!(true)),
        ("crypto.getRandomValues(new Uint8Array(65537)).length", json!("QuotaExceededError: at most 65536 bytes at a time")),
        ("(() => { for (let i = 0; i < 200; i += 1) { const n = require('crypto').randomInt(3, 6); if (n < 3 || n > 5) return n; } return 'within'; })()", json!("within")),
        ("Math.random() !== Math.random()", json!(true)),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn modules_and_names_of_the_authors_own() {
    check(&[
        ("Object.keys(require('tokamak')).includes('BadRequestError')", json!(true)),
        ("(() => { const e = new RangeError('far'); const lines = e.stack.split('\\n'); e.stack = 'mine'; return [lines[0], lines[1].includes('(formula.js:'), e.stack]; })()", json!(["RangeError: far", true, "mine"])),
        ("(() => { class Told extends Error { toString() { return this.stack; } } return String(new Told('x')).split('\\n')[0]; })()", json!("Error: x")),
        ("Object.defineProperty(new Error('x'), 'name', { get() { throw 1; } }).stack.startsWith('    at ')", json!(true)),
        ("require('tokamak').RateLimitError === RateLimitError && require('buffer').Buffer === Buffer", json!(true)),
        ("require('util').inspect({ a: [1, 'x'] })", json!("{ a: [ 1, 'x' ] }")),
        ("require('fs')", json!("Error: Cannot find module 'fs'; there are tokamak, buffer, crypto, url, util, timers, timers/promises, node-fetch")),
        ("require('__proto__')", json!("Error: Cannot find module '__proto__'; there are tokamak, buffer, crypto, url, util, timers, timers/promises, node-fetch")),
        ("[req.configuration.KEY, req.args, req.svc, req.invocation.attempt, req.invocation.id.length]", json!(["configured", {}, null, 1, 36])),
        ("[new Headers({ A: 1 }).get('a'), new Response('x', { status: 404 }).ok, await Response.json({ a: 1 }).json()]", json!(["1", false, {"a": 1}])),
    ])
    .await;
    // Names of the world may be declared anew, as scripts for Node do.
    let code = "'use strict';\nconst crypto = require('crypto'); const { URL } = require('url'); const fetch = require('node-fetch');\n\
        const Buffer = require('buffer').Buffer; class Response {} function atob() { return 'mine'; }\n\
        module.exports = async (req) => ({ raw: [typeof crypto.createHash, new URL('https://a').host, typeof fetch, atob(), new TextDecoder().decode(Buffer.from('b'))] });";
    assert_eq!(raw(code, json!({})).await, json!(["function", "a", "function", "mine", "b"]));
}

/// What is shown of the numbers below a hundred.
fn hundred(show: impl Fn(u32) -> String) -> String {
    (0..100).map(show).collect::<Vec<_>>().join(", ")
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_is_the_log() {
    let code = "module.exports = async () => {\n\
        console.log('a %s of %d: %j', 'text', 5, { x: 1 }, [1, 'b'], new Map([['k', { deep: { deeper: null } }]]));\n\
        console.info(undefined, null, 10n, Symbol('s'), () => 1);\n\
        console.debug(new Date(0));\n\
        console.warn(/x/g);\n\
        const loop = {}; loop.loop = loop; console.error(loop);\n\
        console.error(new TypeError('broken'));\n\
        console.error(Object.assign(new RangeError('far'), { code: 'E', name: 'Far' }), new SvcError({ status: 403, detail: 'no' }));\n\
        console.log(new URL('https://a.example/b?c'), new Headers({ A: 'b' }), new URLSearchParams('d=e'));\n\
        console.log(new Set(Array(101).keys()), new Map(Array.from({ length: 101 }, (_, at) => [at, at])));\n\
        console.trace('%s', 'here'); console.dir({ a: { b: 1 } }, { depth: 0 }); console.dir(7, null);\n\
        console.assert(false, 'asserted');\n  console.assert(true, 'silent');\n};";
    let outcome = run(&program(code).await, json!({})).await;
    assert_eq!(outcome.result.unwrap().raw, None);
    let lines: Vec<String> =
        outcome.log.iter().map(|line| format!("{:?} {}", line.level, line.message)).collect();
    assert_eq!(
        lines,
        [
            "Info a text of 5: {\"x\":1} [ 1, 'b' ] Map(1) { 'k' => { deep: { deeper: null } } }",
            "Info undefined null 10n Symbol(s) [Function: anonymous]",
            "Debug 1970-01-01T00:00:00.000Z",
            "Warn /x/g",
            "Error { loop: [Circular] }",
            "Error TypeError: broken\n    at <anonymous> (formula.js:7:15)",
            "Error Far: far\n    at <anonymous> (formula.js:8:29) { code: 'E' } SvcError: no\n    at <anonymous> (formula.js:8:81) { status: 403, title: undefined, detail: 'no', errors: undefined }",
            "Info URL { 'https://a.example/b?c' } Headers { 'a' => 'b' } URLSearchParams { 'd' => 'e' }",
            &format!(
                "Info Set(101) {{ {}, … 1 more }} Map(101) {{ {}, … 1 more }}",
                hundred(|at| at.to_string()),
                hundred(|at| format!("{at} => {at}"))
            ),
            "Trace Trace: here\n    at <anonymous> (formula.js:11:9)",
            "Info { a: [Object] }",
            "Info 7",
            "Error Assertion failed: asserted",
        ]
    );
}

/// Lines of a script's log, without their levels.
async fn lines(body: &str) -> Vec<String> {
    let outcome =
        run(&program(&format!("module.exports = () => {{ {body} }};")).await, json!({})).await;
    outcome.result.unwrap();
    outcome.log.into_iter().map(|line| line.message).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_that_hold_each_other_are_shown_once() {
    let body = "const one = new Error('one');\n\
        one.all = ['a', 'b', 'c'].map((m) => Object.assign(new Error(m), { parent: one, all: [one] }));\n\
        one.cause = one; console.log(one);";
    let [line] = &lines(body).await[..] else { panic!() };
    assert_eq!(line.matches("[Circular]").count(), 7, "{line}");
    assert!(line.len() < 1_000, "{line}");
}

/// To look at a value runs what the script made of it.
#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_looked_at_ends_no_script() {
    let body = "const fail = () => { throw new Error('no'); };\n\
        const closed = new Proxy({}, { ownKeys: fail, get: fail, getPrototypeOf: fail });\n\
        const { proxy, revoke } = Proxy.revocable([], {}); revoke();\n\
        console.log({ a: 1, get b() { return fail(); }, c: [closed] });\n\
        console.log(closed, proxy, 'x'); console.log('%j %d %s', { toJSON: fail }, Symbol('s'), closed);\n\
        console.log(Object.defineProperty(new Error('e'), 'message', { get: fail }));\n\
        console.log(new Map([['k', closed]]), Object.defineProperty([0], 0, { get: fail }));\n\
        console.table([{ get a() { return fail(); } }]); console.table(closed); console.dir(closed);\n\
        console.count({ toString: fail }); console.group(closed);\n\
        console.log(new Proxy({}, { ownKeys() { throw proxy; } }));";
    assert_eq!(
        lines(body).await,
        [
            "{ a: 1, b: [unreadable], c: [ [unreadable] ] }",
            "[unreadable] [unreadable] x",
            "[unreadable] [unreadable] [unreadable]",
            "[unreadable]",
            "Map(1) { 'k' => [unreadable] } [unreadable]",
            "[unreadable]",
            "[unreadable]",
            "[unreadable]",
            "[unreadable]: 1",
            "[unreadable]",
            "  [unreadable]",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_cannot_be_looked_at_takes_no_memory_however_often() {
    let body = "const { proxy, revoke } = Proxy.revocable([], {}); revoke();\n\
        for (let i = 0; i < 20; i++) console.log(Array.from({ length: 100 }, () => proxy));";
    let code = format!("module.exports = () => {{ {body} return {{ raw: 1 }}; }};");
    let outcome = run(&program(&code).await, json!({})).await;
    outcome.result.unwrap();
    assert!(outcome.log_truncated || outcome.log.len() == 20, "{}", outcome.log.len());
    assert!(outcome.log.len() >= 2, "{:?}", outcome.log);
    assert!(outcome.log.iter().all(|line| line.message.contains("[unreadable], [unreadable]")));
    assert!(outcome.usage.memory_peak_bytes < 16 << 20, "{:?}", outcome.usage);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_groups_and_counts() {
    let body = "console.group('outer', 1); console.log('a\\nb'); console.groupCollapsed(); console.warn('c');\n\
        console.groupEnd(); console.dir({ d: 1 }); console.groupEnd(); console.groupEnd(); console.log('e');\n\
        console.count(); console.count('x'); console.count(); console.countReset(); console.count(); console.countReset('y');\n\
        console.assert(false);";
    assert_eq!(
        lines(body).await,
        [
            "outer 1",
            "  a\n  b",
            "    c",
            "  { d: 1 }",
            "e",
            "default: 1",
            "x: 1",
            "default: 2",
            "default: 1",
            "Count for 'y' does not exist",
            "Assertion failed",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_shows_tables() {
    let body = "console.table([{ a: 1, b: 'x' }, { a: { c: 2 } }, 7]);\n\
        console.table({ one: { a: 1, b: 2 } }, ['b']); console.table(new Map([['k', true]])); console.table('none');";
    assert_eq!(
        lines(body).await,
        [
            "┌─────────┬──────────┬─────┬────────┐\n\
             │ (index) │ a        │ b   │ Values │\n\
             ├─────────┼──────────┼─────┼────────┤\n\
             │ 0       │ 1        │ 'x' │        │\n\
             │ 1       │ { c: 2 } │     │        │\n\
             │ 2       │          │     │ 7      │\n\
             └─────────┴──────────┴─────┴────────┘",
            "┌─────────┬───┐\n\
             │ (index) │ b │\n\
             ├─────────┼───┤\n\
             │ one     │ 2 │\n\
             └─────────┴───┘",
            "┌─────────┬────────┐\n\
             │ (index) │ Values │\n\
             ├─────────┼────────┤\n\
             │ 'k'     │ true   │\n\
             └─────────┴────────┘",
            "none",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn the_console_tells_how_long_it_took() {
    let body = "console.time(); console.time('x'); console.time('x'); console.timeLog('x', 'so far', { a: 1 });\n\
        console.timeEnd('x'); console.timeEnd('x'); console.timeEnd();";
    let lines = lines(body).await;
    let took = |line: &str, label: &str, rest: &str| {
        let number = line.strip_prefix(label).and_then(|line| line.strip_suffix(rest));
        let number = number.unwrap_or_else(|| panic!("{line}"));
        assert!(number.parse::<f64>().unwrap() >= 0.0, "{line}");
    };
    assert_eq!(lines.len(), 5, "{lines:?}");
    assert_eq!(lines[0], "Label 'x' already exists");
    took(&lines[1], "x: ", "ms so far { a: 1 }");
    took(&lines[2], "x: ", "ms");
    assert_eq!(lines[3], "No such label 'x'");
    took(&lines[4], "default: ", "ms");
}
