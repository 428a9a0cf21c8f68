//! The log for those who keep it elsewhere: heads of chains, and entries with their places in them.

use std::collections::HashMap;
use std::ops::Bound;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::Sender;

use super::audit::{KeptEntry, LogEntry};
use super::record::{from_record, kind};
use super::{Error, Vault};
use crate::crypto::keys::TenantKeys;
use crate::model::id::TenantId;
use crate::model::time::Timestamp;
use crate::store::{ChainHead, Filter, Position, Record, Slice, Start};

/// Entries read at once.
const PORTION: usize = 500;

/// Where a tenant's log ended when this was exported: kept elsewhere, it shows later that nothing before was changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExportedHead {
    /// The tenant.
    pub tenant: TenantId,
    /// The number of the last entry.
    pub sequence: u64,
    /// Its hash, in hexadecimal.
    pub hash: String,
    /// When it was made.
    pub time: Timestamp,
}

/// An entry with its place.
#[derive(Debug, Serialize)]
struct ExportedEntry {
    sequence: u64,
    hash: String,
    #[serde(flatten)]
    entry: LogEntry,
}

/// Which entries are exported.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct ExportFilter {
    /// Of this tenant alone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tenant: Option<TenantId>,
    /// From this time on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub from: Option<Timestamp>,
    /// Before this time.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub to: Option<Timestamp>,
}

impl From<ChainHead> for ExportedHead {
    fn from(head: ChainHead) -> Self {
        let ChainHead { tenant, sequence, hash, time_ms } = head;
        Self { tenant, sequence, hash: hexadecimal(&hash), time: Timestamp(time_ms) }
    }
}

impl ExportedHead {
    /// The head, if the hash is one.
    pub fn to_head(&self) -> Option<ChainHead> {
        let digits = self.hash.as_bytes();
        let mut hash = [0; 32];
        if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return None;
        }
        for (byte, pair) in hash.iter_mut().zip(self.hash.as_bytes().chunks_exact(2)) {
            *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
        }
        let Self { tenant, sequence, time, .. } = self;
        Some(ChainHead { tenant: *tenant, sequence: *sequence, hash, time_ms: time.0 })
    }
}

fn hexadecimal(hash: &[u8; 32]) -> String {
    use std::fmt::Write as _;
    hash.iter().fold(String::with_capacity(64), |mut text, byte| {
        // Writing to a string cannot fail.
        let _ = write!(text, "{byte:02x}");
        text
    })
}

impl Vault {
    /// Where each tenant's log ends.
    pub fn log_heads(&self) -> Result<Vec<ExportedHead>, Error> {
        Ok(self.0.store.chain_heads()?.into_iter().map(ExportedHead::from).collect())
    }

    /// Refuses to export the log of a tenant that there is not.
    pub async fn check_export(&self, filter: &ExportFilter) -> Result<(), Error> {
        let Some(tenant) = filter.tenant else { return Ok(()) };
        let known = self.keys_owners().await?.contains(&tenant);
        if known { Ok(()) } else { Err(Error::NotFound("tenant")) }
    }

    /// Gives every entry that the filter asks for and that is there when the call begins, and no other, each tenant's oldest
    /// first, as lines of JSON, some at a time. Others may write meanwhile. Ends with an error when nobody takes them any
    /// more.
    pub async fn export_log(
        &self,
        filter: ExportFilter,
        give: &Sender<Vec<u8>>,
    ) -> Result<(), Error> {
        let heads = self.0.store.chain_heads()?;
        let heads: HashMap<_, _> = heads.iter().map(|head| (head.tenant, head.sequence)).collect();
        // What the operator does to tenants stands in a log of its own.
        for tenant in self.keys_owners().await? {
            if filter.tenant.is_none_or(|only| only == tenant) {
                let last = heads.get(&tenant).copied().unwrap_or_default();
                let log = TenantsLog { vault: self, tenant, last, filter };
                log.export(give).await?;
            }
        }
        Ok(())
    }
}

/// A tenant's log, as far as a filter asks for it.
struct TenantsLog<'v> {
    vault: &'v Vault,
    tenant: TenantId,
    /// The number of its last entry. One that is added meanwhile may have been made before that one: without those between,
    /// it would leave a gap.
    last: u64,
    filter: ExportFilter,
}

impl TenantsLog<'_> {
    /// The store gives the newest first. So marks are set in the log, and from each, the oldest first, the entries are
    /// read up to the one before. A mark is a place, not a number: entries that are added meanwhile move none.
    async fn export(&self, give: &Sender<Vec<u8>>) -> Result<(), Error> {
        let keys = self.vault.keys(self.tenant).await?;
        let marks = self.marks().await?;
        for (number, mark) in marks.iter().enumerate().rev() {
            let mut entries = self.between(mark, marks.get(number + 1)).await?;
            if number == 0 {
                // The newest that there was.
                let ids = [mark.id.as_str()];
                let newest = self.vault.0.store.find(kind::LOG, self.tenant, &ids).await?;
                entries.splice(0..0, newest.into_iter().flatten());
            }
            for portion in entries.rchunks(PORTION) {
                let lines = self.lines(portion, &keys)?;
                give.send(lines).await.map_err(|_| Error::Unavailable)?;
            }
        }
        Ok(())
    }

    async fn page(&self, start: Start, size: usize) -> Result<Slice, Error> {
        let ExportFilter { from, to, .. } = self.filter;
        let within = Filter::Order {
            from: from.map_or(Bound::Unbounded, |from| Bound::Included(from.0)),
            to: to.map_or(Bound::Unbounded, |to| Bound::Excluded(to.0)),
        };
        Ok(self.vault.0.store.page(kind::LOG, self.tenant, &within, start, size).await?)
    }

    /// Places in the log, the newest entry first and then about every [`PORTION`].
    async fn marks(&self) -> Result<Vec<Position>, Error> {
        let mut marks: Vec<Position> = Vec::new();
        for offset in (0..).step_by(PORTION) {
            let slice = self.page(Start::Offset(offset), 1).await?;
            let Some(Record { order_ms, id, .. }) = slice.records.into_iter().next() else { break };
            // Where entries were added between two looks, this one may be no older than the last.
            if marks.last().is_none_or(|last| order_ms < last.order_ms) {
                marks.push(Position { order_ms, id });
            }
        }
        Ok(marks)
    }

    /// Entries after a mark, the newest first, up to another one and with it, or to the end of the log.
    async fn between(&self, mark: &Position, end: Option<&Position>) -> Result<Vec<Record>, Error> {
        let (mut entries, mut next) = (Vec::new(), Some(mark.clone()));
        while let Some(after) = next {
            let slice = self.page(Start::After(after), PORTION).await?;
            next = slice.next;
            for record in slice.records {
                let is_end = end.is_some_and(|end| end.id == record.id);
                // Where the end was removed meanwhile, what is older belongs to who began there.
                if !is_end && end.is_some_and(|end| record.order_ms < end.order_ms) {
                    return Ok(entries);
                }
                entries.push(record);
                if is_end {
                    return Ok(entries);
                }
            }
        }
        Ok(entries)
    }

    /// Entries that come the newest first, as lines that begin with the oldest.
    fn lines(&self, records: &[Record], keys: &TenantKeys) -> Result<Vec<u8>, Error> {
        let ids: Vec<&str> = records.iter().map(|record| record.id.as_str()).collect();
        let places = self.vault.0.store.places(kind::LOG, self.tenant, &ids)?;
        let mut lines = Vec::new();
        for (record, place) in records.iter().zip(places).rev() {
            // One that went at the end of its time since it was read has no place any more.
            let place = place.filter(|(sequence, _)| *sequence <= self.last);
            let Some((sequence, hash)) = place else { continue };
            let entry = from_record::<KeptEntry>(record, keys)?.entity.entry;
            let exported = ExportedEntry { sequence, hash: hexadecimal(&hash), entry };
            serde_json::to_writer(&mut lines, &exported).map_err(Error::internal)?;
            lines.push(b'\n');
        }
        Ok(lines)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::{ChainHead, ExportFilter, ExportedHead, Start, TenantId, TenantsLog, kind};
    use crate::store::Batch;
    use crate::vault::tests::vault;

    #[test]
    fn heads_are_read_as_they_were_exported() {
        let tenant = TenantId(Uuid::from_u128(7));
        let head = ChainHead { tenant, sequence: 9, hash: [0xa7; 32], time_ms: 1_767_225_600_000 };
        let text = serde_json::to_string(&ExportedHead::from(head)).unwrap();
        let read: ExportedHead = serde_json::from_str(&text).unwrap();
        assert_eq!(read.to_head(), Some(head));
        for wrong in ["", "a7", &"+7".repeat(32), &"é".repeat(32)] {
            assert_eq!(ExportedHead { hash: wrong.to_owned(), ..read.clone() }.to_head(), None);
        }
    }

    #[tokio::test]
    async fn an_entry_that_goes_while_it_is_exported_is_left_out() {
        let folder = tempfile::tempdir().unwrap();
        let vault = vault(folder.path(), 1 << 20).await;
        let tenant = vault.create_tenant("a", None).await.unwrap().tenant.id;
        let heads = vault.log_heads().unwrap();
        let last = heads.iter().find(|head| head.tenant == tenant).unwrap().sequence;
        let log = TenantsLog { vault: &vault, tenant, last, filter: ExportFilter::default() };
        let keys = vault.keys(tenant).await.unwrap();
        let records = log.page(Start::Offset(0), 10).await.unwrap().records;
        let numbers = || {
            let lines = String::from_utf8(log.lines(&records, &keys).unwrap()).unwrap();
            let line = |line: &str| serde_json::from_str::<serde_json::Value>(line).unwrap();
            lines.lines().map(|one| line(one)["sequence"].as_u64().unwrap()).collect::<Vec<_>>()
        };
        assert_eq!(numbers(), [1, 2]);
        let store = &vault.0.store;
        let removals = store.oldest_entries(kind::LOG, tenant, u64::MAX, 1).unwrap();
        store.commit(Batch { removals, ..Batch::default() }).await.unwrap();
        assert_eq!(numbers(), [2]);
    }
}
