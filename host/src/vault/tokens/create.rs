//! Making tokens, one or many at once.
//!
//! [`Drafts`] are tokens checked and permitted but not yet stored; they are stored together with whatever else a change
//! holds, or not at all. An id that is drawn or evaluated is drawn anew when it is taken.

use zeroize::Zeroizing;

use super::request::{IdRule, NewToken};
use super::{About, CreateToken, Token, TokenView};
use crate::crypto::hash;
use crate::crypto::keys::TenantKeys;
use crate::expression::Scope;
use crate::limits::ALIAS_TRIES_MAX;
use crate::model::audit::Audit;
use crate::model::faults::Faults;
use crate::model::id::TokenId;
use crate::model::log::Operation;
use crate::model::permission::marker::TokenCreate;
use crate::model::time::Timestamp;
use crate::store::{Expect, StoreError};
use crate::vault::audit::{Actor, Event};
use crate::vault::permit::Permit;
use crate::vault::record::kind;
use crate::vault::{Change, Error, Vault};

/// A token that is about to be stored.
pub struct Draft {
    token: Token,
    /// How to draw another id when this one is taken; `None` when the caller chose it.
    id_rule: Option<Option<IdRule>>,
    tries: usize,
}

/// Tokens that are about to be stored, all or none.
#[derive(Default)]
pub struct Drafts(Vec<Draft>);

impl Vault {
    /// Makes a token.
    pub async fn create_token(
        &self,
        permit: &Permit<TokenCreate>,
        body: CreateToken,
    ) -> Result<TokenView, Error> {
        let mut drafts = Drafts::default();
        self.draft(permit, body, &mut drafts).await?;
        let mut made = self.store_drafts(permit, drafts).await?;
        made.pop().ok_or_else(|| Error::internal("a stored draft is gone"))
    }

    /// Checks a token to be made, and the rule for each of its containers.
    pub(in crate::vault) async fn draft(
        &self,
        permit: &Permit<TokenCreate>,
        body: CreateToken,
        drafts: &mut Drafts,
    ) -> Result<(), Error> {
        let now = self.now();
        let mut new = body.check(now, self.0.entropy.as_ref())?;
        if permit.first_uncovered(&new.containers).is_some() {
            return Err(self.deny(permit, (new.kind.log_entity_type(), "")).await);
        }
        let keys = self.keys(permit.tenant()).await?;
        let id_rule = new.id.take();
        let mut draft = Draft {
            token: self.assemble(new, permit, &keys, now),
            id_rule: None,
            tries: 0,
        };
        match id_rule {
            Some(IdRule::Literal(id)) => draft.token.about.id = id,
            drawn => {
                draft.id_rule = Some(drawn);
                self.draw_token_id(&mut draft)?;
            }
        }
        drafts.0.push(draft);
        Ok(())
    }

    /// Stores the drafts and nothing else.
    pub(in crate::vault) async fn store_drafts(
        &self,
        permit: &Permit<TokenCreate>,
        drafts: Drafts,
    ) -> Result<Vec<TokenView>, Error> {
        let with_nothing_else = |_: &mut Change| Ok(Vec::new());
        self.store_drafts_with(permit, drafts, permit.actor(), with_nothing_else).await
    }

    /// Stores the drafts together with what `more` adds to the change; `more` gives its log entries.
    pub(in crate::vault) async fn store_drafts_with(
        &self,
        permit: &Permit<TokenCreate>,
        mut drafts: Drafts,
        actor: Actor,
        more: impl Fn(&mut Change) -> Result<Vec<Event>, Error>,
    ) -> Result<Vec<TokenView>, Error> {
        loop {
            let mut change = self.change(permit.tenant()).await?;
            let mut events = more(&mut change)?;
            for Draft { token, .. } in &drafts.0 {
                change.put(token, Expect::Absent)?;
                let created = token.event(Operation::Create, "Token created")?;
                events.push(created.by(permit.actor()));
            }
            match change.try_commit(actor, events).await? {
                Ok(()) => break,
                Err(StoreError::Exists { kind, id }) if kind == kind::TOKEN => {
                    self.draw_again(&mut drafts, &id)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        let shown = |Draft { token, .. }: &Draft| {
            let transform = permit.decide(&token.about.containers);
            self.show(token, transform.unwrap_or(crate::model::rule::Transform::Redact))
        };
        drafts.0.iter().map(shown).collect()
    }

    fn assemble(
        &self,
        new: NewToken,
        permit: &Permit<TokenCreate>,
        keys: &TenantKeys,
        now: Timestamp,
    ) -> Token {
        let fingerprint = fingerprint(keys, new.kind.as_str(), &new.fingerprinted);
        let about = About {
            id: String::new(),
            tenant_id: permit.tenant(),
            type_name: new.kind.as_str().to_owned(),
            mask: new.mask,
            fingerprint,
            containers: new.containers,
            metadata: new.metadata,
            search_indexes: new.search_indexes,
            fingerprint_expression: new.fingerprint_expression,
            deduplicate_token: new.deduplicate,
            expires_at: new.expires_at,
            audit: Audit::created(Some(permit.actor_id()), now),
        };
        Token { about, data: new.data, indexed: new.indexed }
    }

    /// Gives the draft an id: evaluated while tries are left, then one of our own.
    fn draw_token_id(&self, draft: &mut Draft) -> Result<(), Error> {
        let template = match &draft.id_rule {
            Some(Some(IdRule::Expression(template))) if draft.tries < ALIAS_TRIES_MAX => template,
            _ => {
                draft.token.about.id = self.draw_id().to_string();
                return Ok(());
            }
        };
        draft.tries += 1;
        let metadata = draft.token.about.metadata.as_ref();
        let data = draft.token.data.expose();
        let scope = Scope { data, metadata, entropy: self.0.entropy.as_ref() };
        let mut faults = Faults::new();
        let text = faults.check("id", template.evaluate_text(&scope)).map(Zeroizing::new);
        let id = text.and_then(|text| faults.check("id", text.parse::<TokenId>()));
        match id {
            Some(id) => draft.token.about.id = id.to_string(),
            None => return Err(faults.into()),
        }
        Ok(())
    }

    /// Draws another id for the draft whose id is taken; one that its caller chose is a conflict.
    fn draw_again(&self, drafts: &mut Drafts, taken: &str) -> Result<(), Error> {
        // Two drafts of one call may have evaluated to one id: the later one gives way.
        let draft = drafts.0.iter_mut().rev().find(|draft| draft.token.about.id == taken);
        match draft {
            Some(draft) if draft.id_rule.is_some() => self.draw_token_id(draft),
            _ => Err(Error::Conflict("A token with this id exists already.")),
        }
    }
}

/// The fingerprint of a token's contents: a keyed hash over the tenant (whose key it is), type and value.
fn fingerprint(keys: &TenantKeys, type_name: &str, value: &str) -> String {
    let hash = hash::keyed(&keys.fingerprint, &[type_name.as_bytes(), value.as_bytes()]);
    bs58::encode(hash).into_string()
}
