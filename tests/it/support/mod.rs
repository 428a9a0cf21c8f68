//! What tests stand on: servers, clients, components.

use std::io::Write as _;

pub mod binary;
pub mod browser;
pub mod client;
pub mod faults;
pub mod gate;
pub mod guests;
pub mod hostile_components;
pub mod operator;
pub mod pem;
pub mod receiver;
pub mod scripts;
pub mod server;
pub mod tamper;
pub mod upstream;
pub mod workshop;
pub mod wrapped;

pub use client::{Answer, Client};
pub use server::TestServer;

/// Valid values that nobody's account has, for every token type.
pub const SAMPLES: &[(&str, &str)] = &[
    ("token", r#"{"any": ["thing", 1, true]}"#),
    (
        "card",
        r#"{"number": "4242424242424242", "expiration_month": 12, "expiration_year": 2030, "cvc": "123"}"#,
    ),
    ("card_number", r#""5555555555554444""#),
    ("bank", r#"{"routing_number": "021000021", "account_number": "9876543210"}"#),
    ("us_bank_account_number", r#""9876543210""#),
    ("us_bank_routing_number", r#""021000021""#),
    ("social_security_number", r#""123-45-6789""#),
    ("employer_id_number", r#""12-3456789""#),
];

/// Says what this machine keeps from being tested, past what the harness keeps to itself of tests that pass.
pub fn skipped(why: &str) {
    let _ = writeln!(std::io::stderr(), "SKIPPED: {why}");
}
