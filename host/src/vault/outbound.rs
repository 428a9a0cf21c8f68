//! `http`: other hosts as a formula sees them, which are those that its `allowed_hosts` name (decisions §6).

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::Vault;
use crate::egress::{AllowedHosts, Egress, EgressError, Outbound, Url, Wanted};
use crate::limits::HTTP_BODY_BYTES_MAX;
use crate::model::formula::Formula;
use crate::model::id::TenantId;
use crate::runtime::{GuestHttp, GuestHttpError, GuestHttpRequest, GuestHttpResponse, Kept};

/// The way out of one formula.
struct FormulaHttp {
    egress: Egress,
    allowed: AllowedHosts,
    tenant: TenantId,
}

impl Vault {
    /// A formula's way to the hosts that it names, on behalf of a tenant.
    pub(super) fn formula_http(&self, tenant: TenantId, formula: &Formula) -> Arc<dyn GuestHttp> {
        let allowed = AllowedHosts::parse(&formula.allowed_hosts);
        Arc::new(FormulaHttp { egress: self.0.egress.clone(), allowed, tenant })
    }
}

impl GuestHttp for FormulaHttp {
    fn send(
        &self,
        request: GuestHttpRequest,
        kept: Arc<Kept>,
    ) -> BoxFuture<'_, Result<GuestHttpResponse, GuestHttpError>> {
        let send = async move {
            if self.allowed.is_empty() {
                return Err(GuestHttpError::Denied("the formula's allowed_hosts name no host"));
            }
            let GuestHttpRequest { method, url, headers, body, timeout, redirects } = request;
            let outbound = Outbound {
                method,
                url,
                headers,
                body: body.map(Into::into),
                body_bytes_max: HTTP_BODY_BYTES_MAX,
                timeout,
                redirects,
                https_only: false,
                owner: self.tenant.0.as_u128(),
                wanted: Wanted::Whole,
                repeatable: false,
            };
            let permits = |url: &Url| self.allowed.permits(url);
            let has_room = |bytes: usize| kept.grow(bytes);
            let answer = self.egress.send_within(outbound, &permits, &has_room).await?;
            Ok(GuestHttpResponse {
                status: answer.status,
                headers: answer.headers,
                body: answer.body,
            })
        };
        send.boxed()
    }
}

impl From<EgressError> for GuestHttpError {
    fn from(error: EgressError) -> Self {
        match error {
            EgressError::Denied(reason) => Self::Denied(reason),
            EgressError::Invalid(reason) => Self::Invalid(reason),
            EgressError::Unreachable(reason) => Self::Unreachable(reason),
            EgressError::Crowded => Self::Unreachable("too many hosts' names are being looked up"),
            EgressError::Timeout => Self::Timeout,
            EgressError::TooLarge => Self::TooLarge,
        }
    }
}
