//! Calls a formula natively: no WebAssembly, no server, a fake vault, a fake network.
//!
//! A [`Call`] takes the way a real one takes: arguments and configuration pass through JSON into the
//! formula's types, the answer through JSON back. The counterpart of `bridge`, which does not exist here.
//!
//! ```
//! use tokamak_sdk::testing::{Call, FakeVault};
//! use tokamak_sdk::{Error, NewToken, Request, Response, Value, json};
//!
//! fn react(request: Request<Value>) -> Result<Response, Error> {
//!     let token = request.svc()?.create(&NewToken::new("token", request.args.clone()))?;
//!     Ok(Response::raw(json!({ "kept_as": token.id })))
//! }
//!
//! let vault = FakeVault::new();
//! let outcome = Call::new(json!("a secret")).vault(&vault).run(react);
//! let id = outcome.raw()["kept_as"].as_str().unwrap().to_owned();
//! assert_eq!(vault.data(&id), Some(json!("a secret")));
//! ```

mod http;
mod list;
mod vault;

use std::cell::RefCell;

use serde::Serialize;
use serde_json::{Value, json};

pub use http::FakeHttp;
pub use vault::FakeVault;

use crate::http::{Error as HttpError, Response, Sent};
use crate::log::Level;
use crate::request::{Argument, Inbound};
use crate::response::{Answer, Outbound};
use crate::{Error, Invocation, Svc, Vault};

/// When a call happens unless [`Call::at_ms`] says otherwise: 2030-01-01, noon, UTC.
pub const NOW_MS: u64 = 1_893_499_200_000;

/// What stands in for the host while a formula runs on this thread.
struct Host {
    now_ms: u64,
    lines: Vec<(Level, String)>,
    http: Option<FakeHttp>,
}

impl Host {
    /// The host between calls.
    const IDLE: Self = Self { now_ms: NOW_MS, lines: Vec::new(), http: None };
}

thread_local! {
    static HOST: RefCell<Host> = const { RefCell::new(Host::IDLE) };
}

pub(crate) fn now_ms() -> u64 {
    HOST.with_borrow(|host| host.now_ms)
}

pub(crate) fn write_line(level: Level, message: String) {
    HOST.with_borrow_mut(|host| host.lines.push((level, message)));
}

pub(crate) fn send(sent: Sent) -> Result<Response, HttpError> {
    // The fake may run a closure of the test, which must find the host free.
    let network = HOST.with_borrow(|host| host.http.clone()).unwrap_or_default();
    network.send(sent)
}

/// What a type of arguments or of configuration [declares](crate::parameters), as `tokamak formula push` sends it.
///
/// ```
/// use tokamak_sdk::{Parameters, json, testing};
///
/// #[derive(Parameters)]
/// struct Args {
///     /// Who is greeted.
///     name: Option<String>,
/// }
///
/// let declared =
///     json!([{ "name": "name", "description": "Who is greeted.", "type": "string", "optional": true }]);
/// assert_eq!(testing::parameters::<Args>(), declared);
/// # let _ = |args: Args| args.name;
/// ```
pub fn parameters<T: crate::Parameters>() -> Value {
    crate::parameters::list(T::SHAPE)
}

/// A call of a formula, being put together.
pub struct Call {
    args: String,
    configuration: String,
    svc: Option<Svc>,
    http: Option<FakeHttp>,
    invocation: Invocation,
    now_ms: u64,
}

impl Call {
    /// A call with these arguments, an empty configuration, no vault and no network.
    pub fn new(args: impl Serialize) -> Self {
        Self {
            args: text(args),
            configuration: text(json!({})),
            svc: None,
            http: None,
            invocation: Invocation {
                id: "01900000-0000-7000-8000-000000000001".to_owned(),
                reactor_id: "01900000-0000-7000-8000-000000000002".to_owned(),
                attempt: 1,
                deadline_ms: NOW_MS + 10_000,
            },
            now_ms: NOW_MS,
        }
    }

    /// Sets the reactor's configuration.
    #[must_use]
    pub fn configuration(self, configuration: impl Serialize) -> Self {
        Self { configuration: text(configuration), ..self }
    }

    /// Gives the reactor an application, whose calls the fake answers.
    #[must_use]
    pub fn vault(self, vault: &FakeVault) -> Self {
        self.vault_of_own(vault.clone())
    }

    /// Gives the reactor an application, whose calls a fake of the test's own answers.
    #[must_use]
    pub fn vault_of_own(self, vault: impl Vault + 'static) -> Self {
        Self { svc: Some(Svc::over(vault)), ..self }
    }

    /// Lets the formula send requests, which the fake answers.
    #[must_use]
    pub fn http(self, network: &FakeHttp) -> Self {
        Self { http: Some(network.clone()), ..self }
    }

    /// Sets the clock, in milliseconds since the Unix epoch; the deadline is 10 s later.
    #[must_use]
    pub fn at_ms(mut self, now_ms: u64) -> Self {
        self.now_ms = now_ms;
        self.invocation.deadline_ms = now_ms + 10_000;
        self
    }

    /// Makes it another than the first try.
    #[must_use]
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.invocation.attempt = attempt;
        self
    }

    /// Calls the formula.
    pub fn run<A: Argument, R: Answer>(self, formula: impl FnOnce(A) -> R) -> Outcome {
        HOST.set(Host { now_ms: self.now_ms, lines: Vec::new(), http: self.http });
        let inbound = Inbound {
            args: &self.args,
            configuration: &self.configuration,
            svc: self.svc,
            invocation: self.invocation,
        };
        let result = A::read(inbound).and_then(|argument| formula(argument).into_outbound());
        let host = HOST.replace(Host::IDLE);
        Outcome { result, lines: host.lines }
    }
}

/// What came of a call.
pub struct Outcome {
    result: Result<Outbound, Error>,
    lines: Vec<(Level, String)>,
}

impl Outcome {
    /// What is returned to the caller as it is; null when nothing is.
    ///
    /// # Panics
    /// When the formula failed.
    pub fn raw(&self) -> Value {
        self.part(|outbound| outbound.raw.as_ref())
    }

    /// What is to be tokenized; null when nothing is.
    ///
    /// # Panics
    /// When the formula failed.
    pub fn tokenize(&self) -> Value {
        self.part(|outbound| outbound.tokenize.as_ref())
    }

    /// Whether the formula did not fail.
    pub fn is_ok(&self) -> bool {
        self.result.is_ok()
    }

    /// The error that the formula returned.
    ///
    /// # Panics
    /// When the formula did not fail.
    #[expect(clippy::panic, reason = "a test that calls this has failed")]
    pub fn error(&self) -> &Error {
        match &self.result {
            Ok(_) => panic!("the formula did not fail"),
            Err(error) => error,
        }
    }

    /// The body of a [custom](Error::custom) answer.
    ///
    /// # Panics
    /// When the formula gave none.
    #[expect(clippy::panic, reason = "a test that calls this has failed")]
    pub fn custom(&self) -> (u16, &[(String, String)], Value) {
        match self.error().report() {
            crate::error::Report::Custom(custom) => {
                (custom.status, &custom.headers, parse(&custom.body))
            }
            crate::error::Report::Fault { .. } => panic!("the formula gave no custom answer"),
        }
    }

    /// The lines logged, without their levels.
    pub fn lines(&self) -> Vec<&str> {
        self.lines.iter().map(|(_, line)| line.as_str()).collect()
    }

    /// The lines logged.
    pub fn log(&self) -> &[(Level, String)] {
        &self.lines
    }

    #[expect(clippy::panic, reason = "a test that calls this has failed")]
    fn part(&self, part: impl FnOnce(&Outbound) -> Option<&String>) -> Value {
        match &self.result {
            Ok(outbound) => part(outbound).map_or(Value::Null, |text| parse(text)),
            Err(error) => panic!("the formula failed: {error:?}"),
        }
    }
}

#[expect(clippy::expect_used, reason = "a test that gives what is not JSON has failed")]
fn text(value: impl Serialize) -> String {
    serde_json::to_string(&value).expect("the value must be writable as JSON")
}

#[expect(clippy::expect_used, reason = "the text was written by serde_json")]
fn parse(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}
