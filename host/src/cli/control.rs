//! Asking the server that runs on a data folder, if one does: the client of `http::control`.
//!
//! What is asked may hold a root key, and what is answered holds keys. So the kernel tells who listens, before anything is
//! sent: the owner of the folder or of its store, root, or the user of this process.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::os::unix::fs::MetadataExt as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use thiserror::Error as ThisError;
use zeroize::Zeroizing;

use super::{Failure, disk, folder};
use crate::http::control::{NO_OPERATION, ROOT, Refusal, SOCKET, short};

/// Bytes of an answer, at most.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Bytes that there is room for at first: an answer that holds a key is not moved, which would leave the key behind.
const ANSWER_BYTES_FIRST: usize = 64 << 10;

/// Bytes of the head of an answer, at most.
const HEAD_BYTES_MAX: u64 = 64 << 10;

/// The status of a server that could not store, or not read.
const UNAVAILABLE: u16 = 503;

/// A server was asked, and gave no whole answer.
#[derive(Debug, ThisError)]
#[error("{0}")]
pub struct Unanswered(String);

/// A connection to the server.
pub struct Server {
    stream: UnixStream,
    /// The folder that it runs on.
    data: PathBuf,
}

impl Server {
    /// The server that runs on this folder; `None` when none does. Whoever else listens there is asked nothing.
    pub fn find(data: &Path) -> Result<Option<Self>, Failure> {
        let connected = File::open(data).and_then(|open| {
            let stream = UnixStream::connect(short(&open, SOCKET))?;
            // Of the folder that is open: what its name stands for may change.
            let owners = folder::trusted(&open, data)?;
            Ok((listener(&stream)?, owners, open.metadata()?.uid(), stream))
        });
        match connected {
            Ok((peer, owners, _, stream)) if is_trusted(peer, &owners) => {
                Ok(Some(Self { stream, data: data.to_owned() }))
            }
            Ok((peer, _, owner, _)) => Err(format!(
                "at {} listens a process of user {peer}, and the folder belongs to user {owner}: it was asked nothing. \
                Look who may write to the folder and where it lies; if the server runs as that user, run this as the \
                same one",
                data.join(SOCKET).display()
            )
            .into()),
            // Nobody listens at a socket that was left by a process that is gone.
            Err(error)
                if matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused
                ) =>
            {
                Ok(None)
            }
            Err(error) => {
                let whom = if error.kind() == io::ErrorKind::PermissionDenied {
                    "; its own user may ask it, and root if it may enter the folder"
                } else {
                    ""
                };
                Err(format!("the server on {} cannot be asked: {error}{whom}", data.display())
                    .into())
            }
        }
    }

    /// Asks one question. The answer may take long: what is asked may be much work.
    pub fn ask<T: DeserializeOwned>(
        mut self,
        method: &str,
        path: &str,
        body: &impl Serialize,
    ) -> Result<T, Failure> {
        let mut body = Zeroizing::new(serde_json::to_vec(body)?);
        // What a handler does not read would cut the answer off.
        if *body == b"null" {
            body.clear();
        }
        let length = body.len();
        let head = format!(
            "{method} {path} HTTP/1.1\r\nhost: tokamak\r\nconnection: close\r\n\
            content-type: application/json\r\ncontent-length: {length}\r\n\r\n"
        );
        let Self { stream, data } = &mut self;
        let told = stream.write_all(head.as_bytes()).and_then(|()| stream.write_all(&body));
        let mut answer = Zeroizing::new(Vec::<u8>::with_capacity(ANSWER_BYTES_FIRST));
        told.and_then(|()| stream.take(ANSWER_BYTES_MAX).read_to_end(&mut answer))
            .map_err(|error| Unanswered(format!("the server did not answer: {error}")))?;
        understand(&answer).map_err(|error| disk::about(error, data))
    }

    /// Asks for an answer that is read while it is made.
    pub fn stream<T: Serialize>(
        self,
        method: &str,
        path: &str,
        body: &T,
    ) -> Result<impl BufRead + use<T>, Failure> {
        let body = serde_json::to_string(body)?;
        // In this version of HTTP an answer is as long as the connection, and comes as it is.
        let question = format!(
            "{method} {path} HTTP/1.0\r\nhost: tokamak\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        );
        let unanswered = |error| format!("the server did not answer: {error}");
        let Self { mut stream, data } = self;
        stream.write_all(question.as_bytes()).map_err(unanswered)?;
        let (mut answer, mut head) = (BufReader::new(stream), Vec::new());
        let mut bounded = (&mut answer).take(HEAD_BYTES_MAX);
        while !head.ends_with(b"\r\n\r\n") {
            if bounded.read_until(b'\n', &mut head).map_err(unanswered)? == 0 {
                break;
            }
        }
        if head.split(|byte| *byte == b' ').nth(1) == Some(b"200") && head.ends_with(b"\r\n\r\n") {
            return Ok(answer);
        }
        answer.take(HEAD_BYTES_MAX).read_to_end(&mut head).map_err(unanswered)?;
        let refused = understand::<Value>(&head).err();
        Err(refused
            .map_or_else(|| "the server gave no answer".into(), |error| disk::about(error, &data)))
    }
}

/// The user whose process listens at the other end.
fn listener(stream: &UnixStream) -> io::Result<u32> {
    // The standard library does not tell; what does takes a stream that nobody waits for.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    let _entered = runtime.enter();
    stream.set_nonblocking(true)?;
    let peer = tokio::net::UnixStream::from_std(stream.try_clone()?)?.peer_cred()?;
    stream.set_nonblocking(false)?;
    Ok(peer.uid())
}

fn is_trusted(peer: u32, owners: &[u32]) -> bool {
    [ROOT, geteuid().as_raw()].contains(&peer) || owners.contains(&peer)
}

/// Reads an answer that its server ended by closing.
fn understand<T: DeserializeOwned>(answer: &[u8]) -> Result<T, Failure> {
    let unclear = || Failure::from(Unanswered("the server ended before it answered".to_owned()));
    let end = answer.windows(4).position(|at| at == b"\r\n\r\n").ok_or_else(unclear)?;
    let (head, body) = (&answer[..end], &answer[end + 4..]);
    let head = std::str::from_utf8(head).map_err(|_| unclear())?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok());
    match status.ok_or_else(unclear)? {
        204 => Ok(serde_json::from_value(Value::Null)?),
        200 => Ok(serde_json::from_slice(body)?),
        status => {
            let refusal = serde_json::from_slice::<Refusal>(body);
            let mut told =
                refusal.map_or_else(|_| format!("the server answered {status}"), |it| it.detail);
            if told == NO_OPERATION {
                told.push_str(
                    " The server that runs is of another version than this program: start it again",
                );
            }
            Err(if status == UNAVAILABLE { disk::Unavailable(told).into() } else { told.into() })
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::{UnixListener, UnixStream};

    use super::{ROOT, SOCKET, Server, geteuid, is_trusted, understand};

    #[test]
    fn whoever_listens_is_trusted_if_it_is_the_owner_or_root_or_this_user() {
        let own = geteuid().as_raw();
        let (owner, stranger) = (own + 1_000, own + 2_000);
        for (peer, expected) in [(owner, true), (ROOT, true), (own, true), (stranger, false)] {
            assert_eq!(is_trusted(peer, &[owner]), expected, "{peer}");
            assert_eq!(is_trusted(peer, &[]), expected && peer != owner, "{peer}");
        }
    }

    #[test]
    fn a_server_of_this_user_is_found_and_answers_are_waited_for() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Server::find(folder.path()).unwrap().is_none());
        let listener = UnixListener::bind(folder.path().join(SOCKET)).unwrap();
        let server = Server::find(folder.path()).unwrap().unwrap();
        let asking = std::thread::spawn(move || server.ask::<u32>("GET", "/", &()).ok());
        let (mut theirs, _) = listener.accept().unwrap();
        // The head ends with an empty line; there is no body.
        let mut asked = Vec::new();
        while !asked.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            theirs.read_exact(&mut byte).unwrap();
            asked.extend(byte);
        }
        theirs.write_all(b"HTTP/1.1 200 OK\r\n\r\n7").unwrap();
        drop(theirs);
        assert_eq!(asking.join().unwrap(), Some(7));
        drop(listener);
        // A process that another test starts has it, too, until it is another program.
        let is_gone = || Server::find(folder.path()).unwrap().is_none();
        let pause = || std::thread::sleep(std::time::Duration::from_millis(10));
        assert!((0..1_000).any(|_| is_gone() || {
            pause();
            false
        }));
    }

    /// What is read of an answer that is streamed.
    fn streamed(answer: &'static [u8]) -> Result<Vec<u8>, String> {
        let (ours, mut theirs) = UnixStream::pair().unwrap();
        let server = std::thread::spawn(move || {
            let mut asked = [0; 64];
            let length = theirs.read(&mut asked).unwrap();
            // Who was told enough may hang up.
            let _ = theirs.write_all(answer);
            asked[..length].to_vec()
        });
        let asked = Server { stream: ours, data: "/none/at/all".into() };
        let read = asked.stream("POST", "/backup", &()).map_err(|error| error.to_string());
        let read = read.map(|mut answer| {
            let mut bytes = Vec::new();
            answer.read_to_end(&mut bytes).unwrap();
            bytes
        });
        assert!(server.join().unwrap().starts_with(b"POST /backup HTTP/1.0\r\n"));
        read
    }

    #[test]
    fn an_answer_that_is_streamed_is_read_as_it_comes() {
        let read = streamed(b"HTTP/1.0 200 OK\r\na: b\r\n\r\none\r\n\r\ntwo");
        assert_eq!(read.unwrap(), b"one\r\n\r\ntwo");
        for (answer, expected) in [
            (b"HTTP/1.0 409 No\r\n\r\n{\"detail\":\"later\"}".as_slice(), "later"),
            (b"HTTP/1.0 404 No\r\n\r\n", "the server answered 404"),
            (b"HTTP/1.0 200 OK\r\na: b\r\n", "the server ended before it answered"),
            (b"", "the server ended before it answered"),
        ] {
            assert_eq!(streamed(answer).unwrap_err(), expected);
        }
        // Where nothing could be stored, with what the disk says.
        let told = streamed(b"HTTP/1.0 503 No\r\n\r\n{\"detail\":\"It is full.\"}").unwrap_err();
        assert!(told.starts_with("/none/at/all: It is full. Its disk "), "{told}");
    }

    #[test]
    fn answers_are_read_and_refusals_told() {
        let read = |text: &str| understand::<serde_json::Value>(text.as_bytes());
        assert_eq!(read("HTTP/1.1 200 OK\r\na: b\r\n\r\n{\"n\":1}").unwrap()["n"], 1);
        assert!(read("HTTP/1.1 204 No Content\r\n\r\n").unwrap().is_null());
        for (answer, expected) in [
            ("HTTP/1.1 409 Conflict\r\n\r\n{\"detail\":\"later\"}", "later"),
            ("HTTP/1.1 500 Oops\r\n\r\n", "the server answered 500"),
            ("HTTP/1.1 200 OK\r\n", "the server ended before it answered"),
            ("", "the server ended before it answered"),
        ] {
            assert_eq!(read(answer).unwrap_err().to_string(), expected);
        }
    }
}
