//! The console's pure parts, by tables, in the browser that they are for.

use serde_json::{Value, json};

use crate::support::TestServer;
use crate::support::browser::Browser;

/// A browser with the console's page, and one of its modules under `m`.
fn with_module(server: &TestServer, module: &str) -> Option<Browser> {
    let mut browser = Browser::open()?;
    browser.go(&format!("http://{}/console", server.address()));
    browser.eval(&format!(
        "import(document.querySelector('script').src.replace('main.js', '{module}')).then((module) => {{ window.m = module; return true; }})"
    ));
    Some(browser)
}

#[tokio::test(flavor = "multi_thread")]
async fn completions_fit_where_the_caret_is() {
    let server = TestServer::start().await;
    let Some(mut browser) = with_module(&server, "query.js") else { return };
    let known = json!({"types": ["card", "card_number", "token"], "containers": ["/pci/high/"],
        "keys": ["customer", "channel", "two words", "a:(b)"]});
    let mut complete = |text: &str| -> (u64, Vec<String>) {
        let caret = text.find('|').unwrap();
        let whole = text.replace('|', "");
        let found = browser.eval(&format!("m.complete({}, {caret}, {known})", json!(whole)));
        let options = found["options"].as_array().unwrap();
        let texts = options.iter().map(|one| one["text"].as_str().unwrap().to_owned());
        (found["from"].as_u64().unwrap(), texts.collect())
    };
    // Those that are known, and those that they lie in.
    let containers =
        [r#"container:"/pci/*" "#, r#"container:"/pci/high/" "#, r#"container:"/pci/high/*" "#];
    for (text, from, expected) in [
        ("ty|", 0, &["type:"][..]),
        ("type:|", 0, &["type:card ", "type:card_number ", "type:token "]),
        ("type:card_|", 0, &["type:card_number "]),
        ("type:card |", 10, &["AND ", "OR "]),
        ("type:card A|", 10, &["AND "]),
        ("type:card AND co|", 14, &["container:"]),
        ("type:card AND -co|", 15, &["container:"]),
        ("(type:card OR meta|", 14, &["metadata."]),
        ("metadata.c|", 0, &["metadata.customer:", "metadata.channel:"]),
        ("container:|", 0, &containers),
        ("container:/P|", 0, &containers),
        ("container:\"/pci/|", 0, &containers),
        ("-container:/pci/h|", 1, &containers[1..]),
        ("container:/high|", 0, &[]),
        ("type:\"card_|", 0, &["type:card_number "]),
        ("metadata.note:\"a AND b\" |", 24, &["AND ", "OR "]),
        ("created_at:[2030-01-01 TO *] |", 29, &["AND ", "OR "]),
        ("NOT id|", 4, &["id:"]),
        ("ty| AND id:1", 0, &["type:"]),
        ("data:4242|", 0, &[]),
        ("nothing-like-it|", 0, &[]),
        ("metadata.t|", 0, &[r"metadata.two\ words:"]),
        (r"metadata.two\ |", 0, &[r"metadata.two\ words:"]),
        ("metadata.a|", 0, &[r"metadata.a\:\(b\):"]),
    ] {
        let (start, options) = complete(text);
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        assert_eq!((start, options.as_slice()), (from, expected), "{text}");
    }
    let (_, all) = complete("|");
    for field in ["id:", "type:", "container:", "metadata.", "data:", "fingerprint:", "NOT ", "("] {
        assert!(all.iter().any(|one| one == field), "{field} is not among {all:?}");
    }
    // What a completion takes the place of ends where the term does, and never in another one.
    for (text, to) in [
        ("type:ca|_number AND id:1", 14),
        ("type:card| AND id:1", 9),
        ("metadata.c|x:17 OR id:1", 14),
        ("(type:ca|)", 8),
        (r#"container:"/p|/x/" OR id:1"#, 17),
        (r#"container:"/p| AND id:"1""#, 13),
        ("type:card AND |id:1", 14),
    ] {
        let caret = text.find('|').unwrap();
        let whole = json!(text.replace('|', ""));
        let found = browser.eval(&format!("m.complete({whole}, {caret}, {known}).to"));
        assert_eq!(found, to, "{text}");
    }
}

/// What is offered is what the server takes.
#[tokio::test(flavor = "multi_thread")]
async fn every_field_that_is_offered_can_be_searched() {
    let server = TestServer::start().await;
    let Some(mut browser) = with_module(&server, "query.js") else { return };
    let all = browser.eval(
        "m.complete('', 0, {types: [], containers: [], keys: []}).options.map((one) => one.text)",
    );
    let mut fields = 0;
    for field in all.as_array().unwrap().iter().map(|one| one.as_str().unwrap()) {
        let value = match field {
            "metadata." => "key:value".to_owned(),
            "container:" => "\"/pci/*\"".to_owned(),
            "created_at:" | "modified_at:" => "2030-01-01".to_owned(),
            "NOT " | "(" => continue,
            _ => "01a202f8-eb06-7000-a69c-5ccae9a0e2df".to_owned(),
        };
        server.private.search(&format!("{field}{value}")).await;
        fields += 1;
    }
    assert!(fields >= 10, "{all}");
    // Whatever a key is made of.
    let key = r#"a: (b) [c] {d} "e" \f"#;
    let token = json!({"type": "token", "data": "value", "metadata": {key: "17"}});
    let token = server.private.post("/tokens", token).await.expect(201);
    let keys = json!({ "keys": [key] });
    let offered = browser.eval(&format!("m.complete('metadata.', 9, {keys}).options[0].text"));
    let found = server.private.search(&format!("{}17", offered.as_str().unwrap())).await;
    assert_eq!(json!(found), json!([token["id"]]));
    let times = browser.eval("m.complete('created_at:', 11, {}).options.map((one) => one.text)");
    for range in times.as_array().unwrap() {
        server.private.search(range.as_str().unwrap()).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_are_read_as_they_are_written() {
    let server = TestServer::start().await;
    let Some(mut browser) = with_module(&server, "metrics.js") else { return };
    let text = r#"# HELP x y
tokamak_http_requests_total{method="GET",route="/tokens/{id}",status="200"} 90
tokamak_http_requests_total{method="GET",route="/tokens/{id}",status="404"} 6
tokamak_http_requests_total{method="POST",route="/reactors/{id}/react",status="formula"} 4
tokamak_http_requests_total{method="GET",route="/metrics",status="200"} 1000
tokamak_http_request_duration_seconds_bucket{le="0.001",method="GET",route="/tokens/{id}"} 50
tokamak_http_request_duration_seconds_bucket{le="0.002",method="GET",route="/tokens/{id}"} 100
tokamak_http_request_duration_seconds_bucket{le="+Inf",method="GET",route="/tokens/{id}"} 100
tokamak_http_request_duration_seconds_bucket{le="+Inf",method="GET",route="/metrics"} 1000
tokamak_waiting{what="jobs_queued"} 7
process_resident_memory_bytes 1.5e8
# EOF"#;
    browser.eval(&format!(
        "window.now = m.digest(m.parse({})), window.before = m.digest([]), true",
        json!(text)
    ));
    let point = browser.eval("m.between(before, now, 2)");
    for (name, expected) in [
        ("requests", json!(50)),
        ("refused", json!(5)),
        ("p50", json!(1)),
        ("p99", json!(1.98)),
        ("queued", json!(7)),
        ("running", json!(0)),
        ("run_p50", Value::Null),
    ] {
        let (found, wanted) = (&point[name], &expected);
        let near = match (found.as_f64(), wanted.as_f64()) {
            (Some(found), Some(wanted)) => (found - wanted).abs() < 1e-9,
            _ => found == wanted,
        };
        assert!(near, "{name} is {found} and not {wanted}");
    }
    assert_eq!(browser.eval("now.memory"), json!(150_000_000));
    assert_eq!(browser.eval("[...now.routes.keys()]"), json!(["GET /tokens/{id}"]));
    // Nothing between two equal readings: no rate below nothing, no time of nothing.
    let still = browser.eval("m.between(now, now, 2)");
    assert_eq!((&still["requests"], &still["p50"]), (&json!(0), &Value::Null));
    // A server that began anew counts from nothing, and is known by what has fallen.
    assert_eq!(browser.eval("m.between(now, before, 2).requests"), json!(0));
    for (earlier, later, anew) in
        [("before", "now", false), ("now", "now", false), ("now", "before", true)]
    {
        assert_eq!(browser.eval(&format!("m.isAnew({earlier}, {later})")), anew);
    }
    // More requests in all, but of another route.
    let other = text.replace("/tokens/{id}", "/tokens").replace("} 90", "} 900");
    let other = format!("m.isAnew(now, m.digest(m.parse({})))", json!(other));
    assert_eq!(browser.eval(&other), true);
    // Those of the real server are read too.
    server.private.get("/tokens").await.expect(200);
    let real = browser.eval("fetch('/metrics').then((answer) => answer.text()).then((text) => m.digest(m.parse(text)).requests)");
    assert!(real.as_f64().unwrap() >= 1.0, "{real}");
}

#[tokio::test(flavor = "multi_thread")]
async fn numbers_are_written_for_people() {
    let server = TestServer::start().await;
    let Some(mut browser) = with_module(&server, "format.js") else { return };
    for (expression, expected) in [
        ("m.counted(1, 'token')", "1 token"),
        ("m.counted(0, 'entry')", "0 entries"),
        ("m.counted(1234567, 'entry')", "1,234,567 entries"),
        ("m.duration(12)", "12\u{a0}µs"),
        ("m.duration(2400)", "2.40\u{a0}ms"),
        ("m.duration(210000000)", "210\u{a0}s"),
        ("m.bytes(1000)", "1000\u{a0}B"),
        ("m.bytes(5 * 1024 * 1024)", "5.0\u{a0}MiB"),
        ("m.short(0)", "0"),
        ("m.short(0.25)", "0.25"),
        ("m.short(123456)", "123\u{a0}k"),
        ("m.short(NaN)", "–"),
        ("m.brief('01a202f8-eb06-7000-a69c-5ccae9a0e2df')", "…5ccae9a0e2df"),
        ("m.brief('my-own-id-of-a-card')", "my-own-id-of-a-card"),
        ("m.compact({a: 1})", "{\"a\":1}"),
        ("m.compact('x'.repeat(10), 4)", "xxxx…"),
    ] {
        assert_eq!(browser.eval(expression), expected, "{expression}");
    }
}

/// The place alone: what stands there may be sensitive.
#[tokio::test(flavor = "multi_thread")]
async fn the_place_is_found_where_a_text_stops_being_json() {
    let server = TestServer::start().await;
    let Some(mut browser) = with_module(&server, "json_fault.js") else { return };
    for (text, line, column, is_end) in [
        ("{ no json", 1, 3, false),
        ("{\"a\": 1,\n  \"b\" 2}", 2, 7, false),
        ("{\"a\": 1,}", 1, 9, false),
        ("[1, 2,\n]", 2, 1, false),
        ("[1] 2", 1, 5, false),
        ("{\"a\": 01}", 1, 8, false),
        ("[\"é😀\", x]", 1, 8, false),
        (r#"["a\x"]"#, 1, 4, false),
        ("[\"a\nb\"]", 1, 4, false),
        ("[}", 1, 2, false),
        ("", 1, 1, true),
        ("{\"a\": [1, {}", 1, 13, true),
        ("\n\"a", 2, 3, true),
    ] {
        let found = browser.eval(&format!("m.faultIn({})", json!(text)));
        assert_eq!(found, json!({"line": line, "column": column, "isEnd": is_end}), "{text}");
    }
    for text in [
        "{}",
        " [] ",
        r#"{"a": [1.5e+3, -0, true, false, null, {"b": {}}], "c": "\u00e9\n"}"#,
        "\"text\"",
        "0",
    ] {
        assert_eq!(browser.eval(&format!("m.faultIn({})", json!(text))), Value::Null, "{text}");
    }
    // Of any length and depth.
    let long = browser.eval(
        "[m.faultIn('['.repeat(200000)).column, m.faultIn(`\"${'x\\\\n'.repeat(2000000)}\"`) === undefined]",
    );
    assert_eq!(long, json!([200_001, true]));
}

/// What the console sends is judged by the rules of the standard, as another library has them.
#[tokio::test(flavor = "multi_thread")]
async fn a_patch_leads_from_one_value_to_the_other_and_says_no_more() {
    let server = TestServer::start().await;
    let Some(mut browser) = with_module(&server, "merge_patch.js") else { return };
    for (before, after, patch) in [
        (json!({"a": "1", "b": "2"}), json!({"b": "2", "a": "1"}), None),
        (json!({"a": "1"}), json!({"a": "2"}), Some(json!({"a": "2"}))),
        (json!({"a": "1", "b": "2"}), json!({"b": "2"}), Some(json!({"a": null}))),
        (json!({}), json!({"a": {"b": [1, null]}}), Some(json!({"a": {"b": [1, null]}}))),
        (json!({"a": {"b": 1, "c": 2}}), json!({"a": {"b": 1}}), Some(json!({"a": {"c": null}}))),
        (json!({"a": {"b": 1}}), json!({"a": "text"}), Some(json!({"a": "text"}))),
        (json!({"a": "text"}), json!({"a": {"b": 1}}), Some(json!({"a": {"b": 1}}))),
        (json!({"a": [1, 2]}), json!({"a": [2, 1]}), Some(json!({"a": [2, 1]}))),
        (json!({"a": [{"x": 1}]}), json!({"a": [{"x": 1}]}), None),
        (json!("{{ data }}"), json!({"n": "{{ data.n }}"}), Some(json!({"n": "{{ data.n }}"}))),
        (
            json!({"toString": "1"}),
            json!({"__proto__": "2"}),
            Some(json!({"toString": null, "__proto__": "2"})),
        ),
        (json!(["/a/"]), json!(["/a/"]), None),
    ] {
        let call = "m.patchBetween(JSON.parse(before), JSON.parse(after))";
        let texts =
            format!("before = {}, after = {}", json!(before.to_string()), json!(after.to_string()));
        let found = browser.eval(&format!("{texts}, JSON.stringify({call}) ?? null"));
        let found: Option<Value> = found.as_str().map(|text| serde_json::from_str(text).unwrap());
        assert_eq!(found, patch, "{before} to {after}");
        let mut made = before.clone();
        json_patch::merge(&mut made, &found.unwrap_or(json!({})));
        if patch.is_some() {
            assert_eq!(made, after, "{before} with the patch");
            let patched =
                browser.eval(&format!("JSON.stringify(m.patched(JSON.parse(before), {call}))"));
            let patched: Value = serde_json::from_str(patched.as_str().unwrap()).unwrap();
            assert_eq!(patched, after, "{before} as the page patches it");
        }
    }
    assert_eq!(browser.eval("m.patchBetween({a: 1}, undefined)"), Value::Null);
    assert_eq!(browser.eval("m.patchBetween(undefined, undefined) === undefined"), true);
    for (value, has) in
        [("{a: {b: null}}", true), ("{a: [null]}", false), ("null", false), ("'x'", false)]
    {
        assert_eq!(browser.eval(&format!("m.hasNullMember({value})")), has, "{value}");
    }
    let paths = browser.eval("m.pathsOf({data: 'a secret', metadata: {a: null, b: '1'}, mask: null, containers: ['/a/']})");
    let expected = ["data", "metadata.a (removed)", "metadata.b", "mask (removed)", "containers"];
    assert_eq!(paths, json!(expected));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_rights_is_told_in_words() {
    let server = TestServer::start().await;
    let Some(mut browser) = with_module(&server, "access.js") else { return };
    let rule = |priority: u32, container: &str, transform: &str, permissions: &[&str]| {
        json!({"priority": priority,
        "container": container, "transform": transform, "permissions": permissions})
    };
    let holding = |kind: &str, permissions: &[&str], rules: Vec<Value>| json!({"type": kind, "permissions": permissions, "rules": rules});
    let read = ["token:read"];
    let masked = holding(
        "private",
        &[],
        vec![rule(1, "/a/", "mask", &read), rule(2, "/b/", "reveal", &read)],
    );
    for (before, after, same, gained, lost) in [
        // Other numbers in the same order decide alike.
        (
            &masked,
            holding(
                "private",
                &[],
                vec![rule(9, "/b/", "reveal", &read), rule(3, "/a/", "mask", &read)],
            ),
            true,
            json!([]),
            json!([]),
        ),
        (
            &masked,
            holding(
                "private",
                &[],
                vec![rule(1, "/b/", "reveal", &read), rule(3, "/a/", "mask", &read)],
            ),
            false,
            json!([]),
            json!([]),
        ),
        (
            &masked,
            holding(
                "private",
                &[],
                vec![rule(1, "/a/", "redact", &read), rule(2, "/b/", "reveal", &read)],
            ),
            false,
            json!(["token:read in /a/, data unseen"]),
            json!(["token:read in /a/, data masked"]),
        ),
        (
            &masked,
            holding("private", &["token:use"], vec![rule(1, "/a/", "mask", &read)]),
            false,
            json!(["token:use everywhere, its formula gets plaintext"]),
            json!(["token:read in /b/, data plaintext"]),
        ),
        (
            &holding("management", &["log:read"], vec![]),
            holding("management", &["log:read", "tenant:read"], vec![]),
            false,
            json!(["tenant:read"]),
            json!([]),
        ),
    ] {
        assert_eq!(
            browser.eval(&format!("m.sameRights({before}, {after})")),
            same,
            "{before} and {after}"
        );
        let found = browser.eval(&format!("m.changedRights({before}, {after})"));
        assert_eq!((&found["gained"], &found["lost"]), (&gained, &lost), "{before} and {after}");
    }
}
