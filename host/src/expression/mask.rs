//! Masks: JSON of any shape whose strings may hold expressions.

use serde_json::{Map, Value};

use super::template::{Evaluation, Scope, Template};
use super::value::to_text;
use super::work::Work;
use super::{ExpressionError, is_expression};
use crate::crypto::entropy::Entropy;
use crate::limits::EXPRESSION_OUTPUT_BYTES_MAX;
use crate::model::faults::Faults;
use crate::model::path::Path;

/// A parsed mask.
#[derive(Debug)]
pub struct Mask(Node);

#[derive(Debug)]
enum Node {
    Literal(Value),
    Template(Box<Template>),
    Array(Vec<Node>),
    Object(Vec<(String, Node)>),
}

impl Mask {
    /// Parses a mask; faults are at paths within it.
    pub fn parse(mask: &Value) -> Result<Self, Faults> {
        let mut faults = Faults::new();
        let mask = Self::read(mask, &mut faults);
        faults.into_result(mask)
    }

    /// As [`Self::parse`]. What cannot be read has a fault, and shows nothing.
    pub fn read(mask: &Value, faults: &mut Faults) -> Self {
        Self(parse(mask, Path::Root, faults))
    }

    /// What the mask shows of this data, found with so much work.
    pub fn evaluate(
        &self,
        data: &Value,
        entropy: &dyn Entropy,
        work: &Work,
    ) -> Result<Value, Faults> {
        let scope = Evaluation::new(Scope { data, metadata: None, entropy: Some(entropy) }, work);
        let mut faults = Faults::new();
        let mut left = EXPRESSION_OUTPUT_BYTES_MAX;
        let value = evaluate(&self.0, Path::Root, &scope, &mut left, &mut faults);
        faults.into_result(value)
    }
}

fn parse(mask: &Value, path: Path<'_>, faults: &mut Faults) -> Node {
    match mask {
        Value::String(text) if is_expression(text) => {
            match faults.check_at(path, Template::parse_kept(text)) {
                Some(template) => Node::Template(Box::new(template)),
                None => Node::Literal(Value::Null),
            }
        }
        Value::Array(items) => {
            let item = |(index, item)| parse(item, path.item(index), faults);
            Node::Array(items.iter().enumerate().map(item).collect())
        }
        Value::Object(members) => {
            let mut parsed = Vec::with_capacity(members.len());
            for (name, member) in members {
                parsed.push((name.clone(), parse(member, path.member(name), faults)));
            }
            Node::Object(parsed)
        }
        literal => Node::Literal(literal.clone()),
    }
}

fn evaluate(
    node: &Node,
    path: Path<'_>,
    scope: &Evaluation<'_>,
    left: &mut usize,
    faults: &mut Faults,
) -> Value {
    match node {
        Node::Literal(value) => value.clone(),
        Node::Template(template) => {
            let bounded = template.evaluate_in(scope).and_then(|value| {
                *left = left.checked_sub(to_text(&value).len()).ok_or(ExpressionError::TooLarge)?;
                Ok(value)
            });
            faults.check_at(path, bounded).unwrap_or(Value::Null)
        }
        Node::Array(items) => {
            let mut values = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                values.push(evaluate(item, path.item(index), scope, left, faults));
            }
            Value::Array(values)
        }
        Node::Object(members) => {
            let mut values = Map::with_capacity(members.len());
            for (name, member) in members {
                let value = evaluate(member, path.member(name), scope, left, faults);
                values.insert(name.clone(), value);
            }
            Value::Object(values)
        }
    }
}
