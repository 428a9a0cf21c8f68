//! Clients, one for each owner and host, each with connections of its own.
//!
//! Two owners never share a connection: what is left on one, by a host that reads the end of a message elsewhere than
//! we do, would be the answer to somebody else's request. And connections that are kept are bounded: a name with a
//! wildcard stands for any number of hosts, each with its own connections.

use std::collections::HashMap;

use crate::limits::{HTTP_POOLS_MAX, HTTP_POOLS_PER_OWNER_MAX};

/// What is kept by owner and host; what was used least recently goes first, an owner's own before that of others.
pub struct Pools<T> {
    owners: HashMap<u128, Vec<Kept<T>>>,
    count: usize,
    /// Counts uses.
    now: u64,
}

struct Kept<T> {
    /// Scheme, host and port.
    origin: Box<str>,
    value: T,
    used: u64,
}

impl<T> Default for Pools<T> {
    fn default() -> Self {
        Self { owners: HashMap::new(), count: 0, now: 0 }
    }
}

impl<T: Clone> Pools<T> {
    /// What is kept for a host.
    pub fn get(&mut self, owner: u128, origin: &str) -> Option<T> {
        self.now += 1;
        let kept = self.owners.get_mut(&owner)?;
        let kept = kept.iter_mut().find(|kept| *kept.origin == *origin)?;
        kept.used = self.now;
        Some(kept.value.clone())
    }

    /// Keeps this for a host, unless somebody else was faster; gives what is kept.
    pub fn keep(&mut self, owner: u128, origin: &str, value: T) -> T {
        if let Some(kept) = self.get(owner, origin) {
            return kept;
        }
        if self.owners.get(&owner).is_some_and(|kept| kept.len() >= HTTP_POOLS_PER_OWNER_MAX) {
            self.forget_of(owner);
        } else if self.count >= HTTP_POOLS_MAX {
            let used = |kept: &[Kept<T>]| kept.iter().map(|kept| kept.used).min();
            let least = self.owners.iter().min_by_key(|(_, kept)| used(kept));
            if let Some(least) = least.map(|(owner, _)| *owner) {
                self.forget_of(least);
            }
        }
        let kept = Kept { origin: origin.into(), value: value.clone(), used: self.now };
        self.owners.entry(owner).or_default().push(kept);
        self.count += 1;
        value
    }

    /// Forgets what an owner used least recently.
    fn forget_of(&mut self, owner: u128) {
        let Some(kept) = self.owners.get_mut(&owner) else { return };
        let least = kept.iter().enumerate().min_by_key(|(_, kept)| kept.used);
        if let Some((at, _)) = least {
            kept.swap_remove(at);
            self.count -= 1;
        }
        if kept.is_empty() {
            self.owners.remove(&owner);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Pools;
    use crate::limits::{HTTP_POOLS_MAX, HTTP_POOLS_PER_OWNER_MAX};
    use proptest::prelude::*;

    const OWN: u128 = HTTP_POOLS_PER_OWNER_MAX as u128;

    fn origin(at: u128) -> String {
        format!("https://{at}.test")
    }

    #[test]
    fn an_owner_loses_its_own() {
        let mut pools = Pools::default();
        assert_eq!(pools.keep(1, "a", "first"), "first");
        assert_eq!(pools.keep(1, "a", "second"), "first");
        assert_eq!(
            (pools.get(1, "a"), pools.get(2, "a"), pools.get(1, "b")),
            (Some("first"), None, None)
        );
        pools.keep(2, "a", "another");
        for at in 0..OWN - 1 {
            pools.keep(1, &origin(at), "more");
        }
        // Used again, so the next to go is another one.
        assert_eq!(pools.get(1, "a"), Some("first"));
        pools.keep(1, "one more", "more");
        assert_eq!((pools.get(1, "a"), pools.get(1, &origin(0))), (Some("first"), None));
        for at in 0..10 * OWN {
            pools.keep(1, &origin(at), "more");
        }
        assert_eq!((pools.get(1, "a"), pools.get(2, "a")), (None, Some("another")));
        assert_eq!(pools.count, HTTP_POOLS_PER_OWNER_MAX + 1);
    }

    #[test]
    fn many_owners_lose_what_was_used_least_recently() {
        let mut pools = Pools::default();
        let most = HTTP_POOLS_MAX as u128;
        for owner in 0..most {
            pools.keep(owner, "a", owner);
        }
        assert_eq!(pools.get(0, "a"), Some(0));
        pools.keep(most, "a", most);
        assert_eq!(
            (pools.get(0, "a"), pools.get(1, "a"), pools.get(2, "a")),
            (Some(0), None, Some(2))
        );
        assert_eq!((pools.count, pools.owners.len()), (HTTP_POOLS_MAX, HTTP_POOLS_MAX));
    }

    proptest! {
        #[test]
        fn nobody_gets_what_is_another_ones(uses in prop::collection::vec((0_u128..40, 0_u128..40), 1..600)) {
            let mut pools = Pools::default();
            for (owner, at) in uses {
                let kept = match pools.get(owner, &origin(at)) {
                    Some(kept) => kept,
                    None => pools.keep(owner, &origin(at), (owner, at)),
                };
                prop_assert_eq!(kept, (owner, at));
                prop_assert_eq!(pools.get(owner, &origin(at)), Some((owner, at)));
                let all: usize = pools.owners.values().map(Vec::len).sum();
                prop_assert_eq!(all, pools.count);
                prop_assert!(all <= HTTP_POOLS_MAX);
                let shares = pools.owners.values().map(Vec::len);
                prop_assert!(shares.into_iter().all(|len| (1..=HTTP_POOLS_PER_OWNER_MAX).contains(&len)));
            }
        }
    }
}
