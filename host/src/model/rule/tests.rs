use proptest::prelude::*;

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

fn conditional(transform: Transform, conditions: &[(Attribute, Operator, &str)]) -> Rule {
    let conditions = conditions.iter().map(|(attribute, operator, value)| Condition {
        attribute: *attribute,
        operator: *operator,
        value: (*value).to_owned(),
    });
    Rule {
        container: None,
        conditions: Some(conditions.collect()),
        ..rule(1, "/", transform, &[Permission::TokenRead])
    }
}

#[test]
fn all_conditions_must_hold() {
    use Attribute::{Container, Id};
    use Operator::{Equals, StartsWith};
    let table: [(&[_], bool); 10] = [
        (&[(Id, Equals, "cart-1")], true),
        (&[(Id, Equals, "cart")], false),
        (&[(Id, StartsWith, "cart-")], true),
        (&[(Id, StartsWith, "art")], false),
        (&[(Container, Equals, "/web/eu/")], true),
        (&[(Container, Equals, "/web/")], false),
        (&[(Container, StartsWith, "/web/")], true),
        (&[(Container, StartsWith, "/shop/")], false),
        (&[(Id, StartsWith, "cart-"), (Container, StartsWith, "/web/")], true),
        (&[(Id, StartsWith, "cart-"), (Container, StartsWith, "/shop/")], false),
    ];
    let lies_in = containers(&["/bank/", "/web/eu/"]);
    let token = Subject { id: "cart-1", containers: &lies_in };
    for (conditions, expected) in table {
        let rights = Rights::new(vec![], vec![conditional(Transform::Mask, conditions)]);
        let decided = rights.decide(Permission::TokenRead, token);
        assert_eq!(decided, expected.then_some(Transform::Mask), "{conditions:?}");
    }
}

#[test]
fn granted_rights_never_show_more_than_the_grantor_sees() {
    let read = &[Permission::TokenRead];
    let grantor = Rights::new(
        vec![],
        vec![rule(1, "/pci/", Transform::Redact, read), rule(2, "/", Transform::Mask, read)],
    );
    let all = vec![rule(1, "/", Transform::Reveal, read)];
    let granted = Rights::new(vec![Permission::TokenDelete], all).within(grantor);
    let decide = |paths: &[&str]| granted.decide(Permission::TokenRead, at(&containers(paths)));
    assert_eq!(decide(&["/bank/"]), Some(Transform::Mask));
    assert_eq!(decide(&["/pci/"]), Some(Transform::Redact));
    // The grantor's first rule decides for a token in both, and so it does here.
    assert_eq!(decide(&["/bank/", "/pci/"]), Some(Transform::Redact));
    assert!(!granted.hold(Permission::TokenDelete));
    assert_eq!(granted.decide(Permission::TokenDelete, at(&containers(&["/bank/"]))), None);
}

fn may_grant_rule(own: &Rights, rule: &Rule) -> bool {
    own.grantor().first_beyond(rule, std::slice::from_ref(rule)).is_none()
}

#[test]
fn what_may_be_granted() {
    let (read, both) = (Permission::TokenRead, &[Permission::TokenRead, Permission::TokenUse]);
    let own = Rights::new(
        vec![Permission::TokenUse],
        vec![
            rule(1, "/pci/high/", Transform::Redact, &[read]),
            rule(2, "/pci/", Transform::Reveal, &[read]),
        ],
    );
    assert!(own.grantor().may_grant(Permission::TokenUse, &[]));
    assert!(
        !own.grantor().may_grant(read, &[])
            && !own.grantor().may_grant(Permission::TokenCreate, &[])
    );
    let table = [
        (rule(1, "/pci/low/", Transform::Reveal, &[read]), true),
        (rule(1, "/pci/low/", Transform::Reveal, both), true),
        (rule(1, "/pci/", Transform::Redact, &[read]), true),
        // Below it lies what is seen redacted.
        (rule(1, "/pci/", Transform::Mask, &[read]), false),
        (rule(1, "/pci/high/eu/", Transform::Mask, &[read]), false),
        (rule(1, "/", Transform::Redact, &[read]), false),
        (rule(1, "/pci/low/", Transform::Mask, &[Permission::TokenDelete]), false),
        (conditional(Transform::Mask, &[(Attribute::Id, Operator::Equals, "x")]), false),
        (
            conditional(
                Transform::Reveal,
                &[(Attribute::Container, Operator::StartsWith, "/pci/low/")],
            ),
            true,
        ),
        // There, and nowhere below.
        (in_container(Operator::Equals, "/pci/"), true),
        (in_container(Operator::StartsWith, "/pci/"), false),
        (in_container(Operator::Equals, "/pci/high/"), false),
        (in_container(Operator::Equals, "/"), false),
    ];
    for (granted, expected) in table {
        assert_eq!(may_grant_rule(&own, &granted), expected, "{granted:?}");
    }
}

fn in_container(operator: Operator, value: &'static str) -> Rule {
    conditional(Transform::Reveal, &[(Attribute::Container, operator, value)])
}

/// What narrows comes with what it narrows: own rights may be granted as they are.
#[test]
fn what_is_granted_is_judged_by_what_decides() {
    let (read, use_) = (Permission::TokenRead, Permission::TokenUse);
    let own = vec![
        rule(1, "/pci/high/", Transform::Redact, &[read]),
        rule(2, "/pci/", Transform::Mask, &[read, use_]),
        rule(3, "/", Transform::Reveal, &[read]),
    ];
    let rights = Rights::new(vec![read, use_], own.clone());
    let beyond = |rules: &[Rule]| {
        let mut grantor = rights.grantor();
        rules.iter().position(|rule| grantor.first_beyond(rule, rules).is_some())
    };
    assert_eq!(beyond(&own), None);
    assert!(rights.grantor().may_grant(read, &own));
    // Without one of them, or with one that shows more, or after what it narrows.
    assert_eq!(beyond(&own[1..]), Some(0));
    assert_eq!(beyond(&own[2..]), Some(0));
    assert!(!rights.grantor().may_grant(read, &[]));
    let shows_more = rule(1, "/pci/high/", Transform::Mask, &[read]);
    assert_eq!(beyond(&[shows_more, own[1].clone(), own[2].clone()]), Some(0));
    let too_late = rule(9, "/pci/high/", Transform::Redact, &[read]);
    assert_eq!(beyond(&[too_late, own[1].clone(), own[2].clone()]), Some(1));
    // For another permission, or by a condition of which nobody knows what it leaves.
    let others = rule(1, "/pci/high/", Transform::Redact, &[use_]);
    assert_eq!(beyond(&[others, own[1].clone()]), Some(1));
    let by_condition = Rule { priority: 1, ..in_container(Operator::StartsWith, "/pci/high/") };
    let by_condition = Rule { transform: Transform::Redact, ..by_condition };
    assert_eq!(beyond(&[by_condition, own[1].clone()]), Some(1));
    // More is held back than needs to be.
    assert_eq!(beyond(&[rule(1, "/pci/", Transform::Redact, &[read]), own[2].clone()]), None);
}

#[test]
fn deleting_shows_nothing_and_is_granted_by_whoever_may_delete() {
    let (read, delete) = (Permission::TokenRead, Permission::TokenDelete);
    let shown = [Transform::Redact, Transform::Mask, Transform::Reveal];
    for own in shown {
        let rights = Rights::new(vec![], vec![rule(1, "/", own, &[read, delete])]);
        assert!(rights.grantor().may_grant(delete, &[]), "{own:?}");
        for granted in shown {
            assert!(
                may_grant_rule(&rights, &rule(1, "/a/", granted, &[delete])),
                "{own:?} {granted:?}"
            );
            let both = rule(1, "/a/", granted, &[read, delete]);
            assert_eq!(may_grant_rule(&rights, &both), granted <= own, "{own:?} {granted:?}");
        }
    }
    let by_permission = Rights::new(vec![delete], vec![]);
    assert!(may_grant_rule(&by_permission, &rule(1, "/", Transform::Reveal, &[delete])));
    assert!(!may_grant_rule(&by_permission, &rule(1, "/", Transform::Redact, &[read])));
    let below = Rights::new(vec![], vec![rule(1, "/a/", Transform::Reveal, &[delete])]);
    assert!(!below.grantor().may_grant(delete, &[]));
}

#[test]
fn the_order_of_conditions_decides_nothing_about_a_grant() {
    use Attribute::{Container, Id};
    use Operator::{Equals, StartsWith};
    let read = Permission::TokenRead;
    let own = Rights::new(
        vec![],
        vec![
            rule(1, "/pci/high/", Transform::Redact, &[read]),
            rule(2, "/pci/", Transform::Reveal, &[read]),
            rule(3, "/web/eu/", Transform::Mask, &[read]),
        ],
    );
    let table: [(&[_], Transform, bool); 9] = [
        // Within the grantor's by one of them, and by none.
        (&[(Id, StartsWith, "x"), (Container, StartsWith, "/pci/low/")], Transform::Reveal, true),
        (&[(Id, StartsWith, "x"), (Container, StartsWith, "/shop/")], Transform::Redact, false),
        (
            &[(Container, Equals, "/shop/"), (Container, Equals, "/pci/low/")],
            Transform::Reveal,
            true,
        ),
        (&[(Container, StartsWith, "/"), (Container, Equals, "/web/eu/")], Transform::Mask, true),
        // One below the other: the lower one is what the rule is about.
        (
            &[(Container, StartsWith, "/web/"), (Container, StartsWith, "/web/eu/de/")],
            Transform::Mask,
            true,
        ),
        (
            &[(Container, StartsWith, "/shop/"), (Container, Equals, "/bank/")],
            Transform::Redact,
            false,
        ),
        // Seen, but not so well.
        (
            &[(Container, Equals, "/shop/"), (Container, Equals, "/web/eu/")],
            Transform::Reveal,
            false,
        ),
        (
            &[(Container, StartsWith, "/pci/"), (Container, StartsWith, "/pci/high/")],
            Transform::Mask,
            false,
        ),
        (
            &[(Container, Equals, "/a/"), (Id, Equals, "x"), (Container, Equals, "/pci/low/")],
            Transform::Reveal,
            true,
        ),
    ];
    for (conditions, transform, expected) in table {
        let mut conditions = conditions.to_vec();
        // Every condition comes first once, and last once.
        for _ in 0..conditions.len() {
            let granted = conditional(transform, &conditions);
            assert_eq!(may_grant_rule(&own, &granted), expected, "{conditions:?}");
            conditions.rotate_left(1);
        }
    }
}

const PLACES: &[&str] = &["/", "/a/", "/a/b/", "/a/b/c/", "/a/bc/", "/d/"];
const IDS: &[&str] = &["x", "x1", "y"];

fn transforms() -> impl Strategy<Value = Transform> {
    prop::sample::select(&[Transform::Redact, Transform::Mask, Transform::Reveal][..])
}

/// Rights as a private application may have them.
fn grantors() -> impl Strategy<Value = Rights> {
    let rules = prop::collection::vec((prop::sample::select(PLACES), transforms()), 0..5);
    (any::<bool>(), rules).prop_map(|(everywhere, rules)| {
        let read = Permission::TokenRead;
        let rule = |(priority, (place, transform))| rule(priority, place, transform, &[read]);
        Rights::new(
            everywhere.then_some(read).into_iter().collect(),
            (1..).zip(rules).map(rule).collect(),
        )
    })
}

/// Rules as a session may be granted them.
fn conditionals() -> impl Strategy<Value = Rule> {
    let operator = || prop::sample::select(&[Operator::Equals, Operator::StartsWith][..]);
    let id = (Just(Attribute::Id), operator(), prop::sample::select(IDS));
    let place = (Just(Attribute::Container), operator(), prop::sample::select(PLACES));
    let conditions = prop::collection::vec(prop_oneof![1 => id, 3 => place], 1..4);
    (transforms(), conditions)
        .prop_map(|(transform, conditions)| conditional(transform, &conditions))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn nothing_is_granted_that_the_grantor_lacks(
        grantor in grantors(),
        granted in conditionals(),
        places in prop::sample::subsequence(PLACES, 1..3),
        id in prop::sample::select(IDS),
    ) {
        let lies_in = containers(&places);
        let token = Subject { id, containers: &lies_in };
        let read = Permission::TokenRead;
        let theirs = grantor.decide(read, token);
        let own = Rights::new(vec![], vec![granted.clone()]);
        let may = may_grant_rule(&grantor, &granted);
        let mut reversed = granted.clone();
        reversed.conditions.as_mut().unwrap().reverse();
        prop_assert_eq!(may_grant_rule(&grantor, &reversed), may);
        // What was granted is within the grantor's rights when it is granted. Of a token in several containers another
        // rule may decide than of one in each of them alone: there it is seen, though perhaps not so well.
        if let (true, Some(seen)) = (may, own.decide(read, token)) {
            prop_assert!(theirs.is_some());
            prop_assert!(places.len() > 1 || theirs >= Some(seen));
        }
        // And ever after it shows no token better than the grantor sees it, whatever the grantor's rights are by then.
        let session = own.within(grantor).decide(read, token);
        prop_assert!(session <= theirs, "{session:?} {theirs:?}");
    }
}
