//! Whether the server lives, and whether it is ready (decisions §9). Neither needs a key.

use axum::extract::State as Shared;
use axum::response::{IntoResponse, Response};
use http::StatusCode;
use serde::Serialize;
use utoipa::ToSchema;

use super::State;
use super::declared::Unavailable;
use super::envelope::Reply;
use super::problem::Problem;
use crate::vault::Unfit;

/// An answer to a probe.
#[derive(Debug, Serialize, ToSchema)]
pub struct Health {
    /// `ok`.
    status: &'static str,
}

/// The process answers, and nothing has happened that only starting it again can mend.
#[utoipa::path(get, path = "/healthz", tag = "operation", security(()),
    responses((status = 200, description = "The process need not be started again", body = Health), Unavailable))]
pub async fn healthz(Shared(state): Shared<State>) -> Response {
    match state.vault.health() {
        Err(failed @ Unfit::Failed) => unavailable(&failed.to_string()),
        _ => Reply(Health { status: "ok" }).into_response(),
    }
}

/// The server takes requests: it is not stopping, and its store takes writes.
#[utoipa::path(get, path = "/readyz", tag = "operation", security(()),
    responses((status = 200, description = "The server takes requests", body = Health), Unavailable))]
pub async fn readyz(Shared(state): Shared<State>) -> Response {
    match want_of_readiness(&state) {
        None => Reply(Health { status: "ok" }).into_response(),
        Some(want) => unavailable(&want),
    }
}

/// Why the server is not ready, if it is not.
pub(super) fn want_of_readiness(state: &State) -> Option<String> {
    if state.stopping.begun() {
        return Some("The server is stopping.".to_owned());
    }
    state.vault.health().err().map(|unfit| unfit.to_string())
}

fn unavailable(detail: &str) -> Response {
    Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail).into_response()
}
