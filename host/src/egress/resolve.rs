//! Names become addresses here and nowhere else, and only addresses that the guard lets pass come out: what is
//! connected to is what was checked, whatever the name says the next time it is asked.

use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use thiserror::Error;
use tokio::sync::Semaphore;

use super::guard::Guard;
use crate::limits::{HTTP_ADDRESSES_MAX, HTTP_LOOKUPS_MAX};

/// Who knows the addresses of names.
pub trait Lookup: Send + Sync + 'static {
    /// All addresses of a name.
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>>;
}

/// The machine's own resolver.
pub struct SystemLookup(Arc<Semaphore>);

impl Default for SystemLookup {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(HTTP_LOOKUPS_MAX)))
    }
}

impl Lookup for SystemLookup {
    fn lookup(&self, name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        let places = Arc::clone(&self.0);
        // The system's resolver cannot be interrupted: it keeps a thread until it has an answer, although nobody may be
        // waiting for it any more. So the place is kept by a task that outlives whoever asked.
        let ask = async move {
            let _place = places.acquire_owned().await.map_err(io::Error::other)?;
            let found = tokio::net::lookup_host((name, 0)).await?;
            Ok(found.map(|address| address.ip()).collect())
        };
        async move { tokio::spawn(ask).await.map_err(io::Error::other)? }.boxed()
    }
}

/// Why a name has no address to connect to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum Unresolved {
    /// There is none.
    #[error("the host's name has no address")]
    Unknown,
    /// There is one that is not public.
    #[error("the host's address is not a public one")]
    NotPublic,
}

/// The resolver that the client connects by.
pub struct GuardedResolver<L> {
    pub lookup: Arc<L>,
    pub guard: Guard,
}

impl<L: Lookup> Resolve for GuardedResolver<L> {
    fn resolve(&self, name: Name) -> Resolving {
        let (found, guard) = (self.lookup.lookup(name.as_str().to_owned()), self.guard);
        let resolve = async move {
            let found = found.await.map_err(|_| Unresolved::Unknown)?;
            let addresses = checked(found, guard)?;
            Ok(Box::new(addresses.into_iter().map(|ip| SocketAddr::new(ip, 0))) as Addrs)
        };
        resolve.boxed()
    }
}

/// The addresses to try. One that is not public makes the name suspect as a whole: it is one side of a name that means
/// another place from inside than from outside, or of one that changes its mind.
fn checked(mut found: Vec<IpAddr>, guard: Guard) -> Result<Vec<IpAddr>, Unresolved> {
    if found.is_empty() {
        return Err(Unresolved::Unknown);
    }
    if !found.iter().copied().all(guard) {
        return Err(Unresolved::NotPublic);
    }
    found.truncate(HTTP_ADDRESSES_MAX);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::{Lookup as _, SystemLookup, Unresolved, checked};
    use crate::egress::is_public;
    use crate::limits::HTTP_ADDRESSES_MAX;
    use std::net::IpAddr;

    fn addresses(texts: &[&str]) -> Vec<IpAddr> {
        texts.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn one_address_that_is_not_public_spoils_the_name() {
        let public = addresses(&["8.8.8.8", "2606:4700::1"]);
        assert_eq!(checked(public.clone(), is_public), Ok(public));
        for mixed in [
            &["8.8.8.8", "10.0.0.1"][..],
            &["127.0.0.1", "8.8.8.8"],
            &["8.8.8.8", "::1"],
            &["8.8.8.8", "::ffff:8.8.8.8"],
            &["169.254.169.254"],
        ] {
            assert_eq!(
                checked(addresses(mixed), is_public),
                Err(Unresolved::NotPublic),
                "{mixed:?}"
            );
            assert_eq!(checked(addresses(mixed), |_| true), Ok(addresses(mixed)), "{mixed:?}");
        }
        assert_eq!(checked(Vec::new(), |_| true), Err(Unresolved::Unknown));
    }

    #[test]
    fn all_are_checked_and_few_are_tried() {
        let mut many = addresses(&["8.8.8.8"]).repeat(HTTP_ADDRESSES_MAX + 1);
        assert_eq!(checked(many.clone(), is_public).unwrap().len(), HTTP_ADDRESSES_MAX);
        many.push("127.0.0.1".parse().unwrap());
        assert_eq!(checked(many, is_public), Err(Unresolved::NotPublic));
    }

    #[tokio::test]
    async fn the_system_knows_its_own_name() {
        let lookup = SystemLookup::default();
        let found = lookup.lookup("localhost".to_owned()).await.unwrap();
        assert!(!found.is_empty() && found.iter().all(IpAddr::is_loopback), "{found:?}");
        assert!(lookup.lookup("no-such-host.invalid".to_owned()).await.is_err());
    }
}
