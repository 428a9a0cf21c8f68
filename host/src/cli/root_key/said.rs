//! What a command that was to print a root key said instead, without anything that may be one: in whatever spelling, and in
//! parts. What is hidden too much is found by running the command by hand.

use std::sync::mpsc::Receiver;

use zeroize::Zeroizing;

/// Characters of what a command complained that are shown.
const COMPLAINT_CHARS_MAX: usize = 1_000;
/// Characters that may be a part of a key worth hiding.
const KEY_PART_CHARS: usize = 12;
/// What is shown in their place.
const HIDDEN: &str = "[hidden]";
/// Escaped bytes from which on they may be of a key.
const ESCAPES_MIN: usize = 4;

/// What a command said beside the key, to be put behind a sentence. Nothing in it may be a key.
pub fn complaint(complained: &Receiver<Zeroizing<Vec<u8>>>, printed: &[u8]) -> String {
    let said = complained.recv().unwrap_or_default();
    let said = without_bytes(&without_escapes(&String::from_utf8_lossy(&said)));
    let printed = String::from_utf8_lossy(printed);
    let is_printed = |word: &str| {
        let word = word.trim_matches(|c: char| !is_of_base64(c));
        let holds = |key: &str| key.len() >= 8 && (word.contains(key) || key.contains(word));
        word.len() >= 8 && printed.split_whitespace().any(holds)
    };
    let hidden: Vec<String> = said
        .split_whitespace()
        .map(|word| if is_printed(word) { HIDDEN.to_owned() } else { without_keys(word) })
        .collect();
    let mut shown: Vec<&str> = Vec::new();
    for group in hidden.chunk_by(|one, next| is_of_a_dump(one) == is_of_a_dump(next)) {
        if is_of_a_dump(&group[0]) && group.concat().len() >= KEY_PART_CHARS {
            shown.push(HIDDEN);
        } else {
            shown.extend(group.iter().map(String::as_str));
        }
    }
    let shown: String = shown.join(" ").chars().take(COMPLAINT_CHARS_MAX).collect();
    if shown.is_empty() { shown } else { format!("; it said: {shown}") }
}

/// Whether a word is as those of dumps and of lines that are broken: a few digits, or drawn rather than spelt.
fn is_of_a_dump(word: &str) -> bool {
    let word = word.trim_end_matches('=');
    let is_hex = word.chars().all(|c| c.is_ascii_hexdigit());
    let is_drawn = word.contains(|c: char| c.is_ascii_digit())
        || word.chars().skip(1).any(|c| c.is_ascii_uppercase());
    word.len() <= 8 && (is_hex || is_drawn && word.chars().all(is_of_base64))
}

/// A text without what stands between the first and the last of several escaped bytes, as `\xa1b\xcc` or `%A1b%CC`: the
/// letters between them are bytes too. It ends with the quotation that it stands in.
fn without_escapes(text: &str) -> String {
    let is_escape = |(at, sign): &(usize, &str)| {
        let mut after = text[at + 1..].chars();
        let next = [after.next(), after.next()].map(|c| c.unwrap_or(' '));
        match *sign {
            "%" => next.iter().all(char::is_ascii_hexdigit),
            _ => next[0] == 'x' || next[0] == 'u' || next[0].is_ascii_digit(),
        }
    };
    let escapes: Vec<usize> =
        text.match_indices(['\\', '%']).filter(is_escape).map(|(at, _)| at).collect();
    let (Some(first), Some(last)) = (escapes.first(), escapes.last()) else {
        return text.to_owned();
    };
    if escapes.len() < ESCAPES_MIN {
        return text.to_owned();
    }
    let quotes = ['"', '\''];
    let start = text[..*first].rfind(quotes).or_else(|| text[..*first].rfind([' ', '=', '\n']));
    let rest = &text[*last..];
    let end = if text[..*first].contains(quotes) {
        rest.find(quotes)
    } else if rest.starts_with('%') {
        rest.find(char::is_whitespace)
    } else {
        None
    };
    let (before, after) = (&text[..start.map_or(0, |at| at + 1)], end.map_or("", |at| &rest[at..]));
    format!("{before}{HIDDEN}{after}")
}

/// A text without rows of bytes, however these are told apart: `e6:40`, `\xe6\x40`, `[230, 64]`.
fn without_bytes(text: &str) -> String {
    let is_byte = |word: &str| {
        let hex = word.strip_prefix("0x").or_else(|| word.strip_prefix('x')).unwrap_or(word);
        let is_hex = hex.len() == 2 && hex.chars().all(|c| c.is_ascii_hexdigit());
        // Or characters of a key, one by one.
        is_hex || word.len() == 1 || word.len() <= 3 && word.chars().all(|c| c.is_ascii_digit())
    };
    let (mut shown, mut row, mut count) = (String::new(), String::new(), 0);
    let end = |shown: &mut String, row: &mut String, count: &mut usize| {
        shown.push_str(if *count >= KEY_PART_CHARS { HIDDEN } else { row });
        (*row, *count) = (String::new(), 0);
    };
    for part in text.split_inclusive(|c: char| !c.is_ascii_alphanumeric()) {
        let word = part.trim_end_matches(|c: char| !c.is_ascii_alphanumeric());
        if word.is_empty() || is_byte(word) {
            row.push_str(part);
            count += usize::from(!word.is_empty());
        } else {
            end(&mut shown, &mut row, &mut count);
            shown.push_str(part);
        }
    }
    end(&mut shown, &mut row, &mut count);
    shown
}

/// Whether a key in base64 may have it, by either alphabet, but for what fills it up at its end.
fn is_of_base64(c: char) -> bool {
    c.is_ascii_alphanumeric() || "+/-_".contains(c)
}

/// A word in which nothing is left that may be a part of a key. Whoever traces a script, or prints JSON, tells keys within
/// other text.
fn without_keys(word: &str) -> String {
    let (mut shown, mut rest) = (String::new(), word);
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_of_base64(c) != is_of_base64(first)).unwrap_or(rest.len());
        let (run, after) = rest.split_at(end);
        // A key without a capital letter is as good as none.
        let is_path = run.contains('/') && !run.contains(|c: char| c.is_ascii_uppercase());
        let parts = run.split_inclusive(|c| is_path && c == '/');
        parts.for_each(|part| shown.push_str(if may_be_of_a_key(part) { HIDDEN } else { part }));
        rest = after;
    }
    shown
}

/// Whether it is long enough to be worth guessing the rest, and drawn rather than spelt: it has a digit, or its case keeps
/// changing.
fn may_be_of_a_key(run: &str) -> bool {
    let letters: Vec<bool> =
        run.chars().filter(char::is_ascii_alphabetic).map(|c| c.is_ascii_uppercase()).collect();
    let changes = letters.windows(2).filter(|pair| pair[0] != pair[1]).count();
    let is_drawn = run.contains(|c: char| c.is_ascii_digit()) || changes * 3 > run.len();
    run.len() >= KEY_PART_CHARS && is_drawn
}
