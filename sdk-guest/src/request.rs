//! What a formula is called with.
//!
//! Reads the host's JSON into the author's types. It knows neither the bindings nor the fakes: both hand it
//! an [`Inbound`].

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::{Error, Svc, decode};

/// One call of a formula: `A` is the type of the arguments, `C` of the reactor's configuration.
///
/// JSON that does not fit the types is answered before the formula is called, by the member: arguments as a bad request,
/// the configuration as a runtime error.
#[non_exhaustive]
pub struct Request<A, C = Value> {
    /// The arguments, references replaced by the data of their tokens.
    pub args: A,
    /// The configuration of the reactor, an object of names and values.
    pub configuration: C,
    /// The vault with the rights of the reactor's application; none when the reactor has no application.
    pub svc: Option<Svc>,
    /// Which run this is.
    pub invocation: Invocation,
}

impl<A, C> Request<A, C> {
    /// The vault, or a runtime error that tells the caller that the reactor needs an application.
    pub fn svc(&self) -> Result<&Svc, Error> {
        self.svc.as_ref().ok_or_else(|| Error::runtime("the reactor has no application"))
    }
}

/// One run of a reactor.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Invocation {
    /// The id under which the run is kept.
    pub id: String,
    /// The reactor that runs.
    pub reactor_id: String,
    /// 1 for the first try.
    pub attempt: u32,
    /// Milliseconds since the Unix epoch at which the run is ended.
    pub deadline_ms: u64,
}

/// A request as it arrives, with JSON as text.
#[doc(hidden)]
pub struct Inbound<'a> {
    pub(crate) args: &'a str,
    pub(crate) configuration: &'a str,
    pub(crate) svc: Option<Svc>,
    pub(crate) invocation: Invocation,
}

/// What a formula can take: a [`Request`].
#[diagnostic::on_unimplemented(
    message = "a formula takes one `Request<A>` or `Request<A, C>`, not `{Self}`",
    note = "`A`, the arguments, and `C`, the configuration, must implement `serde::Deserialize`"
)]
#[doc(hidden)]
pub trait Argument: Sized {
    /// Reads the request.
    fn read(inbound: Inbound<'_>) -> Result<Self, Error>;
}

impl<A: DeserializeOwned, C: DeserializeOwned> Argument for Request<A, C> {
    fn read(inbound: Inbound<'_>) -> Result<Self, Error> {
        Ok(Self {
            args: decode::member(inbound.args, "args")?,
            configuration: decode::member(inbound.configuration, "configuration")?,
            svc: inbound.svc,
            invocation: inbound.invocation,
        })
    }
}
