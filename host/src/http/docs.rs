//! `/docs`: the description as a page to try things out on (decisions §9). Everything it loads is in the binary.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use axum::body::Bytes;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::response::{IntoResponse as _, Redirect, Response};
use http::{StatusCode, header};
use utoipa_swagger_ui::Config;

use super::problem::Problem;

/// The page's first file. Its others lie beside it, so that the page must have an address with a last segment.
const PAGE: &str = "/docs/index.html";
/// The one file that is not served as it lies in the binary: it names the description.
const INITIALIZER: &str = "swagger-initializer.js";

static CONFIG: LazyLock<Arc<Config<'static>>> =
    LazyLock::new(|| Arc::new(Config::from("/openapi.json").try_it_out_enabled(true)));

/// That file, made once.
static INITIALIZER_MADE: LazyLock<Option<Content>> = LazyLock::new(|| find(INITIALIZER));

/// What a file holds. Cloning shares its bytes.
#[derive(Clone)]
struct Content {
    content_type: String,
    bytes: Bytes,
}

/// Leads to the page.
pub async fn page() -> Redirect {
    Redirect::temporary(PAGE)
}

/// A file of the page.
pub async fn file(name: Result<Path<String>, PathRejection>) -> Response {
    // What is no UTF-8 is no file's name.
    let found = name.ok().and_then(|Path(name)| {
        if name == INITIALIZER { INITIALIZER_MADE.clone() } else { find(&name) }
    });
    match found {
        Some(Content { content_type, bytes }) => {
            ([(header::CONTENT_TYPE, content_type)], bytes).into_response()
        }
        None => Problem::new(StatusCode::NOT_FOUND, "There is no such file.").into_response(),
    }
}

fn find(name: &str) -> Option<Content> {
    let file = utoipa_swagger_ui::serve(name, Arc::clone(&CONFIG)).ok()??;
    // Anybody may ask, and the largest has more than a megabyte: none is copied for whoever does.
    let bytes = match file.bytes {
        Cow::Borrowed(bytes) => Bytes::from_static(bytes),
        Cow::Owned(bytes) => Bytes::from(bytes),
    };
    Some(Content { content_type: file.content_type, bytes })
}

#[cfg(test)]
mod tests {
    use super::{INITIALIZER, file};
    use axum::body::Bytes;
    use axum::extract::Path;
    use http_body_util::BodyExt as _;

    async fn bytes_of(name: &str) -> Bytes {
        let mut body = file(Ok(Path(name.to_owned()))).await.into_body();
        body.frame().await.unwrap().unwrap().into_data().unwrap()
    }

    #[tokio::test]
    async fn no_file_is_copied_for_whoever_asks() {
        for name in ["index.html", "swagger-ui-bundle.js", "swagger-ui.css", INITIALIZER] {
            let (one, other) = (bytes_of(name).await, bytes_of(name).await);
            assert!(!one.is_empty(), "{name}");
            assert_eq!((one.as_ptr(), one.len()), (other.as_ptr(), other.len()), "{name}");
        }
    }
}
