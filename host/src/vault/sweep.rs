//! Removing what has ended by itself (interface §2.2 rule 2, §2.3).
//!
//! Reads refuse such things at once; the sweep removes their records within the hour, also while the disk takes nothing
//! new. A later addition with an end is one line in `sweep_tenant`. While the clock is in doubt ([`super::steady`])
//! nothing is removed by it.

use std::ops::Bound;

use super::answers::KeptAnswer;
use super::audit::{Actor, Event};
use super::index::number;
use super::invocations::Invocation;
use super::jobs::{Delivery, Job};
use super::kept_application::KeptApplication;
use super::last_place::LastPlace;
use super::record::kind::some_at_once;
use super::record::{Entity, Stored, read_record};
use super::retry::unless_lost;
use super::sealed_keys::SYSTEM_TENANT;
use super::sessions::Session;
use super::steady::latest;
use super::tokens::{TRANSIENT_MS_MAX, Token};
use super::{Change, Error, Vault, ended};
use crate::crypto::keys::TenantKeys;
use crate::limits::ASYNCHRONOUS_TIMEOUT_MS_MAX;
use crate::model::id::TenantId;
use crate::model::log::{EntityType, Operation};
use crate::store::{Expect, Field, Filter, Record, Start};

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
        let tenants = self.tenants().await?;
        // With the first one there is something to note.
        let is_begun = !tenants.is_empty();
        for tenant in tenants {
            match self.sweep_tenant(tenant.id).await {
                Ok(removed) => swept += removed,
                // Erased meanwhile.
                Err(Error::TenantGone) => {}
                Err(error) => failed = Some(error),
            }
        }
        match self.sweep_log(SYSTEM_TENANT).await {
            Ok(removed) => swept += removed,
            Err(error) => failed = Some(error),
        }
        if is_begun && let Err(error) = self.note_time().await {
            failed = Some(error);
        }
        self.sweep_compiled().await;
        failed.map_or(Ok(Swept(swept)), Err)
    }

    /// Sweeps everything of a tenant's. What fails keeps nothing after it from its turn; the first failure is told.
    async fn sweep_tenant(&self, tenant: TenantId) -> Result<usize, Error> {
        let swept = [
            self.sweep_tokens(tenant).await,
            self.sweep_transients(tenant).await,
            self.sweep_applications(tenant).await,
            self.sweep_sessions(tenant).await,
            self.sweep_kind::<KeptAnswer>(tenant, Filter::All, |_| Ok(None)).await,
            self.sweep_kind::<Delivery>(tenant, Filter::All, |_| Ok(None)).await,
            self.sweep_kind::<Job>(tenant, Filter::All, |_| Ok(None)).await,
            self.sweep_log(tenant).await,
            // An invocation is a note about a reactor; that it was kept its time is no event of its own.
            self.sweep_kind::<Invocation>(tenant, Filter::All, |_| Ok(None)).await,
            self.sweep_kind::<LastPlace>(tenant, Filter::All, |_| Ok(None)).await,
        ];
        swept.into_iter().sum()
    }

    /// Removes a tenant's tokens that have ended.
    async fn sweep_tokens(&self, tenant: TenantId) -> Result<usize, Error> {
        self.sweep_tokens_among(tenant, Filter::All).await
    }

    /// Removes those of a tenant's tokens that have one of these ids and have ended.
    pub(super) async fn sweep_tokens_of(
        &self,
        tenant: TenantId,
        ids: &[&str],
    ) -> Result<usize, Error> {
        let among = Filter::Ids(ids.iter().map(|id| (*id).to_owned()).collect());
        self.sweep_tokens_among(tenant, among).await
    }

    async fn sweep_tokens_among(&self, tenant: TenantId, among: Filter) -> Result<usize, Error> {
        let remove = |change: &mut Change, stored: Stored<Token>| {
            change.remove_token(&stored)?;
            stored.entity.event(Operation::Delete, "Token expired").map(Some)
        };
        let due = (number::EXPIRES_AT, u64::MAX, ended::<Token>);
        self.sweep_due(tenant, among, due, remove).await
    }

    /// Has a token that has ended make way for others with its contents or its id. While the clock is in doubt it stays, as
    /// all that has ended does, and the others are refused.
    pub(super) async fn make_way(&self, tenant: TenantId, id: &str) -> Result<(), Error> {
        self.sweep_tokens_of(tenant, &[id]).await?;
        if self.clock_is_believed()? {
            return Ok(());
        }
        let itself = Filter::Ids(vec![id.to_owned()]);
        let is_taken = self.any::<Token>(tenant, &itself).await?;
        let shown = Filter::And(vec![itself, self.not_ended()]);
        if is_taken && !self.any::<Token>(tenant, &shown).await? {
            return Err(Error::Conflict(
                "A token of the same contents or id has ended, and is removed once the server's clock, which was set \
                forward, has gone on steadily for a day.",
            ));
        }
        Ok(())
    }

    /// Rewrites tokens without the members that must not stay any longer, such as a card's `cvc`.
    async fn sweep_transients(&self, tenant: TenantId) -> Result<usize, Error> {
        let erase = |change: &mut Change, stored: Stored<Token>| {
            let Stored { entity: mut token, version } = stored;
            token.erase_transients();
            // No expression depends on what is erased: all give what they gave.
            token.index_anew();
            change.put(&token, Expect::Version(version))?;
            token.erasure()
        };
        let due = (number::TRANSIENT_UNTIL, TRANSIENT_MS_MAX, Token::is_due);
        self.sweep_due(tenant, Filter::All, due, erase).await
    }

    async fn sweep_applications(&self, tenant: TenantId) -> Result<usize, Error> {
        let event = |kept: &KeptApplication| {
            let (entity, id) = (EntityType::Application, kept.application.id);
            Ok(Some(Event::done(entity, id, Operation::Delete, "Application expired")))
        };
        let removed = self.sweep_callers::<KeptApplication>(tenant, event).await?;
        if removed > 0 {
            self.0.callers.forget_all();
        }
        Ok(removed)
    }

    async fn sweep_sessions(&self, tenant: TenantId) -> Result<usize, Error> {
        let event =
            |session: &Session| Ok(Some(session.event(Operation::Delete, "Session expired")));
        self.sweep_callers::<Session>(tenant, event).await
    }

    /// As [`Self::sweep_kind`], of what runs are asked for by: it stays for as long as a run may that it asked for, which looks
    /// at what was left to it at its end.
    async fn sweep_callers<E: Entity>(
        &self,
        tenant: TenantId,
        event: impl Fn(&E) -> Result<Option<Event>, Error>,
    ) -> Result<usize, Error> {
        let is_over = |caller: &E, now_ms: u64| {
            ended(caller, now_ms.saturating_sub(2 * ASYNCHRONOUS_TIMEOUT_MS_MAX))
        };
        self.sweep_over(tenant, Filter::All, is_over, event).await
    }

    /// Removes what has ended among these records of a kind.
    async fn sweep_kind<E: Entity>(
        &self,
        tenant: TenantId,
        among: Filter,
        event: impl Fn(&E) -> Result<Option<Event>, Error>,
    ) -> Result<usize, Error> {
        self.sweep_over(tenant, among, ended::<E>, event).await
    }

    /// Removes what is over by its end among these records of a kind.
    async fn sweep_over<E: Entity>(
        &self,
        tenant: TenantId,
        among: Filter,
        is_over: impl Fn(&E, u64) -> bool,
        event: impl Fn(&E) -> Result<Option<Event>, Error>,
    ) -> Result<usize, Error> {
        let remove = |change: &mut Change, stored: Stored<E>| {
            change.remove(&stored);
            event(&stored.entity)
        };
        self.sweep_due(tenant, among, (number::EXPIRES_AT, u64::MAX, is_over), remove).await
    }

    /// Does `sweep` to all of these records whose time in this field has come, or lies further ahead than any such time can,
    /// some at once.
    async fn sweep_due<E: Entity>(
        &self,
        tenant: TenantId,
        among: Filter,
        (field, longest_ms, is_due): (Field, u64, impl Fn(&E, u64) -> bool),
        sweep: impl Fn(&mut Change, Stored<E>) -> Result<Option<Event>, Error>,
    ) -> Result<usize, Error> {
        if !self.clock_is_believed()? {
            return Ok(0);
        }
        // Read once: what is found by one time may not be due by another.
        let now_ms = self.now().0;
        let come = (Bound::Unbounded, Bound::Included(now_ms));
        let beyond = (Bound::Excluded(latest(now_ms, longest_ms)), Bound::Unbounded);
        let due = [come, beyond].map(|(from, to)| Filter::Range { field, from, to });
        let filter = Filter::And(vec![among, Filter::Or(due.into())]);
        let (mut swept, mut start) = (0, Start::Offset(0));
        loop {
            let at = start.clone();
            let some = some_at_once(E::KIND, SWEPT_AT_ONCE);
            let slice = self.0.store.page(E::KIND, tenant, &filter, at, some).await?;
            if !slice.records.is_empty() {
                // After the records: they may be sealed with a key that is new.
                let keys = self.keys(tenant).await?;
                let mut change = self.change(tenant).await?;
                // What is erased by writing a record anew is not to wait for space either.
                change.batch.urgent = true;
                let (mut events, mut count) = (Vec::with_capacity(slice.records.len()), 0);
                for stored in slice.records.iter().filter_map(|record| opened::<E>(record, &keys)) {
                    // Its end may have been put off between being found and being read.
                    if is_due(&stored.entity, now_ms) {
                        events.extend(sweep(&mut change, stored)?);
                        count += 1;
                    }
                }
                let committed = change.try_commit(Actor::SERVER, events).await?;
                // Somebody changed or removed one of them meanwhile: look again.
                let Some(count) = unless_lost(committed, count)? else { continue };
                swept += count;
            }
            // Behind them, and not once more at what had to stay.
            let Some(next) = slice.next else { return Ok(swept) };
            start = Start::After(next);
        }
    }
}

/// Opens a record, or tells the operator of one that does not open and is to be looked at.
fn opened<E: Entity>(record: &Record, keys: &TenantKeys) -> Option<Stored<E>> {
    let stored = read_record::<E>(record, keys, |_| Ok(()));
    if stored.is_err() {
        tracing::error!(kind = record.kind.0, "a record does not open, and is not swept");
    }
    stored.ok()
}
