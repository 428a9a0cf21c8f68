//! A gate before the store: a test holds a commit there, lets others go first, and then lets it go or has it refused.

use futures::FutureExt as _;
use parking_lot::Mutex;
use tokamak::store::{Batch, Kind, StoreError, StoreFuture};
use tokio::sync::oneshot;

use super::wrapped::Hook;

/// Holds the commits that it was told to hold; lets all others go.
#[derive(Default)]
pub struct Gate {
    watch: Mutex<Option<Watch>>,
}

/// What the gate waits for.
struct Watch {
    kind: Kind,
    arrives: oneshot::Sender<Batch>,
    goes: oneshot::Receiver<Result<(), StoreError>>,
}

/// The next commit of a kind, which goes no further than the gate. When this is dropped, it goes on.
pub struct Held {
    arrived: oneshot::Receiver<Batch>,
    go: oneshot::Sender<Result<(), StoreError>>,
}

impl Gate {
    /// Holds the next commit that stores or removes a record of this kind; those after it go on.
    pub fn hold_next(&self, kind: Kind) -> Held {
        let (arrives, arrived) = oneshot::channel();
        let (go, goes) = oneshot::channel();
        let before = self.watch.lock().replace(Watch { kind, arrives, goes });
        assert!(before.is_none(), "one commit is waited for already");
        Held { arrived, go }
    }
}

impl Held {
    /// Waits until the commit is there; gives what it would write.
    pub async fn arrived(&mut self) -> Batch {
        (&mut self.arrived).await.unwrap()
    }

    /// Lets the commit go on, to find the store as it is by now.
    pub fn let_go(self) {
        self.go.send(Ok(())).unwrap();
    }

    /// Has the commit end in this, as if the store had said so.
    pub fn refuse(self, error: StoreError) {
        self.go.send(Err(error)).unwrap();
    }
}

impl Hook for Gate {
    fn before<'a>(&'a self, batch: Option<&'a Batch>) -> StoreFuture<'a, ()> {
        let changes = |watch: &mut Watch| {
            let stored = batch.iter().flat_map(|batch| &batch.puts).map(|put| put.record.kind);
            let removed = batch.iter().flat_map(|batch| &batch.removals).map(|gone| gone.kind);
            stored.chain(removed).any(|kind| kind == watch.kind)
        };
        let watch = self.watch.lock().take_if(changes);
        async move {
            let (Some(Watch { arrives, goes, .. }), Some(batch)) = (watch, batch) else {
                return Ok(());
            };
            // Nobody waits any more when the test has failed.
            let _ = arrives.send(batch.clone());
            goes.await.unwrap_or(Ok(()))
        }
        .boxed()
    }
}
