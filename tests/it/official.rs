//! The formulas that ship, over HTTP and on tokens.

use serde_json::{Value, json};
use tokamak::limits::{CONTAINER_CHARS_MAX, CONTAINER_SEGMENTS_MAX};

use crate::support::{TestServer, guests};

const INSIGHTS: &str = "6f2b0c0e-3d5a-4c38-9d6b-5a1f3c7e9b01";
const NACHA: &str = "b4a4b1c2-52d1-4f0e-8a37-2f6d0c9e7a02";

async fn react(server: &TestServer, reactor: &str, args: Value) -> crate::support::Answer {
    server.private.post(&format!("/reactors/{reactor}/react"), json!({"args": args})).await
}

#[tokio::test(flavor = "multi_thread")]
async fn card_insights_tell_everything_but_the_number() {
    let server = TestServer::start().await;
    let reactor = guests::reactor(&server, INSIGHTS, json!({})).await;
    let card = json!({"number": "378282246310005", "expiration_month": 1, "expiration_year": 2020});
    let (card, number) = (
        server.private.token("card", card).await,
        server.private.token("card_number", json!("4242424242424242")).await,
    );
    let answer = react(&server, &reactor, json!({"card": format!("{{{{ {card} }}}}")})).await;
    assert_eq!(
        answer.expect(200)["raw"],
        json!({"brand": "American Express", "bin": "378282", "last4": "0005",
        "length": 15, "luhn_valid": true, "expiry": "expired"})
    );
    assert!(!answer.text().contains("378282246310005"));
    let answer =
        react(&server, &reactor, json!({"card": format!("{{{{ {number} }}}}")})).await.expect(200);
    assert_eq!(
        (&answer["raw"]["brand"], &answer["raw"]["expiry"]),
        (&json!("Visa"), &json!("unknown"))
    );
    let faults = react(&server, &reactor, json!({})).await;
    assert_eq!(faults.status, 400, "{}", faults.text());
}

/// Digits of a line, by columns counted from 1.
fn columns(line: &str, from: usize, to: usize) -> &str {
    &line[from - 1..to]
}

/// The configuration of who sends files.
fn sender() -> Value {
    json!({"immediate_destination": "021000021", "immediate_destination_name": "JPMORGAN",
        "immediate_origin": "1234567890", "immediate_origin_name": "SHOP", "company_name": "SHOP INC",
        "company_identification": "1234567890", "company_entry_description": "PAYROLL",
        "originating_dfi_identification": "02100002", "standard_entry_class_code": "PPD"})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nacha_file_is_made_of_bank_tokens() {
    let server = TestServer::start().await;
    let reactor = guests::reactor(&server, NACHA, json!({"configuration": sender()})).await;
    let bank = async |routing: &str, account: &str| {
        server
            .private
            .token("bank", json!({"routing_number": routing, "account_number": account}))
            .await
    };
    let (one, two) = (bank("021000021", "12345678901234567").await, bank("011401533", "987").await);
    let entry = |token: &str, cents: u64, kind: &str| {
        json!({"bank": format!("{{{{ {token} }}}}"), "amount_cents": cents,
        "name": "Ada Lovelace", "account_type": "checking", "kind": kind})
    };
    let entries =
        json!([entry(&one, 125_000, "credit"), entry(&two, 99, "debit"), entry(&two, 1, "credit")]);
    let args = json!({"entries": entries, "effective_entry_date": "2099-12-01"});
    let answer = react(&server, &reactor, args).await;
    let body = answer.expect(200);
    assert!(!answer.text().contains("12345678901234567"));
    let summary = &body["raw"]["file_summary"];
    assert_eq!(
        (&summary["entry_count"], &summary["total_credit_cents"], &summary["total_debit_cents"]),
        (&json!(3), &json!(125_001), &json!(99))
    );
    let id = body["tokens"]["file"]["id"].as_str().unwrap();
    let file = server.revealing().await.get(&format!("/tokens/{id}")).await.expect(200);
    assert_eq!(file["containers"], json!(["/bank/high/"]));
    let lines: Vec<&str> = file["data"].as_str().unwrap().lines().collect();
    // Whole blocks of ten records of 94 columns.
    assert!(lines.len().is_multiple_of(10) && lines.iter().all(|line| line.len() == 94));
    let kinds: String = lines.iter().map(|line| &line[..1]).collect();
    assert_eq!(kinds, "1566689999");
    assert_eq!(columns(lines[2], 13, 29).trim(), "12345678901234567");
    assert_eq!((columns(lines[2], 30, 39), columns(lines[2], 2, 3)), ("0000125000", "22"));
    assert_eq!((columns(lines[3], 30, 39), columns(lines[3], 2, 3)), ("0000000099", "27"));
    // The hash is the sum of the first eight digits of the routing numbers.
    let hash = format!("{:010}", 2_100_002 + 2 * 1_140_153);
    let (batch, control) = (lines[5], lines[6]);
    assert_eq!((columns(batch, 5, 10), columns(batch, 11, 20)), ("000003", hash.as_str()));
    assert_eq!((columns(batch, 21, 32), columns(batch, 33, 44)), ("000000000099", "000000125001"));
    assert_eq!(
        (columns(control, 2, 7), columns(control, 8, 13), columns(control, 14, 21)),
        ("000001", "000001", "00000003")
    );
    assert_eq!(columns(control, 22, 31), hash);
    assert_eq!(lines[9], "9".repeat(94));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nacha_file_names_every_fault() {
    let server = TestServer::start().await;
    let body = json!({"name": "n", "formula": {"id": NACHA}, "configuration": {"immediate_destination": "021000021"}});
    let faults = server.management.post("/reactors", body).await.faults();
    assert!(
        faults.len() >= 8 && faults.contains(&"configuration.company_name".to_owned()),
        "{faults:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_nacha_file_goes_where_the_vault_takes_it_and_nobody_becomes_another() {
    let server = TestServer::start().await;
    let args = |id: &str| {
        let bank = json!({"routing_number": "021000021", "account_number": "987"});
        let entry = json!({"bank": bank, "amount_cents": 1, "name": "Zoë 李", "individual_id": id,
            "account_type": "checking", "kind": "credit"});
        json!({"entries": [entry], "effective_entry_date": "2099-12-01"})
    };
    let deep = |segments: usize| format!("/{}", "s/".repeat(segments));
    let long = |characters: usize| format!("/{}/", "l".repeat(characters - 2));
    for (container, status) in [
        (deep(CONTAINER_SEGMENTS_MAX), 200),
        (deep(CONTAINER_SEGMENTS_MAX + 1), 500),
        (long(CONTAINER_CHARS_MAX), 200),
        (long(CONTAINER_CHARS_MAX + 1), 500),
    ] {
        let mut configuration = sender();
        configuration["container"] = json!(container);
        let members = json!({"configuration": configuration});
        let reactor = guests::reactor(&server, NACHA, members).await;
        let answer = react(&server, &reactor, args("E-17")).await;
        assert_eq!(answer.status, status, "{container}: {}", answer.text());
        // The vault's own refusal would be the caller's.
        assert!(status == 200 || answer.text().contains("configuration.container"), "{container}");
    }
    let reactor = guests::reactor(&server, NACHA, json!({"configuration": sender()})).await;
    let faults = react(&server, &reactor, args("李17")).await.faults();
    assert_eq!(faults, ["args.entries[0].individual_id"]);
}
