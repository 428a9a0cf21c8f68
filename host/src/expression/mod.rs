//! Expressions (decisions §4): masks, fingerprints, index values, id aliases, references in arguments.
//!
//! The one place that knows liquid. An expression is `{{ … }}`: a value and filters on it. Pure: randomness is handed in.
//!
//! What is evaluated may be hostile, and so may the data: a template's length, nesting, number of filters and output are
//! bounded, filters that could multiply are our own, and no error text quotes data.
//!
//! To add a filter: a row in [`filters::TABLE`] and a function in the file of its family.

mod filters;
mod language;
mod mask;
mod numbers;
mod reference;
mod simple;
mod template;
#[cfg(test)]
mod tests;
mod value;
mod work;

use thiserror::Error;

pub use mask::Mask;
pub use reference::{Arguments, TokenParts, Unfilled};
pub use template::{Evaluation, Scope, Template};
pub use work::Work;

use crate::limits::{EXPRESSION_BYTES_MAX, EXPRESSION_OUTPUT_BYTES_MAX, FILLED_BYTES_MAX};

/// Why an expression cannot be used. No text holds data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum ExpressionError {
    /// The template is longer than templates may be.
    #[error("must have at most {EXPRESSION_BYTES_MAX} bytes")]
    TooLong,
    /// `{{` without `}}`, or a tag.
    #[error("has an opening {{{{ without its }}}}")]
    Unclosed,
    /// A tag.
    #[error("must not contain tags ({{% … %}})")]
    Tag,
    /// Too many filters, brackets in brackets in brackets, or more work than evaluating may do.
    #[error("is too complex")]
    TooComplex,
    /// Not the syntax of an expression, or of a filter.
    #[error("is no expression, or gives a filter other arguments than it takes")]
    Syntax,
    /// It is one, but for a filter that does not exist.
    #[error("names a filter that there is not")]
    UnknownFilter,
    /// A whole number of more than 64 bits, which liquid has no room for.
    #[error("has a whole number of more than 64 bits")]
    NumberTooLong,
    /// It names what the data does not have, or a filter of Liquid refused its input.
    #[error(
        "cannot be evaluated on this data: it names what is not there, or gives a filter what that does not take"
    )]
    Unevaluable,
    /// One of our filters refused.
    #[error("cannot be evaluated: {filter} {reason}")]
    Filter {
        /// Which.
        filter: &'static str,
        /// Why.
        reason: &'static str,
    },
    /// It evaluates to more than an expression may.
    #[error("evaluates to more than {EXPRESSION_OUTPUT_BYTES_MAX} bytes")]
    TooLarge,
    /// What comes in the place of references is more than all of them may bring together.
    #[error("brings what comes in the place of references to more than {FILLED_BYTES_MAX} bytes")]
    TooMuch,
    /// An index or id expression evaluates to an array or object.
    #[error("must evaluate to a single value")]
    NotSingle,
    /// An index or id expression evaluates to nothing.
    #[error("must evaluate to a value that is not empty")]
    Empty,
}

impl ExpressionError {
    /// Whether a bound was met for which other expressions of the same work count too.
    fn is_bound(self) -> bool {
        matches!(self, Self::TooLarge | Self::TooComplex | Self::TooMuch)
    }
}

/// Whether a text holds an expression.
pub fn is_expression(text: &str) -> bool {
    text.contains("{{") || text.contains("{%")
}
