//! The chains of log entries, as a walk comes by their entries: by their ids, and so nearly in their order.
//!
//! Where a clock was ahead for a while, entries of that time have ids behind those of many that were made after it. So
//! what is there is kept as stretches of entries that follow from each other, each as long as it is then found to be: a
//! walk keeps little of them, however many there are and in whatever order they come. What is missing is known at its end.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use super::super::guard::{Ledger, linked};
use super::super::rows::{Address, Link};
use crate::crypto::integrity::{Hash, IntegrityKey, same};
use crate::model::id::TenantId;
use crate::store::{ChainHead, Damage, TextDigest, Walked};

const NOT_EXPORTED: &str = "is not the entry that an exported head tells of";
/// Said behind the damage where there are several heads of one number: one of them at most is of this log.
const CONTRADICTED: &str = "; exported heads of this number contradict each other";

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
    /// The last entry that the chain is known to lead to.
    last: (u64, Hash),
    /// Stretches of which it is not known yet how the chain leads to them, by the numbers of their first entries.
    waiting: BTreeMap<u64, Stretch>,
    /// Exported heads whose entries did not come yet, by number. Of one number there may be several that differ: a store
    /// that was put back to an earlier time goes on with numbers that were given before.
    heads: BTreeMap<u64, BTreeSet<Hash>>,
}

/// Entries of which each was held against the one before it, but for the first.
struct Stretch {
    first: Entry,
    last: (u64, Hash),
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
            let heads = &mut chains.entry(head.tenant).or_default().heads;
            heads.entry(head.sequence).or_default().insert(head.hash);
        }
        Self { key, chains }
    }

    /// Takes an entry, and holds it against those beside it, as far as they are at hand.
    pub fn take(&mut self, entry: Entry, walked: &mut Walked, damaged: Damaged<'_>) {
        let chain = self.chains.entry(entry.address.tenant).or_default();
        if chain.has(entry.link.sequence) {
            let what = "its place in the log is another's, or was given up";
            walked.damages += 1;
            damaged(of_entry(&entry.address, what));
            return;
        }
        chain.pass_heads(&entry, walked, damaged);
        chain.join(self.key, entry, walked, damaged);
    }

    /// Tells what is missing.
    pub fn finish(self, walked: &mut Walked, damaged: Damaged<'_>) {
        let mut chains: Vec<_> = self.chains.into_iter().collect();
        chains.sort_unstable_by_key(|(tenant, _)| *tenant);
        for (tenant, mut chain) in chains {
            chain.leap(tenant, walked, damaged);
            chain.end(tenant, walked, damaged);
        }
    }
}

impl Chain {
    /// Whether there is an entry of this number already, or was one that is removed.
    fn has(&self, sequence: u64) -> bool {
        let before = self.waiting.range(..=sequence).next_back();
        let last = before.map_or(self.last, |(_, stretch)| stretch.last);
        sequence <= last.0
    }

    /// Compares an entry with the exported heads that tell of it, if there are any.
    fn pass_heads(&mut self, entry: &Entry, walked: &mut Walked, damaged: Damaged<'_>) {
        let heads = self.heads.remove(&entry.link.sequence).unwrap_or_default();
        for head in &heads {
            if same(head, &entry.link.hash) {
                walked.heads += 1;
            } else {
                walked.damages += 1;
                let what = format!("{NOT_EXPORTED}{}", contradicted(&heads));
                damaged(of_entry(&entry.address, &what));
            }
        }
    }

    /// Puts an entry between the stretches on both sides of it. What comes after an entry is held against what stands
    /// there, whether or not that follows itself: one damage is told once.
    fn join(
        &mut self,
        key: &IntegrityKey,
        entry: Entry,
        walked: &mut Walked,
        damaged: Damaged<'_>,
    ) {
        let Link { sequence, hash } = entry.link;
        let next = sequence.checked_add(1).and_then(|next| self.waiting.remove(&next));
        let last = next.as_ref().map_or((sequence, hash), |next| next.last);
        let before = self.waiting.range_mut(..sequence).next_back();
        let before = before.map_or(&mut self.last, |(_, stretch)| &mut stretch.last);
        if before.0 + 1 == sequence {
            follow(key, &entry, &before.1, walked, damaged);
            *before = last;
        } else {
            self.waiting.insert(sequence, Stretch { first: entry, last });
        }
        if let Some(next) = next {
            follow(key, &next.first, &hash, walked, damaged);
        }
    }

    /// Goes on after each gap. The hash of the last entry missing is not known: the first one there is taken as it is.
    fn leap(&mut self, tenant: TenantId, walked: &mut Walked, damaged: Damaged<'_>) {
        for (first, stretch) in std::mem::take(&mut self.waiting) {
            let (from, to) = (self.last.0 + 1, first - 1);
            walked.damages += 1;
            damaged(of_log(tenant, format!("entries {from} to {to} of the log are missing")));
            self.last = stretch.last;
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
        for (sequence, heads) in self.heads {
            let contradicted = contradicted(&heads);
            for (at, hash) in heads.iter().enumerate() {
                if sequence == removed.0 && same(hash, &removed.1) {
                    walked.heads += 1;
                } else if sequence < removed.0 && at == 0 {
                    // Of several, one may be the removed entry's; which one nobody knows any more.
                    walked.heads_removed += 1;
                } else if sequence > self.last.0 {
                    tell(format!(
                        "the log ends before entry {sequence}, of which an exported head tells{contradicted}"
                    ));
                } else {
                    tell(format!(
                        "entry {sequence}, of which an exported head tells, is another one{contradicted}"
                    ));
                }
            }
        }
    }
}

/// What is said of heads of one number, if they differ.
fn contradicted(heads: &BTreeSet<Hash>) -> &'static str {
    if heads.len() > 1 { CONTRADICTED } else { "" }
}

fn of_log(tenant: TenantId, what: String) -> Damage {
    Damage { kind: None, tenant: Some(tenant), id: String::new(), what }
}

fn of_entry(address: &Address, what: &str) -> Damage {
    let Address { kind, tenant, id } = address.clone();
    Damage { kind: Some(kind), tenant: Some(tenant), id, what: what.to_owned() }
}

/// Tells of an entry that does not follow from the hash of the one before it.
fn follow(
    key: &IntegrityKey,
    entry: &Entry,
    before: &Hash,
    walked: &mut Walked,
    damaged: Damaged<'_>,
) {
    let Entry { address, order_ms, text, link } = entry;
    let before = (link.sequence, before);
    // Where the text cannot be known, the tag of the record holds the entry in its place.
    let follows = |text| same(&key.link(&linked(address, *order_ms, before, text)), &link.hash);
    if !text.is_none_or(follows) {
        walked.damages += 1;
        damaged(of_entry(address, "does not follow from the entry before it"));
    }
}
