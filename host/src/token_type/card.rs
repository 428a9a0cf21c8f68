//! Payment cards (interface §2.2).

use super::digits::{card_number, month, verification_code, year};
use super::{Data, Member, Row};

pub(super) static ROWS: [Row; 2] = [
    Row {
        name: "card",
        data: Data::Object(&[
            Member {
                name: "number",
                required: true,
                rule: card_number,
                mask: Some("{{ data.number | reveal_last: 4 }}"),
                transient: false,
            },
            Member {
                name: "expiration_month",
                required: false,
                rule: month,
                mask: Some("{{ data.expiration_month }}"),
                transient: false,
            },
            Member {
                name: "expiration_year",
                required: false,
                rule: year,
                mask: Some("{{ data.expiration_year }}"),
                transient: false,
            },
            Member {
                name: "cvc",
                required: false,
                rule: verification_code,
                mask: None,
                transient: true,
            },
        ]),
        container: "/pci/high/",
        fingerprint: "{{ data.number }}",
        search_indexes: &[],
        log_entity_type: "card",
    },
    Row {
        name: "card_number",
        data: Data::One {
            rule: card_number,
            mask: "{{ data | reveal_last: 4 }}",
        },
        container: "/pci/high/",
        fingerprint: "{{ data }}",
        search_indexes: &[],
        log_entity_type: "token",
    },
];
