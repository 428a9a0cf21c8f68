//! What requests take of the memory: what is opened for them counts until they are carried out, and their answers until
//! these are sent.
//!
//! What an answer tells of is done, so none is refused for its size. A tenant whose answers have come to more than it may
//! have is refused what it asks for next ([`super::extract::Known`]).

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::{Body, Bytes, HttpBody};
use axum::response::Response;
use http_body::{Frame, SizeHint};

use crate::limits::OPENED_BYTES_FREE;
use crate::vault::{Share, sharing};

/// Carries out a request, and counts its answer.
pub async fn counted(run: impl Future<Output = Response>) -> Response {
    let (response, share) = sharing(None, run).await;
    let bytes = usize::try_from(response.body().size_hint().lower()).unwrap_or(usize::MAX);
    match share {
        Some(mut share) if bytes > OPENED_BYTES_FREE => {
            share.answer(bytes);
            held(response, share)
        }
        _ => response,
    }
}

/// Bytes with what they count as. Whoever sends them may split them, and keeps the last until it is sent.
struct Held {
    bytes: Bytes,
    _share: Arc<Share>,
}

impl AsRef<[u8]> for Held {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A body of such bytes.
struct HeldBody {
    body: Body,
    share: Arc<Share>,
}

impl HttpBody for HeldBody {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        let hold = |bytes| Bytes::from_owner(Held { bytes, _share: Arc::clone(&self.share) });
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(hold))))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

fn held(response: Response, share: Share) -> Response {
    response.map(|body| Body::new(HeldBody { body, share: Arc::new(share) }))
}

#[cfg(test)]
mod tests {
    use axum::body::{Body, Bytes, HttpBody as _};
    use axum::response::Response;
    use http_body_util::BodyExt as _;

    use super::held;
    use crate::model::id::TenantId;
    use crate::vault::{NoRoom, Shares};

    #[tokio::test]
    async fn an_answer_counts_until_the_last_of_it_is_gone() {
        let shares = Shares::new(4, 0);
        let share = || shares.share(TenantId(uuid::Uuid::nil()));
        let answer = || {
            let mut share = share();
            share.answer(6);
            held(Response::new(Body::from("answer")), share)
        };
        drop(answer());
        assert_eq!(share().check(), Ok(()));
        let mut body = answer().into_body();
        assert_eq!(body.size_hint().exact(), Some(6));
        let mut bytes: Bytes = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert!(body.frame().await.is_none());
        drop(body);
        assert_eq!(bytes.split_to(3), "ans");
        assert_eq!(share().check(), Err(NoRoom::OfTenant));
        drop(bytes);
        assert_eq!(share().check(), Ok(()));
    }
}
