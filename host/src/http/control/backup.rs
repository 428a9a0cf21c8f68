//! A backup over the control socket, as frames: the server may write only in its data folder, the command elsewhere.
//!
//! A frame is one byte that names its kind, the length of what follows (4 bytes, big-endian), and that: which backup this
//! is and how much of it the command has ([`Begun`], in JSON) in the first one, then pieces of the backup. The manifest is
//! the last one; an answer that ends before it is of a backup that was cut off.
//!
//! What a backup is read from is kept for [`KEPT`] after it was cut off. Who asks for the same one within that time gets
//! the rest of it; whoever wants another one, or has the store compacted, ends the waiting. Who has much to check before
//! asks now and then whether the rest is kept ([`Asked`]), which keeps it for as long again.

use std::io::{self, ErrorKind, Read};
use std::sync::Arc;
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::State as Shared;
use axum::response::Response;
use futures::stream;
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::sync::mpsc::{Sender, channel};
use tokio::task::spawn_blocking;
use tokio::time::{Instant, sleep, sleep_until};
use uuid::Uuid;

use super::{Desk, Refused, bad, read};
use crate::http::envelope::Reply;
use crate::model::time::parse_rfc3339;
use crate::vault::{Backup, CHUNK_FILE_BYTES_MAX, Error, Piece, Vault};

const BEGUN: u8 = b'b';
const CHUNK: u8 = b'c';
const MANIFEST: u8 = b'm';
/// How long one frame may wait to be taken. What the backup is read from is in the way of compacting.
const TAKEN_WITHIN: Duration = Duration::from_mins(5);
/// How long a backup that was cut off can be gone on with.
const KEPT: Duration = Duration::from_mins(10);
/// How long it may take to notice that the one who took it before is gone, and how often that is looked at.
const NOTICED_WITHIN: Duration = Duration::from_secs(30);
const NOTICED_PAUSE: Duration = Duration::from_millis(20);

/// Which backup, and how many chunks of it the command has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Begun {
    /// Tells the backup from others.
    pub id: Uuid,
    /// Chunks that need not be sent.
    pub chunks: u32,
}

/// Which backup was taken as a whole.
#[derive(Debug, Serialize, Deserialize)]
pub struct Taken {
    /// Tells the backup from others.
    pub id: Uuid,
    /// The moment that it is of.
    pub created_at: String,
}

/// Which backup is asked for.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub struct Asked {
    /// The one that was begun.
    #[serde(flatten)]
    pub begun: Begun,
    /// Whether it is only asked if the rest of it is kept. The answer ends with the first frame, which tells of another one
    /// if it is not.
    #[serde(default)]
    pub is_kept: bool,
}

/// The backup that is under way, or waits to be gone on with. There is one at most.
#[derive(Clone, Default)]
pub struct Backups(Arc<Mutex<Place>>);

#[derive(Default)]
struct Place {
    kept: Kept,
    /// How many operations there are that none may be in the way of.
    others: usize,
    /// How many there were: what was begun before the last of them is not kept either.
    era: u64,
}

/// As long as this is there, none that is cut off is kept.
pub struct Others(Backups);

impl Drop for Others {
    fn drop(&mut self) {
        self.0.0.lock().others -= 1;
    }
}

#[derive(Default)]
enum Kept {
    #[default]
    Nothing,
    /// Somebody takes it.
    Taken(Uuid),
    /// Nobody does, and it waits until then.
    Waits(Box<Backup>, Instant),
}

impl Backups {
    /// Gives up one that nobody takes, and keeps none as long as what is returned is there, nor the one that is taken now.
    pub fn give_up(&self) -> Others {
        {
            let mut place = self.0.lock();
            place.others += 1;
            place.era += 1;
        }
        self.give_up_if(|_| true);
        Others(self.clone())
    }

    fn give_up_if(&self, is_over: impl FnOnce(Instant) -> bool) {
        let mut place = self.0.lock();
        if matches!(place.kept, Kept::Waits(_, until) if is_over(until)) {
            let backup = std::mem::take(&mut place.kept);
            // Removes files.
            spawn_blocking(move || drop(backup));
        }
    }

    /// Keeps one that was cut off, for a while, unless it must not be kept; whether it is.
    fn keep(&self, backup: Backup, era: u64, time: Duration) -> bool {
        let until = Instant::now() + time;
        {
            let mut place = self.0.lock();
            if place.others > 0 || place.era != era {
                if matches!(place.kept, Kept::Taken(id) if id == backup.id()) {
                    place.kept = Kept::Nothing;
                }
                // Removes files.
                spawn_blocking(move || drop(backup));
                return false;
            }
            place.kept = Kept::Waits(Box::new(backup), until);
        }
        self.give_up_at(until);
        true
    }

    fn give_up_at(&self, until: Instant) {
        let backups = self.clone();
        tokio::spawn(async move {
            sleep_until(until).await;
            // It may have been taken and cut off again, or kept for longer.
            backups.give_up_if(|until| until <= Instant::now());
        });
    }

    /// Keeps the one that was begun for a while again, if it is there and can be gone on with from where the command is.
    async fn keep_on(&self, begun: Begun, time: Duration) -> bool {
        self.notice(begun.id).await;
        let until = Instant::now() + time;
        match &mut self.0.lock().kept {
            Kept::Waits(backup, end)
                if backup.id() == begun.id && backup.has_given(begun.chunks) =>
            {
                *end = until;
            }
            _ => return false,
        }
        self.give_up_at(until);
        true
    }

    /// Waits as long as this one is taken by somebody who may be gone without anybody having noticed.
    async fn notice(&self, id: Uuid) {
        let mut waited = Duration::ZERO;
        while self.is_taken(id) && waited < NOTICED_WITHIN {
            sleep(NOTICED_PAUSE).await;
            waited += NOTICED_PAUSE;
        }
    }

    /// Takes the one that was begun, at the place where the command is; `None` if it is not to be had.
    async fn take(&self, begun: Begun) -> Option<Backup> {
        self.notice(begun.id).await;
        let mut place = self.0.lock();
        match std::mem::take(&mut place.kept) {
            Kept::Waits(mut backup, _) if backup.id() == begun.id => {
                if backup.go_back(begun.chunks) {
                    place.kept = Kept::Taken(begun.id);
                    return Some(*backup);
                }
                // Removes files.
                spawn_blocking(move || drop(backup));
            }
            other => place.kept = other,
        }
        None
    }

    fn era(&self) -> u64 {
        self.0.lock().era
    }

    fn is_taken(&self, id: Uuid) -> bool {
        matches!(self.0.lock().kept, Kept::Taken(taken) if taken == id)
    }

    /// Notes that nobody takes this one any more, nor will.
    fn end(&self, id: Uuid) {
        if self.is_taken(id) {
            self.0.lock().kept = Kept::Nothing;
        }
    }
}

/// Begins a backup, or goes on with the one that the body names, and answers with it.
pub async fn backup(
    Shared(Desk { vault, backups }): Shared<Desk>,
    body: Bytes,
) -> Result<Response, Refused> {
    let asked: Option<Asked> = if body.is_empty() { None } else { read(&body)? };
    let gone_on = match asked {
        Some(Asked { begun, is_kept: true }) => {
            let kept = backups.keep_on(begun, KEPT).await;
            let told = if kept { begun } else { Begun { id: Uuid::nil(), chunks: 0 } };
            return Ok(Response::new(Body::from(begin(told)?)));
        }
        Some(Asked { begun, .. }) => backups.take(begun).await.map(|backup| (backup, begun)),
        None => None,
    };
    let (backup, begun, era) = if let Some((backup, begun)) = gone_on {
        (backup, begun, backups.era())
    } else {
        let _others = backups.give_up();
        // Before it is there: what comes meanwhile may be what it must not outlive.
        let era = backups.era();
        let backup = vault.backup().await?;
        let begun = Begun { id: backup.id(), chunks: 0 };
        backups.0.lock().kept = Kept::Taken(begun.id);
        (backup, begun, era)
    };
    let (give, take) = channel(1);
    tokio::spawn(feed((backup, era), begin(begun)?, give, backups));
    let frames = stream::unfold(take, async |mut take| Some((take.recv().await?, take)));
    Ok(Response::new(Body::from_stream(frames)))
}

/// The command has all of a backup on its disk.
pub async fn taken(Shared(vault): Shared<Vault>, body: Bytes) -> Result<Reply<()>, Refused> {
    let Taken { id, created_at } = read(&body)?;
    vault.backed_up(id, parse_rfc3339(&created_at).map_err(|error| bad(&error))?);
    Ok(Reply(()))
}

/// Gives frames until there are no more, or nobody takes them.
async fn feed(
    (mut backup, era): (Backup, u64),
    first: Bytes,
    give: Sender<io::Result<Bytes>>,
    backups: Backups,
) {
    let id = backup.id();
    let mut given = give.send_timeout(Ok(first), TAKEN_WITHIN).await;
    while given.is_ok() {
        let read = spawn_blocking(move || {
            let piece = backup.next_piece();
            (backup, piece)
        });
        let Ok((back, piece)) = read.await else { return backups.end(id) };
        backup = back;
        given = match piece {
            Ok(Some(piece)) => {
                let (kind, bytes) = match &piece {
                    Piece::Chunk(bytes) => (CHUNK, bytes),
                    Piece::Manifest(bytes) => (MANIFEST, bytes),
                };
                give.send_timeout(Ok(frame(kind, bytes)), TAKEN_WITHIN).await
            }
            Ok(None) => {
                backups.end(id);
                // Removes files.
                let _ = spawn_blocking(move || drop(backup)).await;
                return;
            }
            Err(error) => {
                tracing::warn!(%error, "a backup ends before it is whole");
                backups.end(id);
                let failed = io::Error::other("the backup failed");
                let _ = give.send_timeout(Err(failed), TAKEN_WITHIN).await;
                let _ = spawn_blocking(move || drop(backup)).await;
                return;
            }
        };
    }
    let kept = if backups.keep(backup, era, KEPT) { KEPT } else { Duration::ZERO };
    tracing::warn!(?kept, "a backup was cut off: nobody takes it");
}

/// The first frame.
fn begin(begun: Begun) -> Result<Bytes, Error> {
    Ok(frame(BEGUN, &serde_json::to_vec(&begun).map_err(Error::internal)?))
}

fn frame(kind: u8, bytes: &[u8]) -> Bytes {
    // What a frame holds is far shorter; what is not would be refused by who reads it.
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    [&[kind], length.to_be_bytes().as_slice(), bytes].concat().into()
}

/// Reads the first frame.
pub fn read_begun(from: &mut impl Read) -> io::Result<Begun> {
    match read_any(from)? {
        Some((BEGUN, text)) => Ok(serde_json::from_slice(&text)?),
        Some(_) => Err(ErrorKind::InvalidData.into()),
        None => Err(ErrorKind::UnexpectedEof.into()),
    }
}

/// Reads another frame; `None` where there is no more.
pub fn read_frame(from: &mut impl Read) -> io::Result<Option<Piece>> {
    match read_any(from)? {
        None => Ok(None),
        Some((CHUNK, bytes)) => Ok(Some(Piece::Chunk(bytes))),
        Some((MANIFEST, bytes)) => Ok(Some(Piece::Manifest(bytes))),
        Some(_) => Err(ErrorKind::InvalidData.into()),
    }
}

fn read_any(from: &mut impl Read) -> io::Result<Option<(u8, Vec<u8>)>> {
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
    Ok(Some((kind[0], bytes)))
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::{BEGUN, Begun, CHUNK, MANIFEST, frame, read_begun, read_frame};
    use crate::vault::Piece;

    #[test]
    fn frames_are_read_as_they_were_written_and_not_if_cut_short() {
        let begun = Begun { id: Uuid::from_u128(7), chunks: 3 };
        let first = frame(BEGUN, &serde_json::to_vec(&begun).unwrap());
        let pieces = [(CHUNK, vec![1; 300]), (MANIFEST, b"{}".to_vec())];
        let rest: Vec<u8> = pieces.iter().flat_map(|(kind, bytes)| frame(*kind, bytes)).collect();
        let text = [first.as_ref(), &rest].concat();
        let mut from = text.as_slice();
        assert_eq!(read_begun(&mut from).unwrap(), begun);
        assert_eq!(read_frame(&mut from).unwrap(), Some(Piece::Chunk(vec![1; 300])));
        assert_eq!(read_frame(&mut from).unwrap(), Some(Piece::Manifest(b"{}".to_vec())));
        assert_eq!(read_frame(&mut from).unwrap(), None);
        for length in 0..first.len() {
            assert!(read_begun(&mut &text[..length]).is_err(), "{length}");
        }
        for length in 1..305 {
            assert!(read_frame(&mut &rest[..length]).is_err(), "{length}");
        }
        // Each where it belongs.
        assert!(read_begun(&mut rest.as_slice()).is_err());
        assert!(read_frame(&mut text.as_slice()).is_err());
        assert!(read_frame(&mut b"x\0\0\0\0".as_slice()).is_err());
        assert!(read_frame(&mut b"c\xff\xff\xff\xff".as_slice()).is_err());
    }
}
