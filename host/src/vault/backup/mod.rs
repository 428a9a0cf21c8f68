//! Backups: everything in the store as it was at one moment, in sealed chunks, and reading it back.
//!
//! A backup holds the store's rows as they are: bodies sealed by tenants' keys, those wrapped by the root key. So the root
//! key of that moment opens a backup, whatever becomes of it later, and no other; the chunks are sealed by a key derived
//! from it too, for what lies in the store unsealed: ids, times, terms. [`format`] says how they lie.

mod format;
mod reader;
#[cfg(test)]
mod tests;

use std::sync::Arc;

use uuid::Uuid;

use self::format::{CHUNK_BYTES, Chain, KEY_PURPOSE, seal_chunk};
pub use self::format::{CHUNK_FILE_BYTES_MAX, MANIFEST_BYTES_MAX, Manifest};
pub use self::reader::{BackupError, Reader};
use super::record::kind;
use super::sealed_keys::{KEYS_ID, SYSTEM_TENANT, open_system_keys};
use super::{Error, Vault};
use crate::crypto::entropy::Entropy;
use crate::crypto::keys::RootKey;
use crate::crypto::seal::Key;
use crate::figures::figures;
use crate::model::time::Timestamp;
use crate::store::{Record, Snapshot};

/// A part of a backup. Each goes to a file of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// A chunk. They come in their order.
    Chunk(Vec<u8>),
    /// What tells of all chunks, in JSON; the last piece.
    Manifest(Vec<u8>),
}

/// How far a backup has come. One is kept for each chunk, so that a backup can go back to any: it has some hundred bytes,
/// where a chunk has a megabyte.
#[derive(Default)]
struct Mark {
    /// The key of the last row given.
    last: Option<Vec<u8>>,
    chunks: u32,
    rows: u64,
    bytes: u64,
    chain: Chain,
    /// Whether the manifest was given too.
    is_complete: bool,
}

/// A backup that is being made.
pub struct Backup {
    snapshot: Box<dyn Snapshot>,
    entropy: Arc<dyn Entropy>,
    key: Key,
    /// What the manifest would say if there were nothing.
    empty: Manifest,
    now: Mark,
    /// How far it had come before each piece.
    before: Vec<Mark>,
}

impl Vault {
    /// Notes that a backup of this moment was taken as a whole.
    pub fn backed_up(&self, id: Uuid, moment: Timestamp) {
        tracing::info!(backup = %id, of = %moment, "a backup was taken");
        figures().backed_up(moment.0);
    }

    /// Begins a backup: of everything as it is at one moment between this call and its return. Reads and writes go on
    /// meanwhile.
    pub async fn backup(&self) -> Result<Backup, Error> {
        let mut roots = self.0.keyring.roots.read().clone();
        let snapshot = self.0.store.snapshot().await?;
        // The root key may have been changed meanwhile; the one that counted at that moment seals the backup.
        roots.extend(self.0.keyring.roots.read().iter().cloned());
        let record = snapshot.find(kind::SYSTEM, SYSTEM_TENANT, KEYS_ID)?;
        let opens = |root: &RootKey, record: &Record| open_system_keys(root, record).is_ok();
        let root = record.and_then(|record| roots.into_iter().find(|root| opens(root, &record)));
        let root = root.ok_or(Error::Conflict(
            "The root key was changed while the backup began: begin it again.",
        ))?;
        let empty = Manifest::begin(self.draw_id(), self.now(), &root);
        let key = root.derive(&format!("{KEY_PURPOSE} {}", empty.id));
        let (entropy, now) = (Arc::clone(&self.0.entropy), Mark::default());
        Ok(Backup { snapshot, entropy, key, empty, now, before: Vec::new() })
    }
}

impl Backup {
    /// Tells it from others.
    pub fn id(&self) -> Uuid {
        self.empty.id
    }

    /// Whether so many chunks had been given at some time, so that it can go back to there.
    pub fn has_given(&self, chunks: u32) -> bool {
        chunks <= self.now.chunks
    }

    /// Goes back to where so many chunks had been given; false if that has not been reached.
    pub fn go_back(&mut self, chunks: u32) -> bool {
        let there = |mark: &Mark| mark.chunks == chunks;
        if there(&self.now) && !self.now.is_complete {
            return true;
        }
        let Some(at) = self.before.iter().rposition(there) else { return false };
        if let Some(mark) = self.before.drain(at..).next() {
            self.now = mark;
        }
        true
    }

    /// The next piece; `None` after the last. Blocks for as long as reading and sealing a chunk takes.
    pub fn next_piece(&mut self) -> Result<Option<Piece>, Error> {
        if self.now.is_complete {
            return Ok(None);
        }
        let rows = self.snapshot.rows(self.now.last.as_deref(), CHUNK_BYTES)?;
        let (mut manifest, mut chain) = (self.manifest(), self.now.chain.clone());
        let (piece, last) = if let Some((last, _)) = rows.last() {
            let number = manifest.chunks.checked_add(1).ok_or(Error::Internal)?;
            let sealed = seal_chunk((&self.key, self.id()), number, &rows, &*self.entropy);
            let chunk = sealed.map_err(Error::internal)?;
            manifest.count(&rows);
            chain.add(&chunk);
            (Piece::Chunk(chunk), Some(last.clone()))
        } else {
            manifest.finish(&self.key, &chain);
            let text = serde_json::to_vec_pretty(&manifest).map_err(Error::internal)?;
            (Piece::Manifest(text), self.now.last.clone())
        };
        let Manifest { chunks, rows, bytes, complete: is_complete, .. } = manifest;
        let next = Mark { last, chunks, rows, bytes, chain, is_complete };
        self.before.push(std::mem::replace(&mut self.now, next));
        Ok(Some(piece))
    }

    /// What the manifest would say so far.
    fn manifest(&self) -> Manifest {
        let Mark { chunks, rows, bytes, .. } = self.now;
        Manifest { chunks, rows, bytes, ..self.empty.clone() }
    }
}
