//! Options: from flags, the environment (`TOKAMAK_<NAME>`) and a TOML file, in this order of precedence
//! (decisions §9).
//!
//! The one place that reads the environment. To add an option: a field in [`Options`] that names its variable, and a
//! default in [`Options::settle`]; flag and member of the file follow from its name.

mod address;
mod environment;
mod error;
mod file;
mod jobs;
mod machine;
mod memory;
mod network;
mod range;
mod rate;
mod root_key;
mod safety;
#[cfg(test)]
mod tests;
mod traces;

use std::env::VarError;
use std::ffi::OsStr;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use clap::builder::BoolishValueParser;
use clap::{Args, ValueEnum};
use serde::Deserialize;
use zeroize::Zeroizing;

pub use address::parse as parse_address;
pub use environment::given as variables_given;
pub use error::ConfigError;
pub use jobs::JobLimits;
pub use memory::MemoryLimits;
pub use network::{InvalidNetwork, Network};
pub use rate::{InvalidRate, Rate, RateLimits};
pub use root_key::{RootKeySource, credentials_folder, new_root_key};
pub use safety::{Safety, trusted_certificates};
pub use traces::TraceExport;

use crate::limits::{
    CACHE_MB_DEFAULT, COMPACT_SECONDS_DEFAULT, COMPILED_CACHE_MB_DEFAULT, FUEL_PER_MS_DEFAULT,
    REACTOR_SLOTS_DEFAULT, ROOT_KEY_COMMAND_SECONDS_DEFAULT,
};

const PREFIX: &str = "TOKAMAK_";
/// Secrets come from the environment only: a flag would show in the list of processes.
const ROOT_KEY: &str = "TOKAMAK_ROOT_KEY";
const BOOTSTRAP_KEY: &str = "TOKAMAK_BOOTSTRAP_KEY";

/// How log lines are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum LogFormat {
    /// For people.
    #[default]
    Text,
    /// One JSON object a line.
    Json,
}

/// Options as they are given; what is absent takes the file's value, then the default.
#[derive(Debug, Clone, Default, Args, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "kebab-case")]
pub struct Options {
    /// A TOML file with these options, by their long names.
    #[arg(long, env = "TOKAMAK_CONFIG", value_name = "FILE")]
    #[serde(skip)]
    pub config: Option<PathBuf>,
    /// The folder that holds everything kept.
    #[arg(long, env = "TOKAMAK_DATA_DIR", value_name = "FOLDER")]
    pub data_dir: Option<PathBuf>,
    /// The address to listen on [default: 127.0.0.1:8080].
    #[arg(long, env = "TOKAMAK_LISTEN", value_name = "IP:PORT", value_parser = address::parse)]
    #[serde(deserialize_with = "address::read")]
    pub listen: Option<SocketAddr>,
    /// A file with the root key, 32 bytes in base64, that only its owner may read; instead of the variable
    /// `TOKAMAK_ROOT_KEY`.
    #[arg(long, env = "TOKAMAK_ROOT_KEY_FILE", value_name = "FILE")]
    pub root_key_file: Option<PathBuf>,
    /// A command that prints the root key, such as a key service's; run without a shell, unless it is one.
    #[arg(long, env = "TOKAMAK_ROOT_KEY_COMMAND", value_name = "COMMAND")]
    pub root_key_command: Option<String>,
    /// How long that command may take, in seconds [default: 60].
    #[arg(long, env = "TOKAMAK_ROOT_KEY_COMMAND_SECONDS", value_name = "SECONDS")]
    pub root_key_command_seconds: Option<u64>,
    /// The server's certificate and those that lead to its root, in PEM; with it the server speaks TLS only.
    #[arg(long, env = "TOKAMAK_TLS_CERTIFICATE", value_name = "FILE")]
    pub tls_certificate: Option<PathBuf>,
    /// The certificate's private key, in PEM, which others may not read.
    #[arg(long, env = "TOKAMAK_TLS_KEY", value_name = "FILE")]
    pub tls_key: Option<PathBuf>,
    /// Connections at the same time; 0 counts as 1. Each may hold 128 KiB of a head [default: as many as an eighth of the
    /// memory of machine, container or service has room for, 512 to 10000; never more than half of the files that may be open].
    #[arg(long, env = "TOKAMAK_CONNECTIONS_MAX", value_name = "COUNT")]
    pub connections_max: Option<usize>,
    /// Unknown keys that one client address may send before it is locked out for a while; 0 for any number
    /// [default: 20].
    #[arg(long, env = "TOKAMAK_LOCK_OUT_AFTER", value_name = "COUNT")]
    pub lock_out_after: Option<u32>,
    /// Lets the kernel confine the process to its own files, where it can [default: true].
    #[arg(long, env = "TOKAMAK_CONFINE", value_name = "BOOL", num_args = 0..=1,
        require_equals = true, default_missing_value = "true",
        value_parser = BoolishValueParser::new())]
    pub confine: Option<bool>,
    /// Memory of the store's cache, in MiB, at least 1 [default: 256].
    #[arg(long, env = "TOKAMAK_CACHE_MB", value_name = "MIB")]
    pub cache_mb: Option<u64>,
    /// How often the store is compacted if anything was removed, in seconds; 0 for never [default: 86400].
    #[arg(long, env = "TOKAMAK_COMPACT_SECONDS", value_name = "SECONDS")]
    pub compact_seconds: Option<u64>,
    /// Compiled formulas kept in the data folder, in MiB; 0 keeps none [default: 1024].
    #[arg(long, env = "TOKAMAK_COMPILED_CACHE_MB", value_name = "MIB")]
    pub compiled_cache_mb: Option<u64>,
    /// Invocations that run at the same time; 0 counts as 1 [default: 256].
    #[arg(long, env = "TOKAMAK_REACTOR_SLOTS", value_name = "COUNT")]
    pub reactor_slots: Option<u32>,
    /// Invocations of one tenant that run at the same time, 0 for as many as there are slots [default: half of them].
    #[arg(long, env = "TOKAMAK_REACTOR_SLOTS_PER_TENANT", value_name = "COUNT")]
    pub reactor_slots_per_tenant: Option<u32>,
    /// Invocations of one tenant that wait for a slot; those beyond are answered 429 [default: 8 for each of its slots].
    #[arg(long, env = "TOKAMAK_REACTOR_QUEUE_PER_TENANT", value_name = "COUNT")]
    pub reactor_queue_per_tenant: Option<u32>,
    /// Asynchronous runs that go on at the same time; 0 counts as 1 [default: 64].
    #[arg(long, env = "TOKAMAK_REACTOR_JOBS", value_name = "COUNT")]
    pub reactor_jobs: Option<u32>,
    /// Of these, one tenant's at most; 0 for all of them [default: half of those that slots allow].
    #[arg(long, env = "TOKAMAK_REACTOR_JOBS_PER_TENANT", value_name = "COUNT")]
    pub reactor_jobs_per_tenant: Option<u32>,
    /// Asynchronous runs of one tenant that wait; more are refused [default: 100000].
    #[arg(long, env = "TOKAMAK_REACTOR_JOBS_WAITING_PER_TENANT", value_name = "COUNT")]
    pub reactor_jobs_waiting_per_tenant: Option<u64>,
    /// Memory that all invocations together may hold, in MiB; one tenant's hold half of it [default: a quarter of the
    /// machine's].
    #[arg(long, env = "TOKAMAK_REACTOR_MEMORY_MB", value_name = "MIB")]
    pub reactor_memory_mb: Option<u64>,
    /// Machine code of formulas kept in memory, in MiB; one tenant's takes half of it, and a formula with more than that
    /// is refused [default: 512].
    #[arg(long, env = "TOKAMAK_PROGRAMS_MEMORY_MB", value_name = "MIB")]
    pub programs_memory_mb: Option<u64>,
    /// WebAssembly instructions, about, that an invocation may run for each millisecond of its time [default: 10000000].
    #[arg(long, env = "TOKAMAK_REACTOR_FUEL_PER_MS", value_name = "FUEL")]
    pub reactor_fuel_per_ms: Option<u64>,
    /// Lets formulas and callbacks reach private, loopback, link-local and other addresses that are not public: whatever
    /// is in this network, and the metadata service of a cloud.
    #[arg(long, env = "TOKAMAK_ALLOW_PRIVATE_NETWORKS", value_name = "BOOL", num_args = 0..=1,
        require_equals = true, default_missing_value = "true",
        value_parser = BoolishValueParser::new())]
    pub allow_private_networks: Option<bool>,
    /// Networks that are not public and that formulas and callbacks may reach all the same, such as 10.0.0.0/8; where
    /// metadata services of clouds are stays closed unless it is named by itself.
    #[arg(long, env = "TOKAMAK_ALLOW_NETWORKS", value_name = "CIDR,…", value_delimiter = ',')]
    pub allow_networks: Option<Vec<Network>>,
    /// Lets callbacks go to addresses that begin with http://, in clear.
    #[arg(long, env = "TOKAMAK_ALLOW_HTTP_CALLBACKS", value_name = "BOOL", num_args = 0..=1,
        require_equals = true, default_missing_value = "true",
        value_parser = BoolishValueParser::new())]
    pub allow_http_callbacks: Option<bool>,
    /// Requests of one key in a second that read single tokens; with a burst 50:200, 0 for no limit [default: 0].
    #[arg(long, env = "TOKAMAK_RATE_LIMIT_READ", value_name = "RATE[:BURST]")]
    pub rate_limit_read: Option<Rate>,
    /// Requests of one key in a second that list or search tokens [default: 0].
    #[arg(long, env = "TOKAMAK_RATE_LIMIT_SEARCH", value_name = "RATE[:BURST]")]
    pub rate_limit_search: Option<Rate>,
    /// Requests of one key in a second that make, change or delete tokens and sessions [default: 0].
    #[arg(long, env = "TOKAMAK_RATE_LIMIT_WRITE", value_name = "RATE[:BURST]")]
    pub rate_limit_write: Option<Rate>,
    /// Requests of one key in a second that run reactors, or have a result told again [default: 0].
    #[arg(long, env = "TOKAMAK_RATE_LIMIT_INVOKE", value_name = "RATE[:BURST]")]
    pub rate_limit_invoke: Option<Rate>,
    /// Requests of one key in a second about applications, formulas, reactors, the tenant and its log [default: 0].
    #[arg(long, env = "TOKAMAK_RATE_LIMIT_MANAGE", value_name = "RATE[:BURST]")]
    pub rate_limit_manage: Option<Rate>,
    /// Requests of one tenant's keys together in a second, but for those of the last kind [default: 0].
    #[arg(long, env = "TOKAMAK_RATE_LIMIT_TENANT", value_name = "RATE[:BURST]")]
    pub rate_limit_tenant: Option<Rate>,
    /// Requests of one client address in a second without a valid key; a proxy is one address for all [default: 0].
    #[arg(long, env = "TOKAMAK_RATE_LIMIT_UNAUTHENTICATED", value_name = "RATE[:BURST]")]
    pub rate_limit_unauthenticated: Option<Rate>,
    /// Networks whose clients may see `/metrics` [default: this machine].
    #[arg(long, env = "TOKAMAK_METRICS_NETWORKS", value_name = "CIDR,…", value_delimiter = ',')]
    pub metrics_networks: Option<Vec<Network>>,
    /// Leaves out the console at `/console`, and nothing else.
    #[arg(long, env = "TOKAMAK_NO_CONSOLE", value_name = "BOOL", num_args = 0..=1,
        require_equals = true, default_missing_value = "true",
        value_parser = BoolishValueParser::new())]
    pub no_console: Option<bool>,
    /// Days after which entries of the audit log are removed; 0 keeps them for ever [default: 0].
    #[arg(long, env = "TOKAMAK_LOG_RETENTION_DAYS", value_name = "DAYS")]
    pub log_retention_days: Option<u32>,
    /// Where traces are sent by OTLP over HTTP, such as `http://127.0.0.1:4318`; some of the standard variables `OTEL_…` say more,
    /// such as headers [default: nowhere].
    #[arg(long, env = "TOKAMAK_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,
    /// The part of all traces that is sent, from 0 to 1 [default: 1].
    #[arg(long, env = "TOKAMAK_OTLP_SAMPLE", value_name = "PART")]
    pub otlp_sample: Option<f64>,
    /// Lets requests go on with the trace that their `traceparent` names, and be sent or not as that is; only where a
    /// proxy sets it.
    #[arg(long, env = "TOKAMAK_OTLP_JOIN", value_name = "BOOL", num_args = 0..=1,
        require_equals = true, default_missing_value = "true",
        value_parser = BoolishValueParser::new())]
    pub otlp_join: Option<bool>,
    /// How log lines are written [default: text].
    #[arg(long, env = "TOKAMAK_LOG_FORMAT", value_name = "FORMAT")]
    pub log_format: Option<LogFormat>,
    /// Which log lines are written, such as `info` or `tokamak=debug` [default: info].
    #[arg(long, env = "TOKAMAK_LOG", value_name = "FILTER")]
    pub log: Option<String>,
}

/// Options with nothing left open.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The folder that holds everything kept.
    pub data_dir: PathBuf,
    /// The address to listen on.
    pub listen: SocketAddr,
    /// A file with the root key.
    pub root_key_file: Option<PathBuf>,
    /// A command that prints it.
    pub root_key_command: Option<String>,
    /// How long that may take, in seconds.
    pub root_key_command_seconds: u64,
    /// Memory of the store's cache, in MiB.
    pub cache_mb: u64,
    /// How often the store is compacted, in seconds; 0 for never.
    pub compact_seconds: u64,
    /// Compiled formulas kept in the data folder, in MiB.
    pub compiled_cache_mb: u64,
    /// Invocations that run at the same time.
    pub reactor_slots: u32,
    /// Of these, most for one tenant, if not half of them; 0 for all of them.
    pub reactor_slots_per_tenant: Option<u32>,
    /// Invocations of one tenant that wait, if not 8 for each of its slots.
    pub reactor_queue_per_tenant: Option<u32>,
    /// Asynchronous runs that go on and that wait.
    pub jobs: JobLimits,
    /// Memory that formulas may hold, and their code.
    pub memory: MemoryLimits,
    /// Fuel of an invocation for each millisecond of its time.
    pub reactor_fuel_per_ms: u64,
    /// Whether formulas and callbacks may reach addresses that are not public.
    pub allow_private_networks: bool,
    /// Networks of such addresses that they may reach in any case.
    pub allow_networks: Vec<Network>,
    /// Whether callbacks may go to `http://`.
    pub allow_http_callbacks: bool,
    /// Requests that may come in a second.
    pub rates: RateLimits,
    /// Networks whose clients may see figures; none for this machine alone.
    pub metrics_networks: Vec<Network>,
    /// Whether the console is left out.
    pub no_console: bool,
    /// Days that entries of the audit log are kept; 0 for ever.
    pub log_retention_days: u32,
    /// What keeps the server safe from clients and from itself.
    pub safety: Safety,
    /// Where traces go, if anywhere.
    pub traces: Option<TraceExport>,
    /// How log lines are written.
    pub log_format: LogFormat,
    /// Which log lines are written.
    pub log: String,
}

impl Options {
    /// Reads the file, if one is named, and fills in the defaults.
    pub fn settle(self) -> Result<Settings, ConfigError> {
        environment::refuse_unknown()?;
        let file = self.config.as_deref().map_or_else(|| Ok(Self::default()), read_file)?;
        let rates = RateLimits::of(&self, &file);
        let jobs = JobLimits::of(&self, &file);
        let memory = MemoryLimits::of(&self, &file);
        let safety = Safety::of(&self, &file)?;
        let traces = TraceExport::of(&self, &file)?;
        let default_listen = SocketAddr::from(([127, 0, 0, 1], 8080));
        let settings = Settings {
            data_dir: self.data_dir.or(file.data_dir).ok_or(ConfigError::Missing("data-dir"))?,
            listen: self.listen.or(file.listen).unwrap_or(default_listen),
            root_key_file: self.root_key_file.or(file.root_key_file),
            root_key_command: self.root_key_command.or(file.root_key_command),
            root_key_command_seconds: self
                .root_key_command_seconds
                .or(file.root_key_command_seconds)
                .unwrap_or(ROOT_KEY_COMMAND_SECONDS_DEFAULT),
            cache_mb: self.cache_mb.or(file.cache_mb).unwrap_or(CACHE_MB_DEFAULT),
            compact_seconds: self
                .compact_seconds
                .or(file.compact_seconds)
                .unwrap_or(COMPACT_SECONDS_DEFAULT),
            compiled_cache_mb: self
                .compiled_cache_mb
                .or(file.compiled_cache_mb)
                .unwrap_or(COMPILED_CACHE_MB_DEFAULT),
            reactor_slots: self
                .reactor_slots
                .or(file.reactor_slots)
                .unwrap_or(REACTOR_SLOTS_DEFAULT),
            reactor_slots_per_tenant: self
                .reactor_slots_per_tenant
                .or(file.reactor_slots_per_tenant),
            reactor_queue_per_tenant: self
                .reactor_queue_per_tenant
                .or(file.reactor_queue_per_tenant),
            jobs,
            memory,
            reactor_fuel_per_ms: self
                .reactor_fuel_per_ms
                .or(file.reactor_fuel_per_ms)
                .unwrap_or(FUEL_PER_MS_DEFAULT),
            allow_private_networks: self
                .allow_private_networks
                .or(file.allow_private_networks)
                .unwrap_or_default(),
            allow_networks: self.allow_networks.or(file.allow_networks).unwrap_or_default(),
            allow_http_callbacks: self
                .allow_http_callbacks
                .or(file.allow_http_callbacks)
                .unwrap_or_default(),
            rates,
            metrics_networks: self.metrics_networks.or(file.metrics_networks).unwrap_or_default(),
            no_console: self.no_console.or(file.no_console).unwrap_or_default(),
            log_retention_days: self
                .log_retention_days
                .or(file.log_retention_days)
                .unwrap_or_default(),
            safety,
            traces,
            log_format: self.log_format.or(file.log_format).unwrap_or_default(),
            log: self.log.or(file.log).unwrap_or_else(|| "info".to_owned()),
        };
        settings.within_range()
    }
}

/// The key that the first management application is to have.
pub fn bootstrap_key() -> Result<Option<Zeroizing<String>>, ConfigError> {
    secret(BOOTSTRAP_KEY)
}

#[expect(clippy::disallowed_methods, reason = "this is where the environment is read")]
fn secret(name: &'static str) -> Result<Option<Zeroizing<String>>, ConfigError> {
    match std::env::var(name) {
        Ok(text) => Ok(Some(text).filter(|text| !text.is_empty()).map(Zeroizing::new)),
        Err(VarError::NotPresent) => Ok(None),
        // Another key in its place would be a surprise.
        Err(VarError::NotUnicode(_)) => Err(ConfigError::NotText(name)),
    }
}

/// Whether a variable has no value: whoever set it like that has no use for its option.
#[expect(clippy::disallowed_methods, reason = "this is where the environment is read")]
pub fn is_empty_variable(name: &OsStr) -> bool {
    std::env::var_os(name).is_some_and(|value| value.is_empty())
}

fn read_file(path: &Path) -> Result<Options, ConfigError> {
    let text = read_text(path)?;
    let invalid = |error: toml::de::Error| ConfigError::Invalid {
        path: path.to_owned(),
        message: file::told(&text, error.message(), error.span().map(|span| span.start)),
    };
    toml::from_str(&text).map_err(invalid)
}

fn read_text(path: &Path) -> Result<String, ConfigError> {
    let unreadable = |source| ConfigError::Unreadable { path: path.to_owned(), source };
    std::fs::read_to_string(path).map_err(unreadable)
}
