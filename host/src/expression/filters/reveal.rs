//! Filters that show a part of a value, or a pseudonym of it.

use rand::RngExt as _;
use rand::rngs::StdRng;
use serde_json::Value;

use super::{Arguments, Refusal, single};

const LAST4: usize = 4;
const ALPHANUMERIC: &[u8] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The last four characters; the whole value when it is shorter.
pub(crate) fn last4(value: &Value, _: &Arguments<'_>) -> Result<Value, Refusal> {
    let text = single(value)?;
    let skipped = text.chars().count().saturating_sub(LAST4);
    Ok(text.chars().skip(skipped).collect::<String>().into())
}

/// Masks every character but `-` and the last n; all but `-` when that would show everything.
pub(crate) fn reveal_last(value: &Value, arguments: &Arguments<'_>) -> Result<Value, Refusal> {
    let text = single(value)?;
    let mask = arguments.char(1, 'X')?;
    Ok(last_shown(&text, arguments.count(0, LAST4)?, mask).into())
}

/// `text` with every character masked but `-` and the last ones.
pub(crate) fn last_shown(text: &str, shown: usize, mask: char) -> String {
    let length = text.chars().count();
    // Nothing, or nothing but `-`, may stand before the last n: they would then be all there is.
    let hides = text.chars().take(length.saturating_sub(shown)).any(|c| c != '-');
    let shown = if hides { shown } else { 0 };
    let masked = text
        .chars()
        .enumerate()
        .map(|(index, c)| if c == '-' || index >= length - shown { c } else { mask });
    masked.collect()
}

/// Masks all but the first and last characters and those to keep; everything when that would show everything.
pub(crate) fn reveal(value: &Value, arguments: &Arguments<'_>) -> Result<Value, Refusal> {
    let text = single(value)?;
    let (first, last) = (arguments.count(0, 0)?, arguments.count(1, 0)?);
    let (mask, keep) = (arguments.char(2, 'X')?, arguments.text(3, ""));
    Ok(masked(&text, first, last, mask, &keep).into())
}

/// `text` with all but its ends and the characters of `keep` masked.
fn masked(text: &str, first: usize, last: usize, mask: char, keep: &str) -> String {
    let length = text.chars().count();
    let shown = |index: usize, c: char| index < first || length - index <= last || keep.contains(c);
    if text.chars().enumerate().all(|(index, c)| shown(index, c)) {
        return text.chars().map(|_| mask).collect();
    }
    let chars = text.chars().enumerate();
    chars.map(|(index, c)| if shown(index, c) { c } else { mask }).collect()
}

/// A pseudonym that keeps the class of every character.
pub(crate) fn alias_preserve_format(
    value: &Value,
    arguments: &Arguments<'_>,
) -> Result<Value, Refusal> {
    alias(value, arguments, |c| match c {
        '0'..='9' => Some(b"0123456789"),
        'a'..='z' => Some(b"abcdefghijklmnopqrstuvwxyz"),
        'A'..='Z' => Some(b"ABCDEFGHIJKLMNOPQRSTUVWXYZ"),
        // Any other letter would tell what it was.
        c if c.is_alphanumeric() => Some(ALPHANUMERIC),
        _ => None,
    })
}

/// A pseudonym that keeps the length.
pub(crate) fn alias_preserve_length(
    value: &Value,
    arguments: &Arguments<'_>,
) -> Result<Value, Refusal> {
    alias(value, arguments, |_| Some(ALPHANUMERIC))
}

/// A text with what is not at its ends drawn anew, each character from the alphabet that it is of, if it is of one.
fn alias(
    value: &Value,
    arguments: &Arguments<'_>,
    alphabet: impl Fn(char) -> Option<&'static [u8]>,
) -> Result<Value, Refusal> {
    let text = single(value)?;
    let (first, last) = (arguments.count(0, 0)?, arguments.count(1, 0)?);
    let length = text.chars().count();
    let drawn_of = |(index, c): (usize, char)| {
        let is_kept = index < first || length - index <= last;
        (c, if is_kept { None } else { alphabet(c) })
    };
    let characters: Vec<_> = text.chars().enumerate().map(drawn_of).collect();
    if characters.iter().all(|(_, alphabet)| alphabet.is_none()) {
        return Err("would keep the whole value");
    }
    arguments.draw(|random| {
        loop {
            let drawn = characters.iter().map(|(c, of)| of.map_or(*c, |of| pick(of, random)));
            let drawn: String = drawn.collect();
            // Of few characters, the value itself is drawn soon.
            if drawn != *text {
                return drawn.into();
            }
        }
    })
}

/// A character of an alphabet.
pub(super) fn pick(alphabet: &[u8], random: &mut StdRng) -> char {
    char::from(alphabet[random.random_range(0..alphabet.len())])
}
