//! The log for those who keep it elsewhere: heads of chains, and entries with their places in them.
//!
//! Entries are given by their numbers, which is the order in which they were committed. The store has them by the times that
//! they carry: those are taken before the commit, and a clock may have been set back.

#[cfg(test)]
mod tests;
mod within;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::Sender;

use self::within::{PORTION, TenantsLog, WINDOW};
use super::audit::LogEntry;
use super::{Error, Vault};
use crate::crypto::integrity::Hash;
use crate::model::id::TenantId;
use crate::model::time::Timestamp;
use crate::store::ChainHead;

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

/// A line behind the entries of a tenant, of some that were to be exported, and were removed before or meanwhile.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Removed {
    /// Whose.
    pub tenant_id: TenantId,
    /// The number of the first.
    pub removed_from: u64,
    /// That of the last.
    pub removed_to: u64,
}

impl Removed {
    /// What a line of an export tells of them, if it does and is no entry.
    pub fn read(line: &[u8]) -> Option<Self> {
        serde_json::from_slice(line).ok()
    }
}

/// Which entries are exported.
#[derive(Debug, Clone, Copy, Default, Serialize, Deserialize)]
pub struct ExportFilter {
    /// Of this tenant alone.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tenant: Option<TenantId>,
    /// With a greater number than this.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub after: Option<u64>,
    /// The hash that the entry of that number has, if it is known.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub after_hash: Option<Hash>,
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
        let Self { tenant, sequence, time, hash } = self;
        let hash = parse_hash(hash)?;
        Some(ChainHead { tenant: *tenant, sequence: *sequence, hash, time_ms: time.0 })
    }
}

/// The hash that 64 hexadecimal digits write.
pub fn parse_hash(digits: &str) -> Option<Hash> {
    let digits = digits.as_bytes();
    let mut hash = [0; 32];
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    for (byte, pair) in hash.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()?;
    }
    Some(hash)
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

    /// Refuses to export the log of a tenant that there is not, to go on behind an entry that there never was or that is
    /// another one, and what is at no time.
    pub async fn check_export(&self, filter: &ExportFilter) -> Result<(), Error> {
        if let (Some(from), Some(to)) = (filter.from, filter.to)
            && from >= to
        {
            return Err(Error::Conflict(
                "The log is to be exported from a time that is not before the other.",
            ));
        }
        let Some(tenant) = filter.tenant else { return Ok(()) };
        if !self.keys_owners().await?.contains(&tenant) {
            return Err(Error::NotFound("tenant"));
        }
        let heads = self.0.store.chain_heads()?;
        let last = heads.iter().find(|head| head.tenant == tenant).map_or(0, |head| head.sequence);
        let Some(after) = filter.after else { return Ok(()) };
        if after > last {
            return Err(Error::Conflict(
                "The tenant's log ends before the entry to go on behind: it is another log, or one of an earlier time.",
            ));
        }
        let Some(wanted) = filter.after_hash else { return Ok(()) };
        self.settled().await?;
        let found =
            self.log_of(tenant, (after, after), ExportFilter::default()).hash_of(after).await?;
        // One that was removed at the end of its time is told of as missing.
        if found.is_some_and(|found| found != wanted) {
            return Err(Error::Conflict(
                "The entry to go on behind has another hash: it is another log, or one that was restored and went on.",
            ));
        }
        Ok(())
    }

    fn log_of(
        &self,
        tenant: TenantId,
        (first, last): (u64, u64),
        filter: ExportFilter,
    ) -> TenantsLog<'_> {
        let (portion, window) = (PORTION, WINDOW);
        TenantsLog { vault: self, tenant, first, last, filter, portion, window }
    }

    /// Gives every entry that the filter asks for and that is there when the call begins, and no other, those of each tenant
    /// in the order of their numbers, as lines of JSON, some at a time. Behind them comes a line by itself for each stretch of
    /// them that was removed, meanwhile or since the entry that the filter goes on behind ([`Removed`]). Others may write
    /// meanwhile. Ends with an error when nobody takes them any more.
    pub async fn export_log(
        &self,
        filter: ExportFilter,
        give: &Sender<Vec<u8>>,
    ) -> Result<(), Error> {
        // Of all tenants at once: what goes before the turn of one comes is told too.
        let firsts = self.0.store.log_starts()?;
        let heads = self.0.store.chain_heads()?;
        let heads: HashMap<_, _> = heads.iter().map(|head| (head.tenant, head.sequence)).collect();
        // The heads may be ahead of what is found.
        self.settled().await?;
        let wanted = match filter.tenant {
            Some(only) => vec![only],
            // What the operator does to tenants stands in a log of its own.
            None => self.keys_owners().await?,
        };
        for tenant in wanted {
            let last = heads.get(&tenant).copied().unwrap_or_default();
            let first = firsts.get(&tenant).copied().unwrap_or(1);
            let log = self.log_of(tenant, (first, last), filter);
            match log.export(give).await {
                // Whoever asks for all still gets what the others have.
                Err(Error::TenantGone) if filter.tenant.is_none() => {}
                Err(Error::TenantGone) => {
                    return Err(Error::Conflict(
                        "The tenant was erased meanwhile: nothing of its log can be read any more.",
                    ));
                }
                exported => exported?,
            }
        }
        Ok(())
    }
}
