//! Which token has the contents of one that is to be stored (decisions §3).

use futures::FutureExt as _;

use super::filter::Lower;
use super::{About, Token};
use crate::model::id::TenantId;
use crate::model::permission::Permission;
use crate::model::rule::Rights;
use crate::store::{Filter, Record, Start};
use crate::vault::index::term;
use crate::vault::record::{Entity as _, from_record};
use crate::vault::{Error, Vault};

/// Looks for one, while what is found is gone or has other contents by the time that it is read.
const LOOKS_MAX: usize = 8;

/// A token that was there before.
pub(super) struct Existing {
    /// As it is now.
    pub(super) token: Token,
    /// As it is stored.
    pub(super) record: Record,
}

impl Vault {
    /// The oldest token with the same fingerprint, other than the one of this id; the oldest that who has these rights may
    /// read, if there are any.
    pub(super) async fn duplicate(
        &self,
        (tenant, rights): (TenantId, &Rights),
        about: &About,
        other_than: Option<&str>,
    ) -> Result<Option<Existing>, Error> {
        let itself = Filter::Ids(other_than.into_iter().map(str::to_owned).collect());
        let look = || self.try_duplicate((tenant, rights), about, itself.clone()).boxed();
        self.retried(LOOKS_MAX, look).await
    }

    /// One look; `None` when it has to be repeated.
    async fn try_duplicate(
        &self,
        (tenant, rights): (TenantId, &Rights),
        about: &About,
        itself: Filter,
    ) -> Result<Option<Option<Existing>>, Error> {
        let keys = self.keys(tenant).await?;
        let lower = Lower(&keys);
        let same = lower.term(term::FINGERPRINT, &[&about.fingerprint]);
        let all = Filter::And(vec![same, Filter::Not(Box::new(itself)), self.not_ended()]);
        let total = async |filter: &Filter| {
            let newest = Start::Offset(0);
            Ok::<_, Error>(self.0.store.page(Token::KIND, tenant, filter, newest, 0).await?.total)
        };
        let mut among = (total(&all).await?, all);
        if among.0 > 1 {
            let visible = lower.visible(rights, Permission::TokenRead);
            let seen = Filter::And(vec![among.1.clone(), visible]);
            let count = total(&seen).await?;
            if count > 0 {
                among = (count, seen);
            }
        }
        let (total, filter) = among;
        let Some(oldest) = total.checked_sub(1) else { return Ok(Some(None)) };
        let start = (Start::Offset(oldest), 1);
        let slice = self.read_page(Token::KIND, tenant, &filter, start).await?;
        // What is found later may have taken its place.
        let Some(record) = slice.records.into_iter().next() else { return Ok(None) };
        // It may be sealed with a key that is newer than those at hand.
        let keys = self.keys(tenant).await?;
        let mut token = from_record::<Token>(&record, &keys)?.entity;
        token.settle(self.now().0);
        // It may have been given other contents after it was found by these.
        let is_same = token.about.fingerprint == about.fingerprint;
        Ok(is_same.then_some(Some(Existing { token, record })))
    }
}
