//! Denied attempts in the log: the first ones each, a flood of them by its number.
//!
//! Who is known and may not do what it attempts could otherwise fill the disk. An attempt is counted with those of the
//! same actor and the same kind; the first in a minute are entries of their own, the rest is one entry that tells how
//! many there were. What the store does not take is counted, and told of later. A process that is killed takes the counts of up
//! to two minutes with it, or of all the time that its store took nothing. Attempts with a key that is nobody's belong to
//! no tenant and are only counted.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use uuid::Uuid;

use super::audit::{Actor, Event};
use super::{Error, Vault};
use crate::limits::{
    DENIALS_COUNTED_MAX, DENIALS_COUNTED_TENANT_MAX, DENIALS_LOGGED_MAX, DENIALS_WINDOW_MS,
};
use crate::model::id::TenantId;
use crate::model::log::{ActorType, EntityType};

/// Denied attempts of late.
#[derive(Default)]
pub struct Denials {
    windows: Mutex<Windows>,
    unknown_keys: AtomicU64,
    unknown_keys_told: AtomicU64,
}

/// Attempts by tenant: one that has many actors takes no other one's place.
#[derive(Default)]
struct Windows {
    by_tenant: HashMap<TenantId, HashMap<Attempt, Window>>,
    count: usize,
}

/// Who attempted what.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Attempt {
    /// Nobody in particular, once there are too many.
    actor_id: Option<Uuid>,
    actor_type: Option<ActorType>,
    entity_type: EntityType,
    operation: &'static str,
    message: String,
}

/// The attempts of a minute.
struct Window {
    since_ms: u64,
    logged: u32,
    counted: u64,
    actor: Actor,
    event: Event,
}

/// Attempts that were counted, of which one entry is to tell.
struct Summary {
    tenant: TenantId,
    actor: Actor,
    event: Event,
    counted: u64,
}

impl Summary {
    fn event(&self) -> Event {
        let Self { counted, event, .. } = self;
        let message = format!("{}, {counted} more times", event.message);
        Event { entity_id: String::new(), message, ..event.clone() }
    }
}

impl Windows {
    /// The one that an attempt belongs to.
    fn of(&mut self, tenant: TenantId, actor: Actor, event: &Event, now_ms: u64) -> &mut Window {
        let mut attempt = Attempt {
            actor_id: actor.id,
            actor_type: actor.kind,
            entity_type: event.entity_type,
            operation: event.operation.as_str(),
            message: event.message.clone(),
        };
        let of_tenant = self.by_tenant.entry(tenant).or_default();
        let are_many =
            of_tenant.len() >= DENIALS_COUNTED_TENANT_MAX || self.count >= DENIALS_COUNTED_MAX;
        if are_many && !of_tenant.contains_key(&attempt) {
            attempt.actor_id = None;
        }
        // Whose attempts are counted together, none of them is to be named for all.
        let actor = Actor { id: attempt.actor_id, kind: actor.kind };
        match of_tenant.entry(attempt) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(free) => {
                self.count += 1;
                free.insert(Window::new(actor, event, now_ms))
            }
        }
    }
}

impl Window {
    fn new(actor: Actor, event: &Event, now_ms: u64) -> Self {
        Self { since_ms: now_ms, logged: 0, counted: 0, actor, event: event.clone() }
    }

    fn is_over(&self, now_ms: u64) -> bool {
        // A clock that was set back must not keep it open.
        self.since_ms.abs_diff(now_ms) >= DENIALS_WINDOW_MS
    }

    fn summary(&self, tenant: TenantId) -> Option<Summary> {
        let Self { counted, actor, .. } = *self;
        let event = self.event.clone();
        (counted > 0).then_some(Summary { tenant, actor, event, counted })
    }
}

impl Denials {
    /// Counts an attempt. Whether it is to be logged, and what is to be logged of those before.
    fn count(
        &self,
        tenant: TenantId,
        actor: Actor,
        event: &Event,
        now_ms: u64,
    ) -> (bool, Option<Summary>) {
        let mut windows = self.windows.lock();
        let window = windows.of(tenant, actor, event, now_ms);
        let before = if window.is_over(now_ms) {
            let before = window.summary(tenant);
            *window = Window::new(window.actor, event, now_ms);
            before
        } else {
            None
        };
        if window.logged < DENIALS_LOGGED_MAX {
            window.logged += 1;
            return (true, before);
        }
        window.counted += 1;
        (false, before)
    }

    /// Counts what could not be logged, so that it is told of with what comes later.
    fn count_unlogged(&self, Summary { tenant, actor, event, counted }: Summary, now_ms: u64) {
        self.windows.lock().of(tenant, actor, &event, now_ms).counted += counted;
    }

    /// Ends the windows that are over, or all; gives what is to be logged of them.
    fn end(&self, now_ms: u64, all: bool) -> Vec<Summary> {
        let (mut summaries, mut count) = (Vec::new(), 0);
        let mut windows = self.windows.lock();
        windows.by_tenant.retain(|tenant, of_tenant| {
            of_tenant.retain(|_, window| {
                let stays = !all && !window.is_over(now_ms);
                if !stays {
                    summaries.extend(window.summary(*tenant));
                }
                stays
            });
            count += of_tenant.len();
            !of_tenant.is_empty()
        });
        windows.count = count;
        summaries
    }

    /// Counts an attempt with a key that is nobody's.
    pub fn count_unknown_key(&self) {
        self.unknown_keys.fetch_add(1, Ordering::Relaxed);
    }
}

impl Vault {
    /// Logs a denied attempt, unless there were many of its kind.
    pub(super) async fn log_denied(
        &self,
        tenant: TenantId,
        actor: Actor,
        event: Event,
    ) -> Result<(), Error> {
        let (logged, before) = self.0.denials.count(tenant, actor, &event, self.now().0);
        let told = before.iter().map(|before| before.event().by(before.actor).of_no_request());
        let events = told.chain(logged.then(|| event.clone())).collect();
        let ended = self.log(tenant, actor, events).await;
        if ended.as_ref().is_err_and(Error::is_ours) {
            let itself = logged.then_some(Summary { tenant, actor, event, counted: 1 });
            for unlogged in before.into_iter().chain(itself) {
                self.0.denials.count_unlogged(unlogged, self.now().0);
            }
        }
        ended
    }

    /// Logs how many attempts were only counted in minutes that are over, or until now.
    pub async fn log_counted_denials(&self, until_now: bool) -> Result<(), Error> {
        let told = self.0.denials.unknown_keys_told.swap(self.unknown_keys(), Ordering::Relaxed);
        let attempts = self.unknown_keys().saturating_sub(told);
        if attempts > 0 {
            tracing::warn!(attempts, "requests came with keys that are nobody's, or none");
        }
        let mut ended = Ok(());
        for summary in self.0.denials.end(self.now().0, until_now) {
            match self.log(summary.tenant, summary.actor, vec![summary.event()]).await {
                // A tenant that was erased meanwhile has no log.
                Ok(()) | Err(Error::TenantGone) => {}
                Err(error) => {
                    self.0.denials.count_unlogged(summary, self.now().0);
                    ended = Err(error);
                }
            }
        }
        ended
    }

    /// How many requests came without a key, or with one that is nobody's, since the start.
    pub fn unknown_keys(&self) -> u64 {
        self.0.denials.unknown_keys.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::{Actor, Denials, Event, Summary};
    use crate::limits::{
        DENIALS_COUNTED_MAX, DENIALS_COUNTED_TENANT_MAX, DENIALS_LOGGED_MAX, DENIALS_WINDOW_MS,
    };
    use crate::model::id::TenantId;
    use crate::model::log::{ActorType, EntityType};
    use crate::model::permission::Permission;

    const TENANT: TenantId = TenantId(Uuid::from_u128(1));

    fn actor(number: u128) -> Actor {
        Actor { id: Some(Uuid::from_u128(number)), kind: Some(ActorType::Application) }
    }

    fn event(id: &str) -> Event {
        Event::denied(Permission::TokenRead, Some((EntityType::Token, id)))
    }

    #[test]
    fn the_first_of_a_minute_are_logged_and_the_rest_is_one_entry() {
        let denials = Denials::default();
        let logged = (0..1_000).filter(|number| {
            denials.count(TENANT, actor(1), &event(&number.to_string()), 5_000 + number).0
        });
        assert_eq!(logged.count(), DENIALS_LOGGED_MAX as usize);
        // Another actor and another tenant have minutes of their own.
        assert!(denials.count(TENANT, actor(2), &event("a"), 5_000).0);
        assert!(denials.count(TenantId(Uuid::from_u128(2)), actor(1), &event("a"), 5_000).0);
        assert!(denials.end(5_999, false).is_empty());
        let (logged, before) =
            denials.count(TENANT, actor(1), &event("b"), 5_000 + DENIALS_WINDOW_MS);
        let summary = before.unwrap();
        assert!(logged);
        assert_eq!((summary.tenant, summary.actor), (TENANT, actor(1)));
        assert_eq!(summary.event().entity_id, "");
        assert_eq!(summary.event().message, "Denied: token:read, 900 more times");
        assert!(denials.end(5_000 + 2 * DENIALS_WINDOW_MS, false).is_empty());
        assert!(denials.windows.lock().by_tenant.is_empty());
        assert_eq!(denials.windows.lock().count, 0);
    }

    #[test]
    fn what_could_not_be_logged_is_told_with_what_comes_later() {
        let denials = Denials::default();
        for number in 0..DENIALS_LOGGED_MAX + 7 {
            let (logged, _) = denials.count(TENANT, actor(1), &event("a"), 1);
            if logged && number % 2 == 0 {
                let unlogged = (TENANT, actor(1), event("a"), 1);
                let (tenant, actor, event, counted) = unlogged;
                denials.count_unlogged(Summary { tenant, actor, event, counted }, 1);
            }
        }
        // Nor is what tells of them.
        for round in 1..4 {
            let mut told = denials.end(1 + round * DENIALS_WINDOW_MS, false);
            assert_eq!(told.len(), 1);
            let summary = told.remove(0);
            let expected = format!("Denied: token:read, {} more times", DENIALS_LOGGED_MAX / 2 + 7);
            assert_eq!(summary.event().message, expected);
            denials.count_unlogged(summary, 1 + round * DENIALS_WINDOW_MS);
        }
    }

    #[test]
    fn what_was_counted_is_told_at_the_end_and_when_the_clock_was_set_back() {
        let denials = Denials::default();
        for _ in 0..102 {
            denials.count(TENANT, actor(1), &event("a"), 1_000_000);
        }
        let (_, before) = denials.count(TENANT, actor(1), &event("a"), 1);
        assert_eq!(before.unwrap().event().message, "Denied: token:read, 2 more times");
        for _ in 0..100 {
            denials.count(TENANT, actor(1), &event("a"), 1);
        }
        let told = denials.end(1, true);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].event().message, "Denied: token:read, 1 more times");
    }

    #[test]
    fn there_are_not_more_counts_than_there_may_be() {
        let denials = Denials::default();
        let (most, of_tenant) = (DENIALS_COUNTED_MAX, DENIALS_COUNTED_TENANT_MAX);
        let tenants = (most / of_tenant) as u128 + 1;
        for number in 0..of_tenant as u128 + 140 {
            denials.count(TENANT, actor(number), &event("a"), 1);
        }
        assert_eq!(denials.windows.lock().count, of_tenant + 1);
        // Those that share a count are told of without a name, and who has one of its own by its own.
        for _ in 0..110 {
            denials.count(TENANT, actor(1), &event("a"), 1);
        }
        // Another tenant has places of its own, until nobody has.
        for tenant in 2..=tenants {
            for number in 0..of_tenant as u128 {
                denials.count(TenantId(Uuid::from_u128(tenant)), actor(number), &event("a"), 1);
            }
        }
        // And one more of whoever has the last of them, and of whoever comes then.
        assert_eq!(denials.windows.lock().count, most + 2);
        let told = denials.end(1, true);
        let told: Vec<_> =
            told.iter().map(|told| (told.tenant, told.actor, told.event().message)).collect();
        let nobody = Actor { id: None, kind: Some(ActorType::Application) };
        let last = TenantId(Uuid::from_u128(tenants));
        for (tenant, by, message) in [
            (TENANT, nobody, "Denied: token:read, 40 more times"),
            (TENANT, actor(1), "Denied: token:read, 11 more times"),
            (last, nobody, "Denied: token:read, "),
        ] {
            let is_it = |told: &&(TenantId, Actor, String)| {
                (told.0, told.1) == (tenant, by) && told.2.starts_with(message)
            };
            assert_eq!(told.iter().filter(is_it).count(), 1, "{told:?}");
        }
        assert_eq!(told.len(), 3);
    }
}
