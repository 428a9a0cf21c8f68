//! Extractors: who calls, with which right, on which entity.
//!
//! Their order in a handler's signature is the order of the checks (decisions §1): the permit first, then path, query
//! and body.

use std::str::FromStr;

use axum::extract::{FromRequestParts, RawPathParams};
use http::request::Parts;

use super::State;
use super::problem::{Problem, Rejection};
use crate::crypto::api_key::ApiKey;
use crate::model::permission::Grant;
use crate::vault::{Authenticated, Error, Permit};

/// The header that carries the API key.
pub const API_KEY: &str = "SVC-API-KEY";

/// Whoever the key belongs to, whatever it may do.
pub struct Known(pub Authenticated);

impl FromRequestParts<State> for Known {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, state: &State) -> Result<Self, Rejection> {
        let mut keys = parts.headers.get_all(API_KEY).iter();
        let key = keys.next().and_then(|key| key.to_str().ok());
        // Two keys are no key: which one counted would be a guess.
        let key = key.filter(|_| keys.next().is_none());
        let key = key.map(|key| ApiKey::given(key.to_owned()));
        Ok(Self(state.vault.authenticate(key).await?))
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
        Ok(Self(state.vault.permit(&who, id.map(|(_, id)| id)).await?))
    }
}

/// The path's `{id}`. One that cannot be an id is the id of nothing: 404.
pub struct Id<I>(pub I);

impl<I: FromStr + Send> FromRequestParts<State> for Id<I> {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, state: &State) -> Result<Self, Rejection> {
        let missing = || Rejection::from(Error::NotFound("entity"));
        let params = RawPathParams::from_request_parts(parts, state).await;
        let params = params.map_err(|_| missing())?;
        let id = params.iter().find(|(name, _)| *name == "id").map(|(_, id)| id);
        id.and_then(|id| id.parse().ok()).map(Self).ok_or_else(missing)
    }
}

/// A 400 for a request that is wrong as such.
pub fn bad_request(detail: impl Into<String>) -> Rejection {
    Problem::new(http::StatusCode::BAD_REQUEST, detail).into()
}
