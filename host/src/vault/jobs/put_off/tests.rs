use std::time::{Duration, Instant};

use uuid::Uuid;

use super::{OfTenant, PUT_OFF_MAX, PutOff, UNTRIED_MAX, Until, Want};
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
fn what_lacks_memory_is_tried_once_there_is_some() {
    let (mut put_off, now) = (PutOff::default(), Instant::now());
    let want = Want { bytes: 9, is_of_all: false };
    let memory = |put_off: &mut PutOff, number| {
        let whose = (tenant(1), reactor(1));
        put_off.for_memory(whose, id(number), want, (now, now + SECOND));
    };
    assert_eq!(put_off.memory_is_back(tenant(1), now), []);
    memory(&mut put_off, 1);
    put_off.try_at(tenant(1), reactor(2), id(2), now + SECOND);
    put_off.add(tenant(1), id(3), Until::ClockBelieved);
    assert_eq!(of(&put_off, now).reactors.len(), 2);
    // Another tenant's memory is no matter.
    assert_eq!(put_off.memory_is_back(tenant(2), now), []);
    assert_eq!(put_off.memory_is_back(tenant(1), now), [tenant(1)]);
    assert_eq!(
        (of(&put_off, now).jobs, of(&put_off, now).reactors),
        (vec![id(3)], vec![reactor(2)])
    );
    // It is tried by one, which tells whether there is enough.
    assert!(may_try(&mut put_off, 4, now) && !may_try(&mut put_off, 5, now));
    memory(&mut put_off, 4);
    assert!(!may_try(&mut put_off, 4, now) && !may_try(&mut put_off, 5, now));
    assert_eq!(put_off.memory_is_back(tenant(1), now), [tenant(1)]);
    assert!(may_try(&mut put_off, 5, now));
    // By itself after a while.
    memory(&mut put_off, 5);
    assert_eq!(put_off.take_up(now + SECOND, false), [tenant(1)]);
    assert!(may_try(&mut put_off, 6, now + SECOND));
}

#[test]
fn where_all_have_the_memory_who_waits_is_tried_before_the_tenant_that_gave_it_back() {
    let (mut put_off, now) = (PutOff::default(), Instant::now());
    for number in 1..=4 {
        let want = Want { bytes: 9, is_of_all: number != 3 };
        let whose = (tenant(number), reactor(number));
        put_off.for_memory(whose, id(1), want, (now, now + SECOND));
    }
    let mut whose = put_off.memory_is_back(tenant(2), now);
    assert_eq!(whose.pop(), Some(tenant(2)));
    whose.sort_unstable_by_key(|tenant| tenant.0);
    assert_eq!(whose, [tenant(1), tenant(4)]);
    assert_eq!(put_off.memory_is_back(tenant(3), now), [tenant(3)]);
}

#[test]
fn while_one_finds_no_memory_those_that_want_as_much_are_seldom_tried() {
    let (mut put_off, now) = (PutOff::default(), Instant::now());
    let lacks = |put_off: &mut PutOff, number, bytes, at| {
        let want = Want { bytes, is_of_all: false };
        put_off.for_memory((tenant(1), reactor(number)), id(1), want, (at, at + SECOND));
    };
    let wait = |put_off: &PutOff, at| {
        let mut reactors = of(put_off, at).reactors;
        reactors.sort_unstable_by_key(|reactor| reactor.0);
        reactors
    };
    for (number, bytes) in [(1, 5), (2, 9), (3, 7), (4, 7)] {
        lacks(&mut put_off, number, bytes, now);
    }
    for seconds in 1..5 {
        let at = now + seconds * SECOND;
        assert_eq!(wait(&put_off, at), []);
        lacks(&mut put_off, 3, 7, at);
        assert_eq!(wait(&put_off, at), [2, 3, 4].map(reactor), "{seconds}");
        // One that is tried already goes on with that.
        assert!(put_off.may_try((tenant(1), reactor(1)), id(2), at, at + 9 * SECOND));
        put_off.try_at(tenant(1), reactor(1), id(2), at);
    }
    let at = now + 5 * SECOND;
    lacks(&mut put_off, 3, 7, at);
    assert_eq!(wait(&put_off, at), [reactor(3)]);
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
