//! The tokens that a run was given: who may use them so may have what came of it (decisions §7).
//!
//! A token is looked for where it lies now: moving it is how an operator takes it away from some callers and gives it to others.
//! Of one that is gone, whatever has its id by now, it counts where it lay last.

use std::ops::Bound;

use serde::{Deserialize, Serialize};

use super::audit::Event;
use super::index::number;
use super::last_place::LastPlace;
use super::permit::Permit;
use super::tokens::Token;
use super::{Error, Vault, let_go_of_all_but, opened_so_far};
use crate::model::container::Container;
use crate::model::id::{ReactorId, TenantId};
use crate::model::log::{EntityType, Operation};
use crate::model::permission::marker::TokenUse;
use crate::model::rule::{Subject, Transform};
use crate::model::time::Timestamp;
use crate::store::Filter;

/// A token that a run was given, as far as access rules look at it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsedToken {
    /// What it is called in the log.
    #[serde(default = "any_token")]
    pub entity_type: EntityType,
    /// Its id.
    pub id: String,
    /// When it was made, which tells it from a later one of its id. Earlier versions did not keep that.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub made_at: Option<Timestamp>,
    /// When it had been changed last.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub changed_at: Option<Timestamp>,
    /// Where it lay then.
    pub containers: Vec<Container>,
    /// How the formula saw it.
    #[serde(default = "anyhow")]
    pub transform: Transform,
}

/// What earlier versions did not keep.
fn any_token() -> EntityType {
    EntityType::Token
}

/// The same: whoever may use the token at all may see what came of it.
fn anyhow() -> Transform {
    Transform::Redact
}

impl UsedToken {
    /// A token that a formula sees so.
    pub fn of(token: &Token, transform: Transform) -> Result<Self, Error> {
        Ok(Self {
            entity_type: token.token_type()?.log_entity_type(),
            id: token.about.id.clone(),
            made_at: Some(token.about.audit.created_at),
            changed_at: token.about.audit.modified_at,
            containers: token.about.containers.clone(),
            transform,
        })
    }

    /// The entry for one that was opened to check a run, which did not begin.
    pub fn checked(&self, reactor: ReactorId) -> Event {
        let message = format!("Token used to check a run of reactor {reactor}");
        Event::done(self.entity_type, self.id.as_str(), Operation::Use, message)
    }

    /// Whether a caller may have a formula see it so.
    fn is_for(&self, permit: &Permit<TokenUse>) -> bool {
        let subject = Subject { id: &self.id, containers: &self.containers };
        permit.decide(subject) >= Some(self.transform) && permit.first_uncovered(subject).is_none()
    }

    /// Whether a caller may have a formula see some of it, and not so much.
    fn is_for_less(&self, permit: &Permit<TokenUse>) -> bool {
        let subject = Subject { id: &self.id, containers: &self.containers };
        permit.decide(subject).is_some_and(|transform| transform < self.transform)
            && permit.first_uncovered(subject).is_none()
    }
}

impl Vault {
    /// Refuses what came of a run to a caller that may not have a formula see its tokens as it did. That is logged of the
    /// entity that was asked for, or of the token where none was.
    pub(super) async fn expect_given_to(
        &self,
        permit: &Permit<TokenUse>,
        given: &[UsedToken],
        (entity, operation): (Option<(EntityType, &str)>, Operation),
    ) -> Result<(), Error> {
        for token in given {
            let now = self.where_it_lies(permit.tenant(), token).await?;
            if !now.is_for(permit) {
                let entity = entity.unwrap_or((token.entity_type, &token.id));
                return Err(self.deny_run(permit, &now, (entity, operation)).await);
            }
        }
        Ok(())
    }

    /// The token with its containers of now, or its last ones.
    async fn where_it_lies(&self, tenant: TenantId, token: &UsedToken) -> Result<UsedToken, Error> {
        let mut token = token.clone();
        let Some(made_at) = token.made_at else { return Ok(token) };
        // Most were not changed since, which the index tells: each may be large, and who waits for a result asks often.
        let at = |time: Timestamp| (Bound::Included(time.0), Bound::Included(time.0));
        let changed = |(from, to)| Filter::Range { field: number::MODIFIED_AT, from, to };
        let is_as_it_was = match token.changed_at {
            Some(changed_at) => changed(at(changed_at)),
            None => Filter::Not(Box::new(changed((Bound::Unbounded, Bound::Unbounded)))),
        };
        let (from, to) = at(made_at);
        let itself = vec![Filter::Ids(vec![token.id.clone()]), Filter::Order { from, to }];
        let as_it_was = Filter::And([itself, vec![is_as_it_was]].concat());
        if self.any::<Token>(tenant, &as_it_was).await? {
            return Ok(token);
        }
        // One at a time is read.
        let opened = opened_so_far();
        // One that has ended, and is still there, lies where it lay last.
        let now = self.find_at::<Token>(tenant, &[&token.id], made_at).await?.pop().flatten();
        let now = now.map(|stored| stored.entity.about);
        let_go_of_all_but(opened);
        if let Some(about) = now.filter(|about| about.audit.created_at == made_at) {
            token.containers = about.containers;
            return Ok(token);
        }
        // One that never moved lay where the run was given it.
        let place = LastPlace::id_of(&token.id, made_at);
        if let Some(place) = self.find::<LastPlace>(tenant, &[&place]).await?.pop().flatten() {
            token.containers = place.entity.containers;
        }
        Ok(token)
    }

    async fn deny_run(
        &self,
        permit: &Permit<TokenUse>,
        token: &UsedToken,
        (entity, operation): ((EntityType, &str), Operation),
    ) -> Error {
        if !token.is_for_less(permit) {
            return self.deny_as(permit, entity, operation).await;
        }
        let why = "The rule that decides here lets a formula see less of a token than it saw in that run.";
        self.deny_because(permit, (entity, operation), why.to_owned()).await
    }
}
