use super::{
    Error, GuestHttp, GuestHttpError, GuestHttpRequest, GuestHttpResponse, Kept, NO_ROOM,
    NO_ROOM_TO_SEND, Outgoing, Part, Refusal, Request, Unsent,
};
use crate::limits::{HTTP_BODY_BYTES_MAX, HTTP_CALLS_MAX, HTTP_CALLS_UNDER_WAY_MAX};
use crate::runtime::memory::Room;
use futures::FutureExt as _;
use futures::future::BoxFuture;
use std::sync::Arc;
use std::time::{Duration, Instant};

struct Closed;

impl GuestHttp for Closed {
    fn send(
        &self,
        _: GuestHttpRequest,
        _: Arc<Kept>,
    ) -> BoxFuture<'_, Result<GuestHttpResponse, GuestHttpError>> {
        async { Err(GuestHttpError::Timeout) }.boxed()
    }
}

/// An owner's part of 16 MiB: half.
fn memory() -> Arc<Part> {
    memory_of(16)
}

/// The same of so many MiB.
fn memory_of(mib: u64) -> Arc<Part> {
    Arc::new(Part::of(&Arc::new(Room::new(mib << 20, 1))))
}

/// Answers with so much, if there is memory for it.
struct Large(usize);

impl GuestHttp for Large {
    fn send(
        &self,
        _: GuestHttpRequest,
        kept: Arc<Kept>,
    ) -> BoxFuture<'_, Result<GuestHttpResponse, GuestHttpError>> {
        let fits = kept.grow(self.0);
        let answer = GuestHttpResponse { status: 200, headers: Vec::new(), body: vec![0; self.0] };
        async move { if fits { Ok(answer) } else { Err(GuestHttpError::Unreachable("full")) } }
            .boxed()
    }
}

#[tokio::test]
async fn answers_that_nobody_took_yet_are_memory_of_the_owners_runs() {
    let ends = Instant::now() + Duration::from_mins(1);
    let mut outgoing = Outgoing::new(Some(Arc::new(Large(3 << 20))), ends, memory());
    for _ in 0..3 {
        outgoing.begin(request(0)).unwrap();
    }
    // All have ended, and nobody has looked.
    while outgoing.under_way.waiting.bytes() > 0 {
        tokio::task::yield_now().await;
    }
    let mut full = 0;
    for _ in 0..3 {
        let (_, answer) = outgoing.next_answer(None).await.unwrap().unwrap();
        let no_room = matches!(answer, Err(Error::Unreachable(why)) if why == NO_ROOM);
        full += usize::from(no_room);
        // Those that came do not make up for one that did not.
        assert_eq!(outgoing.no_room, (full > 0).then_some(Refusal::Owner));
    }
    assert_eq!(full, 1);
    // Those that were taken make room.
    outgoing.begin(request(0)).unwrap();
    let (_, answer) = outgoing.next_answer(None).await.unwrap().unwrap();
    assert!(answer.is_ok());
}

/// Breaks off after so much of an answer, unless it is asked with a body.
struct Broken(usize);

impl GuestHttp for Broken {
    fn send(
        &self,
        request: GuestHttpRequest,
        kept: Arc<Kept>,
    ) -> BoxFuture<'_, Result<GuestHttpResponse, GuestHttpError>> {
        let whole = request.body.is_some_and(|body| !body.is_empty());
        let answer = GuestHttpResponse { status: 200, headers: Vec::new(), body: Vec::new() };
        let is_there = kept.grow(self.0) && whole;
        let answer = if is_there { Ok(answer) } else { Err(GuestHttpError::Unreachable("broke")) };
        std::future::ready(answer).boxed()
    }
}

#[tokio::test]
async fn what_came_of_an_answer_that_failed_takes_no_room_until_that_is_told() {
    let ends = Instant::now() + Duration::from_mins(1);
    let mut outgoing = Outgoing::new(Some(Arc::new(Broken(3 << 20))), ends, memory());
    for bytes in [0, 0, 1] {
        outgoing.begin(request(bytes)).unwrap();
        while outgoing.under_way.waiting.bytes() > 0 {
            tokio::task::yield_now().await;
        }
    }
    // Nobody has taken one yet, and two of them would not have left room for the third.
    for _ in 0..3 {
        let (number, answer) = outgoing.next_answer(None).await.unwrap().unwrap();
        match answer {
            Err(Error::Unreachable(why)) => assert!(number < 2 && why == "broke", "{why}"),
            other => assert!(number == 2 && other.is_ok()),
        }
        assert_eq!(outgoing.no_room, None);
    }
}

#[test]
fn so_many_requests_and_no_more() {
    let ends = Instant::now() + Duration::from_mins(1);
    let mut outgoing = Outgoing::new(Some(Arc::new(Closed)), ends, memory());
    for _ in 0..HTTP_CALLS_MAX {
        assert!(outgoing.next().is_ok());
    }
    assert!(matches!(outgoing.next(), Err(Error::Denied(reason)) if reason.contains("100")));
    assert!(outgoing.left() > Duration::from_secs(50));
}

/// Never answers.
struct Silent;

impl GuestHttp for Silent {
    fn send(
        &self,
        _: GuestHttpRequest,
        _: Arc<Kept>,
    ) -> BoxFuture<'_, Result<GuestHttpResponse, GuestHttpError>> {
        std::future::pending().boxed()
    }
}

fn request(body_bytes: usize) -> Request {
    Request {
        method: "POST".to_owned(),
        url: "https://example.com".to_owned(),
        headers: Vec::new(),
        body: Some(vec![0; body_bytes]),
        timeout_ms: None,
        redirects: 0,
    }
}

#[tokio::test]
async fn requests_that_wait_do_not_fill_the_hosts_memory() {
    let ends = Instant::now() + Duration::from_mins(1);
    let mut outgoing = Outgoing::new(Some(Arc::new(Silent)), ends, memory_of(64));
    // Two of the largest fit beside each other, so the third is too much, and small ones are not.
    for bytes in [HTTP_BODY_BYTES_MAX, HTTP_BODY_BYTES_MAX, HTTP_BODY_BYTES_MAX, 10] {
        outgoing.begin(request(bytes)).unwrap();
    }
    let (number, answer) = outgoing.next_answer(Some(30_000)).await.unwrap().unwrap();
    assert_eq!(number, 2);
    assert!(matches!(answer, Err(Error::Denied(reason)) if reason.contains("9 MiB")));
    outgoing.begin(request(HTTP_BODY_BYTES_MAX + 1)).unwrap();
    let (number, answer) = outgoing.next_answer(Some(30_000)).await.unwrap().unwrap();
    assert!(number == 4 && matches!(answer, Err(Error::TooLarge)));
    assert!(outgoing.next_answer(Some(1)).await.unwrap().is_none());
    // Those past the most are told so; far more end the run.
    let begun = (0..100 * HTTP_CALLS_MAX).take_while(|_| outgoing.begin(request(0)).is_ok());
    assert!((HTTP_CALLS_MAX..20 * HTTP_CALLS_MAX).contains(&(begun.count() as u64)));
}

#[tokio::test]
async fn one_that_is_given_up_leaves_its_place_and_has_no_answer() {
    let ends = Instant::now() + Duration::from_mins(1);
    let mut outgoing = Outgoing::new(Some(Arc::new(Large(1))), ends, memory_of(64));
    let silent: Arc<dyn GuestHttp> = Arc::new(Silent);
    let answering = outgoing.http.replace(silent);
    for number in 0..u32::try_from(HTTP_CALLS_UNDER_WAY_MAX).unwrap() {
        assert_eq!(outgoing.begin(request(1 << 20)).unwrap(), number);
    }
    outgoing.http = answering;
    // It waits for a place, and for room.
    assert_eq!(outgoing.begin(request(10)).unwrap(), 8);
    assert!(outgoing.next_answer(Some(20)).await.unwrap().is_none());
    assert_eq!(outgoing.begin(request(HTTP_BODY_BYTES_MAX)).unwrap(), 9);
    let (number, answer) = outgoing.next_answer(Some(30_000)).await.unwrap().unwrap();
    assert!(number == 9 && matches!(answer, Err(Error::Denied(_))));
    for number in 0..4 {
        outgoing.abandon(number).unwrap();
        outgoing.abandon(number).unwrap();
    }
    assert_eq!(outgoing.begin(request(HTTP_BODY_BYTES_MAX)).unwrap(), 10);
    let mut answered = Vec::new();
    while let Some((number, answer)) = outgoing.next_answer(Some(200)).await.unwrap() {
        assert!(answer.is_ok());
        answered.push(number);
    }
    answered.sort_unstable();
    assert_eq!(answered, [8, 10]);
    // Nor has one an answer that it had already.
    outgoing.begin(request(0)).unwrap();
    tokio::time::sleep(Duration::from_millis(20)).await;
    outgoing.abandon(11).unwrap();
    assert!(outgoing.next_answer(Some(20)).await.unwrap().is_none());
}

#[tokio::test]
async fn requests_that_wait_are_memory_of_the_owners_runs() {
    let ends = Instant::now() + Duration::from_mins(1);
    let part = memory();
    let of_a_run = || Outgoing::new(Some(Arc::new(Silent)), ends, Arc::clone(&part));
    let (mut first, mut second) = (of_a_run(), of_a_run());
    first.begin(request(HTTP_BODY_BYTES_MAX)).unwrap();
    // Another run of the owner's has no room for one as large, and for a small one it has.
    for bytes in [HTTP_BODY_BYTES_MAX, 10 << 10] {
        second.begin(request(bytes)).unwrap();
    }
    let (number, answer) = second.next_answer(Some(30_000)).await.unwrap().unwrap();
    assert!(matches!(answer, Err(Error::Unreachable(why)) if why == NO_ROOM_TO_SEND));
    assert_eq!((number, second.no_room), (0, Some(Refusal::Owner)));
    assert!(second.next_answer(Some(1)).await.unwrap().is_none());
    // It goes with the run that held it.
    drop(first);
    while part.take(6 << 20).is_err() {
        tokio::task::yield_now().await;
    }
    part.give_back(6 << 20);
    second.begin(request(HTTP_BODY_BYTES_MAX)).unwrap();
    assert!(second.next_answer(Some(50)).await.unwrap().is_none());
    drop(second);
    while part.take(7 << 20).is_err() {
        tokio::task::yield_now().await;
    }
}

#[test]
fn headers_count_however_short_they_are() {
    let ends = Instant::now() + Duration::from_mins(1);
    let mut outgoing = Outgoing::new(Some(Arc::new(Closed)), ends, memory());
    let headers = vec![(String::new(), String::new()); 200_000];
    let refused = outgoing.admit(&Request { headers, ..request(0) });
    assert!(matches!(refused, Err(Unsent { error: Error::Denied(_) | Error::Unreachable(_), .. })));
}

#[test]
fn without_a_way_out_nothing_goes_out() {
    let mut none = Outgoing::new(None, Instant::now(), memory());
    assert!(matches!(none.next(), Err(Error::Denied(_))));
    assert_eq!(none.left(), Duration::ZERO);
    assert_eq!(Outgoing::default().left(), Duration::ZERO);
}
