//! The filters: Liquid's standard ones, and the table of ours.
//!
//! A filter of ours is a function from a JSON value and arguments to a JSON value. Its arguments may be given by
//! position or by name.

mod card;
mod date;
mod encode;
mod fallback;
mod number;
mod path;
mod reveal;
mod shape;
mod standard;

use std::fmt;

pub(super) use self::path::PATH_BYTES_MAX;
pub(super) use self::reveal::last_shown;

use liquid_core::parser::{FilterArguments, ParameterReflection};
use liquid_core::{
    Expression, Filter, FilterReflection, Language, ParseFilter, Runtime, ValueView,
};
use rand::SeedableRng as _;
use rand::rngs::StdRng;
use serde_json::Value;

use super::ExpressionError;
use super::value::{from_liquid, to_liquid, to_text};
use super::work::{Work, weight_of_view};
use crate::crypto::entropy::Entropy;

/// Items of an array that a filter of liquid's takes, and that some of ours take or make.
pub(super) const ITEMS_MAX: usize = 10_000;
/// Bytes that a filter may be given, and that one of ours may make, on the way to an output.
pub(super) const MADE_BYTES_MAX: usize = 2 << 20;

/// Why a filter refuses, in fixed words.
pub(super) type Refusal = &'static str;

/// What a filter of ours does.
pub(super) type Run = fn(&Value, &Arguments<'_>) -> Result<Value, Refusal>;

/// A filter of ours.
#[derive(Debug, Clone, Copy)]
pub(super) struct Row {
    name: &'static str,
    parameters: &'static [&'static str],
    run: Run,
}

const fn row(name: &'static str, parameters: &'static [&'static str], run: Run) -> Row {
    Row { name, parameters, run }
}

/// What `json` is handed to liquid as where `default` comes right behind it. Nobody writes it so.
pub(super) const JSON_OR_NOTHING: &str = "json_or_nothing";

/// Every filter of ours, with its parameters in their order (decisions §4).
pub(super) const TABLE: &[Row] = &[
    row("last4", &[], reveal::last4),
    row("reveal_last", &["n", "char"], reveal::reveal_last),
    row("reveal", &["first", "last", "char", "keep"], reveal::reveal),
    row("card_mask", &["bin", "last4", "char", "keep"], card::card_mask),
    row("card_bin", &["separator"], card::card_bin),
    row("card_exp", &["format"], card::card_exp),
    row("alias_card", &["bin", "last4"], card::alias_card),
    row("alias_preserve_format", &["first", "last"], reveal::alias_preserve_format),
    row("alias_preserve_length", &["first", "last"], reveal::alias_preserve_length),
    row("json", &["path"], path::json),
    row("stringify", &[], shape::stringify),
    row("json_stringify", &[], shape::json_stringify),
    row("pad_left", &["n", "char"], shape::pad_left),
    row("pad_right", &["n", "char"], shape::pad_right),
    row("to_string", &[], shape::to_string),
    row("to_number", &[], shape::to_number),
    row("to_boolean", &[], shape::to_boolean),
    // Liquid's own can multiply their input without bound, and `replace` has a default here.
    row("replace", &["from", "to"], shape::replace),
    row("join", &["separator"], shape::join),
    // Liquid's own makes an item of every character of a text of any length.
    row("split", &["separator"], shape::split),
    // Liquid's own compares each item with each other.
    row("uniq", &[], shape::uniq),
    // Liquid's own writes an object with its members in any order.
    row("sort", &["property"], shape::sort),
    row("sort_natural", &["property"], shape::sort_natural),
    // Liquid's own pads to any width, and takes no day without a time, no number and nothing as RFC 3339 writes it.
    row("date", &["format"], date::date),
    // Liquid's own counts bytes from the end, not characters.
    row("slice", &["offset", "length"], shape::slice),
    // Liquid's own counts bytes.
    row("size", &[], shape::size),
    // Liquid's counts bytes, and cuts text that fits.
    row("truncate", &["length", "ellipsis"], shape::truncate),
    row("hmac", &["algorithm", "key"], encode::hmac),
    row("to_base64", &[], encode::to_base64),
    row("to_base16", &[], encode::to_base16),
];

/// Registers the standard filters and ours.
pub(super) fn register(language: &mut Language) {
    standard::register(language);
    number::register(language);
    language.filters.register(fallback::NAME.to_owned(), Box::new(fallback::Default));
    let json = row("json", &["path"], path::json_or_nothing);
    language.filters.register(JSON_OR_NOTHING.to_owned(), Box::new(json));
    for row in TABLE {
        language.filters.register(row.name.to_owned(), Box::new(*row));
    }
}

/// Randomness for one evaluation.
#[derive(Default)]
pub(super) struct Randomness(Option<StdRng>);

impl Randomness {
    /// Seeds it.
    pub(super) fn seed(&mut self, entropy: &dyn Entropy) {
        let mut seed = [0; 32];
        entropy.fill(&mut seed);
        self.0 = Some(StdRng::from_seed(seed));
    }
}

/// Whether the value is kept with a token: an id, or what the token is found and told apart by.
#[derive(Default)]
pub(super) struct Kept(pub(super) bool);

/// What we said when we refused.
#[derive(Default)]
pub(super) struct Failed(pub(super) Option<ExpressionError>);

/// Pays for work from what this evaluation has left.
pub(super) fn pay(runtime: &dyn Runtime, bytes: usize) -> liquid_core::Result<()> {
    let paid = runtime.registers().get_mut::<Work>().pay(bytes);
    paid.map_err(|failure| refuse(runtime, failure))
}

/// Pays for what a filter is given.
fn pay_input(runtime: &dyn Runtime, input: &dyn ValueView) -> liquid_core::Result<()> {
    let weight = weight_of_view(input);
    if weight.bytes > MADE_BYTES_MAX {
        return Err(refuse(runtime, ExpressionError::TooComplex));
    }
    pay(runtime, weight.cost())
}

/// Notes why, since liquid's errors are texts.
fn refuse(runtime: &dyn Runtime, failure: ExpressionError) -> liquid_core::Error {
    runtime.registers().get_mut::<Failed>().0 = Some(failure);
    liquid_core::Error::with_msg("refused")
}

/// Arguments of a call, and its randomness.
pub(super) struct Arguments<'r> {
    values: Vec<Option<Value>>,
    runtime: &'r dyn Runtime,
}

impl Arguments<'_> {
    /// An argument, if it is given.
    pub(super) fn given(&self, index: usize) -> Option<&Value> {
        self.values.get(index).and_then(Option::as_ref)
    }

    /// An argument as text, or its default.
    pub(super) fn text(&self, index: usize, default: &str) -> String {
        self.given(index).map_or_else(|| default.to_owned(), to_text)
    }

    /// An argument as a count, or its default.
    pub(super) fn count(&self, index: usize, default: usize) -> Result<usize, Refusal> {
        let Some(value) = self.given(index) else { return Ok(default) };
        let number = match value {
            Value::Number(number) => number.as_u64(),
            Value::String(text) => text.parse().ok(),
            _ => None,
        };
        let count = number.and_then(|number| usize::try_from(number).ok());
        count.ok_or("takes a whole number that is not negative")
    }

    /// An argument as a whole number; it must be given.
    pub(super) fn integer(&self, index: usize) -> Result<i64, Refusal> {
        let number = match self.given(index) {
            Some(Value::Number(number)) => number.as_i64(),
            Some(Value::String(text)) => text.parse().ok(),
            _ => None,
        };
        number.ok_or("takes a whole number")
    }

    /// An argument as a flag, or false.
    pub(super) fn flag(&self, index: usize) -> Result<bool, Refusal> {
        match self.given(index) {
            None => Ok(false),
            Some(Value::Bool(flag)) => Ok(*flag),
            Some(Value::String(text)) if text == "true" => Ok(true),
            Some(Value::String(text)) if text == "false" => Ok(false),
            Some(_) => Err("takes true or false"),
        }
    }

    /// An argument as one character, or its default.
    pub(super) fn char(&self, index: usize, default: char) -> Result<char, Refusal> {
        let text = self.text(index, "");
        let mut chars = text.chars();
        match (chars.next(), chars.next()) {
            (None, _) if self.given(index).is_none() => Ok(default),
            (Some(c), None) => Ok(c),
            _ => Err("takes one character"),
        }
    }

    /// Whether the value may be another one each time.
    pub(super) fn may_vary(&self) -> bool {
        self.runtime.registers().get_mut::<Randomness>().0.is_some()
    }

    /// Whether the value is kept: it must be what was made of the same whenever it is made again.
    pub(super) fn is_kept(&self) -> bool {
        self.runtime.registers().get_mut::<Kept>().0
    }

    /// Draws with this evaluation's randomness.
    pub(super) fn draw<T>(&self, draw: impl FnOnce(&mut StdRng) -> T) -> Result<T, Refusal> {
        let mut randomness = self.runtime.registers().get_mut::<Randomness>();
        randomness.0.as_mut().map(draw).ok_or("has no randomness here")
    }
}

/// The text of a single value.
pub(super) fn single(value: &Value) -> Result<String, Refusal> {
    match value {
        Value::Array(_) | Value::Object(_) | Value::Null => Err("takes a single value"),
        value => Ok(to_text(value)),
    }
}

impl FilterReflection for Row {
    fn name(&self) -> &str {
        self.name
    }

    fn description(&self) -> &'static str {
        ""
    }

    fn positional_parameters(&self) -> &'static [ParameterReflection] {
        &[]
    }

    fn keyword_parameters(&self) -> &'static [ParameterReflection] {
        &[]
    }
}

impl ParseFilter for Row {
    fn parse(&self, arguments: FilterArguments<'_>) -> liquid_core::Result<Box<dyn Filter>> {
        let mut expressions: Vec<Option<Expression>> = arguments.positional.map(Some).collect();
        if expressions.len() > self.parameters.len() {
            return Err(liquid_core::Error::with_msg("too many arguments"));
        }
        expressions.resize_with(self.parameters.len(), || None);
        for (name, expression) in arguments.keyword {
            let index = self.parameters.iter().position(|parameter| *parameter == name);
            let free =
                index.and_then(|index| expressions.get_mut(index)).filter(|slot| slot.is_none());
            match free {
                Some(slot) => *slot = Some(expression),
                None => return Err(liquid_core::Error::with_msg("unknown argument")),
            }
        }
        Ok(Box::new(Applied { row: *self, expressions }))
    }

    fn reflection(&self) -> &dyn FilterReflection {
        self
    }
}

/// One of our filters in an expression.
#[derive(Debug)]
struct Applied {
    row: Row,
    expressions: Vec<Option<Expression>>,
}

impl fmt::Display for Applied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.row.name)
    }
}

impl Filter for Applied {
    fn evaluate(
        &self,
        input: &dyn ValueView,
        runtime: &dyn Runtime,
    ) -> liquid_core::Result<liquid_core::Value> {
        pay_input(runtime, input)?;
        let mut values = Vec::with_capacity(self.expressions.len());
        for expression in &self.expressions {
            let value = expression.as_ref().map(|expression| expression.evaluate(runtime));
            let value = value.transpose()?;
            if let Some(value) = &value {
                pay_input(runtime, value.as_view())?;
            }
            values.push(value.map(|value| from_liquid(value.as_view())));
        }
        let arguments = Arguments { values, runtime };
        let made = (self.row.run)(&from_liquid(input), &arguments);
        made.map(|value| to_liquid(&value)).map_err(|reason| {
            refuse(runtime, ExpressionError::Filter { filter: self.row.name, reason })
        })
    }
}
