//! Making tokens, one or many at once.
//!
//! [`Drafts`] are tokens checked and permitted but not yet stored; they are stored together with whatever else a change
//! holds, or not at all. An id that is drawn or evaluated is drawn anew when it is taken.

use std::collections::HashSet;

use super::request::{IdRule, NewToken, evaluate_id};
use super::{About, CreateToken, Token, TokenView};
use crate::crypto::hash;
use crate::crypto::keys::TenantKeys;
use crate::expression::Scope;
use crate::limits::ALIAS_TRIES_MAX;
use crate::model::audit::Audit;
use crate::model::log::Operation;
use crate::model::permission::Permission;
use crate::model::permission::marker::TokenCreate;
use crate::model::rule::{Rights, Transform};
use crate::model::time::Timestamp;
use crate::store::{Expect, StoreError};
use crate::vault::audit::{Actor, Event};
use crate::vault::effort::unless_crowded;
use crate::vault::permit::Permit;
use crate::vault::record::kind;
use crate::vault::{Change, Error, Vault, let_go_of_all_but, opened_so_far};

/// How often a set of drafts is put together anew because of what others did meanwhile.
const TRIES_MAX: usize = 100;

/// A token that is about to be stored.
struct Draft {
    token: Token,
    /// How it gets its id, and another one when that is taken.
    id_rule: IdRule,
    tries: usize,
}

/// What becomes of a draft.
enum Found {
    /// It is stored.
    New,
    /// A token of the same contents is there already.
    Existing(Box<Token>),
    /// An earlier draft of the same call has the same contents.
    SameAs(usize),
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
        self.permit_drafts(permit, &drafts).await?;
        let with_answer = |change: &mut Change, made: &[TokenView]| {
            made.first().map_or(Ok(()), |view| permit.keep_answer(change, view))?;
            Ok(Vec::new())
        };
        let mut made = self.store_drafts_with(permit, drafts, permit.actor(), with_answer).await?;
        made.pop().ok_or_else(|| Error::internal("a stored draft is gone"))
    }

    /// Checks a token to be made, but for the rules of its containers.
    pub(in crate::vault) async fn draft(
        &self,
        permit: &Permit<TokenCreate>,
        body: CreateToken,
        drafts: &mut Drafts,
    ) -> Result<(), Error> {
        let now = self.now();
        let settings = self.settings(permit.tenant()).await?;
        let mut new = self.check_body(permit.tenant(), body, now, None).await??;
        if settings.deduplicate_tokens && new.deduplicate.is_none() {
            new.deduplicate = Some(true);
        }
        let keys = self.keys(permit.tenant()).await?;
        let mut draft = assemble(new, permit, &keys, now);
        let written = draft.token.data.clone();
        draft.token.retain_transients_of(written.expose(), now, settings)?;
        self.draw_token_id(&mut draft).await?;
        drafts.0.push(draft);
        Ok(())
    }

    /// Refuses drafts of which a container has no rule; a session's may look at the id.
    pub(in crate::vault) async fn permit_drafts(
        &self,
        permit: &Permit<TokenCreate>,
        drafts: &Drafts,
    ) -> Result<(), Error> {
        for Draft { token, .. } in &drafts.0 {
            self.permit_draft(permit, token).await?;
        }
        Ok(())
    }

    /// Stores the drafts together with what `more` adds to the change; `more` sees them as they will be answered, and
    /// gives its log entries.
    pub(in crate::vault) async fn store_drafts_with(
        &self,
        permit: &Permit<TokenCreate>,
        mut drafts: Drafts,
        actor: Actor,
        more: impl Fn(&mut Change, &[TokenView]) -> Result<Vec<Event>, Error>,
    ) -> Result<Vec<TokenView>, Error> {
        let before = opened_so_far();
        for _ in 0..TRIES_MAX {
            // What an earlier try has read is gone.
            let_go_of_all_but(before);
            let found = self.duplicates(permit, &drafts).await?;
            let shown = self.show_drafts(permit, &drafts, &found).await?;
            let mut change = self.change(permit.tenant()).await?;
            let mut events = more(&mut change, &shown)?;
            for (Draft { token, .. }, found) in drafts.0.iter().zip(&found) {
                let same = "Token found by deduplication";
                let event = match found {
                    Found::New => {
                        change.put(token, Expect::Absent)?;
                        token.event(Operation::Create, "Token created")?
                    }
                    Found::Existing(existing) => existing.event(Operation::Read, same)?,
                    Found::SameAs(earlier) => match drafts.0.get(*earlier) {
                        Some(Draft { token, .. }) => token.event(Operation::Read, same)?,
                        None => continue,
                    },
                };
                events.push(event.by(permit.actor()));
            }
            match change.try_commit(actor, events).await? {
                Ok(()) => return Ok(shown),
                Err(StoreError::Exists { kind, .. }) if kind == kind::TOKEN => {
                    self.draw_again(permit, &mut drafts, &found).await?;
                }
                // Somebody made a token of the same contents meanwhile: it is found now. One that has ended goes.
                Err(StoreError::Taken { kind, by: (_, id), .. }) if kind == kind::TOKEN => {
                    self.make_way(permit.tenant(), &id).await?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Err(Error::Conflict("Other requests made the same tokens at the same time."))
    }

    async fn show_drafts(
        &self,
        permit: &Permit<TokenCreate>,
        drafts: &Drafts,
        found: &[Found],
    ) -> Result<Vec<TokenView>, Error> {
        let mut shown = Vec::with_capacity(found.len());
        for (Draft { token, .. }, found) in drafts.0.iter().zip(found) {
            let view = match found {
                Found::New => {
                    let transform = permit.decide(token.about.subject());
                    self.show_in_turn(token, transform.unwrap_or(Transform::Redact)).await?
                }
                Found::Existing(existing) => self.show_existing(permit.rights(), existing).await?,
                // As if the two had come one after the other.
                Found::SameAs(earlier) => match drafts.0.get(*earlier) {
                    Some(Draft { token, .. }) => self.show_existing(permit.rights(), token).await?,
                    None => return Err(Error::internal("a draft refers to one that is not there")),
                },
            };
            shown.push(view);
        }
        Ok(shown)
    }

    /// For each draft that is to be deduplicated: what it is a duplicate of.
    async fn duplicates(
        &self,
        permit: &Permit<TokenCreate>,
        drafts: &Drafts,
    ) -> Result<Vec<Found>, Error> {
        let wants = |draft: &Draft| draft.token.about.deduplicate_token == Some(true);
        let whose = (permit.tenant(), permit.rights());
        let mut found: Vec<Found> = Vec::with_capacity(drafts.0.len());
        for draft in &drafts.0 {
            let about = &draft.token.about;
            let same = |(earlier, becomes): (&Draft, &Found)| {
                // One that is not stored itself has an id that is nobody's.
                matches!(becomes, Found::New)
                    && earlier.token.about.fingerprint == about.fingerprint
            };
            let becomes = if !wants(draft) {
                Found::New
            } else if let Some(existing) = self.duplicate(whose, about, None).await? {
                Found::Existing(Box::new(existing.token))
            } else if let Some(earlier) = drafts.0.iter().zip(&found).position(same) {
                Found::SameAs(earlier)
            } else {
                Found::New
            };
            found.push(becomes);
        }
        Ok(found)
    }

    /// Shows a token in place of one that was not made; one that the caller may not read, in outline.
    pub(super) async fn show_existing(
        &self,
        rights: &Rights,
        token: &Token,
    ) -> Result<TokenView, Error> {
        let view = match rights.decide(Permission::TokenRead, token.about.subject()) {
            Some(transform) => self.show_in_turn(token, transform).await?,
            None => TokenView::outline(&token.about),
        };
        Ok(view.deduplicated())
    }

    async fn permit_draft(&self, permit: &Permit<TokenCreate>, token: &Token) -> Result<(), Error> {
        let Some(container) = permit.first_uncovered(token.about.subject()) else { return Ok(()) };
        let entity_type = token.token_type()?.log_entity_type();
        Err(self.deny_in(permit, (entity_type, ""), container).await)
    }

    /// Gives the draft an id: evaluated while tries are left, then one of our own.
    async fn draw_token_id(&self, draft: &mut Draft) -> Result<(), Error> {
        let template = match &draft.id_rule {
            IdRule::Expression(template) if draft.tries < ALIAS_TRIES_MAX => template,
            IdRule::Literal(id) => {
                draft.token.about.id.clone_from(id);
                return Ok(());
            }
            IdRule::Drawn | IdRule::Expression(_) => {
                draft.token.about.id = self.draw_id().to_string();
                return Ok(());
            }
        };
        draft.tries += 1;
        let data = draft.token.data.expose();
        let scope = Scope { data, metadata: None, entropy: Some(self.0.entropy.as_ref()) };
        let evaluate = || evaluate_id(template, &scope);
        let id = unless_crowded(draft.token.about.tenant_id, evaluate).await?;
        draft.token.about.id = id.map_err(|reason| Error::invalid("id", reason))?.to_string();
        Ok(())
    }

    /// Draws another id for each draft whose id is taken; one that its caller chose is a conflict. A token that has
    /// ended takes no id: it goes. When nothing is left in the way, all drafts stay as they are.
    async fn draw_again(
        &self,
        permit: &Permit<TokenCreate>,
        drafts: &mut Drafts,
        found: &[Found],
    ) -> Result<(), Error> {
        let ids: Vec<&str> = drafts.0.iter().map(|draft| draft.token.about.id.as_str()).collect();
        self.sweep_tokens_of(permit.tenant(), &ids).await?;
        let taken = self.are_taken::<Token>(permit.tenant(), &ids).await?;
        let is_new: Vec<bool> = found.iter().map(|found| matches!(found, Found::New)).collect();
        let is_chosen = |at: usize| matches!(drafts.0[at].id_rule, IdRule::Literal(_));
        let mut given = HashSet::with_capacity(ids.len());
        let twice = |at: &usize| is_new[*at] && is_chosen(*at) && !given.insert(ids[*at]);
        if let Some(at) = (0..ids.len()).find(twice) {
            let id = ids[at];
            return Err(Error::IdTaken(format!("Two tokens of the request have the id {id}.")));
        }
        // Two may have evaluated to one id: the later one gives way, and each of them to one that was chosen.
        let mut yields =
            |at: usize| is_new[at] && (taken[at] || !is_chosen(at) && !given.insert(ids[at]));
        let yields: Vec<bool> = (0..ids.len()).map(&mut yields).collect();
        let of_callers = (0..ids.len()).filter(|at| yields[*at] && is_chosen(*at));
        let of_callers: Vec<String> = of_callers.map(|at| ids[at].to_owned()).collect();
        if !of_callers.is_empty() {
            for id in &of_callers {
                self.make_way(permit.tenant(), id).await?;
            }
            return Err(taken_ids(&of_callers));
        }
        for (draft, _) in drafts.0.iter_mut().zip(yields).filter(|(_, yields)| *yields) {
            self.draw_token_id(draft).await?;
            self.permit_draft(permit, &draft.token).await?;
        }
        Ok(())
    }
}

/// Names all of them: whoever sends a batch again leaves them out.
fn taken_ids(ids: &[String]) -> Error {
    Error::IdTaken(match ids {
        [id] => format!("A token with the id {id} exists already."),
        ids => format!("Tokens with these ids exist already: {}.", ids.join(", ")),
    })
}

/// A draft without an id.
fn assemble(
    new: NewToken,
    permit: &Permit<TokenCreate>,
    keys: &TenantKeys,
    now: Timestamp,
) -> Draft {
    let fingerprinted = new.fingerprinted.unwrap_or_default();
    let about = About {
        id: String::new(),
        tenant_id: permit.tenant(),
        type_name: new.kind.as_str().to_owned(),
        mask: new.mask,
        fingerprint: fingerprint(keys, new.kind.as_str(), &fingerprinted),
        containers: new.containers,
        metadata: new.metadata,
        search_indexes: new.search_indexes,
        fingerprint_expression: new.fingerprint_expression,
        deduplicate_token: new.deduplicate,
        expires_at: new.expires_at,
        transient_until: None,
        moved: false,
        audit: Audit::created(Some(permit.actor_id()), now),
    };
    let token = Token { about, data: new.data, indexed: new.indexed, erased: false };
    Draft { token, id_rule: new.id, tries: 0 }
}

/// The fingerprint of a token's contents: a keyed hash over the tenant (whose key it is), type and value.
pub(super) fn fingerprint(keys: &TenantKeys, type_name: &str, value: &str) -> String {
    let hash = hash::keyed(&keys.fingerprint, &[type_name.as_bytes(), value.as_bytes()]);
    bs58::encode(hash).into_string()
}
