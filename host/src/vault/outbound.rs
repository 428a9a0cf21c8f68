//! `http`: other hosts as a formula sees them, which are those that its `allowed_hosts` name (decisions §6).

use std::sync::Arc;

use futures::FutureExt as _;
use futures::future::BoxFuture;

use super::Vault;
use crate::egress::{AllowedHosts, Answer, Egress, EgressError, Outbound, StandIn, Url, Wanted};
use crate::limits::HTTP_BODY_BYTES_MAX;
use crate::model::formula::Formula;
use crate::model::id::TenantId;
use crate::runtime::{GuestHttp, GuestHttpError, GuestHttpRequest, GuestHttpResponse, Kept};

const NO_HOST: EgressError = EgressError::Denied("the formula's allowed_hosts name no host");

/// The way out of one formula.
struct FormulaHttp {
    egress: Egress,
    stand_in: Option<Arc<dyn StandIn>>,
    allowed: AllowedHosts,
    tenant: TenantId,
}

impl Vault {
    /// A formula's way to the hosts that it names, on behalf of a tenant.
    pub(super) fn formula_http(&self, tenant: TenantId, formula: &Formula) -> Arc<dyn GuestHttp> {
        let allowed = AllowedHosts::parse(&formula.allowed_hosts);
        let (egress, stand_in) = (self.0.egress.clone(), self.0.stand_in.clone());
        Arc::new(FormulaHttp { egress, stand_in, allowed, tenant })
    }
}

impl FormulaHttp {
    fn outbound(&self, request: GuestHttpRequest) -> Outbound {
        let GuestHttpRequest { method, url, headers, body, timeout, redirects } = request;
        Outbound {
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
        }
    }
}

impl GuestHttp for FormulaHttp {
    fn stood_in(
        &self,
        request: &GuestHttpRequest,
        kept: &Kept,
    ) -> Option<Result<GuestHttpResponse, GuestHttpError>> {
        let stand_in = self.stand_in.as_deref().filter(|stand_in| stand_in.stands())?;
        let outbound = self.outbound(request.clone());
        if self.allowed.is_empty() {
            stand_in.refused(&outbound, NO_HOST);
            return Some(Err(NO_HOST.into()));
        }
        let permits = |url: &Url| self.allowed.permits(url);
        let answer = self.egress.ask(stand_in, &outbound, &permits);
        let has_room = |answer: &Answer| kept.grow(answer.body.len());
        Some(match answer {
            Ok(answer) if !has_room(&answer) => Err(GuestHttpError::TooLarge),
            answer => answer.map(Into::into).map_err(Into::into),
        })
    }

    fn send(
        &self,
        request: GuestHttpRequest,
        kept: Arc<Kept>,
    ) -> BoxFuture<'_, Result<GuestHttpResponse, GuestHttpError>> {
        let send = async move {
            if self.allowed.is_empty() {
                return Err(NO_HOST.into());
            }
            let permits = |url: &Url| self.allowed.permits(url);
            let has_room = |bytes: usize| kept.grow(bytes);
            let outbound = self.outbound(request);
            let answer = self.egress.send_within(outbound, &permits, &has_room).await?;
            Ok(answer.into())
        };
        send.boxed()
    }
}

impl From<Answer> for GuestHttpResponse {
    fn from(answer: Answer) -> Self {
        let Answer { status, headers, body } = answer;
        Self { status, headers, body }
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
