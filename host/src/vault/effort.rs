//! Evaluating expressions without standing in anybody's way.
//!
//! Almost all expressions cost microseconds and are evaluated where they are met. What costs more is begun anew on a
//! thread that may block, few at a time, so that a mask made to be slow delays nobody but those who ask for it.

use std::sync::LazyLock;
use std::thread::available_parallelism;

use parking_lot::{Condvar, Mutex};
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::expression::Work;

/// Work that is done on the spot: well under a millisecond.
const QUICK_BYTES: usize = 64 << 10;

static PLACES: LazyLock<Places> = LazyLock::new(|| Places {
    free: Mutex::new(available_parallelism().map_or(1, usize::from)),
    freed: Condvar::new(),
});

/// Evaluates with up to so much work. What is evaluated may be so twice: it must change nothing.
pub fn with_effort<T>(work_bytes_max: usize, evaluate: impl Fn(&Work) -> T) -> T {
    let quick = Work::new(QUICK_BYTES.min(work_bytes_max));
    let outcome = evaluate(&quick);
    if !quick.is_spent() {
        return outcome;
    }
    let patiently = || {
        let _place = PLACES.take();
        evaluate(&Work::new(work_bytes_max))
    };
    match Handle::try_current().map(|runtime| runtime.runtime_flavor()) {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(patiently),
        _ => patiently(),
    }
}

/// As many as there are cores.
struct Places {
    free: Mutex<usize>,
    freed: Condvar,
}

struct Place<'p>(&'p Places);

impl Places {
    fn take(&self) -> Place<'_> {
        let mut free = self.free.lock();
        self.freed.wait_while(&mut free, |free| *free == 0);
        *free -= 1;
        Place(self)
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        *self.0.free.lock() += 1;
        self.0.freed.notify_one();
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::sync::Arc;
    use std::sync::atomic::AtomicBool;
    use std::time::Duration;

    use parking_lot::{Condvar, Mutex};

    use super::{QUICK_BYTES, with_effort};

    #[test]
    fn what_is_quick_is_evaluated_once_and_the_rest_with_all_it_may_have() {
        let runs = Cell::new(0);
        let evaluate = |bytes: usize| {
            runs.set(0);
            with_effort(10 * QUICK_BYTES, |work| {
                runs.set(runs.get() + 1);
                work.pay(bytes)
            })
        };
        assert!(evaluate(100).is_ok());
        assert_eq!(runs.get(), 1);
        assert!(evaluate(9 * QUICK_BYTES).is_ok());
        assert_eq!(runs.get(), 2);
        assert!(evaluate(11 * QUICK_BYTES).is_err());
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn slow_ones_leave_the_threads_to_others() {
        // They end once another task has run, which needs a thread that none of them holds.
        let (open, gate) = (AtomicBool::new(false), Condvar::new());
        let shared = Arc::new((Mutex::new(open), gate));
        let slow = (0..8).map(|_| {
            let shared = Arc::clone(&shared);
            tokio::spawn(async move {
                with_effort(10 * QUICK_BYTES, |work| {
                    let paid = work.pay(2 * QUICK_BYTES).is_ok();
                    let mut open = shared.0.lock();
                    let closed = |open: &mut AtomicBool| paid && !*open.get_mut();
                    shared.1.wait_while(&mut open, closed);
                    paid
                })
            })
        });
        let slow: Vec<_> = slow.collect();
        tokio::time::sleep(Duration::from_millis(20)).await;
        let other = tokio::spawn(async move {
            *shared.0.lock().get_mut() = true;
            shared.1.notify_all();
        });
        other.await.unwrap();
        for slow in slow {
            assert!(slow.await.unwrap());
        }
    }
}
