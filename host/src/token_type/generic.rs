//! Tokens of anything.

use super::{Data, Row};

pub(super) static ROWS: [Row; 1] = [Row {
    name: "token",
    data: Data::Anything,
    container: "/general/high/",
    fingerprint: "{{ data | stringify }}",
    search_indexes: &[],
    log_entity_type: "token",
}];
