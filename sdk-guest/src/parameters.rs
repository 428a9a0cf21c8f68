//! What a formula takes, told by its types.
//!
//! `#[derive(Parameters)]` on the arguments and on the configuration of a formula makes their declarations: names, types,
//! what may be absent, and descriptions from the doc comments. `#[formula]` writes them into the component, so that
//! `tokamak formula push` can send them as `request_parameters` and `configuration`:
//!
//! ```
//! use serde::Deserialize;
//! use tokamak_sdk::{Parameters, json, testing};
//!
//! #[derive(Deserialize, Parameters)]
//! struct Args {
//!     /// What to charge.
//!     card: Card,
//!     /// In minor units.
//!     amount: u64,
//!     #[serde(default)]
//!     tags: Vec<String>,
//! }
//!
//! #[derive(Deserialize, Parameters)]
//! struct Card {
//!     /// The number, without separators.
//!     number: String,
//!     cvc: Option<String>,
//! }
//!
//! let declared = json!([
//!     { "name": "card.number", "description": "The number, without separators.", "type": "string" },
//!     { "name": "card.cvc", "type": "string", "optional": true },
//!     { "name": "amount", "description": "In minor units.", "type": "number" },
//!     { "name": "tags", "type": "array", "optional": true },
//! ]);
//! assert_eq!(testing::parameters::<Args>(), declared);
//! # let _ = |args: Args| (args.card.number, args.card.cvc, args.amount, args.tags);
//! ```
//!
//! An argument that is a struct of the formula's own is declared by its members, `card.number`; what is in an array is
//! not declared. A dot leads into an object, so that no argument may have one in its own name. A configuration is flat: its
//! members are texts, numbers and booleans, and `#[formula]` refuses a struct in it.
//!
//! Of a `Value`, and of an enum whose variants hold something, nothing is declared. In a configuration they are refused
//! then; as arguments they reach the formula unless its `undeclared_arguments` are dropped, of which `tokamak formula
//! check` warns. `#[parameter(type = "object")]` at the field declares what such an argument is.
//!
//! Everything here is computed by the compiler: a component holds the finished JSON and no code for it.

mod of_request;

use std::collections::{BTreeMap, HashMap};

use serde_json::{Map, Value};

#[doc(hidden)]
pub use self::of_request::{
    OfArgs, OfConfiguration, Undeclared, is_declared, is_flat, is_undotted,
};

/// A type whose values are arguments or configuration of a formula; see the [module](self).
///
/// ```compile_fail,E0277
/// # use tokamak_sdk::Parameters;
/// struct Unknown;
///
/// #[derive(Parameters)]
/// struct Args {
///     unknown: Unknown,
/// }
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` does not say what it takes",
    note = "derive `tokamak_sdk::Parameters` for it, or say it at the field: `#[parameter(type = \"string\")]`"
)]
pub trait Parameters {
    /// What its values look like.
    const SHAPE: Shape;
}

/// What values of a type look like.
#[derive(Debug, Clone, Copy)]
pub struct Shape {
    kind: Kind,
    optional: bool,
    members: &'static [Member],
}

/// A member of an object.
#[derive(Debug, Clone, Copy)]
pub struct Member {
    /// Its name in JSON.
    pub name: &'static str,
    /// For people; empty when there is none.
    pub description: &'static str,
    /// What it holds.
    pub shape: Shape,
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    String,
    Number,
    Boolean,
    Object,
    Array,
    /// Anything, which nothing can be declared of.
    Any,
}

impl Kind {
    const fn name(self) -> &'static str {
        match self {
            Self::String => "string",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Object => "object",
            Self::Array => "array",
            Self::Any => "",
        }
    }
}

impl Shape {
    /// Text.
    pub const STRING: Self = Self::of(Kind::String);
    /// A number.
    pub const NUMBER: Self = Self::of(Kind::Number);
    /// `true` or `false`.
    pub const BOOLEAN: Self = Self::of(Kind::Boolean);
    /// An object with any members.
    pub const OBJECT: Self = Self::of(Kind::Object);
    /// An array.
    pub const ARRAY: Self = Self::of(Kind::Array);
    /// Anything: it is not declared.
    pub const ANY: Self = Self::of(Kind::Any);

    const fn of(kind: Kind) -> Self {
        Self { kind, optional: false, members: &[] }
    }

    /// An object with these members.
    pub const fn object(members: &'static [Member]) -> Self {
        Self { kind: Kind::Object, optional: false, members }
    }

    /// The same where it may be absent.
    #[must_use]
    pub const fn or_absent(self) -> Self {
        Self { optional: true, ..self }
    }
}

macro_rules! shapes {
    ($($shape:ident: $($ty:ty),+;)+) => {
        $($(impl Parameters for $ty {
            const SHAPE: Shape = Shape::$shape;
        })+)+
    };
}

shapes! {
    STRING: String, char;
    NUMBER: u8, u16, u32, u64, u128, usize, i8, i16, i32, i64, i128, isize, f32, f64;
    BOOLEAN: bool;
    OBJECT: Map<String, Value>;
    ANY: Value;
}

impl<T: Parameters> Parameters for Option<T> {
    const SHAPE: Shape = T::SHAPE.or_absent();
}

impl<T: Parameters> Parameters for Box<T> {
    const SHAPE: Shape = T::SHAPE;
}

impl<T> Parameters for Vec<T> {
    const SHAPE: Shape = Shape::ARRAY;
}

impl<K, V> Parameters for BTreeMap<K, V> {
    const SHAPE: Shape = Shape::OBJECT;
}

impl<K, V, S> Parameters for HashMap<K, V, S> {
    const SHAPE: Shape = Shape::OBJECT;
}

/// What a formula declares, for the expansion of [`formula`](macro@crate::formula).
#[doc(hidden)]
#[derive(Debug, Clone, Copy)]
pub struct Declared {
    /// Of the arguments, when their type tells.
    pub request_parameters: Option<Shape>,
    /// Of the configuration, when its type tells.
    pub configuration: Option<Shape>,
}

impl Declared {
    /// Bytes of its JSON.
    pub const fn length(self) -> usize {
        self.write::<0>().length
    }

    /// Its JSON: an object of the lists that are known. `N` is [`Self::length`].
    pub const fn written<const N: usize>(self) -> [u8; N] {
        self.write::<N>().bytes
    }

    const fn write<const N: usize>(self) -> Writer<N> {
        let mut writer = Writer { bytes: [0; N], length: 0, first: true };
        writer.text("{");
        if let Some(shape) = self.request_parameters {
            writer.text("\"request_parameters\":");
            writer.list(shape);
            writer.undeclared(shape);
            if self.configuration.is_some() {
                writer.text(",");
            }
        }
        if let Some(shape) = self.configuration {
            writer.text("\"configuration\":");
            writer.list(shape);
        }
        writer.text("}");
        writer
    }
}

/// The declarations of a shape, for tests: what the compiler would have written.
#[cfg(not(target_arch = "wasm32"))]
pub(crate) fn list(shape: Shape) -> Value {
    /// More than a formula may declare.
    const BYTES_MAX: usize = 256 << 10;
    let declared = Declared { request_parameters: Some(shape), configuration: None };
    let writer = declared.write::<BYTES_MAX>();
    let written = writer.bytes.get(..writer.length).unwrap_or_default();
    let declared: Value = serde_json::from_slice(written).unwrap_or_default();
    declared["request_parameters"].clone()
}

/// Where a member is: within which others, and whether any of them may be absent.
#[derive(Clone, Copy)]
struct Place<'a> {
    above: Option<&'a Place<'a>>,
    name: &'a str,
    optional: bool,
}

/// Writes JSON while the compiler runs. Past `N` bytes it only counts.
struct Writer<const N: usize> {
    bytes: [u8; N],
    length: usize,
    /// Whether the list has no entry yet.
    first: bool,
}

impl<const N: usize> Writer<N> {
    const fn byte(&mut self, byte: u8) {
        if self.length < N {
            self.bytes[self.length] = byte;
        }
        self.length += 1;
    }

    const fn text(&mut self, text: &str) {
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            self.byte(bytes[at]);
            at += 1;
        }
    }

    /// What stands between quotation marks.
    const fn escaped(&mut self, text: &str) {
        const DIGITS: &[u8; 16] = b"0123456789abcdef";
        let bytes = text.as_bytes();
        let mut at = 0;
        while at < bytes.len() {
            match bytes[at] {
                b'"' => self.text("\\\""),
                b'\\' => self.text("\\\\"),
                b'\n' => self.text("\\n"),
                control @ 0..0x20 => {
                    self.text("\\u00");
                    self.byte(DIGITS[(control >> 4) as usize]);
                    self.byte(DIGITS[(control & 15) as usize]);
                }
                other => self.byte(other),
            }
            at += 1;
        }
    }

    const fn list(&mut self, shape: Shape) {
        self.first = true;
        self.text("[");
        self.members(shape.members, None);
        self.text("]");
    }

    /// The names of those that nothing can be declared of, if there are any: a tool warns of them.
    const fn undeclared(&mut self, shape: Shape) {
        self.first = true;
        self.names(shape.members, None);
        if !self.first {
            self.text("]");
        }
    }

    const fn names(&mut self, members: &[Member], above: Option<&Place<'_>>) {
        let mut at = 0;
        while at < members.len() {
            let member = &members[at];
            let place = Place { above, name: member.name, optional: false };
            if !member.shape.members.is_empty() {
                self.names(member.shape.members, Some(&place));
            } else if matches!(member.shape.kind, Kind::Any) {
                self.text(if self.first { ",\"undeclared\":[\"" } else { ",\"" });
                self.first = false;
                self.path(&place);
                self.text("\"");
            }
            at += 1;
        }
    }

    const fn members(&mut self, members: &[Member], above: Option<&Place<'_>>) {
        let above_optional = match above {
            Some(above) => above.optional,
            None => false,
        };
        let mut at = 0;
        while at < members.len() {
            let member = &members[at];
            let optional = above_optional || member.shape.optional;
            let place = Place { above, name: member.name, optional };
            if !member.shape.members.is_empty() {
                self.members(member.shape.members, Some(&place));
            } else if !matches!(member.shape.kind, Kind::Any) {
                self.entry(&place, member);
            }
            at += 1;
        }
    }

    const fn entry(&mut self, place: &Place<'_>, member: &Member) {
        if !self.first {
            self.text(",");
        }
        self.first = false;
        self.text("{\"name\":\"");
        self.path(place);
        if !member.description.is_empty() {
            self.text("\",\"description\":\"");
            self.escaped(member.description);
        }
        self.text("\",\"type\":\"");
        self.text(member.shape.kind.name());
        self.text("\"");
        if place.optional {
            self.text(",\"optional\":true");
        }
        self.text("}");
    }

    const fn path(&mut self, place: &Place<'_>) {
        if let Some(above) = place.above {
            self.path(above);
            self.text(".");
        }
        self.escaped(place.name);
    }
}

#[cfg(test)]
mod tests;
