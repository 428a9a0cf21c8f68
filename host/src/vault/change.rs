//! Changes: what one operation stores and removes, with its log entries, in one commit.

use std::sync::Arc;

use tracing::Instrument as _;

use super::answers::KeptAnswer;
use super::apart::{is_apart, out_of_row};
use super::audit::{Actor, Event, KeptEntry, LogEntry, Request};
use super::record::{Entity, Stored, to_record, to_record_of};
use super::{Error, Vault, examine};
use crate::crypto::keys::TenantKeys;
use crate::model::id::TenantId;
use crate::model::time::Timestamp;
use crate::store::{Batch, Expect, Put, Removal, StoreError};
use crate::traces;

/// A change being put together: all of it is stored, with its log entries, or none.
pub struct Change {
    pub(super) vault: Vault,
    pub(super) tenant: TenantId,
    pub(super) keys: Arc<TenantKeys>,
    pub(super) batch: Batch,
    /// The answer to the request that makes the change, when a repetition is to get it too.
    pub(super) answer: Option<KeptAnswer>,
}

impl Change {
    /// What time it is.
    pub(super) fn now(&self) -> Timestamp {
        self.vault.now()
    }

    /// Stores an entity that must find what `expect` says.
    pub(super) fn put<E: Entity>(
        &mut self,
        entity: &E,
        expect: Expect,
    ) -> Result<&mut Self, Error> {
        let entropy = self.vault.0.entropy.as_ref();
        let record = to_record(entity, self.tenant, &self.keys, entropy)?;
        self.batch.puts.push(Put { record, expect });
        Ok(self)
    }

    /// Stores an entry at the end of the tenant's log.
    pub(super) fn put_entry(&mut self, entry: &KeptEntry) -> Result<(), Error> {
        let (entropy, text) = (self.vault.0.entropy.as_ref(), entry.to_text()?);
        let expect = Expect::Chained(examine::text_digest(&text));
        let record = to_record_of(entry, &text, self.tenant, &self.keys, entropy)?;
        self.batch.puts.push(Put { record, expect });
        Ok(())
    }

    /// Stores entries for these events.
    pub(super) fn enter(&mut self, actor: Actor, events: Vec<Event>) -> Result<(), Error> {
        let created_at = self.vault.now();
        let under_way = traces::current_id();
        // In one go, so that the store may keep them in one row (`Expect::Chained`).
        let ids = self.vault.draw_ids(events.len());
        for (id, event) in ids.into_iter().zip(events) {
            let Event { entity_type, entity_id, operation, message, actor: other, request } = event;
            let actor = other.unwrap_or(actor);
            let entry = LogEntry {
                tenant_id: self.tenant,
                actor_id: actor.id,
                actor_type: actor.kind,
                entity_type,
                entity_id,
                operation,
                message,
                created_at,
                trace_id: match request {
                    Request::UnderWay => under_way.as_deref().map(str::to_owned),
                    Request::Earlier(trace_id) => Some(trace_id),
                    Request::None => None,
                },
            };
            self.put_entry(&KeptEntry { id, entry })?;
        }
        Ok(())
    }

    /// Removes an entity, if it is still at the version it was read at.
    pub(super) fn remove<E: Entity>(&mut self, stored: &Stored<E>) -> &mut Self {
        self.batch.removals.push(Removal {
            kind: E::KIND,
            tenant: self.tenant,
            id: stored.entity.id(),
            expect: Expect::Version(stored.version),
        });
        self
    }

    /// Commits all of it with its log entries.
    pub(super) async fn commit(self, actor: Actor, events: Vec<Event>) -> Result<(), Error> {
        Ok(self.try_commit(actor, events).await??)
    }

    /// As [`Self::commit`], with the store's own refusal apart from other failures, for callers that try again.
    pub(super) async fn try_commit(
        mut self,
        actor: Actor,
        events: Vec<Event>,
    ) -> Result<Result<(), StoreError>, Error> {
        // Reading and removing go on when there is no space for anything new.
        self.batch.urgent |= self.batch.puts.is_empty();
        if let Some(answer) = self.answer.take() {
            // One that has ended may still be there.
            self.put(&answer.about(&events), Expect::Any)?;
        }
        self.enter(actor, events)?;
        if is_apart() {
            // It may have waited for its turn.
            Box::pin(self.vault.expect_asker_unchanged()).await?;
        }
        let committed = async {
            let (keyring, entropy) = (&self.vault.0.keyring, self.vault.0.entropy.as_ref());
            let _open = keyring.admit(&mut self.batch, entropy).await?;
            let stage = traces::stage(|| tracing::info_span!("store.commit"));
            Ok(self.vault.0.store.commit(self.batch).instrument(stage).await)
        };
        out_of_row(committed).await
    }
}
