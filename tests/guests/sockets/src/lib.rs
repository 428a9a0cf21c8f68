//! A formula that wants sockets, which no formula gets: it imports `wasi:sockets`.

use std::net::TcpStream;

use tokamak_sdk::{Error, Request, Response, Value, formula};

#[formula]
fn react(_request: Request<Value>) -> Result<Response, Error> {
    let connected = TcpStream::connect(("127.0.0.1", 80)).is_ok();
    Ok(Response::raw(connected))
}
