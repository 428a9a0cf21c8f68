//! A formula that does as it is told: `args.behaviour` names what, the other arguments say how much.
//! Told nothing, it answers with the whole request. Before anything else it logs `args.say`, if that is text, and asks for
//! `args.wish` bytes of memory, without which it goes on if it is refused them.
//!
//! To add a behaviour: a variant of [`Behaviour`] with its arguments, and what it does in `react`.
//! The hostile ones never return; they stand in [`hostile`].

mod hostile;

use std::io::{Read, Write};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use serde::Deserialize;
use tokamak_sdk::log::{self, Level};
use tokamak_sdk::{
    Error, ErrorKind, NewToken, Problem, Request, Response, Svc, Token, TokenFilter, TokenPage,
    Value, clock, formula, json,
};

/// What to do; the name of a variant in snake case is the value of `behaviour`.
#[derive(Deserialize)]
#[serde(tag = "behaviour", rename_all = "snake_case")]
enum Behaviour {
    /// Answers with the whole request: `args`, `configuration`, `invocation`, and whether there is `svc`.
    Echo,
    /// Answers with `raw`, `tokenize` or both.
    Respond { raw: Option<Value>, tokenize: Option<Value> },
    /// Fails with an error of `kind` (names of the contract, in snake case).
    Fail {
        kind: String,
        #[serde(default)]
        detail: String,
        #[serde(default)]
        errors: Vec<(String, String)>,
    },
    /// Fails with a response of its own.
    Custom {
        status: u16,
        #[serde(default)]
        headers: Vec<(String, String)>,
        body: Value,
    },
    /// Calls the vault; refusals of the vault become errors, or the result when `catch` is set.
    Svc {
        operation: Operation,
        input: Value,
        #[serde(default)]
        catch: bool,
    },
    /// Logs `lines` of level and text, the whole `repeat` times.
    Log {
        lines: Vec<(String, String)>,
        #[serde(default = "once")]
        repeat: usize,
    },
    /// Prints to standard output and standard error, each `repeat` times.
    Print {
        #[serde(default)]
        stdout: String,
        #[serde(default)]
        stderr: String,
        #[serde(default = "once")]
        repeat: usize,
    },
    /// Sleeps, then answers with how long it took by its own clock.
    Sleep { ms: u64 },
    /// Answers with its clock, `{"now_ms"}`.
    Clock,
    /// Answers with a number that is 1 in a fresh instance, `{"runs"}`.
    Count,
    /// Answers with random numbers, `{"random"}`.
    Random,
    /// Answers with what it can see of the machine: `{"variables", "arguments", "stdin_bytes"}`.
    LookAround,
    /// Answers with this many bytes.
    Output { bytes: usize },
    /// Answers with arrays in arrays, so many.
    Nest { levels: usize },
    /// Uses this many bytes of memory, touched, for so long, then answers with `{"held"}`.
    Hold {
        bytes: usize,
        #[serde(default)]
        ms: u64,
    },
    /// Loops for ever.
    Loop,
    /// Takes memory until there is none.
    Memory,
    /// Calls itself until a stack ends: the one in memory, or WebAssembly's own when `flat`.
    Recursion {
        #[serde(default)]
        flat: bool,
    },
    /// Panics with `message`.
    Panic { message: String },
    /// Aborts: a trap without a panic.
    Abort,
    /// Logs for ever.
    LogForever,
    /// Prints for ever.
    PrintForever,
    /// Calls the vault for ever.
    SvcForever,
    /// Reads the clock for ever.
    ClockForever,
    /// Ends the process.
    Exit { code: i32 },
}

/// The operations of `svc`.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Operation {
    /// `input`: the body of a token, `type` and `data` alone.
    Create,
    /// `input`: an id.
    Get,
    /// `input`: an id.
    Delete,
    /// `input`: `type`, an array.
    List,
    /// `input`: `query`, and `start` if it is not the first page.
    Search,
    /// `input`: `id` and `patch`.
    Update,
    /// `input`: any value.
    Tokenize,
    /// `input`: any value, in which `<< <token id> >>` stands for a reference.
    Detokenize,
}

fn once() -> usize {
    1
}

static RUNS: AtomicU32 = AtomicU32::new(0);

#[formula]
fn react(request: Request<Value>) -> Result<Response, Error> {
    if let Some(text) = request.args.get("say").and_then(Value::as_str) {
        log::write(Level::Info, text);
    }
    if let Some(bytes) = request.args.get("wish").and_then(Value::as_u64) {
        let mut wished = Vec::<u8>::new();
        let _ = std::hint::black_box(wished.try_reserve_exact(bytes as usize));
    }
    let behaviour = match request.args.get("behaviour") {
        None => Behaviour::Echo,
        Some(_) => Behaviour::deserialize(&request.args)
            .map_err(|error| Error::bad_request(error.to_string()))?,
    };
    match behaviour {
        Behaviour::Echo => Ok(Response::raw(json!({
            "args": request.args,
            "configuration": request.configuration,
            "svc": request.svc.is_some(),
            "invocation": {
                "id": request.invocation.id,
                "reactor_id": request.invocation.reactor_id,
                "attempt": request.invocation.attempt,
                "deadline_ms": request.invocation.deadline_ms,
            },
        }))),
        Behaviour::Respond { raw, tokenize } => {
            let response = Response::default();
            let response = raw.into_iter().fold(response, Response::and_raw);
            Ok(tokenize.into_iter().fold(response, Response::and_tokenize))
        }
        Behaviour::Fail { kind, detail, errors } => Err(fail(&kind, detail, errors)),
        Behaviour::Custom { status, headers, body } => {
            let error = Error::custom(status, body);
            Err(headers.into_iter().fold(error, |error, (name, value)| error.header(name, value)))
        }
        Behaviour::Svc { operation, input, catch } => {
            let svc = request.svc.as_ref().ok_or_else(|| Error::runtime("there is no svc"))?;
            match call(svc, &operation, input) {
                Err(problem) if catch => Ok(Response::raw(told(&problem))),
                result => Ok(Response::raw(result?)),
            }
        }
        Behaviour::Log { lines, repeat } => {
            for (level, text) in lines.iter().cycle().take(lines.len() * repeat) {
                log::write(read_level(level), text);
            }
            Ok(Response::raw(json!({ "logged": lines.len() * repeat })))
        }
        Behaviour::Print { stdout, stderr, repeat } => {
            for _ in 0..repeat {
                print!("{stdout}");
                eprint!("{stderr}");
            }
            let flushed = std::io::stdout().flush().is_ok();
            Ok(Response::raw(json!({ "flushed": flushed })))
        }
        Behaviour::Sleep { ms } => {
            let before_ms = clock::now_ms();
            std::thread::sleep(Duration::from_millis(ms));
            Ok(Response::raw(json!({ "slept_ms": clock::now_ms().saturating_sub(before_ms) })))
        }
        Behaviour::Clock => Ok(Response::raw(json!({ "now_ms": clock::now_ms() }))),
        Behaviour::Count => {
            Ok(Response::raw(json!({ "runs": RUNS.fetch_add(1, Ordering::Relaxed) + 1 })))
        }
        Behaviour::Random => Ok(Response::raw(json!({ "random": random() }))),
        Behaviour::LookAround => Ok(Response::raw(look_around())),
        Behaviour::Output { bytes } => Ok(Response::raw("x".repeat(bytes))),
        Behaviour::Nest { levels } => {
            Ok(Response::raw((0..levels).fold(json!(1), |inner, _| Value::Array(vec![inner]))))
        }
        Behaviour::Hold { bytes, ms } => {
            let held = std::hint::black_box(vec![1_u8; bytes]);
            if ms > 0 {
                std::thread::sleep(Duration::from_millis(ms));
            }
            Ok(Response::raw(json!({ "held": held.len() })))
        }
        Behaviour::Loop => hostile::endless_loop(),
        Behaviour::Memory => hostile::endless_memory(),
        Behaviour::Recursion { flat: true } => hostile::flat_recursion(),
        Behaviour::Recursion { flat: false } => hostile::endless_recursion(),
        Behaviour::Panic { message } => panic!("{message}"),
        Behaviour::Abort => std::process::abort(),
        Behaviour::LogForever => hostile::log_for_ever(),
        Behaviour::PrintForever => hostile::print_for_ever(),
        Behaviour::SvcForever => hostile::svc_for_ever(request.svc.as_ref()),
        Behaviour::ClockForever => hostile::clock_for_ever(),
        Behaviour::Exit { code } => std::process::exit(code),
    }
}

fn fail(kind: &str, detail: String, errors: Vec<(String, String)>) -> Error {
    let kind = match kind {
        "authentication" => ErrorKind::Authentication,
        "authorization" => ErrorKind::Authorization,
        "bad_request" => ErrorKind::BadRequest,
        "invalid_payment_method" => ErrorKind::InvalidPaymentMethod,
        "rate_limit" => ErrorKind::RateLimit,
        "service_unavailable" => ErrorKind::ServiceUnavailable,
        _ => ErrorKind::Runtime,
    };
    let error = Error::new(kind, detail);
    errors.into_iter().fold(error, |error, (member, message)| error.at(member, message))
}

/// A page, as far as it is of interest.
fn show_page(page: &TokenPage) -> Value {
    let tokens: Vec<Value> = page.tokens.iter().map(show).collect();
    json!({ "total": page.total, "next": page.next, "tokens": tokens })
}

fn call(svc: &Svc, operation: &Operation, input: Value) -> Result<Value, Problem> {
    let id = || input.as_str().unwrap_or_default();
    match operation {
        Operation::Create => {
            let token_type = input["type"].as_str().unwrap_or("token");
            svc.create(&NewToken::new(token_type, input["data"].clone())).map(|token| show(&token))
        }
        Operation::Get => svc.get(id()).map(|token| show(&token)),
        Operation::List => {
            let mut filter = TokenFilter::new();
            for kind in input["type"].as_array().into_iter().flatten() {
                filter = filter.of_type(kind.as_str().unwrap_or_default());
            }
            svc.list(&filter).map(|page| show_page(&page))
        }
        Operation::Search => {
            let query = input["query"].as_str().unwrap_or_default();
            svc.search(query, input["start"].as_str()).map(|page| show_page(&page))
        }
        Operation::Update => svc
            .update(input["id"].as_str().unwrap_or_default(), &input["patch"])
            .map(|token| show(&token)),
        Operation::Delete => svc.delete(id()).map(|()| Value::Null),
        Operation::Tokenize => svc.tokenize(input),
        Operation::Detokenize => {
            // References in arguments are the host's to replace, before the formula sees them.
            let text = input.to_string().replace("<<", "{{").replace(">>", "}}");
            svc.detokenize(text.parse::<Value>().unwrap_or_default())
        }
    }
}

fn show(token: &Token) -> Value {
    json!({
        "id": token.id, "type": token.token_type, "data": token.data, "containers": token.containers,
    })
}

fn told(problem: &Problem) -> Value {
    json!({
        "status": problem.status,
        "title": problem.title,
        "detail": problem.detail,
        "errors": problem.errors,
    })
}

fn read_level(level: &str) -> Level {
    match level {
        "trace" => Level::Trace,
        "debug" => Level::Debug,
        "warn" => Level::Warn,
        "error" => Level::Error,
        _ => Level::Info,
    }
}

/// Two numbers from the host's random seed, which differ between runs.
fn random() -> [u64; 2] {
    use std::hash::{BuildHasher, RandomState};
    let state = RandomState::new();
    [state.hash_one(0), state.hash_one(1)]
}

fn look_around() -> Value {
    let mut stdin = Vec::new();
    let stdin_bytes = std::io::stdin().read_to_end(&mut stdin).unwrap_or_default();
    json!({
        "variables": std::env::vars().count(),
        "arguments": std::env::args().count(),
        "stdin_bytes": stdin_bytes,
    })
}
