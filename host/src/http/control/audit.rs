//! The log over the control socket: heads at once, entries as lines while they are read.
//!
//! The last line of an export is empty: one that ends without it was cut short.

use std::io::{self, BufRead, ErrorKind, Write};

use axum::body::{Body, Bytes};
use axum::extract::State as Shared;
use axum::response::Response;
use futures::stream;
use tokio::sync::mpsc::channel;

use super::{Refused, read};
use crate::http::envelope::Reply;
use crate::vault::{ExportFilter, ExportedHead, Vault};

/// Where each tenant's log ends.
pub async fn heads(Shared(vault): Shared<Vault>) -> Result<Reply<Vec<ExportedHead>>, Refused> {
    Ok(Reply(vault.log_heads()?))
}

/// The entries that the body asks for.
pub async fn export(Shared(vault): Shared<Vault>, body: Bytes) -> Result<Response, Refused> {
    let filter: ExportFilter = read(&body)?;
    vault.check_export(&filter).await?;
    let (give, take) = channel(1);
    tokio::spawn(async move {
        match vault.export_log(filter, &give).await {
            Ok(()) => drop(give.send(b"\n".to_vec()).await),
            Err(_) if give.is_closed() => {
                tracing::info!("an export of the log was cut off: nobody takes it");
            }
            Err(error) => tracing::warn!(%error, "an export of the log ends before it is whole"),
        }
    });
    let lines = stream::unfold(take, async |mut take| {
        let lines = take.recv().await?;
        Some((Ok::<_, io::Error>(Bytes::from(lines)), take))
    });
    Ok(Response::new(Body::from_stream(lines)))
}

/// Copies the lines of an export; fails if they end before the last.
pub fn copy_lines(from: &mut impl BufRead, to: &mut impl Write) -> io::Result<()> {
    let mut line = Vec::new();
    loop {
        line.clear();
        match from.read_until(b'\n', &mut line)? {
            1 if line == b"\n" => return to.flush(),
            _ if line.ends_with(b"\n") => to.write_all(&line)?,
            _ => return Err(ErrorKind::UnexpectedEof.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::copy_lines;

    #[test]
    fn an_export_that_was_cut_short_is_told_from_a_whole_one() {
        let text = "{\"a\":1}\n{\"b\":2}\n\n";
        let copied = |length: usize| {
            let mut to = Vec::new();
            copy_lines(&mut &text.as_bytes()[..length], &mut to).map(|()| to)
        };
        assert_eq!(copied(text.len()).unwrap(), b"{\"a\":1}\n{\"b\":2}\n");
        for length in 0..text.len() {
            assert!(copied(length).is_err(), "{length}");
        }
        assert_eq!(copy_lines(&mut b"\n".as_slice(), &mut Vec::new()).ok(), Some(()));
    }
}
