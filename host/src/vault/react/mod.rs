//! Running a reactor (interface §4.5, decisions §7).
//!
//! One way from request to answer: read all tokens at once, decide and open each, fill the arguments, bind and cast
//! them, run the formula, tokenize what it says, and commit everything it left behind with its log entries. The number
//! of round trips to the store does not depend on the number of tokens.

mod error;
mod request;

use std::time::Duration;

use serde::Serialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

pub use error::RunError;
pub use request::ReactRequest;

use super::applications::KeptApplication;
use super::audit::Event;
use super::authentication::{Authenticated, Caller};
use super::invocations::{Invocation, InvocationStatus, LineView};
use super::permit::Permit;
use super::svc::Svc;
use super::tokenize::fill_arguments;
use super::tokens::Token;
use super::{Change, Error, Vault};
use crate::binding::bind;
use crate::expression::Arguments;
use crate::model::faults::Faults;
use crate::model::formula::{Formula, Reactor};
use crate::model::id::{InvocationId, ReactorId};
use crate::model::log::{EntityType, Operation};
use crate::model::permission::marker::{TokenCreate, TokenUse};
use crate::model::plaintext::wipe;
use crate::model::rule::Transform;
use crate::model::time::Timestamp;
use crate::runtime::{Budget, Call, GuestInvocation, GuestResponse, GuestVault, Outcome};
use crate::store::Expect;

/// What a reactor answers.
#[derive(Debug, Clone, PartialEq, Serialize, ToSchema)]
pub struct ReactResponse {
    /// Tokens made of the formula's `tokenize` block, in its shape.
    #[serde(skip_serializing_if = "Option::is_none")]
    tokens: Option<Value>,
    /// The formula's `raw` output.
    #[serde(skip_serializing_if = "Option::is_none")]
    raw: Option<Value>,
}

/// A run that is under way or over.
struct Run<'p> {
    permit: &'p Permit<TokenUse>,
    reactor: Reactor,
    id: InvocationId,
    began: Timestamp,
    /// The reactor's application, when it has one.
    application: Option<Authenticated>,
    /// One entry for each token that was detokenized.
    uses: Vec<Event>,
}

impl Vault {
    /// Runs a reactor and waits for its answer.
    pub async fn react(
        &self,
        permit: &Permit<TokenUse>,
        id: ReactorId,
        body: ReactRequest,
    ) -> Result<ReactResponse, Error> {
        let args = body.check()?;
        let reactor = self.get::<Reactor>(permit.tenant(), &id.to_string()).await?.entity;
        let formula = self.formula(permit.tenant(), reactor.formula_id).await?;
        let application = self.reactors_application(&reactor).await?;
        let (args, uses) = self.detokenize_arguments(permit, args).await?;
        let mut run = Run {
            permit,
            application,
            reactor,
            id: InvocationId(self.draw_id()),
            began: self.now(),
            uses,
        };
        let bound = bind(args, &formula.request_parameters, formula.undeclared_arguments);
        let bound = match bound {
            Ok(bound) => bound,
            Err(faults) => {
                // The tokens were read, although nothing came of it.
                let events = std::mem::take(&mut run.uses);
                self.log(permit.tenant(), permit.actor(), events).await?;
                return Err(faults.into());
            }
        };
        let outcome = self.run(&run, &formula, bound).await?;
        self.settle(run, outcome).await
    }

    /// Replaces the references in the arguments; every token needs `token:use` for each of its containers.
    async fn detokenize_arguments(
        &self,
        permit: &Permit<TokenUse>,
        args: Option<Map<String, Value>>,
    ) -> Result<(Option<Value>, Vec<Event>), Error> {
        let Some(args) = args else { return Ok((None, Vec::new())) };
        let under_args = |faults: Faults| {
            let mut under = Faults::new();
            under.extend_under("args", faults);
            Error::Invalid(under)
        };
        let arguments = Arguments::parse(&Value::Object(args)).map_err(under_args)?;
        let tokens = match self.referenced(permit.tenant(), &arguments).await {
            Err(Error::Invalid(faults)) => return Err(under_args(faults)),
            tokens => tokens?,
        };
        let mut parts = Vec::with_capacity(tokens.len());
        let mut uses = Vec::with_capacity(tokens.len());
        for token in &tokens {
            let transform = self.decide_use(permit, token).await?;
            parts.push(self.parts(token, transform)?);
            uses.push(token.event(Operation::Use, "Token used by a reactor")?);
        }
        let filled = fill_arguments(&arguments, &parts, self.0.entropy.as_ref());
        for parts in &mut parts {
            wipe(&mut parts.data);
            wipe(&mut parts.whole);
        }
        match filled {
            Ok(filled) => Ok((Some(filled), uses)),
            Err(faults) => {
                // What a filter finds wrong tells of the data too.
                self.log(permit.tenant(), permit.actor(), uses).await?;
                Err(under_args(faults))
            }
        }
    }

    /// How a reactor sees a token: as the caller's rule for `token:use` shapes it.
    async fn decide_use(
        &self,
        permit: &Permit<TokenUse>,
        token: &Token,
    ) -> Result<Transform, Error> {
        let subject = token.about.subject();
        match permit.decide(subject) {
            Some(transform) if permit.first_uncovered(subject).is_none() => Ok(transform),
            _ => {
                let entity = (token.token_type()?.log_entity_type(), token.about.id.as_str());
                Err(self.deny(permit, entity).await)
            }
        }
    }

    /// The reactor's application as a caller, if it has one that has not ended.
    async fn reactors_application(
        &self,
        reactor: &Reactor,
    ) -> Result<Option<Authenticated>, Error> {
        let Some(id) = reactor.application_id else { return Ok(None) };
        let stored = self.get::<KeptApplication>(reactor.tenant_id, &id.to_string()).await;
        let application = match stored {
            Ok(stored) => stored.entity.application,
            Err(Error::NotFound(_)) => {
                return Err(Error::Conflict("The reactor's application has ended."));
            }
            Err(error) => return Err(error),
        };
        Ok(Some(Authenticated(std::sync::Arc::new(Caller::new(application)))))
    }

    async fn run(&self, run: &Run<'_>, formula: &Formula, args: Value) -> Result<Outcome, Error> {
        let component = || self.component(run.permit.tenant(), formula.id);
        let timeout_ms = self.0.react_timeout_ms;
        let program = self.program(&formula.component_digest, component);
        let program = tokio::time::timeout(Duration::from_millis(timeout_ms), program).await;
        let Ok(program) = program else { return Ok(Outcome::late(timeout_ms)) };
        let program = program?;
        let svc = |who: &Authenticated| -> std::sync::Arc<dyn GuestVault> {
            std::sync::Arc::new(Svc::new(self.clone(), who.clone()))
        };
        let mut args = args;
        let text = serde_json::to_string(&args).map_err(Error::internal)?;
        wipe(&mut args);
        let configuration = serde_json::to_string(&run.reactor.configuration);
        let call = Call {
            args: text,
            configuration: configuration.map_err(Error::internal)?,
            vault: run.application.as_ref().map(svc),
            http: Some(self.formula_http(formula)),
            invocation: GuestInvocation {
                id: run.id.to_string(),
                reactor_id: run.reactor.id.to_string(),
                attempt: 1,
                deadline_ms: run.began.0 + timeout_ms,
            },
            budget: Budget {
                memory_bytes: u64::from(formula.limits.memory_mb) << 20,
                timeout: Duration::from_millis(timeout_ms),
                fuel: timeout_ms.saturating_mul(self.0.fuel_per_ms),
            },
        };
        Ok(self.0.runtime.invoke(&program, call).await)
    }

    /// Stores what the run left behind, in one commit, and answers.
    async fn settle(&self, run: Run<'_>, outcome: Outcome) -> Result<ReactResponse, Error> {
        let Outcome { result, usage, log, log_truncated } = outcome;
        let result = result.map_err(|failure| RunError::from_failure(failure, run.id));
        let mut invocation = Invocation {
            id: run.id,
            reactor_id: run.reactor.id,
            status: InvocationStatus::Completed,
            error: None,
            elapsed_us: u64::try_from(usage.elapsed.as_micros()).unwrap_or(u64::MAX),
            fuel: usage.fuel,
            memory_peak_bytes: usage.memory_peak_bytes,
            log: log.into_iter().map(LineView::from).collect(),
            log_truncated,
            created_at: run.began,
        };
        let error = match result {
            Ok(response) => match self.answer(&run, response, &invocation).await {
                Err(Answer::Failed(error)) => error,
                Err(Answer::Uncommitted(error)) => return Err(error),
                Ok(answer) => return Ok(answer),
            },
            Err(error) => Error::Run(Box::new(error)),
        };
        invocation.status = InvocationStatus::Failed;
        invocation.error = Some(title(&error).to_owned());
        let mut change = self.change(run.permit.tenant()).await?;
        let events = run.left_behind(&mut change, &invocation)?;
        change.commit(run.permit.actor(), events).await?;
        Err(error)
    }

    /// Tokenizes what the formula wants tokenized and commits the run as completed.
    async fn answer(
        &self,
        run: &Run<'_>,
        response: GuestResponse,
        invocation: &Invocation,
    ) -> Result<ReactResponse, Answer> {
        let GuestResponse { raw, tokenize } = response;
        let caller = run.permit.actor();
        let Some(value) = tokenize else {
            let change = self.change(run.permit.tenant()).await;
            let mut change = change.map_err(Answer::Uncommitted)?;
            let events = run.left_behind(&mut change, invocation).map_err(Answer::Uncommitted)?;
            change.commit(caller, events).await.map_err(Answer::Uncommitted)?;
            return Ok(ReactResponse { tokens: None, raw });
        };
        let caller_itself = || run.permit.authenticated();
        let maker = run.application.clone().unwrap_or_else(caller_itself);
        let permit = self.permit::<TokenCreate>(&maker, None).await.map_err(Answer::Failed)?;
        let prepared = self.prepare_tokens(&permit, value).await.map_err(Answer::tokenize)?;
        let more = |change: &mut Change| run.left_behind(change, invocation);
        let made = self.tokenize_with(&permit, prepared, caller, more).await;
        Ok(ReactResponse { tokens: Some(made.map_err(Answer::tokenize)?), raw })
    }
}

/// Why a run that answered has no answer.
enum Answer {
    /// Nothing is stored yet: the run is to be stored as failed.
    Failed(Error),
    /// The store failed: there is nothing more to be stored.
    Uncommitted(Error),
}

impl Answer {
    fn tokenize(error: Error) -> Self {
        match error {
            Error::Invalid(inner) => {
                let mut faults = Faults::new();
                faults.extend_under("tokenize", inner);
                Self::Failed(Error::Invalid(faults))
            }
            error @ (Error::Unavailable | Error::Internal) => Self::Uncommitted(error),
            error => Self::Failed(error),
        }
    }
}

impl Run<'_> {
    /// Adds the invocation to a change, and gives the log entries of the run.
    fn left_behind(
        &self,
        change: &mut Change,
        invocation: &Invocation,
    ) -> Result<Vec<Event>, Error> {
        change.put(invocation, Expect::New)?;
        let message = match &invocation.error {
            None => "Reactor invoked".to_owned(),
            Some(title) => format!("Reactor invoked: {title}"),
        };
        let id = self.reactor.id;
        let mut events = self.uses.clone();
        events.push(Event::done(EntityType::Reactor, id, Operation::Invoke, message));
        Ok(events)
    }
}

/// The title of the problem that an error is answered with.
fn title(error: &Error) -> &'static str {
    match error {
        Error::Run(run) => run.title(),
        Error::Invalid(_) => "Bad Request",
        Error::Forbidden { .. } => "Forbidden",
        Error::Conflict(_) => "Conflict",
        _ => "Reactor Runtime Error",
    }
}
