//! The description of the interface: OpenAPI 3.1, made of the handlers and the types they take and give.

use std::collections::BTreeMap;

use axum::response::{IntoResponse as _, Response};
use http::{HeaderName, header};
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn, ParameterStyle};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityScheme};
use utoipa::openapi::{
    ContentBuilder, Header, HeaderBuilder, ObjectBuilder, OpenApi, Ref, RefOr, Required,
    ResponseBuilder, Type,
};
use utoipa::{IntoParams, IntoResponses, Modify, OpenApi as _};

use super::extract::API_KEY;
use super::idempotency::{KEY, REPLAY};
use super::problem::Problem;
use super::trace::TRACE_ID;
use crate::limits::IDEMPOTENCY_KEY_CHARS_MAX;

const SCHEME: &str = "api_key";
const KEY_TEXT: &str = "Names the request, so that it can be repeated without being carried out \
    twice. The answer of a success is kept for 24 hours, for the application; the same request \
    under the same key gets it again, with `SVC-IDEMPOTENT-REPLAY: true`. A failure is not kept. \
    While the first request is running, a repetition is a 409; under the same key another method, \
    path or body is a 422. Keys are shown once: a repeated answer lacks `key`, `session_key` and \
    `nonce`. A token that was made or changed is shown as the caller may read it at that time, and \
    in outline (`id`, `tenant_id`, `type`, `fingerprint`, `containers`) if it may not; if it is \
    gone, the repetition is a 404. `POST /tokenize` gives its tokens in outline. \
    `POST /tokens/search` and `POST /detokenize` change nothing and are carried out again.";
const REUSE_TEXT: &str = "`SVC-IDEMPOTENCY-KEY` was used for another request";
const METADATA_TEXT: &str = "Only with these metadata values: exact but for case, all of them \
    together. `metadata.customer=17` means the same as `metadata[customer]=17`; OpenAPI can \
    describe the latter only. A key that is repeated counts once";

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
    add_headers(&mut description);
    add_metadata_filter(&mut description);
    description
}

/// Every operation, and whether an idempotency key means something to it.
pub(super) fn operations(
    description: &mut OpenApi,
) -> impl Iterator<Item = (bool, &mut Operation)> {
    description.paths.paths.values_mut().flat_map(|path| {
        let all = [
            (false, &mut path.get),
            (true, &mut path.post),
            (true, &mut path.put),
            (true, &mut path.patch),
            (false, &mut path.delete),
        ];
        all.into_iter().filter_map(|(takes_key, operation)| Some((takes_key, operation.as_mut()?)))
    })
}

/// Tells of the headers that layers read and write, and no handler knows.
fn add_headers(description: &mut OpenApi) {
    let components = description.components.get_or_insert_with(Default::default);
    components.parameters.insert(written(&KEY), RefOr::T(key_parameter()));
    let trace = "The request's trace id: the one it brought in this header, or a new one";
    components.headers.insert(written(&TRACE_ID), RefOr::T(header_of(Type::String, trace)));
    let replay = "Present, and `true`, when the answer is that of an earlier request";
    components.headers.insert(written(&REPLAY), RefOr::T(header_of(Type::Boolean, replay)));
    for (takes_key, operation) in operations(description) {
        if takes_key {
            operation.parameters.get_or_insert_default().push(component("parameters", &KEY));
            add_reuse(operation);
        }
        for (status, response) in &mut operation.responses.responses {
            let RefOr::T(response) = response else { continue };
            response.headers.insert(written(&TRACE_ID), component("headers", &TRACE_ID));
            if takes_key && status.starts_with('2') {
                response.headers.insert(written(&REPLAY), component("headers", &REPLAY));
            }
        }
    }
}

/// A header's name as the documentation writes it.
fn written(name: &HeaderName) -> String {
    name.as_str().to_ascii_uppercase()
}

fn component<T>(kind: &str, name: &HeaderName) -> RefOr<T> {
    RefOr::Ref(Ref::new(format!("#/components/{kind}/{}", written(name))))
}

fn header_of(kind: Type, text: &str) -> Header {
    let schema = ObjectBuilder::new().schema_type(kind);
    HeaderBuilder::new().schema(Some(schema)).description(Some(text)).build()
}

fn key_parameter() -> Parameter {
    let schema = ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(Some(1))
        .max_length(Some(IDEMPOTENCY_KEY_CHARS_MAX));
    ParameterBuilder::new()
        .name(written(&KEY))
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(KEY_TEXT))
        .schema(Some(schema))
        .build()
}

/// Adds the 422 of a reused key, to the one that the operation may answer anyway.
fn add_reuse(operation: &mut Operation) {
    let responses = &mut operation.responses.responses;
    match responses.get_mut("422") {
        Some(RefOr::T(response)) => {
            response.description = format!("{}, or {REUSE_TEXT}", response.description);
        }
        _ => {
            responses.insert("422".to_owned(), problem(REUSE_TEXT));
        }
    }
}

/// `GET /tokens` takes any parameter below `metadata`, which its handler cannot say of a name.
fn add_metadata_filter(description: &mut OpenApi) {
    let path = description.paths.paths.get_mut("/tokens");
    let Some(list) = path.and_then(|path| path.get.as_mut()) else { return };
    let values = ObjectBuilder::new().schema_type(Type::String);
    let schema = ObjectBuilder::new().schema_type(Type::Object).additional_properties(Some(values));
    let parameter = ParameterBuilder::new()
        .name("metadata")
        .parameter_in(ParameterIn::Query)
        .required(Required::False)
        .description(Some(METADATA_TEXT))
        .style(Some(ParameterStyle::DeepObject))
        .explode(Some(true))
        .schema(Some(schema))
        .build();
    list.parameters.get_or_insert_default().push(RefOr::T(parameter));
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
    (status.to_string(), problem(description))
}

fn problem(description: &str) -> RefOr<utoipa::openapi::Response> {
    let content = ContentBuilder::new().schema(Some(Ref::from_schema_name("Problem"))).build();
    let response = ResponseBuilder::new()
        .description(description)
        .content("application/json", content.clone())
        .content("application/problem+json", content)
        .build();
    RefOr::T(response)
}
