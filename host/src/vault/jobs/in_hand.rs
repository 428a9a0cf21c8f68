//! What the workers have in hand.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::task::{self, JoinSet};

use super::receivers::Pace;
use crate::model::id::{InvocationId, TenantId};
use crate::store::Filter;

/// What is in hand: a task for each, and by the task what it is.
#[derive(Default)]
pub struct InHand {
    /// The tasks.
    pub tasks: JoinSet<()>,
    /// What each is.
    pub held: HashMap<task::Id, Held>,
}

/// A job or a delivery in hand.
#[derive(Clone)]
pub struct Held {
    /// Whose.
    pub tenant: TenantId,
    /// The invocation.
    pub id: InvocationId,
    /// Of a delivery; a job has none.
    pub receiver: Option<Told>,
    /// Of a job, which tells it as it goes on.
    pub stands: Arc<Standing>,
}

/// To whom a delivery goes.
#[derive(Clone)]
pub struct Told {
    /// The receiver.
    pub receiver: String,
    /// How it was known when this was begun.
    pub pace: Pace,
}

/// Where a job in hand stands.
#[derive(Debug, Default)]
pub struct Standing {
    waits: AtomicBool,
    apart: AtomicBool,
}

impl Standing {
    /// It begins with a slot, or waits for one.
    pub fn new(waits: bool) -> Arc<Self> {
        Arc::new(Self { waits: waits.into(), apart: AtomicBool::default() })
    }

    /// It does not wait for a slot, or not any longer.
    pub fn has_slot(&self) {
        self.waits.store(false, Ordering::Relaxed);
    }

    /// It waits for the compiler, up to its end, and takes nobody's place.
    pub fn goes_apart(&self) {
        self.apart.store(true, Ordering::Relaxed);
    }
}

impl InHand {
    /// Begins it.
    pub fn take(&mut self, held: Held, work: impl Future<Output = ()> + Send + 'static) {
        let task = self.tasks.spawn(work);
        self.held.insert(task.id(), held);
    }

    /// Jobs in hand, of one tenant or of all.
    pub fn jobs(&self, tenant: Option<TenantId>) -> impl Iterator<Item = &Held> {
        let of_tenant = move |held: &&Held| tenant.is_none_or(|tenant| held.tenant == tenant);
        self.held.values().filter(|held| held.receiver.is_none()).filter(of_tenant)
    }

    /// How many of those take a place. One that waits for a slot takes none: what it waits for may be one of its own tenant's.
    pub fn places(&self, tenant: Option<TenantId>) -> usize {
        let takes_a_place = |held: &&Held| {
            let Standing { waits, apart } = &*held.stands;
            ![waits, apart].iter().any(|stands| stands.load(Ordering::Relaxed))
        };
        self.jobs(tenant).filter(takes_a_place).count()
    }

    /// Whether one of a tenant's waits for a slot.
    pub fn waits_for_slot(&self, tenant: TenantId) -> bool {
        self.jobs(Some(tenant)).any(|held| held.stands.waits.load(Ordering::Relaxed))
    }

    /// The filter for a tenant's jobs but for those in hand.
    pub fn not_jobs_of(&self, tenant: TenantId) -> Filter {
        let held = self.jobs(Some(tenant)).map(|held| held.id.to_string());
        Filter::Not(Box::new(Filter::Ids(held.collect())))
    }

    /// Deliveries in hand: tenant, invocation, receiver.
    pub fn deliveries(&self) -> impl Iterator<Item = (TenantId, InvocationId, &Told)> + Clone {
        self.held.values().filter_map(|held| {
            let told = held.receiver.as_ref()?;
            Some((held.tenant, held.id, told))
        })
    }
}
