//! How much each field counts and what is answered: the reactor's configuration, checked.

use tokamak_sdk::{Faults, Value};

use crate::field::Field;

const THRESHOLD_DEFAULT: f64 = 0.85;
/// As many as there are fields.
const FIELDS_MAX: u32 = 8;
/// Most that one field may count.
const WEIGHT_MAX: f64 = 1_000.0;

/// Names of weights, without `weight_`, and what they are unless set.
const WEIGHTS: [(&str, f64); 6] = [
    ("name", 3.0),
    ("birth_date", 3.0),
    ("national_id", 5.0),
    ("phone", 1.0),
    ("email", 1.0),
    ("address", 2.0),
];

/// The configuration, checked.
pub(crate) struct Settings {
    pub(crate) threshold: f64,
    pub(crate) minimum_fields: usize,
    /// Whether scores are answered.
    pub(crate) scores: bool,
    pub(crate) return_ids: bool,
    weights: Vec<(&'static str, f64)>,
}

impl Settings {
    /// Checks the configuration; notes all that is wrong with it.
    pub(crate) fn read(given: &Value, faults: &mut Faults) -> Option<Self> {
        let number = |member: &str, default: f64| match &given[member] {
            Value::Null => Some(default),
            value => value.as_f64(),
        };
        let threshold = number("threshold", THRESHOLD_DEFAULT)
            .filter(|threshold| *threshold > 0.0 && *threshold <= 1.0);
        let threshold =
            faults.expect(threshold, "configuration.threshold", "must be above 0 and at most 1");
        let minimum_fields = number("minimum_fields", 1.0)
            .filter(|wanted| *wanted >= 1.0 && wanted.fract() == 0.0)
            .and_then(|wanted| (1..=FIELDS_MAX).find(|count| f64::from(*count) >= wanted));
        let minimum_fields = faults.expect(
            minimum_fields,
            "configuration.minimum_fields",
            "must be a whole number, 1 to 8",
        );
        let scores = match given["answer"].as_str() {
            None if given["answer"].is_null() => Some(true),
            Some("scores") => Some(true),
            Some("match") => Some(false),
            _ => None,
        };
        let scores = faults.expect(scores, "configuration.answer", "must be scores or match");
        let return_ids = match &given["return_ids"] {
            Value::Null => Some(false),
            value => value.as_bool(),
        };
        let return_ids =
            faults.expect(return_ids, "configuration.return_ids", "must be true or false");
        let mut weights = Vec::with_capacity(WEIGHTS.len());
        for (name, default) in WEIGHTS {
            let member = format!("weight_{name}");
            let weight =
                number(&member, default).filter(|weight| (0.0..=WEIGHT_MAX).contains(weight));
            let member = format!("configuration.{member}");
            weights.extend(
                faults.expect(weight, &member, "must be 0 to 1000").map(|weight| (name, weight)),
            );
        }
        // A weight that is wrong may be meant to be above 0.
        if weights.len() == WEIGHTS.len() && weights.iter().all(|(_, weight)| *weight == 0.0) {
            faults.add("configuration", "must have a weight above 0");
        }
        Some(Self {
            threshold: threshold?,
            minimum_fields: usize::try_from(minimum_fields?).ok()?,
            scores: scores?,
            return_ids: return_ids?,
            weights,
        })
    }

    /// How much a field counts.
    pub(crate) fn weight(&self, field: &Field) -> f64 {
        let found = self.weights.iter().find(|(name, _)| *name == field.weight);
        found.map_or(0.0, |(_, weight)| *weight)
    }
}

#[cfg(test)]
mod tests {
    use super::{FIELDS_MAX, WEIGHTS};
    use crate::field::FIELDS;

    #[test]
    fn every_field_has_a_weight_and_every_weight_a_field() {
        for field in FIELDS {
            assert!(WEIGHTS.iter().any(|(name, _)| *name == field.weight), "{}", field.name);
        }
        for (name, default) in WEIGHTS {
            assert!(default > 0.0 && FIELDS.iter().any(|field| field.weight == name), "{name}");
        }
        assert_eq!(FIELDS.len(), FIELDS_MAX as usize);
    }
}
