//! Expressions: filters by the table of decisions §4, templates, masks, references, and what must hold for any of them.

mod bounds;
mod filters;
mod properties;
mod references;
mod templates;

use serde_json::Value;

use super::{ExpressionError, Scope, Template};
use crate::crypto::entropy::SeededEntropy;

/// Evaluates a template on data.
fn evaluate(source: &str, data: &Value) -> Result<Value, ExpressionError> {
    let entropy = SeededEntropy::new(7);
    Template::parse(source)?.evaluate(&Scope { data, metadata: None, entropy: &entropy })
}

/// Evaluates `{{ data | … }}`.
fn filtered(filters: &str, data: &Value) -> Result<Value, ExpressionError> {
    evaluate(&format!("{{{{ data | {filters} }}}}"), data)
}
