//! Reading the audit log (interface §4.3).

use std::ops::Bound;

use serde::Serialize;
use utoipa::ToSchema;

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
        let mut parts = Vec::new();
        if let Some(entity_type) = filter.entity_type {
            let of_type = |found: &EntityType| {
                Filter::Term(term_of(&keys, term::ENTITY_TYPE, &[found.as_str()]))
            };
            parts.push(Filter::Or(entity_type.found_by_filter().iter().map(of_type).collect()));
        }
        if let Some(id) = filter.entity_id {
            parts.push(Filter::Term(term_of(&keys, term::ENTITY_ID, &[&id])));
        }
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
