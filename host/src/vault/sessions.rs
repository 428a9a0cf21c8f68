//! Sessions: short-lived rights for a browser, granted by a backend (decisions §2).
//!
//! A public application opens a session and gets its key; the session may do nothing yet. A private application of the
//! same tenant authorizes it by its nonce, once, and never with more than it holds itself: a grant that goes beyond is
//! refused, and whatever a session does is bounded by what its grantor may do at that moment. It ends with the key that
//! granted it.

use futures::FutureExt as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;
use uuid::Uuid;
use zeroize::Zeroizing;

use super::answers::Claim;
use super::applications::{Holder, read_rights};
use super::audit::Event;
use super::authentication::{Authenticated, Caller};
use super::index::Index;
use super::kept_application::KeptApplication;
use super::record::{Entity, Stored, from_json_text, from_record, json_text, kind};
use super::retry::{TRIES, unless_lost};
use super::said::{self, said};
use super::{Error, Vault};
use crate::crypto::api_key::{ApiKey, KeyHash, SESSION_TAG};
use crate::crypto::hash;
use crate::crypto::wiped::Wiped;
use crate::limits::{SESSION_MS, SESSION_MS_MAX};
use crate::model::application::Application;
use crate::model::faults::Faults;
use crate::model::id::{ApplicationId, TenantId};
use crate::model::log::{EntityType, Operation};
use crate::model::member::Member;
use crate::model::permission::{ApplicationType, Permission};
use crate::model::rule::{Rights, Rule, SessionRule};
use crate::model::time::{Timestamp, parse_expiry};
use crate::store::{Expect, Kind, Unique};

/// A session as it is kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Session {
    id: Uuid,
    tenant_id: TenantId,
    /// The public application that opened it.
    application_id: ApplicationId,
    key_hash: KeyHash,
    /// Until it is authorized.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    nonce_hash: Option<KeyHash>,
    #[serde(skip_serializing_if = "Option::is_none", default)]
    granted: Option<Granted>,
    created_at: Timestamp,
    expires_at: Timestamp,
}

/// What a session was granted.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Granted {
    /// The private application that granted it.
    by: ApplicationId,
    /// The key by which that was known: with the key ends what it granted, or whoever stole it would go on.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    by_key: Option<KeyHash>,
    permissions: Vec<Permission>,
    rules: Vec<Rule>,
}

/// A session just opened.
#[derive(Serialize, ToSchema)]
pub struct NewSession {
    /// The key, for the header `SVC-API-KEY`. The answer to a repeated request does not show it again.
    #[schema(value_type = String, required = false)]
    #[serde(serialize_with = "ApiKey::in_clear")]
    pub session_key: ApiKey,
    /// What a private application authorizes the session by; it works once, and is shown once as well.
    #[schema(value_type = String, required = false)]
    nonce: Zeroizing<String>,
    /// When the session ends.
    expires_at: Timestamp,
}

/// A session, without its key.
#[derive(Debug, Serialize, ToSchema)]
pub struct SessionView {
    /// Identifies the session; the log names it as an actor.
    id: Uuid,
    /// The public application that opened it.
    application_id: ApplicationId,
    /// When it ends: what was asked for, or 24 hours after it was opened if that is earlier.
    expires_at: Timestamp,
    /// When it was opened.
    created_at: Timestamp,
    /// What it may do everywhere.
    permissions: Vec<Permission>,
    /// What it may do where.
    rules: Vec<Rule>,
}

/// Body of `POST /sessions/authorize`.
#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct AuthorizeSession {
    /// The session's nonce.
    #[schema(value_type = String, required = true)]
    #[serde(default)]
    nonce: Member<String>,
    /// Rights on every container, last in priority.
    #[schema(value_type = Option<Vec<Permission>>)]
    #[serde(default)]
    permissions: Member<Vec<Value>>,
    /// Access rules, each with a container or with conditions.
    #[schema(value_type = Option<Vec<SessionRule>>, max_items = 100)]
    #[serde(default)]
    rules: Member<Vec<Value>>,
    /// When the session is to end; at most 24 hours after it was opened. Without it the session ends when it would have
    /// without rights: three minutes after it was opened. Forms as those of a token.
    #[schema(value_type = Option<String>, pattern = "^[0-9]")]
    #[serde(default)]
    expires_at: Member<String>,
}

impl Entity for Session {
    const KIND: Kind = kind::SESSION;
    const NOUN: &'static str = "session";

    fn id(&self) -> String {
        self.id.to_string()
    }

    fn created_ms(&self) -> u64 {
        self.created_at.0
    }

    fn expires_ms(&self) -> Option<u64> {
        Some(self.expires_at.0)
    }

    fn index(&self, index: &mut Index<'_>) {
        index.unique(Unique(self.key_hash.0));
        if let Some(nonce_hash) = self.nonce_hash {
            index.unique(Unique(nonce_hash.0));
        }
    }

    fn to_text(&self) -> Result<Wiped, Error> {
        json_text(self)
    }

    fn from_text(text: &[u8]) -> Result<Self, Error> {
        from_json_text(text)
    }
}

impl Session {
    /// What happened to it, as the log says it.
    pub fn event(&self, operation: Operation, message: &str) -> Event {
        Event::done(EntityType::Session, self.id, operation, message)
    }
}

impl Vault {
    /// Opens a session for a public application. As every answer, this one is kept for an idempotency key in the same
    /// commit.
    pub async fn create_session(
        &self,
        who: &Authenticated,
        claim: Option<&Claim>,
    ) -> Result<NewSession, Error> {
        self.expect_session_opener(who).await?;
        let now = self.now();
        let key = ApiKey::draw(SESSION_TAG, self.0.entropy.as_ref());
        let nonce = ApiKey::draw(SESSION_TAG, self.0.entropy.as_ref());
        let nonce = Zeroizing::new(nonce.random_part().to_owned());
        let session = Session {
            id: self.draw_id(),
            tenant_id: who.0.tenant(),
            application_id: who.0.application.id,
            key_hash: key.hash(self.0.keyring.pepper()),
            nonce_hash: Some(self.nonce_hash(&nonce)),
            granted: None,
            created_at: now,
            expires_at: until(Timestamp(now.0 + SESSION_MS), [&who.0.application]),
        };
        let event = session.event(Operation::Create, "Session created");
        let mut change = self.change(session.tenant_id).await?;
        change.put(&session, Expect::New)?;
        let made = NewSession { session_key: key, nonce, expires_at: session.expires_at };
        claim.map_or(Ok(()), |claim| claim.keep_in(&mut change, &made, &[]))?;
        change.commit(who.0.actor(), vec![event]).await?;
        Ok(made)
    }

    /// Grants a session its rights, none of which its grantor lacks.
    pub async fn authorize_session(
        &self,
        who: &Authenticated,
        body: AuthorizeSession,
        claim: Option<&Claim>,
    ) -> Result<SessionView, Error> {
        self.expect_session_grantor(who).await?;
        let now = self.now();
        let mut faults = Faults::new();
        let nonce = body.nonce.required("nonce", &mut faults);
        let (permissions, rules) =
            read_rights(body.permissions, body.rules, Holder::Session, &mut faults);
        let end = body.expires_at.optional("expires_at", &mut faults);
        let end = end.and_then(|text| faults.check("expires_at", parse_expiry(&text)));
        if end.is_some_and(|end| end <= now) {
            faults.add("expires_at", "is in the past");
        }
        let nonce = faults.into_result(nonce)?.unwrap_or_default();
        let (by, by_key) = (who.0.application.id, who.0.key);
        let grant = Granted { by, by_key, permissions, rules };
        let step = || self.try_authorize(who, (&nonce, end), grant.clone(), claim).boxed();
        self.retried(TRIES, step).await
    }

    /// One try; `None` when the session was changed meanwhile.
    async fn try_authorize(
        &self,
        who: &Authenticated,
        (nonce, end): (&str, Option<Timestamp>),
        granted: Granted,
        claim: Option<&Claim>,
    ) -> Result<Option<SessionView>, Error> {
        let Stored { entity: session, version } = self.session_of(who, nonce).await?;
        let opener = session.application_id.to_string();
        let opener = self.find::<KeptApplication>(session.tenant_id, &[&opener]).await?;
        // It ends with the application that opened it.
        let opener = opener.into_iter().flatten().next().ok_or_else(unknown_nonce)?;
        let opener = opener.entity.application;
        let Granted { permissions, rules, .. } = &granted;
        if let Some((permission, place)) = beyond(&who.0.rights, permissions, rules) {
            let event = session.event(Operation::Update, &format!("Denied: {permission}"));
            self.log_denied(who.0.tenant(), who.0.actor(), event).await?;
            let detail =
                "An application can grant only what it holds itself: in all that this covers,";
            let detail = format!("{detail} it does not hold {permission} as `{place}` has it.");
            return Err(Error::Forbidden { permission, detail });
        }
        let told = said("Session authorized", &said::granted(permissions, rules));
        let latest = Timestamp(session.created_at.0 + SESSION_MS_MAX);
        let end = end.map_or(session.expires_at, |end| end.min(latest));
        let session = Session {
            nonce_hash: None,
            expires_at: until(end, [&who.0.application, &opener]),
            granted: Some(granted),
            ..session
        };
        let event = session.event(Operation::Update, &told);
        let mut change = self.change(session.tenant_id).await?;
        change.put(&session, Expect::Version(version))?;
        let view = session.view();
        claim.map_or(Ok(()), |claim| claim.keep_in(&mut change, &view, &[]))?;
        unless_lost(change.try_commit(who.0.actor(), vec![event]).await?, view)
    }

    /// The session that waits for this nonce in the caller's tenant.
    async fn session_of(&self, who: &Authenticated, nonce: &str) -> Result<Stored<Session>, Error> {
        let wanted = self.nonce_hash(nonce);
        let found = self.0.store.find_unique(Session::KIND, Unique(wanted.0)).await?;
        // One of another tenant is as unknown as one that never was.
        let record =
            found.filter(|record| record.tenant == who.0.tenant()).ok_or_else(unknown_nonce)?;
        let keys = self.keys(record.tenant).await?;
        let stored = from_record::<Session>(&record, &keys)?;
        let waits = stored.entity.nonce_hash == Some(wanted);
        let lives = stored.entity.expires_at > self.now();
        Some(stored).filter(|_| waits && lives).ok_or_else(unknown_nonce)
    }

    /// The caller that a session's key belongs to; `None` when the session, or an application behind it, has ended.
    pub(super) async fn session_caller(&self, hash: KeyHash) -> Result<Option<Caller>, Error> {
        let found = self.0.store.find_unique(Session::KIND, Unique(hash.0)).await?;
        let Some(record) = found else { return Ok(None) };
        let keys = self.keys(record.tenant).await?;
        let session = from_record::<Session>(&record, &keys)?.entity;
        if session.key_hash != hash {
            return Ok(None);
        }
        self.caller_as(session, self.now()).await
    }

    /// The caller that a session is at this time, whoever holds its key; `None` as for [`Self::session_caller`].
    pub(super) async fn session_caller_of(
        &self,
        tenant: TenantId,
        id: Uuid,
        at: Timestamp,
    ) -> Result<Option<Caller>, Error> {
        let found = self.find_at::<Session>(tenant, &[&id.to_string()], at).await?;
        match found.into_iter().flatten().next() {
            Some(stored) => self.caller_as(stored.entity, at).await,
            None => Ok(None),
        }
    }

    async fn caller_as(&self, session: Session, at: Timestamp) -> Result<Option<Caller>, Error> {
        let granted = session.granted.as_ref();
        let ids: Vec<String> = std::iter::once(session.application_id)
            .chain(granted.map(|granted| granted.by))
            .map(|id| id.to_string())
            .collect();
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        let applications = self.find_at::<KeptApplication>(session.tenant_id, &ids, at).await?;
        let applications: Option<Vec<_>> = applications.into_iter().collect();
        let Some(applications) = applications else { return Ok(None) };
        let mut applications = applications.into_iter().map(|stored| stored.entity);
        let Some(opener) = applications.next().map(|kept| kept.application) else {
            return Ok(None);
        };
        let grantor = applications.next();
        let by_key = granted.and_then(|granted| granted.by_key);
        let has_other = |kept: &KeptApplication| by_key.is_some_and(|key| key != kept.key_hash);
        if grantor.as_ref().is_some_and(has_other) {
            return Ok(None);
        }
        let grantor = grantor.map(|kept| kept.application);
        let grantor_ends = grantor.as_ref().and_then(|grantor| grantor.expires_at);
        let rights = match (session.granted, grantor) {
            (Some(granted), Some(grantor)) => {
                Rights::new(granted.permissions, granted.rules).within(grantor.rights())
            }
            _ => Rights::new(Vec::new(), Vec::new()),
        };
        let ends = [Some(session.expires_at), opener.expires_at, grantor_ends];
        let ends = ends.into_iter().flatten().min();
        Ok(Some(Caller::of_session(session.id, opener, rights, ends)))
    }

    /// Refuses whoever may not open sessions.
    pub async fn expect_session_opener(&self, who: &Authenticated) -> Result<(), Error> {
        self.expect_type(who, ApplicationType::Public, Operation::Create).await
    }

    /// Refuses whoever may not authorize sessions.
    pub async fn expect_session_grantor(&self, who: &Authenticated) -> Result<(), Error> {
        self.expect_type(who, ApplicationType::Private, Operation::Update).await
    }

    async fn expect_type(
        &self,
        who: &Authenticated,
        expected: ApplicationType,
        operation: Operation,
    ) -> Result<(), Error> {
        if who.is_application(expected) {
            return Ok(());
        }
        let event = Event::done(EntityType::Session, "", operation, "Denied: session");
        self.log_denied(who.0.tenant(), who.0.actor(), event).await?;
        Err(Error::NotAllowed(match expected {
            ApplicationType::Public => "Only public applications open sessions.",
            _ => "Only private applications authorize sessions.",
        }))
    }

    fn nonce_hash(&self, nonce: &str) -> KeyHash {
        KeyHash(hash::keyed(self.0.keyring.pepper(), &[b"session nonce", nonce.as_bytes()]))
    }
}

/// When a session ends that is to end then, or with an application behind it.
fn until<'a>(end: Timestamp, applications: impl IntoIterator<Item = &'a Application>) -> Timestamp {
    applications.into_iter().filter_map(|behind| behind.expires_at).fold(end, Timestamp::min)
}

/// The first permission that is granted further than the grantor itself holds it, and where.
fn beyond(own: &Rights, all: &[Permission], rules: &[Rule]) -> Option<(Permission, String)> {
    let mut grantor = own.grantor();
    if let Some(permission) = all.iter().find(|one| !grantor.may_grant(**one, rules)) {
        return Some((*permission, "permissions".to_owned()));
    }
    rules.iter().enumerate().find_map(|(index, rule)| {
        Some((grantor.first_beyond(rule, rules)?, format!("rules[{index}]")))
    })
}

impl Session {
    fn view(self) -> SessionView {
        let (permissions, rules) =
            self.granted.map(|granted| (granted.permissions, granted.rules)).unwrap_or_default();
        SessionView {
            id: self.id,
            application_id: self.application_id,
            expires_at: self.expires_at,
            created_at: self.created_at,
            permissions,
            rules,
        }
    }
}

/// The refusal of a nonce that no session waits for.
fn unknown_nonce() -> Error {
    Error::invalid("nonce", "is unknown, expired or used already")
}
