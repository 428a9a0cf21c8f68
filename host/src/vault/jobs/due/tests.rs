//! Places for deliveries.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;

use super::{Delivery, InHand, Pace, Places, Queue, TenantId, Timestamp};
use crate::limits::{
    DELIVERIES_PROMPT_MAX, DELIVERIES_PROMPT_PER_TENANT_MAX, DELIVERIES_SLOW_MAX,
    DELIVERIES_SLOW_PER_TENANT_MAX, DELIVERIES_UNKNOWN_MAX, DELIVERIES_UNKNOWN_PER_TENANT_MAX,
};
use crate::model::id::InvocationId;
use crate::store::Expect;
use crate::store::sled::SledStore;
use crate::vault::Vault;
use crate::vault::audit::Actor;
use crate::vault::jobs::in_hand::{Held, Told};
use crate::vault::record::from_json_text;
use crate::vault::tests::vault_at;

fn tenant(number: usize) -> TenantId {
    TenantId(uuid::Uuid::from_u128(number as u128))
}

fn name(number: usize) -> String {
    format!("host-{number}:443")
}

/// Begins as many deliveries of a tenant as there is room for, when each of its receivers wants as many as it can have,
/// the first of them first.
fn fill(in_hand: &mut InHand, tenant: TenantId, known: &HashMap<String, Pace>, all: usize) {
    let mut began = true;
    while std::mem::take(&mut began) {
        let mut places = Places::of(tenant, known.clone(), in_hand);
        for receiver in (0..all).map(name) {
            while places.has_for(&receiver) {
                let pace = places.take(receiver.clone());
                let receiver = receiver.clone();
                let (id, receiver) =
                    (InvocationId(uuid::Uuid::from_u128(0)), Some(Told { receiver, pace }));
                let held = Held { tenant, id, receiver, stands: std::sync::Arc::default() };
                in_hand.take(held, std::future::pending());
                began = true;
            }
        }
    }
}

fn of_tenant(in_hand: &InHand, tenant: TenantId) -> usize {
    in_hand.deliveries().filter(|(other, ..)| *other == tenant).count()
}

/// Ends the first one in hand that is such a one.
fn end_one(in_hand: &mut InHand, is_it: impl Fn(&Held) -> bool) {
    let found = in_hand.held.iter().find(|(_, held)| is_it(held));
    if let Some(task) = found.map(|(task, _)| *task) {
        in_hand.held.remove(&task);
    }
}

#[tokio::test]
async fn tenants_that_want_all_places_leave_some_for_who_has_none() {
    let slow: HashMap<_, _> = (0..500).map(|number| (name(number), Pace::Slow)).collect();
    let prompt: HashMap<_, _> = (0..500).map(|number| (name(number), Pace::Prompt)).collect();
    let none = HashMap::new();
    for (known, of_all) in [
        (&none, DELIVERIES_UNKNOWN_MAX),
        (&slow, DELIVERIES_SLOW_MAX),
        (&prompt, DELIVERIES_PROMPT_MAX),
    ] {
        for tenants in [1, 2, 3, 10] {
            let mut in_hand = InHand::default();
            // What one has done is not taken up by itself as long as it has more than are left.
            for _ in 0..20 {
                (0..tenants).for_each(|number| fill(&mut in_hand, tenant(number), known, 500));
                for number in 0..tenants {
                    if of_tenant(&in_hand, tenant(number)) > of_all / (tenants + 1) {
                        end_one(&mut in_hand, |held| held.tenant == tenant(number));
                    }
                }
            }
            (0..tenants).for_each(|number| fill(&mut in_hand, tenant(number), known, 500));
            let places = Places::of(tenant(100), known.clone(), &in_hand);
            assert!(places.has_for(&name(7)), "{tenants} of {of_all}");
            // And for some more of those at once.
            (100..110).for_each(|number| fill(&mut in_hand, tenant(number), known, 500));
            let none = (100..110).find(|number| of_tenant(&in_hand, tenant(*number)) == 0);
            assert!(none.is_none() || of_all == DELIVERIES_SLOW_MAX, "{none:?} of {of_all}");
            let least = (0..tenants).map(|number| of_tenant(&in_hand, tenant(number))).min();
            assert!(least >= Some(of_all / 32), "{least:?} of {of_all}");
        }
    }
}

#[tokio::test]
async fn receivers_with_very_much_to_be_told_leave_places_for_the_others_of_their_tenant() {
    let mut known: HashMap<_, _> = (0..40).map(|number| (name(number), Pace::Prompt)).collect();
    known.insert("slow:443".to_owned(), Pace::Slow);
    known.insert("idle:443".to_owned(), Pace::Prompt);
    for (tenants, many) in
        [(1, 1), (1, 8), (1, 16), (1, 17), (1, 25), (2, 8), (2, 12), (2, 20), (4, 8), (4, 12)]
    {
        let mut in_hand = InHand::default();
        (0..tenants).for_each(|number| fill(&mut in_hand, tenant(number), &known, many));
        // One after the other ends, and what it leaves is filled again.
        for receiver in (0..many).map(name).cycle().take(20 * many) {
            for number in 0..tenants {
                end_one(&mut in_hand, |held| {
                    let told = held.receiver.as_ref();
                    held.tenant == tenant(number)
                        && told.is_some_and(|told| told.receiver == receiver)
                });
                fill(&mut in_hand, tenant(number), &known, many);
            }
        }
        for number in 0..tenants {
            let places = Places::of(tenant(number), known.clone(), &in_hand);
            for other in ["idle:443", "slow:443", "new:443"] {
                assert!(places.has_for(other), "{other} beside {many} of {tenants}");
            }
        }
    }
}

#[tokio::test]
async fn no_tenant_has_the_last_places_again_and_again() {
    let slow: HashMap<_, _> = [(name(0), Pace::Slow)].into();
    let (queue, mut in_hand) = (Queue::default(), InHand::default());
    let mut told = std::collections::HashSet::new();
    let tenants = DELIVERIES_SLOW_MAX * 3 / 2;
    (0..tenants).for_each(|number| queue.deliveries_of(tenant(number)));
    for round in 0..10 * tenants {
        while let Some(next) = queue.next_for_deliveries() {
            fill(&mut in_hand, next, &slow, 1);
            queue.deliveries_later(next);
        }
        told.extend(in_hand.deliveries().map(|(tenant, ..)| tenant));
        let task = *in_hand.held.keys().nth(round % in_hand.held.len()).unwrap();
        let ended = in_hand.held.remove(&task).unwrap();
        queue.ended(ended.tenant, &ended.receiver.unwrap(), &in_hand);
    }
    assert_eq!(told.len(), tenants);
}

/// However much a tenant tells those that do not answer, and others those that do.
#[tokio::test]
async fn places_of_one_kind_are_no_matter_for_another() {
    let slow: HashMap<_, _> = (0..100).map(|number| (name(number), Pace::Slow)).collect();
    let prompt: HashMap<_, _> = (0..100).map(|number| (name(number), Pace::Prompt)).collect();
    let mut in_hand = InHand::default();
    fill(&mut in_hand, tenant(0), &slow, 200);
    (1..3).for_each(|number| fill(&mut in_hand, tenant(number), &prompt, 100));
    for number in 0..3 {
        let mut known = if number == 0 { slow.clone() } else { prompt.clone() };
        known.insert("idle:443".to_owned(), Pace::Prompt);
        let places = Places::of(tenant(number), known, &in_hand);
        assert!(places.has_for("idle:443") || number > 0);
        assert!(places.has_for("new:443") || number == 0);
    }
}

#[tokio::test]
async fn whoever_is_prompt_finds_a_place_beside_any_number_that_are_not() {
    for (pace, of_tenant, of_all) in [
        (Pace::Slow, DELIVERIES_SLOW_PER_TENANT_MAX, DELIVERIES_SLOW_MAX),
        (Pace::Unknown, DELIVERIES_UNKNOWN_PER_TENANT_MAX, DELIVERIES_UNKNOWN_MAX),
    ] {
        let known: HashMap<_, _> = (0..200)
            .map(|number| (name(number), pace))
            .filter(|(_, pace)| *pace == Pace::Slow)
            .collect();
        let mut in_hand = InHand::default();
        fill(&mut in_hand, tenant(0), &known, 200);
        assert_eq!(in_hand.deliveries().count(), of_tenant);
        let mut to: HashMap<&str, usize> = HashMap::new();
        for (.., told) in in_hand.deliveries() {
            *to.entry(&told.receiver).or_default() += 1;
        }
        assert!(to.values().all(|count| *count == 1), "{to:?}");
        (1..40).for_each(|number| fill(&mut in_hand, tenant(number), &known, 200));
        assert_eq!(in_hand.deliveries().count(), of_all);
        // In every tenant, whether it has anything in hand or not.
        for number in 0..60 {
            let mut known = known.clone();
            known.insert("prompt:443".to_owned(), Pace::Prompt);
            let places = Places::of(tenant(number), known, &in_hand);
            assert!(places.has_for("prompt:443") && !places.has_for(&name(7)));
        }
    }
}

#[tokio::test]
async fn all_of_them_together_leave_some_for_who_is_prompt() {
    let slow: HashMap<_, _> = (0..100).map(|number| (name(number), Pace::Slow)).collect();
    let mut in_hand = InHand::default();
    (0..40).for_each(|number| fill(&mut in_hand, tenant(number), &slow, 200));
    assert_eq!(in_hand.deliveries().count(), DELIVERIES_SLOW_MAX + DELIVERIES_UNKNOWN_MAX);
    // Alone, those that are prompt have all of a tenant's places.
    let prompt: HashMap<_, _> = (0..100).map(|number| (name(number), Pace::Prompt)).collect();
    let mut in_hand = InHand::default();
    fill(&mut in_hand, tenant(0), &prompt, 100);
    assert_eq!(in_hand.deliveries().count(), DELIVERIES_PROMPT_PER_TENANT_MAX);
}

/// A delivery that is due since so many milliseconds, again if it was tried.
async fn due_since(vault: &Vault, tenant: TenantId, since: (u64, bool)) -> InvocationId {
    due_until(vault, tenant, since, Timestamp(vault.now().0 + 1_000_000)).await
}

/// The same of one whose result ends at this time.
async fn due_until(
    vault: &Vault,
    tenant: TenantId,
    (ms, tried): (u64, bool),
    later: Timestamp,
) -> InvocationId {
    let (id, now) = (InvocationId(vault.draw_id()), vault.now());
    let kept = json!({"id": id, "url": "https://example.com/hook", "status": "pending", "attempts": 1,
        "tries": u8::from(tried), "in_doubt": !tried, "due_at": Timestamp(now.0 - ms), "ends_at": later, "expires_at": later, "created_at": now});
    let delivery: Delivery = from_json_text(kept.to_string().as_bytes()).unwrap();
    let mut change = vault.change(tenant).await.unwrap();
    change.put(&delivery, Expect::New).unwrap();
    change.commit(Actor::OPERATOR, Vec::new()).await.unwrap();
    id
}

#[tokio::test]
async fn of_a_slow_receiver_what_is_due_for_longest_comes_first_and_a_few_at_a_time() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SledStore::open(folder.path(), 1 << 20).unwrap());
    let vault = vault_at(100_000, store, 1 << 20).await;
    let tenant = vault.create_tenant("t", None).await.unwrap().tenant.id;
    // What was made first was tried again and again.
    let mut expected = Vec::new();
    for (ms, tried) in [
        (1_000, true),
        (30_000, true),
        (60_000, false),
        (5_000, false),
        (90_000, true),
        (2_000, true),
    ] {
        expected.push((ms, due_since(&vault, tenant, (ms, tried)).await));
    }
    let not_due = due_since(&vault, tenant, (0, true)).await;
    expected.sort_unstable();
    expected.reverse();
    vault.0.queue.receivers.note(tenant, "example.com:443", Duration::from_secs(15));
    let mut in_hand = InHand::default();
    let mut begun = Vec::new();
    while begun.len() < 4 {
        let (due, waits) = vault.due_deliveries(tenant, &in_hand).await.unwrap();
        assert!(waits && due.len() <= 1);
        for (delivery, pace) in due {
            assert_eq!(pace, Pace::Slow);
            let (id, receiver) = (delivery.entity.id, delivery.entity.receiver());
            begun.push(id);
            let receiver = Some(Told { receiver, pace });
            let held = Held { tenant, id, receiver, stands: std::sync::Arc::default() };
            in_hand.take(held, std::future::pending());
        }
        // The slow ones are looked at every now and then.
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    let ids: Vec<_> = expected.iter().map(|(_, id)| *id).collect();
    assert_eq!(begun, ids[..4]);
    assert!(!begun.contains(&not_due));
    tokio::time::sleep(Duration::from_millis(600)).await;
    assert!(vault.due_deliveries(tenant, &in_hand).await.unwrap().0.is_empty());
}

#[tokio::test]
async fn of_a_result_that_has_ended_nobody_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SledStore::open(folder.path(), 1 << 20).unwrap());
    let vault = vault_at(100_000, store, 1 << 20).await;
    let tenant = vault.create_tenant("t", None).await.unwrap().tenant.id;
    let in_hand = InHand::default();
    let now = vault.now();
    due_until(&vault, tenant, (1_000, true), now).await;
    assert!(vault.due_deliveries(tenant, &in_hand).await.unwrap().0.is_empty());
    let last = due_until(&vault, tenant, (1_000, true), Timestamp(now.0 + 1)).await;
    let (due, _) = vault.due_deliveries(tenant, &in_hand).await.unwrap();
    assert_eq!(due.iter().map(|(due, _)| due.entity.id).collect::<Vec<_>>(), [last]);
}
