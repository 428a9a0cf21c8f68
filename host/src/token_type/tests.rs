use proptest::prelude::*;
use serde_json::{Map, Value, json};

use super::{FAMILIES, TokenType, aba_valid, luhn_valid};

fn of(name: &str) -> TokenType {
    name.parse().unwrap()
}

/// The faults of `data`, one `path: message` each.
fn faults(name: &str, data: &Value) -> Vec<String> {
    match of(name).validate(data) {
        Ok(()) => Vec::new(),
        Err(faults) => {
            let all = faults.into_map().into_iter();
            all.map(|(path, messages)| format!("{path}: {}", messages.join(", "))).collect()
        }
    }
}

/// A valid card number.
const NUMBER: &str = "4242424242424242";

const NAMES: [&str; 8] = [
    "token",
    "card",
    "card_number",
    "bank",
    "us_bank_account_number",
    "us_bank_routing_number",
    "social_security_number",
    "employer_id_number",
];

#[test]
fn names() {
    assert_eq!(TokenType::all().map(TokenType::as_str).collect::<Vec<_>>(), NAMES);
    for name in NAMES {
        assert_eq!(of(name).to_string(), name);
        assert_eq!(serde_json::to_value(of(name)).unwrap(), name);
        assert_eq!(serde_json::from_value::<TokenType>(json!(name)).unwrap(), of(name));
    }
    assert_eq!(TokenType::generic(), of("token"));
    assert_ne!(of("card"), of("card_number"));
    assert_eq!(format!("{:?}", of("card")), "TokenType(card)");
}

#[test]
fn an_unknown_name_is_told_the_known_ones() {
    for name in ["", "Card", "cards", " card", "iban"] {
        let message = name.parse::<TokenType>().unwrap_err().to_string();
        assert_eq!(message, format!("must be one of {}", NAMES.join(", ")));
        assert!(serde_json::from_value::<TokenType>(json!(name)).is_err());
    }
}

/// The table of the specification, written out once more: name, container, mask, fingerprint.
#[test]
fn defaults() {
    let last_four = json!("{{ data | reveal_last: 4 }}");
    let card = json!({
        "number": "{{ data.number | reveal_last: 4 }}",
        "expiration_month": "{{ data.expiration_month }}",
        "expiration_year": "{{ data.expiration_year }}",
    });
    let bank = json!({
        "routing_number": "{{ data.routing_number }}",
        "account_number": "{{ data.account_number | reveal_last: 4 }}",
    });
    let accounts = "{{ data.account_number }}|{{ data.routing_number }}";
    let undashed = "{{ data | remove: '-' }}";
    let data = json!({
        "number": NUMBER, "expiration_month": 1, "expiration_year": 2030, "cvc": "123",
        "routing_number": "021000021", "account_number": "1", "extra": true,
    });
    for (name, container, mask, fingerprint) in [
        ("token", "/general/high/", None, "{{ data | stringify }}"),
        ("card", "/pci/high/", Some(&card), "{{ data.number }}"),
        ("card_number", "/pci/high/", Some(&last_four), "{{ data }}"),
        ("bank", "/bank/high/", Some(&bank), accounts),
        ("us_bank_account_number", "/bank/high/", Some(&last_four), "{{ data }}"),
        ("us_bank_routing_number", "/bank/low/", Some(&last_four), "{{ data }}"),
        ("social_security_number", "/pii/high/", Some(&last_four), undashed),
        ("employer_id_number", "/pii/high/", Some(&last_four), undashed),
    ] {
        assert_eq!(of(name).default_container().as_str(), container, "{name}");
        assert_eq!(of(name).default_mask(&data).as_ref(), mask, "{name}");
        assert_eq!(of(name).default_fingerprint_expression(), fingerprint, "{name}");
    }
}

#[test]
fn default_indexes_transients_and_log_entities() {
    let identity = ["{{ data }}", "{{ data | remove: '-' }}", "{{ data | last4 }}"];
    for name in NAMES {
        let identified = name == "social_security_number" || name == "employer_id_number";
        let indexes: &[_] = if identified { &identity } else { &[] };
        assert_eq!(of(name).default_search_indexes(), indexes, "{name}");
        let entity = if name == "card" || name == "bank" { name } else { "token" };
        assert_eq!(of(name).log_entity_type().as_str(), entity, "{name}");
        let transient: &[_] = if name == "card" { &["cvc"] } else { &[] };
        assert_eq!(of(name).transient_members().collect::<Vec<_>>(), transient, "{name}");
    }
}

#[test]
fn every_row_is_sound() {
    let mut seen = std::collections::HashSet::new();
    for row in FAMILIES.iter().copied().flatten() {
        assert!(seen.insert(row.name), "{} is there twice", row.name);
        let container = row.container.parse::<crate::model::container::Container>().unwrap();
        assert_eq!(container.as_str(), row.container);
        assert!(row.fingerprint.starts_with("{{ data"), "{}", row.name);
    }
}

#[test]
fn a_default_mask_names_only_members_that_are_there() {
    let number = json!({"number": "{{ data.number | reveal_last: 4 }}"});
    for data in [
        json!({"number": NUMBER}),
        json!({"number": NUMBER, "cvc": "123"}),
        json!({"number": NUMBER, "expiration_month": null, "expiration_year": null}),
    ] {
        assert_eq!(of("card").default_mask(&data).unwrap(), number, "{data}");
    }
    let year = json!({"number": NUMBER, "expiration_year": 2030});
    let mask = of("card").default_mask(&year).unwrap();
    assert_eq!(mask["expiration_year"], "{{ data.expiration_year }}");
    assert!(mask.get("expiration_month").is_none());
    let follow = |mut mask: Value, after: &Value| {
        of("card").follow_with_mask(&mut mask, (&year, after));
        mask
    };
    let bare = json!({"number": NUMBER});
    assert_eq!(follow(mask.clone(), &bare), number);
    assert_eq!(follow(number.clone(), &year), number);
    for own in [json!({"expiration_year": "**"}), json!("{{ data.expiration_year }}"), json!({})] {
        assert_eq!(follow(own.clone(), &bare), own);
    }
    assert_eq!(of("card").default_mask(&json!({})), None);
    assert_eq!(of("card").default_mask(&json!("no object")), None);
}

#[test]
fn data_that_is_valid() {
    for (name, data) in [
        ("token", json!(null)),
        ("token", json!({"a": [1, true, "x"]})),
        ("card", json!({"number": NUMBER})),
        ("card", json!({"number": "378282246310005", "cvc": "1234", "expiration_month": 12})),
        ("card", json!({"number": NUMBER, "expiration_month": 1, "expiration_year": 1000})),
        ("card", json!({"number": NUMBER, "expiration_year": 9999, "cvc": null})),
        ("card", json!({"number": NUMBER, "cvc": "000", "holder": {"name": "Jane"}})),
        ("card_number", json!("501800000009")),
        ("card_number", json!("6304000000000000000")),
        ("bank", json!({"routing_number": "021000021", "account_number": "1"})),
        (
            "bank",
            json!({"routing_number": "011401533", "account_number": "12345678901234567", "x": 1}),
        ),
        ("us_bank_account_number", json!("123")),
        ("us_bank_account_number", json!("00000000000000000")),
        ("us_bank_routing_number", json!("121000358")),
        ("social_security_number", json!("123-45-6789")),
        ("social_security_number", json!("123456789")),
        ("employer_id_number", json!("12-3456789")),
    ] {
        assert_eq!(faults(name, &data), [""; 0], "{name} {data}");
    }
}

#[test]
fn numbers_that_are_not() {
    let (text, only) = (": must be a string", ": must contain digits only");
    let (card, account) = (": must have 12 to 19 digits", ": must have 3 to 17 digits");
    let (routing, dashed) = (": must have 9 digits", ": must contain digits and - only");
    for (name, data, fault) in [
        ("card_number", json!(4_242_424_242_424_242_u64), text),
        ("card_number", json!(null), text),
        ("card_number", json!({"number": NUMBER}), text),
        ("card_number", json!("4242 4242 4242 4242"), only),
        ("card_number", json!("4242-4242-4242-4242"), only),
        ("card_number", json!("٤٢٤٢٤٢٤٢٤٢٤٢٤٢٤٢"), only),
        ("card_number", json!(""), card),
        ("card_number", json!("42424242426"), card),
        ("card_number", json!("00000000000000000000"), card),
        ("card_number", json!("4242424242424241"), ": fails the Luhn check"),
        ("us_bank_account_number", json!("12"), account),
        ("us_bank_account_number", json!("123456789012345678"), account),
        ("us_bank_account_number", json!("12a"), only),
        ("us_bank_account_number", json!(1234), text),
        ("us_bank_routing_number", json!("02100002"), routing),
        ("us_bank_routing_number", json!("0210000210"), routing),
        ("us_bank_routing_number", json!("02100002-"), only),
        ("us_bank_routing_number", json!("021000022"), ": fails the checksum of routing numbers"),
        ("us_bank_routing_number", json!(true), text),
        ("social_security_number", json!("123-45-678"), routing),
        ("social_security_number", json!("123-45-67890"), routing),
        ("social_security_number", json!("---"), routing),
        ("social_security_number", json!(""), routing),
        ("social_security_number", json!("123 45 6789"), dashed),
        ("employer_id_number", json!("12-345678x"), dashed),
        ("employer_id_number", json!(123_456_789), text),
    ] {
        assert_eq!(faults(name, &data), [fault], "{name} {data}");
    }
}

#[test]
fn every_member_is_told_its_fault() {
    let year = "expiration_year: must be a whole number from 1000 to 9999";
    let month = "expiration_month: must be a whole number from 1 to 12";
    let code = "cvc: must have 3 to 4 digits";
    for (name, data, expected) in [
        ("card", json!([]), vec![": must be an object"]),
        ("card", json!("4242424242424242"), vec![": must be an object"]),
        ("card", json!({}), vec!["number: is required"]),
        ("card", json!({"number": null}), vec!["number: is required"]),
        (
            "card",
            json!({"number": 42, "expiration_month": 13, "expiration_year": 30, "cvc": "12"}),
            vec![code, month, year, "number: must be a string"],
        ),
        (
            "card",
            json!({"number": "1", "expiration_month": "12", "expiration_year": 10_000, "cvc": 123}),
            vec!["cvc: must be a string", month, year, "number: must have 12 to 19 digits"],
        ),
        (
            "card",
            json!({"number": NUMBER, "expiration_month": 0, "expiration_year": 2.5, "cvc": "12345"}),
            vec![code, month, year],
        ),
        ("card", json!({"number": NUMBER, "expiration_month": -1}), vec![month]),
        ("card", json!({"number": NUMBER, "cvc": "12x"}), vec!["cvc: must contain digits only"]),
        ("bank", json!({}), vec!["account_number: is required", "routing_number: is required"]),
        (
            "bank",
            json!({"routing_number": "123456789", "account_number": ""}),
            vec![
                "account_number: must have 1 to 17 digits",
                "routing_number: fails the checksum of routing numbers",
            ],
        ),
        (
            "bank",
            json!({"routing_number": "12345678", "account_number": "123456789012345678"}),
            vec!["account_number: must have 1 to 17 digits", "routing_number: must have 9 digits"],
        ),
        ("bank", json!(null), vec![": must be an object"]),
    ] {
        assert_eq!(faults(name, &data), expected, "{name} {data}");
    }
}

#[test]
fn checksums_by_example() {
    for number in ["4242424242424242", "79927398713", "0", "18", "6011000990139424"] {
        assert!(luhn_valid(number), "{number}");
    }
    for number in ["", "4242424242424241", "79927398710", "1", "4242 4242 4242 4242", "٠", "-", "é"]
    {
        assert!(!luhn_valid(number), "{number}");
    }
    for number in ["021000021", "011401533", "091000019", "322271627"] {
        assert!(aba_valid(number), "{number}");
    }
    for number in [
        "",
        "0",
        "00000000",
        "0000000000",
        "021000022",
        "02100002",
        "0210000210",
        "02100002x",
        "ÿÿÿÿÿÿÿÿÿ",
        "-21000021",
    ] {
        assert!(!aba_valid(number), "{number}");
    }
}

/// The digit that completes a card number, found the way the standard prints it: by a table of
/// doubled digits.
fn luhn_digit(payload: &[u8]) -> u8 {
    const DOUBLED: [u8; 10] = [0, 2, 4, 6, 8, 1, 3, 5, 7, 9];
    let mut total: u32 = 0;
    let mut double = true;
    for digit in payload.iter().rev() {
        total += u32::from(if double { DOUBLED[usize::from(*digit)] } else { *digit });
        double = !double;
    }
    u8::try_from((10 - total % 10) % 10).unwrap()
}

/// The digit that completes a routing number.
fn aba_digit(d: &[u8]) -> u8 {
    let sum = |indexes: [usize; 3]| {
        indexes.iter().filter_map(|i| d.get(*i)).map(|d| u32::from(*d)).sum::<u32>()
    };
    let total = 3 * sum([0, 3, 6]) + 7 * sum([1, 4, 7]) + sum([2, 5, 8]);
    u8::try_from(total.next_multiple_of(10) - total).unwrap()
}

fn text(digits: &[u8]) -> String {
    digits.iter().map(|digit| char::from(b'0' + digit)).collect()
}

/// Any JSON, with the members and the kinds of text that the rules look at.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[0-9-]{0,20}".prop_map(Value::from),
        "\\PC{0,12}".prop_map(Value::from),
    ];
    let name = prop_oneof![
        Just("number"),
        Just("cvc"),
        Just("expiration_month"),
        Just("expiration_year"),
        Just("routing_number"),
        Just("account_number"),
    ];
    leaf.prop_recursive(2, 16, 6, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((name.clone().prop_map(str::to_owned), inner), 0..6)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn luhn_accepts_what_was_made_for_it(
        payload in prop::collection::vec(0..10_u8, 0..30),
        at: prop::sample::Index,
        by in 1..10_u8,
    ) {
        let mut number = payload.clone();
        number.push(luhn_digit(&payload));
        prop_assert!(luhn_valid(&text(&number)));
        let at = at.index(number.len());
        number[at] = (number[at] + by) % 10;
        prop_assert!(!luhn_valid(&text(&number)), "one digit was changed");
    }

    #[test]
    fn aba_accepts_what_was_made_for_it(
        payload in prop::collection::vec(0..10_u8, 8),
        at in 0..9_usize,
        by in 1..10_u8,
    ) {
        let mut number = payload.clone();
        number.push(aba_digit(&payload));
        prop_assert!(aba_valid(&text(&number)));
        number[at] = (number[at] + by) % 10;
        prop_assert!(!aba_valid(&text(&number)), "one digit was changed");
    }

    #[test]
    fn card_numbers_are_bounded(payload in prop::collection::vec(0..10_u8, 8..22)) {
        let mut number = payload.clone();
        number.push(luhn_digit(&payload));
        let valid = of("card_number").validate(&json!(text(&number))).is_ok();
        prop_assert_eq!(valid, (12..=19).contains(&number.len()));
    }

    #[test]
    fn any_data_is_answered_and_never_repeated(data in any_json(), secret in "[0-9]{20,40}") {
        for token_type in TokenType::all() {
            let _ = token_type.validate(&data);
            let _ = token_type.default_mask(&data);
            let members = ["number", "cvc", "expiration_year", "routing_number", "account_number"];
            let object: Map<_, _> =
                members.iter().map(|name| ((*name).to_owned(), json!(secret))).collect();
            for data in [json!(secret), Value::Object(object)] {
                if let Err(faults) = token_type.validate(&data) {
                    prop_assert!(!faults.to_string().contains(&secret));
                }
            }
        }
    }

    #[test]
    fn any_text_has_a_checksum_or_not(text in "\\PC*") {
        let _ = (luhn_valid(&text), aba_valid(&text));
    }
}
