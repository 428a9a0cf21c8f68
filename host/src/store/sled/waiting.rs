//! A batch between the one who waits for it and the writer.

use tokio::sync::oneshot;

use super::guard;
use crate::crypto::integrity::Hash;
use crate::store::{Batch, Put, Record, StoreError};

/// A batch on its way, and where its outcome goes.
pub struct Waiting {
    /// What is to be committed.
    pub batch: Batch,
    /// The [`guard::content`] of each put.
    pub contents: Vec<Hash>,
    /// Told once it is durable, or refused.
    pub done: oneshot::Sender<Result<(), StoreError>>,
}

impl Waiting {
    /// A batch, made ready as far as the writer is not needed: whoever waits for the batch does the hashing.
    pub fn new(batch: Batch, done: oneshot::Sender<Result<(), StoreError>>) -> Self {
        let content = |put: &Put| {
            let Record { terms, numbers, uniques, body, .. } = &put.record;
            guard::content((terms, numbers, uniques), body)
        };
        let contents = batch.puts.iter().map(content).collect();
        Self { batch, contents, done }
    }

    /// Bytes of its bodies.
    pub fn bytes(&self) -> usize {
        self.batch.puts.iter().map(|put| put.record.body.len()).sum()
    }
}
