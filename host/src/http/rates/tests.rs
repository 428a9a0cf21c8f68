use super::{CLEAN_EVERY, Class, Limiter, Rates, network};
use crate::clock::{Clock, ManualClock};
use crate::config::{Rate, RateLimits};
use http::Method;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

fn limiter(per_second: u32, burst: u32) -> (ManualClock, Limiter<u32>) {
    let clock = ManualClock::new(1_767_225_600_000);
    let shared: Arc<dyn Clock> = Arc::new(clock.clone());
    (clock, Limiter::new(Rate { per_second, burst }, &shared).unwrap())
}

fn wait_ms(limiter: &Limiter<u32>, key: u32) -> Option<u128> {
    limiter.check(&key).err().map(|wait| wait.as_millis())
}

#[test]
fn a_burst_goes_through_and_the_rest_at_the_rate() {
    let (clock, limiter) = limiter(10, 3);
    for _ in 0..3 {
        assert_eq!(limiter.check(&1), Ok(()));
    }
    assert_eq!(limiter.check(&1), Err(Duration::from_millis(100)));
    // Another key has its own burst.
    assert_eq!(limiter.check(&2), Ok(()));
    clock.advance_ms(99);
    assert_eq!(wait_ms(&limiter, 1), Some(1));
    clock.advance_ms(1);
    assert_eq!(wait_ms(&limiter, 1), None);
    assert_eq!(wait_ms(&limiter, 1), Some(100));
    // However long the rest was, a burst is a burst.
    clock.advance_ms(3_600_000);
    let through = (0..10).filter(|_| limiter.check(&1).is_ok()).count();
    assert_eq!(through, 3);
}

#[test]
fn what_is_remembered_is_what_came_lately() {
    let (clock, limiter) = limiter(1, 1);
    for key in 0..10 * u32::try_from(CLEAN_EVERY).unwrap() {
        assert_eq!(limiter.check(&key), Ok(()));
        clock.advance_ms(1);
    }
    let remembered = limiter.states.len();
    assert!(remembered < 3 * CLEAN_EVERY, "{remembered}");
    // What was forgotten had rested; the last has not.
    let last = 10 * u32::try_from(CLEAN_EVERY).unwrap() - 1;
    assert!(limiter.check(&last).is_err());
    assert_eq!(limiter.check(&0), Ok(()));
}

#[test]
fn nothing_is_limited_unless_it_is_said() {
    let clock: Arc<dyn Clock> = Arc::new(ManualClock::new(0));
    assert!(Limiter::<u32>::new(Rate::default(), &clock).is_none());
    let rates = Rates::new(&RateLimits::default(), &clock);
    let address: IpAddr = "192.0.2.1".parse().unwrap();
    for rates in [rates, Rates::default()] {
        for _ in 0..1_000 {
            assert!(rates.count_unauthenticated(address).is_ok());
        }
    }
}

#[test]
fn strangers_are_told_apart_by_their_networks() {
    let number = |text: &str| network(text.parse().unwrap());
    let one_client = [
        ("192.0.2.1", "::ffff:192.0.2.1"),
        ("2001:db8:1:2::1", "2001:db8:1:2:ffff:ffff:ffff:ffff"),
    ];
    for (one, same) in one_client {
        assert_eq!(number(one), number(same), "{one} and {same}");
    }
    for (one, other) in [("192.0.2.1", "192.0.2.2"), ("2001:db8:1:2::1", "2001:db8:1:3::1")] {
        assert_ne!(number(one), number(other), "{one} and {other}");
    }
    let clock = ManualClock::new(0);
    let limits = RateLimits { unauthenticated: 2.into(), ..RateLimits::default() };
    let shared: Arc<dyn Clock> = Arc::new(clock.clone());
    let rates = Rates::new(&limits, &shared);
    let through = |address: &str| {
        (0..5).filter(|_| rates.count_unauthenticated(address.parse().unwrap()).is_ok()).count()
    };
    assert_eq!((through("192.0.2.1"), through("::ffff:192.0.2.1")), (2, 0));
    clock.advance_ms(500);
    assert_eq!(through("192.0.2.1"), 1);
}

/// Every operation that takes a key, behind the class that it is counted in; in the order of these texts.
const COUNTED: &[&str] = &[
    "invoke POST /reactors/{id}/react",
    "invoke POST /reactors/{id}/results/{invocation_id}/redeliver",
    "manage DELETE /applications/{id}",
    "manage DELETE /reactor-formulas/{id}",
    "manage DELETE /reactors/{id}",
    "manage GET /applications",
    "manage GET /applications/{id}",
    "manage GET /logs",
    "manage GET /logs/entity-types",
    "manage GET /reactor-formulas",
    "manage GET /reactor-formulas/{id}",
    "manage GET /reactor-formulas/{id}/component",
    "manage GET /reactors",
    "manage GET /reactors/{id}",
    "manage GET /reactors/{id}/invocations",
    "manage GET /tenants/self",
    "manage GET /webhooks/signing-secrets",
    "manage POST /applications",
    "manage POST /applications/{id}/regenerate",
    "manage POST /reactor-formulas",
    "manage POST /reactors",
    "manage POST /webhooks/signing-secrets/rotate",
    "manage PUT /applications/{id}",
    "manage PUT /reactor-formulas/{id}",
    "manage PUT /reactor-formulas/{id}/component",
    "manage PUT /reactors/{id}",
    "manage PUT /tenants/self",
    "read GET /applications/key",
    "read GET /permissions",
    "read GET /reactors/{id}/results/{invocation_id}",
    "read GET /tokens/{id}",
    "read POST /detokenize",
    "search GET /tokens",
    "search POST /tokens/search",
    "write DELETE /tokens/{id}",
    "write PATCH /tokens/{id}",
    "write POST /sessions",
    "write POST /sessions/authorize",
    "write POST /tokenize",
    "write POST /tokens",
];

#[test]
fn operations_count_in_the_class_they_are_of() {
    let description = serde_json::to_value(crate::http::description()).unwrap();
    let mut counted = Vec::new();
    for (path, operations) in description["paths"].as_object().unwrap() {
        for method in operations.as_object().unwrap().keys() {
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            if let Some(class) = Class::of(&method, path) {
                counted.push(format!("{} {method} {path}", class.as_str()));
            }
        }
    }
    counted.sort_unstable();
    assert_eq!(counted, COUNTED);
}

/// A route that names no class is limited by nothing: every operation that takes a key is in one.
#[test]
fn every_operation_with_a_key_has_a_class() {
    let description = serde_json::to_value(crate::http::description()).unwrap();
    let mut classes = Vec::new();
    for (path, operations) in description["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let class = Class::of(&method, path);
            // Those that take no key say so.
            let takes_none = operation["security"][0].get("api_key").is_none();
            assert_eq!(class.is_none(), takes_none, "{method} {path}");
            if let Some(class) = class {
                let text = operation["responses"]["429"]["description"].as_str().unwrap();
                let name = format!("`{}`", class.as_str());
                assert!(text.contains(&name), "{method} {path}: {text}");
                classes.push(class.as_str());
            }
        }
    }
    assert!(classes.len() >= 36);
    classes.sort_unstable();
    classes.dedup();
    assert_eq!(classes, ["invoke", "manage", "read", "search", "write"]);
}

#[test]
fn a_head_counts_as_its_get() {
    for path in ["/tokens", "/tokens/{id}", "/logs"] {
        assert_eq!(Class::of(&Method::HEAD, path), Class::of(&Method::GET, path), "{path}");
        assert!(Class::of(&Method::HEAD, path).is_some());
    }
}
