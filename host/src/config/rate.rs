//! Rates of requests, as an operator writes them.

use std::fmt;
use std::str::FromStr;

use serde::Deserialize;
use thiserror::Error;

use super::{Options, safety};

/// How many requests may come in a second, and how many at once after a rest. Written `RATE` or `RATE:BURST`; without a
/// burst, what a second allows may come at once.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Deserialize)]
#[serde(try_from = "Written")]
pub struct Rate {
    /// In the long run; 0 for any number.
    pub per_second: u32,
    /// At once.
    pub burst: u32,
}

/// The text is no rate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("must be RATE or RATE:BURST in whole requests, such as 50 or 50:200, or 0 for no limit")]
pub struct InvalidRate;

/// A rate in a TOML file: a number will do when there is no burst.
#[derive(Deserialize)]
#[serde(
    untagged,
    expecting = "must be RATE or RATE:BURST in whole requests, such as 50 or 50:200, or 0 for no limit"
)]
enum Written {
    Number(u32),
    Text(String),
}

impl Rate {
    /// Whether there is a limit at all.
    pub fn limits(self) -> bool {
        self.per_second > 0
    }
}

impl From<u32> for Rate {
    fn from(per_second: u32) -> Self {
        Self { per_second, burst: per_second }
    }
}

impl FromStr for Rate {
    type Err = InvalidRate;

    fn from_str(text: &str) -> Result<Self, InvalidRate> {
        let number = |text: &str| text.parse::<u32>().map_err(|_| InvalidRate);
        match text.split_once(':') {
            None => number(text).map(Self::from),
            Some((rate, burst)) => match (number(rate)?, number(burst)?) {
                (0, _) | (_, 0) => Err(InvalidRate),
                (per_second, burst) => Ok(Self { per_second, burst }),
            },
        }
    }
}

impl TryFrom<Written> for Rate {
    type Error = InvalidRate;

    fn try_from(written: Written) -> Result<Self, InvalidRate> {
        match written {
            Written::Number(per_second) => Ok(per_second.into()),
            Written::Text(text) => text.parse(),
        }
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.per_second, self.burst)
    }
}

/// Rates of all classes of requests.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RateLimits {
    /// Of one key: single tokens read, detokenized, and what a key may learn of itself.
    pub read: Rate,
    /// Of one key: tokens listed and searched.
    pub search: Rate,
    /// Of one key: tokens and sessions made, changed and deleted.
    pub write: Rate,
    /// Of one key: reactors run.
    pub invoke: Rate,
    /// Of one key: applications, formulas, reactors, the tenant and its log.
    pub manage: Rate,
    /// Of all keys of a tenant together: all of these but the last. Whoever ends a key that is used too much is not to wait.
    pub tenant: Rate,
    /// Of one client address: requests without a valid key.
    pub unauthenticated: Rate,
    /// Of one client address: keys that nobody has, before it is locked out for a while; 0 for any number.
    pub unknown_keys: u32,
}

impl RateLimits {
    /// What flags say, or else a file.
    pub(super) fn of(flags: &Options, file: &Options) -> Self {
        let rate = |of: fn(&Options) -> Option<Rate>| of(flags).or(of(file)).unwrap_or_default();
        Self {
            read: rate(|options| options.rate_limit_read),
            search: rate(|options| options.rate_limit_search),
            write: rate(|options| options.rate_limit_write),
            invoke: rate(|options| options.rate_limit_invoke),
            manage: rate(|options| options.rate_limit_manage),
            tenant: rate(|options| options.rate_limit_tenant),
            unauthenticated: rate(|options| options.rate_limit_unauthenticated),
            unknown_keys: safety::lock_out_after(flags, file),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{InvalidRate, Rate};

    #[test]
    fn rates_are_read_as_written() {
        for (text, per_second, burst) in
            [("0", 0, 0), ("50", 50, 50), ("50:200", 50, 200), ("1:1", 1, 1), ("10:2", 10, 2)]
        {
            let rate: Rate = text.parse().unwrap();
            assert_eq!(rate, Rate { per_second, burst }, "{text}");
            assert_eq!(rate.limits(), per_second > 0, "{text}");
            if rate.limits() {
                assert_eq!(rate.to_string().parse(), Ok(rate), "{text}");
            }
        }
        for text in
            ["", ":", "50:", ":5", "0:5", "5:0", "-1", "1.5", "50 : 2", "1:2:3", "4294967296"]
        {
            assert_eq!(text.parse::<Rate>(), Err(InvalidRate), "{text}");
        }
    }
}
