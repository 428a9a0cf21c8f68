//! What a run that answered may come to instead of its answer.

use crate::model::faults::Faults;
use crate::vault::Error;

/// Why a run that answered has no answer.
pub(super) enum Unanswered {
    /// Nothing is stored yet: the run is to be stored as failed.
    Failed(Error),
    /// The store failed: there is nothing more to be stored.
    Uncommitted(Error),
}

impl Unanswered {
    pub fn of_caller(error: Error) -> Self {
        match error {
            Error::AskerEnded => Self::Failed(error),
            error => Self::Uncommitted(error),
        }
    }

    pub fn tokenize(error: Error) -> Self {
        match error {
            Error::Invalid(inner) => {
                let mut faults = Faults::new();
                faults.extend_under("tokenize", inner);
                Self::Failed(Error::Invalid(faults))
            }
            error @ (Error::Unavailable(_) | Error::Internal) => Self::Uncommitted(error),
            error => Self::Failed(error),
        }
    }
}
