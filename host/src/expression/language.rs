//! What liquid is to us: one tag per expression, which writes a value as JSON.
//!
//! `value` takes an expression. `value_or_default` takes one whose first filter is `default`, which stands in for what is
//! missing: everywhere else that is an error. So is a `json` that finds nothing, unless `default` comes right behind it.

use std::borrow::Cow;
use std::io::Write;
use std::sync::LazyLock;

use liquid_core::parser::{FilterChain, TagReflection};
use liquid_core::{Expression, Language, ParseTag, Renderable, Runtime, TagTokenIter};

use super::filters::{self, JSON_OR_NOTHING};
use super::value::{from_liquid, is_infinite};
use super::work::weight_of_view;

/// The tag that an expression is handed to liquid in.
pub fn tag(source: &str) -> String {
    let parts: Vec<&str> = parts(source).collect();
    let is_default = |at: usize| parts.get(at).is_some_and(|part| name(part) == "default");
    let named = parts.iter().enumerate().map(|(at, part)| {
        let is_forgiven = at > 0 && name(part) == "json" && is_default(at + 1);
        match part.trim_start().strip_prefix("json").filter(|_| is_forgiven) {
            Some(arguments) => Cow::Owned(format!(" {JSON_OR_NOTHING}{arguments}")),
            None => Cow::Borrowed(*part),
        }
    });
    let named: Vec<Cow<'_, str>> = named.collect();
    let head = parts[0].trim();
    if head.is_empty() || !is_default(1) {
        return format!("{{% value {} %}}", named.join("|"));
    }
    let filters = named[1..].join("|");
    // Other white space than spaces and lines is none to liquid.
    let filters = filters.trim();
    format!("{{% value_or_default {head} {head} | {filters} nil | {filters} %}}")
}

/// What stands before the first bar, and each filter; at least one part.
fn parts(source: &str) -> impl Iterator<Item = &str> {
    let (mut quote, mut depth) = (None, 0_usize);
    source.split(move |c: char| {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') => quote = Some(c),
            (None, '[' | '(') => depth += 1,
            (None, ']' | ')') => depth = depth.saturating_sub(1),
            _ => {}
        }
        quote.is_none() && depth == 0 && c == '|'
    })
}

/// What a filter is called.
fn name(filter: &str) -> &str {
    let is_end = |c: char| matches!(c, ':' | ',' | '(' | '\'' | '"') || c.is_whitespace();
    filter.trim().split(is_end).next().unwrap_or_default()
}

/// The tags and filters there are.
pub static LANGUAGE: LazyLock<Language> = LazyLock::new(|| {
    let mut language = Language::empty();
    language.tags.register("value".to_owned(), ValueTag.into());
    language.tags.register("value_or_default".to_owned(), DefaultedTag.into());
    filters::register(&mut language);
    language
});

/// Whether a name behind a bar is no filter's that may be written.
pub fn names_unknown_filter(source: &str) -> bool {
    parts(source).skip(1).map(name).any(|name| {
        let is_known = LANGUAGE.filters.get(name).is_some() && name != JSON_OR_NOTHING;
        !name.is_empty() && !is_known
    })
}

#[derive(Clone)]
struct ValueTag;

impl TagReflection for ValueTag {
    fn tag(&self) -> &'static str {
        "value"
    }

    fn description(&self) -> &'static str {
        "Writes a value as JSON."
    }
}

impl ParseTag for ValueTag {
    fn parse(
        &self,
        mut arguments: TagTokenIter<'_>,
        language: &Language,
    ) -> liquid_core::Result<Box<dyn Renderable>> {
        let chain = arguments.expect_next("an expression")?;
        let chain = chain.expect_filter_chain(language).into_result()?;
        arguments.expect_nothing()?;
        Ok(Box::new(WrittenValue(chain)))
    }

    fn reflection(&self) -> &dyn TagReflection {
        self
    }
}

#[derive(Clone)]
struct DefaultedTag;

impl TagReflection for DefaultedTag {
    fn tag(&self) -> &'static str {
        "value_or_default"
    }

    fn description(&self) -> &'static str {
        "Writes a value that may be missing as JSON."
    }
}

impl ParseTag for DefaultedTag {
    fn parse(
        &self,
        mut arguments: TagTokenIter<'_>,
        language: &Language,
    ) -> liquid_core::Result<Box<dyn Renderable>> {
        let head = arguments.expect_next("a value")?.expect_value().into_result()?;
        let present = arguments.expect_next("an expression")?;
        let present = WrittenValue(present.expect_filter_chain(language).into_result()?);
        let absent = arguments.expect_next("an expression")?;
        let absent = WrittenValue(absent.expect_filter_chain(language).into_result()?);
        arguments.expect_nothing()?;
        Ok(Box::new(DefaultedValue { head, present, absent }))
    }

    fn reflection(&self) -> &dyn TagReflection {
        self
    }
}

#[derive(Debug)]
struct WrittenValue(FilterChain);

impl Renderable for WrittenValue {
    fn render_to(&self, writer: &mut dyn Write, runtime: &dyn Runtime) -> liquid_core::Result<()> {
        let value = self.0.evaluate(runtime)?;
        if is_infinite(value.as_view()) {
            return Err(liquid_core::Error::with_msg("no number of JSON"));
        }
        filters::pay(runtime, weight_of_view(value.as_view()).cost())?;
        let failed = |_| liquid_core::Error::with_msg("a value does not serialise");
        serde_json::to_writer(writer, &from_liquid(value.as_view())).map_err(failed)
    }
}

#[derive(Debug)]
struct DefaultedValue {
    head: Expression,
    present: WrittenValue,
    absent: WrittenValue,
}

impl Renderable for DefaultedValue {
    fn render_to(&self, writer: &mut dyn Write, runtime: &dyn Runtime) -> liquid_core::Result<()> {
        let there = self.head.try_evaluate(runtime).is_some();
        let written = if there { &self.present } else { &self.absent };
        written.render_to(writer, runtime)
    }
}
