//! Removing what has ended by itself (interface §2.2 rule 2, §2.3).
//!
//! Reads refuse such things at once; the sweep removes their records within the hour. A later addition with an end
//! is one line in [`Vault::sweep`].

use std::ops::Bound;

use super::applications::KeptApplication;
use super::audit::{Actor, Event};
use super::index::number;
use super::invocations::Invocation;
use super::record::{Entity, from_record};
use super::tokens::Token;
use super::{Error, Vault};
use crate::model::id::TenantId;
use crate::model::log::{EntityType, Operation};
use crate::store::{Filter, Start, StoreError};

/// Records removed in one commit.
const SWEPT_AT_ONCE: usize = 100;

/// How many records a sweep removed.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Swept(pub usize);

impl Vault {
    /// Removes everything that has ended, in every tenant.
    pub async fn sweep(&self) -> Result<Swept, Error> {
        let mut swept = 0;
        for tenant in self.tenants().await? {
            let token = |token: &Token| token.event(Operation::Delete, "Token expired").map(Some);
            swept += self.sweep_kind::<Token>(tenant.id, token).await?;
            let application = |kept: &KeptApplication| {
                let (entity, id) = (EntityType::Application, kept.application.id);
                Ok(Some(Event::done(entity, id, Operation::Delete, "Application expired")))
            };
            let removed = self.sweep_kind::<KeptApplication>(tenant.id, application).await?;
            if removed > 0 {
                self.0.callers.forget_all();
            }
            swept += removed;
            // An invocation is a note about a reactor; that it was kept its time is no event of its own.
            swept += self.sweep_kind::<Invocation>(tenant.id, |_| Ok(None)).await?;
        }
        Ok(Swept(swept))
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
