//! What series differ by.

use std::fmt;

use prometheus_client::encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder};

/// Methods that are told apart; a caller may send any word.
const METHODS: &[&str] = &["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// A method, if it is one that is told apart.
pub fn known_method(method: &str) -> Option<&'static str> {
    METHODS.iter().find(|known| **known == method).copied()
}

/// A place of the interface.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RouteLabels {
    method: &'static str,
    route: String,
}

/// And what was answered there.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct RequestLabels {
    method: &'static str,
    route: String,
    status: Status,
}

/// A status of ours. One that a formula chose is not told apart from its others: callers could make series by it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Status(Option<u16>);

impl EncodeLabelValue for Status {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        match self.0 {
            Some(status) => status.encode(encoder),
            None => "formula".encode(encoder),
        }
    }
}

/// What came of a run: `completed`, or the title of a problem.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct InvocationLabels {
    pub outcome: &'static str,
}

/// What came of a webhook.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct OutcomeLabels {
    pub outcome: &'static str,
}

/// What waits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
pub struct StatusLabels {
    pub what: &'static str,
}

impl RouteLabels {
    pub fn new(method: &str, route: &str) -> Self {
        Self { method: known_method(method).unwrap_or("other"), route: route.to_owned() }
    }

    pub fn with(self, status: Option<u16>) -> RequestLabels {
        RequestLabels { method: self.method, route: self.route, status: Status(status) }
    }
}
