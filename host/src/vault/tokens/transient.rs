//! Members that must not stay: a card's `cvc` is erased some time after it was written (decisions §3).
//!
//! From that time on no reader sees them, whether or not the sweep has rewritten the record yet.

use serde_json::Value;
use zeroize::Zeroizing;

use super::Token;
use crate::crypto::entropy::Entropy;
use crate::expression::{Scope, Template};
use crate::model::time::Timestamp;
use crate::vault::Error;
use crate::vault::tenants::TenantSettings;

impl Token {
    /// Notes until when what `written` brought of transient members may stay.
    pub(super) fn retain_transients_of(
        &mut self,
        written: &Value,
        now: Timestamp,
        settings: TenantSettings,
    ) -> Result<(), Error> {
        let mut members = self.token_type()?.transient_members();
        if members.any(|name| written.get(name).is_some_and(|value| !value.is_null())) {
            let retention_ms = u64::from(settings.cvc_retention_minutes) * 60_000;
            self.about.transient_until = Some(Timestamp(now.0 + retention_ms));
        }
        Ok(())
    }

    /// Evaluates the search indexes on the data as it is.
    pub(in crate::vault) fn index_anew(&mut self, entropy: &dyn Entropy) {
        let metadata = self.about.metadata.as_ref();
        let scope = Scope { data: self.data.expose(), metadata, entropy };
        let evaluate =
            |source: &String| Template::parse_kept(source).ok()?.evaluate_index(&scope).ok();
        let sources = self.about.search_indexes.iter().flatten();
        self.indexed = sources.filter_map(evaluate).map(Zeroizing::new).collect();
    }

    /// Whether there is something that must not stay any longer.
    pub(in crate::vault) fn is_due(&self, now_ms: u64) -> bool {
        self.about.transient_until.is_some_and(|until| until.0 <= now_ms)
    }

    /// Erases what must not stay any longer.
    pub(in crate::vault) fn erase_due(&mut self, now_ms: u64) {
        if !self.is_due(now_ms) {
            return;
        }
        self.about.transient_until = None;
        if let Ok(kind) = self.token_type() {
            for name in kind.transient_members() {
                self.data.remove_member(name);
            }
        }
    }
}
