//! What a run's requests take of the host's memory until they are answered: it counts as its owner's, as answers do.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use crate::limits::HTTP_BODIES_UNDER_WAY_BYTES_MAX;
use crate::runtime::memory::{Part, Refusal};

/// Bytes of one run's requests that need no room: of those of all slots together, some MiB.
const SENT_BYTES_FREE: usize = 64 << 10;

/// Bytes of a run's requests that have no answer yet.
#[derive(Default)]
pub struct Sent(AtomicUsize);

impl Sent {
    /// How many these are.
    #[cfg(test)]
    pub fn bytes(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

/// Bytes of a request, counted until this is dropped.
pub struct Counted {
    bytes: usize,
    sent: Arc<Sent>,
    /// What it took of its owner's part.
    taken: Option<(Arc<Part>, u64)>,
}

impl Counted {
    /// Counts a request in. If there is no room for it, why; if the run has too many under way, nothing.
    pub fn take(
        bytes: usize,
        sent: &Arc<Sent>,
        part: Option<&Arc<Part>>,
    ) -> Result<Self, Option<Refusal>> {
        let before = sent.0.fetch_add(bytes, Ordering::Relaxed);
        // What is refused goes again when this is dropped.
        let mut counted = Self { bytes, sent: Arc::clone(sent), taken: None };
        if before + bytes > HTTP_BODIES_UNDER_WAY_BYTES_MAX {
            return Err(None);
        }
        if let Some(part) = part {
            let more = beyond(before + bytes) - beyond(before);
            part.take(more).map_err(Some)?;
            counted.taken = Some((Arc::clone(part), more));
        }
        Ok(counted)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.sent.0.fetch_sub(self.bytes, Ordering::Relaxed);
        if let Some((part, taken)) = &self.taken {
            part.give_back(*taken);
        }
    }
}

/// What counts of so many bytes.
fn beyond(bytes: usize) -> u64 {
    bytes.saturating_sub(SENT_BYTES_FREE) as u64
}
