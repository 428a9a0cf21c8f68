//! A template: text with expressions in it, parsed once, evaluated often.
//!
//! Each expression is handed to liquid as the argument of a tag of ours that writes the value as JSON, so that types
//! survive; liquid by itself renders text.

use std::cell::OnceCell;
use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, LazyLock};

use liquid_core::runtime::RuntimeBuilder;
use liquid_core::{Renderable, Runtime as _};
use quick_cache::Weighter;
use quick_cache::sync::Cache;
use serde_json::Value;

use super::ExpressionError;
use super::filters::{Failed, JSON_OR_NOTHING, Kept, MADE_BYTES_MAX, Randomness, last_shown};
use super::language::{self, LANGUAGE};
use super::numbers;
use super::simple::{last_shown_member, member, named_by_json};
use super::value::{to_liquid, to_name, to_text};
use super::work::{Work, weight};
use crate::crypto::entropy::Entropy;
use crate::limits::{EXPRESSION_BYTES_MAX, EXPRESSION_OUTPUT_BYTES_MAX, EXPRESSION_WORK_BYTES_MAX};

/// Templates that are kept parsed, about, and bytes of their sources together.
const PARSED_TEMPLATES: usize = 1_024;
const PARSED_SOURCE_BYTES: u64 = 256 << 10;
/// Filters in one expression.
const FILTERS_MAX: usize = 20;
/// Bytes of a text that is short.
const SHORT_BYTES: usize = 1 << 10;
/// Brackets within brackets in one expression.
const BRACKET_DEPTH_MAX: usize = 8;

/// What an expression can see.
#[derive(Clone, Copy)]
pub struct Scope<'a> {
    /// The variable `data`.
    pub data: &'a Value,
    /// The variable `metadata`.
    pub metadata: Option<&'a BTreeMap<String, String>>,
    /// Where filters that draw get their randomness; none where the value is to be the same each time.
    pub entropy: Option<&'a dyn Entropy>,
}

/// A scope under evaluation: many templates may see it, its data is converted once, and the work on it is bounded.
pub struct Evaluation<'a> {
    scope: Scope<'a>,
    globals: OnceCell<liquid_core::Object>,
    is_kept: bool,
    work: &'a Work,
}

impl<'a> Evaluation<'a> {
    /// Evaluates in this scope, with this much work, what is shown or handed on.
    pub fn new(scope: Scope<'a>, work: &'a Work) -> Self {
        Self { scope, globals: OnceCell::new(), is_kept: false, work }
    }

    /// As [`Self::new`], what is kept with a token.
    fn kept(scope: Scope<'a>, work: &'a Work) -> Self {
        Self { is_kept: true, ..Self::new(scope, work) }
    }

    /// The variables as liquid's.
    fn globals(&self) -> Result<&liquid_core::Object, ExpressionError> {
        if let Some(globals) = self.globals.get() {
            return Ok(globals);
        }
        self.work.pay(weight(self.scope.data).cost())?;
        Ok(self.globals.get_or_init(|| globals(&self.scope)))
    }
}

fn globals(scope: &Scope<'_>) -> liquid_core::Object {
    let mut globals = liquid_core::Object::new();
    globals.insert("data".into(), to_liquid(scope.data));
    if let Some(metadata) = scope.metadata {
        let member = |(name, value): (&String, &String)| {
            (to_name(name), liquid_core::Value::scalar(value.clone()))
        };
        let metadata = metadata.iter().map(member).collect::<liquid_core::Object>();
        globals.insert("metadata".into(), metadata.into());
    }
    globals
}

/// Text with expressions in it.
#[derive(Debug, Clone)]
pub struct Template(Arc<[Piece]>);

/// Templates that were parsed lately, weighed by their sources. Tokens by the million share a few masks.
static PARSED: LazyLock<Cache<String, Template, SourceBytes>> =
    LazyLock::new(|| Cache::with_weighter(PARSED_TEMPLATES, PARSED_SOURCE_BYTES, SourceBytes));

#[derive(Clone)]
struct SourceBytes;

impl Weighter<String, Template> for SourceBytes {
    fn weight(&self, source: &String, _: &Template) -> u64 {
        1 + source.len() as u64
    }
}

enum Piece {
    Text(String),
    /// A member of `data`, by its path: nothing to be computed.
    Member(Vec<String>),
    /// A member of `data` with its last characters shown, as most masks have it: liquid is asked only about what is no
    /// short text.
    LastShown(Vec<String>, usize, Box<dyn Renderable>),
    /// What a JSONPath of names finds in `data`, as most references have it; and the source, which liquid is asked about
    /// when that is nothing.
    Found(Vec<String>, String),
    Computed(Box<dyn Renderable>),
}

impl fmt::Debug for Piece {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(_) => f.write_str("Text"),
            Self::Member(_) => f.write_str("Member"),
            Self::LastShown(..) => f.write_str("LastShown"),
            Self::Found(..) => f.write_str("Found"),
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

/// Where quotes count, so that a `}}` within them does not close.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Quotes {
    /// In all of an expression.
    Everywhere,
    /// Behind the first `|`: before it is the id of a token, which may hold an apostrophe.
    InFilters,
}

/// Splits a source at its braces.
pub fn stretches(source: &str, quotes: Quotes) -> Result<Vec<Stretch<'_>>, ExpressionError> {
    let mut found = Vec::new();
    let mut rest = source;
    while let Some(open) = rest.find("{{") {
        if open > 0 {
            found.push(Stretch::Text(&rest[..open]));
        }
        let inner = &rest[open + 2..];
        let close = closing(inner, quotes).ok_or(ExpressionError::Unclosed)?;
        found.push(Stretch::Expression(&inner[..close]));
        rest = &inner[close + 2..];
    }
    if !rest.is_empty() || found.is_empty() {
        found.push(Stretch::Text(rest));
    }
    Ok(found)
}

/// Where `}}` closes.
fn closing(inner: &str, quotes: Quotes) -> Option<usize> {
    let mut quote = None;
    let mut counts = quotes == Quotes::Everywhere;
    for (at, c) in inner.char_indices() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
            (None, '\'' | '"') if counts => quote = Some(c),
            (None, '|') => counts = true,
            (None, '}') if inner[at..].starts_with("}}") => return Some(at),
            (Some(_) | None, _) => {}
        }
    }
    None
}

impl Template {
    /// Parses a template.
    pub fn parse(source: &str) -> Result<Self, ExpressionError> {
        let fits = source.len() <= EXPRESSION_BYTES_MAX;
        if fits { Self::parse_measured(source) } else { Err(ExpressionError::TooLong) }
    }

    /// The same of what was measured before, as its author wrote it.
    pub(super) fn parse_measured(source: &str) -> Result<Self, ExpressionError> {
        let piece = |stretch: Stretch<'_>| match stretch {
            Stretch::Text(text) if text.contains("{%") => Err(ExpressionError::Tag),
            Stretch::Text(text) => Ok(Piece::Text(text.to_owned())),
            Stretch::Expression(source) => expression(source.trim()),
        };
        stretches(source, Quotes::Everywhere)?
            .into_iter()
            .map(piece)
            .collect::<Result<_, _>>()
            .map(Self)
    }

    /// Parses a template that is kept with a token, or finds it among those parsed lately. Not for what a caller hands in
    /// to be forgotten: it may hold a key.
    pub fn parse_kept(source: &str) -> Result<Self, ExpressionError> {
        if let Some(template) = PARSED.get(source) {
            return Ok(template);
        }
        let template = Self::parse(source)?;
        PARSED.insert(source.to_owned(), template.clone());
        Ok(template)
    }

    /// Evaluates it to what is kept: one expression alone keeps its type, anything else becomes text.
    pub fn evaluate(&self, scope: &Scope<'_>) -> Result<Value, ExpressionError> {
        self.evaluate_in(&Evaluation::kept(*scope, &Work::new(EXPRESSION_WORK_BYTES_MAX)))
    }

    /// Evaluates it where others are evaluated too.
    pub fn evaluate_in(&self, evaluation: &Evaluation<'_>) -> Result<Value, ExpressionError> {
        let value = match self.0.as_ref() {
            [Piece::Text(text)] => return Ok(Value::String(text.clone())),
            [piece] => piece.evaluate(evaluation)?,
            _ => Value::String(self.text(evaluation)?),
        };
        // A member of the data is no larger than the data; what is computed is bounded.
        let computed = !matches!(self.0.as_ref(), [Piece::Member(_)]);
        if computed && to_text(&value).len() > EXPRESSION_OUTPUT_BYTES_MAX {
            return Err(ExpressionError::TooLarge);
        }
        Ok(value)
    }

    /// Evaluates it to text that is kept: strings as they are, other values as canonical JSON.
    pub fn evaluate_text(&self, scope: &Scope<'_>, work: &Work) -> Result<String, ExpressionError> {
        self.text(&Evaluation::kept(*scope, work))
    }

    fn text(&self, evaluation: &Evaluation<'_>) -> Result<String, ExpressionError> {
        let mut text = String::new();
        for piece in self.0.iter() {
            match piece {
                Piece::Text(literal) => text.push_str(literal),
                piece => text.push_str(&to_text(&piece.evaluate(evaluation)?)),
            }
            if text.len() > EXPRESSION_OUTPUT_BYTES_MAX && !self.is_whole(&text, evaluation) {
                return Err(ExpressionError::TooLarge);
            }
        }
        Ok(text)
    }

    /// Whether text is no more than the data, by one expression alone: the whole data may be fingerprinted, as it is by
    /// default, and more than that is made up.
    fn is_whole(&self, text: &str, evaluation: &Evaluation<'_>) -> bool {
        self.0.len() == 1 && text.len() <= to_text(evaluation.scope.data).len()
    }

    /// Evaluates it to the text of a single value that is not empty, to be kept.
    pub fn evaluate_index(
        &self,
        scope: &Scope<'_>,
        work: &Work,
    ) -> Result<String, ExpressionError> {
        match self.evaluate_in(&Evaluation::kept(*scope, work))? {
            Value::Array(_) | Value::Object(_) => Err(ExpressionError::NotSingle),
            Value::Null => Err(ExpressionError::Empty),
            Value::String(text) if text.is_empty() => Err(ExpressionError::Empty),
            // No query could ask for it.
            Value::String(text) if text.len() > EXPRESSION_OUTPUT_BYTES_MAX => {
                Err(ExpressionError::TooLarge)
            }
            value => Ok(to_text(&value)),
        }
    }
}

impl Piece {
    fn evaluate(&self, evaluation: &Evaluation<'_>) -> Result<Value, ExpressionError> {
        match self {
            Self::Text(text) => Ok(Value::String(text.clone())),
            Self::Member(path) => {
                let mut value = evaluation.scope.data;
                for name in path {
                    value = value.get(name).ok_or(ExpressionError::Unevaluable)?;
                }
                evaluation.work.pay(weight(value).cost())?;
                Ok(value.clone())
            }
            Self::LastShown(path, shown, renderable) => match below(evaluation.scope.data, path) {
                Some(Value::String(text)) if text.len() <= SHORT_BYTES => {
                    evaluation.work.pay_computation()?;
                    Ok(Value::String(last_shown(text, *shown, 'X')))
                }
                _ => compute(renderable.as_ref(), evaluation),
            },
            Self::Found(path, source) => {
                let data = evaluation.scope.data;
                let found = below(data, path).filter(|_| weight(data).bytes <= MADE_BYTES_MAX);
                let Some(found) = found else {
                    evaluation.work.pay_computation()?;
                    return compute(parsed(source)?.as_ref(), evaluation);
                };
                evaluation.work.pay(weight(data).cost() + weight(found).cost())?;
                Ok(found.clone())
            }
            Self::Computed(renderable) => compute(renderable.as_ref(), evaluation),
        }
    }
}

/// The member of this path.
fn below<'v>(data: &'v Value, path: &[String]) -> Option<&'v Value> {
    path.iter().try_fold(data, |value, name| value.get(name))
}

fn compute(
    renderable: &dyn Renderable,
    evaluation: &Evaluation<'_>,
) -> Result<Value, ExpressionError> {
    let globals = evaluation.globals()?;
    evaluation.work.pay_computation()?;
    let runtime = RuntimeBuilder::new().set_globals(globals).build();
    if let Some(entropy) = evaluation.scope.entropy {
        runtime.registers().get_mut::<Randomness>().seed(entropy);
    }
    runtime.registers().get_mut::<Kept>().0 = evaluation.is_kept;
    *runtime.registers().get_mut::<Work>() = evaluation.work.take();
    let mut json = Vec::new();
    // What liquid is known to panic on has a filter of ours; on the unknown it is an error of the expression.
    let run = AssertUnwindSafe(|| renderable.render_to(&mut json, &runtime));
    let run = catch_unwind(run);
    evaluation.work.give_back(&runtime.registers().get_mut::<Work>());
    match run {
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
    if let Some(path) = named_by_json(source) {
        return Ok(Piece::Found(path, source.to_owned()));
    }
    check_complexity(source)?;
    numbers::check(source)?;
    let renderable = parsed(source)?;
    Ok(match last_shown_member(source) {
        Some((path, shown)) => Piece::LastShown(path, shown, renderable),
        None => Piece::Computed(renderable),
    })
}

/// An expression as liquid has it.
fn parsed(source: &str) -> Result<Box<dyn Renderable>, ExpressionError> {
    if source.contains(JSON_OR_NOTHING) && language::names_unknown_filter(source) {
        return Err(ExpressionError::UnknownFilter);
    }
    let tag = language::tag(source);
    // What liquid is known to panic on is refused before; on the unknown it is an error here.
    let parsed = catch_unwind(|| liquid_core::parser::parse(&tag, &LANGUAGE));
    let mut parsed = parsed.ok().and_then(Result::ok).unwrap_or_default();
    match parsed.pop() {
        Some(renderable) if parsed.is_empty() => Ok(renderable),
        // Liquid does not tell the one from the other.
        _ if language::names_unknown_filter(source) => Err(ExpressionError::UnknownFilter),
        _ => Err(ExpressionError::Syntax),
    }
}

/// Bounds what parsing and evaluating can cost before either begins.
fn check_complexity(source: &str) -> Result<(), ExpressionError> {
    let (mut quote, mut depth, mut filters) = (None, 0_usize, 0_usize);
    for c in source.chars() {
        match (quote, c) {
            (Some(open), c) if c == open => quote = None,
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
