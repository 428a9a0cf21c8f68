use super::{Attribute, Condition, Operator, Rights, Rule, Subject, Transform};
use crate::model::container::Container;
use crate::model::permission::Permission;

fn containers(paths: &[&str]) -> Vec<Container> {
    paths.iter().map(|path| path.parse().unwrap()).collect()
}

fn at(containers: &[Container]) -> Subject<'_> {
    Subject { id: "some-id", containers }
}

fn rule(priority: u32, container: &str, transform: Transform, permissions: &[Permission]) -> Rule {
    Rule {
        description: None,
        priority,
        container: Some(container.parse().unwrap()),
        conditions: None,
        transform,
        permissions: permissions.to_vec(),
    }
}

#[test]
fn the_first_matching_rule_decides_whatever_the_order_it_was_given_in() {
    let rights = Rights::new(
        vec![],
        vec![
            rule(2, "/pci/", Transform::Reveal, &[Permission::TokenRead]),
            rule(1, "/pci/high/", Transform::Redact, &[Permission::TokenRead]),
        ],
    );
    let decide = |paths: &[&str]| rights.decide(Permission::TokenRead, at(&containers(paths)));
    assert_eq!(decide(&["/pci/high/"]), Some(Transform::Redact));
    assert_eq!(decide(&["/pci/high/eu/"]), Some(Transform::Redact));
    assert_eq!(decide(&["/pci/low/"]), Some(Transform::Reveal));
    assert_eq!(decide(&["/pci/"]), Some(Transform::Reveal));
    assert_eq!(decide(&["/general/"]), None);
    assert_eq!(decide(&["/general/", "/pci/low/"]), Some(Transform::Reveal));
}

#[test]
fn a_rule_that_does_not_grant_the_permission_is_passed_over() {
    let rights = Rights::new(
        vec![],
        vec![
            rule(1, "/", Transform::Redact, &[Permission::TokenCreate]),
            rule(2, "/", Transform::Reveal, &[Permission::TokenRead]),
        ],
    );
    let root = containers(&["/general/high/"]);
    assert_eq!(rights.decide(Permission::TokenRead, at(&root)), Some(Transform::Reveal));
    assert_eq!(rights.decide(Permission::TokenCreate, at(&root)), Some(Transform::Redact));
    assert_eq!(rights.decide(Permission::TokenDelete, at(&root)), None);
}

#[test]
fn permissions_are_a_last_rule_on_the_root() {
    let rights = Rights::new(
        vec![Permission::TokenRead, Permission::TokenUse],
        vec![rule(9, "/pci/", Transform::Redact, &[Permission::TokenRead])],
    );
    let elsewhere = containers(&["/bank/"]);
    assert_eq!(rights.decide(Permission::TokenRead, at(&elsewhere)), Some(Transform::Mask));
    assert_eq!(rights.decide(Permission::TokenUse, at(&elsewhere)), Some(Transform::Reveal));
    assert_eq!(
        rights.decide(Permission::TokenRead, at(&containers(&["/pci/"]))),
        Some(Transform::Redact)
    );
}

#[test]
fn every_container_must_be_covered_where_each_counts() {
    let rights =
        Rights::new(vec![], vec![rule(1, "/pci/", Transform::Mask, &[Permission::TokenCreate])]);
    let mixed = containers(&["/pci/high/", "/bank/"]);
    let uncovered = rights.first_uncovered(Permission::TokenCreate, at(&mixed));
    assert_eq!(uncovered.map(Container::as_str), Some("/bank/"));
    assert_eq!(rights.first_uncovered(Permission::TokenCreate, at(&mixed[..1])), None);
    assert!(rights.hold(Permission::TokenCreate));
    assert!(!rights.hold(Permission::TokenRead));
}
