//! One payment at the processor: the request, and what its answer means for the caller.

use tokamak_sdk::{Error, Invocation, Value, clock, http, log};

use crate::payment::{Key, Payment};
use crate::settings::Settings;
use crate::style::{Approval, Verdict};

/// What is kept of the invocation's time to say that the processor did not answer within it.
const RESERVE_MS: u64 = 500;
const STILL_AT_WORK: &str = "the processor is still at work on this payment";

/// Which argument a parameter of the processor's stands for, if any; the first part that its name holds decides.
const PARAMETERS: &[(&str, Option<&str>)] = &[
    ("billing", Some("args.billing")),
    // Addresses that nobody gave, and numbers of something else than of the card.
    ("ip_address", None),
    ("email", None),
    ("address", Some("args.billing")),
    ("phone", None),
    ("account", None),
    ("routing", None),
    ("amount", Some("args.amount")),
    ("currency", Some("args.currency")),
    ("reference", Some("args.reference")),
    ("number", Some("args.card.number")),
    ("month", Some("args.card.expiration_month")),
    ("year", Some("args.card.expiration_year")),
    ("cvc", Some("args.card.cvc")),
    ("cvv", Some("args.card.cvc")),
];

/// What is known of a payment before it is answered for.
struct Attempt<'a> {
    /// What makes it one payment, however often it is sent.
    key: &'a str,
    /// Whether the key is the caller's, who knows it.
    is_callers: bool,
    /// When it may have been made already.
    before: Before,
}

/// When a payment may have been made before this request.
#[derive(PartialEq, Eq)]
enum Before {
    /// Never: nothing was sent.
    Never,
    /// By a call under the same key of the caller's, if there was one; most often there was none.
    Perhaps,
    /// It was sent: by the call that is repeated, or by this one, on a connection that broke.
    Sent,
}

/// Makes the payment.
pub(crate) fn authorize(
    payment: &Payment,
    settings: &Settings,
    invocation: &Invocation,
) -> Result<Approval, Error> {
    let key = match &payment.key {
        Key::Own => &invocation.id,
        Key::Earlier(key) | Key::Callers(key) => key,
    };
    let send = || {
        let request = http::post(&settings.url)
            .bearer(&settings.api_key)
            .header("idempotency-key", key)
            .header("accept", "application/json");
        let request = match timeout_ms(settings, invocation) {
            Some(timeout_ms) => request.timeout_ms(timeout_ms),
            None => request,
        };
        settings.style.write(payment, settings.statement_descriptor.as_deref(), request).send()
    };
    let mut attempt = Attempt {
        key,
        is_callers: matches!(payment.key, Key::Callers(_)),
        before: match payment.key {
            Key::Own => Before::Never,
            Key::Callers(_) => Before::Perhaps,
            Key::Earlier(_) => Before::Sent,
        },
    };
    let answer = match send() {
        // Connections that were idle too long break; the key makes it safe to try again.
        Err(http::Error::Unreachable(_)) => {
            attempt.before = Before::Sent;
            send()
        }
        answer => answer,
    };
    let answer = answer.map_err(|error| {
        // The address is the reactor's own and holds nothing of the payment.
        log::warn(&error);
        match error {
            http::Error::Unreachable(_) => attempt.unknown("the processor cannot be reached"),
            http::Error::Timeout => attempt.unknown("the processor did not answer in time"),
            // The answer: no payment is as large as a request may be.
            http::Error::TooLarge => {
                Error::runtime(attempt.uncertain("the processor's answer is too large"))
            }
            http::Error::Denied(cause) => {
                let what = format!("the request to the processor is not allowed: {cause}");
                Error::runtime(attempt.unmade(what))
            }
            http::Error::Invalid(_) => Error::runtime(
                attempt.unmade("the request to the processor is not valid".to_owned()),
            ),
        }
    })?;
    log::info(format_args!("the processor answered {}", answer.status));
    judge(&answer, payment, settings, &attempt)
}

/// How long the processor may take; none when the host's own bound has to do.
fn timeout_ms(settings: &Settings, invocation: &Invocation) -> Option<u32> {
    let left = invocation.deadline_ms.saturating_sub(clock::now_ms()).saturating_sub(RESERVE_MS);
    // Nothing left means that the clocks of the run and of its deadline disagree.
    let left = u32::try_from(left).ok().filter(|left| *left > 0);
    match (settings.timeout_ms, left) {
        (Some(timeout_ms), Some(left)) => Some(timeout_ms.min(left)),
        (timeout_ms, left) => timeout_ms.or(left),
    }
}

/// What the answer means.
fn judge(
    answer: &http::Response,
    payment: &Payment,
    settings: &Settings,
    attempt: &Attempt<'_>,
) -> Result<Approval, Error> {
    let body: Value = answer.json().unwrap_or_default();
    let code = settings.style.code(&body, payment);
    match answer.status {
        200..=299 => match settings.style.read(&body, payment) {
            Some(Verdict::Accepted(approval)) => {
                log::info(format_args!("the payment is {}", approval.status.name()));
                Ok(approval)
            }
            Some(Verdict::Declined) => Err(declined(code)),
            None => {
                // By which the payment can be looked for, where there is one.
                if let Some(id) = settings.style.id(&body, payment) {
                    log::info(format_args!("the answer's id is {id}"));
                }
                let what = "the processor's answer cannot be understood";
                Err(Error::runtime(attempt.uncertain(what)))
            }
        },
        402 => Err(declined(code)),
        400 | 422 => Err(refused(&body, code, payment, attempt)),
        401 | 403 => {
            let what = with_code("the processor does not accept the reactor's key", code);
            Err(Error::runtime(attempt.unmade(what)))
        }
        429 => {
            let what = "the processor takes no more requests at present".to_owned();
            Err(Error::rate_limit(attempt.unmade(what)))
        }
        409 => Err(attempt.unknown(STILL_AT_WORK)),
        status @ (408 | 500..=599) => {
            Err(attempt.unknown(&format!("the processor answered {status}")))
        }
        status @ 400..=499 => {
            let what = with_code(&format!("the processor answered {status}"), code);
            Err(Error::runtime(attempt.unmade(what)))
        }
        // A redirect may follow a payment that was made.
        status => {
            Err(Error::runtime(attempt.uncertain(&format!("the processor answered {status}"))))
        }
    }
}

fn declined(code: Option<String>) -> Error {
    log::info("the card was declined");
    Error::invalid_payment_method(with_code("the card was declined", code))
}

/// The processor found something wrong; if it is an argument, that is the caller's affair.
fn refused(body: &Value, code: Option<String>, payment: &Payment, attempt: &Attempt<'_>) -> Error {
    let types = [&body["error"]["type"], &body["type"], &body["error"]["code"], &body["code"]];
    let says =
        |part| types.iter().any(|value| value.as_str().is_some_and(|text| text.contains(part)));
    if says("idempotency") && attempt.before != Before::Never {
        // An invocation's own id is nobody else's, and its requests are all alike.
        let member = match &payment.key {
            Key::Own => return attempt.unknown(STILL_AT_WORK),
            _ if says("in_use") => return attempt.unknown(STILL_AT_WORK),
            Key::Earlier(_) => "args.retry_of",
            Key::Callers(_) => "args.idempotency_key",
        };
        let detail = "the processor refused the payment; whether it was made before is not known";
        return Error::bad_request(detail).at(
            member,
            "was sent to the processor with other arguments: those of another payment, or a security code that has \
             been erased since",
        );
    }
    let detail = with_code("the processor refused the payment", code);
    let detail = attempt.unmade(detail);
    let named = [&body["error"]["param"], &body["param"], &body["error_codes"][0]];
    let member = named.iter().filter_map(|value| value.as_str()).find_map(|name| {
        match PARAMETERS.iter().find(|(part, _)| name.contains(part)) {
            Some((_, member)) => *member,
            // Not that of a key, a session or a version.
            None => is_of_card(name).then_some("args.card"),
        }
    });
    match member {
        Some(member) => Error::bad_request(detail).at(member, "is not accepted by the processor"),
        None => Error::runtime(detail),
    }
}

/// Whether what is wrong is the card as a whole, or its expiry.
fn is_of_card(name: &str) -> bool {
    let words: Vec<&str> = name.split(|c: char| !c.is_ascii_alphanumeric()).collect();
    let has = |word: &str| words.contains(&word);
    let ends_with_card = words.iter().rfind(|word| !word.is_empty()) == Some(&"card");
    let is_expiry = has("expiry") || has("expiration") || name == "expired";
    ends_with_card || is_expiry || has("card") && words.iter().any(|word| word.starts_with("expir"))
}

impl Attempt<'_> {
    fn unknown(&self, what: &str) -> Error {
        Error::service_unavailable(self.uncertain(what))
    }

    /// Says how to find out. The id of an invocation is no secret.
    fn uncertain(&self, what: &str) -> String {
        let key = self.key;
        if self.is_callers {
            return format!(
                "{what}; whether the payment was made is not known: call again with the same arguments, \
                 `idempotency_key` among them, within a day of the first call, and it is made once"
            );
        }
        format!(
            "{what}; whether the payment was made is not known: call again with the same arguments and `retry_of` \
             set to {key} within a day of the first call, and it is made once"
        )
    }

    /// What is said of one that was not made this time, and says nothing of the time before.
    fn unmade(&self, what: String) -> String {
        match self.before {
            Before::Never => what,
            Before::Sent => self.uncertain(&what),
            Before::Perhaps => {
                format!("{what}; of earlier calls with this `idempotency_key` that says nothing")
            }
        }
    }
}

fn with_code(what: &str, code: Option<String>) -> String {
    code.map_or_else(|| what.to_owned(), |code| format!("{what} ({code})"))
}
