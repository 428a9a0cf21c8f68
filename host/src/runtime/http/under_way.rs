//! Requests that are under way beside each other: a place for each, its answer, and what both take of the host.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Instant;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore};
use tokio::task::{AbortHandle, JoinError, JoinSet};
use wasmtime::Result;

use super::sent::{Counted, Sent};
use super::{Answer, told};
use crate::limits::HTTP_CALLS_UNDER_WAY_MAX;
use crate::runtime::call::{GuestHttp, GuestHttpRequest};
use crate::runtime::memory::{Kept, Refusal};
use crate::runtime::state::HostFailed;
use crate::runtime::state::http::Error;

/// Requests that were begun and whose answers are not taken yet. They end with the run.
pub struct UnderWay {
    pub tasks: JoinSet<Ended>,
    /// Those whose answers are wanted, by their numbers.
    pub wanted: HashMap<u32, Wanted>,
    /// Of these, answers that are there, in the order in which they came.
    pub ended: VecDeque<Ended>,
    /// So that the answers that nobody took yet do not fill the host's memory.
    pub places: Arc<Semaphore>,
    /// How many were begun.
    pub begun: u32,
    /// What those take of the memory that have no answer.
    pub waiting: Arc<Sent>,
}

/// A request that was begun.
pub struct Wanted {
    pub task: Option<AbortHandle>,
    pub held: SharedHeld,
    /// Has it go ahead without a place.
    pub ahead: Arc<Notify>,
}

/// What a request holds until its answer is taken, or it is given up.
pub type SharedHeld = Arc<Mutex<Held>>;

#[derive(Default)]
pub struct Held {
    /// What it takes of the memory until it has an answer.
    pub counted: Option<Counted>,
    pub place: Option<OwnedSemaphorePermit>,
    /// What its answer takes.
    pub kept: Option<Arc<Kept>>,
    pub is_given_up: bool,
}

/// An answer that is there.
pub struct Ended {
    pub number: u32,
    pub answer: Answer,
    /// Why there was no room for it, if that is why it is none.
    pub no_room: Option<Refusal>,
}

impl Ended {
    /// One that was not sent.
    pub fn unsent(number: u32, error: Error) -> Self {
        Self { number, answer: Err(error), no_room: None }
    }
}

impl Default for UnderWay {
    fn default() -> Self {
        let places = Arc::new(Semaphore::new(HTTP_CALLS_UNDER_WAY_MAX));
        let (tasks, wanted, ended, waiting) = Default::default();
        Self { tasks, wanted, ended, places, begun: 0, waiting }
    }
}

impl UnderWay {
    /// Waits for one more to end; whether there was one to wait for.
    pub async fn one_more(&mut self) -> Result<bool> {
        let Some(ended) = self.tasks.join_next().await else { return Ok(false) };
        self.note(ended)?;
        Ok(true)
    }

    /// Notes the answers of all that have ended.
    pub fn note_all(&mut self) -> Result<()> {
        while let Some(ended) = self.tasks.try_join_next() {
            self.note(ended)?;
        }
        Ok(())
    }

    fn note(&mut self, ended: std::result::Result<Ended, JoinError>) -> Result<()> {
        match ended {
            Ok(ended) if self.wanted.contains_key(&ended.number) => self.ended.push_back(ended),
            Ok(_) => {}
            Err(given_up) if given_up.is_cancelled() => {}
            Err(_) => return Err(HostFailed.into()),
        }
        Ok(())
    }

    /// The answer to this one, or to whichever was there first, if it is there.
    pub fn take(&mut self, number: Option<u32>) -> Option<Ended> {
        let is_it = |ended: &Ended| number.is_none_or(|number| ended.number == number);
        let ended = self.ended.remove(self.ended.iter().position(is_it)?)?;
        self.wanted.remove(&ended.number);
        Some(ended)
    }

    /// The next that has ended.
    pub async fn next(&mut self) -> Result<Option<Ended>> {
        loop {
            if let Some(ended) = self.take(None) {
                return Ok(Some(ended));
            }
            if !self.one_more().await? {
                return Ok(None);
            }
        }
    }

    /// Notes an answer that is there at once.
    pub fn is_there(&mut self, ended: Ended, held: Held) {
        let (held, ahead) = (Arc::new(Mutex::new(held)), Arc::default());
        self.wanted.insert(ended.number, Wanted { task: None, held, ahead });
        self.ended.push_back(ended);
    }

    /// A place, in the order in which these are asked for; none for one that goes ahead.
    pub fn turn(&self, ahead: &Arc<Notify>) -> BoxFuture<'static, Option<OwnedSemaphorePermit>> {
        let (places, ahead) = (Arc::clone(&self.places), Arc::clone(ahead));
        let mut place = places.acquire_owned().boxed();
        // Whoever is asked first stands first in the row, whichever task runs first.
        if let Some(Ok(place)) = (&mut place).now_or_never() {
            return std::future::ready(Some(place)).boxed();
        }
        async move {
            tokio::select! {
                place = place => place.ok(),
                () = ahead.notified() => None,
            }
        }
        .boxed()
    }

    /// Gives up a request that was begun. The other server may have it.
    pub fn give_up(&mut self, number: u32) -> Result<()> {
        if let Some(Wanted { task, held, .. }) = self.wanted.remove(&number) {
            if let Some(task) = task {
                task.abort();
            }
            // At once, although the task ends a moment later: another may be begun meanwhile.
            *held.lock() = Held { is_given_up: true, ..Held::default() };
            self.ended.retain(|ended| ended.number != number);
            self.note_all()?;
        }
        Ok(())
    }
}

/// Sends a request once it is its turn.
pub async fn exchange(
    number: u32,
    (http, mut request): (Arc<dyn GuestHttp>, GuestHttpRequest),
    turn: BoxFuture<'static, Option<OwnedSemaphorePermit>>,
    held: SharedHeld,
) -> Ended {
    let began = Instant::now();
    let Ok(place) = tokio::time::timeout(request.timeout, turn).await else {
        *held.lock() = Held::default();
        return Ended::unsent(number, Error::Timeout);
    };
    let kept = {
        let mut held = held.lock();
        if !held.is_given_up {
            held.place = place;
        }
        held.kept.clone().unwrap_or_default()
    };
    request.timeout = request.timeout.saturating_sub(began.elapsed());
    let answer = http.send(request, Arc::clone(&kept)).await;
    let (answer, no_room) = told(answer, &kept);
    drop(kept);
    let mut held = held.lock();
    held.counted = None;
    if answer.is_err() {
        // Of one that failed there is nothing to keep.
        *held = Held::default();
    }
    Ended { number, answer, no_room }
}
