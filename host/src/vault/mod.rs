//! The vault: what the product does, whoever asks and by whatever way.
//!
//! One file per group of operations. Every operation takes a [`Permit`] as evidence that its caller may, or, where no
//! permission is asked for, an [`Authenticated`] as evidence of who it is; the tenant comes from there and from nowhere
//! else. Operations return views, which alone serialise. Nothing here knows the store's engine or the sandbox's, and of
//! HTTP only what is part of the contract: an error's status, and where what was made is found.
//!
//! This file holds what all operations share; [`find`] reads entities, and [`change`] commits them with their log entries.
//! To add an operation: a method in the file of its entity that takes a permit, a row in `http::routes`.

mod answers;
mod apart;
mod applications;
mod audit;
mod audit_export;
mod authentication;
mod change;
mod denials;
mod effort;
mod erase;
mod error;
mod examine;
mod find;
mod formulas;
mod given;
mod index;
mod invocations;
mod jobs;
mod kept_application;
mod keyring;
mod last_place;
mod logs;
mod names;
mod official;
mod operators;
mod outbound;
mod page;
mod permit;
mod programs;
mod react;
mod reactors;
mod record;
mod retention;
mod retry;
mod rotation;
mod run_error;
mod said;
mod scripts;
mod sealed_keys;
mod sessions;
mod shares;
mod short;
mod steady;
mod svc;
mod sweep;
mod tenants;
#[cfg(test)]
mod tests;
mod tokenize;
mod tokens;
mod verify;
mod webhooks;

mod backup;

use std::sync::Arc;

use uuid::Uuid;

pub use answers::{Answer, Attempt, Claim, Form, Repetition};
pub use apart::apart;
pub use applications::{ApplicationWithKey, WriteApplication};
pub use audit::{Actor, LogEntry};
pub use audit_export::{ExportFilter, ExportedHead, Removed, parse_hash};
pub use authentication::{Authenticated, Caller, asked_by};
pub use backup::{
    Backup, BackupError, CHUNK_FILE_BYTES_MAX, MANIFEST_BYTES_MAX, Manifest, Piece, Reader,
};
pub use error::{Described, Error, Unfit};
pub use formulas::{FormulaView, WriteFormula};
pub use invocations::{InvocationView, SERVER_LEVEL};
pub use jobs::{JobView, Workers};
pub use logs::{EntityTypeView, LogFilter};
pub use official::component as official_component;
pub use operators::IssuedKey;
pub use page::{Page, PageRequest, PageStart, Paginated};
pub use permit::Permit;
pub use react::{ReactRequest, ReactResponse, Reacted};
pub use reactors::{ReactorFilter, ReactorView, WriteReactor};
pub use rotation::{KeyStatus, KeysStatus, Progress};
pub use run_error::RunError;
pub use sealed_keys::OpenError;
pub use sessions::{AuthorizeSession, NewSession, SessionView};
pub use shares::{
    NoRoom, Share, Shares, let_go_of_all_but, let_go_of_half, opened, opened_so_far, share_in,
    sharing, sharing_out_of_row, uncounted,
};
pub use sweep::Swept;
pub use tenants::{NewTenant, Tenant, TenantSettings, UpdateTenant, check_tenant_name};
pub use tokens::{
    CreateToken, SearchTokens, TokenFilter, TokenPage, TokenView, UpdateToken, each_token, outline,
    parse_scope,
};
pub use verify::{Damaged, Verified, verify};
pub use webhooks::SigningSecretView;

use audit::Event;
use authentication::Callers;
use change::Change;
use find::ended;
use keyring::Keyring;
use programs::Programs;
use scripts::Scripts;

use crate::clock::Clock;
use crate::config::JobLimits;
use crate::crypto::entropy::Entropy;
use crate::crypto::keys::RootKey;
use crate::egress::{Egress, StandIn};
use crate::figures::{Disk, figures};
use crate::limits::OPENED_BYTES_FREE;
use crate::model::id::TenantId;
use crate::model::time::Timestamp;
use crate::runtime::Runtime;
pub use crate::store::Compacted;
use crate::store::{Batch, Kind, Store, StoreError};

/// What is asked for seldom enough that a store may read what it is found by once it is open: the log, and what is told of
/// runs, of both of which there is much. Until then, who lists them waits.
pub const READ_LATER: &[Kind] = &[record::kind::LOG, record::kind::INVOCATION];

/// What the vault stands on.
pub struct Foundation {
    /// Where records are kept.
    pub store: Arc<dyn Store>,
    /// Where formulas run.
    pub runtime: Runtime,
    /// How requests leave, for formulas and for callbacks.
    pub egress: Egress,
    /// Who answers formulas in place of other hosts, where they are tried out.
    pub stand_in: Option<Arc<dyn StandIn>>,
    /// What time it is.
    pub clock: Arc<dyn Clock>,
    /// Where randomness comes from.
    pub entropy: Arc<dyn Entropy>,
    /// The operator's key.
    pub root_key: RootKey,
    /// Fuel an invocation gets for each millisecond of its time.
    pub fuel_per_ms: u64,
    /// Time of a synchronous invocation, in milliseconds.
    pub react_timeout_ms: u64,
    /// Whether a callback's address may begin with `http://` (decisions §8).
    pub allow_http_callbacks: bool,
    /// How many asynchronous runs go on and wait.
    pub jobs: JobLimits,
    /// Bytes of formulas' machine code that are kept in memory.
    pub programs_bytes_max: u64,
    /// Bytes of memory that what is read for requests, and answered, may take.
    pub opened_bytes_max: usize,
}

/// The vault. Cloning shares it.
#[derive(Clone)]
pub struct Vault(Arc<Inner>);

struct Inner {
    store: Arc<dyn Store>,
    runtime: Runtime,
    egress: Egress,
    stand_in: Option<Arc<dyn StandIn>>,
    clock: Arc<dyn Clock>,
    entropy: Arc<dyn Entropy>,
    keyring: Keyring,
    callers: Callers,
    programs: Programs,
    scripts: Scripts,
    settings: tenants::SettingsCache,
    claimed: answers::Claimed,
    /// What is read for requests, and answered.
    opened: Shares,
    /// The same for those who oversee their tenant.
    overseen: Shares,
    ids: record::IdSource,
    fuel_per_ms: u64,
    react_timeout_ms: u64,
    allow_http_callbacks: bool,
    jobs: JobLimits,
    queue: jobs::Queue,
    denials: denials::Denials,
    retention: retention::Retention,
    steady: steady::Steady,
}

impl Vault {
    /// Opens the vault on its store. A root key that is not the store's is an error.
    pub async fn open(foundation: Foundation) -> Result<Self, OpenError> {
        let Foundation { store, runtime, egress, clock, entropy, root_key, .. } = foundation;
        let keyring = Keyring::open(store.as_ref(), root_key, &entropy).await?;
        let vault = Self(Arc::new(Inner {
            store,
            runtime,
            egress,
            stand_in: foundation.stand_in,
            clock,
            entropy,
            keyring,
            callers: Callers::default(),
            programs: Programs::new(foundation.programs_bytes_max),
            scripts: Scripts::default(),
            settings: tenants::SettingsCache::default(),
            claimed: answers::Claimed::default(),
            opened: Shares::new(foundation.opened_bytes_max, OPENED_BYTES_FREE),
            overseen: Shares::new(foundation.opened_bytes_max / 8, OPENED_BYTES_FREE),
            ids: record::IdSource::default(),
            fuel_per_ms: foundation.fuel_per_ms,
            react_timeout_ms: foundation.react_timeout_ms,
            allow_http_callbacks: foundation.allow_http_callbacks,
            jobs: foundation.jobs,
            queue: jobs::Queue::default(),
            denials: denials::Denials::default(),
            retention: retention::Retention::default(),
            steady: steady::Steady::default(),
        }));
        vault.settle_root_key().await.map_err(OpenError::Unfinished)?;
        vault.recall_time().await.map_err(OpenError::Unfinished)?;
        Ok(vault)
    }

    /// What a tenant's request takes of the memory: nothing so far.
    pub fn share(&self, tenant: TenantId) -> Share {
        self.0.opened.share(tenant)
    }

    /// The same of a request by which a tenant's keys are seen and ended, or its log is read: whatever else the tenant has
    /// asked for is not in its way.
    pub fn share_to_oversee(&self, tenant: TenantId) -> Share {
        self.0.overseen.share(tenant)
    }

    /// Rewrites the store's files without what was removed or replaced.
    pub async fn compact(&self) -> Result<Compacted, Error> {
        let old_keys = self.noted_old_keys().await?;
        let compacted = self.0.store.compact().await?;
        figures().compacted(self.now().0);
        if let Some(version) = old_keys {
            self.forget_old_keys(version).await?;
        }
        Ok(compacted)
    }

    /// Whether the disk has no room for what is new.
    pub fn is_full(&self) -> bool {
        self.0.store.health() == Err(StoreError::Full)
    }

    /// Whether anything was removed or replaced since the store's files were made anew.
    pub fn has_removed(&self) -> bool {
        self.0.store.has_removed()
    }

    /// Whether the store takes writes.
    pub fn health(&self) -> Result<(), Unfit> {
        Ok(self.0.store.health()?)
    }

    /// What the store takes of its disk, and what is left of that.
    pub fn disk(&self) -> Disk {
        self.0.store.disk()
    }

    /// Begins no more asynchronous runs and deliveries: the process is about to end.
    pub fn begin_no_more(&self) {
        self.0.queue.stop();
    }

    /// Lets the store finish what it has begun, and closes it.
    pub fn close(&self) {
        self.0.store.close();
    }

    /// A fresh id for a request that brings none.
    pub fn draw_trace_id(&self) -> String {
        self.draw_id().simple().to_string()
    }

    fn now(&self) -> Timestamp {
        Timestamp(self.0.clock.now_ms())
    }

    /// A fresh id that sorts by time.
    fn draw_id(&self) -> Uuid {
        self.0.ids.draw(self.now(), self.0.entropy.as_ref())
    }

    /// So many of them, ascending, with nobody else's between.
    fn draw_ids(&self, count: usize) -> Vec<Uuid> {
        self.0.ids.draw_some(self.now(), count, self.0.entropy.as_ref()).collect()
    }

    /// Waits until every write begun before is seen by searches as well as by reads of one record: a record may be read a
    /// moment before the index knows of it.
    async fn settled(&self) -> Result<(), Error> {
        Ok(self.0.store.commit(Batch::nothing()).await?)
    }

    /// The same of one tenant's writes, which waits for no other's.
    async fn settled_of(&self, tenant: TenantId) -> Result<(), Error> {
        Ok(self.0.store.commit(Batch::nothing_of(tenant)).await?)
    }

    /// Starts a change in a tenant.
    async fn change(&self, tenant: TenantId) -> Result<Change, Error> {
        let keys = self.keys(tenant).await?;
        Ok(Change { vault: self.clone(), tenant, keys, batch: Batch::default(), answer: None })
    }

    /// Commits log entries alone: something was read, or refused. What was read is for whoever asked, if that still is so
    /// after all the waiting.
    async fn log(&self, tenant: TenantId, actor: Actor, events: Vec<Event>) -> Result<(), Error> {
        if events.is_empty() {
            return Ok(());
        }
        self.change(tenant).await?.commit(actor, events).await?;
        if apart::is_apart() {
            Box::pin(self.expect_asker_unchanged()).await?;
        }
        Ok(())
    }
}
