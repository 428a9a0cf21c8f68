//! What an operator does to a data folder: commands of the binary, copies, looks into the store.

use std::fs;
use std::path::Path;
use std::process::Output;

use tokamak::crypto::keys::{RootKey, TenantKeys};
use tokamak::crypto::seal::{self, Place};
use tokamak::model::id::TenantId;
use tokamak::store::{Filter, Kind, Record, Start, Store};
use uuid::Uuid;

use super::binary::command;

/// Kinds of records that tests look at.
pub const SYSTEM: Kind = Kind(0);
pub const TENANT_KEYS: Kind = Kind(2);
pub const APPLICATION: Kind = Kind(3);
pub const TOKEN: Kind = Kind(4);
pub const REACTOR: Kind = Kind(7);
pub const SESSION: Kind = Kind(10);
pub const ANSWER: Kind = Kind(11);
pub const SIGNING_SECRETS: Kind = Kind(14);
/// The tenant of what belongs to no tenant.
pub const NOBODY: TenantId = TenantId(Uuid::nil());

/// Runs a command on a folder; gives its exit code and what it printed.
pub fn operate(folder: &Path, root_key: Option<&str>, arguments: &[&str]) -> (i32, String, String) {
    let mut command = command();
    command.args(arguments).args(["--log", "warn", "--data-dir"]).arg(folder);
    if let Some(key) = root_key {
        command.env("TOKAMAK_ROOT_KEY", key);
    }
    let Output { status, stdout, stderr } = command.output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

/// Runs a command that must succeed; gives what it printed.
#[track_caller]
pub fn done(folder: &Path, root_key: Option<&str>, arguments: &[&str]) -> String {
    let (code, stdout, stderr) = operate(folder, root_key, arguments);
    assert_eq!(code, 0, "{arguments:?}: {stderr}");
    stdout
}

/// Copies a folder with all that is in it, but for sockets.
pub fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let (kind, into) = (entry.file_type().unwrap(), to.join(entry.file_name()));
        if kind.is_dir() {
            copy(&entry.path(), &into);
        } else if kind.is_file() {
            fs::copy(entry.path(), into).unwrap();
        }
    }
}

/// How often these bytes lie in any file of a folder. Files may go while it looks.
pub fn occurrences(folder: &Path, bytes: &[u8]) -> usize {
    let mut count = 0;
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let kind = entry.file_type().unwrap();
        if kind.is_dir() {
            count += occurrences(&entry.path(), bytes);
        } else if kind.is_file() {
            let text = fs::read(entry.path()).unwrap_or_default();
            // The first byte alone rules most places out.
            let at = |(at, _): (usize, &u8)| text[at..].starts_with(bytes);
            count +=
                text.iter().enumerate().filter(|(_, b)| **b == bytes[0]).filter(|b| at(*b)).count();
        }
    }
    count
}

/// A record, as the store has it.
pub async fn record(store: &dyn Store, kind: Kind, tenant: TenantId, id: &str) -> Option<Record> {
    store.find(kind, tenant, &[id]).await.unwrap().pop().flatten()
}

/// All records of a tenant.
pub async fn records(store: &dyn Store, tenant: TenantId) -> Vec<Record> {
    let mut all = Vec::new();
    for kind in 0..=u8::MAX {
        let (filter, start) = (Filter::All, Start::Offset(0));
        let size = usize::MAX;
        all.extend(store.page(Kind(kind), tenant, &filter, start, size).await.unwrap().records);
    }
    all
}

/// A tenant's keys, if this root key opens them.
pub async fn tenant_keys(
    store: &dyn Store,
    tenant: TenantId,
    root: &RootKey,
) -> Option<TenantKeys> {
    let record = record(store, TENANT_KEYS, tenant, "keys").await?;
    let place = Place { kind: TENANT_KEYS.0, tenant: tenant.0.as_bytes(), id: "keys" };
    let text = seal::open(root.as_key(), place, &record.body).ok()?;
    Some(TenantKeys::from_bytes(&text).unwrap())
}
