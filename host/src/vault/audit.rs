//! Log entries (interface §2.4, decisions §10).
//!
//! An entry names an entity and an operation, and never holds data, masks, keys or arguments. It goes into the very
//! commit it tells of: no log, no answer.

mod text;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use uuid::Uuid;

use super::Error;
use super::index::{Index, term, term_of};
use super::record::{Entity, kind};
use crate::crypto::keys::TenantKeys;
use crate::crypto::wiped::Wiped;
use crate::model::id::TenantId;
use crate::model::log::{ActorType, EntityType, Operation};
use crate::model::permission::Permission;
use crate::model::time::Timestamp;
use crate::store::{Kind, Term};

/// Who acts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Actor {
    /// Its id, if it is an application or a session.
    pub id: Option<Uuid>,
    /// What it is; nothing, if the server does it by itself.
    pub kind: Option<ActorType>,
}

impl Actor {
    /// A person at the command line.
    pub const OPERATOR: Self = Self { id: None, kind: Some(ActorType::User) };
    /// The server, by itself.
    pub const SERVER: Self = Self { id: None, kind: None };
}

/// The request that led to something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Request {
    /// The one under way, if there is one.
    UnderWay,
    /// An earlier one, of this trace id: that asked for a queued run.
    Earlier(String),
    /// No one of them.
    None,
}

/// What happened, before it is known when and by whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event {
    /// What it is about.
    pub entity_type: EntityType,
    /// Which one; empty when none is named.
    pub entity_id: String,
    /// What was done.
    pub operation: Operation,
    /// A sentence.
    pub message: String,
    /// Who acted, when it is not who commits: a reactor's application beside the caller of the reactor.
    pub actor: Option<Actor>,
    /// Which request led to it.
    pub request: Request,
}

impl Event {
    /// The event as somebody else's.
    pub fn by(self, actor: Actor) -> Self {
        Self { actor: Some(actor), ..self }
    }

    /// The event as what an earlier request led to.
    pub fn of_request(self, trace_id: String) -> Self {
        Self { request: Request::Earlier(trace_id), ..self }
    }

    /// The event as what no one request led to.
    pub fn of_no_request(self) -> Self {
        Self { request: Request::None, ..self }
    }

    /// Something was done.
    pub fn done(
        entity_type: EntityType,
        entity_id: impl Into<String>,
        operation: Operation,
        message: impl Into<String>,
    ) -> Self {
        Self {
            entity_type,
            entity_id: entity_id.into(),
            operation,
            message: message.into(),
            actor: None,
            request: Request::UnderWay,
        }
    }

    /// Something was attempted without the permission.
    pub fn denied(permission: Permission, entity: Option<(EntityType, &str)>) -> Self {
        let (entity_type, operation) = permission.attempt();
        let (entity_type, entity_id) = entity.unwrap_or((entity_type, ""));
        Self {
            entity_type,
            entity_id: entity_id.to_owned(),
            operation,
            message: format!("Denied: {permission}"),
            actor: None,
            request: Request::UnderWay,
        }
    }
}

/// An entry of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LogEntry {
    /// The tenant.
    pub tenant_id: TenantId,
    /// Which application or session acted; absent of the command line and of the server.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub actor_id: Option<Uuid>,
    /// What kind of actor that is: `user` is who types commands at the server. Absent of what the server does by itself.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub actor_type: Option<ActorType>,
    /// What it is about.
    pub entity_type: EntityType,
    /// Which one.
    pub entity_id: String,
    /// What was done or attempted.
    pub operation: Operation,
    /// A sentence.
    pub message: String,
    /// When.
    pub created_at: Timestamp,
    /// The `SVC-TRACE-ID` of the request that led to it, by which what a request did is found together, a run and the tokens
    /// that it was given above all; of a queued run, that of the request that asked for it. Absent of what the server does
    /// by itself, of what many requests led to, and of the command line.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trace_id: Option<String>,
}

/// An entry with the id of its record, which the log does not show.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptEntry {
    /// The record's id.
    pub id: Uuid,
    /// The entry.
    pub entry: LogEntry,
}

impl KeptEntry {
    /// What it is found by as an act of somebody's, but for one that an earlier version wrote.
    pub fn term_of_actor(&self, keys: &TenantKeys) -> Option<Term> {
        self.entry.actor_id.map(|id| term_of(keys, term::ACTOR, &[&id.to_string()]))
    }
}

impl Entity for KeptEntry {
    const KIND: Kind = kind::LOG;
    const NOUN: &'static str = "log entry";

    fn id(&self) -> String {
        self.id.to_string()
    }

    fn created_ms(&self) -> u64 {
        self.entry.created_at.0
    }

    fn index(&self, index: &mut Index<'_>) {
        let entity_type = self.entry.entity_type.as_str();
        index.term(term::ENTITY_TYPE, &[entity_type]);
        index.term(term::ENTITY_ID, &[&self.entry.entity_id]);
        if let Some(actor) = self.entry.actor_id {
            index.term(term::ACTOR, &[&actor.to_string()]);
        }
    }

    fn to_text(&self) -> Result<Wiped, Error> {
        text::write(self)
    }

    fn from_text(text: &[u8]) -> Result<Self, Error> {
        text::read(text)
    }
}
