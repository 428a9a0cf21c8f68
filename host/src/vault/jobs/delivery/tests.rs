//! Schedules of deliveries, by a clock that is given.

use std::time::Duration;

use super::{Answered, Delivery, DeliveryStatus, receiver, wait_after};
use crate::egress::EgressError;
use crate::limits::{
    DELIVERY_INTERVAL_MS_MAX, DELIVERY_INTERVAL_MS_MIN, DELIVERY_PUT_OFF_MS, DELIVERY_WINDOW_MS,
};
use crate::model::id::InvocationId;
use crate::model::time::Timestamp;
use crate::vault::record::Entity as _;

const NOW: Timestamp = Timestamp(1_000_000_000);

fn delivery() -> Delivery {
    let end = |ms: u64| Timestamp(NOW.0 + ms);
    Delivery {
        id: InvocationId(uuid::Uuid::nil()),
        url: "https://example.com/hook".to_owned(),
        status: DeliveryStatus::Pending,
        attempts: 0,
        tries: 0,
        requeued: 0,
        last_status: None,
        last_error: None,
        due_at: NOW,
        in_doubt: false,
        ends_at: end(DELIVERY_WINDOW_MS),
        expires_at: end(7 * DELIVERY_WINDOW_MS),
        created_at: NOW,
    }
}

fn answered(status: u16) -> Answered {
    Answered { status: Some(status), error: None, retry_after: None }
}

#[test]
fn waits_grow_threefold_from_five_seconds_up_to_six_hours() {
    let mut least_ms = DELIVERY_INTERVAL_MS_MIN;
    for tries in 1..60 {
        // A try takes its wait at random: many are asked, so that one outside of the bounds is met.
        for _ in 0..100 {
            let wait_ms = u64::try_from(wait_after(tries).as_millis()).unwrap();
            let most_ms = (least_ms * 11 / 9 + 1).min(DELIVERY_INTERVAL_MS_MAX);
            assert!((least_ms..=most_ms).contains(&wait_ms), "{tries}: {wait_ms}");
        }
        least_ms = (least_ms * 3).min(DELIVERY_INTERVAL_MS_MAX * 9 / 11 - 1);
    }
}

#[test]
fn what_is_put_off_was_not_tried_and_ends_with_its_time() {
    let mut delivery = delivery();
    let ends_at = delivery.ends_at;
    while delivery.due_at < ends_at {
        let now = delivery.due_at;
        delivery.put_off(now, false);
        let found = (delivery.status, delivery.attempts, delivery.tries);
        assert_eq!(found, (DeliveryStatus::Pending, 0, 0));
        assert_eq!(delivery.due_at, Timestamp(now.0 + DELIVERY_PUT_OFF_MS));
    }
    // However long nobody looked at it.
    let before = Timestamp(ends_at.0 - 1);
    delivery.due_at = before;
    delivery.put_off(Timestamp(before.0 + 5 * DELIVERY_WINDOW_MS), false);
    assert_eq!(delivery.status, DeliveryStatus::Pending);
    let over = delivery.ends_at;
    for (in_doubt, expected) in [(true, DeliveryStatus::Pending), (false, DeliveryStatus::Failed)] {
        delivery.due_at = over;
        delivery.put_off(over, in_doubt);
        assert_eq!(delivery.status, expected);
    }
}

#[test]
fn success_is_any_2xx_and_nothing_else() {
    for status in [200, 201, 204, 299] {
        let mut delivery = delivery();
        delivery.tried(answered(status), NOW, false);
        assert_eq!(delivery.status, DeliveryStatus::Delivered, "{status}");
    }
    for status in [100, 199, 300, 301, 302, 307, 308, 400, 404, 408, 429, 500, 503] {
        let mut delivery = delivery();
        delivery.tried(answered(status), NOW, false);
        assert_eq!(delivery.status, DeliveryStatus::Pending, "{status}");
        assert!(delivery.due_at > NOW);
    }
    let mut delivery = delivery();
    delivery.tried(answered(410), NOW, false);
    assert_eq!(delivery.status, DeliveryStatus::Failed);
}

#[test]
fn the_last_try_is_when_the_day_is_over() {
    let mut delivery = delivery();
    let mut tries = 0;
    while delivery.status == DeliveryStatus::Pending {
        let now = delivery.due_at;
        delivery.tried(answered(500), now, false);
        tries += 1;
    }
    assert_eq!(delivery.due_at, delivery.ends_at);
    assert!((11..=15).contains(&tries), "{tries}");
    delivery.again(delivery.ends_at);
    assert_eq!((delivery.status, delivery.attempts), (DeliveryStatus::Pending, tries));
    let now = delivery.due_at;
    delivery.tried(answered(500), now, false);
    assert!(delivery.due_at.0 - now.0 < 7_000);
}

#[test]
fn no_receiver_is_told_sooner_than_it_asks_for() {
    const HOUR: Duration = Duration::from_hours(1);
    let mut delivery = delivery();
    let busy =
        |hours: u32| Answered { status: Some(503), error: None, retry_after: Some(HOUR * hours) };
    for expected in [23, 46] {
        let now = delivery.due_at;
        delivery.tried(busy(23), now, false);
        let began = delivery.ends_at.0 - DELIVERY_WINDOW_MS;
        assert_eq!(delivery.due_at.0 - began, expected * 3_600_000);
        assert_eq!(delivery.status, DeliveryStatus::Pending);
    }
    // That was past its day, and is the last.
    let now = delivery.due_at;
    delivery.tried(busy(23), now, false);
    assert_eq!(delivery.status, DeliveryStatus::Failed);
}

#[test]
fn the_day_begins_with_the_first_try() {
    let mut delivery = delivery();
    let late = Timestamp(NOW.0 + 3 * DELIVERY_WINDOW_MS);
    delivery.tried(answered(500), late, false);
    assert_eq!(delivery.status, DeliveryStatus::Pending);
    assert_eq!(delivery.ends_at, Timestamp(late.0 + DELIVERY_WINDOW_MS));
}

#[test]
fn the_time_while_nobody_is_told_is_not_the_receivers() {
    let mut delivery = delivery();
    delivery.tried(answered(503), NOW, false);
    let left_ms = delivery.ends_at.0 - delivery.due_at.0;
    // The server was down for longer than a day.
    let late = Timestamp(delivery.due_at.0 + DELIVERY_WINDOW_MS + 1);
    delivery.tried(answered(503), late, false);
    assert_eq!(delivery.status, DeliveryStatus::Pending);
    assert_eq!(delivery.ends_at, Timestamp(late.0 + left_ms));
    assert!(delivery.due_at.0 - late.0 < 60_000);
    // Its time is over all the same once it was told in time.
    delivery.due_at = delivery.ends_at;
    delivery.tried(answered(503), delivery.ends_at, false);
    assert_eq!(delivery.status, DeliveryStatus::Failed);
}

#[test]
fn none_is_given_up_by_a_clock_in_doubt_and_once_that_is_right_it_has_a_day() {
    for jump_days in [2, 8, 400] {
        let mut delivery = delivery();
        delivery.tried(answered(500), NOW, false);
        let ahead = Timestamp(NOW.0 + jump_days * DELIVERY_WINDOW_MS);
        let retry_after = Some(Duration::from_secs(u64::MAX));
        delivery.tried(Answered { status: Some(503), error: None, retry_after }, ahead, true);
        assert_eq!(delivery.status, DeliveryStatus::Pending, "{jump_days}");
        // Not at once, and not later than the longest wait there is.
        assert_eq!(delivery.due_at, Timestamp(ahead.0 + DELIVERY_WINDOW_MS));
        // Set right, it has a day from its next try on.
        let right = Timestamp(NOW.0 + 1);
        delivery.tried(answered(500), right, false);
        assert_eq!(delivery.ends_at, Timestamp(right.0 + DELIVERY_WINDOW_MS));
        let end = delivery.ends_at;
        delivery.due_at = end;
        delivery.tried(answered(500), end, false);
        assert_eq!(delivery.status, DeliveryStatus::Failed, "{jump_days}");
    }
    // Only what the clock skipped is given back: a day that goes on stays as long as it was.
    let mut delivery = delivery();
    delivery.tried(answered(500), NOW, true);
    let end = delivery.ends_at;
    delivery.due_at = Timestamp(end.0 - 1);
    delivery.tried(answered(500), Timestamp(end.0 - 1), true);
    assert_eq!(delivery.ends_at, end);
    // Who wants none is left alone, whatever the clock says.
    delivery.tried(answered(410), end, true);
    assert_eq!(delivery.status, DeliveryStatus::Failed);
}

#[test]
fn a_receiver_may_ask_for_more_time_within_the_day() {
    let wait = |seconds| {
        let mut delivery = delivery();
        let retry_after = Some(Duration::from_secs(seconds));
        delivery.tried(Answered { status: Some(503), error: None, retry_after }, NOW, false);
        (delivery.status, delivery.due_at.0 - NOW.0)
    };
    assert_eq!(wait(3_600), (DeliveryStatus::Pending, 3_600_000));
    // Less than the schedule is not asked for.
    assert!(wait(1).1 >= 4_000);
    // Nobody waits for longer than a day.
    assert_eq!(wait(24 * 3_600 + 1), (DeliveryStatus::Pending, DELIVERY_WINDOW_MS));
    assert_eq!(wait(u64::MAX), (DeliveryStatus::Pending, DELIVERY_WINDOW_MS));
}

#[test]
fn a_status_stays_when_later_tries_get_no_answer() {
    let mut delivery = delivery();
    for (status, last) in [(None, None), (Some(503), Some(503)), (None, Some(503))] {
        delivery.tried(Answered { status, error: None, retry_after: None }, NOW, false);
        assert_eq!(delivery.last_status, last);
    }
    delivery.tried_before(Answered { status: None, error: None, retry_after: None });
    assert_eq!((delivery.attempts, delivery.tries, delivery.last_status), (4, 3, Some(503)));
}

#[test]
fn why_the_last_try_got_no_answer_is_told_until_one_does() {
    let mut delivery = delivery();
    let refused = EgressError::Unreachable("the host refused the connection");
    for (status, error, told) in [
        (None, Some(refused), Some("unreachable: the host refused the connection")),
        (None, Some(EgressError::Timeout), Some("the request ran past its time")),
        (None, None, Some("the server could not send it")),
        (Some(503), None, None),
        (None, Some(EgressError::Denied("x")), Some("denied: x")),
        (Some(200), None, None),
    ] {
        delivery.tried(Answered { status, error, retry_after: None }, NOW, false);
        let kept = Delivery::from_text(&delivery.to_text().unwrap()).unwrap();
        assert_eq!(kept.view().last_error.as_deref(), told);
    }
}

#[test]
fn receivers_are_hosts_with_ports() {
    for (url, expected) in [
        ("https://Example.com/a?b", "example.com:443"),
        ("https://example.com:444/", "example.com:444"),
        ("http://example.com/", "example.com:80"),
        ("https://[2001:db8::1]/", "[2001:db8::1]:443"),
    ] {
        assert_eq!(receiver(url), expected);
    }
}

#[test]
fn none_is_to_be_tried_after_its_result_has_ended() {
    let mut delivery = delivery();
    let end = delivery.expires_at;
    let late = Timestamp(end.0 - DELIVERY_WINDOW_MS / 2);
    delivery.again(late);
    assert_eq!(delivery.ends_at, end);
    while delivery.status == DeliveryStatus::Pending {
        assert!(delivery.due_at <= end, "{:?}", delivery.due_at);
        delivery.tried(answered(503), delivery.due_at, false);
    }
    assert!(delivery.tries > 3 && delivery.due_at >= end);
    // By a clock that may be wrong, that is not known.
    let mut doubtful = super::tests::delivery();
    doubtful.again(late);
    doubtful.tried(answered(503), Timestamp(end.0 + 1), true);
    assert_eq!(doubtful.status, DeliveryStatus::Pending);
}
