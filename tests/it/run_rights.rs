//! Who sees what came of a run: who could have a formula see the same now (interface §4.5 rule 1, §2.3; decisions §1, §7).

use std::sync::Arc;

use axum::Router;
use axum::routing::get;
use reqwest::Method;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Notify;

use crate::support::receiver::Receiver;
use crate::support::scripts::reactor;
use crate::support::server::Setup;
use crate::support::{Answer, Client, TestServer, guests};

const CARD: &str = "4242424242424242";

fn rules(container: &str, transform: &str) -> Value {
    json!([{"description": "", "priority": 1, "container": container, "transform": transform,
        "permissions": ["token:use"]}])
}

/// Runs `probe` on a card under an idempotency key.
async fn run(client: &Client, reactor: &str, card: &str) -> Answer {
    let args = json!({"behaviour": "respond", "raw": format!("{{{{ {card} }}}}")});
    let request = client.request(Method::POST, &format!("/reactors/{reactor}/react"));
    let request = request.json(&json!({"args": args}));
    client.send(request.header("SVC-IDEMPOTENCY-KEY", "k")).await
}

#[tokio::test(flavor = "multi_thread")]
async fn a_result_is_for_those_whom_a_formula_may_see_as_much_for() {
    let server = TestServer::start_with(Setup::open()).await;
    let reactor = guests::echo_reactor(&server).await;
    let card = server.private.token("card_number", json!(CARD)).await;
    let mut clients = Vec::new();
    for transform in ["redact", "mask", "reveal"] {
        clients.push(server.application("private", &[], rules("/pci/", transform)).await);
    }
    for (asked, client) in clients.iter().enumerate() {
        let receiver = Receiver::start().await;
        let args = json!({"behaviour": "respond", "raw": [format!("{{{{ {card} }}}}")]});
        let body = json!({"args": args, "callback_url": receiver.url()});
        let queued = client.post(&format!("/reactors/{reactor}/react"), body).await;
        queued.expect(202);
        let place = queued.headers["location"].to_str().unwrap();
        let told = receiver.wait(1).await[0].json()["data"]["response"]["raw"].clone();
        let shown = [json!([null]), json!(["XXXXXXXXXXXX4242"]), json!([CARD])];
        assert_eq!(told, shown[asked]);
        for (asks, client) in clients.iter().enumerate() {
            let status = if asks < asked { 403 } else { 200 };
            let answer = client.get(place).await;
            assert_eq!(answer.status, status, "{asked} {asks}: {}", answer.text());
            assert!(asks >= asked || !answer.text().contains("4242"));
            let tells_why = answer.text().contains("lets a formula see less of a token");
            assert_eq!(tells_why, asks < asked, "{}", answer.text());
            let again = client.post(&format!("{place}/redeliver"), json!({})).await;
            assert_eq!(again.status, if asks < asked { 403 } else { 202 }, "{asked} {asks}");
        }
        // The receiver gets what it was to get, whoever asks for it.
        let hooks = receiver.wait(2).await;
        assert!(hooks.iter().all(|hook| hook.json()["data"]["response"]["raw"] == told));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn the_answer_of_a_run_is_not_repeated_to_who_may_not_use_its_tokens_so_any_more() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let card = server.private.token("card_number", json!(CARD)).await;
    let body = json!({"name": "a", "type": "private", "rules": rules("/pci/", "reveal")});
    let made = server.management.post("/applications", body).await.expect(201);
    let client = server.client(made["key"].as_str().unwrap());
    let application = format!("/applications/{}", made["id"].as_str().unwrap());
    let first = run(&client, &reactor, &card).await.expect(200);
    assert_eq!(first["raw"], CARD);
    let (less, none) = ("lets a formula see less of a token", "No rule of the application grants");
    for (now, status, told) in [
        (rules("/pci/", "mask"), 403, less),
        (rules("/zzz/", "reveal"), 403, none),
        (rules("/", "reveal"), 200, CARD),
        (rules("/pci/", "redact"), 403, less),
        (json!([]), 403, "does not hold token:use"),
    ] {
        let body = json!({"name": "a", "permissions": ["token:read"], "rules": now});
        server.management.put(&application, body).await.expect(200);
        let again = run(&client, &reactor, &card).await;
        assert_eq!(again.status, status, "{now}: {}", again.text());
        assert_eq!(again.text().contains("4242"), status == 200, "{now}");
        assert!(again.text().contains(told), "{now}: {}", again.text());
    }
    // Each attempt on the card is in the log of the card, but for the last, which holds no such permission at all.
    let page = server.management.get(&format!("/logs?entity_id={card}")).await.expect(200);
    let entries = page["data"].as_array().unwrap().iter();
    let denied = entries.filter(|entry| entry["message"] == "Denied: token:use");
    assert_eq!(denied.count(), 3, "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_repeated_redelivery_is_not_for_who_may_not_use_its_tokens_so_any_more() {
    let server = TestServer::start_with(Setup::open()).await;
    let reactor = guests::echo_reactor(&server).await;
    let card = server.private.token("card_number", json!(CARD)).await;
    let body = json!({"name": "a", "type": "private", "rules": rules("/pci/", "reveal")});
    let made = server.management.post("/applications", body).await.expect(201);
    let client = server.client(made["key"].as_str().unwrap());
    let application = format!("/applications/{}", made["id"].as_str().unwrap());
    let receiver = Receiver::start().await;
    let args = json!({"behaviour": "respond", "raw": format!("{{{{ {card} }}}}")});
    let body = json!({"args": args, "callback_url": receiver.url()});
    let queued = client.post(&format!("/reactors/{reactor}/react"), body).await;
    queued.expect(202);
    let place = format!("{}/redeliver", queued.headers["location"].to_str().unwrap());
    // It has ended when it is told.
    receiver.wait(1).await;
    let redeliver = async || {
        let request = client.request(Method::POST, &place).json(&json!({}));
        client.send(request.header("SVC-IDEMPOTENCY-KEY", "k")).await
    };
    let first = redeliver().await.expect(202);
    assert_eq!(first["response"]["raw"], CARD);
    for (now, status, told) in [
        (rules("/pci/", "mask"), 403, "lets a formula see less of a token"),
        (rules("/zzz/", "reveal"), 403, "No rule of the application grants"),
        (rules("/pci/", "reveal"), 202, CARD),
    ] {
        let body = json!({"name": "a", "permissions": ["token:read"], "rules": now});
        server.management.put(&application, body).await.expect(200);
        let again = redeliver().await;
        assert_eq!(again.status, status, "{now}: {}", again.text());
        assert_eq!(again.text().contains(CARD), status == 202, "{now}");
        assert!(again.text().contains(told), "{now}: {}", again.text());
        let is_replay = again.headers.contains_key("svc-idempotent-replay");
        assert!(is_replay == (status == 202) && (!is_replay || again.json() == first), "{now}");
    }
}

/// Each of ten members fails for another digit: named, they would tell it, and a few requests the whole number.
#[tokio::test(flavor = "multi_thread")]
async fn which_filter_fails_for_what_a_token_holds_is_told_to_those_who_may_read_it() {
    let server = TestServer::start().await;
    let parameters = json!([{"name": "n", "type": "number", "optional": true}]);
    let formula =
        guests::formula(&server, "probe", json!({"request_parameters": parameters})).await;
    let reactor = guests::reactor(&server, &formula, json!({})).await;
    let card = server.private.token("card_number", json!(CARD)).await;
    let digits: serde_json::Map<String, Value> = (0..10)
        .map(|digit| {
            let filters = format!("slice: 0 | replace: '{digit}', 'x' | to_number");
            (format!("is_{digit}"), json!(format!("{{{{ {card} | {filters} }}}}")))
        })
        .collect();
    let beside = |name: &str, value: Value| {
        let mut args = digits.clone();
        args.insert(name.to_owned(), value);
        Value::Object(args)
    };
    let alone = |value: String| json!({"n": value});
    let unseeing = server.application("private", &[], rules("/pci/", "reveal")).await;
    let masked = server.application("private", &[], rules("/pci/", "mask")).await;
    let revealing = server.revealing().await;
    for (args, told, named) in [
        (Value::Object(digits.clone()), vec!["args"], vec!["args.is_4"]),
        // What is wrong whatever a token holds is named to everybody.
        (beside("n", json!("x")), vec!["args", "args.n"], vec!["args.is_4", "args.n"]),
        // A number that is too large for some digits only.
        (alone(format!("1e{{{{ {card} | slice: 0, 3 }}}}")), vec!["args.n"], vec!["args.n"]),
        (alone(format!("{{{{ {card} | append: 'x' }}}}")), vec!["args.n"], vec!["args.n"]),
        // Whatever the arguments are called.
        (json!({"[0": digits["is_4"], "[1": digits["is_5"]}), vec!["args"], vec!["args[0"]),
        (json!({"": [digits["is_4"], digits["is_5"]]}), vec!["args"], vec!["args.[0]"]),
        (json!({"": digits["is_4"]}), vec!["args."], vec!["args."]),
        // What kind of value it is.
        (alone(format!("x{{{{ {card} }}}}")), vec!["args.n"], vec!["args.n"]),
        (json!({"n": [format!("{{{{ {card} }}}}")]}), vec!["args.n"], vec!["args.n"]),
    ] {
        let react = format!("/reactors/{reactor}/react");
        let body = json!({"args": args});
        for (client, faults) in [(&server.private, &told), (&unseeing, &told), (&revealing, &named)]
        {
            let answer = client.post(&react, body.clone()).await;
            assert_eq!(answer.faults(), *faults, "{args}");
            assert!(!answer.text().contains("4242"), "{}", answer.text());
        }
    }
    // So it is with what a mask holds, for those who may not read that.
    let shown = json!({"args": {"a": format!("{{{{ {card} | slice: -4, 4 | plus: 1 | card_exp: 'MM' }}}}")}});
    let react = format!("/reactors/{reactor}/react");
    let answer = masked.post(&react, shown).await;
    assert_eq!(answer.faults(), ["args.a"]);
    assert!(answer.text().contains("does not fit what a token holds"), "{}", answer.text());
}

/// A filter meets a bound for one digit only. What is wrong beside it whatever a token holds would tell, by what of it is
/// named, where that was.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_named_beside_a_bound_does_not_tell_for_what_it_was_met() {
    let server = TestServer::start().await;
    let reactor = guests::echo_reactor(&server).await;
    let card = server.private.token("card_number", json!(CARD)).await;
    let large = |digit: u32| {
        let grow = |what: &str| format!("replace: '{what}', '{}'", "xy".repeat(100));
        let filters = [grow(&digit.to_string()), grow("x"), grow("y"), grow("x")].join(" | ");
        format!("{{{{ {card} | slice: 0 | {filters} | size }}}}")
    };
    let wrong = format!("{{{{ {card} | json: '$.none' }}}}");
    let react = format!("/reactors/{reactor}/react");
    for (digits, told) in [
        ([3, 4, 5], vec!["args"]),
        ([4, 3, 5], vec!["args"]),
        ([3, 5, 6], vec!["args.b", "args.d", "args.f"]),
    ] {
        let [a, c, e] = digits.map(large);
        let args = json!({"a": a, "b": wrong, "c": c, "d": wrong, "e": e, "f": wrong});
        let answer = server.private.post(&react, json!({"args": args})).await;
        assert_eq!(answer.faults(), told, "{digits:?}");
    }
    let args = json!({"a": large(4), "b": wrong});
    assert_eq!(server.private.post(&react, json!({"args": args})).await.faults(), ["args.a"]);
}

/// What a run takes may be ready too late: one that moves money would be cut off, and does not begin.
#[tokio::test(flavor = "multi_thread")]
async fn a_run_whose_time_went_by_until_its_arguments_were_ready_does_not_begin() {
    let setup = Setup { react_timeout_ms: 100, ..Setup::default() };
    let server = TestServer::start_with(setup).await;
    let reactor = guests::echo_reactor(&server).await;
    let react = format!("/reactors/{reactor}/react");
    // Until it is compiled, and there.
    while server.private.post(&react, json!({})).await.status != 200 {}
    let id = server.private.token("token", json!("zyx".repeat(3_000))).await;
    let sort = "split: '' | sort_natural | join: ''";
    let slow = format!("{{{{ {id} | {sort} | {sort} | {sort} | size }}}}");
    let began = std::time::Instant::now();
    let body = json!({"args": {"a": vec![slow; 20]}});
    let problem = server.private.post(&react, body).await.expect(504);
    assert!(began.elapsed().as_millis() > 90, "the references take longer than that");
    assert!(problem["detail"].as_str().unwrap().contains("did not begin"), "{problem}");
    let runs = format!("/reactors/{reactor}/invocations?size=1");
    let run = server.management.get(&runs).await.expect(200)["data"][0].clone();
    assert_eq!((&run["fuel"], &run["log"][0]["level"]), (&json!(0), &json!("server")));
}

#[tokio::test(flavor = "multi_thread")]
async fn who_has_ended_while_its_run_goes_on_is_told_so_and_has_no_tokens_made() {
    let server = TestServer::start_with(Setup::open()).await;
    let [begun, gone] = [Arc::new(Notify::new()), Arc::new(Notify::new())];
    let meet = {
        let (begun, gone) = (Arc::clone(&begun), Arc::clone(&gone));
        async move || {
            begun.notify_one();
            gone.notified().await;
        }
    };
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let routes = Router::new().route("/", get(meet));
    tokio::spawn(async { axum::serve(listener, routes).await.unwrap() });
    let code = "module.exports = async ({ args }) => {
        await fetch(args.url);
        return { tokenize: 'b' };
    };";
    let path = reactor(&server, code, json!({"allowed_hosts": [address]}), json!({})).await;
    let permissions = ["token:use", "token:create"];
    let body = json!({"name": "a", "type": "private", "permissions": permissions});
    let made = server.management.post("/applications", body).await.expect(201);
    let client = server.client(made["key"].as_str().unwrap());
    let run = client.post(&path, json!({"args": {"url": format!("http://{address}/")}}));
    let end = async {
        begun.notified().await;
        let application = format!("/applications/{}", made["id"].as_str().unwrap());
        server.management.delete(&application).await.expect(204);
        gone.notify_one();
    };
    let (answer, ()) = tokio::join!(run, end);
    let told = "The application or session that asked for the run has ended.";
    assert_eq!(answer.expect(401)["detail"], told);
    assert_eq!(server.private.get("/tokens").await.expect(200)["pagination"]["total_items"], 0);
}
