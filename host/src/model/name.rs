//! Names for people, as applications, formulas, reactors and tenants have them.

use super::faults::Faults;
use crate::limits::NAME_CHARS_MAX;

/// Adds what is wrong with a name, at `name`.
pub fn check_name(name: &str, faults: &mut Faults) {
    if name.trim().is_empty() {
        faults.add("name", "must not be empty");
    }
    if name.chars().count() > NAME_CHARS_MAX {
        faults.add("name", format!("must have at most {NAME_CHARS_MAX} characters"));
    }
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
            (&format!("{longest}a"), false),
        ] {
            let mut faults = Faults::new();
            check_name(name, &mut faults);
            assert_eq!(faults.is_empty(), right, "{name:?}");
        }
    }
}
