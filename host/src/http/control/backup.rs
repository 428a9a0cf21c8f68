//! A backup over the control socket, as frames: the server may write only in its data folder, the command elsewhere.
//!
//! A frame is one byte that names its kind, the length of what follows (4 bytes, big-endian), and a piece of the backup.
//! The manifest is the last one; an answer that ends before it is of a backup that failed.

use std::io::{self, ErrorKind, Read};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State as Shared;
use axum::response::Response;
use futures::stream;
use tokio::sync::mpsc::{Sender, channel};
use tokio::task::spawn_blocking;

use super::Refused;
use crate::vault::{Backup, CHUNK_FILE_BYTES_MAX, Piece, Vault};

const CHUNK: u8 = b'c';
const MANIFEST: u8 = b'm';
/// How long one frame may wait to be taken. What the backup is read from is in the way of compacting.
const TAKEN_WITHIN: Duration = Duration::from_mins(5);

/// Begins a backup, and answers with it.
pub async fn backup(Shared(vault): Shared<Vault>) -> Result<Response, Refused> {
    let backup = vault.backup().await?;
    let (give, take) = channel(1);
    tokio::spawn(feed(backup, give));
    let frames = stream::unfold(take, async |mut take| Some((take.recv().await?, take)));
    Ok(Response::new(Body::from_stream(frames)))
}

/// Gives frames until there are no more, or nobody takes them.
async fn feed(mut backup: Backup, give: Sender<io::Result<Bytes>>) {
    loop {
        let read = spawn_blocking(move || {
            let piece = backup.next_piece();
            (backup, piece)
        });
        let Ok((back, piece)) = read.await else { return };
        backup = back;
        let given = match piece {
            Ok(None) => break,
            Ok(Some(piece)) => give.send_timeout(Ok(frame(&piece)), TAKEN_WITHIN).await,
            Err(error) => {
                tracing::warn!(%error, "a backup ends before it is whole");
                let failed = io::Error::other("the backup failed");
                let _ = give.send_timeout(Err(failed), TAKEN_WITHIN).await;
                break;
            }
        };
        if given.is_err() {
            tracing::warn!("a backup ends before it is whole: nobody takes it");
            break;
        }
    }
    // Removes files.
    let _ = spawn_blocking(move || drop(backup)).await;
}

fn frame(piece: &Piece) -> Bytes {
    let (kind, bytes) = match piece {
        Piece::Chunk(bytes) => (CHUNK, bytes),
        Piece::Manifest(bytes) => (MANIFEST, bytes),
    };
    // Pieces are far shorter; what is not would be refused by who reads it.
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    [&[kind], length.to_be_bytes().as_slice(), bytes].concat().into()
}

/// Reads a frame; `None` where there is no more.
pub fn read_frame(from: &mut impl Read) -> io::Result<Option<Piece>> {
    let mut kind = [0];
    match from.read_exact(&mut kind) {
        Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(None),
        read => read?,
    }
    let mut length = [0; 4];
    from.read_exact(&mut length)?;
    let length = u64::from(u32::from_be_bytes(length));
    if length > CHUNK_FILE_BYTES_MAX {
        return Err(ErrorKind::InvalidData.into());
    }
    let mut bytes = Vec::new();
    from.take(length).read_to_end(&mut bytes)?;
    if bytes.len() as u64 != length {
        return Err(ErrorKind::UnexpectedEof.into());
    }
    match kind[0] {
        CHUNK => Ok(Some(Piece::Chunk(bytes))),
        MANIFEST => Ok(Some(Piece::Manifest(bytes))),
        _ => Err(ErrorKind::InvalidData.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::{frame, read_frame};
    use crate::vault::Piece;

    #[test]
    fn frames_are_read_as_they_were_written_and_not_if_cut_short() {
        let pieces = [Piece::Chunk(vec![1; 300]), Piece::Manifest(b"{}".to_vec())];
        let text: Vec<u8> = pieces.iter().flat_map(frame).collect();
        let mut from = text.as_slice();
        for piece in pieces {
            assert_eq!(read_frame(&mut from).unwrap(), Some(piece));
        }
        assert_eq!(read_frame(&mut from).unwrap(), None);
        for length in 1..305 {
            assert!(read_frame(&mut &text[..length]).is_err(), "{length}");
        }
        assert!(read_frame(&mut b"x\0\0\0\0".as_slice()).is_err());
        assert!(read_frame(&mut b"c\xff\xff\xff\xff".as_slice()).is_err());
    }
}
