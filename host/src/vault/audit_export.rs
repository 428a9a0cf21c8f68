//! The log for those who keep it elsewhere: heads of chains, and entries with their places in them.

use std::ops::Bound;

use serde::{Deserialize, Serialize};

use super::audit::{KeptEntry, LogEntry};
use super::record::{from_record, kind};
use super::{Error, Vault};
use crate::model::id::TenantId;
use crate::model::time::Timestamp;
use crate::store::{ChainHead, Filter, Start};

/// Entries read at once.
const PORTION: u64 = 500;

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
pub struct ExportedEntry {
    sequence: u64,
    hash: String,
    #[serde(flatten)]
    entry: LogEntry,
}

/// Which entries are exported.
#[derive(Debug, Clone, Copy, Default)]
pub struct ExportFilter {
    /// Of this tenant alone.
    pub tenant: Option<TenantId>,
    /// From this time on.
    pub from: Option<Timestamp>,
    /// Before this time.
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

    /// Gives every entry that the filter asks for, each tenant's oldest first. Nobody may write meanwhile.
    pub async fn export_log(
        &self,
        filter: ExportFilter,
        give: &mut (dyn FnMut(&ExportedEntry) -> std::io::Result<()> + Send),
    ) -> Result<(), Error> {
        // What the operator does to tenants stands in a log of its own.
        for tenant in self.keys_owners().await? {
            if filter.tenant.is_none_or(|only| only == tenant) {
                self.export_tenant(tenant, filter, give).await?;
            }
        }
        Ok(())
    }

    async fn export_tenant(
        &self,
        tenant: TenantId,
        filter: ExportFilter,
        give: &mut (dyn FnMut(&ExportedEntry) -> std::io::Result<()> + Send),
    ) -> Result<(), Error> {
        let ExportFilter { from, to, .. } = filter;
        let within = Filter::Order {
            from: from.map_or(Bound::Unbounded, |from| Bound::Included(from.0)),
            to: to.map_or(Bound::Unbounded, |to| Bound::Excluded(to.0)),
        };
        let (keys, store) = (self.keys(tenant).await?, self.0.store.as_ref());
        let page = async |offset: u64, size: u64| {
            let size = usize::try_from(size).unwrap_or(usize::MAX);
            store.page(kind::LOG, tenant, &within, Start::Offset(offset), size).await
        };
        // Pages have the newest first: they are taken from the last one on.
        let mut left = page(0, 0).await?.total;
        while left > 0 {
            let size = left.min(PORTION);
            left -= size;
            let slice = page(left, size).await?;
            let ids: Vec<&str> = slice.records.iter().map(|record| record.id.as_str()).collect();
            let places = store.places(kind::LOG, tenant, &ids)?;
            for (record, place) in slice.records.iter().zip(places).rev() {
                let entry = from_record::<KeptEntry>(record, &keys)?.entity.entry;
                let (sequence, hash) = place.unwrap_or_default();
                let exported = ExportedEntry { sequence, hash: hexadecimal(&hash), entry };
                give(&exported).map_err(Error::internal)?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::{ChainHead, ExportedHead, TenantId};

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
}
