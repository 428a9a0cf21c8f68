//! Bank accounts (interface §2.2).

use super::digits::{account_number, routing_number, us_account_number};
use super::{Data, Member, Row};

pub(super) static ROWS: [Row; 3] = [
    Row {
        name: "bank",
        data: Data::Object(&[
            Member {
                name: "routing_number",
                required: true,
                rule: routing_number,
                mask: Some("{{ data.routing_number }}"),
                transient: false,
            },
            Member {
                name: "account_number",
                required: true,
                rule: account_number,
                mask: Some("{{ data.account_number | reveal_last: 4 }}"),
                transient: false,
            },
        ]),
        container: "/bank/high/",
        fingerprint: "{{ data.account_number }}|{{ data.routing_number }}",
        search_indexes: &[],
        log_entity_type: "bank",
    },
    Row {
        name: "us_bank_account_number",
        data: Data::One {
            rule: us_account_number,
            mask: "{{ data | reveal_last: 4 }}",
        },
        container: "/bank/high/",
        fingerprint: "{{ data }}",
        search_indexes: &[],
        log_entity_type: "token",
    },
    Row {
        name: "us_bank_routing_number",
        data: Data::One {
            rule: routing_number,
            mask: "{{ data | reveal_last: 4 }}",
        },
        container: "/bank/low/",
        fingerprint: "{{ data }}",
        search_indexes: &[],
        log_entity_type: "token",
    },
];
