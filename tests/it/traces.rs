//! Traces over OTLP, read by a collector that is not ours (decisions §1: the trace id is in every line; what else is told
//! of requests is an operator's choice).

use std::collections::BTreeMap;
use std::time::Duration;

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value as Any;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use reqwest::Method;
use serde_json::json;

use crate::support::binary::{MANAGEMENT_KEY, Process, ROOT_KEY, command, eventually, reactor_of};
use crate::support::receiver::{Action, Receiver};

fn serve(folder: &std::path::Path, endpoint: &str, more: &[&str]) -> std::process::Command {
    let mut serve = command();
    serve.args(["serve", "--listen", "127.0.0.1:0", "--cache-mb", "32", "--log", "warn"]);
    serve.args(["--otlp-endpoint", endpoint]).args(more).arg("--data-dir").arg(folder);
    serve.env("TOKAMAK_ROOT_KEY", ROOT_KEY).env("TOKAMAK_BOOTSTRAP_KEY", MANAGEMENT_KEY);
    serve.env("OTEL_BSP_SCHEDULE_DELAY", "100");
    serve
}

fn address(receiver: &Receiver) -> String {
    receiver.url().trim_end_matches("/hook").to_owned()
}

/// Every span that arrived.
fn spans(receiver: &Receiver) -> Vec<Span> {
    let batches = receiver.seen().into_iter();
    let batches = batches.map(|batch| ExportTraceServiceRequest::decode(batch.bytes).unwrap());
    let resources = batches.flat_map(|batch| batch.resource_spans);
    resources.flat_map(|resource| resource.scope_spans).flat_map(|scope| scope.spans).collect()
}

fn attributes(span: &Span) -> BTreeMap<&str, String> {
    let text = |value: &Any| match value {
        Any::StringValue(text) => text.clone(),
        Any::IntValue(number) => number.to_string(),
        other => format!("{other:?}"),
    };
    let pairs = span.attributes.iter().filter_map(|attribute| {
        let value = attribute.value.as_ref()?.value.as_ref()?;
        Some((attribute.key.as_str(), text(value)))
    });
    pairs.collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn requests_are_told_to_a_collector_and_nothing_that_is_kept() {
    let (folder, collector) = (tempfile::tempdir().unwrap(), Receiver::start().await);
    let process = Process::start(serve(folder.path(), &address(&collector), &["--otlp-join"]));
    let management = process.management();
    let rights = json!({"name": "writer", "type": "private",
        "permissions": ["token:create", "token:read"]});
    let writer = management.post("/applications", rights).await.expect(201);
    let writer = management.with_key(writer["key"].as_str().unwrap());
    let token = json!({"id": "told-to-nobody", "type": "token", "data": "a value of somebody"});
    let trace = "0af7651916cd43dd8448eb211c80319c";
    let parent = format!("00-{trace}-b7ad6b7169203331-01");
    let create = writer.request(Method::POST, "/tokens").json(&token);
    let create = create.header("traceparent", parent).header("svc-trace-id", "ours-1");
    writer.send(create).await.expect(201);
    writer.get("/tokens/told-to-nobody").await.expect(200);
    assert_eq!(process.terminate(), Some(0));

    // What had ended was sent before the process did.
    let spans = spans(&collector);
    let named = |name: &str| spans.iter().find(|span| span.name == name).unwrap();
    let create = named("POST /tokens");
    assert_eq!(hex(&create.trace_id), trace);
    assert_eq!(hex(&create.parent_span_id), "b7ad6b7169203331");
    let told = attributes(create);
    for (key, value) in [
        ("http.request.method", "POST"),
        ("http.route", "/tokens"),
        ("http.response.status_code", "201"),
        ("tokamak.trace_id", "ours-1"),
    ] {
        assert_eq!(told.get(key).map(String::as_str), Some(value), "{told:?}");
    }
    let committed = |span: &&Span| span.name == "store.commit" && span.trace_id == create.trace_id;
    let commit = spans.iter().find(committed).unwrap();
    assert_eq!(commit.parent_span_id, create.span_id);
    assert_ne!(named("GET /tokens/{id}").trace_id, create.trace_id);

    for batch in collector.seen() {
        let text = String::from_utf8_lossy(&batch.bytes).into_owned();
        for hidden in ["told-to-nobody", "a value of somebody", MANAGEMENT_KEY, "key_prv", "writer"]
        {
            assert!(!text.contains(hidden), "{hidden} was sent");
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_queued_run_and_its_webhook_are_told_with_the_trace_id_of_their_request() {
    let folder = tempfile::tempdir().unwrap();
    let (collector, receiver) = (Receiver::start().await, Receiver::start().await);
    let open = ["--allow-private-networks", "--allow-http-callbacks"];
    let process = Process::start(serve(folder.path(), &address(&collector), &open));
    let formulas = process.management().get("/reactor-formulas?name=card*").await.expect(200);
    let (private, path) = reactor_of(&process, formulas["data"][0]["id"].as_str().unwrap()).await;
    let body = json!({"args": {"card": {"number": "4242424242424242"}},
        "callback_url": receiver.url()});
    let queue = private.request(Method::POST, &path).header("svc-trace-id", "ours-2").json(&body);
    private.send(queue).await.expect(202);
    receiver.wait(1).await;
    assert_eq!(process.terminate(), Some(0));
    let spans = spans(&collector);
    let is_ours = |span: &Span, name: &str| {
        let told = attributes(span);
        span.name == name && told.get("tokamak.trace_id").is_some_and(|id| id == "ours-2")
    };
    for (name, stage) in [("reactor.job", "formula.run"), ("webhook.send", "store.commit")] {
        // A job whose formula is still compiled has a turn, and another one once it is.
        let wholes: Vec<_> = spans.iter().filter(|span| is_ours(span, name)).collect();
        assert!(!wholes.is_empty(), "no {name} among {spans:?}");
        let is_part = |span: &Span| {
            span.name == stage && wholes.iter().any(|whole| whole.trace_id == span.trace_id)
        };
        assert!(spans.iter().any(is_part), "{name} has no {stage} in {spans:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_collector_that_is_not_there_harms_nobody_and_none_is_told_of_what_is_not_sampled() {
    let folder = tempfile::tempdir().unwrap();
    // Nobody listens on this port.
    let mut lost = serve(folder.path(), "http://127.0.0.1:9", &[]);
    let log = folder.path().join("log");
    lost.stderr(std::fs::File::create(&log).unwrap());
    let process = Process::start(lost);
    process.management().get("/applications").await.expect(200);
    // Of all that are lost it is told once.
    let told = || std::fs::read_to_string(&log).unwrap().matches("traces are lost").count();
    eventually("word of it", || (told() > 0).then_some(())).await;
    process.management().get("/applications").await.expect(200);
    assert_eq!(process.terminate(), Some(0));
    assert_eq!(told(), 1);

    let collector = Receiver::start().await;
    let process =
        Process::start(serve(folder.path(), &address(&collector), &["--otlp-sample", "0"]));
    let named = "00-1bf7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let management = process.management();
    let list = management.request(Method::GET, "/applications").header("traceparent", named);
    management.send(list).await.expect(200);
    assert_eq!(process.terminate(), Some(0));
    assert!(spans(&collector).is_empty());

    // Where it is wanted, one that comes with a trace that is sampled goes by that.
    let process = Process::start(serve(
        folder.path(),
        &address(&collector),
        &["--otlp-sample", "0", "--otlp-join"],
    ));
    process.management().get("/applications").await.expect(200);
    let named = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let management = process.management();
    let list = management.request(Method::GET, "/applications").header("traceparent", named);
    management.send(list).await.expect(200);
    eventually("the sampled trace", || (!spans(&collector).is_empty()).then_some(())).await;
    assert_eq!(process.terminate(), Some(0));
    let traces: Vec<String> = spans(&collector).iter().map(|span| hex(&span.trace_id)).collect();
    assert!(!traces.is_empty());
    assert!(traces.iter().all(|id| id == "0af7651916cd43dd8448eb211c80319c"), "{traces:?}");
}

/// What its headers carry, such as a key, is for the collector alone.
#[tokio::test(flavor = "multi_thread")]
async fn traces_go_to_the_collector_and_through_nobody_else() {
    let (folder, elsewhere) = (tempfile::tempdir().unwrap(), Receiver::start().await);
    let target = elsewhere.url();
    let redirects = move |_| Action::With(307, "location", target.clone());
    let collector = Receiver::with(redirects).await;
    let mut serve = serve(folder.path(), &address(&collector), &[]);
    serve.env("OTEL_EXPORTER_OTLP_HEADERS", "x-collector-key=s3cret");
    for name in ["HTTP_PROXY", "http_proxy", "ALL_PROXY"] {
        serve.env(name, address(&elsewhere));
    }
    let process = Process::start(serve);
    process.management().get("/applications").await.expect(200);
    eventually("the trace", || (!collector.seen().is_empty()).then_some(())).await;
    assert_eq!(process.terminate(), Some(0));
    assert_eq!(collector.seen()[0].header("x-collector-key"), "s3cret");
    assert!(elsewhere.seen().is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn what_a_slow_collector_does_not_take_is_told() {
    let folder = tempfile::tempdir().unwrap();
    let collector = Receiver::with(|_| Action::After(Duration::from_secs(2))).await;
    let mut serve = serve(folder.path(), &address(&collector), &[]);
    let log = folder.path().join("log");
    serve.stderr(std::fs::File::create(&log).unwrap());
    let process = Process::start(serve);
    let told = |what: &str| std::fs::read_to_string(&log).unwrap().matches(what).count();
    let asked = async || {
        for _ in 0..20 {
            process.management().get("/applications").await.expect(200);
        }
    };
    while told("faster than the collector takes them") == 0 {
        asked().await;
    }
    assert_eq!(process.terminate(), Some(0));
    assert_eq!(told("faster than the collector takes them"), 1);
    assert_eq!(told("the collector was too slow"), 1);
}

fn hex(bytes: &[u8]) -> String {
    let digits = |byte: &u8| [byte >> 4, byte & 15].map(|half| char::from_digit(half.into(), 16));
    bytes.iter().flat_map(digits).flatten().collect()
}
