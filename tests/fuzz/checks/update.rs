//! JSON Merge Patch on tokens, through the vault: whatever the patch, the answer is no fault of the
//! server's, a patch that is refused changes nothing, and after any other the token is what RFC
//! 7396 says, valid, readable and found.
//!
//! An input is the type of a token on its first line and a patch on each line that follows.

use std::sync::{LazyLock, Mutex, PoisonError};

use serde_json::{Map, Value, json};
use tokamak::crypto::api_key::ApiKey;
use tokamak::limits::{JSON_DEPTH_MAX, TOKEN_DATA_BYTES_MAX};
use tokamak::model::depth::is_within;
use tokamak::model::member;
use tokamak::model::permission::marker::{
    ApplicationCreate, TokenCreate, TokenDelete, TokenRead, TokenSearch, TokenUpdate,
};
use tokamak::token_type::TokenType;
use tokamak::vault::{Authenticated, Error, Permit, Vault};

use super::{merge_patch, timely, world};

/// Patches of one input.
const PATCHES_MAX: usize = 4;
/// Metadata and containers that a token is searched by.
const SEARCHED_MAX: usize = 8;

/// Inputs after which everything is made anew: their log would look like a leak.
const INPUTS_MAX: u32 = 10_000;

static WORLD: LazyLock<Mutex<World>> = LazyLock::new(|| Mutex::new(World::new()));

/// Checks one input.
pub fn check(input: &str) {
    let (name, patches) = input.split_once('\n').unwrap_or(("token", input));
    let kind = name.parse().unwrap_or_else(|_| TokenType::generic());
    let id = format!("{kind}-one");
    let mut world = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    world.inputs += 1;
    if world.inputs > INPUTS_MAX {
        *world = World::new();
    }
    let mut changed = false;
    for patch in patches.lines().take(PATCHES_MAX) {
        let Ok(patch) = serde_json::from_str::<Value>(patch) else { continue };
        // Every way to the vault refuses what a record could not keep.
        if !is_within(&patch, JSON_DEPTH_MAX) {
            continue;
        }
        changed |= world.patch(kind, &id, &patch);
    }
    if changed {
        world.make_anew(kind, &id);
    }
}

/// A vault with two tokens of each type.
struct World {
    base: world::World,
    inputs: u32,
    create: Permit<TokenCreate>,
    update: Permit<TokenUpdate>,
    read: Permit<TokenRead>,
    read_masked: Permit<TokenRead>,
    search: Permit<TokenSearch>,
    delete: Permit<TokenDelete>,
}

impl World {
    fn new() -> Self {
        let base = world::World::new();
        let vault = base.vault.clone();
        let world = base.tokio.block_on(async {
            let key = ApiKey::given(base.management.clone());
            let manager = vault.authenticate(Some(key)).await.unwrap();
            let manage = vault.permit(&manager, None).await.unwrap();
            let who = holder(&vault, &manage, "reveal").await;
            let masked = holder(&vault, &manage, "mask").await;
            let create = vault.permit(&who, None).await.unwrap();
            let update = vault.permit(&who, None).await.unwrap();
            let read = vault.permit(&who, None).await.unwrap();
            let read_masked = vault.permit(&masked, None).await.unwrap();
            let search = vault.permit(&who, None).await.unwrap();
            let delete = vault.permit(&who, None).await.unwrap();
            (create, update, read, read_masked, search, delete)
        });
        let (create, update, read, read_masked, search, delete) = world;
        let world = Self { base, inputs: 0, create, update, read, read_masked, search, delete };
        for kind in TokenType::all() {
            for (twin, name) in ["one", "two"].into_iter().enumerate() {
                world.make(kind, &format!("{kind}-{name}"), twin);
            }
        }
        world
    }

    fn make(&self, kind: TokenType, id: &str, twin: usize) {
        let (card, account) = (["4242424242424242", "378282246310005"], ["123456", "654321"]);
        let data = match kind.as_str() {
            "card" => json!({"number": card[twin], "expiration_month": 12, "cvc": "123"}),
            "bank" => json!({"routing_number": "021000021", "account_number": account[twin]}),
            "card_number" => json!(card[twin]),
            "us_bank_account_number" => json!(account[twin]),
            "us_bank_routing_number" => json!(["021000021", "011000015"][twin]),
            "social_security_number" | "employer_id_number" => {
                json!(["123-45-6789", "987654321"][twin])
            }
            _ => json!({"n": twin, "list": [1, {"a": null}], "object": {"a": {"b": "c"}}}),
        };
        let metadata = json!({"customer": "18", "tier": "Gold"});
        let body = json!({"id": id, "type": kind, "data": data, "metadata": metadata});
        let made = self.base.vault.create_token(&self.create, member::read(body).unwrap());
        self.base.tokio.block_on(made).unwrap();
    }

    fn make_anew(&self, kind: TokenType, id: &str) {
        match self.base.tokio.block_on(self.base.vault.delete_token(&self.delete, id)) {
            Ok(()) | Err(Error::NotFound(_)) => self.make(kind, id, 0),
            Err(error) => panic!("{error}"),
        }
    }

    fn find(&self, permit: &Permit<TokenRead>, id: &str) -> Result<Map<String, Value>, Error> {
        let view = self.base.tokio.block_on(self.base.vault.find_token(permit, id))?;
        match serde_json::to_value(view).unwrap() {
            Value::Object(view) => Ok(view),
            other => panic!("{other}"),
        }
    }

    /// Patches the token and checks what became of it; whether it has changed.
    fn patch(&self, kind: TokenType, id: &str, patch: &Value) -> bool {
        let Ok(body) = member::read(patch.clone()) else { return false };
        let Ok(before) = self.find(&self.read, id) else { return true };
        let update = self.base.vault.update_token(&self.update, id, body);
        let view = match timely("updating", || self.base.tokio.block_on(update)) {
            Ok(view) => view,
            Err(error) => {
                assert!(error.describe().status < 500, "{error}");
                assert_eq!(self.find(&self.read, id).unwrap(), before, "refused: {error}");
                return false;
            }
        };
        if view.is_deduplicated() {
            // It gave way to its twin.
            assert_eq!(view.id(), format!("{kind}-two"));
            assert!(matches!(self.find(&self.read, id), Err(Error::NotFound(_))));
            return true;
        }
        let after = self.find(&self.read, id).unwrap();
        assert_eq!(serde_json::to_value(view).unwrap(), Value::Object(after.clone()));
        check_patched(kind, &before, patch, &after);
        self.check_others_see(id, &after);
        true
    }

    fn check_others_see(&self, id: &str, after: &Map<String, Value>) {
        let masked = self.find(&self.read_masked, id).unwrap();
        assert!(after.contains_key("mask") || !masked.contains_key("data"), "shown without a mask");
        let mut terms = vec![
            format!("id:{}", quoted(id)),
            format!("fingerprint:{}", quoted(after["fingerprint"].as_str().unwrap())),
        ];
        let metadata = after.get("metadata").and_then(Value::as_object).into_iter().flatten();
        for (key, value) in metadata.take(SEARCHED_MAX) {
            let key: String = key.chars().flat_map(|c| ['\\', c]).collect();
            terms.push(format!("metadata.{key}:{}", quoted(value.as_str().unwrap())));
        }
        for container in after["containers"].as_array().unwrap().iter().take(SEARCHED_MAX) {
            terms.push(format!("container:{}", quoted(container.as_str().unwrap())));
        }
        let body = member::read(json!({"query": terms.join(" AND ")})).unwrap();
        let found =
            self.base.tokio.block_on(self.base.vault.search_tokens(&self.search, body)).unwrap();
        assert_eq!(found.total_items, 1, "{terms:?}");
    }
}

/// An application that sees every token like this.
async fn holder(
    vault: &Vault,
    permit: &Permit<ApplicationCreate>,
    transform: &str,
) -> Authenticated {
    let permissions = ["create", "update", "read", "search", "delete"];
    let permissions = permissions.map(|operation| format!("token:{operation}"));
    let body = json!({
        "name": transform, "type": "private",
        "rules": [{
            "priority": 1, "container": "/", "transform": transform, "permissions": permissions,
        }],
    });
    let made = vault.create_application(permit, member::read(body).unwrap()).await.unwrap();
    vault.authenticate(Some(made.key)).await.unwrap()
}

/// What must hold for a token that was patched.
fn check_patched(
    kind: TokenType,
    before: &Map<String, Value>,
    patch: &Value,
    after: &Map<String, Value>,
) {
    let patched = |name: &str| match patch.get(name) {
        None => before.get(name).cloned(),
        Some(patch) => Some(merge_patch(before.get(name), patch)),
    };
    for name in ["id", "type", "tenant_id", "created_at", "created_by"] {
        assert_eq!(before.get(name), after.get(name), "{name}");
    }
    assert_eq!(Some(&after["data"]), patched("data").as_ref());
    assert!(kind.validate(&after["data"]).is_ok());
    assert!(after["data"].to_string().len() <= TOKEN_DATA_BYTES_MAX);
    let metadata = patched("metadata").filter(|metadata| !metadata.is_null());
    let none = || json!({});
    assert_eq!(after.get("metadata").cloned().unwrap_or_else(none), metadata.unwrap_or_else(none));
    match (before.get("mask"), after.get("mask")) {
        (Some(Value::Object(was)), Some(Value::Object(is))) if patch.get("mask").is_none() => {
            // It shows nothing else, and loses only what is the default's of data that is gone.
            assert!(is.iter().all(|(name, mask)| was.get(name) == Some(mask)));
            let default = kind.default_mask(&before["data"]).unwrap_or_default();
            for (name, mask) in was.iter().filter(|(name, _)| !is.contains_key(*name)) {
                assert_eq!(default.get(name), Some(mask));
                assert!(after["data"].get(name).is_none_or(Value::is_null), "{name}");
            }
        }
        (_, is) => assert_eq!(is.cloned(), patched("mask").filter(|mask| !mask.is_null())),
    }
    for name in ["containers", "fingerprint_expression", "deduplicate_token", "expires_at"] {
        if patch.get(name).is_none() {
            assert_eq!(before.get(name), after.get(name), "{name}");
        }
    }
}

fn quoted(value: &str) -> String {
    format!("\"{}\"", value.replace('\\', "\\\\").replace('"', "\\\""))
}
