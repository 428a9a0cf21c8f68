//! Reading records and pages of them, beside the writer.
//!
//! A long body lies in pieces. Reading them takes as long as writing several groups, so a page's are read once its places
//! and heads are known to be of one moment: the pieces of a head that is still there are as they were then.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::SledStore;
use super::failure::unreadable;
use super::guard::Guard;
use super::index::{Found, steps};
use super::live::Live;
use super::packs;
use super::rows::{Address, Head, PIECE_BYTES};
use crate::model::id::TenantId;
use crate::store::{Filter, Kind, Position, Record, Slice, Start, StoreError};

/// Times that a page is read anew when one of its long bodies is replaced meanwhile. From then on it shows those that
/// were replaced as they are now.
const READS_MAX: usize = 16;

/// Places and heads of a page, of one moment.
struct Page {
    /// One set of files for all of it: they may be replaced meanwhile.
    live: Arc<Live>,
    total: u64,
    next: Option<Position>,
    /// With the bodies that follow the heads.
    heads: Vec<(Address, Head, Vec<u8>)>,
}

/// Long bodies by id, with the heads that they are of.
type Bodies = HashMap<String, (Head, Vec<u8>)>;

impl SledStore {
    /// What the guard knows, none of which is about to be.
    pub(super) fn of_guard<T: Default>(
        &self,
        look: impl FnOnce(&Guard) -> T,
    ) -> Result<T, StoreError> {
        let guard = self.guard.lock();
        // It may be ahead of what a failed write left.
        if self.failed.load(Ordering::Acquire) {
            return Err(StoreError::Failed);
        }
        Ok(guard.as_ref().map(look).unwrap_or_default())
    }

    /// A record as it is now.
    pub(super) fn read(
        &self,
        kind: Kind,
        tenant: TenantId,
        id: &str,
    ) -> Result<Option<Record>, StoreError> {
        let address = Address { kind, tenant, id: id.to_owned() };
        loop {
            let live = self.files.live();
            let Some((head, short)) = head(&live, &address)? else { return Ok(None) };
            if head.pieces == 0 {
                return Ok(Some(record(address, head, short)));
            }
            // One that was replaced between two reads: the record as it is now is the answer.
            if let Some(body) = long_body(&live, &address, &head)? {
                return Ok(Some(record(address, head, body)));
            }
        }
    }

    /// Records as they are now, unless their long bodies have more bytes than that: then how many.
    pub(super) fn read_at_most(
        &self,
        (kind, tenant): (Kind, TenantId),
        ids: &[&str],
        bytes_max: usize,
    ) -> Result<Result<Vec<Option<Record>>, usize>, StoreError> {
        let (live, mut found, mut bytes) = (self.files.live(), Vec::with_capacity(ids.len()), 0);
        let mut are_long = false;
        for id in ids {
            let address = Address { kind, tenant, id: (*id).to_owned() };
            let head = head(&live, &address)?;
            let long = head.as_ref().map_or(0, |(head, _)| long_bytes(head));
            (bytes, are_long) = (bytes + long, are_long || long > 0);
            found.push(head.map(|(head, short)| record(address, head, short)));
        }
        if bytes > bytes_max {
            return Ok(Err(bytes));
        }
        if are_long {
            found = ids.iter().map(|id| self.read(kind, tenant, id)).collect::<Result<_, _>>()?;
        }
        Ok(Ok(found))
    }

    /// A page, of one moment, unless its long bodies have more bytes than that: then how many.
    pub(super) async fn read_page(
        &self,
        whose: (Kind, TenantId),
        filter: &Filter,
        (start, size): (&Start, usize),
        bytes_max: usize,
    ) -> Result<Result<Slice, usize>, StoreError> {
        let mut ids = Vec::new();
        filter.named_ids(&mut ids);
        if size == 0 && ids.is_empty() {
            // Of the index alone, which changes as a whole.
            let page = self.find_page(whose, filter, start, size)?;
            return self.show_page(page, Bodies::new()).map(Ok);
        }
        let mut bodies = Bodies::new();
        let mut reads = 0;
        loop {
            reads += 1;
            let find = || self.find_page(whose, filter, start, size);
            let page = self.moments.read(whose, find).await?;
            let bytes = page.heads.iter().map(|(_, head, _)| long_bytes(head)).sum();
            if bytes > bytes_max {
                return Ok(Err(bytes));
            }
            if page.read_bodies(&mut bodies)? || reads == READS_MAX {
                return self.show_page(page, bodies).map(Ok);
            }
        }
    }

    fn find_page(
        &self,
        (kind, tenant): (Kind, TenantId),
        filter: &Filter,
        start: &Start,
        size: usize,
    ) -> Result<Page, StoreError> {
        let live = self.files.live();
        let mut wanted = Vec::new();
        filter.named_ids(&mut wanted);
        let mut ids = HashMap::with_capacity(wanted.len());
        for id in wanted {
            let address = Address { kind, tenant, id: id.to_owned() };
            if let Some((head, _)) = head(&live, &address)? {
                ids.insert(address.id, head.order_ms);
            }
        }
        let Found { total, page, more } =
            steps::page(&self.index, (kind, tenant), filter, (start, size), &ids);
        let next = page.last().filter(|_| more).cloned();
        let mut heads = Vec::with_capacity(page.len());
        for Position { id, .. } in page {
            let address = Address { kind, tenant, id };
            // One that was removed since the index was asked is left out.
            heads.extend(head(&live, &address)?.map(|(head, short)| (address, head, short)));
        }
        Ok(Page { live, total, next, heads })
    }

    fn show_page(&self, page: Page, mut bodies: Bodies) -> Result<Slice, StoreError> {
        let mut records = Vec::with_capacity(page.heads.len());
        for (address, head, short) in page.heads {
            if head.pieces == 0 {
                records.push(record(address, head, short));
            } else if let Some((head, body)) = bodies.remove(&address.id) {
                records.push(record(address, head, body));
            } else {
                records.extend(self.read(address.kind, address.tenant, &address.id)?);
            }
        }
        Ok(Slice { total: page.total, records, next: page.next })
    }
}

impl Page {
    /// Reads its long bodies, but for those that were read before; says whether none was replaced meanwhile.
    fn read_bodies(&self, bodies: &mut Bodies) -> Result<bool, StoreError> {
        let mut before = std::mem::take(bodies);
        let mut whole = true;
        for (address, head, _) in self.heads.iter().filter(|(_, head, _)| head.pieces > 0) {
            let known = before.remove(&address.id).filter(|(known, _)| known == head);
            let read = match known {
                Some((_, body)) => Some(body),
                None => long_body(&self.live, address, head)?,
            };
            match read {
                Some(body) => drop(bodies.insert(address.id.clone(), (head.clone(), body))),
                None => whole = false,
            }
        }
        Ok(whole)
    }
}

/// Bytes of a body that lies in pieces, about; 0 of one that does not.
fn long_bytes(head: &Head) -> usize {
    usize::try_from(head.pieces).unwrap_or(usize::MAX).saturating_mul(PIECE_BYTES)
}

/// The pieces of a body; nothing if the record was replaced or removed meanwhile.
fn long_body(live: &Live, address: &Address, head: &Head) -> Result<Option<Vec<u8>>, StoreError> {
    let mut body = Vec::new();
    let mut missing = false;
    for number in 0..head.pieces {
        let piece = live.tree.get(address.piece_key(head.version, number)).map_err(unreadable)?;
        let Some(piece) = piece else {
            missing = true;
            break;
        };
        body.extend_from_slice(&piece);
    }
    // One that was removed and made anew might have the same version, and has another tag.
    let is_there = self::head(live, address)?.is_some_and(|(now, _)| now == *head);
    if is_there && missing {
        return Err(StoreError::Damaged("a piece of a record is missing".to_owned()));
    }
    Ok(Some(body).filter(|_| is_there))
}

fn record(address: Address, head: Head, body: Vec<u8>) -> Record {
    let Address { kind, tenant, id } = address;
    let Head { version, order_ms, terms, numbers, uniques, .. } = head;
    Record { kind, tenant, id, version, order_ms, body, terms, numbers, uniques }
}

fn head(live: &Live, address: &Address) -> Result<Option<(Head, Vec<u8>)>, StoreError> {
    let Some(value) = packs::head_value(&live.tree, address)? else { return Ok(None) };
    let (head, body) = Head::read(&value)?;
    Ok(Some((head, body.to_vec())))
}
