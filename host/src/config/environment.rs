//! The variables of the environment that are ours, whatever reads them.

use clap::Args as _;

use super::{BOOTSTRAP_KEY, ConfigError, Options, PREFIX, ROOT_KEY, root_key};

/// A misspelt variable would be an option silently not taken.
pub fn refuse_unknown() -> Result<(), ConfigError> {
    let command = Options::augment_args(clap::Command::new("options"));
    let mut known: Vec<String> = command
        .get_arguments()
        .filter_map(|option| option.get_env())
        .map(|name| name.to_string_lossy().into_owned())
        .collect();
    known.extend([ROOT_KEY, root_key::NEW_ROOT_KEY, BOOTSTRAP_KEY].map(str::to_owned));
    match given().into_iter().find(|name| !known.contains(name)) {
        Some(name) => Err(ConfigError::UnknownVariable(name)),
        None => Ok(()),
    }
}

/// The names of those that have a value.
pub fn given() -> Vec<String> {
    // Variables that are not ours may be anything, no text too. One without a value is none.
    #[expect(clippy::disallowed_methods, reason = "read once, here")]
    let given = std::env::vars_os().filter(|(_, value)| !value.is_empty());
    let names = given.map(|(name, _)| name.to_string_lossy().into_owned());
    let mut ours: Vec<String> = names.filter(|name| name.starts_with(PREFIX)).collect();
    ours.sort_unstable();
    ours
}
