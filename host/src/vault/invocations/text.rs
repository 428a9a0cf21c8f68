//! What is kept of an invocation, as it is sealed ([`super::super::short`]): each run leaves one.

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::{Invocation, InvocationStatus, LineView};
use crate::crypto::wiped::Wiped;
use crate::model::id::{InvocationId, ReactorId};
use crate::model::time::Timestamp;
use crate::vault::record::from_json_text;
use crate::vault::short::Id;
use crate::vault::{Error, short};

/// Room that is enough for most invocations: those that log nothing.
const USUAL_BYTES: usize = 128;

/// An invocation in short.
#[derive(Serialize, Deserialize)]
struct Short<'a> {
    id: Uuid,
    reactor_id: Uuid,
    status: &'a str,
    error: Option<&'a str>,
    elapsed_us: u64,
    fuel: u64,
    memory_peak_bytes: u64,
    /// Levels and texts.
    #[serde(borrow)]
    log: Vec<(&'a str, &'a str)>,
    log_truncated: bool,
    created_ms: u64,
    finished_ms: u64,
}

/// Writes an invocation in short.
pub fn write(invocation: &Invocation) -> Result<Wiped, Error> {
    let lines = invocation.log.iter();
    let short = Short {
        id: invocation.id.0,
        reactor_id: invocation.reactor_id.0,
        status: match invocation.status {
            InvocationStatus::Completed => "completed",
            InvocationStatus::Failed => "failed",
        },
        error: invocation.error.as_deref(),
        elapsed_us: invocation.elapsed_us,
        fuel: invocation.fuel,
        memory_peak_bytes: invocation.memory_peak_bytes,
        log: lines.map(|LineView { level, message }| (level.as_str(), message.as_str())).collect(),
        log_truncated: invocation.log_truncated,
        created_ms: invocation.created_at.0,
        finished_ms: invocation.finished_at.0,
    };
    let mut text = short::write(&short, USUAL_BYTES)?;
    if let Some(trace_id) = &invocation.trace_id {
        text = short::go_on(text, &Id::of(trace_id))?;
    }
    Ok(text.into_bytes())
}

/// Reads an invocation, in short or in JSON.
pub fn read(text: &[u8]) -> Result<Invocation, Error> {
    let Some((short, behind)) = short::begin::<Short<'_>>(text)? else {
        return from_json_text(text);
    };
    // Nothing is there from before it was kept.
    let trace_id = short::end::<Id<'_>>(behind)?;
    let line = |(level, message): (&str, &str)| LineView {
        level: level.to_owned(),
        message: message.to_owned(),
    };
    Ok(Invocation {
        id: InvocationId(short.id),
        reactor_id: ReactorId(short.reactor_id),
        status: short::named(short.status)?,
        error: short.error.map(str::to_owned),
        elapsed_us: short.elapsed_us,
        fuel: short.fuel,
        memory_peak_bytes: short.memory_peak_bytes,
        log: short.log.into_iter().map(line).collect(),
        log_truncated: short.log_truncated,
        created_at: Timestamp(short.created_ms),
        finished_at: Timestamp(short.finished_ms),
        trace_id: trace_id.map(|id| id.to_text().into_owned()),
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use uuid::Uuid;

    use super::{read, write};
    use crate::model::id::{InvocationId, ReactorId};
    use crate::model::time::Timestamp;
    use crate::vault::invocations::{Invocation, InvocationStatus, LineView};
    use crate::vault::record::json_text;
    use crate::vault::short::assert_comes_back;

    fn invocations() -> impl Strategy<Value = Invocation> {
        let lines = prop::collection::vec(("[a-z]{0,6}", ".{0,80}"), 0..5);
        let texts = (prop::option::of(".{0,40}"), prop::option::of("[!-~]{1,128}"));
        (any::<(u128, u128, bool, bool)>(), texts, any::<[u64; 5]>(), lines).prop_map(
            |((id, reactor, failed, log_truncated), (error, trace_id), numbers, lines)| {
                let [elapsed_us, fuel, memory_peak_bytes, created, finished] = numbers;
                let line = |(level, message)| LineView { level, message };
                Invocation {
                    id: InvocationId(Uuid::from_u128(id)),
                    reactor_id: ReactorId(Uuid::from_u128(reactor)),
                    status: if failed {
                        InvocationStatus::Failed
                    } else {
                        InvocationStatus::Completed
                    },
                    error,
                    elapsed_us,
                    fuel,
                    memory_peak_bytes,
                    log: lines.into_iter().map(line).collect(),
                    log_truncated,
                    // As far as a time can be written as JSON.
                    created_at: Timestamp(created % (1 << 47)),
                    finished_at: Timestamp(finished % (1 << 47)),
                    trace_id,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn an_invocation_comes_back_from_either_format(kept in invocations(), cut in any::<prop::sample::Index>()) {
            let short = write(&kept).unwrap();
            let json = json_text(&kept).unwrap();
            let without = Invocation { trace_id: None, ..kept.clone() };
            assert_comes_back(&kept, [&short, &json], (cut.index(short.len()), &without), read);
            prop_assert!(short.len() < json.len());
        }
    }

    #[test]
    fn the_layout_stays() {
        let line = LineView { level: "info".to_owned(), message: "Said".to_owned() };
        let kept = Invocation {
            id: InvocationId(Uuid::from_u128(1)),
            reactor_id: ReactorId(Uuid::from_u128(2)),
            status: InvocationStatus::Failed,
            error: Some("Bad Request".to_owned()),
            elapsed_us: 300,
            fuel: 7,
            memory_peak_bytes: 65_536,
            log: vec![line],
            log_truncated: true,
            created_at: Timestamp(8),
            finished_at: Timestamp(9),
            trace_id: None,
        };
        let id = |last: u8| [[0; 15].as_slice(), &[last]].concat();
        let expected = [
            [1, 16].as_slice(),
            &id(1),
            &[16],
            &id(2),
            b"\x06failed\x01\x0bBad Request",
            // Numbers as varints.
            &[0xac, 0x02, 7, 0x80, 0x80, 0x04],
            b"\x01\x04info\x04Said",
            &[1, 8, 9],
        ];
        let untraced = expected.concat();
        assert_eq!(*write(&kept).unwrap(), untraced);
        let traced = Invocation { trace_id: Some(Uuid::from_u128(5).simple().to_string()), ..kept };
        let behind = [b"\x02\x10".as_slice(), &id(5)].concat();
        assert_eq!(*write(&traced).unwrap(), [untraced, behind].concat());
    }
}
