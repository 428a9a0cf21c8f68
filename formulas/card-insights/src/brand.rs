//! Which brand issued a number: a table of IIN ranges.
//!
//! Ranges are of the first six digits, both ends included. The first row that holds a number decides, so
//! special ranges stand above the wider ones around them. To add a brand: a variant and its rows.

use serde::Serialize;

/// A brand of cards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Brand {
    /// Visa
    Visa,
    /// Mastercard, the 2-series included
    Mastercard,
    /// American Express
    #[serde(rename = "American Express")]
    AmericanExpress,
    /// Discover
    Discover,
    /// Diners Club
    #[serde(rename = "Diners Club")]
    DinersClub,
    /// JCB
    #[serde(rename = "JCB")]
    Jcb,
    /// China UnionPay
    UnionPay,
    /// Maestro
    Maestro,
    /// Mir
    Mir,
    /// None of these
    #[serde(rename = "unknown")]
    Unknown,
}

const RANGES: &[(u32, u32, Brand)] = &[
    (400_000, 499_999, Brand::Visa),
    (510_000, 559_999, Brand::Mastercard),
    (222_100, 272_099, Brand::Mastercard),
    (340_000, 349_999, Brand::AmericanExpress),
    (370_000, 379_999, Brand::AmericanExpress),
    (220_000, 220_499, Brand::Mir),
    (300_000, 305_999, Brand::DinersClub),
    (309_500, 309_599, Brand::DinersClub),
    (360_000, 369_999, Brand::DinersClub),
    (380_000, 399_999, Brand::DinersClub),
    (352_800, 358_999, Brand::Jcb),
    (601_100, 601_199, Brand::Discover),
    (644_000, 659_999, Brand::Discover),
    (620_000, 629_999, Brand::UnionPay),
    (810_000, 817_199, Brand::UnionPay),
    (500_000, 509_999, Brand::Maestro),
    (560_000, 589_999, Brand::Maestro),
    (630_000, 639_999, Brand::Maestro),
    (670_000, 679_999, Brand::Maestro),
];

impl Brand {
    /// The brand of a number given as digits.
    pub fn of(number: &str) -> Self {
        let iin = number.get(..6).and_then(|digits| digits.parse::<u32>().ok());
        iin.and_then(|iin| RANGES.iter().find(|(from, to, _)| (*from..=*to).contains(&iin)))
            .map_or(Self::Unknown, |(_, _, brand)| *brand)
    }
}
