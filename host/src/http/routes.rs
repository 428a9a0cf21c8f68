//! The table of routes.
//!
//! A row is a handler; its method and path stand in its `#[utoipa::path]`, so that the description cannot differ from
//! what is served.

use std::convert::Infallible;
use std::sync::OnceLock;
use std::task::{Context, Poll};

use axum::body::{Bytes, HttpBody};
use axum::extract::{Request, State as Shared};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::future::RouteFuture;
use axum::routing::get;
use axum::{BoxError, Router};
use http::{StatusCode, header};
use tower::Service;
use tower_http::normalize_path::NormalizePath;
use utoipa::openapi::OpenApi;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::problem::Problem;
use super::{
    State, answers, applications, console, cors, docs, examples, formulas, health, idempotency,
    linger, logs, metrics, openapi, reactors, sessions, shield, tenants, tokens, trace, webhooks,
    wellformed,
};

/// Every route, with the description of them all.
pub(super) fn described() -> (Router<State>, OpenApi) {
    OpenApiRouter::with_openapi(openapi::base())
        .routes(routes!(tokens::create, tokens::list))
        .routes(routes!(tokens::search))
        .routes(routes!(tokens::find, tokens::update, tokens::delete))
        .routes(routes!(tokens::tokenize))
        .routes(routes!(tokens::detokenize))
        .routes(routes!(applications::create, applications::list))
        .routes(routes!(applications::find_by_key))
        .routes(routes!(applications::find, applications::update, applications::delete))
        .routes(routes!(applications::regenerate))
        .routes(routes!(applications::permissions))
        .routes(routes!(sessions::create))
        .routes(routes!(sessions::authorize))
        .routes(routes!(tenants::find, tenants::update))
        .routes(routes!(formulas::create, formulas::list))
        .routes(routes!(formulas::find, formulas::update, formulas::delete))
        .routes(routes!(formulas::component, formulas::update_component))
        .routes(routes!(reactors::create, reactors::list))
        .routes(routes!(reactors::find, reactors::update, reactors::delete))
        .routes(routes!(reactors::react))
        .routes(routes!(reactors::invocations))
        .routes(routes!(reactors::result))
        .routes(routes!(reactors::redeliver))
        .routes(routes!(webhooks::list))
        .routes(routes!(webhooks::rotate))
        .routes(routes!(logs::list))
        .routes(routes!(logs::entity_types))
        .routes(routes!(health::healthz))
        .routes(routes!(health::readyz))
        .routes(routes!(metrics::metrics))
        .split_for_parts()
}

/// The whole interface as a service. A trailing slash on a path is ignored (decisions §1).
#[derive(Clone)]
pub struct Routes(NormalizePath<Router>);

impl<B> Service<http::Request<B>> for Routes
where
    B: HttpBody<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response;
    type Error = Infallible;
    type Future = RouteFuture<Infallible>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        <NormalizePath<Router> as Service<http::Request<B>>>::poll_ready(&mut self.0, context)
    }

    fn call(&mut self, request: http::Request<B>) -> Self::Future {
        // What trims the end of a path would trim its beginning as well, and lead past whoever guards one on the way.
        if request.uri().path().starts_with("//") {
            self.0.get_mut().call(request)
        } else {
            self.0.call(request)
        }
    }
}

/// All routes.
pub fn router(state: State) -> Routes {
    router_with(state, true)
}

/// The same, with the console or without.
pub(super) fn router_with(state: State, console: bool) -> Routes {
    let (router, _) = described();
    // Who knows the address alone is led to what there is to look at.
    let (router, first) =
        if console { (router.merge(console::routes()), "/console") } else { (router, "/docs") };
    let router = router
        .route("/", get(async || Redirect::temporary(first)))
        .route("/openapi.json", get(describe))
        .route("/docs", get(docs::page))
        .route("/docs/{file}", get(docs::file))
        .fallback(unknown_path)
        .layer(from_fn_with_state(state.clone(), around_all))
        .with_state(state);
    Routes(NormalizePath::trim_trailing_slash(router))
}

/// What every request passes, from the outside in. It is one layer, since each one that axum is given copies all within it
/// for every request.
async fn around_all(Shared(state): Shared<State>, request: Request, next: Next) -> Response {
    let inner = state.clone();
    let within = move |request: Request| async move {
        let request = linger::lasting(request);
        // Before a browser is told what it may send: it sends no such head.
        if let Some(refusal) = wellformed::refusal(&request) {
            return refusal;
        }
        let keyed = move |request: Request| async move {
            if let Some(refusal) = shield::refusal_of_head(&request) {
                return refusal;
            }
            let run = idempotency::layer(Shared(inner), request, next);
            answers::counted(run).await
        };
        cors::around(request, keyed).await
    };
    trace::around(&state, request, within).await
}

/// The description of the whole interface.
pub fn description() -> OpenApi {
    let (_, mut description) = described();
    examples::add(&mut description);
    openapi::complete(&mut description);
    description
}

async fn describe() -> Response {
    static WRITTEN: OnceLock<String> = OnceLock::new();
    let text = WRITTEN.get_or_init(|| description().to_json().unwrap_or_default());
    ([(header::CONTENT_TYPE, "application/json")], text.as_str()).into_response()
}

async fn unknown_path(_: Request) -> Response {
    Problem::new(StatusCode::NOT_FOUND, "There is no such path.").into_response()
}
