//! Lists and searches of tokens (interface §4.1, §4.2; decisions §5).
//!
//! Both are one filter for the store: what is asked, and what the caller may see. Totals and pages arrive narrowed, and
//! each token is shown as its own deciding rule has it.

use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use super::TokenPage;
use super::filter::Lower;
use crate::limits::FILTER_VALUES_MAX;
use crate::model::container::{Container, InvalidContainer};
use crate::model::faults::Faults;
use crate::model::member::{FromJson as _, Member};
use crate::model::permission::marker::{TokenRead, TokenSearch};
use crate::query;
use crate::store::Filter;
use crate::vault::index::term;
use crate::vault::page::PageRequest;
use crate::vault::permit::Permit;
use crate::vault::{Error, Vault};

/// Which tokens a list shows: those that match every kind of filter that is given.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TokenFilter {
    /// With one of these ids.
    pub ids: Vec<String>,
    /// Of one of these types.
    pub types: Vec<String>,
    /// With one of these fingerprints.
    pub fingerprints: Vec<String>,
    /// In one of these containers; the flag says whether those below it count.
    pub containers: Vec<(Container, bool)>,
    /// With all of these metadata values.
    pub metadata: Vec<(String, String)>,
}

/// Body of `POST /tokens/search` (interface §4.2).
#[derive(Debug, Default, Deserialize, ToSchema)]
pub struct SearchTokens {
    /// The query; everything the caller may search when absent or empty. A date stands for its whole day (UTC): `[* TO
    /// 2030-08-26]` has what was made on that day, `{2030-08-26 TO *}` not. In a range a time is an instant, however exactly it
    /// is written; by itself, one to the second or minute stands for all of that.
    #[schema(value_type = Option<String>, example = r#"type:card AND metadata.customer:"17""#)]
    #[serde(default)]
    query: Member<String>,
    // No `default`: generators of clients take it for a member that is always there.
    /// Which page, from 1; 1 when absent.
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 2_147_483_647)]
    #[serde(default)]
    page: Member<u32>,
    /// Entries on a page; 20 when absent.
    #[schema(value_type = Option<u32>, minimum = 1, maximum = 100)]
    #[serde(default)]
    size: Member<u32>,
    /// A cursor from `pagination.next`, instead of `page`, which is then absent or 1.
    #[schema(value_type = Option<String>)]
    #[serde(default)]
    start: Member<String>,
}

/// The parameters of `GET /tokens` as an object, for formulas.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ListTokens {
    id: Member<Vec<String>>,
    r#type: Member<Vec<String>>,
    fingerprint: Member<Vec<String>>,
    container: Member<Vec<String>>,
    metadata: Member<Map<String, Value>>,
    page: Member<u32>,
    size: Member<u32>,
    start: Member<String>,
}

impl Vault {
    /// Lists the tokens that the caller may read.
    pub async fn list_tokens(
        &self,
        permit: &Permit<TokenRead>,
        filter: TokenFilter,
        request: &PageRequest,
    ) -> Result<TokenPage, Error> {
        let keys = self.keys(permit.tenant()).await?;
        let filter = filter.lower(Lower(&keys));
        self.page_of_tokens(permit, filter, request, "Token listed").await
    }

    /// Searches the tokens that the caller may search.
    pub async fn search_tokens(
        &self,
        permit: &Permit<TokenSearch>,
        body: SearchTokens,
    ) -> Result<TokenPage, Error> {
        let (query, request) = body.check()?;
        let keys = self.keys(permit.tenant()).await?;
        let filter = query.map_or(Filter::All, |query| Lower(&keys).query(&query));
        self.page_of_tokens(permit, filter, &request, "Token found by a search").await
    }
}

impl TokenFilter {
    /// Bounds what a page costs: a formula's filters are not bounded by an address.
    fn check(&self, faults: &mut Faults) {
        let Self { ids, types, fingerprints, containers, metadata } = self;
        let lengths =
            [ids.len(), types.len(), fingerprints.len(), containers.len(), metadata.len()];
        let names = ["id", "type", "fingerprint", "container", "metadata"];
        for (name, length) in names.into_iter().zip(lengths) {
            if length > FILTER_VALUES_MAX {
                faults.add(name, format!("must be at most {FILTER_VALUES_MAX} values"));
            }
        }
    }

    fn lower(self, lower: Lower<'_>) -> Filter {
        let mut parts = Vec::new();
        if !self.ids.is_empty() {
            parts.push(Filter::Ids(self.ids));
        }
        let mut any = |filters: Vec<Filter>| {
            if !filters.is_empty() {
                parts.push(Filter::Or(filters));
            }
        };
        any(self.types.iter().map(|name| lower.term(term::TYPE, &[name])).collect());
        let fingerprints = self.fingerprints.iter();
        any(fingerprints.map(|text| lower.term(term::FINGERPRINT, &[text])).collect());
        let containers = self.containers.iter().map(|(path, below)| {
            if *below { lower.within(path.as_str()) } else { lower.container(path.as_str()) }
        });
        any(containers.collect());
        parts.extend(self.metadata.iter().map(|(key, value)| lower.metadata(key, value)));
        Filter::And(parts)
    }
}

impl SearchTokens {
    fn check(self) -> Result<(Option<query::Query>, PageRequest), Faults> {
        let mut faults = Faults::new();
        let text = self.query.optional("query", &mut faults);
        let text = text.filter(|text| !text.trim().is_empty());
        let query = text.and_then(|text| faults.check("query", query::parse(&text)));
        let request = read_page(self.page, self.size, self.start, &mut faults);
        faults.into_result((query, request))
    }
}

impl ListTokens {
    /// Checks the parameters.
    pub fn check(self) -> Result<(TokenFilter, PageRequest), Faults> {
        let mut faults = Faults::new();
        let mut metadata = Vec::new();
        let members = self.metadata.optional("metadata", &mut faults).unwrap_or_default();
        for (key, value) in members {
            let text = faults.take(&format!("metadata.{key}"), String::from_json(value));
            metadata.extend(text.map(|text| (key, text)));
        }
        let containers = self.container.optional("container", &mut faults).unwrap_or_default();
        let containers = containers.iter().enumerate().filter_map(|(index, text)| {
            faults.check(&format!("container[{index}]"), parse_scope(text))
        });
        let containers = containers.collect();
        let mut texts = |name: &str, texts: Member<Vec<String>>| {
            let mut texts = texts.optional(name, &mut faults).unwrap_or_default();
            texts.sort_unstable();
            texts.dedup();
            texts
        };
        let filter = TokenFilter {
            ids: texts("id", self.id),
            types: texts("type", self.r#type),
            fingerprints: texts("fingerprint", self.fingerprint),
            containers,
            metadata,
        };
        filter.check(&mut faults);
        let request = read_page(self.page, self.size, self.start, &mut faults);
        faults.into_result((filter, request))
    }
}

/// Reads a container; a trailing `*` means those below it too.
pub fn parse_scope(text: &str) -> Result<(Container, bool), InvalidContainer> {
    let (path, below) = text.strip_suffix('*').map_or((text, false), |path| (path, true));
    path.parse().map(|container| (container, below))
}

fn read_page(
    page: Member<u32>,
    size: Member<u32>,
    start: Member<String>,
    faults: &mut Faults,
) -> PageRequest {
    let page = page.optional("page", faults).map(|page| page.to_string());
    let size = size.optional("size", faults).map(|size| size.to_string());
    let start = start.optional("start", faults);
    PageRequest::parse(page.as_deref(), size.as_deref(), start.as_deref(), faults)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::ListTokens;
    use crate::limits::FILTER_VALUES_MAX;
    use crate::model::member;

    #[test]
    fn a_filter_has_so_many_values_and_each_counts_once() {
        let values = |count: usize| (0..count).map(|n| format!("value-{n}")).collect::<Vec<_>>();
        let list = |body| member::read::<ListTokens>(body).unwrap();
        let doubled = [values(FILTER_VALUES_MAX), values(FILTER_VALUES_MAX)].concat();
        let (filter, _) = list(json!({"id": doubled, "type": doubled})).check().unwrap();
        let lengths = (filter.ids.len(), filter.types.len());
        assert_eq!(lengths, (FILTER_VALUES_MAX, FILTER_VALUES_MAX));
        let many = values(FILTER_VALUES_MAX + 1);
        let containers: Vec<_> = many.iter().map(|name| format!("/{name}/")).collect();
        let metadata: serde_json::Map<_, _> =
            many.iter().map(|name| (name.clone(), json!("v"))).collect();
        let body = json!({"id": many, "type": many, "fingerprint": many, "container": containers,
            "metadata": metadata});
        let faults = list(body).check().unwrap_err();
        for name in ["id", "type", "fingerprint", "container", "metadata"] {
            assert!(faults.concern(name), "{name}");
        }
    }
}
