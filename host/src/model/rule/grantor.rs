//! What whoever holds rights may grant to a session (decisions §2).

use std::collections::HashMap;

use super::{Bound, Rights, Rule, Subject, Transform};
use crate::model::container::Container;
use crate::model::permission::Permission;

/// Rights that others are granted rights within.
pub struct Grantor<'r> {
    rights: &'r Rights,
    /// Where a rule for a permission begins, and how a token is shown there: found out once, since a grant may ask for it
    /// ten thousand times.
    shown: HashMap<Permission, Vec<(Container, Option<Transform>)>>,
}

impl<'r> Grantor<'r> {
    pub(super) fn new(rights: &'r Rights) -> Self {
        Self { rights, shown: HashMap::new() }
    }

    /// Whether the permission may be granted for everything that these rules, which are granted with it, do not decide:
    /// nothing would be seen better.
    pub fn may_grant(&mut self, permission: Permission, granted: &[Rule]) -> bool {
        let transform = Rights::implicit(permission);
        let everywhere = Bound { place: Container::root(), is_exact: false };
        self.reach(permission, transform, &everywhere, &decided(granted, permission, None))
    }

    /// The first permission of a rule that may not be granted as the rule has it, among others.
    pub fn first_beyond(&mut self, rule: &Rule, granted: &[Rule]) -> Option<Permission> {
        let bounds = rule.bounds();
        let mut within = |one| {
            let decided = decided(granted, one, Some(rule.priority));
            bounds.iter().any(|bound| self.reach(one, rule.transform, bound, &decided))
        };
        rule.permissions.iter().copied().find(|one| !within(*one))
    }

    /// Whether every token within `bound` is shown at least as well as `transform` says, but for what is decided before.
    ///
    /// What decides changes only where a rule's container begins, so that it is enough to look there.
    fn reach(
        &mut self,
        permission: Permission,
        transform: Transform,
        bound: &Bound,
        decided: &[&Container],
    ) -> bool {
        let Bound { place: container, is_exact } = bound;
        let is_decided = |place| decided.iter().any(|before| before.holds(place));
        if is_decided(container) {
            return true;
        }
        // Who deletes sees nothing, however well that would be shown.
        let transform = match permission {
            Permission::TokenDelete => Transform::Redact,
            _ => transform,
        };
        let fits = |own: Option<Transform>| own.is_some_and(|own| own >= transform);
        if !fits(shown(self.rights, permission, container)) {
            return false;
        }
        if *is_exact {
            return true;
        }
        let rights = self.rights;
        let below = self.shown.entry(permission).or_insert_with(|| {
            let places = rights.granting(permission).flat_map(Rule::bounds);
            let places = places.map(|bound| bound.place);
            places.map(|place| (place.clone(), shown(rights, permission, &place))).collect()
        });
        below.iter().all(|(place, own)| !container.holds(place) || fits(*own) || is_decided(place))
    }
}

/// Where granted rules decide about a permission: those that come before one of this priority, or all of them before what
/// is granted for everything.
fn decided(granted: &[Rule], permission: Permission, priority: Option<u32>) -> Vec<&Container> {
    let before = granted.iter().filter(|rule| priority.is_none_or(|than| rule.priority < than));
    let about = before.filter(|rule| rule.permissions.contains(&permission));
    about.filter_map(|rule| rule.container.as_ref()).collect()
}

/// How a token is shown that lies there alone.
fn shown(rights: &Rights, permission: Permission, place: &Container) -> Option<Transform> {
    let token = Subject { id: "", containers: std::slice::from_ref(place) };
    rights.decide(permission, token)
}
