//! A file that figures are written to. It is opened before anything is measured: to hear only then that it cannot be written
//! would be minutes late.

use std::fs::{self, File};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::cli::Failure;

/// A file to write to.
pub struct Output {
    path: PathBuf,
    file: File,
    /// It was not there before, and nothing is in it: whoever finds it later would take it for figures.
    is_to_go: bool,
}

impl Output {
    /// Opens it. What is in it stays until there is something else to write.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let made = File::options().write(true).create_new(true).open(path);
        let is_to_go = made.is_ok();
        let file = match made {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                // A link that leads nowhere is there as well.
                File::options().write(true).create(true).truncate(false).open(path)
            }
            made => made,
        };
        let file = file.map_err(|error| named(path, &error))?;
        Ok(Self { path: path.to_owned(), file, is_to_go })
    }

    /// Writes it anew.
    pub fn write(mut self, bytes: &[u8]) -> Result<(), Failure> {
        let written = emptied(&self.file).and_then(|()| self.file.write_all(bytes));
        written.map_err(|error| named(&self.path, &error))?;
        self.is_to_go = false;
        Ok(())
    }
}

impl Drop for Output {
    fn drop(&mut self) {
        if self.is_to_go {
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// What is no file of data, such as a pipe, has nothing in it.
fn emptied(file: &File) -> io::Result<()> {
    if file.metadata()?.is_file() { file.set_len(0) } else { Ok(()) }
}

fn named(path: &Path, error: &io::Error) -> Failure {
    format!("{}: {error}", path.display()).into()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::Output;

    #[test]
    fn a_file_is_kept_until_it_is_written_anew() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("figures.json");
        Output::open(&path).unwrap().write(b"much").unwrap();
        drop(Output::open(&path).unwrap());
        assert_eq!(fs::read_to_string(&path).unwrap(), "much");
        Output::open(&path).unwrap().write(b"a").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "a");
        Output::open("/dev/null".as_ref()).unwrap().write(b"a").unwrap();
    }

    #[test]
    fn one_that_was_not_there_stays_only_if_it_was_written() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("figures.json");
        let opened = Output::open(&path).unwrap();
        assert!(path.exists());
        drop(opened);
        assert!(!path.exists());
        Output::open(&path).unwrap().write(b"{}").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "{}");
        // Empty, but somebody's.
        fs::write(&path, "").unwrap();
        drop(Output::open(&path).unwrap());
        assert!(path.exists());
    }

    #[test]
    fn one_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().to_owned(), folder.path().join("none/figures.json")] {
            let said = Output::open(&path).err().unwrap().to_string();
            assert!(said.starts_with(&format!("{}: ", path.display())), "{said}");
        }
    }
}
