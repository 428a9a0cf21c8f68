//! Which clocks are believed.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::{DoubtedTime, Steady};
use crate::model::time::Timestamp;
use crate::store::sled::SledStore;
use crate::vault::tests::vault_at;

const MINUTE: i64 = 60 * 1000;
const DAY: i64 = 24 * 60 * MINUTE;
/// The time of day at which processes begin here, and the time that has passed for the machine then.
const WALL: i64 = 1_900_000_000_000;
const PASSED: i64 = 12_345;

/// Time that has passed, and by how much more the time of day has moved.
type Moment = (i64, i64);

/// Looks at clocks that have moved by so much, the time of day further by so much more.
fn looks(last: i64, moments: &[Moment]) -> Vec<bool> {
    let steady = Steady::default();
    let look = |(passed, ahead): &(i64, i64)| {
        let (wall, passed) = (WALL + passed + ahead, PASSED + passed);
        let last_ms = || Ok(u64::try_from(last).unwrap());
        steady.believes(wall.try_into().unwrap(), passed.try_into().unwrap(), last_ms).unwrap()
    };
    moments.iter().map(look).collect()
}

#[test]
fn a_clock_that_gains_much_is_doubted_until_it_was_steady_for_a_day() {
    let far = 400 * DAY;
    let table: [(&str, &[Moment], &[bool]); 7] = [
        ("goes on", &[(0, 0), (5 * MINUTE, 0), (90 * DAY, 0)], &[true; 3]),
        ("is corrected a little", &[(0, 0), (MINUTE, 15 * MINUTE)], &[true; 2]),
        (
            "gains little by little",
            &[(0, 0), (DAY, 14 * MINUTE), (2 * DAY, 28 * MINUTE)],
            &[true, true, false],
        ),
        ("was set back", &[(0, 0), (MINUTE, -far), (2 * MINUTE, -far)], &[true; 3]),
        (
            "is set forward, and right",
            &[(0, 0), (MINUTE, 16 * MINUTE), (DAY, 16 * MINUTE), (DAY + MINUTE, 0)],
            &[true, false, false, true],
        ),
        (
            "is set forward, and stays",
            &[(0, 0), (MINUTE, far), (DAY, far), (DAY + MINUTE, far), (3 * DAY, far)],
            &[true, false, false, true, true],
        ),
        (
            "is set forward again",
            &[(0, 0), (MINUTE, far), (DAY, 2 * far), (DAY + MINUTE, 2 * far), (2 * DAY, 2 * far)],
            &[true, false, false, false, true],
        ),
    ];
    for (name, moments, believed) in table {
        assert_eq!(looks(WALL - MINUTE, moments), believed, "{name}");
    }
}

#[test]
fn a_doubt_goes_on_where_the_process_before_left_it() {
    let at = |ms: i64| u64::try_from(ms).unwrap();
    // The vault was off for nine days, and is started anew every twenty hours.
    let (mut last, mut wall, mut before) = (WALL - 9 * DAY, WALL, None);
    let up = 20 * 60 * MINUTE;
    let mut seen = Vec::new();
    for _ in 0..3 {
        let steady = Steady::default();
        if let Some(before) = before {
            *steady.doubted_before.lock() = Some(before);
        }
        let look = |passed: i64| {
            steady.believes(at(wall + passed), at(PASSED + passed), || Ok(at(last))).unwrap()
        };
        seen.push([look(0), look(up)]);
        let note = steady.doubt(at(wall + up), at(PASSED + up));
        before = note.as_ref().and_then(|note| note.doubted);
        last = note.map_or(wall + up, |note| i64::try_from(note.at.0).unwrap());
        wall += up + MINUTE;
    }
    assert_eq!(seen, [[false, false], [false, true], [true, true]]);
    // Another clock than that begins anew.
    for (wall, goes_on) in [(WALL, true), (WALL + 8 * DAY, false), (WALL - DAY, false)] {
        let doubted = DoubtedTime { at: Timestamp(at(WALL)), steady_ms: at(DAY) };
        let steady = Steady::default();
        *steady.doubted_before.lock() = Some(doubted);
        let last = || Ok(at(WALL - 30 * DAY));
        assert_eq!(steady.believes(at(wall), at(PASSED), last).unwrap(), goes_on, "{wall}");
    }
}

#[test]
fn a_doubt_goes_on_once_the_clock_is_where_it_was() {
    let at = |ms: i64| u64::try_from(ms).unwrap();
    let far = 400 * DAY;
    // It begins by the clock of the machine, which is right, and then gets the one that was in doubt.
    for (steady_ms, passed, ahead, expected) in [
        (DAY, 2 * MINUTE, far, true),
        (DAY - MINUTE, 2 * MINUTE, far, false),
        (DAY, 2 * MINUTE, far - DAY, false),
        (DAY, 2 * MINUTE, 0, true),
    ] {
        let steady = Steady::default();
        let doubted = DoubtedTime { at: Timestamp(at(WALL + far)), steady_ms: at(steady_ms) };
        *steady.doubted_before.lock() = Some(doubted);
        let last = || Ok(at(WALL - MINUTE));
        assert!(steady.believes(at(WALL), at(PASSED), last).unwrap());
        let later = steady.believes(at(WALL + passed + ahead), at(PASSED + passed), last).unwrap();
        assert_eq!(later, expected, "{steady_ms} {ahead}");
    }
}

#[tokio::test]
async fn a_doubt_is_over_once_a_time_is_noted_that_is_believed() {
    let at = |ms: i64| u64::try_from(ms).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let store = Arc::new(SledStore::open(folder.path(), 1 << 20).unwrap());
    let vault = vault_at(at(WALL), store, 1 << 20).await;
    vault.bootstrap(None).await.unwrap();
    let before = || vault.0.steady.doubted_before.lock();
    let doubted = DoubtedTime { at: Timestamp(at(WALL + 400 * DAY)), steady_ms: at(DAY) };
    *before() = Some(doubted);
    assert!(vault.clock_is_believed().unwrap());
    assert_eq!(*before(), Some(doubted));
    vault.note_time().await.unwrap();
    assert_eq!(*before(), None);
    vault.close();
}

#[test]
fn a_doubt_takes_nothing_back_of_the_time_that_is_noted() {
    let steady = Steady::default();
    let at = |ms: i64| u64::try_from(ms).unwrap();
    steady.noted_ms.store(at(WALL), Ordering::Release);
    // It begins by a clock that is a year behind, which is then set a year ahead.
    let moments = [(0, -365 * DAY, true), (MINUTE, 365 * DAY, false)];
    for (passed, ahead, expected) in moments {
        let (wall, passed) = (at(WALL + passed + ahead), at(PASSED + passed));
        assert_eq!(steady.believes(wall, passed, || Ok(at(WALL))).unwrap(), expected);
    }
    let note = steady.doubt(at(WALL + 365 * DAY), at(PASSED + 2 * MINUTE)).unwrap();
    assert_eq!(note.at.0, at(WALL));
}

#[test]
fn an_earlier_time_is_noted_only_once_it_has_stayed() {
    let steady = Steady::default();
    let at = |ms: i64| u64::try_from(ms).unwrap();
    // Nothing was noted.
    assert!(steady.may_note(at(WALL), at(PASSED)));
    steady.noted_ms.store(at(WALL), Ordering::Release);
    let begins = WALL - 300 * DAY;
    assert!(steady.believes(at(begins), at(PASSED), || Ok(at(WALL))).unwrap());
    for (wall, passed, expected) in [
        (begins, 0, false),
        (begins + DAY - 1, DAY - 1, false),
        (WALL, MINUTE, true),
        (WALL + 1, MINUTE, true),
        (begins + DAY, DAY, true),
    ] {
        assert_eq!(steady.may_note(at(wall), at(PASSED + passed)), expected, "{wall} {passed}");
    }
}

#[test]
fn a_process_that_begins_goes_by_the_last_entry_of_the_log() {
    let begins = |last: i64| looks(last, &[(0, 0), (5 * MINUTE, 0), (DAY, 0)]);
    // There is none; it was made just now, a week ago, or by a clock that was ahead.
    for last in [0, WALL, WALL - 7 * DAY, WALL + DAY] {
        assert_eq!(begins(last), [true; 3], "{last}");
    }
    assert_eq!(begins(WALL - 7 * DAY - 1), [false, false, true]);
    // One that is set right is believed at once if it is where the log ends, and after a day else.
    let (wrong, right) = ((0, 400 * DAY), (MINUTE, 0));
    assert_eq!(looks(WALL, &[wrong, right]), [false, true]);
    assert_eq!(looks(WALL - DAY, &[wrong, right, (2 * DAY, 0)]), [false, false, true]);
}
