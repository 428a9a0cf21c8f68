//! Figures for people: a table on the terminal, a page with plots.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};

use super::measure::{Footprint, Measure, Report};
use super::plot::{Line, svg};
use super::work::Work;

/// One line on the terminal that says what is going on.
pub struct Progress;

impl Progress {
    /// Shows what is going on, on a terminal.
    pub fn show(what: &str) {
        let mut out = std::io::stderr();
        if out.is_terminal() {
            let _ = write!(out, "\r\x1b[K{what} …").and_then(|()| out.flush());
        }
    }

    /// Leaves an empty line.
    pub fn clear() {
        let mut out = std::io::stderr();
        if out.is_terminal() {
            let _ = write!(out, "\r\x1b[K").and_then(|()| out.flush());
        }
    }
}

const HEAD: [&str; 11] = [
    "work",
    "tokens",
    "connections",
    "per second",
    "of echo",
    "p50 ms",
    "p99 ms",
    "p99.9 ms",
    "CPU µs",
    "syncs/s",
    "failed",
];

/// The table, with ratios to an earlier run if there was one.
pub fn table(report: &Report, earlier: Option<&Report>) -> String {
    let mut rows: Vec<Vec<String>> = vec![HEAD.map(str::to_owned).to_vec()];
    if earlier.is_some() {
        rows[0].push("of earlier".to_owned());
    }
    for measure in &report.measures {
        let mut row = row(report, measure);
        if let Some(earlier) = earlier {
            let like = earlier.measures.iter().find(|other| other.is_like(measure));
            let ratio = like.map(|other| measure.per_second / other.per_second);
            row.push(ratio.map(|ratio| format!("{ratio:.2}")).unwrap_or_default());
        }
        rows.push(row);
    }
    let widths: Vec<usize> = (0..rows[0].len())
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in &rows {
        for (cell, width) in row.iter().zip(&widths) {
            let _ = write!(text, "{cell:>width$}  ");
        }
        text.truncate(text.trim_end().len());
        text.push('\n');
    }
    for appends in &report.appends {
        let _ = writeln!(
            text,
            "appends, {} synced together: {:.0} per second",
            appends.together, appends.per_second
        );
    }
    text.push_str(&footprint(&report.footprint));
    for reason in report.measures.iter().filter_map(|measure| measure.reason.as_ref()) {
        let _ = writeln!(text, "failed: {reason}");
    }
    let Report { version, processors, seconds, .. } = report;
    let _ = write!(
        text,
        "tokamak {version}, {processors} processors shared with the load, {seconds} s each"
    );
    text
}

fn row(report: &Report, measure: &Measure) -> Vec<String> {
    let ms = |us: u64| format!("{:.2}", super::measure::count(us) / 1e3);
    let echo = report.echo_beside(measure).filter(|_| measure.work != Work::Echo);
    let share = echo.map(|echo| format!("{:.2}", measure.per_second / echo.per_second));
    vec![
        measure.work.name().to_owned(),
        measure.tokens.to_string(),
        measure.connections.to_string(),
        format!("{:.0}", measure.per_second),
        share.unwrap_or_default(),
        ms(measure.p50_us),
        ms(measure.p99_us),
        ms(measure.p999_us),
        measure.cpu_us.map(|us| format!("{us:.0}")).unwrap_or_default(),
        measure.syncs_per_second.map(|syncs| format!("{syncs:.0}")).unwrap_or_default(),
        measure.failed.to_string(),
    ]
}

fn footprint(footprint: &Footprint) -> String {
    let mib = |bytes: u64| super::measure::count(bytes) / f64::from(1 << 20);
    let mut text = String::new();
    if let Some(bytes) = footprint.resident_bytes {
        let _ = writeln!(text, "memory of the server in the end: {:.0} MiB", mib(bytes));
    }
    if let Some(bytes) = footprint.disk_bytes {
        let _ = writeln!(text, "its store on disk: {:.0} MiB", mib(bytes));
    }
    text
}

/// A page that stands by itself: the table, and a plot for each thing that was varied.
pub fn page(report: &Report) -> String {
    let mut plots = String::new();
    let sizes: BTreeSet<u64> = report.measures.iter().map(|measure| measure.tokens).collect();
    let counts: BTreeSet<u32> = report.measures.iter().map(|measure| measure.connections).collect();
    if counts.len() > 1 {
        for size in &sizes {
            let of = |measure: &&Measure| measure.tokens == *size;
            let lines = lines(report, of, |measure| f64::from(measure.connections));
            plots.push_str(&svg(&format!("With {size} tokens"), "connections", &lines));
        }
    }
    if sizes.len() > 1 {
        for count in &counts {
            let of = |measure: &&Measure| measure.connections == *count;
            let lines = lines(report, of, |measure| super::measure::count(measure.tokens));
            plots.push_str(&svg(&format!("With {count} connections"), "tokens", &lines));
        }
    }
    let table = table(report, None).replace('&', "&amp;").replace('<', "&lt;");
    format!(
        "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>Tokamak benchmark</title>\
        <style>body{{font-family:sans-serif;max-width:60rem;margin:2rem auto}}\
        svg{{width:100%;margin:1rem 0}}</style><h1>Tokamak benchmark</h1><pre>{table}</pre>{plots}</html>\n"
    )
}

fn lines(
    report: &Report,
    of: impl Fn(&&Measure) -> bool,
    across: impl Fn(&Measure) -> f64,
) -> Vec<Line> {
    let works = Work::chosen(&[]).into_iter();
    let lines = works.map(|work| {
        let measures = report.measures.iter().filter(|measure| measure.work == work).filter(&of);
        let points = measures.map(|measure| (across(measure), measure.per_second)).collect();
        Line { name: work.name(), points }
    });
    lines.filter(|line| !line.points.is_empty()).collect()
}
