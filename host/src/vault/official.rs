//! The formulas that ship with the product: every tenant sees them, nobody changes them.
//!
//! They are built from `formulas/` together with the server and lie inside its binary. To add one: a folder there.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;

use crate::crypto::hash::sha256_hex;
use crate::limits::FORMULA_MEMORY_MB_DEFAULT;
use crate::model::audit::Audit;
use crate::model::formula::{
    Formula, FormulaLimits, FormulaStatus, FormulaType, Language, Undeclared,
};
use crate::model::id::FormulaId;
use crate::model::parameter::{self, DeclarationList};
use crate::model::time::Timestamp;

include!(concat!(env!("OUT_DIR"), "/official.rs"));

/// A formula of the product.
pub struct Official {
    /// The formula.
    pub formula: Formula,
    /// Its component.
    pub component: &'static [u8],
}

/// `formula.json` beside a formula's source.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Manifest {
    id: FormulaId,
    name: String,
    description: String,
    #[serde(rename = "language")]
    _language: String,
    #[serde(default)]
    icon: Option<String>,
    #[serde(default)]
    configuration: Value,
    #[serde(default)]
    request_parameters: Value,
    #[serde(default)]
    undeclared_arguments: Undeclared,
    #[serde(default)]
    allowed_hosts: Vec<String>,
    #[serde(default)]
    limits: Option<FormulaLimits>,
}

static FORMULAS: LazyLock<Vec<Official>> = LazyLock::new(|| {
    let read = |shipped: &ShippedFormula| {
        read(shipped).map_err(|error| tracing::error!(formula = shipped.folder, %error)).ok()
    };
    SHIPPED_FORMULAS.iter().filter_map(read).collect()
});

/// The official formula of this id.
pub fn find(id: FormulaId) -> Option<&'static Official> {
    FORMULAS.iter().find(|official| official.formula.id == id)
}

/// All official formulas, with their components.
pub fn all() -> impl Iterator<Item = &'static Official> {
    FORMULAS.iter()
}

/// All official formulas.
pub fn formulas() -> impl Iterator<Item = Formula> {
    FORMULAS.iter().map(|official| official.formula.clone())
}

/// The component of an official formula, by the formula's name.
pub fn component(name: &str) -> Option<&'static [u8]> {
    let official = FORMULAS.iter().find(|official| official.formula.name == name)?;
    Some(official.component)
}

fn read(shipped: &ShippedFormula) -> Result<Official, String> {
    let manifest: Manifest =
        serde_json::from_str(shipped.manifest).map_err(|error| error.to_string())?;
    let parameters = |value: &Value, kinds| match value {
        Value::Null => Ok(Vec::new()),
        value => parameter::parse_list(value, kinds).map_err(|faults| faults.to_string()),
    };
    let default_limits = FormulaLimits { memory_mb: FORMULA_MEMORY_MB_DEFAULT };
    let formula = Formula {
        id: manifest.id,
        tenant_id: None,
        status: FormulaStatus::Verified,
        kind: FormulaType::Official,
        name: manifest.name,
        description: Some(manifest.description),
        icon: manifest.icon,
        language: Language::Wasm,
        configuration: parameters(&manifest.configuration, DeclarationList::Configuration)?,
        request_parameters: parameters(&manifest.request_parameters, DeclarationList::Request)?,
        undeclared_arguments: manifest.undeclared_arguments,
        allowed_hosts: manifest.allowed_hosts,
        limits: manifest.limits.unwrap_or(default_limits),
        component_digest: sha256_hex(shipped.component),
        // Older than anything a tenant makes, so that lists show a tenant's own formulas first.
        audit: Audit::created(None, Timestamp(0)),
    };
    Ok(Official { formula, component: shipped.component })
}

#[cfg(test)]
mod tests {
    use super::{FORMULAS, SHIPPED_FORMULAS};

    #[test]
    fn every_shipped_formula_has_a_valid_manifest_and_an_id_of_its_own() {
        assert!(SHIPPED_FORMULAS.len() >= 5);
        assert_eq!(FORMULAS.len(), SHIPPED_FORMULAS.len());
        for (index, official) in FORMULAS.iter().enumerate() {
            let same_id = |other: &super::Official| other.formula.id == official.formula.id;
            assert_eq!(FORMULAS.iter().position(same_id), Some(index));
            assert!(official.component.starts_with(b"\0asm"));
        }
    }
}
