//! Telling results: which deliveries are begun, and one of them done (decisions §8).

use std::collections::HashMap;
use std::ops::Bound;
use std::time::Duration;

use serde_json::{Value, json};

use super::delivery::{Answered, Delivery};
use super::work::InHand;
use super::{Job, JobStatus};
use crate::crypto::webhook;
use crate::egress::{Outbound, Wanted};
use crate::limits::{
    DELIVERIES_MAX, DELIVERIES_PER_RECEIVER_MAX, DELIVERIES_PER_TENANT_MAX, DELIVERY_TIMEOUT_MS,
};
use crate::model::id::TenantId;
use crate::model::time::Timestamp;
use crate::store::{Expect, Filter, Start};
use crate::vault::audit::Actor;
use crate::vault::index::{number, term, term_of};
use crate::vault::record::{Entity as _, Stored};
use crate::vault::retry::unless_lost;
use crate::vault::{Error, Vault};

impl Vault {
    /// Deliveries of a tenant to begin now, and whether any wait, due or not. A receiver that has as many in hand as it may
    /// is left out, so that one that does not answer delays nobody else's.
    pub(super) async fn due_deliveries(
        &self,
        tenant: TenantId,
        in_hand: &InHand,
    ) -> Result<(Vec<Stored<Delivery>>, bool), Error> {
        let keys = self.keys(tenant).await?;
        let mut held = Vec::new();
        let mut to: HashMap<String, usize> = HashMap::new();
        let mut room = DELIVERIES_MAX;
        let mut own_room = DELIVERIES_PER_TENANT_MAX;
        for (other, id, receiver) in in_hand.deliveries() {
            room = room.saturating_sub(1);
            *to.entry(receiver.to_owned()).or_default() += 1;
            if other == tenant {
                own_room = own_room.saturating_sub(1);
                held.push(id.to_string());
            }
        }
        let mut room = room.min(own_room);
        let mut begun = Vec::new();
        while room > 0 {
            let busy = to.iter().filter(|(_, count)| **count >= DELIVERIES_PER_RECEIVER_MAX);
            let busy = busy.map(|(name, _)| Filter::Term(term_of(&keys, term::RECEIVER, &[name])));
            let filter = Filter::And(vec![
                due_until(Bound::Included(self.now().0)),
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
        let pending = due_until(Bound::Unbounded);
        let pending = store.page(Delivery::KIND, tenant, &pending, Start::Offset(0), 0).await?;
        Ok((begun, pending.total > 0))
    }

    /// Tries a delivery once, and keeps what came of it.
    pub(super) async fn deliver(&self, tenant: TenantId, stored: Stored<Delivery>) {
        let Stored { entity: mut delivery, version } = stored;
        let id = delivery.id;
        match self.tell(tenant, &delivery).await {
            Ok(answered) => delivery.tried(answered, self.now()),
            Err(error) => {
                tracing::error!(invocation = %id, %error, "a result cannot be told");
                delivery.tried(Answered { status: None, retry_after: None }, self.now());
            }
        }
        let kept = async {
            let mut change = self.change(tenant).await?;
            change.put(&delivery, Expect::Version(version))?;
            // Somebody queued it again meanwhile: that stands.
            unless_lost(change.try_commit(Actor::OPERATOR, Vec::new()).await?, ())
        };
        if let Err(error) = kept.await {
            tracing::error!(invocation = %id, %error, "a delivery cannot be stored: it will be tried again");
        }
    }

    /// Sends a result to where it goes.
    async fn tell(&self, tenant: TenantId, delivery: &Delivery) -> Result<Answered, Error> {
        let job = self.get::<Job>(tenant, &delivery.id.to_string()).await?.entity;
        let body = serde_json::to_vec(&payload(job)).map_err(Error::internal)?;
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
                Ok(Answered { status: None, retry_after: None })
            }
        }
    }
}

fn due_until(to: Bound<u64>) -> Filter {
    Filter::Range { field: number::DUE_AT, from: Bound::Unbounded, to }
}

/// The body of a webhook: the same for every try.
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
