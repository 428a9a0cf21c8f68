//! Numbers of a JSON text that come out rounded when it is read.
//!
//! A number is held as a whole number of 64 bits or as a double. What was read tells nothing of digits that these do not
//! hold, so the text is looked at.

use serde_json::Number;

/// Characters of a number without exponent that is always kept: any double has 15 digits.
const CHARS_ALWAYS_KEPT: usize = 15;
/// Levels that a text is read to: what is deeper is no JSON that was read.
const DEPTH_MAX: usize = 128;

/// Where such numbers are in a text that was read as JSON, as JSON pointers.
pub(super) fn rounded(text: &[u8]) -> Vec<String> {
    let mut walk = Walk { text, at: 0, steps: Vec::new(), found: Vec::new() };
    walk.value();
    walk.found
}

/// A step of the way to a value.
enum Step<'t> {
    /// A name in its quotes.
    Member(&'t [u8]),
    Item(usize),
}

struct Walk<'t> {
    text: &'t [u8],
    at: usize,
    steps: Vec<Step<'t>>,
    found: Vec<String>,
}

impl<'t> Walk<'t> {
    fn value(&mut self) {
        match self.peek() {
            b'{' | b'[' if self.steps.len() < DEPTH_MAX => self.parts(),
            b'"' => drop(self.string()),
            b'-' | b'0'..=b'9' => self.number(),
            // `true`, `false`, `null`, each letter by itself.
            _ => self.at += 1,
        }
    }

    /// The members of an object, or the items of an array.
    fn parts(&mut self) {
        let is_object = self.peek() == b'{';
        self.at += 1;
        let mut index = 0;
        while !matches!(self.peek(), b'}' | b']' | 0) {
            if is_object {
                let name = self.string();
                self.steps.push(Step::Member(name));
                self.skip(|byte| byte.is_ascii_whitespace() || byte == b':');
            } else {
                self.steps.push(Step::Item(index));
                index += 1;
            }
            self.value();
            self.skip(|byte| !matches!(byte, b',' | b'}' | b']'));
            self.steps.pop();
            self.skip(|byte| byte == b',');
        }
        self.at += 1;
    }

    fn number(&mut self) {
        let number =
            self.skip(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'));
        if !std::str::from_utf8(number).is_ok_and(is_exact) {
            self.found.push(self.steps.iter().map(Step::pointer).collect());
        }
    }

    /// A string in its quotes.
    fn string(&mut self) -> &'t [u8] {
        let begin = self.at;
        self.at += 1;
        while let Some(byte) = self.text.get(self.at) {
            self.at += 1;
            match byte {
                b'\\' => self.at += 1,
                b'"' => break,
                _ => {}
            }
        }
        self.text.get(begin..self.at).unwrap_or_default()
    }

    /// The next byte that is no white space; 0 at the end.
    fn peek(&mut self) -> u8 {
        self.skip(|byte| byte.is_ascii_whitespace());
        self.text.get(self.at).copied().unwrap_or_default()
    }

    /// What there is of these, up to the first other byte.
    fn skip(&mut self, these: impl Fn(u8) -> bool) -> &'t [u8] {
        let rest = self.text.get(self.at..).unwrap_or_default();
        let count = rest.iter().take_while(|byte| these(**byte)).count();
        self.at += count;
        rest.get(..count).unwrap_or_default()
    }
}

impl Step<'_> {
    fn pointer(&self) -> String {
        let name = match self {
            Self::Member(name) => serde_json::from_slice::<String>(name).unwrap_or_default(),
            Self::Item(index) => index.to_string(),
        };
        format!("/{}", name.replace('~', "~0").replace('/', "~1"))
    }
}

/// Whether a number means the same before and after it was read.
fn is_exact(number: &str) -> bool {
    let is_short = number.len() <= CHARS_ALWAYS_KEPT && !number.contains(['e', 'E']);
    let is_same = |read: Number| decimal(number) == decimal(&read.to_string());
    is_short || number.parse().is_ok_and(is_same)
}

/// A number's digits without zeros at either end, and the power of ten of the last.
fn decimal(number: &str) -> (String, i64) {
    let (mantissa, exponent) = number.split_once(['e', 'E']).unwrap_or((number, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let all = [whole, fraction].concat();
    let significant = all.trim_start_matches(['-', '0']);
    let digits = significant.trim_end_matches('0');
    let count = |characters: usize| i64::try_from(characters).unwrap_or(i64::MAX);
    let shift = count(significant.len() - digits.len()) - count(fraction.len());
    let power = exponent.parse().unwrap_or(i64::MAX).saturating_add(shift);
    // Zero is zero whatever its exponent.
    (digits.to_owned(), if digits.is_empty() { 0 } else { power })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::{is_exact, rounded};

    #[test]
    fn numbers_are_exact_as_far_as_64_bits_hold_them() {
        for exact in [
            "0",
            "-0.0",
            "0e999",
            "12.50",
            "18446744073709551615",
            "-9223372036854775808",
            "9007199254740992.0",
            "0.1000000000000000",
            "1e23",
            "1E+2",
            "1.7976931348623157e308",
            "123456789012.345",
        ] {
            assert!(is_exact(exact), "{exact}");
        }
        for wrong in [
            "18446744073709551616",
            "-9223372036854775809",
            "4242424242424242424242",
            "9007199254740993.0",
            "0.12345678901234567890",
            "1e-400",
            "1e400",
            "123456789012345678e3",
            "123456789012345.678",
        ] {
            assert!(!is_exact(wrong), "{wrong}");
        }
    }

    #[test]
    fn places_are_told_as_pointers() {
        let text = r#" { "a" : [ 1, {"b/c~d": -18446744073709551617 , "\"{": "0.12345678901234567890"}, [ ] ,
            true,1e400], "é\u0041":{"x":null,"y":0.12345678901234567890},"z":{ } } "#;
        assert_eq!(rounded(text.as_bytes()), ["/a/1/b~1c~0d", "/a/4", "/éA/y"]);
        assert_eq!(rounded(b" 18446744073709551616 "), [""]);
        assert_eq!(rounded(b"[[],[-1.50,18446744073709551615]]"), [""; 0]);
        let value: Value = json!({ "a": { "b": [18_446_744_073_709_551_615_u64, 1.5e300] } });
        assert_eq!(rounded(value.to_string().as_bytes()), [""; 0]);
    }

    #[test]
    fn what_is_no_json_is_gone_through_all_the_same() {
        let deep = [b"[".repeat(200_000), b"{\"a\":".repeat(200_000)].concat();
        let texts: [&[u8]; 8] = [&deep, b"", b"{", b"[1", b"{\"a", b"{a:1,}", b"]]", b"\"\\"];
        for text in texts {
            assert_eq!(rounded(text), [""; 0]);
        }
        let pointer = rounded(br#"{"\ud800": 18446744073709551616}"#);
        assert_eq!(pointer, ["/"]);
    }
}
