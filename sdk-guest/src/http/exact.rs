//! Numbers of a JSON text that come out rounded when it is read.
//!
//! A number is held as a whole number of 64 bits or as a double. What was read tells nothing of digits that these do not
//! hold, so the text is looked at: in one walk, which keeps nothing of it but the names of members with such numbers.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Number, Value};

/// Characters of a number without exponent that is always kept: any double has 15 digits.
const CHARS_ALWAYS_KEPT: usize = 15;
/// Levels that a text is read to: what is deeper is no JSON that was read.
const DEPTH_MAX: usize = 128;

/// Which values of a text count.
#[derive(Clone, Copy)]
pub(super) enum Kept<'v> {
    /// All.
    All,
    /// What was read of them, and is left.
    Only(&'v Value),
}

/// The byte at which the first such number begins, of those in the part at a JSON pointer. Of members with the same name the
/// last one counts, as it does for who reads the text.
pub(super) fn first(text: &[u8], part: &str, kept: Kept) -> Option<usize> {
    if !part.is_empty() && !part.starts_with('/') {
        return None;
    }
    let steps = part.split('/').skip(1).map(|step| step.replace("~1", "/").replace("~0", "~"));
    let steps: Vec<String> = steps.collect();
    Walk { text, at: 0, depth: 0 }.value(&steps, kept)
}

/// The place of what begins at this byte, as a JSON pointer.
pub(super) fn pointer(text: &[u8], target: usize) -> String {
    let mut walk = Walk { text, at: 0, depth: 0 };
    let mut pointer = String::new();
    for _ in 0..DEPTH_MAX {
        let begin = walk.peek();
        let is_object = begin == b'{';
        if !is_object && begin != b'[' {
            break;
        }
        walk.at += 1;
        for index in 0_usize.. {
            walk.peek();
            let name = if is_object { walk.name() } else { index.to_string().into() };
            let begin = walk.at;
            walk.pass();
            if walk.at > target {
                pointer.extend(["/", &name.replace('~', "~0").replace('/', "~1")]);
                walk.at = begin;
                break;
            }
            if !walk.comma() {
                return pointer;
            }
        }
    }
    pointer
}

struct Walk<'t> {
    text: &'t [u8],
    at: usize,
    depth: usize,
}

impl<'t> Walk<'t> {
    /// Goes over a value, where the steps lead on into it; gives where the first such number begins.
    fn value(&mut self, steps: &[String], kept: Kept) -> Option<usize> {
        match self.peek() {
            begin @ (b'{' | b'[') if self.depth < DEPTH_MAX => {
                self.at += 1;
                self.depth += 1;
                let found =
                    if begin == b'{' { self.members(steps, kept) } else { self.items(steps, kept) };
                self.depth -= 1;
                self.at += 1;
                found
            }
            b'-' | b'0'..=b'9' => {
                let begin = self.at;
                let number = self
                    .skip(|byte| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E'));
                let is_inexact = || !std::str::from_utf8(number).is_ok_and(is_exact);
                (steps.is_empty() && kept.is_number() && is_inexact()).then_some(begin)
            }
            _ => {
                self.pass();
                None
            }
        }
    }

    fn members(&mut self, steps: &[String], kept: Kept) -> Option<usize> {
        let mut found = BTreeMap::new();
        while self.peek() == b'"' {
            let name = self.name();
            let within = rest(steps, |step| step == name).zip(kept.member(&name));
            let place = if let Some((steps, kept)) = within {
                self.value(steps, kept)
            } else {
                self.pass();
                None
            };
            // What came before by this name counts no more.
            match place {
                Some(place) => drop(found.insert(name, place)),
                None => drop(found.remove(&name)),
            }
            self.comma();
        }
        found.into_values().min()
    }

    fn items(&mut self, steps: &[String], kept: Kept) -> Option<usize> {
        let mut found = None;
        let mut index = 0;
        while !matches!(self.peek(), b'}' | b']' | 0) {
            match (rest(steps, |step| is_index(step, index)), kept.item(index)) {
                (Some(steps), Some(kept)) if found.is_none() => found = self.value(steps, kept),
                _ => self.pass(),
            }
            index += 1;
            self.comma();
        }
        found
    }

    /// Goes over a value without looking at it.
    fn pass(&mut self) {
        let mut depth = 0_usize;
        loop {
            match self.peek() {
                0 => return,
                b'"' => drop(self.string()),
                byte => {
                    self.at += 1;
                    match byte {
                        b'{' | b'[' => depth += 1,
                        b'}' | b']' => depth = depth.saturating_sub(1),
                        _ => drop(self.skip(|byte| !b"\"{}[],".contains(&byte))),
                    }
                }
            }
            if depth == 0 {
                return;
            }
        }
    }

    /// The name of a member, and what parts it from the value.
    fn name(&mut self) -> Cow<'t, str> {
        let quoted = self.string();
        self.skip(|byte| byte.is_ascii_whitespace() || byte == b':');
        let inner = quoted.get(1..quoted.len().saturating_sub(1)).unwrap_or_default();
        if inner.contains(&b'\\') {
            return serde_json::from_slice::<String>(quoted).unwrap_or_default().into();
        }
        std::str::from_utf8(inner).unwrap_or_default().into()
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

    /// What parts a value from the next; whether there is something.
    fn comma(&mut self) -> bool {
        self.peek() == b',' && {
            self.at += 1;
            true
        }
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

/// The steps that are left where the next one leads on; none where it leads elsewhere.
fn rest(steps: &[String], leads_on: impl Fn(&str) -> bool) -> Option<&[String]> {
    match steps {
        [] => Some(steps),
        [step, rest @ ..] => leads_on(step).then_some(rest),
    }
}

/// Whether a step leads to this item. A number with something before it names none.
fn is_index(step: &str, index: usize) -> bool {
    let is_plain = step == "0" || !step.starts_with(['0', '+']);
    is_plain && step.parse() == Ok(index)
}

impl Kept<'_> {
    fn member(self, name: &str) -> Option<Self> {
        match self {
            Self::All => Some(self),
            Self::Only(value) => value.as_object()?.get(name).map(Self::Only),
        }
    }

    fn item(self, index: usize) -> Option<Self> {
        match self {
            Self::All => Some(self),
            Self::Only(value) => value.as_array()?.get(index).map(Self::Only),
        }
    }

    fn is_number(self) -> bool {
        match self {
            Self::All => true,
            Self::Only(value) => value.is_number(),
        }
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

    use super::{Kept, first, is_exact, pointer};

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

    /// Where the first one is that comes out rounded.
    fn place(text: &[u8], part: &str, kept: Kept) -> Option<String> {
        first(text, part, kept).map(|at| pointer(text, at))
    }

    #[test]
    fn the_first_of_a_part_is_told_as_a_pointer() {
        let text = r#" { "a" : [ 1, {"b/c~d": -18446744073709551617 , "\"{": "0.12345678901234567890"}, [ ] ,
            true,1e400, 1e401], "é\u0041":{"x":null,"y":0.12345678901234567890},"z":{ } , "": {"": 1e-400} } "#;
        for (part, expected) in [
            ("", Some("/a/1/b~1c~0d")),
            ("/a", Some("/a/1/b~1c~0d")),
            ("/a/1/b~1c~0d", Some("/a/1/b~1c~0d")),
            ("/a/4", Some("/a/4")),
            ("/éA", Some("/éA/y")),
            ("/", Some("//")),
            ("/a/0", None),
            ("/a/01", None),
            ("/a/+1", None),
            ("/a/1/b~1c~0d/0", None),
            ("/a/1/\"{", None),
            ("/z", None),
            ("/gone", None),
            ("a", None),
        ] {
            assert_eq!(place(text.as_bytes(), part, Kept::All).as_deref(), expected, "{part}");
        }
        let whole = place(b" 18446744073709551616 ", "", Kept::All);
        assert_eq!(whole.as_deref(), Some(""));
        assert_eq!(place(b"[[],[-1.50,18446744073709551615]]", "", Kept::All), None);
        let value: Value = json!({ "a": { "b": [18_446_744_073_709_551_615_u64, 1.5e300] } });
        assert_eq!(place(value.to_string().as_bytes(), "", Kept::All), None);
    }

    #[test]
    fn what_is_not_kept_does_not_count() {
        let text = r#"{"a": {"n": 1e400, "m": 0}, "l": [1e400, {"n": 1e401}], "t": 1e402}"#;
        let whole = json!({ "a": { "n": 1, "m": 0 }, "l": [1, { "n": 1 }], "t": 1 });
        for (gone, left, expected) in [
            ("/a/m", None, Some("/a/n")),
            ("/a/n", None, Some("/l/0")),
            ("/a", None, Some("/l/0")),
            ("/a", Some("/l/0"), Some("/l/1/n")),
            ("/a", Some("/l"), Some("/t")),
        ] {
            let mut kept = whole.clone();
            for path in [Some(gone), left].into_iter().flatten() {
                *kept.pointer_mut(path).unwrap() = Value::Null;
            }
            let found = place(text.as_bytes(), "", Kept::Only(&kept));
            assert_eq!(found.as_deref(), expected, "{gone} {left:?}");
        }
        let mut fewer = whole;
        fewer["a"].as_object_mut().unwrap().remove("n");
        assert_eq!(place(text.as_bytes(), "/a", Kept::Only(&fewer)), None);
        let text = Value::from("1e400 cards");
        assert_eq!(place(b"1e400 cards", "", Kept::Only(&text)), None);
    }

    #[test]
    fn of_members_with_one_name_the_last_counts() {
        for (text, expected) in [
            (r#"{"a": 1e400, "a": 1}"#, None),
            (r#"{"a": 1, "a": 1e400}"#, Some("/a")),
            (r#"{"a": 1e400, "b": 1e400, "a": 1}"#, Some("/b")),
            (r#"{"a": 1e400, "\u0061": 1}"#, None),
            (r#"{"a": {"n": 1e400}, "a": {"m": 1}}"#, None),
            (r#"{"a": [{"n": 1e400, "n": 1}, {"n": 1e400, "n": {}}]}"#, None),
        ] {
            assert_eq!(place(text.as_bytes(), "", Kept::All).as_deref(), expected, "{text}");
            assert_eq!(place(text.as_bytes(), "/a/n", Kept::All), None, "{text}");
        }
    }

    #[test]
    fn what_is_no_json_is_gone_through_all_the_same() {
        let deep = [b"[".repeat(20_000), b"{\"a\":".repeat(20_000)].concat();
        let closed = [b"[1,".repeat(20_000), b"]".repeat(20_000)].concat();
        let texts: [&[u8]; 11] = [
            &deep,
            &closed,
            b"",
            b"{",
            b"[1",
            b"{\"a",
            b"{a:1,}",
            b"]]",
            b"\"\\",
            b"[\0",
            b"{\"a\"]1e400",
        ];
        for text in texts {
            assert_eq!(place(text, "", Kept::All), None);
            for target in [0, text.len() / 2, text.len()] {
                drop(pointer(text, target));
            }
        }
    }
}
