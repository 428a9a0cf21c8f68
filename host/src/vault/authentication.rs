//! Who calls (interface §5).
//!
//! A key is looked up by its keyed hash. Callers are remembered for as long as no application of the vault changes, so
//! that a request costs one hash and no look-up.

#[cfg(test)]
mod remembered_tests;
#[cfg(test)]
mod tests;

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use quick_cache::sync::{Cache, DefaultLifecycle};
use quick_cache::{DefaultHashBuilder, OptionsBuilder, Weighter};
use uuid::Uuid;

use super::audit::Actor;
use super::jobs::By;
use super::kept_application::KeptApplication;
use super::record::{Entity, from_record};
use super::steady::is_beyond;
use super::{Error, Vault};
use crate::crypto::api_key::{ApiKey, KeyHash, SESSION_TAG};
use crate::limits::SESSION_MS_MAX;
use crate::model::application::Application;
use crate::model::id::TenantId;
use crate::model::log::ActorType;
use crate::model::permission::ApplicationType;
use crate::model::rule::{Rights, Rule};
use crate::model::time::Timestamp;
use crate::store::Unique;

/// Callers that are remembered, about, if they are as small as most.
const REMEMBERED: usize = 10_000;
/// What they take of the memory, at most: each may have a hundred rules with twenty conditions each.
const REMEMBERED_BYTES_MAX: u64 = 32 << 20;
/// Why a request is refused whose caller's rights were changed while it was arriving or waited. It is not refused for good:
/// the same request is judged anew when it is sent again.
const CHANGED: &str = "What the caller, or who granted it its rights, may do was changed while the request was taken in or \
    waited for its turn. Nothing was done; try again.";
/// Characters of the longest text that could be a key.
const KEY_CHARS_MAX: usize = 128;

tokio::task_local! {
    /// Who asked for what is under way.
    static ASKED_BY: RefCell<Option<Authenticated>>;
}

/// Carries out what somebody asks for, who becomes known meanwhile ([`asked_by`]).
pub(super) async fn asked<F: Future>(run: F) -> F::Output {
    ASKED_BY.scope(RefCell::new(None), run).await
}

/// Says who asked: what takes long to begin is not begun for whoever has ended, or may do other things, by then.
pub fn asked_by(who: &Authenticated) {
    let _ = ASKED_BY.try_with(|asked| asked.replace(Some(who.clone())));
}

/// What is under way has begun, and goes on whatever becomes of who asked.
pub(super) fn goes_on_anyway() {
    let _ = ASKED_BY.try_with(RefCell::take);
}

/// An application or a session that acts, with what it may do.
#[derive(Debug)]
pub struct Caller {
    /// The application; of a session, the one that opened it.
    pub application: Application,
    /// Permissions and rules, in deciding order.
    pub rights: Rights,
    /// How the log names the caller.
    pub actor: Actor,
    /// When the caller ends.
    pub ends: Option<Timestamp>,
    /// The key that an application was known by.
    pub key: Option<KeyHash>,
    /// How often an application had changed before it was looked up.
    generation: u64,
}

impl Caller {
    /// An application as a caller, by whatever it is known.
    pub fn new(application: Application) -> Self {
        let actor = Actor { id: Some(application.id.0), kind: Some(ActorType::Application) };
        let (rights, ends) = (application.rights(), application.expires_at);
        Self { rights, actor, ends, application, key: None, generation: 0 }
    }

    /// A session that an application opened, as a caller.
    pub fn of_session(
        id: Uuid,
        opener: Application,
        rights: Rights,
        ends: Option<Timestamp>,
    ) -> Self {
        let actor = Actor { id: Some(id), kind: Some(ActorType::Session) };
        Self { rights, actor, ends, ..Self::new(opener) }
    }

    /// An application as a caller that is known by its key.
    fn by_its_key(kept: KeptApplication) -> Self {
        Self { key: Some(kept.key_hash), ..Self::new(kept.application) }
    }

    /// The tenant everything the caller does happens in.
    pub fn tenant(&self) -> TenantId {
        self.application.tenant_id
    }

    /// How the log names the caller.
    pub fn actor(&self) -> Actor {
        self.actor
    }

    /// Whether it has ended by this time, or lives longer than any session does.
    fn has_ended(&self, at: Timestamp) -> bool {
        let is_session = self.actor.kind == Some(ActorType::Session);
        let is_over = |end| end <= at || is_session && is_beyond(end, at.0, SESSION_MS_MAX);
        self.ends.is_some_and(is_over)
    }

    /// About how many bytes it takes.
    fn bytes(&self) -> usize {
        let rules: usize = self.application.rules.iter().map(Rule::bytes).sum();
        size_of::<Self>() + self.application.name.len() + rules + self.rights.bytes()
    }
}

/// Evidence that a caller proved who it is. [`Vault::authenticate`] makes one, by a key; of who proved it before, there is one
/// for each run that was queued, and one for a reactor's own application.
#[derive(Debug, Clone)]
pub struct Authenticated(pub(super) Arc<Caller>);

impl Authenticated {
    /// Who it is.
    pub fn caller(&self) -> &Caller {
        &self.0
    }

    /// Whether it is an application of this type itself, not a session that one opened.
    pub fn is_application(&self, kind: ApplicationType) -> bool {
        self.0.application.kind == kind && self.0.actor.kind != Some(ActorType::Session)
    }
}

/// Callers seen lately.
pub struct Callers {
    /// Moves on with every change of any application.
    generation: AtomicU64,
    remembered: Cache<KeyHash, Arc<Caller>, Bytes>,
}

#[derive(Clone)]
struct Bytes;

impl Weighter<KeyHash, Arc<Caller>> for Bytes {
    fn weight(&self, hash: &KeyHash, remembered: &Arc<Caller>) -> u64 {
        (size_of_val(hash) + remembered.bytes()) as u64
    }
}

impl Default for Callers {
    fn default() -> Self {
        // In few pieces, however many processors there are: a part of one must hold the largest.
        let mut options = OptionsBuilder::new();
        options.shards(4).estimated_items_capacity(REMEMBERED);
        let options = options.weight_capacity(REMEMBERED_BYTES_MAX).build();
        let (hasher, lifecycle) = (DefaultHashBuilder::default(), DefaultLifecycle::default());
        let remembered = match options {
            Ok(options) => Cache::with_options(options, Bytes, hasher, lifecycle),
            Err(_) => Cache::with_weighter(REMEMBERED, REMEMBERED_BYTES_MAX, Bytes),
        };
        Self { generation: AtomicU64::default(), remembered }
    }
}

impl Callers {
    /// Every application is looked up anew from here on.
    pub fn forget_all(&self) {
        self.generation.fetch_add(1, Ordering::AcqRel);
    }

    fn generation(&self) -> u64 {
        self.generation.load(Ordering::Acquire)
    }

    fn recall(&self, hash: KeyHash) -> Option<Arc<Caller>> {
        let generation = self.generation();
        self.remembered.get(&hash).filter(|caller| caller.generation == generation)
    }

    fn remember(&self, hash: KeyHash, caller: Arc<Caller>) {
        self.remembered.insert(hash, caller);
    }
}

impl Vault {
    /// Finds out who holds a key. Missing, unknown, revoked and expired keys are told apart to nobody.
    pub async fn authenticate(&self, key: Option<ApiKey>) -> Result<Authenticated, Error> {
        let found = self.holder_of(key).await;
        if found.as_ref().is_err_and(Error::is_unauthenticated) {
            // Nobody's attempt belongs into no tenant's log.
            self.0.denials.count_unknown_key();
        }
        found
    }

    /// Refuses a caller whose key has ended since it was found out who it is, or who may do other things by now: a body may
    /// take minutes to arrive, and a component to be compiled. A look at a number, unless an application was changed.
    pub async fn expect_unchanged(&self, who: &Authenticated) -> Result<(), Error> {
        if who.0.has_ended(self.now()) {
            return Err(Error::Unauthenticated);
        }
        if who.0.generation == self.0.callers.generation() {
            return Ok(());
        }
        // Apart, since it is rare: everybody else would carry around what it waits for.
        let now = Box::pin(self.caller_of(who.0.tenant(), who.0.actor.into(), self.now())).await?;
        match now.ok_or(Error::Unauthenticated)?.caller() {
            now if who.0.key.is_some() && now.key != who.0.key => Err(Error::Unauthenticated),
            now if now.rights != who.0.rights => Err(Error::Busy(CHANGED)),
            _ => Ok(()),
        }
    }

    /// The same of who asked for what is under way and had to wait, if that is known.
    pub(super) async fn expect_asker_unchanged(&self) -> Result<(), Error> {
        let who = ASKED_BY.try_with(|asked| asked.borrow().clone()).ok().flatten();
        let Some(who) = who else { return Ok(()) };
        self.expect_unchanged(&who).await
    }

    /// Who asked for something, with the rights it has now; none that is gone or has ended by this time.
    pub(super) async fn caller_of(
        &self,
        tenant: TenantId,
        by: By,
        at: Timestamp,
    ) -> Result<Option<Authenticated>, Error> {
        let caller = match by {
            By::Application(id) => {
                let kept = self.find_at::<KeptApplication>(tenant, &[&id.to_string()], at).await?;
                let kept = kept.into_iter().flatten().next();
                kept.map(|kept| Caller::by_its_key(kept.entity))
            }
            By::Session(id) => self.session_caller_of(tenant, id, at).await?,
        };
        let caller = caller.filter(|caller| !caller.has_ended(at));
        Ok(caller.map(|caller| Authenticated(Arc::new(caller))))
    }

    /// An application as it is by now; none that is gone or has ended.
    pub(super) async fn as_it_is_now(
        &self,
        who: &Authenticated,
    ) -> Result<Option<Authenticated>, Error> {
        let Application { id, tenant_id, .. } = &who.0.application;
        match self.get::<KeptApplication>(*tenant_id, &id.to_string()).await {
            Ok(kept) => Ok(Some(Authenticated(Arc::new(Caller::new(kept.entity.application))))),
            Err(Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The same, of a key that nobody has sent.
    pub(crate) async fn holder_of(&self, key: Option<ApiKey>) -> Result<Authenticated, Error> {
        let key = key.ok_or(Error::Unauthenticated)?;
        if key.expose().len() > KEY_CHARS_MAX {
            return Err(Error::Unauthenticated);
        }
        let hash = key.hash(self.0.keyring.pepper());
        let caller = if let Some(caller) = self.0.callers.recall(hash) {
            caller
        } else {
            let is_session = key.tag() == SESSION_TAG;
            self.look_up(hash, is_session).await?.ok_or(Error::Unauthenticated)?
        };
        if caller.has_ended(self.now()) {
            return Err(Error::Unauthenticated);
        }
        Ok(Authenticated(caller))
    }

    async fn look_up(&self, hash: KeyHash, is_session: bool) -> Result<Option<Arc<Caller>>, Error> {
        // Read before the application is: a change in between makes what is remembered stale at once.
        let generation = self.0.callers.generation();
        let caller = if is_session {
            self.session_caller(hash).await?
        } else {
            self.application_caller(hash).await?
        };
        let Some(caller) = caller else { return Ok(None) };
        let caller = Arc::new(Caller { generation, ..caller });
        // A session without rights waits to be authorized: its next request looks again.
        if !is_session || !caller.rights.is_empty() {
            self.0.callers.remember(hash, Arc::clone(&caller));
        }
        Ok(Some(caller))
    }

    async fn application_caller(&self, hash: KeyHash) -> Result<Option<Caller>, Error> {
        let found = self.0.store.find_unique(KeptApplication::KIND, Unique(hash.0)).await?;
        let Some(record) = found else { return Ok(None) };
        let keys = self.keys(record.tenant).await?;
        let kept = from_record::<KeptApplication>(&record, &keys)?.entity;
        if kept.key_hash != hash {
            return Ok(None);
        }
        Ok(Some(Caller::by_its_key(kept)))
    }
}
