//! Rules for values made of digits, and the checksums of card and routing numbers.
//!
//! A rule names what is wrong in fixed words. Digits are ASCII digits, in strings: a JSON number
//! would lose its leading zeros. To add a rule: a function of the type `Rule`, and what it may find
//! in [`InvalidData`].

use serde_json::Value;
use thiserror::Error;

use crate::model::member::whole;

/// What is wrong with a value.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub(super) enum InvalidData {
    #[error("is required")]
    Missing,
    #[error("must be an object")]
    NotObject,
    #[error("must be a string")]
    NotText,
    #[error("must contain digits only")]
    NotDigits,
    #[error("must contain digits and - only")]
    NotDashedDigits,
    #[error("must have {fewest} to {most} digits")]
    Length { fewest: usize, most: usize },
    #[error("must have {0} digits")]
    ExactLength(usize),
    #[error("fails the Luhn check")]
    Luhn,
    #[error("fails the checksum of routing numbers")]
    Routing,
    #[error("must be a whole number from {first} to {last}")]
    Range { first: u64, last: u64 },
}

/// Whether `number` is made of digits and satisfies the Luhn formula, the checksum of card numbers.
pub fn luhn_valid(number: &str) -> bool {
    let counted = |(index, byte): (usize, u8)| {
        let digit = u32::from(byte - b'0');
        // Every second digit from the right counts twice, and two digits of a product are added up.
        if index % 2 == 0 { digit } else { digit * 2 - if digit > 4 { 9 } else { 0 } }
    };
    let digits = || number.bytes().rev().enumerate().map(counted);
    // The remainder at every step: a text of any length is answered.
    is_digits(number) && digits().fold(0, |sum, digit| (sum + digit) % 10) == 0
}

/// Whether `number` is nine digits that satisfy the checksum of ABA routing numbers.
pub fn aba_valid(number: &str) -> bool {
    const WEIGHTS: [u32; 9] = [3, 7, 1, 3, 7, 1, 3, 7, 1];
    let digits = number.bytes().map(|byte| u32::from(byte.wrapping_sub(b'0')));
    let sum: u32 = digits.zip(WEIGHTS).map(|(digit, weight)| digit * weight).sum();
    is_digits(number) && number.len() == WEIGHTS.len() && sum.is_multiple_of(10)
}

pub(super) fn card_number(value: &Value) -> Result<(), InvalidData> {
    let number = digits(value, 12, 19)?;
    if luhn_valid(number) { Ok(()) } else { Err(InvalidData::Luhn) }
}

pub(super) fn verification_code(value: &Value) -> Result<(), InvalidData> {
    digits(value, 3, 4).map(|_| ())
}

pub(super) fn month(value: &Value) -> Result<(), InvalidData> {
    integer(value, 1, 12)
}

pub(super) fn year(value: &Value) -> Result<(), InvalidData> {
    integer(value, 1000, 9999)
}

pub(super) fn routing_number(value: &Value) -> Result<(), InvalidData> {
    let number = digits(value, 9, 9)?;
    if aba_valid(number) { Ok(()) } else { Err(InvalidData::Routing) }
}

pub(super) fn account_number(value: &Value) -> Result<(), InvalidData> {
    digits(value, 1, 17).map(|_| ())
}

pub(super) fn us_account_number(value: &Value) -> Result<(), InvalidData> {
    digits(value, 3, 17).map(|_| ())
}

/// Nine digits with `-` anywhere, as in `123-45-6789`.
pub(super) fn nine_digits(value: &Value) -> Result<(), InvalidData> {
    let text = value.as_str().ok_or(InvalidData::NotText)?;
    if !text.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-') {
        return Err(InvalidData::NotDashedDigits);
    }
    let count = text.bytes().filter(u8::is_ascii_digit).count();
    if count == 9 { Ok(()) } else { Err(InvalidData::ExactLength(9)) }
}

fn integer(value: &Value, first: u64, last: u64) -> Result<(), InvalidData> {
    let within = whole(value).is_some_and(|number| (first..=last).contains(&number));
    if within { Ok(()) } else { Err(InvalidData::Range { first, last }) }
}

fn digits(value: &Value, fewest: usize, most: usize) -> Result<&str, InvalidData> {
    let text = value.as_str().ok_or(InvalidData::NotText)?;
    if !text.is_empty() && !is_digits(text) {
        return Err(InvalidData::NotDigits);
    }
    if (fewest..=most).contains(&text.len()) {
        Ok(text)
    } else if fewest == most {
        Err(InvalidData::ExactLength(most))
    } else {
        Err(InvalidData::Length { fewest, most })
    }
}

/// Not of the empty text: no digits are no number.
fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}
