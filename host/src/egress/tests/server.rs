//! A server that writes what it is told to.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

/// Writes the answer to a request; gives whether the connection stays.
type Answering = dyn Fn(String, TcpStream) -> BoxFuture<'static, Option<TcpStream>> + Send + Sync;

/// A server on this machine, as long as it is held.
pub struct Server {
    pub port: u16,
    seen: Arc<Mutex<Vec<String>>>,
    connections: Arc<AtomicUsize>,
    open: Arc<AtomicUsize>,
    serving: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

impl Server {
    /// Answers every request so, and keeps the connection.
    pub async fn answering(answer: impl Into<Vec<u8>>) -> Self {
        Self::fixed(answer.into(), true).await
    }

    /// Answers every request so, and ends the connection.
    pub async fn hanging_up_after(answer: impl Into<Vec<u8>>) -> Self {
        Self::fixed(answer.into(), false).await
    }

    async fn fixed(answer: Vec<u8>, keep: bool) -> Self {
        Self::start(SocketAddr::from(([127, 0, 0, 1], 0)), move |_, mut stream| {
            let answer = answer.clone();
            Box::pin(async move {
                stream.write_all(&answer).await.ok()?;
                keep.then_some(stream)
            })
        })
        .await
    }

    /// Writes a beginning, and then a piece over and over.
    pub async fn repeating(beginning: &'static str, piece: impl Into<Vec<u8>>) -> Self {
        let piece = piece.into();
        Self::start(SocketAddr::from(([127, 0, 0, 1], 0)), move |_, mut stream| {
            let piece = piece.clone();
            Box::pin(async move {
                stream.write_all(beginning.as_bytes()).await.ok()?;
                loop {
                    stream.write_all(&piece).await.ok()?;
                }
            })
        })
        .await
    }

    /// Writes a beginning, and then nothing any more.
    pub async fn falling_silent(beginning: &'static str) -> Self {
        Self::start(SocketAddr::from(([127, 0, 0, 1], 0)), move |_, mut stream| {
            Box::pin(async move {
                stream.write_all(beginning.as_bytes()).await.ok()?;
                std::future::pending().await
            })
        })
        .await
    }

    /// Answers by what is asked, at an address.
    pub async fn start(
        address: SocketAddr,
        answering: impl Fn(String, TcpStream) -> BoxFuture<'static, Option<TcpStream>>
        + Send
        + Sync
        + 'static,
    ) -> Self {
        let listener = TcpListener::bind(address).await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let (connections, open) = (Arc::<AtomicUsize>::default(), Arc::<AtomicUsize>::default());
        let answering: Arc<Answering> = Arc::new(answering);
        let (noted, counted) = (Arc::clone(&seen), Arc::clone(&connections));
        let still = Arc::clone(&open);
        let serving = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                counted.fetch_add(1, Ordering::Relaxed);
                still.fetch_add(1, Ordering::Relaxed);
                let serve = serve(stream, Arc::clone(&noted), Arc::clone(&answering));
                let still = Arc::clone(&still);
                tokio::spawn(async move {
                    serve.await;
                    still.fetch_sub(1, Ordering::Relaxed);
                });
            }
        });
        Self { port, seen, connections, open, serving }
    }

    /// A port that nobody listens on.
    pub async fn closed_port() -> u16 {
        TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port()
    }

    /// An address here, by a name.
    pub fn url(&self, host: &str, path: &str) -> String {
        format!("http://{host}:{}{path}", self.port)
    }

    /// The requests so far, as they came.
    pub fn seen(&self) -> Vec<String> {
        self.seen.lock().clone()
    }

    /// The connections so far.
    pub fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Waits until there were so many requests.
    pub async fn asked(&self, count: usize) {
        for _ in 0..24_000 {
            if self.seen.lock().len() >= count {
                return;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        panic!("there were fewer requests than {count}");
    }

    /// Those that nobody has ended yet, once they are at most so many; what never comes is what there are.
    pub async fn open_at_most(&self, count: usize) -> usize {
        for _ in 0..3_000 {
            if self.open.load(Ordering::Relaxed) <= count {
                break;
            }
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        self.open.load(Ordering::Relaxed)
    }
}

async fn serve(mut stream: TcpStream, seen: Arc<Mutex<Vec<String>>>, answering: Arc<Answering>) {
    while let Some(request) = read_request(&mut stream).await {
        seen.lock().push(request.clone());
        match answering(request, stream).await {
            Some(kept) => stream = kept,
            None => return,
        }
    }
}

/// A request's head, and as much body as it announces.
async fn read_request(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    loop {
        let text = String::from_utf8_lossy(&bytes).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = head.to_lowercase();
            let length = length.lines().find_map(|line| line.strip_prefix("content-length: "));
            if body.len() >= length.map_or(0, |length| length.parse().unwrap()) {
                return Some(text);
            }
        }
        if stream.read_buf(&mut bytes).await.ok()? == 0 {
            return None;
        }
    }
}
