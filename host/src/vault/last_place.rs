//! Where tokens lay that had been moved and are gone: what came of runs that were given them belongs to those who might use
//! them there, for as long as it is kept (decisions §7).

use serde::{Deserialize, Serialize};

use super::record::{Entity, Stored, from_json_text, json_text, kind};
use super::tokens::Token;
use super::{Change, Error};
use crate::crypto::wiped::Wiped;
use crate::limits::INVOCATION_KEPT_MS;
use crate::model::container::Container;
use crate::model::time::Timestamp;
use crate::store::{Expect, Kind};

/// Where a token lay when it went.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct LastPlace {
    token_id: String,
    made_at: Timestamp,
    gone_at: Timestamp,
    pub(super) containers: Vec<Container>,
}

impl LastPlace {
    /// The id of that of a token, and not of a later one of its id.
    pub(super) fn id_of(token_id: &str, made_at: Timestamp) -> String {
        format!("{} {token_id}", made_at.0)
    }
}

impl Entity for LastPlace {
    const KIND: Kind = kind::LAST_PLACE;
    const NOUN: &'static str = "last place of a token";

    fn id(&self) -> String {
        Self::id_of(&self.token_id, self.made_at)
    }

    fn created_ms(&self) -> u64 {
        self.gone_at.0
    }

    /// A result is kept from the end of its run on, which may have been queued for long when its token went.
    fn expires_ms(&self) -> Option<u64> {
        Some(self.gone_at.0 + 2 * INVOCATION_KEPT_MS)
    }

    fn to_text(&self) -> Result<Wiped, Error> {
        json_text(self)
    }

    fn from_text(text: &[u8]) -> Result<Self, Error> {
        from_json_text(text)
    }
}

impl Change {
    /// Removes a token. Where it lay is kept if that is not what runs remember that were given it.
    pub(super) fn remove_token(&mut self, stored: &Stored<Token>) -> Result<(), Error> {
        self.remove(stored);
        let about = &stored.entity.about;
        if about.moved {
            let place = LastPlace {
                token_id: about.id.clone(),
                made_at: about.audit.created_at,
                gone_at: self.now(),
                containers: about.containers.clone(),
            };
            // Going is not to wait for space.
            self.batch.urgent = true;
            self.put(&place, Expect::Any)?;
        }
        Ok(())
    }
}
