//! Where the root key comes from: exactly one of the environment, a file and a command.

use std::path::PathBuf;
use std::time::Duration;

use zeroize::Zeroizing;

use super::{ConfigError, ROOT_KEY, Settings, secret};

/// The key that `tokamak keys rotate --root` changes to.
pub(super) const NEW_ROOT_KEY: &str = "TOKAMAK_NEW_ROOT_KEY";
/// Where systemd says which folder holds the credentials of a service.
const CREDENTIALS: &str = "CREDENTIALS_DIRECTORY";

/// Where a root key is to be read.
#[derive(Clone)]
pub enum RootKeySource {
    /// The text itself.
    Text(Zeroizing<String>),
    /// A file that holds it.
    File(PathBuf),
    /// A program with its arguments that prints it, and how long that may take.
    Command(Vec<String>, Duration),
}

/// Everything that was named as a source.
pub struct Named {
    /// From the environment.
    pub text: Option<Zeroizing<String>>,
    /// A file.
    pub file: Option<PathBuf>,
    /// A command line.
    pub command: Option<String>,
    /// How long the command may take, in seconds.
    pub seconds: u64,
}

impl Settings {
    /// Where the root key is. Two places are an error: after a rotation one of them would be the old key's.
    pub fn root_key_source(&self) -> Result<RootKeySource, ConfigError> {
        let named = Named {
            text: secret(ROOT_KEY)?,
            file: self.root_key_file.clone(),
            command: self.root_key_command.clone(),
            seconds: self.root_key_command_seconds,
        };
        let sources = [ROOT_KEY, "--root-key-file", "--root-key-command"];
        named.only("root key", sources)?.ok_or(ConfigError::NoRootKey)
    }
}

/// The folder of the credentials that systemd gave to this process, if it did.
#[expect(clippy::disallowed_methods, reason = "the environment is read in this module")]
pub fn credentials_folder() -> Option<PathBuf> {
    std::env::var_os(CREDENTIALS).map(PathBuf::from).filter(|folder| folder.is_absolute())
}

/// Where the key is that a rotation changes to; `None` when nothing is named.
pub fn new_root_key(
    file: Option<PathBuf>,
    command: Option<String>,
    seconds: u64,
) -> Result<Option<RootKeySource>, ConfigError> {
    let named = Named { text: secret(NEW_ROOT_KEY)?, file, command, seconds };
    named.only("new root key", [NEW_ROOT_KEY, "--new-root-key-file", "--new-root-key-command"])
}

impl Named {
    fn only(
        self,
        what: &'static str,
        names: [&'static str; 3],
    ) -> Result<Option<RootKeySource>, ConfigError> {
        let given = [self.text.is_some(), self.file.is_some(), self.command.is_some()];
        let sources: Vec<_> = names
            .into_iter()
            .zip(given)
            .filter_map(|(name, given)| given.then_some(name))
            .collect();
        if sources.len() > 1 {
            return Err(ConfigError::ManySources { what, sources });
        }
        let command = self.command.map(|line| {
            let name = names[2].trim_start_matches('-');
            let words = shlex::split(&line).ok_or(ConfigError::Unquoted(name))?;
            if words.first().is_none_or(String::is_empty) {
                return Err(ConfigError::Empty(name));
            }
            Ok(RootKeySource::Command(words, Duration::from_secs(self.seconds)))
        });
        let file = self.file.map(RootKeySource::File);
        Ok(command.transpose()?.or(file).or(self.text.map(RootKeySource::Text)))
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use zeroize::Zeroizing;

    use super::{Named, RootKeySource};

    const NAMES: [&str; 3] = ["VARIABLE", "--file", "--command"];

    fn named(text: bool, file: bool, command: Option<&str>) -> Named {
        Named {
            text: text.then(|| Zeroizing::new("text".to_owned())),
            file: file.then(|| "file".into()),
            command: command.map(str::to_owned),
            seconds: 7,
        }
    }

    #[test]
    fn one_source_is_taken_and_two_are_refused_by_name() {
        let only = |text, file, command| named(text, file, command).only("key", NAMES);
        assert!(only(false, false, None).unwrap().is_none());
        assert!(matches!(only(true, false, None).unwrap(), Some(RootKeySource::Text(_))));
        assert!(matches!(only(false, true, None).unwrap(), Some(RootKeySource::File(_))));
        for (text, file, command, expected) in [
            (true, true, None, "VARIABLE, --file"),
            (true, false, Some("a"), "VARIABLE, --command"),
            (false, true, Some("a"), "--file, --command"),
            (true, true, Some("a"), "VARIABLE, --file, --command"),
        ] {
            let error = only(text, file, command).err().unwrap().to_string();
            assert!(error.ends_with(expected), "{error}");
        }
    }

    #[test]
    fn a_command_is_taken_apart_as_a_shell_would() {
        for (line, expected) in [
            ("key-service get", vec!["key-service", "get"]),
            ("sh -c 'cat key | tr -d x'", vec!["sh", "-c", "cat key | tr -d x"]),
            ("\"a b\"  c", vec!["a b", "c"]),
        ] {
            let source = named(false, false, Some(line)).only("key", NAMES).unwrap();
            let Some(RootKeySource::Command(words, bound)) = source else { panic!("{line}") };
            assert_eq!(
                (words, bound),
                (expected.into_iter().map(str::to_owned).collect(), Duration::from_secs(7))
            );
        }
        for (wrong, expected) in [
            ("sh -c 'cat", "--command has a quote that does not end"),
            ("", "--command is empty"),
            ("  ", "--command is empty"),
            ("''", "--command is empty"),
        ] {
            let error = named(false, false, Some(wrong)).only("key", NAMES).err().unwrap();
            assert_eq!(error.to_string(), expected, "{wrong:?}");
        }
    }
}
