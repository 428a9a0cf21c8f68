//! Slices end in the host too.
//!
//! Fuel measures what a formula computes, and not what it makes its host do: a call with megabytes of arguments, or ten
//! thousand small ones, burn next to none. So each return from the host looks at the clock, and a slice that has lasted
//! long enough ends there as it would have by fuel: others on the thread get their turn, and the run's time is looked at.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use wasmtime::{CallHook, CallHookHandler, Result, StoreContextMut};

use super::state::State;

/// How long a slice lasts that calls the host.
const SLICE: Duration = Duration::from_micros(100);

/// When the slice began that a run is in. Cloning shares it.
#[derive(Clone, Debug)]
pub struct Slice(Arc<Began>);

#[derive(Debug)]
struct Began {
    run: Instant,
    /// After the run.
    slice_ns: AtomicU64,
}

impl Default for Slice {
    fn default() -> Self {
        Self(Arc::new(Began { run: Instant::now(), slice_ns: AtomicU64::new(0) }))
    }
}

impl Slice {
    /// The next slice begins.
    pub fn begin(&self) {
        self.0.slice_ns.store(self.since_run(), Ordering::Relaxed);
    }

    fn is_over(&self) -> bool {
        let began = Duration::from_nanos(self.0.slice_ns.load(Ordering::Relaxed));
        self.0.run.elapsed().saturating_sub(began) >= SLICE
    }

    fn since_run(&self) -> u64 {
        u64::try_from(self.0.run.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// Ends slices when the host has done what it was called for.
pub struct AfterHost;

/// What the engine waits for; nothing, mostly, which takes no memory.
type Waits<'w> = Pin<Box<dyn Future<Output = Result<()>> + Send + 'w>>;

// Written out, since `async_trait` would ask for memory at each of some twenty events of even the smallest run.
impl CallHookHandler<State> for AfterHost {
    fn handle_call_event<'h, 's, 'w>(
        &'h self,
        store: StoreContextMut<'s, State>,
        event: CallHook,
    ) -> Waits<'w>
    where
        'h: 'w,
        's: 'w,
        Self: 'w,
    {
        match event {
            CallHook::ReturningFromHost if store.data().slice.is_over() => {
                Box::pin(Others { had_their_turn: false })
            }
            _ => Box::pin(Nothing),
        }
    }
}

struct Nothing;

impl Future for Nothing {
    type Output = Result<()>;

    fn poll(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Waits once, for no more than those who are ready too.
struct Others {
    had_their_turn: bool,
}

impl Future for Others {
    type Output = Result<()>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<()>> {
        if self.had_their_turn {
            return Poll::Ready(Ok(()));
        }
        self.had_their_turn = true;
        context.waker().wake_by_ref();
        Poll::Pending
    }
}

#[cfg(test)]
mod tests {
    use super::{Nothing, SLICE, Slice};

    #[test]
    fn a_slice_is_over_until_the_next_begins() {
        let slice = Slice::default();
        std::thread::sleep(2 * SLICE);
        assert!(slice.is_over());
        let other = slice.clone();
        let began = std::time::Instant::now();
        other.begin();
        // Unless this thread itself was not run for that long.
        assert!(!slice.is_over() || began.elapsed() >= SLICE);
    }

    #[test]
    fn to_wait_for_nothing_takes_no_memory() {
        assert_eq!(size_of::<Nothing>(), 0);
    }
}
