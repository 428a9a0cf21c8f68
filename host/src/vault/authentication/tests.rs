use std::time::Duration;

use serde_json::json;
use tokio::time::timeout;

use super::asked_by;
use crate::model::permission::marker::{
    ApplicationCreate, ApplicationDelete, ApplicationUpdate, TokenCreate, TokenRead,
};
use crate::vault::apart::every_place_of;
use crate::vault::tests::{Failing, vault, vault_on};
use crate::vault::{CreateToken, Error, WriteApplication, sharing};

const SOON: Duration = Duration::from_millis(50);

/// A token that is much to read.
fn large(id: &str) -> CreateToken {
    let body = json!({"id": id, "type": "token", "data": "a".repeat(100_000)});
    serde_json::from_value(body).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_ended_while_something_waited_for_its_turn_gets_none_of_it() {
    let folder = tempfile::tempdir().unwrap();
    let vault = vault(folder.path(), 1 << 20).await;
    let made = vault.create_tenant("t", None).await.unwrap();
    let tenant = made.tenant.id;
    let manager = vault.authenticate(Some(made.management_key)).await.unwrap();
    let creates = vault.permit::<ApplicationCreate>(&manager, None).await.unwrap();
    let deletes = vault.permit::<ApplicationDelete>(&manager, None).await.unwrap();
    let rule = json!({"priority": 1, "container": "/", "transform": "reveal",
        "permissions": ["token:create", "token:read"]});
    let body = json!({"name": "a", "type": "private", "rules": [rule]});
    for (number, reads) in [true, false].into_iter().enumerate() {
        let body: WriteApplication = serde_json::from_value(body.clone()).unwrap();
        let application = vault.create_application(&creates, body).await.unwrap();
        let who = vault.authenticate(Some(application.key)).await.unwrap();
        let (there, new) = (format!("there-{number}"), format!("new-{number}"));
        let permit = vault.permit::<TokenCreate>(&who, None).await.unwrap();
        vault.create_token(&permit, large(&there)).await.unwrap();

        let places = every_place_of(tenant).await;
        let asked = sharing(None, async {
            asked_by(&who);
            if reads {
                let permit = vault.permit::<TokenRead>(&who, None).await?;
                vault.find_token(&permit, &there).await.map(drop)
            } else {
                crate::vault::apart(tenant, 100_000).await;
                vault.create_token(&permit, large(&new)).await.map(drop)
            }
        });
        let mut asked = Box::pin(asked);
        assert!(timeout(SOON, &mut asked).await.is_err());
        vault.delete_application(&deletes, application.application.id).await.unwrap();
        drop(places);
        assert!(matches!(asked.await.0, Err(Error::Unauthenticated)), "{reads}");
        let stored = vault.find::<crate::vault::tokens::Token>(tenant, &[&new]).await.unwrap();
        assert!(stored.iter().all(Option::is_none), "{reads}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_key_that_is_revoked_while_it_is_looked_up_is_not_remembered() {
    let folder = tempfile::tempdir().unwrap();
    let store = Failing::on(folder.path());
    let vault = vault_on(store.clone(), 1 << 20).await;
    let made = vault.create_tenant("t", None).await.unwrap();
    let manager = vault.authenticate(Some(made.management_key)).await.unwrap();
    let creates = vault.permit::<ApplicationCreate>(&manager, None).await.unwrap();
    let updates = vault.permit::<ApplicationUpdate>(&manager, None).await.unwrap();
    let deletes = vault.permit::<ApplicationDelete>(&manager, None).await.unwrap();
    for is_deleted in [true, false] {
        let body = json!({"name": "a", "type": "private", "permissions": ["token:read"]});
        let body: WriteApplication = serde_json::from_value(body).unwrap();
        let made = vault.create_application(&creates, body).await.unwrap();
        let id = made.application.id;
        let look = store.hold_next_look();
        let revoked = async {
            look.found.await.unwrap();
            if is_deleted {
                vault.delete_application(&deletes, id).await.unwrap();
            } else {
                vault.regenerate_key(&updates, id).await.unwrap();
            }
            look.go.send(()).unwrap();
        };
        // Who asked before may be let in once more.
        let (_, ()) = tokio::join!(vault.authenticate(Some(made.key.clone())), revoked);
        let again = vault.authenticate(Some(made.key)).await;
        assert!(matches!(again, Err(Error::Unauthenticated)), "{is_deleted}");
    }
}
