//! Turns at what only so many may do at a time: each tenant that waits has one after the other, however many of one wait.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};

use crate::model::id::TenantId;

/// Places, as many as there are cores.
pub struct Places(Mutex<Row>);

#[derive(Default)]
struct Row {
    free: usize,
    /// Those who wait, by tenant; the next turn is that of the first one.
    waiting: VecDeque<(Option<TenantId>, VecDeque<Arc<Turn>>)>,
}

/// One that waits for its turn.
#[derive(Default)]
struct Turn {
    come: Mutex<bool>,
    called: Condvar,
}

/// A place, until it is dropped.
pub struct Place<'p>(&'p Places);

impl Places {
    /// So many places.
    pub fn new(free: usize) -> Self {
        Self(Mutex::new(Row { free, ..Row::default() }))
    }

    /// Waits for a place, on this thread; for as long as it takes, or until then.
    pub fn take(&self, tenant: Option<TenantId>, until: Option<Instant>) -> Option<Place<'_>> {
        let turn = {
            let mut row = self.0.lock();
            // Who gives a place up gives it to whoever waits, so that none is free then.
            if row.free > 0 {
                row.free -= 1;
                return Some(Place(self));
            }
            row.wait(tenant)
        };
        let is_called = |come: &mut bool| !*come;
        match until {
            None => turn.called.wait_while(&mut turn.come.lock(), is_called),
            Some(until) => {
                turn.called.wait_while_until(&mut turn.come.lock(), is_called, until);
                let mut row = self.0.lock();
                // It may have come since.
                if !*turn.come.lock() {
                    row.leave(tenant, &turn);
                    return None;
                }
            }
        }
        Some(Place(self))
    }
}

impl Row {
    fn wait(&mut self, tenant: Option<TenantId>) -> Arc<Turn> {
        let turn = Arc::new(Turn::default());
        match self.waiting.iter_mut().find(|(waits, _)| *waits == tenant) {
            Some((_, turns)) => turns.push_back(Arc::clone(&turn)),
            None => self.waiting.push_back((tenant, VecDeque::from([Arc::clone(&turn)]))),
        }
        turn
    }

    /// Gives a turn up.
    fn leave(&mut self, tenant: Option<TenantId>, turn: &Arc<Turn>) {
        if let Some((_, turns)) = self.waiting.iter_mut().find(|(waits, _)| *waits == tenant) {
            turns.retain(|other| !Arc::ptr_eq(other, turn));
        }
        self.waiting.retain(|(_, turns)| !turns.is_empty());
    }

    /// Whose turn it is.
    fn next(&mut self) -> Option<Arc<Turn>> {
        let (tenant, mut turns) = self.waiting.pop_front()?;
        let turn = turns.pop_front();
        if !turns.is_empty() {
            self.waiting.push_back((tenant, turns));
        }
        turn
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let mut row = self.0.0.lock();
        match row.next() {
            Some(turn) => {
                *turn.come.lock() = true;
                turn.called.notify_one();
            }
            None => row.free += 1,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::{Duration, Instant};

    use uuid::Uuid;

    use super::Places;
    use crate::model::id::TenantId;

    /// Waits until so many wait.
    fn until_waiting(places: &Places, count: usize) {
        let began = Instant::now();
        let waiting =
            || places.0.lock().waiting.iter().map(|(_, turns)| turns.len()).sum::<usize>();
        while waiting() < count {
            assert!(began.elapsed() < Duration::from_mins(1), "{}", waiting());
            thread::yield_now();
        }
    }

    #[test]
    fn tenants_take_turns_and_each_in_its_order() {
        let places = Arc::new(Places::new(1));
        let (told, order) = channel();
        let first = places.take(None, None);
        let mut threads = Vec::new();
        // One tenant asks for much before the others come.
        for (number, tenant) in [1, 1, 1, 1, 2, 3, 2].into_iter().enumerate() {
            let (shared, told) = (Arc::clone(&places), told.clone());
            threads.push(thread::spawn(move || {
                let _place = shared.take(Some(TenantId(Uuid::from_u128(tenant))), None);
                told.send((tenant, number)).unwrap();
            }));
            until_waiting(&places, number + 1);
        }
        drop(first);
        for thread in threads {
            thread.join().unwrap();
        }
        let order: Vec<_> = order.try_iter().collect();
        assert_eq!(order, [(1, 0), (2, 4), (3, 5), (1, 1), (2, 6), (1, 2), (1, 3)]);
        assert_eq!(places.0.lock().free, 1);
    }

    #[test]
    fn as_many_as_there_are_places_go_at_once_and_no_more() {
        let places = Arc::new(Places::new(2));
        let both = [places.take(None, None), places.take(None, None)];
        let shared = Arc::clone(&places);
        let third = thread::spawn(move || drop(shared.take(None, None)));
        until_waiting(&places, 1);
        // Who gives up leaves the row to the others.
        let soon = Instant::now() + Duration::from_millis(20);
        assert!(places.take(None, Some(soon)).is_none());
        assert!(places.take(Some(TenantId(Uuid::nil())), Some(soon)).is_none());
        until_waiting(&places, 1);
        drop(both);
        third.join().unwrap();
        assert_eq!(places.0.lock().free, 2);
    }
}
