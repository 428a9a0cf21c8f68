//! Names for people, as applications, formulas, reactors and tenants have them.

use super::faults::Faults;
use crate::limits::NAME_CHARS_MAX;

/// Adds what is wrong with a name, at `name`.
pub fn check_name(name: &str, faults: &mut Faults) {
    if name.trim().is_empty() {
        faults.add("name", "must not be empty");
    } else if name.chars().all(is_unseen) {
        faults.add("name", "must have a character that can be seen");
    }
    if name.chars().count() > NAME_CHARS_MAX {
        faults.add("name", format!("must have at most {NAME_CHARS_MAX} characters"));
    }
}

/// Whether a character leaves nothing to look at or to click at: white space, and what only controls others.
fn is_unseen(c: char) -> bool {
    c.is_whitespace()
        || c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}'
            | '\u{feff}' | '\u{ffa0}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::check_name;
    use crate::limits::NAME_CHARS_MAX;
    use crate::model::faults::Faults;

    #[test]
    fn names_have_characters_and_not_too_many() {
        let longest = "\u{1f600}".repeat(NAME_CHARS_MAX);
        for (name, right) in [
            ("a", true),
            (&longest, true),
            ("", false),
            (" \t", false),
            ("\u{200b}\u{200b}\u{200b}", false),
            (" \u{202e}\u{feff}", false),
            ("\u{200b}a", true),
            ("\u{5d0}\u{200f}", true),
            (&format!("{longest}a"), false),
        ] {
            let mut faults = Faults::new();
            check_name(name, &mut faults);
            assert_eq!(faults.is_empty(), right, "{name:?}");
        }
    }
}
