//! Sealing anew, in the background, what an older key of its tenant sealed.
//!
//! Records are walked by kind and, within it, from the newest to the oldest, some at once. How far the walk is stands
//! in the store, written with the records it tells of. New records and changed ones have the new key in any case (the
//! gate of [`super::super::keyring`] sees to that), so that one walk finds all. At its end the older key is removed, and
//! [`super::old_keys`] has it leave the files.

use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::Progress;
use crate::crypto::wiped::Wiped;
use crate::limits::RETIRED_KEY_MS;
use crate::model::id::TenantId;
use crate::store::{
    Batch, Expect, Filter, Kind, Position, Put, Record, Removal, Start, StoreError,
};
use crate::vault::keyring::seal_newest;
use crate::vault::record::kind::some_at_once;
use crate::vault::record::{Entity, Stored, from_json_text, json_text, kind, to_record};
use crate::vault::{Error, Vault};

/// Records sealed anew in one commit. Other commits of the tenant wait for it.
const RESEALED_AT_ONCE: usize = 16;
const PROGRESS_ID: &str = "resealing";

/// How far sealing anew is.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Resealing {
    /// The version that everything is to have.
    version: u32,
    /// The kind that is walked.
    kind: u8,
    /// The last record of it that was looked at.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    after: Option<(u64, String)>,
    resealed: u64,
    total: u64,
    /// Records that do not open, by any key. As long as there are any, no key is removed.
    unopened: u64,
}

impl Resealing {
    /// What an operator wants to know of it.
    pub fn progress(&self) -> Progress {
        // Log entries and whatever else is made since it began are walked too, and are not in the total.
        Progress { resealed: self.resealed.min(self.total), total: self.total }
    }
}

impl Entity for Resealing {
    const KIND: Kind = kind::RESEALING;
    const NOUN: &'static str = "note on resealing";

    fn id(&self) -> String {
        PROGRESS_ID.to_owned()
    }

    fn created_ms(&self) -> u64 {
        0
    }

    fn to_text(&self) -> Result<Wiped, Error> {
        json_text(self)
    }

    fn from_text(text: &[u8]) -> Result<Self, Error> {
        from_json_text(text)
    }
}

impl Vault {
    /// Seals anew whatever an older key sealed, in every tenant. One whose records cannot be sealed keeps no other from
    /// it.
    pub async fn reseal(&self) -> Result<(), Error> {
        let _one = self.0.keyring.walking.lock().await;
        let (mut failed, mut walked) = (None, false);
        for tenant in self.keys_owners().await? {
            if self.0.keyring.unopened.read().contains(&tenant) {
                continue;
            }
            let older = self.keys(tenant).await.is_ok_and(|keys| !keys.older.is_empty());
            walked |= older;
            if older && let Err(error) = self.reseal_tenant(tenant).await {
                failed = Some(error);
            }
        }
        if walked {
            // Of all tenants at once: the whole store is made anew for it.
            self.0.keyring.old_keys.notify_one();
        }
        failed.map_or(Ok(()), Err)
    }

    /// Waits until there is something to seal anew.
    pub async fn resealing_wanted(&self) {
        self.0.keyring.resealing.notified().await;
    }

    /// How far a tenant's walk is.
    pub(super) async fn resealing(
        &self,
        tenant: TenantId,
    ) -> Result<Option<Stored<Resealing>>, Error> {
        Ok(self.find::<Resealing>(tenant, &[PROGRESS_ID]).await?.pop().flatten())
    }

    async fn reseal_tenant(&self, tenant: TenantId) -> Result<(), Error> {
        let version = self.keys(tenant).await?.sealing_key().0;
        let found = self.resealing(tenant).await?;
        let mut walk = match found.filter(|stored| stored.entity.version == version) {
            Some(stored) => stored.entity,
            None => self.begin_walk(tenant, version).await?,
        };
        while !self.0.queue.is_stopping() {
            let filter = Filter::All;
            let start = match walk.after.clone() {
                Some((order_ms, id)) => Start::After(Position { order_ms, id }),
                None => Start::Offset(0),
            };
            let kind = Kind(walk.kind);
            let some = some_at_once(kind, RESEALED_AT_ONCE);
            let slice = self.0.store.page(kind, tenant, &filter, start, some).await?;
            let mut next = walk.clone();
            if let Some(last) = slice.records.last() {
                next.resealed += slice.records.len() as u64;
                next.after = Some((last.order_ms, last.id.clone()));
            }
            let ended = slice.next.is_none();
            if ended {
                (next.kind, next.after) = (walk.kind.saturating_add(1), None);
            }
            if self.reseal_some(tenant, slice.records, &mut next).await? {
                if ended && walk.kind == u8::MAX {
                    return self.end_walk(tenant, &next).await;
                }
                walk = next;
            }
            tokio::task::yield_now().await;
        }
        Ok(())
    }

    async fn begin_walk(&self, tenant: TenantId, version: u32) -> Result<Resealing, Error> {
        // Batches whose request was cut off may still be on their way, sealed with the key before: behind the walk, they
        // would be passed over, and that key forgotten.
        self.settled().await?;
        let mut total = 0;
        for kind in 0..=u8::MAX {
            let start = Start::Offset(0);
            total += self.0.store.page(Kind(kind), tenant, &Filter::All, start, 0).await?.total;
        }
        Ok(Resealing { version, kind: 0, after: None, resealed: 0, total, unopened: 0 })
    }

    /// Seals some records anew, and notes how far the walk is; `false` when one of them was changed meanwhile.
    async fn reseal_some(
        &self,
        tenant: TenantId,
        records: Vec<Record>,
        walk: &mut Resealing,
    ) -> Result<bool, Error> {
        let entropy = self.0.entropy.as_ref();
        let keys = self.keys(tenant).await?;
        let mut batch = Batch::default();
        for mut record in records {
            match seal_newest(&mut record, &keys, entropy) {
                // The note of the walk is written beside, and with it.
                Ok(true) if record.kind != Resealing::KIND => {
                    let expect = Expect::Version(record.version);
                    batch.puts.push(Put { record, expect });
                }
                Ok(_) => {}
                Err(_) => {
                    tracing::error!(
                        kind = record.kind.0,
                        "a record does not open, and stays as it is"
                    );
                    walk.unopened += 1;
                }
            }
        }
        if batch.puts.is_empty() && walk.after.is_none() && walk.unopened == 0 {
            // An empty kind: nothing worth a note.
            return Ok(true);
        }
        let record = to_record(walk, tenant, &keys, entropy)?;
        let was = |put: &Put| (put.record.kind, put.record.id.clone(), put.record.version);
        let resealed: Vec<_> = batch.puts.iter().map(was).collect();
        batch.puts.push(Put { record, expect: Expect::Any });
        let _closed = self.0.keyring.gate(tenant).write_owned().await;
        if self.0.keyring.erased.read().contains(&tenant) {
            return Err(Error::TenantGone);
        }
        match self.0.store.commit(batch).await {
            Ok(()) => {
                for (kind, id, version) in resealed {
                    self.0.keyring.resealed.remember(kind, tenant, &id, version);
                }
                Ok(true)
            }
            // It has the new key with its change.
            Err(StoreError::Conflict { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Removes the older keys, with which nothing is sealed any more.
    async fn end_walk(&self, tenant: TenantId, walk: &Resealing) -> Result<(), Error> {
        let (keyring, entropy) = (&self.0.keyring, self.0.entropy.as_ref());
        if walk.unopened > 0 {
            let left = walk.unopened;
            tracing::error!(%tenant, left, "records do not open; the older key stays");
            // Looking again every few minutes would find the same. The next start looks from the beginning.
            keyring.unopened.write().insert(tenant);
            let removals = vec![note(tenant)];
            return Ok(self.0.store.commit(Batch { removals, ..Batch::default() }).await?);
        }
        let _one = keyring.operating.lock().await;
        let _closed = keyring.gate(tenant).write_owned().await;
        let Some((version, keys)) = self.stored_keys(tenant).await? else { return Ok(()) };
        if keys.sealing_key().0 != walk.version {
            return Ok(());
        }
        let retired: Vec<u32> = keys.older.keys().copied().collect();
        let mut alone = keys.without_older();
        let put = keyring.put_tenant(tenant, &alone, Expect::Version(version), entropy)?;
        let puts = vec![put, self.note_old_keys()?];
        self.0
            .store
            .commit(Batch { puts, removals: vec![note(tenant)], ..Batch::default() })
            .await?;
        {
            // Those of an earlier rotation, as far as their time is not over by now.
            let mut known = keyring.tenants.write();
            let earlier = known.get(&tenant).map(|keys| keys.retired.clone());
            alone.retired.extend(earlier.unwrap_or_default());
            known.insert(tenant, Arc::new(alone));
        }
        tracing::info!(%tenant, version = walk.version, "everything is sealed with the newest key");
        let vault = Arc::downgrade(&self.0);
        // Requests that read a record before it was sealed anew open it still.
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(RETIRED_KEY_MS)).await;
            if let Some(inner) = vault.upgrade() {
                Self(inner).forget_retired(tenant, &retired);
            }
        });
        Ok(())
    }

    /// Forgets these versions, and none that a later rotation retired: its time is not over.
    fn forget_retired(&self, tenant: TenantId, versions: &[u32]) {
        let mut tenants = self.0.keyring.tenants.write();
        if let Some(keys) = tenants.get_mut(&tenant) {
            let mut left = (**keys).clone();
            left.retired.retain(|version, _| !versions.contains(version));
            *keys = Arc::new(left);
        }
    }
}

/// The removal of the note on a tenant's walk.
fn note(tenant: TenantId) -> Removal {
    Removal { kind: Resealing::KIND, tenant, id: PROGRESS_ID.to_owned(), expect: Expect::Any }
}

#[cfg(test)]
mod tests {
    use super::{Progress, Resealing};
    use crate::vault::tests::vault;

    #[tokio::test]
    async fn a_key_is_forgotten_when_its_own_time_is_over_and_not_before() {
        let folder = tempfile::tempdir().unwrap();
        let vault = vault(folder.path(), 1 << 20).await;
        let tenant = vault.create_tenant("a", None).await.unwrap().tenant.id;
        let retired = async || -> Vec<u32> {
            vault.keys(tenant).await.unwrap().retired.keys().copied().collect()
        };
        for expected in [&[1][..], &[1, 2]] {
            vault.rotate_tenant_key(tenant).await.unwrap();
            vault.reseal().await.unwrap();
            assert_eq!(retired().await, expected);
        }
        // One more rotation is under way when the time of the first is over.
        vault.rotate_tenant_key(tenant).await.unwrap();
        vault.forget_retired(tenant, &[1]);
        assert_eq!(retired().await, [2]);
        vault.reseal().await.unwrap();
        assert_eq!(retired().await, [2, 3]);
        vault.forget_retired(tenant, &[2]);
        assert_eq!(retired().await, [3]);
    }

    #[test]
    fn no_more_is_done_than_there_is() {
        let shown = |resealed| {
            let walk =
                Resealing { version: 2, kind: 9, after: None, resealed, total: 10, unopened: 0 };
            walk.progress()
        };
        for (resealed, told) in [(0, 0), (9, 9), (10, 10), (1_000, 10)] {
            assert_eq!(shown(resealed), Progress { resealed: told, total: 10 });
        }
    }
}
