use std::time::Duration;

use super::{Disk, Ending, Figures, Waiting};

fn ending(title: &'static str, is_fault: bool) -> Ending {
    Ending { title, is_fault }
}

#[test]
fn what_happens_is_counted_under_its_labels() {
    let figures = Figures::new();
    let took = Duration::from_millis(3);
    figures.request_answered("GET", "/tokens/{id}", Some(200), false, took);
    figures.request_answered("GET", "/tokens/{id}", Some(200), false, took);
    figures.request_answered("GET", "/tokens/{id}", Some(404), false, took);
    figures.invocation_ended(&Ending::COMPLETED, took, 7);
    figures.invocation_ended(&ending("Reactor Timeout", false), took, 5);
    figures.invocation_over(&ending("Reactor Interrupted", false));
    figures.locked_out();
    for status in [None, Some(200), Some(204), Some(302), Some(500)] {
        figures.webhook_sent(status);
    }
    figures.webhook_given_up();
    figures.committed(took);
    figures.synced();
    figures.store_refused();
    let begun = figures.invocation_begins();
    let waiting = Waiting { jobs_queued: 3, jobs_running: 2, deliveries_pending: 1 };
    let disk = Disk { store_bytes: Some(5), free_bytes: Some(7) };
    let text = figures.write(Some(waiting), disk, true).unwrap();
    drop(begun);
    for line in [
        "tokamak_http_requests_total{method=\"GET\",route=\"/tokens/{id}\",status=\"200\"} 2",
        "tokamak_http_requests_total{method=\"GET\",route=\"/tokens/{id}\",status=\"404\"} 1",
        "tokamak_http_request_duration_seconds_count{method=\"GET\",route=\"/tokens/{id}\"} 3",
        "tokamak_invocations_total{outcome=\"completed\"} 1",
        "tokamak_invocations_total{outcome=\"Reactor Timeout\"} 1",
        "tokamak_invocations_total{outcome=\"Reactor Interrupted\"} 1",
        "tokamak_invocation_duration_seconds_count 2",
        "tokamak_invocation_fuel_total 12",
        "tokamak_lock_outs_total 1",
        "tokamak_invocations_in_flight 1",
        "tokamak_webhook_attempts_total{outcome=\"unanswered\"} 1",
        "tokamak_webhook_attempts_total{outcome=\"accepted\"} 2",
        "tokamak_webhook_attempts_total{outcome=\"refused\"} 2",
        "tokamak_webhooks_given_up_total 1",
        "tokamak_waiting{what=\"jobs_queued\"} 3",
        "tokamak_waiting{what=\"jobs_running\"} 2",
        "tokamak_waiting{what=\"deliveries_pending\"} 1",
        "tokamak_disk_bytes{what=\"store\"} 5",
        "tokamak_disk_bytes{what=\"free\"} 7",
        "tokamak_store_commit_duration_seconds_count 1",
        "tokamak_store_syncs_total 1",
        "tokamak_store_refusals_total 1",
    ] {
        assert!(text.lines().any(|one| one == line), "{line} is not in\n{text}");
    }
    assert!(text.ends_with("# EOF\n"));
    let text = figures.write(Some(Waiting::default()), Disk::default(), true).unwrap();
    assert!(text.contains("tokamak_invocations_in_flight 0\n"));
    assert!(text.contains("tokamak_waiting{what=\"jobs_queued\"} 0\n"));
    // What nobody knows is not told, nor what was known before.
    assert!(!text.contains("tokamak_disk_bytes{"));
}

#[test]
fn faults_are_counted_from_none_on_and_what_formulas_and_probes_answer_is_none() {
    let figures = Figures::new();
    let count = |count: u32| {
        let line = format!("tokamak_faults_total {count}");
        let text = figures.write(None, Disk::default(), true).unwrap();
        assert!(text.lines().any(|one| one == line), "{line} is not in\n{text}");
    };
    count(0);
    for route in ["/healthz", "/readyz", "/metrics"] {
        figures.request_answered("GET", route, Some(503), false, Duration::ZERO);
    }
    figures.request_answered("POST", "/reactors/{id}/react", Some(503), true, Duration::ZERO);
    figures.request_answered("GET", "/tokens", Some(429), false, Duration::ZERO);
    figures.invocation_over(&ending("Reactor Runtime Error", false));
    count(0);
    figures.request_answered("GET", "/tokens", Some(500), false, Duration::ZERO);
    figures.request_answered("GET", "/tokens", Some(503), false, Duration::ZERO);
    figures.invocation_ended(&ending("Internal Server Error", true), Duration::ZERO, 0);
    count(3);
    // Whatever it is called: formulas have names of their own for what they fail by.
    figures.invocation_over(&ending("Reactor Interrupted", true));
    figures.invocation_ended(&ending("Service Unavailable", true), Duration::ZERO, 0);
    figures.invocation_ended(&ending("Service Unavailable", false), Duration::ZERO, 0);
    figures.invocation_over(&ending("Unauthorized", false));
    count(5);
}

#[test]
fn what_is_not_known_of_the_store_is_not_told() {
    let figures = Figures::new();
    let text = figures.write(Some(Waiting::default()), Disk::default(), true).unwrap();
    assert!(text.contains("\ntokamak_waiting{") && text.contains("\ntokamak_ready 1\n"));
    let text = figures.write(None, Disk::default(), false).unwrap();
    assert!(!text.contains("\ntokamak_waiting{"), "{text}");
    assert!(text.contains("\ntokamak_ready 0\n"), "{text}");
}

#[test]
fn a_caller_cannot_make_a_series() {
    let figures = Figures::new();
    for method in ["BREW", "get", "X-1", "PROPFIND"] {
        figures.request_answered(method, "-", Some(404), false, Duration::ZERO);
    }
    let text = figures.write(None, Disk::default(), true).unwrap();
    let line = "tokamak_http_requests_total{method=\"other\",route=\"-\",status=\"404\"} 4";
    assert!(text.lines().any(|one| one == line), "{text}");
    // Statuses that formulas choose are one.
    for _ in 400..600 {
        figures.request_answered("POST", "/react", None, true, Duration::ZERO);
    }
    let text = figures.write(None, Disk::default(), true).unwrap();
    let line =
        "tokamak_http_requests_total{method=\"POST\",route=\"/react\",status=\"formula\"} 200";
    assert!(text.lines().any(|one| one == line), "{text}");
}
