//! `/logs` (interface §4.3).

use axum::extract::State as Shared;
use uuid::Uuid;

use super::State;
use super::declared::{ListParameters, Refusals};
use super::envelope::{Paginated, Reply};
use super::extract::Permitted;
use super::problem::Rejection;
use super::query::Query;
use crate::model::log::EntityType;
use crate::model::permission::marker::LogRead;
use crate::model::time::{Timestamp, parse_span};
use crate::vault::{EntityTypeView, LogEntry, LogFilter};

/// List log entries.
#[utoipa::path(get, operation_id = "list_logs", path = "/logs", tag = "logs",
    params(ListParameters,
        ("entity_type" = Option<EntityType>, Query, description = "About this type of entity; `token` finds cards and bank accounts too"),
        ("entity_id" = Option<String>, Query, description = "About the entity of this id"),
        ("actor_id" = Option<Uuid>, Query, description = "By this application or session; entries of versions without this filter are not found"),
        ("start_date" = Option<String>, Query, pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}",
            description = "From this time on, ISO 8601"),
        ("end_date" = Option<String>, Query, pattern = "^[0-9]{4}-[0-9]{2}-[0-9]{2}",
            description = "Before this time, ISO 8601")),
    responses((status = 200, description = "A page of entries", body = Paginated<LogEntry>), Refusals))]
pub async fn list(
    Permitted(permit): Permitted<LogRead>,
    Shared(state): Shared<State>,
    mut query: Query,
) -> Result<Reply<Paginated<LogEntry>>, Rejection> {
    let page = query.page();
    let filter = LogFilter {
        entity_type: query.parsed("entity_type"),
        entity_id: query.first("entity_id").map(str::to_owned),
        actor_id: query.read("actor_id", |id| Uuid::try_parse(id).map_err(|_| "must be a UUID")),
        start: date(&mut query, "start_date"),
        end: date(&mut query, "end_date"),
    };
    let (page, filter) = query.checked((page, filter))?;
    Ok(Reply(state.vault.list_logs(&permit, filter, &page).await?.into()))
}

/// List the types of entity that entries are about.
#[utoipa::path(get, operation_id = "list_entity_types", path = "/logs/entity-types", tag = "logs",
    responses((status = 200, description = "All types", body = Vec<EntityTypeView>), Refusals))]
pub async fn entity_types(
    Permitted(permit): Permitted<LogRead>,
    Shared(state): Shared<State>,
) -> Reply<Vec<EntityTypeView>> {
    Reply(state.vault.list_entity_types(&permit))
}

/// A date is its midnight. One before all entries or after them is as good a bound as any.
fn date(query: &mut Query, name: &str) -> Option<Timestamp> {
    query.read(name, parse_span).map(|(from, _)| from)
}
