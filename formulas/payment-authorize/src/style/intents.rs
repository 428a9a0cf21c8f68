//! Payment intents: a form with names in brackets, made and confirmed in one request.

use tokamak_sdk::Value;
use tokamak_sdk::number::whole;

use super::{Approval, Checks, Status, Verdict, text};
use crate::payment::Payment;

/// Where a refusal says its code, the most telling first.
pub(super) const CODES: &[&str] = &[
    "/error/decline_code",
    "/error/code",
    "/last_payment_error/decline_code",
    "/last_payment_error/code",
    "/error/type",
];

/// The fields of the form.
pub(super) fn fields(payment: &Payment, descriptor: Option<&str>) -> Vec<(String, String)> {
    let mut fields = Vec::new();
    let mut add = |name: &str, value: &str| fields.push((name.to_owned(), value.to_owned()));
    add("amount", &payment.amount.to_string());
    add("currency", &payment.currency.to_ascii_lowercase());
    add("confirm", "true");
    add("capture_method", if payment.capture { "automatic" } else { "manual" });
    add("payment_method_types[0]", "card");
    add("payment_method_data[type]", "card");
    let card = &payment.card;
    add("payment_method_data[card][number]", &card.number);
    add("payment_method_data[card][exp_month]", &card.month.to_string());
    add("payment_method_data[card][exp_year]", &card.year.to_string());
    if let Some(cvc) = &card.cvc {
        add("payment_method_data[card][cvc]", cvc);
    }
    let billing = &payment.billing;
    for (name, value) in
        [("name", &billing.name), ("email", &billing.email), ("phone", &billing.phone)]
    {
        if let Some(value) = value {
            add(&format!("payment_method_data[billing_details][{name}]"), value);
        }
    }
    for (name, value) in &billing.address {
        add(&format!("payment_method_data[billing_details][address][{name}]"), value);
    }
    if let Some(reference) = &payment.reference {
        add("metadata[reference]", reference);
    }
    if let Some(descriptor) = descriptor {
        // Cards take a suffix to the account's own prefix, and nothing else.
        add("statement_descriptor_suffix", descriptor);
    }
    // What the network says of the charge comes with the intent.
    add("expand[0]", "latest_charge");
    fields
}

/// What an intent says.
pub(super) fn verdict(answer: &Value, payment: &Payment) -> Option<Verdict> {
    let status = match answer["status"].as_str()? {
        "requires_capture" => Status::Authorized,
        "succeeded" => Status::Captured,
        "processing" => Status::Pending,
        "requires_action" | "requires_confirmation" => Status::RequiresAction,
        "requires_payment_method" | "canceled" => return Some(Verdict::Declined),
        _ => return None,
    };
    let card = &answer["latest_charge"]["payment_method_details"]["card"];
    let check = |name: &str| text(card["checks"].get(name), payment);
    Some(Verdict::Accepted(Approval {
        status,
        id: text(answer.get("id"), payment)?,
        amount: whole(&answer["amount"])?,
        currency: text(answer.get("currency"), payment)?.to_ascii_uppercase(),
        network_transaction_id: text(card.get("network_transaction_id"), payment),
        checks: Checks {
            cvc: check("cvc_check"),
            address: check("address_line1_check"),
            postal_code: check("address_postal_code_check"),
        },
    }))
}
