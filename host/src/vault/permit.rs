//! Permits: evidence that a caller may do something.
//!
//! Every operation of the vault that a permission is for asks for one, and [`Vault::permit`] alone makes them (with
//! [`Vault::permit_attempt`], which it is), so that forgetting a check does not compile:
//!
//! ```
//! # use tokamak::vault::{Permit, Vault};
//! # use tokamak::model::permission::marker::TokenRead;
//! async fn a_permit_for_reading_reads(vault: &Vault, permit: &Permit<TokenRead>) {
//!     let _ = vault.find_token(permit, "some-token").await;
//! }
//! ```
//!
//! ```compile_fail,E0308
//! # use tokamak::vault::{Permit, Vault};
//! # use tokamak::model::permission::marker::TokenCreate;
//! async fn a_permit_for_creating_does_not_read(vault: &Vault, permit: &Permit<TokenCreate>) {
//!     let _ = vault.find_token(permit, "some-token").await; // expects a `Permit<TokenRead>`
//! }
//! ```

use std::marker::PhantomData;
use std::sync::Arc;

use serde::Serialize;
use uuid::Uuid;

use super::answers::Claim;
use super::audit::{Actor, Event};
use super::authentication::{Authenticated, Caller};
use super::given::UsedToken;
use super::{Change, Error, Vault};
use crate::model::container::Container;
use crate::model::id::{TenantId, TokenId};
use crate::model::log::{ActorType, EntityType, Operation};
use crate::model::permission::Grant;
use crate::model::rule::{Rights, Subject, Transform};

/// Evidence that a caller holds the permission `P`.
pub struct Permit<P> {
    caller: Arc<Caller>,
    /// Where the answer is kept, when the request has an idempotency key.
    claim: Option<Arc<Claim>>,
    permission: PhantomData<P>,
}

impl<P: Grant> Permit<P> {
    /// The tenant the operation happens in.
    pub fn tenant(&self) -> TenantId {
        self.caller.tenant()
    }

    /// The same, for a request whose answer is to be kept.
    #[must_use]
    pub fn with_claim(self, claim: Option<Arc<Claim>>) -> Self {
        Self { claim, ..self }
    }

    /// Who acts.
    pub(super) fn actor(&self) -> Actor {
        self.caller.actor()
    }

    /// The acting application's id, for audit fields.
    pub(super) fn actor_id(&self) -> Uuid {
        self.caller.application.id.0
    }

    /// The caller as itself.
    pub(super) fn authenticated(&self) -> Authenticated {
        Authenticated(Arc::clone(&self.caller))
    }

    /// How the caller sees a token; `None` when no rule matches.
    pub(super) fn decide(&self, token: Subject<'_>) -> Option<Transform> {
        self.caller.rights.decide(P::PERMISSION, token)
    }

    /// The first of the token's containers that no rule covers.
    pub(super) fn first_uncovered<'c>(&self, token: Subject<'c>) -> Option<&'c Container> {
        self.caller.rights.first_uncovered(P::PERMISSION, token)
    }

    /// What the caller may do.
    pub(super) fn rights(&self) -> &Rights {
        &self.caller.rights
    }
}

impl<P> Permit<P> {
    /// Where the answer is kept, when the request has an idempotency key.
    pub(super) fn claim(&self) -> Option<&Claim> {
        self.claim.as_deref()
    }

    /// Has the answer to this request kept with what a change does, if the request has an idempotency key.
    pub(super) fn keep_answer(
        &self,
        change: &mut Change,
        body: &impl Serialize,
    ) -> Result<(), Error> {
        self.keep_answer_of(change, body, &[])
    }

    /// The same, of an answer that tells of what a formula made of these tokens.
    pub(super) fn keep_answer_of(
        &self,
        change: &mut Change,
        body: &impl Serialize,
        given: &[UsedToken],
    ) -> Result<(), Error> {
        self.claim().map_or(Ok(()), |claim| claim.keep_in(change, body, given))
    }
}

impl Vault {
    /// Gives the caller a permit, or logs the attempt and refuses.
    ///
    /// `entity_id` is what the request names, for the log.
    pub async fn permit<P: Grant>(
        &self,
        who: &Authenticated,
        entity_id: Option<&str>,
    ) -> Result<Permit<P>, Error> {
        self.permit_attempt(who, P::PERMISSION.attempt(), entity_id).await
    }

    /// As [`Self::permit`], for what the permission does not tell: on which type of entity the caller attempts what.
    pub async fn permit_attempt<P: Grant>(
        &self,
        who: &Authenticated,
        (entity_type, operation): (EntityType, Operation),
        entity_id: Option<&str>,
    ) -> Result<Permit<P>, Error> {
        if who.0.rights.hold(P::PERMISSION) {
            return Ok(Permit { caller: Arc::clone(&who.0), claim: None, permission: PhantomData });
        }
        // Every id has the form of a token's. A text that has not is nobody's, of any length, and may be what a formula was
        // given: that is not for the log.
        let id = entity_id.filter(|id| id.parse::<TokenId>().is_ok()).unwrap_or_default();
        let (entity_type, id) = match entity_type {
            EntityType::Token if id.is_empty() => (entity_type, String::new()),
            EntityType::Token => (self.log_type_of(who.0.tenant(), id).await?, id.to_owned()),
            // An id that is drawn has one spelling in the log, however it was asked for.
            named => (named, uuid::Uuid::try_parse(id).map_or(id.to_owned(), |id| id.to_string())),
        };
        let entity = (entity_type, id.as_str());
        let event = Event { operation, ..Event::denied(P::PERMISSION, Some(entity)) };
        self.log_denied(who.0.tenant(), who.0.actor(), event).await?;
        let permission = P::PERMISSION;
        let detail = match who.0.actor.kind {
            Some(ActorType::Session) if who.0.rights.is_empty() => format!(
                "The session was not granted {permission}: a private application grants it what it holds itself, by \
                 POST /sessions/authorize."
            ),
            Some(ActorType::Session) if who.0.rights.hold_by_themselves(permission) => format!(
                "Whoever granted the session its rights does not hold {permission} any more."
            ),
            Some(ActorType::Session) => format!("The session was not granted {permission}."),
            _ => format!("The application does not hold {permission}."),
        };
        Err(Error::Forbidden { permission, detail })
    }

    /// Logs that no rule of the caller matches, and gives the refusal.
    pub(super) async fn deny<P: Grant>(
        &self,
        permit: &Permit<P>,
        entity: (EntityType, &str),
    ) -> Error {
        let (_, operation) = P::PERMISSION.attempt();
        self.deny_as(permit, entity, operation).await
    }

    /// As [`Self::deny`], of an operation that the permission does not tell.
    pub(super) async fn deny_as<P: Grant>(
        &self,
        permit: &Permit<P>,
        entity: (EntityType, &str),
        operation: Operation,
    ) -> Error {
        // A token's id is one that the caller named, as one of many perhaps.
        let place = match entity {
            (EntityType::Token | EntityType::Card | EntityType::Bank, id) if !id.is_empty() => {
                format!("for the token {id}")
            }
            _ => "here".to_owned(),
        };
        self.deny_at(permit, (entity, operation), &place).await
    }

    /// As [`Self::deny`], of what the caller wants to lie in this container.
    pub(super) async fn deny_in<P: Grant>(
        &self,
        permit: &Permit<P>,
        entity: (EntityType, &str),
        container: &Container,
    ) -> Error {
        let (_, operation) = P::PERMISSION.attempt();
        self.deny_at(permit, (entity, operation), &format!("in the container {container}")).await
    }

    /// As [`Self::deny`], of a token in several containers, of which some are granted.
    pub(super) async fn deny_in_each<P: Grant>(
        &self,
        permit: &Permit<P>,
        entity: (EntityType, &str),
    ) -> Error {
        let (_, operation) = P::PERMISSION.attempt();
        let place = format!("for each container of the token {}", entity.1);
        self.deny_at(permit, (entity, operation), &place).await
    }

    async fn deny_at<P: Grant>(
        &self,
        permit: &Permit<P>,
        attempt: ((EntityType, &str), Operation),
        place: &str,
    ) -> Error {
        let whose = match permit.caller.actor.kind {
            Some(ActorType::Session) => "the session, or of whoever granted it its rights,",
            _ => "the application",
        };
        let why = format!("No rule of {whose} grants {} {place}.", P::PERMISSION);
        self.deny_because(permit, attempt, why).await
    }

    /// The same, for a reason of its own.
    pub(super) async fn deny_because<P: Grant>(
        &self,
        permit: &Permit<P>,
        (entity, operation): ((EntityType, &str), Operation),
        detail: String,
    ) -> Error {
        let event = Event { operation, ..Event::denied(P::PERMISSION, Some(entity)) };
        match self.log_denied(permit.tenant(), permit.actor(), event).await {
            Ok(()) => Error::Forbidden { permission: P::PERMISSION, detail },
            Err(error) => error,
        }
    }
}
