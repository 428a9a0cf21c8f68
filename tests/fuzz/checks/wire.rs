//! Whatever comes over a connection, byte for byte: the server answers or hangs up, soon, never with a fault of its own,
//! and serves others as before.
//!
//! An input is what a client sends. `@private` stands for a key.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::sync::{LazyLock, Mutex, PoisonError};
use std::time::Duration;

use tokamak::http::{Bounds, Serving, serve_with};
use tokio::net::TcpListener;

use super::world;

/// Inputs after which everything is made anew: what they stored would look like a leak.
const INPUTS_MAX: u32 = 5_000;
/// What the server waits for the rest of a request.
const REST_MAX: Duration = Duration::from_millis(10);
/// What is waited for the server, however busy the machine is: in steps, a minute in all. While this process is stopped,
/// one step passes.
const STEP: Duration = Duration::from_millis(100);
const STEPS_MAX: u32 = 600;
/// Tries for an answer that has to come.
const TRIES: u32 = 1_000;
/// Asks for an answer and for the end of the connection.
const LAST: &[u8] = b"GET /healthz HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n";

static SERVED: LazyLock<Mutex<Served>> = LazyLock::new(|| Mutex::new(Served::new()));

/// Checks one input.
pub fn check(input: &[u8]) {
    let mut served = SERVED.lock().unwrap_or_else(PoisonError::into_inner);
    served.inputs += 1;
    if served.inputs > INPUTS_MAX {
        *served = Served::new();
    }
    let input = served.filled(input);
    let answer = served.converse(&input);
    assert!(answer.is_empty() || answer.starts_with(b"HTTP/1."), "{}", shown(&answer));
    let fault = answer
        .windows(10)
        .find(|part| part.starts_with(b"HTTP/1.1 5") && !part.starts_with(b"HTTP/1.1 501"));
    assert_eq!(fault, None, "{}", shown(&answer));
    // On a busy machine, time may be up before a request is sent.
    let answers = || served.converse(LAST).starts_with(b"HTTP/1.1 200 ");
    assert!((0..TRIES).any(|_| answers()), "the server does not answer any more");
}

struct Served {
    address: SocketAddr,
    private: Vec<u8>,
    inputs: u32,
    /// Ends the server.
    _stop: tokio::sync::oneshot::Sender<()>,
}

impl Served {
    fn new() -> Self {
        let base = world::World::new();
        let listener = base.tokio.block_on(TcpListener::bind("127.0.0.1:0")).unwrap();
        let address = listener.local_addr().unwrap();
        let private = base.private.clone().into_bytes();
        let (stop, stopped) = tokio::sync::oneshot::channel();
        std::thread::spawn(move || {
            let bounds = Bounds { head: REST_MAX, body_grace: REST_MAX, ..Bounds::default() };
            let serving = Serving { bounds, ..Serving::default() };
            let until = async {
                let _ = stopped.await;
            };
            base.tokio.block_on(serve_with(listener, base.state(), serving, until)).unwrap();
        });
        Self { address, private, inputs: 0, _stop: stop }
    }

    fn filled(&self, input: &[u8]) -> Vec<u8> {
        const NAME: &[u8] = b"@private";
        let Some(at) = input.windows(NAME.len()).position(|part| part == NAME) else {
            return input.to_vec();
        };
        [&input[..at], &self.private, &input[at + NAME.len()..]].concat()
    }

    /// Sends this and reads until the server hangs up.
    fn converse(&self, sent: &[u8]) -> Vec<u8> {
        let mut stream = TcpStream::connect(self.address).expect("the server takes connections");
        stream.set_read_timeout(Some(STEP)).unwrap();
        stream.set_write_timeout(Some(STEP * STEPS_MAX)).unwrap();
        // A server that has seen enough hangs up before it has read everything.
        let _ = stream.write_all(sent);
        let mut answer = Vec::new();
        let mut steps = 0;
        while let Err(error) = stream.read_to_end(&mut answer) {
            if !matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut) {
                break;
            }
            steps += 1;
            assert!(steps < STEPS_MAX, "the server keeps the connection: {}", shown(&answer));
        }
        answer
    }
}

fn shown(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().take(2_000).collect()
}
