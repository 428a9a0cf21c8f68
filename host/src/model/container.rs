//! Containers: path-like groups of tokens (decisions §2).
//!
//! How deep a container may be is a question of where tokens may be put ([`places`]), and of nothing else: tokens that
//! were stored deeper are read, and rules and searches name containers that are as deep.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use super::faults::Faults;
use super::member::Text;
use crate::limits::{CONTAINER_CHARS_MAX, CONTAINER_SEGMENTS_MAX, CONTAINERS_SEGMENTS_MAX};

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

    /// How many segments it has; the root has none.
    fn segments(&self) -> usize {
        self.lineage().skip(1).count()
    }
}

/// The `containers` in which a request puts a token, each once. The token lies in some `before`, if it is there already:
/// those may be as they are.
pub fn places(
    texts: Vec<Text<Container>>,
    before: &[Container],
    faults: &mut Faults,
) -> Vec<Container> {
    let is_new = |container: &Container| !before.contains(container);
    let mut containers = Vec::with_capacity(texts.len());
    for (index, Text(container)) in texts.into_iter().enumerate() {
        if container.segments() > CONTAINER_SEGMENTS_MAX && is_new(&container) {
            let message = format!("must have at most {CONTAINER_SEGMENTS_MAX} segments");
            faults.add(format!("containers[{index}]"), message);
        }
        if !containers.contains(&container) {
            containers.push(container);
        }
    }
    let together: usize = containers.iter().map(Container::segments).sum();
    if together > CONTAINERS_SEGMENTS_MAX && containers.iter().any(is_new) {
        let message = format!("must have at most {CONTAINERS_SEGMENTS_MAX} segments together");
        faults.add("containers", message);
    }
    containers
}

impl FromStr for Container {
    type Err = InvalidContainer;

    fn from_str(text: &str) -> Result<Self, InvalidContainer> {
        if text.chars().count() > CONTAINER_CHARS_MAX {
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
        let description = format!(
            "A path such as `/pci/high/`; `/` is the root. Those of a token have at most \
             {CONTAINER_SEGMENTS_MAX} segments each and {CONTAINERS_SEGMENTS_MAX} together"
        );
        let schema = ObjectBuilder::new()
            .schema_type(Type::String)
            .description(Some(description))
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
    use std::collections::BTreeMap;

    use super::{Container, Faults, InvalidContainer, Text, places};

    fn container(text: &str) -> Container {
        text.parse().unwrap()
    }

    /// A container of so many segments, other than those with other numbers.
    fn deep(number: usize, segments: usize) -> Container {
        container(&format!("/c{number}/{}", "s/".repeat(segments - 1)))
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

    #[test]
    fn a_token_is_put_no_deeper_than_it_may_be_but_stays_where_it_is() {
        let put = |containers: &[Container], before: &[Container]| {
            let mut faults = Faults::new();
            let texts = containers.iter().cloned().map(Text).collect();
            assert_eq!(places(texts, before, &mut faults), containers);
            let told = faults.into_map().into_iter();
            told.map(|(path, messages)| (path, messages.join(""))).collect::<BTreeMap<_, _>>()
        };
        let told =
            |path: &str, message: &str| BTreeMap::from([(path.to_owned(), message.to_owned())]);
        let nothing = BTreeMap::<String, String>::new();
        assert_eq!(put(&[Container::root(), deep(0, 1), deep(1, 16)], &[]), nothing);
        let (deeper, shallow) = (deep(2, 190), deep(3, 3));
        let each = told("containers[1]", "must have at most 16 segments");
        assert_eq!(put(&[shallow.clone(), deep(2, 17)], &[]), each);
        assert_eq!(put(&[shallow.clone(), deep(2, 17)], &[deep(4, 17)]), each);
        // Where it lies from a time before, it may stay, alone as well as beside others.
        let before = [deeper.clone(), deep(4, 17), shallow.clone()];
        for kept in [&before[..], &before[..1], &before[1..]] {
            assert_eq!(put(kept, &before), nothing);
        }
        assert_eq!(put(&[deep(4, 17), deep(5, 16)], &before), nothing);
        let together = told("containers", "must have at most 160 segments together");
        assert_eq!(put(&[deeper, deep(5, 1)], &before), together);
        let many: Vec<_> = (0..20).map(|number| deep(number, 8)).collect();
        assert_eq!(put(&many, &[]), nothing);
        assert_eq!(put(&[&many[1..], &[deep(0, 9)]].concat(), &[]), together);
        // Each counts once.
        let mut faults = Faults::new();
        let twice = many.iter().chain(&many).cloned().map(Text).collect();
        assert_eq!(places(twice, &[], &mut faults), many);
        assert!(faults.is_empty());
    }
}
