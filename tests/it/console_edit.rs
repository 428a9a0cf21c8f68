//! The console changes tokens, says of refusals where they belong, and notices rights that change while it is open.

use serde_json::{Value, json};

use crate::support::browser::Browser;
use crate::support::{Client, TestServer};

const NUMBER: &str = "4242424242424242";

fn sign_in(browser: &mut Browser, server: &TestServer, keys: &[&Client]) {
    browser.go(&format!("http://{}/console", server.address()));
    browser.wait_for("Sign in");
    let labels = ["API key", "Another API key", "Another API key"];
    for (index, key) in keys.iter().enumerate() {
        browser.fill(labels[index], key.key.as_deref().unwrap());
        browser.press("Enter");
        let count =
            format!("document.querySelectorAll('.pages .keys span').length === {}", index + 1);
        browser.wait(&count);
    }
    browser.wait_for("Your access");
}

/// The rows of the table of this caption, their cells apart by bars.
fn rows(browser: &mut Browser, caption: &str) -> Vec<String> {
    let found = browser.eval(&format!(
        "[...document.querySelectorAll('table')].filter((one) => one.caption.innerText === {})
            .flatMap((one) => [...one.querySelectorAll('tbody tr')])
            .map((row) => [...row.children].map((cell) => cell.innerText.replace(/\\s+/g, ' ').trim()).join(' | '))",
        json!(caption)
    ));
    found.as_array().unwrap().iter().map(|row| row.as_str().unwrap().to_owned()).collect()
}

/// What is said at the field of this label, if it is marked as faulty.
fn fault(browser: &mut Browser, label: &str) -> Value {
    let told =
        "ids.map((id) => document.getElementById(id)).find((one) => one.className === 'fault')";
    browser.eval(&format!(
        "(() => {{
            const field = t.field({});
            if (field.getAttribute('aria-invalid') !== 'true') return null;
            const ids = field.getAttribute('aria-describedby').split(' ');
            return {told}.innerText;
        }})()",
        json!(label)
    ))
}

async fn card(server: &TestServer) -> Value {
    let token = json!({"id": "a-card", "type": "card",
        "data": {"number": NUMBER, "expiration_month": 12, "expiration_year": 2030},
        "metadata": {"customer": "17", "channel": "web"}});
    server.private.post("/tokens", token).await.expect(201)
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_is_changed_by_what_is_different_and_that_is_told() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    let mask = card(&server).await["mask"].clone();
    sign_in(&mut browser, &server, &[&server.management, &server.private]);
    browser.visit("tokens/of/a-card");
    browser.click("Change");
    browser.wait_for("Change token a-card");
    browser.wait_for("Nothing is changed yet.");
    // What is there is offered; plaintext is not.
    assert_eq!(
        browser.eval("t.field('Key 1').value + '=' + t.field('Value 1').value"),
        "channel=web"
    );
    assert_eq!(browser.eval("t.field('Containers').value"), "/pci/high/");
    assert_eq!(browser.eval("t.field('Change of the data').value"), "");
    browser.click("Save");
    browser.wait_for("Nothing is different from what the token is.");

    // Somebody else writes meanwhile, to what is not changed here.
    let other = json!({"metadata": {"desk": "4"}});
    server.private.patch("/tokens/a-card", other).await.expect(200);
    browser.click("Remove channel");
    browser.fill("Value 1", "18");
    browser.click("Add a pair");
    browser.fill("Key 2", "note");
    browser.fill("Value 2", "a = b, two  spaces ");
    browser.fill("Containers", "/pci/high/vip/, /pci/low/");
    browser.set("Ends", "2039-05-06T07:08:09");
    let shortened = json!({"number": mask["number"], "expiration_year": mask["expiration_year"]});
    browser.set("Mask", &shortened.to_string());
    browser.fill("Change of the data", r#"{"expiration_year": 2034, "expiration_month": null}"#);
    browser.wait_for(
        "Saving changes metadata.channel (removed), metadata.customer, metadata.note, containers, \
            expires_at, mask.expiration_month (removed), data.expiration_year, data.expiration_month (removed).",
    );
    browser.click("Save");
    browser.wait_for("The token is changed.");
    assert_eq!(browser.eval("document.querySelector('h1').innerText"), "Token a-card");
    let told = rows(&mut browser, "What has changed");
    for (member, now) in [
        ("Data | ", r#""expiration_year": 2034 }"#),
        ("Metadata | ", r#""note": "a = b, two spaces ""#),
        ("Containers | [ \"/pci/high/\" ] | ", r#"[ "/pci/high/vip/", "/pci/low/" ]"#),
        ("Ends | – | ", "2039"),
        ("Mask | ", "expiration_year"),
    ] {
        let row = told.iter().find(|row| row.starts_with(member));
        assert!(row.is_some_and(|row| row.contains(now)), "{member} in {told:?}");
    }
    assert_eq!(told.len(), 5, "{told:?}");

    let ends = browser.eval("new Date('2039-05-06T07:08:09Z').toISOString()");
    let seen = server.revealing().await.get("/tokens/a-card").await.expect(200);
    assert_eq!(seen["data"], json!({"number": NUMBER, "expiration_year": 2034}));
    let metadata = json!({"customer": "18", "desk": "4", "note": "a = b, two  spaces "});
    assert_eq!(seen["metadata"], metadata, "what another request wrote is still there");
    assert_eq!(seen["containers"], json!(["/pci/high/vip/", "/pci/low/"]));
    assert_eq!(seen["mask"], shortened);
    assert_eq!(seen["expires_at"], ends.as_str().unwrap().replace('Z', "+00:00"));

    // Emptied fields take away; what was told is not told again.
    browser.click("Change");
    browser.wait_for("Nothing is changed yet.");
    browser.set("Ends", "");
    browser.set("Mask", "");
    browser.click("Save");
    browser.wait_for("The token is changed.");
    assert_eq!(rows(&mut browser, "What has changed").len(), 2);
    let seen = server.private.get("/tokens/a-card").await.expect(200);
    assert_eq!((seen.get("expires_at"), seen.get("mask")), (None, None));
    browser.visit("containers");
    browser.visit("tokens/of/a-card");
    assert_eq!(browser.eval("t.text().includes('What has changed')"), false);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_refusal_stands_at_the_fields_that_it_is_of() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    let before = card(&server).await;
    sign_in(&mut browser, &server, &[&server.management, &server.private]);
    browser.visit("tokens/edit/a-card");
    browser.fill("Value 2", &"x".repeat(1001));
    browser.fill("Containers", "/pci/ no-container");
    browser.set("Ends", "2001-01-01T00:00:00");
    browser.fill("Change of the data", r#"{"expiration_month": 13}"#);
    browser.click("Save");
    browser.wait_for("Bad Request");
    for (label, words) in [
        ("Value 2", "1000"),
        ("Containers", "no. 2: must start and end with /"),
        ("Ends", "is in the past"),
        ("Change of the data", "expiration_month: must be"),
    ] {
        let said = fault(&mut browser, label);
        assert!(
            said.as_str().is_some_and(|said| said.replace(',', "").contains(words)),
            "{label}: {said}"
        );
    }
    assert_eq!(fault(&mut browser, "Mask"), Value::Null);
    browser.wait("document.activeElement === t.field('Value 2')");
    // What is no JSON is not sent; a field that is folded away is unfolded.
    browser.set("Mask", "{ no json");
    browser.click("Save");
    browser.wait_for("Some fields cannot be read.");
    assert_eq!(fault(&mut browser, "Mask"), "is not JSON: look at line 1, column 3");
    browser.click("Back to the token");
    browser.click("Leave");
    browser.wait("document.querySelector('h1')?.innerText === 'Token a-card'");
    browser.visit("tokens/edit/a-card");
    assert_eq!(browser.eval("t.field('Change of the data').value"), "", "what was written is kept");
    browser.click("More");
    browser.fill("Search indexes", "{{ data.number | no_such_filter }}");
    browser.eval("document.querySelector('details').open = false, true");
    browser.click("Save");
    browser.wait("document.querySelector('details').open && document.activeElement === t.field('Search indexes')");
    assert_eq!(server.private.get("/tokens/a-card").await.expect(200), before);

    // The form of applications says it there, too.
    browser.click("Applications");
    browser.click("Leave");
    browser.wait("document.querySelector('h1')?.innerText === 'Applications'");
    browser.visit("applications/new");
    browser.fill("Name", &"n".repeat(201));
    browser.click("Add a rule");
    browser.set("Container", "");
    browser.set("Ends", "2001-01-01T00:00:00");
    browser.click("Create");
    browser.wait_for("Bad Request");
    for (label, words) in
        [("Name", "200"), ("Container", "is required"), ("Ends", "is in the past")]
    {
        let said = fault(&mut browser, label);
        assert!(said.as_str().is_some_and(|said| said.contains(words)), "{label}: {said}");
    }
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_token_that_comes_to_equal_another_one_gives_way_before_the_eyes() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    for (id, data) in [("one", "first"), ("two", "second")] {
        let token = json!({"id": id, "type": "token", "data": data, "deduplicate_token": true});
        server.private.post("/tokens", token).await.expect(201);
    }
    sign_in(&mut browser, &server, &[&server.private]);
    browser.visit("tokens/edit/two");
    browser.fill("Change of the data", "first");
    browser.choose("The change is", "text");
    browser.click("Save");
    browser.wait_for("gave way to it: it is gone");
    assert_eq!(browser.eval("location.hash"), "#/tokens/of/one");
    server.private.get("/tokens/two").await.expect(404);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// What is hidden may be an object, of which a text would leave nothing.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_of_hidden_data_is_sent_as_what_it_is_said_to_be() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    let revealing = server.revealing().await;
    let person = json!({"name": "Bob", "born": 1970});
    let written = r#"{"name": "Anna"}"#;
    let merged = json!({"name": "Anna", "born": 1970});
    // Without a mask, with one that makes a text of it, and by a key that would show it.
    let cases = [
        (&server.private, Value::Null, "json", merged.clone()),
        (&server.private, json!("{{ data.name }}"), "json", merged.clone()),
        (&revealing, Value::Null, "text", json!(written)),
    ];
    for (number, (client, mask, way, expected)) in cases.into_iter().enumerate() {
        let id = format!("person-{number}");
        let mut token = json!({"id": id, "type": "token", "data": person});
        if !mask.is_null() {
            token["mask"] = mask;
        }
        server.private.post("/tokens", token).await.expect(201);
        sign_in(&mut browser, &server, &[client]);
        browser.visit(&format!("tokens/edit/{id}"));
        assert_eq!(browser.eval("t.field('The change is').value"), "", "{id}");
        browser.fill("Change of the data", written);
        browser.click("Save");
        browser.wait("document.activeElement === t.field('The change is')");
        for (choice, said) in [
            ("text", "Saving changes data. That replaces the whole of data."),
            ("json", "Saving changes data.name. If data is an object now, its other members stay"),
            (way, "Saving changes data"),
        ] {
            browser.choose("The change is", choice);
            browser.wait(&format!("t.name(document.body).includes({})", json!(said)));
        }
        browser.click("Save");
        browser.wait_for("The token is changed.");
        let path = format!("/tokens/{id}");
        assert_eq!(revealing.get(&path).await.expect(200)["data"], expected, "{id}");
    }
    // What is known to be an object is merged into, unless somebody says otherwise.
    let masked = json!({"id": "masked", "type": "token", "data": person,
        "mask": {"name": "{{ data.name }}"}});
    server.private.post("/tokens", masked).await.expect(201);
    sign_in(&mut browser, &server, &[&server.private]);
    browser.visit("tokens/edit/masked");
    assert_eq!(browser.eval("t.field('The change is').value"), "json");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn rights_that_change_meanwhile_are_noticed_before_anything_is_shown_by_them() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    card(&server).await;
    let rule = |transform: &str, permissions: &[&str]| {
        json!([{"description": "", "priority": 1, "container": "/pci/", "transform": transform,
            "permissions": permissions}])
    };
    let body = json!({"name": "clerk", "type": "private",
        "rules": rule("mask", &["token:read", "token:search", "token:delete"])});
    let made = server.management.post("/applications", body).await.expect(201);
    let path = format!("/applications/{}", made["id"].as_str().unwrap());
    let clerk = server.client(made["key"].as_str().unwrap());
    sign_in(&mut browser, &server, &[&clerk]);
    browser.visit("tokens");
    browser.wait_for("XXXXXXXXXXXX4242");

    // The key comes to see plaintext: a list does not show it, although the page was opened before.
    let body = json!({"name": "clerk", "rules": rule("reveal", &["token:read", "token:search"])});
    server.management.put(&path, body).await.expect(200);
    browser.click("Search");
    browser.wait_for("What clerk may do has changed.");
    browser.wait_for("••••••");
    assert_eq!(
        browser.eval(&format!("document.documentElement.outerHTML.includes('{NUMBER}')")),
        false
    );
    let notice = browser.eval("document.querySelector('.notice').innerText");
    for words in ["token:read in /pci/, data plaintext", "token:delete in /pci/"] {
        assert!(notice.as_str().unwrap().contains(words), "{notice}");
    }
    browser.visit("tokens/of/a-card");
    browser.wait_for("Reads it as clerk; that is logged.");
    assert_eq!(browser.eval("t.named('button', 'Delete') === undefined"), true);
    browser.click("Put away");
    browser.wait("!document.querySelector('.notice')");
    assert!(browser.focused().contains("a-card"), "the focus is not lost");

    // Rights that are back are offered with the next page; what has not changed is not spoken of.
    let body = json!({"name": "clerk", "rules": rule("reveal", &["token:read", "token:search", "token:delete"])});
    server.management.put(&path, body).await.expect(200);
    browser.visit("containers");
    browser.wait_for("What clerk may do has changed.");
    browser.click("Put away");
    browser.visit("tokens/of/a-card");
    browser.wait("t.named('button', 'Delete')");
    assert_eq!(browser.eval("document.querySelectorAll('.notice').length"), 0);

    // A key that was replaced is forgotten, with what it showed.
    let regenerate = format!("{path}/regenerate");
    server.management.post(&regenerate, json!({})).await.expect(200);
    browser.eval("location.hash = '#/tokens', true");
    browser.wait_for("The key of clerk opens nothing any more.");
    browser.wait("t.field('API key')");
    assert_eq!(browser.eval("t.text().includes('a-card')"), false);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_formula_and_its_reactor_are_changed_and_what_is_hidden_stays() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    let script = |word: &str| {
        format!(
            "module.exports = async ({{ configuration }}) => ({{ raw: {{ {word}: configuration }} }});"
        )
    };
    let formula = json!({"name": "first", "code": script("before"), "undeclared_arguments": "drop",
        "limits": {"memory_mb": 96}, "allowed_hosts": ["api.example.com"], "configuration": [
            {"name": "SECRET", "type": "string"}, {"name": "NOTE", "type": "string", "optional": true},
            {"name": "LIMIT", "type": "number"}, {"name": "STRICT", "type": "boolean", "optional": true}]});
    let formula = server.management.post("/reactor-formulas", formula).await.expect(201);
    let reactor = json!({"name": "one", "formula": {"id": formula["id"]},
        "configuration": {"SECRET": "kept-as-it-is", "NOTE": "to go", "LIMIT": 5, "STRICT": true}});
    let reactor = server.management.post("/reactors", reactor).await.expect(201);
    let id = |entity: &Value| entity["id"].as_str().unwrap().to_owned();
    sign_in(&mut browser, &server, &[&server.management, &server.private]);

    browser.visit(&format!("formulas/of/{}", id(&formula)));
    browser.click("Change");
    browser.wait("t.field('Code')?.value.includes('before')");
    browser.fill("Code", "no script (");
    browser.click("Save");
    browser.wait_for("does not parse");
    browser.fill("Name", "second");
    browser.set("Code", &script("after"));
    browser.click("Save");
    browser.wait("document.querySelector('h1')?.innerText === 'second'");
    let path = format!("/reactor-formulas/{}", id(&formula));
    let changed = server.management.get(&path).await.expect(200);
    for member in ["undeclared_arguments", "limits", "allowed_hosts", "configuration"] {
        assert_eq!(changed[member], formula[member], "{member}");
    }
    // A name alone is changed without the code being sent again.
    browser.click("Change");
    browser.wait("t.field('Code')?.value.includes('after')");
    browser.fill("Name", "third");
    browser.click("Save");
    browser.wait("document.querySelector('h1')?.innerText === 'third'");
    let again = server.management.get(&path).await.expect(200);
    assert_eq!(again["component_digest"], changed["component_digest"]);

    browser.visit(&format!("reactors/of/{}", id(&reactor)));
    browser.click("Change");
    browser.wait("t.field('SECRET')");
    browser.fill("Name", "two");
    browser.eval("t.field('Remove NOTE').click(), true");
    // Only texts may be secrets.
    assert_eq!(browser.eval("t.field('LIMIT').value"), "5");
    assert_eq!(browser.eval("t.field('STRICT (optional)').value"), "true");
    browser.choose("STRICT (optional)", "false");
    browser.click("Save");
    browser.wait("document.querySelector('h1')?.innerText === 'two'");
    browser.wait_for("•••• (13 characters)");
    assert_eq!(browser.eval("document.documentElement.outerHTML.includes('kept-as-it-is')"), false);
    let changed = server.management.get(&format!("/reactors/{}", id(&reactor))).await.expect(200);
    let expected = json!({"SECRET": "kept-as-it-is", "LIMIT": 5, "STRICT": false});
    assert_eq!(changed["configuration"], expected);
    browser.click("Run");
    browser.wait_for("\"after\"");
    // Those that ship with the product are not changed.
    browser.visit("formulas/of/6f2b0c0e-3d5a-4c38-9d6b-5a1f3c7e9b01");
    browser.wait_for("official");
    assert_eq!(browser.eval("t.named('a', 'Change') === undefined"), true);
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

#[tokio::test(flavor = "multi_thread")]
async fn of_a_token_nothing_is_written_that_nobody_touched() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    sign_in(&mut browser, &server, &[&server.private]);
    // Each is read as something else, or as nothing, from the field that shows it.
    for (number, members) in [
        json!({"mask": "[hidden]"}),
        json!({"mask": "{masked}"}),
        json!({"mask": {"a": null}, "data": {"a": 1}}),
        json!({"mask": "\"quoted\""}),
        json!({"mask": 5}),
        json!({"mask": true}),
        json!({"mask": ""}),
        json!({"mask": " spaces "}),
        json!({"search_indexes": [" {{ data }}", "{{ data\n }}"]}),
        json!({"fingerprint_expression": " {{ data }} "}),
    ]
    .into_iter()
    .enumerate()
    {
        let id = format!("token-{number}");
        let mut token = json!({"id": id, "type": "token", "data": "value"});
        for (name, value) in members.as_object().unwrap() {
            token[name] = value.clone();
        }
        let before = server.private.post("/tokens", token).await.expect(201);
        browser.visit(&format!("tokens/edit/{id}"));
        browser.wait_for("Nothing is changed yet.");
        browser.fill("Containers", "/pci/low/");
        browser.wait_for("Saving changes containers.");
        browser.click("Save");
        browser.wait_for("The token is changed.");
        let after = server.private.get(&format!("/tokens/{id}")).await.expect(200);
        assert_eq!(after["containers"], json!(["/pci/low/"]), "{members}");
        for member in ["mask", "search_indexes", "fingerprint_expression"] {
            assert_eq!(after.get(member), before.get(member), "{member} of {members}");
        }
    }
    // Lines of metadata stay lines.
    let metadata = json!({"note": "one\ntwo"});
    let token = json!({"id": "lines", "type": "token", "data": "value", "metadata": metadata});
    server.private.post("/tokens", token).await.expect(201);
    browser.visit("tokens/edit/lines");
    browser.wait("t.field('Value 1')?.value === 'one\\ntwo'");
    browser.set("Value 1", "one\ntwo\nthree");
    browser.click("Save");
    browser.wait_for("The token is changed.");
    let after = server.private.get("/tokens/lines").await.expect(200);
    assert_eq!(after["metadata"], json!({"note": "one\ntwo\nthree"}));
    assert_eq!(browser.complaints(), Vec::<String>::new());
}

/// Names that every object of the browser has, and texts of several lines.
#[tokio::test(flavor = "multi_thread")]
async fn entries_of_a_reactor_have_any_name_and_hold_lines() {
    let Some(mut browser) = Browser::open() else { return };
    let server = TestServer::start().await;
    let names = ["constructor", "toString", "__proto__"];
    let entries: Vec<Value> =
        names.iter().map(|name| json!({"name": name, "type": "string"})).collect();
    let formula = json!({"name": "lines", "description": "first\nsecond",
        "configuration": entries, "code": "module.exports = async () => ({ raw: {} });"});
    let formula = server.management.post("/reactor-formulas", formula).await.expect(201);
    let formula = formula["id"].as_str().unwrap();
    sign_in(&mut browser, &server, &[&server.management]);
    browser.visit(&format!("reactors/new/{formula}"));
    browser.fill("Name", "one");
    for name in names {
        browser.wait(&format!("t.field('{name}')"));
        assert_eq!(browser.eval(&format!("t.field('{name}').value")), "", "{name}");
        browser.set(name, &format!("{name}\nagain"));
    }
    browser.click("Create");
    browser.heading("one");
    let id = browser.eval("location.hash.split('/').pop()");
    let path = format!("/reactors/{}", id.as_str().unwrap());
    let made = server.management.get(&path).await.expect(200);
    for name in names {
        assert_eq!(made["configuration"][name], format!("{name}\nagain"));
    }
    browser.click("Change");
    browser.wait("t.field('toString')?.value === ''");
    browser.set("toString", "1");
    browser.click("Save");
    browser.heading("one");
    browser.wait_for("•••• (1 character)");
    let changed = server.management.get(&path).await.expect(200);
    assert_eq!(changed["configuration"]["toString"], "1");
    assert_eq!(changed["configuration"]["__proto__"], "__proto__\nagain");

    browser.visit(&format!("formulas/edit/{formula}"));
    browser.wait("t.field('Description')?.value === 'first\\nsecond'");
    browser.set("Description", "first\nsecond\nthird");
    browser.click("Save");
    browser.heading("lines");
    let path = format!("/reactor-formulas/{formula}");
    let changed = server.management.get(&path).await.expect(200);
    assert_eq!(changed["description"], "first\nsecond\nthird");
    assert_eq!(browser.complaints(), Vec::<String>::new());
}
