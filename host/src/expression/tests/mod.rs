//! Expressions: filters by the table of decisions §4, templates, masks, references, and what must hold for any of them.

mod bounds;
mod filters;
mod properties;
mod references;
mod standard;
mod templates;

use serde_json::Value;

use super::{Evaluation, ExpressionError, Scope, Template, Work};
use crate::crypto::entropy::SeededEntropy;
use crate::limits::{ARGUMENTS_WORK_BYTES_MAX, EXPRESSION_WORK_BYTES_MAX};

/// Evaluates a template on data, as what is shown.
fn evaluate(source: &str, data: &Value) -> Result<Value, ExpressionError> {
    let entropy = SeededEntropy::new(7);
    let scope = Scope { data, metadata: None, entropy: Some(&entropy) };
    Template::parse(source)?.evaluate_in(&Evaluation::new(scope, &work()))
}

/// Evaluates `{{ data | … }}`.
fn filtered(filters: &str, data: &Value) -> Result<Value, ExpressionError> {
    evaluate(&format!("{{{{ data | {filters} }}}}"), data)
}

/// As much work as one expression may cost.
fn work() -> Work {
    Work::new(EXPRESSION_WORK_BYTES_MAX)
}

/// As much work as filling arguments may cost.
fn arguments_work() -> Work {
    Work::new(ARGUMENTS_WORK_BYTES_MAX)
}
