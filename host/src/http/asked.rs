//! What each operation asks of its caller: a permission, an application of a type, or any key at all.
//!
//! Handlers refuse by their extractors. This table is for what has to know before one is reached, and for the description.
//! To add an operation: its row in [`asked_for`]; a test fails for one without, and another where it is not what the
//! operation refuses for.

use http::Method;
use utoipa::openapi::{OpenApi, SecurityRequirement};

use super::openapi::{SCHEME, by_method};
use crate::model::permission::{ApplicationType, Permission};

/// Where an application may see itself without the permission to see others.
const OWN: &str = "/applications/{id}";

/// What an operation asks of its caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Asked {
    /// A permission, of its own or by a rule.
    Permission(Permission),
    /// To be an application of this type.
    Application(ApplicationType),
    /// A key.
    AnyKey,
}

/// What an operation asks for; `None` of what answers everybody, and of what is no operation.
pub fn asked_for(method: &Method, route: &str) -> Option<Asked> {
    use Permission as P;
    let permission = match (method.as_str(), route) {
        ("GET", "/applications/key" | "/permissions") => return Some(Asked::AnyKey),
        ("POST", "/sessions") => return Some(Asked::Application(ApplicationType::Public)),
        ("POST", "/sessions/authorize") => {
            return Some(Asked::Application(ApplicationType::Private));
        }
        ("POST", "/tokens" | "/tokenize") => P::TokenCreate,
        ("POST", "/tokens/search") => P::TokenSearch,
        ("GET", "/tokens" | "/tokens/{id}") | ("POST", "/detokenize") => P::TokenRead,
        ("PATCH", "/tokens/{id}") => P::TokenUpdate,
        ("DELETE", "/tokens/{id}") => P::TokenDelete,
        ("GET", "/logs" | "/logs/entity-types") => P::LogRead,
        ("POST", "/applications") => P::ApplicationCreate,
        ("GET", "/applications" | "/applications/{id}") => P::ApplicationRead,
        ("PUT", "/applications/{id}") | ("POST", "/applications/{id}/regenerate") => {
            P::ApplicationUpdate
        }
        ("DELETE", "/applications/{id}") => P::ApplicationDelete,
        ("GET", "/tenants/self") => P::TenantRead,
        ("PUT", "/tenants/self") => P::TenantUpdate,
        ("POST", "/reactor-formulas" | "/reactors") => P::ReactorCreate,
        (
            "GET",
            "/reactor-formulas"
            | "/reactor-formulas/{id}"
            | "/reactor-formulas/{id}/component"
            | "/reactors"
            | "/reactors/{id}"
            | "/reactors/{id}/invocations",
        ) => P::ReactorRead,
        (
            "PUT",
            "/reactor-formulas/{id}" | "/reactor-formulas/{id}/component" | "/reactors/{id}",
        ) => P::ReactorUpdate,
        ("DELETE", "/reactor-formulas/{id}" | "/reactors/{id}") => P::ReactorDelete,
        ("POST", "/reactors/{id}/react" | "/reactors/{id}/results/{invocation_id}/redeliver")
        | ("GET", "/reactors/{id}/results/{invocation_id}") => P::TokenUse,
        ("GET", "/webhooks/signing-secrets") => P::WebhookRead,
        ("POST", "/webhooks/signing-secrets/rotate") => P::WebhookUpdate,
        _ => return None,
    };
    Some(Asked::Permission(permission))
}

/// Says of each operation what it asks for: in a sentence, and, of a permission, as the role that the key must have.
pub fn describe(description: &mut OpenApi) {
    for (path, item) in &mut description.paths.paths {
        for (method, operation) in by_method(item) {
            let (Some(operation), Some(asked)) = (operation, asked_for(&method, path)) else {
                continue;
            };
            let (roles, mut needs) = match asked {
                Asked::Permission(permission) => {
                    (vec![permission.to_string()], format!("Needs `{permission}`."))
                }
                Asked::Application(kind) => {
                    (vec![], format!("Needs the key of a {} application.", kind.as_str()))
                }
                Asked::AnyKey => (vec![], "Any key will do.".to_owned()),
            };
            let mut either = vec![SecurityRequirement::new(SCHEME, roles)];
            if (method, path.as_str()) == (Method::GET, OWN) {
                either.push(SecurityRequirement::new(SCHEME, Vec::<String>::new()));
                needs.push_str(" Whoever asks for itself needs nothing.");
            }
            operation.security = Some(either);
            let text = operation.description.get_or_insert_default();
            if !text.is_empty() {
                text.push_str("\n\n");
            }
            text.push_str(&needs);
        }
    }
}

#[cfg(test)]
mod tests {
    use http::Method;

    use super::{Asked, asked_for};
    use crate::http::openapi::by_method;
    use crate::http::routes::description;
    use crate::model::permission::Permission;

    #[test]
    fn every_operation_but_the_open_ones_says_what_it_asks_for() {
        let mut description = description();
        let mut asked = Vec::new();
        for (path, item) in &mut description.paths.paths {
            for (method, operation) in by_method(item) {
                let Some(operation) = operation else { continue };
                let is_open = ["/healthz", "/readyz", "/metrics"].contains(&path.as_str());
                let found = asked_for(&method, path);
                assert_eq!(found.is_none(), is_open, "{method} {path}");
                let text = operation.description.as_deref().unwrap_or_default();
                assert_eq!(text.contains("Needs ") || text.contains("Any key"), !is_open, "{path}");
                asked.extend(found);
            }
        }
        // None is held for nothing.
        for permission in Permission::ALL {
            assert!(asked.contains(&Asked::Permission(*permission)), "{permission}");
        }
        assert_eq!(asked_for(&Method::PATCH, "/tokens"), None);
    }
}
