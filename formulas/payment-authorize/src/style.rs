//! The ways in which processors are spoken to.
//!
//! A style writes a payment as a request and reads what is said of it; statuses of HTTP mean the same in all, see
//! `processor`. To add one: a variant, its module, and a row in each `match` here.

mod intents;
mod json;

use serde::Serialize;
use tokamak_sdk::number::whole;
use tokamak_sdk::{Value, http};

use crate::card::Card;
use crate::payment::Payment;

/// A way to speak to a processor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// A form that makes a payment intent and confirms it.
    PaymentIntents,
    /// A JSON object with the card as its source.
    Json,
}

impl Style {
    /// The style of this name.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        match name {
            "payment_intents" => Some(Self::PaymentIntents),
            "json" => Some(Self::Json),
            _ => None,
        }
    }

    /// Where payments are made below the base of the API.
    pub(crate) fn path(self) -> &'static str {
        match self {
            Self::PaymentIntents => "/v1/payment_intents",
            Self::Json => "/payments",
        }
    }

    /// The request with the payment as its body, and what its statement is to say.
    pub(crate) fn write(
        self,
        payment: &Payment,
        descriptor: Option<&str>,
        request: http::Request,
    ) -> http::Request {
        match self {
            Self::PaymentIntents => request.form(&intents::fields(payment, descriptor)),
            Self::Json => request.json(&json::body(payment, descriptor)),
        }
    }

    /// What became of the payment; none when the answer does not say.
    pub(crate) fn read(self, answer: &Value, payment: &Payment) -> Option<Verdict> {
        match self {
            Self::PaymentIntents => intents::verdict(answer, payment),
            Self::Json => json::verdict(answer, payment),
        }
    }

    /// The processor's id of what it answers about.
    pub(crate) fn id(self, answer: &Value, payment: &Payment) -> Option<String> {
        match self {
            Self::PaymentIntents | Self::Json => code(&id(answer, payment)?.into(), payment),
        }
    }

    /// The processor's code for what it refuses.
    pub(crate) fn code(self, answer: &Value, payment: &Payment) -> Option<String> {
        let places = match self {
            Self::PaymentIntents => intents::CODES,
            Self::Json => json::CODES,
        };
        places.iter().find_map(|place| code(answer.pointer(place)?, payment))
    }
}

/// What became of a payment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It was made, or may yet be.
    Accepted(Approval),
    /// It was not.
    Declined,
}

/// What the caller learns of a payment.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Approval {
    pub(crate) status: Status,
    pub(crate) id: String,
    /// In the currency's minor unit.
    pub(crate) amount: u64,
    pub(crate) currency: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) network_transaction_id: Option<String>,
    #[serde(skip_serializing_if = "Checks::is_empty")]
    pub(crate) checks: Checks,
}

/// How far a payment is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Status {
    Authorized,
    Captured,
    Pending,
    RequiresAction,
}

impl Status {
    /// The name that callers read.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Authorized => "authorized",
            Self::Captured => "captured",
            Self::Pending => "pending",
            Self::RequiresAction => "requires_action",
        }
    }
}

/// What the issuer says of what was sent along, in the processor's words.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Checks {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cvc: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) address: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) postal_code: Option<String>,
}

impl Checks {
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// A short text of an answer, unless it repeats the card.
fn text(value: Option<&Value>, payment: &Payment) -> Option<String> {
    let text = value?.as_str()?;
    let right = !text.is_empty() && text.len() <= 200 && !repeats(text, &payment.card);
    right.then(|| text.to_owned())
}

/// What an answer calls the payment: a text, or a number where payments are counted.
fn id(answer: &Value, payment: &Payment) -> Option<String> {
    match answer.get("id")? {
        number @ Value::Number(_) => text(Some(&whole(number)?.to_string().into()), payment),
        named => text(Some(named), payment),
    }
}

/// Whether a text has the card's number in it, whatever stands between its digits, or is the security code. Ids have three
/// digits in a row by chance, so what else is a letter or digit makes it another text.
fn repeats(text: &str, card: &Card) -> bool {
    let only = |these: fn(&char) -> bool| text.chars().filter(these).collect::<String>();
    only(char::is_ascii_digit).contains(&card.number)
        || card.cvc.as_ref().is_some_and(|cvc| only(char::is_ascii_alphanumeric) == *cvc)
}

/// A code: letters, digits and what joins them.
fn code(value: &Value, payment: &Payment) -> Option<String> {
    let joins = |byte: u8| byte.is_ascii_alphanumeric() || b"_-.".contains(&byte);
    text(Some(value), payment).filter(|code| code.len() <= 64 && code.bytes().all(joins))
}

#[cfg(test)]
mod tests {
    use super::repeats;
    use crate::card::Card;

    #[test]
    fn the_card_is_known_again_whatever_stands_between_its_digits() {
        let card = |cvc: Option<&str>| Card {
            number: "4242424242424242".to_owned(),
            month: 12,
            year: 2030,
            cvc: cvc.map(str::to_owned),
        };
        for text in [
            "4242424242424242",
            "4242-4242-4242-4242",
            "card 4242 4242.4242_4242, declined",
            "pi_17_4242424242424242",
            "4x2x4242424242424x2",
            "987",
            " 9-8.7 ",
            "(987)",
        ] {
            assert!(repeats(text, &card(Some("987"))), "{text}");
        }
        for text in ["", "pi_987", "20987", "4242-4242-4242", "do_not_honor", "9870", "\u{663}87"] {
            assert!(!repeats(text, &card(Some("987"))), "{text}");
        }
        assert!(!repeats("987", &card(None)) && !repeats("", &card(None)));
    }
}
