//! Somebody who takes every webhook.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::Router;
use axum::extract::State;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use tokio::net::TcpListener;

/// The runs that it was told of.
pub type Told = Arc<Mutex<BTreeSet<String>>>;

async fn receive(State(told): State<Told>, headers: HeaderMap) -> StatusCode {
    told.lock().insert(headers["webhook-id"].to_str().unwrap().to_owned());
    StatusCode::NO_CONTENT
}

/// Where it listens, and what came.
pub async fn receiver() -> (String, Told) {
    let told = Told::default();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook", listener.local_addr().unwrap());
    let router = Router::new().fallback(receive).with_state(Arc::clone(&told));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (url, told)
}
