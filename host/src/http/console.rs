//! `/console`: pages for people who would rather look. They use the interface as any other client does, with keys that
//! the browser's tab alone holds; here are only the files they are made of, which are in the binary.
//!
//! The files lie under an address that holds the digest of them all, so that a browser keeps them for as long as it
//! likes and never mixes two versions. To add one: a row in `files!`; a test compares the rows with the folder.

use std::sync::LazyLock;

use axum::Router;
use axum::extract::Path;
use axum::extract::rejection::PathRejection;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use http::{HeaderMap, HeaderName, StatusCode, header};

use super::State;
use super::problem::Problem;
use crate::crypto::hash::sha256_hex;

/// What stands in the page for the folder that its files are in.
const FOLDER: &str = "{{folder}}";
/// Characters of a digest in an address: 96 bits tell versions apart.
const DIGEST_CHARS: usize = 24;
const KEEP: &str = "public, max-age=31536000, immutable";
const ASK_AGAIN: &str = "no-cache";
/// Whichever page opened this one, or is opened by it, gets no hold of it.
const OPENER_POLICY: HeaderName = HeaderName::from_static("cross-origin-opener-policy");

const PAGE: &str = include_str!("../../console/index.html");

macro_rules! files {
    ($($name:literal)+) => {
        /// Name and contents of every file but the page.
        const FILES: &[(&str, &[u8])] =
            &[$(($name, include_bytes!(concat!("../../console/", $name)))),+];
    };
}

files! {
    "access.js"
    "api.js"
    "app.js"
    "charts.js"
    "choices.js"
    "console.css"
    "fields.js"
    "format.js"
    "icon.svg"
    "issued.js"
    "json_fault.js"
    "lit.js"
    "main.js"
    "merge_patch.js"
    "metrics.js"
    "new_key.js"
    "notices.js"
    "pages/application_form.js"
    "pages/applications.js"
    "pages/containers.js"
    "pages/figures.js"
    "pages/formula_form.js"
    "pages/formulas.js"
    "pages/invocations.js"
    "pages/keys.js"
    "pages/logs.js"
    "pages/reactor_form.js"
    "pages/reactors.js"
    "pages/sign_in.js"
    "pages/token.js"
    "pages/token_edit.js"
    "pages/token_form.js"
    "pages/token_types.js"
    "pages/tokens.js"
    "pages/try_reactor.js"
    "parts.js"
    "preview.js"
    "problem.js"
    "query.js"
    "rights.js"
    "saving.js"
    "search_box.js"
    "state.js"
    "theme.js"
    "vendor/lit-html-3.3.3/LICENSE"
    "vendor/lit-html-3.3.3/directive-helpers.js"
    "vendor/lit-html-3.3.3/directive.js"
    "vendor/lit-html-3.3.3/directives/live.js"
    "vendor/lit-html-3.3.3/lit-html.js"
}

/// What is made of the files once.
struct Made {
    digest: String,
    page: String,
    page_tag: String,
}

static MADE: LazyLock<Made> = LazyLock::new(|| {
    let named = FILES.iter().map(|(name, bytes)| format!("{name} {}\n", sha256_hex(bytes)));
    let mut digest = sha256_hex(named.collect::<String>().as_bytes());
    digest.truncate(DIGEST_CHARS);
    let page = PAGE.replace(FOLDER, &format!("/console/{digest}"));
    let page_tag = format!("\"{}\"", sha256_hex(page.as_bytes()));
    Made { digest, page, page_tag }
});

/// The console's routes.
pub fn routes() -> Router<State> {
    Router::new().route("/console", get(page)).route("/console/{digest}/{*name}", get(file))
}

async fn page(headers: HeaderMap) -> Response {
    let tag = MADE.page_tag.as_str();
    let own =
        [(header::CACHE_CONTROL, ASK_AGAIN), (header::ETAG, tag), (OPENER_POLICY, "same-origin")];
    if is_known(&headers, tag) {
        return (StatusCode::NOT_MODIFIED, own).into_response();
    }
    let kind = [(header::CONTENT_TYPE, "text/html; charset=utf-8")];
    (own, kind, MADE.page.as_str()).into_response()
}

async fn file(path: Result<Path<(String, String)>, PathRejection>) -> Response {
    // What is no UTF-8 is no file's name.
    let (digest, name) = path.map(|Path(path)| path).unwrap_or_default();
    let found = FILES.iter().find(|(file, _)| *file == name).filter(|_| digest == MADE.digest);
    let Some((_, bytes)) = found else {
        return Problem::new(StatusCode::NOT_FOUND, "There is no such file.").into_response();
    };
    let kind = content_type(&name);
    ([(header::CONTENT_TYPE, kind), (header::CACHE_CONTROL, KEEP)], *bytes).into_response()
}

/// Whether a browser has the version of this tag (RFC 9110, section 13.1.2).
fn is_known(headers: &HeaderMap, tag: &str) -> bool {
    let values = headers.get_all(header::IF_NONE_MATCH).iter();
    let mut tags = values.filter_map(|value| value.to_str().ok()).flat_map(|all| all.split(','));
    tags.any(|one| one.trim() == "*" || one.trim().trim_start_matches("W/") == tag)
}

fn content_type(name: &str) -> &'static str {
    match name.rsplit('.').next() {
        Some("js") => "text/javascript; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("svg") => "image/svg+xml",
        _ => "text/plain; charset=utf-8",
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use http::{HeaderMap, HeaderValue, header};

    use super::{FILES, MADE, is_known};

    fn below(folder: &Path, root: &Path, found: &mut BTreeSet<String>) {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                below(&path, root, found);
            } else {
                found.insert(path.strip_prefix(root).unwrap().to_str().unwrap().to_owned());
            }
        }
    }

    #[test]
    fn every_file_of_the_folder_is_served() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("console");
        let mut there = BTreeSet::new();
        below(&root, &root, &mut there);
        let mut served: BTreeSet<String> = FILES.iter().map(|(name, _)| (*name).into()).collect();
        served.insert("index.html".to_owned());
        assert_eq!(there, served);
    }

    #[test]
    fn the_page_names_its_folder() {
        assert!(MADE.page.contains(&format!("/console/{}/main.js", MADE.digest)));
        assert!(!MADE.page.contains("{{"));
    }

    #[test]
    fn versions_are_told_apart_by_their_tags() {
        for (value, expected) in [
            ("\"a\"", true),
            ("W/\"a\"", true),
            ("\"b\", \"a\"", true),
            ("*", true),
            ("\"b\"", false),
            ("a", false),
            ("", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(header::IF_NONE_MATCH, HeaderValue::from_static(value));
            assert_eq!(is_known(&headers, "\"a\""), expected, "{value}");
        }
        assert!(!is_known(&HeaderMap::new(), "\"a\""));
    }
}
