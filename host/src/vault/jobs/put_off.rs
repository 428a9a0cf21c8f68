//! What waits for something that stands in its way, and in nobody else's: a job, or all jobs of a reactor.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::model::id::{InvocationId, ReactorId, TenantId};

/// Jobs and reactors of a tenant that are put off: once there are so many, its other jobs wait too. They are named each time
/// one is taken.
const PUT_OFF_MAX: usize = 1_000;
/// How long is known that a run of a reactor could not be begun, and that another is to be tried, if none comes.
const UNTRIED_MAX: Duration = Duration::from_mins(1);

/// What a job waits for that is put off.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// That the clock is believed.
    ClockBelieved,
    /// That its reactor may be tried. Of most jobs the index tells whose they are, and the reactor is put off as a whole;
    /// of those that an earlier version queued it does not.
    ReactorTried(ReactorId),
    /// A moment.
    Moment(Instant),
}

/// The jobs and the reactors.
#[derive(Default)]
pub struct PutOff {
    jobs: HashMap<TenantId, HashMap<InvocationId, Until>>,
    /// Reactors of which a run could not be begun: for want of memory, say, or since the formula is not compiled. The others
    /// wait, in nobody's place.
    reactors: HashMap<TenantId, HashMap<ReactorId, Tried>>,
}

/// What of a tenant is put off.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct OfTenant {
    /// Jobs.
    pub jobs: Vec<InvocationId>,
    /// All jobs of these reactors, but for those by which they are tried.
    pub reactors: Vec<ReactorId>,
    /// The jobs by which these reactors are tried.
    pub triers: Vec<InvocationId>,
}

/// A reactor that is tried now and then.
struct Tried {
    /// By which run it is tried, until that fails or another one's turn comes.
    by: Option<InvocationId>,
    /// When by another.
    next: Instant,
}

impl PutOff {
    /// A job is to wait.
    pub fn add(&mut self, tenant: TenantId, id: InvocationId, until: Until) {
        self.jobs.entry(tenant).or_default().insert(id, until);
    }

    /// A run of a reactor could not be begun, and another is tried at a moment. Of the one by which it is tried that is known
    /// better than before; of others that were taken before, the latest moment counts.
    pub fn try_at(&mut self, tenant: TenantId, reactor: ReactorId, by: InvocationId, at: Instant) {
        let tried = self.reactors.entry(tenant).or_default().entry(reactor);
        let tried = tried.or_insert(Tried { by: None, next: at });
        let is_trier = tried.by.take_if(|trier| *trier == by).is_some();
        tried.next = if is_trier { at } else { at.max(tried.next) };
    }

    /// Whether a run of a reactor may be begun. Where one could not be, one is tried now and then, as often as it comes, and
    /// another not before that moment.
    pub fn may_try(
        &mut self,
        (tenant, reactor): (TenantId, ReactorId),
        by: InvocationId,
        now: Instant,
        next: Instant,
    ) -> bool {
        let Some(tried) = self.tried(tenant, reactor) else { return true };
        let may_try = tried.by == Some(by) || tried.next <= now;
        if may_try {
            *tried = Tried { by: Some(by), next };
        }
        may_try
    }

    /// Has the others of a reactor wait up to a moment, while this one sees whether it can be run; gives whether it does,
    /// and no other.
    pub fn holds_back(
        &mut self,
        tenant: TenantId,
        reactor: ReactorId,
        by: InvocationId,
        next: Instant,
    ) -> bool {
        let tried = self.reactors.entry(tenant).or_default().entry(reactor);
        let tried = tried.or_insert(Tried { by: Some(by), next });
        let holds_back = tried.by == Some(by);
        if holds_back {
            tried.next = next.max(tried.next);
        }
        holds_back
    }

    /// Nothing more comes of a run by which a reactor was tried; gives whether its others need not wait any longer.
    pub fn was_tried(&mut self, tenant: TenantId, reactor: ReactorId, by: InvocationId) -> bool {
        let was_tried = self.tried(tenant, reactor).is_some_and(|tried| tried.by == Some(by));
        was_tried && self.was_begun(tenant, reactor)
    }

    /// A run of a reactor was begun, and so may its others be; gives whether they had to wait.
    pub fn was_begun(&mut self, tenant: TenantId, reactor: ReactorId) -> bool {
        let Some(reactors) = self.reactors.get_mut(&tenant) else { return false };
        let had_to_wait = reactors.remove(&reactor).is_some();
        if reactors.is_empty() {
            self.reactors.remove(&tenant);
        }
        had_to_wait
    }

    /// What of a tenant is put off; `None` when that is so much that all else waits with it.
    pub fn of(&self, tenant: TenantId, now: Instant) -> Option<OfTenant> {
        let jobs = self.jobs.get(&tenant).into_iter().flatten().map(|(id, _)| *id).collect();
        let mut of_tenant = OfTenant { jobs, ..OfTenant::default() };
        for (reactor, tried) in self.reactors.get(&tenant).into_iter().flatten() {
            if tried.next > now {
                of_tenant.reactors.push(*reactor);
                of_tenant.triers.extend(tried.by);
            }
        }
        (of_tenant.jobs.len() + of_tenant.reactors.len() < PUT_OFF_MAX).then_some(of_tenant)
    }

    /// Whether any wait, or may have to.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.reactors.is_empty()
    }

    /// Lets go of what need not wait any longer; gives whose that is, and whose reactors are to be tried.
    pub fn take_up(&mut self, now: Instant, clock_is_believed: bool) -> Vec<TenantId> {
        let Self { jobs, reactors } = self;
        let mut given = Vec::new();
        reactors.retain(|tenant, reactors| {
            if reactors.values().any(|tried| tried.next <= now) {
                given.push(*tenant);
            }
            reactors.retain(|_, tried| tried.next + UNTRIED_MAX > now);
            !reactors.is_empty()
        });
        let waits = |tenant: &TenantId, reactor: &ReactorId| {
            let tried = reactors.get(tenant).and_then(|reactors| reactors.get(reactor));
            tried.is_some_and(|tried| tried.next > now)
        };
        jobs.retain(|tenant, jobs| {
            let before = jobs.len();
            jobs.retain(|_, until| match until {
                Until::ClockBelieved => !clock_is_believed,
                Until::ReactorTried(reactor) => waits(tenant, reactor),
                Until::Moment(moment) => *moment > now,
            });
            if jobs.len() < before && !given.contains(tenant) {
                given.push(*tenant);
            }
            !jobs.is_empty()
        });
        given
    }

    fn tried(&mut self, tenant: TenantId, reactor: ReactorId) -> Option<&mut Tried> {
        self.reactors.get_mut(&tenant)?.get_mut(&reactor)
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use uuid::Uuid;

    use super::{OfTenant, PUT_OFF_MAX, PutOff, UNTRIED_MAX, Until};
    use crate::model::id::{InvocationId, ReactorId, TenantId};

    const SECOND: Duration = Duration::from_secs(1);

    fn tenant(number: u128) -> TenantId {
        TenantId(Uuid::from_u128(number))
    }

    fn id(number: usize) -> InvocationId {
        InvocationId(Uuid::from_u128(number as u128))
    }

    fn reactor(number: u128) -> ReactorId {
        ReactorId(Uuid::from_u128(number))
    }

    /// What of the first tenant is put off at a moment.
    fn of(put_off: &PutOff, now: Instant) -> OfTenant {
        put_off.of(tenant(1), now).unwrap()
    }

    /// The first reactor waits, whether it is tried by a job or not.
    fn waits(trier: Option<usize>) -> OfTenant {
        let triers = trier.map(id).into_iter().collect();
        OfTenant { jobs: Vec::new(), reactors: vec![reactor(1)], triers }
    }

    fn may_try(put_off: &mut PutOff, by: usize, now: Instant) -> bool {
        put_off.may_try((tenant(1), reactor(1)), id(by), now, now + 5 * SECOND)
    }

    #[test]
    fn what_is_put_off_is_named_until_all_of_it_is_taken_up() {
        let (mut put_off, now, until) = (PutOff::default(), Instant::now(), Until::ClockBelieved);
        assert!(put_off.is_empty());
        for _ in 0..2 {
            put_off.add(tenant(1), id(1), until);
        }
        assert_eq!(of(&put_off, now).jobs, [id(1)]);
        assert_eq!(put_off.of(tenant(2), now), Some(OfTenant::default()));
        // Past a number of them the tenant's others wait too, and nobody else's.
        put_off.try_at(tenant(1), reactor(1), id(1), now + 60 * SECOND);
        for number in 2..PUT_OFF_MAX {
            assert!(put_off.of(tenant(1), now).is_some(), "{number}");
            put_off.add(tenant(1), id(number), until);
        }
        assert_eq!(put_off.of(tenant(1), now), None);
        assert!(put_off.of(tenant(2), now).is_some());
        assert_eq!(put_off.take_up(now, false), []);
        assert_eq!(put_off.take_up(now, true), [tenant(1)]);
        assert_eq!(of(&put_off, now), waits(None));
    }

    #[test]
    fn a_job_waits_for_its_moment() {
        let (mut put_off, now) = (PutOff::default(), Instant::now());
        put_off.add(tenant(1), id(1), Until::Moment(now + SECOND));
        assert_eq!(put_off.take_up(now, true), []);
        assert_eq!(of(&put_off, now).jobs, [id(1)]);
        assert_eq!(put_off.take_up(now + SECOND, false), [tenant(1)]);
        assert!(put_off.is_empty());
    }

    #[test]
    fn a_reactor_that_could_not_be_run_is_tried_with_one_job_at_a_time() {
        let (mut put_off, now) = (PutOff::default(), Instant::now());
        // Nothing is known of it.
        assert!(may_try(&mut put_off, 9, now) && may_try(&mut put_off, 8, now));
        assert!(put_off.is_empty());
        put_off.try_at(tenant(1), reactor(1), id(7), now + SECOND);
        // Others that were taken before fail a little later.
        put_off.try_at(tenant(1), reactor(1), id(8), now + 2 * SECOND);
        put_off.try_at(tenant(1), reactor(1), id(9), now + SECOND);
        assert!(!may_try(&mut put_off, 7, now + SECOND));
        assert_eq!(of(&put_off, now + SECOND), waits(None));
        // Neither other reactors nor other tenants have to do with it.
        for other in [(tenant(1), reactor(2)), (tenant(2), reactor(1))] {
            assert!(put_off.may_try(other, id(4), now, now + SECOND));
        }
        assert_eq!(put_off.take_up(now + SECOND, true), []);
        for (turn, trier) in [(0, 1), (1, 2)] {
            let at = now + 2 * SECOND + turn * 5 * SECOND;
            assert_eq!(put_off.take_up(at, true), [tenant(1)]);
            assert_eq!(of(&put_off, at), OfTenant::default());
            // It is tried, and by nothing else meanwhile, but by this one as often as it comes: its turn may be over before
            // it comes to begin, for want of a slot.
            assert!(may_try(&mut put_off, trier, at) && may_try(&mut put_off, trier, at));
            assert!(!may_try(&mut put_off, 9, at + 4 * SECOND));
            assert_eq!(of(&put_off, at + 4 * SECOND), waits(Some(trier)));
            assert_eq!(put_off.take_up(at + 4 * SECOND, true), []);
        }
        // Once it failed it waits as all others do.
        let failed = now + 8 * SECOND;
        put_off.try_at(tenant(1), reactor(1), id(2), failed + 5 * SECOND);
        assert!(!may_try(&mut put_off, 2, failed));
        assert!(put_off.was_begun(tenant(1), reactor(1)));
        assert!(!put_off.was_begun(tenant(1), reactor(1)));
        assert!(put_off.is_empty());
    }

    #[test]
    fn jobs_of_which_the_index_does_not_tell_whose_they_are_wait_with_their_reactor() {
        let (mut put_off, now) = (PutOff::default(), Instant::now());
        put_off.try_at(tenant(1), reactor(1), id(1), now + SECOND);
        put_off.add(tenant(1), id(1), Until::ReactorTried(reactor(1)));
        put_off.add(tenant(1), id(2), Until::ReactorTried(reactor(2)));
        assert_eq!(put_off.take_up(now, false), [tenant(1)]);
        assert_eq!(of(&put_off, now).jobs, [id(1)]);
        assert_eq!(put_off.take_up(now + SECOND, false), [tenant(1)]);
        assert_eq!(of(&put_off, now + SECOND), OfTenant::default());
    }

    #[test]
    fn one_run_at_a_time_sees_whether_its_reactor_can_be_run() {
        let (mut put_off, now) = (PutOff::default(), Instant::now());
        let holds = |put_off: &mut PutOff, number, at| {
            put_off.holds_back(tenant(1), reactor(1), id(number), at)
        };
        assert!(holds(&mut put_off, 1, now + SECOND));
        assert!(!holds(&mut put_off, 2, now + 2 * SECOND));
        // It goes on as long as it says so.
        assert!(holds(&mut put_off, 1, now + 2 * SECOND));
        assert!(!may_try(&mut put_off, 3, now + SECOND));
        assert_eq!(of(&put_off, now + SECOND), waits(Some(1)));
        // If it says no more, another does.
        assert!(may_try(&mut put_off, 3, now + 2 * SECOND));
        assert!(!holds(&mut put_off, 1, now + 9 * SECOND));
        assert!(holds(&mut put_off, 3, now + 3 * SECOND));
        assert!(!put_off.was_tried(tenant(1), reactor(1), id(1)));
        assert_eq!(of(&put_off, now), waits(Some(3)));
        assert!(put_off.was_tried(tenant(1), reactor(1), id(3)));
        assert!(put_off.is_empty());
    }

    #[test]
    fn a_reactor_that_is_due_is_forgotten_if_no_job_comes() {
        let (mut put_off, now) = (PutOff::default(), Instant::now());
        put_off.try_at(tenant(1), reactor(1), id(1), now + SECOND);
        assert_eq!(put_off.take_up(now, true), []);
        // Others may have all places for a while.
        for seconds in [1, 30, 60] {
            assert_eq!(put_off.take_up(now + seconds * SECOND, true), [tenant(1)]);
            assert!(!put_off.is_empty());
        }
        put_off.take_up(now + SECOND + UNTRIED_MAX, true);
        assert!(put_off.is_empty());
    }
}
