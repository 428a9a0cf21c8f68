//! The description of the interface: OpenAPI 3.1, made of the handlers and the types they take and give.

use std::collections::BTreeMap;

use axum::response::{IntoResponse as _, Response};
use http::header;
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityScheme};
use utoipa::openapi::{ContentBuilder, OpenApi, Ref, RefOr, ResponseBuilder};
use utoipa::{IntoParams, IntoResponses, Modify, OpenApi as _};

use super::extract::API_KEY;
use super::problem::Problem;

const SCHEME: &str = "api_key";

#[derive(utoipa::OpenApi)]
#[openapi(
    info(
        title = "Tokamak",
        description = "A token vault with programmable reactors.",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    tags(
        (name = "tokens", description = "Sensitive values, kept and shown by rule"),
        (name = "applications", description = "Who calls, and with which rights"),
        (name = "sessions", description = "Short-lived rights for browsers"),
        (name = "tenants", description = "Settings"),
        (name = "formulas", description = "Sandboxed programs"),
        (name = "reactors", description = "Formulas configured for use"),
        (name = "logs", description = "Who did what, and who tried to"),
        (name = "operation", description = "Probes")
    ),
    components(schemas(Problem)),
    security(("api_key" = [])),
    modifiers(&KeyScheme)
)]
struct Base;

struct KeyScheme;

impl Modify for KeyScheme {
    fn modify(&self, description: &mut OpenApi) {
        let scheme = SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::new(API_KEY)));
        let components = description.components.get_or_insert_with(Default::default);
        components.add_security_scheme(SCHEME, scheme);
    }
}

/// The description before any route is added.
pub(super) fn base() -> OpenApi {
    Base::openapi()
}

/// The whole description.
pub fn description() -> OpenApi {
    let (_, mut description) = super::routes::described();
    super::examples::add(&mut description);
    description
}

/// Answers with the description, written once.
pub(super) fn answer(description: &'static str) -> Response {
    ([(header::CONTENT_TYPE, "application/json")], description).into_response()
}

/// Parameters of every list.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only the description reads it; handlers read the query itself")]
pub(super) struct ListParameters {
    /// Which page, from 1.
    #[param(minimum = 1, default = 1)]
    page: Option<u32>,
    /// Entries on a page.
    #[param(minimum = 1, maximum = 100, default = 20)]
    size: Option<u32>,
    /// A cursor from `pagination.next`, instead of `page`.
    start: Option<String>,
}

macro_rules! refusals {
    ($($(#[$doc:meta])* $name:ident: $($status:literal)+;)+) => {$(
        $(#[$doc])*
        pub(super) struct $name;

        impl IntoResponses for $name {
            fn responses() -> BTreeMap<String, RefOr<utoipa::openapi::Response>> {
                [$($status),+].into_iter().map(refusal).collect()
            }
        }
    )+};
}

refusals! {
    /// What every operation may answer.
    Refusals: 400 401 403 409 413 415 500 503;
    /// What an operation on one entity may answer.
    ReadRefusals: 400 401 403 404 409 413 415 500 503;
    /// What an operation that takes code may answer.
    FormulaRefusals: 400 401 403 404 409 413 415 422 500 503;
    /// What running a reactor may answer; a formula may answer with any other status from 400 to 599.
    ReactRefusals: 400 401 402 403 404 409 413 415 429 500 503 504;
}

fn refusal(status: u16) -> (String, RefOr<utoipa::openapi::Response>) {
    let description = match status {
        400 => "The request is invalid; `errors` names every faulty member",
        401 => "The key is missing, unknown, revoked or expired",
        402 => "The formula refuses the payment method",
        403 => "The caller lacks the permission, or no rule matches",
        404 => "There is no such entity",
        409 => "The request contradicts what is there",
        413 => "The body is too large",
        415 => "The body has another content type than the operation takes",
        422 => "The formula cannot run",
        429 => "Too many requests",
        500 => "A fault of the server or of the formula",
        503 => "The server is stopping or its storage is unavailable",
        _ => "The reactor ran past its time",
    };
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    let response = ResponseBuilder::new()
        .description(description)
        .content("application/json", content.clone())
        .content("application/problem+json", content)
        .build();
    (status.to_string(), RefOr::T(response))
}
