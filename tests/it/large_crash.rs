//! A server that is killed while large components are stored, with others at work between their portions.

use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::binary::{Process, about, assert_sound};
use crate::support::{Client, guests};

/// So large that it is written in dozens of portions.
const PADDED_BYTES: usize = 16 << 20;

/// A component with a section of its own that is of no use, and not to be compressed.
fn padded(seed: u64) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let noise = std::iter::repeat_with(|| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    });
    let noise: Vec<u8> = noise.take(PADDED_BYTES / 8).flatten().collect();
    let mut component = guests::component("probe").to_vec();
    // A custom section: its number, how long it is, and its name.
    let mut length = noise.len() + 2;
    component.push(0);
    while length > 0x7f {
        component.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    component.push(u8::try_from(length).unwrap());
    component.extend_from_slice(b"\x01x");
    component.extend_from_slice(&noise);
    component
}

async fn upload(client: Client, path: String, seed: u64) -> Option<u16> {
    let request = client.request(Method::PUT, &path);
    let request = request.header("Content-Type", "application/wasm").body(padded(seed));
    request.send().await.ok().map(|answer| answer.status().as_u16())
}

/// Makes tokens until the server is gone; gives those that it acknowledged.
async fn tokens(client: Client, prefix: String) -> Vec<String> {
    let mut made = Vec::new();
    for number in 0.. {
        let id = format!("{prefix}-{number}");
        let request = client.request(Method::POST, "/tokens");
        let body = json!({"id": id, "type": "token", "data": "x"});
        match request.json(&body).send().await {
            Ok(answer) if answer.status() == 201 => made.push(id),
            _ => break,
        }
    }
    made
}

#[tokio::test(flavor = "multi_thread")]
async fn a_component_is_whole_or_not_there_wherever_the_process_ends() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    let process = Process::serve(&data);
    let management = process.management();
    let (_, out, err) = about(&data, &["tenant", "create", "other"]);
    let key = out.split_whitespace().find(|word| word.starts_with("key_mgt_"));
    let other = management.with_key(key.unwrap_or_else(|| panic!("{err}")));
    let body =
        json!({"name": "a", "type": "private", "permissions": ["token:create", "token:read"]});
    let made = other.post("/applications", body).await.expect(201);
    let key = made["key"].as_str().unwrap().to_owned();
    let component = STANDARD.encode(guests::component("probe"));
    let body = json!({"name": "probe", "component": component});
    let formula = management.post("/reactor-formulas", body).await.expect(201);
    let path = format!("/reactor-formulas/{}", formula["id"].as_str().unwrap());
    let mut known: Vec<Value> = vec![formula["component_digest"].clone()];
    let (mut process, mut acknowledged) = (process, Vec::new());
    for round in 0..6_u64 {
        let management = process.management();
        let client = management.with_key(&key);
        let others = tokio::spawn(tokens(client, format!("t{round}")));
        let large = tokio::spawn(upload(management, format!("{path}/component"), round));
        tokio::time::sleep(Duration::from_millis(150 + 350 * round)).await;
        process.kill();
        let (made, status) = (others.await.unwrap(), large.await.unwrap());
        process = Process::serve(&data);
        let management = process.management();
        let formula = management.get(&path).await.expect(200);
        let digest = formula["component_digest"].clone();
        if status == Some(200) {
            assert!(!known.contains(&digest), "it is lost");
        }
        // It is that of the last one or of this.
        if known.last() != Some(&digest) {
            assert!(!known.contains(&digest), "an earlier one is back");
            known.push(digest);
        }
        let stored = management.get(&format!("{path}/component")).await;
        assert_eq!(stored.status, 200);
        assert!(stored.bytes.starts_with(b"\0asm"));
        acknowledged.extend(made);
        let client = management.with_key(&key);
        for id in &acknowledged {
            client.get(&format!("/tokens/{id}")).await.expect(200);
        }
    }
    assert_eq!(process.terminate(), Some(0));
    assert_sound(&data);
}
