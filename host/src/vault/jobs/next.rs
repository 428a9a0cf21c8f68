//! Which job of a tenant comes next.

use super::in_hand::InHand;
use super::put_off::OfTenant;
use super::{Job, JobStatus};
use crate::model::id::{InvocationId, ReactorId, TenantId};
use crate::store::{Filter, Start};
use crate::vault::record::{Entity as _, Stored};
use crate::vault::{Error, Vault, let_go_of_all_but};

/// Jobs that are passed over at once for want of memory. Each was opened, which takes long.
const PASSED_AT_ONCE: u32 = 4;

impl Vault {
    /// The oldest job of a tenant that waits, is not in hand and not put off.
    pub(super) async fn next_job(
        &self,
        tenant: TenantId,
        in_hand: &InHand,
    ) -> Result<Option<Stored<Job>>, Error> {
        let mut passed = 0;
        while let Some(put_off) = self.0.queue.put_off_of(tenant) {
            let queued = self.jobs_that_are(tenant, JobStatus::Queued).await?;
            let put_off = self.jobs_put_off(tenant, put_off).await?;
            let filter = Filter::And(vec![queued, in_hand.not_jobs_of(tenant), put_off]);
            let_go_of_all_but(0);
            // One at a time: arguments may be long, and many times as much once they are read.
            let oldest = match self.oldest::<Job>(tenant, &filter, 1).await {
                Err(error @ Error::Busy(_)) => {
                    // Those that take less go on meanwhile.
                    self.put_off_for_memory(tenant, &filter, &error).await?;
                    passed += 1;
                    if passed >= PASSED_AT_ONCE {
                        return Err(error);
                    }
                    continue;
                }
                oldest => oldest?.pop(),
            };
            let Some(job) = oldest else { break };
            if self.0.queue.may_try(tenant, job.entity.reactor_id, job.entity.id) {
                return Ok(Some(job));
            }
            // Put off on the way: an earlier version queued it, and the index does not tell whose it is.
            tokio::task::yield_now().await;
        }
        Ok(None)
    }

    /// Puts off the oldest job that matches, for which there is no memory now.
    async fn put_off_for_memory(
        &self,
        tenant: TenantId,
        filter: &Filter,
        error: &Error,
    ) -> Result<(), Error> {
        // It is not opened to know which it is.
        let store = self.0.store.as_ref();
        let total = store.page(Job::KIND, tenant, filter, Start::Offset(0), 0).await?.total;
        let last = Start::Offset(total.saturating_sub(1));
        let slice = store.page(Job::KIND, tenant, filter, last, 1).await?;
        let Some(Ok(id)) = slice.records.last().map(|job| job.id.parse()) else { return Ok(()) };
        if !self.give_up_if_hopeless(tenant, id, error).await {
            self.0.queue.put_off_for(tenant, id, self.0.queue.wait_for_memory(id));
        }
        Ok(())
    }

    /// The filter for jobs that are not put off.
    async fn jobs_put_off(&self, tenant: TenantId, put_off: OfTenant) -> Result<Filter, Error> {
        let ids =
            |ids: Vec<InvocationId>| Filter::Ids(ids.iter().map(ToString::to_string).collect());
        let not = |filter| Filter::Not(Box::new(filter));
        let keys = self.keys(tenant).await?;
        let of = |reactor: &ReactorId| Filter::Term(Job::term_of_reactor(&keys, *reactor));
        let of_reactors = Filter::Or(put_off.reactors.iter().map(of).collect());
        let others_of_reactors = Filter::And(vec![of_reactors, not(ids(put_off.triers))]);
        Ok(not(Filter::Or(vec![ids(put_off.jobs), others_of_reactors])))
    }
}
