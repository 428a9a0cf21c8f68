//! What a client is told that finds no place (status 503): nothing of it was read, so it is written as it goes over the wire.

use std::io::{Read as _, Write as _};
use std::net::Shutdown;

use http::StatusCode;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::problem::Problem;
use super::trace::TRACE_ID;

/// Bytes that are read at a time of what nobody looks at.
const UNREAD_BYTES: usize = 1_024;

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
    use super::{tell_at_once, text};
    use std::time::Duration;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::{TcpListener, TcpStream};
    use tokio::time::timeout;

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
