//! Comparing texts without regard to case.

use zeroize::Zeroizing;

/// A text as it is compared "ignoring case": two that differ in nothing but case have the same.
///
/// Small letters of one capital are one, such as both sigmas, `µ` and `μ`, `ſ` and `s`; and letters whose capital is several
/// are these, such as `ß` and `ss`. That is Unicode's case folding, by way of the capitals: `straße` is `STRASSE`.
pub fn caseless(text: &str) -> Zeroizing<String> {
    if text.is_ascii() {
        return Zeroizing::new(text.to_ascii_lowercase());
    }
    // So many bytes that nothing is moved: what it leaves behind would not be wiped.
    let mut folded = Zeroizing::new(String::with_capacity(BYTES_PER_BYTE_MAX * text.len()));
    // First down, since some capitals are their own.
    for small in text.chars().flat_map(char::to_lowercase) {
        if small == DOTLESS_I {
            // Its capital is another letter's.
            folded.push(small);
        } else {
            folded.extend(small.to_uppercase().flat_map(char::to_lowercase));
        }
    }
    folded
}

/// All forms in which a text may have been stored: the one that [`caseless`] gives first.
pub fn stored_forms(text: &str) -> impl Iterator<Item = Zeroizing<String>> {
    let mut forms = Vec::with_capacity(1);
    let folds = if text.is_ascii() { &FOLDS[..1] } else { &FOLDS };
    for fold in folds {
        let form = fold(text);
        if !forms.contains(&form) {
            forms.push(form);
        }
    }
    forms.into_iter()
}

/// How a text is compared ignoring case.
pub type Fold = fn(&str) -> Zeroizing<String>;

/// How texts are compared, and how they were before: records of those times are stored so.
pub const FOLDS: [Fold; 3] = [caseless, with_one_sigma, lowered];

/// When letters were made small ones, but for the small sigmas, which were one.
fn with_one_sigma(text: &str) -> Zeroizing<String> {
    let lowered = lowered(text);
    if lowered.contains(FINAL_SIGMA) {
        Zeroizing::new(lowered.replace(FINAL_SIGMA, "σ"))
    } else {
        lowered
    }
}

/// When these were two.
fn lowered(text: &str) -> Zeroizing<String> {
    Zeroizing::new(text.to_lowercase())
}

/// The small sigma at the end of a word.
const FINAL_SIGMA: char = 'ς';
/// The Turkish small letter whose capital is that of `i`.
const DOTLESS_I: char = 'ı';
/// Bytes that come of one byte at most: `ΐ` has two, and is six.
const BYTES_PER_BYTE_MAX: usize = 3;

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{BYTES_PER_BYTE_MAX, DOTLESS_I, caseless, stored_forms};

    #[test]
    fn texts_that_differ_in_case_alone_are_one() {
        for (one, other) in [
            ("Sophos", "sOPHOS"),
            ("ΣΟΦΟΣ", "σοφος"),
            ("ΣΟΦΟΣ", "σοφοσ"),
            ("ΣΟΦΟΣ ΟΔΟΣ", "σοφος οδος"),
            ("STRAẞE", "straße"),
            ("Straße", "STRASSE"),
            ("5 µm", "5 μM"),
            ("ϐ", "Β"),
            ("ẛ", "Ṡ"),
            ("ſtop", "STOP"),
            ("ﬁn", "FIN"),
            ("ᾳ", "ΑΙ"),
            ("K", "k"),
            ("ǅ", "ǆ"),
            ("ꭰ", "Ꭰ"),
            ("Ж", "ж"),
        ] {
            assert_eq!(caseless(one), caseless(other), "{one}");
        }
        for (one, other) in [("a", "á"), ("ı", "i"), ("İ", "i"), ("ss", "s")] {
            assert_ne!(caseless(one), caseless(other), "{one}");
        }
    }

    #[test]
    fn what_was_stored_in_an_earlier_form_is_looked_for_too() {
        let forms = |text| stored_forms(text).map(|form| form.to_string()).collect::<Vec<_>>();
        assert_eq!(forms("ΟΔΟΣ"), ["οδοσ", "οδος"]);
        assert_eq!(forms("ΟΔΟΣΑ"), ["οδοσα"]);
        assert_eq!(forms("Straße"), ["strasse", "straße"]);
        assert_eq!(forms("ẞΣ"), ["ssσ", "ßσ", "ßς"]);
        assert_eq!(forms("Card"), ["card"]);
    }

    /// None takes more room than there is for it, and each is as its capital and its small letter are.
    #[test]
    fn every_letter_is_folded_as_its_capital_and_small_letter_are() {
        for letter in '\u{80}'..=char::MAX {
            let text = letter.to_string();
            let folded = caseless(&text);
            assert!(folded.len() <= BYTES_PER_BYTE_MAX * text.len(), "{letter}");
            assert_eq!(folded, caseless(&text.to_lowercase()), "{letter}");
            assert_eq!(folded, caseless(&folded), "{letter}");
            if letter != DOTLESS_I {
                assert_eq!(folded, caseless(&text.to_uppercase()), "{letter}");
            }
        }
    }

    proptest! {
        /// Letter by letter or as a whole: where a word ends makes no difference.
        #[test]
        fn a_text_is_lowered_letter_by_letter(text in "[ΑΣσςΟaZ *İßẞﬁµ]{0,12}") {
            let by_letter: String = text.chars().map(|c| caseless(&c.to_string()).to_string()).collect();
            prop_assert_eq!(&*caseless(&text), &by_letter);
            prop_assert_eq!(caseless(&caseless(&text)), caseless(&text));
        }
    }
}
