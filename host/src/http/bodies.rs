//! What requests' bodies take of the server's memory, all of them together.
//!
//! What has come of a body counts, not what was announced, and once all of it has, what it takes as JSON that is read, up
//! to the end of its operation. The first bytes of each are free, so that ordinary requests go on whatever others send.
//! Where a body came in pieces there is room behind them, and operations copy some of it: this bounds by a factor.
//!
//! A component is in memory more than once until it is compiled. So one that may be larger than other bodies needs a
//! place as well, from before any of it is read until it is answered. Smaller ones wait for the compiler alone
//! (`vault::programs`). When all places are taken, an upload that comes slowly gives its own to whoever wants one: few
//! tenants could keep all others from uploading for hours otherwise. They may begin anew again and again, so that none of
//! theirs is slow for long: so a tenant that has no place gets one of the tenant that has the most.

use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use super::problem::Rejection;
use crate::limits::{BODIES_BYTES_MAX, BODY_BYTES_FREE, UPLOADS_MAX, UPLOADS_PER_TENANT_MAX};
use crate::model::id::TenantId;
use crate::vault::{NoRoom, Share, Shares};

/// When a client may try again: others are answered all the time.
const WAIT: Duration = Duration::from_secs(1);
/// Bytes of an upload that come in a second, in the long run, so that it keeps its place when others want it.
const UPLOAD_BYTES_PER_SECOND_FAIR: u128 = 256 << 10;
/// How long an upload keeps its place in any case.
const UPLOAD_GRACE: Duration = Duration::from_secs(5);

/// All bodies in memory. Cloning shares it.
#[derive(Clone)]
pub struct Bodies(Arc<Inner>);

struct Inner {
    shares: Shares,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    uploads: HashMap<u64, Upload>,
    /// The number of the last one.
    last: u64,
}

/// An upload that has a place.
struct Upload {
    tenant: TenantId,
    began: Instant,
    /// What has come of it.
    bytes: usize,
    is_whole: bool,
}

/// The place of one upload; given back when it is dropped.
pub struct Place {
    bodies: Bodies,
    number: u64,
}

impl Default for Bodies {
    fn default() -> Self {
        Self::new(BODIES_BYTES_MAX)
    }
}

impl Bodies {
    /// Has room for so many bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self(Arc::new(Inner {
            shares: Shares::new(bytes_max, BODY_BYTES_FREE),
            held: Mutex::default(),
        }))
    }

    /// The share of a tenant's body of which nothing has come.
    pub fn share(&self, tenant: TenantId) -> Share {
        self.0.shares.share(tenant)
    }

    /// A place for an upload of a tenant. When there is none, it is that of the slowest upload, if that one is too slow to
    /// keep it; or, for a tenant that has no other, that of the slowest upload of the tenant with the most.
    pub fn place(&self, tenant: TenantId) -> Result<Place, Rejection> {
        self.place_at(tenant, Instant::now())
    }

    fn place_at(&self, tenant: TenantId, now: Instant) -> Result<Place, Rejection> {
        let mut held = self.0.held.lock();
        let own = held.uploads.values().filter(|upload| upload.tenant == tenant).count();
        if own < UPLOADS_PER_TENANT_MAX && held.uploads.len() >= UPLOADS_MAX {
            held.give_up_one(own == 0, now);
        }
        if own >= UPLOADS_PER_TENANT_MAX || held.uploads.len() >= UPLOADS_MAX {
            let detail = "Too many components are being uploaded; try again.";
            return Err(Rejection::too_many(detail.to_owned(), WAIT));
        }
        held.last += 1;
        let number = held.last;
        held.uploads.insert(number, Upload { tenant, began: now, bytes: 0, is_whole: false });
        Ok(Place { bodies: self.clone(), number })
    }
}

impl Held {
    /// Gives up an upload for another one, if there is one that may be given up: there are more for the only one of its
    /// tenant.
    fn give_up_one(&mut self, for_only_one: bool, now: Instant) {
        let unfair = || if for_only_one { self.slowest_of_most(now) } else { None };
        if let Some(number) = self.too_slow(now).or_else(unfair) {
            self.uploads.remove(&number);
        }
    }

    fn too_slow(&self, now: Instant) -> Option<u64> {
        let slow = |(number, upload): (&u64, &Upload)| Some((upload.slow_pace(now)?, *number));
        self.uploads.iter().filter_map(slow).min().map(|(_, number)| number)
    }

    /// The slowest upload of the tenant that has the most, but not the only one of any.
    fn slowest_of_most(&self, now: Instant) -> Option<u64> {
        let mut counts: HashMap<TenantId, usize> = HashMap::new();
        for upload in self.uploads.values() {
            *counts.entry(upload.tenant).or_default() += 1;
        }
        let spare = |(number, upload): (&u64, &Upload)| {
            let count = counts.get(&upload.tenant).copied().filter(|count| *count > 1)?;
            (!upload.is_whole).then(|| (Reverse(count), upload.pace(now), *number))
        };
        self.uploads.iter().filter_map(spare).min().map(|(_, _, number)| number)
    }
}

impl Upload {
    /// How much has come of it in a second.
    fn pace(&self, now: Instant) -> u128 {
        self.bytes as u128 * 1_000 / self.took(now).as_millis().max(1)
    }

    /// The same, when that is too little to keep its place.
    fn slow_pace(&self, now: Instant) -> Option<u128> {
        let pace = self.pace(now);
        let is_slow = pace < UPLOAD_BYTES_PER_SECOND_FAIR && self.took(now) >= UPLOAD_GRACE;
        (is_slow && !self.is_whole).then_some(pace)
    }

    fn took(&self, now: Instant) -> Duration {
        now.saturating_duration_since(self.began)
    }
}

impl Place {
    /// Notes how many bytes of the upload have come by now; refused when another has the place.
    pub fn has_come(&self, bytes: usize) -> Result<(), Rejection> {
        self.note(|upload| upload.bytes = bytes)
    }

    /// Notes that all of it has come: it keeps its place from here on.
    pub fn has_come_whole(&self) -> Result<(), Rejection> {
        self.note(|upload| upload.is_whole = true)
    }

    fn note(&self, note: impl FnOnce(&mut Upload)) -> Result<(), Rejection> {
        let gave_way = || {
            let detail = "Others wanted the place of the upload: it came slowly, or its tenant had most of the places; \
                try again.";
            Rejection::too_many(detail.to_owned(), WAIT)
        };
        self.bodies.0.held.lock().uploads.get_mut(&self.number).map(note).ok_or_else(gave_way)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.bodies.0.held.lock().uploads.remove(&self.number);
    }
}

/// Of bodies.
impl From<NoRoom> for Rejection {
    fn from(no_room: NoRoom) -> Self {
        match no_room {
            NoRoom::OfTenant => {
                let detail = "The tenant's requests hold all the memory that they may; try again.";
                Self::too_many(detail.to_owned(), WAIT)
            }
            NoRoom::OfAll => {
                let detail = "The server has no memory left for the body; try again.";
                Self::unavailable(detail.to_owned(), WAIT)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{BODY_BYTES_FREE, Bodies, Place, UPLOAD_BYTES_PER_SECOND_FAIR, UPLOAD_GRACE};
    use crate::http::problem::Rejection;
    use crate::limits::{UPLOADS_MAX, UPLOADS_PER_TENANT_MAX};
    use crate::model::id::TenantId;
    use axum::response::IntoResponse as _;
    use std::time::{Duration, Instant};
    use uuid::Uuid;

    fn tenant(number: u128) -> TenantId {
        TenantId(Uuid::from_u128(number))
    }

    fn status<T>(tried: Result<T, Rejection>) -> u16 {
        tried.map_or_else(|refusal| refusal.into_response().status().as_u16(), |_| 200)
    }

    #[test]
    fn a_body_without_room_is_refused_for_its_tenant_or_for_all() {
        let bodies = Bodies::new(100);
        let grown = |number, bytes| {
            let mut share = bodies.share(tenant(number));
            let grown = share.grow_to(BODY_BYTES_FREE + bytes).map_err(Rejection::from);
            (status(grown), share)
        };
        assert_eq!(grown(1, 51).0, 429);
        let held = [grown(1, 50), grown(2, 50)];
        assert!(held.iter().all(|(status, _)| *status == 200));
        assert_eq!(grown(3, 1).0, 503);
    }

    #[test]
    fn uploads_have_places_for_each_tenant_and_for_all() {
        let bodies = Bodies::new(0);
        let mut places = Vec::new();
        for number in 0..UPLOADS_MAX / UPLOADS_PER_TENANT_MAX {
            let tenant = tenant(number as u128);
            places.extend((0..UPLOADS_PER_TENANT_MAX).map(|_| bodies.place(tenant).unwrap()));
            assert_eq!(status(bodies.place(tenant)), 429);
        }
        assert!(places.iter().all(|place| place.has_come_whole().is_ok()));
        assert_eq!(status(bodies.place(tenant(1_000))), 429);
        places.pop();
        assert_eq!(status(bodies.place(tenant(1_000))), 200);
    }

    /// Begins as many uploads as there may be, of so many tenants in turn.
    fn all_places(bodies: &Bodies, tenants: usize, now: Instant) -> Vec<Place> {
        let owner = |number: usize| tenant((number % tenants) as u128);
        (0..UPLOADS_MAX).map(|number| bodies.place_at(owner(number), now).unwrap()).collect()
    }

    #[test]
    fn when_all_places_are_taken_the_slowest_upload_gives_its_own_to_whoever_wants_one() {
        let (bodies, began) = (Bodies::new(0), Instant::now());
        // The first tenant has as many as it may, and the others one less.
        let places = all_places(&bodies, 5, began);
        let later = began + Duration::from_secs(100);
        let fair = usize::try_from(100 * UPLOAD_BYTES_PER_SECOND_FAIR).unwrap();
        for (at, place) in places.iter().enumerate() {
            let bytes = match at {
                0 | 5 => 10_000 + at,
                _ => fair,
            };
            assert_eq!(status(place.has_come(bytes)), 200);
        }
        assert_eq!(status(places[1].has_come_whole()), 200);
        // Nobody has given up a place at first, and no tenant gets more than it may have.
        assert_eq!(status(bodies.place_at(tenant(1), began + UPLOAD_GRACE / 2)), 429);
        assert_eq!(status(bodies.place_at(tenant(0), later)), 429);
        let first = bodies.place_at(tenant(1), later).unwrap();
        let second = bodies.place_at(tenant(2), later).unwrap();
        assert_eq!(status(bodies.place_at(tenant(3), later)), 429);
        for (at, place) in places.iter().enumerate() {
            let expected = if matches!(at, 0 | 5) { 429 } else { 200 };
            assert_eq!(status(place.has_come(fair + 1)), expected, "{at}");
            assert_eq!(status(place.has_come_whole()), expected, "{at}");
        }
        // What gave way gives back nothing more.
        drop(places);
        assert_eq!(bodies.0.held.lock().uploads.len(), 2);
        drop((first, second));
        assert!(bodies.0.held.lock().uploads.is_empty());
    }

    #[test]
    fn a_tenant_without_a_place_gets_one_of_the_tenant_with_most_however_young_its_uploads_are() {
        let (bodies, began) = (Bodies::new(0), Instant::now());
        let places = all_places(&bodies, 5, began);
        // The slowest of all, and that of the first tenant, which alone has four.
        for (at, place) in places.iter().enumerate() {
            let bytes = match at {
                1 => 1,
                10 => 2,
                _ => 1 << 20,
            };
            assert_eq!(status(place.has_come(bytes)), 200);
        }
        let now = began + UPLOAD_GRACE / 2;
        let gave_way = |places: &[Place]| -> Vec<usize> {
            let refused = |at: &usize| places[*at].note(|_| ()).is_err();
            (0..places.len()).filter(refused).collect()
        };
        let first = bodies.place_at(tenant(1_000), now).unwrap();
        assert_eq!(gave_way(&places), [10]);
        // Whoever has one already waits as all others do.
        assert_eq!(status(bodies.place_at(tenant(1_000), now)), 429);
        assert_eq!(status(bodies.place_at(tenant(0), now)), 429);
        let second = bodies.place_at(tenant(1_001), now).unwrap();
        assert_eq!(gave_way(&places), [1, 10]);
        assert!(first.has_come(1).is_ok() && second.has_come(1).is_ok());
    }

    #[test]
    fn the_only_upload_of_a_tenant_gives_way_to_no_young_one() {
        let (bodies, began) = (Bodies::new(0), Instant::now());
        let places = all_places(&bodies, UPLOADS_MAX, began);
        assert_eq!(status(bodies.place_at(tenant(1_000), began)), 429);
        assert!(places.iter().all(|place| place.has_come(1).is_ok()));
    }

    #[test]
    fn what_has_come_whole_keeps_its_place_however_slow_it_was() {
        let (bodies, began) = (Bodies::new(0), Instant::now());
        let places = all_places(&bodies, 5, began);
        assert!(places.iter().all(|place| place.has_come_whole().is_ok()));
        let later = began + Duration::from_hours(1);
        assert_eq!(status(bodies.place_at(tenant(1_000), later)), 429);
    }
}
