//! `Blob`, `File` and `FormData`, by themselves and as bodies of requests. Forms are read by a parser that is
//! none of ours.

use std::convert::Infallible;

use axum::Router;
use axum::body::Bytes;
use axum::http::HeaderMap;
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;

use crate::support::TestServer;
use crate::support::scripts::{evaluate, react, reactor};
use crate::support::server::Setup;

/// Expressions that are worth these.
async fn are_worth(rows: &[(&str, Value)]) {
    let expressions: Vec<&str> = rows.iter().map(|(expression, _)| *expression).collect();
    for ((expression, expected), value) in rows.iter().zip(evaluate(&expressions).await) {
        assert_eq!(value, *expected, "{expression}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_holds_a_copy_of_its_parts() {
    are_worth(&[
        ("await (async () => { const b = new Uint8Array([65, 66]); const x = new Blob([b, 'é', new Blob(['z']), b.buffer, 5]); b[0] = 67; return [x.size, x.type, await x.text(), [...await x.bytes()].length]; })()", json!([8, "", "ABézAB5", 8])),
        ("await (async () => { const x = new Blob(['\\ufeffabc'], { type: 'Text/Plain;Charset=UTF-8' }); return [x.type, await x.text(), new Uint8Array(await x.arrayBuffer())[0]]; })()", json!(["text/plain;charset=utf-8", "abc", 239])),
        ("await (async () => { const x = new Blob(['hello']); return [await x.slice(1, 3).text(), await x.slice(-2).text(), await x.slice(3, 1).text(), x.slice(0, 9, 'a/b').type, await x.slice().slice(1).slice(1).text()]; })()", json!(["el", "lo", "", "a/b", "llo"])),
        ("await (async () => { const x = new Blob(['ab']); (await x.bytes())[0] = 90; return x.text(); })()", json!("ab")),
        ("[new Blob([], { type: 'a/b\\r\\nx-evil: 1' }).type, new Blob().size]", json!(["", 0])),
        ("await new Blob(['a\\r\\nb\\rc\\nd'], { endings: 'native' }).text()", json!("a\nb\nc\nd")),
        ("await new Blob(['\\ud800x']).text()", json!("\u{fffd}x")),
        ("[new Blob([], null).size, new File([], 'x', null).name]", json!([0, "x"])),
        ("(() => { const f = new FormData(); for (const n of ['a', 'b', 'c']) f.append(n, n); const seen = []; for (const [n] of f) { seen.push(n); f.delete(n); } return seen; })()", json!(["a", "c"])),
        ("(() => { try { return new Blob('text'); } catch (e) { return e.name; } })()", json!("TypeError")),
        ("(() => { const f = new File(['x'], 'a.txt', { type: 'text/plain', lastModified: 12.7 }); return [f.name, f.size, f.type, f.lastModified, f instanceof Blob, `${f}`, `${new Blob([])}`]; })()", json!(["a.txt", 1, "text/plain", 12, true, "[object File]", "[object Blob]"])),
        ("(() => { try { return new File([]); } catch (e) { return e.name; } })()", json!("TypeError")),
        ("Math.abs(new File([], 'x').lastModified - Date.now()) < 60000", json!(true)),
        ("await (async () => { const f = new File(['x'], 'n'); const c = structuredClone({ f }); return [c.f.name, await c.f.text()]; })()", json!(["n", "x"])),
        ("[require('buffer').Blob === Blob, require('node:buffer').File === File, require('node-fetch').FormData === FormData, require('node-fetch').Headers === Headers]", json!([true, true, true, true])),
    ])
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn form_data_keeps_its_entries_in_order() {
    are_worth(&[
        ("(() => { const f = new FormData(); f.append('a', 1); f.append('b', 'x'); f.append('a', null); f.set('b', 'y'); f.append('c', '3'); f.delete('c'); return [[...f], f.get('a'), f.getAll('a'), f.has('c'), f.get('c'), [...f.keys()], [...f.values()]]; })()", json!([[["a", "1"], ["b", "y"], ["a", "null"]], "1", ["1", "null"], false, null, ["a", "b", "a"], ["1", "y", "null"]])),
        ("(() => { const f = new FormData(); for (const v of [1, 2, 3]) f.append('a', v); f.append('b', 0); f.set('a', 9); f.set('d', 4); const seen = []; f.forEach((v, k, of) => seen.push([k, v, of === f])); return seen; })()", json!([["a", "9", true], ["b", "0", true], ["d", "4", true]])),
        ("(() => { const f = new FormData(); f.append('x', new Blob(['1'])); f.append('y', new File(['2'], 'two')); f.append('z', new File(['3'], 'three', { lastModified: 5 }), 'other'); f.append('u', new Blob([]), undefined); return [...f].map(([k, v]) => [k, v.name, v instanceof File]).concat(f.get('z').lastModified); })()", json!([["x", "blob", true], ["y", "two", true], ["z", "other", true], ["u", "blob", true], 5])),
        ("(() => { const failed = (of) => { try { of(new FormData()); return 'none'; } catch (e) { return e.name; } }; return [failed((f) => f.append('a')), failed((f) => f.set('a', 'text', 'name')), failed(() => new FormData('form')), `${new FormData()}`]; })()", json!(["TypeError", "TypeError", "TypeError", "[object FormData]"])),
    ])
    .await;
}

/// A server that reads forms as such and tells what was in them; `/bytes` tells a body's type and its bytes as text.
async fn stand_in() -> String {
    let form = async |headers: HeaderMap, body: Bytes| {
        let boundary = multer::parse_boundary(headers["content-type"].to_str().unwrap()).unwrap();
        let body = futures::stream::once(async { Ok::<_, Infallible>(body) });
        let mut form = multer::Multipart::new(body, boundary);
        let mut parts = Vec::new();
        while let Some(part) = form.next_field().await.unwrap() {
            let kind = part.content_type().map(ToString::to_string);
            let (name, file) =
                (part.name().map(str::to_owned), part.file_name().map(str::to_owned));
            parts.push(json!([name, file, kind, part.text().await.unwrap()]));
        }
        json!(parts).to_string()
    };
    let bytes = async |headers: HeaderMap, body: Bytes| {
        let kind = headers.get("content-type").map(|value| value.to_str().unwrap().to_owned());
        let told = json!([kind, String::from_utf8(body.to_vec()).unwrap()]).to_string();
        ([("content-type", "application/json")], told)
    };
    let routes = Router::new().route("/form", post(form)).route("/bytes", post(bytes));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async { axum::serve(listener, routes).await.unwrap() });
    address.to_string()
}

/// What a script that sends `body` to a path gets.
async fn sent(path: &str, body: &str) -> Value {
    let (server, address) = (TestServer::start_with(Setup::open()).await, stand_in().await);
    let code = format!(
        "module.exports = async ({{ args: {{ base }} }}) => {{\n\
        const send = async (body, headers) => (await fetch(base + '{path}', {{ method: 'POST', body, headers }})).json();\n\
        {body} }};"
    );
    let path = reactor(&server, &code, json!({"allowed_hosts": [address]}), json!({})).await;
    let args = json!({"base": format!("http://{address}")});
    react(&server, &path, args).await.expect(200)["raw"].clone()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_form_is_sent_as_servers_read_it() {
    let body = "const form = new FormData();\n\
        form.append('note', 'a\\nb é'); form.append('empty', '');\n\
        form.append('file', new File(['4111', new Uint8Array([49, 50])], 'batch \"1\".txt', { type: 'text/csv' }));\n\
        form.append('raw', new Blob(['--x\\r\\n\\r\\n']));\n\
        return { raw: await send(form) };";
    let expected = json!([
        ["note", null, null, "a\r\nb é"],
        ["empty", null, null, ""],
        ["file", "batch %221%22.txt", "text/csv", "411112"],
        ["raw", "blob", "application/octet-stream", "--x\r\n\r\n"],
    ]);
    assert_eq!(sent("/form", body).await, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn no_name_ends_a_part_or_its_header() {
    let body = "const form = new FormData();\n\
        form.append('a\"; filename=\"x', '1'); form.append('b\\r\\nx-evil: 1\\r\\n\\r\\nbody', '2');\n\
        form.append('c', new Blob(['3'], { type: 'text/plain' }), 'n\\r\\nx-evil: 1');\n\
        const request = new Request(base, { method: 'POST', body: form });\n\
        const text = await request.text(); const type = request.headers.get('content-type');\n\
        const boundary = type.split('boundary=')[1];\n\
        const other = new Request(base, { method: 'POST', body: form }).headers.get('content-type');\n\
        return { raw: [text.replaceAll(boundary, 'B'), boundary.length, type === other] };";
    let expected = "--B\r\nContent-Disposition: form-data; name=\"a%22; filename=%22x\"\r\n\r\n1\r\n\
        --B\r\nContent-Disposition: form-data; name=\"b%0D%0Ax-evil: 1%0D%0A%0D%0Abody\"\r\n\r\n2\r\n\
        --B\r\nContent-Disposition: form-data; name=\"c\"; filename=\"n%0D%0Ax-evil: 1\"\r\n\
        Content-Type: text/plain\r\n\r\n3\r\n--B--\r\n";
    assert_eq!(sent("/form", body).await, json!([expected, 45, false]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blob_is_a_body_of_its_type_and_an_answer_becomes_one() {
    let body = "const raw = [await send(new Blob(['a,b'], { type: 'text/csv' })), await send(new Blob(['x']))];\n\
        raw.push(await send(new Blob(['y'], { type: 'text/csv' }), { 'content-type': 'text/plain' }));\n\
        const answer = await fetch(base + '/bytes', { method: 'POST', body: 'z' }); const blob = await answer.blob();\n\
        raw.push(blob.type, await blob.text(), answer.bodyUsed);\n\
        return { raw };";
    let told = "[\"text/plain;charset=UTF-8\",\"z\"]";
    let expected = json!([
        ["text/csv", "a,b"],
        [null, "x"],
        ["text/plain", "y"],
        "application/json",
        told,
        true,
    ]);
    assert_eq!(sent("/bytes", body).await, expected);
}
