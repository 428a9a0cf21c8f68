//! The time of day, as a formula sees it.
//!
//! In a component it is the host's clock; in a test it stands where `testing::Call::at_ms` put it.
//! All times are UTC; a formula knows no time zones.

/// Milliseconds since the Unix epoch.
#[cfg(target_arch = "wasm32")]
#[expect(clippy::disallowed_methods, reason = "this is the clock of formulas")]
pub fn now_ms() -> u64 {
    use std::time::{SystemTime, UNIX_EPOCH};
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_millis()).unwrap_or(u64::MAX)
}

/// Milliseconds since the Unix epoch.
#[cfg(not(target_arch = "wasm32"))]
pub fn now_ms() -> u64 {
    crate::testing::now_ms()
}

/// A minute of the calendar, UTC. Ordered in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Minute {
    /// The year.
    pub year: u32,
    /// 1 to 12.
    pub month: u32,
    /// 1 to 31.
    pub day: u32,
    /// 0 to 23.
    pub hour: u32,
    /// 0 to 59.
    pub minute: u32,
}

impl Minute {
    /// The minute that it is.
    pub fn now() -> Self {
        Self::at_ms(now_ms())
    }

    /// The minute of this many milliseconds since the Unix epoch; years past 9999 count as 9999.
    pub fn at_ms(ms: u64) -> Self {
        const DAYS_MAX: u64 = 2_932_896; // 9999-12-31
        let minutes = ms / 60_000;
        let days = u32::try_from((minutes / 1_440).min(DAYS_MAX)).unwrap_or_default();
        let of_day = u32::try_from(minutes % 1_440).unwrap_or_default();
        let (year, month, day) = civil(days);
        Self { year, month, day, hour: of_day / 60, minute: of_day % 60 }
    }
}

/// Year, month and day of a number of days since 1970-01-01 (proleptic Gregorian).
fn civil(days: u32) -> (u32, u32, u32) {
    // Years here begin in March, so that the leap day is the last of a year; eras are 400 years.
    let days = days + 719_468;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + u32::from(month <= 2);
    (year, month, day)
}

#[cfg(test)]
mod tests {
    use super::Minute;

    fn at(ms: u64) -> (u32, u32, u32, u32, u32) {
        let Minute { year, month, day, hour, minute } = Minute::at_ms(ms);
        (year, month, day, hour, minute)
    }

    #[test]
    fn known_moments_have_their_dates() {
        assert_eq!(at(0), (1970, 1, 1, 0, 0));
        assert_eq!(at(951_782_399_999), (2000, 2, 28, 23, 59));
        assert_eq!(at(951_782_400_000), (2000, 2, 29, 0, 0));
        assert_eq!(at(1_709_251_199_000), (2024, 2, 29, 23, 59));
        assert_eq!(at(1_893_499_200_000), (2030, 1, 1, 12, 0));
        assert_eq!(at(4_107_542_400_000), (2100, 3, 1, 0, 0));
    }

    #[test]
    fn each_day_follows_the_one_before() {
        let lengths = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
        let (mut year, mut month, mut day) = (1970, 1, 1);
        for number in 0..60_000_u64 {
            let (y, m, d, ..) = at(number * 86_400_000);
            assert_eq!((y, m, d), (year, month, day));
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = lengths[month as usize - 1] + u32::from(leap && month == 2);
            (day, month) = if day == length { (1, month + 1) } else { (day + 1, month) };
            (month, year) = if month == 13 { (1, year + 1) } else { (month, year) };
        }
    }

    #[test]
    fn the_far_future_ends_in_9999() {
        assert_eq!(Minute::at_ms(u64::MAX).year, 9999);
        assert!(Minute::at_ms(u64::MAX) > Minute::at_ms(0));
    }
}
