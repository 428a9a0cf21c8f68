//! Why options cannot be used.

use std::path::PathBuf;

use thiserror::Error;

/// Why options cannot be used.
#[derive(Debug, Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error("{}: {source}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        source: std::io::Error,
    },
    /// The file holds something else than options.
    #[error("{}: {message}", path.display())]
    Invalid {
        /// The file.
        path: PathBuf,
        /// What and where.
        message: String,
    },
    /// A variable of the environment is no option.
    #[error(
        "{0} in the environment is no option: unset it; what Kubernetes sets for a service of that name is left out by \
        enableServiceLinks: false"
    )]
    UnknownVariable(String),
    /// A variable that holds a secret is no text. What it holds is told to nobody.
    #[error("{0} in the environment is no UTF-8")]
    NotText(&'static str),
    /// An option without a default is absent.
    #[error("--{0} is required")]
    Missing(&'static str),
    /// An address is not one that requests can be sent to.
    #[error(
        "--{0} must be an address that begins with http:// or https://, without a user, a query and a fragment"
    )]
    NoAddress(&'static str),
    /// A part of a whole is none.
    #[error("--{0} must be a number from 0 to 1")]
    NoPart(&'static str),
    /// A number is too small to work with, or too large for any machine.
    #[error("--{option} must be from {least} to {most}")]
    OutOfRange {
        /// The option.
        option: &'static str,
        /// The least that it may be.
        least: u64,
        /// The most.
        most: u64,
    },
    /// One of two options that belong together is absent.
    #[error("--tls-certificate and --tls-key go together")]
    HalfOfTls,
    /// There is no root key.
    #[error(
        "there is no root key: set TOKAMAK_ROOT_KEY (32 bytes in base64), --root-key-file or \
        --root-key-command"
    )]
    NoRootKey,
    /// There is more than one: which of them is meant, nobody knows.
    #[error("there is more than one source of the {what}, and one is wanted: {}", sources.join(", "))]
    ManySources {
        /// Which key.
        what: &'static str,
        /// Where it is said to be.
        sources: Vec<&'static str>,
    },
    /// A command that is none.
    #[error("--{0} is empty")]
    Empty(&'static str),
    /// A command that cannot be taken apart into words.
    #[error("--{0} has a quote that does not end")]
    Unquoted(&'static str),
}
