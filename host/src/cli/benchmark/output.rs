//! A file that figures are written to. It is opened before anything is measured: to hear only then that it cannot be written
//! would be minutes late.

use std::fs::File;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use crate::cli::Failure;

/// A file to write to.
pub struct Output {
    path: PathBuf,
    file: File,
}

impl Output {
    /// Opens it. What is in it stays until there is something else to write.
    pub fn open(path: &Path) -> Result<Self, Failure> {
        let file = File::options().write(true).create(true).truncate(false).open(path);
        let file = file.map_err(|error| named(path, &error))?;
        Ok(Self { path: path.to_owned(), file })
    }

    /// Writes it anew.
    pub fn write(self, bytes: &[u8]) -> Result<(), Failure> {
        let Self { path, mut file } = self;
        let written = emptied(&file).and_then(|()| file.write_all(bytes));
        written.map_err(|error| named(&path, &error))
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
    fn one_that_cannot_be_written_is_named() {
        let folder = tempfile::tempdir().unwrap();
        for path in [folder.path().to_owned(), folder.path().join("none/figures.json")] {
            let said = Output::open(&path).err().unwrap().to_string();
            assert!(said.starts_with(&format!("{}: ", path.display())), "{said}");
        }
    }
}
