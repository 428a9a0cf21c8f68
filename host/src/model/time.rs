//! Times: one type, and the forms in which a caller may write one (decisions §1, §3).
//!
//! It must not know what time it is; see `clock`. Calendars are chrono's affair, forms are ours: a
//! form is a method of [`Rest`] that reads the text from the left. To accept another one: such a
//! method, a mention in the function that accepts it, and rows in the tables of the tests.

#[cfg(test)]
mod tests;

use std::fmt;

use chrono::NaiveDate;
use serde::{Deserialize, Serialize, Serializer};
use thiserror::Error;
use utoipa::ToSchema;

/// One UTC day, in milliseconds.
pub const DAY_MS: u64 = 24 * 60 * 60 * 1000;

/// The last millisecond of the year 9999, the last that RFC 3339 can write.
const LAST_MS: u64 = 253_402_300_799_999;

/// A point in time: milliseconds since the Unix epoch.
///
/// Written as `2030-08-26T19:23:57.000+00:00`, always 29 characters, so that text and time sort
/// alike. What is later than the year 9999 is written as its last millisecond.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, ToSchema)]
#[serde(try_from = "String")]
#[schema(value_type = String, format = DateTime)]
pub struct Timestamp(pub u64);

/// Why a text is no time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidTime {
    /// No RFC 3339 time or date.
    #[error("must be a time such as 2030-08-26T19:23:57.000+00:00 or a date such as 2030-08-26")]
    Form,
    /// None of the forms of `expires_at`.
    #[error(
        "must be a time such as 2030-08-26T19:23:57.000+00:00, 8/26/2030 or \
         8/26/2030 7:23:57 PM +00:00"
    )]
    ExpiryForm,
    /// Well formed, but no calendar or clock shows it.
    #[error("names a day or a time of day that does not exist")]
    Nonexistent,
    /// Before 1970 or after 9999.
    #[error("must lie in the years 1970 to 9999 (UTC)")]
    Range,
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = BLANK;
        f.write_str(written(*self, &mut text))
    }
}

/// What every time looks like.
const BLANK: [u8; 29] = *b"0000-00-00T00:00:00.000+00:00";

/// The time as text. Every answer and every log entry has some: its digits are written without the machinery of formatting.
fn written(time: Timestamp, text: &mut [u8; 29]) -> &str {
    let shown_ms = time.0.min(LAST_MS);
    let (year, month, day) = civil(shown_ms / DAY_MS);
    let ms = shown_ms % DAY_MS;
    let (hour, minute) = (ms / 3_600_000, ms / 60_000 % 60);
    let (second, ms) = (ms / 1_000 % 60, ms % 1_000);
    let parts = [year, month, day, hour, minute, second, ms];
    for (number, place) in
        parts.into_iter().zip([0..4, 5..7, 8..10, 11..13, 14..16, 17..19, 20..23])
    {
        let mut rest = number;
        for digit in text[place].iter_mut().rev() {
            *digit = b'0' + u8::try_from(rest % 10).unwrap_or_default();
            rest /= 10;
        }
    }
    str::from_utf8(text).unwrap_or_default()
}

/// Year, month and day of a day counted from the Unix epoch.
///
/// Years are taken to begin in March, which puts the leap day at their end; 719,468 days lie
/// between the first such year and the epoch, 146,097 days are 400 years.
const fn civil(days: u64) -> (u64, u64, u64) {
    let days = days + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let leaps = day_of_era / 1_460 - day_of_era / 36_524 + day_of_era / 146_096;
    let year_of_era = (day_of_era - leaps) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    let year = era * 400 + year_of_era;
    (if month <= 2 { year + 1 } else { year }, month, day)
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut text = BLANK;
        serializer.serialize_str(written(*self, &mut text))
    }
}

impl TryFrom<String> for Timestamp {
    type Error = InvalidTime;

    fn try_from(text: String) -> Result<Self, InvalidTime> {
        parse_rfc3339(&text)
    }
}

/// Reads an RFC 3339 time, or a date, which means its midnight (interface §4.3, `start_date`).
///
/// Without offset it is UTC; seconds may be missing; what is finer than a millisecond is cut off. A
/// space stands for the plus of an offset, because that is what becomes of an unescaped plus in a
/// query string.
pub fn parse_rfc3339(text: &str) -> Result<Timestamp, InvalidTime> {
    whole(text, Rest::iso).ok_or(InvalidTime::Form)?.timestamp()
}

/// Reads a date such as `2030-08-26` and nothing longer: its midnight, UTC.
pub fn parse_date(text: &str) -> Result<Timestamp, InvalidTime> {
    whole(text, Rest::iso_date).ok_or(InvalidTime::Form)?.timestamp()
}

/// Reads a time as the span of what was written: a date is its whole day (decisions §5), and so a time to the minute its
/// whole minute, a time to the second its whole second. Gives the first and the last millisecond; of what lies before 1970 or
/// after 9999, where nothing is, the one that is nearest.
pub fn parse_span(text: &str) -> Result<(Timestamp, Timestamp), InvalidTime> {
    let written = whole(text, Rest::iso).ok_or(InvalidTime::Form)?;
    written.span(written.span_ms)
}

/// The same of what bounds a range: a date is its whole day, and a time that instant, however it is written. Whoever goes on
/// from a time that was cut to the second must not pass over the rest of it.
pub fn parse_bound(text: &str) -> Result<(Timestamp, Timestamp), InvalidTime> {
    let written = whole(text, Rest::iso).ok_or(InvalidTime::Form)?;
    written.span(if written.span_ms < DAY_MS { 1 } else { DAY_MS })
}

/// Reads `expires_at` (decisions §3): all that [`parse_rfc3339`] reads, `M/D/YYYY` for midnight UTC
/// of that day, and `M/D/YYYY h:mm:ss AM|PM` with or without an offset.
pub fn parse_expiry(text: &str) -> Result<Timestamp, InvalidTime> {
    let written = whole(text, Rest::iso).or_else(|| {
        // Current locale data put a narrow no-break space before AM and PM.
        whole(&text.replace('\u{202f}', " "), Rest::month_first)
    });
    written.ok_or(InvalidTime::ExpiryForm)?.timestamp()
}

/// What a text says, not yet checked against a calendar.
#[derive(Default)]
struct Written {
    year: u16,
    month: u16,
    day: u16,
    hour: u16,
    minute: u16,
    second: u16,
    ms: u16,
    offset_minutes: i64,
    /// How much time the text leaves open: a day, a minute, a second or a millisecond.
    span_ms: u64,
}

impl Written {
    /// So many milliseconds from it on, the first and the last of them.
    fn span(&self, ms: u64) -> Result<(Timestamp, Timestamp), InvalidTime> {
        let from = self.ms()?;
        let last = from.saturating_add_unsigned(ms.saturating_sub(1));
        let nearest = |ms: i64| Timestamp(u64::try_from(ms).unwrap_or(0).min(LAST_MS));
        Ok((nearest(from), nearest(last)))
    }

    fn timestamp(&self) -> Result<Timestamp, InvalidTime> {
        let ms = u64::try_from(self.ms()?).ok().filter(|ms| *ms <= LAST_MS);
        ms.map(Timestamp).ok_or(InvalidTime::Range)
    }

    /// Milliseconds since the Unix epoch; fewer than none before it.
    fn ms(&self) -> Result<i64, InvalidTime> {
        let date = NaiveDate::from_ymd_opt(self.year.into(), self.month.into(), self.day.into());
        let (minute, second) = (self.minute.into(), self.second.into());
        let local = date
            .and_then(|date| {
                date.and_hms_milli_opt(self.hour.into(), minute, second, self.ms.into())
            })
            .ok_or(InvalidTime::Nonexistent)?;
        Ok(local.and_utc().timestamp_millis() - self.offset_minutes * 60_000)
    }
}

/// Reads all of `text` as `form`.
fn whole<'a>(text: &'a str, form: fn(&mut Rest<'a>) -> Option<Written>) -> Option<Written> {
    let mut rest = Rest(text.as_bytes());
    let written = form(&mut rest);
    written.filter(|_| rest.is_empty())
}

/// The part of a text that is still to be read.
struct Rest<'a>(&'a [u8]);

impl Rest<'_> {
    fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes the next byte if it is one of `wanted`.
    fn any(&mut self, wanted: &[u8]) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        wanted.contains(first).then(|| {
            self.0 = rest;
            *first
        })
    }

    /// Takes digits: as many as there are up to `most` (no more than four), at least `fewest`.
    fn number(&mut self, fewest: usize, most: usize) -> Option<u16> {
        let (mut number, mut count) = (0, 0);
        while count < most
            && let Some(digit) = self.any(b"0123456789")
        {
            number = number * 10 + u16::from(digit - b'0');
            count += 1;
        }
        (count >= fewest).then_some(number)
    }

    /// The digits after the point of a second, in milliseconds.
    fn fraction(&mut self) -> Option<u16> {
        let (mut ms, mut unit) = (0, 100);
        self.0.first().filter(|byte| byte.is_ascii_digit())?;
        while let Some(digit) = self.any(b"0123456789") {
            ms += unit * u16::from(digit - b'0');
            unit /= 10;
        }
        Some(ms)
    }

    /// `Z`, `+02:00`, `+0200` or `+02`, in minutes.
    fn offset(&mut self) -> Option<i64> {
        if self.any(b"Zz").is_some() {
            return Some(0);
        }
        let sign = if self.any(b"+- ")? == b'-' { -1 } else { 1 };
        let hours = self.number(2, 2).filter(|hours| *hours < 24)?;
        if self.is_empty() {
            return Some(sign * i64::from(hours) * 60);
        }
        let _ = self.any(b":");
        let minutes = self.number(2, 2).filter(|minutes| *minutes < 60)?;
        Some(sign * (i64::from(hours) * 60 + i64::from(minutes)))
    }

    /// `2030-08-26`.
    fn iso_date(&mut self) -> Option<Written> {
        let year = self.number(4, 4)?;
        self.any(b"-")?;
        let month = self.number(2, 2)?;
        self.any(b"-")?;
        let day = self.number(2, 2)?;
        Some(Written { year, month, day, span_ms: DAY_MS, ..Written::default() })
    }

    /// `2030-08-26`, `2030-08-26T19:23`, `2030-08-26T19:23:57.123+02:00`.
    fn iso(&mut self) -> Option<Written> {
        let mut written = self.iso_date()?;
        if self.is_empty() {
            return Some(written);
        }
        self.any(b"Tt ")?;
        written.hour = self.number(2, 2)?;
        self.any(b":")?;
        written.minute = self.number(2, 2)?;
        written.span_ms = 60_000;
        if self.any(b":").is_some() {
            written.second = self.number(2, 2)?;
            written.span_ms = 1_000;
            if self.any(b".").is_some() {
                written.ms = self.fraction()?;
                written.span_ms = 1;
            }
        }
        if !self.is_empty() {
            written.offset_minutes = self.offset()?;
        }
        Some(written)
    }

    /// `8/26/2030`, `8/26/2030 7:23:57 PM`, `8/26/2030 7:23:57 PM +02:00`.
    fn month_first(&mut self) -> Option<Written> {
        let month = self.number(1, 2)?;
        self.any(b"/")?;
        let day = self.number(1, 2)?;
        self.any(b"/")?;
        let mut written = Written { year: self.number(4, 4)?, month, day, ..Written::default() };
        if self.is_empty() {
            return Some(written);
        }
        self.any(b" ")?;
        let hour = self.number(1, 2).filter(|hour| (1..=12).contains(hour))?;
        self.any(b":")?;
        written.minute = self.number(2, 2)?;
        self.any(b":")?;
        written.second = self.number(2, 2)?;
        self.any(b" ")?;
        let afternoon = self.any(b"AaPp")?.eq_ignore_ascii_case(&b'P');
        self.any(b"Mm")?;
        // Twelve is the zero of this clock.
        written.hour = hour % 12 + if afternoon { 12 } else { 0 };
        if !self.is_empty() {
            self.any(b" ")?;
            written.offset_minutes = self.offset()?;
        }
        Some(written)
    }
}
