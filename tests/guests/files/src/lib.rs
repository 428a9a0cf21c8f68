//! A formula that wants files, which no formula gets: it imports `wasi:filesystem`.

use tokamak_sdk::{Error, Request, Response, Value, formula};

#[formula]
fn react(_request: Request<Value>) -> Result<Response, Error> {
    let text = std::fs::read_to_string("/etc/passwd");
    text.map(Response::raw).map_err(|error| Error::runtime(error.to_string()))
}
