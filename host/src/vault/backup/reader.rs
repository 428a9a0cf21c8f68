//! Reading a backup: each chunk in its place, as it was written, and all of them.

use serde_json::Value;
use thiserror::Error as ThisError;

use super::format::{
    Chain, FORMAT, KEY_PURPOSE, Manifest, VERSION, Wrong, open_chunk, root_key_id,
};
use crate::crypto::keys::RootKey;
use crate::crypto::seal::Key;
use crate::store::Row;

/// Why a backup cannot be read: a sentence for the operator.
#[derive(Debug, Clone, PartialEq, Eq, ThisError)]
pub enum BackupError {
    /// There is no manifest.
    #[error("the folder holds no backup, or one that is incomplete: it has no manifest")]
    Absent,
    /// There is no manifest of this format.
    #[error("the manifest is none of a backup, or was cut short")]
    NoManifest,
    /// A later version wrote it.
    #[error("the backup has version {0} of the format, and this program reads version 1")]
    Version(u64),
    /// Not all of it was written.
    #[error("the backup is incomplete")]
    Incomplete,
    /// Another root key counted then.
    #[error(
        "the backup was made under another root key: it needs the one with the id {needed}, and the \
        one given has the id {given}. Restore with the root key of that time, and change it \
        afterwards with `tokamak keys rotate --root`"
    )]
    RootKey {
        /// The id of the key that opens it.
        needed: String,
        /// The id of the key that was given.
        given: String,
    },
    /// The manifest is not as it was written.
    #[error("the manifest was changed")]
    Manifest,
    /// A chunk is not as it was written.
    #[error("chunk {0} {1}")]
    Chunk(u32, String),
    /// The chunks are not those that the manifest tells of.
    #[error("the chunks are not those that the manifest tells of")]
    Digest,
}

/// A backup that is being read.
pub struct Reader {
    manifest: Manifest,
    key: Key,
    read: Manifest,
    chain: Chain,
}

impl Reader {
    /// Begins with the manifest.
    pub fn open(manifest: &[u8], root: &RootKey) -> Result<Self, BackupError> {
        let value: Value = serde_json::from_slice(manifest).map_err(|_| BackupError::NoManifest)?;
        if value["format"] != FORMAT {
            return Err(BackupError::NoManifest);
        }
        match value["version"].as_u64() {
            Some(version) if version == u64::from(VERSION) => {}
            Some(version) => return Err(BackupError::Version(version)),
            None => return Err(BackupError::NoManifest),
        }
        let manifest: Manifest =
            serde_json::from_value(value).map_err(|_| BackupError::NoManifest)?;
        if !manifest.complete {
            return Err(BackupError::Incomplete);
        }
        let given = root_key_id(root);
        if manifest.root_key_id != given {
            return Err(BackupError::RootKey { needed: manifest.root_key_id, given });
        }
        let key = root.derive(&format!("{KEY_PURPOSE} {}", manifest.id));
        if !manifest.is_whole(&key) {
            return Err(BackupError::Manifest);
        }
        let read = Manifest { chunks: 0, rows: 0, bytes: 0, ..manifest.clone() };
        Ok(Self { manifest, key, read, chain: Chain::default() })
    }

    /// What the backup says of itself.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    /// Reads the next chunk.
    pub fn read(&mut self, chunk: &[u8]) -> Result<Vec<Row>, BackupError> {
        let number = self.read.chunks.saturating_add(1);
        if number > self.manifest.chunks {
            return Err(BackupError::Chunk(number, "is one more than there should be".to_owned()));
        }
        let rows = open_chunk((&self.key, self.manifest.id), number, chunk);
        let rows = rows.map_err(|wrong| BackupError::Chunk(number, describe(wrong)))?;
        self.read.count(&rows);
        self.chain.add(chunk);
        Ok(rows)
    }

    /// Says whether that was all, and all as the manifest tells.
    pub fn finish(self) -> Result<Manifest, BackupError> {
        let Self { manifest, read, chain, .. } = self;
        if read == manifest && chain.0 == manifest.digest {
            Ok(manifest)
        } else {
            Err(BackupError::Digest)
        }
    }
}

fn describe(wrong: Wrong) -> String {
    match wrong {
        Wrong::NoChunk => "is no chunk of a backup".to_owned(),
        Wrong::OtherBackup => "belongs to another backup".to_owned(),
        Wrong::Other(number) => format!("is not in its place: the file holds chunk {number}"),
        Wrong::Length => "has not its length: it was cut short, or something was added".to_owned(),
        Wrong::Changed => "was changed".to_owned(),
    }
}
