//! Write Tokamak formulas in Rust.
//!
//! A formula is a function that a reactor runs in a sandbox of its own, with the data of the tokens that
//! the caller referred to. With this crate it takes a dozen lines:
//!
//! ```
//! use serde::{Deserialize, Serialize};
//! use tokamak_sdk::{Error, Request, Response, formula, log};
//!
//! #[derive(Deserialize)]
//! struct Args {
//!     card: Card,
//! }
//!
//! #[derive(Deserialize)]
//! struct Card {
//!     number: String,
//! }
//!
//! #[derive(Serialize)]
//! struct LastFour {
//!     last_four: String,
//! }
//!
//! #[formula]
//! fn react(request: Request<Args>) -> Result<Response, Error> {
//!     let number = request.args.card.number;
//!     let start = number.len().checked_sub(4);
//!     // A caller may send any text: where a character takes more than one byte, `get` finds nothing.
//!     let Some(last_four) = start.and_then(|start| number.get(start..)) else {
//!         return Err(Error::bad_request("the number is wrong")
//!             .at("args.card.number", "must have at least 4 digits"));
//!     };
//!     log::info(format_args!("a number of {} digits", number.len()));
//!     Ok(Response::raw(LastFour { last_four: last_four.to_owned() }))
//! }
//!
//! // A formula is tested like any function, without WebAssembly and without a server.
//! use tokamak_sdk::{json, testing::Call};
//!
//! let outcome = Call::new(json!({ "card": { "number": "4242424242424242" } })).run(react);
//! assert_eq!(outcome.raw(), json!({ "last_four": "4242" }));
//! assert_eq!(outcome.lines(), ["a number of 16 digits"]);
//! let outcome = Call::new(json!({ "card": { "number": "é123" } })).run(react);
//! assert_eq!(outcome.error().status(), 400);
//! ```
//!
//! # A formula project
//!
//! `tokamak formula new NAME --lang rust` writes one, with a case that `tokamak formula test` runs. By hand:
//!
//! ```toml
//! [lib]
//! crate-type = ["cdylib", "rlib"]   # a component, and a library for its tests
//!
//! [dependencies]
//! serde = { version = "1", features = ["derive"] }
//! tokamak-sdk = { git = "…" }
//! ```
//!
//! `cargo build --release --target wasm32-wasip2` yields the component; it is uploaded as it is.
//! A small stack, and with it a small first memory, makes a fresh instance cheaper; in `.cargo/config.toml`:
//!
//! ```toml
//! [target.wasm32-wasip2]
//! rustflags = ["-C", "link-arg=-zstack-size=65536"]
//! ```
//!
//! With `#[derive(Parameters)]` on the types of arguments and configuration the component tells
//! [what it takes](parameters), and `tokamak formula push` sends it.
//!
//! # What a formula may do
//!
//! It sees its arguments ([`Request::args`]), the reactor's configuration, the clocks, random numbers and,
//! when the reactor has an application, the vault through [`Svc`]. It sends [requests](http) to the hosts that its
//! `allowed_hosts` name. It has no files, no environment and no sockets. Each run is a fresh instance: nothing is kept
//! from one to the next. What it [logs](log), and each line that it prints up to its end, is kept with the invocation, so
//! print no sensitive data.
//!
//! A panic ends the run as a runtime error that tells the caller nothing; report what the caller should know as an
//! [`Error`]. Its text is kept in the invocation's log, that of `expect` and what `unwrap` shows of an error as well, so
//! neither may hold sensitive data.

/// The example in the project's README, compiled.
#[cfg(doctest)]
#[doc = include_str!("../../README.md")]
struct Readme;

// The one module with code that is generated, and therefore not ours to shape.
#[cfg(target_arch = "wasm32")]
#[doc(hidden)]
pub mod bindings;
#[cfg(target_arch = "wasm32")]
mod bridge;
pub mod clock;
mod decode;
mod error;
mod filter;
pub mod http;
pub mod log;
pub mod number;
pub mod parameters;
mod request;
mod response;
mod svc;
#[cfg(not(target_arch = "wasm32"))]
pub mod testing;
#[cfg(feature = "text")]
pub mod text;
mod token;

pub use error::{Error, ErrorKind, Faults};
pub use filter::{TokenFilter, TokenPage};
pub use parameters::Parameters;
pub use request::{Invocation, Request};
pub use response::Response;
pub use serde_json::{Map, Value, json};
pub use svc::{Problem, Search, Svc, Vault};
pub use tokamak_sdk_macros::{Parameters, formula};
pub use token::{NewToken, Token};

/// What the expansion of [`formula`] refers to. Not for use by hand.
///
/// Wrong types are errors at the author's types:
///
/// ```compile_fail,E0277
/// # use tokamak_sdk::{formula, Error, Response};
/// #[formula]
/// fn react(request: String) -> Result<Response, Error> {
///     Ok(Response::raw(request))
/// }
/// ```
///
/// ```compile_fail,E0277
/// # use tokamak_sdk::{formula, Request, Value};
/// #[formula]
/// fn react(request: Request<Value>) -> Value {
///     request.args
/// }
/// ```
///
/// So is what no reactor could be configured with:
///
/// ```compile_fail,E0080
/// # use tokamak_sdk::{formula, Error, Parameters, Request, Response, Value};
/// #[derive(serde::Deserialize, Parameters)]
/// struct Limits {
///     max: u64,
/// }
///
/// #[derive(serde::Deserialize, Parameters)]
/// struct Configuration {
///     limits: Limits,
/// }
///
/// #[formula]
/// fn react(request: Request<Value, Configuration>) -> Result<Response, Error> {
///     Ok(Response::raw(request.configuration.limits.max))
/// }
/// ```
#[doc(hidden)]
pub mod expansion {
    #[cfg(target_arch = "wasm32")]
    pub use crate::bindings::export;
    #[cfg(target_arch = "wasm32")]
    pub use crate::bindings::exports::tokamak::formula::reactor;
    #[cfg(target_arch = "wasm32")]
    pub use crate::bridge::react;
    pub use crate::parameters::{
        Declared, OfArgs, OfConfiguration, Undeclared, is_declared, is_flat, is_undotted,
    };
    pub use crate::request::Argument;
    pub use crate::response::Answer;

    /// Holds when `A` is what a formula takes.
    pub const fn takes<A: Argument>() {}
    /// Holds when `R` is what a formula returns.
    pub const fn returns<R: Answer>() {}
}
