//! Telling results: which deliveries are begun, and one of them done (decisions §8).

use std::collections::HashMap;
use std::ops::Bound;
use std::time::Duration;

use serde_json::{Value, json};

use super::delivery::{Answered, BY_DOUBT, Delivery};
use super::in_hand::InHand;
use super::{Job, JobStatus};
use crate::crypto::webhook;
use crate::egress::{Outbound, Wanted};
use crate::figures::figures;
use crate::limits::{
    DELIVERIES_PER_RECEIVER_MAX, DELIVERIES_PER_TENANT_MAX, DELIVERY_TIMEOUT_MS,
    DELIVERY_WINDOW_MS, WEBHOOK_BODY_BYTES_MAX, WORKERS_TICK_MS,
};
use crate::model::id::{InvocationId, TenantId};
use crate::model::time::Timestamp;
use crate::store::{Expect, Filter, Start};
use crate::vault::audit::{Actor, Event};
use crate::vault::effort::taken_on;
use crate::vault::index::{number, term, term_of};
use crate::vault::record::{Entity, Stored, from_record};
use crate::vault::retry::{TRIES, unless_lost};
use crate::vault::{Error, Vault, let_go_of_all_but, sharing};

const UNANSWERED: Answered = Answered { status: None, retry_after: None };

impl Vault {
    /// Deliveries of a tenant to begin now, at most so many, and whether any wait, due or not. A receiver that has as many
    /// of the tenant's in hand as it may is left out, so that one that does not answer delays no other.
    pub(super) async fn due_deliveries(
        &self,
        tenant: TenantId,
        in_hand: &InHand,
        share: usize,
    ) -> Result<(Vec<Stored<Delivery>>, bool), Error> {
        let keys = self.keys(tenant).await?;
        let in_doubt = !self.may_remove_ended()?;
        let mut held = Vec::new();
        let mut to: HashMap<String, usize> = HashMap::new();
        for (_, id, receiver) in in_hand.deliveries().filter(|(other, ..)| *other == tenant) {
            *to.entry(receiver.to_owned()).or_default() += 1;
            held.push(id.to_string());
        }
        let mut room = share.min(DELIVERIES_PER_TENANT_MAX.saturating_sub(held.len()));
        let mut begun = Vec::new();
        while room > 0 {
            let busy = to.iter().filter(|(_, count)| **count >= DELIVERIES_PER_RECEIVER_MAX);
            let busy = busy.map(|(name, _)| Filter::Term(term_of(&keys, term::RECEIVER, &[name])));
            let filter = Filter::And(vec![
                due_at(self.now(), in_doubt),
                Filter::Not(Box::new(Filter::Or(busy.collect()))),
                Filter::Not(Box::new(Filter::Ids(held.clone()))),
            ]);
            let mut taken = false;
            for delivery in self.oldest::<Delivery>(tenant, &filter, room).await? {
                let count = to.entry(delivery.entity.receiver()).or_default();
                if *count < DELIVERIES_PER_RECEIVER_MAX {
                    *count += 1;
                    room -= 1;
                    taken = true;
                    held.push(delivery.entity.id.to_string());
                    begun.push(delivery);
                }
            }
            if !taken {
                break;
            }
        }
        let store = self.0.store.as_ref();
        let pending = due_within(Bound::Unbounded, Bound::Unbounded);
        let pending = store.page(Delivery::KIND, tenant, &pending, Start::Offset(0), 0).await?;
        Ok((begun, pending.total > 0))
    }

    /// Tries a delivery once, and keeps what came of it.
    pub(super) async fn deliver(&self, tenant: TenantId, stored: Stored<Delivery>) {
        let id = stored.entity.id;
        let told = self.tell(tenant, &stored.entity);
        let answered = match sharing(Some(self.share(tenant)), told).await.0 {
            Ok(answered) => answered,
            // Others of its tenant's have the memory that it takes.
            Err(error @ Error::Busy(_)) => {
                tracing::info!(invocation = %id, %error, "a result is told later");
                if let Err(error) = self.put_off_delivery(tenant, stored).await {
                    tracing::error!(invocation = %id, %error, "a delivery cannot be stored");
                    tokio::time::sleep(Duration::from_millis(WORKERS_TICK_MS)).await;
                }
                return;
            }
            Err(error) => {
                tracing::error!(invocation = %id, %error, "a result cannot be told");
                if self.health().is_err() {
                    // Nothing was sent, and neither the result nor its receiver has a part in it. Not again at once.
                    tokio::time::sleep(Duration::from_millis(WORKERS_TICK_MS)).await;
                    return;
                }
                UNANSWERED
            }
        };
        figures().webhook_sent(answered.status);
        if let Err(error) = self.note_try(tenant, stored, answered).await {
            tracing::error!(invocation = %id, %error, "a delivery cannot be stored: it will be tried again");
            // Not at once.
            tokio::time::sleep(Duration::from_millis(WORKERS_TICK_MS)).await;
        }
    }

    /// Has a delivery wait that was not tried. One that somebody changes meanwhile is as they leave it.
    async fn put_off_delivery(
        &self,
        tenant: TenantId,
        stored: Stored<Delivery>,
    ) -> Result<(), Error> {
        let Stored { entity: mut delivery, version } = stored;
        delivery.put_off(self.now(), !self.may_remove_ended()?);
        let mut change = self.change(tenant).await?;
        change.put(&delivery, Expect::Version(version))?;
        let committed = change.try_commit(Actor::OPERATOR, Vec::new()).await?;
        unless_lost(committed, ()).map(drop)
    }

    async fn note_try(
        &self,
        tenant: TenantId,
        stored: Stored<Delivery>,
        answered: Answered,
    ) -> Result<(), Error> {
        let (id, requeued) = (stored.entity.id, stored.entity.requeued);
        let mut current = stored;
        for _ in 0..TRIES {
            let Stored { entity: mut delivery, version } = current;
            if delivery.requeued == requeued {
                delivery.tried(answered, self.now(), !self.may_remove_ended()?);
            } else {
                // Somebody queued it again meanwhile: that stands, beside this try.
                delivery.tried_before(answered);
            }
            let mut change = self.change(tenant).await?;
            change.put(&delivery, Expect::Version(version))?;
            let committed = change.try_commit(Actor::OPERATOR, Vec::new()).await?;
            if unless_lost(committed, ())?.is_some() {
                return Ok(());
            }
            current = match self.kept(tenant, id).await {
                // What was removed with its tenant has nothing to be noted of.
                Err(Error::NotFound(_)) => return Ok(()),
                found => found?,
            };
        }
        Err(Error::Conflict("Others change the delivery all the time."))
    }

    /// A try whose task broke counts as one without an answer.
    pub(super) async fn note_broken_try(&self, tenant: TenantId, id: InvocationId) {
        if let Ok(stored) = self.kept::<Delivery>(tenant, id).await
            && let Err(error) = self.note_try(tenant, stored, UNANSWERED).await
        {
            tracing::error!(invocation = %id, %error, "a delivery cannot be stored");
        }
    }

    /// A job or a delivery. One that has ended by the clock is still to be told of: the clock may be wrong.
    pub(super) async fn kept<E: Entity>(
        &self,
        tenant: TenantId,
        id: InvocationId,
    ) -> Result<Stored<E>, Error> {
        let id = id.to_string();
        let records = self.0.store.find(E::KIND, tenant, &[&id]).await?;
        // After the record: it may be sealed with a key that is new.
        let keys = self.keys(tenant).await?;
        let record = records.into_iter().flatten().next();
        from_record(&record.ok_or(Error::NotFound(E::NOUN))?, &keys)
    }

    /// Sends a result to where it goes.
    async fn tell(&self, tenant: TenantId, delivery: &Delivery) -> Result<Answered, Error> {
        let mut job = self.kept::<Job>(tenant, delivery.id).await?.entity;
        let shown = taken_on(self.show_kept_in(&mut job, None)).await?;
        // Whether it arrives is seen later.
        let message = "Token read to send a reactor result";
        let sent = shown.into_iter().map(|read| Event { message: message.to_owned(), ..read });
        self.log(tenant, job.by.actor(), sent.collect()).await?;
        let body = serde_json::to_vec(&payload(job)).map_err(Error::internal)?;
        let_go_of_all_but(body.len());
        let id = delivery.id.to_string();
        let sent_at = self.now().0 / 1000;
        let mut signatures = Vec::new();
        for secret in self.signing_secrets(tenant).await? {
            signatures.push(webhook::sign(&secret, &id, sent_at, &body).map_err(Error::internal)?);
        }
        let headers = [
            ("content-type", "application/json".to_owned()),
            ("webhook-id", id),
            ("webhook-timestamp", sent_at.to_string()),
            ("webhook-signature", signatures.join(" ")),
        ];
        let request = Outbound {
            method: "POST".to_owned(),
            url: delivery.url.clone(),
            headers: headers.map(|(name, value)| (name.to_owned(), value)).into(),
            body: Some(body.into()),
            body_bytes_max: WEBHOOK_BODY_BYTES_MAX,
            timeout: Duration::from_millis(DELIVERY_TIMEOUT_MS),
            redirects: 0,
            https_only: !self.0.allow_http_callbacks,
            owner: tenant.0.as_u128(),
            // The status says it all (decisions §8).
            wanted: Wanted::Head,
        };
        match self.0.egress.send(request, &|_| true).await {
            Ok(answer) => {
                let given = answer.headers.iter().find(|(name, _)| name == "retry-after");
                let retry_after = given.and_then(|(_, text)| retry_after(text, self.now()));
                Ok(Answered { status: Some(answer.status), retry_after })
            }
            Err(cause) => {
                tracing::info!(invocation = %delivery.id, %cause, "a receiver did not answer");
                Ok(UNANSWERED)
            }
        }
    }
}

/// What is due. Once the clock is believed, that is also what it put off while it was in doubt, and what it put off for
/// longer than any wait: it was ahead then. So nothing waits until the clock gets there again.
fn due_at(now: Timestamp, in_doubt: bool) -> Filter {
    let put_off = if in_doubt {
        let to = Bound::Included(BY_DOUBT.saturating_add(now.0));
        due_within(Bound::Included(BY_DOUBT), to)
    } else {
        let longest = now.0.saturating_add(DELIVERY_WINDOW_MS);
        due_within(Bound::Excluded(longest), Bound::Unbounded)
    };
    Filter::Or(vec![due_within(Bound::Unbounded, Bound::Included(now.0)), put_off])
}

fn due_within(from: Bound<u64>, to: Bound<u64>) -> Filter {
    Filter::Range { field: number::DUE_AT, from, to }
}

/// The body of a webhook: the same for every try, unless a token in it was changed or deleted in between, or has a mask that
/// draws.
fn payload(job: Job) -> Value {
    let completed = job.status == JobStatus::Completed;
    let mut data = json!({
        "invocation_id": job.id,
        "reactor_id": job.reactor_id,
        "tenant_id": job.tenant_id,
        "elapsed_ms": job.elapsed_ms,
    });
    if let Some(response) = job.response {
        data["response"] = response;
    }
    if let Some(error) = job.error {
        data["error"] = error;
    }
    json!({
        "type": if completed { "reactor.completed" } else { "reactor.failed" },
        "timestamp": job.finished_at,
        "data": data,
    })
}

/// Reads `Retry-After`: seconds, or a date.
fn retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if let Ok(seconds) = text.parse() {
        return Some(Duration::from_secs(seconds));
    }
    let date = chrono::DateTime::parse_from_rfc2822(text).ok()?;
    let at_ms = u64::try_from(date.timestamp_millis()).ok()?;
    Some(Duration::from_millis(at_ms.saturating_sub(now.0)))
}
