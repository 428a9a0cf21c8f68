//! Replies: JSON bodies, created entities with their place, pages.

use axum::response::{IntoResponse, Response};
use http::{StatusCode, header};
use serde::Serialize;
use utoipa::ToSchema;

use super::problem::Problem;
use crate::vault::Page;

/// 200 with a JSON body.
pub struct Reply<T>(pub T);

/// 201 with a JSON body and the place of what was made.
pub struct Created<T> {
    /// The path of the new entity.
    pub location: String,
    /// The body.
    pub body: T,
}

/// A page of a list (decisions §1).
#[derive(Debug, Serialize, ToSchema)]
pub struct Paginated<T> {
    /// Where the page stands.
    pagination: Pagination,
    /// The entries, newest first.
    data: Vec<T>,
}

/// Where a page stands.
#[derive(Debug, Serialize, ToSchema)]
pub struct Pagination {
    /// How many entries there are on all pages.
    total_items: u64,
    /// This page's number, from 1.
    page_number: u64,
    /// How many entries a page has.
    page_size: usize,
    /// How many pages there are.
    total_pages: u64,
    /// A cursor for the parameter `start`; absent on the last page.
    #[serde(skip_serializing_if = "Option::is_none")]
    next: Option<String>,
}

impl<T> From<Page<T>> for Paginated<T> {
    fn from(page: Page<T>) -> Self {
        let pagination = Pagination {
            total_items: page.total_items,
            page_number: page.page_number,
            page_size: page.page_size,
            total_pages: page.total_pages(),
            next: page.next,
        };
        Self { pagination, data: page.data }
    }
}

impl<T: Serialize> IntoResponse for Reply<T> {
    fn into_response(self) -> Response {
        json(StatusCode::OK, &self.0)
    }
}

impl<T: Serialize> IntoResponse for Created<T> {
    fn into_response(self) -> Response {
        let mut response = json(StatusCode::CREATED, &self.body);
        if let Ok(location) = self.location.parse() {
            response.headers_mut().insert(header::LOCATION, location);
        }
        response
    }
}

fn json(status: StatusCode, body: &impl Serialize) -> Response {
    match serde_json::to_vec(body) {
        // Tokens and keys are in these bodies: nothing on the way may keep them.
        Ok(body) => {
            let headers = [
                (header::CONTENT_TYPE, "application/json"),
                (header::CACHE_CONTROL, "no-store"),
            ];
            (status, headers, body).into_response()
        }
        Err(error) => {
            tracing::error!(%error, "a response does not serialise");
            Problem::new(StatusCode::INTERNAL_SERVER_ERROR, "The server failed to answer.")
                .into_response()
        }
    }
}

/// A path segment in which every character that is not plain is escaped.
pub fn segment(text: &str) -> String {
    use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
    const KEPT: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.').remove(b'~');
    utf8_percent_encode(text, KEPT).to_string()
}
