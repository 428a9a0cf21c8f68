//! What can go wrong in the vault, with the status and the title that the contract gives it over any transport.
//!
//! Texts are fixed or made of names the caller wrote; causes of faults of ours are logged where they arise and do
//! not travel.

use std::collections::BTreeMap;

use thiserror::Error;

use crate::figures::figures;
use crate::model::faults::Faults;
use crate::model::permission::Permission;
use crate::runtime::{CompileError, ComponentError, ScriptError};
use crate::store::StoreError;

use super::run_error::RunError;

/// A refusal or a failure.
#[derive(Debug, Error)]
pub enum Error {
    /// 400: the request is wrong in these places.
    #[error("{0}")]
    Invalid(Faults),
    /// 401: no valid key.
    #[error("The API key (header SVC-API-KEY) is missing, unknown, revoked or expired.")]
    Unauthenticated,
    /// 401: the tenant was erased, so its keys are nobody's any more.
    #[error("{}", Self::Unauthenticated)]
    TenantGone,
    /// 401: whoever asked for a run ended before it did.
    #[error("The application or session that asked for the run has ended.")]
    AskerEnded,
    /// 403: known, but not allowed.
    #[error("{detail}")]
    Forbidden {
        /// What is missing.
        permission: Permission,
        /// A sentence for the caller.
        detail: String,
    },
    /// 403: not for callers like this one.
    #[error("{0}")]
    NotAllowed(&'static str),
    /// 404: no such thing in this tenant.
    #[error("There is no such {0}.")]
    NotFound(&'static str),
    /// 409: the request contradicts what is there.
    #[error("{0}")]
    Conflict(&'static str),
    /// 409: what a formula runs was replaced since the formula was read.
    #[error("The formula's component or script was just replaced.")]
    Replaced,
    /// 409: the application that a reactor acts as has ended.
    #[error("The reactor's application has ended.")]
    ApplicationEnded,
    /// 409: a token has the id that a new one was to have, or two new ones were to have it.
    #[error("{0}")]
    IdTaken(String),
    /// 429: too much of this is under way.
    #[error("{0}")]
    Busy(&'static str),
    /// 422: the idempotency key belongs to another request.
    #[error("The idempotency key was used for another request.")]
    KeyReused,
    /// 422: the formula cannot run.
    #[error(transparent)]
    NotRunnable(#[from] ComponentError),
    /// The formula failed, or reported a failure.
    #[error(transparent)]
    Run(#[from] Box<RunError>),
    /// 503: the store takes no writes.
    #[error(transparent)]
    Unavailable(Unfit),
    /// 500: a fault of ours; the cause is in the operator's log.
    #[error("The server failed to handle the request.")]
    Internal,
}

impl Error {
    /// Whether it is the server's, and neither the caller's nor a formula's.
    pub fn is_ours(&self) -> bool {
        match self {
            Self::Unavailable(_) | Self::Internal => true,
            Self::Run(error) => error.is_ours(),
            _ => false,
        }
    }

    /// Whether the caller's key is nobody's, or no longer.
    pub fn is_unauthenticated(&self) -> bool {
        matches!(self, Self::Unauthenticated | Self::TenantGone)
    }

    /// One fault at one member.
    pub fn invalid(path: &str, message: impl Into<String>) -> Self {
        Self::Invalid(Faults::one(path, message))
    }

    /// The same for who did not write what it names, but a formula.
    #[must_use]
    pub fn unnamed(self) -> Self {
        match self {
            Self::IdTaken(_) => {
                Self::Conflict("A token of the formula's answer has an id that is taken.")
            }
            Self::Forbidden { permission, .. } => {
                let detail =
                    format!("No rule of who acts for the formula grants {permission} here.");
                Self::Forbidden { permission, detail }
            }
            other => other,
        }
    }

    /// A fault of ours, its cause told to the operator only.
    pub fn internal(cause: impl std::fmt::Display) -> Self {
        tracing::error!(%cause, "internal error");
        Self::Internal
    }
}

impl From<Faults> for Error {
    fn from(faults: Faults) -> Self {
        Self::Invalid(faults)
    }
}

impl From<CompileError> for Error {
    fn from(error: CompileError) -> Self {
        match error {
            CompileError::Component(error) => Self::NotRunnable(error),
            CompileError::NoMemory(cause) => {
                Self::Run(Box::new(RunError::no_sandbox(&cause, "a formula's code")))
            }
            fault @ CompileError::Host(_) => Self::internal(fault),
        }
    }
}

impl From<ScriptError> for Error {
    fn from(error: ScriptError) -> Self {
        match error {
            ScriptError::Refused(refusal) => Self::NotRunnable(refusal),
            ScriptError::Saturated => {
                Self::Busy("As many reactors of the tenant run and wait as may; try again.")
            }
            fault @ ScriptError::Host(_) => Self::internal(fault),
        }
    }
}

/// Why the vault takes no writes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Unfit {
    /// It goes on by itself once there is space.
    #[error("The disk is full: nothing new is stored until there is space again.")]
    Full,
    /// All else goes on. So many MiB are wanted.
    #[error(
        "The disk of the store has no room for a copy of it, which takes about {0} MiB beside what stays free."
    )]
    NoRoomToCopy(u64),
    /// It goes on by itself once the disk takes writes.
    #[error("The disk takes no writes: nothing is stored until it does again.")]
    ReadOnly,
    /// What the write left is not known to this process: it has to be started again.
    #[error("An earlier write failed: nothing is stored until the server is started again.")]
    Failed,
    /// Its process ends.
    #[error("The server is stopping.")]
    Closed,
    /// Another fault, which the log tells of.
    #[error("The storage is unavailable.")]
    Unavailable,
}

impl From<StoreError> for Unfit {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Full => Self::Full,
            StoreError::NoRoomToCopy(mb) => Self::NoRoomToCopy(mb),
            StoreError::ReadOnly => Self::ReadOnly,
            StoreError::Closed => Self::Closed,
            StoreError::Failed => Self::Failed,
            _ => Self::Unavailable,
        }
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Exists { .. } | StoreError::Taken { .. } => {
                Self::Conflict("An entity with this id exists already.")
            }
            StoreError::Conflict { .. } => {
                Self::Conflict("Other requests changed the entity at the same time.")
            }
            // Nothing was asked for that is stored.
            cause @ StoreError::NoRoomToCopy(_) => Self::Unavailable(cause.into()),
            cause => {
                // Of these the store tells the operator, once.
                let told = [StoreError::Full, StoreError::ReadOnly, StoreError::Failed];
                // That it stops, too.
                if cause != StoreError::Closed && !told.contains(&cause) {
                    tracing::error!(%cause, "the store failed");
                }
                figures().store_refused();
                Self::Unavailable(cause.into())
            }
        }
    }
}

/// An error in the terms of RFC 9457, before it is answered over some transport.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Described {
    /// The status.
    pub status: u16,
    /// The title, the same for all errors of a kind.
    pub title: &'static str,
    /// What is wrong here.
    pub detail: String,
    /// Member paths with their messages.
    pub errors: BTreeMap<String, Vec<String>>,
}

impl Error {
    /// Status, title, detail and members: the one place that gives each error its status (decisions §1).
    pub fn describe(&self) -> Described {
        let (status, title) = self.status_and_title();
        let errors = match self {
            Self::Invalid(faults) => faults.clone().into_map(),
            Self::Run(run) => match run.as_ref() {
                RunError::Reported { errors, .. } => errors.clone(),
                _ => BTreeMap::new(),
            },
            _ => BTreeMap::new(),
        };
        let detail = match self {
            Self::Invalid(_) => "The request is invalid; see errors.".to_owned(),
            error => error.to_string(),
        };
        Described { status, title, detail, errors }
    }

    /// The title of the problem that it is answered with.
    pub fn title(&self) -> &'static str {
        self.status_and_title().1
    }

    fn status_and_title(&self) -> (u16, &'static str) {
        match self {
            Self::Invalid(_) => (400, "Bad Request"),
            Self::Unauthenticated | Self::TenantGone | Self::AskerEnded => (401, "Unauthorized"),
            Self::Forbidden { .. } | Self::NotAllowed(_) => (403, "Forbidden"),
            Self::NotFound(_) => (404, "Not Found"),
            Self::Conflict(_) | Self::IdTaken(_) | Self::Replaced | Self::ApplicationEnded => {
                (409, "Conflict")
            }
            Self::NotRunnable(_) | Self::KeyReused => (422, "Unprocessable Content"),
            Self::Busy(_) => (429, "Too Many Requests"),
            Self::Run(run) => run.status_and_title(),
            Self::Unavailable(_) => (503, "Service Unavailable"),
            Self::Internal => (500, "Internal Server Error"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Error;
    use crate::model::permission::Permission;

    #[test]
    fn what_a_formula_wrote_is_not_named_to_its_caller() {
        let permission = Permission::TokenCreate;
        let detail = "No rule grants token:create in the container /hidden/.".to_owned();
        for (error, status) in [
            (Error::IdTaken("A token with the id hidden exists already.".to_owned()), 409),
            (Error::Forbidden { permission, detail }, 403),
        ] {
            assert!(error.to_string().contains("hidden"));
            let unnamed = error.unnamed();
            assert!(!unnamed.to_string().contains("hidden"), "{unnamed}");
            assert_eq!(unnamed.describe().status, status);
        }
        assert!(matches!(Error::Internal.unnamed(), Error::Internal));
    }
}
