//! Digests, and HMAC over them.

use hmac::digest::core_api::BlockSizeUser;
use hmac::{Mac as _, SimpleHmac};
use rquickjs::prelude::Func;
use rquickjs::{Ctx, Object, Result};
use sha1::Sha1;
use sha2::{Digest, Sha256, Sha384, Sha512};

use super::{Bytes, Text, bytes, error, new_bytes};

/// Offers what this file has.
pub fn offer(host: &Object<'_>) -> Result<()> {
    host.set("digest", Func::from(digest))?;
    host.set("hmac", Func::from(hmac))
}

/// `digest(name, bytes)`
fn digest<'js>(ctx: Ctx<'js>, name: Text, data: Bytes<'js>) -> Result<Bytes<'js>> {
    let data = bytes(&data)?;
    let made = match name.0.as_str() {
        "SHA-1" => Sha1::digest(data).to_vec(),
        "SHA-256" => Sha256::digest(data).to_vec(),
        "SHA-384" => Sha384::digest(data).to_vec(),
        "SHA-512" => Sha512::digest(data).to_vec(),
        _ => return Err(error(&ctx, "the digest is not known")),
    };
    new_bytes(&ctx, &made)
}

/// `hmac(name, key, bytes)`
fn hmac<'js>(ctx: Ctx<'js>, name: Text, key: Bytes<'js>, data: Bytes<'js>) -> Result<Bytes<'js>> {
    let (key, data) = (bytes(&key)?, bytes(&data)?);
    let made = match name.0.as_str() {
        "SHA-1" => mac::<Sha1>(&key, &data),
        "SHA-256" => mac::<Sha256>(&key, &data),
        "SHA-384" => mac::<Sha384>(&key, &data),
        "SHA-512" => mac::<Sha512>(&key, &data),
        _ => None,
    };
    new_bytes(&ctx, &made.ok_or_else(|| error(&ctx, "the digest is not known"))?)
}

fn mac<D: Digest + BlockSizeUser>(key: &[u8], data: &[u8]) -> Option<Vec<u8>> {
    // Keys of any length are taken.
    let mut mac = SimpleHmac::<D>::new_from_slice(key).ok()?;
    mac.update(data);
    Some(mac.finalize().into_bytes().to_vec())
}
