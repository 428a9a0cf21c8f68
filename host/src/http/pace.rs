//! Clients that are slow: a body must come at a minimum rate, and an answer must be taken.
//!
//! Both bounds are of progress, not of the whole: who sends much, or reads much, has time in proportion.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use axum::body::{Bytes, HttpBody};
use http_body::Frame;
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Instant, Sleep, sleep_until};

/// A body came more slowly than it must.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
#[error("the body came too slowly")]
pub struct TooSlow;

impl TooSlow {
    /// Whether an error has this cause, however it is wrapped.
    pub fn is_cause_of(error: &(dyn std::error::Error + 'static)) -> bool {
        std::iter::successors(Some(error), |error| error.source())
            .any(<dyn std::error::Error + 'static>::is::<Self>)
    }
}

/// A request's body that fails once it is slower than it must be.
pub struct PacedBody<B> {
    body: B,
    began: Instant,
    grace: Duration,
    bytes_per_second: u64,
    received: u64,
    timer: Option<Pin<Box<Sleep>>>,
    /// Told when somebody asks for it.
    asked_for: Option<Arc<AtomicBool>>,
}

impl<B> PacedBody<B> {
    /// Gives the body `grace`, and a second for each so many bytes that have come.
    pub fn new(body: B, grace: Duration, bytes_per_second: u64) -> Self {
        let (began, asked_for) = (Instant::now(), None);
        Self { body, began, grace, bytes_per_second, received: 0, timer: None, asked_for }
    }

    /// Tells, however long the body is there, whether anybody has asked for it.
    pub fn asked_for(&mut self) -> Arc<AtomicBool> {
        Arc::clone(self.asked_for.get_or_insert_default())
    }

    fn deadline(&self) -> Instant {
        self.began + self.grace + earned(self.received, self.bytes_per_second)
    }
}

/// The time that so many bytes may take.
fn earned(bytes: u64, bytes_per_second: u64) -> Duration {
    Duration::from_millis(bytes.saturating_mul(1_000) / bytes_per_second.max(1))
}

impl<B> HttpBody for PacedBody<B>
where
    B: HttpBody<Data = Bytes> + Unpin,
    B::Error: Into<axum::BoxError>,
{
    type Data = Bytes;
    type Error = axum::BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::BoxError>>> {
        let this = &mut *self;
        if let Some(asked_for) = &this.asked_for {
            asked_for.store(true, Ordering::Relaxed);
        }
        if let Poll::Ready(frame) = Pin::new(&mut this.body).poll_frame(context) {
            let bytes = frame.as_ref().and_then(|frame| frame.as_ref().ok()?.data_ref());
            this.received += bytes.map_or(0, Bytes::len) as u64;
            this.timer = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(Into::into)));
        }
        let deadline = this.deadline();
        let timer = this.timer.get_or_insert_with(|| Box::pin(sleep_until(deadline)));
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Some(Err(TooSlow.into())))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> http_body::SizeHint {
        self.body.size_hint()
    }
}

/// A connection whose writes fail once its other end has taken nothing for too long, or too little in the long run.
///
/// What it takes is counted from the first write that has to wait. A later write that need not wait does not end that:
/// who takes a byte now and then has a small one go through each time. A flush that need not wait does. Hyper comes to a
/// flush only when it has written all that it had, so nothing is kept for this client any more, and until something is
/// again, it owes nothing and earns nothing. Nor does it earn by what was written before: the system may hold that,
/// untaken.
pub struct PacedWrites<S> {
    stream: S,
    stall: Duration,
    bytes_per_second: u64,
    /// Since a write had to wait.
    account: Option<Account>,
    timer: Option<Pin<Box<Sleep>>>,
}

/// How much was taken since when.
struct Account {
    began: Instant,
    taken: u64,
}

impl<S: Unpin> PacedWrites<S> {
    /// Lets the other end take nothing for `stall`, and as long for all that waits, with a second more for each so many
    /// bytes that it has taken of that.
    pub fn new(stream: S, stall: Duration, bytes_per_second: u64) -> Self {
        Self { stream, stall, bytes_per_second, account: None, timer: None }
    }

    fn within<T>(
        &mut self,
        context: &mut Context<'_>,
        write: impl FnOnce(Pin<&mut S>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let written = write(Pin::new(&mut self.stream), context);
        if written.is_ready() {
            self.timer = None;
            return written;
        }
        let (stall, bytes_per_second) = (self.stall, self.bytes_per_second);
        let account = self.account.get_or_insert_with(Account::begin);
        let timer = self.timer.get_or_insert_with(|| {
            let long_run = account.began + stall + earned(account.taken, bytes_per_second);
            Box::pin(sleep_until(long_run.min(Instant::now() + stall)))
        });
        ready!(timer.as_mut().poll(context));
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }

    fn count(&mut self, written: &Poll<io::Result<usize>>) {
        if let (Some(account), Poll::Ready(Ok(bytes))) = (&mut self.account, written) {
            account.taken += *bytes as u64;
        }
    }
}

impl Account {
    fn begin() -> Self {
        Self { began: Instant::now(), taken: 0 }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for PacedWrites<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for PacedWrites<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = self.within(context, |stream, context| stream.poll_write(context, bytes));
        self.count(&written);
        written
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written =
            self.within(context, |stream, context| stream.poll_write_vectored(context, parts));
        self.count(&written);
        written
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = self.within(context, tokio::io::AsyncWrite::poll_flush);
        if flushed.is_ready() {
            self.account = None;
        }
        flushed
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.within(context, tokio::io::AsyncWrite::poll_shutdown)
    }
}

#[cfg(test)]
mod tests {
    use super::{Account, PacedBody, PacedWrites, TooSlow};
    use axum::body::{Body, Bytes};
    use http_body_util::BodyExt as _;
    use std::time::Duration;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _, DuplexStream};
    use tokio::time::{Instant, timeout};

    /// A body of `count` pieces of 100 bytes, one each `ms` milliseconds.
    fn slow(count: usize, ms: u64) -> Body {
        let pieces = futures::stream::unfold(0, move |sent| async move {
            if sent == count {
                return None;
            }
            tokio::time::sleep(Duration::from_millis(ms)).await;
            Some((Ok::<_, std::io::Error>(Bytes::from_static(&[b'x'; 100])), sent + 1))
        });
        Body::from_stream(pieces)
    }

    async fn read(body: Body, grace_ms: u64, rate: u64) -> Result<usize, bool> {
        let paced = PacedBody::new(body, Duration::from_millis(grace_ms), rate);
        // As in the server: a body around a body.
        let read = Body::new(Body::new(paced)).collect().await;
        read.map(|body| body.to_bytes().len()).map_err(|error| TooSlow::is_cause_of(&error))
    }

    #[tokio::test]
    async fn a_body_has_time_in_proportion() {
        // Whoever is fast, and whoever is slow within the grace.
        assert_eq!(read(Body::from("x".repeat(9_000)), 60_000, 1).await, Ok(9_000));
        assert_eq!(read(slow(3, 1), 60_000, 1).await, Ok(300));
        // What has come has earned its time: a hundred bytes, a hundred seconds.
        assert_eq!(read(slow(4, 30), 1_000, 1).await, Ok(400));
        // Nothing comes, or too little.
        assert_eq!(read(slow(1, 3_600_000), 20, 1).await, Err(true));
        assert_eq!(read(slow(1_000, 50), 20, 1_000_000).await, Err(true));
    }

    #[tokio::test]
    async fn other_errors_have_other_causes() {
        let broken = futures::stream::iter([Err::<Bytes, _>(std::io::Error::other("broken"))]);
        assert_eq!(read(Body::from_stream(broken), 60_000, 1).await, Err(false));
    }

    #[tokio::test]
    async fn who_takes_nothing_is_left() {
        let (near, mut far) = tokio::io::duplex(1_000);
        let mut near = PacedWrites::new(near, Duration::from_millis(50), 1);
        near.write_all(&[1; 1_000]).await.unwrap();
        let error = near.write_all(&[2; 1]).await.unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
        // Whoever reads on has all the time again.
        let mut read = [0; 1_000];
        far.read_exact(&mut read).await.unwrap();
        near.timer = None;
        near.write_all(&[3; 500]).await.unwrap();
        near.flush().await.unwrap();
        far.write_all(&[4; 10]).await.unwrap();
        near.read_exact(&mut read[..10]).await.unwrap();
        assert_eq!(read[..10], [4; 10]);
    }

    #[tokio::test]
    async fn who_takes_a_byte_now_and_then_is_left() {
        let (near, mut far) = tokio::io::duplex(1_000);
        tokio::spawn(async move {
            while far.read_u8().await.is_ok() {
                tokio::time::sleep(Duration::from_millis(10)).await;
            }
        });
        // A hundred bytes a second at most, of which each earns a millisecond.
        let mut near = PacedWrites::new(near, Duration::from_millis(200), 1_000);
        let text = "x".repeat(10_000);
        let written = timeout(Duration::from_secs(20), near.write_all(text.as_bytes())).await;
        let error = written.expect("it is left").unwrap_err();
        assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    }

    /// Whether a write that has to wait is given up now.
    async fn is_given_up(near: &mut PacedWrites<DuplexStream>) -> bool {
        near.timer = None;
        let written = timeout(Duration::from_millis(50), near.write_all(&[1; 1])).await;
        written.is_ok_and(|written| written.is_err())
    }

    #[tokio::test]
    async fn who_takes_enough_is_not_left_and_who_is_idle_owes_nothing() {
        let (near, mut far) = tokio::io::duplex(1_000);
        let mut near = PacedWrites::new(near, Duration::from_mins(1), 100);
        near.write_all(&[1; 1_000]).await.unwrap();
        assert!(near.account.is_none());
        assert!(!is_given_up(&mut near).await);
        // An hour later it has taken enough for an hour, or too little even with what it may be behind.
        let began = Instant::now().checked_sub(Duration::from_hours(1)).unwrap();
        near.account = Some(Account { began, taken: 360_000 });
        assert!(!is_given_up(&mut near).await);
        near.account = Some(Account { began, taken: 350_000 });
        assert!(is_given_up(&mut near).await);
        // A little goes through, which is counted, and changes nothing.
        far.read_exact(&mut [0; 10]).await.unwrap();
        near.write_all(&[2; 10]).await.unwrap();
        assert_eq!(near.account.as_ref().map(|account| account.taken), Some(350_010));
        assert!(is_given_up(&mut near).await);
        // All of it is written, and something else has to wait later.
        near.flush().await.unwrap();
        assert!(!is_given_up(&mut near).await);
    }
}
