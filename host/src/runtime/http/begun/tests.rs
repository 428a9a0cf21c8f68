//! Answers by their handles, in whatever order they come and are asked for.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures::FutureExt as _;
use futures::future::BoxFuture;
use parking_lot::Mutex;
use tokio::sync::Semaphore;

use super::TAKEN;
use crate::limits::HTTP_CALLS_UNDER_WAY_MAX;
use crate::runtime::http::{
    GuestHttp, GuestHttpError, GuestHttpRequest, GuestHttpResponse, NO_ROOM, NO_ROOM_TO_SEND,
    Outgoing,
};
use crate::runtime::memory::{Kept, Part, Refusal, Room};
use crate::runtime::state::http::{Error, Request};

/// Answers with so many bytes as the body of the request has, if there is room for them.
struct Echo;

impl GuestHttp for Echo {
    fn send(
        &self,
        request: GuestHttpRequest,
        kept: Arc<Kept>,
    ) -> BoxFuture<'_, Result<GuestHttpResponse, GuestHttpError>> {
        let body = request.body.unwrap_or_default();
        let fits = kept.grow(body.len());
        let answer = GuestHttpResponse { status: 200, headers: Vec::new(), body };
        async move { if fits { Ok(answer) } else { Err(GuestHttpError::Unreachable("full")) } }
            .boxed()
    }
}

fn outgoing(mib: u64) -> (Outgoing, Arc<Part>) {
    let part = Arc::new(Part::of(&Arc::new(Room::new(mib << 20, 1))));
    let ends = Instant::now() + Duration::from_mins(1);
    (Outgoing::new(Some(Arc::new(Echo)), ends, Arc::clone(&part)), part)
}

fn request(bytes: usize) -> Request {
    let (method, url) = ("POST".to_owned(), "https://example.com".to_owned());
    let body = Some(vec![0; bytes]);
    Request { method, url, headers: Vec::new(), body, timeout_ms: None, redirects: 0 }
}

async fn length(outgoing: &mut Outgoing, number: u32) -> Result<usize, Error> {
    outgoing.answer_to(number).await.unwrap().map(|answer| answer.body.len())
}

#[tokio::test]
async fn the_last_may_be_asked_for_first() {
    let (mut outgoing, _) = outgoing(64);
    let count = 3 * u32::try_from(HTTP_CALLS_UNDER_WAY_MAX).unwrap();
    for number in 0..count {
        assert_eq!(outgoing.begin(request(number as usize)).unwrap(), number);
    }
    for number in (0..count).rev() {
        assert!(
            matches!(length(&mut outgoing, number).await, Ok(bytes) if bytes == number as usize)
        );
    }
    assert!(outgoing.under_way.ended.is_empty() && outgoing.under_way.wanted.is_empty());
}

#[tokio::test]
async fn an_answer_is_taken_once_and_what_is_given_up_has_none() {
    let (mut outgoing, _) = outgoing(64);
    for bytes in 0..3 {
        outgoing.begin(request(bytes)).unwrap();
    }
    assert!(matches!(length(&mut outgoing, 2).await, Ok(2)));
    assert!(matches!(length(&mut outgoing, 2).await, Err(Error::Invalid(why)) if why == TAKEN));
    // Whether its answer is there or not.
    for number in [0, 1] {
        outgoing.abandon(number).unwrap();
        assert!(matches!(length(&mut outgoing, number).await, Err(Error::Invalid(_))));
    }
    assert!(outgoing.under_way.ended.is_empty() && outgoing.under_way.wanted.is_empty());
}

#[tokio::test]
async fn answers_that_were_not_asked_for_yet_count_as_memory() {
    let (mut outgoing, part) = outgoing(16);
    for _ in 0..3 {
        // Its part is of 8 MiB, and requests count until they are answered.
        outgoing.begin(request(0)).unwrap();
        outgoing.begin(request(3 << 20)).unwrap();
        while outgoing.under_way.waiting.bytes() > 0 {
            tokio::task::yield_now().await;
        }
    }
    assert!(length(&mut outgoing, 4).await.is_ok());
    let large = [length(&mut outgoing, 5).await, length(&mut outgoing, 3).await];
    let refused = large.iter().filter(|answer| answer.is_err()).count();
    assert!(refused >= 1, "{refused}");
    let told = |answer: &Result<usize, Error>| matches!(answer, Err(Error::Unreachable(why)) if why == NO_ROOM || why == NO_ROOM_TO_SEND);
    assert!(large.iter().all(|answer| answer.is_ok() || told(answer)));
    // What is told of the room is of the answer that was taken last.
    assert_eq!(outgoing.no_room.is_some(), large[1].is_err());
    assert!(outgoing.no_room.is_none_or(|refusal| refusal == Refusal::Owner));
    drop(outgoing);
    while part.take(7 << 20).is_err() {
        tokio::task::yield_now().await;
    }
}

/// Answers when it may, in the order in which it was asked.
struct Patient {
    asked: Mutex<Vec<String>>,
    may: Semaphore,
}

impl GuestHttp for Patient {
    fn send(
        &self,
        request: GuestHttpRequest,
        _: Arc<Kept>,
    ) -> BoxFuture<'_, Result<GuestHttpResponse, GuestHttpError>> {
        self.asked.lock().push(request.url);
        async move {
            self.may.acquire().await.unwrap().forget();
            Ok(GuestHttpResponse { status: 200, headers: Vec::new(), body: Vec::new() })
        }
        .boxed()
    }
}

fn patient() -> (Outgoing, Arc<Patient>) {
    let (mut outgoing, _) = outgoing(64);
    let patient = Arc::new(Patient { asked: Mutex::default(), may: Semaphore::new(0) });
    outgoing.http = Some(Arc::clone(&patient) as _);
    (outgoing, patient)
}

fn numbered(number: usize) -> Request {
    Request { url: format!("https://example.com/{number}"), ..request(0) }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn those_that_wait_have_their_turns_in_their_order() {
    let (mut outgoing, patient) = patient();
    for number in 0..20 {
        outgoing.begin(numbered(number)).unwrap();
    }
    patient.may.add_permits(20);
    for number in 0..20 {
        // One goes ahead whose answer is waited for; the place of this one is the next one's.
        assert!(outgoing.answer_to(u32::try_from(number).unwrap()).await.unwrap().is_ok());
    }
    let asked = patient.asked.lock();
    let of = |text: &String| text.rsplit('/').next().unwrap().parse::<usize>().unwrap();
    let order: Vec<usize> = asked.iter().map(of).collect();
    let late = |(at, number): (usize, &usize)| at.abs_diff(*number) > HTTP_CALLS_UNDER_WAY_MAX;
    assert!(!order.iter().enumerate().any(late), "{order:?}");
}

#[tokio::test]
async fn one_whose_answer_is_asked_for_needs_no_place() {
    let (mut outgoing, patient) = patient();
    for number in 0..=HTTP_CALLS_UNDER_WAY_MAX {
        outgoing.begin(numbered(number)).unwrap();
    }
    let last = u32::try_from(HTTP_CALLS_UNDER_WAY_MAX).unwrap();
    // Those ahead have their answers, which nobody takes.
    patient.may.add_permits(HTTP_CALLS_UNDER_WAY_MAX + 1);
    assert!(outgoing.answer_to(last).await.unwrap().is_ok());
    assert_eq!(outgoing.under_way.places.available_permits(), 0);
    for number in 0..last {
        assert!(outgoing.answer_to(number).await.unwrap().is_ok());
    }
    assert_eq!(outgoing.under_way.places.available_permits(), HTTP_CALLS_UNDER_WAY_MAX);
}

#[tokio::test]
async fn what_is_given_up_leaves_place_and_room_although_its_answer_was_there() {
    let (mut outgoing, part) = outgoing(16);
    outgoing.begin(request(3 << 20)).unwrap();
    for number in 1..u32::try_from(HTTP_CALLS_UNDER_WAY_MAX).unwrap() {
        assert_eq!(outgoing.begin(request(0)).unwrap(), number);
    }
    while outgoing.under_way.waiting.bytes() > 0 {
        tokio::task::yield_now().await;
    }
    for number in 0..u32::try_from(HTTP_CALLS_UNDER_WAY_MAX).unwrap() {
        outgoing.abandon(number).unwrap();
    }
    assert_eq!(outgoing.under_way.places.available_permits(), HTTP_CALLS_UNDER_WAY_MAX);
    while part.take(7 << 20).is_err() {
        tokio::task::yield_now().await;
    }
    assert!(outgoing.under_way.ended.is_empty() && outgoing.under_way.wanted.is_empty());
}

/// Stands in for every host.
struct Instead;

impl GuestHttp for Instead {
    fn stood_in(
        &self,
        request: &GuestHttpRequest,
        _: &Kept,
    ) -> Option<Result<GuestHttpResponse, GuestHttpError>> {
        let body = request.url.clone().into_bytes();
        Some(Ok(GuestHttpResponse { status: 200, headers: Vec::new(), body }))
    }

    fn send(
        &self,
        _: GuestHttpRequest,
        _: Arc<Kept>,
    ) -> BoxFuture<'_, Result<GuestHttpResponse, GuestHttpError>> {
        unreachable!("nothing is sent")
    }
}

#[tokio::test]
async fn who_stands_in_answers_at_once_and_in_order() {
    let (mut outgoing, _) = outgoing(64);
    outgoing.http = Some(Arc::new(Instead));
    for number in 0..20 {
        outgoing.begin(numbered(number)).unwrap();
    }
    outgoing.abandon(3).unwrap();
    for number in (0..20).filter(|number| *number != 3) {
        let (which, answer) = outgoing.next_answer(Some(0)).await.unwrap().unwrap();
        assert_eq!(which, number);
        assert_eq!(answer.unwrap().body, format!("https://example.com/{number}").into_bytes());
    }
    assert!(outgoing.next_answer(None).await.unwrap().is_none());
}
