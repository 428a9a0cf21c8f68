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

/// Whoever answers in place of other hosts, where a formula is tried out.
pub trait StandIn: Send + Sync {
    /// The answer to a request that may be sent, or none: then it is sent.
    fn answer(&self, request: &GuestHttpRequest) -> Option<HttpAnswer>;
}

/// What comes of a formula's request.
pub type HttpAnswer = Result<GuestHttpResponse, GuestHttpError>;

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

    /// What the stand-in answers, if there is one: to what could have been sent.
    fn stood_in(&self, request: &GuestHttpRequest, kept: &Kept) -> Option<HttpAnswer> {
        let stand_in = self.stand_in.as_ref()?;
        let permits = |url: &Url| self.allowed.permits(url);
        if let Err(error) = self.egress.check(&self.outbound(request.clone()), &permits) {
            return Some(Err(error.into()));
        }
        let answer = stand_in.answer(request)?;
        let no_room = answer.as_ref().is_ok_and(|answer| !kept.grow(answer.body.len()));
        Some(if no_room { Err(GuestHttpError::TooLarge) } else { answer })
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
            if let Some(answer) = self.stood_in(&request, &kept) {
                return answer;
            }
            let permits = |url: &Url| self.allowed.permits(url);
            let has_room = |bytes: usize| kept.grow(bytes);
            let outbound = self.outbound(request);
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
