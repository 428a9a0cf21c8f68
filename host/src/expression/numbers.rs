//! Whole numbers in an expression: liquid panics on one of more than 64 bits.

use super::ExpressionError;

/// Refuses an expression with a whole number that liquid has no room for. Quoted text and fractions may have as many digits
/// as they like; a name may not, since liquid reads `nil12` as two words.
pub fn check(source: &str) -> Result<(), ExpressionError> {
    let mut quote = None;
    let mut rest = source;
    // What stands before the rest: the last two characters.
    let mut before = [' '; 2];
    while let Some(c) = rest.chars().next() {
        if quote.is_none() && c.is_ascii_digit() {
            let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            let (number, after) = rest.split_at(digits);
            if is_whole(before, after) && signed(before, number).is_none() {
                return Err(ExpressionError::NumberTooLong);
            }
            (before, rest) = (['0'; 2], after);
            continue;
        }
        quote = match (quote, c) {
            (Some(open), c) if c == open => None,
            (None, '\'' | '"') => Some(c),
            (quote, _) => quote,
        };
        (before, rest) = ([before[1], c], &rest[c.len_utf8()..]);
    }
    Ok(())
}

/// Whether digits between these are no part of a fraction. Two points make a range.
fn is_whole([earlier, last]: [char; 2], after: &str) -> bool {
    let mut after = after.chars();
    let before_point =
        after.next() == Some('.') && after.next().is_some_and(|c| c.is_ascii_digit());
    let behind_point = last == '.' && earlier.is_ascii_digit();
    !before_point && !behind_point
}

fn signed([_, sign]: [char; 2], digits: &str) -> Option<i64> {
    if sign == '-' { format!("-{digits}").parse().ok() } else { digits.parse().ok() }
}

#[cfg(test)]
mod tests {
    use super::check;
    use crate::expression::ExpressionError;

    #[test]
    fn numbers_have_64_bits() {
        for right in [
            "data | slice: 0, 9223372036854775807",
            "-9223372036854775808",
            "data | plus: -1",
            "data['99999999999999999999'] | last4",
            "data.a9 | last4",
            "data | plus: 99999999999999999999.5",
            "data | plus: 1.99999999999999999999",
            "data | append: \"a'99999999999999999999\"",
            "données | append: 'é' | slice: 1",
        ] {
            assert_eq!(check(right), Ok(()), "{right}");
        }
        for wrong in [
            "9223372036854775808",
            "data | slice: 0, 9223372036854775808",
            "-9223372036854775809",
            "data | plus: -9223372036854775809",
            "data | plus: +9223372036854775808",
            "data[99999999999999999999]",
            "(1..99999999999999999999)",
            "data | append: 'a' | slice: 99999999999999999999",
            "99999999999999999999.",
            "nil99999999999999999999 | default: 1",
            "true99999999999999999999",
            "data.a99999999999999999999 | last4",
        ] {
            assert_eq!(check(wrong), Err(ExpressionError::NumberTooLong), "{wrong}");
        }
    }
}
