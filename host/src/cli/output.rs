//! What commands print, and what becomes of what cannot be printed.
//!
//! A list that a full disk cut short looks whole, and a key that nobody saw is lost. So whatever standard output does not
//! take is told on standard error, once, and by the exit code. Who closes a pipe has read enough, and is told by the exit
//! code alone.

use std::error::Error;
use std::fmt::Display;
use std::fs::{self, File, Metadata};
use std::io::{self, ErrorKind, Write};
use std::os::fd::AsFd as _;
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _};
use std::process::ExitCode;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use super::Failure;

/// Exit code of a command that did what it was to do, but could not print all of what came of it.
const LOST: u8 = 3;

static IS_LOST: AtomicBool = AtomicBool::new(false);

/// Prints a line for the operator.
pub fn say(line: impl Display) {
    let mut out = Output(io::stdout().lock());
    // What fails is told already.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

/// A number with what it is of.
pub fn counted<N: Copy + Display + PartialEq + From<u8>>(
    count: N,
    one: &str,
    many: &str,
) -> String {
    let noun = if count == N::from(1) { one } else { many };
    format!("{count} {noun}")
}

/// Tells what ended a command early, with all that it came from.
pub fn say_error(error: &Failure) {
    warn(whole(&**error));
}

/// Says in JSON, too, what ended a command early of which JSON was asked for: a script reads that, and not standard error.
pub fn telling(json: bool, ended: Result<(), Failure>) -> Result<(), Failure> {
    ended.inspect_err(|error| {
        if json {
            say(json!({"error": whole(error.as_ref())}));
        }
    })
}

/// Writes a line about this command to standard error. Where that takes nothing, nobody can be told.
pub fn warn(line: impl Display) {
    let _ = writeln!(io::stderr().lock(), "tokamak: {line}");
}

/// An error, and behind it its causes, as far as it does not tell of them itself.
pub fn whole(error: &(dyn Error + 'static)) -> String {
    let (mut text, mut cause) = (error.to_string(), error.source());
    while let Some(error) = cause {
        let said = error.to_string();
        if !text.contains(&said) {
            text.push_str(": ");
            text.push_str(&said);
        }
        cause = error.source();
    }
    text
}

/// Where a command prints to; what it does not take is told.
pub struct Output<W>(pub W);

impl<W: Write> Write for Output<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write(bytes).inspect_err(lose)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.0.flush().inspect_err(lose)
    }
}

/// Notes that something could not be printed, and tells of the first time.
pub fn lose(error: &io::Error) {
    if error.kind() == ErrorKind::Interrupted || IS_LOST.swap(true, Ordering::Relaxed) {
        return;
    }
    if error.kind() != ErrorKind::BrokenPipe {
        warn(format_args!("what is to be printed is lost: {error}"));
    }
}

/// Whether something could not be printed.
pub fn is_lost() -> bool {
    IS_LOST.load(Ordering::Relaxed)
}

/// Whether standard output is the device that takes everything and keeps nothing. It is that one too if it was closed
/// when the process began: the standard library sees to it that no other file takes its place.
pub fn goes_nowhere() -> bool {
    let device = |file: Metadata| file.file_type().is_char_device().then(|| file.rdev());
    let out = io::stdout().as_fd().try_clone_to_owned().and_then(|out| File::from(out).metadata());
    let out = out.ok().and_then(device);
    out.is_some() && out == fs::metadata("/dev/null").ok().and_then(device)
}

/// The exit code of a command that would end with this one.
pub fn settled(code: ExitCode) -> ExitCode {
    if code == ExitCode::SUCCESS && is_lost() { ExitCode::from(LOST) } else { code }
}

#[cfg(test)]
mod tests {
    use thiserror::Error as ThisError;

    use super::{counted, whole};

    #[derive(Debug, ThisError)]
    #[error("the disk is full")]
    struct Full;

    #[derive(Debug, ThisError)]
    enum Outer {
        #[error("it failed")]
        Silent(#[source] Full),
        #[error("it failed: {0}")]
        Telling(#[source] Full),
    }

    #[test]
    fn one_is_not_many() {
        let told = [0_u64, 1, 2].map(|count| counted(count, "entry", "entries"));
        assert_eq!(told, ["0 entries", "1 entry", "2 entries"]);
    }

    #[test]
    fn an_error_is_told_with_its_cause_and_that_once() {
        for error in [Outer::Silent(Full), Outer::Telling(Full)] {
            assert_eq!(whole(&error), "it failed: the disk is full");
        }
        assert_eq!(whole(&Full), "the disk is full");
    }
}
