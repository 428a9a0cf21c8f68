//! Changing tokens by JSON Merge Patch (RFC 7396; interface §4.1, decisions §3).
//!
//! The patch is applied to the body that would make the token as it is; the result goes through the same checks as a
//! new token's body, so that there is one set of rules. What is stored must still be what was read: a change that loses
//! that race is applied anew, once.

mod patch;

use std::collections::BTreeSet;
use std::str::FromStr as _;

use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::duplicate::Existing;
use super::request::{Containers, Indexes, MetadataPatch, NewToken, TokenData};
use super::{About, Token, TokenView};
use crate::model::container::Container;
use crate::model::faults::Faults;
use crate::model::id::TokenId;
use crate::model::log::Operation;
use crate::model::member::Member;
use crate::model::permission::marker::TokenUpdate;
use crate::model::plaintext::opaque;
use crate::model::rule::Transform;
use crate::model::time::Timestamp;
use crate::store::{Expect, Put, StoreError};
use crate::vault::permit::Permit;
use crate::vault::record::Stored;
use crate::vault::tenants::TenantSettings;
use crate::vault::{Error, Vault, let_go_of_all_but, opened_so_far};

/// How often a change that lost against a concurrent one is applied anew (decisions §1).
const RETRIES: usize = 1;
/// The same, where what others changed is another token, of the same contents: nobody has touched this one.
const RETRIES_FOR_OTHERS: usize = 100;
/// Up to which of them the pauses before them grow: to some 30 ms.
const PAUSES_GROW_UP_TO: usize = 3;

/// What a change was made in vain for.
enum Lost {
    /// Its token was changed meanwhile.
    ItsToken,
    /// The token that has the same contents was, or came to be.
    Another,
}

/// Body of `PATCH /tokens/{id}`: a JSON Merge Patch. `null` removes the mask, the end, or a member of what is merged; of the
/// others it puts the type's default back.
#[derive(Clone, Default, Deserialize, ToSchema)]
pub struct UpdateToken {
    /// Merged into the data.
    #[schema(value_type = TokenData, required = false)]
    #[serde(default)]
    data: Member<Value>,
    /// Merged into the mask; `null` leaves the token without one. A default mask loses the members that `data` loses, and
    /// gets none.
    #[schema(value_type = Option<Value>)]
    #[serde(default)]
    mask: Member<Value>,
    /// Merged into the metadata; `null` for a key removes it.
    #[schema(value_type = Option<MetadataPatch>)]
    #[serde(default)]
    metadata: Member<Map<String, Value>>,
    /// Replaces the containers; each needs a rule.
    #[schema(value_type = Option<Vec<Container>>, min_items = 1, max_items = 20)]
    #[serde(default)]
    containers: Member<Containers>,
    /// Replaces the index expressions.
    #[schema(value_type = Option<Vec<String>>, max_items = 20, min_length = 1)]
    #[serde(default)]
    search_indexes: Member<Indexes>,
    /// Replaces the fingerprint expression.
    #[schema(value_type = Option<String>)]
    #[serde(default)]
    fingerprint_expression: Member<String>,
    /// Whether the token gives way to one of the same fingerprint, now and later.
    #[schema(value_type = Option<bool>)]
    #[serde(default)]
    deduplicate_token: Member<bool>,
    /// Replaces the end, in the forms that a new token's may have; `null` means none.
    #[schema(value_type = Option<String>, pattern = "^[0-9]")]
    #[serde(default)]
    expires_at: Member<String>,
}

opaque!(UpdateToken);

impl Vault {
    /// Changes a token.
    pub async fn update_token(
        &self,
        permit: &Permit<TokenUpdate>,
        id: &str,
        body: UpdateToken,
    ) -> Result<TokenView, Error> {
        let before = opened_so_far();
        let (mut retries, mut for_others) = (0, 0);
        while retries <= RETRIES && for_others <= RETRIES_FOR_OTHERS {
            let lost = match self.try_update(permit, id, body.clone()).await? {
                Ok(view) => return Ok(view),
                Err(lost) => lost,
            };
            // What was read for it is gone.
            let_go_of_all_but(before);
            match lost {
                Lost::ItsToken => {
                    retries += 1;
                    tokio::task::yield_now().await;
                }
                Lost::Another => {
                    for_others += 1;
                    self.pause(for_others.min(PAUSES_GROW_UP_TO)).await;
                }
            }
        }
        Err(Error::Conflict(if retries > RETRIES {
            "Other requests changed the token at the same time."
        } else {
            "Other requests changed the token of the same contents at the same time."
        }))
    }

    /// One try.
    async fn try_update(
        &self,
        permit: &Permit<TokenUpdate>,
        id: &str,
        body: UpdateToken,
    ) -> Result<Result<TokenView, Lost>, Error> {
        let now = self.now();
        let stored = self.find_to_update(permit, id, &body, now).await?;
        let before = &stored.entity;
        let settings = self.settings(permit.tenant()).await?;
        let writes_data = body.data.clone();
        let says_whether = !matches!(body.deduplicate_token, Member::Absent);
        let mut faults = Faults::new();
        let changed = async {
            let body = body.apply(before, &mut faults)?;
            let new = match self.check_body(permit.tenant(), body, now, Some(before)).await? {
                Ok(new) => faults.into_result(new)?,
                Err(inner) => {
                    faults.extend_under("", inner);
                    return Err(faults.into());
                }
            };
            let mut token = self.changed(permit, before, new).await?;
            if let Member::Given(patch) = &writes_data {
                token.retain_transients_of(patch, now, settings)?;
            }
            Ok(token)
        };
        let mut token = match changed.await {
            Ok(token) => token,
            Err(refused) => return Err(self.refused_change(permit, before, refused).await),
        };
        let places = |about: &About| about.containers.iter().cloned().collect::<BTreeSet<_>>();
        let moved = places(&token.about) != places(&before.about);
        if moved && let Some(container) = permit.first_uncovered(token.about.subject()) {
            let entity_type = token.token_type()?.log_entity_type();
            return Err(self.deny_in(permit, (entity_type, id), container).await);
        }
        token.about.moved |= moved;
        if may_give_way(&mut token.about, &before.about, says_whether, settings) {
            let whose = (permit.tenant(), permit.rights());
            let existing = self.duplicate(whose, &token.about, Some(id)).await?;
            if let Some(existing) = existing {
                return self.give_way(permit, &stored, existing).await;
            }
        }
        self.put_changed(permit, &stored, &token).await
    }

    /// Why a change is refused of a token that was opened for it: what is refused for some data only tells of the data, so
    /// that is logged as a look at it.
    async fn refused_change(
        &self,
        permit: &Permit<TokenUpdate>,
        token: &Token,
        refused: Error,
    ) -> Error {
        let logged = async {
            let event = token.event(Operation::Read, "Token read for a change that was refused")?;
            self.log(permit.tenant(), permit.actor(), vec![event]).await
        };
        logged.await.err().unwrap_or(refused)
    }

    /// The token, if the caller may update it. What is wrong with the body whatever the token is like comes before it is
    /// missing or denied (decisions §1); of a token that may be updated, it is named with everything else.
    async fn find_to_update(
        &self,
        permit: &Permit<TokenUpdate>,
        id: &str,
        body: &UpdateToken,
        now: Timestamp,
    ) -> Result<Stored<Token>, Error> {
        let faults = body.faults(now);
        if !faults.is_empty() {
            let found = match TokenId::from_str(id) {
                Ok(_) => self.find::<Token>(permit.tenant(), &[id]).await?.pop().flatten(),
                Err(_) => None,
            };
            let permitted = |stored: &Stored<Token>| permit.decide(stored.entity.about.subject());
            return found.filter(|stored| permitted(stored).is_some()).ok_or(faults.into());
        }
        Ok(self.find_permitted(permit, id).await?.0)
    }

    /// Stores the token as it was changed.
    async fn put_changed(
        &self,
        permit: &Permit<TokenUpdate>,
        stored: &Stored<Token>,
        token: &Token,
    ) -> Result<Result<TokenView, Lost>, Error> {
        let updated = token.event(Operation::Update, "Token updated")?;
        let events = stored.entity.erasure()?.into_iter().chain([updated]).collect();
        let transform = permit.decide(token.about.subject()).unwrap_or(Transform::Redact);
        let view = self.show_in_turn(token, transform).await?;
        let mut change = self.change(permit.tenant()).await?;
        change.put(token, Expect::Version(stored.version))?;
        permit.keep_answer(&mut change, &view)?;
        match change.try_commit(permit.actor(), events).await? {
            Ok(()) => Ok(Ok(view)),
            Err(StoreError::Taken { by: (_, id), .. }) => {
                // What has these contents may have ended already; else it is found now.
                self.make_way(permit.tenant(), &id).await?;
                Ok(Err(Lost::Another))
            }
            Err(StoreError::Conflict { .. }) => Ok(Err(Lost::ItsToken)),
            Err(error) => Err(error.into()),
        }
    }

    /// The token with what was checked in place of what it had.
    async fn changed(
        &self,
        permit: &Permit<TokenUpdate>,
        before: &Token,
        new: NewToken,
    ) -> Result<Token, Error> {
        let keys = self.keys(permit.tenant()).await?;
        let fingerprint = match &new.fingerprinted {
            Some(value) => super::create::fingerprint(&keys, new.kind.as_str(), value),
            None => before.about.fingerprint.clone(),
        };
        let about = About {
            mask: new.mask,
            fingerprint,
            containers: new.containers,
            metadata: new.metadata,
            search_indexes: new.search_indexes,
            fingerprint_expression: new.fingerprint_expression,
            deduplicate_token: new.deduplicate,
            expires_at: new.expires_at,
            audit: before.about.audit.modified(Some(permit.actor_id()), self.now()),
            ..before.about.clone()
        };
        Ok(Token { about, data: new.data, indexed: new.indexed, erased: false })
    }

    /// Removes a token that an update made equal to another one, which is shown instead.
    async fn give_way(
        &self,
        permit: &Permit<TokenUpdate>,
        stored: &Stored<Token>,
        Existing { token, record }: Existing,
    ) -> Result<Result<TokenView, Lost>, Error> {
        let message = "Token removed in favour of one with the same contents";
        let removed = stored.entity.event(Operation::Delete, message)?;
        let found = token.event(Operation::Read, "Token found by deduplication")?;
        let view = self.show_existing(permit.rights(), &token).await?;
        let mut change = self.change(permit.tenant()).await?;
        change.remove_token(stored)?;
        // Stored anew as it is, so that it must still be what was read: were it removed or changed
        // at the same time, these contents would be nowhere.
        let expect = Expect::Version(record.version);
        change.batch.puts.push(Put { record, expect });
        permit.keep_answer(&mut change, &view)?;
        match change.try_commit(permit.actor(), vec![removed, found]).await? {
            Ok(()) => Ok(Ok(view)),
            Err(StoreError::Conflict { id, .. }) if id == stored.entity.about.id => {
                Ok(Err(Lost::ItsToken))
            }
            Err(StoreError::Conflict { .. }) => Ok(Err(Lost::Another)),
            Err(error) => Err(error.into()),
        }
    }
}

/// Whether a change lets the token give way to another one of the same contents: only one of its
/// contents or of the wish does. A token that has lived beside its like goes on when something else
/// about it is changed.
fn may_give_way(
    about: &mut About,
    before: &About,
    says_whether: bool,
    settings: TenantSettings,
) -> bool {
    let wanted = about.deduplicate_token.unwrap_or(settings.deduplicate_tokens);
    let differs = about.fingerprint != before.fingerprint;
    if !wanted || !(differs || says_whether) {
        return false;
    }
    // Kept as a new token's is, so that the store lets no other one have these contents.
    about.deduplicate_token = Some(true);
    differs || before.deduplicate_token != Some(true)
}
