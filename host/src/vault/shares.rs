//! What tenants share of the server's memory: one of them has at most half of it.
//!
//! Nobody waits for room, so that nobody who is slow holds up another: who finds none is refused, and gives back what it
//! had. JSON counts as much as it takes once it is read, which may be many times its text.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::mem::size_of;
use std::sync::Arc;

use parking_lot::Mutex;
use serde_json::Value;

use super::Error;
use crate::model::id::TenantId;

/// Bytes that a name in an object takes beside the value, about.
const NAME_BYTES: usize = 48;

/// Memory that is shared. Cloning shares it.
#[derive(Clone)]
pub struct Shares(Arc<Inner>);

struct Inner {
    bytes_max: usize,
    held: Mutex<Held>,
}

#[derive(Default)]
struct Held {
    bytes: usize,
    by_tenant: HashMap<TenantId, usize>,
}

/// What one request has of it; given back when it is dropped.
pub struct Share {
    shares: Shares,
    tenant: TenantId,
    bytes: usize,
}

/// Why a share cannot be as large as that.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NoRoom {
    /// Its tenant has all that it may.
    OfTenant,
    /// All tenants together have.
    OfAll,
}

impl Shares {
    /// So many bytes.
    pub fn new(bytes_max: usize) -> Self {
        Self(Arc::new(Inner { bytes_max, held: Mutex::default() }))
    }

    /// The share of a tenant's request that has nothing yet.
    pub fn share(&self, tenant: TenantId) -> Share {
        Share { shares: self.clone(), tenant, bytes: 0 }
    }
}

impl Share {
    /// Has at least so many bytes from now on.
    pub fn grow_to(&mut self, bytes: usize) -> Result<(), NoRoom> {
        let more = bytes.saturating_sub(self.bytes);
        if more == 0 {
            return Ok(());
        }
        let Inner { bytes_max, held } = &*self.shares.0;
        let mut held = held.lock();
        let all = held.bytes.saturating_add(more);
        let own = held.by_tenant.get(&self.tenant).copied().unwrap_or_default();
        let own = own.saturating_add(more);
        if own > bytes_max / 2 {
            return Err(NoRoom::OfTenant);
        }
        if all > *bytes_max {
            return Err(NoRoom::OfAll);
        }
        held.bytes = all;
        held.by_tenant.insert(self.tenant, own);
        self.bytes = bytes;
        Ok(())
    }

    /// Gives back all but so many bytes.
    pub fn shrink_to(&mut self, bytes: usize) {
        let less = self.bytes.saturating_sub(bytes);
        if less == 0 {
            return;
        }
        let mut held = self.shares.0.held.lock();
        held.bytes = held.bytes.saturating_sub(less);
        if let Entry::Occupied(mut own) = held.by_tenant.entry(self.tenant) {
            let left = own.get().saturating_sub(less);
            if left == 0 {
                own.remove();
            } else {
                own.insert(left);
            }
        }
        self.bytes = bytes;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

/// Of what is read for a request; of its body `http` tells.
impl From<NoRoom> for Error {
    fn from(no_room: NoRoom) -> Self {
        Self::Busy(match no_room {
            NoRoom::OfTenant => {
                "What the tenant's requests have read holds all the memory that it may; try again, or read less at once."
            }
            NoRoom::OfAll => "What requests have read holds all the memory that it may; try again.",
        })
    }
}

/// About how many bytes this JSON takes, as text and once it is read.
pub fn weight_of_json(text: &[u8]) -> usize {
    let count = |matches: fn(u8) -> bool| text.iter().filter(|byte| matches(**byte)).count();
    // What stands within texts counts as well.
    let values = count(|byte| matches!(byte, b',' | b'[' | b'{'));
    let names = count(|byte| byte == b':');
    text.len() + values * size_of::<Value>() + names * NAME_BYTES
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::{NoRoom, Share, Shares, TenantId, size_of, weight_of_json};

    fn share(shares: &Shares, tenant: u128, bytes: usize) -> Share {
        let mut share = shares.share(TenantId(Uuid::from_u128(tenant)));
        share.grow_to(bytes).unwrap();
        share
    }

    #[test]
    fn a_tenant_has_half_of_the_room_and_all_have_the_whole_of_it() {
        let shares = Shares::new(100);
        let mut first = share(&shares, 1, 30);
        // What it has already is counted once.
        first.grow_to(40).unwrap();
        first.grow_to(10).unwrap();
        let mut second = share(&shares, 1, 10);
        assert_eq!(second.grow_to(11), Err(NoRoom::OfTenant));
        // What was refused is not counted, and what is held stays so.
        let other = share(&shares, 2, 50);
        let mut third = share(&shares, 3, 0);
        assert_eq!(third.grow_to(1), Err(NoRoom::OfAll));
        first.shrink_to(20);
        first.shrink_to(30);
        third.grow_to(20).unwrap();
        assert_eq!(third.grow_to(21), Err(NoRoom::OfAll));
        drop(first);
        third.grow_to(40).unwrap();
        assert_eq!(third.grow_to(usize::MAX), Err(NoRoom::OfTenant));
        drop((second, other, third));
        let held = shares.0.held.lock();
        assert!(held.bytes == 0 && held.by_tenant.is_empty());
    }

    #[test]
    fn json_weighs_what_it_takes_once_it_is_read() {
        let value = size_of::<serde_json::Value>();
        let zeros = format!("[{}0]", "0,".repeat(999));
        assert_eq!(weight_of_json(zeros.as_bytes()), zeros.len() + 1_000 * value);
        let text = "x".repeat(5_000);
        assert_eq!(weight_of_json(text.as_bytes()), 5_000);
        assert!(weight_of_json(br#"{"a":1,"b":2}"#) > 2 * value);
    }
}
