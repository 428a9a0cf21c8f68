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
    /// What cannot be read, and shows nothing.
    Unread,
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

    /// What the mask shows of this data, found with so much work; or all that cannot be evaluated.
    pub fn evaluate(
        &self,
        data: &Value,
        entropy: &dyn Entropy,
        work: &Work,
    ) -> Result<Value, Faults> {
        let mut faults = Faults::new();
        let shown = self.look_at(data, entropy, work, &mut faults);
        faults.into_result(shown.unwrap_or_default())
    }

    /// As [`Self::evaluate`], of data that may be other than that which the mask was checked against: without the members
    /// whose expressions cannot be evaluated, and with `null` for such items of arrays. Nothing of a mask that is one text
    /// when that cannot be.
    pub fn evaluate_in_part(
        &self,
        data: &Value,
        entropy: &dyn Entropy,
        work: &Work,
    ) -> Option<Value> {
        self.look_at(data, entropy, work, &mut Faults::new())
    }

    fn look_at(
        &self,
        data: &Value,
        entropy: &dyn Entropy,
        work: &Work,
        faults: &mut Faults,
    ) -> Option<Value> {
        let scope = Evaluation::new(Scope { data, metadata: None, entropy: Some(entropy) }, work);
        let mut left = EXPRESSION_OUTPUT_BYTES_MAX;
        evaluate(&self.0, Path::Root, &scope, &mut left, faults)
    }
}

fn parse(mask: &Value, path: Path<'_>, faults: &mut Faults) -> Node {
    match mask {
        Value::String(text) if is_expression(text) => {
            match faults.check_at(path, Template::parse_kept(text)) {
                Some(template) => Node::Template(Box::new(template)),
                None => Node::Unread,
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

/// What a part of a mask shows. One that cannot be evaluated has a fault, and gives nothing.
fn evaluate(
    node: &Node,
    path: Path<'_>,
    scope: &Evaluation<'_>,
    left: &mut usize,
    faults: &mut Faults,
) -> Option<Value> {
    match node {
        Node::Literal(value) => Some(value.clone()),
        Node::Unread => None,
        Node::Template(template) => {
            let bounded = template.evaluate_in(scope).and_then(|value| {
                *left = left.checked_sub(to_text(&value).len()).ok_or(ExpressionError::TooLarge)?;
                Ok(value)
            });
            faults.check_at(path, bounded)
        }
        Node::Array(items) => {
            let mut values = Vec::with_capacity(items.len());
            for (index, item) in items.iter().enumerate() {
                // The items behind it keep their places.
                let value = evaluate(item, path.item(index), scope, left, faults);
                values.push(value.unwrap_or_default());
            }
            Some(Value::Array(values))
        }
        Node::Object(members) => {
            let mut values = Map::with_capacity(members.len());
            for (name, member) in members {
                let value = evaluate(member, path.member(name), scope, left, faults);
                values.extend(value.map(|value| (name.clone(), value)));
            }
            Some(Value::Object(values))
        }
    }
}
