//! Several requests beside each other.

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
    /// Begins the request without waiting for its answer. The vault has eight of a run under way at a time; those beyond
    /// wait for their turn, within their own time.
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

/// Sends requests beside each other and waits for all of them: the answers, in the order of the requests.
///
/// ```
/// # use tokamak_sdk::http;
/// # fn ask() -> Vec<Result<http::Response, http::Error>> {
/// let bureaus = ["https://a.example.com/scores", "https://b.example.com/scores"];
/// http::send_all(bureaus.map(|url| http::get(url).timeout_ms(2_000)))
/// # }
/// ```
pub fn send_all(requests: impl IntoIterator<Item = Request>) -> Vec<Result<Response, Error>> {
    let begun: Vec<Exchange> = requests.into_iter().map(Request::begin).collect();
    begun.into_iter().map(Exchange::wait).collect()
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
