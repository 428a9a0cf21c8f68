//! How much waits, for the operator's figures.

use std::ops::Bound;

use super::{Delivery, Job, JobStatus};
use crate::figures::Waiting;
use crate::model::id::TenantId;
use crate::store::{Filter, Start};
use crate::vault::index::number;
use crate::vault::record::Entity as _;
use crate::vault::{Error, Vault};

impl Vault {
    /// Counts runs and deliveries that are not done, over all tenants. It asks the index only.
    pub async fn waiting(&self) -> Result<Waiting, Error> {
        let mut waiting = Waiting::default();
        for tenant in self.tenants().await? {
            let of = match self.waiting_of(tenant.id).await {
                // Erased meanwhile.
                Err(Error::TenantGone) => continue,
                of => of?,
            };
            waiting.jobs_queued += of.jobs_queued;
            waiting.jobs_running += of.jobs_running;
            waiting.deliveries_pending += of.deliveries_pending;
        }
        Ok(waiting)
    }

    async fn waiting_of(&self, tenant: TenantId) -> Result<Waiting, Error> {
        let store = self.0.store.as_ref();
        let start = || Start::Offset(0);
        let queued = self.jobs_that_are(tenant, JobStatus::Queued).await?;
        let running = self.jobs_that_are(tenant, JobStatus::Running).await?;
        let (from, to) = (Bound::Unbounded, Bound::Unbounded);
        let pending = Filter::Range { field: number::DUE_AT, from, to };
        Ok(Waiting {
            jobs_queued: store.page(Job::KIND, tenant, &queued, start(), 0).await?.total,
            jobs_running: store.page(Job::KIND, tenant, &running, start(), 0).await?.total,
            deliveries_pending: store
                .page(Delivery::KIND, tenant, &pending, start(), 0)
                .await?
                .total,
        })
    }
}
