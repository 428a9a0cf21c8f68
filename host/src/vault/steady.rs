//! Whether the time of day is to be believed by what removes for good.
//!
//! A clock that is set forward by mistake makes everything look ended: tokens with an end, log entries kept for so many
//! days. Refusing what has ended is taken back when the clock is; removing it is not. So before a sweep removes anything
//! by the time of day, that is compared with the time that has passed, which nobody sets:
//!
//! - As long as the time of day has gained no more than [`AHEAD_MS_MAX`] on the time that has passed since the process
//!   began, it is believed. Having been set back is no reason for doubt.
//! - One that has gained more is doubted: nothing is removed by it, and the log says so. Once it went on steadily for
//!   [`STEADY_MS`] it is believed from there on; somebody had time to look, and time to set it right.
//! - A process that begins has seen no time pass. It believes a clock that is at most [`STOPPED_MS_MAX`] past the time that
//!   the vault noted last; a machine may have been off so long. It is noted with each sweep, and only while it is believed:
//!   what is written by a clock in doubt, such as log entries, makes no start trust it. A vault of a version that noted none
//!   goes by the last entry of any tenant's log; with none at all there is nothing to lose.
//!
//! How long a clock in doubt was steady is noted too: a process that begins while it is goes on from there.
//!
//! So a machine that begins with a wrong clock and is corrected removes nothing for a day, at worst. A virtual one that was
//! paused looks as if its clock had been set; the time for which one slept has passed for it (on Linux). What this cannot
//! tell is a clock that was wrong already when the time was noted first, and a process that begins with one that is wrong by
//! some days.
//!
//! What was stored by a clock that was ahead ends too late once that is set right: [`is_beyond`].

#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};

use super::audit::Actor;
use super::record::{Entity, from_json_text, from_record, json_text, kind};
use super::sealed_keys::SYSTEM_TENANT;
use super::{Error, Vault};
use crate::crypto::wiped::Wiped;
use crate::model::time::{self, Timestamp};
use crate::store::{Expect, Kind};

const DAY_MS: i128 = time::DAY_MS as i128;
/// How much the time of day may gain.
const AHEAD_MS_MAX: i128 = 15 * 60 * 1000;
/// How long one that gained more has to go on steadily.
const STEADY_MS: i128 = DAY_MS;
/// How long a vault may have been out of use.
const STOPPED_MS_MAX: i128 = 7 * DAY_MS;

/// What is known of the clock.
#[derive(Default)]
pub struct Steady {
    known: Mutex<Option<Known>>,
    /// The time that was noted last; 0 for none.
    noted_ms: AtomicU64,
    /// The clock that was in doubt when the process before this one noted it last.
    doubted_before: Mutex<Option<DoubtedTime>>,
}

/// The time of day when it was believed last.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct BelievedTime {
    at: Timestamp,
    /// That of the clock, if it is in doubt by now.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    doubted: Option<DoubtedTime>,
}

/// The time of day by a clock in doubt, and for how long that has been steady.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct DoubtedTime {
    at: Timestamp,
    steady_ms: u64,
}

impl Entity for BelievedTime {
    const KIND: Kind = kind::BELIEVED_TIME;
    const NOUN: &'static str = "note of the time";

    fn id(&self) -> String {
        "last".to_owned()
    }

    fn created_ms(&self) -> u64 {
        self.at.0
    }

    fn to_text(&self) -> Result<Wiped, Error> {
        json_text(self)
    }

    fn from_text(text: &[u8]) -> Result<Self, Error> {
        from_json_text(text)
    }
}

/// Whether an end lies further ahead than anything lives that ends so. It was set by a clock that was ahead, and counts as
/// come: nobody knows how long ago that was.
pub fn is_beyond(end: Timestamp, now_ms: u64, longest_ms: u64) -> bool {
    end.0 > latest(now_ms, longest_ms)
}

/// The first end that [`is_beyond`] takes for come, less one millisecond.
pub fn latest(now_ms: u64, longest_ms: u64) -> u64 {
    let ahead_ms = u64::try_from(AHEAD_MS_MAX).unwrap_or_default();
    now_ms.saturating_add(longest_ms).saturating_add(ahead_ms)
}

/// Offsets are of the time of day from the time that has passed.
struct Known {
    /// The time that had passed when the clock was looked at first.
    since_ms: i128,
    believed: i128,
    doubted: Option<Doubted>,
}

#[derive(Clone, Copy)]
struct Doubted {
    offset: i128,
    since_ms: i128,
}

impl Steady {
    /// Whether this time of day is believed after so much time has passed. `last_ms` gives the time of the last thing that
    /// is known to have happened before the process began, 0 for none.
    fn believes(
        &self,
        wall_ms: u64,
        passed_ms: u64,
        last_ms: impl FnOnce() -> Result<u64, Error>,
    ) -> Result<bool, Error> {
        let mut known = self.known.lock();
        let passed_ms = i128::from(passed_ms);
        let offset = i128::from(wall_ms) - passed_ms;
        let known = match &mut *known {
            Some(known) => known,
            none => {
                let last = i128::from(last_ms()?);
                let plausible = last == 0 || i128::from(wall_ms) - last <= STOPPED_MS_MAX;
                let believed = if plausible { offset } else { last - passed_ms };
                none.insert(Known { since_ms: passed_ms, believed, doubted: None })
            }
        };
        let before = || self.doubted_before.lock().take_if(|before| before.goes_on_at(wall_ms));
        Ok(known.look(offset, passed_ms, before))
    }

    /// What is noted of a clock after so much time has passed, if it is in doubt.
    fn doubt(&self, wall_ms: u64, passed_ms: u64) -> Option<BelievedTime> {
        let (known, passed_ms) = (self.known.lock(), i128::from(passed_ms));
        let known = known.as_ref()?;
        let doubted = known.doubted?;
        let ms = |ms: i128| u64::try_from(ms).unwrap_or_default();
        Some(BelievedTime {
            // What is noted is what a start goes by: a clock that is behind takes nothing of that back.
            at: Timestamp(
                ms(known.believed + passed_ms).max(self.noted_ms.load(Ordering::Acquire)),
            ),
            doubted: Some(DoubtedTime {
                at: Timestamp(wall_ms),
                steady_ms: ms(passed_ms - doubted.since_ms),
            }),
        })
    }

    /// Whether a time may be noted after so much time has passed. One before that which stands there is that of a machine
    /// which begins without knowing the time, unless it has stayed so for as long as any clock has to be steady.
    fn may_note(&self, wall_ms: u64, passed_ms: u64) -> bool {
        let stayed = |known: &Known| i128::from(passed_ms) - known.since_ms >= STEADY_MS;
        wall_ms >= self.noted_ms.load(Ordering::Acquire)
            || self.known.lock().as_ref().is_some_and(stayed)
    }
}

impl DoubtedTime {
    /// Whether a process that begins at this time of day begins by the same clock.
    fn goes_on_at(&self, wall_ms: u64) -> bool {
        let since = i128::from(wall_ms) - i128::from(self.at.0);
        (-AHEAD_MS_MAX..=STOPPED_MS_MAX).contains(&since)
    }
}

impl Known {
    /// `before` gives the doubt of the process before this one, if this is the clock that it was of.
    fn look(
        &mut self,
        offset: i128,
        passed_ms: i128,
        before: impl FnOnce() -> Option<DoubtedTime>,
    ) -> bool {
        self.believed = self.believed.min(offset);
        let ahead_ms = offset - self.believed;
        if ahead_ms <= AHEAD_MS_MAX {
            self.doubted = None;
            return true;
        }
        let same = |doubted: &Doubted| (offset - doubted.offset).abs() <= AHEAD_MS_MAX;
        if self.doubted.as_ref().is_none_or(|doubted| !same(doubted))
            && let Some(before) = before()
        {
            tracing::warn!("the clock that was set forward is still to be steady for a day");
            let since_ms = passed_ms - i128::from(before.steady_ms);
            self.doubted = Some(Doubted { offset, since_ms });
        }
        match self.doubted.filter(same) {
            Some(doubted) if passed_ms - doubted.since_ms >= STEADY_MS => {
                tracing::warn!(
                    "the clock that was set forward was steady for a day, and is believed"
                );
                *self = Self { believed: offset, doubted: None, ..*self };
                true
            }
            Some(_) => false,
            None => {
                let ahead_seconds = i64::try_from(ahead_ms / 1000).unwrap_or(i64::MAX);
                tracing::warn!(
                    ahead_seconds,
                    "the clock was set forward: nothing that has ended by it is removed before it was steady for a day"
                );
                self.doubted = Some(Doubted { offset, since_ms: passed_ms });
                false
            }
        }
    }
}

impl Vault {
    /// Whether the time of day is believed, so that what has ended by it may be removed for good.
    pub(super) fn clock_is_believed(&self) -> Result<bool, Error> {
        let noted_ms = self.0.steady.noted_ms.load(Ordering::Acquire);
        let last_ms = || {
            if noted_ms > 0 {
                return Ok(noted_ms);
            }
            let heads = self.0.store.chain_heads()?;
            Ok(heads.into_iter().map(|head| head.time_ms).max().unwrap_or_default())
        };
        let clock = self.0.clock.as_ref();
        self.0.steady.believes(clock.now_ms(), clock.passed_ms(), last_ms)
    }

    /// Finds the time that was noted last. The vault is not used before that.
    pub(super) async fn recall_time(&self) -> Result<(), Error> {
        let found = self.read_records(BelievedTime::KIND, SYSTEM_TENANT, &["last"]).await?;
        // A vault that is new has no keys either.
        let Some(record) = found.into_iter().flatten().next() else { return Ok(()) };
        let keys = self.keys(SYSTEM_TENANT).await?;
        let noted = from_record::<BelievedTime>(&record, &keys)?.entity;
        self.0.steady.noted_ms.store(noted.at.0, Ordering::Release);
        if let Some(doubted) = noted.doubted {
            *self.0.steady.doubted_before.lock() = Some(doubted);
        }
        Ok(())
    }

    /// Notes the time if it is believed, and else for how long it has been steady.
    pub(super) async fn note_time(&self) -> Result<(), Error> {
        let (steady, now, passed_ms) = (&self.0.steady, self.now(), self.0.clock.passed_ms());
        let note = if self.clock_is_believed()? {
            Some(BelievedTime { at: now, doubted: None })
                .filter(|_| steady.may_note(now.0, passed_ms))
        } else {
            steady.doubt(now.0, passed_ms)
        };
        let Some(note) = note else { return Ok(()) };
        let (noted_ms, is_believed) = (note.at.0, note.doubted.is_none());
        let mut change = self.change(SYSTEM_TENANT).await?;
        // What ends goes on being removed on a full disk.
        change.batch.urgent = true;
        change.put(&note, Expect::Any)?;
        change.commit(Actor::SERVER, Vec::new()).await?;
        steady.noted_ms.store(noted_ms, Ordering::Release);
        if is_believed {
            // What was in doubt is over, for this process as for the next.
            *steady.doubted_before.lock() = None;
        }
        Ok(())
    }
}
