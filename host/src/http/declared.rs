//! What operations declare of themselves for the description ([`super::openapi`]): parameters, refusals, bodies.

use std::collections::BTreeMap;

use utoipa::openapi::{ContentBuilder, Ref, RefOr, ResponseBuilder, Schema};
use utoipa::{IntoParams, IntoResponses, ToSchema};

/// Parameters of every list.
#[derive(IntoParams)]
#[into_params(parameter_in = Query)]
#[expect(dead_code, reason = "only the description reads it; handlers read the query itself")]
pub(super) struct ListParameters {
    /// Which page, from 1.
    #[param(minimum = 1, maximum = 2_147_483_647, default = 1)]
    page: Option<u32>,
    /// Entries on a page.
    #[param(minimum = 1, maximum = 100, default = 20)]
    size: Option<u32>,
    /// A cursor from `pagination.next`, instead of `page`, which is then absent or 1.
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
    /// What every operation may answer, beside what follows from what it takes.
    Refusals: 401 403 500 503;
    /// What an operation may answer that looks for an entity.
    ReadRefusals: 401 403 404 500 503;
    /// What an operation may answer that looks for an entity and can contradict what is there.
    ConflictRefusals: 401 403 404 409 500 503;
    /// What an operation that takes code may answer.
    FormulaRefusals: 401 403 422 500 503;
    /// What a probe may answer.
    Unavailable: 503;
    /// What running a reactor may answer, beside what its formula shapes.
    ReactRefusals: 401 402 403 404 429 500 503 504;
}

/// The schema of one body without these members, which are not read.
pub(super) fn relaxed<T: ToSchema>(text: &str, unread: &[&str]) -> RefOr<Schema> {
    let mut schema = T::schema();
    if let RefOr::T(Schema::Object(object)) = &mut schema {
        object.description = Some(text.to_owned());
        object.required.retain(|name| !unread.contains(&name.as_str()));
        object.properties.retain(|name, _| !unread.contains(&name.as_str()));
    }
    schema
}

/// The refusal of a status, in the words that fit every operation.
pub(super) fn refusal(status: u16) -> (String, RefOr<utoipa::openapi::Response>) {
    let description = match status {
        400 => "The request is invalid; `errors` names every faulty member",
        401 => "The key is missing, unknown, revoked or expired",
        402 => "The formula refuses the payment method",
        403 => "The caller lacks the permission, or no rule matches",
        404 => "There is no such entity",
        408 => "The body comes too slowly",
        409 => "The request contradicts what is there",
        413 => "The body is too large",
        414 => "The address is too long",
        415 => "The body has another content type than the operation takes, or is encoded",
        422 => "The formula cannot run",
        429 => "Too many requests",
        431 => "The headers are too large",
        500 => "A fault of the server or of the formula",
        503 => {
            "The server is stopping, has no room for the body or the run, still compiles the formula, or its storage is unavailable"
        }
        _ => "The reactor ran past its time",
    };
    (status.to_string(), problem(description))
}

/// A refusal in these words.
pub(super) fn problem(description: &str) -> RefOr<utoipa::openapi::Response> {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    let response = ResponseBuilder::new()
        .description(description)
        .content("application/json", content.clone())
        .content("application/problem+json", content)
        .build();
    RefOr::T(response)
}
