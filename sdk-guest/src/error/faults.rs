//! Faults in a request, gathered so that the caller learns all of them at once.

use crate::Error;

/// Most members that one answer names; a caller with more mistakes has one cause for them.
const FAULTS_MAX: usize = 100;

/// What is wrong with a request, by member, while it is being checked.
///
/// ```
/// use tokamak_sdk::{Error, Faults};
///
/// fn check(amount: i64, currency: &str) -> Result<(), Error> {
///     let mut faults = Faults::default();
///     if amount <= 0 {
///         faults.add("args.amount", "must be positive");
///     }
///     if currency.len() != 3 {
///         faults.add("args.currency", "must be a code of three letters");
///     }
///     faults.into_result("the payment is not complete")
/// }
/// assert_eq!(check(0, "").unwrap_err().messages("args.currency").len(), 1);
/// assert!(check(1, "EUR").is_ok());
/// ```
#[derive(Debug, Default)]
pub struct Faults(Vec<(String, String)>);

impl Faults {
    /// Notes what is wrong with a member. Past a hundred, faults are counted no more.
    pub fn add(&mut self, member: impl Into<String>, message: impl Into<String>) {
        if self.0.len() < FAULTS_MAX {
            self.0.push((member.into(), message.into()));
        }
    }

    /// Keeps what was read, or notes that the member should have been `expected`.
    pub fn expect<T>(&mut self, value: Option<T>, member: &str, expected: &str) -> Option<T> {
        if value.is_none() {
            self.add(member, expected);
        }
        value
    }

    /// Whether nothing is wrong.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// An error with these faults: a bad request, or a runtime error when the reactor's configuration alone is wrong, which
    /// no caller can mend. The detail of that one goes on with what is wrong.
    ///
    /// ```
    /// # use tokamak_sdk::{ErrorKind, Faults};
    /// let mut faults = Faults::default();
    /// faults.add("configuration.style", "must be json or form");
    /// let error = faults.into_error("the order cannot be sent");
    /// assert_eq!(error.kind(), Some(ErrorKind::Runtime));
    /// let detail = "the order cannot be sent: configuration.style must be json or form";
    /// assert_eq!(error.detail(), detail);
    /// ```
    pub fn into_error(self, detail: impl Into<String>) -> Error {
        let mut detail = detail.into();
        let is_owners = !self.is_empty() && self.0.iter().all(|(member, _)| is_configured(member));
        let error = if is_owners {
            let mut before = ": ";
            for (member, message) in &self.0 {
                detail.extend([before, member.as_str(), " ", message.as_str()]);
                before = "; ";
            }
            Error::runtime(detail)
        } else {
            Error::bad_request(detail)
        };
        self.0.into_iter().fold(error, |error, (member, message)| error.at(member, message))
    }

    /// Nothing when nothing is wrong, else [an error](Self::into_error) with these faults.
    pub fn into_result(self, detail: impl Into<String>) -> Result<(), Error> {
        if self.is_empty() { Ok(()) } else { Err(self.into_error(detail)) }
    }
}

/// Whether a member is the configuration, or of it.
fn is_configured(member: &str) -> bool {
    let rest = member.strip_prefix("configuration");
    rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}
