//! What requests' bodies take of the server's memory, all of them together.
//!
//! A body is in memory until it is read. What has come of it counts, not what was announced, and nobody waits for room,
//! so that a slow client holds nobody up: a body that finds none is refused and gives back what it had. The first bytes
//! of each are free, so that ordinary requests go on whatever others send. One tenant's bodies take at most half. Where
//! a body came in pieces there is room behind them, and what is made of it is larger: this bounds by a factor.
//!
//! A component is in memory more than once until it is compiled. So one that may be larger than other bodies needs a
//! place as well, from before any of it is read until it is answered. Smaller ones wait for the compiler alone
//! (`vault::programs`).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;

use super::problem::Rejection;
use crate::limits::{BODIES_BYTES_MAX, UPLOADS_MAX, UPLOADS_PER_TENANT_MAX};
use crate::model::id::TenantId;

/// When a client may try again: others are answered all the time.
const WAIT: Duration = Duration::from_secs(1);

/// All bodies in memory. Cloning shares it.
#[derive(Clone)]
pub struct Bodies(Arc<Inner>);

struct Inner {
    bytes_max: usize,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    all: Taken,
    by_tenant: HashMap<TenantId, Taken>,
}

/// Bytes of bodies, and places of uploads.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
struct Taken {
    bytes: usize,
    uploads: usize,
}

/// What one body takes; given back when it is dropped.
pub struct Share {
    bodies: Bodies,
    tenant: TenantId,
    taken: Taken,
}

impl Default for Bodies {
    fn default() -> Self {
        Self::new(BODIES_BYTES_MAX)
    }
}

impl Bodies {
    /// Has room for so many bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self(Arc::new(Inner { bytes_max, held: Mutex::default() }))
    }

    /// The share of a tenant's body of which nothing has come.
    pub fn share(&self, tenant: TenantId) -> Share {
        Share { bodies: self.clone(), tenant, taken: Taken::default() }
    }

    /// A place for an upload of a tenant.
    pub fn place(&self, tenant: TenantId) -> Result<Share, Rejection> {
        let mut place = self.share(tenant);
        place.take(Taken { uploads: 1, bytes: 0 })?;
        Ok(place)
    }
}

impl Share {
    /// Counts that so many bytes of the body have come by now.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), Rejection> {
        let more = bytes.saturating_sub(self.taken.bytes);
        self.take(Taken { bytes: more, uploads: 0 })
    }

    fn take(&mut self, more: Taken) -> Result<(), Rejection> {
        let Inner { bytes_max, held } = &*self.bodies.0;
        let mut held = held.lock();
        let all = held.all.plus(more);
        let own = held.by_tenant.get(&self.tenant).copied().unwrap_or_default().plus(more);
        if own.uploads > UPLOADS_PER_TENANT_MAX || all.uploads > UPLOADS_MAX {
            let detail = "Too many components are being uploaded; try again.";
            return Err(Rejection::too_many(detail.to_owned(), WAIT));
        }
        if own.bytes > bytes_max / 2 {
            let detail = "The tenant's requests hold all the memory that they may; try again.";
            return Err(Rejection::too_many(detail.to_owned(), WAIT));
        }
        if all.bytes > *bytes_max {
            let detail = "The server has no memory left for the body; try again.";
            return Err(Rejection::unavailable(detail.to_owned(), WAIT));
        }
        held.all = all;
        held.by_tenant.insert(self.tenant, own);
        drop(held);
        self.taken = self.taken.plus(more);
        Ok(())
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        if self.taken == Taken::default() {
            return;
        }
        let mut held = self.bodies.0.held.lock();
        held.all = held.all.minus(self.taken);
        if let Entry::Occupied(mut own) = held.by_tenant.entry(self.tenant) {
            let left = own.get().minus(self.taken);
            if left == Taken::default() {
                own.remove();
            } else {
                own.insert(left);
            }
        }
    }
}

impl Taken {
    fn plus(self, more: Self) -> Self {
        Self { bytes: self.bytes + more.bytes, uploads: self.uploads + more.uploads }
    }

    fn minus(self, less: Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(less.bytes),
            uploads: self.uploads.saturating_sub(less.uploads),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Bodies, Share, Taken};
    use crate::http::problem::Rejection;
    use crate::limits::{UPLOADS_MAX, UPLOADS_PER_TENANT_MAX};
    use crate::model::id::TenantId;
    use axum::response::IntoResponse as _;
    use uuid::Uuid;

    fn tenant(number: u128) -> TenantId {
        TenantId(Uuid::from_u128(number))
    }

    fn status<T>(tried: Result<T, Rejection>) -> u16 {
        tried.map_or_else(|refusal| refusal.into_response().status().as_u16(), |_| 200)
    }

    fn grown(bodies: &Bodies, number: u128, bytes: usize) -> Share {
        let mut share = bodies.share(tenant(number));
        assert_eq!(status(share.grow_to(bytes)), 200, "{number}");
        share
    }

    #[test]
    fn a_tenant_has_half_of_the_room_and_all_have_the_whole_of_it() {
        let bodies = Bodies::new(100);
        let mut first = grown(&bodies, 1, 30);
        // What came before is counted once.
        assert_eq!(status(first.grow_to(40)), 200);
        let mut second = grown(&bodies, 1, 10);
        assert_eq!(status(second.grow_to(11)), 429);
        // What was refused is not counted, and what is held stays so.
        let other = grown(&bodies, 2, 50);
        let mut third = bodies.share(tenant(3));
        assert_eq!(status(third.grow_to(1)), 503);
        drop(first);
        assert_eq!(status(third.grow_to(40)), 200);
        assert_eq!(status(third.grow_to(41)), 503);
        drop((second, other, third));
        let held = bodies.0.held.lock();
        assert!(held.all == Taken::default() && held.by_tenant.is_empty());
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
        assert_eq!(status(bodies.place(tenant(1_000))), 429);
        places.pop();
        assert_eq!(status(bodies.place(tenant(1_000))), 200);
    }
}
