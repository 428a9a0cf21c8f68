//! Figures, as they are kept and compared.

use std::fs::File;
use std::io::Write as _;
use std::path::Path;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};

use super::driver::Driven;
use super::usage::{Footprint, Spent};
use super::work::Work;
use crate::cli::Failure;

/// Goes up with each change of what sends the requests, or of the yardsticks, by which figures change although the server
/// is the same.
const GENERATOR: u32 = 3;

/// Everything that was measured in one run.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Report {
    /// The version that measured.
    pub version: String,
    /// What sent the requests; 0 in files of versions that did not say.
    #[serde(default)]
    generator: u32,
    /// Processors of the machine, which the load generator shares.
    pub processors: usize,
    /// Seconds of each measurement.
    pub seconds: u64,
    /// One for each piece of work, size and number of connections.
    pub measures: Vec<Measure>,
    /// The other yardstick.
    pub appends: Vec<Appends>,
    /// What the server took in the end.
    pub footprint: Footprint,
}

/// One measurement.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Measure {
    /// What was done.
    pub work: Work,
    /// Tokens that the benchmark had in the store when it began.
    pub tokens: u64,
    /// Connections.
    pub connections: u32,
    /// How often in a second.
    pub per_second: f64,
    /// Times from request to answer, in microseconds.
    pub p50_us: u64,
    /// 99 of 100 are faster.
    pub p99_us: u64,
    /// 999 of 1,000 are faster.
    pub p999_us: u64,
    /// Requests that were refused or not answered.
    pub failed: u64,
    /// Why, for one of them.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// Processor time of the server for each request, in microseconds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpu_us: Option<f64>,
    /// How often in a second the server waited for its disk.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub syncs_per_second: Option<f64>,
}

/// Appends to a file that are synced, one thread, with nothing around them.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Appends {
    /// How many are synced together.
    pub together: usize,
    /// How many in a second.
    pub per_second: f64,
}

impl Measure {
    /// Sums up.
    pub fn new(work: Work, tokens: u64, connections: u32, driven: &Driven, spent: Spent) -> Self {
        let seconds = driven.elapsed.as_secs_f64().max(f64::EPSILON);
        let per_second = count(driven.done) / seconds;
        let is_ours = work != Work::Echo && driven.done > 0;
        let cpu = spent.cpu_seconds.filter(|_| is_ours);
        Self {
            work,
            tokens,
            connections,
            per_second,
            p50_us: driven.times.value_at_quantile(0.5),
            p99_us: driven.times.value_at_quantile(0.99),
            p999_us: driven.times.value_at_quantile(0.999),
            failed: driven.failed,
            reason: driven.reason.clone(),
            cpu_us: cpu.map(|seconds| seconds * 1e6 / count(driven.done)),
            syncs_per_second: spent.syncs.filter(|_| is_ours).map(|syncs| syncs / seconds),
        }
    }

    /// Whether another measured the same thing.
    pub fn is_like(&self, other: &Self) -> bool {
        (self.work, self.tokens, self.connections) == (other.work, other.tokens, other.connections)
    }
}

impl Report {
    /// With nothing measured yet.
    pub fn new(seconds: u64) -> Self {
        Self {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            generator: GENERATOR,
            processors: std::thread::available_parallelism().map_or(1, usize::from),
            seconds,
            measures: Vec::new(),
            appends: Vec::new(),
            footprint: Footprint::default(),
        }
    }

    /// Reads what an earlier run wrote.
    pub fn read(file: &Path) -> Result<Self, Failure> {
        let named = |error: &dyn std::fmt::Display| format!("{}: {error}", file.display());
        let bytes = std::fs::read(file).map_err(|error| named(&error))?;
        Ok(serde_json::from_slice(&bytes).map_err(|error| named(&error))?)
    }

    /// Why the figures of an earlier run tell little beside these, if so.
    pub fn unlike(&self, earlier: &Self) -> Option<String> {
        let reasons = [
            (self.generator != earlier.generator, "by another load generator"),
            (self.processors != earlier.processors, "on other processors"),
            (self.seconds != earlier.seconds, "for another time each"),
            (self.works() != earlier.works(), "among other work"),
        ];
        let reasons = reasons.into_iter().filter_map(|(is_so, how)| is_so.then_some(how));
        let reasons: Vec<_> = reasons.collect();
        (!reasons.is_empty()).then(|| reasons.join(", "))
    }

    /// What was measured: each piece of work leaves the server warm in its own way.
    fn works(&self) -> Vec<Work> {
        let all = Work::chosen(&[]).into_iter();
        all.filter(|work| self.measures.iter().any(|measure| measure.work == *work)).collect()
    }

    /// What the yardstick did beside a measurement.
    pub fn echo_beside(&self, measure: &Measure) -> Option<&Measure> {
        let beside = |echo: &&Measure| {
            echo.work == Work::Echo
                && (echo.tokens, echo.connections) == (measure.tokens, measure.connections)
        };
        self.measures.iter().find(beside)
    }
}

/// A count as a number to divide by.
#[expect(clippy::cast_precision_loss, reason = "counts of requests are far below 2^52")]
pub fn count(count: u64) -> f64 {
    count as f64
}

/// Appends so many bytes and syncs, again and again, alone and 64 at a time.
pub fn appends(bytes: usize, time: Duration) -> std::io::Result<Vec<Appends>> {
    let path = std::env::temp_dir().join(format!("tokamak-appends-{}", std::process::id()));
    let measured = [1, 64].into_iter().map(|together| {
        let mut file = File::create(&path)?;
        // Nobody else needs it, and it goes with this process.
        std::fs::remove_file(&path)?;
        let data = vec![0x5a; bytes * together];
        let (began, mut written) = (Instant::now(), 0_u64);
        while began.elapsed() < time {
            file.write_all(&data)?;
            file.sync_data()?;
            written += together as u64;
        }
        Ok(Appends { together, per_second: count(written) / began.elapsed().as_secs_f64() })
    });
    measured.collect()
}
