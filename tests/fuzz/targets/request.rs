//! Whole requests, through the router: keys, headers, queries, cursors and bodies. Whatever is sent, no answer is a fault
//! of the server's, and each refusal is a problem.
//!
//! An input is a request as HTTP/1.1 writes it, without the version: a line of method and address, lines of headers, an
//! empty line, the body. One without a key is sent with one that may do everything.

#![no_main]

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use bytes::Bytes;
use http::{HeaderName, HeaderValue, Method, Request, StatusCode, Uri};
use http_body_util::{BodyExt as _, Full};
use libfuzzer_sys::fuzz_target;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokamak::clock::{Clock, ManualClock};
use tokamak::config::{JobLimits, RateLimits};
use tokamak::crypto::entropy::SeededEntropy;
use tokamak::crypto::keys::RootKey;
use tokamak::egress::{Egress, EgressConfig};
use tokamak::http::{Rates, State, Stopping, router};
use tokamak::model::permission::ApplicationType;
use tokamak::runtime::{Runtime, RuntimeConfig};
use tokamak::store::sled::SledStore;
use tokamak::vault::{Foundation, Vault};
use tokamak_fuzz::{let_panics_be_caught, timely};
use tower::ServiceExt as _;

const ROOT_KEY: &str = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=";
/// 2030-01-01.
const NOW_MS: u64 = 1_893_456_000_000;
/// Where files cost no disk.
const MEMORY: &str = "/dev/shm";
/// Requests after which everything is made anew: what they stored would look like a leak.
const REQUESTS_MAX: u32 = 5_000;

static WORLD: LazyLock<Mutex<World>> = LazyLock::new(|| Mutex::new(World::new()));

fuzz_target!(init: let_panics_be_caught(), |input: &[u8]| {
    let mut world = WORLD.lock().unwrap_or_else(PoisonError::into_inner);
    if world.answered >= REQUESTS_MAX {
        *world = World::new();
    }
    if let Some(request) = world.read(input) {
        timely("answering", || world.answer(request));
    }
});

struct World {
    tokio: tokio::runtime::Runtime,
    state: State,
    private: HeaderValue,
    management: HeaderValue,
    answered: u32,
    _folder: TempDir,
}

impl World {
    fn new() -> Self {
        let tokio = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let folder = tempfile::tempdir_in(MEMORY).or_else(|_| tempfile::tempdir()).unwrap();
        let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(NOW_MS));
        let (vault, private, management) = tokio.block_on(async {
            let foundation = Foundation {
                store: Arc::new(SledStore::open(&folder.path().join("store"), 64 << 20).unwrap()),
                runtime: Runtime::new(RuntimeConfig::new(1)).unwrap(),
                egress: Egress::new(EgressConfig::default()).unwrap(),
                clock: Arc::clone(&clock),
                entropy: Arc::new(SeededEntropy::new(1)),
                root_key: RootKey::parse(ROOT_KEY).unwrap(),
                fuel_per_ms: 1,
                react_timeout_ms: 1,
                allow_http_callbacks: false,
                jobs: JobLimits::default(),
                programs_bytes_max: 512 << 20,
            };
            let vault = Vault::open(foundation).await.unwrap();
            let made = vault.bootstrap(None).await.unwrap().unwrap();
            let management = made.management_key.expose().to_owned();
            let (tenant, kind) = (made.tenant.id, ApplicationType::Private);
            let private = vault.issue_application(tenant, kind, "fuzz").await.unwrap();
            (vault, private.expose().to_owned(), management)
        });
        let rates = Rates::new(&RateLimits::default(), &clock);
        let state = State { vault, stopping: Stopping::default(), rates };
        let [private, management] = [private, management].map(|key| key.parse().unwrap());
        let mut world = Self { tokio, state, private, management, answered: 0, _folder: folder };
        let card = json!({"id": "card", "type": "card", "data": {"number": "4242424242424242"}});
        let made = world.read(format!("POST /tokens\ncontent-type: application/json\n\n{card}").as_bytes());
        world.answer(made.unwrap());
        world
    }

    fn read(&self, input: &[u8]) -> Option<Request<Full<Bytes>>> {
        let end = input.windows(2).position(|pair| pair == b"\n\n");
        let (head, body) = end.map_or((input, &b""[..]), |at| (&input[..at], &input[at + 2..]));
        let mut lines = head.split(|byte| *byte == b'\n');
        let mut words = lines.next()?.splitn(2, |byte| *byte == b' ');
        let method = Method::from_bytes(words.next()?).ok()?;
        let uri = Uri::try_from(words.next()?).ok().filter(|uri| uri.path().starts_with('/'))?;
        let tokens = ["/token", "/detoken", "/session", "/react"];
        let path = uri.path().to_owned();
        let mut request = Request::new(Full::new(Bytes::copy_from_slice(body)));
        (*request.method_mut(), *request.uri_mut()) = (method, uri);
        for line in lines {
            let mut parts = line.splitn(2, |byte| *byte == b':');
            let name = HeaderName::from_bytes(parts.next()?).ok()?;
            let value = HeaderValue::from_bytes(parts.next()?.trim_ascii()).ok()?;
            request.headers_mut().append(name, value);
        }
        if !request.headers().contains_key("svc-api-key") {
            let used = tokens.iter().any(|start| path.starts_with(start)) && path != "/reactors";
            let key = if used && !path.starts_with("/reactor-") { &self.private } else { &self.management };
            request.headers_mut().insert("svc-api-key", key.clone());
        }
        Some(request)
    }

    fn answer(&mut self, request: Request<Full<Bytes>>) {
        self.answered += 1;
        let shown = format!("{} {} {:?}", request.method(), request.uri(), request.headers());
        let (status, bytes) = self.tokio.block_on(async {
            let Ok(answer) = router(self.state.clone()).oneshot(request).await;
            let status = answer.status();
            (status, answer.into_body().collect().await.unwrap().to_bytes())
        });
        assert!(!status.is_server_error(), "{status} {}\n{shown}", String::from_utf8_lossy(&bytes));
        if status.is_client_error() && !bytes.is_empty() && status != StatusCode::NOT_ACCEPTABLE {
            let problem: Value = serde_json::from_slice(&bytes).expect("a problem is JSON");
            assert_eq!(problem["status"], status.as_u16(), "{shown}");
        }
    }
}
