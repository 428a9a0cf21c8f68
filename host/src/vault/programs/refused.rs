//! Components that were refused of late.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::model::id::TenantId;
use crate::runtime::ComponentError;

/// How long a refusal holds for runs. On a machine that is less busy the compiler may get on better.
const KEPT: Duration = Duration::from_mins(5);
/// Refusals that are kept.
const REFUSALS_MAX: usize = 1_000;

/// Whose a component is, and the digest of its bytes: what is refused to a tenant may be taken from another, or be ours.
type Component = (Option<TenantId>, String);

/// Why components were refused, and when.
#[derive(Default)]
pub struct Refused(Mutex<HashMap<Component, (ComponentError, Instant)>>);

impl Refused {
    /// Keeps why one was refused just now, if that took the compiler long, and would again.
    pub fn keep(&self, component: Component, refusal: &ComponentError, now: Instant) {
        use ComponentError::{CodeTooLarge, TooCostly, TooManyNames};
        if !matches!(refusal, TooCostly | CodeTooLarge | TooManyNames) {
            return;
        }
        let mut refused = self.0.lock();
        if refused.len() >= REFUSALS_MAX {
            refused.retain(|_, (_, since)| now - *since < KEPT);
        }
        if refused.len() < REFUSALS_MAX {
            refused.insert(component, (refusal.clone(), now));
        }
    }

    /// One was taken.
    pub fn forget(&self, component: &Component) {
        self.0.lock().remove(component);
    }

    /// Why one was refused, if it was of late.
    pub fn find(&self, component: &Component, now: Instant) -> Option<ComponentError> {
        let refused = self.0.lock();
        let (refusal, since) = refused.get(component)?;
        (now - *since < KEPT).then(|| refusal.clone())
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use super::{Component, ComponentError, KEPT, REFUSALS_MAX, Refused, TenantId};

    fn of(tenant: u128, digest: &str) -> Component {
        (Some(TenantId(uuid::Uuid::from_u128(tenant))), digest.to_string())
    }

    #[test]
    fn a_refusal_is_kept_for_a_while_and_not_too_many_are() {
        let (refused, now, second) = (Refused::default(), Instant::now(), Duration::from_secs(1));
        refused.keep(of(1, "a"), &ComponentError::TooCostly, now);
        let find = |component: &Component, at| refused.find(component, at);
        assert_eq!(find(&of(1, "a"), now + second), Some(ComponentError::TooCostly));
        for (component, at) in [
            (of(1, "a"), now + KEPT),
            (of(1, "b"), now),
            (of(2, "a"), now),
            ((None, "a".to_owned()), now),
        ] {
            assert_eq!(find(&component, at), None, "{component:?}");
        }
        for number in 0..2 * REFUSALS_MAX {
            refused.keep(of(1, &number.to_string()), &ComponentError::CodeTooLarge, now + second);
        }
        assert_eq!(refused.0.lock().len(), REFUSALS_MAX);
        assert!(find(&of(1, "a"), now).is_some());
        // What is over makes room.
        refused.keep(of(1, "b"), &ComponentError::TooCostly, now + KEPT + second);
        assert!(find(&of(1, "b"), now + KEPT + second).is_some());
        assert_eq!(refused.0.lock().len(), 1);
        // So does one that was taken after all, and what costs little or may be the machine's doing is not kept.
        refused.forget(&of(1, "b"));
        for refusal in [ComponentError::NotWebAssembly, ComponentError::TooSlow] {
            refused.keep(of(1, "c"), &refusal, now);
        }
        assert!(refused.0.lock().is_empty());
    }
}
