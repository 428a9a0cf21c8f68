//! A server whose disk and clock misbehave on demand.

use std::fs::File;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::process::Command;

use super::binary::{MANAGEMENT_KEY, Process, ROOT_KEY, command};

/// What is wrong, as the process that was started with it sees it from now on.
pub struct Faults(File);

impl Faults {
    /// Nothing is wrong yet. Everything of it lies in this folder.
    pub fn none(folder: &Path) -> Self {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../tests/faults/faults.c");
        let mut compile = Command::new("cc");
        compile.args(["-O2", "-shared", "-fPIC", "-o"]).arg(folder.join("faults.so")).arg(source);
        assert!(compile.status().expect("a C compiler is needed").success());
        let file = File::create(folder.join("faults")).unwrap();
        file.set_len(48).unwrap();
        Self(file)
    }

    /// A server on `data` in the folder, on a disk and by a clock of this kind.
    pub fn serve(folder: &Path) -> Process {
        Self::try_serve(folder).unwrap_or_else(|| panic!("the server ended before it listened"))
    }

    /// The same; `None` if it ends before it listens.
    pub fn try_serve(folder: &Path) -> Option<Process> {
        let mut serve = command();
        serve.args(["serve", "--listen", "127.0.0.1:0", "--cache-mb", "32", "--log", "warn"]);
        serve.arg("--data-dir").arg(folder.join("data"));
        serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
        serve.env("LD_PRELOAD", folder.join("faults.so"));
        serve.env("FAULTS_FILE", folder.join("faults"));
        serve.env("FAULTS_DIR", folder.join("data/store"));
        Process::try_start(serve)
    }

    /// Writing to the store's files fails by this number; 0 for no more.
    pub fn fail_writes(&self, errno: i64) {
        self.set(0, errno);
    }

    /// Each sync of them takes so much longer.
    pub fn slow_syncs(&self, ms: i64) {
        self.set(8, ms);
    }

    /// The wall clock is so far ahead, or behind.
    pub fn set_clock_ahead(&self, seconds: i64) {
        self.set(16, seconds);
    }

    /// Syncing the store's files fails by this number, while writing to them goes on; 0 for no more.
    pub fn fail_syncs(&self, errno: i64) {
        self.set(24, errno);
    }

    /// The same of the file alone that is synced beside what is acknowledged.
    pub fn fail_tree_syncs(&self, errno: i64) {
        self.set(32, errno);
    }

    /// Writing what sled writes anew when it opens fails by this number, as where a full disk takes nothing new.
    pub fn fail_snapshots(&self, errno: i64) {
        self.set(40, errno);
    }

    fn set(&self, at: u64, value: i64) {
        self.0.write_all_at(&value.to_ne_bytes(), at).unwrap();
    }
}
