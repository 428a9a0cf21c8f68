//! Functions that the prelude is handed: what JavaScript cannot do itself, or only slowly.
//!
//! The script never sees them, only what the prelude makes of them; so they trust the types of their arguments as far as
//! the prelude does, and refuse others with an error. To add one: a row of a table of its file.

pub mod bytes;
pub mod digest;
pub mod host;
pub mod url;
pub mod vault;

use boa_engine::native_function::NativeFunctionPointer;
use boa_engine::object::builtins::{AlignedVec, JsArrayBuffer, JsUint8Array};
use boa_engine::{Context, JsObject, JsResult, JsString, JsValue, NativeFunction};

use crate::engine::error;

/// Names with their functions.
pub type Table = &'static [(&'static str, NativeFunctionPointer)];

/// The object that holds them all.
pub fn all(context: &mut Context) -> JsObject {
    let tables = [bytes::TABLE, digest::TABLE, host::TABLE, url::TABLE, vault::TABLE];
    let realm = context.realm().clone();
    let function = |pointer| NativeFunction::from_fn_ptr(pointer).to_js_function(&realm).into();
    let rows: Vec<(&str, JsValue)> =
        tables.into_iter().flatten().map(|(name, pointer)| (*name, function(*pointer))).collect();
    object(context, &rows)
}

/// An object with these members.
pub fn object(context: &mut Context, members: &[(&str, JsValue)]) -> JsObject {
    let made = JsObject::with_object_proto(context.intrinsics());
    for (name, value) in members {
        let descriptor = boa_engine::property::PropertyDescriptor::builder()
            .value(value.clone())
            .writable(true)
            .enumerable(true)
            .configurable(true);
        made.insert_property(JsString::from(*name), descriptor);
    }
    made
}

/// A count or a time as JavaScript's numbers have it.
#[expect(clippy::cast_precision_loss, reason = "what JavaScript's numbers are")]
pub fn number(value: u64) -> f64 {
    value as f64
}

/// JSON that the host wrote.
pub fn from_json(text: &str, context: &mut Context) -> JsResult<JsValue> {
    let value: serde_json::Value =
        serde_json::from_str(text).map_err(|_| error("the host's JSON cannot be read"))?;
    JsValue::from_json(&value, context)
}

/// The text of an argument; lone surrogates become the replacement character, as when they are encoded.
pub fn text(arguments: &[JsValue], index: usize) -> JsResult<String> {
    let value = arguments.get(index).and_then(JsValue::as_string);
    Ok(value.ok_or_else(|| error("a text is needed"))?.to_std_string_lossy())
}

/// The bytes of an argument, a `Uint8Array` or an object of a class derived from it.
pub fn bytes(arguments: &[JsValue], index: usize, context: &mut Context) -> JsResult<Vec<u8>> {
    let object = arguments.get(index).and_then(JsValue::as_object);
    let object = object.ok_or_else(|| error("bytes are needed"))?;
    JsUint8Array::from_object(object.clone())?.to_vec(context)
}

/// The whole number of an argument.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "saturates, as is wanted"
)]
pub fn count(arguments: &[JsValue], index: usize) -> u64 {
    arguments.get(index).and_then(JsValue::as_number).unwrap_or_default() as u64
}

/// A new `Uint8Array`.
pub fn new_bytes(bytes: &[u8], context: &mut Context) -> JsResult<JsValue> {
    let block = AlignedVec::from_slice(64, bytes);
    let buffer = JsArrayBuffer::from_byte_block(block, context)?;
    Ok(JsUint8Array::from_array_buffer(buffer, context)?.into())
}
