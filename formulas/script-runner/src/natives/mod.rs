//! Functions that the prelude is handed: what JavaScript cannot do itself, or only slowly.
//!
//! The script never sees them, only what the prelude makes of them; so they trust the types of their arguments as far as
//! the prelude does, and refuse others with an error. To add one: a line in `offer` of its file.

#![expect(clippy::needless_pass_by_value, reason = "the engine hands arguments over")]

pub mod bytes;
pub mod digest;
pub mod host;
pub mod random;
pub mod url;
pub mod vault;

use core::mem::MaybeUninit;

use rquickjs::{
    Ctx, Error, Exception, FromJs, Object, Result, String as JsString, TypedArray, Value, qjs,
};

/// A `Uint8Array`.
pub type Bytes<'js> = TypedArray<'js, u8>;

/// The object that holds them all.
pub fn all<'js>(ctx: &Ctx<'js>) -> Result<Object<'js>> {
    let host = Object::new(ctx.clone())?;
    for offer in [bytes::offer, digest::offer, host::offer, random::offer, url::offer, vault::offer]
    {
        offer(&host)?;
    }
    Ok(host)
}

/// An error as the engine's own are.
pub fn error(ctx: &Ctx<'_>, message: &str) -> Error {
    Exception::throw_message(ctx, message)
}

/// A count or a time as JavaScript's numbers have it.
#[expect(clippy::cast_precision_loss, reason = "what JavaScript's numbers are")]
pub fn number(value: u64) -> f64 {
    value as f64
}

/// A whole number of JavaScript's.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, as is wanted"
)]
pub fn count(number: f64) -> usize {
    number as usize
}

/// A text; lone surrogates become the replacement character, as when they are encoded.
#[derive(Default)]
pub struct Text(pub String);

impl<'js> FromJs<'js> for Text {
    fn from_js(ctx: &Ctx<'js>, value: Value<'js>) -> Result<Self> {
        let text = value.into_string().ok_or_else(|| error(ctx, "a text is needed"))?;
        text.to_string()
            .or_else(|_| units(&text).map(|units| String::from_utf16_lossy(&units)))
            .map(Self)
    }
}

/// The units of a text.
#[expect(unsafe_code, reason = "the bindings have a text's units nowhere")]
pub fn units(text: &JsString<'_>) -> Result<Vec<u16>> {
    let context = text.ctx().as_raw().as_ptr();
    let mut length = MaybeUninit::uninit();
    // SAFETY: it writes the length, or fails and is not looked at any more.
    let units = unsafe { qjs::JS_ToCStringLenUTF16(context, length.as_mut_ptr(), text.as_raw()) };
    if units.is_null() {
        return Err(Error::Exception);
    }
    // SAFETY: there are so many of them until they are given back.
    unsafe {
        let copy = core::slice::from_raw_parts(units, length.assume_init() as usize).to_vec();
        qjs::JS_FreeCStringUTF16(context, units);
        Ok(copy)
    }
}

/// A text of these units.
#[expect(unsafe_code, reason = "the bindings make a text of units nowhere")]
pub fn of_units<'js>(ctx: &Ctx<'js>, units: &[u16]) -> Result<Value<'js>> {
    let length = units.len().try_into().map_err(|_| Error::Unknown)?;
    // SAFETY: it copies so many units, and what it returns is the caller's.
    let text = unsafe {
        let text = qjs::JS_NewStringUTF16(ctx.as_raw().as_ptr(), units.as_ptr(), length);
        Value::from_raw(ctx.clone(), text)
    };
    if text.is_exception() { Err(Error::Exception) } else { Ok(text) }
}

/// A copy of the bytes of a `Uint8Array`, or of an object of a class derived from it. The engine's own account of them is not
/// that of one whose buffer changed its size since.
#[expect(unsafe_code, reason = "they are another's as soon as JavaScript runs again")]
pub fn bytes(array: &Bytes<'_>) -> Result<Vec<u8>> {
    let member = |name: &str| array.as_object().get::<_, f64>(name).map(count);
    let (start, length) = (member("byteOffset")?, member("length")?);
    let Some(all) = array.arraybuffer()?.as_raw() else { return Ok(Vec::new()) };
    // SAFETY: the two members may be the script's own; nothing runs from here until they are copied.
    let all = unsafe { all.as_ref() };
    let end = start.saturating_add(length).min(all.len());
    Ok(all.get(start..end).unwrap_or_default().to_vec())
}

/// A new `Uint8Array`.
pub fn new_bytes<'js>(ctx: &Ctx<'js>, bytes: &[u8]) -> Result<Bytes<'js>> {
    TypedArray::new_copy(ctx.clone(), bytes)
}
