//! What a client is told that finds no place (status 503): nothing of it was read, so it is written as it goes over the wire.
//!
//! Refusals may come by the thousand, so there are bounds of what each of them does: see [`Refusals`].

use std::io::{Read as _, Write as _};
use std::net::Shutdown;
use std::time::{Duration, Instant};

use http::StatusCode;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::problem::Problem;
use super::trace::TRACE_ID;
use crate::limits::{REFUSALS_LOGGED_MS, ROOM_MS_MAX};

/// Bytes that are read at a time of what nobody looks at.
const UNREAD_BYTES: usize = 1_024;

/// All refusals of a server.
pub struct Refusals {
    /// So many may ask for room while one waits for a place.
    asks_max: usize,
    lately: Mutex<Lately>,
}

struct Lately {
    /// Those of which the log was not told.
    untold: u64,
    silent_until: Instant,
    asks: usize,
    asks_until: Instant,
}

impl Refusals {
    /// None yet. While one waits for a place, so many of them at most ask those who have one: if each did, nobody would stay
    /// until it is answered.
    pub fn new(asks_max: usize) -> Self {
        let now = Instant::now();
        let lately = Lately { untold: 0, silent_until: now, asks: 0, asks_until: now };
        Self { asks_max, lately: Mutex::new(lately) }
    }

    /// Counts one; when the log is to be told of it, gives how many it is then told of.
    pub fn count(&self, now: Instant) -> Option<u64> {
        let mut lately = self.lately.lock();
        lately.untold += 1;
        if now < lately.silent_until {
            return None;
        }
        lately.silent_until = now + Duration::from_millis(REFUSALS_LOGGED_MS);
        Some(std::mem::take(&mut lately.untold))
    }

    /// Whether one more may ask for room.
    pub fn may_ask(&self, now: Instant) -> bool {
        let mut lately = self.lately.lock();
        if now >= lately.asks_until {
            lately.asks_until = now + Duration::from_millis(ROOM_MS_MAX);
            lately.asks = 0;
        }
        let may = lately.asks < self.asks_max;
        lately.asks += usize::from(may);
        may
    }
}

/// The whole answer.
pub fn text(trace_id: &str) -> String {
    let detail = "The server has no connection to spare now.";
    let mut problem = Problem::new(StatusCode::SERVICE_UNAVAILABLE, detail);
    problem.trace_id = Some(trace_id.to_owned());
    let body = serde_json::to_string(&problem).unwrap_or_default();
    format!(
        "HTTP/1.1 503 Service Unavailable\r\n\
         content-type: application/json\r\n\
         cache-control: no-store\r\n\
         x-content-type-options: nosniff\r\n\
         retry-after: 1\r\n\
         {TRACE_ID}: {trace_id}\r\n\
         connection: close\r\n\
         content-length: {}\r\n\r\n\
         {body}",
        body.len()
    )
}

/// Tells a client, and listens to it until it has gone: it is to read the refusal and not a broken connection.
pub async fn tell(mut stream: TcpStream, text: &str) {
    let _ = stream.write_all(text.as_bytes()).await;
    let _ = stream.shutdown().await;
    let mut unread = [0; UNREAD_BYTES];
    while stream.read(&mut unread).await.is_ok_and(|bytes| bytes > 0) {}
}

/// Tells a client without waiting for anything.
pub fn tell_at_once(stream: TcpStream, text: &str) {
    // Tokio does not know yet that a stream which has just come can be written to.
    let Ok(mut stream) = stream.into_std() else { return };
    let _ = stream.write_all(text.as_bytes());
    let _ = stream.shutdown(Shutdown::Write);
    // What has come and is not read would break the connection before the client reads.
    let mut unread = [0; UNREAD_BYTES];
    let _ = stream.read(&mut unread);
}

#[cfg(test)]
mod tests {
    use super::{Refusals, tell_at_once, text};
    use crate::limits::{REFUSALS_LOGGED_MS, ROOM_MS_MAX};
    use std::time::{Duration, Instant};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::timeout;

    #[test]
    fn the_log_is_told_once_in_a_while_of_how_many() {
        let refusals = Refusals::new(0);
        let began = Instant::now();
        let count = |ms| refusals.count(began + Duration::from_millis(ms));
        assert_eq!(count(0), Some(1));
        for ms in [0, 1, REFUSALS_LOGGED_MS - 1] {
            assert_eq!(count(ms), None, "{ms}");
        }
        assert_eq!(count(REFUSALS_LOGGED_MS), Some(4));
        assert_eq!(count(REFUSALS_LOGGED_MS + 1), None);
        assert_eq!(count(REFUSALS_LOGGED_MS * 5), Some(2));
    }

    #[test]
    fn of_those_who_are_refused_so_many_ask_for_room() {
        let refusals = Refusals::new(2);
        let began = Instant::now();
        for round in 0..3 {
            let now = began + Duration::from_millis(ROOM_MS_MAX) * round;
            assert_eq!([0; 4].map(|_| refusals.may_ask(now)), [true, true, false, false]);
        }
    }

    #[test]
    fn the_refusal_is_as_long_as_it_says() {
        let text = text("the-trace");
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains(&format!("content-length: {}", body.len())), "{}", body.len());
        let problem: serde_json::Value = serde_json::from_str(body).unwrap();
        assert_eq!(problem["status"], 503);
        assert_eq!(problem["trace_id"], "the-trace");
        assert!(head.contains("\r\nsvc-trace-id: the-trace\r\n"), "{head}");
    }

    #[tokio::test]
    async fn a_stream_that_has_just_come_is_told_at_once() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        client.write_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n").await.unwrap();
        let (stream, _) = listener.accept().await.unwrap();
        tell_at_once(stream, &text("the-trace"));
        let mut answer = String::new();
        let read = client.read_to_string(&mut answer);
        timeout(Duration::from_mins(1), read).await.unwrap().unwrap();
        assert_eq!(answer, text("the-trace"));
    }
}
