//! Syncs beside whoever wants them, since sled has ways of failing in which it tells nobody: its `flush` then waits for ever
//! ([`super::copy`] has one, and keeps out of it). What waits for one here gives it up after a while.

use std::cell::Cell;
use std::fs::File;
use std::sync::Arc;
use std::sync::mpsc::{
    Receiver, RecvTimeoutError, SendError, Sender, TryRecvError, channel, sync_channel,
};
use std::time::{Duration, Instant};

use sled::Tree;

use super::failure::unavailable;
use crate::figures::figures;
use crate::store::StoreError;

/// How long a sync may take.
const SYNC_MAX: Duration = Duration::from_mins(2);

/// The thread that syncs, from the first time that it is wanted on.
pub struct Syncer {
    thread: Option<Sender<Work>>,
    /// How long each may take.
    max: Duration,
}

type Work = Box<dyn FnOnce() + Send>;

/// A sync under way.
pub struct Syncing {
    until: Instant,
    outcome: Receiver<Result<(), StoreError>>,
    /// Whether how it ended was told already: what is received then says nothing for sure.
    told: Cell<bool>,
}

impl Default for Syncer {
    fn default() -> Self {
        Self { thread: None, max: SYNC_MAX }
    }
}

impl Syncer {
    /// Begins to bring to the disk what was written to a tree whose log this is; without the log, only to write it. What goes
    /// wrong is noted at once: it may be told to nobody, and the system tells of it once.
    pub fn begin(
        &mut self,
        tree: &Tree,
        file: Option<&Arc<File>>,
        noted: impl FnOnce(&StoreError) + Send + 'static,
    ) -> Syncing {
        let (told, outcome) = sync_channel(1);
        let (tree, file) = (tree.clone(), file.map(Arc::clone));
        self.run(Box::new(move || {
            let _ = told.send(sync(&tree, file.as_deref()).inspect_err(noted));
        }));
        Syncing { until: Instant::now() + self.max, outcome, told: Cell::default() }
    }

    /// The same, up to its end.
    pub fn sync(&mut self, tree: &Tree, file: &Arc<File>) -> Result<(), StoreError> {
        self.begin(tree, Some(file), |_| {}).wait()
    }

    /// Has the thread do this after all before, or does it on the spot where there is none to be had.
    pub fn run(&mut self, work: Work) {
        let Err(SendError(work)) = self.thread.get_or_insert_with(Self::start).send(work) else {
            return;
        };
        self.thread = None;
        work();
    }

    fn start() -> Sender<Work> {
        let (sender, wanted) = channel::<Work>();
        let thread = std::thread::Builder::new().name("store settler".to_owned());
        // Without a thread nobody receives, which the sender tells.
        let _ = thread.spawn(move || wanted.into_iter().for_each(|work| work()));
        sender
    }
}

impl Syncing {
    /// Waits for its end, for as long as it may take.
    pub fn wait(&self) -> Result<(), StoreError> {
        let left = self.until.saturating_duration_since(Instant::now());
        self.within(left).unwrap_or_else(|| Err(late()))
    }

    /// Its end, if that comes within this time; a failure, if it has taken too long by then.
    pub fn within(&self, wait: Duration) -> Option<Result<(), StoreError>> {
        match self.outcome.recv_timeout(wait) {
            Err(RecvTimeoutError::Timeout) if Instant::now() < self.until => None,
            Err(RecvTimeoutError::Timeout) => Some(Err(late())),
            Err(RecvTimeoutError::Disconnected) => Some(self.over(Err(late()))),
            Ok(outcome) => Some(self.over(outcome)),
        }
    }

    /// Its end, if it has come.
    pub fn ended(&self) -> Option<Result<(), StoreError>> {
        match self.outcome.try_recv() {
            Ok(outcome) => Some(self.over(outcome)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(self.over(Err(late()))),
        }
    }

    /// Whether it is over, for whoever has given it up: until then sled lets no batch in, and nobody beside one that waits.
    pub fn is_over(&self) -> bool {
        self.told.get() || self.ended().is_some()
    }

    fn over(&self, outcome: Result<(), StoreError>) -> Result<(), StoreError> {
        self.told.set(true);
        outcome
    }
}

fn late() -> StoreError {
    unavailable("syncing did not end")
}

fn sync(tree: &Tree, file: Option<&File>) -> Result<(), StoreError> {
    tree.flush().map_err(unavailable)?;
    if let Some(file) = file {
        file.sync_data().map_err(unavailable)?;
        figures().synced();
    }
    Ok(())
}

#[cfg(test)]
pub mod tests {
    use std::fs::File;
    use std::sync::Arc;
    use std::sync::mpsc::{Sender, channel};
    use std::time::Duration;

    use super::Syncer;

    impl Syncer {
        /// One that does nothing until the sender is dropped, and gives up each sync after this time.
        pub fn stuck(max: Duration) -> (Self, Sender<()>) {
            let mut syncer = Self { thread: None, max };
            let (holder, held) = channel::<()>();
            syncer.run(Box::new(move || {
                let _ = held.recv();
            }));
            (syncer, holder)
        }
    }

    #[test]
    fn a_sync_that_does_not_end_is_given_up() {
        let folder = tempfile::tempdir().unwrap();
        let database = sled::open(folder.path()).unwrap();
        let file = Arc::new(File::open(folder.path().join("db")).unwrap());
        let (mut syncer, holder) = Syncer::stuck(Duration::from_millis(50));
        let syncing = syncer.begin(&database, Some(&file), |_| {});
        assert!(syncing.ended().is_none() && syncing.within(Duration::from_millis(1)).is_none());
        let told = syncing.wait().unwrap_err().to_string();
        assert!(told.contains("syncing did not end"), "{told}");
        assert!(syncer.sync(&database, &file).is_err());
        // Once it gets on, so do those behind it.
        drop(holder);
        syncer.max = Duration::from_mins(1);
        syncer.sync(&database, &file).unwrap();
    }
}
