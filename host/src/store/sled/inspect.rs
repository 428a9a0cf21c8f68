//! Walking through a store that nobody writes to: every row is read and compared with what it should be.
//!
//! Records are held against their tags, index rows and unique values against the records, log entries against their
//! chain ([`chain`]), and all of them together against the ledgers. A record that was changed is named once.

mod chain;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::path::Path;

use sled::{Db, IVec, Tree};

use self::chain::{Chains, Entry};
use super::files::newest;
use super::folder::open_database;
use super::guard::{self, Ledger, content, read_ledger_key, summed, tagged};
use super::protect;
use super::rows::{
    Address, FORMAT, FORMAT_1, FORMAT_KEY, HEAD_PREFIX, Head, INDEX_PREFIX, IndexRow, LEDGER_KEY,
    LEFT_PREFIX, Left, PIECE_PREFIX, TENANT_LEDGER_PREFIX, UNIQUE_PREFIX, index_value, read_unique,
    unique_key, unique_value,
};
use super::unavailable;
use crate::crypto::integrity::{self, Sum};
use crate::model::id::TenantId;
use crate::store::{
    ChainHead, Damage, Examiner, Inspect, Kind, Protection, Record, StoreError, Unique, Walked,
};

/// A store in a folder that is nobody else's. Opening it may write to it, as sled does: give it a copy.
pub struct Inspection {
    tree: Tree,
    _database: Db,
}

impl Inspection {
    /// Opens the store.
    pub fn open(folder: &Path, cache_bytes: u64) -> Result<Self, StoreError> {
        let database = open_database(&newest(folder)?, cache_bytes)?;
        Ok(Self { tree: (*database).clone(), _database: database })
    }

    fn read(&self, address: Address) -> Option<Record> {
        let value = self.tree.get(address.head_key()).ok()??;
        protect::record(&self.tree, address, &value).ok().map(|(record, _)| record)
    }
}

impl Inspect for Inspection {
    fn find(&self, kind: Kind, tenant: TenantId, id: &str) -> Option<Record> {
        self.read(Address { kind, tenant, id: id.to_owned() })
    }

    fn walk(
        &self,
        protection: &Protection,
        examiner: &mut dyn Examiner,
        heads: &[ChainHead],
        damaged: &mut dyn FnMut(Damage),
    ) -> Result<Walked, StoreError> {
        match self.tree.get(FORMAT_KEY).map_err(unavailable)? {
            Some(format) if format == FORMAT => {}
            Some(format) if format == FORMAT_1 => {
                let older = "it is of an earlier version and not protected yet; the server brings \
                    it up to date when it starts";
                return Err(StoreError::Damaged(older.to_owned()));
            }
            _ => return Err(StoreError::Damaged("its format is not known".to_owned())),
        }
        let mut walk = Walk {
            tree: &self.tree,
            inspection: self,
            protection,
            found: HashMap::new(),
            walked: Walked::default(),
            damaged,
        };
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
        self.tree.scan_prefix(prefix).map(|row| row.map_err(unavailable))
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
        let sealed = self.tree.get(LEDGER_KEY).map_err(unavailable)?;
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

    fn records(
        &mut self,
        examiner: &mut dyn Examiner,
        chains: &mut Chains<'_>,
    ) -> Result<(), StoreError> {
        for row in self.rows(HEAD_PREFIX) {
            let (key, value) = row?;
            let Ok(address) = Address::of_head_key(&key) else {
                self.of_tenant(None, "a row has a key that is none");
                continue;
            };
            self.walked.records += 1;
            let Ok((record, head)) = protect::record(self.tree, address.clone(), &value) else {
                self.damage(&address, "is cut short, or a piece of it is missing");
                continue;
            };
            let inspection = self.inspection;
            let find = |kind, tenant, id: &str| inspection.find(kind, tenant, id);
            let seen = examiner.examine(&record, &find);
            if let (Some(text), Some(link)) = (seen.chained, head.link()) {
                self.walked.entries += 1;
                let text = (!seen.erased).then_some(text);
                let entry = Entry { address: address.clone(), order_ms: head.order_ms, text, link };
                let (walked, damaged) = (&mut self.walked, &mut *self.damaged);
                chains.take(entry, walked, damaged);
            }
            if let Some(what) = self.fault(&address, &head, &record)? {
                self.damage(&address, what);
            } else if let Some(what) = seen.fault {
                self.damage(&address, what);
            } else if seen.chained.is_some() != head.link().is_some() {
                self.damage(&address, "has no place in the log, or one that it should not have");
            }
        }
        Ok(())
    }

    /// What is wrong with a record or its rows.
    fn fault(
        &mut self,
        address: &Address,
        head: &Head,
        record: &Record,
    ) -> Result<Option<&'static str>, StoreError> {
        let Some(seal) = &head.seal else { return Ok(Some("has no tag")) };
        let key = &self.protection.key;
        let element = key.element(&summed(address, &seal.tag));
        self.found.entry(address.tenant).or_default().add(&element);
        let content = content((&record.terms, &record.numbers, &record.uniques), &record.body);
        if !integrity::same(&key.tag(&tagged(address, head, &content, seal.link)), &seal.tag) {
            return Ok(Some("was changed"));
        }
        let get = |key: Vec<u8>| self.tree.get(key).map_err(unavailable);
        match get(address.index_key(head.order_ms))? {
            None => return Ok(Some("its index row is missing")),
            Some(row) if row != index_value(&head.terms, &head.numbers) => {
                return Ok(Some("its index row was changed"));
            }
            Some(_) => {}
        }
        for unique in &head.uniques {
            let owner = get(unique_key(address.kind, *unique))?;
            if owner.is_none_or(|owner| owner != unique_value(address.tenant, &address.id)) {
                return Ok(Some("a unique value of it is missing or another's"));
            }
        }
        Ok(None)
    }

    fn head(&self, address: &Address) -> Result<Option<Head>, StoreError> {
        let value = self.tree.get(address.head_key()).map_err(unavailable)?;
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
            if self.head(&address)?.is_none_or(|head| head.order_ms != order_ms) {
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
            if self.tree.get(note).map_err(unavailable)?.is_none() {
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
        let known: [&[u8]; 8] = [
            TENANT_LEDGER_PREFIX,
            HEAD_PREFIX,
            INDEX_PREFIX,
            UNIQUE_PREFIX,
            PIECE_PREFIX,
            LEFT_PREFIX,
            FORMAT_KEY,
            LEDGER_KEY,
        ];
        // From behind each kind on: nobody looks at what was looked at.
        let mut next = Some(Vec::new());
        while let Some(from) = next.take() {
            let Some(row) = self.tree.range(from..).next() else { break };
            let (key, _) = row.map_err(unavailable)?;
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
