//! The fields of a record, and the checks of what goes into them.
//!
//! A record is a line of 94 characters. Names are cut to their fields; who writes a number or what identifies
//! somebody has checked that it fits.

use tokamak_sdk::text::without_accents;

/// Characters of a record.
pub(crate) const RECORD_CHARS: usize = 94;

/// A record while it is written, field by field from the left.
pub(crate) struct Record(String);

impl Record {
    /// A record of this type.
    pub(crate) fn of_type(code: char) -> Self {
        let mut line = String::with_capacity(RECORD_CHARS);
        line.push(code);
        Self(line)
    }

    /// Text at the left of its field, blanks after it.
    pub(crate) fn text(mut self, text: &str, width: usize) -> Self {
        self.0.extend(text.chars().chain(std::iter::repeat(' ')).take(width));
        self
    }

    /// Text at the right of its field, blanks before it.
    pub(crate) fn right(mut self, text: &str, width: usize) -> Self {
        let blanks = width.saturating_sub(text.chars().count());
        self.0.extend(std::iter::repeat_n(' ', blanks).chain(text.chars()).take(width));
        self
    }

    /// A number with zeros before it.
    pub(crate) fn number(mut self, number: u64, width: usize) -> Self {
        let digits = number.to_string();
        self.0.extend(std::iter::repeat_n('0', width.saturating_sub(digits.len())));
        self.0.push_str(&digits);
        self
    }

    /// A field that is left empty.
    pub(crate) fn blank(self, width: usize) -> Self {
        self.text("", width)
    }

    /// The line, without its end.
    pub(crate) fn into_line(self) -> String {
        self.0
    }
}

/// Whether these are digits, this many.
pub(crate) fn is_digits(text: &str, count: std::ops::RangeInclusive<usize>) -> bool {
    count.contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Whether these are the nine digits of a routing number: a district of the Federal Reserve in the first two, as the ABA gives
/// them out, and a checksum of weights 3, 7, 1, and a sum that ten divides.
pub(crate) fn is_routing_number(text: &str) -> bool {
    let weighted = text.bytes().zip([3, 7, 1].into_iter().cycle());
    let has_district = || {
        matches!(text[..2].parse(), Ok(0_u8..=12 | 21..=32 | 61..=72 | 80)) && text != "000000000"
    };
    is_digits(text, 9..=9)
        && has_district()
        && weighted
            .map(|(digit, weight)| u32::from(digit - b'0') * weight)
            .sum::<u32>()
            .is_multiple_of(10)
}

/// Text as the format takes it: capitals without accents, printable ASCII, blanks for anything else, no
/// blanks around it. None when neither a letter nor a digit is left.
pub(crate) fn plain(text: &str) -> Option<String> {
    let plain: String = without_accents(text)
        .chars()
        .map(|character| match character.to_ascii_uppercase() {
            ascii @ ' '..='~' => ascii,
            '\u{2018}' | '\u{2019}' => '\'',
            '\u{2010}'..='\u{2015}' => '-',
            _ => ' ',
        })
        .collect();
    let says_something = plain.bytes().any(|byte| byte.is_ascii_alphanumeric());
    says_something.then(|| plain.trim().to_owned())
}

/// What identifies somebody, so many characters in capitals without blanks around them. None where the format cannot have
/// one of them: without it, or with another in its place, it would be somebody else.
pub(crate) fn identification(text: &str, count: std::ops::RangeInclusive<usize>) -> Option<String> {
    let text = text.trim_matches(' ');
    let right = count.contains(&text.len()) && text.bytes().all(|byte| matches!(byte, b' '..=b'~'));
    right.then(|| text.to_ascii_uppercase())
}

#[cfg(test)]
mod tests {
    use super::{Record, identification, is_routing_number, plain};

    #[test]
    fn fields_fill_their_width_exactly() {
        let record = Record::of_type('1').text("ABC", 5).text("ABCDEF", 3).right("12", 4);
        assert_eq!(
            record.number(42, 5).blank(2).right("123456", 4).into_line(),
            "1ABC  ABC  1200042  1234"
        );
    }

    #[test]
    fn routing_numbers_have_nine_digits_a_district_and_their_checksum() {
        for right in ["011000015", "021000021", "091000019", "322271627"] {
            assert!(is_routing_number(right), "{right}");
        }
        for wrong in
            ["021000022", "02100002", "0210000210", "02100002x", "120000021", "", "ä1000021"]
        {
            assert!(!is_routing_number(wrong), "{wrong}");
        }
        // By their checksums they could be some.
        for district in 0..=99_u32 {
            let number = (0..10).map(|last| format!("{district:02}000001{last}"));
            let taken = number.filter(|number| is_routing_number(number)).count();
            let given_out = matches!(district, 0..=12 | 21..=32 | 61..=72 | 80);
            assert_eq!(taken, usize::from(given_out), "{district}");
        }
        assert!(!is_routing_number("000000000"));
    }

    #[test]
    fn identifications_are_written_as_they_are_but_for_case() {
        for (id, written) in [
            (" e_1/a~ ", Some("E_1/A~")),
            ("A  B", Some("A  B")),
            ("0123456789", Some("0123456789")),
            ("01234567890", None),
            ("", None),
            ("  ", None),
            ("李17", None),
            ("Zoë-1", None),
            ("æ1", None),
            ("1\u{301}7", None),
            ("1\t7", None),
            ("17\n", None),
            ("\u{a0}17", None),
            ("1\u{7f}", None),
        ] {
            assert_eq!(identification(id, 1..=10).as_deref(), written, "{id:?}");
        }
        assert_eq!(identification(" ", 0..=10).as_deref(), Some(""));
    }

    #[test]
    fn names_become_capitals_without_accents() {
        for (name, written) in [
            ("Ada Lovelace", Some("ADA LOVELACE")),
            ("  Zoë Łącka-Größe ", Some("ZOE LACKA-GROSSE")),
            ("Zoe\u{308} Nu\u{301}n\u{303}ez", Some("ZOE NUNEZ")),
            ("O\u{2019}Neill & Sons", Some("O'NEILL & SONS")),
            ("Nguyễn Thị Ánh", Some("NGUYEN THI ANH")),
            ("Ștefan Țuca, Ľubica Ŕeháková", Some("STEFAN TUCA, LUBICA REHAKOVA")),
            ("Ķirsis Ņina & Ḥasan \u{2013} Ứ", Some("KIRSIS NINA & HASAN - U")),
            ("A\nB\tC", Some("A B C")),
            ("李 X", Some("X")),
            ("李", None),
            ("-----", None),
            ("!", None),
            ("", None),
        ] {
            assert_eq!(plain(name).as_deref(), written, "{name}");
        }
    }
}
