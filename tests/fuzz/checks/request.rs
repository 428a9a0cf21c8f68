//! Whole requests, through the router: keys, headers, queries, cursors and bodies. Whatever is sent, no answer is a fault
//! of the server's, and each refusal is a problem.
//!
//! An input is a request as HTTP/1.1 writes it, without the version: a line of method and address, lines of headers, an
//! empty line, the body. One without a key is sent with one that may do everything. `@reactor` and its like stand for ids
//! and keys that are drawn anew each time; see `World::new`.

use std::net::SocketAddr;
use std::sync::{LazyLock, Mutex, PoisonError};

use axum::extract::ConnectInfo;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tokamak::http::{State, router};
use tower::ServiceExt as _;

use super::{timely, world};

/// Requests after which everything is made anew: what they stored would look like a leak.
const REQUESTS_MAX: u32 = 5_000;
/// A formula that ships with the product.
const CARD_INSIGHTS: &str = "6f2b0c0e-3d5a-4c38-9d6b-5a1f3c7e9b01";

static WORLD: LazyLock<Mutex<World>> = LazyLock::new(|| Mutex::new(World::new()));

/// Checks one input.
pub fn check(input: &[u8]) {
    let mut world = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    if world.answered >= REQUESTS_MAX {
        *world = World::new();
    }
    if let Some((request, body)) = world.read(input)
        && runs_nothing(request.uri().path(), &body)
    {
        timely("answering", || world.answer(request, body));
    }
}

/// Whether no formula is compiled or run for it: what is slow there are crates that are not checked here.
fn runs_nothing(path: &str, body: &[u8]) -> bool {
    let path = path.trim_end_matches('/');
    let given = |name| {
        let body: Value = serde_json::from_slice(body).unwrap_or_default();
        body.get(name).is_some_and(|value| !value.is_null())
    };
    if path.starts_with("/reactors/") && path.ends_with("/react") {
        return given("callback_url");
    }
    !path.starts_with("/reactor-formulas") || !given("code")
}

struct World {
    base: world::World,
    state: State,
    /// What stands for what.
    names: Vec<(&'static str, String)>,
    answered: u32,
}

impl World {
    fn new() -> Self {
        let base = world::World::new();
        let keys = [("@management", base.management.clone()), ("@private", base.private.clone())];
        let mut world = Self { state: base.state(), base, names: keys.to_vec(), answered: 0 };
        let card =
            json!({"number": "4242424242424242", "expiration_month": 12, "expiration_year": 2040});
        for id in ["card", "other"] {
            world.set_up("POST /tokens", &json!({"id": id, "type": "card", "data": card}), &[]);
        }
        world.set_up("GET /tokens?size=1", &Value::Null, &[("@cursor", "/pagination/next")]);
        let body = json!({"name": "a", "type": "public", "permissions": ["token:create"]});
        world.set_up("POST /applications", &body, &[("@application", "/id"), ("@public", "/key")]);
        let body = json!({"name": "a", "formula": {"id": CARD_INSIGHTS}, "configuration": {}});
        world.set_up("POST /reactors", &body, &[("@reactor", "/id")]);
        let body = json!({"args": {"card": "{{ card }}"}, "callback_url": "https://example.com/a"});
        world.set_up("POST /reactors/@reactor/react", &body, &[("@invocation", "/invocation_id")]);
        let nonce = [("@nonce", "/nonce"), ("@session", "/session_key")];
        world.set_up("POST /sessions\nsvc-api-key: @public", &Value::Null, &nonce);
        world
    }

    /// Sends a request that has to succeed, and keeps what its answer holds at these places.
    fn set_up(&mut self, head: &str, body: &Value, kept: &[(&'static str, &str)]) {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let text = format!("{head}\ncontent-type: application/json\n\n{body}");
        let (request, body) = self.read(text.as_bytes()).unwrap();
        let (status, bytes) = self.answer(request, body);
        assert!(status.is_success(), "{head}: {status} {}", String::from_utf8_lossy(&bytes));
        let answer: Value = serde_json::from_slice(&bytes).unwrap_or_default();
        for (name, place) in kept {
            let value = answer.pointer(place).and_then(Value::as_str).unwrap();
            self.names.push((name, value.to_owned()));
        }
    }

    /// The input with everything in the place of its name.
    fn filled(&self, input: &[u8]) -> Vec<u8> {
        let mut filled = Vec::with_capacity(input.len());
        let mut rest = input;
        while let Some((byte, after)) = rest.split_first() {
            let named = self.names.iter().find(|(name, _)| rest.starts_with(name.as_bytes()));
            if let Some((name, value)) = named {
                filled.extend_from_slice(value.as_bytes());
                rest = &rest[name.len()..];
            } else {
                filled.push(*byte);
                rest = after;
            }
        }
        filled
    }

    /// The request, apart from its body.
    fn read(&self, input: &[u8]) -> Option<(Request<()>, Bytes)> {
        let input = self.filled(input);
        let end = input.windows(2).position(|pair| pair == b"\n\n");
        let (head, body) =
            end.map_or((&input[..], &b""[..]), |at| (&input[..at], &input[at + 2..]));
        let mut lines = head.split(|byte| *byte == b'\n');
        let mut words = lines.next()?.splitn(2, |byte| *byte == b' ');
        let method = Method::from_bytes(words.next()?).ok()?;
        let uri = Uri::try_from(words.next()?).ok().filter(|uri| uri.path().starts_with('/'))?;
        let key = self.usual_key(uri.path()).parse().unwrap();
        let mut request = Request::new(());
        (*request.method_mut(), *request.uri_mut()) = (method, uri);
        for line in lines {
            let mut parts = line.splitn(2, |byte| *byte == b':');
            let name = HeaderName::from_bytes(parts.next()?).ok()?;
            let value = HeaderValue::from_bytes(parts.next()?.trim_ascii()).ok()?;
            request.headers_mut().append(name, value);
        }
        if !request.headers().contains_key("svc-api-key") {
            request.headers_mut().insert("svc-api-key", key);
        }
        let client: SocketAddr = ([127, 0, 0, 1], 1).into();
        request.extensions_mut().insert(ConnectInfo(client));
        Some((request, Bytes::copy_from_slice(body)))
    }

    /// The key of whoever may do what this path is for.
    fn usual_key(&self, path: &str) -> &str {
        let used = ["/token", "/detoken", "/session"].iter().any(|start| path.starts_with(start));
        let run = path.ends_with("/react") || path.contains("/results/");
        if used || run { &self.base.private } else { &self.base.management }
    }

    fn answer(&mut self, request: Request<()>, body: Bytes) -> (StatusCode, Bytes) {
        self.answered += 1;
        let shown = format!("{} {} {:?}", request.method(), request.uri(), request.headers());
        let (status, bytes) = self.base.tokio.block_on(async {
            let request = request.map(|()| Full::new(body));
            let Ok(answer) = router(self.state.clone()).oneshot(request).await;
            let status = answer.status();
            (status, answer.into_body().collect().await.unwrap().to_bytes())
        });
        assert!(!status.is_server_error(), "{status} {}\n{shown}", String::from_utf8_lossy(&bytes));
        if status.is_client_error() && !bytes.is_empty() && status != StatusCode::NOT_ACCEPTABLE {
            let problem: Value = serde_json::from_slice(&bytes).expect("a problem is JSON");
            assert_eq!(problem["status"], status.as_u16(), "{shown}");
        }
        (status, bytes)
    }
}
