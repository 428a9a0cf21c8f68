//! Members that must not stay: a card's `cvc` is erased some time after it was written (decisions §3).
//!
//! From that time on no reader sees them, whether or not the sweep has rewritten the record yet.

use serde_json::Value;
use zeroize::Zeroizing;

use super::Token;
use crate::crypto::entropy::{Entropy, SeededEntropy};
use crate::expression::{ExpressionError, Scope, Template, Work};
use crate::limits::{CVC_RETENTION_MINUTES_MAX, EXPRESSION_WORK_BYTES_MAX};
use crate::model::log::Operation;
use crate::model::plaintext::Plaintext;
use crate::model::time::Timestamp;
use crate::token_type::TokenType;
use crate::vault::Error;
use crate::vault::audit::{Actor, Event};
use crate::vault::effort::with_effort;
use crate::vault::steady::is_beyond;
use crate::vault::tenants::TenantSettings;

/// How long such a member may stay, whatever a tenant's settings say.
pub(in crate::vault) const TRANSIENT_MS_MAX: u64 = CVC_RETENTION_MINUTES_MAX as u64 * 60_000;

/// An expression whose value is kept beside the data.
pub(super) struct Derived<'s> {
    /// The expression.
    pub(super) source: &'s str,
    /// What becomes of it.
    pub(super) evaluate: fn(&Template, &Scope<'_>, &Work) -> Result<String, ExpressionError>,
}

impl Derived<'_> {
    /// Its value in a scope.
    pub(super) fn on(&self, scope: &Scope<'_>) -> Result<Zeroizing<String>, ExpressionError> {
        let template = Template::parse_kept(self.source)?;
        let evaluate = |work: &Work| (self.evaluate)(&template, scope, work);
        with_effort(EXPRESSION_WORK_BYTES_MAX, evaluate).map(Zeroizing::new)
    }
}

/// Data as it will be once what is transient in it is erased.
pub(super) struct Erased {
    data: Plaintext,
    names: Vec<&'static str>,
}

impl Erased {
    /// `None` when nothing of the data will be erased.
    pub(super) fn of(kind: TokenType, data: &Value) -> Option<Self> {
        let names: Vec<_> = transients_in(kind, data).collect();
        if names.is_empty() {
            return None;
        }
        let mut data = Plaintext::new(data.clone());
        for name in &names {
            data.remove_member(name);
        }
        Some(Self { data, names })
    }

    /// Refuses an expression whose value would tell of what was erased: it stays in the index, the fingerprint or the id.
    pub(super) fn check<T: PartialEq, E>(
        &self,
        scope: &Scope<'_>,
        evaluate: impl Fn(&Scope<'_>) -> Result<T, E>,
    ) -> Result<(), String> {
        // Whatever it draws, it draws twice: what differs then is due to the data.
        let on = |data: &Value| {
            let entropy = SeededEntropy::new(0);
            let entropy: Option<&dyn Entropy> = scope.entropy.map(|_| &entropy as _);
            evaluate(&Scope { data, metadata: scope.metadata, entropy }).ok()
        };
        let after = on(self.data.expose());
        if after.is_some() && after == on(scope.data) {
            return Ok(());
        }
        Err(format!("must not depend on {}, which is erased", self.names.join(", ")))
    }
}

/// The members of this data that will be erased. `null` is as good as absent.
fn transients_in(kind: TokenType, data: &Value) -> impl Iterator<Item = &'static str> {
    kind.transient_members()
        .filter(move |name| data.get(*name).is_some_and(|value| !value.is_null()))
}

impl Token {
    /// Notes until when what `written` brought of transient members may stay, if there are any now.
    pub(super) fn retain_transients_of(
        &mut self,
        written: &Value,
        now: Timestamp,
        settings: TenantSettings,
    ) -> Result<(), Error> {
        let kind = self.token_type()?;
        if transients_in(kind, written).next().is_some() {
            let retention_ms = u64::from(settings.cvc_retention_minutes) * 60_000;
            self.about.transient_until = Some(Timestamp(now.0 + retention_ms));
        } else if transients_in(kind, self.data.expose()).next().is_none() {
            self.about.transient_until = None;
        }
        Ok(())
    }

    /// Evaluates the search indexes on the data as it is. One that draws, as those of earlier versions may, gives nothing.
    pub(in crate::vault) fn index_anew(&mut self) {
        let scope = Scope { data: self.data.expose(), metadata: None, entropy: None };
        let evaluate = |source: &String| {
            Derived { source, evaluate: Template::evaluate_index }.on(&scope).ok()
        };
        let sources = self.about.search_indexes.iter().flatten();
        self.indexed = sources.filter_map(evaluate).collect();
    }

    /// Whether there is something that must not stay any longer.
    pub(in crate::vault) fn is_due(&self, now_ms: u64) -> bool {
        let is_over = |end: Timestamp| end.0 <= now_ms || is_beyond(end, now_ms, TRANSIENT_MS_MAX);
        self.about.transient_until.is_some_and(is_over)
    }

    /// Erases what must not stay any longer.
    pub(in crate::vault) fn erase_due(&mut self, now_ms: u64) {
        if self.is_due(now_ms) {
            self.erase_transients();
        }
    }

    /// Erases what may stay for a time only.
    pub(in crate::vault) fn erase_transients(&mut self) {
        self.about.transient_until = None;
        if let Ok(kind) = self.token_type() {
            for name in kind.transient_members() {
                self.erased |= self.data.remove_member(name);
            }
        }
    }

    /// What the log says of what was erased by the time that this is stored, whoever stores it.
    pub(in crate::vault) fn erasure(&self) -> Result<Option<Event>, Error> {
        let erased = || self.event(Operation::Update, "Token members erased");
        let by_itself = |event: Event| event.by(Actor::SERVER).of_no_request();
        Ok(self.erased.then(erased).transpose()?.map(by_itself))
    }
}
