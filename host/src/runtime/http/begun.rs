//! Requests that a formula began: each has a handle, by which its answer is taken.

use wasmtime::Result;
use wasmtime::component::Resource;

use super::{Answer, Ended, Outgoing};
use crate::runtime::state::http::{self, Error};
use crate::runtime::state::{HostFailed, State};

const TAKEN: &str = "the answer was taken already";

/// A request that was begun, by its number.
#[derive(Clone, Copy)]
pub struct Exchange(pub u32);

impl Outgoing {
    /// The answer to a request that was begun; waits for it. That one does not wait for a place: those that have one may have
    /// answers that the formula takes only afterwards.
    pub async fn answer_to(&mut self, number: u32) -> Result<Answer> {
        loop {
            if let Some(Ended { answer, no_room, .. }) = self.under_way.take(Some(number)) {
                self.note(&answer, no_room);
                return Ok(answer);
            }
            let Some(wanted) = self.under_way.wanted.get(&number) else {
                return Ok(Err(Error::Invalid(TAKEN.to_owned())));
            };
            wanted.ahead.notify_one();
            if !self.under_way.one_more().await? {
                return Err(HostFailed.into());
            }
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
        self.outgoing.abandon(number)
    }
}

#[cfg(test)]
mod tests;
