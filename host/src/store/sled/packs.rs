//! Packs: records that are made durable together and hardly ever change, in one row.
//!
//! Most of what is written is log entries: every request writes one, and a list one for each token that it shows; and each
//! run of a formula leaves what is told of it. They come together, and almost none is ever written again. So those of one
//! group, kind and tenant lie in one row, each as its head row would have it, in the order of their ids, under the id of the
//! first. They have no index rows either: the entries themselves tell what they are found by. Tags, places in the chain and
//! ledgers are those of the entries, wherever these lie. They have no unique values and no pieces.
//!
//! An entry lies in the last pack that begins with its id or one before it, or, where others were put between, in one
//! before that: commits do not come in the order in which their ids were drawn. So that few can be put between, the ids
//! of a pack were drawn within a moment, and among packs that are there already a new one is a single entry. An entry
//! that is written anew or removed takes its pack apart: what is left of it gets rows as all other records have them,
//! and as all entries had in the format before packs ([`super::rows::FORMAT_2`]).

use sled::{IVec, Tree};

use super::changes::Rows;
use super::failure::unreadable;
use super::rows::{Address, cut_short};
use crate::store::StoreError;

/// Entries of a pack, at most.
const ENTRIES_MAX: usize = 32;
/// Bytes of a pack, about, at most: [`super::log`] says why rows must be short.
const BYTES_MAX: usize = 4 << 10;
/// Milliseconds within which the ids of a pack were drawn. A group takes some; what was drawn long before the others of
/// its group waited for room in the queue.
const STRETCH_MS_MAX: u64 = 8;
/// Packs that may begin between the entries of a new one. In usual times these are of the groups before, and a few.
const BETWEEN_MAX: usize = 64;
/// Packs that an entry is looked for in: those that were between when it was put, and what others put there later. They can
/// have drawn ids of the same moment before it was over, or again after a start with a clock that was set back.
const LOOKED_INTO_MAX: usize = 4_096;

/// The entries of a group, of all kinds and tenants, on their way into rows.
#[derive(Default)]
pub struct Packs(Vec<Entry>);

/// An entry: where it lies, and what its head row would hold.
type Entry = (Address, Vec<u8>);

impl Packs {
    /// Adds an entry, with what its head row would hold.
    pub fn add(&mut self, address: &Address, head: Vec<u8>) {
        self.0.push((address.clone(), head));
    }

    /// Adds all of them to the rows that go to this tree.
    pub fn finish(mut self, tree: &Tree, rows: &mut Rows) -> Result<(), StoreError> {
        let place = |(address, _): &Entry| (address.kind, address.tenant);
        self.0.sort_unstable_by(|one, other| {
            (place(one), &one.0.id).cmp(&(place(other), &other.0.id))
        });
        let mut rest = self.0.as_slice();
        while let Some((first, _)) = rest.first() {
            let mut bytes = 0;
            let fits = |(address, head): &&Entry| {
                bytes += 6 + address.id.len() + head.len();
                bytes <= BYTES_MAX
                    && (first.kind, first.tenant) == (address.kind, address.tenant)
                    && drawn_ms(address).abs_diff(drawn_ms(first)) <= STRETCH_MS_MAX
            };
            let count = rest.iter().take(ENTRIES_MAX).take_while(fits).count().max(1);
            let (pack, after) = rest.split_at(count);
            let between = first.pack_key()..=pack[count - 1].0.pack_key();
            let is_clear = count == 1 || {
                let packs = tree.range(between).take(BETWEEN_MAX);
                packs.collect::<Result<Vec<_>, _>>().map_err(unreadable)?.len() < BETWEEN_MAX
            };
            for pack in pack.chunks(if is_clear { count } else { 1 }) {
                let mut packed = Vec::new();
                for (address, head) in pack {
                    write_part(&mut packed, address.id.as_bytes());
                    write_part(&mut packed, head);
                }
                rows.insert(pack[0].0.pack_key(), packed);
            }
            rest = after;
        }
        Ok(())
    }
}

/// When the id of an entry was drawn: the first 48 bits of a UUID of version 7. Of any other id nothing is known.
fn drawn_ms(address: &Address) -> u64 {
    let id = uuid::Uuid::try_parse(&address.id).unwrap_or_default();
    id.as_u64_pair().0 >> 16
}

fn write_part(packed: &mut Vec<u8>, part: &[u8]) {
    // Ids and heads are far shorter than that.
    packed.extend_from_slice(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes()[1..]);
    packed.extend_from_slice(part);
}

fn take_part(packed: &[u8], at: &mut usize) -> Result<std::ops::Range<usize>, StoreError> {
    let length =
        packed.get(*at..).and_then(|rest| rest.first_chunk::<3>()).ok_or_else(cut_short)?;
    let [a, b, c] = *length;
    let start = *at + 3;
    let end = start + u32::from_be_bytes([0, a, b, c]) as usize;
    if end > packed.len() {
        return Err(cut_short());
    }
    *at = end;
    Ok(start..end)
}

/// The entries of a pack, each with what its head row would hold. What is no pack is an error.
pub fn entries(key: &[u8], packed: &IVec) -> Result<Vec<(Address, IVec)>, StoreError> {
    let first = Address::of_head_key(key)?;
    let mut entries: Vec<(Address, IVec)> = Vec::new();
    let mut at = 0;
    while at < packed.len() {
        let id = take_part(packed, &mut at)?;
        let head = take_part(packed, &mut at)?;
        let id = std::str::from_utf8(&packed[id]).map_err(|_| cut_short())?.to_owned();
        let expected = match entries.last() {
            Some((last, _)) => last.id < id,
            None => first.id == id,
        };
        if !expected {
            return Err(cut_short());
        }
        let address = Address { id, ..first.clone() };
        entries.push((address, packed.subslice(head.start, head.len())));
    }
    if entries.is_empty() { Err(cut_short()) } else { Ok(entries) }
}

/// Where an entry lies in a pack: what its head row would hold.
fn within(packed: &IVec, wanted: &str) -> Result<Option<IVec>, StoreError> {
    let mut at = 0;
    while at < packed.len() {
        let id = take_part(packed, &mut at)?;
        let head = take_part(packed, &mut at)?;
        if packed[id] == *wanted.as_bytes() {
            return Ok(Some(packed.subslice(head.start, head.len())));
        }
    }
    Ok(None)
}

/// The key of the pack that has an entry, the pack, and what the entry's head row would hold.
pub fn find(tree: &Tree, address: &Address) -> Result<Option<(IVec, IVec, IVec)>, StoreError> {
    let key = address.pack_key();
    let first = Address { id: String::new(), ..address.clone() }.pack_key();
    for row in tree.range(first..=key).rev().take(LOOKED_INTO_MAX) {
        let (key, packed) = row.map_err(unreadable)?;
        if let Some(head) = within(&packed, &address.id)? {
            return Ok(Some((key, packed, head)));
        }
    }
    Ok(None)
}

/// What the head row of a record holds, or would hold if the record has none of its own.
pub fn head_value(tree: &Tree, address: &Address) -> Result<Option<IVec>, StoreError> {
    Ok(look_up(tree, address)?.map(|(value, _)| value))
}

/// The same, and whether it lies in a pack.
pub fn look_up(tree: &Tree, address: &Address) -> Result<Option<(IVec, bool)>, StoreError> {
    let own = || tree.get(address.head_key()).map_err(unreadable);
    if let Some(value) = own()? {
        return Ok(Some((value, false)));
    }
    match find(tree, address)? {
        Some((_, _, head)) => Ok(Some((head, true))),
        // Its pack may have been taken apart between the two looks.
        None => Ok(own()?.map(|value| (value, false))),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;
    use sled::{IVec, Tree};

    use super::{
        BYTES_MAX, ENTRIES_MAX, Packs, STRETCH_MS_MAX, drawn_ms, entries, find, head_value,
    };
    use crate::model::id::TenantId;
    use crate::store::Kind;
    use crate::store::sled::changes::Rows;
    use crate::store::sled::rows::Address;

    fn tree() -> (Tree, sled::Db) {
        let database = sled::Config::new().temporary(true).open().unwrap();
        ((*database).clone(), database)
    }

    fn address(tenant: u128, id: &str) -> Address {
        let tenant = TenantId(uuid::Uuid::from_u128(tenant));
        Address { kind: Kind(9), tenant, id: id.to_owned() }
    }

    fn write<'a>(tree: &Tree, entries: impl IntoIterator<Item = (&'a Address, &'a [u8])>) {
        let (mut rows, mut packs) = (Rows::default(), Packs::default());
        for (address, head) in entries {
            packs.add(address, head.to_vec());
        }
        packs.finish(tree, &mut rows).unwrap();
        tree.apply_batch(rows.into_batch()).unwrap();
    }

    #[test]
    fn a_pack_is_bounded_and_of_one_log() {
        let (tree, _database) = tree();
        let many: Vec<Address> = (0..100).map(|id| address(1, &format!("a{id:03}"))).collect();
        write(&tree, many.iter().map(|address| (address, b"head".as_slice())));
        assert_eq!(tree.len(), 100_usize.div_ceil(ENTRIES_MAX));
        tree.clear().unwrap();
        // In whatever order they come, those of each log lie together.
        let (one, other) = (address(1, "b"), address(2, "b"));
        write(&tree, [(&one, b"x".as_slice()), (&other, b"x"), (&many[0], b"x"), (&many[9], b"x")]);
        assert_eq!(tree.len(), 2);
        let (key, pack) = tree.first().unwrap().unwrap();
        let ids = entries(&key, &pack).unwrap().into_iter().map(|(address, _)| address.id);
        assert_eq!(ids.collect::<Vec<_>>(), ["a000", "a009", "b"]);
        tree.clear().unwrap();
        let long = vec![1; BYTES_MAX / 2 - 20];
        write(&tree, many.iter().take(4).map(|address| (address, long.as_slice())));
        assert_eq!(tree.len(), 2);
        write(&tree, [(&address(1, "z"), vec![1; BYTES_MAX * 2].as_slice())]);
        assert!(find(&tree, &address(1, "z")).unwrap().is_some());
    }

    #[test]
    fn an_entry_is_found_past_those_that_were_put_between() {
        let (tree, _database) = tree();
        let wide = ["a", "m", "z"].map(|id| address(1, id));
        write(&tree, wide.iter().map(|address| (address, b"wide".as_slice())));
        for id in ["b", "n", "x"] {
            write(&tree, [(&address(1, id), id.as_bytes())]);
            // Another tenant's are never looked into.
            write(&tree, [(&address(0, id), b"other".as_slice())]);
        }
        for address in &wide {
            assert_eq!(head_value(&tree, address).unwrap().unwrap(), b"wide");
        }
        for id in ["b", "n", "x"] {
            assert_eq!(head_value(&tree, &address(1, id)).unwrap().unwrap(), id.as_bytes());
        }
        for absent in ["", "aa", "zz"] {
            assert_eq!(head_value(&tree, &address(1, absent)).unwrap(), None);
        }
        // A row of its own counts before a pack.
        tree.insert(address(1, "m").head_key(), b"own").unwrap();
        assert_eq!(head_value(&tree, &address(1, "m")).unwrap().unwrap(), b"own");
    }

    /// An id that was drawn at this time.
    fn drawn_at(ms: u64, number: u16) -> String {
        let id = uuid::Builder::from_unix_timestamp_millis(ms, &[0; 10]).into_uuid();
        uuid::Uuid::from_u128(id.as_u128() | u128::from(number)).to_string()
    }

    #[test]
    fn among_many_packs_a_new_one_is_a_single_entry() {
        let (tree, _database) = tree();
        // Ids of one moment, in packs of their own: so it is when a clock is set back, and ids go on from the last one.
        let ids: Vec<Address> = (0..6_000).map(|n| address(1, &drawn_at(7, n))).collect();
        let (before, between) = (&ids[..10], &ids[10..5_990]);
        for one in between {
            write(&tree, [(one, b"between".as_slice())]);
        }
        let after = &ids[5_990..];
        write(&tree, before.iter().chain(after).map(|one| (one, b"around".as_slice())));
        assert_eq!(tree.len(), ids.len());
        for (some, head) in [(before, "around"), (between, "between"), (after, "around")] {
            for one in some {
                assert_eq!(*head_value(&tree, one).unwrap().unwrap(), *head.as_bytes());
            }
        }
        // Ids that were drawn long apart do not lie together, whoever may draw between them later.
        let (early, late) = (address(2, &drawn_at(1_000, 1)), address(2, &drawn_at(3_601_000, 1)));
        write(&tree, [(&early, b"e".as_slice()), (&late, b"l")]);
        assert_eq!(tree.len(), ids.len() + 2);
    }

    proptest! {
        #[test]
        fn a_pack_holds_what_was_put_into_it_and_nothing_else_is_one(
            ids in prop::collection::btree_set("[a-c]{1,4}", 1..20),
            cut in any::<prop::sample::Index>(),
        ) {
            let (tree, _database) = tree();
            let all: Vec<Address> = ids.iter().map(|id| address(1, id)).collect();
            write(&tree, all.iter().map(|address| (address, address.id.as_bytes())));
            prop_assert_eq!(tree.len(), 1);
            let (key, packed) = tree.first().unwrap().unwrap();
            let read = entries(&key, &packed).unwrap();
            prop_assert!(read.iter().map(|(address, _)| address).eq(&all));
            prop_assert!(read.iter().all(|(address, head)| **head == *address.id.as_bytes()));
            let cut = cut.index(packed.len());
            if let Ok(fewer) = entries(&key, &IVec::from(&packed[..cut])) {
                prop_assert!(fewer.len() < all.len());
            }
            let moved = address(1, "0").pack_key();
            prop_assert!(entries(&moved, &packed).is_err());
        }

        #[test]
        fn entries_of_many_commits_lie_together_and_each_is_found(
            // Who draws an id may commit long after others that drew theirs later.
            drawn in prop::collection::vec((0..3_u64, 0..6_usize, 1..3_u128), 1..200),
        ) {
            let (tree, _database) = tree();
            let mut groups: BTreeMap<usize, Vec<Address>> = BTreeMap::new();
            let mut now_ms = 1_000;
            for (number, (pause_ms, late, tenant)) in (0..).zip(drawn) {
                now_ms += pause_ms;
                let group = groups.entry(usize::from(number) / 20 + late).or_default();
                group.push(address(tenant, &drawn_at(now_ms, number)));
            }
            let all: Vec<Address> = groups.values().flatten().cloned().collect();
            for group in groups.values().filter(|group| !group.is_empty()) {
                write(&tree, group.iter().map(|one| (one, one.id.as_bytes())));
            }
            for one in &all {
                prop_assert_eq!(&*head_value(&tree, one).unwrap().unwrap(), one.id.as_bytes());
            }
            let mut found = 0;
            for row in &tree {
                let (key, packed) = row.unwrap();
                let entries = entries(&key, &packed).unwrap();
                found += entries.len();
                let stretch_ms = drawn_ms(&entries[entries.len() - 1].0) - drawn_ms(&entries[0].0);
                prop_assert!(stretch_ms <= STRETCH_MS_MAX);
            }
            prop_assert_eq!(found, all.len());
        }
    }
}
