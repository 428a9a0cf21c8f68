//! Power cuts at every write of the journal, with any of the pages that were under way lost; what it takes; changed files.

use std::fs;
use std::path::Path;

use proptest::prelude::*;
use proptest::test_runner::Config;
use tempfile::{TempDir, tempdir};

use super::{
    GROUP_BYTES, GROUP_ROWS, HALF, HEADER, Journal, NAME, PAGE, ROW_BYTES_MAX, SEGMENT_BYTES,
    Unsettled, WRITTEN_PER_BYTE,
};
use crate::limits::{TOKEN_ID_CHARS_MAX, TOKEN_TERMS_MAX, TOKENS_PER_CALL_MAX};
use crate::store::conformance::record;
use crate::store::sled::changes::Rows;
use crate::store::sled::rows::{Address, Head, PIECE_BYTES, PIECES_MAX, Seal, index_value};
use crate::store::{Field, Record, StoreError, Term, Unique};

/// Rows that tell the number of their group, about so long.
fn group(number: u32, bytes: usize) -> Rows {
    let mut rows = Rows::default();
    rows.insert(&number.to_be_bytes(), vec![7; bytes.max(1)]);
    rows.remove(b"gone");
    rows
}

fn numbers(groups: &[Rows]) -> Vec<u32> {
    let of = |rows: &Rows| (0..1_000).find(|number: &u32| rows.has(&number.to_be_bytes()));
    groups.iter().filter_map(of).collect()
}

fn open(folder: &Path) -> (Journal, Vec<u32>) {
    let found = Unsettled::read(folder).unwrap();
    (Journal::begin(folder, &found).unwrap(), numbers(&found.groups))
}

/// What a journal with these bytes holds.
fn read(bytes: &[u8]) -> Result<Vec<u32>, StoreError> {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join(NAME), bytes).unwrap();
    Ok(numbers(&Unsettled::read(folder.path())?.groups))
}

fn is_cut_short(bytes: &[u8]) -> bool {
    let folder = tempdir().unwrap();
    fs::write(folder.path().join(NAME), bytes).unwrap();
    Unsettled::read(folder.path()).unwrap().is_cut_short
}

#[test]
fn a_first_write_and_one_to_the_other_half_can_be_cut_short_too() {
    let folder = tempdir().unwrap();
    let (mut journal, _) = open(folder.path());
    journal.add(&group(0, 6_000)).unwrap();
    let begun = fs::read(folder.path().join(NAME)).unwrap();
    assert!(is_cut_short(&begun[..PAGE]) && !is_cut_short(&begun));
    // The other half, full of what was there before.
    for number in 1..2_000 {
        let rows = group(number % 900, 6_000);
        if journal.has_room(&rows) {
            journal.add(&rows).unwrap();
            continue;
        }
        journal.settle(journal.last());
        journal.turn().unwrap();
        journal.add(&rows).unwrap();
        let mut bytes = fs::read(folder.path().join(NAME)).unwrap();
        assert!(!is_cut_short(&bytes), "{number}");
        bytes[journal.half * HALF + HEADER + 10] ^= 1;
        assert!(is_cut_short(&bytes), "{number}");
    }
}

/// What may be on the disk when the power fails during a write: any of its pages, and of one page any part.
fn cut(before: &[u8], after: &[u8], fates: &[u8], torn: usize) -> Vec<u8> {
    let mut disk = before.to_vec();
    let changed = |page: &usize| before[page * PAGE..][..PAGE] != after[page * PAGE..][..PAGE];
    for (count, page) in (0..before.len() / PAGE).filter(changed).enumerate() {
        let at = page * PAGE;
        let written = match fates[count % fates.len()] % 4 {
            0 => 0,
            1 => torn,
            _ => PAGE,
        };
        disk[at..at + written].copy_from_slice(&after[at..at + written]);
    }
    disk
}

/// A store as the journal sees it: groups with their numbers, and up to which the tree was synced.
struct Store {
    journal: Journal,
    folder: TempDir,
    groups: Vec<(u64, u32)>,
    settled: u64,
    settling: Option<u64>,
    disk: Vec<u8>,
    fates: Vec<u8>,
    torn: usize,
}

impl Store {
    fn settle(&mut self, number: Option<u64>) {
        if let Some(number) = number {
            self.settled = number;
            self.journal.settle(number);
        }
    }

    /// Looks at every disk that a power cut may leave while this is written, and then at the one with all of it.
    fn write(&mut self, group: Option<u32>, write: impl FnOnce(&mut Journal)) {
        let acknowledged = self.groups.len();
        write(&mut self.journal);
        self.groups.extend(group.map(|group| (self.journal.last, group)));
        let after = fs::read(self.folder.path().join(NAME)).unwrap();
        assert_eq!(after.len(), 2 * HALF);
        for torn in [0, self.torn, PAGE] {
            let disk = cut(&self.disk, &after, &self.fates, torn);
            self.look(&read(&disk).unwrap(), acknowledged);
        }
        self.look(&read(&after).unwrap(), self.groups.len());
        self.disk = after;
    }

    /// What is found goes on from what the tree has, without a gap, to the last that was taken or one more.
    fn look(&self, found: &[u32], acknowledged: usize) {
        let missing =
            self.groups[..acknowledged].iter().filter(|(number, _)| *number > self.settled);
        for (number, group) in missing {
            assert!(found.contains(group), "{number} is not in {found:?}");
        }
        assert!(found.windows(2).all(|two| two[0] + 1 == two[1]), "{found:?}");
        let end = found.last().map_or(acknowledged, |group| *group as usize + 1);
        assert!(end == acknowledged || end == self.groups.len(), "{found:?}");
    }

    fn add(&mut self, bytes: usize) {
        let number = u32::try_from(self.groups.len()).unwrap();
        let rows = group(number, bytes);
        if !self.journal.has_room(&rows) {
            if !self.journal.can_turn() {
                let settling = self.settling.take();
                self.settle(settling);
            }
            if !self.journal.can_turn() {
                self.settle_all();
            }
            self.write(None, |journal| journal.turn().unwrap());
        }
        if self.settling.is_none() && self.journal.is_to_settle() {
            self.journal.settling();
            self.settling = Some(self.journal.last());
        }
        self.write(Some(number), |journal| journal.add(&rows).unwrap());
        assert!(self.journal.is_ahead());
    }

    fn settle_all(&mut self) {
        self.settling = None;
        self.settle(Some(self.journal.last()));
        assert!(!self.journal.is_ahead());
    }

    /// What is wiped goes once there is a record on the disk that says so.
    fn wipe(&mut self) {
        self.write(None, |journal| journal.mark().unwrap());
        self.journal.wipe().unwrap();
        self.disk = fs::read(self.folder.path().join(NAME)).unwrap();
        assert_eq!(read(&self.disk).unwrap(), [0; 0]);
    }

    fn restart(&mut self) {
        let (journal, found) = open(self.folder.path());
        self.look(&found, self.groups.len());
        // The tree was given them.
        (self.journal, self.settling) = (journal, None);
        self.settled = self.journal.last();
        self.disk = fs::read(self.folder.path().join(NAME)).unwrap();
    }
}

/// One step of a store with its journal.
#[derive(Debug, Clone)]
enum Step {
    Add(usize),
    /// The tree was synced up to where the half was full.
    Settled,
    SettleAll,
    Mark,
    Wipe,
    Restart,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let bytes = prop_oneof![
        1 => 0..300_usize, 1 => 3_900..4_300_usize, 3 => 100_000..900_000_usize
    ];
    let step = prop_oneof![
        12 => bytes.prop_map(Step::Add),
        2 => Just(Step::Settled),
        1 => Just(Step::SettleAll),
        1 => Just(Step::Mark),
        1 => Just(Step::Wipe),
        1 => Just(Step::Restart),
    ];
    prop::collection::vec(step, 1..40)
}

proptest! {
    #![proptest_config(Config { cases: 24, ..Config::default() })]

    #[test]
    fn what_was_taken_is_found_whatever_the_power_takes_of_the_next_write(
        steps in steps(),
        fates in prop::collection::vec(any::<u8>(), 1..8),
        torn in 0..PAGE / 512,
    ) {
        let folder = tempdir().unwrap();
        let (journal, found) = open(folder.path());
        prop_assert!(found.is_empty());
        let disk = fs::read(folder.path().join(NAME)).unwrap();
        let (groups, torn) = (Vec::new(), torn * 512);
        let mut store =
            Store { journal, folder, groups, settled: 0, settling: None, disk, fates, torn };
        for step in steps {
            match step {
                Step::Add(bytes) => store.add(bytes),
                Step::Settled => {
                    let settling = store.settling.take();
                    store.settle(settling);
                }
                Step::SettleAll => store.settle_all(),
                Step::Mark => {
                    store.settle_all();
                    store.write(None, |journal| journal.mark().unwrap());
                }
                Step::Wipe => {
                    store.settle_all();
                    store.wipe();
                }
                Step::Restart => store.restart(),
            }
        }
        store.restart();
    }
}

#[test]
fn a_half_takes_so_much_and_no_more() {
    let folder = tempdir().unwrap();
    let (mut journal, _) = open(folder.path());
    let (mut many, mut too_many) = (Rows::default(), Rows::default());
    for number in 0..=GROUP_ROWS {
        if number < GROUP_ROWS {
            many.insert(&number.to_be_bytes(), b"");
        }
        too_many.insert(&number.to_be_bytes(), b"");
    }
    assert!(Journal::takes(&many) && !Journal::takes(&too_many));
    let most = GROUP_BYTES - HEADER - group(0, 1).bytes() + 1;
    assert!(Journal::takes(&group(0, most)) && !Journal::takes(&group(0, most + 1)));
    journal.add(&many).unwrap();
    assert!(journal.is_to_settle() && journal.must_settle());
    journal.settling();
    assert!(!journal.is_to_settle() && !journal.must_settle() && journal.can_turn());
    journal.turn().unwrap();
    for number in 0..3 {
        assert!(journal.has_room(&group(number, HALF / 4)));
        journal.add(&group(number, HALF / 4)).unwrap();
    }
    assert!(!journal.has_room(&group(3, HALF / 4)) && journal.has_room(&group(3, HALF / 5)));
    // A page is left for what is to be said before the other half is written over.
    assert!(!journal.can_turn());
    journal.settle(1);
    assert!(journal.can_turn() && journal.is_to_settle() && journal.must_settle());
    journal.settling();
    assert!(!journal.is_to_settle());
    journal.add(&group(4, 80_000)).unwrap();
    assert!(journal.is_to_settle() && !journal.must_settle());
    journal.settling();
    assert!(!journal.is_to_settle());
    journal.turn().unwrap();
    assert_eq!(journal.said, 1);
    assert_eq!(numbers(&Unsettled::read(folder.path()).unwrap().groups), [0, 1, 2, 4]);
}

#[test]
fn what_was_wiped_is_not_in_the_file() {
    let folder = tempdir().unwrap();
    let (mut journal, _) = open(folder.path());
    let has = |canary: &[u8]| {
        let bytes = fs::read(folder.path().join(NAME)).unwrap();
        bytes.windows(canary.len()).any(|window| window == canary)
    };
    let mut rows = group(0, 1);
    rows.insert(b"key", b"canary-1");
    for round in 0..600 {
        if !journal.has_room(&rows) {
            journal.turn().unwrap();
        }
        journal.add(&rows).unwrap();
        assert!(round > 0 || has(b"canary-1"));
        if round == 0 {
            // Both halves have it.
            journal.turn().unwrap();
            journal.add(&rows).unwrap();
        }
        journal.settle(journal.last());
        journal.wipe().unwrap();
        assert!(round > 0 || !has(b"canary-1"));
    }
    assert!(!has(b"canary-1"));
    journal.add(&group(5, 10)).unwrap();
    assert_eq!(open(folder.path()).1, [5]);
}

#[test]
fn a_group_that_was_changed_is_missed_unless_it_is_the_last() {
    let folder = tempdir().unwrap();
    let (mut journal, _) = open(folder.path());
    for number in 0..4 {
        journal.add(&group(number, 6_000)).unwrap();
    }
    let whole = fs::read(folder.path().join(NAME)).unwrap();
    assert_eq!(read(&whole).unwrap(), [0, 1, 2, 3]);
    for (record, expected) in [(0, None), (1, None), (2, None), (3, Some(vec![0, 1, 2]))] {
        for at in [0, 20, 30, 40, HEADER, HEADER + 5_000] {
            let mut bytes = whole.clone();
            bytes[record * 2 * PAGE + at] ^= 1;
            let found = read(&bytes);
            // That there was a last one tells its beginning, if that was left.
            let begins = record == 3 && !(16..32).contains(&at);
            assert!(found.is_err() || is_cut_short(&bytes) == begins, "{record} {at}");
            assert_eq!(found.as_ref().ok(), expected.as_ref(), "{record} {at}");
            let told = |error: &StoreError| error.to_string().contains("journal was changed");
            assert!(found.as_ref().err().is_none_or(told));
        }
    }
    assert!(!is_cut_short(&whole));
    assert!(is_cut_short(&whole[..7 * PAGE]) && !is_cut_short(&whole[..6 * PAGE]));
    // Nor does a file that somebody cut off, or made, harm anything but itself.
    assert_eq!(read(&whole[..5 * PAGE]).unwrap(), [0, 1]);
    assert_eq!(read(&[]).unwrap(), [0; 0]);
    assert_eq!(read(b"tkjrnl01").unwrap(), [0; 0]);
}

/// Bytes of the rows of a token that is found by so much: the head, the index row, and each piece.
fn rows_of_a_token(id: &str, terms: usize, body: usize) -> Vec<usize> {
    let token = Record {
        body: vec![7; body],
        terms: vec![Term([7; 16]); terms],
        numbers: vec![(Field(7), 7); 3],
        uniques: vec![Unique([7; 32])],
        ..record(id, 7)
    };
    let address = Address { kind: token.kind, tenant: token.tenant, id: id.to_owned() };
    let head = Head { seal: Some(Seal { tag: [7; 32], link: None }), ..Head::of(&token, 1) };
    let own = [
        (address.head_key(), head.to_value(&token.body)),
        (address.index_key(7), index_value(&token.terms, &token.numbers)),
    ];
    let own = own.into_iter().map(|(key, value)| key.len() + value.len());
    let pieces = (0..head.pieces).map(|number| address.piece_key(1, number).len() + PIECE_BYTES);
    own.chain(pieces).collect()
}

#[test]
fn no_row_of_a_token_is_longer_than_is_counted_on() {
    let id = "\u{1f511}".repeat(TOKEN_ID_CHARS_MAX);
    for terms in (0..=TOKEN_TERMS_MAX).step_by(5) {
        for body in [0, 1, 100, 1_500, 3_000, PIECE_BYTES, PIECE_BYTES + 1, 3 * PIECE_BYTES] {
            let rows = rows_of_a_token(&id, terms, body);
            let most = rows.iter().max().unwrap();
            assert!(*most <= ROW_BYTES_MAX, "{terms} terms, {body} bytes: {rows:?}");
        }
    }
}

#[test]
fn the_tokens_of_one_call_are_less_than_one_sync_may_cover() {
    let rows = rows_of_a_token(&uuid::Uuid::max().to_string(), TOKEN_TERMS_MAX, 2 * PIECE_BYTES);
    let bytes = TOKENS_PER_CALL_MAX * (rows[0] + rows[1]) + PIECES_MAX * rows[2];
    assert!(bytes * WRITTEN_PER_BYTE <= SEGMENT_BYTES, "{bytes}");
}
