//! Compiled code on disk: a file for each component, used again after a restart.
//!
//! It holds nothing that cannot be made again: what is missing, damaged or of another engine is compiled anew, and
//! deleting the folder loses nothing. Whoever can write the folder gets no code run by it: a file counts only with a
//! hash under a key derived from the operator's, over its name and its code. When the operator changes that key, what was
//! kept before counts no more: whoever has learned the old one may have written it.
//!
//! What no formula has any more is removed: it tells as much as the component does that was deleted. A file's time of
//! modification is when it was last loaded; the longest unused files make room for new ones.

use std::collections::BTreeSet;
use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::PathBuf;
use std::time::SystemTime;

use parking_lot::{Mutex, RwLock};
use rustix::fs::{Timespec, Timestamps, UTIME_NOW, UTIME_OMIT, futimens};
use subtle::ConstantTimeEq as _;

use super::Runtime;
use super::load::{Compiled, MAC_BYTES};
use super::memory::is_a_want_of_io;
use crate::crypto::keys::RootKey;
use crate::crypto::seal::Key;
use crate::limits::COMPILED_BYTES_MAX;

/// The file that is being written.
const UNFINISHED: &str = "unfinished";
/// Characters of an engine's fingerprint in a file's name.
const ENGINE_CHARS: usize = 16;

/// Where compiled code is kept.
#[derive(Clone)]
pub struct CacheConfig {
    /// The folder; it is made when it is needed.
    pub folder: PathBuf,
    /// What authenticates the files, from the start on; for this purpose alone.
    pub key: Key,
    /// Bytes of all files together.
    pub bytes_max: u64,
    /// Whether nobody else keeps code in the folder: then what is not in use here is in use nowhere.
    pub alone: bool,
}

impl CacheConfig {
    /// The key for an operator's root key. A cache that was set up with it follows that key's changes.
    pub fn key_of(root: &RootKey) -> Key {
        root.derive("compiled components")
    }
}

/// Compiled code on disk. A process that holds the data folder has one; its calls block.
pub struct Cache {
    config: CacheConfig,
    /// What authenticates the files now.
    key: RwLock<Key>,
    /// What code must have been compiled for.
    engine: String,
    /// Held by who writes and makes room.
    writing: Mutex<()>,
}

impl Cache {
    /// A cache of code for the engine of this fingerprint.
    pub fn new(config: CacheConfig, engine: &str) -> Self {
        let engine = engine.chars().take(ENGINE_CHARS).collect();
        let key = RwLock::new(config.key.clone());
        Self { config, key, engine, writing: Mutex::new(()) }
    }

    /// Goes on with the key of the next root key, if it has that of this one.
    fn follow(&self, root: &RootKey, next: &RootKey) {
        let mut key = self.key.write();
        if key.as_slice().ct_eq(CacheConfig::key_of(root).as_slice()).into() {
            *key = CacheConfig::key_of(next);
        }
    }

    /// The code of a component with this digest. A file that is not what was kept is removed. An error only when the system
    /// gives no memory to read it.
    pub fn find(&self, digest: &str) -> io::Result<Option<Compiled>> {
        let name = self.name(digest);
        match self.read(&name) {
            Ok(Some(compiled)) => Ok(Some(compiled)),
            Ok(None) => {
                tracing::warn!(
                    file = name,
                    "kept under another root key, or changed since; it is compiled anew"
                );
                self.discard(digest);
                Ok(None)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if is_a_want_of_io(&error) => Err(error),
            Err(error) => {
                tracing::warn!(file = name, %error, "compiled code cannot be read");
                Ok(None)
            }
        }
    }

    /// Keeps the code of a component with this digest. If that fails, it is compiled again some day.
    pub fn keep(&self, digest: &str, compiled: &Compiled) {
        let name = self.name(digest);
        if let Err(error) = self.write(&name, compiled) {
            tracing::warn!(file = name, %error, "compiled code cannot be kept");
        }
    }

    /// Removes the code of a component with this digest.
    pub fn discard(&self, digest: &str) {
        let name = self.name(digest);
        if let Err(error) = fs::remove_file(self.config.folder.join(&name)) {
            tracing::warn!(file = name, %error, "compiled code cannot be removed");
        }
    }

    /// The digests that code is kept of, of this engine or others; none in a folder that is others' too.
    pub fn digests(&self) -> io::Result<BTreeSet<String>> {
        let mut digests = BTreeSet::new();
        if self.config.alone {
            // Nobody is at it now: a process that was killed left it.
            if let Some(_alone) = self.writing.try_lock() {
                let _ = fs::remove_file(self.config.folder.join(UNFINISHED));
            }
            for (name, _) in self.files()? {
                digests.extend(digest_in(&name).map(str::to_owned));
            }
        }
        Ok(digests)
    }

    /// Removes the code of all components with these digests, of whatever engine.
    pub fn remove(&self, digests: &BTreeSet<String>) -> io::Result<()> {
        let _alone = self.writing.lock();
        for (name, path) in self.files()? {
            if digest_in(&name).is_some_and(|digest| digests.contains(digest)) {
                fs::remove_file(path)?;
            }
        }
        Ok(())
    }

    /// What is in the folder, by name.
    fn files(&self) -> io::Result<Vec<(String, PathBuf)>> {
        let entries = match fs::read_dir(&self.config.folder) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries?,
        };
        let named = |entry: io::Result<fs::DirEntry>| {
            entry.map(|entry| (entry.file_name().to_string_lossy().into_owned(), entry.path()))
        };
        entries.map(named).collect()
    }

    fn name(&self, digest: &str) -> String {
        format!("{digest}-{}", self.engine)
    }

    /// Reads a file and marks it as just used; `None` if it is not authentic.
    fn read(&self, name: &str) -> io::Result<Option<Compiled>> {
        let file = File::open(self.config.folder.join(name))?;
        let mut bytes = Vec::new();
        (&file).take((MAC_BYTES + COMPILED_BYTES_MAX) as u64).read_to_end(&mut bytes)?;
        let compiled = Compiled::authentic(bytes, &self.key.read(), name);
        if compiled.is_some() {
            let now = Timespec { tv_sec: 0, tv_nsec: UTIME_NOW };
            let unchanged = Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT };
            futimens(&file, &Timestamps { last_access: unchanged, last_modification: now })?;
        }
        Ok(compiled)
    }

    /// Writes a file whole: who reads it meanwhile sees the one before, or none.
    fn write(&self, name: &str, compiled: &Compiled) -> io::Result<()> {
        let mac = compiled.mac(&self.key.read(), name);
        let bytes = (mac.len() + compiled.code().len()) as u64;
        if bytes > self.config.bytes_max {
            return Ok(());
        }
        let folder = &self.config.folder;
        let _alone = self.writing.lock();
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        self.make_room(bytes, name)?;
        let unfinished = folder.join(UNFINISHED);
        let mut options = OpenOptions::new();
        let mut file =
            options.write(true).create(true).truncate(true).mode(0o600).open(&unfinished)?;
        // No sync: a file that a crash left torn is not authentic.
        let written = file.write_all(&mac).and_then(|()| file.write_all(compiled.code()));
        let kept = written.and_then(|()| fs::rename(&unfinished, folder.join(name)));
        if kept.is_err() {
            // A full disk gets its room back.
            let _ = fs::remove_file(&unfinished);
        }
        kept
    }

    /// Removes the longest unused files until there is room for so many bytes under this name.
    fn make_room(&self, bytes: u64, name: &str) -> io::Result<()> {
        let mut files: Vec<(SystemTime, PathBuf, u64)> = Vec::new();
        for entry in fs::read_dir(&self.config.folder)? {
            let entry = entry?;
            // One that is gone by now takes no room.
            let Ok(about) = entry.metadata() else { continue };
            if about.is_file() && entry.file_name() != name && entry.file_name() != UNFINISHED {
                files.push((about.modified()?, entry.path(), about.len()));
            }
        }
        files.sort_unstable();
        let mut used: u64 = files.iter().map(|(_, _, bytes)| bytes).sum();
        for (_, path, freed) in files {
            if used + bytes <= self.config.bytes_max {
                break;
            }
            fs::remove_file(path)?;
            used -= freed;
        }
        Ok(())
    }
}

/// The digest in a file's name; `None` for other files.
fn digest_in(name: &str) -> Option<&str> {
    name.split_once('-').map(|(digest, _)| digest)
}

impl Runtime {
    /// Has compiled code count only if it is kept under the next root key, where it had to be kept under this one.
    pub fn follow_root_key(&self, root: &RootKey, next: &RootKey) {
        if let Some(cache) = &self.0.cache {
            cache.follow(root, next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Cache, CacheConfig, Compiled, Key};
    use crate::crypto::entropy::SeededEntropy;
    use crate::crypto::hash::sha256_hex;
    use crate::crypto::keys::RootKey;

    const CODE: &[u8] = b"as if it were code";

    /// Code as a process hands it over.
    fn compiled() -> Compiled {
        let length = (CODE.len() as u64).to_be_bytes();
        let sent = [&length[..], sha256_hex(CODE).as_bytes(), CODE].concat();
        Compiled::received(sent).unwrap()
    }

    #[test]
    fn what_is_kept_under_the_root_key_of_before_counts_no_more() {
        let folder = tempfile::tempdir().unwrap();
        let [old, new, other] = [1, 2, 3].map(|seed| RootKey::draw(&SeededEntropy::new(seed)));
        let config = |key: Key| CacheConfig {
            folder: folder.path().to_owned(),
            key,
            bytes_max: 1 << 20,
            alone: true,
        };
        let cache = Cache::new(config(CacheConfig::key_of(&old)), "engine");
        let found = |digest: &str| cache.find(digest).unwrap().is_some();
        cache.keep("a", &compiled());
        assert!(found("a"));
        cache.follow(&old, &new);
        // Whoever has the old key and may write to the folder.
        Cache::new(config(CacheConfig::key_of(&old)), "engine").keep("b", &compiled());
        assert!(!found("a") && !found("b"));
        // It is compiled anew, and found at the next start.
        cache.keep("a", &compiled());
        assert!(found("a"));
        let next = Cache::new(config(CacheConfig::key_of(&new)), "engine");
        assert!(next.find("a").unwrap().is_some());
        // What has a key of its own stays with that.
        cache.follow(&old, &other);
        assert!(found("a"));
    }
}
