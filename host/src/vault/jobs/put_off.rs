//! What waits for something that stands in its way, and in nobody else's: a job, or all jobs of a reactor.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use super::queue::Queue;
use crate::model::id::{InvocationId, ReactorId, TenantId};
use crate::runtime::Refusal;

/// Jobs and reactors of a tenant that are put off: once there are so many, its other jobs wait too. They are named each time
/// one is taken.
const PUT_OFF_MAX: usize = 1_000;
/// How long is known that a run of a reactor could not be begun, and that another is to be tried, if none comes.
const UNTRIED_MAX: Duration = Duration::from_mins(1);

/// How long a reactor is not tried, at most, since another one that wants no more memory than it could not be run.
const UNTRIED_FOR_OTHERS_MAX: Duration = Duration::from_secs(5);

/// Memory that a run lacks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Want {
    /// So many bytes.
    pub bytes: u64,
    /// Whether all tenants' runs have it, and not its own tenant's alone.
    pub is_of_all: bool,
}

impl Want {
    /// So many bytes, which were refused for this.
    pub fn of(bytes: u64, refusal: Refusal) -> Self {
        Self { bytes, is_of_all: refusal == Refusal::Host }
    }
}

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
    /// That a run of its tenant gives back memory, or a moment: other tenants, or runs that are waited for, may give it back too.
    Memory(Instant),
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
    /// What it lacks, if that is memory alone, and since when that is known.
    wants: Option<(Want, Instant)>,
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
        let tried = tried.or_insert(Tried { by: None, next: at, wants: None });
        let is_trier = tried.by.take_if(|trier| *trier == by).is_some();
        tried.next = if is_trier { at } else { at.max(tried.next) };
        tried.wants = None;
    }

    /// A run of a reactor has no memory to begin with, and is tried at a moment, or once there is some. So are the tenant's
    /// other reactors that want as much: each try opens a job, and would tell no more.
    pub fn for_memory(
        &mut self,
        (tenant, reactor): (TenantId, ReactorId),
        id: InvocationId,
        want: Want,
        (now, at): (Instant, Instant),
    ) {
        self.add(tenant, id, Until::Memory(at));
        self.try_at(tenant, reactor, id, at);
        for (other, tried) in self.reactors.get_mut(&tenant).into_iter().flatten() {
            let wants_as_much = tried.wants.is_some_and(|(others, since)| {
                others.bytes >= want.bytes && since + UNTRIED_FOR_OTHERS_MAX > now
            });
            if *other == reactor {
                tried.wants = Some((want, now));
            } else if wants_as_much && tried.by.is_none() {
                tried.next = at.max(tried.next);
            }
        }
    }

    /// A run of a tenant has given back memory: what lacks some may be tried now, of all tenants where all have it. Gives
    /// whose that is, the tenant itself last: its runs had their turn.
    pub fn memory_is_back(&mut self, tenant: TenantId, now: Instant) -> Vec<TenantId> {
        let Self { jobs, reactors } = self;
        let mut whose = Vec::new();
        for (of, reactors) in reactors.iter_mut() {
            let lacks = |tried: &Tried| {
                tried.next > now
                    && tried.wants.is_some_and(|(want, _)| want.is_of_all || *of == tenant)
            };
            let lacking = reactors.values_mut().filter(|tried| lacks(tried));
            if lacking.map(|tried| tried.next = now).count() == 0 {
                continue;
            }
            // Of the others no job is tried before its reactor is.
            let jobs = jobs.get_mut(of).into_iter();
            jobs.for_each(|jobs| jobs.retain(|_, until| !matches!(until, Until::Memory(_))));
            whose.push(*of);
        }
        jobs.retain(|_, jobs| !jobs.is_empty());
        whose.sort_unstable_by_key(|of| *of == tenant);
        whose
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
            *tried = Tried { by: Some(by), next, wants: None };
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
        let tried = tried.or_insert(Tried { by: Some(by), next, wants: None });
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
                Until::Moment(moment) | Until::Memory(moment) => *moment > now,
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

impl Queue {
    /// A job has no memory to begin with: it waits for some, and so do the others of its reactor.
    pub(super) fn lacks_memory(
        &self,
        whose: (TenantId, ReactorId),
        id: InvocationId,
        want: Want,
        longest: Duration,
    ) {
        let now = Instant::now();
        self.put_off.lock().for_memory(whose, id, want, (now, now + longest));
    }

    /// A job is over, with the memory that its run held.
    pub(super) fn is_over(&self, tenant: TenantId, id: InvocationId) {
        self.forget_failures(id);
        let whose = self.put_off.lock().memory_is_back(tenant, Instant::now());
        for tenant in whose {
            self.jobs_of(tenant);
        }
    }
}

#[cfg(test)]
mod tests;
