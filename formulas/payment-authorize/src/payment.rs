//! What is to be paid: the arguments, checked.

use tokamak_sdk::clock::{self, Minute};
use tokamak_sdk::number::whole;
use tokamak_sdk::{Faults, Map, Value};

use crate::card::Card;

/// Most that processors take in one payment.
const AMOUNT_MAX: u64 = 99_999_999;
/// Most characters of a reference and of a member of `billing`.
const TEXT_CHARS_MAX: usize = 200;
/// Most characters of a payment's key.
const KEY_CHARS_MAX: usize = 255;
/// How long an invocation can be repeated. Processors forget keys after a day, and would then make another payment.
const RETRY_MS_MAX: u64 = 24 * 60 * 60 * 1_000;

/// A payment.
pub(crate) struct Payment {
    pub(crate) card: Card,
    /// In the currency's minor unit.
    pub(crate) amount: u64,
    /// Three capitals.
    pub(crate) currency: String,
    pub(crate) capture: bool,
    pub(crate) reference: Option<String>,
    pub(crate) billing: Billing,
    pub(crate) key: Key,
}

/// What makes it one payment, however often it is sent.
pub(crate) enum Key {
    /// The invocation's own id.
    Own,
    /// That of an earlier invocation of the same payment.
    Earlier(String),
    /// The caller's, who may have sent it before.
    Callers(String),
}

/// Who is charged; each member may be missing.
#[derive(Default)]
pub(crate) struct Billing {
    pub(crate) name: Option<String>,
    pub(crate) email: Option<String>,
    pub(crate) phone: Option<String>,
    /// `line1`, `line2`, `city`, `state`, `postal_code`, `country`, as far as they are given.
    pub(crate) address: Vec<(&'static str, String)>,
}

/// How far the last place on earth is behind UTC.
const BEHIND_UTC_MS: u64 = 12 * 60 * 60 * 1000;

const ADDRESS: &[&str] = &["line1", "line2", "city", "state", "postal_code", "country"];

impl Payment {
    /// Reads the arguments of an invocation that ends by then; notes all that is wrong with them.
    pub(crate) fn read(args: &Value, deadline_ms: u64, faults: &mut Faults) -> Option<Self> {
        let is_first = args["retry_of"].is_null() && args["idempotency_key"].is_null();
        // What became of an earlier payment is to be learned although the card has expired since.
        // A card is good to the last day of its month where it is used, which may still have begun yesterday here.
        let latest = || Minute::at_ms(clock::now_ms().saturating_sub(BEHIND_UTC_MS));
        let card = Card::read(&args["card"], is_first.then(latest), faults);
        let amount = whole(&args["amount"]).filter(|amount| (1..=AMOUNT_MAX).contains(amount));
        let amount = faults.expect(amount, "args.amount", "must be a whole number, 1 to 99999999");
        let currency = args["currency"].as_str().map(str::trim).filter(|currency| {
            currency.len() == 3 && currency.bytes().all(|byte| byte.is_ascii_alphabetic())
        });
        let currency =
            faults.expect(currency, "args.currency", "must be a code of three letters (ISO 4217)");
        let capture = match &args["capture"] {
            Value::Null => Some(false),
            capture => capture.as_bool(),
        };
        let capture = faults.expect(capture, "args.capture", "must be true or false");
        let reference = text(&args["reference"], "args.reference", faults);
        let key = Key::read(args, deadline_ms, faults);
        let billing = match &args["billing"] {
            Value::Null => Some(Billing::default()),
            billing => faults
                .expect(billing.as_object(), "args.billing", "must be an object")
                .map(|billing| Billing::read(billing, faults)),
        };
        Some(Self {
            card: card?,
            amount: amount?,
            currency: currency?.to_ascii_uppercase(),
            capture: capture?,
            reference,
            billing: billing?,
            key,
        })
    }
}

impl Key {
    fn read(args: &Value, deadline_ms: u64, faults: &mut Faults) -> Self {
        let own = match &args["idempotency_key"] {
            Value::Null => None,
            key => {
                let key = key.as_str().filter(|key| is_key(key));
                let expected = "must be a string of 1 to 255 visible ASCII characters";
                faults.expect(key, "args.idempotency_key", expected)
            }
        };
        let earlier = text(&args["retry_of"], "args.retry_of", faults);
        if let Some(id) = &earlier {
            if !is_invocation(id) {
                faults.add("args.retry_of", "must be the id of an invocation");
            } else if own.is_some() {
                faults.add(
                    "args.retry_of",
                    "must be absent beside idempotency_key, which is the payment's own",
                );
            } else if is_too_old(id, deadline_ms) {
                let fault = "is more than a day old: the processor may make the payment a second time; whether it was \
                             made is known there";
                faults.add("args.retry_of", fault);
            }
        }
        match (own, earlier) {
            (Some(key), _) => Self::Callers(key.to_owned()),
            // As ids are written: to a processor, the same in capitals is the key of another payment.
            (None, Some(id)) => Self::Earlier(id.to_ascii_lowercase()),
            (None, None) => Self::Own,
        }
    }
}

impl Billing {
    fn read(billing: &Map<String, Value>, faults: &mut Faults) -> Self {
        let mut member = |name: &str| {
            let value = billing.get(name).unwrap_or(&Value::Null);
            text(value, &format!("args.billing.{name}"), faults)
        };
        let (name, email, phone) = (member("name"), member("email"), member("phone"));
        let address = ADDRESS.iter().filter_map(|name| Some((*name, member(name)?))).collect();
        Self { name, email, phone, address }
    }
}

/// A short text; none when there is none.
fn text(value: &Value, member: &str, faults: &mut Faults) -> Option<String> {
    let text = match value {
        Value::Null => return None,
        value => value.as_str().map(str::trim).filter(|text| {
            !text.is_empty()
                && text.chars().count() <= TEXT_CHARS_MAX
                && !text.chars().any(char::is_control)
        }),
    };
    let expected = "must be a string of 1 to 200 characters without control characters";
    faults.expect(text, member, expected).map(str::to_owned)
}

/// Whether an invocation is too long ago for what is sent until then, by the clock that told the time of both.
fn is_too_old(id: &str, deadline_ms: u64) -> bool {
    drawn_ms(id).is_some_and(|drawn| deadline_ms.saturating_sub(drawn) > RETRY_MS_MAX)
}

/// When the id was drawn, in milliseconds since the Unix epoch: a UUID of version 7 begins with that.
fn drawn_ms(id: &str) -> Option<u64> {
    let digits: String = id.chars().filter(char::is_ascii_hexdigit).collect();
    u64::from_str_radix(digits.get(..12)?, 16).ok()
}

/// Whether this is an id as invocations have them: 32 hexadecimal digits in five groups, a UUID of version 7.
fn is_invocation(id: &str) -> bool {
    let mut groups = id.split('-');
    let right = [8, 4, 4, 4, 12].into_iter().all(|digits| {
        groups.next().is_some_and(|group| {
            group.len() == digits && group.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    });
    right && groups.next().is_none() && id.get(14..15) == Some("7")
}

/// Whether processors take this for the key of a payment.
fn is_key(key: &str) -> bool {
    (1..=KEY_CHARS_MAX).contains(&key.len()) && key.bytes().all(|byte| byte.is_ascii_graphic())
}
