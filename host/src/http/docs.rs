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
/// The two files that are not served as they lie in the binary: this one names the description.
const INITIALIZER: &str = "swagger-initializer.js";
/// And this one is what a browser asks for.
const FIRST: &str = "index.html";

static CONFIG: LazyLock<Arc<Config<'static>>> = LazyLock::new(|| {
    Arc::new(Config::from("/openapi.json").try_it_out_enabled(true).validator_url("none"))
});

/// These files, made once.
static INITIALIZER_MADE: LazyLock<Option<Content>> = LazyLock::new(|| find(INITIALIZER));
static FIRST_MADE: LazyLock<Option<Content>> = LazyLock::new(first);

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
    let found = name.ok().and_then(|Path(name)| match name.as_str() {
        INITIALIZER => INITIALIZER_MADE.clone(),
        FIRST => FIRST_MADE.clone(),
        _ => find(&name),
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

/// The page's first file, under a name that tells what it is, and as wide as what it is looked at on.
fn first() -> Option<Content> {
    let found = find(FIRST)?;
    let text = String::from_utf8(found.bytes.to_vec()).ok()?;
    let text = text.replace(
        "<title>Swagger UI</title>",
        "<title>Tokamak API</title><meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">",
    );
    Some(Content { bytes: Bytes::from(text), ..found })
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
    async fn the_page_is_as_wide_as_its_window_and_asks_nobody_else() {
        let page = String::from_utf8(bytes_of("index.html").await.to_vec()).unwrap();
        assert!(page.contains("width=device-width") && page.contains("Tokamak API"), "{page}");
        let made = String::from_utf8(bytes_of(INITIALIZER).await.to_vec()).unwrap();
        assert!(made.contains("\"validatorUrl\": \"none\""), "{made}");
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
