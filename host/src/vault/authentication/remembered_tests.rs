use std::sync::Arc;

use uuid::Uuid;

use super::{Caller, Callers, KeyHash, REMEMBERED_BYTES_MAX};
use crate::model::application::Application;
use crate::model::audit::Audit;
use crate::model::id::{ApplicationId, TenantId};
use crate::model::permission::{ApplicationType, Permission};
use crate::model::rule::{Attribute, Condition, Operator, Rule, Transform};
use crate::model::time::Timestamp;

fn hash(number: u8) -> KeyHash {
    KeyHash([number; 32])
}

/// A caller whose only rule takes so many bytes, about.
fn caller(bytes: usize) -> Arc<Caller> {
    let condition = Condition {
        attribute: Attribute::Id,
        operator: Operator::Equals,
        value: "x".repeat(bytes),
    };
    let rule = Rule {
        description: None,
        priority: 1,
        container: None,
        conditions: Some(vec![condition]),
        transform: Transform::Mask,
        permissions: vec![Permission::TokenRead],
    };
    Arc::new(Caller::new(Application {
        id: ApplicationId(Uuid::nil()),
        tenant_id: TenantId(Uuid::nil()),
        name: "App".to_owned(),
        kind: ApplicationType::Private,
        permissions: Vec::new(),
        rules: vec![rule],
        audit: Audit::created(None, Timestamp(1)),
        expires_at: None,
    }))
}

#[test]
fn callers_are_remembered_by_what_they_take_of_the_memory() {
    let callers = Callers::default();
    let bytes = usize::try_from(REMEMBERED_BYTES_MAX).unwrap() / 64;
    for number in 0..=u8::MAX {
        callers.remember(hash(number), caller(bytes));
    }
    let known = || (0..=u8::MAX).filter_map(|number| callers.recall(hash(number)));
    let held: usize = known().map(|caller| caller.bytes()).sum();
    assert!(held <= usize::try_from(REMEMBERED_BYTES_MAX).unwrap(), "{held}");
    // One that is larger than all of it may be goes by as it came.
    callers.remember(hash(1), caller(64 * bytes));
    assert!(known().all(|caller| caller.bytes() < 8 * bytes));
    callers.remember(hash(2), caller(1));
    assert!(callers.recall(hash(2)).is_some());
    callers.forget_all();
    assert!(known().next().is_none());
}
