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
/// What even a small value costs: an array of them is made, moved and dropped one by one.
const VALUE_BYTES: usize = 8;

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

    /// Gives up what is left.
    pub fn spend(&self) {
        self.0.set(0);
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

/// How much a value is.
#[derive(Debug, Clone, Copy, Default)]
pub struct Weight {
    /// At most the size of its JSON text, and in proportion to it.
    pub bytes: usize,
    /// The values in it, itself included.
    values: usize,
}

impl Weight {
    /// What it costs to convert or to copy it.
    pub fn cost(self) -> usize {
        self.values.saturating_mul(VALUE_BYTES).saturating_add(self.bytes)
    }

    fn add(&mut self, bytes: usize) {
        self.bytes += bytes;
        self.values += 1;
    }
}

/// The weight of a value.
pub fn weight(value: &Value) -> Weight {
    let mut weight = Weight::default();
    add(&mut weight, value);
    weight
}

fn add(weight: &mut Weight, value: &Value) {
    match value {
        Value::String(text) => weight.add(2 + text.len()),
        Value::Array(items) => {
            weight.add(2);
            for item in items {
                add(weight, item);
            }
        }
        Value::Object(members) => {
            weight.add(2);
            for (name, value) in members {
                weight.bytes += 3 + name.len();
                add(weight, value);
            }
        }
        Value::Null | Value::Bool(_) | Value::Number(_) => weight.add(1),
    }
}

/// The same of liquid's value.
pub fn weight_of_view(value: &dyn ValueView) -> Weight {
    let mut weight = Weight::default();
    add_view(&mut weight, value);
    weight
}

fn add_view(weight: &mut Weight, value: &dyn ValueView) {
    if let Some(items) = value.as_array() {
        weight.add(2);
        items.values().for_each(|item| add_view(weight, item));
    } else if let Some(members) = value.as_object() {
        weight.add(2);
        for (name, value) in members.iter() {
            weight.bytes += 3 + name.len();
            add_view(weight, value);
        }
    } else {
        let text = value.as_scalar().filter(|scalar| scalar.type_name() == "string");
        weight.add(text.map_or(1, |text| 2 + text.to_kstr().len()));
    }
}
