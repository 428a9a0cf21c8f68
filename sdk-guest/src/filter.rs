//! Lists of tokens: which are asked for, and the answer.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::Token;

/// Which tokens a list shows: those that match everything that is set.
///
/// ```
/// use tokamak_sdk::TokenFilter;
///
/// TokenFilter::new().of_type("card").container("/pci/*").metadata("customer", "17").size(100);
/// ```
#[derive(Debug, Clone, Default, Serialize)]
pub struct TokenFilter {
    #[serde(rename = "id", skip_serializing_if = "Vec::is_empty")]
    ids: Vec<String>,
    #[serde(rename = "type", skip_serializing_if = "Vec::is_empty")]
    types: Vec<String>,
    #[serde(rename = "fingerprint", skip_serializing_if = "Vec::is_empty")]
    fingerprints: Vec<String>,
    #[serde(rename = "container", skip_serializing_if = "Vec::is_empty")]
    containers: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    metadata: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    size: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    start: Option<String>,
}

impl TokenFilter {
    /// Every token that the application may read.
    pub fn new() -> Self {
        Self::default()
    }

    /// Only this id, or one of the others that are set.
    #[must_use]
    pub fn id(mut self, id: impl Into<String>) -> Self {
        self.ids.push(id.into());
        self
    }

    /// Only this type, or one of the others that are set.
    #[must_use]
    pub fn of_type(mut self, token_type: impl Into<String>) -> Self {
        self.types.push(token_type.into());
        self
    }

    /// Only this fingerprint, or one of the others that are set.
    #[must_use]
    pub fn fingerprint(mut self, fingerprint: impl Into<String>) -> Self {
        self.fingerprints.push(fingerprint.into());
        self
    }

    /// Only this container, or one of the others that are set; with a trailing `*` those below it too.
    #[must_use]
    pub fn container(mut self, container: impl Into<String>) -> Self {
        self.containers.push(container.into());
        self
    }

    /// Only with this metadata, ignoring case.
    #[must_use]
    pub fn metadata(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.metadata.insert(key.into(), value.into());
        self
    }

    /// Which page, from 1. To go through many, [`start`](Self::start) is cheaper.
    #[must_use]
    pub fn page(self, page: u32) -> Self {
        Self { page: Some(page), start: None, ..self }
    }

    /// Tokens on a page, 1 to 100; 20 unless set.
    #[must_use]
    pub fn size(self, size: u32) -> Self {
        Self { size: Some(size), ..self }
    }

    /// Continues after the page that gave this cursor, [`TokenPage::next`]; in place of a number.
    #[must_use]
    pub fn start(self, cursor: impl Into<String>) -> Self {
        Self { start: Some(cursor.into()), page: None, ..self }
    }
}

/// A page of tokens, newest first.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[non_exhaustive]
#[serde(from = "Wire")]
pub struct TokenPage {
    /// The tokens.
    pub tokens: Vec<Token>,
    /// How many there are on all pages.
    pub total: u64,
    /// The cursor to the next page; `None` on the last one.
    pub next: Option<String>,
}

#[derive(Deserialize)]
struct Wire {
    pagination: Pagination,
    data: Vec<Token>,
}

#[derive(Deserialize)]
struct Pagination {
    total_items: u64,
    #[serde(default)]
    next: Option<String>,
}

impl From<Wire> for TokenPage {
    fn from(Wire { pagination, data }: Wire) -> Self {
        Self { tokens: data, total: pagination.total_items, next: pagination.next }
    }
}
