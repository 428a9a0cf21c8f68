//! Liquid's own filters, guarded: what they are given is bounded, and text that they make of it is
//! the same each time.

use std::fmt;

use liquid_core::model::{ArrayView, KString};
use liquid_core::parser::FilterArguments;
use liquid_core::{
    Expression, Filter, FilterReflection, Language, ParseFilter, Runtime, Value, ValueView,
};

use super::{ITEMS_MAX, pay_input};
use crate::expression::value::{from_liquid, large_number, to_text};

/// Registers them.
pub(super) fn register(language: &mut Language) {
    macro_rules! standard {
        ($makes_text:literal: $($name:ident)+) => {
            $({
                let filter: Box<dyn ParseFilter> = liquid_lib::stdlib::$name.into();
                let name = filter.reflection().name().to_owned();
                let guarded = Guarded { filter, makes_text: $makes_text };
                language.filters.register(name, Box::new(guarded));
            })+
        };
    }
    standard! { false:
        Compact Concat First Last Map Reverse Where
    }
    standard! { true:
        Append Capitalize Downcase Escape EscapeOnce Lstrip NewlineToBr Prepend Remove RemoveFirst
        ReplaceFirst Rstrip Strip StripHtml StripNewlines TruncateWords Upcase UrlDecode UrlEncode
    }
}

/// A standard filter that takes no endless array.
#[derive(Clone)]
struct Guarded {
    filter: Box<dyn ParseFilter>,
    /// It makes text of its input and of its arguments, whatever they are.
    makes_text: bool,
}

impl fmt::Debug for Guarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.filter.reflection().name())
    }
}

impl ParseFilter for Guarded {
    fn parse(&self, arguments: FilterArguments<'_>) -> liquid_core::Result<Box<dyn Filter>> {
        if !self.makes_text {
            let filter = self.filter.parse(arguments)?;
            return Ok(Box::new(GuardedFilter { filter, texts: None }));
        }
        let mut named = arguments.keyword;
        if named.next().is_some() {
            return Err(liquid_core::Error::with_msg("unknown argument"));
        }
        let arguments: Vec<Expression> = arguments.positional.collect();
        let filter = self.parse_with(arguments.clone())?;
        let texts = Texts { guarded: self.clone(), arguments };
        Ok(Box::new(GuardedFilter { filter, texts: Some(texts) }))
    }

    fn reflection(&self) -> &dyn FilterReflection {
        self.filter.reflection()
    }
}

impl Guarded {
    fn parse_with(&self, arguments: Vec<Expression>) -> liquid_core::Result<Box<dyn Filter>> {
        let positional = Box::new(arguments.into_iter());
        self.filter.parse(FilterArguments { positional, keyword: Box::new(std::iter::empty()) })
    }
}

#[derive(Debug)]
struct GuardedFilter {
    filter: Box<dyn Filter>,
    texts: Option<Texts>,
}

/// A filter that makes text, and its arguments, to be parsed anew when objects are among them.
#[derive(Debug)]
struct Texts {
    guarded: Guarded,
    arguments: Vec<Expression>,
}

impl fmt::Display for GuardedFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.filter.fmt(f)
    }
}

impl Filter for GuardedFilter {
    fn evaluate(&self, input: &dyn ValueView, runtime: &dyn Runtime) -> liquid_core::Result<Value> {
        let items = input.as_array().map_or(0, ArrayView::size);
        if !usize::try_from(items).is_ok_and(|items| items <= ITEMS_MAX) {
            return Err(liquid_core::Error::with_msg("too many items"));
        }
        pay_input(runtime, input)?;
        let anew = match &self.texts {
            Some(texts) => texts.parse_anew(runtime)?,
            None => None,
        };
        let filter = anew.as_ref().unwrap_or(&self.filter);
        let text = self.texts.as_ref().and_then(|_| text_of_objects(input));
        match large_number(input).or(text) {
            Some(text) => filter.evaluate(&text, runtime),
            None => filter.evaluate(input, runtime),
        }
    }
}

impl Texts {
    /// The filter with text in the place of arguments that are or hold objects, if any do.
    fn parse_anew(&self, runtime: &dyn Runtime) -> liquid_core::Result<Option<Box<dyn Filter>>> {
        let mut anew = None;
        for (index, argument) in self.arguments.iter().enumerate() {
            let value = argument.evaluate(runtime)?;
            let Some(text) = text_of_objects(value.as_view()) else { continue };
            pay_input(runtime, value.as_view())?;
            let arguments = anew.get_or_insert_with(|| self.arguments.clone());
            arguments[index] = Expression::with_literal(text);
        }
        anew.map(|arguments| self.guarded.parse_with(arguments)).transpose()
    }
}

/// Canonical JSON of what is or holds an object: liquid writes its members in any order, another
/// one each time, and a text that is fingerprinted or searched for must be the same each time.
fn text_of_objects(value: &dyn ValueView) -> Option<KString> {
    holds_objects(value).then(|| to_text(&from_liquid(value)).into())
}

fn holds_objects(value: &dyn ValueView) -> bool {
    match value.as_array() {
        Some(items) => items.values().any(holds_objects),
        None => value.is_object(),
    }
}
