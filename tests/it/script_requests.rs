//! Requests of a script are under way beside each other, and beside its timers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use axum::Router;
use axum::body::Bytes;
use axum::extract::DefaultBodyLimit;
use axum::http::header::SET_COOKIE;
use axum::response::AppendHeaders;
use axum::routing::{any, get, post};
use serde_json::json;
use tokio::net::TcpListener;
use tokio::sync::Barrier;

use crate::support::TestServer;
use crate::support::scripts::{program, react, reactor, run};
use crate::support::server::Setup;

/// A server whose `/meet` answers when three requests are there, and whose `/never` does not; `/note` tells how often it was
/// asked before. Its address.
async fn stand_in() -> String {
    let together = Arc::new(Barrier::new(3));
    let meet = move || async move {
        together.wait().await;
        "met"
    };
    let noted = Arc::new(AtomicUsize::new(0));
    let routes = Router::new()
        .route("/meet", get(meet))
        .route("/never", any(std::future::pending::<&str>))
        .route(
            "/cookies",
            get(|| async { AppendHeaders([(SET_COOKIE, "a=1, x"), (SET_COOKIE, "b=2")]) }),
        )
        .route("/body", post(async |body: Bytes| body))
        .route("/length", post(async |body: Bytes| body.len().to_string()))
        .layer(DefaultBodyLimit::disable())
        .route("/note", post(async move || noted.fetch_add(1, Ordering::SeqCst).to_string()))
        .route("/echo", get(|uri: http::Uri| async move { uri.query().unwrap().to_owned() }));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async { axum::serve(listener, routes).await.unwrap() });
    address.to_string()
}

/// What a script's function answers with as `raw`, given the server's address.
async fn answer(body: &str) -> serde_json::Value {
    let (server, address) = (TestServer::start_with(Setup::open()).await, stand_in().await);
    let code = format!(
        "module.exports = async ({{ args: {{ base }} }}) => {{ {body} return {{ raw }}; }};"
    );
    let path = reactor(&server, &code, json!({"allowed_hosts": [address]}), json!({})).await;
    let args = json!({"base": format!("http://{address}")});
    react(&server, &path, args).await.expect(200)["raw"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn several_are_under_way_at_a_time() {
    let body = "const text = async (path) => (await fetch(base + path)).text();\n\
        const raw = [await Promise.all([text('/meet'), text('/meet'), text('/meet')])];\n\
        raw.push(await Promise.all(Array.from({ length: 30 }, (_, at) => text(`/echo?${at}`))));";
    let numbers: Vec<String> = (0..30).map(|at| at.to_string()).collect();
    assert_eq!(answer(body).await, json!([["met", "met", "met"], numbers]));
}

#[tokio::test(flavor = "multi_thread")]
async fn timers_go_on_beside_them() {
    let body = "const never = fetch(`${base}/never`).then(() => 'answered');\n\
        const later = (ms, value) => new Promise((resolve) => setTimeout(resolve, ms, value));\n\
        const seen = []; setTimeout(() => seen.push('timer'), 1);\n\
        const raw = [await Promise.race([never, later(30, 'late')]), seen, await (await fetch(`${base}/echo?x`)).text()];";
    assert_eq!(answer(body).await, json!(["late", ["timer"], "x"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_aborted_is_given_up() {
    let body = "const failed = (promise) => promise.then(() => 'answered', (e) => [e.name, e.message]);\n\
        const one = new AbortController(); setTimeout(() => one.abort(), 5);\n\
        const two = new AbortController(); let told = 0; two.signal.addEventListener('abort', () => { told += 1; });\n\
        const raw = [await failed(fetch(`${base}/never`, { signal: one.signal })), one.signal.aborted];\n\
        const waiting = failed(fetch(`${base}/never`, { signal: two.signal })); two.abort(new RangeError('mine')); two.abort();\n\
        raw.push(await waiting, told, await failed(fetch(`${base}/never`, { signal: AbortSignal.timeout(20) })).then(([name]) => name));";
    let expected =
        json!([["AbortError", "it was aborted"], true, ["RangeError", "mine"], 1, "TimeoutError"]);
    assert_eq!(answer(body).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn those_that_are_aborted_leave_their_places_to_others() {
    let body = "const aborted = async (body) => {\n\
          const one = new AbortController(); setTimeout(() => one.abort(), 2);\n\
          return fetch(`${base}/never`, { method: 'POST', body, signal: one.signal }).catch((e) => e.name);\n\
        };\n\
        const raw = [new Set(), new Set()];\n\
        for (let at = 0; at < 20; at += 1) raw[0].add(await aborted('x'));\n\
        const large = new Uint8Array(4e6); for (let at = 0; at < 4; at += 1) raw[1].add(await aborted(large));\n\
        raw[0] = [...raw[0]]; raw[1] = [...raw[1]]; raw.push(await (await fetch(`${base}/echo?x`)).text());";
    assert_eq!(answer(body).await, json!([["AbortError"], ["AbortError"], "x"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_aborted_before_its_turn_is_never_sent() {
    let body = "const later = (ms) => new Promise((resolve) => setTimeout(resolve, ms)); const raw = [];\n\
        const first = new AbortController(); const failed = (promise) => promise.catch((e) => e.name);\n\
        const never = Array.from({ length: 8 }, () => failed(fetch(`${base}/never`, { signal: first.signal })));\n\
        const note = (signal) => failed(fetch(`${base}/note`, { method: 'POST', signal }));\n\
        const mine = new AbortController(); const late = [note(mine.signal), note(AbortSignal.timeout(5)), note()];\n\
        mine.abort(); await later(20); raw.push(await late[0], await late[1]);\n\
        first.abort(); raw.push(await (await late[2]).text(), new Set(await Promise.all(never)).size);";
    assert_eq!(answer(body).await, json!(["AbortError", "TimeoutError", "0", 1]));
}

#[tokio::test(flavor = "multi_thread")]
async fn large_ones_wait_for_each_other() {
    let body = "const send = async (bytes) => (await fetch(`${base}/length`, { method: 'POST', body: new Uint8Array(bytes) })).text();\n\
        const raw = [];\n\
        for (const [count, bytes] of [[12, 1e6], [40, 4e5], [5, 4e6]]) {\n\
          const lengths = await Promise.all(Array.from({ length: count }, () => send(bytes)));\n\
          raw.push(lengths.length, [...new Set(lengths)]);\n\
        }";
    let expected = json!([12, ["1000000"], 40, ["400000"], 5, ["4000000"]]);
    assert_eq!(answer(body).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_waits_for_its_turn_has_what_it_was_given() {
    let body = "const buffer = new Uint8Array(4); const all = [];\n\
        for (let at = 0; at < 20; at += 1) {\n\
          buffer.fill(65 + at); all.push(fetch(`${base}/body`, { method: 'POST', body: buffer }).then((a) => a.text()));\n\
        }\n\
        buffer.fill(122); const raw = await Promise.all(all);";
    let expected: Vec<String> =
        (b'A'..b'A' + 20).map(|letter| char::from(letter).to_string().repeat(4)).collect();
    assert_eq!(answer(body).await, json!(expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_ends_by_itself() {
    let body = "const later = (ms) => new Promise((resolve) => setTimeout(resolve, ms));\n\
        const one = AbortSignal.timeout(20); const told = [];\n\
        one.onabort = () => told.push('on'); one.addEventListener('abort', ({ type }) => told.push(type));\n\
        const raw = [[one.aborted, one.reason === undefined]]; await later(40);\n\
        raw.push([one.aborted, one.reason.name, told]);\n\
        try { one.throwIfAborted(); } catch (e) { raw.push(e === one.reason); }\n\
        raw.push(await fetch(`${base}/echo?x`, { signal: one }).then(() => 'sent', (e) => e === one.reason));\n\
        const two = AbortSignal.timeout(500); await (await fetch(`${base}/echo?x`, { signal: two })).text();\n\
        raw.push(await fetch(`${base}/never`, { signal: two }).catch((e) => [e.name, e === two.reason, two.aborted]));\n\
        const three = AbortSignal.timeout(20); await new Promise((resolve) => { three.onabort = resolve; });\n\
        raw.push(three.aborted);";
    let expected = json!([
        [false, true],
        [true, "TimeoutError", ["on", "abort"]],
        true,
        true,
        ["TimeoutError", true, true],
        true
    ]);
    assert_eq!(answer(body).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_signal_of_others_ends_with_the_first() {
    let body = "const given = (signal) => fetch(`${base}/never`, { signal }).catch((e) => e.name ?? e);\n\
        const one = new AbortController(); const two = AbortSignal.any([one.signal, AbortSignal.timeout(20)]);\n\
        const raw = [two.aborted, await given(two), two.aborted, AbortSignal.any([two]).reason === two.reason];\n\
        const three = AbortSignal.any(new Set([one.signal, AbortSignal.timeout(60_000)])); one.abort('mine');\n\
        raw.push(three.reason, await given(three), AbortSignal.any([]).aborted);\n\
        for (const wrong of [undefined, '5', null, -1, NaN, Infinity]) {\n\
          try { AbortSignal.timeout(wrong); raw.push(wrong); } catch (e) { raw.push(e.name); }\n\
        }";
    let types = vec!["TypeError"; 6];
    let mut expected = vec![json!(false), json!("TimeoutError"), json!(true), json!(true)];
    expected.extend([json!("mine"), json!("mine"), json!(false)]);
    expected.extend(types.into_iter().map(|name| json!(name)));
    assert_eq!(answer(body).await, json!(expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listener_that_throws_keeps_nothing_from_ending() {
    let body = "const told = []; const one = new AbortController();\n\
        const two = AbortSignal.any([one.signal]); const three = AbortSignal.any([two]);\n\
        two.addEventListener('abort', () => { told.push('two', three.aborted); throw 1; });\n\
        three.onabort = () => told.push('three');\n\
        one.signal.onabort = () => { throw new RangeError('mine'); };\n\
        for (const none of [null, undefined]) one.signal.addEventListener('abort', none);\n\
        one.signal.addEventListener('abort', { get handleEvent() { throw 1; } });\n\
        const gone = () => told.push('gone');\n\
        one.signal.addEventListener('abort', () => {\n\
          told.push('own', two.aborted); one.signal.removeEventListener('abort', gone);\n\
        });\n\
        one.signal.addEventListener('abort', gone);\n\
        const failed = (signal) => fetch(`${base}/never`, { signal }).then(() => 'answered', (e) => e.name);\n\
        const waiting = [one.signal, two, three].map(failed);\n\
        one.signal.addEventListener('abort', () => told.push('last')); one.abort(); one.abort();\n\
        const raw = [told, await Promise.all(waiting), three.reason === one.signal.reason];";
    let told = json!(["own", true, "last", "two", true, "three"]);
    let expected = json!([told, ["AbortError", "AbortError", "AbortError"], true]);
    assert_eq!(answer(body).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_listener_throws_is_logged_without_what_it_says() {
    let code = "module.exports = () => {\n\
        const one = new AbortController();\n\
        one.signal.addEventListener('abort', () => { throw new RangeError('4242'); });\n\
        one.signal.addEventListener('abort', null);\n\
        one.abort(); return { raw: one.signal.aborted };\n};";
    let outcome = run(&program(code).await, json!({})).await;
    assert_eq!(outcome.result.unwrap().raw, Some(json!(true)));
    let [line] = &outcome.log[..] else { panic!("{:?}", outcome.log) };
    let place = "Uncaught RangeError\n    at formula.js:3:";
    assert!(line.message.starts_with(place), "{}", line.message);
    assert!(!line.message.contains("4242"), "{}", line.message);
}

/// It has ended before its timer can tell, since the script has not waited since.
#[tokio::test(flavor = "multi_thread")]
async fn to_look_at_a_signal_tells_nobody() {
    let body = "const later = (ms) => new Promise((resolve) => setTimeout(resolve, ms));\n\
        const told = []; setTimeout(() => told.push('timer'), 50);\n\
        const one = AbortSignal.timeout(100); const other = new AbortController();\n\
        const two = AbortSignal.any([one, other.signal]);\n\
        one.onabort = () => told.push('one');\n\
        two.addEventListener('abort', () => { told.push('two'); throw new TypeError('mine'); });\n\
        const never = fetch(`${base}/never`, { signal: two }).then(() => 'answered', (e) => e === two.reason);\n\
        const end = performance.now() + 120; while (performance.now() < end);\n\
        const raw = [[one.aborted, one.reason.name, two.aborted, two.reason === one.reason]];\n\
        try { two.throwIfAborted(); } catch (e) { raw.push(e === one.reason); }\n\
        raw.push([...told]); await later(1); raw.push([...told]);\n\
        other.abort(); await later(20); raw.push(told.length, await never);";
    let looked = json!([true, "TimeoutError", true, true]);
    let expected = json!([looked, true, [], ["timer", "one", "two"], 3, true]);
    assert_eq!(answer(body).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_says_whose_it_is_and_keeps_its_cookies_apart() {
    let body = "const answer = await fetch(`${base}/cookies?b=c d&é=1#part`); const again = answer.clone();\n\
        const each = (headers) => [...headers].filter(([name]) => name === 'set-cookie').map(([, value]) => value);\n\
        const both = (headers) => [headers.getSetCookie(), each(headers)];\n\
        const raw = [answer.url === `${base}/cookies?b=c%20d&%C3%A9=1`, both(answer.headers), both(again.headers)];\n\
        raw.push(both(new Headers(answer.headers))); await answer.text();\n\
        try { answer.clone(); } catch (e) { raw.push(e.name); }";
    let cookies = json!([["a=1, x", "b=2"], ["a=1, x", "b=2"]]);
    assert_eq!(answer(body).await, json!([true, cookies, cookies, cookies, "TypeError"]));
}

/// Its timer tells of it only once the script lets it.
#[tokio::test(flavor = "multi_thread")]
async fn a_request_whose_time_has_passed_while_it_waited_is_not_sent() {
    let body = "const all = Array.from({ length: 8 }, () => fetch(`${base}/echo?x`));\n\
        const signal = AbortSignal.timeout(50);\n\
        const ninth = fetch(`${base}/echo?x`, { signal }).then((a) => a.status, (e) => [e.name, e === signal.reason]);\n\
        const until = performance.now() + 400; while (performance.now() < until);\n\
        const raw = [signal.aborted, await ninth, (await Promise.all(all)).length];";
    assert_eq!(answer(body).await, json!([true, ["TimeoutError", true], 8]));
}

#[tokio::test(flavor = "multi_thread")]
async fn one_that_is_too_large_fails_by_itself_however_large_it_is() {
    let body = "const raw = [];\n\
        for (const bytes of [5e6, 9e6, 12e6]) {\n\
        for (const init of [{ body: 'x'.repeat(bytes) }, { headers: { a: 'x'.repeat(bytes) } }]) {\n\
        try { await fetch(base + '/length', { method: 'POST', ...init }); raw.push('sent'); }\n\
        catch (error) { raw.push(error.code); }\n}\n}\n\
        raw.push(await (await fetch(base + '/length', { method: 'POST', body: 'x' })).text());";
    assert_eq!(answer(body).await, json!([vec!["too-large"; 6], vec!["1"]].concat()));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_length_that_a_library_counts_is_taken_if_it_is_right() {
    let body = "const raw = [];\n\
        for (const length of ['3', '4', '']) {\n\
        const init = { method: 'POST', headers: { 'Content-Length': length }, body: 'abc' };\n\
        try { raw.push(await (await fetch(base + '/length', init)).text()); }\n\
        catch (error) { raw.push(error.code); }\n}";
    assert_eq!(answer(body).await, json!(["3", "invalid", "invalid"]));
}
