//! What is told of a payment that the processor refused.

use super::{
    EARLIER, ErrorKind, FakeHttp, HttpError, INVOCATION, Value, args, call, configuration, json,
    with,
};

fn param(name: &str) -> Value {
    json!({ "error": { "param": name } })
}

fn code(code: &str) -> Value {
    json!({ "error_codes": [code] })
}

fn reused() -> Value {
    json!({ "error": { "type": "idempotency_error" } })
}

#[test]
fn what_the_processor_finds_wrong_names_the_argument() {
    let table = [
        (
            json!({ "error": { "code": "amount_too_small", "param": "amount" } }),
            Some("args.amount"),
        ),
        (param("currency"), Some("args.currency")),
        (param("payment_method_data[card][exp_year]"), Some("args.card.expiration_year")),
        (param("source[number]"), Some("args.card.number")),
        (param("data[billing_details][phone_number]"), Some("args.billing")),
        (param("address_line1"), Some("args.billing")),
        (param("confirm"), None),
        (param("ip_address"), None),
        (param("email"), None),
        (code("card_number_invalid"), Some("args.card.number")),
        (code("card_expired"), Some("args.card")),
        (code("expired"), Some("args.card")),
        (code("expired_card"), Some("args.card")),
        (code("invalid_card"), Some("args.card")),
        (param("card"), Some("args.card")),
        (param("payment_method_data[card]"), Some("args.card")),
        (param("source.card"), Some("args.card")),
        (param("source[expiry]"), Some("args.card")),
        (code("expiry_date"), Some("args.card")),
        (code("discarded"), None),
        (code("token_expired"), None),
        (param("expires_at"), None),
        (param("payment_method_options[card][moto]"), None),
        (code("phone_number_invalid"), None),
        (code("customer_account_number_invalid"), None),
        // The key was the invocation's own id, which is nobody else's.
        (reused(), None),
    ];
    for (answer, member) in table {
        for status in [400, 422] {
            let network = FakeHttp::new().json(status, answer.clone());
            let outcome = call(&args(), &configuration("json"), &network);
            match member {
                Some(member) => {
                    assert_eq!(outcome.error().kind(), Some(ErrorKind::BadRequest), "{answer}");
                    assert_eq!(outcome.error().messages(member).len(), 1, "{answer}");
                }
                None => assert_eq!(outcome.error().kind(), Some(ErrorKind::Runtime), "{answer}"),
            }
        }
    }
}

#[test]
fn a_key_that_was_given_may_have_had_other_arguments() {
    let again = with(args(), json!({ "retry_of": EARLIER }));
    for status in [400, 422] {
        let network = FakeHttp::new().json(status, reused());
        let outcome = call(&again, &configuration("json"), &network);
        assert_eq!(outcome.error().kind(), Some(ErrorKind::BadRequest));
        assert_eq!(outcome.error().messages("args.retry_of").len(), 1);
        assert!(outcome.error().detail().contains("whether it was made before is not known"));
    }
}

#[test]
fn a_key_that_is_in_use_is_of_a_payment_under_way() {
    let in_use = json!({ "error": { "code": "idempotency_key_in_use" } });
    let again = with(args(), json!({ "retry_of": EARLIER }));
    for status in [400, 409, 422] {
        // The connection broke, and the processor is still at work on what came through it.
        let broken = || FakeHttp::new().fails(HttpError::Unreachable("it broke".to_owned()));
        for (args, network, key) in [
            (&args(), broken().json(status, in_use.clone()), INVOCATION),
            (&args(), broken().json(status, reused()), INVOCATION),
            (&again, FakeHttp::new().json(status, in_use.clone()), EARLIER),
        ] {
            let outcome = call(args, &configuration("json"), &network);
            assert_eq!(outcome.error().kind(), Some(ErrorKind::ServiceUnavailable), "{status}");
            assert!(outcome.error().detail().contains(&format!("`retry_of` set to {key}")));
        }
    }
}

#[test]
fn a_refusal_of_a_repetition_names_the_argument_and_leaves_open_what_was_before() {
    let again = with(args(), json!({ "retry_of": EARLIER }));
    let network = FakeHttp::new().json(400, param("currency"));
    let outcome = call(&again, &configuration("json"), &network);
    assert_eq!(outcome.error().kind(), Some(ErrorKind::BadRequest));
    assert_eq!(outcome.error().messages("args.currency").len(), 1);
    assert!(outcome.error().detail().contains(&format!("`retry_of` set to {EARLIER}")));
}
