//! Keys, sealing, keyed hashes and randomness.
//!
//! The one place that calls the cryptographic library, but for the expressions' filter `hmac`, whose algorithm and key are
//! their author's. Pure but for [`entropy`], which is handed in wherever it is needed. It knows nothing of what it seals
//! or hashes.
//!
//! The tree of keys: the operator's *root key* wraps each tenant's [`keys::TenantKeys`]; of those a key is derived for
//! each record, which seals the record's body. A new root key touches tenants alone; what a tenant's older key sealed is
//! sealed anew in the background (`vault::rotation`).

pub mod api_key;
pub mod entropy;
pub mod hash;
pub mod integrity;
pub mod keys;
pub mod seal;
pub mod webhook;
pub mod wiped;
