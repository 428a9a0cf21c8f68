use std::future::Future;
use std::ops::Bound;
use std::path::Path;
use std::time::Duration;

use futures::future::BoxFuture;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::model::id::{ApplicationId, TenantId};
use crate::model::permission::marker::{ApplicationCreate, ApplicationUpdate, TokenCreate};
use crate::runtime::{GuestProblem, GuestVault as _};
use crate::store::Filter;
use crate::vault::apart::every_place_of;
use crate::vault::page::PageRequest;
use crate::vault::svc::Svc;
use crate::vault::tests::vault;
use crate::vault::tokens::Token;
use crate::vault::{
    Authenticated, CreateToken, Error, Vault, WriteApplication, asked_by, index, sharing,
};

const SOON: Duration = Duration::from_millis(50);

fn token(body: Value) -> CreateToken {
    serde_json::from_value(body).unwrap()
}

fn application(permissions: &[&str]) -> WriteApplication {
    let body = json!({"name": "a", "type": "private", "permissions": permissions});
    serde_json::from_value(body).unwrap()
}

/// A vault with a tenant, and an application of it that may store and read tokens.
struct Start {
    vault: Vault,
    tenant: TenantId,
    manager: Authenticated,
    application: ApplicationId,
    who: Authenticated,
}

async fn start(folder: &Path) -> Start {
    let vault = vault(folder, 1 << 20).await;
    let made = vault.create_tenant("t", None).await.unwrap();
    let manager = vault.authenticate(Some(made.management_key)).await.unwrap();
    let creates = vault.permit::<ApplicationCreate>(&manager, None).await.unwrap();
    let body = application(&["token:create", "token:read"]);
    let issued = vault.create_application(&creates, body).await.unwrap();
    let who = vault.authenticate(Some(issued.key)).await.unwrap();
    let (tenant, application) = (made.tenant.id, issued.application.id);
    Start { vault, tenant, manager, application, who }
}

/// Whether something waits for its tenant's row; it is seen to its end then.
async fn waits(tenant: TenantId, run: impl Future<Output = Result<(), Error>>) -> bool {
    let places = every_place_of(tenant).await;
    let mut run = Box::pin(sharing(None, run));
    let waited = timeout(SOON, &mut run).await.is_err();
    drop(places);
    if waited {
        run.await.0.unwrap();
    }
    waited
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_much_to_look_for_is_looked_for_apart() {
    let folder = tempfile::tempdir().unwrap();
    let Start { vault, tenant, .. } = start(folder.path()).await;
    let range = || Filter::Range {
        field: index::number::EXPIRES_AT,
        from: Bound::Unbounded,
        to: Bound::Included(7),
    };
    for (ranges, expected) in [(0, false), (8, false), (64, true)] {
        let filter = Filter::Or((0..ranges).map(|_| range()).collect());
        let look =
            async { vault.page::<Token>(tenant, filter, &PageRequest::first()).await.map(drop) };
        assert_eq!(waits(tenant, look).await, expected, "{ranges}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn that_an_id_is_taken_is_seen_without_what_it_is_of() {
    let folder = tempfile::tempdir().unwrap();
    let Start { vault, tenant, who, .. } = start(folder.path()).await;
    let permit = vault.permit::<TokenCreate>(&who, None).await.unwrap();
    let large = token(json!({"id": "large", "type": "token", "data": "a".repeat(100_000)}));
    vault.create_token(&permit, large).await.unwrap();
    let again = async {
        let small = token(json!({"id": "large", "type": "token", "data": "b"}));
        let refused = vault.create_token(&permit, small).await.map(drop);
        assert!(matches!(refused, Err(Error::IdTaken(_))), "{refused:?}");
        Ok(())
    };
    assert!(!waits(tenant, again).await);
    assert_eq!(vault.are_taken::<Token>(tenant, &["large", "none"]).await.unwrap(), [true, false]);
    // One of the same contents is shown instead, and so it is read.
    let small = |data: &str| {
        token(
            json!({"type": "token", "data": data, "fingerprint_expression": "{{ data | slice: 0 }}",
            "deduplicate_token": true}),
        )
    };
    vault.create_token(&permit, small(&"a".repeat(100_000))).await.unwrap();
    let same = async { vault.create_token(&permit, small("ab")).await.map(drop) };
    assert!(waits(tenant, same).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn whose_rights_change_while_it_waits_is_to_try_again() {
    let folder = tempfile::tempdir().unwrap();
    let Start { vault, tenant, manager, application: id, who } = start(folder.path()).await;
    let updates = vault.permit::<ApplicationUpdate>(&manager, None).await.unwrap();
    let places = every_place_of(tenant).await;
    let mut looks = Box::pin(sharing(None, async {
        asked_by(&who);
        vault.go_apart(tenant).await
    }));
    assert!(timeout(SOON, &mut looks).await.is_err());
    vault.update_application(&updates, id, application(&["token:read"])).await.unwrap();
    drop(places);
    assert!(matches!(looks.await.0, Err(Error::Busy(told)) if told.contains("was changed")));
}

type Asks = fn(&Svc) -> BoxFuture<'_, Result<String, GuestProblem>>;

/// By every way in which a formula is given what a token holds.
#[tokio::test(flavor = "multi_thread")]
async fn a_formula_whose_rights_change_while_it_waits_is_to_try_again() {
    let folder = tempfile::tempdir().unwrap();
    let Start { vault, tenant, manager, application: id, who } = start(folder.path()).await;
    let creates = vault.permit::<TokenCreate>(&who, None).await.unwrap();
    let large = token(json!({"id": "large", "type": "token", "data": "a".repeat(100_000)}));
    vault.create_token(&creates, large).await.unwrap();
    let updates = vault.permit::<ApplicationUpdate>(&manager, None).await.unwrap();
    let reveals: WriteApplication = serde_json::from_value(json!({
        "name": "a", "type": "private",
        "rules": [{"priority": 1, "container": "/", "transform": "reveal",
            "permissions": ["token:read", "token:search"]}],
    }))
    .unwrap();
    let asks: [Asks; 4] = [
        |svc| svc.get_token("large".to_owned()),
        |svc| svc.detokenize(r#""{{ large }}""#.to_owned()),
        |svc| svc.list_tokens("{}".to_owned()),
        |svc| svc.search_tokens("{}".to_owned()),
    ];
    for (number, ask) in asks.iter().enumerate() {
        vault.update_application(&updates, id, reveals.clone()).await.unwrap();
        let who = vault.as_it_is_now(&who).await.unwrap().unwrap();
        let svc = Svc::new(vault.clone(), who);
        assert!(ask(&svc).await.unwrap().contains("aaaa"), "{number}");
        let places = every_place_of(tenant).await;
        let mut asked = ask(&svc);
        assert!(timeout(SOON, &mut asked).await.is_err(), "{number}");
        vault.update_application(&updates, id, application(&["token:create"])).await.unwrap();
        drop(places);
        let refused = asked.await.unwrap_err();
        assert_eq!(
            (refused.status, refused.detail.contains("was changed")),
            (429, true),
            "{number}"
        );
    }
}
