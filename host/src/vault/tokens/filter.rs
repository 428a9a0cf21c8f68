//! From what is asked to a filter of the store: what a caller may see, and what a query or a list wants.
//!
//! To make a field searchable: index it where a token says what it is found by, and lower its term here.

use std::ops::Bound;

use uuid::Uuid;
use zeroize::Zeroizing;

use crate::crypto::keys::TenantKeys;
use crate::model::case::stored_forms;
use crate::model::permission::Permission;
use crate::model::rule::{Attribute, Condition, Operator, Rights, Rule};
use crate::query::{Query, Term, TextField, TimeField};
use crate::store::Filter;
use crate::vault::index::{number, term, term_of};

/// Lowers conditions with the keys of one tenant.
#[derive(Clone, Copy)]
pub struct Lower<'k>(pub &'k TenantKeys);

impl Lower<'_> {
    /// The tokens for which a caller with these rights holds the permission (decisions §2).
    pub fn visible(self, rights: &Rights, permission: Permission) -> Filter {
        let own = if rights.hold_everywhere(permission) {
            Filter::All
        } else {
            Filter::Or(rights.granting(permission).map(|rule| self.covered(rule)).collect())
        };
        match rights.bounds() {
            None => own,
            Some(bounds) => Filter::And(vec![own, self.visible(bounds, permission)]),
        }
    }

    fn covered(self, rule: &Rule) -> Filter {
        let conditions = rule.conditions.as_deref().unwrap_or_default();
        let Some(prefix) = longest_prefix(conditions) else { return Filter::Nothing };
        let container = rule.container.iter().map(|scope| self.within(scope.as_str()));
        let others = conditions.iter().filter_map(|one| self.condition(one));
        let prefix = Some(prefix).filter(|prefix| !prefix.is_empty());
        let prefix = prefix.map(|prefix| Filter::IdPrefix(prefix.to_owned()));
        let parts: Vec<Filter> = container.chain(others).chain(prefix).collect();
        if parts.is_empty() { Filter::Nothing } else { Filter::And(parts) }
    }

    /// What a condition says that is not of the beginning of an id.
    fn condition(self, condition: &Condition) -> Option<Filter> {
        let value = &condition.value;
        match (condition.attribute, condition.operator) {
            (Attribute::Id, Operator::Equals) => Some(Filter::Ids(vec![value.clone()])),
            (Attribute::Id, Operator::StartsWith) => None,
            (Attribute::Container, Operator::Equals) => Some(self.container(value)),
            (Attribute::Container, Operator::StartsWith) => Some(self.within(value)),
        }
    }

    /// By an application's id, however that is written.
    fn actor(self, field: &str, id: &str) -> Filter {
        let drawn = Uuid::try_parse(id).ok().map(|id| id.to_string());
        self.term(field, &[drawn.as_deref().unwrap_or(id)])
    }

    /// What a query means.
    pub fn query(self, query: &Query) -> Filter {
        match query {
            Query::Term(term) => self.query_term(term),
            Query::And(parts) => Filter::And(parts.iter().map(|part| self.query(part)).collect()),
            Query::Or(parts) => Filter::Or(parts.iter().map(|part| self.query(part)).collect()),
            Query::Not(part) => Filter::Not(Box::new(self.query(part))),
        }
    }

    fn query_term(self, term: &Term) -> Filter {
        match term {
            Term::Nothing => Filter::Nothing,
            Term::Container(path) => self.container(path),
            Term::ContainerWithin(path) => self.within(path),
            Term::Text(TextField::Id, id) => Filter::Ids(vec![id.clone()]),
            Term::Text(TextField::Type, name) => self.term(term::TYPE, &[name]),
            Term::Text(TextField::Fingerprint, text) => self.term(term::FINGERPRINT, &[text]),
            Term::Text(TextField::CreatedBy, id) => self.actor(term::CREATED_BY, id),
            Term::Text(TextField::ModifiedBy, id) => self.actor(term::MODIFIED_BY, id),
            Term::Text(TextField::Data, text) => self.caseless(term::DATA, &[], text),
            Term::Text(TextField::Metadata(key), value) => self.metadata(key, value),
            Term::Time { field, from, to } => {
                let from = from.map_or(Bound::Unbounded, |from| Bound::Included(from.0));
                let to = to.map_or(Bound::Unbounded, |to| Bound::Included(to.0));
                match field {
                    TimeField::CreatedAt => Filter::Order { from, to },
                    TimeField::ModifiedAt => Filter::Range { field: number::MODIFIED_AT, from, to },
                }
            }
        }
    }

    /// Tokens with this metadata value, ignoring case.
    pub fn metadata(self, key: &str, value: &str) -> Filter {
        self.caseless(term::METADATA, &[key], value)
    }

    /// Tokens in this very container.
    pub fn container(self, path: &str) -> Filter {
        self.term(term::CONTAINER, &[path])
    }

    /// Tokens in this container or below it.
    pub fn within(self, path: &str) -> Filter {
        self.term(term::CONTAINER_WITHIN, &[path])
    }

    /// Tokens with this text, ignoring case, under a name.
    fn caseless(self, field: &str, name: &[&str], text: &str) -> Filter {
        let form = |form: Zeroizing<String>| self.term(field, &[name, &[&form]].concat());
        let mut forms: Vec<Filter> = stored_forms(text).map(form).collect();
        if forms.len() == 1 { forms.remove(0) } else { Filter::Or(forms) }
    }

    /// Tokens with this term.
    pub fn term(self, field: &str, value: &[&str]) -> Filter {
        Filter::Term(term_of(self.0, field, value))
    }
}

/// What an id begins with for which all of these conditions hold: the longest of what they want, which has to begin with
/// the others; nothing where no id does. To look for each of them by itself would take as long as there are conditions.
fn longest_prefix(conditions: &[Condition]) -> Option<&str> {
    let is_prefix =
        |one: &&Condition| (one.attribute, one.operator) == (Attribute::Id, Operator::StartsWith);
    let prefixes = || conditions.iter().filter(is_prefix).map(|one| one.value.as_str());
    let longest = prefixes().max_by_key(|prefix| prefix.len()).unwrap_or_default();
    prefixes().all(|one| longest.starts_with(one)).then_some(longest)
}

#[cfg(test)]
mod tests {
    use super::{Attribute, Condition, Operator, longest_prefix};

    #[test]
    fn of_beginnings_that_hold_together_the_longest_says_all() {
        let longest = |values: &[(Operator, &str)]| {
            let condition = |(operator, value): &(Operator, &str)| Condition {
                attribute: Attribute::Id,
                operator: *operator,
                value: (*value).to_owned(),
            };
            let conditions: Vec<Condition> = values.iter().map(condition).collect();
            longest_prefix(&conditions).map(str::to_owned)
        };
        let begins = Operator::StartsWith;
        assert_eq!(longest(&[]).as_deref(), Some(""));
        assert_eq!(longest(&[(Operator::Equals, "user-1")]).as_deref(), Some(""));
        let some = longest(&[(begins, "user"), (begins, "user-1"), (begins, "u")]);
        assert_eq!(some.as_deref(), Some("user-1"));
        assert_eq!(longest(&[(begins, "user"), (begins, "card-")]), None);
        assert_eq!(longest(&[(begins, "é"), (begins, "e")]), None);
    }
}
