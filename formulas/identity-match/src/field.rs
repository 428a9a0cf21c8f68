//! The fields and how each is compared.
//!
//! To add one: a member of [`Identity`], a row in [`FIELDS`], and a weight in `settings`.

use crate::identity::{Address, Identity, Phone};
use crate::text;

/// Fewest digits that two telephone numbers must share at their ends, when one lacks the country's code.
const PHONE_DIGITS_MIN: usize = 9;
/// Likeness of what is the same but for a country's code or a tag.
const NEARLY: f64 = 0.9;

/// A field.
pub(crate) struct Field {
    /// In the answer.
    pub(crate) name: &'static str,
    /// The name of its weight.
    pub(crate) weight: &'static str,
    /// How alike two are, 0 to 1; none when either lacks it.
    pub(crate) compare: fn(&Identity, &Identity) -> Option<f64>,
}

/// All fields.
pub(crate) const FIELDS: &[Field] = &[
    Field {
        name: "name",
        weight: "name",
        compare: |a, b| Some(text::likeness(a.name.as_ref()?, b.name.as_ref()?)),
    },
    Field {
        name: "birth_date",
        weight: "birth_date",
        compare: |a, b| Some(a.birth_date?.likeness(b.birth_date?)),
    },
    Field {
        name: "ssn",
        weight: "national_id",
        compare: |a, b| same(a.ssn.as_ref(), b.ssn.as_ref()),
    },
    Field {
        name: "ein",
        weight: "national_id",
        compare: |a, b| same(a.ein.as_ref(), b.ein.as_ref()),
    },
    Field {
        name: "national_id",
        weight: "national_id",
        compare: |a, b| same(a.national_id.as_ref(), b.national_id.as_ref()),
    },
    Field {
        name: "phone",
        weight: "phone",
        compare: |a, b| Some(phones(a.phone.as_ref()?, b.phone.as_ref()?)),
    },
    Field {
        name: "email",
        weight: "email",
        compare: |a, b| Some(emails(a.email.as_ref()?, b.email.as_ref()?)),
    },
    Field {
        name: "address",
        weight: "address",
        compare: |a, b| addresses(a.address.as_ref()?, b.address.as_ref()?),
    },
];

/// Numbers are the same or not: parts of them would help to guess the rest.
fn same(one: Option<&String>, other: Option<&String>) -> Option<f64> {
    Some(if one? == other? { 1.0 } else { 0.0 })
}

fn phones(one: &Phone, other: &Phone) -> f64 {
    let pairs = one.ways().flat_map(|one| other.ways().map(move |other| (one, other)));
    pairs.map(|(one, other)| dialled_alike(one, other)).fold(0.0, f64::max)
}

fn dialled_alike(one: &str, other: &str) -> f64 {
    if one == other {
        return 1.0;
    }
    // Without the zeros that stand for "abroad" and "another town".
    let (one, other) = (one.trim_start_matches('0'), other.trim_start_matches('0'));
    let (short, long) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    if short.len() >= PHONE_DIGITS_MIN && long.ends_with(short) { NEARLY } else { 0.0 }
}

fn emails(one: &str, other: &str) -> f64 {
    if one == other {
        return 1.0;
    }
    let untagged = |address: &str| {
        let (local, domain) = address.rsplit_once('@')?;
        Some((local.split('+').next()?.to_owned(), domain.to_owned()))
    };
    match (untagged(one), untagged(other)) {
        (Some(one), Some(other)) if one == other => NEARLY,
        _ => 0.0,
    }
}

/// The mean of the parts that both have; none when they have none in common.
fn addresses(one: &Address, other: &Address) -> Option<f64> {
    let words = |one: &Option<Vec<String>>, other: &Option<Vec<String>>| {
        Some(text::likeness(&spelled_out(one.as_ref()?), &spelled_out(other.as_ref()?)))
    };
    let codes = |one: &Option<String>, other: &Option<String>| same(one.as_ref(), other.as_ref());
    // One text has no parts: it may be all of an address or its lines alone. What else it lacks is not known to differ.
    if one.is_text() || other.is_text() {
        let (first, second) = (one.text_or_lines()?, other.text_or_lines()?);
        let alike = |one: &[String], other: &[String]| {
            text::likeness(&spelled_out(one), &spelled_out(other))
        };
        let (all, lines) = (alike(&one.whole, &other.whole), alike(first, second));
        return Some(all.max(lines));
    }
    let parts = [
        (0.5, words(&one.lines, &other.lines)),
        (0.2, words(&one.city, &other.city)),
        (0.2, postal_codes(one.postal_code.as_deref(), other.postal_code.as_deref())),
        (0.05, codes(&one.state, &other.state)),
        (0.05, codes(&one.country, &other.country)),
    ];
    let both = parts.iter().filter_map(|(weight, score)| Some((weight, (*score)?)));
    let (weight, sum) =
        both.fold((0.0, 0.0), |(all, sum), (weight, score)| (all + weight, sum + weight * score));
    // Sums of parts may miss 1 by the last bit.
    (weight > 0.0).then(|| if weight - sum < 1e-9 { 1.0 } else { sum / weight })
}

/// The same, or the same but for the last four of nine digits.
fn postal_codes(one: Option<&str>, other: Option<&str>) -> Option<f64> {
    let (one, other) = (one?, other?);
    let is_number = |code: &str| code.bytes().all(|byte| byte.is_ascii_digit());
    let without_zeros = |code: &str| code.trim_start_matches('0').to_owned();
    let base =
        |code: &str| (is_number(code) && matches!(code.len(), 5 | 9)).then(|| code[..5].to_owned());
    Some(match (base(one), base(other)) {
        _ if one == other => 1.0,
        // Zeros that it began with were lost where it was a number.
        _ if is_number(one) && is_number(other) && without_zeros(one) == without_zeros(other) => {
            NEARLY
        }
        (Some(base_one), Some(base_other))
            if base_one == base_other && one.len() != other.len() =>
        {
            NEARLY
        }
        _ => 0.0,
    })
}

/// Words of addresses without their usual abbreviations.
fn spelled_out(words: &[String]) -> Vec<String> {
    const SHORT: &[(&str, &str)] = &[
        ("apt", "apartment"),
        ("ave", "avenue"),
        ("av", "avenue"),
        ("blvd", "boulevard"),
        ("ct", "court"),
        ("dr", "drive"),
        ("hwy", "highway"),
        ("ln", "lane"),
        ("pl", "place"),
        ("rd", "road"),
        ("sq", "square"),
        ("st", "street"),
        ("ste", "suite"),
        ("str", "strasse"),
    ];
    let long = |word: &String| {
        let found = SHORT.iter().find(|(short, _)| short == word);
        found.map_or_else(|| word.clone(), |(_, long)| (*long).to_owned())
    };
    words.iter().map(long).collect()
}

#[cfg(test)]
mod tests {
    use super::{emails, phones, postal_codes};
    use crate::identity::Phone;

    fn near(one: f64, other: f64) -> bool {
        (one - other).abs() < 1e-9
    }

    #[test]
    fn phones_are_alike_with_and_without_a_country() {
        for (one, other, likeness) in [
            ("14155550100", "14155550100", 1.0),
            ("+44 (0)20 7946 0000", "+442079460000", 1.0),
            ("+44 (0)20 7946 0000", "020 7946 0000", 0.9),
            ("0044 (0)20 7946 0000", "+44 (20) 7946-0000", 0.9),
            // From abroad too, it is dialled there.
            ("+39 (0)6 1234567", "+39 06 1234567", 1.0),
            ("14155550100", "4155550100", 0.9),
            ("0014155550100", "4155550100", 0.9),
            ("442079460000", "02079460000", 0.9),
            ("14155550100", "14155550101", 0.0),
            ("5550100", "14155550100", 0.0),
            ("0", "14155550100", 0.0),
        ] {
            let [first, second] = [one, other].map(|number| Phone::read(number).unwrap());
            assert!(near(phones(&first, &second), likeness), "{one} {other}");
            assert!(near(phones(&second, &first), likeness), "{other} {one}");
        }
    }

    #[test]
    fn emails_are_alike_with_and_without_a_tag() {
        for (one, other, likeness) in [
            ("a@x.example", "a@x.example", 1.0),
            ("a+shop@x.example", "a@x.example", 0.9),
            ("a+b@x.example", "a+c@x.example", 0.9),
            ("a@x.example", "a@y.example", 0.0),
            ("b@x.example", "a@x.example", 0.0),
            ("a", "b", 0.0),
        ] {
            assert!(near(emails(one, other), likeness), "{one} {other}");
        }
    }

    #[test]
    fn postal_codes_are_alike_with_and_without_their_ends() {
        for (one, other, likeness) in [
            ("94107", "94107", 1.0),
            ("94107", "941071234", 0.9),
            ("941071234", "941075678", 0.0),
            ("94107", "94108", 0.0),
            ("N16XE", "N16XE", 1.0),
            ("N16XE", "N16XF", 0.0),
            ("94107", "941081234", 0.0),
            ("02134", "2134", 0.9),
            // Only numbers have such ends.
            ("N16XE", "N16XE1234", 0.0),
        ] {
            assert!(near(postal_codes(Some(one), Some(other)).unwrap(), likeness), "{one} {other}");
        }
        assert_eq!(postal_codes(None, Some("94107")), None);
    }
}
