//! The folder that a backup is written to, and what of one that was cut off is there.
//!
//! The digest of each chunk is noted once the chunk is there. Whoever goes on holds the chunks against them: one that was
//! damaged meanwhile would make all of the backup worthless, and a restore would be the first to find it. A chunk is on
//! the disk before it has its name; names and digests are brought there for some chunks together, and the server can send
//! the last ones again.

use std::fs::{self, File, TryLockError};
use std::io::{self, ErrorKind, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::{CUT_SHORT, MANIFEST, chunk_name, chunk_number, read_bounded};
use crate::cli::Failure;
use crate::cli::open::make_durable_folder;
use crate::crypto::hash::sha256_hex;
use crate::http::control::Begun;
use crate::vault::{CHUNK_FILE_BYTES_MAX, Manifest, Piece};

/// The name of the note that says which backup it is, until it is whole.
const NOTE: &str = "unfinished.json";
/// The name of the file with the digests of all chunks, a line each, until it is whole.
const DIGESTS: &str = "unfinished.digests";
/// Bytes of a line of it.
const DIGEST_BYTES: u64 = 65;
/// The name of each file while it is written.
const BESIDE: &str = "file.new";
/// That name in earlier versions.
const BESIDE_BEFORE: &str = "manifest.new";
/// Chunks after which their names and digests are brought to the disk.
const SYNCED_CHUNKS: u32 = 8;
/// Chunks that are checked before it is asked whether to go on.
const CHECKED_AT_ONCE: u32 = 256;

/// A folder that a backup is written to.
pub struct Target(PathBuf);

/// What became of chunks since they were written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Checked {
    /// Chunks that are as they were written, from the first one on.
    pub sound: u32,
    /// Chunks that are not, of all.
    pub wrong: u32,
}

impl Target {
    /// Takes a folder that has nothing, or nothing but an unfinished backup. Gives which one that is and how many chunks of
    /// it are there, from the first one on.
    pub fn find(folder: &Path) -> Result<(Self, Option<Begun>), Failure> {
        let named = |error: io::Error| format!("{}: {error}", folder.display());
        make_durable_folder(folder).map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => format!("{} is no folder", folder.display()),
            _ => named(error),
        })?;
        let (target, mut numbers) = (Self(folder.to_owned()), Vec::new());
        for name in target.names().map_err(named)? {
            if name == MANIFEST {
                return Err(format!("{} holds a backup already", folder.display()).into());
            }
            match chunk_number(&name) {
                Some(number) => numbers.push(number),
                None if [NOTE, DIGESTS, BESIDE, BESIDE_BEFORE].contains(&name.as_str()) => {}
                None => return Err(format!("{} is not empty", folder.display()).into()),
            }
        }
        numbers.sort_unstable();
        let there = (1..).zip(&numbers).take_while(|(expected, number)| expected == *number);
        let chunks = there.last().map_or(0, |(number, _)| number);
        let noted = fs::metadata(folder.join(DIGESTS)).map_or(0, |file| file.len() / DIGEST_BYTES);
        let chunks = chunks.min(u32::try_from(noted).unwrap_or(u32::MAX));
        let note = fs::read(folder.join(NOTE)).ok();
        let begun = note.and_then(|note| serde_json::from_slice::<Begun>(&note).ok());
        Ok((target, begun.map(|begun| Begun { chunks, ..begun })))
    }

    /// Holds others off the folder as long as what it gives is there.
    pub fn hold(&self) -> Result<File, Failure> {
        let named = |error: io::Error| format!("{}: {error}", self.0.display());
        let ours = File::open(&self.0).map_err(named)?;
        match ours.try_lock() {
            Ok(()) => Ok(ours),
            Err(TryLockError::WouldBlock) => {
                Err(format!("another backup to {} is under way", self.0.display()).into())
            }
            Err(TryLockError::Error(error)) => Err(named(error).into()),
        }
    }

    /// Looks whether so many chunks are as they were written. Every now and then `go_on` is asked; where it says no, none
    /// counts.
    pub fn check(
        &self,
        chunks: u32,
        mut go_on: impl FnMut() -> Result<bool, Failure>,
    ) -> Result<Checked, Failure> {
        let mut checked = Checked::default();
        for (number, digest) in (1..=chunks).zip(self.digests()?.lines()) {
            if number % CHECKED_AT_ONCE == 0 && !go_on()? {
                return Ok(Checked::default());
            }
            let chunk = read_bounded(&self.0.join(chunk_name(number)), CHUNK_FILE_BYTES_MAX);
            let is_sound = matches!(chunk, Ok(Some(chunk)) if sha256_hex(&chunk) == digest);
            if !is_sound {
                checked.wrong += 1;
            } else if checked.wrong == 0 {
                checked.sound = number;
            }
        }
        Ok(checked)
    }

    fn names(&self) -> io::Result<Vec<String>> {
        let names = fs::read_dir(&self.0)?.map(|entry| Ok(entry?.file_name()));
        names.map(|name| name.map(|name| name.to_string_lossy().into_owned())).collect()
    }

    /// The digests that are noted; none where nothing is.
    fn digests(&self) -> Result<String, Failure> {
        let path = self.0.join(DIGESTS);
        match fs::read(&path) {
            // What is no text is no digest either.
            Ok(bytes) => Ok(String::from_utf8_lossy(&bytes).into_owned()),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(String::new()),
            Err(error) => Err(format!("{}: {error}", path.display()).into()),
        }
    }

    /// Removes what an unfinished backup left; tells, if it did.
    pub fn clear(&self, tell: impl FnOnce()) -> io::Result<()> {
        let names = self.names()?;
        if names.iter().any(|name| name == MANIFEST) {
            // Another command finished one there meanwhile.
            return Err(io::Error::other("the folder holds a backup already"));
        }
        if !names.is_empty() {
            tell();
        }
        names.iter().try_for_each(|name| fs::remove_file(self.0.join(name)))
    }

    /// Notes which backup this is.
    pub fn note(&self, begun: Begun) -> Result<(), Failure> {
        self.write(NOTE, &serde_json::to_vec(&begun)?)
    }

    /// Writes pieces until the last; so many chunks are there. Everything is on the disk once that has its name.
    pub fn fill(
        &self,
        mut number: u32,
        mut next: impl FnMut() -> Result<Option<Piece>, Failure>,
    ) -> Result<Manifest, Failure> {
        let path = self.0.join(DIGESTS);
        let named = |error: io::Error| format!("{}: {error}", path.display());
        let mut options = File::options();
        let digests = options.append(true).create(true).mode(0o600).open(&path);
        let mut digests = digests.map_err(named)?;
        // Whatever is noted of later ones is of others that were in their places. It must not come back: the server makes
        // others, and such a one with its digest would pass for one of them.
        let cut = digests.set_len(u64::from(number) * DIGEST_BYTES);
        cut.and_then(|()| digests.sync_all()).map_err(named)?;
        loop {
            match next()?.ok_or(CUT_SHORT)? {
                Piece::Chunk(chunk) => {
                    number = number.checked_add(1).ok_or("there are too many chunks")?;
                    self.write(&chunk_name(number), &chunk)?;
                    let line = format!("{}\n", sha256_hex(&chunk));
                    digests.write_all(line.as_bytes()).map_err(named)?;
                    if number.is_multiple_of(SYNCED_CHUNKS) {
                        self.sync().and_then(|()| digests.sync_all()).map_err(named)?;
                    }
                }
                Piece::Manifest(text) => return self.finish(number, &text),
            }
        }
    }

    /// Writes the manifest, after which nothing but chunks is beside it.
    fn finish(&self, chunks: u32, text: &[u8]) -> Result<Manifest, Failure> {
        let manifest: Manifest = serde_json::from_slice(text)?;
        if manifest.chunks != chunks {
            return Err("the backup lacks chunks: make another one".into());
        }
        if !manifest.is_over(self.digests()?.lines()) {
            let message =
                "the chunks are not those that the manifest tells of: make another backup";
            return Err(message.into());
        }
        // Chunks behind a gap, which a power cut can leave.
        for name in self.names()? {
            let behind = chunk_number(&name).is_some_and(|one| one > chunks);
            if behind || [NOTE, DIGESTS, BESIDE_BEFORE].contains(&name.as_str()) {
                fs::remove_file(self.0.join(name))?;
            }
        }
        // The names of all chunks before the name that makes them a backup.
        self.sync()?;
        self.write(MANIFEST, text)?;
        self.sync()?;
        Ok(manifest)
    }

    /// Writes a file that has its name once it is whole on the disk.
    fn write(&self, name: &str, bytes: &[u8]) -> Result<(), Failure> {
        let (path, beside) = (self.0.join(name), self.0.join(BESIDE));
        let mut options = File::options();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(&beside);
        let written = file.and_then(|mut file| {
            file.write_all(bytes)?;
            file.sync_all()?;
            fs::rename(&beside, &path)
        });
        written.map_err(|error| format!("{}: {error}", path.display()).into())
    }

    fn sync(&self) -> io::Result<()> {
        File::open(&self.0)?.sync_all()?;
        let parent = self.0.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use uuid::Uuid;

    use super::{Begun, CHECKED_AT_ONCE, Checked, DIGESTS, Target, chunk_name, sha256_hex};
    use crate::vault::Piece;

    #[test]
    fn only_an_empty_folder_or_what_an_unfinished_backup_left_is_taken() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("a/b");
        let (target, begun) = Target::find(&to).unwrap();
        assert_eq!(begun, None);
        target.clear(|| panic!("nothing was there")).unwrap();
        let mut pieces = vec![Piece::Chunk(vec![2]), Piece::Chunk(vec![1])];
        let error = target.fill(0, || Ok(pieces.pop())).unwrap_err();
        assert!(error.to_string().contains("before it was whole"), "{error}");
        assert_eq!(fs::read(to.join("chunk-000002")).unwrap(), [2]);
        // Nobody knows which backup that was.
        let (target, begun) = Target::find(&to).unwrap();
        assert_eq!(begun, None);
        let mut told = false;
        target.clear(|| told = true).unwrap();
        assert!(told);
        assert_eq!(fs::read_dir(&to).unwrap().count(), 0);
        fs::write(to.join("chunk-000001"), "").unwrap();
        fs::write(to.join("notes"), "").unwrap();
        assert!(Target::find(&to).is_err());
        fs::rename(to.join("notes"), to.join("manifest.json")).unwrap();
        assert!(Target::find(&to).is_err());
        assert_eq!(fs::read_dir(&to).unwrap().count(), 2);
    }

    #[test]
    fn what_a_note_tells_of_is_there_up_to_the_first_gap() {
        let folder = tempfile::tempdir().unwrap();
        let to = folder.path().join("a");
        let (target, _) = Target::find(&to).unwrap();
        let id = Uuid::from_u128(5);
        target.note(Begun { id, chunks: 0 }).unwrap();
        let chunks = || Target::find(&to).unwrap().1.map(|begun| (begun.id, begun.chunks));
        assert_eq!(chunks(), Some((id, 0)));
        let mut pieces = (1..6).rev().map(|number| Piece::Chunk(vec![number])).collect::<Vec<_>>();
        target.fill(0, || Ok(pieces.pop())).unwrap_err();
        assert_eq!(chunks(), Some((id, 5)));
        fs::remove_file(to.join("chunk-000004")).unwrap();
        // A file that was being written is no chunk.
        fs::write(to.join("file.new"), "half").unwrap();
        assert_eq!(chunks(), Some((id, 3)));
        let mut pieces = vec![Piece::Chunk(vec![40])];
        target.fill(3, || Ok(pieces.pop())).unwrap_err();
        assert_eq!(fs::read(to.join("chunk-000004")).unwrap(), [40]);
        // The fifth one that is there is of the time before.
        assert_eq!(chunks(), Some((id, 4)));
        for text in ["", "{}", "{\"id\":7}"] {
            fs::write(to.join("unfinished.json"), text).unwrap();
            assert_eq!(chunks(), None, "{text}");
        }
    }

    #[test]
    fn a_digest_is_noted_once_its_chunk_is_there() {
        let folder = tempfile::tempdir().unwrap();
        let (target, _) = Target::find(folder.path()).unwrap();
        target.note(Begun { id: Uuid::from_u128(5), chunks: 0 }).unwrap();
        let there = |chunks: u32| {
            let begun = Target::find(folder.path()).unwrap().1.unwrap();
            let noted = fs::metadata(folder.path().join(DIGESTS)).unwrap().len() / 65;
            assert_eq!((begun.chunks, noted), (chunks, u64::from(chunks)));
        };
        // Nothing can be put in its place.
        let in_the_way = folder.path().join(chunk_name(11));
        fs::create_dir_all(in_the_way.join("x")).unwrap();
        let mut pieces = (1..13).map(|number| Piece::Chunk(vec![number]));
        let error = target.fill(0, || Ok(pieces.next())).unwrap_err().to_string();
        assert!(error.contains(&chunk_name(11)), "{error}");
        fs::remove_dir_all(in_the_way).unwrap();
        there(10);
        // What was noted of later ones is gone before others are sent.
        let error = target.fill(4, || Err("the server has stopped".into())).unwrap_err();
        assert_eq!(error.to_string(), "the server has stopped");
        there(4);
    }

    #[test]
    fn chunks_that_were_changed_or_emptied_are_found() {
        let folder = tempfile::tempdir().unwrap();
        let (target, _) = Target::find(folder.path()).unwrap();
        target.note(Begun { id: Uuid::from_u128(5), chunks: 0 }).unwrap();
        let mut pieces = (1..7).map(|number| Piece::Chunk(vec![number; 9]));
        target.fill(0, || Ok(pieces.next())).unwrap_err();
        let check = || target.check(6, || Ok(true)).unwrap();
        assert_eq!(check(), Checked { sound: 6, wrong: 0 });
        let path = |number: u32| folder.path().join(chunk_name(number));
        let fourth = fs::read(path(4)).unwrap();
        fs::write(path(4), [&[fourth[0] ^ 1], &fourth[1..]].concat()).unwrap();
        assert_eq!(check(), Checked { sound: 3, wrong: 1 });
        fs::write(path(6), "").unwrap();
        assert_eq!(check(), Checked { sound: 3, wrong: 2 });
        fs::write(path(4), fourth).unwrap();
        assert_eq!(check(), Checked { sound: 5, wrong: 1 });
        fs::remove_file(path(1)).unwrap();
        assert_eq!(check(), Checked { sound: 0, wrong: 2 });
        // What was noted may be damaged too.
        fs::write(folder.path().join(DIGESTS), [0xFF; 65 * 6]).unwrap();
        assert_eq!(check().sound, 0);
    }

    #[test]
    fn who_checks_many_chunks_asks_now_and_then_whether_to_go_on() {
        let folder = tempfile::tempdir().unwrap();
        let (target, _) = Target::find(folder.path()).unwrap();
        let chunks = CHECKED_AT_ONCE * 2 + 1;
        for number in 1..=chunks {
            fs::write(folder.path().join(chunk_name(number)), "7").unwrap();
        }
        let lines = format!("{}\n", sha256_hex(b"7")).repeat(usize::try_from(chunks).unwrap());
        fs::write(folder.path().join(DIGESTS), lines).unwrap();
        let check = |times: u32| {
            let mut asked = 0;
            let go_on = || {
                asked += 1;
                Ok(asked <= times)
            };
            let checked = target.check(chunks, go_on).unwrap();
            (checked.sound, asked)
        };
        assert_eq!((check(2), check(1)), ((chunks, 2), (0, 2)));
        assert!(target.check(chunks, || Err("the server has stopped".into())).is_err());
    }
}
