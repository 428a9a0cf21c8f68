//! The formula as a reactor would call it.

use tokamak_sdk::testing::{Call, Outcome};
use tokamak_sdk::{ErrorKind, Value, json};

use super::react;

fn ada() -> Value {
    json!({
        "name": "Ada Lovelace", "birth_date": "1815-12-10", "ssn": "123-45-6789", "ein": "12-3456789",
        "national_id": "gb 77-a", "phone": "+44 20 7946 0000", "email": "Ada@Example.com ",
        "address": { "line1": "12 St James St", "line2": "Apt 3", "city": "London", "state": "LND",
            "postal_code": "SW1Y 4JH", "country": "gb" },
    })
}

/// The same person, written by somebody else.
fn ada_again() -> Value {
    json!({
        "first_name": "ADA", "last_name": "LÓVELACE", "birth_date": "18151210", "ssn": 123_456_789,
        "ein": "123456789", "national_id": "GB77A", "phone": "(44) 20-7946-0000", "email": "ada@example.com",
        "address": { "line1": "12 Saint James Street, Apartment 3", "city": "LONDON", "state": "lnd",
            "postal_code": "sw1y4jh", "country": "GB" },
    })
}

const HIDDEN: &[&str] =
    &["ovelace", "1815", "6789", "77-a", "77A", "7946", "example", "ames", "ondon", "4JH", "c-1"];

/// Calls the formula; whatever comes of it, it holds no value.
#[expect(clippy::needless_pass_by_value, reason = "tests write `json!` here")]
fn call(identity: Value, candidates: Value, configuration: Value) -> Outcome {
    let args = json!({ "identity": identity, "candidates": candidates });
    let outcome = Call::new(args).configuration(&configuration).run(react);
    let told =
        if outcome.is_ok() { outcome.raw().to_string() } else { format!("{:?}", outcome.error()) };
    let told = format!("{told} {:?}", outcome.log());
    for hidden in HIDDEN.iter().filter(|_| configuration["return_ids"] != true) {
        assert!(!told.contains(hidden), "{hidden} in {told}");
    }
    outcome
}

#[expect(clippy::needless_pass_by_value, reason = "tests write `json!` here")]
fn one(identity: Value, candidate: Value, configuration: Value) -> Value {
    call(identity, json!([candidate]), configuration).raw()["candidates"][0].clone()
}

#[test]
fn the_same_data_is_the_same() {
    let compared = one(ada(), ada(), json!({}));
    assert_eq!((&compared["score"], &compared["match"]), (&json!(1.0), &json!(true)));
    let fields = compared["fields"].as_object().unwrap();
    assert_eq!(fields.len(), 8);
    assert!(fields.values().all(|score| *score == json!(1.0)), "{fields:?}");
}

#[test]
fn spellings_differ_and_persons_do_not() {
    let compared = one(ada(), ada_again(), json!({}));
    let fields = &compared["fields"];
    for field in ["name", "birth_date", "ssn", "ein", "national_id", "phone", "email"] {
        assert_eq!(fields[field], json!(1.0), "{field}");
    }
    // "St" may be a street or a saint.
    assert!((0.85..1.0).contains(&fields["address"].as_f64().unwrap()), "{fields}");
    assert_eq!(compared["match"], true);
}

#[test]
fn candidates_are_compared_in_their_order() {
    let stranger =
        json!({ "name": "Grace Hopper", "birth_date": "1906-12-09", "ssn": "999-99-9999" });
    let nobody = json!({ "id": "c-1" });
    let near =
        json!({ "name": "Ada King Lovelace", "birth_date": "1815-10-12", "ssn": "123456789" });
    let outcome = call(ada(), json!([stranger, nobody, near]), json!({}));
    let raw = outcome.raw();
    assert_eq!(
        raw["candidates"],
        json!([
            { "index": 0, "match": false, "score": 0.08,
              "fields": { "name": 0.0, "birth_date": 0.3, "ssn": 0.0 } },
            { "index": 1, "match": false, "score": 0.0, "fields": {} },
            { "index": 2, "match": true, "score": 0.89,
              "fields": { "name": 0.8, "birth_date": 0.8, "ssn": 1.0 } },
        ])
    );
    assert_eq!(outcome.lines(), ["1 of 3 candidates match"]);
}

#[test]
fn weights_and_threshold_are_the_owners() {
    let near = || json!({ "name": "Ada Lovelace", "ssn": "000-00-0000" });
    let table = [
        (json!({}), 0.37, false),
        (json!({ "weight_national_id": 0 }), 1.0, true),
        (json!({ "weight_name": 0 }), 0.0, false),
        (json!({ "weight_name": 1, "weight_national_id": 1 }), 0.5, false),
        (json!({ "weight_name": 1, "weight_national_id": 1, "threshold": 0.5 }), 0.5, true),
        (json!({ "weight_national_id": 0, "minimum_fields": 2 }), 1.0, false),
        (json!({ "weight_name": 9, "weight_national_id": 1, "minimum_fields": 2 }), 0.9, true),
    ];
    for (configuration, score, is_match) in table {
        let compared = one(ada(), near(), configuration.clone());
        assert_eq!(compared["score"], json!(score), "{configuration}");
        assert_eq!(compared["match"], json!(is_match), "{configuration}");
    }
}

#[test]
fn less_is_told_to_those_who_guess() {
    let compared = one(ada(), ada_again(), json!({ "answer": "match" }));
    assert_eq!(compared, json!({ "index": 0, "match": true }));
    for configuration in [json!({}), json!({ "answer": "scores" })] {
        assert_eq!(one(ada(), ada(), configuration)["score"], json!(1.0));
    }
}

#[test]
fn ids_are_repeated_only_when_the_owner_says_so() {
    let candidate = || json!({ "id": "c-1", "name": "Ada Lovelace" });
    let configuration = json!({ "return_ids": true, "answer": "match" });
    let compared = one(ada(), candidate(), configuration);
    assert_eq!(compared, json!({ "index": 0, "id": "c-1", "match": true }));
    assert_eq!(one(ada(), candidate(), json!({})).get("id"), None);
}

#[test]
fn what_either_lacks_is_not_compared() {
    let table = [
        (json!({ "name": " ", "ssn": "--", "phone": "none", "address": {} }), json!({})),
        (json!({ "name": null, "email": "" }), json!({})),
        (json!({ "address": { "country": "GB" } }), json!({ "address": 1.0 })),
        (json!({ "address": "12 St. James Street Apt 3" }), json!({ "address": 1.0 })),
        (
            json!({ "address": "12 St James St, Apt 3, London LND SW1Y 4JH" }),
            json!({ "address": 1.0 }),
        ),
        (json!({ "address": "" }), json!({})),
        (
            json!({ "name": "!", "first_name": "Ada", "last_name": "Lovelace" }),
            json!({ "name": 1.0 }),
        ),
        (json!({ "middle_name": "Lovelace", "first_name": "Ada" }), json!({ "name": 1.0 })),
        (json!({ "name": "Ada Lovelace", "first_name": "Grace" }), json!({ "name": 1.0 })),
        // Half of what counts is in the lines, and a twentieth in the country.
        (
            json!({ "address": { "line1": "12 St James St Apt 3", "country": "FR" } }),
            json!({ "address": 0.9 }),
        ),
    ];
    for (candidate, fields) in table {
        assert_eq!(one(ada(), candidate.clone(), json!({}))["fields"], fields, "{candidate}");
    }
    // One text says nothing of the parts that another address has alone.
    let text = || json!({ "address": "12 St. James Street Apt 3" });
    for parts in
        [json!({ "country": "GB" }), json!({ "city": "London", "postal_code": "SW1Y 4JH" })]
    {
        let compared = one(json!({ "address": parts }), text(), json!({}));
        assert_eq!(compared["fields"], json!({}), "{parts}");
    }
    // Addresses may have no part in common.
    let (city, state) = (json!({ "city": "London" }), json!({ "state": "LND" }));
    let compared = one(json!({ "address": city }), json!({ "address": state }), json!({}));
    assert_eq!(compared["fields"], json!({}));
}

#[test]
fn a_difference_is_never_rounded_away() {
    let almost = json!({ "name": "Ada Lovelace", "address": { "line1": "12 St James St Apt 3", "state": "XX" } });
    let compared = one(ada(), almost, json!({ "weight_name": 1000, "weight_address": 0.001 }));
    assert_eq!(compared["fields"]["name"], json!(1.0));
    assert_eq!(compared["score"], json!(0.99));
}

#[test]
fn a_score_is_not_less_than_the_one_field_it_is_made_of() {
    let table = [
        (json!({ "name": "A. Lovelace" }), "name", 0.95),
        (json!({ "birth_date": "1815-12-11" }), "birth_date", 0.7),
    ];
    for (candidate, field, score) in table {
        let compared = one(ada(), candidate.clone(), json!({ "threshold": score }));
        let fields = json!({ field: score });
        let expected = json!({ "index": 0, "match": true, "score": score, "fields": fields });
        assert_eq!(compared, expected, "{candidate}");
    }
}

#[test]
fn whole_numbers_are_their_digits() {
    let whole = |field: &str, number: Value, text: &str| {
        one(json!({ field: text }), json!({ field: number }), json!({}))["fields"][field].clone()
    };
    for (field, number, text) in [
        ("ssn", json!(123_456_789), "123-45-6789"),
        ("ssn", json!(123_456_789.0), "123-45-6789"),
        ("ein", json!(1.234_567_89e8), "12-3456789"),
        ("national_id", json!(12.0), "12"),
        ("national_id", json!(18_446_744_073_709_551_615_u64), "18446744073709551615"),
        ("phone", json!(14_155_550_100.0), "+1 415 555 0100"),
        ("birth_date", json!(18_151_210.0), "1815-12-10"),
    ] {
        assert_eq!(whole(field, number.clone(), text), json!(1.0), "{field} {number}");
    }
}

#[test]
fn numbers_that_cannot_be_the_text_are_refused() {
    let (whole, zeros) = (
        "must be a string or a whole number, 0 or more",
        "must be a string: as a number it has lost the zeros it began with",
    );
    for (field, number, message) in [
        ("ssn", json!(123_456_789.5), whole),
        ("ssn", json!(-123_456_789), whole),
        ("phone", json!(0.5), whole),
        ("ssn", json!(12_345_678), zeros),
        ("ssn", json!(12_345_678.0), zeros),
        ("ein", json!(0), zeros),
    ] {
        let outcome = call(json!({ field: number }), json!([{ field: number }]), json!({}));
        for member in ["args.identity", "args.candidates[0]"] {
            let told = outcome.error().messages(&format!("{member}.{field}"));
            assert_eq!(told, [message], "{field} {number}");
        }
        // That there is nothing to compare is no fault of its own.
        assert!(outcome.error().messages("args.identity").is_empty(), "{field} {number}");
    }
    // What hides a number is the same for everybody.
    let letters = "must have no letters: a number that is masked or missing says nothing";
    let masked = "is masked, so that there is nothing to compare";
    for (field, text, message) in [
        ("ssn", "XXX-XX-6789", letters),
        ("ein", "n/a", letters),
        ("ssn", "***-**-6789", masked),
        ("national_id", "XXXXXX77A", masked),
        ("national_id", "••••77A", masked),
        ("name", "A** L*******", masked),
        ("phone", "** **** 7946", masked),
    ] {
        let outcome = call(json!({ field: text }), json!([{ field: text }]), json!({}));
        for member in ["args.identity", "args.candidates[0]"] {
            let told = outcome.error().messages(&format!("{member}.{field}"));
            assert_eq!(told, [message], "{field} {text}");
        }
    }
    // A part of a number is that of many.
    let part = "must have nine digits: a part of a number says little";
    for (field, number, told) in [
        ("ssn", json!("6789"), part),
        ("ein", json!("12-345678"), part),
        ("ssn", json!("123-45-6789 0"), "must have nine digits"),
        ("ssn", json!(1_234_567_890), "must have nine digits"),
    ] {
        let outcome = call(json!({ field: number }), json!([{ field: number }]), json!({}));
        assert_eq!(outcome.error().messages(&format!("args.identity.{field}")), [told], "{number}");
    }
}

#[test]
fn a_faulty_member_is_not_told_twice() {
    for identity in [
        json!({ "name": true }),
        json!({ "birth_date": "2000-02-30" }),
        json!({ "address": { "city": 1.5 } }),
        json!({ "name": "x".repeat(501) }),
    ] {
        let outcome = call(identity.clone(), json!([{}]), json!({}));
        assert!(outcome.error().messages("args.identity").is_empty(), "{identity}");
        let told = format!("{:?}", outcome.error());
        assert_eq!(told.matches("\"args.").count(), 1, "{told}");
    }
}

#[test]
fn faults_are_named_without_values() {
    let full = || json!([{}]);
    let table = [
        (json!("Lovelace"), full(), "args.identity"),
        (json!({}), full(), "args.identity"),
        (json!({ "id": "c-1" }), full(), "args.identity"),
        (json!({ "name": ["Lovelace"] }), full(), "args.identity.name"),
        (json!({ "birth_date": "Dec 1815" }), full(), "args.identity.birth_date"),
        (json!({ "ssn": true }), full(), "args.identity.ssn"),
        (json!({ "address": { "city": {} } }), full(), "args.identity.address.city"),
        (json!({ "address": [] }), full(), "args.identity.address"),
        (json!({ "name": "x".repeat(501) }), full(), "args.identity.name"),
        (ada(), json!([]), "args.candidates"),
        (ada(), Value::Array(vec![json!({}); 101]), "args.candidates"),
        (ada(), json!("Lovelace"), "args.candidates"),
        (ada(), json!([{}, "Lovelace"]), "args.candidates[1]"),
        (ada(), json!([{}, { "email": false }]), "args.candidates[1].email"),
    ];
    for (identity, candidates, member) in table {
        let outcome = call(identity, candidates, json!({}));
        assert_eq!(outcome.error().kind(), Some(ErrorKind::BadRequest), "{member}");
        assert_eq!(outcome.error().messages(member).len(), 1, "{member}: {:?}", outcome.error());
    }
    assert!(call(ada(), Value::Array(vec![ada(); 100]), json!({})).is_ok());
    assert!(call(json!({ "name": "x".repeat(500) }), full(), json!({})).is_ok());
}

#[test]
fn no_fault_hides_another() {
    let (required, object) = ("is required", "must be an object");
    let table = [
        (json!({}), vec![("args.identity", required), ("args.candidates", required)]),
        (
            json!({ "identity": 5, "candidates": { "0": "Lovelace" } }),
            vec![("args.identity", object), ("args.candidates", "must be an array")],
        ),
        (
            json!({ "candidates": [5, { "email": false, "ssn": [] }, "Lovelace", [], { "phone": {} }] }),
            vec![
                ("args.identity", required),
                ("args.candidates[0]", object),
                ("args.candidates[1].email", "must be a string"),
                ("args.candidates[1].ssn", "must be a string"),
                ("args.candidates[2]", object),
                ("args.candidates[3]", object),
                ("args.candidates[4].phone", "must be a string"),
            ],
        ),
        (
            json!({ "identity": { "birth_date": "Dec 1815", "name": true, "ssn": "1" }, "candidates": [] }),
            vec![
                ("args.identity.birth_date", "must be a date, YYYY-MM-DD"),
                ("args.identity.name", "must be a string"),
                ("args.identity.ssn", "must have nine digits: a part of a number says little"),
                ("args.candidates", "must have 1 to 100 entries"),
            ],
        ),
    ];
    let owners = [
        ("configuration.threshold", "must be above 0 and at most 1"),
        ("configuration.answer", "must be scores or match"),
    ];
    for (args, expected) in table {
        let configuration = json!({ "threshold": "high", "answer": [] });
        let outcome = Call::new(&args).configuration(configuration).run(react);
        let told = format!("{:?}", outcome.error());
        assert!(!told.contains("ovelace") && !told.contains("1815"), "{told}");
        for (member, message) in expected.iter().chain(&owners) {
            assert_eq!(outcome.error().messages(member), [*message], "{member}: {told}");
        }
        let named = told.split('"').filter(|part| !outcome.error().messages(part).is_empty());
        assert_eq!(named.count(), expected.len() + owners.len(), "{told}");
    }
}

#[test]
fn weights_that_are_wrong_are_not_said_to_be_nothing() {
    let wrong = json!({
        "weight_name": "high", "weight_birth_date": -1, "weight_national_id": 0, "weight_phone": 0,
        "weight_email": 0, "weight_address": 0,
    });
    let outcome = call(ada(), json!([ada()]), wrong);
    for (member, count) in [
        ("configuration.weight_name", 1),
        ("configuration.weight_birth_date", 1),
        ("configuration", 0),
    ] {
        assert_eq!(outcome.error().messages(member).len(), count, "{member}");
    }
}

#[test]
fn the_configuration_is_checked() {
    let zero = json!({
        "weight_name": 0, "weight_birth_date": 0, "weight_national_id": 0, "weight_phone": 0,
        "weight_email": 0, "weight_address": 0,
    });
    let table = [
        (json!({ "threshold": 0 }), "configuration.threshold"),
        (json!({ "threshold": 1.01 }), "configuration.threshold"),
        (json!({ "minimum_fields": 0 }), "configuration.minimum_fields"),
        (json!({ "minimum_fields": 1.5 }), "configuration.minimum_fields"),
        (json!({ "minimum_fields": 9 }), "configuration.minimum_fields"),
        (json!({ "answer": "all" }), "configuration.answer"),
        (json!({ "answer": 1 }), "configuration.answer"),
        (json!({ "return_ids": "yes" }), "configuration.return_ids"),
        (json!({ "weight_name": -1 }), "configuration.weight_name"),
        (json!({ "weight_phone": 1001 }), "configuration.weight_phone"),
        (zero, "configuration"),
    ];
    for (configuration, member) in table {
        let outcome = call(ada(), json!([ada()]), configuration.clone());
        assert_eq!(outcome.error().messages(member).len(), 1, "{configuration}");
        // No caller can mend it.
        assert_eq!(outcome.error().kind(), Some(ErrorKind::Runtime), "{configuration}");
        assert!(outcome.error().detail().contains(member), "{}", outcome.error());
    }
}
