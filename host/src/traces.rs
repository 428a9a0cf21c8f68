//! Traces, for whoever collects them over OTLP (OpenTelemetry's protocol, protobuf over HTTP).
//!
//! What is traced is what log lines are written in: one span for each request, and those of its stages that [`stage`]
//! names. Spans hold patterns of paths, methods, statuses and trace ids; no id, body or key, and none of the log lines
//! themselves, which are for the operator alone. Nothing is made of all this
//! unless an endpoint is configured: then [`layer`] takes the spans of this crate in, and [`Traces::export_to`] begins to
//! send what ended. The two are apart because the first belongs to the start of logging, when no thread may be there yet,
//! and the second starts a thread.
//!
//! Anybody may send a `traceparent` (W3C Trace Context). Requests go on with the trace that theirs names, and are sampled
//! as that was, only where the operator says that what stands before the server sets it.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use http::HeaderMap;
use opentelemetry::propagation::{Extractor, TextMapPropagator as _};
use opentelemetry::trace::{
    SpanContext, SpanKind, Status, TraceContextExt as _, TraceState, TracerProvider as _,
};
use opentelemetry::{Context, Key, KeyValue, Value};
use opentelemetry_http::HttpClient;
use opentelemetry_otlp::{WithExportConfig as _, WithHttpConfig as _};
use opentelemetry_sdk::Resource;
use opentelemetry_sdk::error::OTelSdkResult;
use opentelemetry_sdk::propagation::TraceContextPropagator;
use opentelemetry_sdk::trace::{
    BatchConfigBuilder, BatchSpanProcessor, Sampler, SdkTracer, SdkTracerProvider, Span, SpanData,
    SpanExporter, SpanProcessor,
};
use thiserror::Error;
use tracing::{Instrument as _, Subscriber};
use tracing_opentelemetry::{OpenTelemetryLayer, OpenTelemetrySpanExt as _};
use tracing_subscriber::registry::LookupSpan;

/// The name of the span of a request.
pub const REQUEST: &str = "request";
/// Where collectors take traces, when an address names no path.
const PATH: &str = "/v1/traces";
/// Spans that wait to be sent, at most.
const QUEUE_MAX: usize = 2_048;
/// How what has no name is called by the library.
const UNNAMED: &str = "unknown_service";

/// Whether spans are taken in: nobody pays for traces that nobody collects.
static TAKEN: AtomicBool = AtomicBool::new(false);
/// Whether requests go on with the traces they name.
static JOINS: AtomicBool = AtomicBool::new(false);
/// Methods that are named; a caller may send any word.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

tokio::task_local! {
    /// The trace id of the request under way.
    static CURRENT: Arc<str>;
}

/// Traces cannot be sent.
#[derive(Debug, Error)]
#[error("traces cannot be sent: {0}")]
pub struct TracesError(&'static str);

/// The traces of this process. What has ended and was not sent yet is lost when this is dropped before
/// [`Self::finish`].
pub struct Traces {
    provider: SdkTracerProvider,
    sending: Sending,
    resource: Resource,
}

/// A layer that takes spans in, a part of them between 0 and 1, and what will send them. Whether requests go on with the
/// traces that they name, `joins` says.
pub fn layer<S>(part: f64, joins: bool) -> (OpenTelemetryLayer<S, SdkTracer>, Traces)
where
    S: Subscriber + for<'s> LookupSpan<'s>,
{
    let resource = resource();
    let sending = Sending::default();
    let provider = SdkTracerProvider::builder()
        .with_resource(resource.clone())
        .with_sampler(Sampler::ParentBased(Box::new(Sampler::TraceIdRatioBased(part))))
        .with_span_processor(sending.clone())
        .build();
    let layer = tracing_opentelemetry::layer()
        .with_tracer(provider.tracer("tokamak"))
        .with_location(false)
        .with_threads(false)
        .with_tracked_inactivity(false);
    TAKEN.store(true, Ordering::Relaxed);
    JOINS.store(joins, Ordering::Relaxed);
    (layer, Traces { provider, sending, resource })
}

/// What sends the traces: under the name that the standard variables give it, or else its own.
fn resource() -> Resource {
    let version = KeyValue::new("service.version", env!("CARGO_PKG_VERSION"));
    let builder = || Resource::builder().with_attribute(version.clone());
    let named = builder().build();
    let is_named = named
        .get(&Key::from_static_str("service.name"))
        .is_some_and(|name| !name.as_str().starts_with(UNNAMED));
    if is_named { named } else { builder().with_service_name("tokamak").build() }
}

impl Traces {
    /// Begins to send what ends by this client, in batches, from a thread of its own. An endpoint without a path gets the
    /// usual one.
    pub fn export_to(
        &self,
        endpoint: &str,
        client: impl HttpClient + 'static,
    ) -> Result<(), TracesError> {
        let exporter = opentelemetry_otlp::SpanExporter::builder()
            .with_http()
            .with_http_client(client)
            .with_endpoint(whole(endpoint))
            .build()
            // What it says may hold the whole address, and with it what the collector knows the sender by.
            .map_err(|_| {
                TracesError("--otlp-endpoint is no address that anything can be sent to")
            })?;
        let counts = Arc::clone(&self.sending.counts);
        let exporter = Telling { exporter, counts, fails: AtomicBool::default() };
        let queue = BatchConfigBuilder::default().with_max_queue_size(QUEUE_MAX).build();
        let mut batches = BatchSpanProcessor::builder(exporter).with_batch_config(queue).build();
        batches.set_resource(&self.resource);
        self.sending.batches.set(batches).map_err(|_| TracesError("they are sent already"))
    }

    /// Sends what is left, for a few seconds at most.
    pub fn finish(self) {
        if let Err(error) = self.provider.shutdown() {
            tracing::warn!(%error, "some traces were not sent");
        }
        let lost = self.sending.counts.behind();
        if self.sending.batches.get().is_some() && lost > 0 {
            tracing::warn!(spans = lost, "spans of traces were lost: the collector was too slow");
        }
    }
}

/// How many spans have ended, and how many of them were handed to whoever sends them.
#[derive(Debug, Default)]
struct Counts {
    ended: AtomicU64,
    handed: AtomicU64,
    /// Whether the log was told that some were dropped.
    is_told: AtomicBool,
}

impl Counts {
    /// How many wait or were dropped.
    fn behind(&self) -> u64 {
        let handed = self.handed.load(Ordering::Relaxed);
        self.ended.load(Ordering::Relaxed).saturating_sub(handed)
    }

    /// Counts a batch. The library drops what finds its queue full, and tells nobody.
    fn hand(&self, spans: usize) {
        self.handed.fetch_add(spans as u64, Ordering::Relaxed);
        if self.behind() > QUEUE_MAX as u64 && !self.is_told.swap(true, Ordering::Relaxed) {
            tracing::warn!("traces are lost: they end faster than the collector takes them");
        }
    }
}

/// Sends traces, and has the log tell when that begins to fail and when it succeeds again. What the failure says may hold
/// the whole address, which is not for the log.
#[derive(Debug)]
struct Telling<E> {
    exporter: E,
    counts: Arc<Counts>,
    fails: AtomicBool,
}

impl<E: SpanExporter> SpanExporter for Telling<E> {
    async fn export(&self, batch: Vec<SpanData>) -> OTelSdkResult {
        self.counts.hand(batch.len());
        let sent = self.exporter.export(batch).await;
        match (sent.is_ok(), self.fails.swap(sent.is_err(), Ordering::Relaxed)) {
            (false, false) => tracing::warn!("traces are lost: the collector does not take them"),
            (true, true) => tracing::info!("the collector takes traces again"),
            _ => {}
        }
        sent
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.exporter.shutdown_with_timeout(timeout)
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.exporter.force_flush()
    }

    fn set_resource(&mut self, resource: &Resource) {
        self.exporter.set_resource(resource);
    }
}

/// The address that traces are posted to.
fn whole(endpoint: &str) -> String {
    let base = endpoint.trim_end_matches('/');
    let after_scheme = base.split_once("://").map_or(base, |(_, rest)| rest);
    if after_scheme.contains('/') { base.to_owned() } else { format!("{base}{PATH}") }
}

/// Carries out what a request of this trace id asks for.
pub async fn within<F: Future>(trace_id: Arc<str>, run: F) -> F::Output {
    CURRENT.scope(trace_id, run).await
}

/// The trace id of the request under way, for what is kept of it; none outside of requests.
pub fn current_id() -> Option<Arc<str>> {
    CURRENT.try_with(Arc::clone).ok()
}

/// What is to go on as a task of its own, as a part of the request under way: within its span, and with its trace id.
pub fn carried<F: Future>(run: F) -> impl Future<Output = F::Output> {
    let trace_id = current_id();
    let carried = async move {
        match trace_id {
            Some(trace_id) => within(trace_id, run).await,
            None => run.await,
        }
    };
    carried.in_current_span()
}

/// Makes the span of a request a part of the trace that the request names, if any.
pub fn continue_from(span: &tracing::Span, headers: &HeaderMap) {
    struct Carrier<'h>(&'h HeaderMap);
    impl Extractor for Carrier<'_> {
        fn get(&self, key: &str) -> Option<&str> {
            self.0.get(key)?.to_str().ok()
        }
        fn keys(&self) -> Vec<&str> {
            self.0.keys().map(http::HeaderName::as_str).collect()
        }
    }
    if JOINS.load(Ordering::Relaxed) && headers.contains_key("traceparent") {
        let parent = TraceContextPropagator::new().extract(&Carrier(headers));
        let named = parent.span().span_context().clone();
        if !named.is_valid() {
            return;
        }
        // Without what vendors keep beside it, of any length.
        let (trace, span_id) = (named.trace_id(), named.span_id());
        let bare =
            SpanContext::new(trace, span_id, named.trace_flags(), true, TraceState::default());
        let parent = Context::new().with_remote_span_context(bare);
        // Refused for a span that is not taken in, which has no trace to belong to.
        let _ = span.set_parent(parent);
    }
}

/// A span for a stage of what is under way; none when nobody collects traces.
pub fn stage(make: impl FnOnce() -> tracing::Span) -> tracing::Span {
    if TAKEN.load(Ordering::Relaxed) { make() } else { tracing::Span::none() }
}

/// The attribute of the trace id that the API and the log tell.
const TRACE_ID: &str = "tokamak.trace_id";

/// Hands on what ended, once there is somebody to take it.
#[derive(Debug, Clone, Default)]
struct Sending {
    batches: Arc<OnceLock<BatchSpanProcessor>>,
    counts: Arc<Counts>,
}

impl SpanProcessor for Sending {
    fn on_start(&self, _: &mut Span, _: &Context) {}

    fn on_end(&self, span: SpanData) {
        if let Some(batches) = self.batches.get() {
            self.counts.ended.fetch_add(1, Ordering::Relaxed);
            batches.on_end(conventional(span));
        }
    }

    fn force_flush(&self) -> OTelSdkResult {
        self.batches.get().map_or(Ok(()), SpanProcessor::force_flush)
    }

    fn shutdown_with_timeout(&self, timeout: Duration) -> OTelSdkResult {
        self.batches.get().map_or(Ok(()), |batches| batches.shutdown_with_timeout(timeout))
    }
}

/// The span of a request as OpenTelemetry's conventions for HTTP servers have it; others as they are, but for the trace id.
fn conventional(mut span: SpanData) -> SpanData {
    let events = std::mem::take(&mut span.events);
    if span.name != REQUEST {
        for attribute in span.attributes.iter_mut().filter(|one| one.key.as_str() == "trace_id") {
            attribute.key = TRACE_ID.into();
        }
        return span;
    }
    span.span_kind = SpanKind::Server;
    let text = |span: &SpanData, key: &str| {
        let found = span.attributes.iter().find(|attribute| attribute.key.as_str() == key);
        found.map_or_else(String::new, |attribute| attribute.value.as_str().into_owned())
    };
    let (method, route) = (text(&span, "method"), text(&span, "route"));
    let method = METHODS.into_iter().find(|known| *known == method).unwrap_or("_OTHER");
    // The one line that is written of every request when it is answered.
    let answered = events.events.into_iter().find(|event| event.name == "answered");
    let status = answered.and_then(|event| {
        event.attributes.into_iter().find(|attribute| attribute.key.as_str() == "status")
    });
    for attribute in &mut span.attributes {
        let name = match attribute.key.as_str() {
            "method" => {
                attribute.value = method.into();
                "http.request.method"
            }
            "route" => "http.route",
            "trace_id" => TRACE_ID,
            _ => continue,
        };
        attribute.key = name.into();
    }
    // Numbers without a sign are written as text.
    let status = status.and_then(|status| match status.value {
        Value::I64(status) => Some(status),
        other => other.as_str().parse().ok(),
    });
    if let Some(status) = status {
        span.attributes.push(KeyValue::new("http.response.status_code", status));
        if status >= 500 {
            span.status = Status::error("");
        }
    }
    span.name = format!("{method} {route}").into();
    span
}

#[cfg(test)]
mod tests;
