//! The description of the interface: OpenAPI 3.1. Handlers and the types they take and give tell most of it
//! ([`super::declared`]); what holds for all of them, or is done by layers around them, is told here.

mod metadata;

use std::collections::BTreeMap;

use http::{HeaderName, Method};
use utoipa::openapi::path::{Operation, Parameter, ParameterBuilder, ParameterIn};
use utoipa::openapi::schema::{AnyOfBuilder, ArrayItems, SchemaType};
use utoipa::openapi::security::{ApiKey, ApiKeyValue, SecurityScheme};
use utoipa::openapi::{
    AllOfBuilder, ContentBuilder, Header, HeaderBuilder, ObjectBuilder, OpenApi, PathItem, Ref,
    RefOr, Required, ResponseBuilder, Schema, Type,
};
use utoipa::{Modify, OpenApi as _};

use super::asked;
use super::declared::{problem, refusal};
use super::extract::API_KEY;
use super::idempotency::{KEY, REPLAY};
use super::problem::Problem;
use super::rates::Class;
use super::trace::TRACE_ID;
use super::wording::without_sections;
use crate::limits::{IDEMPOTENCY_KEY_CHARS_MAX, TRACE_ID_CHARS_MAX};

pub(super) const SCHEME: &str = "api_key";
const KEY_TEXT: &str = "Names the request, so that it can be repeated without being carried out \
    twice. The answer of a success is kept for 24 hours, for the application or the session; the same request \
    under the same key gets it again, with `SVC-IDEMPOTENT-REPLAY: true`. A failure is not kept. \
    While the first request is running, a repetition is a 409; under the same key another method, \
    path or body is a 422. Keys are shown once: a repeated answer lacks `key`, `session_key`, \
    `nonce` and `secret`. A token that was made or changed is shown as the caller may read it at that time, and \
    in outline (`id`, `tenant_id`, `type`, `fingerprint`, `containers`) if it may not; if it is \
    gone, the repetition is a 404. `POST /tokenize` gives its tokens in outline, a run those of its \
    tokens that were changed or are gone since. A caller that lost the permission gets what it did before still, \
    but not the answer of a run. \
    `POST /tokens/search` and `POST /detokenize` change nothing and are carried out again: what they \
    answer is data in plaintext, which is kept nowhere but in its token.";
/// What is sent to the address that a run is to be told to.
const CALLBACK: &str = include_str!("callback.json");
/// How the schema of a page begins to be called, before the name of its items'.
const PAGE: &str = "Paginated_";
/// Operations that change nothing, and are carried out again whatever key they have.
const NEVER_REPEATED: [&str; 2] = ["search_tokens", "detokenize"];
/// Operations whose bodies have no member that is required.
const BODY_MAY_BE_ABSENT: [&str; 2] = ["react", "search_tokens"];
const REUSE_TEXT: &str = "`SVC-IDEMPOTENCY-KEY` was used for another request";
const SHAPED_TEXT: &str = "Any status from 400 to 599, and any body, that the formula chose";

#[derive(utoipa::OpenApi)]
#[openapi(
    servers((url = "/", description = "The server that this comes from")),
    info(
        title = "Tokamak",
        description = "A token vault with programmable reactors.\n\n\
            Pages of any origin may send what public applications and sessions may use \
            (`/tokens`, `/tokens/{id}`, `/tokens/search`, `/tokenize`, `/detokenize`, `POST /sessions`, \
            `GET /applications/key`, `GET /permissions`, `POST /reactors/{id}/react` and its results), with the headers \
            `Content-Type` and `SVC-*`; no cookie or other credential of a browser means anything here.\n\n\
            A number of more digits than 64 bits or a double hold, or larger than a double, is refused and not \
            rounded: where it may be a string, send it as one.\n\n\
            Whatever the operation, a request of HTTP/1.1 must have one `Host` header, a host with a port or without \
            (400 otherwise), and no transfer coding but `chunked` (501 for a list that ends in it, else a 400 without a body).",
        license(name = "Apache-2.0", identifier = "Apache-2.0")
    ),
    tags(
        (name = "tokens", description = "Sensitive values, kept and shown by rule"),
        (name = "applications", description = "Who calls, and with which rights"),
        (name = "sessions", description = "Short-lived rights for browsers"),
        (name = "tenants", description = "Settings"),
        (name = "formulas", description = "Sandboxed programs"),
        (name = "reactors", description = "Formulas configured for use"),
        (name = "webhooks", description = "What signs them"),
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

/// Adds what no handler says of itself to the description of all routes.
pub(super) fn complete(description: &mut OpenApi) {
    add_refusals(description);
    add_absent_bodies(description);
    add_limits(description);
    add_shaped(description);
    add_headers(description);
    asked::describe(description);
    metadata::add_filter(description);
    name_items(description);
    add_results(description);
    without_sections(description);
}

/// Every operation, and whether an idempotency key means something to it.
pub(super) fn operations(
    description: &mut OpenApi,
) -> impl Iterator<Item = (bool, &mut Operation)> {
    let all = description.paths.paths.values_mut().flat_map(by_method);
    all.filter_map(|(method, operation)| {
        let takes_key = matches!(method, Method::POST | Method::PUT | Method::PATCH);
        Some((takes_key, operation.as_mut()?))
    })
}

/// The operations of a path, and those that it has not.
pub(super) fn by_method(path: &mut PathItem) -> [(Method, &mut Option<Operation>); 5] {
    [
        (Method::GET, &mut path.get),
        (Method::POST, &mut path.post),
        (Method::PUT, &mut path.put),
        (Method::PATCH, &mut path.patch),
        (Method::DELETE, &mut path.delete),
    ]
}

fn name_of(operation: &Operation) -> &str {
    operation.operation_id.as_deref().unwrap_or_default()
}

/// Adds the refusals that follow from what an operation takes.
fn add_refusals(description: &mut OpenApi) {
    for (takes_key, operation) in operations(description) {
        let takes = |place: &ParameterIn| {
            let mut parameters = operation.parameters.iter().flatten();
            parameters.any(|one| matches!(one, RefOr::T(one) if one.parameter_in == *place))
        };
        let possible = [
            (400, takes_key || takes(&ParameterIn::Query)),
            (404, takes(&ParameterIn::Path)),
            (408, takes_key),
            (409, takes_key),
            // To tell a repetition, the body is read even where none is asked for.
            (413, takes_key),
            (414, true),
            (415, takes_key),
            (431, true),
        ];
        for (status, _) in possible.into_iter().filter(|(_, possible)| *possible) {
            let (status, response) = refusal(status);
            operation.responses.responses.entry(status).or_insert(response);
        }
        if takes_key && !NEVER_REPEATED.contains(&name_of(operation)) {
            add_reuse(operation);
        }
    }
}

/// Where no member of the body is required, there may be none at all (decisions §1).
fn add_absent_bodies(description: &mut OpenApi) {
    for (_, operation) in operations(description) {
        let name = name_of(operation);
        if BODY_MAY_BE_ABSENT.contains(&name)
            && let Some(RefOr::T(body)) = &mut operation.request_body
        {
            body.required = Some(Required::False);
        }
    }
}

/// Adds the 429 of a limit, with the class that the operation counts in.
fn add_limits(description: &mut OpenApi) {
    for (path, item) in &mut description.paths.paths {
        for (method, operation) in by_method(item) {
            let (Some(operation), Some(class)) = (operation, Class::of(&method, path)) else {
                continue;
            };
            let class = class.as_str();
            let mut text =
                format!("The key sends more requests of the class `{class}` than it may");
            if operation.responses.responses.contains_key("429") {
                text.push_str(
                    ", or as many reactors of the tenant run and wait as may, or they hold all the \
                    memory that they may",
                );
            }
            if operation.responses.responses.contains_key("413") {
                text.push_str(
                    ", or the tenant's requests hold all the memory, \
                    computing time or places for large bodies that they may",
                );
            }
            text.push_str(
                ", or what requests have read or were answered, of the tenant's or of all, \
                holds all the memory that it may, or what the caller may do was changed meanwhile",
            );
            operation.responses.responses.insert("429".to_owned(), problem(&text));
        }
    }
}

/// A formula may refuse in any way it likes.
fn add_shaped(description: &mut OpenApi) {
    let path = description.paths.paths.get_mut("/reactors/{id}/react");
    let Some(react) = path.and_then(|path| path.post.as_mut()) else { return };
    let responses = &mut react.responses.responses;
    let refusals = responses.iter_mut().filter(|(status, _)| !status.starts_with('2'));
    for (_, response) in refusals {
        let RefOr::T(response) = response else { continue };
        response.description.push_str(", or the formula chose this status and the body");
        for content in response.content.values_mut() {
            let anything = ObjectBuilder::new().schema_type(SchemaType::AnyValue);
            let problem = Ref::from_schema_name("Problem");
            let either = AnyOfBuilder::new().item(problem).item(anything);
            *content = ContentBuilder::new().schema(Some(either)).build().into();
        }
    }
    let shaped = ResponseBuilder::new()
        .description(SHAPED_TEXT)
        .content("application/json", ContentBuilder::new().build())
        .build();
    responses.insert("default".to_owned(), RefOr::T(shaped));
}

/// Tells of the headers that layers read and write, and no handler knows.
fn add_headers(description: &mut OpenApi) {
    let components = description.components.get_or_insert_with(Default::default);
    let key = ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(Some(1))
        .max_length(Some(IDEMPOTENCY_KEY_CHARS_MAX))
        .pattern(Some(r"^[\x20-\x7e]+$"));
    components.parameters.insert(written(&KEY), RefOr::T(parameter(&KEY, key, KEY_TEXT)));
    // Nothing is refused for it, so that its schema bounds nothing.
    let trace = ObjectBuilder::new().schema_type(Type::String);
    let text = format!(
        "Names the request in the server's log, in problems and in the `trace_id` of entries of the audit log, if it is at \
        most {TRACE_ID_CHARS_MAX} visible ASCII characters; anything else is replaced by a new one"
    );
    let trace = parameter(&TRACE_ID, trace, &text);
    components.parameters.insert(written(&TRACE_ID), RefOr::T(trace));
    let trace = "The request's trace id: the one it brought in this header, or a new one";
    components.headers.insert(written(&TRACE_ID), RefOr::T(header_of(Type::String, trace)));
    let replay = "Present, and `true`, when the answer is that of an earlier request";
    components.headers.insert(written(&REPLAY), RefOr::T(header_of(Type::Boolean, replay)));
    for (takes_key, operation) in operations(description) {
        let parameters = operation.parameters.get_or_insert_default();
        parameters.push(component("parameters", &TRACE_ID));
        if takes_key {
            parameters.push(component("parameters", &KEY));
        }
        let of = operation.operation_id.as_deref().unwrap_or_default();
        for (status, response) in &mut operation.responses.responses {
            let RefOr::T(response) = response else { continue };
            response.headers.insert(written(&TRACE_ID), component("headers", &TRACE_ID));
            for (name, text) in own_headers(status, of) {
                response.headers.insert(name.to_owned(), RefOr::T(header_of(Type::String, text)));
            }
            if takes_key && status.starts_with('2') && !NEVER_REPEATED.contains(&of) {
                response.headers.insert(written(&REPLAY), component("headers", &REPLAY));
            }
        }
    }
}

/// The headers that belong to a status of an operation, with what each says.
fn own_headers(
    status: &str,
    operation: &str,
) -> impl Iterator<Item = (&'static str, &'static str)> {
    let ends_run = operation == "react" && !status.starts_with('2');
    // A formula may say it of any refusal.
    let may_tell_wait = status == "503" || (ends_run && status != "429");
    let rows = [
        // A session has no address of its own.
        (status == "201" && operation != "create_session", "Location", "Where it is"),
        (status == "202", "Location", "Where the run is to be looked at, and what comes of it"),
        (status == "401", "WWW-Authenticate", "`SVC-API-KEY`, unless a formula answers 401 itself"),
        (
            status == "415",
            "Accept-Encoding",
            "`identity`, where it is the encoding that is refused",
        ),
        (status == "429", "Retry-After", "How long to wait, in seconds"),
        (may_tell_wait, "Retry-After", "How long to wait, in seconds, where that is known"),
        (ends_run, "SVC-INVOCATION-ID", "The run that failed; absent where none was to begin"),
    ];
    rows.into_iter().filter(|(belongs, ..)| *belongs).map(|(_, name, text)| (name, text))
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

/// A header that a request may have.
fn parameter(name: &HeaderName, schema: ObjectBuilder, text: &str) -> Parameter {
    ParameterBuilder::new()
        .name(written(name))
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(text))
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

/// A page holds the schema of its items, of which clients would make a type of its own: it is to name theirs.
fn name_items(description: &mut OpenApi) {
    let Some(components) = &mut description.components else { return };
    let names: Vec<String> = components.schemas.keys().cloned().collect();
    for (name, page) in &mut components.schemas {
        let Some(item) = name.strip_prefix(PAGE).filter(|item| names.iter().any(|one| one == item))
        else {
            continue;
        };
        if let RefOr::T(Schema::Object(page)) = page
            && let Some(RefOr::T(Schema::Array(data))) = page.properties.get_mut("data")
        {
            let item = RefOr::Ref(Ref::from_schema_name(item));
            data.items = ArrayItems::RefOrSchema(Box::new(item));
        }
    }
}

/// Adds what an asynchronous run ends with: its problem, in which what a formula shaped has members of its own, and where
/// it is told.
fn add_results(description: &mut OpenApi) {
    let components = description.components.get_or_insert_with(Default::default);
    let texts = ObjectBuilder::new().schema_type(Type::String);
    let headers = ObjectBuilder::new()
        .schema_type(Type::Object)
        .additional_properties(Some(texts))
        .description(Some("The headers that the formula chose, if it shaped its answer itself"));
    let body = ObjectBuilder::new()
        .schema_type(SchemaType::AnyValue)
        .description(Some("The body that the formula chose, if it shaped its answer itself"));
    let shaped = ObjectBuilder::new()
        .schema_type(Type::Object)
        .property("body", body)
        .property("headers", headers);
    let problem = AllOfBuilder::new()
        .item(Ref::from_schema_name("Problem"))
        .item(shaped)
        .description(Some("The problem that an asynchronous run ended with."));
    components.schemas.insert("RunProblem".to_owned(), problem.into());
    if let Some(RefOr::T(Schema::Object(run))) = components.schemas.get_mut("JobView") {
        let problem = RefOr::Ref(Ref::from_schema_name("RunProblem"));
        run.properties.insert("error".to_owned(), problem);
    }
    let path = description.paths.paths.get_mut("/reactors/{id}/react");
    let told: Option<BTreeMap<String, RefOr<PathItem>>> = serde_json::from_str(CALLBACK).ok();
    if let (Some(react), Some(told)) = (path.and_then(|path| path.post.as_mut()), told) {
        react.callbacks.insert("result".to_owned(), RefOr::T(told));
    }
}
