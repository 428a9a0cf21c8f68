//! Errors by kind, with members, of the formula's own, and from the vault.

use serde_json::json;

use super::{Error, ErrorKind, Faults};
use crate::Problem;

#[test]
fn each_constructor_has_its_status() {
    type Constructor = fn(String) -> Error;
    let table: [(Constructor, ErrorKind, u16); 7] = [
        (Error::authentication, ErrorKind::Authentication, 401),
        (Error::authorization, ErrorKind::Authorization, 403),
        (Error::bad_request, ErrorKind::BadRequest, 400),
        (Error::invalid_payment_method, ErrorKind::InvalidPaymentMethod, 402),
        (Error::rate_limit, ErrorKind::RateLimit, 429),
        (Error::runtime, ErrorKind::Runtime, 500),
        (Error::service_unavailable, ErrorKind::ServiceUnavailable, 503),
    ];
    for (constructor, kind, status) in table {
        let error = constructor("why".to_owned());
        assert_eq!((error.kind(), error.status(), error.detail()), (Some(kind), status, "why"));
        assert_eq!(error.to_string(), format!("{status}: why"));
    }
}

#[test]
fn messages_gather_under_their_members() {
    let error = Error::bad_request("why").at("a", "1").at("b", "2").at("a", "3");
    assert_eq!(error.messages("a"), ["1", "3"]);
    assert_eq!(error.messages("b"), ["2"]);
    assert!(error.messages("c").is_empty());
    // Headers are for answers of the formula's own.
    assert_eq!(error.clone().header("x", "y"), error);
}

#[test]
fn an_answer_of_its_own_is_shown_to_no_debugger() {
    let error = Error::custom(418, json!({ "tea": "secret" })).header("x-pot", "1").at("a", "b");
    assert_eq!((error.status(), error.kind(), error.detail()), (418, None, ""));
    assert!(error.messages("a").is_empty());
    assert!(!format!("{error:?} {error}").contains("secret"));
    let broken = Error::custom(418, std::collections::BTreeMap::from([([1], 2)]));
    assert_eq!(broken.status(), 500);
}

#[test]
fn refusals_of_the_vault_keep_their_status_as_far_as_formulas_have_it() {
    let table = [
        (400, 400),
        (401, 401),
        (402, 402),
        (403, 403),
        (404, 400),
        (409, 400),
        (413, 400),
        (415, 400),
        (422, 400),
        (429, 429),
        (500, 500),
        (503, 503),
        (504, 500),
        (0, 500),
    ];
    for (status, expected) in table {
        assert_eq!(Error::from(Problem::new(status, "t", "d")).status(), expected, "{status}");
    }
    let problem = Problem {
        errors: vec![("data.number".to_owned(), vec!["is wrong".to_owned()])],
        ..Problem::new(400, "Bad Request", "")
    };
    assert_eq!(problem.to_string(), "400 Bad Request: ");
    let error = Error::from(problem);
    assert_eq!(error.detail(), "Bad Request");
    assert_eq!(error.messages("data.number"), ["is wrong"]);
}

#[test]
fn faults_are_told_together_up_to_a_hundred() {
    let mut faults = Faults::default();
    assert!(faults.is_empty());
    assert_eq!(faults.expect(Some(1), "a", "must be"), Some(1));
    assert_eq!(faults.expect(None::<u8>, "b", "must be"), None);
    for number in 0..200 {
        faults.add(format!("c[{number}]"), "is wrong");
    }
    let error = faults.into_result("why").unwrap_err();
    assert_eq!(error.messages("b"), ["must be"]);
    assert_eq!(error.messages("c[98]").len(), 1);
    assert!(error.messages("c[99]").is_empty());
    assert!(Faults::default().into_result("why").is_ok());
}

#[test]
fn what_is_wrong_with_the_configuration_alone_is_no_callers_affair() {
    let error = |members: &[&str]| {
        let mut faults = Faults::default();
        for member in members {
            faults.add(*member, "is wrong");
        }
        faults.into_error("why")
    };
    let owners = error(&["configuration.a", "configuration", "configuration[0].b"]);
    let told = "why: configuration.a is wrong; configuration is wrong; configuration[0].b is wrong";
    assert_eq!((owners.kind(), owners.detail()), (Some(ErrorKind::Runtime), told));
    assert_eq!(owners.messages("configuration.a"), ["is wrong"]);
    // All that is wrong is told at once.
    let both = error(&["configuration.a", "args.b"]);
    assert_eq!((both.kind(), both.detail()), (Some(ErrorKind::BadRequest), "why"));
    assert_eq!(both.messages("configuration.a").len() + both.messages("args.b").len(), 2);
    for member in ["args.configuration", "configurations", "b", ""] {
        assert_eq!(error(&[member]).kind(), Some(ErrorKind::BadRequest), "{member}");
    }
    assert_eq!(error(&[]).kind(), Some(ErrorKind::BadRequest));
}
