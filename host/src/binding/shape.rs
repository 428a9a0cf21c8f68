//! Declared parameters as a tree: `user.name` and `user.age` are two members of `user`.

use std::collections::BTreeMap;

use crate::model::parameter::{Parameter, ParameterType};

/// What is declared at one place, and within it.
#[derive(Default)]
pub(super) struct Shape<'a> {
    /// None where a name only leads on to others.
    parameter: Option<&'a Parameter>,
    pub(super) members: BTreeMap<&'a str, Shape<'a>>,
}

impl<'a> Shape<'a> {
    /// As deep as the longest name has segments, which the length of names bounds.
    pub(super) fn of(parameters: &'a [Parameter]) -> Self {
        let mut root = Self::default();
        for parameter in parameters {
            let mut place = &mut root;
            for segment in parameter.name.split('.') {
                place = place.members.entry(segment).or_default();
            }
            place.parameter = Some(parameter);
        }
        root
    }

    /// What a value here is cast to. What only leads on to others is an object.
    pub(super) fn value_type(&self) -> ParameterType {
        self.parameter.map_or(ParameterType::Object, |parameter| parameter.kind)
    }

    /// Whether a parameter has this very name.
    pub(super) fn is_declared(&self) -> bool {
        self.parameter.is_some()
    }

    pub(super) fn is_required(&self) -> bool {
        self.parameter.is_some_and(|parameter| !parameter.optional)
    }
}
