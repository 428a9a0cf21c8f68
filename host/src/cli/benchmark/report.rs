//! Figures for people: a table on the terminal, a page with plots.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::io::{IsTerminal as _, Write as _};
use std::pin::pin;
use std::time::{Duration, Instant};

use super::measure::{Measure, Report};
use super::plot::{Line, svg};
use super::usage::Footprint;
use super::work::Work;

/// Cells of the bar.
const CELLS: usize = 20;
/// How often the line is drawn anew while something is measured.
const DRAWN_AFTER: Duration = Duration::from_millis(500);

/// One line on the terminal: how much is done, about how long the rest takes, and what is going on.
pub struct Progress {
    of: u32,
    done: u32,
    /// The first measurement: what comes before tells nothing of how long they take.
    began: Option<Instant>,
}

impl Progress {
    /// Of so many measurements.
    pub fn of(measurements: usize) -> Self {
        let of = u32::try_from(measurements).unwrap_or(u32::MAX).max(1);
        Self { of, done: 0, began: None }
    }

    /// Shows what is going on between measurements.
    pub fn show(&self, what: &str) {
        self.draw(0.0, what);
    }

    /// Shows a measurement that takes about this time, until it is done.
    pub async fn during<T>(
        &mut self,
        what: &str,
        time: Duration,
        measured: impl Future<Output = T>,
    ) -> T {
        let (mut measured, began) = (pin!(measured), Instant::now());
        self.began.get_or_insert(began);
        let mut ticks = tokio::time::interval(DRAWN_AFTER);
        let result = loop {
            tokio::select! {
                result = &mut measured => break result,
                _ = ticks.tick() => {
                    let share = began.elapsed().div_duration_f64(time).min(1.0);
                    self.draw(share, what);
                }
            }
        };
        self.done += 1;
        result
    }

    /// Leaves an empty line.
    pub fn clear() {
        on_terminal("");
    }

    /// Draws the line; `share` is how much of the next measurement is done.
    fn draw(&self, share: f64, what: &str) {
        let done = (f64::from(self.done) + share) / f64::from(self.of);
        let took = self.began.map(|began| began.elapsed()).unwrap_or_default();
        on_terminal(&line(done, took, what));
    }
}

/// Writes a line in the place of the last one, if there is somebody to see it. A terminal that is too narrow cuts it
/// short: what it wrapped would stay.
fn on_terminal(line: &str) {
    let mut out = std::io::stderr();
    if out.is_terminal() {
        let _ = write!(out, "\r\x1b[K\x1b[?7l{line}\x1b[?7h").and_then(|()| out.flush());
    }
}

/// The line, when this share was done in this time.
fn line(done: f64, took: Duration, what: &str) -> String {
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to 100")]
    let percent = (done.clamp(0.0, 1.0) * 100.0) as usize;
    let cells = percent * CELLS / 100;
    let bar = "#".repeat(cells) + &"-".repeat(CELLS - cells);
    // The first moments tell nothing of the rest.
    let left = (percent > 0).then(|| took.mul_f64((1.0 - done).max(0.0) / done).as_secs());
    let left = left.map(|left| format!(", {}:{:02} left", left / 60, left % 60));
    format!("[{bar}] {percent:>3} %{}  {what} …", left.unwrap_or_default())
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
    if let Some(how) = earlier.and_then(|earlier| report.unlike(earlier)) {
        let _ = writeln!(
            text,
            "the earlier figures were measured {how}: they tell little of the server"
        );
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

/// A page that stands by itself: the table, with ratios to an earlier run if there was one, and a plot for each thing that
/// was varied.
pub fn page(report: &Report, earlier: Option<&Report>) -> String {
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
    let table = table(report, earlier).replace('&', "&amp;").replace('<', "&lt;");
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

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use serde_json::json;

    use super::{Progress, Report, line, page, table};

    #[test]
    fn the_line_tells_what_is_done_and_how_long_the_rest_takes() {
        for (done, seconds, expected) in [
            (0.0, 0, "[--------------------]   0 %  create …"),
            (0.004, 1, "[--------------------]   0 %  create …"),
            (0.25, 30, "[#####---------------]  25 %, 1:30 left  create …"),
            (0.5, 65, "[##########----------]  50 %, 1:05 left  create …"),
            (1.0, 65, "[####################] 100 %, 0:00 left  create …"),
            (1.5, 65, "[####################] 100 %, 0:00 left  create …"),
        ] {
            assert_eq!(line(done, Duration::from_secs(seconds), "create"), expected);
        }
    }

    #[test]
    fn figures_that_were_measured_in_another_way_are_said_to_be_so() {
        let now = Report::new(1);
        let measured = json!({"work": "get", "tokens": 100, "connections": 1, "per_second": 1.0,
            "p50_us": 1, "p99_us": 1, "p999_us": 1, "failed": 0});
        let text = |mut earlier: serde_json::Value, without: &str| {
            earlier.as_object_mut().unwrap().remove(without);
            table(&now, Some(&serde_json::from_value(earlier).unwrap()))
        };
        let kept = serde_json::to_value(&now).unwrap();
        assert!(!text(kept.clone(), "nothing").contains("another"));
        // As versions wrote it that did not say.
        assert!(text(kept.clone(), "generator").contains("by another load generator: they"));
        for (member, value, told) in [
            ("processors", json!(1_000), "on other processors: they"),
            ("seconds", json!(2), "for another time each: they"),
            ("measures", json!([measured]), "among other work: they"),
        ] {
            let mut other = kept.clone();
            other[member] = value;
            assert!(text(other, "nothing").contains(told), "{member}");
        }
        let mut both = kept;
        both["processors"] = 1_000.into();
        both["seconds"] = 2.into();
        assert!(text(both, "nothing").contains("on other processors, for another time each: they"));
    }

    #[test]
    fn the_page_compares_as_the_table_does() {
        let mut now = Report::new(1);
        let measured = json!({"work": "get", "tokens": 100, "connections": 1, "per_second": 30.0,
            "p50_us": 1, "p99_us": 1, "p999_us": 1, "failed": 0});
        now.measures.push(serde_json::from_value(measured.clone()).unwrap());
        let mut earlier = Report::new(1);
        earlier.measures.push(serde_json::from_value(measured).unwrap());
        earlier.measures[0].per_second = 20.0;
        let compared = page(&now, Some(&earlier));
        assert!(compared.contains("of earlier") && compared.contains("1.50"), "{compared}");
        assert!(!page(&now, None).contains("of earlier"));
    }

    #[tokio::test]
    async fn each_measurement_is_one_more() {
        let mut progress = Progress::of(2);
        for done in 1..=2 {
            let measured = std::future::ready(done);
            assert_eq!(progress.during("x", Duration::ZERO, measured).await, done);
            assert_eq!(progress.done, done);
        }
        assert_eq!(Progress::of(0).of, 1);
    }
}
