//! A generator of HTTP load that costs little beside what it measures: one request, written again and again over kept
//! connections, its answers read to their end and not looked into.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

/// Bytes of the longest answer.
const ANSWER_BYTES_MAX: usize = 64 << 10;

/// One request, to be sent to one place.
#[derive(Clone)]
pub struct Load {
    address: SocketAddr,
    request: Vec<u8>,
}

/// What a turn gave.
#[derive(Debug)]
pub struct Turn {
    /// Answers in a second.
    pub per_second: f64,
    /// The median time of an answer, in milliseconds.
    pub p50: f64,
    /// The time that one in a hundred took longer than.
    pub p99: f64,
}

impl Load {
    /// A POST of JSON.
    pub fn post(address: SocketAddr, path: &str, headers: &[(&str, &str)], body: &str) -> Self {
        let mut request = format!("POST {path} HTTP/1.1\r\nHost: localhost\r\n");
        for (name, value) in headers {
            request.extend([name, ": ", value, "\r\n"]);
        }
        let length = body.len();
        let rest =
            format!("Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}");
        Self { address, request: (request + &rest).into_bytes() }
    }

    /// The same request to another place.
    pub fn elsewhere(&self, address: SocketAddr) -> Self {
        Self { address, ..self.clone() }
    }

    /// Sends it over so many connections, each as soon as it has its answer, for a while.
    pub async fn run(&self, connections: usize, time: Duration) -> Turn {
        let began = Instant::now();
        let tasks = (0..connections).map(|_| tokio::spawn(self.clone().one(began + time)));
        let mut times_us = Vec::new();
        for task in tasks.collect::<Vec<_>>() {
            times_us.extend(task.await.unwrap());
        }
        let elapsed = began.elapsed();
        times_us.sort_unstable();
        let at = |percent: usize| f64::from(times_us[times_us.len() * percent / 100]) / 1_000.0;
        let count = f64::from(u32::try_from(times_us.len()).unwrap());
        Turn { per_second: count / elapsed.as_secs_f64(), p50: at(50), p99: at(99) }
    }

    /// One connection; gives the time of each answer, in microseconds.
    async fn one(self, end: Instant) -> Vec<u32> {
        let mut connection = TcpStream::connect(self.address).await.unwrap();
        connection.set_nodelay(true).unwrap();
        let mut answer = Vec::with_capacity(ANSWER_BYTES_MAX);
        let mut times_us = Vec::new();
        while Instant::now() < end {
            let began = Instant::now();
            connection.write_all(&self.request).await.unwrap();
            answer.clear();
            while !is_whole(&answer) {
                assert!(answer.len() < ANSWER_BYTES_MAX, "the answer has no end");
                let read = connection.read_buf(&mut answer).await.unwrap();
                assert!(read > 0, "the connection was closed");
            }
            assert!(answer.starts_with(b"HTTP/1.1 200"), "{}", String::from_utf8_lossy(&answer));
            times_us.push(u32::try_from(began.elapsed().as_micros()).unwrap());
        }
        times_us
    }
}

/// Whether an answer is there to its end, by its length or by its last chunk.
fn is_whole(answer: &[u8]) -> bool {
    let Some(head) = answer.windows(4).position(|bytes| bytes == b"\r\n\r\n") else { return false };
    let (head, body) = answer.split_at(head + 4);
    let head = String::from_utf8_lossy(head).to_ascii_lowercase();
    match head.split_once("content-length:") {
        Some((_, rest)) => {
            let length = rest.split("\r\n").next().unwrap_or_default().trim();
            length.parse::<usize>().is_ok_and(|length| body.len() >= length)
        }
        None => body.ends_with(b"0\r\n\r\n"),
    }
}
