//! What the log says of a change beside that there was one: members, permissions, rules, settings, ids and digests, so that
//! who looks into what could be done at a time needs no copies from before. Never what is sensitive: configurations, names.

use std::collections::BTreeSet;

use super::tenants::TenantSettings;
use crate::model::container::Container;
use crate::model::formula::{Formula, Reactor};
use crate::model::permission::Permission;
use crate::model::rule::{Condition, Rule, Transform};

/// Rules that an entry names, at most.
const RULES_NAMED_MAX: usize = 10;

/// A message with what else is to be said, if anything is.
pub fn said(message: &str, more: &[String]) -> String {
    if more.is_empty() { message.to_owned() } else { format!("{message}: {}", more.join("; ")) }
}

/// Rights that are granted, on all containers and by rules.
pub fn granted(permissions: &[Permission], rules: &[Rule]) -> Vec<String> {
    let everywhere = (!permissions.is_empty()).then(|| format!("granted {}", names(permissions)));
    everywhere.into_iter().chain(by_rules("rule", rules.iter())).collect()
}

/// Rules that are others than before: which there are now, and which are not any more.
pub fn of_rules(before: &[Rule], now: &[Rule]) -> Vec<String> {
    let [was, is] = [before, now].map(|rules| rules.iter().map(rights).collect::<Vec<_>>());
    let new = now.iter().zip(&is).filter(|(_, own)| !was.contains(own));
    let gone = before.iter().zip(&was).filter(|(_, own)| !is.contains(own));
    let mut told = by_rules("rule", new.map(|(rule, _)| rule));
    told.extend(by_rules("withdrawn rule", gone.map(|(rule, _)| rule)));
    if told.is_empty() && before != now {
        // What they are for, perhaps.
        told.push("other rules".to_owned());
    }
    told
}

/// What of a rule decides about anything.
type Rights<'r> = (u32, Option<&'r Container>, Option<&'r [Condition]>, Transform, String);

fn rights(rule: &Rule) -> Rights<'_> {
    let Rule { priority, container, conditions, transform, permissions, .. } = rule;
    (*priority, container.as_ref(), conditions.as_deref(), *transform, names(permissions))
}

fn by_rules<'r>(word: &str, rules: impl Iterator<Item = &'r Rule>) -> Vec<String> {
    let rules: Vec<&Rule> = rules.collect();
    let (first, rest) = rules.split_at(rules.len().min(RULES_NAMED_MAX));
    let named = first.iter().map(|rule| {
        let place = rule.container.as_ref().map(|container| format!("on {container}"));
        let place = place.unwrap_or_else(|| "by conditions".to_owned());
        let Rule { priority, transform, permissions, .. } = rule;
        format!("{word} {priority} {transform} {place}: {}", names(permissions))
    });
    let mut told: Vec<String> = named.collect();
    if !rest.is_empty() {
        let shown: BTreeSet<Transform> = rest.iter().map(|rule| rule.transform).collect();
        let shown: Vec<String> = shown.iter().map(ToString::to_string).collect();
        let granted: Vec<Permission> =
            rest.iter().flat_map(|rule| rule.permissions.iter().copied()).collect();
        let (count, shown) = (rest.len(), shown.join(", "));
        told.push(format!("{count} more of {word} {shown}: {}", names(&granted)));
    }
    told
}

fn names(permissions: &[Permission]) -> String {
    let sorted: BTreeSet<String> = permissions.iter().map(ToString::to_string).collect();
    sorted.into_iter().collect::<Vec<_>>().join(", ")
}

/// Members that are others than before.
pub fn others(members: &[(&str, bool)]) -> Vec<String> {
    let differing = members.iter().filter(|(_, differs)| *differs);
    differing.map(|(member, _)| format!("other {member}")).collect()
}

/// What a new formula is.
pub fn of_new_formula(made: &Formula) -> String {
    said("Formula created", &[format!("code, SHA-256 {}", made.component_digest)])
}

/// What a new reactor is.
pub fn of_new_reactor(made: &Reactor) -> String {
    let acts = made.application_id.map(|id| format!("acts as application {id}"));
    said("Reactor created", acts.as_slice())
}

/// What is another in a formula.
pub fn of_formula(before: &Formula, now: &Formula) -> String {
    let mut more = Vec::new();
    if now.component_digest != before.component_digest {
        more.push(format!("other code, SHA-256 {}", now.component_digest));
    }
    more.extend(others(&[
        ("configuration", now.configuration != before.configuration),
        ("request_parameters", now.request_parameters != before.request_parameters),
        ("undeclared_arguments", now.undeclared_arguments != before.undeclared_arguments),
        ("allowed_hosts", now.allowed_hosts != before.allowed_hosts),
        ("limits", now.limits != before.limits),
        ("name", now.name != before.name),
        ("description", now.description != before.description),
        ("icon", now.icon != before.icon),
    ]));
    said("Formula updated", &more)
}

/// What is another in a reactor.
pub fn of_reactor(before: &Reactor, now: &Reactor) -> String {
    let mut more = Vec::new();
    if now.application_id != before.application_id {
        more.push(match now.application_id {
            Some(id) => format!("acts as application {id}"),
            None => "acts as whoever calls it".to_owned(),
        });
    }
    more.extend(others(&[
        ("configuration", now.configuration != before.configuration),
        ("name", now.name != before.name),
    ]));
    said("Reactor updated", &more)
}

/// What is another in a tenant.
pub fn of_tenant(before: (&str, TenantSettings), now: (&str, TenantSettings)) -> String {
    let ((name_before, before), (name, now)) = (before, now);
    let mut more = Vec::new();
    if now.cvc_retention_minutes != before.cvc_retention_minutes {
        more.push(format!("cvc_retention_minutes {}", now.cvc_retention_minutes));
    }
    if now.deduplicate_tokens != before.deduplicate_tokens {
        more.push(format!("deduplicate_tokens {}", now.deduplicate_tokens));
    }
    more.extend(others(&[("name", name != name_before)]));
    said("Tenant updated", &more)
}

#[cfg(test)]
mod tests {
    use super::{RULES_NAMED_MAX, granted, of_rules, others, said};
    use crate::model::permission::Permission::{TokenCreate, TokenRead};
    use crate::model::rule::Rule;

    #[test]
    fn a_message_says_what_there_is_to_be_said() {
        assert_eq!(said("Reactor updated", &others(&[("name", false)])), "Reactor updated");
        let more = others(&[("name", true), ("limits", false), ("icon", true)]);
        assert_eq!(said("Formula updated", &more), "Formula updated: other name; other icon");
        let rule: Rule = serde_json::from_value(serde_json::json!({
            "priority": 1, "container": "/a/", "transform": "mask", "permissions": ["token:read"],
        }))
        .unwrap();
        for (permissions, rules, expected) in [
            (vec![], vec![], "Session authorized"),
            (
                vec![TokenRead, TokenCreate],
                vec![],
                "Session authorized: granted token:create, token:read",
            ),
            (vec![], vec![rule.clone()], "Session authorized: rule 1 mask on /a/: token:read"),
            (
                vec![TokenCreate],
                vec![rule.clone(), rule.clone()],
                "Session authorized: granted token:create; rule 1 mask on /a/: token:read; \
                    rule 1 mask on /a/: token:read",
            ),
        ] {
            assert_eq!(said("Session authorized", &granted(&permissions, &rules)), expected);
        }
    }

    #[test]
    fn of_rules_it_is_said_which_are_others() {
        let rule =
            |priority: u32, container: &str, transform: &str, permissions: &[&str]| -> Rule {
                serde_json::from_value(serde_json::json!({
                    "priority": priority, "container": container, "transform": transform,
                    "permissions": permissions,
                }))
                .unwrap()
            };
        let both = ["token:use", "token:read"];
        let [mask, reveal] = ["mask", "reveal"].map(|transform| rule(1, "/a/", transform, &both));
        let other = rule(2, "/b/", "redact", &["token:read"]);
        let described = Rule { description: Some("in other words".to_owned()), ..mask.clone() };
        for (before, now, told) in [
            (vec![], vec![], vec![]),
            (vec![mask.clone()], vec![mask.clone()], vec![]),
            (vec![mask.clone()], vec![described], vec!["other rules"]),
            (
                vec![mask.clone()],
                vec![rule(1, "/a/", "mask", &["token:read", "token:use"])],
                vec!["other rules"],
            ),
            (
                vec![mask.clone(), other.clone()],
                vec![other.clone(), reveal.clone()],
                vec![
                    "rule 1 reveal on /a/: token:read, token:use",
                    "withdrawn rule 1 mask on /a/: token:read, token:use",
                ],
            ),
            (vec![other.clone()], vec![], vec!["withdrawn rule 2 redact on /b/: token:read"]),
            (
                vec![other.clone()],
                vec![Rule { priority: 3, ..other.clone() }],
                vec![
                    "rule 3 redact on /b/: token:read",
                    "withdrawn rule 2 redact on /b/: token:read",
                ],
            ),
            (vec![mask.clone(), other.clone()], vec![other, mask], vec!["other rules"]),
        ] {
            assert_eq!(of_rules(&before, &now), told);
        }
        // Of many, what the rest grants is said all the same.
        let mut many: Vec<Rule> =
            (1..=10).map(|n| rule(n, "/a/", "redact", &["token:read"])).collect();
        many.push(rule(11, "/a/", "mask", &["token:use"]));
        many.push(rule(12, "/", "reveal", &["token:search", "token:read"]));
        let told = of_rules(&[], &many);
        assert_eq!(told.len(), RULES_NAMED_MAX + 1);
        assert_eq!(told[10], "2 more of rule mask, reveal: token:read, token:search, token:use");
    }
}
