//! An HTTP client with one key, whose answers are easy to look into.

use std::net::SocketAddr;

use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::Value;

/// A client of one server.
#[derive(Debug, Clone)]
pub struct Client {
    http: reqwest::Client,
    base: String,
    /// The key it sends.
    pub key: Option<String>,
}

/// An answer, read to its end.
#[derive(Debug, Clone)]
pub struct Answer {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: reqwest::header::HeaderMap,
    /// The body.
    pub bytes: Vec<u8>,
}

impl Client {
    /// A client that sends this key, if any.
    pub fn new(address: SocketAddr, key: Option<&str>) -> Self {
        Self {
            http: reqwest::Client::builder().no_proxy().build().unwrap(),
            base: format!("http://{address}"),
            key: key.map(str::to_owned),
        }
    }

    /// The same client with another key.
    pub fn with_key(&self, key: &str) -> Self {
        Self { http: self.http.clone(), base: self.base.clone(), key: Some(key.to_owned()) }
    }

    /// A request to be shaped further.
    pub fn request(&self, method: Method, path: &str) -> RequestBuilder {
        let request = self.http.request(method, format!("{}{path}", self.base));
        match &self.key {
            Some(key) => request.header("SVC-API-KEY", key),
            None => request,
        }
    }

    /// Sends a request that was shaped.
    pub async fn send(&self, request: RequestBuilder) -> Answer {
        let response = request.send().await.unwrap();
        Answer {
            status: response.status(),
            headers: response.headers().clone(),
            bytes: response.bytes().await.unwrap().to_vec(),
        }
    }

    /// Sends a request that was built, however that ends.
    pub async fn execute(&self, request: reqwest::Request) -> reqwest::Result<Answer> {
        let response = self.http.execute(request).await?;
        let (status, headers) = (response.status(), response.headers().clone());
        Ok(Answer { status, headers, bytes: response.bytes().await?.to_vec() })
    }

    /// GET.
    pub async fn get(&self, path: &str) -> Answer {
        self.send(self.request(Method::GET, path)).await
    }

    /// DELETE.
    pub async fn delete(&self, path: &str) -> Answer {
        self.send(self.request(Method::DELETE, path)).await
    }

    /// POST of JSON.
    pub async fn post(&self, path: &str, body: Value) -> Answer {
        self.send(self.request(Method::POST, path).json(&body)).await
    }

    /// PUT of JSON.
    pub async fn put(&self, path: &str, body: Value) -> Answer {
        self.send(self.request(Method::PUT, path).json(&body)).await
    }

    /// PATCH of a JSON Merge Patch.
    pub async fn patch(&self, path: &str, body: Value) -> Answer {
        let request = self.request(Method::PATCH, path).body(body.to_string());
        self.send(request.header("content-type", "application/merge-patch+json")).await
    }

    /// The ids that a search finds, newest first.
    pub async fn search(&self, query: &str) -> Vec<String> {
        let answer =
            self.post("/tokens/search", serde_json::json!({"query": query, "size": 100})).await;
        ids(&answer.expect(200))
    }

    /// The ids that a list shows, newest first.
    pub async fn list(&self, query: &str) -> Vec<String> {
        ids(&self.get(&format!("/tokens?size=100&{query}")).await.expect(200))
    }

    /// Makes a token of this type and data; gives its id.
    pub async fn token(&self, kind: &str, data: Value) -> String {
        let answer = self.post("/tokens", serde_json::json!({"type": kind, "data": data})).await;
        answer.expect(201)["id"].as_str().unwrap().to_owned()
    }
}

fn ids(page: &Value) -> Vec<String> {
    let tokens = page["data"].as_array().unwrap();
    assert_eq!(page["pagination"]["total_items"], tokens.len());
    tokens.iter().map(|token| token["id"].as_str().unwrap().to_owned()).collect()
}

impl Answer {
    /// The body as JSON; `null` when it is empty.
    pub fn json(&self) -> Value {
        if self.bytes.is_empty() {
            return Value::Null;
        }
        serde_json::from_slice(&self.bytes).unwrap_or_else(|_| panic!("no JSON: {}", self.text()))
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }

    /// The body as JSON, if the status is this one.
    #[track_caller]
    pub fn expect(&self, status: u16) -> Value {
        assert_eq!(self.status.as_u16(), status, "{}", self.text());
        self.json()
    }

    /// The faulty members of a 400.
    #[track_caller]
    pub fn faults(&self) -> Vec<String> {
        let body = self.expect(400);
        body["errors"].as_object().unwrap().keys().cloned().collect()
    }
}
