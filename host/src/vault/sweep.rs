//! Removing what has ended by itself (interface §2.2 rule 2, §2.3).
//!
//! Reads refuse such things at once; the sweep removes their records within the hour. A later addition with an end
//! is one line in `sweep_tenant`. While the clock is in doubt ([`super::steady`]) nothing is removed by it.

use std::ops::Bound;

use super::answers::KeptAnswer;
use super::audit::{Actor, Event};
use super::index::number;
use super::invocations::Invocation;
use super::jobs::{Delivery, Job};
use super::kept_application::KeptApplication;
use super::record::{Entity, Stored, from_record};
use super::sealed_keys::SYSTEM_TENANT;
use super::sessions::Session;
use super::tokens::Token;
use super::{Change, Error, Vault};
use crate::crypto::keys::TenantKeys;
use crate::model::id::TenantId;
use crate::model::log::{EntityType, Operation};
use crate::store::{Expect, Field, Filter, Record, Start, StoreError};

/// Records removed in one commit.
const SWEPT_AT_ONCE: usize = 100;

/// How many records a sweep removed, or rewrote without what had ended in them.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub struct Swept(pub usize);

impl Vault {
    /// Removes everything that has ended, and what erased tenants left.
    pub async fn sweep(&self) -> Result<Swept, Error> {
        let ended = self.sweep_ended().await;
        // Last: it may wait until a backup is taken, and what has ended is not to.
        let erased = self.sweep_erased().await?;
        ended.map(|Swept(ended)| Swept(ended + erased))
    }

    /// Removes everything that has ended, in every tenant. One that cannot be swept keeps no other from it.
    pub async fn sweep_ended(&self) -> Result<Swept, Error> {
        let (mut swept, mut failed) = (0, None);
        for tenant in self.tenants().await? {
            match self.sweep_tenant(tenant.id).await {
                Ok(removed) => swept += removed,
                // Erased meanwhile.
                Err(Error::Unauthenticated) => {}
                Err(error) => failed = Some(error),
            }
        }
        match self.sweep_log(SYSTEM_TENANT).await {
            Ok(removed) => swept += removed,
            Err(error) => failed = Some(error),
        }
        self.sweep_compiled().await;
        failed.map_or(Ok(Swept(swept)), Err)
    }

    async fn sweep_tenant(&self, tenant: TenantId) -> Result<usize, Error> {
        let mut swept = self.sweep_tokens(tenant).await?;
        swept += self.sweep_transients(tenant).await?;
        let application = |kept: &KeptApplication| {
            let (entity, id) = (EntityType::Application, kept.application.id);
            Ok(Some(Event::done(entity, id, Operation::Delete, "Application expired")))
        };
        let removed = self.sweep_kind::<KeptApplication>(tenant, application).await?;
        if removed > 0 {
            self.0.callers.forget_all();
        }
        let session =
            |session: &Session| Ok(Some(session.event(Operation::Delete, "Session expired")));
        swept += removed + self.sweep_kind::<Session>(tenant, session).await?;
        swept += self.sweep_kind::<KeptAnswer>(tenant, |_| Ok(None)).await?;
        swept += self.sweep_kind::<Delivery>(tenant, |_| Ok(None)).await?;
        swept += self.sweep_kind::<Job>(tenant, |_| Ok(None)).await?;
        swept += self.sweep_log(tenant).await?;
        // An invocation is a note about a reactor; that it was kept its time is no event of its own.
        Ok(swept + self.sweep_kind::<Invocation>(tenant, |_| Ok(None)).await?)
    }

    /// Removes a tenant's tokens that have ended.
    pub(super) async fn sweep_tokens(&self, tenant: TenantId) -> Result<usize, Error> {
        let event = |token: &Token| token.event(Operation::Delete, "Token expired").map(Some);
        self.sweep_kind::<Token>(tenant, event).await
    }

    /// Rewrites tokens without the members that must not stay any longer, such as a card's `cvc`.
    async fn sweep_transients(&self, tenant: TenantId) -> Result<usize, Error> {
        let now_ms = self.now().0;
        let erase = |change: &mut Change, stored: Stored<Token>| {
            let Stored { entity: mut token, version } = stored;
            token.erase_due(now_ms);
            // No expression depends on what is erased: all give what they gave.
            token.index_anew(self.0.entropy.as_ref());
            change.put(&token, Expect::Version(version))?;
            token.event(Operation::Update, "Token members erased").map(Some)
        };
        self.sweep_due(tenant, number::TRANSIENT_UNTIL, erase).await
    }

    async fn sweep_kind<E: Entity>(
        &self,
        tenant: TenantId,
        event: impl Fn(&E) -> Result<Option<Event>, Error>,
    ) -> Result<usize, Error> {
        let remove = |change: &mut Change, stored: Stored<E>| {
            change.remove(&stored);
            event(&stored.entity)
        };
        self.sweep_due(tenant, number::EXPIRES_AT, remove).await
    }

    /// Does `sweep` to all records whose time in this field has come, some at once.
    async fn sweep_due<E: Entity>(
        &self,
        tenant: TenantId,
        field: Field,
        sweep: impl Fn(&mut Change, Stored<E>) -> Result<Option<Event>, Error>,
    ) -> Result<usize, Error> {
        if !self.may_remove_ended()? {
            return Ok(0);
        }
        let (from, to) = (Bound::Unbounded, Bound::Included(self.now().0));
        let filter = Filter::Range { field, from, to };
        let (mut swept, mut skipped) = (0, 0);
        loop {
            let start = Start::Offset(skipped);
            let slice = self.0.store.page(E::KIND, tenant, &filter, start, SWEPT_AT_ONCE).await?;
            if slice.records.is_empty() {
                return Ok(swept);
            }
            // After the records: they may be sealed with a key that is new.
            let keys = self.keys(tenant).await?;
            let mut change = self.change(tenant).await?;
            let mut events = Vec::with_capacity(slice.records.len());
            let mut unopened = 0;
            for record in &slice.records {
                match opened(record, &keys) {
                    Some(stored) => events.extend(sweep(&mut change, stored)?),
                    None => unopened += 1,
                }
            }
            let changed = change.len();
            match change.try_commit(Actor::OPERATOR, events).await? {
                Ok(()) => {
                    swept += changed;
                    skipped += unopened;
                }
                // Somebody changed or removed one of them meanwhile: look again.
                Err(StoreError::Conflict { .. }) => {}
                Err(error) => return Err(error.into()),
            }
        }
    }
}

/// Opens a record, or tells the operator of one that does not open and is to be looked at.
fn opened<E: Entity>(record: &Record, keys: &TenantKeys) -> Option<Stored<E>> {
    let stored = from_record::<E>(record, keys);
    if stored.is_err() {
        tracing::error!(kind = record.kind.0, "a record does not open, and is not swept");
    }
    stored.ok()
}
