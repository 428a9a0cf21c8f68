//! The same searches on PostgreSQL, as a yardstick: same tokens, same queries, same machine.
//!
//! It knows nothing of the vault: a token is a row here, a query an SQL condition, and `psql` the
//! client. What is timed is what a service would ask to answer one search: the exact total, then
//! the page, each a prepared statement that was planned before, over a Unix socket. PostgreSQL has
//! less to do than the vault: rows are neither sealed nor signed for, no tenant or access rule
//! narrows them, what is looked up is in lower case and in clear, and no log entry is written.
//!
//! A cluster of its own, once (`initdb` does not run as root, hence the other user):
//!
//! ```sh
//! cd "$(pg_config --bindir)"   # $PG: a new folder that this user may write to
//! runuser -u postgres -- ./initdb -A trust -D "$PG/data"
//! runuser -u postgres -- ./pg_ctl -D "$PG/data" -l "$PG/log" -o "-p 15432 -k $PG -h ''" start
//! ```
//!
//! It is then reached with `host=$PG port=15432 user=postgres dbname=postgres`; all that is
//! made there is the schema `tokamak_bench`.
//!
//! The server keeps its own settings; the one that weighs most is printed, `shared_buffers`. With
//! the default of 128 MB, a million tokens (330 MB and their indexes) are read again from the
//! system's page cache each time; with `-c shared_buffers=4GB` among the options above, queries
//! that visit much of the table take a third to two thirds of that. Changed per session are only
//! those settings that would be for such a load: see [`SESSION`].
//!
//! To add a query: a row in [`CONDITIONS`] by the name that it has in `QUERIES`.

use std::io::{BufWriter, Write};
use std::process::{Command, Stdio};

use serde_json::Value;
use tokamak::model::time::Timestamp;

/// Repetitions that count; one before them warms up.
const REPEATS: usize = 11;
const PAGE_ITEMS: usize = 20;
const PAGES_MAX: usize = 10_000;
/// 2026-01-01; each token is a millisecond later than the one before.
const FIRST_CREATED_MS: u64 = 1_767_225_600_000;

/// The queries as conditions, by the names of `QUERIES`.
const CONDITIONS: &[(&str, &str)] = &[
    ("everything", "true"),
    ("one term, rare", r#"metadata @> '{"customer": "4242"}'"#),
    ("one term, frequent", "type = 'token'"),
    ("two terms", r#"type = 'card' AND metadata @> '{"region": "eu"}'"#),
    ("container and below", "within @> '{/pci/eu/}'"),
    ("range of time", r#"created_at >= '2020-01-01Z' AND metadata @> '{"tier": "gold"}'"#),
    ("last four", "data_terms @> '{6789}'"),
    (
        "eight terms",
        r#"type IN ('card', 'bank', 'token') AND metadata @> '{"region": "eu"}'
            AND NOT metadata @> '{"tier": "gold"}' AND within && '{/pci/,/general/}'
            AND created_at >= '2020-01-01Z'"#,
    ),
];

/// Every session: no time spent on compiling queries that are over sooner, pages that are in memory
/// cost no seek, and sorts stay in memory.
const SESSION: &str = "
SET client_min_messages = warning;
SET jit = off;
SET random_page_cost = 1.1;
SET work_mem = '64MB';
SET maintenance_work_mem = '512MB';
";

/// `within` has each container and all above it, so that what lies below one is an exact term.
/// Text compares by bytes: ids and types need no locale, and indexes on them are faster without.
const TABLE: &str = r#"
DROP SCHEMA IF EXISTS tokamak_bench CASCADE;
CREATE SCHEMA tokamak_bench;
CREATE TABLE tokamak_bench.tokens (
    id text COLLATE "C" NOT NULL DEFAULT gen_random_uuid(),
    type text COLLATE "C" NOT NULL,
    created_at timestamptz NOT NULL,
    metadata jsonb NOT NULL,
    containers text[] COLLATE "C" NOT NULL,
    within text[] COLLATE "C" NOT NULL,
    data_terms text[] COLLATE "C" NOT NULL,
    data jsonb NOT NULL
);
COPY tokamak_bench.tokens (type, created_at, metadata, containers, within, data_terms, data)
FROM STDIN;
"#;

/// Made after loading, which is faster and leaves them dense. The b-trees end in the order of
/// pages, so that a page comes straight from them.
const INDEXES: &str = "
ALTER TABLE tokamak_bench.tokens ADD PRIMARY KEY (id);
CREATE INDEX ON tokamak_bench.tokens (created_at DESC, id DESC);
CREATE INDEX ON tokamak_bench.tokens (type, created_at DESC, id DESC);
CREATE INDEX ON tokamak_bench.tokens USING gin (metadata jsonb_path_ops);
CREATE INDEX ON tokamak_bench.tokens USING gin (within);
CREATE INDEX ON tokamak_bench.tokens USING gin (data_terms);
";

/// What one query costs: its total and its page, each asked for.
pub struct Cost {
    pub name: &'static str,
    pub total: u64,
    /// The total alone.
    pub total_p50_us: f64,
    pub page_1_p50_us: f64,
    pub deep_p50_us: f64,
}

/// Measures every query on tokens with these bodies, in the database that `psql` reaches so.
///
/// Tokens are loaded unless as many are there already; whether they are the same is not looked at.
pub fn measure(tokens: usize, connection: &str, body: impl Fn(usize) -> Value) -> Vec<Cost> {
    if loaded(connection) != Some(tokens) {
        load(tokens, connection, body);
    }
    // Vacuuming also notes which pages all may see: without it, no answer comes from an index only.
    // What loading left to be written is written before, and not while, searches are timed.
    ask(connection, "VACUUM (ANALYZE) tokamak_bench.tokens; CHECKPOINT;");
    let version = ask(connection, "SHOW server_version;");
    let buffers = ask(connection, "SHOW shared_buffers;");
    println!("PostgreSQL {}, shared_buffers {}", version.trim(), buffers.trim());
    CONDITIONS.iter().map(|(name, condition)| cost(connection, name, condition)).collect()
}

/// Runs a script in one session; gives what it prints.
fn psql(connection: &str, script: impl FnOnce(&mut dyn Write)) -> String {
    let mut child = Command::new("psql")
        .args(["-XqAt", "-v", "ON_ERROR_STOP=1", "-d", connection])
        // The word before a time is translated otherwise.
        .env("LC_ALL", "C")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = BufWriter::new(child.stdin.take().unwrap());
    script(&mut input);
    input.flush().unwrap();
    drop(input);
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "psql: {}", output.status);
    String::from_utf8(output.stdout).unwrap()
}

fn ask(connection: &str, sql: &str) -> String {
    psql(connection, |script| writeln!(script, "{sql}").unwrap())
}

/// How many tokens are there; none when the table is not.
fn loaded(connection: &str) -> Option<usize> {
    let script = r"SELECT to_regclass('tokamak_bench.tokens') IS NOT NULL AS there \gset
        \if :there
        SELECT count(*) FROM tokamak_bench.tokens;
        \endif";
    ask(connection, script).trim().parse().ok()
}

/// Loads in one transaction: what was interrupted is not found the next time.
fn load(tokens: usize, connection: &str, body: impl Fn(usize) -> Value) {
    psql(connection, |script| {
        writeln!(script, "{SESSION}BEGIN;{}", TABLE.trim_end()).unwrap();
        for number in 0..tokens {
            let created = Timestamp(FIRST_CREATED_MS + u64::try_from(number).unwrap());
            writeln!(script, "{}", row(&body(number), created)).unwrap();
        }
        writeln!(script, "\\.\n{INDEXES}COMMIT;").unwrap();
    });
}

/// A token as a line of `COPY`.
fn row(body: &Value, created: Timestamp) -> String {
    let (kind, data) = (body["type"].as_str().unwrap(), &body["data"]);
    let containers: Vec<_> = body["containers"].as_array().unwrap().iter().collect();
    let containers: Vec<_> = containers.iter().map(|path| path.as_str().unwrap()).collect();
    let within = containers.iter().flat_map(|path| above(path));
    let columns = [
        kind.to_owned(),
        created.to_string(),
        body["metadata"].to_string(),
        array(containers.iter().copied()),
        array(within),
        array(data_terms(kind, data).iter().map(String::as_str)),
        data.to_string(),
    ];
    // JSON has neither tabs nor line ends outside of escapes.
    columns.join("\t").replace('\\', "\\\\")
}

/// The container and all above it: `/a/b/` gives `/`, `/a/` and `/a/b/`.
fn above(container: &str) -> impl Iterator<Item = &str> {
    container.match_indices('/').map(|(at, _)| &container[..=at])
}

/// What the vault finds a token by when it was made without indexes of its own (decisions §3).
fn data_terms(kind: &str, data: &Value) -> Vec<String> {
    match (kind, data.as_str()) {
        ("social_security_number" | "employer_id_number", Some(text)) => {
            let last_four = &text[text.len().saturating_sub(4)..];
            vec![text.to_owned(), text.replace('-', ""), last_four.to_owned()]
        }
        _ => Vec::new(),
    }
}

/// An array as PostgreSQL writes it, which escapes quotes and backslashes as Rust does.
fn array<'a>(items: impl Iterator<Item = &'a str>) -> String {
    let items: Vec<_> = items.map(|item| format!("{item:?}")).collect();
    format!("{{{}}}", items.join(","))
}

/// Measures one query, in a session of its own.
fn cost(connection: &str, name: &'static str, condition: &str) -> Cost {
    let printed = psql(connection, |script| write_searches(script, condition));
    let mut lines = printed.lines();
    let total = lines.next().unwrap().parse().unwrap();
    let times: Vec<_> = lines.map(milliseconds).collect();
    assert_eq!(times.len(), 4 * (REPEATS + 1), "{name}: a time of each statement");
    let searches: Vec<_> = times.chunks(2).map(|pair| pair.iter().sum::<f64>()).collect();
    let (page_1, deep) = searches.split_at(REPEATS + 1);
    let totals: Vec<_> = times.iter().copied().step_by(2).collect();
    Cost {
        name,
        total,
        total_p50_us: p50_us(&totals),
        page_1_p50_us: p50_us(page_1),
        deep_p50_us: p50_us(deep),
    }
}

/// Prints the total, then the time of each statement: total and page 1, over and over, then total
/// and deep page.
fn write_searches(script: &mut dyn Write, condition: &str) {
    let tokens = format!("FROM tokamak_bench.tokens WHERE {condition}");
    let order = format!("ORDER BY created_at DESC, id DESC LIMIT {PAGE_ITEMS}");
    let pages = format!("least({PAGES_MAX}, greatest(1, ceil(count(*) / {PAGE_ITEMS}.0)))");
    // Rows that a page skips need not be read: those of a deep page are fetched once it is known
    // which they are, which an index alone can tell in some cases. Page 1 has nothing to skip.
    let deep = format!(
        "SELECT token.* FROM tokamak_bench.tokens token
            JOIN (SELECT id {tokens} {order} OFFSET :skipped) page USING (id)
            ORDER BY token.created_at DESC, token.id DESC"
    );
    writeln!(
        script,
        r"{SESSION}
        SELECT count(*) AS total, ({pages} - 1) * {PAGE_ITEMS} AS skipped {tokens} \gset
        \echo :total
        PREPARE total AS SELECT count(*) {tokens};
        PREPARE page_1 AS SELECT * {tokens} {order};
        PREPARE deep AS {deep};
        \o /dev/null
        \timing on"
    )
    .unwrap();
    for page in ["page_1", "deep"] {
        for _ in 0..=REPEATS {
            writeln!(script, "EXECUTE total;\nEXECUTE {page};").unwrap();
        }
    }
}

/// Reads `Time: 1234.567 ms (00:01.235)`.
fn milliseconds(line: &str) -> f64 {
    let time = line.strip_prefix("Time: ").and_then(|rest| rest.split(' ').next());
    time.unwrap().parse().unwrap()
}

/// The median, leaving out the first, which warms up.
fn p50_us(times_ms: &[f64]) -> f64 {
    let mut times_ms = times_ms[1..].to_vec();
    times_ms.sort_unstable_by(f64::total_cmp);
    times_ms[times_ms.len() / 2] * 1e3
}
