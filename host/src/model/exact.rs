//! Numbers that would not be kept as they were written.
//!
//! A number is held as a whole number of 64 bits or as a double. One of more digits than these hold would come out
//! rounded, and nobody would notice: it is refused. So the text is looked at, since what was parsed of it tells no more.

#[cfg(test)]
mod tests;

use std::borrow::Cow;

use serde_json::{Number, Value};
use zeroize::Zeroizing;

use super::faults::Faults;
use super::path::Path;

/// What is wrong with a number that would be rounded.
const ROUNDED: &str =
    "has more digits than a number can hold; where it may be a string, send it as one";
/// What is wrong with a number that is larger than any double.
const TOO_LARGE: &str = "is too large a number; where it may be a string, send it as one";
/// What is wrong with one that is smaller than any double and not zero.
const TOO_SMALL: &str = "is too small a number; where it may be a string, send it as one";
/// How the parser begins to tell of one.
const OUT_OF_RANGE: &str = "number out of range";
/// Stands for one where all else of a text is looked at. Nothing that is too large is written in fewer characters.
const STAND_IN: &[u8] = b"1e308";
/// Digits of which any number is a double that is written with the same ones.
const DIGITS_ALWAYS_HELD: usize = 15;
/// Digits of an exponent with which that stays so.
const EXPONENT_ALWAYS_HELD: usize = 2;

/// Why a JSON number does not mean the same once it is parsed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inexact {
    /// It has more digits than a number can hold.
    Rounded,
    /// It is larger than any double.
    TooLarge,
    /// It is smaller than any double, and not zero.
    TooSmall,
}

/// Why a JSON number would not be kept as it is written, if it would not.
pub fn inexact(text: &str) -> Option<Inexact> {
    if is_exact(text) {
        return None;
    }
    let is_zero = || text.parse::<f64>().is_ok_and(|parsed| parsed == 0.0);
    Some(match text {
        _ if is_too_large(text) => Inexact::TooLarge,
        _ if is_zero() => Inexact::TooSmall,
        _ => Inexact::Rounded,
    })
}

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

/// The text of a number without the zeros in front of its digits: JSON has none there, and forms and files have, as in the
/// month `03`.
pub fn without_leading_zeros(text: &str) -> Cow<'_, str> {
    let (sign, number) = text.split_at(usize::from(text.starts_with('-')));
    let digits = number.trim_start_matches('0');
    // One stays where no digit follows.
    let stays = usize::from(!digits.starts_with(|c: char| c.is_ascii_digit()));
    let number = &number[(number.len() - digits.len()).saturating_sub(stays)..];
    if sign.is_empty() { number.into() } else { format!("{sign}{number}").into() }
}

/// Parses a JSON text. A number that is larger than any double has another in its place, so that it hides nothing else:
/// [`check`] refuses it, where it is read.
pub fn parse(text: &[u8]) -> serde_json::Result<Value> {
    match serde_json::from_slice(text) {
        Err(error) if is_out_of_range(&error) => serde_json::from_slice(&with_stand_ins(text)),
        parsed => parsed,
    }
}

/// The line and column, in characters from 1, at which a text could not be parsed: the parser counts bytes.
pub fn place_of(error: &serde_json::Error, text: &[u8]) -> (usize, usize) {
    let (line, bytes) = (error.line(), error.column());
    let within = text.split(|byte| *byte == b'\n').nth(line.saturating_sub(1)).unwrap_or_default();
    // Bytes that continue a character begin none.
    let begins = |byte: &&u8| !matches!(**byte, 0x80..=0xbf);
    (line, within.iter().take(bytes).filter(begins).count() + bytes.saturating_sub(within.len()))
}

/// Whether a text was not parsed for a number that is larger than any double.
pub fn is_out_of_range(error: &serde_json::Error) -> bool {
    error.to_string().starts_with(OUT_OF_RANGE)
}

/// Whether it is a number, and one larger than any double. A body may have millions of them: so no words are made of each,
/// as the parser does.
pub fn is_too_large(number: &str) -> bool {
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
        if counts
            && !self.faults.are_cut_short()
            && let Some(why) = inexact(text)
        {
            let fault = match why {
                Inexact::TooLarge => TOO_LARGE,
                Inexact::TooSmall => TOO_SMALL,
                Inexact::Rounded => ROUNDED,
            };
            self.faults.add_at(path, fault);
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
