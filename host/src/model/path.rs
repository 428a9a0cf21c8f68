//! Where a value lies in a body, such as `rules[0].container`.
//!
//! Walks build a path by borrowing from the step above, and write it out only for a fault: a body of many members with
//! long names costs no more than itself.

use std::fmt::{self, Write as _};

use crate::limits::PATH_CHARS_MAX;

/// A path, from the value back to the root.
#[derive(Debug, Clone, Copy)]
pub enum Path<'p> {
    /// The body itself.
    Root,
    /// A member of an object.
    Member(&'p Path<'p>, &'p str),
    /// An item of an array.
    Item(&'p Path<'p>, usize),
}

impl<'p> Path<'p> {
    /// The path of a member.
    #[must_use]
    pub fn member(&'p self, name: &'p str) -> Self {
        Self::Member(self, name)
    }

    /// The path of an item.
    #[must_use]
    pub fn item(&'p self, index: usize) -> Self {
        Self::Item(self, index)
    }
}

/// As a reader would write it. A long path is cut short: an answer must not be many times its request.
impl fmt::Display for Path<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Bounded { text: f, left: PATH_CHARS_MAX };
        write(self, &mut text).or_else(|_| f.write_char('…'))
    }
}

fn write(path: &Path<'_>, text: &mut Bounded<'_, '_>) -> fmt::Result {
    match path {
        Path::Root => Ok(()),
        // Without a name it would be the root.
        Path::Member(Path::Root, "") => text.write_char('.'),
        Path::Member(Path::Root, name) => text.write_str(name),
        Path::Member(above, name) => {
            write(above, text)?;
            text.write_char('.')?;
            text.write_str(name)
        }
        Path::Item(above, index) => {
            write(above, text)?;
            write!(text, "[{index}]")
        }
    }
}

/// Takes so many characters and no more.
struct Bounded<'t, 'f> {
    text: &'t mut fmt::Formatter<'f>,
    left: usize,
}

impl fmt::Write for Bounded<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for c in text.chars() {
            self.left = self.left.checked_sub(1).ok_or(fmt::Error)?;
            self.text.write_char(c)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::Path;

    #[test]
    fn paths_read_as_they_are_written() {
        let rules = Path::Root.member("rules");
        let first = rules.item(0);
        assert_eq!(first.member("container").to_string(), "rules[0].container");
        assert_eq!(Path::Root.item(2).member("a").to_string(), "[2].a");
        assert_eq!(Path::Root.to_string(), "");
        let nameless = Path::Root.member("");
        assert_eq!(nameless.item(0).to_string(), ".[0]");
        assert_eq!(rules.member("").to_string(), "rules.");
    }

    #[test]
    fn long_paths_are_cut_short() {
        let name = "é".repeat(5_000);
        let long = Path::Root.member(&name);
        let long = long.member("below").to_string();
        assert!(long.starts_with("éé") && long.ends_with('…') && long.chars().count() < 300);
    }
}
