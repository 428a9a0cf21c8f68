//! What is to be paid: the arguments, checked.

use tokamak_sdk::clock::Minute;
use tokamak_sdk::{Faults, Map, Value};

use crate::card::Card;
use crate::number::whole;

/// Most that processors take in one payment.
const AMOUNT_MAX: u64 = 99_999_999;
/// Most characters of a reference and of a member of `billing`.
const TEXT_CHARS_MAX: usize = 200;

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
    /// An earlier invocation of the same payment.
    pub(crate) retry_of: Option<String>,
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

const ADDRESS: &[&str] = &["line1", "line2", "city", "state", "postal_code", "country"];

impl Payment {
    /// Reads the arguments; notes all that is wrong with them.
    pub(crate) fn read(args: &Value, now: Minute, faults: &mut Faults) -> Option<Self> {
        let card = Card::read(&args["card"], now, faults);
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
        let retry_of = text(&args["retry_of"], "args.retry_of", faults);
        if retry_of.as_deref().is_some_and(|id| !is_invocation(id)) {
            faults.add("args.retry_of", "must be the id of an invocation");
        }
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
            // As ids are written: to a processor, the same in capitals is the key of another payment.
            retry_of: retry_of.map(|id| id.to_ascii_lowercase()),
        })
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
    faults.expect(text, member, "must be a string of 1 to 200 characters").map(str::to_owned)
}

/// Whether this is an id as invocations have them: 32 hexadecimal digits in five groups.
fn is_invocation(id: &str) -> bool {
    let mut groups = id.split('-');
    let right = [8, 4, 4, 4, 12].into_iter().all(|digits| {
        groups.next().is_some_and(|group| {
            group.len() == digits && group.bytes().all(|byte| byte.is_ascii_hexdigit())
        })
    });
    right && groups.next().is_none()
}
