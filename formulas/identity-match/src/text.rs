//! Texts in one form, and how alike their words are.

use std::collections::BTreeMap;

use strsim::jaro_winkler;
use tokamak_sdk::text::without_accents;

/// Most characters of one value.
pub(crate) const CHARS_MAX: usize = 500;
/// Words that are paired by likeness, of those that have no equal; the rest counts as having no counterpart. The best
/// pairing costs `2^WORDS_MAX` steps a word.
const WORDS_MAX: usize = 8;
/// What two words must have in common to count as spellings of one.
const ALIKE_MIN: f64 = 0.75;
/// How much an initial counts for a name.
const INITIAL: f64 = 0.9;

/// The words of a text: lower case, without accents and punctuation.
pub(crate) fn words(text: &str) -> Vec<String> {
    let mut plain = String::with_capacity(text.len());
    for letter in without_accents(text).chars() {
        match letter {
            // What joins the parts of one word.
            '\'' | '\u{2018}' | '\u{2019}' => {}
            // The same letter at the end of a word.
            'ς' => plain.push('σ'),
            // Marks of kana, which stand for themselves by now.
            letter if letter.is_alphanumeric() || matches!(letter, '\u{3099}' | '\u{309a}') => {
                plain.extend(letter.to_lowercase());
            }
            _ => plain.push(' '),
        }
    }
    plain.split_whitespace().map(str::to_owned).collect()
}

/// Whether a part of a text is hidden, as masks do it.
pub(crate) fn is_masked(text: &str) -> bool {
    let hides = |letter: char| matches!(letter, '*' | '•' | '●' | '█' | '#');
    text.chars().zip(text.chars().skip(1)).any(|(one, next)| one == next && hides(one))
}

/// Letters and digits alone, in capitals.
pub(crate) fn code(text: &str) -> String {
    let letters = text.chars().filter(|letter| letter.is_alphanumeric());
    letters.flat_map(char::to_uppercase).collect()
}

/// Digits alone.
pub(crate) fn digits(text: &str) -> String {
    text.chars().filter(char::is_ascii_digit).collect()
}

/// How alike two lists of words are, in whatever order: equal words, then the best pairing of others; what has no
/// counterpart counts nothing.
pub(crate) fn likeness(one: &[String], other: &[String]) -> f64 {
    let count = |words: usize| f64::from(u32::try_from(words).unwrap_or(u32::MAX));
    let (mut rest, mut others) = (without_equal(one, other), without_equal(other, one));
    let equal = count(one.len() - rest.len());
    rest.truncate(WORDS_MAX);
    others.truncate(WORDS_MAX);
    let all = count(one.len() + other.len());
    if all > 0.0 { 2.0 * (equal + best_pairing(&rest, &others)) / all } else { 0.0 }
}

/// The words of one that the other has not, or has fewer times.
fn without_equal<'w>(one: &'w [String], other: &[String]) -> Vec<&'w str> {
    let mut equals: BTreeMap<&str, usize> = BTreeMap::new();
    for word in other {
        *equals.entry(word.as_str()).or_default() += 1;
    }
    let mut rest = Vec::new();
    for word in one {
        match equals.get_mut(word.as_str()) {
            Some(count) if *count > 0 => *count -= 1,
            _ => rest.push(word.as_str()),
        }
    }
    rest
}

/// The greatest sum of likenesses when each word has one counterpart at most.
fn best_pairing(one: &[&str], other: &[&str]) -> f64 {
    let (one, other) = if one.len() <= other.len() { (one, other) } else { (other, one) };
    // The best sum for each set of words of the other that are taken, as bits.
    let mut best = vec![0.0_f64; 1 << other.len()];
    for word in one {
        let pairs: Vec<f64> =
            other.iter().map(|counterpart| word_likeness(word, counterpart)).collect();
        // From the fullest set down, each step reads sets that this word has not touched.
        for taken in (0..best.len()).rev() {
            for (index, likeness) in
                pairs.iter().enumerate().filter(|(index, _)| taken & (1 << index) != 0)
            {
                best[taken] = best[taken].max(best[taken & !(1 << index)] + likeness);
            }
        }
    }
    best.last().copied().unwrap_or_default()
}

fn word_likeness(one: &str, other: &str) -> f64 {
    if one == other {
        return 1.0;
    }
    let initial = |short: &str, long: &str| short.chars().count() == 1 && long.starts_with(short);
    if initial(one, other) || initial(other, one) {
        return INITIAL;
    }
    if one.bytes().chain(other.bytes()).all(|byte| byte.is_ascii_digit()) {
        // 12 and 21 are not two spellings of one house.
        return 0.0;
    }
    // The metric looks for counterparts from the left and may differ by a hair with the order.
    let alike = jaro_winkler(one, other).max(jaro_winkler(other, one));
    if alike >= ALIKE_MIN { alike } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::{code, digits, is_masked, likeness, words};

    fn alike(one: &str, other: &str) -> f64 {
        let (one, other) = (words(one), words(other));
        let likeness = likeness(&one, &other);
        assert!((likeness - super::likeness(&other, &one)).abs() < 1e-9, "{one:?} {other:?}");
        assert!((0.0..=1.0 + 1e-9).contains(&likeness), "{one:?} {other:?}: {likeness}");
        likeness
    }

    #[test]
    fn words_are_plain() {
        assert_eq!(words("  O\u{2019}Neill-Größe, ZOË\t李 "), ["oneill", "grosse", "zoe", "李"]);
        assert_eq!(words("e\u{301}A"), ["ea"]);
        assert!(words(" -.,! ").is_empty());
        assert_eq!(words("a b c d e f g h i j").len(), 10);
        assert_eq!(
            (code(" 12-34 a.b"), digits("+1 (2)-x3")),
            ("1234AB".to_owned(), "123".to_owned())
        );
    }

    #[test]
    fn names_are_alike_whatever_their_order_case_and_accents() {
        for (one, other) in [
            ("Ada Lovelace", "LOVELACE, Ada"),
            ("Zoë Łącka", "zoe lacka"),
            ("Jean-Luc O'Brien", "OBRIEN Jean Luc"),
            ("Nguyễn Văn Đức", "duc nguyen van"),
            ("Ștefan Țuca", "TUCA Stefan"),
            ("Σίσυφος", "ΣΊΣΥΦΟΣ"),
            ("Ｌａｅ Ada", "Ada Lae"),
            // Once composed, and once not.
            ("E\u{307}gle\u{307}", "Ėglė"),
            ("\u{1112}\u{1161}\u{11ab}", "한"),
            ("カ\u{3099}キ\u{3099}", "ガギ"),
        ] {
            assert!((alike(one, other) - 1.0).abs() < 1e-9, "{one} {other}");
        }
    }

    #[test]
    fn what_hides_letters_is_a_mask() {
        for masked in ["***-**-6789", "A** S****", "••1234", "1234##"] {
            assert!(is_masked(masked), "{masked}");
        }
        for text in ["12 Main St #3", "a*b*c", "Ada", "", "*"] {
            assert!(!is_masked(text), "{text}");
        }
    }

    #[test]
    fn likeness_falls_with_the_difference() {
        for (one, other, from, to) in [
            ("Ada Lovelace", "Ada Lovelacee", 0.95, 0.999),
            ("Jonathan Smith", "Jonathon Smith", 0.95, 0.999),
            ("Ada Lovelace", "A. Lovelace", 0.95, 0.951),
            ("Ada Lovelace", "Ada King Lovelace", 0.8, 0.8001),
            ("Ada Lovelace", "Grace Hopper", 0.0, 0.001),
            ("Ada Lovelace", "Ada Hopper", 0.5, 0.501),
            ("12 High Street", "21 High Street", 0.66, 0.67),
            ("", "Ada", 0.0, 0.001),
            ("", "", 0.0, 0.001),
        ] {
            let likeness = alike(one, other);
            assert!((from..=to).contains(&likeness), "{one} {other}: {likeness}");
        }
    }

    #[test]
    fn each_word_has_one_counterpart_and_the_best_pairing_counts() {
        // Word by word from the left, "anna" would take "anne" and leave "anna" to "anne".
        let likeness = alike("Anne Anna", "Anna Anne");
        assert!((likeness - 1.0).abs() < 1e-9);
        assert!((alike("Ada Ada", "Ada Grace") - 0.5).abs() < 1e-9);
        assert!(alike("a b c d e f g h", "h g f e d c b a") > 0.999);
    }

    #[test]
    fn words_past_the_eighth_count_too() {
        for (one, other, from, to) in [
            ("a b c d e f g h i", "i h g f e d c b a", 0.999, 1.001),
            ("a b c d e f g h i", "a b c d e f g h j", 0.88, 0.89),
            ("a b c d e f g h", "a b c d e f g h i", 0.94, 0.95),
            // The ninth of nine that have no equal has no counterpart.
            ("Anna Bob Carl Dora Emil Fritz Gustav Hugo Ida", "a b c d e f g h i", 0.799, 0.801),
        ] {
            let likeness = alike(one, other);
            assert!((from..=to).contains(&likeness), "{one} {other}: {likeness}");
        }
    }
}
