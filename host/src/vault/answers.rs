//! Answers kept for idempotency keys (decisions §1).
//!
//! A client that repeats a request under the same key gets the answer of the first, for 24 hours.
//! What is kept is sealed like everything else, since answers hold what their caller may see. Of
//! tokens they hold only which they are: what a token shows is read anew, by the rules as they are
//! then. Those that a run made are shown as they were, as long as they are as they were
//! (`tokens/outline.rs`).
//!
//! An answer is kept in the very commit of what it tells of, so that no crash leaves a request that
//! was carried out and can be carried out again. To give an operation its answer: one call of
//! [`super::permit::Permit::keep_answer`] before it commits.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use zeroize::Zeroizing;

use super::audit::Event;
use super::authentication::Authenticated;
use super::given::UsedToken;
use super::record::{Entity, from_json_text, from_record, json_text, kind};
use super::{Change, Error, Vault, ended};
use crate::crypto::hash;
use crate::crypto::keys::TenantKeys;
use crate::crypto::wiped::Wiped;
use crate::limits::IDEMPOTENT_ANSWER_MS;
use crate::model::id::TenantId;
use crate::model::log::{EntityType, Operation};
use crate::model::permission::marker::TokenUse;
use crate::model::plaintext::wipe;
use crate::model::time::Timestamp;
use crate::store::Kind;

/// An answer, as much of it as a repetition needs.
#[derive(Clone, Serialize, Deserialize)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// The place of what was made.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub location: Option<String>,
    /// As much of the body as is kept; always JSON.
    pub body: Zeroizing<String>,
}

/// An answer with the request it belongs to.
#[derive(Serialize, Deserialize)]
pub struct KeptAnswer {
    id: String,
    request_digest: [u8; 32],
    answer: Answer,
    /// What the request made, changed or read; a repetition is logged for each.
    #[serde(default)]
    about: Vec<(EntityType, String)>,
    /// The tokens of which a formula made what it tells.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    given: Vec<UsedToken>,
    created_at: Timestamp,
}

/// The answer of a request that was carried out before.
pub struct Repetition {
    /// The answer, as much of it as was kept.
    pub answer: Answer,
    about: Vec<(EntityType, String)>,
    given: Vec<UsedToken>,
}

/// Makes of what an operation answers what is kept of it. Secrets that are not kept are wiped.
pub type Form = Arc<dyn Fn(&mut Value) -> Answer + Send + Sync>;

/// What a request under an idempotency key is.
pub enum Attempt {
    /// The first: it is to be carried out.
    First(Claim),
    /// A repetition of one that was carried out.
    Repeated(Repetition),
}

/// The right to carry out the request of an idempotency key; given up when dropped.
pub struct Claim {
    vault: Vault,
    who: Authenticated,
    id: String,
    request_digest: [u8; 32],
    form: Form,
}

/// Keys whose first request is being carried out.
pub type Claimed = Mutex<HashSet<(TenantId, String)>>;

impl Entity for KeptAnswer {
    const KIND: Kind = kind::ANSWER;
    const NOUN: &'static str = "kept answer";

    fn id(&self) -> String {
        self.id.clone()
    }

    fn created_ms(&self) -> u64 {
        self.created_at.0
    }

    fn expires_ms(&self) -> Option<u64> {
        Some(self.created_at.0 + IDEMPOTENT_ANSWER_MS)
    }

    /// Its body is a text that is sent as it is.
    fn weight(text: &[u8]) -> usize {
        2 * text.len()
    }

    fn to_text(&self) -> Result<Wiped, Error> {
        json_text(self)
    }

    fn from_text(text: &[u8]) -> Result<Self, Error> {
        from_json_text(text)
    }
}

impl Vault {
    /// Finds out whether a request is the first under its key. `request` is all that must be the same in a repetition;
    /// `form` makes of its answer what is kept.
    pub async fn attempt(
        &self,
        who: &Authenticated,
        key: &str,
        request: &[&[u8]],
        form: Form,
    ) -> Result<Attempt, Error> {
        let tenant = who.0.tenant();
        let keys = self.keys(tenant).await?;
        let id = answer_id(&keys, who, key);
        let mut parts = vec![b"request".as_slice()];
        parts.extend(request);
        let request_digest = hash::keyed(&keys.index, &parts);
        let repeated = async || match self.kept_answer(tenant, &id).await? {
            None => Ok(None),
            Some(kept) if kept.request_digest == request_digest => {
                let KeptAnswer { answer, about, given, .. } = kept;
                Ok(Some(Attempt::Repeated(Repetition { answer, about, given })))
            }
            Some(_) => Err(Error::KeyReused),
        };
        // Without a claim, so that repetitions of what was carried out do not meet each other.
        if let Some(repeated) = repeated().await? {
            return Ok(repeated);
        }
        let is_first = self.0.claimed.lock().insert((tenant, id.clone()));
        let (vault, who) = (self.clone(), who.clone());
        let claim = is_first.then(|| Claim { vault, who, id: id.clone(), request_digest, form });
        // And again: who had the claim may have been answered since.
        match (repeated().await?, claim) {
            (Some(repeated), _) => Ok(repeated),
            (None, Some(claim)) => Ok(Attempt::First(claim)),
            (None, None) => {
                Err(Error::Conflict("A request with this idempotency key is being carried out."))
            }
        }
    }

    /// Whether an answer is kept under a key, of whatever request.
    pub async fn has_answer(&self, who: &Authenticated, key: &str) -> Result<bool, Error> {
        let tenant = who.0.tenant();
        let keys = self.keys(tenant).await?;
        Ok(self.kept_answer(tenant, &answer_id(&keys, who, key)).await?.is_some())
    }

    /// The answer of this id. While the clock is in doubt ([`super::steady`]) none has ended by it: one that was set
    /// forward by mistake must not have requests carried out again.
    async fn kept_answer(&self, tenant: TenantId, id: &str) -> Result<Option<KeptAnswer>, Error> {
        let found = self.read_records(KeptAnswer::KIND, tenant, &[id]).await?.pop().flatten();
        let Some(record) = found else { return Ok(None) };
        let keys = self.keys(tenant).await?;
        let kept = from_record::<KeptAnswer>(&record, &keys)?.entity;
        let is_over = ended(&kept, self.now().0) && self.clock_is_believed()?;
        Ok(Some(kept).filter(|_| !is_over))
    }

    /// Refuses the answer of a run to a caller that may not use the tokens any more as the formula saw them.
    pub async fn may_repeat(
        &self,
        who: &Authenticated,
        repetition: &Repetition,
    ) -> Result<(), Error> {
        let permit = self.permit::<TokenUse>(who, None).await?;
        self.expect_given_to(&permit, &repetition.given, (None, Operation::Use)).await
    }

    /// Logs that an answer is given once more: whoever gets it reads what it tells of (decisions §10).
    pub async fn log_repetition(
        &self,
        who: &Authenticated,
        repetition: &Repetition,
    ) -> Result<(), Error> {
        let read = |(entity_type, id): &(EntityType, String)| {
            Event::done(*entity_type, id, Operation::Read, "Answer repeated")
        };
        let events = repetition.about.iter().map(read).collect();
        self.log(who.0.tenant(), who.0.actor(), events).await
    }
}

/// What the answer of a caller's key is kept under.
fn answer_id(keys: &TenantKeys, who: &Authenticated, key: &str) -> String {
    let actor = who.0.actor.id.unwrap_or_default();
    let id = hash::term(&keys.index, &[b"idempotency", actor.as_bytes(), key.as_bytes()]);
    uuid::Uuid::from_bytes(id).simple().to_string()
}

impl Claim {
    /// Has the answer kept with what a change does.
    pub(super) fn keep_in(
        &self,
        change: &mut Change,
        body: &impl Serialize,
        given: &[UsedToken],
    ) -> Result<(), Error> {
        let mut body = serde_json::to_value(body).map_err(Error::internal)?;
        let answer = (self.form)(&mut body);
        wipe(&mut body);
        change.answer = Some(KeptAnswer {
            id: self.id.clone(),
            request_digest: self.request_digest,
            answer,
            about: Vec::new(),
            given: given.to_vec(),
            created_at: change.now(),
        });
        Ok(())
    }
}

impl KeptAnswer {
    /// The same, as the answer of a request that did this.
    #[must_use]
    pub(super) fn about(mut self, events: &[Event]) -> Self {
        add_entities(&mut self.about, events);
        self
    }
}

impl Repetition {
    /// The same, with what these reads are of: who has more rights by now may see more than in the first answer.
    #[must_use]
    pub fn about(mut self, reads: &[Event]) -> Self {
        add_entities(&mut self.about, reads);
        self
    }
}

/// Adds what an answer with these events tells of, each once.
fn add_entities(about: &mut Vec<(EntityType, String)>, events: &[Event]) {
    // A token that was used is not in the answer, only what a formula made of it.
    for event in events.iter().filter(|event| event.operation != Operation::Use) {
        let entity = (event.entity_type, event.entity_id.clone());
        if !about.contains(&entity) {
            about.push(entity);
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        self.vault.0.claimed.lock().remove(&(self.who.0.tenant(), std::mem::take(&mut self.id)));
    }
}
