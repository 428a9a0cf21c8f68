//! Answers in place of hosts, where a formula is tried out: checked, redirected and bounded as those of hosts are, and
//! nothing is sent.

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use url::Url;

use super::request::Hop;
use super::send::check_headers;
use super::{Answer, Egress, EgressError, Outbound};
use crate::limits::HTTP_BODY_BYTES_MAX;

const NO_ANSWER: EgressError = EgressError::Invalid("what stands in for the host gives no answer");

/// Whoever answers in place of hosts.
pub trait StandIn: Send + Sync {
    /// Whether it does so now. Otherwise what is asked for is sent.
    fn stands(&self) -> bool;

    /// The answer to a request, or to what a redirect makes of it.
    fn answer(&self, request: &Outbound) -> Result<Answer, EgressError>;

    /// Is told of a request that is not sent, and why.
    fn refused(&self, request: &Outbound, why: EgressError);
}

impl Egress {
    /// As [`Self::send`], of somebody who stands in.
    pub fn ask(
        &self,
        stand_in: &dyn StandIn,
        request: &Outbound,
        permits: &(dyn Fn(&Url) -> bool + Send + Sync),
    ) -> Result<Answer, EgressError> {
        let mut hop = self
            .first_hop(request, permits)
            .inspect_err(|refused| stand_in.refused(request, *refused))?;
        let mut redirects = request.redirects;
        loop {
            let mut answer = stand_in.answer(&outbound(request, &hop))?;
            let status = StatusCode::from_u16(answer.status).map_err(|_| NO_ANSWER)?;
            let headers = headers(&answer)?;
            check_headers(&headers)?;
            let head = (status, &headers);
            match self.next_hop(request, &hop, head, &mut redirects, permits)? {
                Some(next) => hop = next,
                None if answer.body.len() > HTTP_BODY_BYTES_MAX => {
                    return Err(EgressError::TooLarge);
                }
                None => {
                    // As there is none in any answer to this, or with these.
                    if hop.method == Method::HEAD || matches!(answer.status, 204 | 304) {
                        answer.body.clear();
                    }
                    return Ok(answer);
                }
            }
        }
    }
}

/// A request as it would be sent next.
fn outbound(request: &Outbound, hop: &Hop) -> Outbound {
    let text = |value: &HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    let headers = hop.headers.iter();
    Outbound {
        method: hop.method.to_string(),
        url: hop.url.to_string(),
        headers: headers.map(|(name, value)| (name.to_string(), text(value))).collect(),
        body: hop.body.clone(),
        ..request.clone()
    }
}

fn headers(answer: &Answer) -> Result<HeaderMap, EgressError> {
    let mut headers = HeaderMap::with_capacity(answer.headers.len());
    for (name, value) in &answer.headers {
        let name = HeaderName::try_from(name).map_err(|_| NO_ANSWER)?;
        headers.append(name, HeaderValue::try_from(value).map_err(|_| NO_ANSWER)?);
    }
    Ok(headers)
}
