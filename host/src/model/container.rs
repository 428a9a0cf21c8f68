//! Containers: path-like groups of tokens (decisions §2).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::limits::CONTAINER_CHARS_MAX;

/// A path such as `/pci/high/`, in lower case; `/` is the root.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Container(String);

/// Why a text is no container.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Error)]
pub enum InvalidContainer {
    /// A slash is missing at the start or the end.
    #[error("must start and end with /")]
    Slashes,
    /// A segment is empty or has a character that segments may not have.
    #[error("must have segments of letters, digits, - and _ only")]
    Segment,
    /// Longer than any container may be.
    #[error("must have at most {CONTAINER_CHARS_MAX} characters")]
    Length,
}

impl Container {
    /// The root, `/`, which holds every container.
    pub fn root() -> Self {
        Self("/".to_owned())
    }

    /// The path as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether `other` is this container or lies below it.
    pub fn holds(&self, other: &Self) -> bool {
        // Both end with a slash, so that `/pci/` does not hold `/pci-test/`.
        other.0.starts_with(&self.0)
    }

    /// This container and all above it, the root first.
    pub fn lineage(&self) -> impl Iterator<Item = &str> {
        self.0.match_indices('/').map(|(index, _)| &self.0[..=index])
    }
}

impl FromStr for Container {
    type Err = InvalidContainer;

    fn from_str(text: &str) -> Result<Self, InvalidContainer> {
        if text.len() > CONTAINER_CHARS_MAX {
            return Err(InvalidContainer::Length);
        }
        if text == "/" {
            return Ok(Self::root());
        }
        let inner = text.strip_prefix('/').and_then(|rest| rest.strip_suffix('/'));
        let inner = inner.ok_or(InvalidContainer::Slashes)?;
        let valid = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if inner.split('/').any(|segment| segment.is_empty() || !segment.chars().all(valid)) {
            return Err(InvalidContainer::Segment);
        }
        Ok(Self(text.to_ascii_lowercase()))
    }
}

impl TryFrom<String> for Container {
    type Error = InvalidContainer;

    fn try_from(text: String) -> Result<Self, InvalidContainer> {
        text.parse()
    }
}

impl From<Container> for String {
    fn from(container: Container) -> Self {
        container.0
    }
}

impl PartialSchema for Container {
    fn schema() -> RefOr<Schema> {
        let schema = ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some("A path such as `/pci/high/`; `/` is the root"))
            .pattern(Some("^/([A-Za-z0-9_-]+/)*$"))
            .max_length(Some(CONTAINER_CHARS_MAX));
        schema.into()
    }
}

impl ToSchema for Container {}

impl fmt::Display for Container {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::{Container, InvalidContainer};

    fn container(text: &str) -> Container {
        text.parse().unwrap()
    }

    #[test]
    fn parsing() {
        assert_eq!(container("/PCI/High_1/").as_str(), "/pci/high_1/");
        assert_eq!(container("/").as_str(), "/");
        for (text, fault) in [
            ("", InvalidContainer::Slashes),
            ("pci/", InvalidContainer::Slashes),
            ("/pci", InvalidContainer::Slashes),
            ("//", InvalidContainer::Segment),
            ("/a//b/", InvalidContainer::Segment),
            ("/a b/", InvalidContainer::Segment),
            ("/é/", InvalidContainer::Segment),
            ("/a/*/", InvalidContainer::Segment),
        ] {
            assert_eq!(text.parse::<Container>(), Err(fault), "{text}");
        }
        let long = format!("/{}/", "a".repeat(399));
        assert_eq!(long.parse::<Container>(), Err(InvalidContainer::Length));
    }

    #[test]
    fn holding() {
        assert!(container("/").holds(&container("/pci/")));
        assert!(container("/pci/").holds(&container("/pci/high/")));
        assert!(container("/pci/").holds(&container("/pci/")));
        assert!(!container("/pci/").holds(&container("/pci-test/")));
        assert!(!container("/pci/high/").holds(&container("/pci/")));
    }

    #[test]
    fn lineage_starts_at_the_root() {
        let path = container("/a/b/");
        assert_eq!(path.lineage().collect::<Vec<_>>(), ["/", "/a/", "/a/b/"]);
        assert_eq!(container("/").lineage().collect::<Vec<_>>(), ["/"]);
    }
}
