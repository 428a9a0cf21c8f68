//! Numbers that identify people and firms to the state. They may be written with or without `-`,
//! and are found and fingerprinted alike either way.

use super::digits::nine_digits;
use super::{Data, Row};

pub(super) static ROWS: [Row; 2] = [row("social_security_number"), row("employer_id_number")];

const fn row(name: &'static str) -> Row {
    Row {
        name,
        data: Data::One {
            rule: nine_digits,
            mask: "{{ data | reveal_last: 4 }}",
        },
        container: "/pii/high/",
        fingerprint: "{{ data | remove: '-' }}",
        search_indexes: &[
            "{{ data }}",
            "{{ data | remove: '-' }}",
            "{{ data | last4 }}",
        ],
        log_entity_type: "token",
    }
}
