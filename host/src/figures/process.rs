//! What the kernel counts of the process, under the names that are the custom for it.

use std::sync::atomic::AtomicU64;

use procfs::process::LimitValue;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use rustix::time::{ClockId, clock_gettime};

/// Memory, processor time and open files.
pub struct Process {
    resident: Gauge,
    processor: Counter<f64, AtomicU64>,
    descriptors: Gauge,
    descriptors_max: Gauge,
    began: Gauge<f64, AtomicU64>,
}

impl Process {
    /// Adds its figures to a registry.
    pub fn new(registry: &mut Registry) -> Self {
        let own = Self {
            resident: Gauge::default(),
            processor: Counter::default(),
            descriptors: Gauge::default(),
            descriptors_max: Gauge::default(),
            began: Gauge::default(),
        };
        let text = "Memory of the process that is in RAM";
        registry.register("process_resident_memory_bytes", text, own.resident.clone());
        // What is shown of a counter ends with `_total`.
        let text = "Processor time used since the start";
        registry.register("process_cpu_seconds", text, own.processor.clone());
        let text = "Files and sockets that are open";
        registry.register("process_open_fds", text, own.descriptors.clone());
        let text = "Files and sockets that may be open";
        registry.register("process_max_fds", text, own.descriptors_max.clone());
        let text = "When the process began, in Unix time";
        registry.register("process_start_time_seconds", text, own.began.clone());
        own.began.set(began().unwrap_or_default());
        own
    }

    /// Reads them anew. A kernel without `/proc` leaves them at zero.
    pub fn look(&self) {
        let Ok(own) = procfs::process::Process::myself() else { return };
        if let Ok(stat) = own.stat() {
            let resident = stat.rss.saturating_mul(procfs::page_size());
            self.resident.set(i64::try_from(resident).unwrap_or(i64::MAX));
            let ticks = stat.utime.saturating_add(stat.stime);
            #[expect(clippy::cast_precision_loss, reason = "centuries of seconds fit")]
            let seconds = ticks as f64 / procfs::ticks_per_second() as f64;
            // Two who look at once may count a little twice; the next look makes up for that.
            self.processor.inc_by((seconds - self.processor.get()).max(0.0));
        }
        if let Ok(count) = own.fd_count() {
            self.descriptors.set(i64::try_from(count).unwrap_or(i64::MAX));
        }
        if let Ok(limits) = own.limits() {
            let most = match limits.max_open_files.soft_limit {
                LimitValue::Value(most) => i64::try_from(most).unwrap_or(i64::MAX),
                LimitValue::Unlimited => i64::MAX,
            };
            self.descriptors_max.set(most);
        }
    }
}

/// When the process began, in seconds since the Unix epoch. Looked at once: a clock that is set is no new start. A process that
/// is confined sees nothing in `/proc` but itself, so what began when is told by the clocks.
#[expect(clippy::cast_precision_loss, reason = "centuries of seconds fit")]
fn began() -> Option<f64> {
    let seconds = |id| {
        let time = clock_gettime(id);
        time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
    };
    let ticks = procfs::process::Process::myself().ok()?.stat().ok()?.starttime as f64;
    let after_boot = ticks / procfs::ticks_per_second() as f64;
    Some(seconds(ClockId::Realtime) - (seconds(ClockId::Boottime) - after_boot))
}

#[cfg(test)]
mod tests {
    use crate::figures::{Disk, Figures};

    #[test]
    #[cfg(target_os = "linux")]
    fn the_process_is_looked_at() {
        let text = Figures::new().write(None, Disk::default(), true).unwrap();
        let value = |name: &str| -> f64 {
            let line = text.lines().find(|line| line.starts_with(&format!("{name} "))).unwrap();
            line.rsplit(' ').next().unwrap().parse().unwrap()
        };
        assert!(value("process_resident_memory_bytes") > 1_000_000.0);
        assert!(value("process_open_fds") >= 3.0);
        assert!(value("process_cpu_seconds_total") >= 0.0);
        assert!(value("process_max_fds") >= value("process_open_fds"));
        // After 2020, and the same whenever it is looked at.
        assert!(value("process_start_time_seconds") > 1_577_836_800.0);
    }
}
