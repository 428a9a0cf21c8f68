//! Threads for long runs.
//!
//! A run that computes for long moves here from the threads that everything runs on. On a server the system prefers
//! those, and each slice of a long run ends with an offer of the processor: what is short waits for the rest of a slice
//! at most, and long runs use what is left, all of it when nothing else is to be done. Only the computing moves; whatever
//! a run starts, such as a call of the vault or a timer, stays with the threads it came from.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::runtime::{Builder, Handle, Runtime};
use tokio::task::JoinSet;

use crate::traces;

/// The threads. They end when this is dropped, without waiting for what they are at.
pub struct Slow {
    threads: Option<Runtime>,
    stands_back: bool,
}

impl Slow {
    /// Starts so many threads. Those that stand back leave the machine to everything else on it, other programs too.
    pub fn start(threads: usize, stands_back: bool) -> io::Result<Self> {
        let mut builder = Builder::new_multi_thread();
        builder.worker_threads(threads.max(1)).thread_name("long-runs");
        if stands_back {
            builder.on_thread_start(stand_back);
        }
        Ok(Self { threads: Some(builder.build()?), stands_back })
    }

    /// Carries a run to its end here; `None` if it panics. It is dropped when this is, if a little later.
    pub async fn finish<F>(&self, run: Pin<Box<F>>) -> Option<F::Output>
    where
        F: Future<Output: Send> + Send + 'static,
    {
        let threads = self.threads.as_ref()?;
        let run = Away { run, home: Handle::current(), stands_back: self.stands_back };
        let mut task = JoinSet::new();
        task.spawn_on(traces::carried(run), threads.handle());
        task.join_next().await?.ok()
    }
}

impl Drop for Slow {
    fn drop(&mut self) {
        if let Some(threads) = self.threads.take() {
            threads.shutdown_background();
        }
    }
}

/// A run that is computed elsewhere than where it began.
struct Away<F> {
    run: Pin<Box<F>>,
    home: Handle,
    stands_back: bool,
}

impl<F: Future> Future for Away<F> {
    type Output = F::Output;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
        let Self { run, home, stands_back } = &mut *self;
        let polled = {
            let _at_home = home.enter();
            run.as_mut().poll(context)
        };
        if polled.is_pending() && *stands_back {
            // Standing back is not enough: since 6.6 Linux owes some time even to the policy for idle times, lets a thread
            // that has just had more than its share wait for that when it wakes, and looks again only at the next tick, up
            // to 4 ms later where there are 250 a second. Asked here, it looks after each slice, for less than 1 % of it.
            std::thread::yield_now();
        }
        polled
    }
}

/// Makes the system prefer other threads to this one. It stands back as far as it can: with the policy for idle times, which
/// others that wake interrupt; the lowest priority with it would add nothing. Of a processor that others want all the time
/// it still gets a little, so that it does come on, and gives back what it holds.
fn stand_back() {
    #[cfg(target_os = "linux")]
    {
        #[expect(unsafe_code, reason = "there is no other way to say it")]
        // SAFETY: reads the one number that is lent to it. 0 means this thread alone.
        let result = unsafe {
            libc::sched_setscheduler(0, libc::SCHED_IDLE, &libc::sched_param { sched_priority: 0 })
        };
        if result != 0 {
            tracing::warn!("long runs have the priority of everything else");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Slow;
    use std::sync::Arc;
    use std::thread::current;
    use std::time::Duration;
    use tokio::sync::Notify;

    fn here() -> Option<String> {
        current().name().map(str::to_owned)
    }

    #[tokio::test]
    async fn only_the_computing_moves() {
        let slow = Slow::start(1, true).unwrap();
        let run = Box::pin(async {
            let computed = here();
            // These threads keep no time of their own, and tasks belong where the run came from.
            tokio::time::sleep(Duration::from_millis(1)).await;
            (computed, here(), tokio::spawn(async { here() }).await.unwrap())
        });
        let (before, after, started) = slow.finish(run).await.unwrap();
        assert_eq!((before.as_deref(), after.as_deref()), (Some("long-runs"), Some("long-runs")));
        assert_eq!(started, here());
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn the_threads_stand_back_where_they_are_told_to() {
        // The 41st number of a thread's `stat`, of which two are before the end of its name in parentheses.
        let policy = || {
            let stat = std::fs::read_to_string("/proc/thread-self/stat").unwrap();
            stat.rsplit(')').next().unwrap().split_whitespace().nth(38).unwrap().to_owned()
        };
        let before = policy();
        for (stands_back, expected) in
            [(true, libc::SCHED_IDLE.to_string()), (false, before.clone())]
        {
            let slow = Slow::start(2, stands_back).unwrap();
            let there = slow.finish(Box::pin(async move { policy() })).await.unwrap();
            assert_eq!((policy(), there), (before.clone(), expected));
        }
    }

    #[tokio::test]
    async fn a_run_that_nobody_waits_for_is_dropped() {
        let slow = Slow::start(1, true).unwrap();
        let (begun, dropped) = (Arc::new(Notify::new()), Arc::new(()));
        let run = Box::pin({
            let (begun, held) = (Arc::clone(&begun), Arc::clone(&dropped));
            async move {
                begun.notify_one();
                std::future::pending::<()>().await;
                drop(held);
            }
        });
        tokio::select! {
            _ = slow.finish(run) => panic!("it never ends"),
            () = begun.notified() => {}
        }
        let gone = async {
            while Arc::strong_count(&dropped) > 1 {
                tokio::task::yield_now().await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), gone).await.unwrap();
    }

    #[tokio::test]
    async fn a_run_that_panics_has_no_answer() {
        let slow = Slow::start(1, true).unwrap();
        assert_eq!(slow.finish(Box::pin(async { panic!("as a bug does") })).await, None::<()>);
        assert_eq!(slow.finish(Box::pin(async { 1 })).await, Some(1));
    }
}
