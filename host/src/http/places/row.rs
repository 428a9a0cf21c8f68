//! A row of connections that may be asked to make room: whoever has been in it longest is asked first.

use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering};

use tokio::sync::Notify;

/// One row; a connection may wait in several, and leaves all of them once it is asked in one.
#[derive(Default)]
pub struct Row {
    /// Wakes whoever has been there longest.
    longest: Notify,
    /// Those in it who were not asked yet.
    staying: AtomicUsize,
}

impl Row {
    /// Asks one, if there is any.
    pub fn ask(&self) -> bool {
        let any = self.staying.load(Ordering::Acquire) > 0;
        if any {
            self.longest.notify_one();
        }
        any
    }

    /// Waits in the row, from the first poll on, until it is asked.
    pub async fn asked(&self) {
        let mut asked = pin!(self.longest.notified());
        // Who was asked and had gone by then leaves the asking behind: it is not for who comes next.
        while asked.as_mut().enable() {
            asked.set(self.longest.notified());
        }
        let _staying = Staying::count(&self.staying);
        asked.await;
    }
}

/// One more connection that was not asked to leave, as long as it is held.
struct Staying<'a>(&'a AtomicUsize);

impl<'a> Staying<'a> {
    fn count(all: &'a AtomicUsize) -> Self {
        all.fetch_add(1, Ordering::AcqRel);
        Self(all)
    }
}

impl Drop for Staying<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}
