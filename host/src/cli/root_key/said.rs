//! What a command that was to print a root key said when it failed, without anything that may be one.
//!
//! Keys have too many spellings to be found in a text. So it is the other way round: words are shown, as they are spelt in
//! any language, and a little of what else messages have. Who wants to read the rest runs the command by hand.

use std::sync::mpsc::Receiver;

use zeroize::Zeroizing;

/// Characters of what a command complained that are shown.
const COMPLAINT_CHARS_MAX: usize = 1_000;
/// What is shown in the place of what is not.
const HIDDEN: &str = "[hidden]";
/// Signs that hardly stand in messages, from which on they may be those of a key in some of the rarer alphabets.
const RARE_SIGNS_MAX: usize = 12;
const RARE_SIGNS: &str = "!#$%&*;<>?@^`|~\\+";
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
            _ if !run.chars().all(char::is_alphanumeric) => Self::Other,
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
pub fn complaint(complained: &Receiver<Zeroizing<Vec<u8>>>) -> String {
    let said = complained.recv().unwrap_or_default();
    let shown = without_keys(&String::from_utf8_lossy(&said));
    if shown.is_empty() { shown } else { format!("; it said: {shown}") }
}

fn without_keys(said: &str) -> String {
    // A row of one sign is a line that is drawn.
    let mut before = None;
    let rare = said.chars().filter(|c| before.replace(*c) != Some(*c) && RARE_SIGNS.contains(*c));
    if rare.count() > RARE_SIGNS_MAX {
        return HIDDEN.to_owned();
    }
    // What a terminal obeys is no part of a message.
    let said: String = said.chars().filter(|c| c.is_whitespace() || !c.is_control()).collect();
    let said = said.split_whitespace().collect::<Vec<_>>().join(" ");
    // But for quotation marks and dashes, whatever else there is may stand for bytes.
    let is_sign = |c: char| c.is_ascii() || matches!(c, '\u{2010}'..='\u{2027}' | '«' | '»');
    let is_of_run = |c: char| c.is_alphanumeric() || !is_sign(c);
    let runs: Vec<&str> = said.split(|c| !is_of_run(c)).filter(|run| !run.is_empty()).collect();
    let others = runs.iter().filter(|run| Kind::of(run) == Kind::Other).count();
    let little = runs.iter().filter(|run| Kind::of(run) == Kind::Little);
    let little = little.map(|run| run.chars().count()).sum::<usize>();
    let is_little = little <= LITTLE_CHARS_MAX && others <= OTHERS_MAX;
    let is_shown = |run: &str| match Kind::of(run) {
        Kind::Word => true,
        Kind::Pair | Kind::Little => is_little,
        Kind::Other => false,
    };
    let mut shown = String::new();
    let mut rest = said.as_str();
    while let Some(first) = rest.chars().next() {
        let end = rest.find(|c| is_of_run(c) != is_of_run(first)).unwrap_or(rest.len());
        let (part, after) = rest.split_at(end);
        shown.push_str(if !is_of_run(first) || is_shown(part) { part } else { HIDDEN });
        rest = after;
    }
    // Many in a row say no more than one.
    let several = format!("{HIDDEN} {HIDDEN}");
    while shown.contains(&several) {
        shown = shown.replace(&several, HIDDEN);
    }
    shown.chars().take(COMPLAINT_CHARS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{HIDDEN, without_keys};
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
            ("line 12:\n  Schlüssel fehlt \u{1b}[31m!", "line 12: Schlüssel fehlt [31m!"),
            ("key-0f3a9c71 for 123456789012", "key-[hidden] for [hidden]"),
        ] {
            assert_eq!(without_keys(said), shown);
        }
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
