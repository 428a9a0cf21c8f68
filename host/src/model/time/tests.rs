use chrono::{DateTime, SecondsFormat};
use proptest::prelude::*;

use super::{
    DAY_MS, InvalidTime, LAST_MS, Timestamp, parse_date, parse_expiry, parse_rfc3339, parse_span,
};

fn shown(parsed: Result<Timestamp, InvalidTime>) -> Result<String, InvalidTime> {
    parsed.map(|timestamp| timestamp.to_string())
}

/// The form of every time in an answer, taken from a library that had no part in writing ours.
fn by_chrono(ms: u64) -> String {
    let time = DateTime::from_timestamp_millis(i64::try_from(ms).unwrap()).unwrap();
    time.to_rfc3339_opts(SecondsFormat::Millis, false)
}

#[test]
fn display() {
    for (ms, text) in [
        (0, "1970-01-01T00:00:00.000+00:00"),
        (951_782_399_999, "2000-02-28T23:59:59.999+00:00"),
        (951_782_400_000, "2000-02-29T00:00:00.000+00:00"),
        (951_868_800_001, "2000-03-01T00:00:00.001+00:00"),
        (1_914_002_637_000, "2030-08-26T19:23:57.000+00:00"),
        (4_107_542_400_000, "2100-03-01T00:00:00.000+00:00"),
        (LAST_MS, "9999-12-31T23:59:59.999+00:00"),
        (u64::MAX, "9999-12-31T23:59:59.999+00:00"),
    ] {
        assert_eq!(Timestamp(ms).to_string(), text);
    }
}

#[test]
fn json() {
    let text = "\"2030-08-26T19:23:57.000+00:00\"";
    let timestamp: Timestamp = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&timestamp).unwrap(), text);
    for wrong in ["\"\"", "\"8/26/2030\"", "1914002637000", "null"] {
        assert!(serde_json::from_str::<Timestamp>(wrong).is_err(), "{wrong}");
    }
}

/// Forms that filters and `expires_at` both accept.
const ISO: &[(&str, &str)] = &[
    ("2030-08-26T19:23:57.000+00:00", "2030-08-26T19:23:57.000+00:00"),
    ("2030-08-26T19:23:57Z", "2030-08-26T19:23:57.000+00:00"),
    ("2030-08-26t19:23:57z", "2030-08-26T19:23:57.000+00:00"),
    ("2030-08-26 19:23:57Z", "2030-08-26T19:23:57.000+00:00"),
    ("2030-08-26T19:23:57", "2030-08-26T19:23:57.000+00:00"),
    ("2030-08-26T19:23", "2030-08-26T19:23:00.000+00:00"),
    ("2030-08-26T19:23Z", "2030-08-26T19:23:00.000+00:00"),
    ("2030-08-26", "2030-08-26T00:00:00.000+00:00"),
    ("2030-08-26T19:23:57.1Z", "2030-08-26T19:23:57.100+00:00"),
    ("2030-08-26T19:23:57.12", "2030-08-26T19:23:57.120+00:00"),
    ("2030-08-26T19:23:57.1239999+00:00", "2030-08-26T19:23:57.123+00:00"),
    ("2030-08-26T19:23:57.00000000000000000001Z", "2030-08-26T19:23:57.000+00:00"),
    ("2030-08-26T19:23:57+02:00", "2030-08-26T17:23:57.000+00:00"),
    ("2030-08-26T19:23:57-0730", "2030-08-27T02:53:57.000+00:00"),
    ("2030-08-26T19:23:57+05", "2030-08-26T14:23:57.000+00:00"),
    ("2030-08-26T19:23:57.000 02:00", "2030-08-26T17:23:57.000+00:00"),
    ("2030-08-26T19:23:57-00:00", "2030-08-26T19:23:57.000+00:00"),
    ("2028-02-29T00:00:00Z", "2028-02-29T00:00:00.000+00:00"),
    ("2000-02-29", "2000-02-29T00:00:00.000+00:00"),
    ("1970-01-01T00:00:00Z", "1970-01-01T00:00:00.000+00:00"),
    ("1969-12-31T23:00:00-01:00", "1970-01-01T00:00:00.000+00:00"),
    ("9999-12-31T23:59:59.999Z", "9999-12-31T23:59:59.999+00:00"),
];

#[test]
fn rfc3339_forms() {
    for (text, expected) in ISO {
        assert_eq!(shown(parse_rfc3339(text)).as_deref(), Ok(*expected), "{text}");
        assert_eq!(parse_expiry(text), parse_rfc3339(text), "{text}");
    }
}

#[test]
fn expiry_forms() {
    for (text, expected) in [
        ("8/26/2030", "2030-08-26T00:00:00.000+00:00"),
        ("08/26/2030", "2030-08-26T00:00:00.000+00:00"),
        ("12/1/2030", "2030-12-01T00:00:00.000+00:00"),
        ("2/29/2028", "2028-02-29T00:00:00.000+00:00"),
        ("8/26/2030 7:23:57 PM +00:00", "2030-08-26T19:23:57.000+00:00"),
        ("8/26/2030 7:23:57 pm +00:00", "2030-08-26T19:23:57.000+00:00"),
        ("8/26/2030 7:23:57\u{202f}PM +00:00", "2030-08-26T19:23:57.000+00:00"),
        ("8/26/2030 07:23:57 AM -07:00", "2030-08-26T14:23:57.000+00:00"),
        ("8/26/2030 7:23:57 PM", "2030-08-26T19:23:57.000+00:00"),
        ("8/26/2030 7:23:57 PM Z", "2030-08-26T19:23:57.000+00:00"),
        ("8/26/2030 12:00:00 AM +00:00", "2030-08-26T00:00:00.000+00:00"),
        ("8/26/2030 12:30:01 AM +00:00", "2030-08-26T00:30:01.000+00:00"),
        ("8/26/2030 12:00:00 PM +00:00", "2030-08-26T12:00:00.000+00:00"),
        ("8/26/2030 11:59:59 PM -00:30", "2030-08-27T00:29:59.000+00:00"),
        ("1/1/2031 1:00:00 AM +02:00", "2030-12-31T23:00:00.000+00:00"),
    ] {
        assert_eq!(shown(parse_expiry(text)).as_deref(), Ok(expected), "{text}");
        assert_eq!(parse_rfc3339(text), Err(InvalidTime::Form), "{text}");
    }
}

#[test]
fn garbage_is_no_time() {
    for text in [
        "",
        " ",
        "now",
        "2030",
        "2030-08",
        "2030-8-26",
        "20300826",
        "2030-08-26T",
        "2030-08-26 ",
        " 2030-08-26",
        "2030-08-26T19",
        "2030-08-26T1:23:57Z",
        "2030-08-26T19:23:5",
        "+2030-08-26",
        "2030-08-26T19:23:57.Z",
        "2030-08-26T19:23:57.+00:00",
        "2030-08-26T19:23:57+2:00",
        "2030-08-26T19:23:57+24:00",
        "2030-08-26T19:23:57+02:60",
        "2030-08-26T19:23:57+02:00Z",
        "2030-08-26T19:23:57 +02:00",
        "2030-08-26Z",
        "2030-08-26T19:23:57+02:",
        "1914002637000",
        "8/26/30",
        "8/26",
        "26.8.2030",
        "8-26-2030",
        "008/26/2030",
        "8/026/2030",
        "8/26/20300",
        "8/26/2030 ",
        "8/26/2030 PM",
        "8/26/2030 19:23:57",
        "8/26/2030 0:23:57 AM +00:00",
        "8/26/2030 13:23:57 PM +00:00",
        "8/26/2030 7:23 PM +00:00",
        "8/26/2030 7:23:57PM +00:00",
        "8/26/2030 7:23:57 P +00:00",
        "8/26/2030 7:23:57 PM ",
        "8/26/2030 7:23:57 PM+00:00",
        "8/26/2030 7:23:57 PM UTC",
        "8/26/2030T7:23:57 PM",
        "２０３０-08-26",
        "8/26/2030\n",
    ] {
        assert_eq!(parse_expiry(text), Err(InvalidTime::ExpiryForm), "{text:?}");
        assert_eq!(parse_rfc3339(text), Err(InvalidTime::Form), "{text:?}");
    }
}

#[test]
fn what_no_calendar_shows() {
    for text in [
        "2030-02-29",
        "2100-02-29",
        "2030-04-31",
        "2030-13-01",
        "2030-00-10",
        "2030-01-00",
        "2030-01-01T24:00:00Z",
        "2030-01-01T12:60:00Z",
        "2030-01-01T12:00:60Z",
        "2/29/2030",
        "13/1/2030",
        "0/1/2030",
        "4/31/2030",
        "4/30/2030 1:60:00 AM",
        "4/30/2030 1:00:60 PM",
    ] {
        assert_eq!(parse_expiry(text), Err(InvalidTime::Nonexistent), "{text}");
    }
}

#[test]
fn years() {
    for text in [
        "1969-12-31T23:59:59.999Z",
        "1970-01-01T00:59:59+01:00",
        "0000-01-01",
        "12/31/1969",
        "9999-12-31T23:59:59.999-00:01",
    ] {
        assert_eq!(parse_expiry(text), Err(InvalidTime::Range), "{text}");
    }
    // As the end of a stretch in which things are looked for, they are as far as time goes.
    let (first, last) = (Timestamp(0), Timestamp(LAST_MS));
    for (text, span) in [
        ("0001-01-01", (first, first)),
        ("1969-12-31T23:59:59Z", (first, first)),
        ("1970-01-01T00:59:59+01:00", (first, first)),
        ("1970-01-01", (first, Timestamp(86_399_999))),
        ("9999-12-31", (Timestamp(LAST_MS - 86_399_999), last)),
        ("9999-12-31T23:59:59.999-00:01", (last, last)),
    ] {
        assert_eq!(parse_span(text), Ok(span), "{text}");
    }
    assert_eq!(parse_span("1969-02-29"), Err(InvalidTime::Nonexistent));
}

#[test]
fn dates_alone() {
    assert_eq!(parse_date("2030-08-26"), Ok(Timestamp(1_913_932_800_000)));
    assert_eq!(parse_date("2030-02-29"), Err(InvalidTime::Nonexistent));
    for text in ["2030-08-26T00:00:00Z", "8/26/2030", "2030-08-2", "2030-08-266", ""] {
        assert_eq!(parse_date(text), Err(InvalidTime::Form), "{text}");
    }
}

proptest! {
    #[test]
    fn display_agrees_with_chrono(ms in 0..=LAST_MS) {
        prop_assert_eq!(Timestamp(ms).to_string(), by_chrono(ms));
    }

    #[test]
    fn what_is_shown_reads_back(ms in 0..=LAST_MS) {
        let timestamp = Timestamp(ms);
        prop_assert_eq!(parse_rfc3339(&timestamp.to_string()), Ok(timestamp));
        prop_assert_eq!(parse_expiry(&timestamp.to_string()), Ok(timestamp));
    }

    #[test]
    fn text_sorts_as_time_does(a in 0..=LAST_MS, b in 0..=LAST_MS) {
        let (a, b) = (Timestamp(a), Timestamp(b));
        prop_assert_eq!(a.cmp(&b), a.to_string().cmp(&b.to_string()));
    }

    #[test]
    fn an_offset_moves_the_time(ms in DAY_MS..LAST_MS - DAY_MS, hours in -23_i64..=23) {
        let utc = Timestamp(ms).to_string();
        let text = format!("{}{hours:+03}:00", &utc[..23]);
        let expected = i64::try_from(ms).unwrap() - hours * 3_600_000;
        let parsed = parse_rfc3339(&text).map(|time| i64::try_from(time.0).unwrap());
        prop_assert_eq!(parsed, Ok(expected));
    }

    #[test]
    fn any_text_is_answered(text in "\\PC*", near in "[0-9TZ:/+ APM.-]{0,30}") {
        for text in [&text, &near] {
            for parse in [parse_rfc3339, parse_expiry, parse_date] {
                prop_assert!(parse(text).map_or(0, |time| time.0) <= LAST_MS);
            }
        }
    }
}
