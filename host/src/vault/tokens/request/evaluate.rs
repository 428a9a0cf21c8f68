//! The expressions of a body, evaluated: slow ones when it is their turn.

use std::collections::BTreeMap;
use std::str::FromStr as _;

use serde_json::Value;
use zeroize::Zeroizing;

use super::size::json_bytes;
use super::{CreateToken, IdRule, NewToken};
use crate::crypto::entropy::Entropy;
use crate::expression::{ExpressionError, Mask, Scope, Template, Work};
use crate::limits::{EXPRESSION_WORK_BYTES_MAX, TOKEN_MASK_BYTES_MAX};
use crate::model::container::Container;
use crate::model::faults::Faults;
use crate::model::id::{TenantId, TokenId};
use crate::model::plaintext::Plaintext;
use crate::model::time::Timestamp;
use crate::token_type::TokenType;
use crate::vault::effort::{unless_crowded, with_effort};
use crate::vault::tokens::Token;
use crate::vault::tokens::transient::{Derived, Erased};
use crate::vault::{Error, Vault};

/// A body of which everything is checked but its expressions.
pub(super) struct Unevaluated {
    pub(super) id: IdRule,
    pub(super) kind: TokenType,
    pub(super) data: Plaintext,
    pub(super) mask: Option<Value>,
    pub(super) containers: Vec<Container>,
    pub(super) metadata: Option<BTreeMap<String, String>>,
    /// By their places; none where one is faulty.
    pub(super) search_indexes: Vec<Option<String>>,
    pub(super) fingerprint_expression: Option<String>,
    pub(super) deduplicate: Option<bool>,
    pub(super) expires_at: Option<Timestamp>,
    /// What is wrong with it so far.
    pub(super) faults: Faults,
}

/// What its expressions come to.
struct Values {
    fingerprinted: Option<Zeroizing<String>>,
    indexed: Vec<Zeroizing<String>>,
}

impl Vault {
    /// Checks everything of a body that does not depend on what is stored, and finds all that is wrong. A body that a change
    /// makes of a token comes with that token as it was `before`.
    pub(in crate::vault::tokens) async fn check_body(
        &self,
        tenant: TenantId,
        body: CreateToken,
        now: Timestamp,
        before: Option<&Token>,
    ) -> Result<Result<NewToken, Faults>, Error> {
        let read = match body.read(now, before) {
            Ok(read) => read,
            Err(faults) => return Ok(Err(faults)),
        };
        let evaluate = || read.evaluate(self.0.entropy.as_ref(), before);
        let values = unless_crowded(tenant, evaluate).await?;
        Ok(values.map(|values| read.with(values)))
    }
}

impl Unevaluated {
    /// Evaluates all expressions, and finds what is wrong beside what was found before. It changes nothing.
    fn evaluate(&self, entropy: &dyn Entropy, before: Option<&Token>) -> Result<Values, Faults> {
        let mut faults = self.faults.clone();
        let data = self.data.expose();
        let scope = Scope { data, metadata: self.metadata.as_ref(), entropy: None };
        let erased = Erased::of(self.kind, data);
        let erased = erased.as_ref();
        let same = before.filter(|before| self.is_data_of(before));
        let expressions = Expressions { scope, entropy, erased, before, same };
        if let IdRule::Expression(template) = &self.id {
            expressions.check_id(template, &mut faults);
        }
        if let Some(mask) = &self.mask {
            expressions.check_mask(mask, &mut faults);
        }
        let source = self.fingerprint_expression.as_deref();
        let fingerprinted = expressions.fingerprinted(self.kind, source, &mut faults);
        let indexed = expressions.indexed(&self.search_indexes, &mut faults);
        faults.into_result(Values { fingerprinted, indexed })
    }

    /// Whether the token's data was the same, as it would be written now.
    fn is_data_of(&self, before: &Token) -> bool {
        let (was, data) = (before.data.expose(), self.data.expose());
        was == data || {
            let mut was = was.clone();
            self.kind.normalize(&mut was);
            Plaintext::new(was).expose() == data
        }
    }

    fn with(self, values: Values) -> NewToken {
        let Values { fingerprinted, indexed } = values;
        NewToken {
            id: self.id,
            kind: self.kind,
            data: self.data,
            mask: self.mask,
            containers: self.containers,
            metadata: self.metadata,
            search_indexes: Some(self.search_indexes.into_iter().flatten().collect())
                .filter(|sources: &Vec<_>| !sources.is_empty()),
            indexed,
            fingerprint_expression: self.fingerprint_expression,
            fingerprinted,
            deduplicate: self.deduplicate,
            expires_at: self.expires_at,
        }
    }
}

/// The id that an expression gives, perhaps another one each time.
pub(in crate::vault::tokens) fn evaluate_id(
    template: &Template,
    scope: &Scope<'_>,
) -> Result<TokenId, String> {
    let text = with_effort(EXPRESSION_WORK_BYTES_MAX, |work| template.evaluate_text(scope, work));
    let text = Zeroizing::new(text.map_err(|error| error.to_string())?);
    TokenId::from_str(&text).map_err(|error| error.to_string())
}

/// The text that an expression gives; what gives none tells no contents from others.
fn evaluate_filled(
    template: &Template,
    scope: &Scope<'_>,
    work: &Work,
) -> Result<String, ExpressionError> {
    let text = template.evaluate_text(scope, work)?;
    if text.is_empty() { Err(ExpressionError::Empty) } else { Ok(text) }
}

/// What evaluates the expressions of a body.
struct Expressions<'a> {
    /// Equal contents are to have equal fingerprints, and to be found by the same: nothing is drawn here.
    scope: Scope<'a>,
    /// Where the others draw.
    entropy: &'a dyn Entropy,
    /// The data without what will be erased of it, if anything will.
    erased: Option<&'a Erased>,
    /// The token as it was before a change.
    before: Option<&'a Token>,
    /// It, if its data stays.
    same: Option<&'a Token>,
}

impl Expressions<'_> {
    /// The id itself is drawn where it is stored; here one that no try could give is named with the rest.
    fn check_id(&self, template: &Template, faults: &mut Faults) {
        let scope = Scope { metadata: None, entropy: Some(self.entropy), ..self.scope };
        let evaluate = |scope: &Scope<'_>| evaluate_id(template, scope);
        let told = |()| self.erased.map_or(Ok(()), |erased| erased.check(&scope, evaluate));
        faults.check("id", evaluate(&scope).map(drop).and_then(told));
    }

    fn check_mask(&self, mask: &Value, faults: &mut Faults) {
        if json_bytes(mask) > TOKEN_MASK_BYTES_MAX {
            faults.add("mask", format!("must have at most {TOKEN_MASK_BYTES_MAX} bytes as JSON"));
            return;
        }
        let evaluate = |data: &Value| -> Result<(), Faults> {
            let mut faults = Faults::new();
            let mask = Mask::read(mask, &mut faults);
            let shown = with_effort(EXPRESSION_WORK_BYTES_MAX, |work| {
                mask.evaluate(data, self.entropy, work)
            });
            faults.take("", shown);
            faults.into_result(())
        };
        let has_it = |before: &Token| before.about.mask.as_ref() == Some(mask);
        // What it draws may let it fail one time and not another.
        if self.same.is_some_and(has_it) {
            return;
        }
        let Err(inner) = evaluate(self.scope.data) else { return };
        // One that was there already and failed already wants what was erased: this request is not
        // to blame.
        let had = self.before.filter(|before| has_it(before));
        if had.is_none_or(|before| evaluate(before.data.expose()).is_ok()) {
            faults.extend_under("mask", inner);
        }
    }

    /// The value to be fingerprinted.
    fn fingerprinted(
        &self,
        kind: TokenType,
        source: Option<&str>,
        faults: &mut Faults,
    ) -> Option<Zeroizing<String>> {
        // Of other data, the fingerprint that the token had would be wrong.
        let had =
            self.same.filter(|before| before.about.fingerprint_expression.as_deref() == source);
        let default = kind.default_fingerprint_expression();
        let derived = match source {
            Some(source) if source != default => Derived { source, evaluate: evaluate_filled },
            _ => Derived { source: default, evaluate: Template::evaluate_text },
        };
        let had =
            had.map(|before| Scope { metadata: before.about.metadata.as_ref(), ..self.scope });
        faults.check("fingerprint_expression", self.value(&derived, &self.scope, had)).flatten()
    }

    /// The values to be found by.
    fn indexed(&self, sources: &[Option<String>], faults: &mut Faults) -> Vec<Zeroizing<String>> {
        let mut values = Vec::with_capacity(sources.len());
        let sources = sources.iter().enumerate();
        for (index, source) in sources.filter_map(|(index, source)| Some((index, source.as_ref()?)))
        {
            let had = self.before.filter(|before| {
                before.about.search_indexes.iter().flatten().any(|known| known == source)
            });
            let derived = Derived { source, evaluate: Template::evaluate_index };
            // Metadata is there for fingerprints alone (decisions §4).
            let scope = Scope { metadata: None, ..self.scope };
            let had = had.map(|before| Scope { data: before.data.expose(), ..scope });
            let value = self.value(&derived, &scope, had);
            values.extend(faults.check(&format!("search_indexes[{index}]"), value).flatten());
        }
        values
    }

    /// The value of an expression; none of one that the token `had` before, in this scope, and that failed there too,
    /// since what it wants was erased.
    fn value(
        &self,
        derived: &Derived<'_>,
        scope: &Scope<'_>,
        had: Option<Scope<'_>>,
    ) -> Result<Option<Zeroizing<String>>, String> {
        let value = match derived.on(scope) {
            Ok(value) => value,
            Err(error) => {
                let failed_before = had.is_some_and(|before| derived.on(&before).is_err());
                return if failed_before { Ok(None) } else { Err(error.to_string()) };
            }
        };
        if let Some(erased) = self.erased {
            erased.check(scope, |scope| derived.on(scope))?;
        }
        Ok(Some(value))
    }
}
