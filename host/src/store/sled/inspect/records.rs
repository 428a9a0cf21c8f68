//! Records, wherever they lie: each is held against its tag, its index row and its unique values.

use sled::IVec;

use super::super::failure::unreadable;
use super::super::guard::{content, summed, tagged};
use super::super::rows::{
    Address, HEAD_PREFIX, Head, PACK_PREFIX, index_value, unique_key, unique_value,
};
use super::super::{packs, protect};
use super::Walk;
use super::chain::{Chains, Entry};
use crate::crypto::integrity;
use crate::model::id::TenantId;
use crate::store::{Examiner, Inspect as _, Record, StoreError};

impl Walk<'_> {
    /// Walks through records with rows of their own and those in packs, by their ids: about as chains go.
    pub(super) fn records(
        &mut self,
        examiner: &mut dyn Examiner,
        chains: &mut Chains<'_>,
    ) -> Result<(), StoreError> {
        let mut heads = self.rows(HEAD_PREFIX).peekable();
        let mut packed = self.rows(PACK_PREFIX).peekable();
        loop {
            let pack_is_next = match (heads.peek(), packed.peek()) {
                (Some(Ok((head, _))), Some(Ok((pack, _)))) => pack[1..] < head[1..],
                (head, pack) => head.is_none() && pack.is_some(),
            };
            if pack_is_next && let Some(row) = packed.next() {
                let (key, pack) = row?;
                self.pack(&key, &pack, (&mut *examiner, &mut *chains))?;
                continue;
            }
            let Some(row) = heads.next() else { return Ok(()) };
            let (key, value) = row?;
            let Ok(address) = Address::of_head_key(&key) else {
                self.of_tenant(None, "a row has a key that is none");
                continue;
            };
            self.record(&address, &value, None, (&mut *examiner, &mut *chains))?;
        }
    }

    fn pack(
        &mut self,
        key: &IVec,
        pack: &IVec,
        (examiner, chains): (&mut dyn Examiner, &mut Chains<'_>),
    ) -> Result<(), StoreError> {
        let Ok(entries) = packs::entries(key, pack) else {
            self.of_tenant(None, "a row of several records is cut short, or moved");
            return Ok(());
        };
        for (address, value) in entries {
            self.record(&address, &value, Some(key), (&mut *examiner, &mut *chains))?;
        }
        Ok(())
    }

    fn record(
        &mut self,
        address: &Address,
        value: &IVec,
        pack: Option<&IVec>,
        (examiner, chains): (&mut dyn Examiner, &mut Chains<'_>),
    ) -> Result<(), StoreError> {
        self.walked.records += 1;
        let Ok((record, head)) = protect::record(self.tree, address.clone(), value) else {
            self.damage(address, "is cut short, or a piece of it is missing");
            return Ok(());
        };
        let inspection = self.inspection;
        let find = |kind, tenant: TenantId, id: &str| inspection.find(kind, tenant, id);
        let seen = examiner.examine(&record, &find);
        if let (Some(text), Some(link)) = (seen.chained, head.link()) {
            self.walked.entries += 1;
            let text = (!seen.erased).then_some(text);
            let entry = Entry { address: address.clone(), order_ms: head.order_ms, text, link };
            let (walked, damaged) = (&mut self.walked, &mut *self.damaged);
            chains.take(entry, walked, damaged);
        }
        if let Some(what) = self.fault(address, &head, &record, pack)? {
            self.damage(address, what);
        } else if let Some(what) = seen.fault {
            self.damage(address, what);
        } else if seen.chained.is_some() != head.link().is_some() {
            self.damage(address, "has no place in the log, or one that it should not have");
        }
        Ok(())
    }

    /// What is wrong with a record or its rows.
    fn fault(
        &mut self,
        address: &Address,
        head: &Head,
        record: &Record,
        pack: Option<&IVec>,
    ) -> Result<Option<&'static str>, StoreError> {
        let Some(seal) = &head.seal else { return Ok(Some("has no tag")) };
        let key = &self.protection.key;
        let element = key.element(&summed(address, &seal.tag));
        self.found.entry(address.tenant).or_default().add(&element);
        let content = content((&record.terms, &record.numbers, &record.uniques), &record.body);
        if !integrity::same(&key.tag(&tagged(address, head, &content, seal.link)), &seal.tag) {
            return Ok(Some("was changed"));
        }
        let get = |key: Vec<u8>| self.tree.get(key).map_err(unreadable);
        if let Some(pack) = pack {
            let found = packs::find(self.tree, address)?;
            if found.is_none_or(|(key, ..)| key != pack) {
                return Ok(Some("lies where it is not looked for"));
            }
        } else {
            match get(address.index_key(head.order_ms))? {
                None => return Ok(Some("its index row is missing")),
                Some(row) if row != index_value(&head.terms, &head.numbers) => {
                    return Ok(Some("its index row was changed"));
                }
                Some(_) => {}
            }
        }
        for unique in &head.uniques {
            let owner = get(unique_key(address.kind, *unique))?;
            if owner.is_none_or(|owner| owner != unique_value(address.tenant, &address.id)) {
                return Ok(Some("a unique value of it is missing or another's"));
            }
        }
        Ok(None)
    }
}
