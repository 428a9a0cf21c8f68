//! A process that is told to end removes the folder that it makes, before it does: what is half made is of use to nobody.

use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::process::exit;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::runtime::{Builder, Runtime};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::output;

/// How often it is tried to remove a folder into which somebody may be writing yet.
const REMOVALS_MAX: usize = 100;
const REMOVAL_PAUSE: Duration = Duration::from_millis(10);
/// Exit code of a process that was told to end.
const TOLD: i32 = 2;
/// Signals in the mask that the kernel shows.
pub const HANG_UP: u64 = 1;
const INTERRUPT: u64 = 1 << 1;

/// Whether the process was told to end, and removes what it makes.
static IS_ENDING: AtomicBool = AtomicBool::new(false);
/// Held for good by whoever decides what becomes of the folder: who was told to end, or who has come to the end.
static DECIDED: Mutex<()> = Mutex::new(());

/// The signals that tell the process to end, noted from here on.
pub struct Ends {
    runtime: Runtime,
    terminate: Signal,
    interrupt: Option<Signal>,
    hang_up: Option<Signal>,
}

impl Ends {
    /// Notes them from here on.
    pub fn begin() -> io::Result<Self> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let entered = runtime.enter();
        let terminate = signal(SignalKind::terminate())?;
        let interrupt = unless_ignored(INTERRUPT, SignalKind::interrupt())?;
        let hang_up = unless_ignored(HANG_UP, SignalKind::hangup())?;
        drop(entered);
        Ok(Self { runtime, terminate, interrupt, hang_up })
    }

    /// Has the process remove a folder before it ends, then those around it that are empty, and say why.
    pub fn remove(
        self,
        folder: PathBuf,
        around: Vec<PathBuf>,
        told: &'static str,
    ) -> io::Result<()> {
        let Self { runtime, mut terminate, mut interrupt, mut hang_up } = self;
        let wait = async move {
            tokio::select! {
                _ = terminate.recv() => {}
                () = next(interrupt.as_mut()) => {}
                () = next(hang_up.as_mut()) => {}
            }
        };
        let end = move || {
            runtime.block_on(wait);
            end_without(&folder, &around, told);
        };
        thread::Builder::new().name("end".to_owned()).spawn(end).map(drop)
    }
}

/// Notes a signal, unless who started the process had it ignore that, as `nohup` does, or a shell in the background.
pub fn unless_ignored(bit: u64, kind: SignalKind) -> io::Result<Option<Signal>> {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let ignored = ignored.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    let is_ignored = ignored.is_some_and(|mask| mask & bit != 0);
    (!is_ignored).then(|| signal(kind)).transpose()
}

/// The next of a signal that is noted; of one that is not, none ever.
async fn next(noted: Option<&mut Signal>) {
    match noted {
        Some(noted) => {
            noted.recv().await;
        }
        None => std::future::pending().await,
    }
}

/// Ends the process, without a folder that it may be writing into until then.
fn end_without(folder: &Path, around: &[PathBuf], told: &str) {
    let _decided = DECIDED.lock();
    IS_ENDING.store(true, Ordering::SeqCst);
    for _ in 0..REMOVALS_MAX {
        match fs::remove_dir_all(folder) {
            Err(error) if error.kind() == ErrorKind::NotFound => break,
            _ => thread::sleep(REMOVAL_PAUSE),
        }
    }
    let _ = around.iter().try_for_each(fs::remove_dir);
    output::warn(told);
    exit(TOLD);
}

/// Waits for the end of a process that was told to end: what it finds from then on is for want of what it looks at.
pub fn hold_back() {
    while IS_ENDING.load(Ordering::SeqCst) {
        thread::park();
    }
}

/// Keeps the folder, which is whole, whatever the process is told from here on. Where it was told before, there is no
/// going on.
pub fn keep() {
    std::mem::forget(DECIDED.lock());
}
