//! Splits an amount into monthly payments that add up to it exactly, and keeps the plan as a token beside the card.
//!
//! The plan holds the card's number, so it lies in `/pci/high/`: the reactor's application, or the caller if it has none,
//! needs a rule that lets it create tokens there.
//!
//! `tokamak formula test` runs `cases/`; what the formula takes is declared by its types.

use serde::{Deserialize, Serialize};
use tokamak_sdk::{Error, Parameters, Request, Response, formula, json};

/// What a call passes.
#[derive(Deserialize, Parameters)]
struct Args {
    /// The card that is charged: a reference to a token of type `card`.
    card: Card,
    /// The whole amount, in minor units.
    amount: u64,
    /// How many payments.
    months: u64,
}

#[derive(Deserialize, Parameters)]
struct Card {
    /// The number, without separators.
    number: String,
}

/// What a reactor configures.
#[derive(Deserialize, Parameters)]
struct Configuration {
    /// The least that one payment may be, in minor units.
    payment_min: u64,
}

#[derive(Serialize)]
struct Plan {
    payments: Vec<u64>,
    last_four: String,
}

#[formula]
fn react(request: Request<Args, Configuration>) -> Result<Response, Error> {
    let Args { card, amount, months } = request.args;
    if !(1..=60).contains(&months) {
        return Err(Error::bad_request("The plan is refused.").at("args.months", "must be from 1 to 60"));
    }
    // The first payments take one unit more each, until nothing is left over.
    let (each, over) = (amount / months, amount % months);
    if each < request.configuration.payment_min {
        return Err(Error::bad_request("The plan is refused.").at("args.amount", "is too small for so many payments"));
    }
    let payments = (0..months).map(|month| each + u64::from(month < over)).collect();
    let start = card.number.len().saturating_sub(4);
    let last_four = card.number.get(start..).unwrap_or_default().to_owned();
    let kept = json!({
        "type": "token",
        "data": { "number": card.number, "payments": payments },
        "containers": ["/pci/high/"],
    });
    Ok(Response::raw(Plan { payments, last_four }).and_tokenize(json!({ "plan": kept })))
}
