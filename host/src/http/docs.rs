//! `/docs`: the description as a page to try things out on (decisions §9). Everything it loads is in the binary.

use std::sync::{Arc, LazyLock};

use axum::extract::Path;
use axum::response::{IntoResponse as _, Redirect, Response};
use http::{StatusCode, header};
use utoipa_swagger_ui::Config;

use super::problem::Problem;

/// The page's first file. Its others lie beside it, so that the page must have an address with a last segment.
const PAGE: &str = "/docs/index.html";

static CONFIG: LazyLock<Arc<Config<'static>>> =
    LazyLock::new(|| Arc::new(Config::from("/openapi.json").try_it_out_enabled(true)));

/// Leads to the page.
pub async fn page() -> Redirect {
    Redirect::temporary(PAGE)
}

/// A file of the page.
pub async fn file(Path(name): Path<String>) -> Response {
    match utoipa_swagger_ui::serve(&name, Arc::clone(&CONFIG)) {
        Ok(Some(file)) => {
            ([(header::CONTENT_TYPE, file.content_type)], file.bytes.into_owned()).into_response()
        }
        _ => Problem::new(StatusCode::NOT_FOUND, "There is no such file.").into_response(),
    }
}
