//! What is kept of an invocation: how it went, never what went in or came out.

mod text;

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::audit::Event;
use super::index::{Index, term, term_of};
use super::page::{Page, PageRequest};
use super::permit::Permit;
use super::record::{Entity, kind};
use super::{Error, Vault};
use crate::crypto::wiped::Wiped;
use crate::limits::INVOCATION_KEPT_MS;
use crate::model::formula::Reactor;
use crate::model::id::{InvocationId, ReactorId};
use crate::model::log::{EntityType, Operation};
use crate::model::permission::marker::ReactorRead;
use crate::model::time::Timestamp;
use crate::runtime::LogLine;
use crate::store::{Filter, Kind};

/// How an invocation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum InvocationStatus {
    /// The formula answered.
    Completed,
    /// It failed.
    Failed,
}

/// A line that a formula logged or printed, or what the server says of a run that it ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct LineView {
    /// `trace` to `error`, `stdout` or `stderr`; `server` where it is the server's.
    pub level: String,
    /// The text.
    pub message: String,
}

/// One invocation of a reactor.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Invocation {
    /// Identifies the invocation.
    pub id: InvocationId,
    /// The reactor.
    pub reactor_id: ReactorId,
    /// How it ended.
    pub status: InvocationStatus,
    /// The title of the problem it ended with.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub error: Option<String>,
    /// Time from start to end, in microseconds.
    pub elapsed_us: u64,
    /// Fuel used, at least: about one unit for each WebAssembly instruction.
    pub fuel: u64,
    /// Most memory held, in bytes.
    pub memory_peak_bytes: u64,
    /// What the formula logged and printed, at most 64 KiB.
    pub log: Vec<LineView>,
    /// Whether it logged or printed more than that.
    pub log_truncated: bool,
    /// When it began.
    pub created_at: Timestamp,
    /// When it ended; lists show what ended last first.
    pub finished_at: Timestamp,
    /// The `SVC-TRACE-ID` of the request that asked for it; entries of the log about it and its tokens have the same.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub trace_id: Option<String>,
}

/// The level of a line that is the server's own.
pub const SERVER_LEVEL: &str = "server";

/// An invocation, as a response shows it.
pub type InvocationView = Invocation;

impl LineView {
    /// What the server says.
    pub(super) fn of_the_server(message: String) -> Self {
        Self { level: SERVER_LEVEL.to_owned(), message }
    }
}

impl From<LogLine> for LineView {
    fn from(line: LogLine) -> Self {
        Self { level: line.level.as_str().to_owned(), message: line.message }
    }
}

impl Entity for Invocation {
    const KIND: Kind = kind::INVOCATION;
    const NOUN: &'static str = "invocation";

    fn id(&self) -> String {
        self.id.to_string()
    }

    /// The time it is stored at: a record among older ones would cost what lies behind it.
    fn created_ms(&self) -> u64 {
        self.finished_at.0
    }

    fn expires_ms(&self) -> Option<u64> {
        Some(self.finished_at.0 + INVOCATION_KEPT_MS)
    }

    fn index(&self, index: &mut Index<'_>) {
        index.term(term::REACTOR, &[&self.reactor_id.to_string()]);
    }

    fn to_text(&self) -> Result<Wiped, Error> {
        text::write(self)
    }

    fn from_text(text: &[u8]) -> Result<Self, Error> {
        text::read(text)
    }
}

impl Vault {
    /// Lists a reactor's invocations of the last days, newest first.
    pub async fn list_invocations(
        &self,
        permit: &Permit<ReactorRead>,
        id: ReactorId,
        request: &PageRequest,
    ) -> Result<Page<InvocationView>, Error> {
        let tenant = permit.tenant();
        self.get::<Reactor>(tenant, &id.to_string()).await?;
        let keys = self.keys(tenant).await?;
        let of_reactor = Filter::Term(term_of(&keys, term::REACTOR, &[&id.to_string()]));
        let page = self.page::<Invocation>(tenant, of_reactor, request).await?;
        let message = "Invocations listed";
        let event = Event::done(EntityType::Reactor, id, Operation::Read, message);
        self.log(tenant, permit.actor(), vec![event]).await?;
        Ok(page)
    }
}
