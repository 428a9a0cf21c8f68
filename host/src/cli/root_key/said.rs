//! What a command that was to print a root key said when it failed, without anything that may be one.
//!
//! Keys have too many spellings to be found in a text. So it is the other way round: words are shown, as they are spelt in
//! languages that write letters, and a little of what else messages have. Who wants to read the rest runs the command by
//! hand. Words that stand for bytes, as lists of them do, cannot be told from those of a message.

use std::collections::HashSet;

use super::heard::Text;

/// Characters of what a command complained that are shown, the last ones: they say what it came to.
const COMPLAINT_CHARS_MAX: usize = 1_000;
/// What stands for those before.
const CUT: &str = "\u{2026} ";
/// What is shown in the place of what is not.
const HIDDEN: &str = "[hidden]";
/// Signs that hardly stand in messages, from which on they may be those of a key in some of the rarer alphabets.
const RARE_SIGNS_MAX: usize = 12;
const RARE_SIGNS: &str = "!#$%&*;<>?@^`|~\\+";
/// Of these, those that point at a place in the line above, mixed and many in a row.
const POINTING: &str = "~^";
/// Characters of runs of one length in a row, from which on they may be the parts of a key: messages have words of many.
const ALIKE_CHARS_MAX: usize = 24;
/// The first of the characters that stand for a word or a syllable, of which few would be a key.
const FIRST_IDEOGRAPH: char = '\u{2e80}';
/// Letters of the longest word, of those that make up a name each.
const WORD_CHARS_MAX: usize = 20;

/// Characters of what is [`Kind::Little`], from which on they may be the parts of a key.
const LITTLE_CHARS_MAX: usize = 16;

/// And runs of what is [`Kind::Other`], beside which they may be.
const OTHERS_MAX: usize = 1;

/// What letters and digits in a row may be.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Word,
    /// `is`, `to`: words that would not stand out among pairs of letters.
    Pair,
    /// Of a line, of a time; `KMS`, `ERROR`; `v2`, `ssh`.
    Little,
    Other,
}

impl Kind {
    fn of(run: &str) -> Self {
        let length = run.chars().count();
        let most = match () {
            () if run.chars().all(char::is_uppercase) => 8,
            () if run.chars().all(|c| c.is_ascii_digit() || c.is_lowercase()) => 5,
            () => 3,
        };
        match is_spelt(run) {
            _ if !run.chars().all(|c| c.is_alphanumeric() && c < FIRST_IDEOGRAPH) => Self::Other,
            true if length > 2 => Self::Word,
            true => Self::Pair,
            false if length <= most => Self::Little,
            false => Self::Other,
        }
    }
}

/// Whether it is a word, or several as `AccessDenied`: small letters with a vowel among them, a capital one before at most.
fn is_spelt(run: &str) -> bool {
    let humps: Vec<usize> =
        run.char_indices().filter(|(_, c)| c.is_uppercase()).map(|(at, _)| at).collect();
    let first = humps.first().copied().unwrap_or(run.len());
    let (small, mut rest) = run.split_at(first);
    let is_word = |part: &str, least: usize| {
        (least..=WORD_CHARS_MAX).contains(&part.chars().count())
            && part.chars().all(char::is_alphabetic)
            && part.to_lowercase().contains(|c: char| !c.is_ascii() || "aeiouy".contains(c))
    };
    if !small.is_empty() && !is_word(small, 2) {
        return false;
    }
    while !rest.is_empty() {
        let next = rest.char_indices().skip(1).find(|(_, c)| c.is_uppercase());
        let (hump, after) = rest.split_at(next.map_or(rest.len(), |(at, _)| at));
        if !is_word(hump, 2) {
            return false;
        }
        rest = after;
    }
    run.chars().count() >= 3 * humps.len()
}

/// What a command said, to be put behind a sentence.
pub fn complaint(said: &Text) -> String {
    let shown = without_keys(&String::from_utf8_lossy(said.bytes()));
    if shown.is_empty() {
        return shown;
    }
    let cut = if said.is_cut && !shown.starts_with(CUT) { CUT } else { "" };
    let advice =
        if shown.contains(HIDDEN) { "; run the command by hand to read the rest" } else { "" };
    format!("; it said: {cut}{shown}{advice}")
}

fn without_keys(said: &str) -> String {
    // A row of one sign is a line that is drawn.
    let mut before = None;
    let drawn = said.chars().map(|c| if POINTING.contains(c) { '^' } else { c });
    let rare = drawn.filter(|c| before.replace(*c) != Some(*c) && RARE_SIGNS.contains(*c));
    if rare.count() > RARE_SIGNS_MAX {
        return HIDDEN.to_owned();
    }
    // What a terminal obeys is no part of a message.
    let said: String = said.chars().filter(|c| c.is_whitespace() || !c.is_control()).collect();
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    let runs: Vec<&str> = said.split(|c| !is_of_run(c)).filter(|run| !run.is_empty()).collect();
    let alike = alike(&runs);
    let kind = |at, run| if alike.contains(&at) { Kind::Other } else { Kind::of(run) };
    let kinds: Vec<Kind> = runs.iter().enumerate().map(|(at, run)| kind(at, run)).collect();
    let others = kinds.iter().filter(|kind| **kind == Kind::Other).count();
    let little = runs.iter().zip(&kinds).filter(|(_, kind)| **kind == Kind::Little);
    let little = little.map(|(run, _)| run.chars().count()).sum::<usize>();
    let is_little = little <= LITTLE_CHARS_MAX && others <= OTHERS_MAX;
    let is_shown = |kind: Kind| match kind {
        Kind::Word => true,
        Kind::Pair | Kind::Little => is_little,
        Kind::Other => false,
    };
    let mut kinds = kinds.into_iter();
    let mut shown = String::new();
    let mut rest = said.as_str();
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_of_run(c) != is_of_run(first)).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        let is_shown = !is_of_run(first) || kinds.next().is_some_and(is_shown);
        shown.push_str(if is_shown { part } else { HIDDEN });
        rest = after;
    }
    // Many in a row say no more than one.
    let several = format!("{HIDDEN} {HIDDEN}");
    while shown.contains(&several) {
        shown = shown.replace(&several, HIDDEN);
    }
    match shown.char_indices().nth_back(COMPLAINT_CHARS_MAX - 1) {
        Some((from, _)) if from > 0 => CUT.to_owned() + &shown[from..],
        _ => shown,
    }
}

/// Whether a character is of a run of letters and digits, and no sign between such. But for quotation marks and dashes,
/// whatever else there is may stand for bytes.
fn is_of_run(c: char) -> bool {
    let is_sign = c.is_ascii() || matches!(c, '\u{2010}'..='\u{2027}' | '«' | '»');
    c.is_alphanumeric() || !is_sign
}

/// Which runs are as long as those beside them, so that together they may be a key in groups.
fn alike(runs: &[&str]) -> HashSet<usize> {
    let lengths: Vec<usize> = runs.iter().map(|run| run.chars().count()).collect();
    let mut alike = HashSet::new();
    let mut first = 0;
    for row in lengths.chunk_by(PartialEq::eq) {
        let last = first + row.len();
        if row.len() > 1 && row.iter().sum::<usize>() >= ALIKE_CHARS_MAX {
            alike.extend(first..last);
        }
        first = last;
    }
    alike
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{COMPLAINT_CHARS_MAX, HIDDEN, without_keys};
    use crate::crypto::entropy::{Entropy as _, SeededEntropy};

    #[test]
    fn messages_can_be_read() {
        for (said, shown) in [
            ("wait", "wait"),
            ("NotFoundException: NoSuchKey", "NotFoundException: NoSuchKey"),
            ("IncompleteSignatureException", "IncompleteSignatureException"),
            ("cccbjhkirtdnlfvugecccbjhkirtdnlfvuge", "[hidden]"),
            (
                "AccessDenied: /usr/lib/kms/v2/get-key failed for alias/vault, exit 3",
                "AccessDenied: /usr/lib/kms/v2/get-key failed for alias/vault, exit 3",
            ),
            (
                "Could not connect to https://kms.eu-west-1.amazonaws.com (TLS)",
                "Could not connect to https://kms.eu-west-1.amazonaws.com (TLS)",
            ),
            (
                "==== \u{201e}no key\u{201c} ====\n^^^^^^^^^^^^^^^^ a=b",
                "==== \u{201e}no key\u{201c} ==== ^^^^^^^^^^^^^^^^ a=b",
            ),
            ("\u{2801}\u{28ff}\u{202e} dcba", "[hidden] dcba"),
            ("\u{6c34}\u{706b} dcba", "[hidden] dcba"),
            ("jofab-ritip-gobad-kuzum-sivot", "[hidden]-[hidden]-[hidden]-[hidden]-[hidden]"),
            (
                "  a = b()\n      ~~~^^^^\n  c(d)\n  ~^^~~~~^^\nLookupError: no such key",
                "a = b() ~~~^^^^ c(d) ~^^~~~~^^ LookupError: no such key",
            ),
            ("line 12:\n  Schlüssel fehlt \u{1b}[31m!", "line 12: Schlüssel fehlt [31m!"),
            ("key-0f3a9c71 for 123456789012", "key-[hidden] for [hidden]"),
        ] {
            assert_eq!(without_keys(said), shown);
        }
    }

    #[test]
    fn of_a_long_message_the_end_is_shown() {
        let said = "much before ".repeat(200) + "ConnectionError: the key service does not answer";
        let shown = without_keys(&said);
        assert!(shown.starts_with("\u{2026} ") && shown.ends_with("service does not answer"));
        assert_eq!(shown.chars().count(), COMPLAINT_CHARS_MAX + 2);
    }

    /// Ways to spell bytes.
    fn spelled(bytes: &[u8]) -> Vec<String> {
        use base64::Engine as _;
        let each = |of: &dyn Fn(u8) -> String, between: &str| {
            bytes.iter().map(|byte| of(*byte)).collect::<Vec<_>>().join(between)
        };
        let words = bytes.chunks(4).map(|four| u32::from_be_bytes(four.try_into().unwrap()));
        let words: Vec<u32> = words.collect();
        let base64 = base64::engine::general_purpose::STANDARD.encode(bytes);
        let parts = |text: &str, length: usize, between: &str| {
            let parts = text.as_bytes().chunks(length).map(String::from_utf8_lossy);
            parts.collect::<Vec<_>>().join(between)
        };
        let hex = each(&|byte| format!("{byte:02x}"), "");
        let nibbles = |alphabet: &str| {
            let spelt = hex.chars().map(|digit| digit.to_digit(16).unwrap() as usize);
            spelt.map(|at| alphabet.chars().nth(at).unwrap()).collect::<String>()
        };
        let (yubikey, letters) = (nibbles("cbdefghijklnrtuv"), nibbles("abcdefghijklmnop"));
        let number = |byte: u8| byte.to_string();
        vec![
            base64.clone(),
            hex.clone(),
            each(&|byte| format!("\\x{byte:02x}"), ""),
            each(&|byte| format!("%{byte:02X}"), ""),
            each(&|byte| format!("&H{byte:02X}"), " "),
            each(&|byte| format!("{byte}u8"), ", "),
            each(&|byte| format!("[0]=> int({byte})"), " "),
            each(&|byte| format!("{{\"byte\": {byte}}}"), ", "),
            each(&number, ", "),
            each(&|byte| format!("{byte:03o}"), " "),
            format!("{words:?}"),
            words.iter().map(|word| format!("{word:#010x}")).collect::<Vec<_>>().join(" "),
            words.iter().map(|word| word.cast_signed().to_string()).collect::<Vec<_>>().join(", "),
            parts(&base64, 1, " "),
            parts(&base64, 2, " "),
            parts(&base64, 4, "\u{1b}[31m"),
            parts(&base64, 8, "\npart: "),
            parts(&base64, 10, "|"),
            parts(&yubikey, 4, " "),
            parts(&yubikey, 8, "-"),
            parts(&yubikey, 16, ":"),
            parts(&letters, 5, "\n"),
            parts(&letters, 16, " "),
            parts(&letters, 20, " "),
            bytes.iter().map(|byte| char::from_u32(0x4e00 + u32::from(*byte)).unwrap()).collect(),
            parts(&hex, 2, ":"),
            parts(&hex, 10, "\npart 0: "),
            String::from_utf8_lossy(bytes).escape_debug().to_string(),
            bytes.escape_ascii().to_string(),
        ]
    }

    proptest! {
        /// Of what is drawn at random little is a word.
        #[test]
        fn no_spelling_of_a_key_is_shown(seed in any::<u64>()) {
            let mut bytes = [0; 32];
            SeededEntropy::new(seed).fill(&mut bytes);
            for text in spelled(&bytes) {
                let shown = without_keys(&format!("the key is {text}"));
                let words = ["the", "key", HIDDEN, "part", "byte", "int"];
                let rest = words.iter().fold(shown.clone(), |rest, word| rest.replace(word, ""));
                let left = rest.chars().filter(|c| c.is_alphanumeric()).count();
                // As many characters of base64 are eighteen bytes: fourteen are left to be guessed.
                prop_assert!(left <= 24, "{text:?} is shown as {shown:?}");
            }
        }
    }
}
