//! Numbers as arguments and answers have them.

use tokamak_sdk::Value;

/// A whole number; a cast to `number` may have made 12 into 12.0.
pub(crate) fn whole(value: &Value) -> Option<u64> {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "it is checked to be whole, positive and small"
    )]
    value.as_u64().or_else(|| {
        let number = value.as_f64()?;
        let right = number.fract() == 0.0 && (0.0..1e15).contains(&number);
        right.then_some(number as u64)
    })
}
