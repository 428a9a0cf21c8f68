//! Formulas as authors write them, called as tests of theirs would.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use serde::Deserialize;
use tokamak_sdk::log::{self, Level};
use tokamak_sdk::testing::{Call, FakeVault, NOW_MS};
use tokamak_sdk::{
    Error, ErrorKind, NewToken, Problem, Request, Response, Svc, Token, TokenFilter, TokenPage,
    Value, Vault, clock, formula, json,
};

#[derive(Deserialize)]
struct Args {
    amount: u32,
}

#[derive(Deserialize)]
struct Configuration {
    limit: u32,
}

#[formula]
fn react(request: Request<Args, Configuration>) -> Result<Response, Error> {
    log::debug(format_args!("try {}", request.invocation.attempt));
    if request.args.amount > request.configuration.limit {
        log::warn("refused");
        return Err(Error::invalid_payment_method("the amount is over the limit"));
    }
    Ok(Response::raw(json!({ "at_ms": clock::now_ms() }))
        .and_tokenize(json!({ "amount": request.args.amount })))
}

fn call(amount: &Value) -> Call {
    Call::new(json!({ "amount": amount })).configuration(json!({ "limit": 100 }))
}

#[test]
fn a_formula_answers() {
    let outcome = call(&json!(100)).attempt(2).run(react);
    assert_eq!(outcome.raw(), json!({ "at_ms": NOW_MS }));
    assert_eq!(outcome.tokenize(), json!({ "amount": 100 }));
    assert_eq!(outcome.log(), [(Level::Debug, "try 2".to_owned())]);
    assert_eq!(call(&json!(1)).at_ms(5).run(react).raw(), json!({ "at_ms": 5 }));
}

#[test]
fn a_formula_fails_and_its_log_stays() {
    let outcome = call(&json!(101)).run(react);
    assert_eq!(outcome.error().kind(), Some(ErrorKind::InvalidPaymentMethod));
    assert_eq!(outcome.lines(), ["try 1", "refused"]);
    assert_eq!(call(&json!(1)).run(react).lines(), ["try 1"]);
}

#[test]
fn what_does_not_fit_never_reaches_the_formula() {
    let outcome = call(&json!("4242")).run(react);
    let expected = "must be a whole number from 0 to 4294967295";
    assert_eq!(outcome.error().messages("args.amount"), [expected]);
    assert!(outcome.lines().is_empty());
    let outcome = Call::new(json!({ "amount": 1 })).run(react);
    assert_eq!(outcome.error().messages("configuration.limit"), ["is required"]);
    assert_eq!(outcome.error().kind(), Some(ErrorKind::Runtime));
}

#[test]
fn a_line_is_cut_where_the_host_keeps_no_more() {
    let long = |_: Request<Value>| -> Result<Response, Error> {
        log::info(format_args!("x{}", "é".repeat(40_000)));
        log::info("y".repeat(64 << 10));
        Ok(Response::raw(1))
    };
    let outcome = Call::new(json!({})).run(long);
    // Half of a letter is none.
    let lengths: Vec<usize> = outcome.lines().iter().map(|line| line.len()).collect();
    assert_eq!(lengths, [65_535, 65_536]);
}

#[test]
fn what_cannot_be_written_is_a_runtime_error() {
    let broken = |_: Request<Value>| -> Result<Response, Error> {
        Ok(Response::raw(1).and_tokenize(BTreeMap::from([([1], 2)])))
    };
    let outcome = Call::new(json!(null)).run(broken);
    assert_eq!(outcome.error().kind(), Some(ErrorKind::Runtime));
    let shown = format!("{:?}", Response::raw("secret"));
    assert_eq!(shown, "Response { raw: true, tokenize: false, .. }");
}

#[test]
fn own_answers_keep_their_headers() {
    let teapot = |_: Request<Value>| -> Result<Response, Error> {
        Err(Error::custom(418, json!({ "a": 1 })).header("x-pot", "tea"))
    };
    let outcome = Call::new(json!({})).run(teapot);
    let (status, headers, body) = outcome.custom();
    assert_eq!((status, body), (418, json!({ "a": 1 })));
    assert_eq!(headers, [("x-pot".to_owned(), "tea".to_owned())]);
}

/// Runs `work` on a client of the vault, as a formula would.
fn with_svc(
    vault: &FakeVault,
    work: impl Fn(&Svc) -> Result<Value, Problem>,
) -> Result<Value, Error> {
    let formula = |request: Request<Value>| -> Result<Response, Error> {
        Ok(Response::raw(work(request.svc()?)?))
    };
    let outcome = Call::new(json!({})).vault(vault).run(formula);
    if outcome.is_ok() { Ok(outcome.raw()) } else { Err(outcome.error().clone()) }
}

#[test]
fn tokens_are_made_read_and_deleted() {
    let vault = FakeVault::new().with("known", "card", json!({ "number": "4242" }));
    let made = with_svc(&vault, |svc| {
        let token: Token = svc.create(&NewToken::new("token", "secret").id("mine"))?;
        assert_eq!(format!("{token:?}"), r#"Token { id: "mine", type: "token", .. }"#);
        let known: BTreeMap<String, String> = svc.get("known")?.data_as()?;
        assert_eq!(svc.get("known")?.data_as::<u32>().unwrap_err().status, 500);
        svc.delete("known")?;
        assert_eq!(svc.get("known").unwrap_err().status, 404);
        Ok(json!({ "id": token.id, "number": known["number"] }))
    });
    assert_eq!(made.unwrap(), json!({ "id": "mine", "number": "4242" }));
    assert_eq!((vault.count(), vault.data("mine")), (1, Some(json!("secret"))));
}

#[test]
fn shapes_are_tokenized_and_back() {
    let vault = FakeVault::new();
    let shape = json!({ "card": { "type": "card", "data": { "number": "1" } }, "list": ["a", 2] });
    let tokens = with_svc(&vault, |svc| svc.tokenize(&shape)).unwrap();
    assert_eq!(tokens["card"]["type"], "card");
    assert_eq!(vault.count(), 3);
    let reference = |id: &Value| json!(format!("{{{{ {} }}}}", id.as_str().unwrap()));
    let references = json!({
        "card": reference(&tokens["card"]["id"]),
        "list": [reference(&tokens["list"][0]), reference(&tokens["list"][1])],
        "text": "stays",
    });
    let back = with_svc(&vault, |svc| svc.detokenize(&references)).unwrap();
    assert_eq!(back, json!({ "card": { "number": "1" }, "list": ["a", 2], "text": "stays" }));
    let missing = with_svc(&vault, |svc| svc.detokenize("{{ nobody }}"));
    assert_eq!(missing.unwrap_err().kind(), Some(ErrorKind::BadRequest));
}

#[test]
fn the_vault_in_memory_takes_null_as_a_server_does() {
    let vault = FakeVault::new().with("a", "card", json!({ "number": "1" }));
    let answers = with_svc(&vault, |svc| {
        let tokenized = svc.tokenize([Value::Null])?;
        svc.update("a", json!({ "metadata": { "k": "v" }, "containers": ["/own/"] }))?;
        let changed = svc.update("a", json!({ "metadata": null, "containers": null }))?;
        let made = svc.create(&NewToken::new("token", 1))?.created_at;
        Ok(json!([tokenized, changed.metadata, changed.containers, made]))
    });
    let expected = json!([[null], {}, ["/pci/high/"], "2030-01-01T12:00:00Z"]);
    assert_eq!(answers.unwrap(), expected);
    assert_eq!(vault.count(), 2);
}

#[test]
fn tokens_are_listed_searched_and_changed() {
    let vault = FakeVault::new()
        .with("a", "card", json!({ "number": "1", "cvc": "123" }))
        .with("b", "token", "text")
        .finds("type:card", &["a", "gone"]);
    let ids = |page: TokenPage| page.tokens.into_iter().map(|token| token.id).collect::<Vec<_>>();
    let found = with_svc(&vault, |svc| {
        let all = svc.list(&TokenFilter::new())?;
        assert_eq!((all.total, all.next.as_deref()), (2, None));
        let cards = svc.list(&TokenFilter::new().of_type("card"))?;
        Ok(json!([
            ids(all),
            ids(cards),
            ids(svc.search("type:card", None)?),
            ids(svc.search("id:b", None)?)
        ]))
    });
    assert_eq!(found.unwrap(), json!([["b", "a"], ["a"], ["a"], []]));
    let patch = json!({ "data": { "cvc": null, "year": 2030 }, "metadata": { "k": "v" } });
    let changed = with_svc(&vault, |svc| Ok(svc.update("a", &patch)?.data.into()));
    assert_eq!(changed.unwrap(), json!({ "number": "1", "year": 2030 }));
    let missing = with_svc(&vault, |svc| Ok(svc.update("c", &patch)?.id.into()));
    assert_eq!(missing.unwrap_err().kind(), Some(ErrorKind::BadRequest));
    let tagged = TokenFilter::new().metadata("k", "v");
    let tagged = with_svc(&vault, |svc| Ok(json!(ids(svc.list(&tagged)?))));
    assert_eq!(tagged.unwrap(), json!(["a"]));
}

#[test]
fn refusals_become_errors_of_their_status() {
    let vault = FakeVault::new();
    vault.refuse(Problem::new(403, "Forbidden", "token:create is not granted"));
    let refused =
        with_svc(&vault, |svc| svc.create(&NewToken::new("token", 1)).map(|token| json!(token.id)));
    let error = refused.unwrap_err();
    assert_eq!(
        (error.kind(), error.detail()),
        (Some(ErrorKind::Authorization), "token:create is not granted")
    );

    let lonely = |request: Request<Value>| -> Result<Response, Error> {
        request.svc()?;
        Ok(Response::raw(1))
    };
    let outcome = Call::new(json!({})).run(lonely);
    assert_eq!(outcome.error().detail(), "the reactor has no application");
}

/// Answers with what it was sent.
#[derive(Clone, Default)]
struct Mirror(Rc<RefCell<Vec<String>>>);

impl Vault for Mirror {
    fn create_token(&self, token: &str) -> Result<String, Problem> {
        self.0.borrow_mut().push(token.to_owned());
        Ok(r#"{"id":"x","unknown_member":1}"#.to_owned())
    }

    fn get_token(&self, _id: &str) -> Result<String, Problem> {
        Ok("no JSON".to_owned())
    }

    fn list_tokens(&self, filter: &str) -> Result<String, Problem> {
        self.0.borrow_mut().push(filter.to_owned());
        Ok(r#"{"pagination":{"total_items":7,"next":"more"},"data":[{"id":"x"}]}"#.to_owned())
    }

    fn search_tokens(&self, search: &str) -> Result<String, Problem> {
        self.list_tokens(search)
    }

    fn update_token(&self, id: &str, patch: &str) -> Result<String, Problem> {
        self.0.borrow_mut().push(patch.to_owned());
        Ok(json!({ "id": id }).to_string())
    }

    fn delete_token(&self, _id: &str) -> Result<(), Problem> {
        Ok(())
    }

    fn tokenize(&self, value: &str) -> Result<String, Problem> {
        Ok(value.to_owned())
    }

    fn detokenize(&self, value: &str) -> Result<String, Problem> {
        Ok(value.to_owned())
    }
}

#[test]
fn a_new_token_says_what_was_set_and_no_more() {
    let mirror = Mirror::default();
    let svc = Svc::over(mirror.clone());
    svc.create(&NewToken::new("token", json!(null))).unwrap();
    let full = NewToken::new("card", json!({ "number": "4242" }))
        .id("a")
        .no_mask()
        .container("/pci/high/")
        .metadata("k", "v")
        .fingerprint_expression("{{ data }}")
        .search_index("{{ data | last4 }}")
        .expires_at("2030-01-01T00:00:00Z")
        .deduplicate();
    assert_eq!(format!("{full:?} {svc:?}"), r#"NewToken { type: "card", .. } Svc"#);
    svc.create(&full).unwrap();
    svc.create(&NewToken::new("token", 1).mask("{{ data }}")).unwrap();
    let sent: Vec<Value> = mirror.0.borrow().iter().map(|text| text.parse().unwrap()).collect();
    assert_eq!(
        sent,
        [
            json!({ "type": "token", "data": null }),
            json!({
                "type": "card", "data": { "number": "4242" }, "id": "a", "mask": null,
                "containers": ["/pci/high/"], "metadata": { "k": "v" },
                "fingerprint_expression": "{{ data }}", "search_indexes": ["{{ data | last4 }}"],
                "expires_at": "2030-01-01T00:00:00Z", "deduplicate_token": true,
            }),
            json!({ "type": "token", "data": 1, "mask": "{{ data }}" }),
        ]
    );
    let filter = TokenFilter::new().id("a").id("b").fingerprint("f").container("/pci/*");
    let page = svc.list(&filter.size(5).start("here")).unwrap();
    assert_eq!((page.total, page.next.as_deref(), page.tokens.len()), (7, Some("more"), 1));
    svc.search("type:card", Some("there")).unwrap();
    svc.update("x", json!({ "data": null })).unwrap();
    let sent: Vec<Value> =
        mirror.0.borrow()[3..].iter().map(|text| text.parse().unwrap()).collect();
    assert_eq!(
        sent,
        [
            json!({
                "id": ["a", "b"], "fingerprint": ["f"], "container": ["/pci/*"], "size": 5,
                "start": "here",
            }),
            json!({ "query": "type:card", "start": "there" }),
            json!({ "data": null }),
        ]
    );
    let unreadable = svc.get("x").unwrap_err();
    assert_eq!((unreadable.status, unreadable.title.as_str()), (500, "Unexpected Answer"));
    assert!(svc.delete("x").is_ok());
}
