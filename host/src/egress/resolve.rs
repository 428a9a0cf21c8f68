//! Names become addresses here and nowhere else, and only addresses that the guard lets pass come out: what is
//! connected to is what was checked, whatever the name says the next time it is asked.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use hyper_util::client::legacy::connect::dns::Name;
use thiserror::Error;
use tower::Service;

use super::guard::Guard;
use super::lookup::{CROWDED, Lookups};
use crate::limits::HTTP_ADDRESSES_MAX;

/// Why a name has no address to connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Unresolved {
    /// There is none.
    #[error("the host's name has no address")]
    Unknown,
    /// Nobody could ask: its owner looks up as many as it may, or all do.
    #[error("too many names are being looked up")]
    Crowded,
    /// There is one that is not public.
    #[error("the host's address is not a public one")]
    NotPublic,
}

/// The resolver that an owner's clients connect by.
#[derive(Clone)]
pub struct GuardedResolver {
    pub lookups: Arc<Lookups>,
    pub guard: Guard,
    pub owner: u128,
}

impl Service<Name> for GuardedResolver {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = Unresolved;
    type Future = BoxFuture<'static, Result<Self::Response, Unresolved>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Unresolved>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (lookups, guard, owner) = (Arc::clone(&self.lookups), self.guard.clone(), self.owner);
        let resolve = async move {
            let found =
                lookups.find(owner, name.as_str()).await.map_err(|error| match error.kind() {
                    CROWDED => Unresolved::Crowded,
                    _ => Unresolved::Unknown,
                })?;
            let addresses = checked(found, &guard)?.into_iter();
            let addresses: Vec<_> = addresses.map(|ip| SocketAddr::new(ip, 0)).collect();
            Ok(addresses.into_iter())
        };
        resolve.boxed()
    }
}

/// The addresses to try. One that is not public makes the name suspect as a whole: it is one side of a name that means
/// another place from inside than from outside, or of one that changes its mind.
fn checked(mut found: Vec<IpAddr>, guard: &Guard) -> Result<Vec<IpAddr>, Unresolved> {
    if found.is_empty() {
        return Err(Unresolved::Unknown);
    }
    if !found.iter().all(|address| guard(*address)) {
        return Err(Unresolved::NotPublic);
    }
    found.truncate(HTTP_ADDRESSES_MAX);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::{Guard, Unresolved, checked};
    use crate::egress::is_public;
    use crate::limits::HTTP_ADDRESSES_MAX;
    use std::net::IpAddr;
    use std::sync::Arc;

    fn guards() -> (Guard, Guard) {
        (Arc::new(is_public), Arc::new(|_| true))
    }

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn one_address_that_is_not_public_spoils_the_name() {
        let (public_only, any) = guards();
        let public = addresses(&["8.8.8.8", "2606:4700::1"]);
        assert_eq!(checked(public.clone(), &public_only), Ok(public));
        for mixed in [
            &["8.8.8.8", "10.0.0.1"][..],
            &["127.0.0.1", "8.8.8.8"],
            &["8.8.8.8", "::1"],
            &["8.8.8.8", "::ffff:8.8.8.8"],
            &["169.254.169.254"],
        ] {
            let refused = checked(addresses(mixed), &public_only);
            assert_eq!(refused, Err(Unresolved::NotPublic), "{mixed:?}");
            assert_eq!(checked(addresses(mixed), &any), Ok(addresses(mixed)), "{mixed:?}");
        }
        assert_eq!(checked(Vec::new(), &any), Err(Unresolved::Unknown));
    }

    #[test]
    fn all_are_checked_and_few_are_tried() {
        let (public_only, _) = guards();
        let mut many = addresses(&["8.8.8.8"]).repeat(HTTP_ADDRESSES_MAX + 1);
        assert_eq!(checked(many.clone(), &public_only).unwrap().len(), HTTP_ADDRESSES_MAX);
        many.push("127.0.0.1".parse().unwrap());
        assert_eq!(checked(many, &public_only), Err(Unresolved::NotPublic));
    }
}
