//! What the operator of this machine may ask of a running server: HTTP over a socket in the data folder.
//!
//! It has no part in the public interface. The kernel tells who calls: the server's own user and root, nobody else. The
//! command line is its only client (`cli::control`), and does the same work itself when no server runs.
//!
//! To add an operation: a handler, a line in [`router`], and its command.

mod audit;
mod backup;

use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use axum::Router;
use axum::body::Bytes;
use axum::extract::rejection::PathRejection;
use axum::extract::{FromRef, Path as InPath, State as Shared};
use axum::response::{IntoResponse, Response};
use axum::routing::{delete, get, post};
use axum::serve::Listener;
use http::StatusCode;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use tokio::net::unix::SocketAddr;
use tokio::net::{UnixListener, UnixStream};
use zeroize::Zeroizing;

pub use self::audit::copy_lines;
use self::backup::Backups;
pub use self::backup::{Asked, Begun, Taken, read_begun, read_frame};
use super::envelope::Reply;
use crate::crypto::keys::RootKey;
use crate::model::id::{ApplicationId, TenantId};
use crate::vault::{Compacted, Error, IssuedKey, KeysStatus, NewTenant, Tenant, Vault};

/// Said of what cannot be asked.
pub const NO_OPERATION: &str = "There is no such operation.";
/// The socket's name in the data folder.
pub const SOCKET: &str = "control.sock";
/// Its name while it is made.
const BESIDE: &str = "control.new";
/// Whose processes may do anything.
pub const ROOT: u32 = 0;
/// How long nothing is taken after taking a connection failed.
const FAILED_PAUSE: Duration = Duration::from_secs(1);

/// The socket, and who may call.
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
    owner: u32,
}

/// Body of a change of the root key.
#[derive(Serialize, Deserialize)]
pub struct RotateRoot {
    /// The new root key, in base64.
    pub root_key: Zeroizing<String>,
}

/// Body of a change of tenants' keys.
#[derive(Debug, Serialize, Deserialize)]
pub struct RotateTenants {
    /// The tenant; all when there is none.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tenant_id: Option<TenantId>,
}

/// Keys that were changed.
#[derive(Debug, Serialize, Deserialize)]
pub struct Rotated {
    /// How many were wrapped anew or drawn: those of tenants, and that of what belongs to none.
    pub keys: usize,
    /// Tenants whose keys were left as they are, since their last rotation is still under way.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub skipped: Vec<TenantId>,
}

/// Body of a new tenant.
#[derive(Debug, Serialize, Deserialize)]
pub struct CreateTenant {
    /// A name for people.
    pub name: String,
}

/// A new tenant, with the key of its management application.
#[derive(Serialize, Deserialize)]
pub struct CreatedTenant {
    /// Identifies the tenant.
    pub id: TenantId,
    /// A name for people.
    pub name: String,
    /// The key, which is kept nowhere.
    pub management_key: Zeroizing<String>,
}

/// Another management application of a tenant, with its key.
#[derive(Serialize, Deserialize)]
pub struct CreatedKey {
    /// The application.
    pub application_id: ApplicationId,
    /// The key, which is kept nowhere.
    pub management_key: Zeroizing<String>,
}

/// What compacting did.
#[derive(Debug, Serialize, Deserialize)]
pub struct CompactedView {
    /// Bytes of the store's files before.
    pub bytes_before: u64,
    /// And after.
    pub bytes_after: u64,
}

/// A refusal, as the command line reads it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Refusal {
    /// What is wrong.
    pub detail: String,
}

impl Rotated {
    /// All that were to be changed, so many.
    pub fn all(keys: usize) -> Self {
        Self { keys, skipped: Vec::new() }
    }
}

impl From<(usize, Vec<TenantId>)> for Rotated {
    fn from((keys, skipped): (usize, Vec<TenantId>)) -> Self {
        Self { keys, skipped }
    }
}

impl From<Compacted> for CompactedView {
    fn from(Compacted { bytes_before, bytes_after }: Compacted) -> Self {
        Self { bytes_before, bytes_after }
    }
}

impl From<NewTenant> for CreatedTenant {
    fn from(NewTenant { tenant, management_key }: NewTenant) -> Self {
        let management_key = Zeroizing::new(management_key.expose().to_owned());
        Self { id: tenant.id, name: tenant.name, management_key }
    }
}

impl From<IssuedKey> for CreatedKey {
    fn from(IssuedKey { application_id, key }: IssuedKey) -> Self {
        Self { application_id, management_key: Zeroizing::new(key.expose().to_owned()) }
    }
}

impl Control {
    /// Makes the socket. One that is there was left by a process that is gone: the store in this folder is ours.
    pub fn bind(folder: &Path) -> io::Result<Self> {
        let (path, beside) = (folder.join(SOCKET), folder.join(BESIDE));
        for left in [&path, &beside] {
            match fs::remove_file(left) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        let opened = File::open(folder)?;
        let listener = UnixListener::bind(short(&opened, BESIDE))?;
        // Under its name nobody finds it before it is closed to others.
        fs::set_permissions(&beside, Permissions::from_mode(0o600))?;
        let owner = fs::metadata(&beside)?.uid();
        fs::rename(&beside, &path)?;
        Ok(Self { listener, path, owner })
    }

    /// Answers until it is dropped or the process ends.
    pub async fn serve(self, vault: Vault) -> io::Result<()> {
        axum::serve(self, router(vault)).await
    }
}

impl Drop for Control {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// The path of a file in an open folder. A socket's path may have some hundred bytes only, a folder's has more.
pub fn short(folder: &File, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/self/fd/{}/{name}", folder.as_raw_fd()))
}

impl Listener for Control {
    type Io = UnixStream;
    type Addr = SocketAddr;

    async fn accept(&mut self) -> (UnixStream, SocketAddr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, address)) => match stream.peer_cred() {
                    Ok(peer) if [self.owner, ROOT].contains(&peer.uid()) => {
                        return (stream, address);
                    }
                    Ok(peer) => {
                        tracing::warn!(uid = peer.uid(), "a stranger at the control socket");
                    }
                    Err(error) => {
                        tracing::warn!(%error, "who calls at the control socket is unknown");
                    }
                },
                Err(error) => {
                    tracing::warn!(%error, "the control socket takes no connection");
                    tokio::time::sleep(FAILED_PAUSE).await;
                }
            }
        }
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.listener.local_addr()
    }
}

/// What operations work on.
#[derive(Clone, FromRef)]
struct Desk {
    vault: Vault,
    backups: Backups,
}

/// What can be asked.
fn router(vault: Vault) -> Router {
    let desk = Desk { vault, backups: Backups::default() };
    Router::new()
        .route("/keys", get(status))
        .route("/keys/rotate-root", post(rotate_root))
        .route("/keys/rotate", post(rotate))
        .route("/compact", post(compact))
        .route("/backup", post(backup::backup))
        .route("/backup/taken", post(backup::taken))
        .route("/audit/heads", get(audit::heads))
        .route("/audit/export", post(audit::export))
        .route("/tenants", get(tenants).post(create_tenant))
        .route("/tenants/{id}", delete(erase))
        .route("/tenants/{id}/key", post(create_key))
        .fallback(async || Refused(StatusCode::NOT_FOUND, NO_OPERATION.to_owned()))
        .with_state(desk)
}

/// Carries out an operation to its end: who hangs up must not cut it in two.
async fn whole<T: Send + 'static>(
    work: impl Future<Output = Result<T, Error>> + Send + 'static,
) -> Result<T, Refused> {
    let ended = tokio::spawn(work).await;
    Ok(ended.unwrap_or_else(|error| Err(Error::internal(error)))?)
}

async fn status(Shared(vault): Shared<Vault>) -> Result<Reply<KeysStatus>, Refused> {
    Ok(Reply(vault.keys_status().await?))
}

async fn rotate_root(
    Shared(Desk { vault, backups }): Shared<Desk>,
    body: Bytes,
) -> Result<Reply<Rotated>, Refused> {
    let root = RootKey::parse(&read::<RotateRoot>(&body)?.root_key).map_err(|error| bad(&error))?;
    let rotated = whole(async move {
        let keys = vault.rotate_root_key(root).await?;
        // What a backup that is cut off is read from holds what the key before opens.
        drop(backups.give_up());
        Ok(Rotated::all(keys))
    });
    Ok(Reply(rotated.await?))
}

async fn rotate(Shared(vault): Shared<Vault>, body: Bytes) -> Result<Reply<Rotated>, Refused> {
    let RotateTenants { tenant_id } = read(&body)?;
    let rotated = whole(async move {
        match tenant_id {
            Some(tenant) => vault.rotate_tenant_key(tenant).await.map(|_| Rotated::all(1)),
            None => vault.rotate_all_tenant_keys().await.map(Rotated::from),
        }
    });
    Ok(Reply(rotated.await?))
}

async fn compact(
    Shared(Desk { vault, backups }): Shared<Desk>,
) -> Result<Reply<CompactedView>, Refused> {
    // One that was cut off is in the way of it.
    let others = backups.give_up();
    let compacting = async move {
        let _others = others;
        vault.compact().await
    };
    Ok(Reply(whole(compacting).await?.into()))
}

async fn tenants(Shared(vault): Shared<Vault>) -> Result<Reply<Vec<Tenant>>, Refused> {
    Ok(Reply(vault.tenants().await?))
}

async fn create_tenant(
    Shared(vault): Shared<Vault>,
    body: Bytes,
) -> Result<Reply<CreatedTenant>, Refused> {
    let CreateTenant { name } = read(&body)?;
    let made = whole(async move { vault.create_tenant(&name, None).await }).await?;
    Ok(Reply(made.into()))
}

async fn create_key(
    Shared(vault): Shared<Vault>,
    id: Result<InPath<String>, PathRejection>,
) -> Result<Reply<CreatedKey>, Refused> {
    let tenant = tenant_in(id)?;
    let made = whole(async move { vault.issue_management_key(tenant).await }).await?;
    Ok(Reply(made.into()))
}

fn tenant_in(id: Result<InPath<String>, PathRejection>) -> Result<TenantId, Refused> {
    let InPath(id) = id.map_err(|error| bad(&error))?;
    id.parse().map_err(|error| bad(&error))
}

async fn erase(
    Shared(Desk { vault, backups }): Shared<Desk>,
    id: Result<InPath<String>, PathRejection>,
) -> Result<StatusCode, Refused> {
    let tenant = tenant_in(id)?;
    let erasing = vault.clone();
    whole(async move { erasing.erase_tenant(tenant).await }).await?;
    // What a backup that was cut off is read from holds them still.
    let others = backups.give_up();
    // The keys are gone; nobody waits for the rest.
    tokio::spawn(async move {
        let _others = others;
        if let Err(error) = vault.sweep_erased().await {
            tracing::warn!(%error, "what an erased tenant left is removed by the next sweep");
        }
    });
    Ok(StatusCode::NO_CONTENT)
}

struct Refused(StatusCode, String);

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        let described = error.describe();
        let status = StatusCode::from_u16(described.status);
        let detail = match &error {
            // There are no members here to see.
            Error::Invalid(faults) => faults.to_string(),
            _ => described.detail,
        };
        Self(status.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR), detail)
    }
}

impl IntoResponse for Refused {
    fn into_response(self) -> Response {
        (self.0, Reply(Refusal { detail: self.1 })).into_response()
    }
}

fn bad(error: &dyn std::fmt::Display) -> Refused {
    Refused(StatusCode::BAD_REQUEST, error.to_string())
}

/// Reads a body. What is wrong with it is not said: it may hold a key.
fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Refused> {
    serde_json::from_slice(body).map_err(|_| bad(&"The body cannot be read."))
}
