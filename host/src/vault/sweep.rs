//! Removing what has ended by itself (interface §2.2 rule 2, §2.3).
//!
//! Reads refuse such things at once; the sweep removes their records within the hour. A later addition with an end
//! is one line in [`Vault::sweep`].

use std::ops::Bound;

use super::answers::KeptAnswer;
use super::applications::KeptApplication;
use super::audit::{Actor, Event};
use super::index::number;
use super::invocations::Invocation;
use super::record::{Entity, Stored, from_record};
use super::sessions::Session;
use super::tokens::Token;
use super::{Error, Vault};
use crate::model::id::TenantId;
use crate::model::log::{EntityType, Operation};
use crate::store::{Expect, Filter, Start, StoreError};

/// Records removed in one commit.
const SWEPT_AT_ONCE: usize = 100;

/// How many records a sweep removed, or rewrote without what had ended in them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Swept(pub usize);

impl Vault {
    /// Removes everything that has ended, in every tenant.
    pub async fn sweep(&self) -> Result<Swept, Error> {
        let mut swept = 0;
        for tenant in self.tenants().await? {
            swept += self.sweep_tokens(tenant.id).await?;
            swept += self.sweep_transients(tenant.id).await?;
            let application = |kept: &KeptApplication| {
                let (entity, id) = (EntityType::Application, kept.application.id);
                Ok(Some(Event::done(entity, id, Operation::Delete, "Application expired")))
            };
            let removed = self.sweep_kind::<KeptApplication>(tenant.id, application).await?;
            if removed > 0 {
                self.0.callers.forget_all();
            }
            swept += removed;
            let session =
                |session: &Session| Ok(Some(session.event(Operation::Delete, "Session expired")));
            swept += self.sweep_kind::<Session>(tenant.id, session).await?;
            swept += self.sweep_kind::<KeptAnswer>(tenant.id, |_| Ok(None)).await?;
            // An invocation is a note about a reactor; that it was kept its time is no event of its own.
            swept += self.sweep_kind::<Invocation>(tenant.id, |_| Ok(None)).await?;
        }
        Ok(Swept(swept))
    }

    /// Removes a tenant's tokens that have ended.
    pub(super) async fn sweep_tokens(&self, tenant: TenantId) -> Result<usize, Error> {
        let event = |token: &Token| token.event(Operation::Delete, "Token expired").map(Some);
        self.sweep_kind::<Token>(tenant, event).await
    }

    /// Rewrites tokens without the members that must not stay any longer, such as a card's `cvc`.
    async fn sweep_transients(&self, tenant: TenantId) -> Result<usize, Error> {
        let now_ms = self.now().0;
        let filter = Filter::Range {
            field: number::TRANSIENT_UNTIL,
            from: Bound::Unbounded,
            to: Bound::Included(now_ms),
        };
        let keys = self.keys(tenant).await?;
        let mut swept = 0;
        loop {
            let start = Start::Offset(0);
            let slice =
                self.0.store.page(Token::KIND, tenant, &filter, start, SWEPT_AT_ONCE).await?;
            if slice.records.is_empty() {
                return Ok(swept);
            }
            let mut change = self.change(tenant).await?;
            let mut events = Vec::with_capacity(slice.records.len());
            for record in &slice.records {
                let Stored { entity: mut token, version } = from_record::<Token>(record, &keys)?;
                // What it is found by was evaluated when it was written, and stays.
                token.index_anew(self.0.entropy.as_ref());
                token.erase_due(now_ms);
                change.put(&token, Expect::Version(version))?;
                events.push(token.event(Operation::Update, "Token members erased")?);
            }
            match change.try_commit(Actor::OPERATOR, events).await? {
                Ok(()) => swept += slice.records.len(),
                // Somebody changed or removed one of them meanwhile: look again.
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    async fn sweep_kind<E: Entity>(
        &self,
        tenant: TenantId,
        event: impl Fn(&E) -> Result<Option<Event>, Error>,
    ) -> Result<usize, Error> {
        let filter = Filter::Range {
            field: number::EXPIRES_AT,
            from: Bound::Unbounded,
            to: Bound::Included(self.now().0),
        };
        let keys = self.keys(tenant).await?;
        let mut swept = 0;
        loop {
            let start = Start::Offset(0);
            let slice = self.0.store.page(E::KIND, tenant, &filter, start, SWEPT_AT_ONCE).await?;
            if slice.records.is_empty() {
                return Ok(swept);
            }
            let mut change = self.change(tenant).await?;
            let mut events = Vec::with_capacity(slice.records.len());
            for record in &slice.records {
                let stored = from_record::<E>(record, &keys)?;
                change.remove(&stored);
                events.extend(event(&stored.entity)?);
            }
            match change.try_commit(Actor::OPERATOR, events).await? {
                Ok(()) => swept += slice.records.len(),
                // Somebody changed or removed one of them meanwhile: look again.
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}
