//! The signals that stop a server, heeded from its first moment on: the kernel ends the first process of a container by
//! none that it does not ask for. Told to stop before it serves, a server ends at once, as well as one that has served.

use std::io;
use std::process::exit;
use std::thread;
use std::time::Duration;

use futures::FutureExt as _;
use tokio::runtime::Builder;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::sync::oneshot;

use super::ends::{HANG_UP, unless_ignored};
use super::{Failure, logging, root_key};

/// How soon after a signal another one is the same.
const SAME_SIGNAL: Duration = Duration::from_secs(1);
/// The exit code of what SIGINT has ended, as shells have it.
const INTERRUPTED: i32 = 130;

/// Notes the signals from when it is made on, whoever heeds them then.
pub struct Stop {
    terminate: Signal,
    interrupt: Signal,
    /// Where the end of its terminal is to be its own.
    hang_up: Option<Signal>,
}

impl Stop {
    /// Notes them; in a runtime. From here on a SIGHUP, which asks for the certificate to be read anew, ends nothing: it may
    /// come before anybody heeds it.
    pub fn begin() -> io::Result<Self> {
        drop(signal(SignalKind::hangup())?);
        // A file that may not grow any more is a failed write, which is told of; by default the kernel ends the process.
        drop(signal(SignalKind::from_raw(libc::SIGXFSZ))?);
        let terminate = signal(SignalKind::terminate())?;
        Ok(Self { terminate, interrupt: signal(SignalKind::interrupt())?, hang_up: None })
    }

    /// The same for what somebody has started in a terminal, and would not look for once that is closed; unless it was
    /// started to outlive it.
    pub fn begin_with_terminal() -> io::Result<Self> {
        let hang_up = unless_ignored(HANG_UP, SignalKind::hangup())?;
        Ok(Self { hang_up, ..Self::begin()? })
    }

    /// Notes them, and does something meanwhile at which the process can be stopped. No thread of it is left.
    pub fn before<T>(work: impl FnOnce() -> Result<T, Failure>) -> Result<(Self, T), Failure> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let entered = runtime.enter();
        let stop = Self::begin()?;
        drop(entered);
        let (over, is_over) = oneshot::channel();
        let watch = move || runtime.block_on(stop.watch(is_over));
        let watching = thread::Builder::new().name("stop".to_owned()).spawn(watch)?;
        let done = work();
        drop(over);
        let stop = watching.join().map_err(|_| "nobody heeds the signals")?;
        Ok((stop, done?))
    }

    /// Does something at which the process can be stopped; in a runtime.
    pub async fn during<T>(
        self,
        work: impl Future<Output = Result<T, Failure>>,
    ) -> Result<(Self, T), Failure> {
        let (over, is_over) = oneshot::channel();
        let watching = tokio::spawn(self.watch(is_over));
        let done = work.await?;
        drop(over);
        Ok((watching.await?, done))
    }

    /// Waits until the process is told to stop.
    pub async fn told(&mut self) {
        tokio::select! {
            _ = self.terminate.recv() => {}
            _ = self.interrupt.recv() => {}
            Some(()) = async { self.hang_up.as_mut()?.recv().await } => {}
        }
    }

    /// Ends the process when it is interrupted again, by somebody who does not wait for it to stop. Again at once it is the same
    /// signal, which whatever started the server passes on.
    pub async fn heed_again(mut self) {
        tokio::time::sleep(SAME_SIGNAL).await;
        while self.interrupt.recv().now_or_never().flatten().is_some() {}
        if self.interrupt.recv().await.is_some() {
            tracing::warn!("interrupted again: what is under way is not waited for");
            logging::settle();
            exit(INTERRUPTED);
        }
    }

    /// Ends the process when it is told to stop before this is over.
    async fn watch(mut self, is_over: oneshot::Receiver<()>) -> Self {
        tokio::select! {
            () = self.told() => {
                tracing::info!("stopping before it served");
                root_key::give_up();
                logging::settle();
                exit(0);
            }
            // By being dropped.
            _ = is_over => self,
        }
    }
}
