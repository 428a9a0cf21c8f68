//! What is paid: the entries of the arguments, checked.

use tokamak_sdk::{Faults, Value, number};

use crate::field::{identification, is_digits, is_routing_number, plain};
use crate::member::Members;

/// Most entries of a file: its text must fit into a token, 1 MiB.
const ENTRIES_MAX: usize = 10_000;
/// Most cents of an entry: its field has ten digits.
const CENTS_MAX: u64 = 9_999_999_999;
/// Most characters of what identifies the other side.
const ID_CHARS_MAX: usize = 15;
/// Most cents of all credits, or of all debits: the totals' fields have twelve digits.
const TOTAL_CENTS_MAX: u64 = 999_999_999_999;

/// What kind of account the other side has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AccountType {
    /// Demand deposits
    Checking,
    /// Savings
    Savings,
}

impl AccountType {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "checking" => Some(Self::Checking),
            "savings" => Some(Self::Savings),
            _ => None,
        }
    }
}

/// Which way the money goes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// To the account.
    Credit,
    /// From the account.
    Debit,
}

impl Kind {
    fn parse(name: &str) -> Option<Self> {
        match name {
            "credit" => Some(Self::Credit),
            "debit" => Some(Self::Debit),
            _ => None,
        }
    }
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
pub(crate) fn read_entries(given: &[Value], faults: &mut Faults) -> Option<Vec<Entry>> {
    if given.is_empty() || given.len() > ENTRIES_MAX {
        faults.add("args.entries", format!("must have 1 to {ENTRIES_MAX} entries"));
    }
    let read: Vec<_> = given
        .iter()
        .take(ENTRIES_MAX)
        .enumerate()
        .map(|(index, entry)| read_entry(entry, format!("args.entries[{index}]"), faults))
        .collect();
    for kind in [Kind::Credit, Kind::Debit] {
        // Those that are right may be too much already.
        let of_kind = read.iter().flatten().filter(|entry| entry.kind == kind);
        if of_kind.map(|entry| entry.amount_cents).sum::<u64>() > TOTAL_CENTS_MAX {
            faults.add("args.entries", "must sum up to 999999999999 cents of a kind at most");
        }
    }
    read.into_iter().collect()
}

fn read_entry(given: &Value, path: String, faults: &mut Faults) -> Option<Entry> {
    let mut entry = Members::of(given, path, faults)?;
    let bank = entry.object("bank").and_then(read_bank);
    let prenote = match entry.get("prenote") {
        None | Some(Value::Null) => Some(false),
        Some(prenote) => entry.expect("prenote", prenote.as_bool(), "must be true or false"),
    };
    let amount_cents = read_amount(&mut entry, prenote);
    let name = entry.text("name", plain, "must have letters or digits");
    let individual_id = entry.text_or(
        "individual_id",
        String::new(),
        |id| identification(id, 0..=ID_CHARS_MAX),
        "must have at most 15 characters, all of them printable ASCII",
    );
    let account_type =
        entry.choice("account_type", AccountType::parse, "must be `checking` or `savings`");
    let kind = entry.choice("kind", Kind::parse, "must be `credit` or `debit`");
    let (routing_number, account_number) = bank?;
    Some(Entry {
        routing_number,
        account_number,
        amount_cents: amount_cents?,
        name: name?,
        individual_id: individual_id?,
        kind: kind?,
        transaction_code: transaction_code(account_type?, kind?, prenote?),
    })
}

/// The routing number and the account number of the data of a token of type `bank`.
fn read_bank(mut bank: Members) -> Option<(String, String)> {
    let routing_number = bank.text(
        "routing_number",
        |number| is_routing_number(number).then(|| number.to_owned()),
        "must be a routing number: nine digits, of a district that is given out, with a right checksum",
    );
    let account_number = bank.text(
        "account_number",
        |number| is_digits(number, 1..=17).then(|| number.to_owned()),
        "must have 1 to 17 digits",
    );
    routing_number.zip(account_number)
}

/// The amount, which a prenote need not have; how much it may be is open while it is not known whether this is one.
fn read_amount(entry: &mut Members, prenote: Option<bool>) -> Option<u64> {
    let given = match prenote {
        Some(false) => Some(entry.required("amount_cents")?),
        _ => entry.get("amount_cents").filter(|given| !given.is_null()),
    };
    let cents = match given {
        None => Some(0),
        Some(given) => {
            let expected = "must be a whole number of cents, 0 or more";
            entry.expect("amount_cents", cents(given), expected)
        }
    }?;
    let (right, expected) = if prenote? {
        (cents == 0, "must be 0 in a prenote")
    } else {
        ((1..=CENTS_MAX).contains(&cents), "must be a whole number from 1 to 9999999999")
    };
    entry.expect("amount_cents", right.then_some(cents), expected)
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
fn cents(given: &Value) -> Option<u64> {
    match given {
        Value::Number(_) => number::whole(given),
        Value::String(cents) => {
            Some(cents.trim()).filter(|cents| is_digits(cents, 1..=18))?.parse().ok()
        }
        _ => None,
    }
}
