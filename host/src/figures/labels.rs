//! What series differ by.

use prometheus_client::encoding::EncodeLabelSet;

/// Methods that are told apart; a caller may send any word.
const METHODS: &[&str] = &["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

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
    status: u16,
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
        let known = METHODS.iter().find(|known| **known == method);
        Self { method: known.copied().unwrap_or("other"), route: route.to_owned() }
    }

    pub fn with(self, status: u16) -> RequestLabels {
        RequestLabels { method: self.method, route: self.route, status }
    }
}
