//! JSON into the author's types, with errors that name the member and never show its value.
//!
//! The messages of serde quote what they found, and its paths what members are called; what a member holds or is called may
//! be a card number. Only the parts that come from the author's types (names of fields, what was expected) are kept, and
//! the names of the arguments themselves.

mod named;

use serde::de::DeserializeOwned;
use serde_path_to_error::Segment;

use crate::{Error, Faults};

/// Reads `text`, the member `root` of the request.
pub(crate) fn member<T: DeserializeOwned>(text: &str, root: &str) -> Result<T, Error> {
    let mut deserializer = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut deserializer).map_err(|error| {
        let path: Vec<Segment> = error.path().iter().cloned().collect();
        let (field, message) = message(&error.into_inner().to_string());
        // The caller has written the names of arguments, whatever type they go to.
        let is_member = matches!(path.first(), Some(Segment::Map { .. }));
        let told = named::steps_of::<T>(&path).max(usize::from(is_member));
        let (path, below) = path.split_at(told);
        let path = path.iter().fold(root.to_owned(), |above, step| match step {
            Segment::Map { key } => format!("{above}.{key}"),
            step => format!("{above}{step}"),
        });
        let mut faults = Faults::default();
        if !below.is_empty() {
            let part = if field.is_empty() { String::new() } else { format!("`{field}` ") };
            faults.add(path, format!("a part of it: {part}{message}"));
        } else if field.is_empty() {
            faults.add(path, message);
        } else {
            faults.add(format!("{path}.{field}"), message);
        }
        faults.into_error("the request does not fit the formula")
    })
}

/// The field that the fault is about, when the text names one, and what may be told of it.
fn message(text: &str) -> (String, String) {
    for (start, message) in
        [("missing field `", "is required"), ("duplicate field `", "occurs twice")]
    {
        if let Some(field) = quoted(text, start) {
            return (field.to_owned(), message.to_owned());
        }
    }
    // "invalid type: string \"4242…\", expected a map at line 1 column 9": the last part is the type's own.
    let worded = ["invalid type: ", "invalid value: ", "invalid length ", "unknown variant `"];
    let expected = worded
        .iter()
        .any(|start| text.starts_with(start))
        .then(|| text.rsplit_once(", expected "))
        .flatten()
        .map(|(_, rest)| rest.rsplit_once(" at line ").map_or(rest, |(expected, _)| expected));
    let message = expected.map_or_else(
        || "is not valid".to_owned(),
        |expected| match range(expected) {
            // JSON has one kind of number: `1e3` is whole as well, but is not read as one.
            Some(range) if text.starts_with("invalid type: floating point ") => {
                format!("must be {range}, written with digits alone")
            }
            Some(range) => format!("must be {range}"),
            None => format!("must be {}", plain(expected)),
        },
    );
    (String::new(), message)
}

/// What a type of whole numbers of Rust takes.
fn range(expected: &str) -> Option<String> {
    macro_rules! of {
        ($($ty:ident)+) => {
            $(if expected == stringify!($ty) {
                return Some(format!("a whole number from {} to {}", <$ty>::MIN, <$ty>::MAX));
            })+
        };
    }
    of!(u8 u16 u32 u64 usize i8 i16 i32 i64 isize);
    None
}

/// The names of Rust's types, for people who call an HTTP interface.
fn plain(expected: &str) -> String {
    let name = match expected {
        "u128" => "a whole number, 0 or more",
        "i128" => "a whole number",
        "f32" | "f64" => "a number",
        "a map" => "an object",
        "a sequence" => "an array",
        other if other.starts_with("struct ") => "an object",
        other => other,
    };
    name.to_owned()
}

fn quoted<'a>(text: &'a str, start: &str) -> Option<&'a str> {
    text.strip_prefix(start)?.split('`').next()
}

#[cfg(test)]
mod tests;
