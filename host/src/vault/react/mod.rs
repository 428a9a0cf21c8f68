//! Running a reactor (interface §4.5, decisions §7).
//!
//! One way from request to answer: read all tokens at once, decide and open each, fill the arguments, bind and cast
//! them (this file), run the formula, tokenize what it says, and commit everything it left behind with its log entries
//! ([`run`]). The number of round trips to the store does not depend on the number of tokens. A run that somebody waits
//! for and one from the queue (`super::jobs`) go the same way.

mod faults;
mod replaced;
mod request;
mod run;
mod unanswered;

use std::time::Instant;

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

pub use request::ReactRequest;
pub(super) use request::{Asynchronous, Checked};
pub(super) use run::{Run, time_to_begin};

use self::faults::{beside_references, of_binding, of_filling, under_args, under_rule};
use super::audit::Event;
use super::authentication::{Authenticated, Caller};
use super::effort::{unless_crowded, until};
use super::given::UsedToken;
use super::kept_application::KeptApplication;
use super::permit::Permit;
use super::run_error::RunError;
use super::tokenize::{fill_arguments, keep_filled};
use super::tokens::Token;
use super::{Error, Share, Vault};
use crate::binding::{bind, configure};
use crate::expression::{Arguments, Unfilled};
use crate::model::faults::{Faults, is_within};
use crate::model::formula::{Formula, Reactor};
use crate::model::id::{InvocationId, ReactorId, TenantId};
use crate::model::log::Operation;
use crate::model::permission::Permission;
use crate::model::permission::marker::TokenUse;
use crate::model::plaintext::{Plaintext, opaque, wipe};
use crate::model::rule::Transform;

/// What a reactor answers.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ReactResponse {
    /// Tokens made of the formula's `tokenize` block, in its shape.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    tokens: Option<Value>,
    /// The formula's `raw` output.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    raw: Option<Value>,
}

opaque!(ReactResponse);

/// What a request for a run comes to.
#[derive(Debug)]
pub enum Reacted {
    /// It ran.
    Answered(ReactResponse),
    /// It was put into the queue.
    Queued(super::jobs::JobView),
}

/// Why a request for a run has no answer.
#[derive(Debug)]
pub struct FailedRun {
    /// What went wrong.
    pub error: Error,
    /// The invocation that is kept of it; none when nothing was to run, or that could not be stored.
    pub invocation: Option<InvocationId>,
}

impl From<Error> for FailedRun {
    fn from(error: Error) -> Self {
        Self { error, invocation: None }
    }
}

/// A run that nothing stands in the way of.
pub(super) struct Ready {
    /// The reactor.
    pub reactor: Reactor,
    /// Its formula.
    pub formula: Formula,
    /// The reactor's application, when it has one.
    pub application: Option<Authenticated>,
    /// The arguments, bound and cast; wiped however little comes of the run.
    pub args: Plaintext,
    /// What they take of the memory.
    pub room: Share,
    /// One entry for each token that was detokenized.
    pub uses: Vec<Event>,
    /// These tokens.
    pub given: Vec<UsedToken>,
}

/// Arguments with what their references stand for.
#[derive(Default)]
struct Detokenized {
    /// They; wiped when they are bound or cannot be.
    args: Option<Value>,
    /// One entry for each token that was opened.
    uses: Vec<Event>,
    /// These tokens.
    given: Vec<UsedToken>,
    /// Whether the caller may read all that it has a formula see.
    sees_all: bool,
}

/// The references in arguments that were taken before.
pub(super) fn references(args: Option<Map<String, Value>>) -> Result<Option<Arguments>, Error> {
    let arguments = args.map(|args| Arguments::parse(&Value::Object(args))).transpose();
    arguments.map_err(under_args)
}

/// The reactor with its configuration as its formula declares it now: it may have been replaced since. What it does not
/// declare any more it does not get, and values are cast anew; what does not fit is refused before anything is opened.
fn reconfigured(mut reactor: Reactor, formula: &Formula) -> Result<Reactor, Error> {
    let declared = &formula.configuration;
    let mut values = reactor.configuration.take();
    values.retain(|name, value| {
        let is_declared = declared.iter().any(|entry| entry.name == *name);
        if !is_declared {
            wipe(value);
        }
        is_declared
    });
    let mut given = Value::Object(values);
    let configured = configure(&given, declared);
    wipe(&mut given);
    let configured = configured.map_err(|faults| Box::new(RunError::misconfigured(faults)))?;
    Ok(Reactor { configuration: configured.into(), ..reactor })
}

impl Vault {
    /// Runs a reactor and waits for its answer, or puts the run into the queue when there is an address to call back.
    pub async fn react(
        &self,
        permit: &Permit<TokenUse>,
        id: ReactorId,
        body: ReactRequest,
    ) -> Result<Reacted, FailedRun> {
        // What it takes to open its tokens is a part of its time.
        let asked = Instant::now();
        let mut faults = Faults::new();
        let checked = body.check(|url| self.check_callback(url), &mut faults);
        let Checked { args, arguments, asynchronous } = checked;
        if !faults.is_empty() {
            let refusal = self.refusal(permit.tenant(), id, arguments, faults);
            return Err(Box::pin(refusal).await.into());
        }
        let ready = self.ready(permit, id, arguments);
        let ready = match asynchronous {
            Some(_) => ready.await?,
            None => until(asked + time_to_begin(self.0.react_timeout_ms), ready).await?,
        };
        if let Some(asynchronous) = asynchronous {
            let job = Box::pin(self.queue_job(permit, ready, args, asynchronous)).await?;
            return Ok(Reacted::Queued(job));
        }
        let run = Run::new(self, permit, ready, (self.0.react_timeout_ms, asked));
        self.run(run).await.map(Reacted::Answered)
    }

    /// What a body with these faults is refused with: them, and all else that is wrong with its arguments as far as that
    /// is known without opening a token.
    async fn refusal(
        &self,
        tenant: TenantId,
        id: ReactorId,
        arguments: Option<Arguments>,
        mut faults: Faults,
    ) -> Error {
        let more = match self.faults_of_arguments(tenant, id, arguments).await {
            Ok(more) => more,
            // What is wrong with the body comes before what is not there.
            Err(Error::NotFound(_)) => return faults.into(),
            Err(error) => return error,
        };
        // Of what could not be read, nothing more is known.
        let read = faults.clone().into_map();
        let is_new = |path: &str| !read.keys().any(|above| is_within(path, above));
        faults.extend_under("", more.only(is_new));
        faults.into()
    }

    /// What is wrong with arguments for a reactor, but for what their tokens would bring.
    async fn faults_of_arguments(
        &self,
        tenant: TenantId,
        id: ReactorId,
        arguments: Option<Arguments>,
    ) -> Result<Faults, Error> {
        let reactor = self.get::<Reactor>(tenant, &id.to_string()).await?.entity;
        let formula = self.formula(tenant, reactor.formula_id).await?;
        let Some(arguments) = arguments else {
            let bound = bind(None, &formula.request_parameters, formula.undeclared_arguments);
            return Ok(bound.err().unwrap_or_default());
        };
        let mut room = self.0.opened.share(tenant);
        let missing = match self.referenced(tenant, &arguments, &mut room).await {
            Err(Error::Invalid(missing)) => missing,
            found => found.map(|_| Faults::new())?,
        };
        Ok(beside_references(missing, &arguments, &formula))
    }

    /// Checks everything that can be checked before a run: reactor, tokens, rules, arguments (interface §4.5 rules 1–9).
    pub(super) async fn ready(
        &self,
        permit: &Permit<TokenUse>,
        id: ReactorId,
        arguments: Option<Arguments>,
    ) -> Result<Ready, Error> {
        let reactor = self.get::<Reactor>(permit.tenant(), &id.to_string()).await?.entity;
        let formula = self.formula(permit.tenant(), reactor.formula_id).await?;
        let reactor = reconfigured(reactor, &formula)?;
        let application = self.reactors_application(&reactor).await?;
        let mut room = self.0.opened.share(permit.tenant());
        let detokenized =
            self.detokenize_arguments(permit, arguments.as_ref(), (&reactor, &formula), &mut room);
        let Detokenized { args, uses, given, sees_all } = detokenized.await?;
        match bind(args, &formula.request_parameters, formula.undeclared_arguments) {
            Ok(args) => {
                let args = Plaintext::new(args);
                Ok(Ready { reactor, formula, application, args, room, uses, given })
            }
            Err(faults) => {
                // The tokens were read, although nothing came of it.
                self.log(permit.tenant(), permit.actor(), uses).await?;
                let Some(arguments) = arguments else { return Err(faults.into()) };
                let faults = of_binding(faults, sees_all, &arguments, &formula);
                Err(under_rule(faults, &given, &arguments).into())
            }
        }
    }

    /// Replaces the references in the arguments; every token needs `token:use` for each of its containers.
    async fn detokenize_arguments(
        &self,
        permit: &Permit<TokenUse>,
        arguments: Option<&Arguments>,
        (reactor, formula): (&Reactor, &Formula),
        room: &mut Share,
    ) -> Result<Detokenized, Error> {
        let Some(arguments) = arguments else { return Ok(Detokenized::default()) };
        let tokens = match self.referenced(permit.tenant(), arguments, room).await {
            Err(Error::Invalid(missing)) => {
                return Err(beside_references(missing, arguments, formula).into());
            }
            tokens => tokens?,
        };
        let message = format!("Token used by reactor {}", reactor.id);
        let mut uses = Vec::with_capacity(tokens.len());
        let mut given = Vec::with_capacity(tokens.len());
        let mut sees_all = true;
        for token in &tokens {
            let transform = self.decide_use(permit, token).await?;
            uses.push(token.event(Operation::Use, &message)?);
            let subject = token.about.subject();
            sees_all &= permit.rights().decide(Permission::TokenRead, subject) >= Some(transform);
            given.push(UsedToken::of(token, transform)?);
        }
        let filled = self.filled(permit.tenant(), arguments, (&tokens, &given)).await;
        // Wiped before anything else is waited for.
        drop(tokens);
        let refused = match filled {
            Ok(Ok(mut filled)) => match keep_filled(room, &filled) {
                Ok(()) => return Ok(Detokenized { args: Some(filled), uses, given, sees_all }),
                Err(no_room) => {
                    wipe(&mut filled);
                    no_room.into()
                }
            },
            Ok(Err(unfilled)) => of_filling(unfilled, sees_all, arguments, formula).into(),
            Err(error) => error,
        };
        // What is refused, or takes too long, for some data only tells of the data too.
        self.log(permit.tenant(), permit.actor(), uses).await?;
        Err(refused)
    }

    /// Arguments with these tokens, each shown so, in the place of their references.
    async fn filled(
        &self,
        tenant: TenantId,
        arguments: &Arguments,
        (tokens, given): (&[Token], &[UsedToken]),
    ) -> Result<Result<Value, Unfilled>, Error> {
        let mut parts = Vec::with_capacity(tokens.len());
        for (token, UsedToken { transform, .. }) in tokens.iter().zip(given) {
            let show = || self.parts(token, *transform, arguments);
            parts.push(unless_crowded(tenant, show).await??);
        }
        fill_arguments(tenant, arguments, &parts, self.0.entropy.as_ref()).await
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
            decided => {
                let entity = (token.token_type()?.log_entity_type(), token.about.id.as_str());
                Err(match decided {
                    None => self.deny(permit, entity).await,
                    Some(_) => self.deny_in_each(permit, entity).await,
                })
            }
        }
    }

    /// The reactor's application as a caller, if it has one that has not ended.
    pub(super) async fn reactors_application(
        &self,
        reactor: &Reactor,
    ) -> Result<Option<Authenticated>, Error> {
        let Some(id) = reactor.application_id else { return Ok(None) };
        let stored = self.get::<KeptApplication>(reactor.tenant_id, &id.to_string()).await;
        let application = match stored {
            Ok(stored) => stored.entity.application,
            Err(Error::NotFound(_)) => return Err(Error::ApplicationEnded),
            Err(error) => return Err(error),
        };
        Ok(Some(Authenticated(std::sync::Arc::new(Caller::new(application)))))
    }
}

#[cfg(test)]
mod tests {
    use super::Ready;
    use crate::model::plaintext::Plaintext;

    /// Nobody may read what was freed; but of what type it was, which wipes itself, is seen by the compiler.
    #[test]
    fn the_arguments_of_a_run_that_never_begins_are_wiped() {
        let never: Option<Ready> = None;
        assert!(never.map(|ready| -> Plaintext { ready.args }).is_none());
    }
}
