//! The formula as a reactor would call it, and its pure parts by table.

use tokamak_sdk::testing::{Call, Outcome};
use tokamak_sdk::{ErrorKind, json};

use super::{Brand, luhn, react};

/// 2026-11-30, one minute before midnight.
const NOVEMBER_MS: u64 = 1_796_083_140_000;
const MINUTE_MS: u64 = 60_000;

fn call(card: &tokamak_sdk::Value) -> Outcome {
    Call::new(json!({ "card": card })).at_ms(NOVEMBER_MS).run(react)
}

#[test]
fn a_card_is_described_without_its_number() {
    let card = json!({
        "number": "4242424242424242", "expiration_month": 12, "expiration_year": 2030, "cvc": "123",
    });
    let raw = call(&card).raw();
    assert_eq!(
        raw,
        json!({
            "brand": "Visa", "bin": "42424242", "last4": "4242", "length": 16,
            "luhn_valid": true, "expiry": "valid",
        })
    );
    assert!(!raw.to_string().contains("4242424242424242"));
    assert!(call(&card).lines().is_empty());
}

#[test]
fn a_bare_number_will_do() {
    let raw = call(&json!("3782 822463-10005")).raw();
    assert_eq!(
        raw,
        json!({
            "brand": "American Express", "bin": "378282", "last4": "0005", "length": 15,
            "luhn_valid": true, "expiry": "unknown",
        })
    );
}

#[test]
fn a_card_expires_with_the_end_of_its_month() {
    let card = |month, year| json!({ "number": "4242424242424242", "expiration_month": month, "expiration_year": year });
    let expiry = |card| call(&card).raw()["expiry"].clone();
    assert_eq!(expiry(card(json!(11), json!(2026))), "valid");
    assert_eq!(expiry(card(json!(10), json!(2026))), "expired");
    assert_eq!(expiry(card(json!(12), json!(2025))), "expired");
    assert_eq!(expiry(card(json!(1), json!(2027))), "valid");
    assert_eq!(expiry(card(json!("11"), json!(2026.0))), "valid");
    assert_eq!(expiry(card(json!(null), json!(2026))), "unknown");
    assert_eq!(expiry(json!({ "number": "4242424242424242", "expiration_month": 1 })), "unknown");

    let card = json!({ "card": card(json!(11), json!(2026)) });
    let later = Call::new(card).at_ms(NOVEMBER_MS + MINUTE_MS).run(react);
    assert_eq!(later.raw()["expiry"], "expired");
}

#[test]
fn a_wrong_checksum_is_told_not_refused() {
    assert_eq!(call(&json!("4242424242424241")).raw()["luhn_valid"], false);
}

#[test]
fn faults_name_their_members_and_no_values() {
    let long = "4".repeat(20);
    let table = [
        (json!(null), &["args.card"][..]),
        (json!([]), &["args.card"]),
        (json!("4242-secret"), &["args.card"]),
        (json!("42424242424"), &["args.card"]),
        (json!(long), &["args.card"]),
        (json!({}), &["args.card.number"]),
        (json!({ "number": 4_242_424_242_424_242_u64 }), &["args.card.number"]),
        (
            json!({ "number": "secret", "expiration_month": 13, "expiration_year": 26 }),
            &["args.card.number", "args.card.expiration_month", "args.card.expiration_year"],
        ),
        (
            json!({ "number": "4242424242424242", "expiration_month": 1.5, "expiration_year": [] }),
            &["args.card.expiration_month", "args.card.expiration_year"],
        ),
        (
            json!({ "number": "4242424242424242", "expiration_month": "secret" }),
            &["args.card.expiration_month"],
        ),
    ];
    for (card, members) in table {
        let outcome = call(&card);
        let error = outcome.error();
        assert_eq!(error.kind(), Some(ErrorKind::BadRequest), "{card}");
        for member in members {
            assert_eq!(error.messages(member).len(), 1, "{member} of {card}");
        }
        let told = format!("{error:?}");
        assert_eq!(told.matches("args.card").count(), members.len(), "{told}");
        assert!(!told.contains("secret") && !told.contains("4242"), "{told}");
    }
    let missing = Call::new(json!({})).run(react);
    assert_eq!(missing.error().messages("args.card"), ["is required"]);
}

#[test]
fn brands_by_their_published_test_numbers() {
    let table = [
        (Brand::Visa, "4111111111111111"),
        (Brand::Visa, "4222222222222"),
        (Brand::Mastercard, "5555555555554444"),
        (Brand::Mastercard, "2223003122003222"),
        (Brand::Mastercard, "2720999999999996"),
        (Brand::AmericanExpress, "371449635398431"),
        (Brand::Discover, "6011111111111117"),
        (Brand::Discover, "6445644564456445"),
        (Brand::DinersClub, "30569309025904"),
        (Brand::DinersClub, "38520000023237"),
        (Brand::DinersClub, "36227206271667"),
        (Brand::Jcb, "3530111333300000"),
        (Brand::Jcb, "3566002020360505"),
        (Brand::UnionPay, "6200000000000005"),
        (Brand::Maestro, "6759649826438453"),
        (Brand::Maestro, "5018000000000009"),
        (Brand::Mir, "2200000000000004"),
        (Brand::Unknown, "9999990000000000"),
    ];
    for (brand, number) in table {
        assert_eq!(Brand::of(number), brand, "{}", &number[..6]);
    }
}

#[test]
fn the_ends_of_the_ranges_count_and_their_neighbours_do_not() {
    let table = [
        ("222099", Brand::Unknown),
        ("222100", Brand::Mastercard),
        ("272099", Brand::Mastercard),
        ("272100", Brand::Unknown),
        ("219999", Brand::Unknown),
        ("220499", Brand::Mir),
        ("220500", Brand::Unknown),
        ("352799", Brand::Unknown),
        ("358999", Brand::Jcb),
        ("359000", Brand::Unknown),
        ("601199", Brand::Discover),
        ("601200", Brand::Unknown),
        ("643999", Brand::Unknown),
        ("644000", Brand::Discover),
        ("599999", Brand::Unknown),
        ("000000", Brand::Unknown),
        ("41111", Brand::Unknown),
    ];
    for (digits, brand) in table {
        assert_eq!(Brand::of(digits), brand, "{digits}");
    }
}

#[test]
fn luhn_finds_every_single_wrong_digit() {
    let right = "4539578763621486";
    assert!(luhn(right));
    for position in 0..right.len() {
        for digit in ('0'..='9').filter(|digit| !right[position..].starts_with(*digit)) {
            let mut wrong = right.to_owned();
            wrong.replace_range(position..=position, &digit.to_string());
            assert!(!luhn(&wrong), "{wrong}");
        }
    }
}
