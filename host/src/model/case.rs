//! Comparing texts without regard to case.

use zeroize::Zeroizing;

/// A text as it is compared "ignoring case": two that differ in nothing but case have the same.
///
/// [`str::to_lowercase`] makes another letter of a capital sigma at the end of a word than elsewhere, so that `ΣΟΦΟΣ` and
/// `σοφοσ` would differ by where a word is thought to end. Here both small sigmas are one.
pub fn caseless(text: &str) -> Zeroizing<String> {
    let lowered = earlier(text);
    if lowered.contains(FINAL_SIGMA) {
        Zeroizing::new(lowered.replace(FINAL_SIGMA, "σ"))
    } else {
        lowered
    }
}

/// A text as it was compared when the two small sigmas were told apart: records of that time are stored so.
pub fn earlier(text: &str) -> Zeroizing<String> {
    Zeroizing::new(text.to_lowercase())
}

/// All forms in which a text may have been stored: the one that [`caseless`] gives, and the [`earlier`] one.
pub fn stored_forms(text: &str) -> impl Iterator<Item = Zeroizing<String>> {
    let of_earlier = earlier(text);
    let differing = of_earlier.contains(FINAL_SIGMA).then_some(of_earlier);
    std::iter::once(caseless(text)).chain(differing)
}

/// The small sigma at the end of a word.
const FINAL_SIGMA: char = 'ς';

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::{caseless, stored_forms};

    #[test]
    fn texts_that_differ_in_case_alone_are_one() {
        for (one, other) in [
            ("Sophos", "sOPHOS"),
            ("ΣΟΦΟΣ", "σοφος"),
            ("ΣΟΦΟΣ", "σοφοσ"),
            ("ΣΟΦΟΣ ΟΔΟΣ", "σοφος οδος"),
            ("STRAẞE", "straße"),
            ("Ж", "ж"),
        ] {
            assert_eq!(caseless(one), caseless(other), "{one}");
        }
        assert_ne!(caseless("a"), caseless("á"));
    }

    #[test]
    fn what_was_stored_with_a_final_sigma_is_looked_for_too() {
        let forms = |text| stored_forms(text).map(|form| form.to_string()).collect::<Vec<_>>();
        assert_eq!(forms("ΟΔΟΣ"), ["οδοσ", "οδος"]);
        assert_eq!(forms("ΟΔΟΣΑ"), ["οδοσα"]);
        assert_eq!(forms("Card"), ["card"]);
    }

    proptest! {
        /// Letter by letter or as a whole: where a word ends makes no difference.
        #[test]
        fn a_text_is_lowered_letter_by_letter(text in "[ΑΣσςΟaZ *İ]{0,12}") {
            let by_letter: String = text.chars().map(|c| caseless(&c.to_string()).to_string()).collect();
            prop_assert_eq!(&*caseless(&text), &by_letter);
            prop_assert_eq!(caseless(&caseless(&text)), caseless(&text));
        }
    }
}
