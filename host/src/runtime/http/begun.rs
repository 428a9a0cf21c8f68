//! Requests that a formula began: each has a handle, by which its answer is taken.

use std::sync::Arc;

use wasmtime::Result;
use wasmtime::component::Resource;

use super::{Answer, Ended, Outgoing};
use crate::runtime::memory::{Kept, Refusal};
use crate::runtime::state::State;
use crate::runtime::state::http::{self, Error};

const TAKEN: &str = "the answer was taken already";

/// A request that was begun, by its number.
#[derive(Clone, Copy)]
pub struct Exchange(pub u32);

/// An answer that is there. Its place is another request's already: a formula may ask for the last one first. What it takes
/// of the memory counts until it is taken.
pub struct Untaken {
    answer: Answer,
    no_room: Option<Refusal>,
    _kept: Option<Arc<Kept>>,
}

impl Outgoing {
    /// The answer to a request that was begun; waits for it.
    pub async fn answer_to(&mut self, number: u32) -> Result<Answer> {
        loop {
            if let Some(Untaken { answer, no_room, .. }) = self.under_way.untaken.remove(&number) {
                self.note(no_room);
                return Ok(answer);
            }
            if !self.under_way.wanted.contains_key(&number) {
                return Ok(Err(Error::Invalid(TAKEN.to_owned())));
            }
            let Some(Ended { number, answer, no_room, place }) = self.under_way.next().await?
            else {
                continue;
            };
            let kept = place.map(|(_, kept)| kept);
            self.under_way.untaken.insert(number, Untaken { answer, no_room, _kept: kept });
        }
    }
}

impl http::HostExchange for State {
    async fn answer(&mut self, this: Resource<Exchange>) -> Result<Answer> {
        self.count_call()?;
        let Exchange(number) = *self.table.get(&this)?;
        self.outgoing.answer_to(number).await
    }

    async fn drop(&mut self, this: Resource<Exchange>) -> Result<()> {
        let Exchange(number) = self.table.delete(this)?;
        self.outgoing.abandon(number);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
