//! One JSON object that says what to pay, with the card as its source.

use tokamak_sdk::number::whole;
use tokamak_sdk::{Map, Value, json};

use super::{Approval, Checks, Status, Verdict, id, text};
use crate::payment::Payment;

/// Where a refusal says its code, the most telling first.
pub(super) const CODES: &[&str] = &[
    "/decline_code",
    "/error/decline_code",
    "/response_code",
    "/error/code",
    "/error_codes/0",
    "/code",
    "/error_type",
];

/// The object.
pub(super) fn body(payment: &Payment, descriptor: Option<&str>) -> Value {
    let card = &payment.card;
    let billing = &payment.billing;
    let mut source = json!({
        "type": "card",
        "number": card.number,
        "expiry_month": card.month,
        "expiry_year": card.year,
    });
    let mut body = json!({
        "amount": payment.amount,
        "currency": payment.currency,
        "capture": payment.capture,
    });
    for (member, value) in [("cvv", &card.cvc), ("name", &billing.name), ("phone", &billing.phone)]
    {
        if let Some(value) = value {
            source[member] = value.as_str().into();
        }
    }
    if !billing.address.is_empty() {
        let address: Map<_, _> = billing
            .address
            .iter()
            .map(|(name, value)| ((*name).to_owned(), value.as_str().into()))
            .collect();
        source["billing_address"] = address.into();
    }
    body["source"] = source;
    if let Some(email) = &billing.email {
        body["customer"] = json!({ "email": email });
    }
    let reference = payment.reference.as_deref();
    for (member, value) in [("reference", reference), ("statement_descriptor", descriptor)] {
        if let Some(value) = value {
            body[member] = value.into();
        }
    }
    body
}

/// What an answer says. `status` decides, when there is one that is known; else `approved`. What both deny each other is not
/// understood.
pub(super) fn verdict(answer: &Value, payment: &Payment) -> Option<Verdict> {
    let asked = if payment.capture { Status::Captured } else { Status::Authorized };
    let word = answer["status"].as_str().map(str::to_ascii_lowercase);
    let status = match (answer["approved"].as_bool(), word.as_deref()) {
        // Nothing is decided yet, whatever else is said.
        (_, Some("pending" | "processing")) => Status::Pending,
        (_, Some("requires_action" | "action_required")) => Status::RequiresAction,
        (Some(false), None)
        | (_, Some("declined" | "refused" | "rejected" | "failed" | "canceled" | "cancelled")) => {
            return Some(Verdict::Declined);
        }
        (Some(false), _) => return None,
        (_, Some("authorized" | "authorised" | "requires_capture")) => Status::Authorized,
        (_, Some("captured" | "paid" | "settled")) => Status::Captured,
        (_, Some("approved" | "succeeded")) | (Some(true), None) => asked,
        _ => return None,
    };
    let source = &answer["source"];
    let first = |places: &[Option<&Value>]| places.iter().find_map(|place| text(*place, payment));
    Some(Verdict::Accepted(Approval {
        status,
        id: id(answer, payment)?,
        // An answer without them is about what was asked; one to a part of it says so.
        amount: match &answer["amount"] {
            Value::Null => payment.amount,
            amount => whole(amount)?,
        },
        currency: match &answer["currency"] {
            Value::Null => payment.currency.clone(),
            currency => text(Some(currency), payment)?.to_ascii_uppercase(),
        },
        network_transaction_id: first(&[
            answer.get("network_transaction_id"),
            answer.get("scheme_id"),
        ]),
        checks: Checks {
            cvc: first(&[source.get("cvv_check"), source.get("cvc_check")]),
            address: first(&[source.get("avs_check")]),
            postal_code: first(&[source.get("postal_code_check")]),
        },
    }))
}
