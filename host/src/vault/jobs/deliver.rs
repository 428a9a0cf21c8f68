//! Telling results: one delivery tried (decisions §8).

use std::time::{Duration, Instant, UNIX_EPOCH};

use serde_json::{Value, json};

use super::delivery::{Answered, Delivery, DeliveryStatus};
use super::{Job, JobStatus};
use crate::crypto::webhook;
use crate::egress::{EgressError, Outbound, Wanted};
use crate::figures::figures;
use crate::limits::{DELIVERY_TIMEOUT_MS, WEBHOOK_BODY_BYTES_MAX, WORKERS_TICK_MS};
use crate::model::id::{InvocationId, TenantId};
use crate::model::time::Timestamp;
use crate::store::Expect;
use crate::vault::apart::together;
use crate::vault::audit::{Actor, Event};
use crate::vault::effort::taken_on;
use crate::vault::record::{Entity, Stored, from_record};
use crate::vault::retry::{HOLDING_TRIES, unless_lost};
use crate::vault::{Error, Vault, let_go_of_all_but, sharing};

const UNANSWERED: Answered = Answered { status: None, error: None, retry_after: None };

impl Vault {
    /// Tries a delivery once, and keeps what came of it.
    pub(super) async fn deliver(&self, tenant: TenantId, stored: Stored<Delivery>) {
        let id = stored.entity.id;
        let told = self.tell(tenant, &stored.entity);
        let answered = match sharing(Some(self.share(tenant)), told).await.0 {
            Ok(answered) => answered,
            // Others of its tenant's have the memory that it takes.
            Err(error @ Error::Busy(_)) => {
                tracing::info!(invocation = %id, %error, "a result is told later");
                if let Err(error) = unless_gone(self.put_off_delivery(tenant, stored).await) {
                    tracing::error!(invocation = %id, %error, "a delivery cannot be stored");
                    tokio::time::sleep(Duration::from_millis(WORKERS_TICK_MS)).await;
                }
                return;
            }
            Err(Error::TenantGone) => return,
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
        if let Err(error) = unless_gone(self.note_try(tenant, stored, answered).await) {
            tracing::error!(invocation = %id, %error, "a delivery cannot be stored: it will be tried again");
            // Not at once.
            tokio::time::sleep(Duration::from_millis(WORKERS_TICK_MS)).await;
        }
    }

    /// Tells the operator of a delivery that was given up: nobody else would be told.
    fn tell_if_given_up(delivery: &Delivery) {
        if delivery.status == DeliveryStatus::Failed {
            let (attempts, status) = (delivery.attempts, delivery.last_status());
            tracing::warn!(invocation = %delivery.id, attempts, status, "a webhook was given up");
            figures().webhook_given_up();
        }
    }

    /// Has a delivery wait that was not tried. One that somebody changes meanwhile is as they leave it.
    async fn put_off_delivery(
        &self,
        tenant: TenantId,
        stored: Stored<Delivery>,
    ) -> Result<(), Error> {
        let Stored { entity: mut delivery, version } = stored;
        delivery.put_off(self.now(), !self.clock_is_believed()?);
        let mut change = self.change(tenant).await?;
        change.put(&delivery, Expect::Version(version))?;
        let committed = change.try_commit(Actor::SERVER, Vec::new()).await?;
        let noted = unless_lost(committed, ())?;
        if noted.is_some() {
            Self::tell_if_given_up(&delivery);
        }
        Ok(())
    }

    async fn note_try(
        &self,
        tenant: TenantId,
        stored: Stored<Delivery>,
        answered: Answered,
    ) -> Result<(), Error> {
        let (id, requeued) = (stored.entity.id, stored.entity.requeued);
        let mut current = stored;
        for lost in 0..HOLDING_TRIES {
            if lost > 0 {
                self.pause(lost).await;
            }
            let Stored { entity: mut delivery, version } = current;
            if delivery.requeued == requeued {
                delivery.tried(answered, self.now(), !self.clock_is_believed()?);
            } else {
                // Somebody queued it again meanwhile: that stands, beside this try.
                delivery.tried_before(answered);
            }
            let mut change = self.change(tenant).await?;
            change.put(&delivery, Expect::Version(version))?;
            let committed = change.try_commit(Actor::SERVER, Vec::new()).await?;
            if unless_lost(committed, ())?.is_some() {
                Self::tell_if_given_up(&delivery);
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
            && let Err(error) = unless_gone(self.note_try(tenant, stored, UNANSWERED).await)
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
        let records = self.read_records(E::KIND, tenant, &[&id]).await?;
        // After the record: it may be sealed with a key that is new.
        let keys = self.keys(tenant).await?;
        let record = records.into_iter().flatten().next();
        from_record(&record.ok_or(Error::NotFound(E::NOUN))?, &keys)
    }

    /// Sends a result to where it goes.
    async fn tell(&self, tenant: TenantId, delivery: &Delivery) -> Result<Answered, Error> {
        let mut job = self.kept::<Job>(tenant, delivery.id).await?.entity;
        tracing::Span::current().record("trace_id", job.trace_id());
        let shown = taken_on(self.show_kept_in(&mut job, None)).await?;
        // Whether it arrives is seen later.
        let message = "Token read to send a reactor result";
        let told = |read: Event| Event { message: message.to_owned(), ..read };
        let sent = shown.into_iter().map(|read| told(read).of_request(job.trace_id()));
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
            // What waits for the names of receivers is nothing that a formula waits for, nor the other way round.
            owner: !tenant.0.as_u128(),
            // The status says it all (decisions §8).
            wanted: Wanted::Head,
            // Whoever got it twice knows it by its id.
            repeatable: true,
        };
        // Its time is the receiver's alone.
        together();
        let began = Instant::now();
        let answer = self.0.egress.send(request, &|_| true).await;
        if matches!(answer, Err(EgressError::Crowded)) {
            // Nothing was tried, and nothing is known of the receiver.
            return Err(Error::Busy("Too many receivers' names are being looked up."));
        }
        let receiver = delivery.receiver();
        self.0.queue.receivers.note(tenant, &receiver, began.elapsed());
        match answer {
            Ok(answer) => {
                let given = answer.headers.iter().filter(|(name, _)| name == "retry-after");
                let retry_after = given.filter_map(|(_, text)| retry_after(text, self.now())).max();
                Ok(Answered { status: Some(answer.status), error: None, retry_after })
            }
            Err(cause) => {
                tracing::info!(invocation = %delivery.id, %cause, "a receiver did not answer");
                Ok(Answered { error: Some(cause), ..UNANSWERED })
            }
        }
    }
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

/// Reads `Retry-After`: seconds, or a date in any of the forms that HTTP has for one.
fn retry_after(text: &str, now: Timestamp) -> Option<Duration> {
    let text = text.trim();
    if !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()) {
        return Some(Duration::from_secs(text.parse().unwrap_or(u64::MAX)));
    }
    let date = httpdate::parse_http_date(text).ok()?;
    let at = date.duration_since(UNIX_EPOCH).ok()?;
    Some(at.saturating_sub(Duration::from_millis(now.0)))
}

/// What is left to be told of a tenant that is erased: nothing, which is no failure.
fn unless_gone(noted: Result<(), Error>) -> Result<(), Error> {
    match noted {
        Err(Error::TenantGone) => Ok(()),
        noted => noted,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::{Timestamp, retry_after};

    #[test]
    fn a_wait_is_read_in_every_form_that_there_is() {
        // Fri, 27 Nov 2026 12:00:00 GMT.
        let now = Timestamp(1_795_780_800_000);
        for (text, seconds) in [
            ("0", Some(0)),
            (" 120 ", Some(120)),
            ("99999999999", Some(99_999_999_999)),
            ("999999999999999999999999", Some(u64::MAX)),
            ("Fri, 27 Nov 2026 13:00:00 GMT", Some(3_600)),
            ("Friday, 27-Nov-26 13:00:00 GMT", Some(3_600)),
            ("Fri Nov 27 13:00:00 2026", Some(3_600)),
            ("Fri, 27 Nov 2026 11:00:00 GMT", Some(0)),
            ("", None),
            ("-5", None),
            ("1.5", None),
            ("soon", None),
        ] {
            assert_eq!(retry_after(text, now), seconds.map(Duration::from_secs), "{text}");
        }
    }
}
