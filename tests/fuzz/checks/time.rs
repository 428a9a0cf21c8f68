//! Times and expiry dates: any text is read or refused, and what was read is written as a text that reads alike.
//!
//! An input is the text.

use super::timely;
use tokamak::model::time::{parse_bound, parse_date, parse_expiry, parse_rfc3339, parse_span};

/// Checks one input.
pub fn check(input: &str) {
    let parsed =
        timely("reading", || [parse_expiry(input), parse_rfc3339(input), parse_date(input)]);
    for time in parsed.into_iter().flatten() {
        let written = time.to_string();
        assert_eq!(written.len(), 29, "{written}");
        assert_eq!(parse_rfc3339(&written), Ok(time));
        assert_eq!(parse_expiry(&written), Ok(time));
    }
    if let Ok((from, to)) = timely("reading", || parse_span(input)) {
        assert!(from <= to, "{from} to {to}");
        // As a bound it begins there, too, and ends no later.
        let (first, last) = parse_bound(input).unwrap();
        assert!(first == from && last <= to, "{first} to {last}");
    }
}
