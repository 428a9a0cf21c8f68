//! What may be kept and repeated of a token: which it was, and nothing that it held.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::request::size::json_bytes;
use super::{Token, TokenView};
use crate::limits::SHOWN_BYTES_MAX;
use crate::model::audit::Audit;
use crate::model::id::TenantId;
use crate::model::log::Operation;
use crate::model::permission::Permission;
use crate::model::plaintext::Plaintext;
use crate::model::rule::{Rights, Transform};
use crate::model::time::Timestamp;
use crate::vault::audit::Event;
use crate::vault::authentication::Authenticated;
use crate::vault::record::{Entity as _, Stored};
use crate::vault::{Error, Vault};

/// Members of a token that say which it is, and nothing of what it holds.
pub(super) const OUTLINE: [&str; 6] =
    ["id", "tenant_id", "type", "fingerprint", "containers", "_extras"];

/// Leaves the outline of a token as it was answered.
pub fn outline(token: &mut Map<String, Value>) {
    drop(take_the_rest(token));
}

/// Takes out of a token what is not its outline, to be wiped.
fn take_the_rest(token: &mut Map<String, Value>) -> Plaintext {
    let is_outline = |(name, _): &(String, Value)| OUTLINE.contains(&name.as_str());
    let (outline, rest): (Map<_, _>, Map<_, _>) =
        std::mem::take(token).into_iter().partition(is_outline);
    *token = outline;
    Plaintext::new(Value::Object(rest))
}

/// Goes to every token in what `tokenize` answered. All else there is objects and arrays of the caller's with ids of tokens
/// in them; an object in which one of these is the tenant's own id is taken for a token, and loses what is not its outline.
pub fn each_token(
    value: &mut Value,
    tenant: TenantId,
    act: &mut impl FnMut(&mut Map<String, Value>),
) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| each_token(item, tenant, act)),
        Value::Object(members) => {
            let of_tenant = |id: &Value| id.as_str().is_some_and(|id| id == tenant.to_string());
            if members.get("tenant_id").is_some_and(of_tenant) {
                return act(members);
            }
            members.values_mut().for_each(|inner| each_token(inner, tenant, act));
        }
        _ => {}
    }
}

/// How a token was shown in an answer that is kept, and at which of its states. The times are numbers: what a formula has
/// tokenized holds none, so that it cannot pretend to be one.
#[derive(Serialize, Deserialize)]
struct Shown {
    transform: Transform,
    made_ms: u64,
    changed_ms: Option<u64>,
}

/// Where a token in an answer that is kept says that.
const SHOWN: &str = "_shown";

impl Shown {
    fn of(transform: Transform, audit: &Audit) -> Self {
        let changed_ms = audit.modified_at.map(|time| time.0);
        Self { transform, made_ms: audit.created_at.0, changed_ms }
    }

    /// How to show a token again: as it was shown, while it is that one, unchanged.
    fn again(&self, token: &Token) -> Option<Transform> {
        let Audit { created_at, modified_at, .. } = token.about.audit;
        let state = (created_at.0, modified_at.map(|time| time.0));
        (state == (self.made_ms, self.changed_ms)).then_some(self.transform)
    }
}

impl TokenView {
    /// What an answer that is kept has of it: the outline, and how it was shown. Its data would stay there when it is
    /// deleted, and a `cvc` longer than it may (decisions §3).
    pub fn kept(&self) -> Result<Value, Error> {
        let mut kept = serde_json::to_value(self.in_outline()).map_err(Error::internal)?;
        let shown = self.shown().map(|(transform, audit)| Shown::of(transform, audit));
        if let (Value::Object(members), Some(shown)) = (&mut kept, shown) {
            let shown = serde_json::to_value(shown).map_err(Error::internal)?;
            members.insert(SHOWN.to_owned(), shown);
        }
        Ok(kept)
    }
}

impl Vault {
    /// The token that a kept answer was about, as the caller may read it now; `None` when it may not. One that was `made` at
    /// another time has its id by chance, and is not it.
    ///
    /// It asked for something else and was allowed that: that it may not read is no attempt to log.
    pub async fn show_again(
        &self,
        who: &Authenticated,
        id: &str,
        made: Option<Timestamp>,
    ) -> Result<Option<TokenView>, Error> {
        let rights = &who.0.rights;
        if !rights.hold(Permission::TokenRead) {
            return Ok(None);
        }
        let tenant = who.0.tenant();
        let token = self.get::<Token>(tenant, id).await?.entity;
        if made.is_some_and(|made| made != token.about.audit.created_at) {
            return Err(Error::NotFound(Token::NOUN));
        }
        let transform = rights.decide(Permission::TokenRead, token.about.subject());
        let Some(transform) = transform else { return Ok(None) };
        let event = token.event(Operation::Read, "Token read for a repeated request")?;
        self.log(tenant, who.0.actor(), vec![event]).await?;
        self.show_in_turn(&token, transform).await.map(Some)
    }

    /// Shows the tokens in a kept answer of `tokenize` as they were shown then; of those that were changed or are gone
    /// since, the outline. So it does of those for which there is no room: each may be a token that was there already, and
    /// much larger than the answer. Somebody else than it was given to sees no more than they may read by their own `rights`.
    ///
    /// Gives the reads that these are, for the log: one of each token of which more than the outline is shown.
    pub async fn show_kept(
        &self,
        tenant: TenantId,
        kept: &mut Value,
        rights: Option<&Rights>,
    ) -> Result<Vec<Event>, Error> {
        let mut ids = BTreeSet::new();
        let id_of = |token: &Map<String, Value>| token.get("id")?.as_str().map(str::to_owned);
        each_token(kept, tenant, &mut |token| ids.extend(id_of(token)));
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let found: Vec<Option<Stored<Token>>> = self.find(tenant, &ids).await?;
        let found = ids.iter().zip(found).filter_map(|(id, stored)| Some((*id, stored?.entity)));
        let found: HashMap<&str, Token> = found.collect();
        let mut again: Vec<Option<(&Token, Transform)>> = Vec::new();
        each_token(kept, tenant, &mut |kept| {
            let token = id_of(kept).and_then(|id| found.get(id.as_str()));
            again.push(how_again(kept.remove(SHOWN), token, rights));
        });
        let mut views = Vec::with_capacity(again.len());
        let mut room = SHOWN_BYTES_MAX;
        for again in again {
            let Some((token, transform)) = again.filter(|_| room > 0) else {
                views.push(None);
                continue;
            };
            let (members, bytes) = self.members_of(token, transform).await?;
            let left = room.checked_sub(bytes);
            views.push(left.map(|_| (token, members)));
            room = left.unwrap_or_default();
        }
        let mut views = views.into_iter();
        let mut read: BTreeMap<&str, &Token> = BTreeMap::new();
        // In the same order as before.
        each_token(kept, tenant, &mut |kept| match views.next().flatten() {
            Some((token, mut shown)) => {
                shown.extend(kept.remove_entry("_extras"));
                *kept = shown;
                read.insert(&token.about.id, token);
            }
            None => outline(kept),
        });
        let event = |token: &Token| token.event(Operation::Read, "Token read in a reactor result");
        read.into_values().map(event).collect()
    }

    /// The members of a token as it is shown, and their bytes as JSON.
    async fn members_of(
        &self,
        token: &Token,
        transform: Transform,
    ) -> Result<(Map<String, Value>, usize), Error> {
        let view = self.show_in_turn(token, transform).await?;
        let shown = serde_json::to_value(view).map_err(Error::internal)?;
        let bytes = json_bytes(&shown);
        match shown {
            Value::Object(members) => Ok((members, bytes)),
            _ => Err(Error::internal("a token is shown as no object")),
        }
    }
}

/// The token, and how to show it again; nothing when its outline is all there is to show.
fn how_again<'t>(
    shown: Option<Value>,
    token: Option<&'t Token>,
    rights: Option<&Rights>,
) -> Option<(&'t Token, Transform)> {
    let shown: Shown = serde_json::from_value(shown?).ok()?;
    let (token, transform) = (token?, shown.again(token?)?);
    let Some(rights) = rights else { return Some((token, transform)) };
    let own = rights.decide(Permission::TokenRead, token.about.subject())?;
    Some((token, transform.min(own)))
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::{each_token, outline, take_the_rest};
    use crate::model::id::TenantId;
    use crate::model::plaintext::Plaintext;

    #[test]
    fn of_tokens_wherever_they_are_the_outline_is_left() {
        let tenant = TenantId(Uuid::from_u128(7));
        let token = |id: &str| {
            json!({"id": id, "tenant_id": tenant, "type": "token", "data": "secret", "mask": "x",
                "fingerprint": "f", "containers": ["/a/"], "metadata": {"k": "v"}})
        };
        let mut value = json!({"a": [token("one"), "an-id"], "b": {"c": token("two")}, "d": null,
            "tenant_id": "an id of the caller's"});
        each_token(&mut value, tenant, &mut outline);
        assert!(!value.to_string().contains("secret") && !value.to_string().contains("metadata"));
        assert_eq!(
            value["a"][0],
            json!({"id": "one", "tenant_id": tenant, "type": "token",
            "fingerprint": "f", "containers": ["/a/"]})
        );
        assert_eq!((&value["b"]["c"]["id"], &value["a"][1]), (&json!("two"), &json!("an-id")));
        let mut other = json!({"tenant_id": Uuid::from_u128(8), "data": "kept"});
        each_token(&mut other, tenant, &mut outline);
        assert_eq!(other["data"], "kept");
    }

    /// Nobody may read what was freed; but of what type it was, which wipes itself, is seen by the compiler.
    #[test]
    fn what_is_not_left_of_a_token_is_wiped() {
        let mut token = json!({"id": "one", "data": "secret", "metadata": {"k": "v"}});
        let rest: Plaintext = take_the_rest(token.as_object_mut().unwrap());
        assert_eq!(token, json!({"id": "one"}));
        assert_eq!(rest.expose(), &json!({"data": "secret", "metadata": {"k": "v"}}));
    }
}
