//! How a run can fail, and what each failure is answered with (decisions §7).

use std::collections::BTreeMap;
use std::fmt;

use serde_json::Value;
use thiserror::Error;

use crate::limits::{JOB_TRIES_MAX, RUN_WAIT_SECONDS};
use crate::model::faults::Faults;
use crate::model::id::InvocationId;
use crate::runtime::{Failure, FaultKind};
use crate::vault::jobs::INTERRUPTED;

/// Entries of a configuration that are named of those that do not fit.
const FAULTS_NAMED_MAX: usize = 10;

/// A run that failed.
#[derive(Error)]
pub enum RunError {
    /// The formula reported a failure.
    #[error("{detail}")]
    Reported {
        /// Which.
        kind: FaultKind,
        /// In the formula's words.
        detail: String,
        /// Member paths, in the formula's words.
        errors: BTreeMap<String, Vec<String>>,
    },
    /// The formula shaped its answer itself.
    #[error("The formula answered {status}.")]
    Custom {
        /// 400 to 599.
        status: u16,
        /// Names and values.
        headers: Vec<(String, String)>,
        /// The body.
        body: Value,
    },
    /// The formula declares its configuration otherwise than when the reactor was configured. It holds names.
    #[error(
        "The reactor's configuration does not fit its formula any more, so it did not run: {0}."
    )]
    Misconfigured(String),
    /// The formula broke, or used more than it may.
    #[error("{0}")]
    Runtime(String),
    /// The formula ran past its time.
    #[error("{0}")]
    Timeout(&'static str),
    /// The formula was not compiled in time, and never began.
    #[error("The formula is still being compiled, and the run did not begin; try again.")]
    NotCompiled,
    /// Too many formulas of the tenant run and wait already.
    #[error("As many reactors of the tenant run and wait as may; try again.")]
    Saturated,
    /// The formula wanted more memory than the tenant's may hold together.
    #[error("The tenant's reactors hold all the memory they may.")]
    TenantsMemory,
    /// The formula wanted more memory than is left for anybody's.
    #[error("The server has no memory left for the formula.")]
    NoMemory,
    /// One of these two, of a run that had asked its vault or another server for what changes something.
    #[error(
        "{0} The run was ended after it had asked the vault or another server for a change: look into what it did before you repeat it."
    )]
    MemoryAfterActs(Box<RunError>),
    /// Too many asynchronous runs wait already.
    #[error("The queue of asynchronous runs is full; try again.")]
    QueueFull,
    /// A fault of ours.
    #[error("The server failed to run the formula.")]
    Host,
    /// As many faults of ours as a queued run is begun in spite of.
    #[error("The run could not be begun in {JOB_TRIES_MAX} tries.")]
    NeverBegun,
    /// What came of a run that somebody waited for could not be stored.
    #[error(
        "The run has ended, and what came of it could not be stored: look into what it did before you repeat it."
    )]
    NotStored,
}

/// Says which it is, and nothing of what the formula said.
impl fmt::Debug for RunError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (status, title) = self.status_and_title();
        write!(f, "RunError({status} {title})")
    }
}

impl RunError {
    /// Configuration that its formula does not take: what is wrong, by the names of its entries.
    pub(super) fn misconfigured(faults: Faults) -> Self {
        let faults = faults.into_map().into_iter().take(FAULTS_NAMED_MAX);
        let faults = faults.map(|(path, messages)| format!("{path} {}", messages.join(" and ")));
        Self::Misconfigured(faults.collect::<Vec<_>>().join("; "))
    }

    /// Words for what went wrong inside the sandbox. They name the cause and never hold data.
    pub(super) fn from_failure(failure: Failure, invocation: InvocationId) -> Self {
        match failure {
            Failure::Reported { kind, detail, errors } => {
                let mut map: BTreeMap<String, Vec<String>> = BTreeMap::new();
                for (path, messages) in errors {
                    map.entry(path).or_default().extend(messages);
                }
                Self::Reported { kind, detail, errors: map }
            }
            Failure::Custom { status, headers, body } => Self::Custom { status, headers, body },
            Failure::Trapped { cause } => Self::Runtime(format!("The formula trapped: {cause}.")),
            Failure::OutOfMemory => Self::Runtime("The formula ran out of memory.".to_owned()),
            Failure::OwnerOutOfMemory => Self::TenantsMemory,
            Failure::HostOutOfMemory => {
                tracing::warn!(%invocation, "the reactors hold all the memory they may");
                Self::NoMemory
            }
            Failure::NoSandbox(cause) => {
                Self::no_sandbox(&cause, format_args!("invocation {invocation}"))
            }
            Failure::OutOfMemoryAfterActs(failure) => {
                Self::MemoryAfterActs(Box::new(Self::from_failure(*failure, invocation)))
            }
            Failure::Exited => Self::Runtime("The formula exited instead of answering.".to_owned()),
            Failure::BadResponse { cause } => {
                Self::Runtime(format!("The formula's answer cannot be used: {cause}."))
            }
            Failure::TooLarge => Self::Runtime(
                "The formula's answer, or what it handed its host, is too large.".to_owned(),
            ),
            Failure::OutOfFuel => Self::Timeout("The formula used up its computing time."),
            Failure::TooManyCalls => Self::Timeout("The formula called its host too often."),
            Failure::Deadline => Self::Timeout("The formula ran past its deadline."),
            Failure::NoSlot => {
                Self::Timeout("No slot was free in time, and the run did not begin; try again.")
            }
            Failure::TooLate => Self::Timeout(
                "What the run takes was not ready in time, and the run did not begin; try again.",
            ),
            Failure::NotCompiled => Self::NotCompiled,
            Failure::Saturated => Self::Saturated,
            Failure::HostFault(cause) => {
                tracing::error!(%invocation, %cause, "the sandbox failed");
                Self::Host
            }
        }
    }

    /// As [`Self::NoMemory`], when the system gave none: the operator's to mend.
    pub(super) fn no_sandbox(cause: &str, what: impl fmt::Display) -> Self {
        let advice = "the process may have too little address space (ulimit -v) or memory";
        tracing::error!(%cause, %what, advice, "the system gives no memory for a sandbox");
        Self::NoMemory
    }

    /// How long whoever is told of it is to wait before trying again, if that alone may help, in seconds. Where too much is
    /// under way (429) that is the same for all errors.
    pub fn wait_seconds(&self) -> Option<u64> {
        match self {
            Self::NotCompiled | Self::NoMemory => Some(RUN_WAIT_SECONDS),
            _ => None,
        }
    }

    /// What the server says of it, if the formula did not say it.
    pub(super) fn of_the_server(&self) -> Option<String> {
        let is_the_formulas = matches!(self, Self::Reported { .. } | Self::Custom { .. });
        (!is_the_formulas).then(|| self.to_string())
    }

    /// Whether it is the server's, and neither the caller's nor a formula's.
    pub fn is_ours(&self) -> bool {
        match self {
            Self::NoMemory | Self::Host | Self::NeverBegun | Self::NotStored => true,
            Self::MemoryAfterActs(error) => error.is_ours(),
            _ => false,
        }
    }

    /// The status and title of its problem.
    pub fn status_and_title(&self) -> (u16, &'static str) {
        match self {
            Self::Reported { kind, .. } => match kind {
                FaultKind::Authentication => (401, "Unauthorized"),
                FaultKind::Authorization => (403, "Forbidden"),
                FaultKind::BadRequest => (400, "Bad Request"),
                FaultKind::InvalidPaymentMethod => (402, "Invalid Payment Method"),
                FaultKind::RateLimit => (429, "Too Many Requests"),
                FaultKind::Runtime => (500, "Reactor Runtime Error"),
                FaultKind::ServiceUnavailable => (503, "Service Unavailable"),
            },
            Self::Custom { status, .. } => (*status, "Custom Response"),
            Self::Misconfigured(_) => (409, "Conflict"),
            Self::Runtime(_) => (500, "Reactor Runtime Error"),
            Self::Timeout(_) => (504, "Reactor Timeout"),
            Self::NotCompiled => (503, "Formula Still Compiling"),
            // As with slots: the tenant has used up its part, and the next run may find room.
            Self::Saturated | Self::TenantsMemory | Self::QueueFull => (429, "Too Many Requests"),
            // The tenant did nothing too often.
            Self::NoMemory => (503, "Service Unavailable"),
            Self::Host | Self::NeverBegun => (500, "Internal Server Error"),
            // As of one that was queued; and no status that clients repeat a request for by themselves.
            Self::NotStored | Self::MemoryAfterActs(_) => (500, INTERRUPTED),
        }
    }

    /// The title of its problem.
    pub fn title(&self) -> &'static str {
        self.status_and_title().1
    }
}

#[cfg(test)]
mod tests {
    use super::{Failure, InvocationId, RunError};
    use uuid::Uuid;

    #[test]
    fn each_want_of_memory_has_its_status() {
        for (failure, status, part) in [
            (Failure::OutOfMemory, 500, "The formula ran out of memory"),
            (Failure::OwnerOutOfMemory, 429, "The tenant's reactors hold all the memory"),
            (Failure::HostOutOfMemory, 503, "The server has no memory left"),
            (Failure::NoSandbox("mmap".to_owned()), 503, "The server has no memory left"),
            // Whoever is told a 429 or a 503 repeats it, and what was done would be done again.
            (Failure::OwnerOutOfMemory.after_acts(), 500, "The tenant's reactors hold all"),
            (Failure::HostOutOfMemory.after_acts(), 500, "The server has no memory left"),
            (Failure::OutOfMemory.after_acts(), 500, "The formula ran out of memory"),
            (Failure::Deadline.after_acts(), 504, "The formula ran past"),
        ] {
            let error = RunError::from_failure(failure, InvocationId(Uuid::nil()));
            assert_eq!(error.status_and_title().0, status, "{error}");
            assert!(error.to_string().starts_with(part), "{error}");
        }
    }
}
