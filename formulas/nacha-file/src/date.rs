//! Dates of the calendar, read from the caller and written as the format has them.

use tokamak_sdk::clock::Minute;

/// A day that exists, from 2000 to 2099: the format has two digits for the year. Ordered in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Date {
    year: u32,
    month: u32,
    day: u32,
}

impl Date {
    /// The day of a minute.
    pub(crate) fn of(minute: Minute) -> Self {
        Self { year: minute.year, month: minute.month, day: minute.day }
    }

    /// `YYMMDD`
    pub(crate) fn six_digits(self) -> String {
        format!("{:02}{:02}{:02}", self.year % 100, self.month, self.day)
    }
}

/// Reads `YYYY-MM-DD`.
pub(crate) fn read_date(text: &str) -> Option<Date> {
    let date = match text.as_bytes() {
        [year @ .., b'-', m1, m2, b'-', d1, d2] if year.len() == 4 => {
            Date { year: number(year)?, month: number(&[*m1, *m2])?, day: number(&[*d1, *d2])? }
        }
        _ => return None,
    };
    let exists = (2000..=2099).contains(&date.year)
        && (1..=12).contains(&date.month)
        && (1..=month_days(date.year, date.month)).contains(&date.day);
    exists.then_some(date)
}

/// Reads `YYYY-MM-DDTHH:MM`, with seconds and `Z` or without.
pub(crate) fn read_minute(text: &str) -> Option<Minute> {
    let (date, time) = text.split_once('T')?;
    let Date { year, month, day } = read_date(date)?;
    let (hour, minute) = match time.strip_suffix('Z').unwrap_or(time).as_bytes() {
        [h1, h2, b':', m1, m2] => (number(&[*h1, *h2])?, number(&[*m1, *m2])?),
        [h1, h2, b':', m1, m2, b':', s1, s2] if number(&[*s1, *s2])? < 60 => {
            (number(&[*h1, *h2])?, number(&[*m1, *m2])?)
        }
        _ => return None,
    };
    (hour < 24 && minute < 60).then_some(Minute { year, month, day, hour, minute })
}

/// The value of digits, and nothing but digits.
fn number(digits: &[u8]) -> Option<u32> {
    digits.iter().try_fold(0, |value, digit| {
        digit.is_ascii_digit().then(|| value * 10 + u32::from(digit - b'0'))
    })
}

fn month_days(year: u32, month: u32) -> u32 {
    match month {
        // Good from 1901 to 2099, which is all that is asked.
        2 if year.is_multiple_of(4) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use super::{read_date, read_minute};

    #[test]
    fn dates_that_exist_are_read_and_no_others() {
        for (text, six) in [
            ("2026-12-01", Some("261201")),
            ("2028-02-29", Some("280229")),
            ("2026-02-29", None),
            ("2026-04-31", None),
            ("2026-13-01", None),
            ("2026-00-10", None),
            ("2026-01-00", None),
            ("1999-12-31", None),
            ("2100-01-01", None),
            ("2026-1-01", None),
            ("2026/12/01", None),
            ("+026-12-01", None),
            ("02026-12-01", None),
            ("", None),
            ("äöü-12-01", None),
        ] {
            assert_eq!(read_date(text).map(super::Date::six_digits).as_deref(), six, "{text}");
        }
    }

    #[test]
    fn minutes_are_read_with_seconds_or_without() {
        for text in ["2026-11-30T23:05", "2026-11-30T23:05Z", "2026-11-30T23:05:59Z"] {
            let minute = read_minute(text).unwrap();
            assert_eq!((minute.day, minute.hour, minute.minute), (30, 23, 5));
        }
        for text in
            ["2026-11-30", "2026-11-30T24:00", "2026-11-30T23:60", "2026-11-30T23:05:60", "T23:05"]
        {
            assert!(read_minute(text).is_none(), "{text}");
        }
    }
}
