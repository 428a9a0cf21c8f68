//! Walking through a store that nobody writes to: every row is read and compared with what it should be.
//!
//! Records are held against their tags, index rows and unique values against the records, log entries against their
//! chain ([`chain`]), and all of them together against the ledgers. A record that was changed is named once.

mod chain;
mod records;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::Path;

use sled::{Db, IVec, Tree};

use self::chain::Chains;
use super::failure::unreadable;
use super::files::newest;
use super::folder::open_database;
use super::guard::{self, Ledger, read_ledger_key};
use super::journal::Unsettled;
use super::note::{NOTE_KEY, Note};
use super::rows::{
    Address, FORMAT_2, FORMAT_KEY, HEAD_PREFIX, Head, INDEX_PREFIX, IndexRow, LEDGER_KEY,
    LEFT_PREFIX, Left, PACK_PREFIX, PIECE_PREFIX, TENANT_LEDGER_PREFIX, UNIQUE_PREFIX, is_first,
    is_read, read_unique,
};
use super::{packs, protect};
use crate::crypto::integrity::Sum;
use crate::model::id::TenantId;
use crate::store::{
    ChainHead, Damage, Examiner, Inspect, Kind, Protection, Record, StoreError, Unique, Walked,
};

/// A store in a folder that is nobody else's. Opening it may write to it, as sled does: give it a copy.
pub struct Inspection {
    tree: Tree,
    is_cut_short: bool,
    _database: Db,
}

impl Inspection {
    /// Opens the store.
    pub fn open(folder: &Path, cache_bytes: u64) -> Result<Self, StoreError> {
        let database = open_database(&newest(folder)?, cache_bytes)?;
        let tree: Tree = (*database).clone();
        let format = tree.get(FORMAT_KEY).map_err(unreadable)?;
        if format.is_some_and(|format| !is_read(&format)) {
            // Another version may have written it.
            return Err(StoreError::Unavailable("its format is not known".to_owned()));
        }
        // Reading needs no sync: the files are a copy.
        let Unsettled { groups, is_cut_short, .. } = Unsettled::of_store(folder, &tree)?;
        for rows in groups {
            rows.apply(&tree)?;
        }
        Ok(Self { tree, is_cut_short, _database: database })
    }

    fn read(&self, address: Address) -> Option<Record> {
        let value = packs::head_value(&self.tree, &address).ok()??;
        protect::record(&self.tree, address, &value).ok().map(|(record, _)| record)
    }
}

impl Inspect for Inspection {
    fn find(&self, kind: Kind, tenant: TenantId, id: &str) -> Option<Record> {
        self.read(Address { kind, tenant, id: id.to_owned() })
    }

    fn is_empty(&self) -> Result<bool, StoreError> {
        for prefix in [HEAD_PREFIX, PACK_PREFIX] {
            if self.tree.scan_prefix(prefix).next().transpose().map_err(unreadable)?.is_some() {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn walk(
        &self,
        protection: &Protection,
        examiner: &mut dyn Examiner,
        heads: &[ChainHead],
        damaged: &mut dyn FnMut(Damage),
    ) -> Result<Walked, StoreError> {
        let is_older = match self.tree.get(FORMAT_KEY).map_err(unreadable)? {
            Some(format) if is_first(&format) => {
                let older = "it is of an earlier version and not protected yet; the server brings \
                    it up to date when it starts";
                return Err(StoreError::Unavailable(older.to_owned()));
            }
            Some(format) if is_read(&format) => format == FORMAT_2,
            _ => return Err(StoreError::Damaged("its format is not known".to_owned())),
        };
        let mut walk = Walk {
            tree: &self.tree,
            inspection: self,
            protection,
            found: HashMap::new(),
            walked: Walked { is_cut_short: self.is_cut_short, ..Walked::default() },
            damaged,
        };
        if is_older && walk.rows(PACK_PREFIX).next().is_some() {
            walk.of_tenant(None, "the format is not that of its rows");
        }
        let kept = walk.ledgers()?;
        let mut chains = Chains::new(&protection.key, &kept, heads);
        walk.records(examiner, &mut chains)?;
        walk.index_rows()?;
        walk.uniques()?;
        walk.pieces()?;
        walk.others()?;
        walk.balance(&kept);
        chains.finish(&mut walk.walked, &mut |damage| {
            (walk.damaged)(damage);
        });
        Ok(walk.walked)
    }
}

struct Walk<'w> {
    tree: &'w Tree,
    inspection: &'w Inspection,
    protection: &'w Protection,
    /// What there is of each tenant.
    found: HashMap<TenantId, Ledger>,
    walked: Walked,
    damaged: &'w mut dyn FnMut(Damage),
}

impl Walk<'_> {
    fn rows(
        &self,
        prefix: &[u8],
    ) -> impl Iterator<Item = Result<(IVec, IVec), StoreError>> + use<> {
        self.tree.scan_prefix(prefix).map(|row| row.map_err(unreadable))
    }

    fn damage(&mut self, address: &Address, what: &str) {
        let Address { kind, tenant, id } = address.clone();
        self.tell(Damage { kind: Some(kind), tenant: Some(tenant), id, what: what.to_owned() });
    }

    fn of_tenant(&mut self, tenant: Option<TenantId>, what: &str) {
        self.tell(Damage { kind: None, tenant, id: String::new(), what: what.to_owned() });
    }

    fn tell(&mut self, damage: Damage) {
        self.walked.damages += 1;
        (self.damaged)(damage);
    }

    /// The tenants' ledgers as they are kept.
    fn ledgers(&mut self) -> Result<HashMap<TenantId, Ledger>, StoreError> {
        let (mut kept, mut all) = (HashMap::new(), Ledger::default());
        for row in self.rows(TENANT_LEDGER_PREFIX) {
            let (key, sealed) = row?;
            let tenant = read_ledger_key(&key);
            match tenant.and_then(|_| guard::open(self.protection, tenant, &sealed)) {
                Some(ledger) => {
                    all.records = all.records.wrapping_add(ledger.records);
                    all.sum.add_sum(ledger.sum);
                    kept.extend(tenant.map(|tenant| (tenant, ledger)));
                }
                None => self.of_tenant(tenant, "the ledger was changed"),
            }
            all.chain.last.0 += 1;
        }
        let sealed = self.tree.get(LEDGER_KEY).map_err(unreadable)?;
        match sealed.map(|sealed| guard::open(self.protection, None, &sealed)) {
            None => self.of_tenant(None, "the ledger over all tenants is missing"),
            Some(None) => self.of_tenant(None, "the ledger over all tenants was changed"),
            Some(Some(over_all)) if over_all != all => {
                self.of_tenant(None, "the tenants' ledgers are not those of one time");
            }
            Some(Some(_)) => {}
        }
        Ok(kept)
    }

    fn head(&self, address: &Address) -> Result<Option<Head>, StoreError> {
        let value = packs::head_value(self.tree, address)?;
        Ok(value.and_then(|value| Some(Head::read(&value).ok()?.0)))
    }

    fn index_rows(&mut self) -> Result<(), StoreError> {
        for row in self.rows(INDEX_PREFIX) {
            let (key, value) = row?;
            // The value was compared when the record was at hand; here it only has to be one.
            let Ok(IndexRow { kind, tenant, id, order_ms, .. }) = IndexRow::read(&key, &value)
            else {
                self.of_tenant(None, "an index row is cut short");
                continue;
            };
            let address = Address { kind, tenant, id };
            // What lies in a pack has no index row.
            let own = self.tree.get(address.head_key()).map_err(unreadable)?;
            let head = own.and_then(|value| Some(Head::read(&value).ok()?.0));
            if head.is_none_or(|head| head.order_ms != order_ms) {
                self.damage(&address, "an index row is of no record");
            }
        }
        Ok(())
    }

    fn uniques(&mut self) -> Result<(), StoreError> {
        for row in self.rows(UNIQUE_PREFIX) {
            let (key, value) = row?;
            let unique = key.get(2..).and_then(|unique| <[u8; 32]>::try_from(unique).ok());
            let kind = key.get(1).copied().map(Kind);
            let (Some(unique), Some(kind), Ok((tenant, id))) = (unique, kind, read_unique(&value))
            else {
                self.of_tenant(None, "a row of a unique value is cut short");
                continue;
            };
            let address = Address { kind, tenant, id };
            let has = |head: Head| head.uniques.contains(&Unique(unique));
            if !self.head(&address)?.is_some_and(has) {
                self.damage(&address, "a unique value is of no record");
            }
        }
        Ok(())
    }

    fn pieces(&mut self) -> Result<(), StoreError> {
        let has = |head: Option<&Head>, version, number| {
            head.is_some_and(|head| head.version == version && number < head.pieces)
        };
        let mut last: Option<(Address, Option<Head>)> = None;
        for row in self.rows(PIECE_PREFIX) {
            let (key, _) = row?;
            let Ok((address, version, number)) = Address::of_piece_key(&key) else {
                self.of_tenant(None, "a piece has a key that is none");
                continue;
            };
            if last.as_ref().is_none_or(|(seen, _)| *seen != address) {
                last = Some((address.clone(), self.head(&address)?));
            }
            if has(last.as_ref().and_then(|(_, head)| head.as_ref()), version, number) {
                continue;
            }
            // A process that was ended leaves pieces, with a note.
            let note = Left { address: address.clone(), version, pieces: 0 }.key();
            if self.tree.get(note).map_err(unreadable)?.is_none() {
                self.damage(&address, "a piece is of no record");
            }
        }
        for row in self.rows(LEFT_PREFIX) {
            let (key, value) = row?;
            match Left::read(&key, &value) {
                Err(_) => self.of_tenant(None, "a note of pieces is cut short"),
                Ok(left) => {
                    if has(self.head(&left.address)?.as_ref(), left.version, 0) {
                        self.damage(&left.address, "pieces of it are noted as nobody's");
                    }
                }
            }
        }
        Ok(())
    }

    /// Rows of no kind that there is.
    fn others(&mut self) -> Result<(), StoreError> {
        if Note::read(self.tree).is_err() {
            self.of_tenant(None, "what is said of the journal was changed");
        }
        let known: [&[u8]; 10] = [
            TENANT_LEDGER_PREFIX,
            HEAD_PREFIX,
            PACK_PREFIX,
            INDEX_PREFIX,
            UNIQUE_PREFIX,
            PIECE_PREFIX,
            LEFT_PREFIX,
            FORMAT_KEY,
            LEDGER_KEY,
            NOTE_KEY,
        ];
        // From behind each kind on: nobody looks at what was looked at.
        let mut next = Some(Vec::new());
        while let Some(from) = next.take() {
            let Some(row) = self.tree.range(from..).next() else { break };
            let (key, _) = row.map_err(unreadable)?;
            if let Some(prefix) = known.iter().find(|prefix| key.starts_with(prefix)) {
                let mut behind = prefix.to_vec();
                if behind.len() == 1 {
                    behind[0] += 1;
                } else {
                    behind = [key.as_ref(), &[0]].concat();
                }
                next = Some(behind);
            } else {
                self.of_tenant(None, "there is a row of an unknown kind");
                next = Some([key.as_ref(), &[0]].concat());
            }
        }
        Ok(())
    }

    /// Holds what there is against what the ledgers say there should be.
    fn balance(&mut self, kept: &HashMap<TenantId, Ledger>) {
        let found = std::mem::take(&mut self.found);
        let mut tenants: Vec<TenantId> = kept.keys().chain(found.keys()).copied().collect();
        tenants.sort_unstable();
        tenants.dedup();
        for tenant in tenants {
            let there = found.get(&tenant).copied().unwrap_or_default();
            let should = kept.get(&tenant).copied().unwrap_or_default();
            let (records, sum): (u64, Sum) = (there.records, there.sum);
            if records < should.records {
                let missing = should.records - records;
                self.of_tenant(Some(tenant), &format!("{missing} records are missing"));
            } else if records > should.records {
                let more = records - should.records;
                self.of_tenant(
                    Some(tenant),
                    &format!("{more} records are there that were removed"),
                );
            } else if sum != should.sum {
                let what = "records are not those of the last commit: one was put back as it was \
                    earlier, or its tag was changed";
                self.of_tenant(Some(tenant), what);
            }
        }
    }
}
