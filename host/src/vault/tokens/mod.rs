//! Tokens (interface §2.2, §4.1; decisions §3).
//!
//! A token's `data` is a [`Plaintext`] from the moment it is read out of the request until a [`TokenView`] shows it to
//! somebody whose rule says so.

mod about;
mod create;
mod duplicate;
mod filter;
mod outline;
mod page;
mod request;
mod search;
mod text;
mod transient;
mod update;
mod view;

use std::str::FromStr as _;

use futures::FutureExt as _;
use zeroize::Zeroizing;

pub use about::About;
pub use create::Drafts;
pub use outline::{each_token, outline};
pub use page::TokenPage;
pub use request::CreateToken;
pub use search::{ListTokens, SearchTokens, TokenFilter, parse_scope};
pub(in crate::vault) use transient::TRANSIENT_MS_MAX;
pub use update::UpdateToken;
pub use view::TokenView;

use super::audit::Event;
use super::index::{Index, number, term};
use super::permit::Permit;
use super::record::{Entity, Stored, kind};
use super::retry::{TRIES, unless_lost};
use super::{Error, Vault};
use crate::crypto::wiped::Wiped;
use crate::model::id::{TenantId, TokenId};
use crate::model::log::{EntityType, Operation};
use crate::model::permission::Grant;
use crate::model::permission::marker::{TokenDelete, TokenRead};
use crate::model::plaintext::{Plaintext, opaque};
use crate::model::rule::Transform;
use crate::store::{Filter, Kind};
use crate::token_type::TokenType;

/// A token as it is kept.
#[derive(Clone)]
pub struct Token {
    /// Everything but `data`.
    pub about: About,
    /// The sensitive value.
    pub data: Plaintext,
    /// What `search_indexes` evaluated to; kept in the index only, as keyed hashes.
    pub indexed: Vec<Zeroizing<String>>,
    /// Whether the record it was read from has something that must not stay, and is not here any more.
    pub erased: bool,
}

opaque!(Token);

impl Token {
    /// Its type. The name in the store is one this build wrote, so that an unknown one is damage.
    pub fn token_type(&self) -> Result<TokenType, Error> {
        TokenType::from_str(&self.about.type_name).map_err(Error::internal)
    }

    /// What happened to it, as the log says it.
    pub fn event(&self, operation: Operation, message: &str) -> Result<Event, Error> {
        let entity_type = self.token_type()?.log_entity_type();
        Ok(Event::done(entity_type, &self.about.id, operation, message))
    }
}

impl Entity for Token {
    const KIND: Kind = kind::TOKEN;
    const NOUN: &'static str = "token";

    fn id(&self) -> String {
        self.about.id.clone()
    }

    fn created_ms(&self) -> u64 {
        self.about.audit.created_at.0
    }

    fn expires_ms(&self) -> Option<u64> {
        self.about.expires_at.map(|end| end.0)
    }

    fn index(&self, index: &mut Index<'_>) {
        let about = &self.about;
        index.term(term::TYPE, &[&about.type_name]);
        index.term(term::FINGERPRINT, &[&about.fingerprint]);
        for container in &about.containers {
            index.term(term::CONTAINER, &[container.as_str()]);
            for above in container.lineage() {
                index.term(term::CONTAINER_WITHIN, &[above]);
            }
        }
        for (key, value) in about.metadata.iter().flatten() {
            index.caseless_term(term::METADATA, &[key], value);
        }
        for value in &self.indexed {
            index.caseless_term(term::DATA, &[], value);
        }
        if let Some(by) = about.audit.created_by {
            index.term(term::CREATED_BY, &[&by.to_string()]);
        }
        if let Some(by) = about.audit.modified_by {
            index.term(term::MODIFIED_BY, &[&by.to_string()]);
        }
        if let Some(at) = about.audit.modified_at {
            index.number(number::MODIFIED_AT, at.0);
        }
        if let Some(until) = about.transient_until {
            index.number(number::TRANSIENT_UNTIL, until.0);
        }
        if about.deduplicate_token == Some(true) {
            index.unique_value(term::FINGERPRINT, &[&about.fingerprint]);
        }
    }

    fn settle(&mut self, now_ms: u64) {
        self.erase_due(now_ms);
    }

    fn to_text(&self) -> Result<Wiped, Error> {
        text::write(self)
    }

    fn from_text(text: &[u8]) -> Result<Self, Error> {
        text::read(text)
    }
}

impl Vault {
    /// Shows a token as the caller's deciding rule has it.
    pub async fn find_token(
        &self,
        permit: &Permit<TokenRead>,
        id: &str,
    ) -> Result<TokenView, Error> {
        let (stored, transform) = self.find_permitted(permit, id).await?;
        let event = stored.entity.event(Operation::Read, "Token read")?;
        self.log(permit.tenant(), permit.actor(), vec![event]).await?;
        self.show_last(stored.entity, transform).await
    }

    /// Deletes a token: its data, and all it can be found by.
    pub async fn delete_token(&self, permit: &Permit<TokenDelete>, id: &str) -> Result<(), Error> {
        self.retried(TRIES, || self.try_delete(permit, id).boxed()).await
    }

    /// One try; `None` when the token was changed meanwhile.
    async fn try_delete(
        &self,
        permit: &Permit<TokenDelete>,
        id: &str,
    ) -> Result<Option<()>, Error> {
        let (stored, _) = self.find_permitted(permit, id).await?;
        let event = stored.entity.event(Operation::Delete, "Token deleted")?;
        let mut change = self.change(permit.tenant()).await?;
        change.remove_token(&stored)?;
        unless_lost(change.try_commit(permit.actor(), vec![event]).await?, ())
    }

    /// What the log calls the token of an id, which its caller may not see: nothing is opened, and it takes as long
    /// whether there is such a token or not.
    pub(super) async fn log_type_of(
        &self,
        tenant: TenantId,
        id: &str,
    ) -> Result<EntityType, Error> {
        let keys = self.keys(tenant).await?;
        let mut log_type = EntityType::Token;
        for kind in TokenType::all().filter(|kind| kind.log_entity_type() != EntityType::Token) {
            let of_type = filter::Lower(&keys).term(term::TYPE, &[kind.as_str()]);
            let itself = Filter::Ids(vec![id.to_owned()]);
            let filter = Filter::And(vec![itself, of_type, self.not_ended()]);
            if self.any::<Token>(tenant, &filter).await? {
                log_type = kind.log_entity_type();
            }
        }
        Ok(log_type)
    }

    /// Finds a token and the transform of the rule that decides; logs and refuses when no rule does.
    async fn find_permitted<P: Grant>(
        &self,
        permit: &Permit<P>,
        id: &str,
    ) -> Result<(Stored<Token>, Transform), Error> {
        // A text that cannot be an id is the id of no token.
        TokenId::from_str(id).map_err(|_| Error::NotFound(Token::NOUN))?;
        let stored = self.get::<Token>(permit.tenant(), id).await?;
        let Some(transform) = permit.decide(stored.entity.about.subject()) else {
            let entity_type = stored.entity.token_type()?.log_entity_type();
            return Err(self.deny(permit, (entity_type, id)).await);
        };
        Ok((stored, transform))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::{About, Plaintext, TenantId, Token, Zeroizing};
    use crate::crypto::entropy::SeededEntropy;
    use crate::crypto::keys::TenantKeys;
    use crate::limits::{
        CONTAINERS_MAX, CONTAINERS_SEGMENTS_MAX, METADATA_KEYS_MAX, SEARCH_INDEXES_MAX,
        TOKEN_TERMS_MAX,
    };
    use crate::model::audit::Audit;
    use crate::model::container::Container;
    use crate::model::time::Timestamp;
    use crate::vault::record::found_by;

    #[test]
    fn the_largest_token_is_found_by_as_much_as_the_store_counts_on() {
        let texts = |count: usize| (0..count).map(|number| number.to_string());
        let below = "s/".repeat(CONTAINERS_SEGMENTS_MAX / CONTAINERS_MAX - 1);
        let container = |name: String| -> Container { format!("/{name}/{below}").parse().unwrap() };
        let about = About {
            id: "abc".to_owned(),
            tenant_id: TenantId(Uuid::nil()),
            type_name: "card".to_owned(),
            mask: None,
            fingerprint: "F".to_owned(),
            containers: texts(CONTAINERS_MAX).map(container).collect(),
            metadata: Some(texts(METADATA_KEYS_MAX).map(|key| (key, String::new())).collect()),
            search_indexes: None,
            fingerprint_expression: None,
            deduplicate_token: Some(true),
            expires_at: Some(Timestamp(1)),
            transient_until: Some(Timestamp(1)),
            moved: false,
            audit: Audit::created(Some(Uuid::nil()), Timestamp(1))
                .modified(Some(Uuid::nil()), Timestamp(2)),
        };
        let indexed = texts(SEARCH_INDEXES_MAX).map(Zeroizing::new).collect();
        let token = Token { about, data: Plaintext::new(json!(1)), indexed, erased: false };
        let keys = TenantKeys::draw(&SeededEntropy::new(1));
        let (terms, numbers, uniques) = found_by(&token, &keys).into_parts();
        assert_eq!((terms.len(), numbers.len(), uniques.len()), (TOKEN_TERMS_MAX, 3, 1));
    }
}
