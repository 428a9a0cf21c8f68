//! An application as it lies in the store.

use serde::{Deserialize, Serialize};

use super::Error;
use super::index::Index;
use super::record::{Entity, from_json_text, json_text, kind};
use crate::crypto::api_key::KeyHash;
use crate::crypto::wiped::Wiped;
use crate::model::application::Application;
use crate::store::{Kind, Unique};

/// An application with the hash of its key, as it is kept.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct KeptApplication {
    /// The application.
    pub application: Application,
    /// What is kept of its key.
    pub key_hash: KeyHash,
}

impl Entity for KeptApplication {
    const KIND: Kind = kind::APPLICATION;
    const NOUN: &'static str = "application";

    fn id(&self) -> String {
        self.application.id.to_string()
    }

    fn created_ms(&self) -> u64 {
        self.application.audit.created_at.0
    }

    fn expires_ms(&self) -> Option<u64> {
        self.application.expires_at.map(|end| end.0)
    }

    fn index(&self, index: &mut Index<'_>) {
        index.unique(Unique(self.key_hash.0));
    }

    fn to_text(&self) -> Result<Wiped, Error> {
        json_text(self)
    }

    fn from_text(text: &[u8]) -> Result<Self, Error> {
        from_json_text(text)
    }
}
