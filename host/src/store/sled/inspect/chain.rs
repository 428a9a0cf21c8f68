//! The chains of log entries, as a walk comes by their entries: nearly in their order, and held back until they are.

use std::collections::{BTreeMap, HashMap};

use super::super::guard::{Ledger, linked};
use super::super::rows::{Address, Link};
use crate::crypto::integrity::{Hash, IntegrityKey, same};
use crate::model::id::TenantId;
use crate::store::{ChainHead, Damage, TextDigest, Walked};

/// Entries of one tenant that wait for those before them. More than these, and what they wait for is missing.
const WAITING_MAX: usize = 100_000;
const NOT_EXPORTED: &str = "is not the entry that an exported head tells of";

/// A log entry, as far as the chain depends on it.
pub struct Entry {
    /// Where it lies.
    pub address: Address,
    /// When it was made.
    pub order_ms: u64,
    /// Its text; none of a tenant whose keys were destroyed.
    pub text: Option<TextDigest>,
    /// Its place.
    pub link: Link,
}

/// All chains.
pub struct Chains<'w> {
    key: &'w IntegrityKey,
    chains: HashMap<TenantId, Chain>,
}

#[derive(Default)]
struct Chain {
    /// What the ledger says, if it can be read.
    kept: Option<Ledger>,
    /// The last entry that was followed.
    last: (u64, Hash),
    waiting: BTreeMap<u64, Entry>,
    /// Exported heads still ahead, by number.
    heads: BTreeMap<u64, Hash>,
}

/// Where damages go.
type Damaged<'d> = &'d mut dyn FnMut(Damage);

impl<'w> Chains<'w> {
    /// Chains that begin where their ledgers say.
    pub fn new(
        key: &'w IntegrityKey,
        kept: &HashMap<TenantId, Ledger>,
        heads: &[ChainHead],
    ) -> Self {
        let mut chains: HashMap<TenantId, Chain> = HashMap::new();
        for (tenant, ledger) in kept {
            let chain = chains.entry(*tenant).or_default();
            chain.kept = Some(*ledger);
            chain.last = ledger.chain.removed;
        }
        for head in heads {
            chains.entry(head.tenant).or_default().heads.insert(head.sequence, head.hash);
        }
        Self { key, chains }
    }

    /// Takes an entry, and follows the chain as far as entries are at hand.
    pub fn take(&mut self, entry: Entry, walked: &mut Walked, damaged: Damaged<'_>) {
        let (tenant, kind) = (entry.address.tenant, entry.address.kind);
        let chain = self.chains.entry(tenant).or_default();
        let sequence = entry.link.sequence;
        if sequence <= chain.last.0 || chain.waiting.contains_key(&sequence) {
            walked.damages += 1;
            damaged(Damage {
                kind: Some(kind),
                tenant: Some(tenant),
                id: entry.address.id,
                what: "its place in the log is another's, or was given up".to_owned(),
            });
            return;
        }
        chain.waiting.insert(sequence, entry);
        chain.follow(self.key, walked, damaged);
        if chain.waiting.len() > WAITING_MAX {
            chain.leap(tenant, walked, damaged);
            chain.follow(self.key, walked, damaged);
        }
    }

    /// Tells what is missing.
    pub fn finish(self, walked: &mut Walked, damaged: Damaged<'_>) {
        let mut chains: Vec<_> = self.chains.into_iter().collect();
        chains.sort_unstable_by_key(|(tenant, _)| *tenant);
        for (tenant, mut chain) in chains {
            while !chain.waiting.is_empty() {
                chain.leap(tenant, walked, damaged);
                chain.follow(self.key, walked, damaged);
            }
            chain.end(tenant, walked, damaged);
        }
    }
}

impl Chain {
    fn follow(&mut self, key: &IntegrityKey, walked: &mut Walked, damaged: Damaged<'_>) {
        while let Some(entry) = self.waiting.remove(&(self.last.0 + 1)) {
            let Entry { address, order_ms, text, link } = entry;
            let before = (link.sequence, &self.last.1);
            let mut broken = |what: &str| {
                walked.damages += 1;
                damaged(Damage {
                    kind: Some(address.kind),
                    tenant: Some(address.tenant),
                    id: address.id.clone(),
                    what: what.to_owned(),
                });
            };
            // Where the text cannot be known, the tag of the record holds the entry in its place.
            let follows =
                |text| same(&key.link(&linked(&address, order_ms, before, text)), &link.hash);
            if !text.is_none_or(follows) {
                broken("does not follow from the entry before it");
            }
            match self.heads.remove(&link.sequence) {
                Some(head) if same(&head, &link.hash) => walked.heads += 1,
                Some(_) => broken(NOT_EXPORTED),
                None => {}
            }
            // What comes after is held against what stands here: one damage is told once.
            self.last = (link.sequence, link.hash);
        }
    }

    /// Goes on after a gap.
    fn leap(&mut self, tenant: TenantId, walked: &mut Walked, damaged: Damaged<'_>) {
        let Some((next, _)) = self.waiting.first_key_value() else { return };
        let (from, to) = (self.last.0 + 1, next - 1);
        walked.damages += 1;
        damaged(of_log(tenant, format!("entries {from} to {to} of the log are missing")));
        // The hash of the last one missing is not known: the first one there is taken as it is.
        if let Some(Entry { address, link, .. }) = self.waiting.remove(&(to + 1)) {
            self.last = (link.sequence, link.hash);
            match self.heads.remove(&link.sequence) {
                Some(head) if same(&head, &link.hash) => walked.heads += 1,
                None => {}
                Some(_) => {
                    walked.damages += 1;
                    damaged(Damage { id: address.id, ..of_log(tenant, NOT_EXPORTED.to_owned()) });
                }
            }
        }
    }

    fn end(self, tenant: TenantId, walked: &mut Walked, damaged: Damaged<'_>) {
        let mut tell = |what: String| {
            walked.damages += 1;
            damaged(of_log(tenant, what));
        };
        let (last, removed) = self
            .kept
            .map_or((self.last, (0, [0; 32])), |kept| (kept.chain.last, kept.chain.removed));
        if self.last.0 < last.0 {
            let (from, to) = (self.last.0 + 1, last.0);
            tell(format!("entries {from} to {to} of the log are missing"));
        } else if self.last != last {
            tell("the log ends elsewhere than its ledger says".to_owned());
        }
        for (sequence, hash) in self.heads {
            if sequence == removed.0 && same(&hash, &removed.1) {
                walked.heads += 1;
            } else if sequence < removed.0 {
                walked.heads_removed += 1;
            } else if sequence > self.last.0 {
                tell(format!(
                    "the log ends before entry {sequence}, of which an exported head tells"
                ));
            } else {
                tell(format!("entry {sequence}, of which an exported head tells, is another one"));
            }
        }
    }
}

fn of_log(tenant: TenantId, what: String) -> Damage {
    Damage { kind: None, tenant: Some(tenant), id: String::new(), what }
}
