//! `default`, which stands in for what is missing, nothing, `false` or empty.
//!
//! Liquid's own evaluates what it is to give also where it does not give it, and fails where that is missing: a mask would
//! stop working with a member that nobody asks for.

use std::fmt;

use liquid_core::model::State;
use liquid_core::parser::{FilterArguments, ParameterReflection};
use liquid_core::{
    Error, Expression, Filter, FilterReflection, ParseFilter, Runtime, Value, ValueView,
};

use super::pay_input;

/// How it is called.
pub(super) const NAME: &str = "default";

/// The filter.
#[derive(Debug, Clone, Copy)]
pub(super) struct Default;

impl FilterReflection for Default {
    fn name(&self) -> &'static str {
        NAME
    }

    fn description(&self) -> &'static str {
        ""
    }

    fn positional_parameters(&self) -> &'static [ParameterReflection] {
        &[]
    }

    fn keyword_parameters(&self) -> &'static [ParameterReflection] {
        &[]
    }
}

impl ParseFilter for Default {
    fn parse(&self, mut arguments: FilterArguments<'_>) -> liquid_core::Result<Box<dyn Filter>> {
        let given = (arguments.positional.next(), arguments.positional.next());
        match (given, arguments.keyword.next()) {
            ((Some(otherwise), None), None) => Ok(Box::new(Defaulted(otherwise))),
            _ => Err(Error::with_msg("takes one argument")),
        }
    }

    fn reflection(&self) -> &dyn FilterReflection {
        self
    }
}

#[derive(Debug)]
struct Defaulted(Expression);

impl fmt::Display for Defaulted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(NAME)
    }
}

impl Filter for Defaulted {
    fn evaluate(&self, input: &dyn ValueView, runtime: &dyn Runtime) -> liquid_core::Result<Value> {
        pay_input(runtime, input)?;
        if !input.query_state(State::DefaultValue) {
            return Ok(input.to_value());
        }
        // What is missing there is nothing, for which the next one may stand in.
        let Some(otherwise) = self.0.try_evaluate(runtime) else { return Ok(Value::Nil) };
        pay_input(runtime, otherwise.as_view())?;
        Ok(otherwise.into_owned())
    }
}
