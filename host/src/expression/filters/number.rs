//! Arithmetic, exact on whole numbers.
//!
//! Liquid's own wraps around, stops at the largest number, goes by way of fractions that lose digits, or panics when a
//! whole number does not fit. Whole numbers are computed here; fractions are liquid's, as long as what it makes of them
//! fits.

use std::fmt;

use liquid_core::parser::FilterArguments;
use liquid_core::{
    Expression, Filter, FilterReflection, Language, ParseFilter, Runtime, ValueView,
};
use liquid_lib::stdlib;

use super::{Refusal, pay_input, refuse};
use crate::expression::ExpressionError;
use crate::expression::value::large_number;

const UNFIT: Refusal = "needs whole numbers that fit in 64 bits with their sign";
/// The first whole number past those of 64 bits with their sign; the last before them is its negative less one.
const END: f64 = 9_223_372_036_854_775_808.0;

/// What a filter does to whole numbers; nothing when the result does not fit.
#[derive(Debug, Clone, Copy)]
enum Exact {
    /// To one number, with how a fraction is rounded to one if it is.
    One(fn(i64) -> Option<i64>, Option<fn(f64) -> f64>),
    /// To a number and an operand.
    Two(fn(i64, i64) -> Option<i64>),
}

/// Registers liquid's arithmetic, made exact.
pub(super) fn register(language: &mut Language) {
    use Exact::{One, Two};
    let rows: [(&'static str, Exact, Box<dyn ParseFilter>); 11] = [
        ("abs", One(i64::checked_abs, None), stdlib::Abs.into()),
        ("ceil", One(Some, Some(f64::ceil)), stdlib::Ceil.into()),
        ("floor", One(Some, Some(f64::floor)), stdlib::Floor.into()),
        ("round", One(Some, Some(f64::round)), stdlib::Round.into()),
        ("plus", Two(i64::checked_add), stdlib::Plus.into()),
        ("minus", Two(i64::checked_sub), stdlib::Minus.into()),
        ("times", Two(i64::checked_mul), stdlib::Times.into()),
        ("divided_by", Two(i64::checked_div), stdlib::DividedBy.into()),
        ("modulo", Two(i64::checked_rem), stdlib::Modulo.into()),
        ("at_least", Two(|a, b| Some(a.max(b))), stdlib::AtLeast.into()),
        ("at_most", Two(|a, b| Some(a.min(b))), stdlib::AtMost.into()),
    ];
    for (name, exact, liquid) in rows {
        language.filters.register(name.to_owned(), Box::new(Arithmetic { name, exact, liquid }));
    }
}

/// Whether a text is the digits of a whole number, of any length.
pub(super) fn is_whole(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

/// A value as liquid's arithmetic takes it.
#[derive(Debug, Clone, Copy)]
enum Number {
    Whole(i64),
    /// A whole number that does not fit.
    Large,
    Fraction(f64),
    /// No number.
    Other,
}

impl Number {
    fn read(value: &dyn ValueView) -> Self {
        if large_number(value).is_some() {
            return Self::Large;
        }
        let Some(scalar) = value.as_scalar() else { return Self::Other };
        if let Some(whole) = scalar.to_integer() {
            return Self::Whole(whole);
        }
        if scalar.type_name() == "string" && is_whole(scalar.to_kstr().as_str()) {
            return Self::Large;
        }
        scalar.to_float().map_or(Self::Other, Self::Fraction)
    }
}

impl Exact {
    /// The whole number that comes of it; `None` when liquid is to answer.
    fn apply(self, given: Number, operand: Option<Number>) -> Result<Option<i64>, Refusal> {
        use Number::{Fraction, Large, Whole};
        match (self, given, operand) {
            (_, Large, _) | (Self::Two(_), _, Some(Large)) => Err(UNFIT),
            (Self::One(exact, _), Whole(number), _) => exact(number).map(Some).ok_or(UNFIT),
            // Rounded to decimal places it stays a fraction.
            (Self::One(_, Some(round)), Fraction(number), places)
                if !matches!(places, Some(Whole(1..))) && !(-END..END).contains(&round(number)) =>
            {
                Err(UNFIT)
            }
            // What is wrong with a zero is liquid's to say.
            (Self::Two(exact), Whole(a), Some(Whole(b))) => match exact(a, b) {
                None if b != 0 => Err(UNFIT),
                result => Ok(result),
            },
            _ => Ok(None),
        }
    }
}

/// One of liquid's filters that compute.
#[derive(Clone)]
struct Arithmetic {
    name: &'static str,
    exact: Exact,
    liquid: Box<dyn ParseFilter>,
}

impl ParseFilter for Arithmetic {
    fn parse(&self, arguments: FilterArguments<'_>) -> liquid_core::Result<Box<dyn Filter>> {
        let operands: Vec<Expression> = arguments.positional.collect();
        let operand = operands.first().cloned();
        let positional = Box::new(operands.into_iter());
        let liquid =
            self.liquid.parse(FilterArguments { positional, keyword: arguments.keyword })?;
        Ok(Box::new(Computation { name: self.name, exact: self.exact, operand, liquid }))
    }

    fn reflection(&self) -> &dyn FilterReflection {
        self.liquid.reflection()
    }
}

/// Such a filter in an expression.
#[derive(Debug)]
struct Computation {
    name: &'static str,
    exact: Exact,
    operand: Option<Expression>,
    liquid: Box<dyn Filter>,
}

impl fmt::Display for Computation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

impl Filter for Computation {
    fn evaluate(
        &self,
        input: &dyn ValueView,
        runtime: &dyn Runtime,
    ) -> liquid_core::Result<liquid_core::Value> {
        pay_input(runtime, input)?;
        let operand = self.operand.as_ref().map(|operand| operand.evaluate(runtime)).transpose()?;
        let operand = operand.map(|operand| Number::read(operand.as_view()));
        match self.exact.apply(Number::read(input), operand) {
            Ok(Some(number)) => Ok(liquid_core::Value::scalar(number)),
            Ok(None) => self.liquid.evaluate(input, runtime),
            Err(reason) => {
                Err(refuse(runtime, ExpressionError::Filter { filter: self.name, reason }))
            }
        }
    }
}
