//! Query parameters: repeated ones too, which axum's own extractor cannot read.
//!
//! `id=a&id=b` and `id[]=a&id[]=b` mean the same (decisions §1). So do `metadata.k=v` and
//! `metadata[k]=v`: clients made of the description write the latter, since OpenAPI has no style
//! for the former.

use std::str::FromStr;

use axum::extract::FromRequestParts;
use http::request::Parts;
use percent_encoding::percent_decode_str;

use super::State;
use super::problem::Rejection;
use crate::model::container::Container;
use crate::model::faults::Faults;
use crate::vault::{Error, PageRequest, parse_scope};

/// The parameters of a query, in their order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query(Vec<(String, String)>);

impl FromRequestParts<State> for Query {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, _: &State) -> Result<Self, Rejection> {
        Ok(Self::parse(parts.uri.query().unwrap_or_default()).map_err(Error::from)?)
    }
}

impl Query {
    fn parse(text: &str) -> Result<Self, Faults> {
        let mut faults = Faults::new();
        let mut parameters = Vec::new();
        for pair in text.split('&').filter(|pair| !pair.is_empty()) {
            let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
            match (decode(name), decode(value)) {
                (Some(name), Some(value)) => parameters.push((plain(&name), value)),
                (Some(name), None) => faults.add(plain(&name), "is no UTF-8"),
                (None, _) => faults.add("", "the name of a query parameter is no UTF-8"),
            }
        }
        faults.into_result(Self(parameters))
    }

    /// The first value of a parameter.
    pub fn first(&self, name: &str) -> Option<&str> {
        self.0.iter().find(|(found, _)| found == name).map(|(_, value)| value.as_str())
    }

    /// Every value of a parameter, parsed.
    pub fn every<T>(&self, name: &str, faults: &mut Faults) -> Vec<T>
    where
        T: FromStr<Err: std::fmt::Display>,
    {
        let values = self.0.iter().filter(|(found, _)| found == name);
        values.filter_map(|(_, value)| faults.check(name, value.parse())).collect()
    }

    /// The first value of a parameter, parsed.
    pub fn parsed<T>(&self, name: &str, faults: &mut Faults) -> Option<T>
    where
        T: FromStr<Err: std::fmt::Display>,
    {
        self.first(name).and_then(|value| faults.check(name, value.parse()))
    }

    /// The parameters whose names begin so, less that beginning; a name that is repeated counts once.
    pub fn under(&self, prefix: &str) -> Vec<(String, String)> {
        let mut found: Vec<(String, String)> = Vec::new();
        for (name, value) in &self.0 {
            if let Some(key) = name.strip_prefix(prefix)
                && !found.iter().any(|(known, _)| known == key)
            {
                found.push((key.to_owned(), value.clone()));
            }
        }
        found
    }

    /// The members of an object, by their keys: a member without a key would narrow nothing, or find nothing.
    pub fn members(&self, object: &str, faults: &mut Faults) -> Vec<(String, String)> {
        let members = self.under(&format!("{object}."));
        let is_whole = |name: &str| {
            let rest = name.strip_prefix(object);
            rest.is_some_and(|rest| matches!(rest, "" | ".") || rest.starts_with('['))
        };
        if self.0.iter().any(|(name, _)| is_whole(name)) {
            faults.add(object, format!("must name a key, such as {object}.customer"));
        }
        members
    }

    /// The containers of `container`, with a flag for a trailing `*`.
    pub fn containers(&self, faults: &mut Faults) -> Vec<(Container, bool)> {
        let values = self.0.iter().filter(|(name, _)| name == "container");
        values.filter_map(|(_, value)| faults.check("container", parse_scope(value))).collect()
    }

    /// Which page is asked for.
    pub fn page(&self, faults: &mut Faults) -> PageRequest {
        PageRequest::parse(self.first("page"), self.first("size"), self.first("start"), faults)
    }
}

/// A parameter's name without brackets, where they mean a repetition (at the end) or a member; others of a metadata key
/// stay.
fn plain(name: &str) -> String {
    // Of a key that follows a point, brackets are a part.
    let is_dotted = name.split('[').next().is_some_and(|object| object.contains('.'));
    let repeated =
        name.strip_suffix("[]").filter(|rest| !rest.contains('[') || rest.ends_with(']'));
    let name = if is_dotted { name } else { repeated.unwrap_or(name) };
    if let Some((object, key)) = name.split_once('[')
        && let Some(key) = key.strip_suffix(']')
        && !object.contains('.')
    {
        if object != "metadata" && key.bytes().all(|byte| byte.is_ascii_digit()) {
            return object.to_owned();
        }
        return format!("{object}.{key}");
    }
    name.to_owned()
}

/// Undoes form encoding: `+` is a space, `%XX` a byte.
fn decode(text: &str) -> Option<String> {
    let spaced = text.replace('+', " ");
    percent_decode_str(&spaced).decode_utf8().ok().map(std::borrow::Cow::into_owned)
}

#[cfg(test)]
mod tests {
    use super::Query;
    use crate::model::faults::Faults;

    #[test]
    fn repeated_parameters_in_both_spellings() {
        let query = Query::parse("id=a&id[]=b&id%5B%5D=c%20d&size=5&x").unwrap();
        let mut faults = Faults::new();
        assert_eq!(query.every::<String>("id", &mut faults), ["a", "b", "c d"]);
        assert_eq!(query.first("size"), Some("5"));
        assert_eq!(query.first("x"), Some(""));
        assert_eq!(query.first("absent"), None);
        assert!(Query::parse("a=%ff").is_err());
        // Some clients number them; a number may be the name of a member of metadata.
        let query = Query::parse("id[0]=a&id%5B1%5D=b&metadata[0]=c").unwrap();
        assert_eq!(query.every::<String>("id", &mut faults), ["a", "b"]);
        assert_eq!(query.under("metadata."), [("0".to_owned(), "c".to_owned())]);
    }

    #[test]
    fn members_in_both_spellings() {
        let query = Query::parse("metadata.a=1&metadata[b]=2&metadata%5Bc.d%5D=3&x[y").unwrap();
        let found = query.under("metadata.");
        let found: Vec<_> =
            found.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(found, [("a", "1"), ("b", "2"), ("c.d", "3")]);
        assert_eq!(query.first("x[y"), Some(""));
        let bracketed = Query::parse(
            "metadata.a[b]=1&metadata[c[d]]=2&metadata.e[]=3&metadata[f.g][]=4&metadata[h[]=5",
        )
        .unwrap();
        let keys = bracketed.under("metadata.").into_iter().map(|(key, _)| key);
        assert_eq!(keys.collect::<Vec<_>>(), ["a[b]", "c[d]", "e[]", "f.g", "h["]);
    }

    #[test]
    fn a_member_without_a_key_is_refused() {
        for text in [
            "metadata=x",
            "metadata[]=x",
            "metadata.=x",
            "metadata[].=x",
            "metadata[a=x",
            "metadata",
            "metadata.a=1&metadata",
        ] {
            let mut faults = Faults::new();
            Query::parse(text).unwrap().members("metadata", &mut faults);
            assert_eq!(faults.into_map().keys().collect::<Vec<_>>(), ["metadata"], "{text}");
        }
        let mut faults = Faults::new();
        let query = Query::parse("metadata.a=1&metadata[b]=2&metadatas=3").unwrap();
        assert_eq!(query.members("metadata", &mut faults).len(), 2);
        assert!(faults.is_empty());
    }

    #[test]
    fn a_value_that_is_no_text_is_named() {
        let faults = Query::parse("page=%FF&%FF=1&metadata[a]=%FF").unwrap_err().into_map();
        assert_eq!(faults.keys().collect::<Vec<_>>(), ["", "metadata.a", "page"]);
    }

    #[test]
    fn what_does_not_parse_is_named() {
        let query = Query::parse("id=1&id=x").unwrap();
        let mut faults = Faults::new();
        assert_eq!(query.every::<u8>("id", &mut faults), [1]);
        assert!(faults.concern("id"));
    }
}
