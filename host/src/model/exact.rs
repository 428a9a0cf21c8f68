//! Numbers that would not be kept as they were written.
//!
//! A number is held as a whole number of 64 bits or as a double. One of more digits than these hold would come out
//! rounded, and nobody would notice: it is refused. So the text is looked at, since what was parsed of it tells no more.

use std::borrow::Cow;

use serde_json::{Number, Value};
use zeroize::Zeroizing;

use super::faults::Faults;
use super::path::Path;

/// What is wrong with a number that would be rounded.
const ROUNDED: &str = "has more digits than a number can hold; send it as a string";
/// What is wrong with a number that is larger than any double.
const TOO_LARGE: &str = "is too large a number; send it as a string";
/// How the parser begins to tell of one.
const OUT_OF_RANGE: &str = "number out of range";
/// Stands for one where all else of a text is looked at. Nothing that is too large is written in fewer characters.
const STAND_IN: &[u8] = b"1e308";
/// Digits of which any number is a double that is written with the same ones.
const DIGITS_ALWAYS_HELD: usize = 15;
/// Digits of an exponent with which that stays so.
const EXPONENT_ALWAYS_HELD: usize = 2;

/// Whether a JSON number means the same before and after it was parsed.
pub fn is_exact(text: &str) -> bool {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, ""));
    if mantissa.len() <= DIGITS_ALWAYS_HELD
        && exponent.trim_start_matches(['+', '-']).len() <= EXPONENT_ALWAYS_HELD
    {
        return true;
    }
    let parsed = text.parse::<Number>();
    parsed.is_ok_and(|parsed| Decimal::read(text) == Decimal::read(&parsed.to_string()))
}

/// Parses a JSON text. A number that is larger than any double has another in its place, so that it hides nothing else:
/// [`check`] refuses it, where it is read.
pub fn parse(text: &[u8]) -> serde_json::Result<Value> {
    match serde_json::from_slice(text) {
        Err(error) if is_out_of_range(&error) => serde_json::from_slice(&with_stand_ins(text)),
        parsed => parsed,
    }
}

fn is_out_of_range(error: &serde_json::Error) -> bool {
    error.to_string().starts_with(OUT_OF_RANGE)
}

/// Whether it is a number, and one larger than any double. A body may have millions of them: so no words are made of each,
/// as the parser does.
fn is_too_large(number: &str) -> bool {
    let digits = number.strip_prefix('-').unwrap_or(number).as_bytes();
    // What is a number elsewhere, and none in JSON.
    let begins_otherwise = !digits.first().is_some_and(u8::is_ascii_digit)
        || matches!(digits, [b'0', b'0'..=b'9', ..]);
    let point = digits.iter().position(|byte| *byte == b'.');
    let has_bare_point =
        point.is_some_and(|at| !digits.get(at + 1).is_some_and(u8::is_ascii_digit));
    !begins_otherwise && !has_bare_point && number.parse::<f64>().is_ok_and(f64::is_infinite)
}

/// The text with another number for each that is too large, at the same place: where something else is wrong stays true.
/// It is not walked as [`check`] walks it, since it may be nested as deep as it likes.
fn with_stand_ins(text: &[u8]) -> Zeroizing<Vec<u8>> {
    let mut fitting = Zeroizing::new(text.to_vec());
    let mut walk = Walk { text, at: 0, is_read: |_: &str| true, faults: Faults::new() };
    while let Some(byte) = text.get(walk.at) {
        match byte {
            b'"' => drop(walk.string()),
            b'-' | b'0'..=b'9' => {
                let begin = walk.at;
                let number = walk.number_text();
                let digits_at = begin + usize::from(number.starts_with('-'));
                if is_too_large(number)
                    && let Some(place) = fitting.get_mut(digits_at..walk.at)
                {
                    place.fill(b' ');
                    place.iter_mut().zip(STAND_IN).for_each(|(byte, other)| *byte = *other);
                }
            }
            _ => walk.at += 1,
        }
    }
    fitting
}

/// Finds every number in a JSON text that would be rounded. `is_read` says which members of the outermost object count:
/// what is ignored need not be kept. The text must be one that was parsed already, which bounds how deep it is.
pub fn check(text: &[u8], is_read: impl Fn(&str) -> bool) -> Result<(), Faults> {
    // Most bodies have no number of so many digits at all.
    if !has_long_number(text) {
        return Ok(());
    }
    let mut walk = Walk { text, at: 0, is_read, faults: Faults::new() };
    walk.value(Path::Root, true);
    walk.faults.into_result(())
}

/// Whether there is a number of many digits, or with an exponent. Digits in strings count too: this need not be right,
/// but fast.
fn has_long_number(text: &[u8]) -> bool {
    let mut digits = 0;
    let mut after_digit = false;
    for byte in text {
        match byte {
            b'0'..=b'9' => {
                digits += 1;
                after_digit = true;
                if digits > DIGITS_ALWAYS_HELD - 1 {
                    return true;
                }
            }
            b'.' if after_digit => {}
            b'e' | b'E' if after_digit => return true,
            _ => {
                digits = 0;
                after_digit = false;
            }
        }
    }
    false
}

/// A number's digits without zeros at either end, and the power of ten of the last.
#[derive(PartialEq)]
struct Decimal {
    negative: bool,
    digits: String,
    power: i64,
}

impl Decimal {
    fn read(text: &str) -> Self {
        let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
        let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
        let exponent = exponent.parse::<i64>().unwrap_or(i64::MAX);
        let all: String = whole.chars().chain(fraction.chars()).collect();
        let significant = all.trim_start_matches(['-', '0']);
        let digits = significant.trim_end_matches('0');
        let zeros = i64::try_from(significant.len() - digits.len()).unwrap_or(i64::MAX);
        let places = i64::try_from(fraction.len()).unwrap_or(i64::MAX);
        let power = exponent.saturating_add(zeros).saturating_sub(places);
        Self {
            negative: text.starts_with('-'),
            digits: digits.to_owned(),
            // Zero is zero whatever its exponent.
            power: if digits.is_empty() { 0 } else { power },
        }
    }
}

/// A walk over a JSON text that is known to be one.
struct Walk<'t, R> {
    text: &'t [u8],
    at: usize,
    is_read: R,
    faults: Faults,
}

impl<'t, R: Fn(&str) -> bool> Walk<'t, R> {
    fn value(&mut self, path: Path<'_>, counts: bool) {
        match self.peek() {
            b'{' => self.object(path, counts),
            b'[' => self.array(path, counts),
            b'"' => drop(self.string()),
            b'-' | b'0'..=b'9' => self.number(path, counts),
            // `true`, `false`, `null`.
            _ => {
                self.at += 1;
                self.skip(|byte| byte.is_ascii_alphabetic());
            }
        }
    }

    fn object(&mut self, path: Path<'_>, counts: bool) {
        self.at += 1;
        while self.peek() == b'"' {
            let name = self.string();
            let name = name_of(name);
            // The colon.
            self.peek();
            self.at += 1;
            let counts = counts && (!matches!(path, Path::Root) || (self.is_read)(&name));
            self.value(path.member(&name), counts);
            self.comma();
        }
        self.at += 1;
    }

    fn array(&mut self, path: Path<'_>, counts: bool) {
        self.at += 1;
        let mut index = 0;
        while !matches!(self.peek(), b']' | 0) {
            self.value(path.item(index), counts);
            index += 1;
            self.comma();
        }
        self.at += 1;
    }

    fn number(&mut self, path: Path<'_>, counts: bool) {
        let text = self.number_text();
        // More than are named change nothing any more.
        if counts && !self.faults.are_cut_short() && !is_exact(text) {
            self.faults.add_at(path, if is_too_large(text) { TOO_LARGE } else { ROUNDED });
        }
    }

    fn number_text(&mut self) -> &'t str {
        let begin = self.at;
        self.skip(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'));
        let text = self.text.get(begin..self.at).unwrap_or_default();
        std::str::from_utf8(text).unwrap_or_default()
    }

    /// A string with its quotes.
    fn string(&mut self) -> &'t [u8] {
        let begin = self.at;
        self.at += 1;
        while let Some(byte) = self.text.get(self.at) {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'"' => break,
                _ => {}
            }
        }
        self.text.get(begin..self.at).unwrap_or_default()
    }

    /// The next byte that is no white space; 0 at the end.
    fn peek(&mut self) -> u8 {
        self.skip(|byte| byte.is_ascii_whitespace());
        self.text.get(self.at).copied().unwrap_or_default()
    }

    fn comma(&mut self) {
        if self.peek() == b',' {
            self.at += 1;
            self.peek();
        }
    }

    fn skip(&mut self, these: impl Fn(u8) -> bool) {
        let rest = self.text.get(self.at..).unwrap_or_default();
        self.at += rest.iter().take_while(|byte| these(**byte)).count();
    }
}

/// A member's name without its quotes and escapes.
fn name_of(quoted: &[u8]) -> Cow<'_, str> {
    let inner = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
    if inner.contains(&b'\\') {
        return serde_json::from_slice::<String>(quoted).unwrap_or_default().into();
    }
    String::from_utf8_lossy(inner)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::{check, is_exact, parse};

    fn paths(text: &str) -> Vec<String> {
        parse(text.as_bytes()).unwrap();
        let Err(faults) = check(text.as_bytes(), |name| name != "ignored") else {
            return Vec::new();
        };
        faults.into_map().into_keys().collect()
    }

    #[test]
    fn numbers_that_are_kept_as_they_are() {
        for text in [
            "0",
            "-0",
            "0.0",
            "-0.0e7",
            "0e999",
            "1",
            "1.0",
            "1.50",
            "1e2",
            "1E+2",
            "12.5e-3",
            "18446744073709551615",
            "-9223372036854775808",
            "9007199254740993",
            "0.1",
            "0.30000000000000004",
            "1.7976931348623157e308",
            "5e-324",
            "123456789012345.6",
            "1000000000000000000000000",
            "1e300",
            "100000000000000000000.000",
            "-123456789012345e+99",
            "0.1234567890123e-99",
            "999999999999999e99",
        ] {
            assert!(is_exact(text), "{text}");
        }
    }

    #[test]
    fn numbers_that_would_be_rounded() {
        for text in [
            "12345678901234567890123",
            "18446744073709551616.5",
            "18446744073709551617",
            "-9223372036854775809",
            "0.1234567890123456789012",
            "9007199254740993.0",
            "9007199254740993e0",
            "0.1000000000000000055511151231257827",
            "1e-400",
            "4e-324",
            "1.00000000000000000001",
            "-123456789.0123456789",
        ] {
            assert!(!is_exact(text), "{text}");
        }
    }

    #[test]
    fn each_is_named_by_its_path() {
        let long = "12345678901234567890123";
        for (text, expected) in [
            (long.to_owned(), vec![""]),
            (format!(" [ 1 , {long} , [ {long} ] ] "), vec!["[1]", "[2][0]"]),
            (format!(r#"{{"a":{{"b":[0,{long}]}},"c":1e-999}}"#), vec!["a.b[1]", "c"]),
            (format!(r#"{{"ignored":{long},"a":{{"ignored":{long}}}}}"#), vec!["a.ignored"]),
            (format!(r#"{{"\"a\\":{long},"é":{long}}}"#), vec![r#""a\"#, "é"]),
            (format!(r#"{{"{long}":"{long}","{long}e5":[true,null,false,{{}},[],""]}}"#), vec![]),
            (format!(r#"["\"{long}","\\",{long}]"#), vec!["[2]"]),
            ("[]".to_owned(), vec![]),
        ] {
            assert_eq!(paths(&text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_too_large_hides_nothing_else() {
        let digits = "9".repeat(400);
        for (text, expected) in [
            ("1e400", vec![""]),
            (r#"{"a":[1e309,-1E+999,2],"ignored":1e400}"#, vec!["a[0]", "a[1]"]),
            (r#"{"a\"":"1e400","b":DIGITS,"c":-DIGITS.5}"#, vec!["b", "c"]),
        ] {
            assert_eq!(paths(&text.replace("DIGITS", &digits)), expected, "{text}");
        }
        // Beyond what is named nothing is looked at any more.
        let many = format!("[{}1]", "1e400,".repeat(1_000));
        assert_eq!(check(many.as_bytes(), |_| true).unwrap_err().into_map().len(), 101);
        assert_eq!(parse(br#"["1e400", -1e400]"#).unwrap(), json!(["1e400", -1e308]));
        // What is no JSON is told where it is, and never taken.
        for text in ["[1e400,\n 1e400,\n x]", "[1e400,\n 2,\n  ]"] {
            assert_eq!(parse(text.as_bytes()).unwrap_err().line(), 3, "{text}");
        }
        for text in [
            "1e400e5",
            "1e400.",
            "[1e400, 01e400]",
            "[1e400, 1.e400]",
            "+1e400",
            "1e400\"",
            "1e400-",
        ] {
            parse(text.as_bytes()).unwrap_err();
        }
        parse(format!("[1e400,{}", "[".repeat(1_000_000)).as_bytes()).unwrap_err();
    }

    fn any_json() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<i64>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(|number| json!(number)),
            "[\\x00-\\x7f]{0,8}".prop_map(Value::from),
            Just(Value::Null),
        ];
        leaf.prop_recursive(4, 40, 5, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
                prop::collection::vec(("[\\x00-\\x7f]{0,4}", inner), 0..5)
                    .prop_map(|members| Value::Object(members.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_we_write_ourselves_is_exact(value in any_json()) {
            prop_assert_eq!(paths(&value.to_string()), Vec::<String>::new());
            prop_assert_eq!(paths(&format!("{value:#}")), Vec::<String>::new());
        }

        #[test]
        fn a_digit_more_is_found(value in any_json(), whole in 1_u64..u64::MAX) {
            let long = format!("{whole}00000000000000000001");
            let text = format!(r#"{{"a":[{value},{long}],"b":{value}}}"#);
            prop_assert_eq!(paths(&text), ["a[1]"]);
        }

        #[test]
        fn no_text_makes_it_panic(text in "[\\[\\]{}\",:0-9eE.+-]{0,40}") {
            let _ = check(text.as_bytes(), |_| true);
            let _ = parse(text.as_bytes());
        }
    }
}
