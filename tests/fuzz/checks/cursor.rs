//! Cursors: whatever is sent as one, the page that comes is what stands behind that place in the list, newest first, with
//! the total of the whole list; or the cursor is refused by its name.
//!
//! An input is the list, in its first byte, and the cursor: as it is sent after `=`, else what it is made of, 8 bytes for
//! the page's number, 8 for the time and an id.

use std::fmt::Write as _;
use std::sync::{LazyLock, Mutex, PoisonError};

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use bytes::Bytes;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt as _, Full};
use serde_json::{Value, json};
use tokamak::http::router;
use tokamak::model::time::parse_rfc3339;
use tower::ServiceExt as _;

use super::{timely, world};

const TOKENS: usize = 12;
/// Entries of a page.
const SIZE: usize = 3;
/// The largest number of a page.
const NUMBER_MAX: u64 = i32::MAX.unsigned_abs() as u64;
/// Requests after which everything is made anew: reading tokens makes entries of the log.
const REQUESTS_MAX: u32 = 5_000;
/// The lists. The log is the last: it grows as lists are read, and shows no ids.
const LISTS: [&str; 6] =
    ["/tokens", "/tokens/search", "/applications", "/reactors", "/reactor-formulas", "/logs"];
const LOG: usize = LISTS.len() - 1;

static LISTED: LazyLock<Mutex<Listed>> = LazyLock::new(|| Mutex::new(Listed::new()));

/// Checks one input.
pub fn check(input: &[u8]) {
    let Some((list, rest)) = input.split_first() else { return };
    let (cursor, place) = match rest.strip_prefix(b"=") {
        Some(text) => match std::str::from_utf8(text) {
            Ok(text) => (text.to_owned(), None),
            Err(_) => return,
        },
        None => (URL_SAFE_NO_PAD.encode(rest), Place::read(rest)),
    };
    let made = !rest.starts_with(b"=");
    let mut listed = LISTED.lock().unwrap_or_else(PoisonError::into_inner);
    if listed.asked > REQUESTS_MAX {
        *listed = Listed::new();
    }
    let list = usize::from(*list) % LISTS.len();
    let (status, answer) = timely("listing", || listed.ask(list, &cursor));
    match (status, place) {
        (StatusCode::OK, Some(place)) => listed.check_page(list, &place, &answer),
        (StatusCode::OK, None) => assert!(!made, "{cursor} was taken: {answer}"),
        (StatusCode::BAD_REQUEST, place) => {
            assert!(place.is_none(), "{cursor} was refused: {answer}");
            assert!(answer["errors"]["start"].is_array(), "{answer}");
        }
        (status, _) => panic!("{status} {answer}"),
    }
}

/// Where a list goes on: entries have times and ids, and come newest first.
type Entry = (u64, String);

/// What a cursor tells.
struct Place {
    number: u64,
    last: Entry,
}

impl Place {
    fn read(bytes: &[u8]) -> Option<Self> {
        let (number, rest) = bytes.split_first_chunk::<8>()?;
        let (time, id) = rest.split_first_chunk::<8>()?;
        let last = (u64::from_be_bytes(*time), std::str::from_utf8(id).ok()?.to_owned());
        Some(Self { number: u64::from_be_bytes(*number), last })
    }
}

struct Listed {
    base: world::World,
    /// Every list, whole.
    lists: Vec<Vec<Entry>>,
    asked: u32,
}

impl Listed {
    fn new() -> Self {
        let mut listed = Self { base: world::World::new(), lists: Vec::new(), asked: 0 };
        for number in 0..TOKENS {
            // Two at a time: ties are decided by the ids.
            listed.base.clock.advance_ms((number as u64 % 2) * 1_000);
            listed.make(
                "/tokens",
                &json!({"id": format!("token-{number:02}"), "type": "token", "data": "a"}),
            );
        }
        for name in ["a", "b", "c", "d", "e"] {
            listed.base.clock.advance_ms(1);
            let permissions = ["token:create"];
            let body = json!({"name": name, "type": "public", "permissions": permissions});
            listed.make("/applications", &body);
        }
        for (list, path) in LISTS[..LOG].iter().enumerate() {
            let (status, all) = listed.send(list, &json!({"size": 100}));
            assert_eq!(status, StatusCode::OK, "{path}: {all}");
            let entries = entries(&all);
            assert!(entries.is_sorted_by(|a, b| a > b), "{path} is not newest first: {entries:?}");
            assert!(!entries.is_empty() || *path == "/reactors", "{path}");
            listed.lists.push(entries);
        }
        listed
    }

    fn make(&mut self, path: &str, body: &Value) {
        let (status, answer) = self.answer(Method::POST, path, body);
        assert_eq!(status, StatusCode::CREATED, "{answer}");
    }

    fn ask(&mut self, list: usize, cursor: &str) -> (StatusCode, Value) {
        self.send(list, &json!({"size": SIZE, "start": cursor}))
    }

    /// Asks for a page, by what stands in a body or in a query.
    fn send(&mut self, list: usize, page: &Value) -> (StatusCode, Value) {
        let path = LISTS[list];
        if path.ends_with("/search") {
            return self.answer(Method::POST, path, page);
        }
        let mut query = format!("{path}?size={}", page["size"]);
        if let Some(cursor) = page["start"].as_str() {
            query.push_str("&start=");
            for byte in cursor.bytes() {
                write!(query, "%{byte:02X}").unwrap();
            }
        }
        self.answer(Method::GET, &query, &Value::Null)
    }

    fn answer(&mut self, method: Method, path: &str, body: &Value) -> (StatusCode, Value) {
        self.asked += 1;
        let private = path.starts_with("/tokens");
        let key = if private { &self.base.private } else { &self.base.management };
        let request = Request::builder().method(method).uri(path).header("svc-api-key", key);
        let request = request.header("content-type", "application/json");
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let request = request.body(Full::new(Bytes::from(body))).unwrap();
        let state = self.base.state();
        let (status, bytes) = self.base.tokio.block_on(async {
            let Ok(answer) = router(state).oneshot(request).await;
            (answer.status(), answer.into_body().collect().await.unwrap().to_bytes())
        });
        (status, serde_json::from_slice(&bytes).unwrap())
    }

    fn check_page(&self, list: usize, place: &Place, answer: &Value) {
        let shown = entries(answer);
        let number = answer["pagination"]["page_number"].as_u64().unwrap();
        assert_eq!(number, place.number.clamp(1, NUMBER_MAX));
        if list == LOG {
            assert!(shown.is_sorted_by(|a, b| a.0 >= b.0), "{answer}");
            assert!(shown.iter().all(|(time, _)| *time <= place.last.0), "{answer}");
            return;
        }
        let rest: Vec<_> = self.lists[list].iter().filter(|entry| **entry < place.last).collect();
        assert!(shown.iter().eq(rest.iter().copied().take(SIZE)), "{answer}, of {rest:?}");
        assert_eq!(answer["pagination"]["total_items"], self.lists[list].len());
        let more = rest.len() > SIZE;
        assert_eq!(answer["pagination"]["next"].is_string(), more, "{answer}");
    }
}

fn entries(page: &Value) -> Vec<Entry> {
    let entry = |entry: &Value| {
        let made = parse_rfc3339(entry["created_at"].as_str().unwrap()).unwrap();
        (made.0, entry["id"].as_str().unwrap_or_default().to_owned())
    };
    page["data"].as_array().unwrap().iter().map(entry).collect()
}
