//! Bad requests in great number, made from the description of the interface: none is answered by a fault of the server's,
//! none ends in a panic, and the server does not grow by them.
//!
//! Some 2,000 in the suite; `TOKAMAK_BAD_REQUESTS=100000 cargo test --test it storm` sends as many as it says, and
//! `TOKAMAK_BAD_SEED` begins elsewhere. What fails prints its request.

use std::fmt::Write as _;
use std::fs;
use std::process::Stdio;
use std::sync::Arc;

use reqwest::Method;
use serde_json::{Map, Value, json};

use crate::support::Client;
use crate::support::binary::{MANAGEMENT_KEY, Process, ROOT_KEY, command};

const REQUESTS: u64 = 2_000;
const SEED: u64 = 1;
/// Requests under way at the same time.
const SENDERS: u64 = 8;
/// How much the process may grow while the second half of the requests comes, in MiB: what they store, and noise.
const GROWTH_MB_MAX: u64 = 256;

/// Numbers as random as a test needs them, the same for the same seed (`SplitMix64`).
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, most: usize) -> usize {
        usize::try_from(self.next() % most.max(1) as u64).unwrap()
    }

    fn one_in(&mut self, count: usize) -> bool {
        self.below(count) == 0
    }

    fn text(&mut self) -> &'static str {
        TEXTS[self.below(TEXTS.len())]
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// Texts where a text is wanted, or something else is.
const TEXTS: &[&str] = &[
    "",
    " ",
    "a",
    "é",
    "\u{0}",
    "\u{202e}\u{feff}",
    "\r\n",
    "..",
    "../../etc/passwd",
    "%00",
    "%",
    "%zz",
    "' OR 1=1 --",
    "<script>",
    "{{ data }}",
    "{{",
    "{{ data | hmac: 'sha-256' }}",
    "{{ data | json: '$..*' }}",
    "{{ data | pad_left: 99999999, 'x' }}",
    "{% for a in (1..999999) %}",
    "type:card AND",
    "((((((((",
    "NOT NOT NOT",
    "container:/a/*",
    "created_at:[2030 TO *]",
    "/",
    "//",
    "/pci/high/",
    "null",
    "true",
    "-1",
    "1e309",
    "99999999999999999999",
    "2030-13-45T99:99:99Z",
    "1/1/10000",
    "1/1/2030 13:00:00 AM +99:99",
    "9999-12-31",
    "card",
    "token:create",
    "token:read",
    "key_prv_",
    "http://127.0.0.1/",
    "https://[::1]:0/",
    "data:,x",
    "AAAA",
    "====",
    "00000000-0000-7000-8000-000000000000",
    "6f2b0c0e-3d5a-4c38-9d6b-5a1f3c7e9b01",
    "\u{10ffff}",
    "*",
    "a*b*c*",
];
const HEADERS: &[&str] = &[
    "accept",
    "content-type",
    "svc-trace-id",
    "svc-idempotency-key",
    "svc-api-key",
    "accept-encoding",
    "range",
    "te",
    "if-match",
    "expect",
    "authorization",
    "cookie",
    "origin",
    "x-forwarded-for",
    "content-encoding",
    "forwarded",
];
const CONTENT_TYPES: &[&str] = &[
    "application/json",
    "application/json",
    "application/json",
    "application/merge-patch+json",
    "application/wasm",
    "text/plain",
    "application/json; charset=utf-16",
    "multipart/form-data; boundary=x",
    "",
    "/",
];

/// An operation of the interface.
struct Operation {
    method: Method,
    path: String,
    parameters: Vec<String>,
    /// Bodies that it takes.
    bodies: Vec<Value>,
}

fn operations(description: &Value) -> Vec<Operation> {
    let mut found = Vec::new();
    for (path, operations) in description["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let named = operation["parameters"].as_array().into_iter().flatten();
            let named = named.filter(|parameter| parameter["in"] == "query");
            let parameters = named.map(|parameter| parameter["name"].as_str().unwrap().to_owned());
            let contents = operation["requestBody"]["content"].as_object().into_iter();
            let contents =
                contents.flat_map(|contents| contents.values().cloned().collect::<Vec<_>>());
            let mut bodies = Vec::new();
            for content in contents {
                bodies.extend(content.get("example").cloned());
                let examples = content["examples"].as_object().into_iter();
                let examples = examples.flat_map(|all| all.values().cloned().collect::<Vec<_>>());
                bodies.extend(examples.map(|example| example["value"].clone()));
            }
            let parameters = parameters.collect();
            found.push(Operation { method, path: path.clone(), parameters, bodies });
        }
    }
    assert!(found.len() >= 36 && found.iter().any(|one| !one.bodies.is_empty()));
    found
}

fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut all, byte| {
        if byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte) {
            all.push(char::from(byte));
        } else {
            let _ = write!(all, "%{byte:02X}");
        }
        all
    })
}

/// Any value.
fn value(dice: &mut Dice, depth: usize) -> Value {
    match dice.below(if depth == 0 { 7 } else { 10 }) {
        0 => Value::Null,
        1 => json!(dice.one_in(2)),
        2 => json!(dice.next()),
        3 => json!(i64::MIN),
        4 => json!(1e300),
        5 => json!(*dice.text()),
        6 => json!(dice.text().repeat(1 + dice.below(2_000))),
        7 => (0..dice.below(4)).map(|_| value(dice, depth - 1)).collect(),
        8 => {
            let members =
                (0..dice.below(4)).map(|_| (dice.text().to_string(), value(dice, depth - 1)));
            Value::Object(members.collect::<Map<_, _>>())
        }
        _ => (0..dice.below(90)).fold(json!(1), |inner, _| json!([inner])),
    }
}

/// A body that is taken, with some places that are not as they should be.
fn worsen(body: &mut Value, dice: &mut Dice) {
    match body {
        Value::Object(members) if !members.is_empty() && !dice.one_in(4) => {
            let names: Vec<_> = members.keys().cloned().collect();
            let name = dice.pick(&names).clone();
            match dice.below(6) {
                0 => drop(members.shift_remove(&name)),
                1 => drop(members.insert(name, value(dice, 3))),
                2 => drop(members.insert(dice.text().to_string(), value(dice, 2))),
                _ => worsen(&mut members[&name], dice),
            }
        }
        Value::Array(items) if !items.is_empty() && !dice.one_in(4) => match dice.below(4) {
            0 => items.clear(),
            1 => {
                let copies = vec![items[0].clone(); 1 + dice.below(200)];
                items.extend(copies);
            }
            _ => {
                let at = dice.below(items.len());
                worsen(&mut items[at], dice);
            }
        },
        other => *other = value(dice, 3),
    }
}

fn body(operation: &Operation, dice: &mut Dice) -> Vec<u8> {
    if operation.bodies.is_empty() || dice.one_in(12) {
        return match dice.below(4) {
            0 => Vec::new(),
            1 => (0..dice.below(300)).map(|_| dice.next().to_le_bytes()[0]).collect(),
            2 => b"\0asm\x0d\0\x01\0\xff\xff\xff\xff\xff".to_vec(),
            _ => value(dice, 4).to_string().into_bytes(),
        };
    }
    let mut body = dice.pick(&operation.bodies).clone();
    for _ in 0..=dice.below(3) {
        worsen(&mut body, dice);
    }
    let mut bytes = body.to_string().into_bytes();
    if dice.one_in(10) && !bytes.is_empty() {
        // Text that is no JSON, by a byte.
        let at = dice.below(bytes.len());
        match dice.below(3) {
            0 => bytes.truncate(at),
            1 => bytes[at] = dice.next().to_le_bytes()[0],
            _ => bytes.insert(at, *dice.pick(b"{}[]\",:\\\0\xff")),
        }
    }
    bytes
}

/// A request that is likely to be wrong, as method, address, headers and body.
type Bad = (Method, String, Vec<(String, Vec<u8>)>, Vec<u8>);

fn request(operations: &[Operation], keys: &[String], dice: &mut Dice) -> Bad {
    let operation = dice.pick(operations);
    let mut path = String::new();
    for segment in operation.path.split('/').skip(1) {
        let given = if segment.starts_with('{') || dice.one_in(40) {
            encoded(dice.text())
        } else {
            segment.to_owned()
        };
        path = format!("{path}/{given}");
    }
    let mut separator = '?';
    for _ in 0..dice.below(4) {
        let name = if operation.parameters.is_empty() || dice.one_in(4) {
            encoded(dice.text())
        } else {
            dice.pick(&operation.parameters).clone()
        };
        let value = if dice.one_in(8) {
            dice.text().replace(['\r', '\n', '\0', ' ', '#'], "")
        } else {
            encoded(dice.text())
        };
        let _ = write!(path, "{separator}{name}={value}");
        separator = '&';
    }
    let method = if dice.one_in(30) {
        dice.pick(&[Method::HEAD, Method::OPTIONS, Method::PUT, Method::TRACE, Method::PATCH])
            .clone()
    } else {
        operation.method.clone()
    };
    let mut headers = Vec::new();
    if !dice.one_in(20) {
        headers.push(("svc-api-key".to_owned(), dice.pick(keys).clone().into_bytes()));
    }
    let usual = match operation.method {
        Method::PATCH => "application/merge-patch+json",
        _ => "application/json",
    };
    let content_type = if dice.one_in(8) { *dice.pick(CONTENT_TYPES) } else { usual };
    headers.push(("content-type".to_owned(), content_type.as_bytes().to_vec()));
    for _ in 0..dice.below(3) {
        let plain = |byte: &u8| *byte == b'\t' || (*byte >= b' ' && *byte != 127);
        let value = dice.text().bytes().filter(plain).collect();
        headers.push((dice.pick(HEADERS).to_string(), value));
    }
    // Nobody answers before the body is asked for.
    headers.retain(|(name, _)| name != "expect");
    (method, path, headers, body(operation, dice))
}

fn resident_mb(process: &Process) -> u64 {
    let status = fs::read_to_string(format!("/proc/{}/status", process.id())).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.split_whitespace().next().unwrap().parse::<u64>().unwrap() >> 10
}

fn told(name: &str, usual: u64) -> u64 {
    std::env::var(name).map_or(usual, |text| text.parse().unwrap())
}

/// Sends requests, each made of its own number; gives how many were answered by the first digit of their status, and how
/// many cannot be sent.
async fn send(
    numbers: std::ops::Range<u64>,
    target: Arc<(Client, Vec<Operation>, Vec<String>, u64)>,
) -> ([u64; 6], u64) {
    let (client, operations, keys, seed) = &*target;
    let (mut statuses, mut unsent) = ([0; 6], 0);
    for number in numbers {
        let bad =
            request(operations, keys, &mut Dice(seed.wrapping_mul(1 << 32).wrapping_add(number)));
        let (method, path, headers, body) = bad.clone();
        let mut built = client.request(method, &path).body(body);
        for (name, value) in headers {
            built = built.header(name, value);
        }
        // What a client refuses to send is bad in another way.
        let Ok(built) = built.build() else {
            unsent += 1;
            continue;
        };
        let answer = match client.execute(built).await {
            Ok(answer) => answer,
            Err(error) => panic!("request {number} was not answered: {error:?}\n{bad:?}"),
        };
        let status = answer.status.as_u16();
        assert!(status < 500, "request {number}: {status} {}\n{bad:?}", answer.text());
        statuses[usize::from(status / 100)] += 1;
    }
    (statuses, unsent)
}

#[tokio::test(flavor = "multi_thread")]
async fn bad_requests_in_great_number_do_no_harm() {
    let (requests, seed) = (told("TOKAMAK_BAD_REQUESTS", REQUESTS), told("TOKAMAK_BAD_SEED", SEED));
    let folder = tempfile::tempdir().unwrap();
    let log = folder.path().join("log");
    let mut serve = command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--cache-mb", "32", "--log", "warn"]);
    serve.args(["--lock-out-after", "0"]).arg("--data-dir").arg(folder.path().join("data"));
    serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
    serve.stderr(Stdio::from(fs::File::create(&log).unwrap()));
    let process = Process::start(serve);
    let management = process.management();
    let description = management.get("/openapi.json").await.expect(200);
    let mut keys = vec![MANAGEMENT_KEY.to_owned(), "key_prv_none".to_owned()];
    for kind in ["private", "private", "public"] {
        let mut permissions = vec!["token:create", "token:update"];
        if kind == "private" {
            permissions.extend(["token:read", "token:search", "token:delete", "token:use"]);
        }
        let body = json!({"name": "a", "type": kind, "permissions": permissions});
        let made = management.post("/applications", body).await.expect(201);
        keys.push(made["key"].as_str().unwrap().to_owned());
    }
    let nobody = Client::new(process.address, None);
    let target = Arc::new((nobody, operations(&description), keys, seed));
    let (mut statuses, mut unsent, mut sent) = ([0_u64; 6], 0, 0);
    let mut grown_from = 0;
    for half in 0..2 {
        let (first, count) = (half * requests / 2, requests / 2);
        let each = count / SENDERS;
        let senders: Vec<_> = (0..SENDERS)
            .map(|sender| {
                let from = first + sender * each;
                tokio::spawn(send(from..from + each, Arc::clone(&target)))
            })
            .collect();
        for sender in senders {
            let (answered, not) = sender.await.unwrap();
            for (all, some) in statuses.iter_mut().zip(answered) {
                *all += some;
            }
            unsent += not;
            sent += each;
        }
        if half == 0 {
            grown_from = resident_mb(&process);
        }
    }
    let (before, after) = (grown_from, resident_mb(&process));
    println!(
        "{requests} requests from seed {seed}: {statuses:?}, {unsent} unsent; {before} MiB, then {after} MiB"
    );
    assert!(after < before + GROWTH_MB_MAX, "{before} MiB, then {after} MiB");
    // Each was answered, but for the few that no client sends.
    assert_eq!(statuses.iter().sum::<u64>() + unsent, sent);
    assert!(sent > requests - 2 * SENDERS && unsent < requests / 50, "{unsent} of {sent}");
    // Most were wrong, some were not.
    assert!(statuses[4] > requests / 2 && statuses[2] > 0, "{statuses:?}");
    management.get("/readyz").await.expect(200);
    let log = fs::read_to_string(log).unwrap();
    assert!(!log.contains("panicked"), "{log}");
    assert_eq!(process.terminate(), Some(0));
}
