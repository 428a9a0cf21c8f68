//! Everything of a token but its `data`, as it is kept.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use uuid::Uuid;

use crate::model::audit::Audit;
use crate::model::container::Container;
use crate::model::id::TenantId;
use crate::model::rule::Subject;
use crate::model::time::Timestamp;

/// Everything of a token but its `data`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(from = "Flat")]
pub struct About {
    /// Its id.
    pub id: String,
    /// Its tenant.
    pub tenant_id: TenantId,
    /// Its type's name.
    #[serde(rename = "type")]
    pub type_name: String,
    /// The mask: a text or any JSON with expressions in it; absent when the token has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub mask: Option<Value>,
    /// Equal for equal contents.
    pub fingerprint: String,
    /// Where it lies.
    pub containers: Vec<Container>,
    /// Non-sensitive notes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub metadata: Option<BTreeMap<String, String>>,
    /// The index expressions it was made with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub search_indexes: Option<Vec<String>>,
    /// The fingerprint expression it was made with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub fingerprint_expression: Option<String>,
    /// Whether it was to be deduplicated.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub deduplicate_token: Option<bool>,
    /// When it ends.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<Timestamp>,
    /// Until when members that must not stay, such as a card's `cvc`, are kept.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub transient_until: Option<Timestamp>,
    /// Whether it has lain elsewhere: then where it lay last is kept when it goes.
    #[serde(skip)]
    pub moved: bool,
    /// Who made and changed it.
    #[serde(flatten)]
    pub audit: Audit,
}

impl About {
    /// What rules look at.
    pub fn subject(&self) -> Subject<'_> {
        Subject { id: &self.id, containers: &self.containers }
    }
}

/// As it is read: what stands in an [`Audit`] is found without looking at every member twice, which `flatten` does. A list
/// reads twenty.
#[derive(Deserialize)]
struct Flat {
    id: String,
    tenant_id: TenantId,
    #[serde(rename = "type")]
    type_name: String,
    #[serde(default)]
    mask: Option<Value>,
    fingerprint: String,
    containers: Vec<Container>,
    #[serde(default)]
    metadata: Option<BTreeMap<String, String>>,
    #[serde(default)]
    search_indexes: Option<Vec<String>>,
    #[serde(default)]
    fingerprint_expression: Option<String>,
    #[serde(default)]
    deduplicate_token: Option<bool>,
    #[serde(default)]
    expires_at: Option<Timestamp>,
    #[serde(default)]
    transient_until: Option<Timestamp>,
    #[serde(default)]
    created_by: Option<Uuid>,
    created_at: Timestamp,
    #[serde(default)]
    modified_by: Option<Uuid>,
    #[serde(default)]
    modified_at: Option<Timestamp>,
}

impl From<Flat> for About {
    fn from(flat: Flat) -> Self {
        let Flat { created_by, created_at, modified_by, modified_at, .. } = flat;
        Self {
            id: flat.id,
            tenant_id: flat.tenant_id,
            type_name: flat.type_name,
            mask: flat.mask,
            fingerprint: flat.fingerprint,
            containers: flat.containers,
            metadata: flat.metadata,
            search_indexes: flat.search_indexes,
            fingerprint_expression: flat.fingerprint_expression,
            deduplicate_token: flat.deduplicate_token,
            expires_at: flat.expires_at,
            transient_until: flat.transient_until,
            // Tokens that are kept as JSON are from before that was noted.
            moved: false,
            audit: Audit { created_by, created_at, modified_by, modified_at },
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::About;

    #[test]
    fn it_is_read_as_it_was_written() {
        let least = json!({"id": "a", "tenant_id": uuid::Uuid::nil(), "type": "token",
            "fingerprint": "f", "containers": ["/a/"], "created_at": "2030-08-26T19:23:57.000+00:00"});
        let mut most = least.clone();
        for (name, value) in [
            ("mask", json!({"a": ["{{ data }}"]})),
            ("metadata", json!({"a": "b"})),
            ("search_indexes", json!(["{{ data }}"])),
            ("fingerprint_expression", json!("{{ data }}")),
            ("deduplicate_token", json!(true)),
            ("expires_at", json!("2031-08-26T19:23:57.000+00:00")),
            ("transient_until", json!("2031-08-26T19:23:57.000+00:00")),
            ("created_by", json!(uuid::Uuid::max())),
            ("modified_by", json!(uuid::Uuid::max())),
            ("modified_at", json!("2031-08-26T19:23:57.000+00:00")),
        ] {
            most[name] = value;
        }
        for written in [least, most] {
            let read: About = serde_json::from_value(written.clone()).unwrap();
            assert_eq!(serde_json::to_value(&read).unwrap(), written);
        }
    }
}
