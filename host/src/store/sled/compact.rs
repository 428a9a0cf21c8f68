//! Compacting: what lives is copied to new files while the store is written to, and the old files are removed.
//!
//! The writer itself copies, a portion between two groups, or between portions of a large batch. So nobody writes a row
//! while it is copied, and a group waits for one portion at most. Whatever is written meanwhile is written to the copy too.
//! The copy counts once its files are whole on the disk and marked so ([`super::files`]); a process that ends before leaves
//! the old files as they were.
//!
//! A copy may also be wanted to be read ([`super::snapshot`]). It is made in the same way, and handed over instead of
//! taking the place of anything.

#[cfg(test)]
mod tests;

use std::sync::atomic::Ordering;

use super::copy::Copy;
use super::space::Space;
use super::turns::Turns;
use super::waiting::Waiting;
use super::wanted::Wanted;
use super::writer::Writer;
use crate::store::StoreError;

/// Whether there is room for so much of a copy. One that replaces the files gives back what does not live of them.
fn room(space: &Space, done: &Wanted, bytes: u64) -> Result<(), StoreError> {
    if done.replaces() { space.has_last_room_for(bytes) } else { space.has_room_for(bytes) }
}

/// Why a copy of so many bytes is not made. All else goes on.
fn of_copy(error: StoreError, bytes: u64) -> StoreError {
    match error {
        StoreError::Full => StoreError::NoRoomToCopy(bytes.div_ceil(1 << 20)),
        error => error,
    }
}

impl Writer {
    /// The next batch to be committed; `None` when there will be none. Copies until there is one, and removes what is left.
    pub(super) fn next(&mut self, turns: &mut Turns) -> Option<Waiting> {
        loop {
            self.begin_copy();
            let is_busy = self.go_on_copying() | self.remove_some();
            if !is_busy {
                self.progress.rest();
                return turns.wait();
            }
            if let Some(next) = turns.next_if(|_| true) {
                return Some(next);
            }
            if turns.is_over() {
                // What is left goes at the next start: the notes of it are there.
                self.give_up_copy(StoreError::Closed);
                return None;
            }
        }
    }

    /// Copies a portion, if there is a copy; whether there was one.
    pub(super) fn go_on_copying(&mut self) -> bool {
        let Some(copy) = &mut self.log.copy else { return false };
        self.progress.begin();
        // What others write goes on in both: the copy must not take the last of the space.
        if copy.done.is_nobodys() {
            tracing::info!("a copy of the store is given up: nobody waits for it");
            self.leave_copy(StoreError::Closed);
            return true;
        }
        let room = room(&self.space, &copy.done, 0);
        match room.and_then(|()| copy.copy_some(&self.log.tree)) {
            Ok(true) => self.finish_copy(),
            Ok(false) => {}
            Err(error) => self.give_up_copy(error),
        }
        true
    }

    fn begin_copy(&mut self) {
        // What is left would be copied, and removed from the copy.
        let may_copy = std::mem::take(&mut self.may_copy) || self.backlog.is_empty();
        if self.log.copy.is_some() || !may_copy {
            return;
        }
        let Some(done) = self.files.wishes.take() else { return };
        if done.replaces() {
            self.files.has_removed.store(false, Ordering::Release);
        }
        // A copy that fills the disk would be in the way of everything else.
        let bytes = self.files.wishes.bytes.load(Ordering::Acquire);
        match room(&self.space, &done, bytes).and_then(|()| self.files.begin()) {
            Ok(files) => self.log.copy = Some(Copy::begin(files, done)),
            Err(error) => {
                let error = of_copy(error, bytes);
                tracing::warn!(%error, bytes, "the store cannot be copied, and is not compacted");
                if done.replaces() {
                    self.files.has_removed.store(true, Ordering::Release);
                }
                done.refuse(error);
            }
        }
    }

    fn finish_copy(&mut self) {
        let Some(copy) = &mut self.log.copy else { return };
        // After a failure nobody knows what the old files hold: a copy of them must not take their place.
        let sound =
            if self.failed.load(Ordering::Acquire) { Err(StoreError::Failed) } else { copy.sync() };
        if let Err(error) = sound {
            return self.give_up_copy(error);
        }
        if !copy.done.replaces() {
            return self.hand_over_copy();
        }
        if let Err(error) = self.files.complete(&copy.next) {
            if let Err(error) = self.files.take_back(&copy.next) {
                // Which files the next start takes is not known: nothing more may be acknowledged.
                tracing::error!(%error, "the store's files cannot be told apart");
                self.failed.store(true, Ordering::Release);
            }
            return self.give_up_copy(error);
        }
        if let Some(Copy { next, file, done: Wanted::ToReplace(done), .. }) = self.log.copy.take() {
            if let Err(error) = self.log.go_on_in(next.tree.clone(), file) {
                self.fail();
                let _ = done.send(Err(error));
                return;
            }
            self.files.replace(next, done);
        }
    }

    /// Gives the copy to who wanted it: all that was acknowledged so far is in it, and nothing else ever will be.
    fn hand_over_copy(&mut self) {
        if let Some(Copy { next, done: Wanted::ToRead((done, one)), .. }) = self.log.copy.take()
            && let Err(Ok((next, _one))) = done.send(Ok((next, one)))
        {
            // Nobody waits any more.
            self.files.discard(next);
        }
    }

    fn give_up_copy(&mut self, error: StoreError) {
        if self.log.copy.is_some() {
            let error = of_copy(error, self.files.wishes.bytes.load(Ordering::Acquire));
            tracing::warn!(%error, "the store was not copied");
            self.leave_copy(error);
        }
    }

    fn leave_copy(&mut self, error: StoreError) {
        if let Some(copy) = self.log.copy.take() {
            let number = copy.next.number;
            let (syncing, done) = copy.close();
            self.log.leave(syncing);
            // Files whose mark could not be taken back are the next start's to judge.
            if !self.failed.load(Ordering::Acquire) {
                self.files.remove_copy(number);
            }
            if done.replaces() {
                self.files.has_removed.store(true, Ordering::Release);
            }
            done.refuse(error);
        }
    }
}
