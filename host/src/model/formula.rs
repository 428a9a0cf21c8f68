//! Reactor formulas (decisions §6) and reactors (interface §2.5, decisions §7).

use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::audit::Audit;
use super::id::{ApplicationId, FormulaId, ReactorId, TenantId};
use super::parameter::Parameter;
use crate::model::plaintext::{opaque, wipe};

/// Whether a formula ships with the product or belongs to a tenant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum FormulaType {
    /// A tenant's own.
    Private,
    /// Shipped with the product, the same for every tenant, read-only.
    Official,
}

/// Where a formula stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum FormulaStatus {
    /// Checked and compiled.
    Verified,
}

/// What a formula is written in, as far as the vault can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Language {
    /// A WebAssembly component.
    Wasm,
    /// A script.
    Javascript,
}

/// What becomes of arguments that the formula does not declare.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Undeclared {
    /// They reach the formula.
    #[default]
    Forward,
    /// They do not.
    Drop,
}

/// Bounds of one invocation that a formula sets for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FormulaLimits {
    /// Memory, in MiB.
    #[schema(minimum = 1, maximum = 512)]
    pub memory_mb: u32,
}

/// A reactor formula, without its code.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Formula {
    /// Identifies the formula.
    pub id: FormulaId,
    /// The owning tenant; absent for official formulas, which every tenant sees.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub tenant_id: Option<TenantId>,
    /// Where it stands.
    pub status: FormulaStatus,
    /// Whose it is.
    #[serde(rename = "type")]
    pub kind: FormulaType,
    /// A name for people.
    #[schema(max_length = 200)]
    pub name: String,
    /// What it does.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub description: Option<String>,
    /// A picture, as a `data:` or `https:` address.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub icon: Option<String>,
    /// What it is written in.
    pub language: Language,
    /// What a reactor must configure.
    pub configuration: Vec<Parameter>,
    /// What an invocation must pass.
    pub request_parameters: Vec<Parameter>,
    /// What becomes of other arguments. Their references are replaced before they are dropped: whoever names a token there
    /// has to hold the rights, and its use is logged.
    pub undeclared_arguments: Undeclared,
    /// Where it may connect to.
    pub allowed_hosts: Vec<String>,
    /// Its bounds.
    pub limits: FormulaLimits,
    /// SHA-256 of the component or of the script, in hexadecimal.
    pub component_digest: String,
    /// Who made and changed it.
    #[serde(flatten)]
    pub audit: Audit,
}

/// A formula configured for use.
#[derive(Clone, PartialEq, Serialize, Deserialize)]
pub struct Reactor {
    /// Identifies the reactor.
    pub id: ReactorId,
    /// The owning tenant.
    pub tenant_id: TenantId,
    /// A name for people.
    pub name: String,
    /// The formula it runs.
    pub formula_id: FormulaId,
    /// Values for the formula's `configuration`.
    pub configuration: Configuration,
    /// The application whose rights its `svc` has.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub application_id: Option<ApplicationId>,
    /// Who made and changed it.
    #[serde(flatten)]
    pub audit: Audit,
}

opaque!(Reactor);

/// Values of a reactor, keys of other services among them. It wipes its texts when dropped.
#[derive(Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Configuration(Map<String, Value>);

opaque!(Configuration);

impl Configuration {
    /// Its entries, for whoever wipes them.
    pub fn take(&mut self) -> Map<String, Value> {
        std::mem::take(&mut self.0)
    }
}

impl From<Map<String, Value>> for Configuration {
    fn from(entries: Map<String, Value>) -> Self {
        Self(entries)
    }
}

impl Drop for Configuration {
    fn drop(&mut self) {
        wipe(&mut Value::Object(self.take()));
    }
}
