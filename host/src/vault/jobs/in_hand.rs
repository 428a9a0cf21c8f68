//! What the workers have in hand.

use std::collections::HashMap;

use tokio::task::{self, JoinSet};

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
    pub receiver: Option<String>,
    /// Of a job that waits for a slot, at least at first.
    pub waits: bool,
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

    /// The filter for a tenant's jobs but for those in hand.
    pub fn not_jobs_of(&self, tenant: TenantId) -> Filter {
        let held = self.jobs(Some(tenant)).map(|held| held.id.to_string());
        Filter::Not(Box::new(Filter::Ids(held.collect())))
    }

    /// Deliveries in hand: tenant, invocation, receiver.
    pub fn deliveries(&self) -> impl Iterator<Item = (TenantId, InvocationId, &str)> {
        self.held.values().filter_map(|held| {
            let receiver = held.receiver.as_deref()?;
            Some((held.tenant, held.id, receiver))
        })
    }
}
