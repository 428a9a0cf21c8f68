//! Digests, and HMAC over them.

use boa_engine::{Context, JsResult, JsValue};
use hmac::digest::core_api::BlockSizeUser;
use hmac::{Mac as _, SimpleHmac};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};

use super::{Table, bytes, new_bytes, text};
use crate::engine::error;

/// What this file offers.
pub const TABLE: Table = &[("digest", digest), ("hmac", hmac)];

/// `digest(name, bytes)`
fn digest(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let data = bytes(arguments, 1, context)?;
    let made = match text(arguments, 0)?.as_str() {
        "SHA-1" => Sha1::digest(data).to_vec(),
        "SHA-256" => Sha256::digest(data).to_vec(),
        "SHA-384" => Sha384::digest(data).to_vec(),
        "SHA-512" => Sha512::digest(data).to_vec(),
        _ => return Err(error("the digest is not known")),
    };
    new_bytes(&made, context)
}

/// `hmac(name, key, bytes)`
fn hmac(_: &JsValue, arguments: &[JsValue], context: &mut Context) -> JsResult<JsValue> {
    let (key, data) = (bytes(arguments, 1, context)?, bytes(arguments, 2, context)?);
    let made = match text(arguments, 0)?.as_str() {
        "SHA-1" => mac::<Sha1>(&key, &data),
        "SHA-256" => mac::<Sha256>(&key, &data),
        "SHA-384" => mac::<Sha384>(&key, &data),
        "SHA-512" => mac::<Sha512>(&key, &data),
        _ => None,
    };
    new_bytes(&made.ok_or_else(|| error("the digest is not known"))?, context)
}

fn mac<D: Digest + BlockSizeUser>(key: &[u8], data: &[u8]) -> Option<Vec<u8>> {
    // Keys of any length are taken.
    let mut mac = SimpleHmac::<D>::new_from_slice(key).ok()?;
    mac.update(data);
    Some(mac.finalize().into_bytes().to_vec())
}
