//! Other servers, for tests of formulas.
//!
//! It answers as it is told and keeps what it was sent. It has no `allowed_hosts`, no limits and no time; a test that
//! needs them runs against a server.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::rc::Rc;

use serde_json::Value;

use crate::http::{Error, Response, Sent};

type Answer = Box<dyn FnMut(&Sent) -> Result<Response, Error>>;

/// The network as a formula sees it in a test. Clones share their answers and what was sent.
///
/// Answers are given in the order in which they were added; the last one again and again. A network without any
/// refuses every request, as a formula without `allowed_hosts` has it.
///
/// ```
/// use tokamak_sdk::testing::{Call, FakeHttp};
/// use tokamak_sdk::{Error, Request, Response, Value, http, json};
///
/// fn react(_: Request<Value>) -> Result<Response, Error> {
///     let url = "https://api.example.com/";
///     let answer = http::get(url).send().or_else(|_| http::get(url).send())?;
///     Ok(Response::raw(answer.json::<Value>()?))
/// }
///
/// let server = FakeHttp::new().fails(http::Error::Timeout).json(200, json!("at last"));
/// assert_eq!(Call::new(json!({})).http(&server).run(react).raw(), "at last");
/// assert_eq!(server.requests().len(), 2);
///
/// let mirror = FakeHttp::answering(|sent| Ok(http::Response::new(200, format!("{:?}", sent.url))));
/// assert_eq!(Call::new(json!({})).http(&mirror).run(react).raw(), "https://api.example.com/");
/// ```
#[derive(Clone, Default)]
pub struct FakeHttp(Rc<RefCell<State>>);

#[derive(Default)]
struct State {
    scripted: VecDeque<Result<Response, Error>>,
    answer: Option<Answer>,
    sent: Vec<Sent>,
}

impl FakeHttp {
    /// A network that refuses every request until it gets an answer to give.
    pub fn new() -> Self {
        Self::default()
    }

    /// A network that answers every request as `answer` says.
    pub fn answering(answer: impl FnMut(&Sent) -> Result<Response, Error> + 'static) -> Self {
        let network = Self::default();
        network.0.borrow_mut().answer = Some(Box::new(answer));
        network
    }

    /// Gives this answer next.
    #[must_use]
    pub fn then(self, answer: Result<Response, Error>) -> Self {
        self.0.borrow_mut().scripted.push_back(answer);
        self
    }

    /// Gives an answer with this status and JSON next.
    #[must_use]
    #[expect(clippy::needless_pass_by_value, reason = "tests write `json!` here")]
    pub fn json(self, status: u16, body: Value) -> Self {
        let headers = vec![("content-type".to_owned(), "application/json".to_owned())];
        self.then(Ok(Response { status, headers, body: body.to_string().into_bytes() }))
    }

    /// Gives no answer next, but this failure.
    #[must_use]
    pub fn fails(self, error: Error) -> Self {
        self.then(Err(error))
    }

    /// What was sent so far.
    pub fn requests(&self) -> Vec<Sent> {
        self.0.borrow().sent.clone()
    }

    pub(crate) fn send(&self, sent: Sent) -> Result<Response, Error> {
        let mut state = self.0.borrow_mut();
        let answer = match (state.scripted.len(), &mut state.answer) {
            (0, Some(answer)) => answer(&sent),
            (0, None) => Err(Error::Denied("the test gives no answer".to_owned())),
            (1, None) => state.scripted[0].clone(),
            _ => state.scripted.pop_front().unwrap_or(Err(Error::Timeout)),
        };
        state.sent.push(sent);
        answer
    }
}

impl Sent {
    /// The body as text; empty when there is none.
    ///
    /// # Panics
    /// When it is not UTF-8.
    #[expect(clippy::expect_used, reason = "a test that calls this has failed")]
    pub fn text(&self) -> String {
        String::from_utf8(self.body.clone().unwrap_or_default()).expect("the body must be text")
    }

    /// The body as JSON.
    ///
    /// # Panics
    /// When it is none.
    #[expect(clippy::expect_used, reason = "a test that calls this has failed")]
    pub fn json(&self) -> Value {
        serde_json::from_str(&self.text()).expect("the body must be JSON")
    }
}

#[cfg(test)]
mod tests {
    use super::FakeHttp;
    use crate::http::{self, Error, Response};
    use crate::testing::Call;
    use crate::{Request, Value, json};

    fn statuses(network: Option<&FakeHttp>, count: usize) -> Vec<Result<u16, Error>> {
        let mut answers = Vec::new();
        let formula = |_: Request<Value>| -> Result<crate::Response, crate::Error> {
            for number in 0..count {
                let url = format!("https://a.example/{number}");
                answers.push(http::get(url).send().map(|answer| answer.status));
            }
            Ok(crate::Response::raw(1))
        };
        let call = Call::new(json!({}));
        let call = if let Some(network) = network { call.http(network) } else { call };
        assert!(call.run(formula).is_ok());
        answers
    }

    #[test]
    fn answers_come_in_their_order_and_the_last_one_stays() {
        let network = FakeHttp::new().json(500, json!(1)).fails(Error::Timeout).json(200, json!(2));
        let expected = [Ok(500), Err(Error::Timeout), Ok(200), Ok(200)];
        assert_eq!(statuses(Some(&network), 4), expected);
        let urls: Vec<String> = network.requests().into_iter().map(|sent| sent.url).collect();
        assert_eq!(urls.len(), 4);
        assert_eq!(urls[3], "https://a.example/3");
    }

    #[test]
    fn a_script_goes_before_the_closure() {
        let network = FakeHttp::answering(|sent| {
            Ok(Response::new(if sent.url.ends_with('1') { 201 } else { 202 }, ""))
        });
        let network = network.json(500, json!(1));
        assert_eq!(statuses(Some(&network), 3), [Ok(500), Ok(201), Ok(202)]);
    }

    #[test]
    fn nobody_is_there_unless_the_test_says_so() {
        for network in [None, Some(&FakeHttp::new())] {
            assert!(matches!(statuses(network, 1)[0], Err(Error::Denied(_))));
        }
        // What one call was given is not there for the next on this thread.
        let network = FakeHttp::new().json(200, json!(1));
        assert_eq!(statuses(Some(&network), 1), [Ok(200)]);
        assert!(matches!(statuses(None, 1)[0], Err(Error::Denied(_))));
    }
}
