//! Whole JSON values to tokens and back (decisions §3).
//!
//! `tokenize` replaces each object that has `type` and `data` by the token it becomes, and every other primitive by the
//! id of a `token`; `null` stays. `detokenize` replaces references by data. Shapes are kept.

use std::collections::HashMap;
use std::str::FromStr as _;

use parking_lot::Mutex;

use serde_json::Value;

use super::effort::{unless_crowded, with_effort};
use super::permit::Permit;
use super::tokens::{CreateToken, Drafts, Token, TokenView};
use super::{Change, Error, NoRoom, Share, Vault, audit::Actor, audit::Event};
use crate::expression::{Arguments, TokenParts, Unfilled};
use crate::limits::{
    ARGUMENTS_WORK_BYTES_MAX, EXPRESSION_OUTPUT_BYTES_MAX, JSON_DEPTH_MAX, TOKENS_PER_CALL_MAX,
};
use crate::model::depth::is_within;
use crate::model::faults::Faults;
use crate::model::id::{TenantId, TokenId};
use crate::model::log::Operation;
use crate::model::member;
use crate::model::path::Path;
use crate::model::permission::marker::{TokenCreate, TokenRead};
use crate::model::rule::Transform;
use crate::model::weight;

/// Bytes that what an expression makes takes at most, about: JSON takes some fifty times its text.
const MADE_BYTES_MAX: usize = 50 * EXPRESSION_OUTPUT_BYTES_MAX;

/// What becomes of a place in the value once its token is made.
enum Place {
    /// The token's id stands there.
    Id,
    /// The token itself stands there.
    Token,
}

impl Vault {
    /// Makes tokens of everything in a value; all or none, and none where something is wrong with its numbers.
    pub async fn tokenize(
        &self,
        permit: &Permit<TokenCreate>,
        value: Value,
        inexact: Faults,
    ) -> Result<Value, Error> {
        let with_answer = |change: &mut Change, kept: Kept<'_>| {
            if permit.claim().is_some() {
                permit.keep_answer(change, &kept()?)?;
            }
            Ok(Vec::new())
        };
        let prepared = self.prepare_tokens(permit, value, inexact).await?;
        self.tokenize_with(permit, prepared, permit.actor(), with_answer).await
    }

    /// Checks everything in a value, so that storing it is all that is left.
    pub(super) async fn prepare_tokens(
        &self,
        permit: &Permit<TokenCreate>,
        mut value: Value,
        inexact: Faults,
    ) -> Result<Prepared, Error> {
        check_depth(&value)?;
        let mut found = Found { faults: inexact, ..Found::default() };
        found.collect(&mut value, Path::Root);
        if found.bodies.len() > TOKENS_PER_CALL_MAX {
            found.faults.add("", format!("holds more than {TOKENS_PER_CALL_MAX} values"));
            return Err(found.faults.into());
        }
        let mut drafts = Drafts::default();
        let mut places = Vec::with_capacity(found.bodies.len());
        let mut faults = found.faults;
        for (path, place, body) in found.bodies {
            match self.draft(permit, body, &mut drafts).await {
                Ok(()) => places.push(place),
                Err(Error::Invalid(inner)) => faults.extend_under(&path, inner),
                Err(error) => return Err(error),
            }
        }
        let prepared = faults.into_result(Prepared { shape: value, places, drafts })?;
        // Everything that is wrong with the value comes before a rule that one of its tokens lacks (decisions §1).
        self.permit_drafts(permit, &prepared.drafts).await?;
        Ok(prepared)
    }

    /// Stores what was prepared, together with what `more` adds.
    pub(super) async fn tokenize_with(
        &self,
        permit: &Permit<TokenCreate>,
        prepared: Prepared,
        actor: Actor,
        more: impl Fn(&mut Change, Kept<'_>) -> Result<Vec<Event>, Error>,
    ) -> Result<Value, Error> {
        let Prepared { shape, places, drafts } = prepared;
        let answer = Mutex::new(Value::Null);
        let more = |change: &mut Change, made: &[TokenView]| {
            let filled = |of: fn(&TokenView) -> Result<Value, Error>| {
                fill_places(shape.clone(), &places, made, of)
            };
            let events = more(change, &|| filled(TokenView::kept))?;
            *answer.lock() = filled(|view| serde_json::to_value(view).map_err(Error::internal))?;
            Ok(events)
        };
        self.store_drafts_with(permit, drafts, actor, more).await?;
        Ok(answer.into_inner())
    }

    /// Replaces every reference in a value by the data of its token, which the caller must see in plaintext.
    pub async fn detokenize(
        &self,
        permit: &Permit<TokenRead>,
        value: &Value,
        inexact: Faults,
    ) -> Result<Value, Error> {
        let mut faults = inexact;
        let arguments = Arguments::read(value, &mut faults);
        // Given back at the end.
        let mut room = self.0.opened.share(permit.tenant());
        let tokens = match self.referenced(permit.tenant(), &arguments, &mut room).await {
            Err(Error::Invalid(missing)) => {
                faults.extend_under("", missing);
                Vec::new()
            }
            tokens => tokens?,
        };
        faults.into_result(())?;
        let mut events = Vec::with_capacity(tokens.len());
        for token in &tokens {
            if permit.decide(token.about.subject()) != Some(Transform::Reveal) {
                let entity = (token.token_type()?.log_entity_type(), token.about.id.as_str());
                let why = format!(
                    "The rule that decides for the token {} does not grant token:read with the transform reveal.",
                    entity.1
                );
                return Err(self.deny_because(permit, (entity, Operation::Use), why).await);
            }
            events.push(token.event(Operation::Use, "Token detokenized")?);
        }
        let parts = tokens
            .iter()
            .map(|token| self.parts(token, Transform::Reveal, &arguments))
            .collect::<Result<Vec<_>, Error>>()?;
        // What a filter finds wrong tells of the data too: the tokens are read, whatever comes of it.
        let entropy = self.0.entropy.as_ref();
        let filled = fill_arguments(permit.tenant(), &arguments, &parts, entropy).await;
        // Wiped before anything else is waited for.
        drop((parts, tokens));
        let fits = |filled: &Value| keep_filled(&mut room, filled);
        let kept =
            filled.as_ref().ok().and_then(|filled| filled.as_ref().ok()).map_or(Ok(()), fits);
        self.log(permit.tenant(), permit.actor(), events).await?;
        kept?;
        Ok(filled?.map_err(|unfilled| unfilled.faults)?)
    }

    /// The tokens that arguments refer to, in the order of their ids there; each missing one is a fault at the member
    /// that names it. A share has what they take, with what their references show of them.
    pub(super) async fn referenced(
        &self,
        tenant: TenantId,
        arguments: &Arguments,
        room: &mut Share,
    ) -> Result<Vec<Token>, Error> {
        let ids: Vec<&str> = arguments.token_ids().iter().map(TokenId::as_str).collect();
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let weigh = |id: &str, text: &[u8]| {
            let weight = weight::of_json(text);
            let (whole, made) = TokenId::from_str(id).map_or((1, 0), |id| arguments.uses_of(&id));
            // As it is opened, once more for what is shown of it, and again in each of its places.
            let made = made.saturating_mul(weight.min(MADE_BYTES_MAX));
            Ok(room.grow_by(weight.saturating_mul(2 + whole).saturating_add(made))?)
        };
        let found = self.find_within::<Token>(tenant, &ids, self.now(), weigh).await?;
        let mut faults = Faults::new();
        let mut tokens = Vec::with_capacity(found.len());
        for (id, stored) in arguments.token_ids().iter().zip(found) {
            match stored {
                Some(stored) => tokens.push(stored.entity),
                None => {
                    for path in arguments.paths_of(id) {
                        faults.add(path, "refers to a token that does not exist");
                    }
                }
            }
        }
        Ok(faults.into_result(tokens)?)
    }

    /// What references in these arguments can show of a token.
    pub(super) fn parts(
        &self,
        token: &Token,
        transform: Transform,
        arguments: &Arguments,
    ) -> Result<TokenParts, Error> {
        let id = token.about.id.clone();
        let whole = || serde_json::to_value(self.show(token, transform)).map_err(Error::internal);
        let whole = arguments.shows_whole(&id).then(whole).transpose()?;
        let data = self.shown_data(token, transform).unwrap_or(Value::Null);
        Ok(TokenParts { id, data, whole })
    }
}

/// Leaves a share with what filled arguments take: what they were made of is gone.
pub fn keep_filled(room: &mut Share, filled: &Value) -> Result<(), NoRoom> {
    let bytes = weight::of_value(filled);
    room.shrink_to(bytes);
    room.grow_to(bytes)
}

/// Puts tokens in the place of their references; refused where too much of this is under way.
pub async fn fill_arguments(
    tenant: TenantId,
    arguments: &Arguments,
    parts: &[TokenParts],
    entropy: &dyn crate::crypto::entropy::Entropy,
) -> Result<Result<Value, Unfilled>, Error> {
    let parts: HashMap<&str, &TokenParts> =
        parts.iter().map(|parts| (parts.id.as_str(), parts)).collect();
    unless_crowded(tenant, || {
        with_effort(ARGUMENTS_WORK_BYTES_MAX, |work| {
            arguments.fill(&|id| parts.get(id.as_str()).copied(), entropy, work)
        })
    })
    .await
}

/// Gives what may be kept of an answer ([`TokenView::kept`]).
pub(super) type Kept<'a> = &'a dyn Fn() -> Result<Value, Error>;

/// Tokens ready to be stored, and the value they came from.
pub struct Prepared {
    shape: Value,
    places: Vec<Place>,
    drafts: Drafts,
}

/// The value with tokens in their places, or with this of them.
fn fill_places(
    mut shape: Value,
    places: &[Place],
    made: &[TokenView],
    of: fn(&TokenView) -> Result<Value, Error>,
) -> Result<Value, Error> {
    let replacements = places.iter().zip(made).map(|(place, view)| match place {
        Place::Id => Ok(Value::String(view.id().to_owned())),
        Place::Token => of(view),
    });
    let replacements = replacements.collect::<Result<Vec<_>, Error>>()?;
    // Places were collected depth first and are filled in the same order.
    fill(&mut shape, &mut replacements.into_iter());
    Ok(shape)
}

/// Bodies of tokens found in a value, with their paths.
#[derive(Default)]
struct Found {
    bodies: Vec<(String, Place, CreateToken)>,
    faults: Faults,
}

impl Found {
    /// Takes every body out of `value` and leaves a stand-in.
    fn collect(&mut self, value: &mut Value, path: Path<'_>) {
        match value {
            // One too many is enough to refuse.
            _ if self.bodies.len() > TOKENS_PER_CALL_MAX => {}
            Value::Null => {}
            Value::Array(items) => {
                for (index, item) in items.iter_mut().enumerate() {
                    self.collect(item, path.item(index));
                }
            }
            Value::Object(members) if is_token(members) => {
                let body = std::mem::replace(value, stand_in());
                match member::read(body) {
                    Ok(body) => self.bodies.push((path.to_string(), Place::Token, body)),
                    Err(inner) => self.faults.extend_under(&path.to_string(), inner),
                }
            }
            Value::Object(members) => {
                for (name, inner) in members {
                    self.collect(inner, path.member(name));
                }
            }
            Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                let data = std::mem::replace(value, stand_in());
                self.bodies.push((path.to_string(), Place::Id, CreateToken::plain(data)));
            }
        }
    }
}

/// Refuses what a record could not keep.
pub fn check_depth(value: &Value) -> Result<(), Error> {
    if is_within(value, JSON_DEPTH_MAX) { Ok(()) } else { Err(too_deep()) }
}

/// What is wrong with a value that is nested too deep.
pub fn too_deep() -> Error {
    Error::invalid("", format!("must not be nested more than {JSON_DEPTH_MAX} levels deep"))
}

fn is_token(members: &serde_json::Map<String, Value>) -> bool {
    members.contains_key("type") && members.contains_key("data")
}

/// Stands where a token will: after collecting, no other `true` is left in the value.
fn stand_in() -> Value {
    Value::Bool(true)
}

fn fill(shape: &mut Value, replacements: &mut impl Iterator<Item = Value>) {
    match shape {
        Value::Bool(true) => {
            if let Some(replacement) = replacements.next() {
                *shape = replacement;
            }
        }
        Value::Array(items) => items.iter_mut().for_each(|item| fill(item, replacements)),
        Value::Object(members) => {
            members.values_mut().for_each(|inner| fill(inner, replacements));
        }
        _ => {}
    }
}
