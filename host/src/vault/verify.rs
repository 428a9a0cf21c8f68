//! Walking through a whole store with the keys it keeps: `tokamak verify`.

use std::sync::Arc;

use serde::Serialize;

use super::audit_export::ExportedHead;
use super::examine::{self, Look, noun};
use super::record::kind;
use super::sealed_keys::{KEYS_ID, OpenError, SYSTEM_TENANT, open_system_keys};
use crate::crypto::entropy::Entropy;
use crate::crypto::keys::RootKey;
use crate::model::id::TenantId;
use crate::store::{Damage, Inspect, Walked};

/// Something that is not as it was stored, as it is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Damaged {
    /// The kind of entity.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<&'static str>,
    /// The tenant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tenant: Option<TenantId>,
    /// The entity's id.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub id: String,
    /// What is wrong.
    pub what: String,
}

/// What was looked at.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Verified {
    /// Records, log entries included.
    pub records: u64,
    /// Log entries.
    pub log_entries: u64,
    /// Exported heads that the log leads through.
    pub heads: u64,
    /// Exported heads in a part of the log that was removed since, at the end of its time.
    pub heads_removed: u64,
    /// What is damaged.
    pub damaged: u64,
    /// Whether the last write is not whole: it was under way when the power failed, and nobody was told of it, or somebody
    /// changed it since. No damage by itself; an exported head tells which.
    pub cut_short: bool,
}

/// Looks at everything in a store, and tells `damaged` of what is not as it was stored.
pub fn verify(
    store: &dyn Inspect,
    root: &RootKey,
    entropy: Arc<dyn Entropy>,
    heads: &[ExportedHead],
    damaged: &mut dyn FnMut(Damaged),
) -> Result<Verified, OpenError> {
    let Some(record) = store.find(kind::SYSTEM, SYSTEM_TENANT, KEYS_ID) else {
        return Err(if store.is_empty()? { OpenError::NotBegun } else { OpenError::Damaged });
    };
    let system = open_system_keys(root, &record)?;
    let protection = examine::protection(&system, entropy);
    let heads: Vec<_> = heads.iter().filter_map(ExportedHead::to_head).collect();
    let mut look = Look::into_everything(root.clone());
    let mut tell = |damage: Damage| {
        let Damage { kind, tenant, id, what } = damage;
        damaged(Damaged { kind: kind.map(noun), tenant, id, what });
    };
    let walked = store.walk(&protection, &mut look, &heads, &mut tell)?;
    let Walked { records, entries: log_entries, heads, heads_removed, damages, is_cut_short } =
        walked;
    let (damaged, cut_short) = (damages, is_cut_short);
    Ok(Verified { records, log_entries, heads, heads_removed, damaged, cut_short })
}
