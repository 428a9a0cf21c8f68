//! No formula: a component of the world `wasi:http/proxy` that does nothing but answer, for the benchmark that compares
//! with other servers of components.

use wasip2::exports::http::incoming_handler::Guest;
use wasip2::http::types::{Fields, IncomingRequest, OutgoingBody, OutgoingResponse, ResponseOutparam};

wasip2::http::proxy::export!(Idle);

struct Idle;

impl Guest for Idle {
    fn handle(_: IncomingRequest, answer: ResponseOutparam) {
        let response = OutgoingResponse::new(Fields::new());
        let body = response.body();
        ResponseOutparam::set(answer, Ok(response));
        if let Ok(body) = body {
            // Without a byte in it, it cannot fail to be written.
            let _ = OutgoingBody::finish(body, None);
        }
    }
}
