//! Denied attempts in the log: the first ones each, a flood of them by its number.
//!
//! Who is known and may not do what it attempts could otherwise fill the disk. An attempt is counted with those of the
//! same actor and the same kind; the first in a minute are entries of their own, the rest is one entry that tells how
//! many there were. A process that is killed takes the counts of up to two minutes with it. Attempts with a key that is
//! nobody's belong to no tenant and are only counted.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use uuid::Uuid;

use super::audit::{Actor, Event};
use super::{Error, Vault};
use crate::limits::{DENIALS_COUNTED_MAX, DENIALS_LOGGED_MAX, DENIALS_WINDOW_MS};
use crate::model::id::TenantId;
use crate::model::log::{ActorType, EntityType};

/// Denied attempts of late.
#[derive(Default)]
pub struct Denials {
    windows: Mutex<HashMap<Attempt, Window>>,
    unknown_keys: AtomicU64,
    unknown_keys_told: AtomicU64,
}

/// Who attempted what.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct Attempt {
    tenant: TenantId,
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

/// An entry about attempts that were counted.
type Summary = (TenantId, Actor, Event);

impl Window {
    fn is_over(&self, now_ms: u64) -> bool {
        // A clock that was set back must not keep it open.
        self.since_ms.abs_diff(now_ms) >= DENIALS_WINDOW_MS
    }

    fn summary(&self, tenant: TenantId) -> Option<Summary> {
        let Self { counted, event, actor, .. } = self;
        let message = format!("{}, {counted} more times", event.message);
        let event = Event { entity_id: String::new(), message, ..event.clone() };
        (*counted > 0).then_some((tenant, *actor, event))
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
        let mut attempt = Attempt {
            tenant,
            actor_id: actor.id,
            actor_type: actor.kind,
            entity_type: event.entity_type,
            operation: event.operation.as_str(),
            message: event.message.clone(),
        };
        let mut windows = self.windows.lock();
        if windows.len() >= DENIALS_COUNTED_MAX && !windows.contains_key(&attempt) {
            attempt.actor_id = None;
        }
        // Whose attempts are counted together, none of them is to be named for all.
        let actor = Actor { id: attempt.actor_id, kind: actor.kind };
        let fresh =
            || Window { since_ms: now_ms, logged: 0, counted: 0, actor, event: event.clone() };
        let window = windows.entry(attempt).or_insert_with(fresh);
        let before = if window.is_over(now_ms) {
            let before = window.summary(tenant);
            *window = fresh();
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

    /// Ends the windows that are over, or all; gives what is to be logged of them.
    fn end(&self, now_ms: u64, all: bool) -> Vec<Summary> {
        let mut summaries = Vec::new();
        self.windows.lock().retain(|attempt, window| {
            let stays = !all && !window.is_over(now_ms);
            if !stays {
                summaries.extend(window.summary(attempt.tenant));
            }
            stays
        });
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
        let events = before.into_iter().map(|(_, actor, event)| event.by(actor).of_no_request());
        self.log(tenant, actor, events.chain(logged.then_some(event)).collect()).await
    }

    /// Logs how many attempts were only counted in minutes that are over, or until now.
    pub async fn log_counted_denials(&self, until_now: bool) -> Result<(), Error> {
        let told = self.0.denials.unknown_keys_told.swap(self.unknown_keys(), Ordering::Relaxed);
        let attempts = self.unknown_keys().saturating_sub(told);
        if attempts > 0 {
            tracing::warn!(attempts, "requests came with keys that are nobody's, or none");
        }
        let mut ended = Ok(());
        for (tenant, actor, event) in self.0.denials.end(self.now().0, until_now) {
            match self.log(tenant, actor, vec![event]).await {
                // A tenant that was erased meanwhile has no log.
                Ok(()) | Err(Error::Unauthenticated) => {}
                Err(error) => ended = Err(error),
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

    use super::{Actor, Denials, Event};
    use crate::limits::{DENIALS_COUNTED_MAX, DENIALS_LOGGED_MAX, DENIALS_WINDOW_MS};
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
        let (tenant, by, summary) = before.unwrap();
        assert!(logged);
        assert_eq!((tenant, by, summary.entity_id.as_str()), (TENANT, actor(1), ""));
        assert_eq!(summary.message, "Denied: token:read, 900 more times");
        assert!(denials.end(5_000 + 2 * DENIALS_WINDOW_MS, false).is_empty());
        assert!(denials.windows.lock().is_empty());
    }

    #[test]
    fn what_was_counted_is_told_at_the_end_and_when_the_clock_was_set_back() {
        let denials = Denials::default();
        for _ in 0..102 {
            denials.count(TENANT, actor(1), &event("a"), 1_000_000);
        }
        let (_, before) = denials.count(TENANT, actor(1), &event("a"), 1);
        assert_eq!(before.unwrap().2.message, "Denied: token:read, 2 more times");
        for _ in 0..100 {
            denials.count(TENANT, actor(1), &event("a"), 1);
        }
        let told = denials.end(1, true);
        assert_eq!(told.len(), 1);
        assert_eq!(told[0].2.message, "Denied: token:read, 1 more times");
    }

    #[test]
    fn there_are_not_more_counts_than_there_may_be() {
        let denials = Denials::default();
        for number in 0..DENIALS_COUNTED_MAX as u128 + 140 {
            denials.count(TENANT, actor(number), &event("a"), 1);
        }
        assert_eq!(denials.windows.lock().len(), DENIALS_COUNTED_MAX + 1);
        // Those that share a count are told of without a name, and who has one of its own by its own.
        for _ in 0..110 {
            denials.count(TENANT, actor(1), &event("a"), 1);
        }
        let told: Vec<_> =
            denials.end(1, true).into_iter().map(|(_, by, event)| (by, event.message)).collect();
        let nobody = Actor { id: None, kind: Some(ActorType::Application) };
        for (by, message) in [
            (nobody, "Denied: token:read, 40 more times"),
            (actor(1), "Denied: token:read, 11 more times"),
        ] {
            assert!(told.contains(&(by, message.to_owned())), "{told:?}");
        }
        assert_eq!(told.len(), 2);
    }
}
