//! Calls of the vault that are much work: to read what they carry, or to write what they find.
//!
//! A call is done on the threads that everything runs on, where nothing gives way until it waits for something. One with
//! megabytes to parse takes a tenth of a second there, and a run may make hundreds. So such calls have a thread each, one of an
//! owner at a time and a few in all, and the system shares the processors out among those and all else.

use std::sync::Arc;
use std::thread::available_parallelism;

use tokio::runtime::Handle;
use tokio::sync::Semaphore;
use tokio::task::spawn_blocking;
use tokio_util::sync::CancellationToken;
use tracing::Instrument as _;
use wasmtime::Result;

use super::state::HostFailed;

/// Bytes that a call may carry to be done at once.
const SMALL_BYTES: usize = 16 << 10;
/// How many of these calls there are at a time, of different owners.
const PLACES_PER_PROCESSOR: usize = 4;
/// How many calls a run may have made when a page of tokens is still got at once.
const CALLS_AT_ONCE: u64 = 20;

/// Whether a call is one of these: by what it carries, and, if it gets a page of tokens, by the number that it is of the run's.
pub fn is_large(bytes: usize, gets_a_page: bool, number: u64) -> bool {
    bytes > SMALL_BYTES || gets_a_page && number > CALLS_AT_ONCE
}

/// The places of all.
pub struct Places(Arc<Semaphore>);

impl Places {
    /// Some for each processor: a call keeps its place while it waits for something, too.
    pub fn new() -> Self {
        let processors = available_parallelism().map_or(1, usize::from);
        Self(Arc::new(Semaphore::new(PLACES_PER_PROCESSOR * processors)))
    }

    /// Those of an owner.
    pub fn of_an_owner(&self) -> Large {
        Large { own: Arc::new(Semaphore::new(1)), all: Arc::clone(&self.0) }
    }
}

/// An owner's place, and those of all.
#[derive(Clone)]
pub struct Large {
    own: Arc<Semaphore>,
    all: Arc<Semaphore>,
}

impl Large {
    /// Does a call once there is a place. It ends with whoever waits for it, when it waits for something itself.
    pub async fn call<T: Send + 'static>(
        &self,
        call: impl Future<Output = T> + Send + 'static,
    ) -> Result<T> {
        let own = Arc::clone(&self.own).acquire_owned().await;
        let all = Arc::clone(&self.all).acquire_owned().await;
        let (gone, home) = (CancellationToken::new(), Handle::current());
        let (call, waits) = (call.in_current_span(), gone.clone());
        let there = home.clone();
        let work = move || {
            let _places = (own, all);
            there.block_on(waits.run_until_cancelled_owned(call))
        };
        // Begun at home: a thread that a long run's thread starts would stand back as that one does.
        let done = home.spawn(async move { spawn_blocking(work).await });
        let _gone = gone.drop_guard();
        done.await.ok().and_then(Result::ok).flatten().ok_or_else(|| HostFailed.into())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use tokio::time::timeout;

    use super::{Large, Places, is_large};

    const SOON: Duration = Duration::from_millis(50);

    #[test]
    fn what_is_much_work_is_known_before() {
        for (bytes, gets_a_page, number, large) in [
            (0, false, 1_000, false),
            (16 << 10, true, 20, false),
            (16 << 10, true, 21, true),
            ((16 << 10) + 1, false, 1, true),
        ] {
            assert_eq!(is_large(bytes, gets_a_page, number), large, "{bytes} {number}");
        }
    }

    /// How many of an owner's calls are at work at most, when several are made at once.
    async fn most_at_work(owner: &Large) -> usize {
        let (at_work, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let calls = (0..8).map(|_| {
            let (at_work, most) = (Arc::clone(&at_work), Arc::clone(&most));
            owner.call(async move {
                most.fetch_max(at_work.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                std::thread::sleep(Duration::from_millis(2));
                at_work.fetch_sub(1, Ordering::SeqCst);
            })
        });
        let done = futures::future::join_all(calls).await;
        assert!(done.iter().all(Result::is_ok));
        most.load(Ordering::SeqCst)
    }

    #[tokio::test]
    async fn an_owner_has_one_at_a_time() {
        assert_eq!(most_at_work(&Places::new().of_an_owner()).await, 1);
    }

    #[tokio::test]
    async fn other_tasks_go_on_beside_one() {
        let owner = Places::new().of_an_owner();
        let work = owner.call(async {
            std::thread::sleep(SOON);
            tokio::task::yield_now().await;
            7
        });
        let beside = async {
            for _ in 0..5 {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        // On the one thread of this test, too.
        let (done, beside) = futures::future::join(work, timeout(SOON, beside)).await;
        assert_eq!(done.unwrap(), 7);
        assert!(beside.is_ok());
    }

    #[tokio::test]
    async fn one_that_nobody_waits_for_ends_and_leaves_its_place() {
        let owner = Places::new().of_an_owner();
        assert!(timeout(SOON, owner.call(std::future::pending::<()>())).await.is_err());
        let next = timeout(Duration::from_mins(1), owner.call(async { 1 })).await;
        assert_eq!(next.unwrap().unwrap(), 1);
        // A bug in one is no bug in what waits for it.
        assert!(owner.call(async { panic!("as a bug does") }).await.is_err());
        assert_eq!(owner.call(async { 2 }).await.unwrap(), 2);
    }
}
