//! Keeps the certificate fresh: read anew at SIGHUP, and when its files have changed. Says when it ends soon.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use super::Failure;
use crate::clock::{Clock as _, SystemClock};
use crate::config::Settings;
use crate::figures::figures;
use crate::http::{Tls, TlsError, TlsFiles, Validity};
use crate::limits::{CERTIFICATE_ENDING_SECONDS, CERTIFICATE_LOOK_MS};

/// How long its files may take to be read before that is told.
const READ_WITHIN: Duration = Duration::from_secs(10);
/// How often the same certificate is told of.
const TOLD_AGAIN: Duration = Duration::from_hours(24);
/// A certificate that lives for a few days is told of when less than this part of its time is left.
const ENDING_PART: i64 = 3;

/// Reads the pair that the settings name, if they do.
pub fn load(settings: &Settings) -> Result<Option<Tls>, Failure> {
    let files = settings.safety.tls.clone();
    let files = files.map(|(certificate, key)| TlsFiles { certificate, key });
    Ok(files.map(Tls::load).transpose()?)
}

/// Reads the pair anew whenever there is reason to; ends with the runtime. Without TLS a SIGHUP still ends nothing.
pub fn keep_fresh(tls: Option<Tls>) -> Result<(), Failure> {
    let hang_ups = signal(SignalKind::hangup())?;
    tokio::spawn(watch(tls, hang_ups));
    Ok(())
}

async fn watch(tls: Option<Tls>, mut hang_ups: Signal) {
    let mut looks = tokio::time::interval(Duration::from_millis(CERTIFICATE_LOOK_MS));
    let mut end = End::default();
    loop {
        let asked = tokio::select! {
            told = hang_ups.recv() => told.is_some(),
            _ = looks.tick() => false,
        };
        let Some(tls) = &tls else { continue };
        let now = now_seconds();
        tell(read_anew(tls.clone(), asked, now).await);
        if let Some(validity) = tls.validity() {
            end.look(validity, now);
        }
    }
}

/// Tells what came of reading the pair.
fn tell(read: Result<bool, TlsError>) {
    match read {
        Ok(true) => tracing::info!("the certificate was read anew"),
        Ok(false) => {}
        Err(error) => {
            tracing::error!(%error, "the new certificate cannot be used; the old one stays");
        }
    }
}

/// Readers that wait for files which do not answer.
static STUCK: AtomicUsize = AtomicUsize::new(0);
/// As many may wait: where a file system hangs, another one may be in its place by and by.
const STUCK_MAX: usize = 8;

/// Reads the pair, when somebody asked for it or its files have changed; whether it was read. On a thread of its own: a file
/// that does not answer, on a file system that hangs say, holds up nothing but this, and no stop waits for it.
async fn read_anew(tls: Tls, is_asked: bool, now: i64) -> Result<bool, TlsError> {
    let (done, mut read) = oneshot::channel();
    let work = move || {
        let read = if is_asked { tls.reload(now) } else { tls.reload_if_changed(now) };
        if let Err(late) = done.send(read) {
            // The files have answered after all, and nobody waits for what they hold.
            STUCK.fetch_sub(1, Ordering::Relaxed);
            tell(late);
        }
    };
    if STUCK.load(Ordering::Relaxed) >= STUCK_MAX {
        if is_asked {
            tracing::error!("the files of the certificate are not read: too many reads wait");
        }
        return Ok(false);
    }
    if let Err(error) = std::thread::Builder::new().name("certificate".to_owned()).spawn(work) {
        tracing::warn!(%error, "the certificate is not looked at: there is no thread");
        return Ok(false);
    }
    let Ok(read) = tokio::time::timeout(READ_WITHIN, &mut read).await else {
        STUCK.fetch_add(1, Ordering::Relaxed);
        tracing::error!(
            "the files of the certificate do not answer; the old one stays until they do"
        );
        return Ok(false);
    };
    // The thread broke.
    read.unwrap_or(Ok(false))
}

fn now_seconds() -> i64 {
    i64::try_from(SystemClock.now_ms() / 1_000).unwrap_or(i64::MAX)
}

/// What is to be told of a certificate.
#[derive(Clone, Copy, PartialEq)]
enum News {
    /// It is valid for a while.
    None,
    EndsSoon,
    HasEnded,
    HasNotBegun,
}

impl News {
    fn of(validity: Validity, now: i64) -> Self {
        let left = validity.not_after.saturating_sub(now);
        match validity.holds_at(now) {
            true if left >= ending_seconds(validity) => Self::None,
            true => Self::EndsSoon,
            false if left < 0 => Self::HasEnded,
            false => Self::HasNotBegun,
        }
    }
}

/// The certificate in use, and what was last told of it when.
#[derive(Default)]
struct End {
    of: Option<Validity>,
    told: Option<(News, Instant)>,
}

impl End {
    /// Tells of a certificate that is not valid, or not for long: once a day, and at once when that changes.
    fn look(&mut self, validity: Validity, now: i64) {
        if self.of != Some(validity) {
            *self = Self { of: Some(validity), told: None };
            figures().certificate_is(validity.not_before, validity.not_after);
        }
        let news = News::of(validity, now);
        let is_told = |(told, at): (News, Instant)| told == news && at.elapsed() < TOLD_AGAIN;
        if self.told.is_some_and(is_told) {
            return;
        }
        self.told = Some((news, Instant::now()));
        let days = validity.not_after.saturating_sub(now) / 86_400;
        match news {
            News::None => {}
            News::EndsSoon => tracing::warn!(days, "the certificate ends soon"),
            News::HasEnded => {
                tracing::error!("the certificate has ended: no client that checks it will connect");
            }
            News::HasNotBegun => {
                tracing::error!(
                    "the certificate has not begun: no client that checks it will connect"
                );
            }
        }
    }
}

/// How long before its end a certificate is told of.
fn ending_seconds(Validity { not_before, not_after }: Validity) -> i64 {
    CERTIFICATE_ENDING_SECONDS.min(not_after.saturating_sub(not_before) / ENDING_PART)
}

#[cfg(test)]
mod tests {
    use super::{End, News, Validity, ending_seconds};

    #[test]
    fn what_changes_is_told_at_once() {
        let validity = Validity { not_before: 100, not_after: 400 };
        let mut end = End::default();
        for (now, news) in [
            (99, News::HasNotBegun),
            (100, News::None),
            (300, News::None),
            (301, News::EndsSoon),
            (400, News::EndsSoon),
            (401, News::HasEnded),
        ] {
            end.look(validity, now);
            assert!(end.told.is_some_and(|(told, _)| told == news), "{now}");
        }
    }

    #[test]
    fn what_lives_shortly_is_told_of_shortly_before_its_end() {
        let days = |days: i64| days * 86_400;
        for (life, told) in
            [(days(398), days(14)), (days(90), days(14)), (days(6), days(2)), (9, 3)]
        {
            let validity = Validity { not_before: 1_000, not_after: 1_000 + life };
            assert_eq!(ending_seconds(validity), told, "{life}");
        }
    }
}
