//! Query parameters: repeated ones too, which axum's own extractor cannot read.
//!
//! `id=a&id=b` and `id[]=a&id[]=b` mean the same (decisions §1). So do `metadata.k=v` and
//! `metadata[k]=v`: clients made of the description write the latter, since OpenAPI has no style
//! for the former.

use std::fmt::Display;
use std::str::FromStr;

use axum::extract::FromRequestParts;
use http::request::Parts;
use percent_encoding::percent_decode_str;

use super::State;
use super::problem::Rejection;
use crate::model::container::Container;
use crate::model::faults::Faults;
use crate::vault::{Error, PageRequest, parse_scope};

/// The parameters of a query, in their order, and what is found wrong with them as they are read. One that nobody reads is
/// wrong too: a list that did not hear of a filter would hold more than was asked for.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Query {
    parameters: Vec<(String, String)>,
    /// The names that were looked for, each with whether it is the beginning of some.
    known: Vec<(String, bool)>,
    faults: Faults,
}

impl FromRequestParts<State> for Query {
    type Rejection = Rejection;

    async fn from_request_parts(parts: &mut Parts, _: &State) -> Result<Self, Rejection> {
        Ok(Self::parse(parts.uri.query().unwrap_or_default()))
    }
}

impl Query {
    fn parse(text: &str) -> Self {
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
        Self { parameters, known: Vec::new(), faults }
    }

    /// What was read of it, if nothing was wrong: all parameters that there may be have been looked for by now.
    pub fn checked<T>(mut self, read: T) -> Result<T, Error> {
        let takes = |found: &str| {
            self.known.iter().any(|(name, begins)| {
                found == name || (*begins && found.starts_with(name.as_str()))
            })
        };
        for (name, _) in self.parameters.iter().filter(|(name, _)| !takes(name)) {
            self.faults.add(name, "is no parameter of this operation");
        }
        Ok(self.faults.into_result(read)?)
    }

    /// The first value of a parameter.
    pub fn first(&mut self, name: &str) -> Option<&str> {
        self.known.push((name.to_owned(), false));
        self.value(name)
    }

    fn value(&self, name: &str) -> Option<&str> {
        let found = self.parameters.iter().find(|(found, _)| found == name);
        found.map(|(_, value)| value.as_str())
    }

    /// Every value of a parameter, parsed.
    pub fn every<T>(&mut self, name: &str) -> Vec<T>
    where
        T: FromStr<Err: Display>,
    {
        self.each(name, str::parse)
    }

    /// The first value of a parameter, parsed.
    pub fn parsed<T>(&mut self, name: &str) -> Option<T>
    where
        T: FromStr<Err: Display>,
    {
        self.read(name, str::parse)
    }

    /// The first value of a parameter, read like this.
    pub fn read<T, E: Display>(
        &mut self,
        name: &str,
        read: impl FnOnce(&str) -> Result<T, E>,
    ) -> Option<T> {
        let read = self.first(name).map(read)?;
        self.faults.check(name, read)
    }

    fn each<T, E: Display>(&mut self, name: &str, read: impl Fn(&str) -> Result<T, E>) -> Vec<T> {
        let Self { parameters, known, faults } = self;
        known.push((name.to_owned(), false));
        let values = parameters.iter().filter(|(found, _)| found == name);
        values.filter_map(|(_, value)| faults.check(name, read(value))).collect()
    }

    /// The parameters whose names begin so, less that beginning; a name that is repeated counts once.
    pub fn under(&mut self, prefix: &str) -> Vec<(String, String)> {
        self.known.push((prefix.to_owned(), true));
        let mut found: Vec<(String, String)> = Vec::new();
        for (name, value) in &self.parameters {
            if let Some(key) = name.strip_prefix(prefix)
                && !found.iter().any(|(known, _)| known == key)
            {
                found.push((key.to_owned(), value.clone()));
            }
        }
        found
    }

    /// The members of an object, by their keys: a member without a key would narrow nothing, or find nothing.
    pub fn members(&mut self, object: &str) -> Vec<(String, String)> {
        let members = self.under(&format!("{object}."));
        let is_whole = |name: &str| {
            let rest = name.strip_prefix(object);
            rest.is_some_and(|rest| matches!(rest, "" | ".") || rest.starts_with('['))
        };
        let whole = self.parameters.iter().filter(|(name, _)| is_whole(name));
        let whole: Vec<_> = whole.map(|(name, _)| (name.clone(), false)).collect();
        if !whole.is_empty() {
            self.known.extend(whole);
            self.faults.add(object, format!("must name a key, such as {object}.customer"));
        }
        members
    }

    /// The containers of `container`, with a flag for a trailing `*`.
    pub fn containers(&mut self) -> Vec<(Container, bool)> {
        self.each("container", parse_scope)
    }

    /// Which page is asked for.
    pub fn page(&mut self) -> PageRequest {
        let mut faults = std::mem::take(&mut self.faults);
        let names = ["page", "size", "start"];
        self.known.extend(names.map(|name| (name.to_owned(), false)));
        let [page, size, start] = names.map(|name| self.value(name));
        let page = PageRequest::parse(page, size, start, &mut faults);
        self.faults = faults;
        page
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
    use super::{Error, Query};

    /// The parameters that are found wrong where these are read.
    fn faults_of(text: &str, names: &[&str]) -> Vec<String> {
        let mut query = Query::parse(text);
        query.page();
        query.members("metadata");
        for name in names {
            query.first(name);
        }
        match query.checked(()) {
            Ok(()) => Vec::new(),
            Err(Error::Invalid(faults)) => faults.into_map().into_keys().collect(),
            Err(error) => panic!("{error}"),
        }
    }

    #[test]
    fn a_parameter_that_nobody_reads_is_refused() {
        for text in ["", "id=1", "page=1&size=2&id[]=x", "metadata.a=1&metadata[b]=2&start="] {
            assert!(faults_of(text, &["id"]).iter().all(|name| name == "start"), "{text}");
        }
        for (text, expected) in [
            ("ids=1&id=2", &["ids"][..]),
            ("ID=1&container=/a/&x", &["ID", "container", "x"]),
            ("page=0&sort=id", &["page", "sort"]),
            ("metadata=1&metadat.a=1", &["metadat.a", "metadata"]),
            ("=1", &[""]),
        ] {
            assert_eq!(faults_of(text, &["id"]), expected, "{text}");
        }
    }

    #[test]
    fn repeated_parameters_in_both_spellings() {
        let mut query = Query::parse("id=a&id[]=b&id%5B%5D=c%20d&size=5&x");
        assert_eq!(query.every::<String>("id"), ["a", "b", "c d"]);
        assert_eq!(query.first("size"), Some("5"));
        assert_eq!(query.first("x"), Some(""));
        assert_eq!(query.first("absent"), None);
        assert!(query.checked(()).is_ok() && faults_of("a=%ff", &["a"]) == ["a"]);
        // Some clients number them; a number may be the name of a member of metadata.
        let mut query = Query::parse("id[0]=a&id%5B1%5D=b&metadata[0]=c");
        assert_eq!(query.every::<String>("id"), ["a", "b"]);
        assert_eq!(query.under("metadata."), [("0".to_owned(), "c".to_owned())]);
    }

    #[test]
    fn members_in_both_spellings() {
        let mut query = Query::parse("metadata.a=1&metadata[b]=2&metadata%5Bc.d%5D=3&x[y");
        let found = query.under("metadata.");
        let found: Vec<_> =
            found.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        assert_eq!(found, [("a", "1"), ("b", "2"), ("c.d", "3")]);
        assert_eq!(query.first("x[y"), Some(""));
        let mut bracketed = Query::parse(
            "metadata.a[b]=1&metadata[c[d]]=2&metadata.e[]=3&metadata[f.g][]=4&metadata[h[]=5",
        );
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
            let mut query = Query::parse(text);
            query.members("metadata");
            assert_eq!(query.faults.into_map().keys().collect::<Vec<_>>(), ["metadata"], "{text}");
        }
        let mut query = Query::parse("metadata.a=1&metadata[b]=2");
        assert_eq!(query.members("metadata").len(), 2);
        assert!(query.checked(()).is_ok());
    }

    #[test]
    fn a_value_that_is_no_text_is_named() {
        let mut query = Query::parse("page=%FF&%FF=1&metadata[a]=%FF&size=x");
        // With all else that is wrong.
        query.page();
        let paths = query.faults.into_map().into_keys().collect::<Vec<_>>();
        assert_eq!(paths, ["", "metadata.a", "page", "size"]);
    }

    #[test]
    fn what_does_not_parse_is_named() {
        let mut query = Query::parse("id=1&id=x");
        assert_eq!(query.every::<u8>("id"), [1]);
        assert!(query.faults.concern("id"));
    }
}
