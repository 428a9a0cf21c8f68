//! Numbers of a JSON text that come out rounded when it is read.
//!
//! A number is held as a whole number of 64 bits or as a double. What was read tells nothing of digits that these do not
//! hold, so the text is looked at: in one walk, which keeps nothing of it but the names of members with such numbers.

use std::borrow::Cow;
use std::collections::BTreeMap;

use serde_json::{Number, Value};

/// Characters of a number without exponent that is always kept: any double has 15 digits.
const CHARS_ALWAYS_KEPT: usize = 15;
/// Levels that a text is read to. Each takes some of the stack, which the formula's own calls and types share.
const DEPTH_MAX: usize = 64;

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

/// Whether a text has more levels than are read.
pub(super) fn is_too_deep(text: &[u8]) -> bool {
    let (mut depth, mut is_quoted, mut is_escaped) = (0_usize, false, false);
    text.iter().any(|byte| {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_quoted => is_escaped = true,
            b'"' => is_quoted = !is_quoted,
            b'{' | b'[' if !is_quoted => depth += 1,
            b'}' | b']' if !is_quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        depth > DEPTH_MAX
    })
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
mod tests;
