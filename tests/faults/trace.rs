//! The trace of `recorder.c`: what a process did to its files, and what it acknowledged between.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

use parking_lot::Mutex;

const HEADER_BYTES: usize = 32;
const ACKNOWLEDGED: u32 = 9;

/// The recorder, compiled.
pub fn recorder(folder: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/faults/recorder.c");
    let object = folder.join("recorder.so");
    let mut compile = Command::new("cc");
    compile.args(["-O2", "-shared", "-fPIC", "-o"]).arg(&object).arg(source);
    let status = compile.args(["-ldl", "-lpthread"]).status().expect("a C compiler is needed");
    assert!(status.success());
    object
}

/// Adds lines to a trace that a process is writing.
pub struct Notes(Mutex<File>);

impl Notes {
    pub fn to(trace: &Path) -> Self {
        Self(Mutex::new(File::options().create(true).append(true).open(trace).unwrap()))
    }

    /// Adds a line, in one write: appending keeps the order of all writers.
    pub fn add(&self, line: &str) {
        let mut record = Vec::with_capacity(HEADER_BYTES + line.len());
        record.extend_from_slice(&ACKNOWLEDGED.to_le_bytes());
        record.extend_from_slice(&[0; 4 + 8 + 8]);
        record.extend_from_slice(&(line.len() as u64).to_le_bytes());
        record.extend_from_slice(line.as_bytes());
        self.0.lock().write_all(&record).unwrap();
    }
}

/// What happened, in order.
pub struct Trace {
    bytes: Vec<u8>,
    pub steps: Vec<Step>,
}

#[derive(Debug, Clone)]
pub enum Step {
    Create {
        path: PathBuf,
        inode: u64,
    },
    Write {
        inode: u64,
        at: usize,
        data: Range<usize>,
        through: bool,
    },
    Truncate {
        inode: u64,
        len: usize,
    },
    /// Of a folder with its path.
    SyncBegins {
        inode: u64,
        sync: u64,
        folder: Option<PathBuf>,
    },
    SyncEnded {
        inode: u64,
        sync: u64,
    },
    Rename {
        from: PathBuf,
        to: PathBuf,
    },
    Unlink {
        path: PathBuf,
    },
    Mkdir {
        path: PathBuf,
    },
    Note {
        line: Range<usize>,
    },
}

impl Trace {
    pub fn read(file: &Path) -> Self {
        let bytes = fs::read(file).unwrap();
        let mut steps = Vec::new();
        let mut at = 0;
        while at + HEADER_BYTES <= bytes.len() {
            let small = |from: usize| u32::from_le_bytes(bytes[from..from + 4].try_into().unwrap());
            let large = |from: usize| u64::from_le_bytes(bytes[from..from + 8].try_into().unwrap());
            let (kind, path_len) = (small(at), small(at + 4) as usize);
            let (inode, offset, len) = (large(at + 8), large(at + 16), large(at + 24));
            let path = at + HEADER_BYTES..at + HEADER_BYTES + path_len;
            // Only writes and notes carry data.
            let carried = if matches!(kind, 2 | 11 | ACKNOWLEDGED) { len as usize } else { 0 };
            let data = path.end..path.end + carried;
            if data.end > bytes.len() {
                // The process was killed while it wrote this.
                break;
            }
            let text = std::str::from_utf8(&bytes[path]).unwrap();
            let at_byte = usize::try_from(offset).unwrap();
            steps.push(match kind {
                1 => Step::Create { path: text.into(), inode },
                2 | 11 => {
                    Step::Write { inode, at: at_byte, data: data.clone(), through: kind == 11 }
                }
                3 => Step::Truncate { inode, len: at_byte },
                4 => {
                    let folder = (!text.is_empty()).then(|| text.into());
                    Step::SyncBegins { inode, sync: offset, folder }
                }
                5 => Step::SyncEnded { inode, sync: offset },
                6 => {
                    let (from, to) = text.split_once('\n').unwrap();
                    Step::Rename { from: from.into(), to: to.into() }
                }
                7 => Step::Unlink { path: text.into() },
                8 => Step::Mkdir { path: text.into() },
                ACKNOWLEDGED => Step::Note { line: data.clone() },
                other => panic!("{other} is no step"),
            });
            at = data.end;
        }
        Self { bytes, steps }
    }

    /// The bytes of a write.
    pub fn data(&self, range: &Range<usize>) -> &[u8] {
        &self.bytes[range.clone()]
    }

    /// A line that was noted.
    pub fn line(&self, range: &Range<usize>) -> &str {
        std::str::from_utf8(&self.bytes[range.clone()]).unwrap()
    }

    /// Up to which step the writes to each file are durable, when the power goes before step `cut`: those before a sync
    /// began that had ended by then.
    pub fn durable(&self, cut: usize) -> BTreeMap<u64, usize> {
        let mut begun = BTreeMap::new();
        let mut durable = BTreeMap::new();
        for (number, step) in self.steps[..cut].iter().enumerate() {
            match step {
                Step::SyncBegins { sync, .. } => {
                    begun.insert(*sync, number);
                }
                Step::SyncEnded { inode, sync } => {
                    let until = durable.entry(*inode).or_insert(0);
                    *until = (*until).max(begun[sync]);
                }
                _ => {}
            }
        }
        durable
    }

    /// The same of the names in each folder.
    pub fn durable_names(&self, cut: usize) -> BTreeMap<PathBuf, usize> {
        let mut begun = BTreeMap::new();
        let mut durable = BTreeMap::new();
        for (number, step) in self.steps[..cut].iter().enumerate() {
            match step {
                Step::SyncBegins { sync, folder: Some(folder), .. } => {
                    begun.insert(*sync, (folder, number));
                }
                Step::SyncEnded { sync, .. } => {
                    if let Some((folder, number)) = begun.get(sync) {
                        let until = durable.entry((*folder).clone()).or_insert(0);
                        *until = (*until).max(*number);
                    }
                }
                _ => {}
            }
        }
        durable
    }
}
