//! Keys, sealing, keyed hashes and randomness.
//!
//! The one place that calls the cryptographic library. Pure but for [`entropy`], which is handed in wherever it is
//! needed. It knows nothing of what it seals or hashes.
//!
//! The tree of keys: the operator's *root key* wraps each tenant's [`keys::TenantKeys`]; those wrap a fresh key for
//! each record; that key seals the record's body. Rotation touches tenants, not records.

pub mod api_key;
pub mod entropy;
pub mod hash;
pub mod integrity;
pub mod keys;
pub mod seal;
pub mod webhook;
