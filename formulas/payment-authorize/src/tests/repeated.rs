//! What is sent again, and what is told of that.

use super::{
    EARLIER, ErrorKind, FakeHttp, HttpError, INVOCATION, NOVEMBER_MS, args, call, configuration,
    intent, json, sent, with,
};

#[test]
fn a_broken_connection_is_tried_again_with_the_same_key() {
    let broken = || HttpError::Unreachable("it broke".to_owned());
    let network = FakeHttp::new().fails(broken()).json(200, intent());
    let outcome = call(&args(), &configuration("payment_intents"), &network);
    assert_eq!(outcome.raw()["status"], "authorized");
    let requests = network.requests();
    assert_eq!((requests.len(), &requests[0]), (2, &requests[1]));

    let network = FakeHttp::new().fails(broken());
    let outcome = call(&args(), &configuration("payment_intents"), &network);
    assert_eq!(outcome.error().kind(), Some(ErrorKind::ServiceUnavailable));
    assert!(outcome.error().detail().contains(&format!("`retry_of` set to {INVOCATION}")));
    assert_eq!(network.requests().len(), 2);
}

#[test]
fn only_broken_connections_are_tried_again() {
    for (error, kind, uncertain) in [
        (HttpError::Timeout, ErrorKind::ServiceUnavailable, true),
        (HttpError::Denied("private".to_owned()), ErrorKind::Runtime, false),
        (HttpError::Invalid("header".to_owned()), ErrorKind::Runtime, false),
        (HttpError::TooLarge, ErrorKind::Runtime, true),
    ] {
        let network = FakeHttp::new().fails(error);
        let outcome = call(&args(), &configuration("json"), &network);
        assert_eq!(outcome.error().kind(), Some(kind));
        let retry = format!("`retry_of` set to {INVOCATION}");
        assert_eq!(outcome.error().detail().contains(&retry), uncertain, "{}", outcome.error());
        assert_eq!((network.requests().len(), outcome.lines().len()), (1, 1));
    }
}

#[test]
fn what_cannot_be_sent_again_may_have_been_paid_the_first_time() {
    for error in [HttpError::Denied("private".to_owned()), HttpError::Invalid("header".to_owned())]
    {
        let network = FakeHttp::new().fails(HttpError::Unreachable("it broke".to_owned()));
        let outcome = call(&args(), &configuration("json"), &network.fails(error));
        assert_eq!(outcome.error().kind(), Some(ErrorKind::Runtime));
        let retry = format!("`retry_of` set to {INVOCATION}");
        assert!(outcome.error().detail().contains(&retry), "{}", outcome.error());
    }
}

#[test]
fn who_refuses_a_repetition_says_nothing_of_the_payment() {
    let again = with(args(), json!({ "retry_of": EARLIER }));
    for (status, kind) in [
        (400, ErrorKind::Runtime),
        (401, ErrorKind::Runtime),
        (404, ErrorKind::Runtime),
        (422, ErrorKind::Runtime),
        (429, ErrorKind::RateLimit),
    ] {
        let refused = || FakeHttp::new().json(status, json!({}));
        let broken = FakeHttp::new().fails(HttpError::Unreachable("it broke".to_owned()));
        let broken = broken.json(status, json!({}));
        for (args, network, key) in [(&again, refused(), EARLIER), (&args(), broken, INVOCATION)] {
            let outcome = call(args, &configuration("json"), &network);
            assert_eq!(outcome.error().kind(), Some(kind));
            assert!(outcome.error().detail().contains(&format!("`retry_of` set to {key}")));
        }
        let first = call(&args(), &configuration("json"), &refused());
        assert!(!first.error().detail().contains("retry_of"), "{status}");
    }
    // What it says of the payment is true of all times.
    let network = FakeHttp::new().json(402, json!({}));
    let outcome = call(&again, &configuration("json"), &network);
    assert_eq!(outcome.error().detail(), "the card was declined");
}

#[test]
fn a_repetition_has_the_key_of_the_first() {
    let again = with(args(), json!({ "retry_of": EARLIER }));
    assert_eq!(sent(&again, &configuration("json")).header("idempotency-key"), Some(EARLIER));
    let capitals = with(args(), json!({ "retry_of": EARLIER.to_ascii_uppercase() }));
    assert_eq!(sent(&capitals, &configuration("json")).header("idempotency-key"), Some(EARLIER));
    let network = FakeHttp::new().fails(HttpError::Timeout);
    let outcome = call(&again, &configuration("json"), &network);
    assert!(outcome.error().detail().contains(EARLIER));
}

#[test]
fn what_became_of_a_payment_is_asked_although_the_card_has_expired_since() {
    let mut again = with(args(), json!({ "retry_of": EARLIER }));
    again["card"]["expiration_month"] = json!(10);
    again["card"]["expiration_year"] = json!(2026);
    assert_eq!(sent(&again, &configuration("json")).header("idempotency-key"), Some(EARLIER));
}

#[test]
fn no_payment_is_repeated_that_the_processor_may_have_forgotten() {
    const DAY_MS: u64 = 86_400_000;
    // When the run ends, however long it waited in the queue.
    const NOW_MS: u64 = NOVEMBER_MS + 10_000;
    for (drawn_ms, taken) in [
        (NOW_MS - DAY_MS, true),
        (NOW_MS - DAY_MS - 1, false),
        (0, false),
        // Clocks differ.
        (NOW_MS + DAY_MS, true),
    ] {
        let digits = format!("{drawn_ms:012x}");
        let id = format!("{}-{}-7000-8000-0000000000ff", &digits[..8], &digits[8..]);
        let network = FakeHttp::new().json(200, intent());
        let again = with(args(), json!({ "retry_of": id }));
        let outcome = call(&again, &configuration("payment_intents"), &network);
        assert_eq!(outcome.is_ok(), taken, "{id}");
        assert_eq!(network.requests().len(), usize::from(taken));
        if !taken {
            let [fault] = outcome.error().messages("args.retry_of") else { panic!("{id}") };
            assert!(fault.contains("more than a day old"), "{fault}");
        }
    }
}

#[test]
fn a_payment_has_the_callers_key_in_every_invocation() {
    let keyed = with(args(), json!({ "idempotency_key": "order-17/1" }));
    let first = sent(&keyed, &configuration("json"));
    assert_eq!(first.header("idempotency-key"), Some("order-17/1"));
    let capitals = with(args(), json!({ "idempotency_key": "ORDER-17/1" }));
    let other = sent(&capitals, &configuration("json"));
    assert_eq!(other.header("idempotency-key"), Some("ORDER-17/1"));
    // What is not known is asked with it again, and what was refused may have been made before.
    let broken = || HttpError::Unreachable("it broke".to_owned());
    let denied = || HttpError::Denied("not a public one".to_owned());
    let again = "`idempotency_key` among them";
    for (network, kind, told) in [
        (FakeHttp::new().fails(HttpError::Timeout), ErrorKind::ServiceUnavailable, again),
        (FakeHttp::new().fails(broken()).fails(broken()), ErrorKind::ServiceUnavailable, again),
        (FakeHttp::new().json(500, json!({})), ErrorKind::ServiceUnavailable, again),
        (FakeHttp::new().json(409, json!({})), ErrorKind::ServiceUnavailable, again),
        (FakeHttp::new().json(401, json!({})), ErrorKind::Runtime, "says nothing"),
        (FakeHttp::new().json(429, json!({})), ErrorKind::RateLimit, "says nothing"),
        // What was sent by this call may have been taken.
        (FakeHttp::new().fails(broken()).json(429, json!({})), ErrorKind::RateLimit, again),
        (FakeHttp::new().fails(broken()).json(401, json!({})), ErrorKind::Runtime, again),
        (FakeHttp::new().fails(broken()).fails(denied()), ErrorKind::Runtime, again),
        // Nothing was.
        (FakeHttp::new().fails(denied()), ErrorKind::Runtime, "not allowed: not a public one"),
        (FakeHttp::new().fails(denied()), ErrorKind::Runtime, "says nothing"),
    ] {
        let outcome = call(&keyed, &configuration("json"), &network);
        assert_eq!(outcome.error().kind(), Some(kind), "{}", outcome.error());
        let detail = outcome.error().detail();
        assert!(detail.contains(told) && !detail.contains("retry_of"), "{detail}");
    }
    let reused = json!({ "error": { "type": "idempotency_error" } });
    let outcome = call(&keyed, &configuration("json"), &FakeHttp::new().json(400, reused));
    assert_eq!(outcome.error().messages("args.idempotency_key").len(), 1);
}
