//! What may be kept and repeated of a token: which it was, and nothing that it held.

use serde_json::{Map, Value};

use super::Token;
use crate::model::id::TenantId;
use crate::vault::record::Stored;
use crate::vault::{Error, Vault};

/// Members of a token that say which it is, and nothing of what it holds.
const OUTLINE: [&str; 6] = ["id", "tenant_id", "type", "fingerprint", "containers", "_extras"];

/// Leaves the outline of a token as it was answered.
pub fn outline(token: &mut Map<String, Value>) {
    token.retain(|name, _| OUTLINE.contains(&name.as_str()));
}

/// Goes to every token in what `tokenize` answered. All else there is objects and arrays of the caller's with ids in
/// them, and no such id is the tenant's.
pub fn each_token(
    value: &mut Value,
    tenant: TenantId,
    act: &mut impl FnMut(&mut Map<String, Value>),
) {
    match value {
        Value::Array(items) => items.iter_mut().for_each(|item| each_token(item, tenant, act)),
        Value::Object(members) => {
            let of_tenant = |id: &Value| id.as_str().is_some_and(|id| id == tenant.to_string());
            if members.get("tenant_id").is_some_and(of_tenant) {
                return act(members);
            }
            members.values_mut().for_each(|inner| each_token(inner, tenant, act));
        }
        _ => {}
    }
}

impl Vault {
    /// Leaves, of the tokens in what `tokenize` answered, the outline of those that are gone since.
    pub async fn outline_gone(&self, tenant: TenantId, answered: &mut Value) -> Result<(), Error> {
        let mut ids = Vec::new();
        let id_of = |token: &Map<String, Value>| token.get("id")?.as_str().map(str::to_owned);
        each_token(answered, tenant, &mut |token| ids.extend(id_of(token)));
        let ids: Vec<&str> = ids.iter().map(String::as_str).collect();
        if ids.is_empty() {
            return Ok(());
        }
        let found: Vec<Option<Stored<Token>>> = self.find(tenant, &ids).await?;
        let gone: Vec<&str> = ids
            .iter()
            .zip(&found)
            .filter(|(_, found)| found.is_none())
            .map(|(id, _)| *id)
            .collect();
        each_token(answered, tenant, &mut |token| {
            if id_of(token).is_some_and(|id| gone.contains(&id.as_str())) {
                outline(token);
            }
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;
    use uuid::Uuid;

    use super::{each_token, outline};
    use crate::model::id::TenantId;

    #[test]
    fn of_tokens_wherever_they_are_the_outline_is_left() {
        let tenant = TenantId(Uuid::from_u128(7));
        let token = |id: &str| {
            json!({"id": id, "tenant_id": tenant, "type": "token", "data": "secret", "mask": "x",
                "fingerprint": "f", "containers": ["/a/"], "metadata": {"k": "v"}})
        };
        let mut value = json!({"a": [token("one"), "an-id"], "b": {"c": token("two")}, "d": null,
            "tenant_id": "an id of the caller's"});
        each_token(&mut value, tenant, &mut outline);
        assert!(!value.to_string().contains("secret") && !value.to_string().contains("metadata"));
        assert_eq!(
            value["a"][0],
            json!({"id": "one", "tenant_id": tenant, "type": "token",
            "fingerprint": "f", "containers": ["/a/"]})
        );
        assert_eq!((&value["b"]["c"]["id"], &value["a"][1]), (&json!("two"), &json!("an-id")));
        let mut other = json!({"tenant_id": Uuid::from_u128(8), "data": "kept"});
        each_token(&mut other, tenant, &mut outline);
        assert_eq!(other["data"], "kept");
    }
}
