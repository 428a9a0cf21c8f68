//! A template: text with expressions in it, parsed once, evaluated often.
//!
//! Each expression is handed to liquid as the argument of a tag of ours that writes the value as JSON, so that types
//! survive; liquid by itself renders text.

use std::collections::BTreeMap;
use std::fmt;
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::LazyLock;

use liquid_core::parser::{FilterChain, TagReflection};
use liquid_core::runtime::RuntimeBuilder;
use liquid_core::{Language, ParseTag, Renderable, Runtime, TagTokenIter};
use serde_json::Value;

use super::ExpressionError;
use super::filters::{self, Failed, Randomness};
use super::value::{from_liquid, to_liquid, to_text};
use crate::crypto::entropy::Entropy;
use crate::limits::{EXPRESSION_BYTES_MAX, EXPRESSION_OUTPUT_BYTES_MAX};

/// Filters in one expression.
const FILTERS_MAX: usize = 20;
/// Brackets within brackets in one expression.
const BRACKET_DEPTH_MAX: usize = 8;

/// What an expression can see.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// The variable `data`.
    pub data: &'a Value,
    /// The variable `metadata`.
    pub metadata: Option<&'a BTreeMap<String, String>>,
    /// Where filters that draw get their randomness.
    pub entropy: &'a dyn Entropy,
}

/// Text with expressions in it.
#[derive(Debug)]
pub struct Template(Vec<Piece>);

enum Piece {
    Text(String),
    /// A member of `data`, by its path: nothing to be computed.
    Member(Vec<String>),
    Computed(Box<dyn Renderable>),
}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text"),
            Self::Member(_) => f.write_str("Member"),
            Self::Computed(_) => f.write_str("Computed"),
        }
    }
}

/// A stretch of a template's source.
pub enum Stretch<'s> {
    /// Outside braces.
    Text(&'s str),
    /// Between `{{` and `}}`.
    Expression(&'s str),
}

/// Splits a source at its braces. A `}}` inside quotes does not close.
pub fn stretches(source: &str) -> Result<Vec<Stretch<'_>>, ExpressionError> {
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(open) = rest.find("{{") {
        if open > 0 {
            found.push(Stretch::Text(&rest[..open]));
        }
        let inner = &rest[open + 2..];
        let close = closing(inner).ok_or(ExpressionError::Unclosed)?;
        found.push(Stretch::Expression(inner[..close].trim()));
        rest = &inner[close + 2..];
    }
    if !rest.is_empty() || found.is_empty() {
        found.push(Stretch::Text(rest));
    }
    Ok(found)
}

/// Where `}}` closes: quotes count only behind the first `|` or `:`, since ids may hold an apostrophe.
fn closing(inner: &str) -> Option<usize> {
    let mut quote = None;
    let mut in_filters = false;
    for (at, c) in inner.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') if in_filters => quote = Some(c),
            (None, '|' | ':') => in_filters = true,
            (None, '}') if inner[at..].starts_with("}}") => return Some(at),
            (Some(_) | None, _) => {}
        }
    }
    None
}

impl Template {
    /// Parses a template.
    pub fn parse(source: &str) -> Result<Self, ExpressionError> {
        if source.len() > EXPRESSION_BYTES_MAX {
            return Err(ExpressionError::TooLong);
        }
        let piece = |stretch: Stretch<'_>| match stretch {
            Stretch::Text(text) if text.contains("{%") => Err(ExpressionError::Tag),
            Stretch::Text(text) => Ok(Piece::Text(text.to_owned())),
            Stretch::Expression(source) => expression(source),
        };
        stretches(source)?.into_iter().map(piece).collect::<Result<_, _>>().map(Self)
    }

    /// Evaluates it: one expression alone keeps its type, anything else becomes text.
    pub fn evaluate(&self, scope: &Scope<'_>) -> Result<Value, ExpressionError> {
        let value = match self.0.as_slice() {
            [Piece::Text(text)] => return Ok(Value::String(text.clone())),
            [piece] => piece.evaluate(scope)?,
            _ => Value::String(self.evaluate_text(scope)?),
        };
        // A member of the data is no larger than the data; what is computed is bounded.
        let computed = !matches!(self.0.as_slice(), [Piece::Member(_)]);
        if computed && to_text(&value).len() > EXPRESSION_OUTPUT_BYTES_MAX {
            return Err(ExpressionError::TooLarge);
        }
        Ok(value)
    }

    /// Evaluates it to text: strings as they are, other values as canonical JSON.
    pub fn evaluate_text(&self, scope: &Scope<'_>) -> Result<String, ExpressionError> {
        let mut text = String::new();
        for piece in &self.0 {
            match piece {
                Piece::Text(literal) => text.push_str(literal),
                piece => text.push_str(&to_text(&piece.evaluate(scope)?)),
            }
            // The whole data is text that may be fingerprinted; more than that is made up.
            let alone = self.0.len() == 1;
            if !alone && text.len() > EXPRESSION_OUTPUT_BYTES_MAX {
                return Err(ExpressionError::TooLarge);
            }
        }
        Ok(text)
    }

    /// Evaluates it to the text of a single value that is not empty.
    pub fn evaluate_index(&self, scope: &Scope<'_>) -> Result<String, ExpressionError> {
        match self.evaluate(scope)? {
            Value::Array(_) | Value::Object(_) => Err(ExpressionError::NotSingle),
            Value::Null => Err(ExpressionError::Empty),
            Value::String(text) if text.is_empty() => Err(ExpressionError::Empty),
            value => Ok(to_text(&value)),
        }
    }
}

impl Piece {
    fn evaluate(&self, scope: &Scope<'_>) -> Result<Value, ExpressionError> {
        match self {
            Self::Text(text) => Ok(Value::String(text.clone())),
            Self::Member(path) => {
                let mut value = scope.data;
                for name in path {
                    value = value.get(name).ok_or(ExpressionError::Unevaluable)?;
                }
                Ok(value.clone())
            }
            Self::Computed(renderable) => compute(renderable.as_ref(), scope),
        }
    }
}

fn compute(renderable: &dyn Renderable, scope: &Scope<'_>) -> Result<Value, ExpressionError> {
    let mut globals = liquid_core::Object::new();
    globals.insert("data".into(), to_liquid(scope.data));
    if let Some(metadata) = scope.metadata {
        let member = |(name, value): (&String, &String)| {
            (name.clone().into(), liquid_core::Value::scalar(value.clone()))
        };
        globals.insert(
            "metadata".into(),
            metadata.iter().map(member).collect::<liquid_core::Object>().into(),
        );
    }
    let runtime = RuntimeBuilder::new().set_globals(&globals).build();
    runtime.registers().get_mut::<Randomness>().seed(scope.entropy);
    let mut json = Vec::new();
    // Liquid's arithmetic overflows by a panic for a few operands; that is an error of the expression.
    let run = AssertUnwindSafe(|| renderable.render_to(&mut json, &runtime));
    match catch_unwind(run) {
        Ok(Ok(())) => serde_json::from_slice(&json).map_err(|_| ExpressionError::Unevaluable),
        Ok(Err(_)) => {
            // Liquid's own text quotes the input: only ours is told.
            let failed = runtime.registers().get_mut::<Failed>().0.take();
            Err(failed.unwrap_or(ExpressionError::Unevaluable))
        }
        Err(_) => Err(ExpressionError::Unevaluable),
    }
}

fn expression(source: &str) -> Result<Piece, ExpressionError> {
    if let Some(path) = member(source) {
        return Ok(Piece::Member(path));
    }
    check_complexity(source)?;
    let tag = format!("{{% value {source} %}}");
    // Liquid panics on nothing known; what it does on the unknown is an error here.
    let parsed = catch_unwind(|| liquid_core::parser::parse(&tag, &LANGUAGE));
    let mut parsed = parsed.ok().and_then(Result::ok).ok_or(ExpressionError::Syntax)?;
    match parsed.pop() {
        Some(renderable) if parsed.is_empty() => Ok(Piece::Computed(renderable)),
        _ => Err(ExpressionError::Syntax),
    }
}

/// The path of `data` or `data.member.member`.
fn member(source: &str) -> Option<Vec<String>> {
    let mut names = source.split('.');
    if names.next() != Some("data") {
        return None;
    }
    let plain = |name: &str| {
        !name.is_empty()
            && !name.starts_with(|c: char| c.is_ascii_digit())
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
            // Liquid gives these a meaning of their own on arrays and objects.
            && !matches!(name, "size" | "first" | "last")
    };
    names.map(|name| plain(name).then(|| name.to_owned())).collect()
}

/// Bounds what parsing and evaluating can cost before either begins.
fn check_complexity(source: &str) -> Result<(), ExpressionError> {
    let (mut quote, mut depth, mut filters) = (None, 0_usize, 0_usize);
    for (at, c) in source.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            // A width in a date format would be an allocation of the caller's size.
            (Some(_), '%') if source[at + 1..].starts_with(|c: char| c.is_ascii_digit()) => {
                return Err(ExpressionError::TooComplex);
            }
            (None, '\'' | '"') => quote = Some(c),
            (None, '[' | '(') => depth += 1,
            (None, ']' | ')') => depth = depth.saturating_sub(1),
            (None, '|') => filters += 1,
            (None, '%' | '{' | '}') => return Err(ExpressionError::Syntax),
            (Some(_) | None, _) => {}
        }
        if depth > BRACKET_DEPTH_MAX || filters > FILTERS_MAX {
            return Err(ExpressionError::TooComplex);
        }
    }
    Ok(())
}

static LANGUAGE: LazyLock<Language> = LazyLock::new(|| {
    let mut language = Language::empty();
    language.tags.register("value".to_owned(), ValueTag.into());
    filters::register(&mut language);
    language
});

/// The tag that an expression is handed to liquid in.
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

#[derive(Debug)]
struct WrittenValue(FilterChain);

impl Renderable for WrittenValue {
    fn render_to(&self, writer: &mut dyn Write, runtime: &dyn Runtime) -> liquid_core::Result<()> {
        let value = self.0.evaluate(runtime)?;
        let failed = |_| liquid_core::Error::with_msg("a value does not serialise");
        serde_json::to_writer(writer, &from_liquid(value.as_view())).map_err(failed)
    }
}
