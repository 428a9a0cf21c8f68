//! Records that were sealed anew lately.
//!
//! Sealing anew counts a record's version on without changing what it says. Somebody who read it before, such as a
//! formula's run that takes minutes, must not find it changed by that: what it expects follows the record.

use std::collections::HashMap;
use std::hash::{BuildHasher as _, RandomState};

use parking_lot::Mutex;

use crate::model::id::TenantId;
use crate::store::{Expect, Kind};

/// Records remembered, twice over; of more the oldest are forgotten. An update of such a one is refused as any that
/// came too late, and made anew by those who can.
const REMEMBERED_MAX: usize = 1_000_000;

/// Versions of a record that say the same: the first of them, and the one it is at.
type Same = (u64, u64);

/// What was sealed anew, by the record's hash.
#[derive(Default)]
pub struct Resealed {
    hasher: RandomState,
    found: Mutex<[HashMap<u64, Same>; 2]>,
}

impl Resealed {
    /// Remembers that a record was at this version, and is at the next one.
    pub fn remember(&self, kind: Kind, tenant: TenantId, id: &str, version: u64) {
        let hash = self.hasher.hash_one((kind, tenant, id));
        let mut found = self.found.lock();
        if found[0].len() >= REMEMBERED_MAX {
            found.swap(0, 1);
            found[0].clear();
        }
        let before = found.iter().find_map(|found| found.get(&hash));
        let first = before.filter(|(_, at)| *at == version).map_or(version, |(first, _)| *first);
        found[0].insert(hash, (first, version + 1));
    }

    /// Lets an expectation follow its record, which is removed if it `ends`.
    pub fn follow(
        &self,
        (kind, tenant, id): (Kind, TenantId, &str),
        expect: &mut Expect,
        ends: bool,
    ) {
        let mut found = self.found.lock();
        if found.iter().all(HashMap::is_empty) {
            return;
        }
        let hash = self.hasher.hash_one((kind, tenant, id));
        let Expect::Version(version) = expect else {
            // It may be made, and then counts from 1 again.
            for found in found.iter_mut() {
                found.remove(&hash);
            }
            return;
        };
        let same = found.iter().find_map(|found| found.get(&hash));
        if let Some((_, at)) = same.filter(|(first, at)| (first..at).contains(&&*version)) {
            *version = *at;
        }
        if ends {
            for found in found.iter_mut() {
                found.remove(&hash);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::Resealed;
    use crate::model::id::TenantId;
    use crate::store::{Expect, Kind};

    #[test]
    fn an_expectation_follows_its_record_by_one() {
        let (resealed, tenant) = (Resealed::default(), TenantId(Uuid::from_u128(1)));
        let follow = |id: &str, mut expect: Expect, ends: bool| {
            resealed.follow((Kind(4), tenant, id), &mut expect, ends);
            expect
        };
        let version = Expect::Version;
        assert_eq!(follow("a", version(3), false), version(3));
        resealed.remember(Kind(4), tenant, "a", 3);
        assert_eq!(follow("a", version(3), false), version(4));
        for other in [version(2), version(4)] {
            assert_eq!(follow("a", other, false), other);
        }
        assert_eq!(follow("b", version(3), false), version(3));
        // As often as it is sealed anew, but over no change of what it says.
        resealed.remember(Kind(4), tenant, "b", 3);
        resealed.remember(Kind(4), tenant, "b", 4);
        assert_eq!(follow("b", version(3), false), version(5));
        assert_eq!(follow("b", version(4), false), version(5));
        resealed.remember(Kind(4), tenant, "b", 6);
        for (read, expected) in [(3, 3), (5, 5), (6, 7), (7, 7)] {
            assert_eq!(follow("b", version(read), false), version(expected));
        }
        // One that is removed or made anew counts from 1 again.
        assert_eq!(follow("a", version(3), true), version(4));
        assert_eq!(follow("a", version(3), false), version(3));
        for made in [Expect::Absent, Expect::New, Expect::Any] {
            resealed.remember(Kind(4), tenant, "a", 1);
            assert_eq!(follow("a", made, false), made);
            assert_eq!(follow("a", version(1), false), version(1));
        }
    }
}
