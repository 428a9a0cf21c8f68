//! Searching and making tokens, as the store grows.
//!
//! Loads a mix of all types with three metadata keys and containers three deep, and prints a table: how fast tokens are
//! made when there are ten thousand and at the end, what each query costs inside the server on page 1 and on a deep
//! page (its log entries included; and on a page behind the last one, which is the total alone), how long a restart
//! takes, and memory (all that a restarted server holds) and disk per token. Restarts are those of the real binary,
//! killed each time, until it answers that it is ready; the first one reads all that was written since the store was
//! made, and files are in the system's page cache.
//!
//! `cargo bench --bench search -- 1000000` loads and measures; with a folder behind the number, what was loaded is kept
//! there, and found there the next time. With `BENCH_POSTGRES` set to a connection string for `psql`, the same queries
//! run on PostgreSQL too, and how many times as long they take is printed.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stdout,
    clippy::cast_precision_loss,
    clippy::disallowed_methods,
    missing_docs,
    reason = "a benchmark fails by panicking, and prints what it measures"
)]

mod postgres;

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::stream::{self, StreamExt as _};
use serde_json::{Value, json};
use tokamak::clock::SystemClock;
use tokamak::config::JobLimits;
use tokamak::crypto::api_key::ApiKey;
use tokamak::crypto::entropy::SystemEntropy;
use tokamak::crypto::keys::RootKey;
use tokamak::egress::{Egress, EgressConfig};
use tokamak::model::member;
use tokamak::model::permission::ApplicationType;
use tokamak::model::permission::marker::{TokenCreate, TokenSearch};
use tokamak::runtime::{Runtime, RuntimeConfig};
use tokamak::store::sled::SledStore;
use tokamak::vault::{Foundation, Permit, Vault};

const TOKENS_DEFAULT: usize = 100_000;
/// Requests in flight while loading.
const CONCURRENCY: usize = 256;
/// Tokens of one measurement of speed.
const WINDOW: usize = 10_000;
const REPEATS: usize = 300;
const ROOT_KEY: &str = "QUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUFBQUE=";

const QUERIES: &[(&str, &str)] = &[
    ("everything", ""),
    ("one term, rare", "metadata.customer:4242"),
    ("one term, frequent", "type:token"),
    ("two terms", "type:card AND metadata.region:eu"),
    ("container and below", "container:\"/pci/eu/*\""),
    ("range of time", "created_at:[2020-01-01 TO *] AND metadata.tier:gold"),
    ("last four", "data:6789"),
    (
        "eight terms",
        "(type:card OR type:bank OR type:token) AND metadata.region:eu AND NOT metadata.tier:gold AND \
         (container:\"/pci/*\" OR container:\"/general/*\") AND created_at:[2020-01-01 TO *]",
    ),
];

fn body(number: usize) -> Value {
    let (kind, data) = match number % 8 {
        0 => ("card", json!({"number": "4242424242424242", "expiration_month": 12})),
        1 => ("bank", json!({"routing_number": "021000021", "account_number": number.to_string()})),
        2 => ("social_security_number", json!(format!("{:09}", number % 1_000_000_000))),
        3 => ("employer_id_number", json!("12-3456789")),
        4 => ("card_number", json!("378282246310005")),
        5 => ("us_bank_account_number", json!(format!("{number:06}"))),
        6 => ("us_bank_routing_number", json!("021000021")),
        _ => ("token", json!({"n": number})),
    };
    let area = ["pci", "general", "bank"][number % 3];
    let region = ["eu", "us", "asia", "africa"][number % 4];
    let tier = ["gold", "silver", "bronze"][number % 3];
    json!({
        "type": kind, "data": data,
        "containers": [format!("/{area}/{region}/{tier}/")],
        "metadata": {"region": region, "tier": tier, "customer": (number % 50_000).to_string()},
    })
}

/// Starts the server on the folder; gives how long it took to be ready, and how much memory it then comes to hold.
fn restart(folder: &Path) -> (Duration, u64) {
    let began = Instant::now();
    let mut child = Command::new(env!("CARGO_BIN_EXE_tokamak"))
        .args(["serve", "--listen", "127.0.0.1:0", "--log", "info", "--data-dir"])
        .arg(folder)
        .env_clear()
        .env("TOKAMAK_ROOT_KEY", ROOT_KEY)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let address = address(&mut child);
    while !get(&address, "/readyz").starts_with("HTTP/1.1 200") {
        std::thread::sleep(Duration::from_millis(5));
    }
    let took = began.elapsed();
    let resident = settled_bytes(child.id());
    child.kill().unwrap();
    child.wait().unwrap();
    // A process that it was starting, to compile in, has its files open for a moment.
    std::thread::sleep(Duration::from_secs(1));
    (took, resident)
}

/// How much memory a process holds once that grows no more: what is asked for seldom is read when it is ready already.
fn settled_bytes(process: u32) -> u64 {
    let mut before = 0;
    loop {
        let now = resident_bytes(process);
        if now < before + (8 << 20) {
            return now;
        }
        before = now;
        std::thread::sleep(Duration::from_secs(1));
    }
}

/// The address that the server prints once it listens.
fn address(child: &mut Child) -> String {
    for line in BufReader::new(child.stdout.take().unwrap()).lines() {
        let line = line.unwrap();
        if let Some((_, address)) = line.split_once("http://") {
            return address.split_whitespace().next().unwrap().to_owned();
        }
    }
    panic!("the server ended");
}

fn get(address: &str, path: &str) -> String {
    let mut connection = TcpStream::connect(address).unwrap();
    write!(connection, "GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    connection.read_to_string(&mut answer).unwrap();
    answer
}

async fn open(folder: &Path) -> Vault {
    let foundation = Foundation {
        store: Arc::new(SledStore::open(&folder.join("store"), 256 << 20).unwrap()),
        runtime: Runtime::new(RuntimeConfig::new(4)).unwrap(),
        egress: Egress::new(EgressConfig::default()).unwrap(),
        stand_in: None,
        clock: Arc::new(SystemClock),
        entropy: Arc::new(SystemEntropy::new().unwrap()),
        root_key: RootKey::parse(ROOT_KEY).unwrap(),
        fuel_per_ms: 10_000_000,
        react_timeout_ms: 10_000,
        allow_http_callbacks: false,
        jobs: JobLimits::default(),
        programs_bytes_max: 512 << 20,
        opened_bytes_max: 1 << 30,
    };
    Vault::open(foundation).await.unwrap()
}

/// Makes tokens; gives how many a second.
async fn load(vault: &Vault, permit: &Permit<TokenCreate>, numbers: std::ops::Range<usize>) -> f64 {
    let count = numbers.len();
    let began = Instant::now();
    stream::iter(numbers)
        .for_each_concurrent(CONCURRENCY, async |number| {
            let body = member::read(body(number)).unwrap();
            vault.create_token(permit, body).await.unwrap();
        })
        .await;
    count as f64 / began.elapsed().as_secs_f64()
}

async fn search(vault: &Vault, permit: &Permit<TokenSearch>, query: &str, page: u64) -> (u64, u64) {
    let body = member::read(json!({"query": query, "page": page})).unwrap();
    let page = vault.search_tokens(permit, body).await.unwrap();
    (page.total_items, page.total_pages)
}

fn quantile(times: &[Duration], share: f64) -> f64 {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a share of a length"
    )]
    let index = ((times.len() - 1) as f64 * share) as usize;
    times[index].as_secs_f64() * 1e6
}

async fn measure(
    vault: &Vault,
    permit: &Permit<TokenSearch>,
    query: &str,
    page: u64,
) -> (f64, f64) {
    let mut times = Vec::with_capacity(REPEATS);
    for _ in 0..REPEATS {
        let began = Instant::now();
        search(vault, permit, query, page).await;
        times.push(began.elapsed());
    }
    times.sort_unstable();
    (quantile(&times, 0.5), quantile(&times, 0.99))
}

fn resident_bytes(process: u32) -> u64 {
    let status = fs::read_to_string(format!("/proc/{process}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.trim().trim_end_matches(" kB").parse::<u64>().ok());
    kib.unwrap_or_default() * 1024
}

fn disk_bytes(folder: &Path) -> u64 {
    let entries = fs::read_dir(folder).unwrap().filter_map(Result::ok);
    entries
        .map(|entry| match entry.metadata() {
            Ok(metadata) if metadata.is_dir() => disk_bytes(&entry.path()),
            Ok(metadata) => metadata.len(),
            Err(_) => 0,
        })
        .sum()
}

/// A private application's key: kept in the folder, or of a vault that is loaded now.
async fn key_of(folder: &Path, tokens: usize) -> ApiKey {
    let kept = folder.join("key");
    if let Ok(key) = fs::read_to_string(&kept) {
        return ApiKey::given(key);
    }
    let vault = open(folder).await;
    let made = vault.bootstrap(None).await.unwrap().unwrap();
    let kind = ApplicationType::Private;
    let key = vault.issue_application(made.tenant.id, kind, "bench").await.unwrap();
    let who = vault.authenticate(Some(key.clone())).await.unwrap();
    let create = vault.permit::<TokenCreate>(&who, None).await.unwrap();
    load(&vault, &create, 0..WINDOW).await;
    let early = load(&vault, &create, WINDOW..2 * WINDOW).await;
    let loading = load(&vault, &create, 2 * WINDOW..tokens - WINDOW).await;
    let late = load(&vault, &create, tokens - WINDOW..tokens).await;
    println!("{tokens} tokens");
    println!(
        "creates a second: {early:.0} at {WINDOW}, {loading:.0} on average, {late:.0} at last"
    );
    println!("late / early: {:.2}", late / early);
    vault.close();
    fs::write(kept, key.expose()).unwrap();
    key
}

#[tokio::main]
async fn main() {
    let mut arguments = std::env::args().skip(1).filter(|argument| !argument.starts_with('-'));
    let tokens = arguments.next().and_then(|tokens| tokens.parse().ok());
    let tokens = tokens.unwrap_or(TOKENS_DEFAULT).max(4 * WINDOW);
    let temporary = tempfile::tempdir().unwrap();
    let folder = arguments.next().map_or(temporary.path().to_owned(), PathBuf::from);
    let key = key_of(&folder, tokens).await;

    let mut resident = 0;
    for run in ["first", "second"] {
        let (took, holds) = restart(&folder);
        println!("{run} restart: ready after {:.2} s", took.as_secs_f64());
        resident = holds;
    }

    // The store says what it does while it opens.
    tracing_subscriber::fmt().with_writer(std::io::stdout).init();
    let began = Instant::now();
    let vault = open(&folder).await;
    println!("the vault is open after {:.2} s", began.elapsed().as_secs_f64());
    let who = vault.authenticate(Some(key)).await.unwrap();
    let permit = vault.permit::<TokenSearch>(&who, None).await.unwrap();
    let total = search(&vault, &permit, "", 1).await.0;
    println!(
        "all that the server holds: {} bytes a token; disk: {} bytes a token",
        resident / total,
        disk_bytes(&folder) / total
    );

    let (p50, p99, at) = ("p50", "p99", "deep");
    println!(
        "\n{:24} {:>9} {:>9} {at:>6}  {p50:>9} {p99:>9}  {p50:>9} {p99:>9}",
        "query (µs)", "total", "its p50"
    );
    let mut costs = Vec::new();
    for (name, query) in QUERIES {
        let (total, pages) = search(&vault, &permit, query, 1).await;
        let deep = pages.clamp(1, 10_000);
        let (total_p50, _) = measure(&vault, &permit, query, pages + 1).await;
        let (p50, p99) = measure(&vault, &permit, query, 1).await;
        let (deep_p50, deep_p99) = measure(&vault, &permit, query, deep).await;
        println!(
            "{name:24} {total:>9} {total_p50:>9.1} {deep:>6}  {p50:>9.0} {p99:>9.0}  {deep_p50:>9.0} {deep_p99:>9.0}"
        );
        costs.push((total, [total_p50, p50, deep_p50]));
    }
    vault.close();
    drop(vault);
    if let Ok(connection) = std::env::var("BENCH_POSTGRES") {
        let measured = move || postgres::measure(tokens, &connection, body);
        compare(&costs, &tokio::task::spawn_blocking(measured).await.unwrap());
    }
}

/// Prints what PostgreSQL took, and how many times as long that is: for the total alone, which opens and logs nothing on
/// either side (`psql` and its socket are part of theirs, reading the query is part of ours), for page 1, and for the deep
/// page.
fn compare(ours: &[(u64, [f64; 3])], theirs: &[postgres::Cost]) {
    print!("\n{:24}", "PostgreSQL (µs)");
    for what in ["total", "page 1", "deep"] {
        print!(" {what:>9} {:>6} ", "times");
    }
    println!();
    for ((total, ours), cost) in ours.iter().zip(theirs) {
        assert_eq!(*total, cost.total, "{}", cost.name);
        print!("{:24}", cost.name);
        let theirs = [cost.total_p50_us, cost.page_1_p50_us, cost.deep_p50_us];
        for (theirs, ours) in theirs.iter().zip(ours) {
            print!(" {theirs:>9.0} {:>6.1} ", theirs / ours);
        }
        println!();
    }
}
