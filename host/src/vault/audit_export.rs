//! The log for those who keep it elsewhere: heads of chains, and entries with their places in them.
//!
//! Entries are given by their numbers, which is the order in which they were committed. The store has them by the times that
//! they carry: those are taken before the commit, and a clock may have been set back.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap};
use std::ops::{Bound, RangeInclusive};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::Sender;

use super::audit::{KeptEntry, LogEntry};
use super::record::{from_record, kind};
use super::{Error, Vault};
use crate::crypto::integrity::Hash;
use crate::model::id::TenantId;
use crate::model::time::Timestamp;
use crate::store::{ChainHead, Filter, Position, Record, Slice, Start};

/// Entries read at once.
const PORTION: usize = 500;
/// Numbers of entries that are put in order at once: as many lines are held at most, however the clock was set.
const WINDOW: u64 = 8_192;
/// Bytes of lines that are given at once, about.
const LINES_BYTES: usize = 256 << 10;

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

    /// Refuses to export the log of a tenant that there is not, and to go on behind an entry that there never was.
    pub async fn check_export(&self, filter: &ExportFilter) -> Result<(), Error> {
        let Some(tenant) = filter.tenant else { return Ok(()) };
        if !self.keys_owners().await?.contains(&tenant) {
            return Err(Error::NotFound("tenant"));
        }
        let heads = self.0.store.chain_heads()?;
        let last = heads.iter().find(|head| head.tenant == tenant).map_or(0, |head| head.sequence);
        if filter.after.is_some_and(|after| after > last) {
            return Err(Error::Conflict(
                "The tenant's log ends before the entry to go on behind: it is another log, or one of an earlier time.",
            ));
        }
        Ok(())
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
            let (portion, window) = (PORTION, WINDOW);
            let log = TenantsLog { vault: self, tenant, last, filter, portion, window };
            match log.export(give).await {
                // Whoever asks for all still gets what the others have.
                Err(Error::Unauthenticated) if filter.tenant.is_none() => {}
                Err(Error::Unauthenticated) => {
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

/// A tenant's log, as far as a filter asks for it.
struct TenantsLog<'v> {
    vault: &'v Vault,
    tenant: TenantId,
    /// The number of its last entry. One that is added meanwhile may have been made before that one: without those between,
    /// it would leave a gap.
    last: u64,
    filter: ExportFilter,
    /// Entries read at once.
    portion: usize,
    /// Entries put in order at once.
    window: u64,
}

/// Entries that follow one another by time, the newest first. It is told by places and not by counts: entries that are added
/// or go meanwhile move none.
struct Stretch {
    start: Start,
    newest_ms: u64,
    oldest: Position,
    /// The windows that those are in which are wanted.
    windows: Vec<u64>,
}

/// Numbers of entries in their order, which have no gaps unless some were removed.
struct Numbers {
    next: u64,
    gaps: Vec<RangeInclusive<u64>>,
}

impl Numbers {
    fn see(&mut self, number: u64) {
        if self.next < number {
            self.gaps.push(self.next..=number - 1);
        }
        self.next = self.next.max(number.saturating_add(1));
    }
}

impl TenantsLog<'_> {
    /// Numbers are taken a window at a time, and whatever stretch has some of them is read for each. The order of times is
    /// nearly that of numbers, so that most have those of one window; where a clock was set back, of a few.
    async fn export(&self, give: &Sender<Vec<u8>>) -> Result<(), Error> {
        // Of an erased tenant's log there may be anything or nothing left: no export is to look whole by that.
        self.vault.keys(self.tenant).await?;
        let stretches = self.stretches().await?;
        let mut windows: BTreeMap<u64, Vec<&Stretch>> = BTreeMap::new();
        for stretch in &stretches {
            for window in &stretch.windows {
                windows.entry(*window).or_default().push(stretch);
            }
        }
        let ExportFilter { after, from, to, .. } = self.filter;
        let next = match after {
            Some(after) => after.saturating_add(1),
            None => self.first().await?,
        };
        let mut numbers = Numbers { next, gaps: Vec::new() };
        for (window, stretches) in windows {
            let mut held = BTreeMap::new();
            for stretch in stretches {
                self.read(stretch, window, &mut held).await?;
            }
            for number in held.keys() {
                numbers.see(*number);
            }
            let mut lines = Vec::new();
            for line in held.into_values() {
                lines.extend(line);
                if lines.len() >= LINES_BYTES {
                    send(give, std::mem::take(&mut lines)).await?;
                }
            }
            send(give, lines).await?;
        }
        // It may have been erased since: what was found then is no whole log.
        self.vault.keys(self.tenant).await?;
        if from.is_some() || to.is_some() {
            // Of which times those were that are gone nobody knows any more: of any, if they were to be gone on behind.
            numbers = Numbers { next, gaps: Vec::new() };
            numbers.see(if after.is_some() { self.first().await? } else { next });
        } else {
            numbers.see(self.last.saturating_add(1));
        }
        for gap in numbers.gaps {
            let (removed_from, removed_to) = gap.into_inner();
            let removed = Removed { tenant_id: self.tenant, removed_from, removed_to };
            let mut line = serde_json::to_vec(&removed).map_err(Error::internal)?;
            line.push(b'\n');
            send(give, line).await?;
        }
        Ok(())
    }

    /// The number of the first entry that is there, or behind the last one if none is.
    async fn first(&self) -> Result<u64, Error> {
        loop {
            let (store, tenant) = (Arc::clone(&self.vault.0.store), self.tenant);
            let look = move || store.oldest_entries(kind::LOG, tenant, u64::MAX, 1);
            // Where the first entry is among others of another time, this reads through many.
            let oldest = tokio::task::spawn_blocking(look).await.map_err(Error::internal)??;
            let Some(oldest) = oldest.first() else { return Ok(self.last.saturating_add(1)) };
            let place =
                self.vault.0.store.places(kind::LOG, tenant, &[&oldest.id])?.pop().flatten();
            // One without a place went in between.
            if let Some((sequence, _)) = place {
                return Ok(sequence);
            }
        }
    }

    /// Stretches of the log that have what is wanted, the newest one first.
    async fn stretches(&self) -> Result<Vec<Stretch>, Error> {
        let ExportFilter { after, from, to, .. } = self.filter;
        let times = Filter::Order {
            from: from.map_or(Bound::Unbounded, |from| Bound::Included(from.0)),
            to: to.map_or(Bound::Unbounded, |to| Bound::Excluded(to.0)),
        };
        let (mut stretches, mut start) = (Vec::new(), Start::Offset(0));
        // Numbers have no gaps: once all are found, nothing older is wanted.
        let mut missing = self.last.saturating_sub(after.unwrap_or_default());
        while missing > 0 {
            let slice = self.page(&times, start.clone()).await?;
            let (Some(newest), Some(oldest)) = (slice.records.first(), slice.records.last()) else {
                break;
            };
            let (newest_ms, oldest) = (newest.order_ms, position(oldest));
            let places = self.places(&slice.records)?;
            let numbers: Vec<u64> =
                places.into_iter().flatten().map(|(sequence, _)| sequence).collect();
            missing = missing.saturating_sub(numbers.len() as u64);
            let next = Start::After(oldest.clone());
            let mut windows: Vec<u64> =
                numbers.into_iter().map(|number| self.window_of(number)).collect();
            windows.sort_unstable();
            windows.dedup();
            if !windows.is_empty() {
                stretches.push(Stretch { start, newest_ms, oldest, windows });
            }
            start = next;
        }
        Ok(stretches)
    }

    /// Reads the entries of a stretch that are in a window, as lines by their numbers.
    async fn read(
        &self,
        stretch: &Stretch,
        window: u64,
        lines: &mut BTreeMap<u64, Vec<u8>>,
    ) -> Result<(), Error> {
        let Stretch { start, newest_ms, oldest, .. } = stretch;
        let times = Filter::Order {
            from: Bound::Included(oldest.order_ms),
            to: Bound::Included(*newest_ms),
        };
        let mut next = Some(start.clone());
        while let Some(start) = next {
            let Slice { mut records, next: more, .. } = self.page(&times, start).await?;
            next = more.map(Start::After);
            let count = records.len();
            records.retain(|record| position(record) >= *oldest);
            if records.len() < count {
                next = None;
            }
            // One that went at the end of its time since it was read has no place any more.
            let places = self.places(&records)?;
            // Later than the records, which may have been sealed anew meanwhile.
            let keys = self.vault.keys(self.tenant).await?;
            for (record, place) in records.iter().zip(places) {
                let Some((sequence, hash)) = place else { continue };
                if self.window_of(sequence) != window {
                    continue;
                }
                let entry = from_record::<KeptEntry>(record, &keys)?.entity.entry;
                let exported = ExportedEntry { sequence, hash: hexadecimal(&hash), entry };
                let mut line = serde_json::to_vec(&exported).map_err(Error::internal)?;
                line.push(b'\n');
                lines.insert(sequence, line);
            }
        }
        Ok(())
    }

    fn window_of(&self, number: u64) -> u64 {
        number.checked_div(self.window).unwrap_or_default()
    }

    async fn page(&self, times: &Filter, start: Start) -> Result<Slice, Error> {
        Ok(self.vault.0.store.page(kind::LOG, self.tenant, times, start, self.portion).await?)
    }

    /// Numbers and hashes of entries; `None` for each that is not wanted.
    fn places(&self, records: &[Record]) -> Result<Vec<Option<(u64, Hash)>>, Error> {
        let ids: Vec<&str> = records.iter().map(|record| record.id.as_str()).collect();
        let places = self.vault.0.store.places(kind::LOG, self.tenant, &ids)?;
        let after = self.filter.after.unwrap_or_default();
        let is_wanted = |(sequence, _): &(u64, Hash)| *sequence > after && *sequence <= self.last;
        Ok(places.into_iter().map(|place| place.filter(is_wanted)).collect())
    }
}

fn position(record: &Record) -> Position {
    Position { order_ms: record.order_ms, id: record.id.clone() }
}

async fn send(give: &Sender<Vec<u8>>, lines: Vec<u8>) -> Result<(), Error> {
    if lines.is_empty() {
        return Ok(());
    }
    give.send(lines).await.map_err(|_| Error::Unavailable)
}
