//! Asking the server that runs on a data folder, if one does: the client of `http::control`.

use std::fs::File;
use std::io::{self, BufRead, BufReader, Read as _, Write as _};
use std::os::unix::net::UnixStream;
use std::path::Path;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;
use zeroize::Zeroizing;

use super::Failure;
use crate::http::control::{Refusal, SOCKET, short};

/// Bytes of an answer, at most.
const ANSWER_BYTES_MAX: u64 = 64 << 20;

/// Bytes that there is room for at first: an answer that holds a key is not moved, which would leave the key behind.
const ANSWER_BYTES_FIRST: usize = 64 << 10;

/// Bytes of the head of an answer, at most.
const HEAD_BYTES_MAX: u64 = 64 << 10;

/// A connection to the server.
pub struct Server(UnixStream);

impl Server {
    /// The server that runs on this folder; `None` when none does.
    pub fn find(folder: &Path) -> Result<Option<Self>, Failure> {
        let connected =
            File::open(folder).and_then(|open| UnixStream::connect(short(&open, SOCKET)));
        match connected {
            Ok(stream) => Ok(Some(Self(stream))),
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
                Err(format!("the server on {} cannot be asked: {error}", folder.display()).into())
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
        let told = self.0.write_all(head.as_bytes()).and_then(|()| self.0.write_all(&body));
        let mut answer = Zeroizing::new(Vec::<u8>::with_capacity(ANSWER_BYTES_FIRST));
        told.and_then(|()| (&mut self.0).take(ANSWER_BYTES_MAX).read_to_end(&mut answer))
            .map_err(|error| format!("the server did not answer: {error}"))?;
        understand(&answer)
    }

    /// Asks for an answer that is read while it is made.
    pub fn stream<T: Serialize>(
        mut self,
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
        self.0.write_all(question.as_bytes()).map_err(unanswered)?;
        let (mut answer, mut head) = (BufReader::new(self.0), Vec::new());
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
        Err(understand::<Value>(&head).err().unwrap_or_else(|| "the server gave no answer".into()))
    }
}

/// Reads an answer that its server ended by closing.
fn understand<T: DeserializeOwned>(answer: &[u8]) -> Result<T, Failure> {
    let unclear = || Failure::from("the server ended before it answered");
    let end = answer.windows(4).position(|at| at == b"\r\n\r\n").ok_or_else(unclear)?;
    let (head, body) = (&answer[..end], &answer[end + 4..]);
    let head = std::str::from_utf8(head).map_err(|_| unclear())?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse::<u16>().ok());
    match status.ok_or_else(unclear)? {
        204 => Ok(serde_json::from_value(Value::Null)?),
        200 => Ok(serde_json::from_slice(body)?),
        status => {
            let refusal = serde_json::from_slice::<Refusal>(body);
            Err(refusal
                .map_or_else(|_| format!("the server answered {status}"), |it| it.detail)
                .into())
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read as _, Write as _};
    use std::os::unix::net::UnixStream;

    use super::{Server, understand};

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
        let read = Server(ours).stream("POST", "/backup", &()).map_err(|error| error.to_string());
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
            (b"HTTP/1.0 503 No\r\n\r\n{\"detail\":\"later\"}".as_slice(), "later"),
            (b"HTTP/1.0 404 No\r\n\r\n", "the server answered 404"),
            (b"HTTP/1.0 200 OK\r\na: b\r\n", "the server ended before it answered"),
            (b"", "the server ended before it answered"),
        ] {
            assert_eq!(streamed(answer).unwrap_err(), expected);
        }
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
