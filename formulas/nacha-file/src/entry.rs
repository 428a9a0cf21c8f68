//! What is paid: the entries of the arguments, checked.

use std::fmt;

use serde::de::{Unexpected, Visitor};
use serde::{Deserialize, Deserializer};
use tokamak_sdk::Faults;

use crate::field::{is_digits, is_routing_number, plain};

/// Most entries of a file: its text must fit into a token, 1 MiB.
const ENTRIES_MAX: usize = 10_000;
/// Most cents of an entry: its field has ten digits.
const CENTS_MAX: u64 = 9_999_999_999;
/// Most cents of all credits, or of all debits: the totals' fields have twelve digits.
const TOTAL_CENTS_MAX: u64 = 999_999_999_999;

/// An entry, as the caller writes it.
#[derive(Deserialize)]
pub(crate) struct EntryArgs {
    bank: Bank,
    #[serde(default, deserialize_with = "cents")]
    amount_cents: Option<u64>,
    name: String,
    individual_id: Option<String>,
    account_type: AccountType,
    kind: Kind,
    #[serde(default)]
    prenote: bool,
}

/// The data of a token of type `bank`.
#[derive(Deserialize)]
struct Bank {
    routing_number: String,
    account_number: String,
}

/// What kind of account the other side has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum AccountType {
    /// Demand deposits
    Checking,
    /// Savings
    Savings,
}

/// Which way the money goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Kind {
    /// To the account.
    Credit,
    /// From the account.
    Debit,
}

/// An entry, as the file has it.
pub(crate) struct Entry {
    pub(crate) routing_number: String,
    pub(crate) account_number: String,
    pub(crate) amount_cents: u64,
    pub(crate) name: String,
    pub(crate) individual_id: String,
    pub(crate) kind: Kind,
    pub(crate) transaction_code: u64,
}

/// Checks the entries; notes all that is wrong with each.
pub(crate) fn read_entries(given: Vec<EntryArgs>, faults: &mut Faults) -> Option<Vec<Entry>> {
    if given.is_empty() || given.len() > ENTRIES_MAX {
        faults.add("args.entries", format!("must have 1 to {ENTRIES_MAX} entries"));
        return None;
    }
    let read: Vec<_> = given
        .into_iter()
        .enumerate()
        .map(|(index, entry)| read_entry(entry, &format!("args.entries[{index}]"), faults))
        .collect();
    let entries: Vec<Entry> = read.into_iter().collect::<Option<_>>()?;
    for kind in [Kind::Credit, Kind::Debit] {
        let of_kind = entries.iter().filter(|entry| entry.kind == kind);
        if of_kind.map(|entry| entry.amount_cents).sum::<u64>() > TOTAL_CENTS_MAX {
            faults.add("args.entries", "must sum up to 999999999999 cents of a kind at most");
        }
    }
    Some(entries)
}

fn read_entry(given: EntryArgs, path: &str, faults: &mut Faults) -> Option<Entry> {
    let routing_number = faults.expect(
        Some(given.bank.routing_number).filter(|number| is_routing_number(number)),
        &format!("{path}.bank.routing_number"),
        "must be a routing number, nine digits with a right checksum",
    );
    let account_number = faults.expect(
        Some(given.bank.account_number).filter(|number| is_digits(number, 1..=17)),
        &format!("{path}.bank.account_number"),
        "must have 1 to 17 digits",
    );
    let (amount, expected) = match given.amount_cents.unwrap_or(0) {
        0 if given.prenote => (Some(0), ""),
        _ if given.prenote => (None, "must be 0 in a prenote"),
        cents @ 1..=CENTS_MAX => (Some(cents), ""),
        _ => (None, "must be from 1 to 9999999999"),
    };
    let amount_cents = faults.expect(amount, &format!("{path}.amount_cents"), expected);
    let name =
        faults.expect(plain(&given.name), &format!("{path}.name"), "must have letters or digits");
    Some(Entry {
        routing_number: routing_number?,
        account_number: account_number?,
        amount_cents: amount_cents?,
        name: name?,
        individual_id: given.individual_id.as_deref().and_then(plain).unwrap_or_default(),
        kind: given.kind,
        transaction_code: transaction_code(given.account_type, given.kind, given.prenote),
    })
}

/// The code of an entry (NACHA operating rules, appendix three).
fn transaction_code(account_type: AccountType, kind: Kind, prenote: bool) -> u64 {
    let live = match (account_type, kind) {
        (AccountType::Checking, Kind::Credit) => 22,
        (AccountType::Checking, Kind::Debit) => 27,
        (AccountType::Savings, Kind::Credit) => 32,
        (AccountType::Savings, Kind::Debit) => 37,
    };
    live + u64::from(prenote)
}

/// Reads cents, as a whole number or as its digits. Members of arrays are not cast by the host, and an
/// amount that comes from a token may be text.
fn cents<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    deserializer.deserialize_any(Cents).map(Some)
}

struct Cents;

impl Visitor<'_> for Cents {
    type Value = u64;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a whole number of cents, 0 or more")
    }

    fn visit_u64<E: serde::de::Error>(self, cents: u64) -> Result<u64, E> {
        Ok(cents)
    }

    fn visit_f64<E: serde::de::Error>(self, cents: f64) -> Result<u64, E> {
        // The text of a whole float is its digits, so no cast can cut anything off.
        cents.to_string().parse().map_err(|_| E::invalid_value(Unexpected::Float(cents), &self))
    }

    fn visit_str<E: serde::de::Error>(self, cents: &str) -> Result<u64, E> {
        let digits = Some(cents.trim()).filter(|cents| is_digits(cents, 1..=18));
        digits
            .and_then(|digits| digits.parse().ok())
            .ok_or_else(|| E::invalid_value(Unexpected::Other("text"), &self))
    }
}
