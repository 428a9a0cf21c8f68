//! Jobs that wait for something that stands in their way, and in nobody else's.

use std::collections::HashMap;
use std::time::Instant;

use crate::model::id::{InvocationId, ReactorId, TenantId};

/// Jobs of a tenant that are put off: once there are so many, its others wait too. They are named each time one is taken.
const PUT_OFF_MAX: usize = 1_000;

/// What a job waits for that is put off.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Until {
    /// That the clock is believed.
    ClockBelieved,
    /// That a run of its reactor may be begun, which another could not be just now: for want of memory, say, or since its
    /// formula is not compiled.
    ReactorTried(ReactorId),
}

/// The jobs, and the reactors that are tried now and then.
#[derive(Default)]
pub struct PutOff {
    jobs: HashMap<TenantId, HashMap<InvocationId, Until>>,
    /// Reactors of which a run could not be begun. The others wait, in nobody's place, and fail none of the tries that each
    /// has.
    reactors: HashMap<(TenantId, ReactorId), Tried>,
}

/// A reactor that is tried now and then.
struct Tried {
    /// By which run it was tried last, or still is.
    by: InvocationId,
    /// When by another.
    next: Instant,
}

impl PutOff {
    /// A job is to wait.
    pub fn add(&mut self, tenant: TenantId, id: InvocationId, until: Until) {
        self.jobs.entry(tenant).or_default().insert(id, until);
    }

    /// A run of a reactor could not be begun, and another is tried at a moment.
    pub fn try_at(&mut self, tenant: TenantId, reactor: ReactorId, by: InvocationId, at: Instant) {
        let tried = self.reactors.entry((tenant, reactor)).or_insert(Tried { by, next: at });
        tried.next = at.max(tried.next);
    }

    /// Whether a run of a reactor may be begun. Where one could not be, one is tried now and then, as often as it comes, and
    /// another not before that moment.
    pub fn may_try(
        &mut self,
        tenant: TenantId,
        reactor: ReactorId,
        by: InvocationId,
        now: Instant,
        next: Instant,
    ) -> bool {
        let Some(tried) = self.reactors.get_mut(&(tenant, reactor)) else { return true };
        let may_try = tried.by == by || tried.next <= now;
        if may_try {
            *tried = Tried { by, next };
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
        let tried = self.reactors.entry((tenant, reactor)).or_insert(Tried { by, next });
        if tried.by == by {
            tried.next = next.max(tried.next);
        }
        tried.by == by
    }

    /// Nothing more comes of a run by which a reactor was tried: its others need not wait.
    pub fn was_tried(&mut self, tenant: TenantId, reactor: ReactorId, by: InvocationId) {
        if self.reactors.get(&(tenant, reactor)).is_some_and(|tried| tried.by == by) {
            self.reactors.remove(&(tenant, reactor));
        }
    }

    /// A run of a reactor was begun: so may its others be.
    pub fn was_begun(&mut self, tenant: TenantId, reactor: ReactorId) {
        self.reactors.remove(&(tenant, reactor));
    }

    /// A tenant's jobs that are put off; `None` when those are so many that the others wait with them.
    pub fn of(&self, tenant: TenantId) -> Option<Vec<InvocationId>> {
        let of_tenant = self.jobs.get(&tenant).into_iter().flatten();
        let of_tenant: Vec<_> = of_tenant.map(|(id, _)| *id).collect();
        (of_tenant.len() < PUT_OFF_MAX).then_some(of_tenant)
    }

    /// Whether any wait, or may have to.
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty() && self.reactors.is_empty()
    }

    /// Lets go of what need not wait any longer, and of each reactor that is to be tried the oldest; gives whose those are.
    pub fn take_up(&mut self, now: Instant, clock_is_believed: bool) -> Vec<TenantId> {
        let Self { jobs, reactors } = self;
        let mut given = Vec::new();
        jobs.retain(|tenant, jobs| {
            let before = jobs.len();
            let mut oldest: HashMap<ReactorId, InvocationId> = HashMap::new();
            jobs.retain(|id, until| match until {
                Until::ClockBelieved => !clock_is_believed,
                Until::ReactorTried(reactor) => match reactors.get(&(*tenant, *reactor)) {
                    None => false,
                    Some(tried) => {
                        if tried.next <= now {
                            let oldest = oldest.entry(*reactor).or_insert(*id);
                            *oldest = (*oldest).min(*id);
                        }
                        true
                    }
                },
            });
            for id in oldest.values() {
                jobs.remove(id);
            }
            if jobs.len() < before {
                given.push(*tenant);
            }
            !jobs.is_empty()
        });
        // Of those that are due and of which nothing waited, nothing is known any more.
        reactors.retain(|(tenant, _), tried| tried.next > now || given.contains(tenant));
        given
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use uuid::Uuid;

    use super::{PUT_OFF_MAX, PutOff, Until};
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

    /// A tenant's jobs that are put off, in order.
    fn of(put_off: &PutOff, number: u128) -> Vec<InvocationId> {
        let mut of = put_off.of(tenant(number)).unwrap();
        of.sort();
        of
    }

    #[test]
    fn what_is_put_off_is_named_until_all_of_it_is_taken_up() {
        let (mut put_off, now, until) = (PutOff::default(), Instant::now(), Until::ClockBelieved);
        assert!(put_off.is_empty());
        for _ in 0..2 {
            put_off.add(tenant(1), id(1), until);
        }
        assert_eq!((of(&put_off, 1), of(&put_off, 2)), (vec![id(1)], vec![]));
        // Past a number of them the tenant's others wait too, and nobody else's.
        for number in 2..=PUT_OFF_MAX {
            assert!(put_off.of(tenant(1)).is_some(), "{number}");
            put_off.add(tenant(1), id(number), until);
        }
        assert_eq!(put_off.of(tenant(1)), None);
        assert!(!put_off.is_empty() && put_off.of(tenant(2)).is_some());
        assert_eq!(put_off.take_up(now, false), []);
        assert_eq!(put_off.take_up(now, true), [tenant(1)]);
        assert!(put_off.is_empty());
        assert_eq!(of(&put_off, 1), []);
    }

    #[test]
    fn of_a_reactor_that_could_not_be_run_the_oldest_is_tried_at_a_time() {
        let (mut put_off, now) = (PutOff::default(), Instant::now());
        let may_try = |put_off: &mut PutOff, number, at| {
            put_off.may_try(tenant(1), reactor(1), id(number), at, at + 5 * SECOND)
        };
        // Nothing is known of it.
        assert!(may_try(&mut put_off, 9, now) && may_try(&mut put_off, 9, now));
        put_off.try_at(tenant(1), reactor(1), id(7), now + SECOND);
        // Others that were taken before fail a little later.
        put_off.try_at(tenant(1), reactor(1), id(8), now + 2 * SECOND);
        put_off.try_at(tenant(1), reactor(1), id(9), now + SECOND);
        for number in [3, 1, 2] {
            assert!(!may_try(&mut put_off, 9, now + SECOND));
            put_off.add(tenant(1), id(number), Until::ReactorTried(reactor(1)));
        }
        // Neither other reactors nor other tenants have to do with it.
        assert!(put_off.may_try(tenant(1), reactor(2), id(4), now, now + SECOND));
        assert!(put_off.may_try(tenant(2), reactor(1), id(4), now, now + SECOND));
        assert_eq!(put_off.take_up(now + SECOND, true), []);
        for (turn, tried, left) in [(0, 1, vec![id(2), id(3)]), (1, 2, vec![id(3)])] {
            let at = now + 2 * SECOND + turn * 5 * SECOND;
            assert_eq!(put_off.take_up(at, true), [tenant(1)]);
            assert_eq!(of(&put_off, 1), left);
            // It is tried, and nothing else of the reactor meanwhile, that has just come.
            assert!(may_try(&mut put_off, tried, at));
            assert!(!may_try(&mut put_off, 9, at + 4 * SECOND));
            assert_eq!(put_off.take_up(at + 4 * SECOND, true), []);
        }
        // Its turn may have been over before it came to begin, for want of a slot.
        assert!(may_try(&mut put_off, 2, now + 8 * SECOND));
        put_off.was_begun(tenant(1), reactor(1));
        assert!(may_try(&mut put_off, 9, now));
        assert_eq!(put_off.take_up(now, false), [tenant(1)]);
        assert!(put_off.is_empty());
    }

    #[test]
    fn one_run_at_a_time_sees_whether_its_reactor_can_be_run() {
        let (mut put_off, now) = (PutOff::default(), Instant::now());
        let holds = |put_off: &mut PutOff, number, at| {
            put_off.holds_back(tenant(1), reactor(1), id(number), at)
        };
        let may_try = |put_off: &mut PutOff, number, at| {
            put_off.may_try(tenant(1), reactor(1), id(number), at, at + SECOND)
        };
        assert!(holds(&mut put_off, 1, now + SECOND));
        assert!(!holds(&mut put_off, 2, now + 2 * SECOND));
        put_off.add(tenant(1), id(2), Until::ReactorTried(reactor(1)));
        // It goes on as long as it says so.
        assert!(holds(&mut put_off, 1, now + 2 * SECOND));
        assert!(!may_try(&mut put_off, 3, now + SECOND));
        // If it says no more, another does.
        assert!(may_try(&mut put_off, 3, now + 2 * SECOND));
        assert!(!holds(&mut put_off, 1, now + 9 * SECOND));
        assert!(holds(&mut put_off, 3, now + 3 * SECOND));
        put_off.was_tried(tenant(1), reactor(1), id(1));
        assert_eq!(put_off.take_up(now, true), []);
        put_off.was_tried(tenant(1), reactor(1), id(3));
        assert_eq!(put_off.take_up(now, true), [tenant(1)]);
        assert!(put_off.is_empty());
    }

    #[test]
    fn a_reactor_that_is_due_is_forgotten_if_nothing_waits_for_it() {
        let (mut put_off, now) = (PutOff::default(), Instant::now());
        put_off.try_at(tenant(1), reactor(1), id(1), now + SECOND);
        assert_eq!(put_off.take_up(now, true), []);
        assert!(!put_off.is_empty());
        assert_eq!(put_off.take_up(now + SECOND, true), []);
        assert!(put_off.is_empty());
    }
}
