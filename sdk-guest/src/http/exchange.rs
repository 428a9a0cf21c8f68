//! Several requests beside each other.

use std::collections::VecDeque;
use std::fmt;

use super::{Error, Request, Response};

/// A request under way: [`begin`](Request::begin) makes one. Dropped before its answer is there it is given up, though the
/// other server may have it.
///
/// ```
/// use tokamak_sdk::{Error, Request, Response, formula, http};
///
/// #[formula]
/// fn react(request: Request<String>) -> Result<Response, Error> {
///     let limits = http::get("https://limits.example.com/today").begin();
///     let checked = http::post("https://check.example.com/").json(&request.args).send()?;
///     // Meanwhile the limits were on their way.
///     let limits = limits.wait()?;
///     Ok(Response::raw(checked.is_success() && limits.is_success()))
/// }
/// # use tokamak_sdk::{json, testing::{Call, FakeHttp}};
/// # let both = FakeHttp::new().json(200, json!({}));
/// # assert_eq!(Call::new(&json!("a")).http(&both).run(react).raw(), json!(true));
/// ```
#[must_use = "a request that is dropped is given up"]
pub struct Exchange(Way);

enum Way {
    /// There is an answer, or there will be none.
    Ended(Result<Response, Error>),
    #[cfg(target_arch = "wasm32")]
    Begun(crate::bridge::Begun),
}

impl Request {
    /// Begins the request without waiting for its answer. The vault has eight of a run under way until their answers are
    /// taken; those beyond wait for their turn, within their own time. Together they may have 9 MiB: what is more is
    /// [`Denied`](Error::Denied). [`send_all`] heeds both.
    ///
    /// In tests outside of the vault, the fake answers at once.
    pub fn begin(self) -> Exchange {
        #[cfg(target_arch = "wasm32")]
        return Exchange(match self.sent() {
            Ok(sent) => Way::Begun(crate::bridge::begin(sent)),
            Err(error) => Way::Ended(Err(error)),
        });
        #[cfg(not(target_arch = "wasm32"))]
        Exchange(Way::Ended(self.send()))
    }
}

impl Exchange {
    /// Waits for the whole answer, whatever its status.
    pub fn wait(self) -> Result<Response, Error> {
        match self.0 {
            Way::Ended(answer) => answer,
            #[cfg(target_arch = "wasm32")]
            Way::Begun(begun) => begun.answer(),
        }
    }
}

// As of requests and answers.
impl fmt::Debug for Exchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Exchange").finish_non_exhaustive()
    }
}

/// Requests that [`send_all`] has under way at a time, and bytes of their bodies.
const UNDER_WAY_MAX: usize = 8;
const UNDER_WAY_BYTES_MAX: usize = 8 << 20;

/// Sends requests beside each other, up to eight at a time, and waits for all of them: the answers, in the order of the
/// requests. The time of each begins when it is sent.
///
/// ```
/// # use tokamak_sdk::http;
/// # fn ask() -> Vec<Result<http::Response, http::Error>> {
/// let bureaus = ["https://a.example.com/scores", "https://b.example.com/scores"];
/// http::send_all(bureaus.map(|url| http::get(url).timeout_ms(2_000)))
/// # }
/// ```
pub fn send_all(requests: impl IntoIterator<Item = Request>) -> Vec<Result<Response, Error>> {
    let mut answers = Vec::new();
    let mut begun: VecDeque<(Exchange, usize)> = VecDeque::new();
    let mut bytes = 0;
    for request in requests {
        let more = request.sent.body.as_ref().map_or(0, Vec::len);
        while begun.len() >= UNDER_WAY_MAX || bytes + more > UNDER_WAY_BYTES_MAX {
            let Some((exchange, less)) = begun.pop_front() else { break };
            answers.push(exchange.wait());
            bytes -= less;
        }
        begun.push_back((request.begin(), more));
        bytes += more;
    }
    answers.extend(begun.into_iter().map(|(exchange, _)| exchange.wait()));
    answers
}

#[cfg(test)]
mod tests {
    use super::send_all;
    use crate::http::{self, Error, Response};
    use crate::testing::{Call, FakeHttp};
    use crate::{Request, Value, json};

    #[test]
    fn answers_are_in_the_order_of_the_requests() {
        let network = FakeHttp::answering(|sent| {
            if sent.url.ends_with('1') {
                return Err(Error::Timeout);
            }
            Ok(Response::new(200, sent.url.clone()))
        });
        let mut told = Vec::new();
        let formula = |_: Request<Value>| -> Result<crate::Response, crate::Error> {
            let url = |number| format!("https://a.example/{number}");
            let requests = (0..3).map(|number| http::get(url(number)));
            told = send_all(requests).into_iter().map(|answer| answer.map(|a| a.body)).collect();
            let begun = http::get(url(7)).begin();
            told.push(begun.wait().map(|answer| answer.body));
            assert_eq!(format!("{:?}", http::get(url(8)).begin()), "Exchange { .. }");
            Ok(crate::Response::raw(1))
        };
        assert!(Call::new(json!({})).http(&network).run(formula).is_ok());
        let url = |number: u8| format!("https://a.example/{number}").into_bytes();
        assert_eq!(told, [Ok(url(0)), Err(Error::Timeout), Ok(url(2)), Ok(url(7))]);
    }

    #[test]
    fn more_and_larger_ones_than_may_be_under_way_are_all_sent() {
        let network = FakeHttp::answering(|sent| Ok(Response::new(200, sent.text())));
        let formula = |_: Request<Value>| -> Result<crate::Response, crate::Error> {
            let bodies = (0..30).map(|number| number.to_string()).chain(["x".repeat(9 << 20)]);
            let bodies: Vec<String> = bodies.chain(["y".repeat(5 << 20)]).collect();
            let requests = bodies.iter().map(|body| http::post("https://a.example/").body(&**body));
            let answers = send_all(requests);
            assert_eq!(answers.len(), bodies.len());
            for (answer, body) in answers.into_iter().zip(&bodies) {
                assert!(answer.unwrap().body == body.as_bytes());
            }
            Ok(crate::Response::raw(1))
        };
        assert!(Call::new(json!({})).http(&network).run(formula).is_ok());
        assert_eq!(network.requests().len(), 32);
    }

    #[test]
    fn what_cannot_be_written_is_not_sent() {
        let network = FakeHttp::new().json(200, json!(1));
        let formula = |_: Request<Value>| -> Result<crate::Response, crate::Error> {
            let odd = std::collections::BTreeMap::from([((1, 2), 3)]);
            let answers = send_all([http::post("https://a.example/").json(&odd)]);
            assert!(matches!(answers[..], [Err(Error::Invalid(_))]));
            Ok(crate::Response::raw(1))
        };
        assert!(Call::new(json!({})).http(&network).run(formula).is_ok());
        assert!(network.requests().is_empty());
    }
}
