//! Examples of requests and answers in the description. They are one story, told to a fresh server by a test that
//! compares what it answers.

use std::sync::LazyLock;

use serde::Deserialize;
use serde_json::Value;
use utoipa::openapi::example::ExampleBuilder;
use utoipa::openapi::path::Operation;
use utoipa::openapi::{Content, OpenApi, RefOr};

static STORY: LazyLock<Vec<Step>> =
    LazyLock::new(|| serde_json::from_str(include_str!("examples.json")).unwrap_or_default());

/// A step of the story, as far as the description tells it.
#[derive(Deserialize)]
struct Step {
    operation: String,
    name: Option<String>,
    request: Option<Value>,
    status: u16,
    response: Option<Value>,
}

/// Adds each step to its operation.
pub(super) fn add(description: &mut OpenApi) {
    for (_, operation) in super::openapi::operations(description) {
        let of = |step: &&Step| operation.operation_id.as_ref() == Some(&step.operation);
        let steps: Vec<&Step> = STORY.iter().filter(of).collect();
        for step in steps {
            step.add_to(operation);
        }
    }
}

impl Step {
    fn add_to(&self, operation: &mut Operation) {
        if let (Some(request), Some(RefOr::T(body))) = (&self.request, &mut operation.request_body)
        {
            body.content.values_mut().for_each(|content| self.show(request, content));
        }
        let response = operation.responses.responses.get_mut(&self.status.to_string());
        if let (Some(answer), Some(RefOr::T(response))) = (&self.response, response) {
            response.content.values_mut().for_each(|content| self.show(answer, content));
        }
    }

    fn show(&self, value: &Value, content: &mut RefOr<Content>) {
        let RefOr::T(content) = content else { return };
        let name = self.name.clone().unwrap_or_else(|| "usual".to_owned());
        let example = ExampleBuilder::new().value(Some(value.clone())).build();
        content.examples.insert(name, RefOr::T(example));
    }
}
