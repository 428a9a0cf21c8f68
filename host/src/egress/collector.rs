//! The client that traces are sent with: what its requests carry, such as the collector's key, goes to the collector alone.

use std::time::Duration;

use super::SetupError;
use super::tls;
use crate::limits::HTTP_CONNECT_MS;

/// How long a batch may take.
const TIMEOUT: Duration = Duration::from_secs(10);

/// A client for a collector of traces, for threads that may block.
pub fn collector_client() -> Result<reqwest::blocking::Client, SetupError> {
    let build = || {
        let client = reqwest::blocking::Client::builder()
            .no_proxy()
            .redirect(reqwest::redirect::Policy::none())
            .tls_backend_preconfigured(tls::trusting(&[])?)
            .connect_timeout(Duration::from_millis(HTTP_CONNECT_MS))
            .timeout(TIMEOUT);
        client.build().map_err(|error| SetupError(error.to_string()))
    };
    // It waits for a thread that it starts, which no thread may that others' tasks run on.
    let outcome = std::thread::spawn(build).join();
    outcome.unwrap_or_else(|_| Err(SetupError("its client cannot be made".to_owned())))
}
