//! Bytes as text and text as bytes, in the encodings that the prelude names.

use base64::Engine as _;
use base64::alphabet;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use base64::engine::{DecodePaddingMode, GeneralPurpose, GeneralPurposeConfig};
use rquickjs::prelude::Func;
use rquickjs::{Ctx, FromJs as _, IntoJs as _, Object, Result, String as JsString, Value};

use super::{Bytes, Text, bytes, error, new_bytes, of_units, units};

/// Offers what this file has.
pub fn offer(host: &Object<'_>) -> Result<()> {
    host.set("encode", Func::from(encode))?;
    host.set("decode", Func::from(decode))?;
    host.set("isUtf8", Func::from(is_utf8))?;
    host.set("percentDecode", Func::from(percent_decode))
}

/// Takes what others write: with or without padding, with any last bits.
const LENIENT: GeneralPurpose = GeneralPurpose::new(
    &alphabet::STANDARD,
    GeneralPurposeConfig::new()
        .with_decode_padding_mode(DecodePaddingMode::Indifferent)
        .with_decode_allow_trailing_bits(true),
);

/// `encode(text, encoding)`: a `Uint8Array`.
fn encode<'js>(ctx: Ctx<'js>, given: JsString<'js>, encoding: Text) -> Result<Bytes<'js>> {
    let text = || Text::from_js(&ctx, given.clone().into_value()).map(|text| text.0);
    let made = match encoding.0.as_str() {
        "utf8" => text()?.into_bytes(),
        "latin1" | "ascii" => units(&given)?.iter().map(|unit| unit.to_le_bytes()[0]).collect(),
        "utf16le" => units(&given)?.iter().flat_map(|unit| unit.to_le_bytes()).collect(),
        "hex" => from_hex(&text()?),
        "base64" | "base64url" => from_base64(&text()?),
        _ => return Err(error(&ctx, "the encoding is not known")),
    };
    new_bytes(&ctx, &made)
}

/// `decode(bytes, encoding)`: a string.
fn decode<'js>(ctx: Ctx<'js>, given: Bytes<'js>, encoding: Text) -> Result<Value<'js>> {
    let bytes = bytes(&given)?;
    let made = match encoding.0.as_str() {
        "utf8" => String::from_utf8_lossy(&bytes).into_owned(),
        "latin1" => bytes.iter().copied().map(char::from).collect(),
        "ascii" => bytes.iter().map(|byte| char::from(byte & 0x7f)).collect(),
        "utf16le" => {
            let pairs = bytes.as_chunks().0.iter().copied();
            return of_units(&ctx, &pairs.map(u16::from_le_bytes).collect::<Vec<_>>());
        }
        "hex" => to_hex(&bytes),
        "base64" => STANDARD.encode(bytes),
        "base64url" => URL_SAFE_NO_PAD.encode(bytes),
        _ => return Err(error(&ctx, "the encoding is not known")),
    };
    made.into_js(&ctx)
}

/// `isUtf8(bytes)`
fn is_utf8(given: Bytes<'_>) -> Result<bool> {
    Ok(std::str::from_utf8(&bytes(&given)?).is_ok())
}

/// `percentDecode(text)`: a `Uint8Array`; what is no escape stays.
fn percent_decode(ctx: Ctx<'_>, given: Text) -> Result<Bytes<'_>> {
    let given = given.0.into_bytes();
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
    new_bytes(&ctx, &made)
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
