use super::{REQUEST, continue_from, conventional, layer, stage, whole};
use http::{HeaderMap, HeaderValue};
use opentelemetry::trace::{SpanKind, Status, TracerProvider as _};
use opentelemetry::{KeyValue, Value};
use opentelemetry_sdk::trace::{InMemorySpanExporter, SdkTracerProvider, SpanData};
use tracing_subscriber::layer::SubscriberExt as _;

/// The spans that come of what is done.
fn spans_of(done: impl FnOnce()) -> Vec<SpanData> {
    let kept = InMemorySpanExporter::default();
    let provider = SdkTracerProvider::builder().with_simple_exporter(kept.clone()).build();
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("tests"))
        .with_location(false)
        .with_threads(false);
    tracing::subscriber::with_default(tracing_subscriber::registry().with(layer), done);
    kept.get_finished_spans().unwrap()
}

fn request(status: u16) -> SpanData {
    request_by("GET", status)
}

fn request_by(method: &str, status: u16) -> SpanData {
    let mut spans = spans_of(|| {
        let span = tracing::info_span!("request", trace_id = %"abc", method = %method, route = %"/tokens/{id}");
        span.in_scope(|| {
            tracing::warn!("beside");
            tracing::info!(status, "answered");
        });
    });
    assert_eq!(spans.len(), 1);
    conventional(spans.remove(0))
}

fn value<'s>(span: &'s SpanData, key: &str) -> Option<&'s Value> {
    span.attributes.iter().find(|one| one.key.as_str() == key).map(|one| &one.value)
}

#[test]
fn a_request_is_told_by_the_conventions() {
    let span = request(200);
    assert_eq!((span.name.as_ref(), &span.span_kind), ("GET /tokens/{id}", &SpanKind::Server));
    for (key, expected) in [
        ("http.request.method", Value::from("GET")),
        ("http.route", Value::from("/tokens/{id}")),
        ("http.response.status_code", Value::I64(200)),
        ("tokamak.trace_id", Value::from("abc")),
    ] {
        assert_eq!(value(&span, key), Some(&expected), "{key}");
    }
    assert_eq!(value(&span, "method"), None);
    // What was logged meanwhile is not told.
    assert!(span.events.is_empty());
    assert_eq!(span.status, Status::Unset);
}

#[test]
fn a_method_is_one_of_those_that_are_known() {
    let span = request_by(&"BREW".repeat(10_000), 404);
    assert_eq!(span.name, "_OTHER /tokens/{id}");
    assert_eq!(value(&span, "http.request.method"), Some(&Value::from("_OTHER")));
}

#[test]
fn the_servers_own_faults_are_errors_and_the_callers_are_not() {
    assert_eq!(request(404).status, Status::Unset);
    assert_eq!(request(503).status, Status::error(""));
}

#[test]
fn other_spans_stay_as_they_are() {
    let spans =
        spans_of(|| drop(tracing::info_span!("store.commit", rows = 3, trace_id = "of-a-request")));
    let span = conventional(spans.into_iter().next().unwrap());
    assert_eq!((span.name.as_ref(), &span.span_kind), ("store.commit", &SpanKind::Internal));
    assert!(span.attributes.contains(&KeyValue::new("rows", 3)));
    assert!(span.attributes.contains(&KeyValue::new("tokamak.trace_id", "of-a-request")));
}

#[test]
fn an_endpoint_without_a_path_gets_the_usual_one() {
    for (endpoint, expected) in [
        ("http://collector:4318", "http://collector:4318/v1/traces"),
        ("http://collector:4318/", "http://collector:4318/v1/traces"),
        ("https://collector/otlp/v1/traces", "https://collector/otlp/v1/traces"),
    ] {
        assert_eq!(whole(endpoint), expected);
    }
}

#[test]
fn a_request_goes_on_with_the_trace_it_names() {
    // From here on this process takes spans in.
    drop(layer::<tracing_subscriber::Registry>(1.0, true));
    let mut headers = HeaderMap::new();
    let named = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    headers.insert("traceparent", HeaderValue::from_static(named));
    headers.insert("tracestate", HeaderValue::from_static("vendor=much"));
    let spans = spans_of(|| {
        let span = tracing::info_span!("request");
        continue_from(&span, &headers);
        span.in_scope(|| drop(stage(|| tracing::info_span!("store.commit"))));
    });
    let [commit, request] = spans.as_slice() else { panic!("{}", spans.len()) };
    assert_eq!(request.name, REQUEST);
    assert_eq!(request.parent_span_id.to_string(), "b7ad6b7169203331");
    assert!(request.parent_span_is_remote);
    assert_eq!(request.span_context.trace_state().header(), "");
    assert_eq!(commit.parent_span_id, request.span_context.span_id());
    for span in &spans {
        assert_eq!(span.span_context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
    }
    // What is no trace is passed over.
    headers.insert("traceparent", HeaderValue::from_static("00-zz"));
    let spans = spans_of(|| continue_from(&tracing::info_span!("request"), &headers));
    assert_ne!(spans[0].span_context.trace_id().to_string(), "0af7651916cd43dd8448eb211c80319c");
}
