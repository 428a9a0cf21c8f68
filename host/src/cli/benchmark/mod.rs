//! `tokamak benchmark`: how fast a server is on this machine, and what of that is the machine's.
//!
//! The real binary serves an empty folder, or a server elsewhere is named. Every piece of work ([`work`]) is driven over
//! kept connections, each with one request under way ([`driver`]), beside two yardsticks of the same run: a bare axum
//! handler that echoes JSON, in a process of its own as the server is, and appends of as many bytes that are synced. The
//! load generator takes its part of the machine: figures are for comparison with the yardsticks, and with another run on
//! the same machine.
//!
//! To add a piece of work: a variant of [`work::Work`] and its request.

mod driver;
mod measure;
mod output;
mod plot;
mod report;
mod server;
mod usage;
mod work;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use clap::Args;
use tokio::net::TcpListener;

use self::driver::{Load, drive};
use self::measure::{Measure, Report, appends};
use self::output::Output;
use self::report::Progress;
use self::server::{Target, Yardstick};
use self::work::{Site, Work};
use super::stop::Stop;
use super::{Failure, output as terminal, say, serve};

/// How long results of asynchronous runs are waited for, at most.
const PATIENCE: Duration = Duration::from_mins(2);

/// Options of `benchmark`.
#[derive(Debug, Args)]
pub struct BenchmarkOptions {
    /// A server to measure, such as `http://127.0.0.1:8080`; without it one is started on an empty folder. Its management
    /// key is read from standard input; an application, a formula and two reactors are made there and stay, and so do
    /// its tokens, but for those that measuring removes. No other token is touched.
    #[arg(long, value_name = "URL")]
    address: Option<String>,
    /// Seconds of each measurement; deletes end with the tokens there are.
    #[arg(long, default_value_t = 5, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(1..=3600))]
    seconds: u64,
    /// Connections, each with one request under way; several numbers measure with each.
    #[arg(long, default_value = "64", value_name = "COUNT,…", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=10_000))]
    connections: Vec<u32>,
    /// Tokens in the store when measuring begins; several numbers, ascending, measure at each size.
    #[arg(long, default_value = "10000", value_name = "COUNT,…", value_delimiter = ',',
        value_parser = clap::value_parser!(u64).range(100..=100_000_000))]
    tokens: Vec<u64>,
    /// Only these measurements.
    #[arg(long, value_name = "NAME,…", value_delimiter = ',')]
    only: Vec<Work>,
    /// Print JSON instead of a table.
    #[arg(long)]
    json: bool,
    /// Write the figures to this file too, as JSON.
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Show in the table how the figures compare with those of a file that `--output` wrote.
    #[arg(long, value_name = "FILE", conflicts_with = "json")]
    compare: Option<PathBuf>,
    /// Write a page with the table, and plots of what was varied, to this file.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Be the yardstick, until standard input ends.
    #[arg(long, hide = true)]
    yardstick: bool,
}

/// Runs the benchmark.
pub fn run(options: &BenchmarkOptions) -> Result<(), Failure> {
    if options.yardstick {
        super::descriptors::raise_limit();
        return serve::block_on(server::be_the_yardstick());
    }
    // Before anything is measured for minutes.
    let earlier = options.compare.as_deref().map(Report::read).transpose()?;
    let [figures, page] =
        [&options.output, &options.report].map(|file| file.as_deref().map(Output::open));
    let (figures, page) = (figures.transpose()?, page.transpose()?);
    super::descriptors::raise_limit();
    let report = serve::block_on(unless_stopped(measure(options)))?;
    // Before the files, of which one may not take it: what took minutes to measure is to be seen.
    if options.json {
        say(serde_json::to_string_pretty(&report)?);
    } else {
        say(report::table(&report, earlier.as_ref()));
    }
    if let Some(file) = figures {
        file.write(&serde_json::to_vec_pretty(&report)?)?;
    }
    if let Some(file) = page {
        file.write(report::page(&report, earlier.as_ref()).as_bytes())?;
    }
    Ok(())
}

/// Measures until it is over, or the process is told to stop: then what it started ends with it, and leaves no folder.
async fn unless_stopped<T>(
    measuring: impl Future<Output = Result<T, Failure>>,
) -> Result<T, Failure> {
    let mut stop = Stop::begin_with_terminal()?;
    tokio::select! {
        measured = measuring => measured,
        () = stop.told() => {
            Progress::clear();
            Err("told to stop before it was over".into())
        }
    }
}

async fn measure(options: &BenchmarkOptions) -> Result<Report, Failure> {
    let told = Arc::new(AtomicU64::new(0));
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let receiver = listener.local_addr()?;
    tokio::spawn(crate::http::serve_plain(listener, crate::http::receiver(Arc::clone(&told))));
    let yardstick = tokio::task::spawn_blocking(Yardstick::start).await??;
    let target = Target::find(options.address.as_deref()).await?;
    let works = Work::chosen(&options.only);
    let mut sizes = options.tokens.clone();
    sizes.sort_unstable();
    let driven = sizes.len() * options.connections.len() * works.len();
    let mut progress = Progress::of(driven + usize::from(options.only.is_empty()));
    progress.show("setting up");
    let site = Arc::new(Site::set_up(&target, receiver).await?);
    progress.show("waiting until the server is at rest");
    target.settle().await;
    let time = Duration::from_secs(options.seconds);
    let mut report = Report::new(options.seconds);
    for size in sizes {
        for connections in &options.connections {
            for work in &works {
                progress.show(&format!("filling up to {size} tokens"));
                site.fill(&target, size).await?;
                let what = format!("{size} tokens, {connections} connections: {}", work.name());
                let before = target.usage().await;
                let load = Load { connections: *connections as usize, time };
                let to = work.address(target.address, yardstick.address);
                let told_before = told.load(Ordering::Relaxed);
                let (work, own) = (*work, Arc::clone(&site));
                let driven = drive(to, load, move |number| own.request(work, number));
                let mut driven = progress.during(&what, time, driven).await?;
                if work == Work::Asynchronous {
                    // A run counts when its result was told.
                    wait_until_told(&told, told_before + driven.done, &mut driven.elapsed).await?;
                }
                let usage = target.usage().await.since(&before);
                if driven.done + driven.failed > 0 {
                    let measure = Measure::new(work, size, *connections, &driven, usage);
                    report.measures.push(measure);
                } else {
                    // As for deletes of tokens that are as few as are left for whatever comes next.
                    Progress::clear();
                    terminal::warn(format_args!("{what}: left out, there was nothing to do"));
                }
                if work == Work::Create {
                    progress.show("removing what was created");
                    site.remove_created(&target).await?;
                }
            }
        }
    }
    if options.only.is_empty() {
        let bytes = site.bytes_of_a_create();
        let appends = tokio::task::spawn_blocking(move || appends(bytes, time));
        // Alone, and in groups.
        report.appends = progress.during("appending to a file", 2 * time, appends).await??;
    }
    Progress::clear();
    report.footprint = target.footprint().await;
    target.stop().await?;
    Ok(report)
}

async fn wait_until_told(
    told: &AtomicU64,
    count: u64,
    elapsed: &mut Duration,
) -> Result<(), Failure> {
    let began = std::time::Instant::now();
    while told.load(Ordering::Relaxed) < count {
        if began.elapsed() > PATIENCE {
            return Err("results of asynchronous runs did not come".into());
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    *elapsed += began.elapsed();
    Ok(())
}
