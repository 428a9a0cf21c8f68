//! What the process counts about itself, in the form that `GET /metrics` gives.
//!
//! There is one set for a process, since that is what is scraped. Labels come from closed sets (routes, methods that are
//! known, titles of problems): a caller can bring one of them about, and make no other. No label names a tenant, an id or a
//! value.
//!
//! To add a figure: a member of [`Figures`], its line in [`Figures::new`], and a row in the README's table of metrics.

mod certificate;
mod connections;
mod copies;
mod labels;
mod process;
#[cfg(test)]
mod tests;

use std::sync::OnceLock;
use std::time::Duration;

use parking_lot::Mutex;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

use certificate::Certificate;
use connections::Connections;
use copies::Copies;
pub use labels::known_method;
use labels::{InvocationLabels, OutcomeLabels, RequestLabels, RouteLabels, StatusLabels};
use process::Process;

/// Where a 5xx is no news: they tell what is known.
const PROBES: [&str; 3] = ["/healthz", "/readyz", "/metrics"];

const REQUESTS_RUNNING: &str = "Requests that are being answered";
const FAULTS: &str = "Requests and runs that ended in a fault of the server, and not of a formula";
const RUNS: &str = "Runs of reactors that are over, by what came of them";
const RUNS_RUNNING: &str = "Runs that go on or wait for a slot";
const WAITING: &str = "Asynchronous runs and webhooks that are not done";
const DISK: &str = "What the store's files take of their disk, and what is free there";
const GIVEN_UP: &str = "Webhooks whose receivers are told no more";
const LOCK_OUTS: &str = "Times that a client was locked out for keys that nobody has";
const READY: &str = "1 while the server takes requests and writes, else 0";
const REFUSALS: &str = "Requests and works that the store could not serve";
const LOG_LINES_LOST: &str = "Log lines that standard error refused, or did not take in time";

/// How a run ended.
pub struct Ending {
    /// The title of its problem, or that it completed.
    pub title: &'static str,
    /// Whether the server failed in it, and neither its caller nor its formula: that is a fault once, whatever it is called.
    pub is_fault: bool,
}

impl Ending {
    /// With an answer.
    pub const COMPLETED: Self = Self { title: "completed", is_fault: false };
}

/// Every figure, and how they are called.
pub struct Figures {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    request_times: Family<RouteLabels, Histogram, fn() -> Histogram>,
    requests_running: Gauge,
    lock_outs: Counter,
    invocations: Family<InvocationLabels, Counter>,
    invocation_times: Histogram,
    fuel: Counter,
    invocations_running: Gauge,
    deliveries: Family<OutcomeLabels, Counter>,
    deliveries_given_up: Counter,
    waiting: Family<StatusLabels, Gauge>,
    disk: Family<StatusLabels, Gauge>,
    commits: Histogram,
    syncs: Counter,
    store_refusals: Counter,
    faults: Counter,
    log_lines_lost: Counter,
    ready: Gauge,
    connections: Connections,
    copies: Copies,
    certificate: Certificate,
    process: Process,
    /// Held while they are written: what was looked at for one is not to be told to another.
    writing: Mutex<()>,
}

/// Something that is going on until this is dropped.
pub struct Running(Gauge);

impl Drop for Running {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// How many wait, over all tenants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// Asynchronous runs that have not begun.
    pub jobs_queued: u64,
    /// Asynchronous runs that go on.
    pub jobs_running: u64,
    /// Results that have not been told yet.
    pub deliveries_pending: u64,
}

/// The disk that the store lies on, as far as it tells.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Disk {
    /// Bytes of the store's files, beside its journal.
    pub store_bytes: Option<u64>,
    /// Bytes that are free.
    pub free_bytes: Option<u64>,
}

/// The figures of this process.
pub fn figures() -> &'static Figures {
    static FIGURES: OnceLock<Figures> = OnceLock::new();
    FIGURES.get_or_init(Figures::new)
}

impl Figures {
    fn new() -> Self {
        let mut whole = Registry::default();
        let process = Process::new(&mut whole);
        let registry = whole.sub_registry_with_prefix("tokamak");
        let version = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "What is running", version);

        let requests = Family::default();
        registry.register("http_requests", "Requests answered", requests.clone());
        let times: fn() -> Histogram = || Histogram::new(exponential_buckets(0.000_1, 2.0, 18));
        let request_times = Family::new_with_constructor(times);
        let text = "Time from a request's head to its answer's head";
        let unit = Unit::Seconds;
        registry.register_with_unit("http_request_duration", text, unit, request_times.clone());
        let requests_running = gauge(registry, "http_requests_in_flight", REQUESTS_RUNNING);
        let lock_outs = counter(registry, "lock_outs", LOCK_OUTS);

        let invocations = Family::default();
        registry.register("invocations", RUNS, invocations.clone());
        let invocation_times = Histogram::new(exponential_buckets(0.000_01, 2.0, 25));
        let text = "Time of a run, waiting for a slot and its program included";
        let unit = Unit::Seconds;
        registry.register_with_unit("invocation_duration", text, unit, invocation_times.clone());
        let fuel = counter(registry, "invocation_fuel", "Fuel used by runs");
        let invocations_running = gauge(registry, "invocations_in_flight", RUNS_RUNNING);

        let deliveries = Family::default();
        registry.register("webhook_attempts", "Webhooks sent, by their answer", deliveries.clone());
        let deliveries_given_up = counter(registry, "webhooks_given_up", GIVEN_UP);
        let waiting = gauges(registry, "waiting", WAITING);
        let disk = gauges(registry, "disk_bytes", DISK);

        let commits = Histogram::new(exponential_buckets(0.000_05, 2.0, 18));
        let text = "Time until a change is durable, waiting for its turn included";
        registry.register_with_unit("store_commit_duration", text, Unit::Seconds, commits.clone());
        let syncs = counter(registry, "store_syncs", "Times that the store's log was synced");
        let store_refusals = counter(registry, "store_refusals", REFUSALS);
        // Without labels: it is there before the first fault, so that the first is seen to come.
        let faults = counter(registry, "faults", FAULTS);
        let log_lines_lost = counter(registry, "log_lines_lost", LOG_LINES_LOST);
        let ready = gauge(registry, "ready", READY);
        let connections = Connections::new(registry);
        let (copies, certificate) = (Copies::new(registry), Certificate::new(registry));
        Self {
            registry: whole,
            process,
            requests,
            request_times,
            requests_running,
            lock_outs,
            invocations,
            invocation_times,
            fuel,
            invocations_running,
            deliveries,
            deliveries_given_up,
            waiting,
            disk,
            commits,
            syncs,
            store_refusals,
            faults,
            log_lines_lost,
            ready,
            connections,
            copies,
            certificate,
            writing: Mutex::new(()),
        }
    }

    /// Counts a request that has come in, until the value is dropped.
    pub fn request_begins(&self) -> Running {
        begins(&self.requests_running)
    }

    /// Counts a request that was answered. `route` is the pattern, never the path; there is no `status` where a formula
    /// chose it. A 5xx is a fault, unless `is_not_counted` says that it is a formula's, or one of a run that is counted.
    pub fn request_answered(
        &self,
        method: &str,
        route: &str,
        status: Option<u16>,
        is_not_counted: bool,
        took: Duration,
    ) {
        let at = RouteLabels::new(method, route);
        self.request_times.get_or_create(&at).observe(took.as_secs_f64());
        self.requests.get_or_create(&at.with(status)).inc();
        if status.is_some_and(|status| status >= 500) && !is_not_counted && !PROBES.contains(&route)
        {
            self.faults.inc();
        }
    }

    /// Counts a client that is locked out.
    pub fn locked_out(&self) {
        self.lock_outs.inc();
    }

    /// Counts a run that begins, until the value is dropped.
    pub fn invocation_begins(&self) -> Running {
        begins(&self.invocations_running)
    }

    /// Counts a run that is over and was measured.
    pub fn invocation_ended(&self, ending: &Ending, took: Duration, fuel: u64) {
        self.invocation_over(ending);
        self.invocation_times.observe(took.as_secs_f64());
        self.fuel.inc_by(fuel);
    }

    /// Counts a run that ended without having been measured: it was interrupted, or came to none.
    pub fn invocation_over(&self, ending: &Ending) {
        self.invocations.get_or_create(&InvocationLabels { outcome: ending.title }).inc();
        if ending.is_fault {
            self.faults.inc();
        }
    }

    /// Counts a webhook that was sent; `None` if nobody answered.
    pub fn webhook_sent(&self, status: Option<u16>) {
        let outcome = match status {
            None => "unanswered",
            Some(200..300) => "accepted",
            Some(_) => "refused",
        };
        self.deliveries.get_or_create(&OutcomeLabels { outcome }).inc();
    }

    /// Counts a webhook whose receiver is told no more.
    pub fn webhook_given_up(&self) {
        self.deliveries_given_up.inc();
    }

    /// Counts a change that is durable.
    pub fn committed(&self, took: Duration) {
        self.commits.observe(took.as_secs_f64());
    }

    /// Counts a sync of the store's log, which makes one or more changes durable.
    pub fn synced(&self) {
        self.syncs.inc();
    }

    /// The store could not do what it was asked for.
    pub fn store_refused(&self) {
        self.store_refusals.inc();
    }

    /// Counts log lines that are lost.
    pub fn log_lines_lost(&self, count: u64) {
        self.log_lines_lost.inc_by(count);
    }

    /// Notes from when on and until when the certificate is valid that is in use, in seconds since the Unix epoch.
    pub fn certificate_is(&self, not_before: i64, not_after: i64) {
        self.certificate.set(not_before, not_after);
    }

    /// Writes all figures in the text format of `OpenMetrics`, which Prometheus reads. How many wait, and how much of the disk is
    /// what, is not told where that is not known.
    pub fn write(
        &self,
        waiting: Option<Waiting>,
        disk: Disk,
        is_ready: bool,
    ) -> Result<String, std::fmt::Error> {
        let _alone = self.writing.lock();
        match waiting {
            Some(waiting) => self.set_waiting(waiting),
            None => self.waiting.clear(),
        }
        self.disk.clear();
        let Disk { store_bytes, free_bytes } = disk;
        for (what, bytes) in [("store", store_bytes), ("free", free_bytes)] {
            if let Some(bytes) = bytes {
                let bytes = i64::try_from(bytes).unwrap_or(i64::MAX);
                self.disk.get_or_create(&StatusLabels { what }).set(bytes);
            }
        }
        self.ready.set(i64::from(is_ready));
        self.process.look();
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }

    fn set_waiting(&self, waiting: Waiting) {
        let Waiting { jobs_queued, jobs_running, deliveries_pending } = waiting;
        for (what, count) in [
            ("jobs_queued", jobs_queued),
            ("jobs_running", jobs_running),
            ("deliveries_pending", deliveries_pending),
        ] {
            let count = i64::try_from(count).unwrap_or(i64::MAX);
            self.waiting.get_or_create(&StatusLabels { what }).set(count);
        }
    }
}

fn counter(registry: &mut Registry, name: &str, text: &str) -> Counter {
    let counter = Counter::default();
    registry.register(name, text, counter.clone());
    counter
}

fn gauges(registry: &mut Registry, name: &str, text: &str) -> Family<StatusLabels, Gauge> {
    let gauges = Family::default();
    registry.register(name, text, gauges.clone());
    gauges
}

fn gauge(registry: &mut Registry, name: &str, text: &str) -> Gauge {
    let gauge = Gauge::default();
    registry.register(name, text, gauge.clone());
    gauge
}

fn begins(gauge: &Gauge) -> Running {
    gauge.inc();
    Running(gauge.clone())
}
