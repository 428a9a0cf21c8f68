use serde_json::json;

use crate::testing::FakeVault;
use crate::{NewToken, Problem, Search, Svc, TokenFilter, TokenPage};

fn ids(page: &TokenPage) -> Vec<&str> {
    page.tokens.iter().map(|token| token.id.as_str()).collect()
}

fn listed(svc: &Svc, filter: &TokenFilter) -> Vec<String> {
    let page = svc.list(filter).unwrap();
    assert_eq!(page.total, page.tokens.len() as u64);
    ids(&page).into_iter().map(str::to_owned).collect()
}

fn members(refused: Result<TokenPage, Problem>) -> Vec<String> {
    let problem = refused.unwrap_err();
    assert_eq!(problem.status, 400);
    problem.errors.into_iter().map(|(member, _)| member).collect()
}

#[test]
fn a_container_is_that_one_and_with_a_star_those_below_too() {
    let svc = Svc::over(FakeVault::new());
    for (id, containers) in
        [("eu", &["/PCI/eu/", "/orders/"][..]), ("top", &["/pci/"]), ("like", &["/pci-test/"])]
    {
        let token = NewToken::new("token", id).id(id);
        svc.create(&containers.iter().fold(token, |token, path| token.container(*path))).unwrap();
    }
    svc.create(&NewToken::new("card", json!({})).id("card")).unwrap();
    svc.create(&NewToken::new("token", 1).id("any")).unwrap();
    for (containers, expected) in [
        (&["/pci/"][..], &["top"][..]),
        (&["/pci/*"], &["card", "top", "eu"]),
        (&["/Pci/EU/"], &["eu"]),
        (&["/orders/", "/pci-test/"], &["like", "eu"]),
        (&["/pci/high/"], &["card"]),
        (&["/general/high/"], &["any"]),
        (&["/"], &[]),
        (&["/*"], &["any", "card", "like", "top", "eu"]),
    ] {
        let filter = containers.iter().fold(TokenFilter::new(), |all, path| all.container(*path));
        assert_eq!(listed(&svc, &filter), expected, "{containers:?}");
    }
    let wrong = TokenFilter::new().container("/pci/").container("pci").container("//*");
    assert_eq!(members(svc.list(&wrong)), ["container[1]", "container[2]"]);
}

#[test]
fn equal_contents_of_one_type_have_one_fingerprint() {
    let vault = FakeVault::new().with("a", "token", "1").with("b", "card_number", "1");
    let svc = Svc::over(vault.with("c", "token", "2"));
    let same = svc.create(&NewToken::new("token", "1").id("same")).unwrap();
    let of = |text: &Option<String>| TokenFilter::new().fingerprint(text.clone().unwrap());
    assert_eq!(listed(&svc, &of(&same.fingerprint)), ["same", "a"]);
    let other = svc.get("b").unwrap();
    assert_eq!(listed(&svc, &of(&other.fingerprint)), ["b"]);
    let both = of(&same.fingerprint).fingerprint(other.fingerprint.unwrap());
    assert_eq!(listed(&svc, &both), ["same", "b", "a"]);
    assert!(listed(&svc, &TokenFilter::new().fingerprint("unknown")).is_empty());
    // With its data goes its fingerprint.
    svc.update("same", json!({ "data": "2" })).unwrap();
    assert_eq!(listed(&svc, &of(&same.fingerprint)), ["a"]);
}

#[test]
fn everything_that_is_set_must_match() {
    let svc = Svc::over(FakeVault::new());
    for (id, value) in [("a", "Straße 17"), ("b", "other")] {
        svc.create(&NewToken::new("card", id).id(id).metadata("Key", value)).unwrap();
    }
    let filter = || TokenFilter::new().of_type("card").id("a").id("b").container("/pci/high/");
    assert_eq!(listed(&svc, &filter()), ["b", "a"]);
    // The value ignores case, its key does not.
    assert_eq!(listed(&svc, &filter().metadata("Key", "STRAßE 17")), ["a"]);
    assert!(listed(&svc, &filter().metadata("key", "Straße 17")).is_empty());
    assert!(listed(&svc, &filter().metadata("Key", "other").metadata("none", "x")).is_empty());
    assert!(listed(&svc, &TokenFilter::new().of_type("token").id("a")).is_empty());
}

#[test]
fn pages_follow_each_other_and_what_comes_and_goes_moves_none() {
    let vault =
        (0..45).fold(FakeVault::new(), |vault, at| vault.with(&at.to_string(), "token", at));
    let svc = Svc::over(vault.clone());
    let first = svc.list(&TokenFilter::new()).unwrap();
    assert_eq!((first.total, first.tokens.len()), (45, 20));
    assert_eq!((first.tokens[0].id.as_str(), first.tokens[19].id.as_str()), ("44", "25"));
    svc.create(&NewToken::new("token", 1).id("new")).unwrap();
    svc.delete("44").unwrap();
    svc.delete("25").unwrap();
    let second = svc.list(&TokenFilter::new().start(first.next.unwrap())).unwrap();
    assert_eq!((second.total, second.tokens.len()), (44, 20));
    assert_eq!(second.tokens[0].id, "24");
    let third = svc.list(&TokenFilter::new().start(second.next.unwrap())).unwrap();
    assert_eq!((ids(&third), &third.next), (vec!["4", "3", "2", "1", "0"], &None));
    // By their numbers, too: what was asked for last counts.
    let by_number = svc.list(&TokenFilter::new().start("nowhere").page(3)).unwrap();
    assert_eq!((ids(&by_number), &by_number.next), (vec!["3", "2", "1", "0"], &None));
    assert_eq!(members(svc.list(&TokenFilter::new().page(0))), ["page"]);
    let whole = svc.list(&TokenFilter::new().size(44)).unwrap();
    assert_eq!((whole.tokens.len(), whole.next), (44, None));
    for size in [0, 101] {
        assert_eq!(members(svc.list(&TokenFilter::new().size(size))), ["size"]);
    }
    let wrong = TokenFilter::new().start("nowhere").container("x");
    assert_eq!(members(svc.list(&wrong)), ["container[0]", "start"]);
}

#[test]
fn searches_have_the_same_pages() {
    let vault = (0..7).fold(FakeVault::new(), |vault, at| vault.with(&at.to_string(), "token", at));
    let svc = Svc::over(vault.finds("type:token", &["1", "3", "5", "6"]));
    let search = || Search::new("type:token").size(3);
    let first = svc.search_with(&search()).unwrap();
    assert_eq!((ids(&first), first.total), (vec!["6", "5", "3"], 4));
    let next = svc.search_with(&search().start(first.next.unwrap())).unwrap();
    assert_eq!((ids(&next), &next.next), (vec!["1"], &None));
    assert_eq!(svc.search_with(&search().page(2)).unwrap(), next);
    let past = svc.search_with(&Search::everything().page(9)).unwrap();
    assert_eq!((past.tokens.len(), past.total, past.next), (0, 7, None));
    assert_eq!(members(svc.search_with(&search().page(0))), ["page"]);
}
