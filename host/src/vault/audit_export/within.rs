//! One tenant's log, as lines in the order of their numbers, read as it lies: by times.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::{Bound, RangeInclusive};
use std::sync::Arc;

use tokio::sync::mpsc::Sender;

use super::{ExportFilter, ExportedEntry, Removed, hexadecimal};
use crate::crypto::integrity::Hash;
use crate::model::id::TenantId;
use crate::store::{Filter, Position, Record, Slice, Start};
use crate::vault::audit::KeptEntry;
use crate::vault::record::{from_record, kind};
use crate::vault::{Error, Unfit, Vault};

/// Entries read at once.
pub const PORTION: usize = 500;
/// Numbers of entries that are put in order at once: as many lines are held at most, however the clock was set.
pub const WINDOW: u64 = 8_192;
/// Entries that are opened before others have their turn.
const OPENED_AT_ONCE: usize = 16;
/// Bytes of lines that are given at once, about.
const LINES_BYTES: usize = 256 << 10;

/// A tenant's log, as far as a filter asks for it.
pub struct TenantsLog<'v> {
    /// Where it is.
    pub vault: &'v Vault,
    /// Whose it is.
    pub tenant: TenantId,
    /// The number of the first entry that was there when the export began.
    pub first: u64,
    /// That of the last one. One that is added meanwhile may have been made before that one: without those between, it would
    /// leave a gap.
    pub last: u64,
    /// Which entries are asked for.
    pub filter: ExportFilter,
    /// Entries read at once.
    pub portion: usize,
    /// Entries put in order at once.
    pub window: u64,
}

/// Entries that follow one another by time, the newest first. It is told by places and not by counts: entries that are added
/// or go meanwhile move none.
pub struct Stretch {
    start: Start,
    newest_ms: u64,
    oldest: Position,
    /// The numbers of those that are wanted.
    numbers: Vec<RangeInclusive<u64>>,
}

/// Adds a number behind the others.
fn add(numbers: &mut Vec<RangeInclusive<u64>>, number: u64) {
    match numbers.last_mut() {
        Some(last) if number.checked_sub(1) == Some(*last.end()) => *last = *last.start()..=number,
        _ => numbers.push(number..=number),
    }
}

impl TenantsLog<'_> {
    /// Numbers are taken a window at a time, and whatever stretch has some of them is read for each. The order of times is
    /// nearly that of numbers, so that most have those of one window; where a clock was set back, of a few.
    pub async fn export(&self, give: &Sender<Vec<u8>>) -> Result<(), Error> {
        // Of an erased tenant's log there may be anything or nothing left: no export is to look whole by that.
        self.vault.keys(self.tenant).await?;
        let stretches = self.stretches().await?;
        let mut gone = self.gone_before()?;
        // What went before is told already.
        let mut next = gone.last().map_or(0, |gone| gone.end() + 1);
        let mut windows: BTreeMap<u64, Vec<&Stretch>> = BTreeMap::new();
        for stretch in &stretches {
            for window in self.windows(stretch) {
                windows.entry(window).or_default().push(stretch);
            }
        }
        for (window, stretches) in windows {
            let mut held = BTreeMap::new();
            for stretch in &stretches {
                self.read(stretch, window, &mut held).await?;
            }
            let of_window = stretches.iter().flat_map(|stretch| stretch.numbers.iter().cloned());
            let of_window = of_window.flatten().filter(|number| self.window_of(*number) == window);
            for number in of_window.collect::<BTreeSet<_>>().range(next..) {
                if !held.contains_key(number) {
                    add(&mut gone, *number);
                }
                next = number + 1;
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
        for gone in gone {
            let (removed_from, removed_to) = gone.into_inner();
            let removed = Removed { tenant_id: self.tenant, removed_from, removed_to };
            let mut line = serde_json::to_vec(&removed).map_err(Error::internal)?;
            line.push(b'\n');
            send(give, line).await?;
        }
        Ok(())
    }

    /// The numbers of those that were wanted and went before they were looked for, or may have been wanted: nobody knows any
    /// more of which times they were.
    fn gone_before(&self) -> Result<Vec<RangeInclusive<u64>>, Error> {
        let ExportFilter { after, from, .. } = self.filter;
        let wanted = after.map_or(self.first, |after| after.saturating_add(1));
        let first = self.vault.0.store.log_starts()?.get(&self.tenant).copied().unwrap_or(1);
        let gone = wanted..first.min(self.last.saturating_add(1));
        // What goes is older than what is kept. What went behind an entry that was exported may have been kept for less time.
        let is_later = after.is_none() && from.is_some_and(|from| self.vault.keeps_log_of(from));
        let is_told = !gone.is_empty() && !is_later;
        Ok(is_told.then(|| gone.start..=gone.end - 1).into_iter().collect())
    }

    /// Stretches of the log that have what is wanted, the newest one first.
    pub async fn stretches(&self) -> Result<Vec<Stretch>, Error> {
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
            let places = self.places(&slice.records).await?;
            let mut wanted: Vec<u64> =
                places.into_iter().flatten().map(|(sequence, _)| sequence).collect();
            missing = missing.saturating_sub(wanted.len() as u64);
            wanted.sort_unstable();
            let mut numbers = Vec::new();
            for number in wanted {
                add(&mut numbers, number);
            }
            let next = Start::After(oldest.clone());
            if !numbers.is_empty() {
                stretches.push(Stretch { start, newest_ms, oldest, numbers });
            }
            start = next;
        }
        Ok(stretches)
    }

    /// The hash of the entry with this number, if it is there.
    pub async fn hash_of(&self, number: u64) -> Result<Option<Hash>, Error> {
        let mut next = Some(Start::Offset(0));
        while let Some(start) = next {
            let slice = self.page(&Filter::All, start).await?;
            let found = self.places(&slice.records).await?.into_iter().flatten();
            if let Some((_, hash)) = found.into_iter().find(|(sequence, _)| *sequence == number) {
                return Ok(Some(hash));
            }
            next = slice.next.map(Start::After);
        }
        Ok(None)
    }

    /// Reads the entries of a stretch that are in a window, as lines by their numbers.
    pub async fn read(
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
            let places = self.places(&records).await?;
            // Later than the records, which may have been sealed anew meanwhile.
            let keys = self.vault.keys(self.tenant).await?;
            for (index, (record, place)) in records.iter().zip(places).enumerate() {
                if index % OPENED_AT_ONCE == 0 {
                    tokio::task::yield_now().await;
                }
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

    /// The windows that numbers of a stretch are in.
    pub fn windows(&self, stretch: &Stretch) -> BTreeSet<u64> {
        let windows = |numbers: &RangeInclusive<u64>| {
            self.window_of(*numbers.start())..=self.window_of(*numbers.end())
        };
        stretch.numbers.iter().flat_map(windows).collect()
    }

    fn window_of(&self, number: u64) -> u64 {
        number.checked_div(self.window).unwrap_or_default()
    }

    async fn page(&self, times: &Filter, start: Start) -> Result<Slice, Error> {
        Ok(self.vault.0.store.page(kind::LOG, self.tenant, times, start, self.portion).await?)
    }

    /// Numbers and hashes of entries; `None` for each that is not wanted.
    async fn places(&self, records: &[Record]) -> Result<Vec<Option<(u64, Hash)>>, Error> {
        let ids: Vec<String> = records.iter().map(|record| record.id.clone()).collect();
        let (store, tenant) = (Arc::clone(&self.vault.0.store), self.tenant);
        let look = move || {
            let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
            store.places(kind::LOG, tenant, &ids)
        };
        // Each is a row of its own: others have their turn meanwhile.
        let places = tokio::task::spawn_blocking(look).await.map_err(Error::internal)??;
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
    give.send(lines).await.map_err(|_| Error::Unavailable(Unfit::Unavailable))
}
