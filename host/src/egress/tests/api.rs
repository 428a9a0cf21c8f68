//! What the command line sends to a server.

use serde_json::json;

use super::server::Server;
use crate::egress::{ApiAnswer, ApiClient};
use crate::limits::FORMULA_BODY_BYTES_MAX;

async fn asked(server: &Server) -> Result<ApiAnswer, String> {
    let base = format!("http://127.0.0.1:{}/", server.port);
    let client = ApiClient::new(&base, "key_mgt_of-a-test".to_owned()).unwrap();
    client.send(http::Method::GET, "/formulas", None).await
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_is_read_whether_or_not_it_says_how_long_it_is() {
    let answers = [
        "HTTP/1.1 200 OK\r\nContent-Length: 7\r\n\r\n{\"a\":1}",
        "HTTP/1.1 200 OK\r\n\r\n{\"a\":1}",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{\"a\":\r\n2\r\n1}\r\n0\r\n\r\n",
    ];
    for answer in answers {
        let server = Server::hanging_up_after(answer).await;
        let expected = ApiAnswer { status: 200, body: json!({"a": 1}) };
        assert_eq!(asked(&server).await, Ok(expected), "{answer:?}");
        let seen = server.seen().remove(0).to_lowercase();
        assert!(seen.starts_with("get /formulas http/1.1\r\n"), "{seen}");
        assert!(seen.contains("\r\nsvc-api-key: key_mgt_of-a-test\r\n"), "{seen}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_answer_that_is_too_large_is_not_read_to_its_end() {
    let announced = FORMULA_BODY_BYTES_MAX + 1;
    let announced = format!("HTTP/1.1 200 OK\r\nContent-Length: {announced}\r\n\r\n");
    let mut unannounced = b"HTTP/1.1 200 OK\r\n\r\n".to_vec();
    unannounced.resize(unannounced.len() + FORMULA_BODY_BYTES_MAX + 1, b' ');
    for answer in [announced.into_bytes(), unannounced] {
        let server = Server::hanging_up_after(answer).await;
        let error = asked(&server).await.unwrap_err();
        assert!(error.ends_with(": the answer is too large"), "{error}");
    }
}
