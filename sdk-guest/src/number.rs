//! Numbers as arguments, data and answers have them.

use crate::Value;

/// The first whole number of which a double does not tell whether it is meant, or the next one.
const DOUBLES_LAST: f64 = 9_007_199_254_740_992.0;

/// A whole number that is not negative. JSON has one kind of number only: `12.0` is one too, which a cast to `number` may
/// have made of `12`.
///
/// ```
/// # use tokamak_sdk::{json, number};
/// assert_eq!(number::whole(&json!(12.0)), Some(12));
/// assert_eq!(number::whole(&json!(12.5)), None);
/// assert_eq!(number::whole(&json!("12")), None);
/// ```
pub fn whole(value: &Value) -> Option<u64> {
    value.as_u64().or_else(|| {
        let number = value.as_f64().filter(|number| *number < DOUBLES_LAST)?;
        // The text of a whole double is its digits, so no cast can cut anything off.
        number.to_string().parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::whole;
    use crate::json;

    #[test]
    fn whole_numbers_are_told_from_all_else() {
        for (value, number) in [
            (json!(0), Some(0)),
            (json!(0.0), Some(0)),
            (json!(12), Some(12)),
            (json!(12.0), Some(12)),
            (json!(u64::MAX), Some(u64::MAX)),
            (json!(9_007_199_254_740_991.0), Some(9_007_199_254_740_991)),
            (json!(9_007_199_254_740_992.0), None),
            (json!(1e300), None),
            (json!(12.5), None),
            (json!(-1), None),
            (json!(-1.0), None),
            (json!("12"), None),
            (json!(null), None),
            (json!([12]), None),
        ] {
            assert_eq!(whole(&value), number, "{value}");
        }
    }
}
