//! Dates of birth, compared by their parts.

/// A date of the calendar.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Date {
    year: u32,
    month: u32,
    day: u32,
}

impl Date {
    /// Reads `YYYY-MM-DD`, or the same without hyphens, and after it perhaps a time.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let date = text.split('T').next()?;
        let compact = date.len() == 8;
        let digits: String = date.chars().filter(|c| *c != '-').collect();
        let placed = compact || matches!(date.as_bytes(), [_, _, _, _, b'-', _, _, b'-', _, _]);
        if !placed || digits.len() != 8 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
            return None;
        }
        let number = |range: std::ops::Range<usize>| digits.get(range)?.parse().ok();
        let date = Self { year: number(0..4)?, month: number(4..6)?, day: number(6..8)? };
        let right = (1..=12).contains(&date.month)
            && (1..=days(date.year, date.month)).contains(&date.day)
            && date.year > 0;
        right.then_some(date)
    }

    /// How alike two dates are: the year counts 0.4, month and day 0.3 each; exchanged, both together 0.4.
    pub(crate) fn likeness(self, other: Self) -> f64 {
        if self == other {
            return 1.0;
        }
        let part = |same: bool, counts: f64| if same { counts } else { 0.0 };
        let exchanged = part(self.day == other.month && self.month == other.day, 0.4);
        let in_place = part(self.month == other.month, 0.3) + part(self.day == other.day, 0.3);
        part(self.year == other.year, 0.4) + in_place.max(exchanged)
    }
}

/// Days of a month.
fn days(year: u32, month: u32) -> u32 {
    match month {
        2 if year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400)) => {
            29
        }
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::Date;

    #[test]
    fn dates_are_read() {
        let date = Some(Date { year: 1815, month: 12, day: 10 });
        for text in ["1815-12-10", "18151210", "1815-12-10T00:00:00Z"] {
            assert_eq!(Date::parse(text), date, "{text}");
        }
        for last in ["2000-02-29", "1816-02-29", "1900-02-28", "1815-01-31", "1815-04-30"] {
            assert!(Date::parse(last).is_some(), "{last}");
        }
        for wrong in [
            "",
            "1815",
            "1815-12",
            "12/10/1815",
            "1815-13-10",
            "1815-00-10",
            "1815-12-32",
            "0000-01-01",
            "2000-02-30",
            "1900-02-29",
            "2023-02-29",
            "1815-04-31",
            "1815-11-31",
            "1815-1210",
            "+815-12-10",
            "181512-10",
            "1815-12-1x",
            "１815121",
        ] {
            assert_eq!(Date::parse(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn dates_are_alike_by_their_parts() {
        for (one, other, likeness) in [
            ("1815-12-10", "1815-12-10", 1.0),
            ("1815-12-10", "1815-10-12", 0.8),
            ("1815-12-10", "1816-10-12", 0.4),
            ("1815-12-10", "1815-12-11", 0.7),
            ("1815-12-10", "1815-11-11", 0.4),
            ("1815-12-10", "1816-12-10", 0.6),
            ("1815-12-10", "1816-11-09", 0.0),
            // The day of one alone is the month of the other.
            ("1815-12-10", "1815-10-11", 0.4),
            ("1815-11-11", "1816-11-11", 0.6),
        ] {
            let (one, other) = (Date::parse(one).unwrap(), Date::parse(other).unwrap());
            assert!((one.likeness(other) - likeness).abs() < 1e-9, "{one:?} {other:?}");
            assert!((other.likeness(one) - likeness).abs() < 1e-9, "{other:?} {one:?}");
        }
    }
}
