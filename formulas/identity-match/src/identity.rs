//! A person or company as the caller gives it: checked for its types and brought into one form.
//!
//! What is null or empty is absent. Values of the wrong type are faults, named by their member.

use tokamak_sdk::{Faults, Map, Value, number};

use crate::date::Date;
use crate::text;

/// Digits of the number of a person (`ssn`) and of an employer (`ein`).
const DIGITS: usize = 9;

/// What can be compared; each field may be missing.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Identity {
    /// The caller's own name for it.
    pub(crate) id: Option<String>,
    /// Words in one form, see [`text::words`].
    pub(crate) name: Option<Vec<String>>,
    pub(crate) birth_date: Option<Date>,
    /// Letters and digits alone, as in the next two.
    pub(crate) ssn: Option<String>,
    pub(crate) ein: Option<String>,
    pub(crate) national_id: Option<String>,
    pub(crate) phone: Option<Phone>,
    /// In lower case.
    pub(crate) email: Option<String>,
    pub(crate) address: Option<Address>,
}

/// A telephone number.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Phone {
    /// Digits alone.
    pub(crate) digits: String,
    /// The same without the zero in brackets that some write behind the country's code, if there is one: most countries leave
    /// it out where one calls from abroad, and a few do not.
    pub(crate) from_abroad: Option<String>,
}

impl Phone {
    /// Reads a number; none without digits.
    pub(crate) fn read(text: &str) -> Option<Self> {
        let digits = filled(text::digits(text))?;
        let from_abroad = text.contains("(0)").then(|| text.replacen("(0)", "", 1));
        Some(Self { digits, from_abroad: from_abroad.map(|text| text::digits(&text)) })
    }

    /// Each way in which it may be dialled.
    pub(crate) fn ways(&self) -> impl Iterator<Item = &str> {
        std::iter::once(self.digits.as_str()).chain(self.from_abroad.as_deref())
    }
}

/// An address; each part may be missing, not all of them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Address {
    /// Words of all of it but the country, which many leave out: what there is to compare when one of two is one text.
    pub(crate) whole: Vec<String>,
    /// Words of the lines; none when it was one text, as the next four are.
    pub(crate) lines: Option<Vec<String>>,
    pub(crate) city: Option<Vec<String>>,
    /// Letters and digits alone, as in the next two.
    pub(crate) state: Option<String>,
    pub(crate) postal_code: Option<String>,
    pub(crate) country: Option<String>,
}

impl Address {
    /// Whether it was one text.
    pub(crate) fn is_text(&self) -> bool {
        let Self { lines, city, state, postal_code, country, .. } = self;
        let words = [lines, city].into_iter().all(Option::is_none);
        words && [state, postal_code, country].into_iter().all(Option::is_none)
    }

    /// Its words if it was one text, or those of its lines.
    pub(crate) fn text_or_lines(&self) -> Option<&Vec<String>> {
        if self.is_text() { Some(&self.whole) } else { self.lines.as_ref() }
    }
}

impl Identity {
    /// Reads the member `member` of the request; none and all that is wrong with it noted when something is.
    pub(crate) fn read(value: &Value, member: &str, faults: &mut Faults) -> Option<Self> {
        let members = faults.expect(value.as_object(), member, "must be an object")?;
        let mut reader = Reader { members, member, faults, right: true };
        let names = ["name", "first_name", "middle_name", "last_name"];
        let parts: Vec<Option<String>> = names.iter().map(|name| reader.text(name)).collect();
        // The whole name goes before its parts: a caller who gives both repeats them.
        let mut parts = parts.into_iter().map(Option::unwrap_or_default);
        let whole = text::words(&parts.next().unwrap_or_default());
        let name = some_words(whole).or_else(|| {
            let parts: Vec<String> = parts.collect();
            some_words(text::words(&parts.join(" ")))
        });
        let birth_date = reader.text("birth_date").map(|text| Date::parse(&text));
        if birth_date == Some(None) {
            reader.fault("birth_date", "must be a date, YYYY-MM-DD");
        }
        let code = |text: Option<String>| text.map(|text| text::code(&text)).and_then(filled);
        let identity = Self {
            id: reader.text("id"),
            name,
            birth_date: birth_date.flatten(),
            ssn: code(reader.nine_digits("ssn")),
            ein: code(reader.nine_digits("ein")),
            national_id: code(reader.national_id()),
            phone: reader.text("phone").and_then(|text| Phone::read(&text)),
            email: reader.text("email").map(|text| text.to_lowercase()),
            address: reader.address(),
        };
        reader.right.then_some(identity)
    }

    /// Whether there is nothing to compare.
    pub(crate) fn is_empty(&self) -> bool {
        *self == Self { id: self.id.clone(), ..Self::default() }
    }
}

/// Reads the members of one object.
struct Reader<'a> {
    members: &'a Map<String, Value>,
    /// Where the object is in the request.
    member: &'a str,
    faults: &'a mut Faults,
    /// Whether nothing was wrong so far.
    right: bool,
}

impl Reader<'_> {
    fn fault(&mut self, name: &str, message: &str) {
        self.faults.add(format!("{}.{name}", self.member), message);
        self.right = false;
    }

    /// A text that is not blank. A number will do, since a cast or a caller may have made it one.
    fn text(&mut self, name: &str) -> Option<String> {
        match self.members.get(name) {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) if text.chars().count() > text::CHARS_MAX => {
                self.fault(name, "must have at most 500 characters");
                None
            }
            Some(Value::String(text)) if name != "id" && text::is_masked(text) => {
                self.masked(name);
                None
            }
            Some(Value::String(text)) => filled(text.trim().to_owned()),
            Some(value @ Value::Number(_)) => {
                let digits = number::whole(value).map(|number| number.to_string());
                if digits.is_none() {
                    self.fault(name, "must be a string or a whole number, 0 or more");
                }
                digits
            }
            Some(_) => {
                self.fault(name, "must be a string");
                None
            }
        }
    }

    /// The number of a person or an employer. A part of one is the same for many: the last four digits, say.
    fn nine_digits(&mut self, name: &str) -> Option<String> {
        let text = self.text(name)?;
        // What stands for digits that are not shown, or for none, is the same for everybody.
        if text.chars().any(|letter| letter.is_alphanumeric() && !letter.is_ascii_digit()) {
            self.fault(
                name,
                "must have no letters: a number that is masked or missing says nothing",
            );
            return None;
        }
        let count = text.chars().filter(char::is_ascii_digit).count();
        if count == 0 || count == DIGITS {
            return Some(text);
        }
        let is_number = self.members.get(name).is_some_and(Value::is_number);
        let why = match (count < DIGITS, is_number) {
            (true, true) => "must be a string: as a number it has lost the zeros it began with",
            (true, false) => "must have nine digits: a part of a number says little",
            (false, _) => "must have nine digits",
        };
        self.fault(name, why);
        None
    }

    /// The number that a state gives its people; some have letters.
    fn national_id(&mut self) -> Option<String> {
        let text = self.text("national_id")?;
        if text.to_uppercase().contains("XXXX") {
            self.masked("national_id");
            return None;
        }
        Some(text)
    }

    fn masked(&mut self, name: &str) {
        self.fault(name, "is masked, so that there is nothing to compare");
    }

    fn address(&mut self) -> Option<Address> {
        let Some(Value::Object(members)) = self.members.get("address") else {
            let whole = some_words(text::words(&self.text("address")?))?;
            return Some(Address { whole, ..Address::default() });
        };
        let member = format!("{}.address", self.member);
        let mut reader = Reader { members, member: &member, faults: self.faults, right: true };
        let lines: Vec<String> =
            ["line1", "line2"].iter().filter_map(|name| reader.text(name)).collect();
        let [lines, city, state, postal_code, country] = [
            lines.join(" "),
            reader.text("city").unwrap_or_default(),
            reader.text("state").unwrap_or_default(),
            reader.text("postal_code").unwrap_or_default(),
            reader.text("country").unwrap_or_default(),
        ];
        let code = |text: &str| filled(text::code(text));
        let address = Address {
            whole: text::words(&[&*lines, &*city, &*state, &*postal_code].join(" ")),
            lines: some_words(text::words(&lines)),
            city: some_words(text::words(&city)),
            state: code(&state),
            postal_code: code(&postal_code),
            country: code(&country),
        };
        self.right &= reader.right;
        (address != Address::default()).then_some(address)
    }
}

fn filled(text: String) -> Option<String> {
    (!text.is_empty()).then_some(text)
}

fn some_words(words: Vec<String>) -> Option<Vec<String>> {
    (!words.is_empty()).then_some(words)
}
