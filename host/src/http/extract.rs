//! Extractors: who calls, with which right, on which entity.
//!
//! Their order in a handler's signature is the order of the checks (decisions §1): the permit first, then path, query
//! and body.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::str::FromStr;
use std::sync::Arc;

use axum::extract::{ConnectInfo, FromRequestParts, MatchedPath, RawPathParams};
use http::StatusCode;
use http::request::Parts;

use super::State;
use super::problem::{Problem, Rejection};
use super::rates::Class;
use crate::crypto::api_key::ApiKey;
use crate::model::id::{ApplicationId, InvocationId};
use crate::model::log::{EntityType, Operation};
use crate::model::permission::marker::ApplicationRead;
use crate::model::permission::{Grant, Permission};
use crate::vault::{Authenticated, Claim, Error, Permit, asked_by, share_in};

/// The header that carries the API key.
pub const API_KEY: &str = "SVC-API-KEY";

/// Where a connection comes from.
type Address = ConnectInfo<SocketAddr>;

/// Whoever the key belongs to, whatever it may do, if it does not do it too often, nor leaves too many answers untaken.
pub struct Known(pub Authenticated);

/// A caller that this request was counted for. Only [`Known`] leaves one behind.
#[derive(Clone)]
struct Counted(Authenticated);

impl FromRequestParts<State> for Known {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, state: &State) -> Result<Self, Rejection> {
        // A layer asked before the handler does: one request counts once.
        if let Some(Counted(who)) = parts.extensions.get() {
            return Ok(Self(who.clone()));
        }
        let key = key(parts)?;
        let address = parts.extensions.get::<Address>().map(|ConnectInfo(address)| address.ip());
        if let (Some(address), Some(key)) = (address, &key) {
            state.rates.check_key(address, key)?;
        }
        let who = state.vault.authenticate(key.clone()).await;
        let unknown = who.as_ref().is_err_and(Error::is_unauthenticated);
        if let (Some(address), Some(key)) = (address, &key)
            && (unknown || who.is_ok())
        {
            state.rates.note_key(address, key, !unknown);
        }
        if let (Some(address), true) = (address, unknown) {
            state.rates.count_unauthenticated(address)?;
        }
        let who = who?;
        let route = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
        if let Some(class) = Class::of(&parts.method, route) {
            state.rates.count(&who, class)?;
        }
        let tenant = who.caller().tenant();
        share_in(if oversees(route) {
            // Who may can always see what goes on, and end the keys that it goes on with.
            state.vault.share_to_oversee(tenant)
        } else {
            let share = state.vault.share(tenant);
            share.check().map_err(Error::from)?;
            share
        });
        asked_by(&who);
        parts.extensions.insert(Counted(who.clone()));
        Ok(Self(who))
    }
}

/// Whether a route is one by which a tenant's keys are seen and ended, or its log is read.
fn oversees(route: &str) -> bool {
    matches!(route.split('/').nth(1), Some("applications" | "logs"))
}

/// The key that the request carries. Of several that differ, which one counts would be a guess.
fn key(parts: &Parts) -> Result<Option<ApiKey>, Rejection> {
    let mut keys = parts.headers.get_all(API_KEY).iter();
    let key = keys.next();
    if keys.any(|other| Some(other) != key) {
        let detail = format!("The request has several {API_KEY} that differ.");
        return Err(Problem::new(StatusCode::BAD_REQUEST, detail).into());
    }
    let key = key.and_then(|key| key.to_str().ok());
    Ok(key.map(|key| ApiKey::given(key.to_owned())))
}

/// Who may open sessions: a public application. Others are refused, and that is logged by the vault.
pub struct Opener(pub Authenticated);

impl FromRequestParts<State> for Opener {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, state: &State) -> Result<Self, Rejection> {
        let Known(who) = Known::from_request_parts(parts, state).await?;
        state.vault.expect_session_opener(&who).await?;
        Ok(Self(who))
    }
}

/// Who may authorize sessions: a private application. Others are refused, and that is logged by the vault.
pub struct Grantor(pub Authenticated);

impl FromRequestParts<State> for Grantor {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, state: &State) -> Result<Self, Rejection> {
        let Known(who) = Known::from_request_parts(parts, state).await?;
        state.vault.expect_session_grantor(&who).await?;
        Ok(Self(who))
    }
}

/// A permit, from the request's key. Refusals are logged by the vault.
pub struct Permitted<P>(pub Permit<P>);

impl<P: Grant> FromRequestParts<State> for Permitted<P> {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, state: &State) -> Result<Self, Rejection> {
        let Known(who) = Known::from_request_parts(parts, state).await?;
        let params = RawPathParams::from_request_parts(parts, state).await.ok();
        let id = params.as_ref().and_then(|params| params.iter().find(|(name, _)| *name == "id"));
        let route = parts.extensions.get::<MatchedPath>().map_or("", MatchedPath::as_str);
        let attempt = attempt(P::PERMISSION, route);
        let permit = state.vault.permit_attempt(&who, attempt, id.map(|(_, id)| id)).await?;
        let ClaimedKey(claim) = parts.extensions.get().cloned().unwrap_or_default();
        Ok(Self(permit.with_claim(claim)))
    }
}

/// Who may see the application of the path: it itself (decisions §2), and whoever has a permit.
pub enum Seer {
    /// It itself, without a permit.
    Itself(Authenticated),
    /// Whoever has one.
    Permitted(Permit<ApplicationRead>),
}

impl FromRequestParts<State> for Seer {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, state: &State) -> Result<Self, Rejection> {
        let Known(who) = Known::from_request_parts(parts, state).await?;
        let (own, permitted) =
            (who.caller().application.id, who.caller().rights.hold(Permission::ApplicationRead));
        match Id::<ApplicationId>::from_request_parts(parts, state).await {
            Ok(Id(id)) if id == own && !permitted => Ok(Self::Itself(who)),
            // What is no id is refused by whoever reads it, after the permission.
            _ => Permitted::from_request_parts(parts, state)
                .await
                .map(|Permitted(permit)| Self::Permitted(permit)),
        }
    }
}

/// The claim on the request's idempotency key, if it has one ([`super::idempotency`] leaves it behind).
#[derive(Clone, Default)]
pub struct ClaimedKey(pub Option<Arc<Claim>>);

impl ClaimedKey {
    /// The claim.
    pub fn claim(&self) -> Option<&Claim> {
        self.0.as_deref()
    }
}

impl<S: Sync> FromRequestParts<S> for ClaimedKey {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, Infallible> {
        Ok(parts.extensions.get().cloned().unwrap_or_default())
    }
}

/// What the log calls an attempt at a route without its permission: some permissions govern entities of other types
/// than their names say.
fn attempt(permission: Permission, route: &str) -> (EntityType, Operation) {
    let (entity_type, operation) = permission.attempt();
    match (route.split('/').nth(1), permission) {
        (Some("reactor-formulas"), _) => (EntityType::ReactorFormula, operation),
        // Whoever may read a token in plaintext may have it put in the place of its reference; the log tells that apart.
        (Some("detokenize"), _) => (EntityType::Token, Operation::Use),
        // The path names a reactor; the tokens it would be given are named nowhere yet.
        (Some("reactors"), Permission::TokenUse) => (EntityType::Reactor, use_of_reactor(route)),
        _ => (entity_type, operation),
    }
}

/// What a caller with `token:use` does at a reactor.
fn use_of_reactor(route: &str) -> Operation {
    match route.rsplit('/').next() {
        Some("{invocation_id}") => Operation::Read,
        Some("redeliver") => Operation::Update,
        _ => Operation::Invoke,
    }
}

/// The id of nothing.
const NOTHING: &str = "00000000-0000-0000-0000-000000000000";

/// The path's `{id}`. One that cannot be an id is the id of nothing: 404, once nothing else is wrong with the request.
pub struct Id<I>(pub I);

impl<I: FromStr + Send> FromRequestParts<State> for Id<I> {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, state: &State) -> Result<Self, Rejection> {
        segment(parts, state, "id").await.map(Self)
    }
}

/// The path's `{invocation_id}`, in the same way.
pub struct InvocationOf(pub InvocationId);

impl FromRequestParts<State> for InvocationOf {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, state: &State) -> Result<Self, Rejection> {
        segment(parts, state, "invocation_id").await.map(Self)
    }
}

async fn segment<I: FromStr>(parts: &mut Parts, state: &State, name: &str) -> Result<I, Rejection> {
    let missing = || Rejection::from(Error::NotFound("entity"));
    let params = RawPathParams::from_request_parts(parts, state).await;
    let params = params.map_err(|_| missing())?;
    let text = params.iter().find(|(other, _)| *other == name).map(|(_, text)| text);
    let id = text.map(|text| text.parse().or_else(|_| NOTHING.parse()));
    id.and_then(Result::ok).ok_or_else(missing)
}

#[cfg(test)]
mod tests {
    use super::attempt;
    use crate::model::log::{EntityType, Operation};
    use crate::model::permission::Permission;

    #[test]
    fn attempts_are_at_what_the_route_names() {
        for (permission, route, entity_type, operation) in [
            (Permission::TokenUse, "/reactors/{id}/react", EntityType::Reactor, Operation::Invoke),
            (
                Permission::TokenUse,
                "/reactors/{id}/results/{invocation_id}",
                EntityType::Reactor,
                Operation::Read,
            ),
            (
                Permission::TokenUse,
                "/reactors/{id}/results/{invocation_id}/redeliver",
                EntityType::Reactor,
                Operation::Update,
            ),
            (
                Permission::ReactorDelete,
                "/reactor-formulas/{id}",
                EntityType::ReactorFormula,
                Operation::Delete,
            ),
            (Permission::ReactorRead, "/reactors/{id}", EntityType::Reactor, Operation::Read),
            (Permission::TokenSearch, "/tokens/search", EntityType::Token, Operation::Read),
            (Permission::TokenRead, "/detokenize", EntityType::Token, Operation::Use),
            (Permission::LogRead, "/logs", EntityType::Tenant, Operation::Read),
            (Permission::TokenUse, "", EntityType::Token, Operation::Use),
        ] {
            assert_eq!(attempt(permission, route), (entity_type, operation), "{route}");
        }
    }
}
