//! Reading the audit log (interface §4.3).

use std::ops::Bound;

use serde::Serialize;
use utoipa::ToSchema;
use uuid::Uuid;

use super::audit::{KeptEntry, LogEntry};
use super::index::{term, term_of};
use super::page::{Page, PageRequest};
use super::permit::Permit;
use super::{Error, Vault};
use crate::model::log::EntityType;
use crate::model::permission::marker::LogRead;
use crate::model::time::Timestamp;
use crate::store::Filter;

/// Which entries are asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct LogFilter {
    /// About this type of entity; `token` finds cards and bank accounts too.
    pub entity_type: Option<EntityType>,
    /// About the entity of this id.
    pub entity_id: Option<String>,
    /// Done or attempted by this application or session.
    pub actor_id: Option<Uuid>,
    /// From this time on.
    pub start: Option<Timestamp>,
    /// Before this time.
    pub end: Option<Timestamp>,
}

/// A type of entity, as the log names it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, ToSchema)]
pub struct EntityTypeView {
    /// For people.
    display_name: &'static str,
    /// As in an entry's `entity_type`.
    value: &'static str,
}

impl Vault {
    /// Lists entries, newest first.
    pub async fn list_logs(
        &self,
        permit: &Permit<LogRead>,
        filter: LogFilter,
        request: &PageRequest,
    ) -> Result<Page<LogEntry>, Error> {
        let keys = self.keys(permit.tenant()).await?;
        let of_type = |entity_type: EntityType| {
            let one = |found: &EntityType| {
                Filter::Term(term_of(&keys, term::ENTITY_TYPE, &[found.as_str()]))
            };
            Filter::Or(entity_type.found_by_filter().iter().map(one).collect())
        };
        let of_id = |id: &str| Filter::Term(term_of(&keys, term::ENTITY_ID, &[id]));
        let mut parts = Vec::new();
        parts.extend(filter.entity_type.map(of_type));
        if let Some(id) = filter.entity_id {
            let drawn = Uuid::try_parse(&id).map(|drawn| drawn.to_string());
            parts.push(match drawn.ok().filter(|drawn| *drawn != id) {
                // An id that was drawn is taken in any spelling where it names an entity, but for a token's, which may have
                // been given as it is.
                Some(drawn) => {
                    let no_token = Filter::Not(Box::new(of_type(EntityType::Token)));
                    Filter::Or(vec![of_id(&id), Filter::And(vec![of_id(&drawn), no_token])])
                }
                None => of_id(&id),
            });
        }
        let by = |id: Uuid| Filter::Term(term_of(&keys, term::ACTOR, &[&id.to_string()]));
        parts.extend(filter.actor_id.map(by));
        if filter.start.is_some() || filter.end.is_some() {
            parts.push(Filter::Order {
                from: filter.start.map_or(Bound::Unbounded, |start| Bound::Included(start.0)),
                to: filter.end.map_or(Bound::Unbounded, |end| Bound::Excluded(end.0)),
            });
        }
        let page = self.page::<KeptEntry>(permit.tenant(), Filter::And(parts), request).await?;
        Ok(page.map(|kept| kept.entry))
    }

    /// The types of entity an entry can be about.
    pub fn list_entity_types(&self, _permit: &Permit<LogRead>) -> Vec<EntityTypeView> {
        let view = |entity: &EntityType| EntityTypeView {
            display_name: entity.display_name(),
            value: entity.as_str(),
        };
        EntityType::ALL.iter().map(view).collect()
    }
}
