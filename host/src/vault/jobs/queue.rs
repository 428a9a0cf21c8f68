//! Which tenants have something waiting. What it is, the store knows.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Ended;
use super::put_off::{OfTenant, PutOff, Until};
use super::receivers::Receivers;
use crate::limits::RUN_WAIT_SECONDS;
use crate::model::id::{InvocationId, ReactorId, TenantId};

/// How long a job waits for memory at first, and so many times as long at most.
const RUN_WAIT: Duration = Duration::from_secs(RUN_WAIT_SECONDS);
const LONGEST_WAIT: u32 = 12;

/// Tenants whose turn it is, and tenants to look at now and then.
#[derive(Default)]
pub struct Queue {
    jobs: Mutex<Turns>,
    pub(super) deliveries: Mutex<Turns>,
    /// Runs that ended without a note of it, and how they are to be ended.
    unended: Mutex<HashMap<(TenantId, InvocationId), Ended<'static>>>,
    /// Jobs that wait for something.
    pub(super) put_off: Mutex<PutOff>,
    /// How often jobs could not be begun, by a fault that may have been a passing one.
    failed: Mutex<HashMap<InvocationId, [u32; 2]>>,
    /// Jobs that are about to be taken in.
    coming: Mutex<HashMap<TenantId, u64>>,
    pub receivers: Receivers,
    stopping: AtomicBool,
    cut_off: Notify,
    wake: Notify,
}

/// Tenants in the order of their turns, each once.
#[derive(Default)]
struct Order {
    queue: VecDeque<TenantId>,
    members: HashSet<TenantId>,
}

#[derive(Default)]
pub(super) struct Turns {
    now: Order,
    /// Nothing to be begun when it was last looked at.
    later: Order,
}

impl Order {
    fn add(&mut self, tenant: TenantId) {
        if self.members.insert(tenant) {
            self.queue.push_back(tenant);
        }
    }

    fn next(&mut self) -> Option<TenantId> {
        let tenant = self.queue.pop_front()?;
        self.members.remove(&tenant);
        Some(tenant)
    }
}

impl Turns {
    pub(super) fn look_again(&mut self, count: usize) {
        for _ in 0..count {
            let Some(tenant) = self.later.next() else { return };
            self.now.add(tenant);
        }
    }
}

/// A job that is about to be taken in, until it is in the store or refused.
pub struct Coming<'q> {
    queue: &'q Queue,
    tenant: TenantId,
    /// How many of the tenant's came before it and are about to be taken in as well. One that has just been stored may be
    /// among them still.
    pub ahead: u64,
}

impl Drop for Coming<'_> {
    fn drop(&mut self) {
        let mut coming = self.queue.coming.lock();
        if let Some(count) = coming.get_mut(&self.tenant) {
            *count -= 1;
            if *count == 0 {
                coming.remove(&self.tenant);
            }
        }
    }
}

impl Queue {
    /// A job of a tenant comes: those that come later count it, from before it is in the store on.
    pub fn comes(&self, tenant: TenantId) -> Coming<'_> {
        let mut coming = self.coming.lock();
        let count = coming.entry(tenant).or_default();
        *count += 1;
        Coming { queue: self, tenant, ahead: *count - 1 }
    }

    /// A tenant has jobs waiting.
    pub fn jobs_of(&self, tenant: TenantId) {
        self.jobs.lock().now.add(tenant);
        self.wake.notify_one();
    }

    /// A tenant has deliveries waiting.
    pub fn deliveries_of(&self, tenant: TenantId) {
        self.deliveries.lock().now.add(tenant);
        self.wake.notify_one();
    }

    /// Nothing more is to be begun.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.wake.notify_one();
    }

    /// What is in hand is not waited for any longer.
    pub(super) fn cut_off_all(&self) {
        self.cut_off.notify_one();
    }

    /// Waits until that is so.
    pub(super) async fn cut_off(&self) {
        self.cut_off.notified().await;
    }

    /// Whether nothing more is to be begun.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    /// Waits until there is something to look at.
    pub(super) async fn woken(&self) {
        self.wake.notified().await;
    }

    /// Gives turns to so many of those that had nothing to be begun.
    pub(super) fn look_again(&self, count: usize) {
        self.jobs.lock().look_again(count);
        self.deliveries.lock().look_again(count);
    }

    pub(super) fn next_for_jobs(&self) -> Option<TenantId> {
        self.jobs.lock().now.next()
    }

    pub(super) fn jobs_again(&self, tenant: TenantId) {
        self.jobs.lock().now.add(tenant);
    }

    pub(super) fn jobs_later(&self, tenant: TenantId) {
        self.jobs.lock().later.add(tenant);
    }

    /// How many tenants have a turn.
    pub(super) fn delivery_turns(&self) -> usize {
        self.deliveries.lock().now.queue.len()
    }

    pub(super) fn next_for_deliveries(&self) -> Option<TenantId> {
        self.deliveries.lock().now.next()
    }

    pub(super) fn deliveries_again(&self, tenant: TenantId) {
        self.deliveries.lock().now.add(tenant);
    }

    pub(super) fn deliveries_later(&self, tenant: TenantId) {
        self.deliveries.lock().later.add(tenant);
    }

    /// A run ended, and nobody could be told. What was said of it first stays.
    pub(super) fn unended(&self, tenant: TenantId, id: InvocationId, ended: Ended<'static>) {
        self.unended.lock().entry((tenant, id)).or_insert(ended);
    }

    /// A job is to wait for something.
    pub(super) fn put_off(&self, tenant: TenantId, id: InvocationId, until: Until) {
        self.put_off.lock().add(tenant, id, until);
    }

    /// A job is to wait so long.
    pub(super) fn put_off_for(&self, tenant: TenantId, id: InvocationId, time: Duration) {
        self.put_off(tenant, id, Until::Moment(Instant::now() + time));
    }

    /// All jobs of a reactor are to wait, until one of them is tried so much later.
    pub(super) fn put_off_reactor(
        &self,
        tenant: TenantId,
        reactor: ReactorId,
        id: InvocationId,
        later: Duration,
    ) {
        self.put_off.lock().try_at(tenant, reactor, id, Instant::now() + later);
    }

    /// Whether a job may be begun as far as its reactor is concerned. If not it waits.
    pub(super) fn may_try(&self, tenant: TenantId, reactor: ReactorId, id: InvocationId) -> bool {
        let mut put_off = self.put_off.lock();
        let now = Instant::now();
        let next = now + Duration::from_secs(RUN_WAIT_SECONDS);
        let may_try = put_off.may_try((tenant, reactor), id, now, next);
        if !may_try {
            put_off.add(tenant, id, Until::ReactorTried(reactor));
        }
        may_try
    }

    /// Has the others of a reactor wait so long, while this job sees whether it can be run; gives whether it does, and no
    /// other.
    pub(super) fn holds_back(
        &self,
        tenant: TenantId,
        reactor: ReactorId,
        id: InvocationId,
        time: Duration,
    ) -> bool {
        self.put_off.lock().holds_back(tenant, reactor, id, Instant::now() + time)
    }

    /// A job's turn is over, and its reactor did not stand in its way.
    pub(super) fn was_tried(&self, tenant: TenantId, reactor: ReactorId, id: InvocationId) {
        let others_may = self.put_off.lock().was_tried(tenant, reactor, id);
        if others_may {
            self.jobs_of(tenant);
        }
    }

    /// What of a tenant is put off; `None` when that is so much that all else waits with it.
    pub(super) fn put_off_of(&self, tenant: TenantId) -> Option<OfTenant> {
        self.put_off.lock().of(tenant, Instant::now())
    }

    /// Whether any are put off.
    pub(super) fn has_put_off(&self) -> bool {
        !self.put_off.lock().is_empty()
    }

    /// What was put off and need not wait any longer waits as all others do.
    pub(super) fn take_up_put_off(&self, clock_is_believed: bool) {
        let given = self.put_off.lock().take_up(Instant::now(), clock_is_believed);
        for tenant in given {
            self.jobs_of(tenant);
        }
    }

    /// A job was begun: what stood in its way before is over.
    pub(super) fn was_begun(&self, tenant: TenantId, reactor: ReactorId, id: InvocationId) {
        self.forget_failures(id);
        self.unended.lock().remove(&(tenant, id));
        let others_may = self.put_off.lock().was_begun(tenant, reactor);
        if others_may {
            self.jobs_of(tenant);
        }
    }

    /// A job could not be begun, for want of memory or else; gives how often for that.
    pub(super) fn failed_to_begin(&self, id: InvocationId, wants_memory: bool) -> u32 {
        let mut failed = self.failed.lock();
        let count = &mut failed.entry(id).or_default()[usize::from(wants_memory)];
        *count += 1;
        *count
    }

    /// How long a job waits for which there was no memory: longer each time, so that those behind it have their turn.
    pub(super) fn wait_for_memory(&self, id: InvocationId) -> Duration {
        let times = self.failed.lock().get(&id).map_or(1, |failed| failed[1]);
        RUN_WAIT * times.clamp(1, LONGEST_WAIT)
    }

    /// A job ended, or waits for what is no fault.
    pub(super) fn forget_failures(&self, id: InvocationId) {
        self.failed.lock().remove(&id);
    }

    pub(super) fn take_unended(&self) -> Vec<(TenantId, InvocationId, Ended<'static>)> {
        let unended = std::mem::take(&mut *self.unended.lock());
        unended.into_iter().map(|((tenant, id), ended)| (tenant, id, ended)).collect()
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::{Ended, LONGEST_WAIT, Queue, RUN_WAIT};
    use crate::model::id::{InvocationId, ReactorId, TenantId};

    fn tenant(number: u128) -> TenantId {
        TenantId(Uuid::from_u128(number))
    }

    #[test]
    fn a_tenant_has_one_turn_and_then_all_others_have_theirs() {
        let queue = Queue::default();
        for number in [1, 2, 1, 3, 2] {
            queue.jobs_of(tenant(number));
        }
        let mut turns = Vec::new();
        for _ in 0..6 {
            let next = queue.next_for_jobs().unwrap();
            turns.push(next.0.as_u128());
            queue.jobs_again(next);
        }
        assert_eq!(turns, [1, 2, 3, 1, 2, 3]);
    }

    #[test]
    fn who_comes_is_counted_by_those_that_come_later_until_it_is_gone() {
        let queue = Queue::default();
        let first = queue.comes(tenant(1));
        let second = queue.comes(tenant(1));
        assert_eq!((first.ahead, second.ahead, queue.comes(tenant(2)).ahead), (0, 1, 0));
        drop(first);
        assert_eq!(queue.comes(tenant(1)).ahead, 1);
        drop(second);
        assert!(queue.coming.lock().is_empty());
    }

    #[test]
    fn what_had_nothing_is_looked_at_again_some_at_a_time() {
        let queue = Queue::default();
        for number in 1..=5 {
            queue.deliveries_later(tenant(number));
        }
        assert_eq!((queue.delivery_turns(), queue.next_for_deliveries()), (0, None));
        queue.look_again(2);
        assert_eq!(queue.delivery_turns(), 2);
        queue.look_again(10);
        assert_eq!(queue.delivery_turns(), 5);
        assert_eq!(queue.next_for_deliveries(), Some(tenant(1)));
    }

    #[tokio::test]
    async fn whoever_adds_or_stops_wakes() {
        let queue = Queue::default();
        queue.jobs_of(tenant(1));
        queue.woken().await;
        queue.deliveries_of(tenant(1));
        queue.woken().await;
        assert!(!queue.is_stopping());
        queue.stop();
        queue.woken().await;
        assert!(queue.is_stopping());
    }

    #[test]
    fn failures_are_counted_for_each_job() {
        let queue = Queue::default();
        let [one, other] = [1, 2].map(|number| InvocationId(Uuid::from_u128(number)));
        let failed = |id| queue.failed_to_begin(id, false);
        assert_eq!((failed(one), failed(one), failed(other)), (1, 2, 1));
        // What it waits for has as many tries as that is waited for, and no other failure has fewer.
        assert_eq!((queue.failed_to_begin(one, true), failed(one)), (1, 3));
        assert_eq!(
            (queue.wait_for_memory(one), queue.wait_for_memory(other)),
            (RUN_WAIT, RUN_WAIT)
        );
        let times = (2..20).map(|_| queue.failed_to_begin(one, true)).last();
        assert_eq!((times, queue.wait_for_memory(one)), (Some(19), RUN_WAIT * LONGEST_WAIT));
        queue.forget_failures(one);
        assert_eq!((queue.failed_to_begin(one, true), failed(one), failed(other)), (1, 1, 2));
    }

    #[test]
    fn what_was_said_of_a_job_before_it_was_begun_is_not_said_of_how_it_ends() {
        let (queue, tenant) = (Queue::default(), tenant(1));
        let [one, other] = [1, 2].map(|number| InvocationId(Uuid::from_u128(number)));
        for id in [one, other] {
            queue.unended(tenant, id, Ended::Lost);
            queue.failed_to_begin(id, false);
        }
        queue.was_begun(tenant, ReactorId(Uuid::nil()), one);
        queue.unended(tenant, one, Ended::Broken);
        let failed = |id| queue.failed_to_begin(id, false);
        assert_eq!((failed(one), failed(other)), (1, 2));
        for (_, id, ended) in queue.take_unended() {
            assert_eq!(matches!(ended, Ended::Broken), id == one);
        }
    }

    #[test]
    fn unended_runs_are_given_once() {
        let queue = Queue::default();
        let id = InvocationId(Uuid::from_u128(9));
        queue.unended(tenant(1), id, Ended::Broken);
        queue.unended(tenant(1), id, Ended::Lost);
        let [(of, given, Ended::Broken)] = queue.take_unended()[..] else { panic!("not as noted") };
        assert_eq!((of, given), (tenant(1), id));
        assert!(queue.take_unended().is_empty());
    }
}
