//! Authorises a payment with a card at a processor's HTTP API.
//!
//! # In
//! The processor is the reactor's configuration (see `formula.json`), the payment the arguments:
//!
//! ```json
//! { "args": { "card": "{{ <token id> }}", "amount": 1250, "currency": "EUR", "reference": "order-17" } }
//! ```
//!
//! `amount` is in minor units. `capture: true` takes the money at once. `billing` may have `name`, `email`, `phone`,
//! `line1`, `line2`, `city`, `state`, `postal_code` and `country`, for checks of the address.
//!
//! # Out
//! In `raw`, for what is authorised:
//!
//! ```json
//! { "status": "authorized", "id": "pi_1", "amount": 1250, "currency": "EUR",
//!   "network_transaction_id": "MCC1", "checks": { "cvc": "pass", "postal_code": "pass" } }
//! ```
//!
//! - `status` is `authorized`, `captured`, `pending` (the processor has not decided), or `requires_action` (the
//!   cardholder has to do something, such as 3-D Secure).
//! - A declined card is an error, *invalid payment method*, with the processor's code in its detail.
//! - What the processor finds wrong with amount, currency or card is a bad request that names the argument; that it
//!   does not take the reactor's key, or that its answer cannot be read, is a runtime error.
//!
//! # Exactly once
//! Send an `idempotency_key` of your own with each payment, such as the order's id: whatever is lost on the way, the
//! same call again is the same payment to the processor. That holds beside the vault's own idempotency header, too, under
//! which what has failed or was cut off is carried out again. Without one, `Idempotency-Key` is the invocation's id, and
//! another invocation is another payment. Either way a broken connection is tried again at once.
//!
//! When it is not known whether the payment was made (no answer or none that can be read, a redirect, or a processor in
//! trouble), the error says to call the reactor again with that key, or with which `retry_of`: the processor then makes
//! the payment or tells what became of it, and never makes a second. A repetition that the processor does not look into
//! says the same again. Processors forget such keys after a day, so no `retry_of` is taken later, and no key should be
//! sent again; and most compare what comes under one: a card whose security code the vault has erased meanwhile makes it
//! another request, which they refuse.

mod card;
mod payment;
mod processor;
mod settings;
mod style;

use tokamak_sdk::{Error, Faults, Request, Response, Value, formula};

use crate::payment::Payment;
use crate::settings::Settings;

#[formula]
fn react(request: Request<Value, Value>) -> Result<Response, Error> {
    let mut faults = Faults::default();
    let settings = Settings::read(&request.configuration, &mut faults);
    let payment = Payment::read(&request.args, request.invocation.deadline_ms, &mut faults);
    let (settings, payment) = match settings.zip(payment) {
        Some(both) if faults.is_empty() => both,
        _ => return Err(faults.into_error("the payment cannot be authorised")),
    };
    processor::authorize(&payment, &settings, &request.invocation).map(Response::raw)
}

#[cfg(test)]
mod tests;
