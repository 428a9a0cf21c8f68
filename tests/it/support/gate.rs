//! A gate before the store: a test holds a commit there, lets others go first, and then lets it go or has it refused. What
//! was found in the store may be held there too.

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokamak::store::{Batch, Kind, StoreError, StoreFuture};
use tokio::sync::oneshot;

use super::wrapped::Hook;

/// Holds the commits that it was told to hold; lets all others go.
#[derive(Default)]
pub struct Gate {
    watch: Mutex<Option<Watch>>,
    look: Mutex<Option<Look>>,
}

/// What the gate waits for.
struct Watch {
    kind: Kind,
    arrives: oneshot::Sender<Batch>,
    goes: oneshot::Receiver<Result<(), StoreError>>,
}

/// What the gate waits for among what is looked for.
struct Look {
    kind: Kind,
    arrives: oneshot::Sender<()>,
    goes: oneshot::Receiver<()>,
}

/// The next commit of a kind, which goes no further than the gate. When this is dropped, it goes on.
pub struct Held {
    arrived: oneshot::Receiver<Batch>,
    go: oneshot::Sender<Result<(), StoreError>>,
}

/// What the next look for records of a kind found, which nobody is given yet. When this is dropped, it is.
pub struct HeldLook {
    arrived: oneshot::Receiver<()>,
    go: oneshot::Sender<()>,
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

    /// Holds what the next look for records of this kind by their ids finds; those after it go on.
    pub fn hold_next_look(&self, kind: Kind) -> HeldLook {
        let (arrives, arrived) = oneshot::channel();
        let (go, goes) = oneshot::channel();
        let before = self.look.lock().replace(Look { kind, arrives, goes });
        assert!(before.is_none(), "one look is waited for already");
        HeldLook { arrived, go }
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

impl HeldLook {
    /// Waits until something was looked for.
    pub async fn arrived(&mut self) {
        (&mut self.arrived).await.unwrap();
    }

    /// Gives what was found then, whatever is there by now.
    pub fn let_go(self) {
        self.go.send(()).unwrap();
    }
}

impl Hook for Gate {
    fn looked(&self, kind: Kind) -> Option<BoxFuture<'static, ()>> {
        let Look { arrives, goes, .. } = self.look.lock().take_if(|look| look.kind == kind)?;
        let told_and_let_go = async move {
            // Nobody waits any more when the test has failed.
            let _ = arrives.send(());
            let _ = goes.await;
        };
        Some(told_and_let_go.boxed())
    }

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
