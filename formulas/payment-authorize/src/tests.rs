//! The formula as a reactor would call it, at processors that answer as they are told.

use tokamak_sdk::http::{Error as HttpError, Response, Sent};
use tokamak_sdk::testing::{Call, FakeHttp, Outcome};
use tokamak_sdk::{ErrorKind, Value, json};

use super::react;

mod refused;
mod repeated;

/// 2026-11-30, one minute before midnight.
const NOVEMBER_MS: u64 = 1_796_083_140_000;
const INVOCATION: &str = "01900000-0000-7000-8000-000000000001";
/// Of the same day.
const EARLIER: &str = "01a22ee5-0000-7000-8000-0000000000ff";
const NUMBER: &str = "4242424242424242";
const KEY: &str = "sk_test_secret";

fn with(mut value: Value, members: Value) -> Value {
    let Value::Object(members) = members else { panic!("members of an object") };
    for (name, member) in members {
        value[name] = member;
    }
    value
}

fn configuration(style: &str) -> Value {
    json!({ "base_url": "https://api.example.com/", "api_key": KEY, "style": style })
}

fn args() -> Value {
    json!({
        "card": { "number": NUMBER, "expiration_month": 12, "expiration_year": 2030, "cvc": "987" },
        "amount": 1250, "currency": "eur",
    })
}

/// Calls the formula; whatever comes of it, it holds neither the number, the code nor the key.
fn call(args: &Value, configuration: &Value, network: &FakeHttp) -> Outcome {
    let outcome =
        Call::new(args).configuration(configuration).at_ms(NOVEMBER_MS).http(network).run(react);
    let told = if outcome.is_ok() {
        assert!(outcome.tokenize().is_null());
        outcome.raw().to_string()
    } else {
        format!("{:?}", outcome.error())
    };
    let told = format!("{told} {:?}", outcome.log());
    for hidden in [NUMBER, "987", KEY] {
        assert!(!told.contains(hidden), "{told}");
    }
    outcome
}

fn intent() -> Value {
    json!({
        "id": "pi_1", "object": "payment_intent", "status": "requires_capture", "amount": 1250, "currency": "eur",
        "latest_charge": { "payment_method_details": { "card": {
            "network_transaction_id": "MCC1",
            "checks": { "cvc_check": "pass", "address_line1_check": null, "address_postal_code_check": "fail" },
        } } },
    })
}

fn sent(args: &Value, configuration: &Value) -> Sent {
    let style = configuration["style"].as_str().unwrap();
    let answer = if style == "json" { json!({ "id": "p", "approved": true }) } else { intent() };
    let network = FakeHttp::new().json(200, answer);
    assert!(call(args, configuration, &network).is_ok());
    network.requests().remove(0)
}

/// The fields of a form, decoded.
fn fields(sent: &Sent) -> Vec<(String, String)> {
    let decode = |text: &str| {
        let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
        while let Some((first, after)) = rest.split_first() {
            let (byte, taken) = match first {
                b'%' => {
                    (u8::from_str_radix(std::str::from_utf8(&after[..2]).unwrap(), 16).unwrap(), 2)
                }
                b'+' => (b' ', 0),
                byte => (*byte, 0),
            };
            bytes.push(byte);
            rest = &after[taken..];
        }
        String::from_utf8(bytes).unwrap()
    };
    let text = sent.text();
    let pairs = text.split('&').map(|pair| pair.split_once('=').unwrap());
    pairs.map(|(name, value)| (decode(name), decode(value))).collect()
}

fn billing() -> Value {
    json!({ "name": "Ada & Co", "email": "ada@example.com", "phone": "+44 20", "line1": "1 High St", "postal_code": "N1" })
}

#[test]
fn a_payment_intent_is_a_form() {
    let sent = sent(&args(), &configuration("payment_intents"));
    assert_eq!(
        (sent.method.as_str(), sent.url.as_str()),
        ("POST", "https://api.example.com/v1/payment_intents")
    );
    assert_eq!(sent.header("authorization"), Some("Bearer sk_test_secret"));
    assert_eq!(sent.header("idempotency-key"), Some(INVOCATION));
    assert_eq!(sent.header("content-type"), Some("application/x-www-form-urlencoded"));
    // Half a second is left to say what happened.
    assert_eq!((sent.timeout_ms, sent.redirects), (Some(9_500), 0));
    let expected = [
        ("amount", "1250"),
        ("currency", "eur"),
        ("confirm", "true"),
        ("capture_method", "manual"),
        ("payment_method_types[0]", "card"),
        ("payment_method_data[type]", "card"),
        ("payment_method_data[card][number]", NUMBER),
        ("payment_method_data[card][exp_month]", "12"),
        ("payment_method_data[card][exp_year]", "2030"),
        ("payment_method_data[card][cvc]", "987"),
        ("expand[0]", "latest_charge"),
    ];
    let expected = expected.map(|(name, value)| (name.to_owned(), value.to_owned()));
    assert_eq!(fields(&sent), expected);
}

#[test]
fn the_processor_has_the_time_that_is_left() {
    let timeout_ms = |late_ms: u64, configured: Option<u32>| {
        let network = FakeHttp::new().json(200, intent());
        let formula = |mut request: tokamak_sdk::Request<Value, Value>| {
            request.invocation.deadline_ms -= late_ms;
            react(request)
        };
        let configuration =
            with(configuration("payment_intents"), json!({ "timeout_ms": configured }));
        let call = Call::new(args()).configuration(configuration).at_ms(NOVEMBER_MS);
        assert!(call.http(&network).run(formula).is_ok());
        network.requests()[0].timeout_ms
    };
    assert_eq!(timeout_ms(0, None), Some(9_500));
    assert_eq!(timeout_ms(0, Some(300)), Some(300));
    assert_eq!(timeout_ms(9_000, Some(2_000)), Some(500));
    // A clock that is past the deadline is wrong, or the host would have ended the run.
    assert_eq!(timeout_ms(9_500, None), None);
    assert_eq!(timeout_ms(20_000, Some(300)), Some(300));
}

#[test]
fn all_that_a_payment_may_have_is_in_the_form() {
    let args =
        with(args(), json!({ "billing": billing(), "reference": "order&17", "capture": true }));
    let extra = json!({ "statement_descriptor": "SHOP 17", "timeout_ms": 2000, "path": "/v2/pay" });
    let sent = sent(&args, &with(configuration("payment_intents"), extra));
    assert_eq!(
        (sent.timeout_ms, sent.url.as_str()),
        (Some(2000), "https://api.example.com/v2/pay")
    );
    let fields = fields(&sent);
    let value = |name: &str| {
        fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    };
    let details = "payment_method_data[billing_details]";
    for (name, expected) in [
        ("capture_method".to_owned(), "automatic"),
        (format!("{details}[name]"), "Ada & Co"),
        (format!("{details}[email]"), "ada@example.com"),
        (format!("{details}[phone]"), "+44 20"),
        (format!("{details}[address][line1]"), "1 High St"),
        (format!("{details}[address][postal_code]"), "N1"),
        ("metadata[reference]".to_owned(), "order&17"),
        ("statement_descriptor_suffix".to_owned(), "SHOP 17"),
    ] {
        assert_eq!(value(&name), Some(expected), "{name}");
    }
    assert_eq!(value(&format!("{details}[address][city]")), None);
}

#[test]
fn the_other_style_is_json() {
    let sent_json = sent(&args(), &configuration("json"));
    assert_eq!(sent_json.url, "https://api.example.com/payments");
    assert_eq!(sent_json.header("idempotency-key"), Some(INVOCATION));
    assert_eq!(sent_json.header("content-type"), Some("application/json"));
    assert_eq!(
        sent_json.json(),
        json!({
            "amount": 1250, "currency": "EUR", "capture": false,
            "source": { "type": "card", "number": NUMBER, "expiry_month": 12, "expiry_year": 2030, "cvv": "987" },
        })
    );
    let mut args = with(args(), json!({ "billing": billing(), "reference": "r-1" }));
    args["card"]["cvc"] = json!(null);
    let extra = json!({ "statement_descriptor": "SHOP" });
    let body = sent(&args, &with(configuration("json"), extra)).json();
    assert_eq!(
        body["source"],
        json!({
            "type": "card", "number": NUMBER, "expiry_month": 12, "expiry_year": 2030, "name": "Ada & Co",
            "phone": "+44 20", "billing_address": { "line1": "1 High St", "postal_code": "N1" },
        })
    );
    assert_eq!(
        (&body["customer"]["email"], &body["reference"], &body["statement_descriptor"]),
        (&json!("ada@example.com"), &json!("r-1"), &json!("SHOP"))
    );
}

#[test]
fn numbers_may_have_been_cast_and_written_with_blanks() {
    let args = json!({
        "card": { "number": "4242 4242-4242 4242", "expiration_month": "12", "expiration_year": 2030.0 },
        "amount": 1250.0, "currency": " EUR ",
    });
    let body = sent(&args, &configuration("json")).json();
    assert_eq!(body["source"]["number"], NUMBER);
    assert_eq!(
        (&body["source"]["expiry_month"], &body["source"]["expiry_year"], &body["amount"]),
        (&json!(12), &json!(2030), &json!(1250))
    );
}

#[test]
fn intents_are_read() {
    let network = |answer: Value| FakeHttp::new().json(200, answer);
    let outcome = call(&args(), &configuration("payment_intents"), &network(intent()));
    assert_eq!(
        outcome.raw(),
        json!({
            "status": "authorized", "id": "pi_1", "amount": 1250, "currency": "EUR",
            "network_transaction_id": "MCC1", "checks": { "cvc": "pass", "postal_code": "fail" },
        })
    );
    assert_eq!(outcome.lines(), ["the processor answered 200", "the payment is authorized"]);
    for (status, expected) in [
        ("succeeded", "captured"),
        ("processing", "pending"),
        ("requires_action", "requires_action"),
    ] {
        let answer = with(intent(), json!({ "status": status, "latest_charge": null }));
        let raw = call(&args(), &configuration("payment_intents"), &network(answer)).raw();
        let expected =
            json!({ "status": expected, "id": "pi_1", "amount": 1250, "currency": "EUR" });
        assert_eq!(raw, expected);
    }
}

#[test]
fn answers_in_json_are_read() {
    let table = [
        (json!({ "id": "p", "approved": true }), "authorized"),
        (json!({ "id": "p", "approved": true, "status": "Authorized" }), "authorized"),
        (json!({ "id": "p", "status": "CAPTURED" }), "captured"),
        (
            json!({ "id": "p", "status": "approved", "amount": 1250.0, "currency": "eur" }),
            "authorized",
        ),
        (json!({ "id": "p", "approved": false, "status": "Pending" }), "pending"),
        (json!({ "id": "p", "approved": true, "status": "processing" }), "pending"),
        (json!({ "id": "p", "status": "pending" }), "pending"),
        (json!({ "id": "p", "status": "requires_action" }), "requires_action"),
        (json!({ "id": "p", "approved": false, "status": "action_required" }), "requires_action"),
    ];
    for (answer, status) in table {
        let outcome = call(&args(), &configuration("json"), &FakeHttp::new().json(201, answer));
        let expected = json!({ "status": status, "id": "p", "amount": 1250, "currency": "EUR" });
        assert_eq!(outcome.raw(), expected);
    }
    // Some count their payments.
    let counted = json!({ "id": 7, "approved": true, "status": "succeeded" });
    let outcome = call(&args(), &configuration("json"), &FakeHttp::new().json(201, counted));
    assert_eq!(outcome.raw()["id"], "7");
    let capture = with(args(), json!({ "capture": true }));
    let answer = json!({
        "id": "p", "approved": true, "amount": 1000, "scheme_id": "S1",
        // What repeats the card is passed over.
        "network_transaction_id": "4242-4242 4242.4242",
        "source": { "avs_check": "G", "cvv_check": "[987]", "cvc_check": "Y" },
    });
    let outcome = call(&capture, &configuration("json"), &FakeHttp::new().json(201, answer));
    assert_eq!(
        outcome.raw(),
        json!({
            "status": "captured", "id": "p", "amount": 1000, "currency": "EUR",
            "network_transaction_id": "S1", "checks": { "cvc": "Y", "address": "G" },
        })
    );
}

/// By the log the payment can be looked for, and what repeats the card is not in it.
#[test]
fn the_id_of_an_answer_that_is_not_understood_is_logged() {
    for (answer, told) in [
        (json!({ "id": "p2", "approved": true, "status": "Card Verified" }), Some("p2")),
        (json!({ "id": "4242-4242.4242-4242", "status": "odd" }), None),
        (json!({ "id": "p 2\n", "status": "odd" }), None),
        (json!({ "id": 17, "status": "odd" }), Some("17")),
        (json!({ "pspReference": "p2" }), None),
    ] {
        let outcome = call(&args(), &configuration("json"), &FakeHttp::new().json(201, answer));
        assert_eq!(outcome.error().kind(), Some(ErrorKind::Runtime));
        let mut lines = vec!["the processor answered 201".to_owned()];
        lines.extend(told.map(|id| format!("the answer's id is {id}")));
        assert_eq!(outcome.lines(), lines);
    }
}

#[test]
fn declined_cards_are_told_with_their_code() {
    let intents = |code: Value| json!({ "error": with(json!({ "type": "card_error" }), code) });
    let table = [
        (
            "payment_intents",
            402,
            intents(json!({ "code": "card_declined", "decline_code": "insufficient_funds" })),
            " (insufficient_funds)",
        ),
        (
            "payment_intents",
            402,
            intents(json!({ "code": "incorrect_number" })),
            " (incorrect_number)",
        ),
        ("payment_intents", 402, intents(json!({})), " (card_error)"),
        ("payment_intents", 402, json!("no"), ""),
        (
            "payment_intents",
            200,
            with(
                intent(),
                json!({ "status": "requires_payment_method", "last_payment_error": { "code": "card_declined" } }),
            ),
            " (card_declined)",
        ),
        ("json", 402, json!({ "code": "51" }), " (51)"),
        (
            "json",
            201,
            json!({ "id": "p", "approved": false, "response_code": "20051" }),
            " (20051)",
        ),
        ("json", 200, json!({ "id": "p", "status": "Declined" }), ""),
        ("json", 200, json!({ "id": "p", "status": "cancelled" }), ""),
        // What is no code, or repeats the card, is not told.
        ("json", 402, json!({ "code": NUMBER }), ""),
        ("json", 402, json!({ "code": "987" }), ""),
        ("json", 402, json!({ "decline_code": "4242-4242-4242-4242", "code": "9-8-7" }), ""),
        (
            "payment_intents",
            402,
            intents(json!({ "code": "pan_4242.4242.4242.4242" })),
            " (card_error)",
        ),
        ("json", 402, json!({ "code": "a sentence on 4242" }), ""),
        ("json", 402, json!({ "code": "x".repeat(65) }), ""),
    ];
    for (style, status, answer, code) in table {
        let outcome =
            call(&args(), &configuration(style), &FakeHttp::new().json(status, answer.clone()));
        assert_eq!(outcome.error().kind(), Some(ErrorKind::InvalidPaymentMethod), "{answer}");
        assert_eq!(outcome.error().detail(), format!("the card was declined{code}"));
    }
}

#[test]
fn other_statuses_have_their_kinds() {
    let table = [
        (401, ErrorKind::Runtime, false),
        (403, ErrorKind::Runtime, false),
        (404, ErrorKind::Runtime, false),
        (302, ErrorKind::Runtime, true),
        (408, ErrorKind::ServiceUnavailable, true),
        (400, ErrorKind::Runtime, false),
        (429, ErrorKind::RateLimit, false),
        (409, ErrorKind::ServiceUnavailable, true),
        (500, ErrorKind::ServiceUnavailable, true),
        (503, ErrorKind::ServiceUnavailable, true),
    ];
    for (status, kind, uncertain) in table {
        let echo = json!({ "error": { "message": NUMBER, "code": "some_code" } });
        let network = FakeHttp::new().json(status, echo);
        let outcome = call(&args(), &configuration("payment_intents"), &network);
        assert_eq!(outcome.error().kind(), Some(kind), "{status}");
        assert_eq!(outcome.error().detail().contains(INVOCATION), uncertain, "{status}");
        assert_eq!(network.requests().len(), 1);
    }
}

#[test]
fn answers_that_cannot_be_read_leave_the_payment_uncertain() {
    let bodies = [
        String::new(),
        "<html>".to_owned(),
        "{}".to_owned(),
        json!({ "id": "p" }).to_string(),
        json!({ "id": "p", "status": "unheard_of" }).to_string(),
        json!({ "id": "p", "approved": false, "status": "in_progress" }).to_string(),
        json!({ "id": "p", "approved": false, "status": "captured" }).to_string(),
        json!({ "id": 7.5, "approved": true, "status": "succeeded" }).to_string(),
        json!({ "id": 4_242_424_242_424_242_u64, "approved": true, "status": "succeeded" }).to_string(),
        json!({ "id": "p", "approved": true, "status": "succeeded", "amount": "much" }).to_string(),
        json!({ "id": NUMBER, "approved": true, "status": "succeeded", "amount": 1, "currency": "eur" }).to_string(),
        json!({ "id": "4242 4242-42424242", "approved": true, "status": "succeeded", "amount": 1, "currency": "eur" }).to_string(),
    ];
    for style in ["payment_intents", "json"] {
        for body in &bodies {
            let network = FakeHttp::new().then(Ok(Response::new(200, body.as_str())));
            let outcome = call(&args(), &configuration(style), &network);
            assert_eq!(outcome.error().kind(), Some(ErrorKind::Runtime), "{style} {body}");
            assert!(outcome.error().detail().contains(INVOCATION), "{}", outcome.error());
        }
    }
}

#[test]
fn a_card_expires_with_the_end_of_its_month() {
    let year = "args.card.expiration_year";
    for (month, given, expired) in
        [(11, 2026, false), (10, 2026, true), (12, 2025, true), (1, 2027, false)]
    {
        let mut args = args();
        args["card"]["expiration_month"] = json!(month);
        args["card"]["expiration_year"] = json!(given);
        let network = FakeHttp::new().json(200, intent());
        let outcome = call(&args, &configuration("payment_intents"), &network);
        assert_eq!(outcome.is_ok(), !expired, "{month}/{given}");
        assert_eq!(network.requests().len(), usize::from(!expired));
        if expired {
            assert_eq!(outcome.error().messages(year), ["is past: the card has expired"]);
        }
    }
    // Up to the end of its last day in the last place on earth.
    let end_ms = 1_796_083_200_000 + 12 * 3_600_000;
    for (at_ms, expired) in [(end_ms - 1, false), (end_ms, true)] {
        let mut args = args();
        args["card"]["expiration_month"] = json!(11);
        args["card"]["expiration_year"] = json!(2026);
        let network = FakeHttp::new().json(200, intent());
        let call = Call::new(&args).configuration(configuration("payment_intents"));
        let outcome = call.at_ms(at_ms).http(&network).run(react);
        assert_eq!(outcome.is_ok(), !expired, "{at_ms}");
    }
}

#[test]
fn faults_of_the_arguments_are_named_and_nothing_is_sent() {
    let card = |member: &str, value: Value| {
        let mut args = args();
        args["card"][member] = value;
        args
    };
    let table = [
        (with(args(), json!({ "card": NUMBER })), "args.card"),
        (card("number", json!("4242x")), "args.card.number"),
        (card("number", json!(4242)), "args.card.number"),
        (card("expiration_month", json!(13)), "args.card.expiration_month"),
        (card("expiration_year", json!(30)), "args.card.expiration_year"),
        (card("cvc", json!("12")), "args.card.cvc"),
        (card("cvc", json!(987)), "args.card.cvc"),
        (with(args(), json!({ "amount": 0 })), "args.amount"),
        (with(args(), json!({ "amount": -1 })), "args.amount"),
        (with(args(), json!({ "amount": 12.5 })), "args.amount"),
        (with(args(), json!({ "amount": 100_000_000 })), "args.amount"),
        (with(args(), json!({ "amount": null })), "args.amount"),
        (with(args(), json!({ "currency": "EU" })), "args.currency"),
        (with(args(), json!({ "currency": "€" })), "args.currency"),
        (with(args(), json!({ "currency": 978 })), "args.currency"),
        (with(args(), json!({ "capture": "yes" })), "args.capture"),
        (with(args(), json!({ "reference": "" })), "args.reference"),
        (with(args(), json!({ "reference": "x".repeat(201) })), "args.reference"),
        (with(args(), json!({ "retry_of": "x\r\ny" })), "args.retry_of"),
        (with(args(), json!({ "retry_of": "order-1" })), "args.retry_of"),
        (with(args(), json!({ "retry_of": format!("{EARLIER}-") })), "args.retry_of"),
        // No invocation's.
        (with(args(), json!({ "retry_of": EARLIER.replace("-7", "-4") })), "args.retry_of"),
        (with(args(), json!({ "retry_of": EARLIER, "idempotency_key": "k" })), "args.retry_of"),
        (with(args(), json!({ "idempotency_key": "" })), "args.idempotency_key"),
        (with(args(), json!({ "idempotency_key": 17 })), "args.idempotency_key"),
        (with(args(), json!({ "idempotency_key": "a b" })), "args.idempotency_key"),
        (with(args(), json!({ "idempotency_key": "x".repeat(256) })), "args.idempotency_key"),
        (with(args(), json!({ "retry_of": EARLIER.replace('0', "g") })), "args.retry_of"),
        (with(args(), json!({ "retry_of": EARLIER.replacen('0', "", 1) })), "args.retry_of"),
        (with(args(), json!({ "billing": "Ada" })), "args.billing"),
        (with(args(), json!({ "billing": { "city": 1 } })), "args.billing.city"),
        (with(args(), json!({ "billing": { "name": "a\u{0}" } })), "args.billing.name"),
    ];
    for (args, member) in table {
        let network = FakeHttp::new().json(200, intent());
        let outcome = call(&args, &configuration("payment_intents"), &network);
        assert_eq!(outcome.error().kind(), Some(ErrorKind::BadRequest), "{args}");
        assert_eq!(outcome.error().messages(member).len(), 1, "{args}: {:?}", outcome.error());
        assert!(network.requests().is_empty());
    }
    let network = FakeHttp::new();
    let outcome = call(&json!({}), &json!({}), &network);
    for member in ["args.card", "args.amount", "args.currency", "configuration.base_url"] {
        assert_eq!(outcome.error().messages(member).len(), 1, "{member}");
    }
}

#[test]
fn the_configuration_is_checked() {
    let table = [
        ("base_url", json!("http://api.example.com")),
        ("api_key", json!("")),
        ("api_key", json!("a\r\nb")),
        ("style", json!("soap")),
        ("path", json!("payments")),
        ("path", json!("/a b")),
        ("statement_descriptor", json!("")),
        ("statement_descriptor", json!("x".repeat(23))),
        ("statement_descriptor", json!("A*B")),
        ("timeout_ms", json!(0)),
        ("timeout_ms", json!(1.5)),
        ("timeout_ms", json!(-1)),
        ("timeout_ms", json!("soon")),
        ("timeout_ms", json!(1_000_000_000_000_u64)),
    ];
    for (name, value) in table {
        let mut given = configuration("json");
        given[name] = value.clone();
        let outcome = call(&args(), &given, &FakeHttp::new());
        assert_eq!(outcome.error().messages(&format!("configuration.{name}")).len(), 1, "{value}");
        // No caller can mend it.
        assert_eq!(outcome.error().kind(), Some(ErrorKind::Runtime), "{value}");
        assert!(outcome.error().detail().contains(name), "{}", outcome.error());
    }
}

#[test]
fn no_fault_hides_another() {
    let configuration = json!({
        "base_url": 5, "api_key": [], "style": {}, "path": 7, "statement_descriptor": true,
        "timeout_ms": 1_000_000_000_000_u64,
    });
    let args = json!({
        "card": "4242", "amount": "much", "currency": 978, "capture": 1, "reference": [], "retry_of": 5, "billing": 7,
    });
    let outcome = call(&args, &configuration, &FakeHttp::new());
    assert_eq!(outcome.error().kind(), Some(ErrorKind::BadRequest));
    for (root, members) in [("configuration", &configuration), ("args", &args)] {
        for name in members.as_object().unwrap().keys() {
            let member = format!("{root}.{name}");
            assert_eq!(outcome.error().messages(&member).len(), 1, "{member}");
        }
    }
    let whole = "must be a whole number of milliseconds, 1 to 4294967295";
    assert_eq!(outcome.error().messages("configuration.timeout_ms"), [whole]);
    let longest = with(self::configuration("json"), json!({ "timeout_ms": u32::MAX }));
    assert_eq!(sent(&self::args(), &longest).timeout_ms, Some(9_500));
}
