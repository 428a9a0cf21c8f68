//! The work that evaluating may do, counted in bytes that are copied and handed from filter to filter.
//!
//! What it bounds is time and memory together: data is converted once for an evaluation, every filter pays for what
//! it is given, and a filter that doubles its input soon pays more than is left.

use std::cell::Cell;

use liquid_core::ValueView;
use serde_json::Value;

use super::ExpressionError;

/// What even a small computation costs.
const COMPUTATION_BYTES: usize = 256;

/// Work that is left.
#[derive(Debug, Default)]
pub struct Work(Cell<usize>);

impl Work {
    /// Work of so many bytes.
    pub fn new(bytes: usize) -> Self {
        Self(Cell::new(bytes))
    }

    /// Pays; whoever cannot has nothing left.
    pub fn pay(&self, bytes: usize) -> Result<(), ExpressionError> {
        let left = self.0.get().checked_sub(bytes);
        self.0.set(left.unwrap_or(0));
        left.map(|_| ()).ok_or(ExpressionError::TooComplex)
    }

    /// Pays for a computation, apart from what its filters take.
    pub fn pay_computation(&self) -> Result<(), ExpressionError> {
        self.pay(COMPUTATION_BYTES)
    }

    /// Whether nothing is left.
    pub fn is_spent(&self) -> bool {
        self.0.get() == 0
    }

    /// All that is left, for another to pay from.
    #[must_use]
    pub fn take(&self) -> Self {
        Self(Cell::new(self.0.take()))
    }

    /// Takes back what the other left.
    pub fn give_back(&self, rest: &Self) {
        self.0.set(rest.0.take());
    }
}

/// The size of a value: at most that of its JSON text, and in proportion to it.
pub fn weight(value: &Value) -> usize {
    match value {
        Value::String(text) => 2 + text.len(),
        Value::Array(items) => 2 + items.iter().map(weight).sum::<usize>(),
        Value::Object(members) => {
            let member = |(name, value): (&String, &Value)| 3 + name.len() + weight(value);
            2 + members.iter().map(member).sum::<usize>()
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => 1,
    }
}

/// The same of liquid's value.
pub fn weight_of_view(value: &dyn ValueView) -> usize {
    if let Some(items) = value.as_array() {
        2 + items.values().map(weight_of_view).sum::<usize>()
    } else if let Some(members) = value.as_object() {
        let member = |(name, value): (liquid_core::model::KStringCow<'_>, &dyn ValueView)| {
            3 + name.len() + weight_of_view(value)
        };
        2 + members.iter().map(member).sum::<usize>()
    } else {
        match value.as_scalar() {
            Some(scalar) if scalar.type_name() == "string" => 2 + scalar.to_kstr().len(),
            _ => 1,
        }
    }
}
