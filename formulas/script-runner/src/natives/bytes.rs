//! Bytes as text and text as bytes, in the encodings that the prelude names.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use boa_engine::{Context, JsResult, JsString, JsValue};

use super::{Table, bytes, new_bytes, text};
use crate::engine::error;

/// What this file offers.
pub const TABLE: Table = &[
    ("encode", encode),
    ("decode", decode),
    ("isUtf8", is_utf8),
    ("percentDecode", percent_decode),
];

/// Takes what others write: with or without padding, with any last bits.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// `encode(text, encoding)`: a `Uint8Array`.
fn encode(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let encoding = text(arguments, 1)?;
    let given = arguments.first().and_then(JsValue::as_string);
    let given = given.ok_or_else(|| error("a text is needed"))?;
    let made = match encoding.as_str() {
        "utf8" => given.to_std_string_lossy().into_bytes(),
        "latin1" | "ascii" => given.iter().map(|unit| unit.to_le_bytes()[0]).collect(),
        "utf16le" => given.iter().flat_map(u16::to_le_bytes).collect(),
        "hex" => from_hex(&given.to_std_string_lossy()),
        "base64" | "base64url" => from_base64(&given.to_std_string_lossy()),
        _ => return Err(error("the encoding is not known")),
    };
    new_bytes(&made, context)
}

/// `decode(bytes, encoding)`: a string.
fn decode(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let bytes = bytes(arguments, 0, context)?;
    let made: JsString = match text(arguments, 1)?.as_str() {
        "utf8" => String::from_utf8_lossy(&bytes).as_ref().into(),
        "latin1" => units(bytes.iter().map(|byte| u16::from(*byte))),
        "ascii" => units(bytes.iter().map(|byte| u16::from(*byte & 0x7f))),
        "utf16le" => {
            units(bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])))
        }
        "hex" => to_hex(&bytes).as_str().into(),
        "base64" => STANDARD.encode(bytes).as_str().into(),
        "base64url" => URL_SAFE_NO_PAD.encode(bytes).as_str().into(),
        _ => return Err(error("the encoding is not known")),
    };
    Ok(made.into())
}

/// `isUtf8(bytes)`
fn is_utf8(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    Ok(std::str::from_utf8(&bytes(arguments, 0, context)?).is_ok().into())
}

/// `percentDecode(text)`: a `Uint8Array`; what is no escape stays.
fn percent_decode(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let given = text(arguments, 0)?.into_bytes();
    let digit = |at: usize| given.get(at).and_then(|byte| char::from(*byte).to_digit(16));
    let mut made = Vec::with_capacity(given.len());
    let mut at = 0;
    while let Some(byte) = given.get(at) {
        if let (b'%', Some(high), Some(low)) = (byte, digit(at + 1), digit(at + 2)) {
            made.push((high * 16 + low).to_le_bytes()[0]);
            at += 3;
        } else {
            made.push(*byte);
            at += 1;
        }
    }
    new_bytes(&made, context)
}

fn units(units: impl Iterator<Item = u16>) -> JsString {
    JsString::from(units.collect::<Vec<u16>>().as_slice())
}

/// Digits in pairs, up to the first that is none.
fn from_hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks_exact(2).map(|pair| {
        let high = char::from(pair[0]).to_digit(16)?;
        Some((high * 16 + char::from(pair[1]).to_digit(16)?).to_le_bytes()[0])
    });
    digits.map_while(|byte| byte).collect()
}

pub fn to_hex(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(|digit| char::from(DIGITS[usize::from(digit)])).collect()
}

/// Either alphabet, up to the padding, without what belongs to neither.
fn from_base64(text: &str) -> Vec<u8> {
    let mut digits: Vec<u8> = text
        .bytes()
        .take_while(|byte| *byte != b'=')
        .filter_map(|byte| match byte {
            b'-' => Some(b'+'),
            b'_' => Some(b'/'),
            b'+' | b'/' => Some(byte),
            _ => byte.is_ascii_alphanumeric().then_some(byte),
        })
        .collect();
    if digits.len() % 4 == 1 {
        digits.pop();
    }
    LENIENT.decode(digits).unwrap_or_default()
}
