//! Keyed hashes and encodings.

use std::fmt::Write as _;

use aws_lc_rs::hmac as mac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use super::{Arguments, Refusal, single};

/// HMAC of the text with a key, in lower-case hexadecimal.
pub(crate) fn hmac(value: &Value, arguments: &Arguments<'_>) -> Result<Value, Refusal> {
    let algorithm = match arguments.text(0, "").to_ascii_lowercase().as_str() {
        "sha-1" | "sha1" => mac::HMAC_SHA1_FOR_LEGACY_USE_ONLY,
        "sha-256" | "sha256" => mac::HMAC_SHA256,
        "sha-512" | "sha512" => mac::HMAC_SHA512,
        _ => return Err("takes sha-1, sha-256 or sha-512"),
    };
    let key = arguments.text(1, "");
    if key.is_empty() {
        return Err("takes a key");
    }
    let tag = mac::sign(&mac::Key::new(algorithm, key.as_bytes()), single(value)?.as_bytes());
    Ok(hexadecimal(tag.as_ref()).into())
}

/// The bytes of the text in base64.
pub(crate) fn to_base64(value: &Value, _: &Arguments<'_>) -> Result<Value, Refusal> {
    Ok(STANDARD.encode(single(value)?).into())
}

/// The bytes of the text in lower-case hexadecimal.
pub(crate) fn to_base16(value: &Value, _: &Arguments<'_>) -> Result<Value, Refusal> {
    Ok(hexadecimal(single(value)?.as_bytes()).into())
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(bytes.len() * 2), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}
