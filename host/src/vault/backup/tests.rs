//! A backup is read as it was written, or refused with what is wrong with it.

use std::sync::Arc;

use uuid::Uuid;

use super::format::{CHUNK_BYTES, Chain, KEY_PURPOSE, Manifest, Wrong, open_chunk, seal_chunk};
use super::reader::{BackupError, Reader};
use super::{Backup, Mark, Piece};
use crate::crypto::entropy::{Entropy as _, SeededEntropy};
use crate::crypto::keys::RootKey;
use crate::model::id::TenantId;
use crate::model::time::Timestamp;
use crate::store::{Kind, Record, Row, Snapshot, StoreError};

fn root(seed: u64) -> RootKey {
    RootKey::draw(&SeededEntropy::new(seed))
}

fn rows(chunk: usize) -> Vec<Row> {
    let row = |number: usize| (vec![b'k', u8::try_from(chunk).unwrap(), 0], vec![7; number * 9]);
    (0..5).map(row).collect()
}

/// A backup of so many chunks.
fn make(id: u128, chunks: usize) -> (Vec<u8>, Vec<Vec<u8>>) {
    let (root, entropy) = (root(1), SeededEntropy::new(2));
    let mut manifest = Manifest::begin(Uuid::from_u128(id), Timestamp(1_700_000_000_000), &root);
    let key = root.derive(&format!("{KEY_PURPOSE} {}", manifest.id));
    let (mut chain, mut made) = (Chain::default(), Vec::new());
    for (number, at) in (1..).zip(0..chunks) {
        let rows = rows(at);
        made.push(seal_chunk((&key, manifest.id), number, &rows, &entropy).unwrap());
        manifest.count(&rows);
        chain.add(&made[at]);
    }
    manifest.finish(&key, &chain);
    (serde_json::to_vec(&manifest).unwrap(), made)
}

fn read(manifest: &[u8], chunks: &[Vec<u8>]) -> Result<Vec<Row>, BackupError> {
    let mut reader = Reader::open(manifest, &root(1))?;
    let mut all = Vec::new();
    for chunk in chunks {
        all.extend(reader.read(chunk)?);
    }
    reader.finish().map(|_| all)
}

#[test]
fn what_was_written_is_read() {
    for count in [0, 1, 2, 7] {
        let (manifest, chunks) = make(5, count);
        let expected: Vec<_> = (0..count).flat_map(rows).collect();
        assert_eq!(read(&manifest, &chunks), Ok(expected));
    }
    // Nothing of a row can be read in a chunk.
    let (_, chunks) = make(5, 1);
    assert!(!chunks[0].windows(8).any(|window| window == [7; 8]));
}

#[test]
fn each_damage_is_told_from_the_others() {
    let (manifest, good) = make(5, 3);
    let (_, others) = make(6, 3);
    let wrong = |change: &dyn Fn(&mut Vec<Vec<u8>>)| {
        let mut chunks = good.clone();
        change(&mut chunks);
        read(&manifest, &chunks).unwrap_err().to_string()
    };
    let swapped = wrong(&|chunks| chunks.swap(0, 2));
    assert_eq!(swapped, "chunk 1 is not in its place: the file holds chunk 3");
    assert_eq!(
        wrong(&|chunks| chunks[1].truncate(60)),
        "chunk 2 has not its length: it was cut short, or something was added"
    );
    for length in [0, 10, 31] {
        assert!(
            wrong(&|chunks| chunks[1].truncate(length)).starts_with("chunk 2 has not its length")
        );
    }
    assert!(wrong(&|chunks| chunks[1].push(0)).starts_with("chunk 2 has not its length"));
    assert_eq!(wrong(&|chunks| chunks[2] = others[2].clone()), "chunk 3 belongs to another backup");
    assert_eq!(wrong(&|chunks| chunks[0] = vec![0; 100]), "chunk 1 is no chunk of a backup");
    let fewer = wrong(&|chunks| chunks.truncate(2));
    assert_eq!(fewer, "the chunks are not those that the manifest tells of");
    assert!(wrong(&|chunks| chunks.push(others[0].clone())).contains("one more"));
}

#[test]
fn no_byte_of_a_chunk_can_be_changed() {
    let (manifest, good) = make(5, 2);
    for at in 0..good[1].len() {
        let mut chunks = good.clone();
        chunks[1][at] ^= 1;
        let refused = read(&manifest, &chunks);
        assert!(matches!(refused, Err(BackupError::Chunk(2, _))), "{at}: {refused:?}");
    }
}

#[test]
fn what_is_sealed_anew_for_the_same_place_is_not_taken() {
    let (manifest, mut chunks) = make(5, 2);
    let id = Uuid::from_u128(5);
    let key = root(1).derive(&format!("{KEY_PURPOSE} {id}"));
    chunks[1] = seal_chunk((&key, id), 2, &rows(1), &SeededEntropy::new(99)).unwrap();
    assert_eq!(read(&manifest, &chunks), Err(BackupError::Digest));
}

#[test]
fn a_manifest_says_what_it_said() {
    let (manifest, chunks) = make(5, 2);
    let change = |member: &str, value: serde_json::Value| {
        let mut changed: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
        assert_ne!(changed[member], value, "{member}");
        changed[member] = value;
        read(&serde_json::to_vec(&changed).unwrap(), &chunks).unwrap_err()
    };
    for (member, value) in [
        ("id", Uuid::from_u128(6).to_string().into()),
        ("created_at", "2026-01-01T00:00:00Z".into()),
        ("chunks", 1.into()),
        ("rows", 9.into()),
        ("bytes", 9.into()),
        ("digest", "00".into()),
        ("seal", "AAAA".into()),
        ("seal", "no base64".into()),
    ] {
        assert_eq!(change(member, value), BackupError::Manifest, "{member}");
    }
    assert_eq!(change("version", 2.into()), BackupError::Version(2));
    assert_eq!(change("version", "1".into()), BackupError::NoManifest);
    assert_eq!(change("format", "zip".into()), BackupError::NoManifest);
    assert_eq!(change("chunks", "2".into()), BackupError::NoManifest);
    assert_eq!(change("complete", false.into()), BackupError::Incomplete);
    for length in 0..manifest.len() {
        assert_eq!(read(&manifest[..length], &chunks), Err(BackupError::NoManifest), "{length}");
    }
}

#[test]
fn another_root_key_is_told_which_one_is_needed() {
    let (manifest, _) = make(5, 1);
    let Err(error) = Reader::open(&manifest, &root(2)) else { panic!("it opened") };
    let id = |root: &RootKey| Uuid::from_bytes(root.id()).simple().to_string();
    let expected = BackupError::RootKey { needed: id(&root(1)), given: id(&root(2)) };
    assert_eq!(error, expected);
    assert!(error.to_string().contains(&id(&root(1))), "{error}");
}

#[test]
fn a_chunk_of_any_rows_is_read_and_of_no_rows_refused() {
    let (id, entropy) = (Uuid::from_u128(5), SeededEntropy::new(2));
    let key = root(1).derive("test");
    let lengths = [0, 1, 4, 255, 70_000];
    let rows: Vec<Row> =
        lengths.iter().flat_map(|a| lengths.map(|b| (vec![1; *a], vec![2; b]))).collect();
    let chunk = seal_chunk((&key, id), 9, &rows, &entropy).unwrap();
    assert_eq!(open_chunk((&key, id), 9, &chunk), Ok(rows));
    // Whatever else begins as a chunk does is none.
    for length in 0..400 {
        let mut bytes = vec![0; length];
        entropy.fill(&mut bytes);
        let kept = length.min(24);
        bytes[..kept].copy_from_slice(&chunk[..kept]);
        assert!(open_chunk((&key, id), 9, &bytes).is_err());
    }
    let other = root(2).derive("test");
    assert_eq!(open_chunk((&other, id), 9, &chunk), Err(Wrong::Changed));
}

/// Rows that stay as they are.
struct Still(Vec<Row>);

impl Snapshot for Still {
    fn rows(&self, behind: Option<&[u8]>, bytes: usize) -> Result<Vec<Row>, StoreError> {
        let mut left = bytes;
        let rows = self.0.iter().filter(|(key, _)| behind.is_none_or(|last| key.as_slice() > last));
        let fits = |row: &&Row| {
            let fits = left > 0;
            left = left.saturating_sub(row.1.len());
            fits
        };
        Ok(rows.take_while(fits).cloned().collect())
    }

    fn find(&self, _: Kind, _: TenantId, _: &str) -> Result<Option<Record>, StoreError> {
        Ok(None)
    }
}

/// A backup of so many rows, of which each is a chunk.
fn begin(rows: u8) -> (Backup, Vec<Row>) {
    let rows: Vec<Row> =
        (0..rows).map(|number| (vec![number], vec![number; CHUNK_BYTES])).collect();
    let (root, entropy) = (root(1), SeededEntropy::new(2));
    let empty = Manifest::begin(Uuid::from_u128(5), Timestamp(1_700_000_000_000), &root);
    let key = root.derive(&format!("{KEY_PURPOSE} {}", empty.id));
    let (snapshot, entropy) = (Box::new(Still(rows.clone())), Arc::new(entropy));
    let (now, before) = (Mark::default(), Vec::new());
    (Backup { snapshot, entropy, key, empty, now, before }, rows)
}

#[test]
fn a_backup_that_goes_back_is_whole_all_the_same() {
    let (mut backup, rows) = begin(9);
    let (mut manifest, mut chunks) = (None, Vec::new());
    // Where it was cut off, and how many chunks had arrived by then; the last time the manifest was on its way.
    let mut cuts = vec![(9, 9), (9, 8), (7, 4), (4, 4), (3, 1), (1, 0)];
    while manifest.is_none() {
        match backup.next_piece().unwrap().unwrap() {
            Piece::Chunk(chunk) => chunks.push(chunk),
            Piece::Manifest(text) => manifest = Some(text),
        }
        let is_cut = cuts.last().is_some_and(|(at, _)| chunks.len() == *at);
        if is_cut && (chunks.len() < 9 || manifest.is_some()) {
            let (_, arrived) = cuts.pop().unwrap();
            chunks.truncate(arrived);
            manifest = None;
            assert!(backup.go_back(u32::try_from(arrived).unwrap()));
        }
    }
    assert!(cuts.is_empty(), "{cuts:?}");
    assert_eq!(read(&manifest.unwrap(), &chunks), Ok(rows));
    assert!(backup.next_piece().unwrap().is_none());
}

#[test]
fn a_backup_goes_back_to_any_chunk_and_not_ahead() {
    let (mut backup, _) = begin(20);
    for _ in 0..20 {
        backup.next_piece().unwrap().unwrap();
    }
    assert!(!backup.has_given(21) && !backup.go_back(21));
    for chunks in [20, 19, 3, 1] {
        assert!(backup.has_given(chunks) && backup.go_back(chunks), "{chunks}");
    }
    // What is ahead of it now is ahead.
    assert!(!backup.has_given(2) && !backup.go_back(2));
    assert!(matches!(backup.next_piece(), Ok(Some(Piece::Chunk(_)))));
    assert!(backup.has_given(2) && backup.go_back(2));
    assert!(backup.go_back(0));
}
