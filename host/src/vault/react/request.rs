//! The body of `POST /reactors/{id}/react`, checked.

use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::model::faults::Faults;
use crate::model::member::Member;

/// Body of `POST /reactors/{id}/react`.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default)]
pub struct ReactRequest {
    /// Arguments, in which `{{ <token id> }}` stands for a token's data.
    #[schema(value_type = Option<Object>, example = json!({"card": "{{ my-card }}"}))]
    args: Member<Map<String, Value>>,
    #[schema(ignore)]
    callback_url: Member<Value>,
    #[schema(ignore)]
    timeout_ms: Member<Value>,
}

impl ReactRequest {
    /// The arguments, if there are any.
    pub(super) fn check(self) -> Result<Option<Map<String, Value>>, Faults> {
        let mut faults = Faults::new();
        let args = self.args.optional("args", &mut faults);
        let asynchronous = self.callback_url.optional("callback_url", &mut faults).is_some();
        if asynchronous {
            faults.add("callback_url", "asynchronous runs are not taken by this version");
        }
        if self.timeout_ms.optional("timeout_ms", &mut faults).is_some() && !asynchronous {
            faults.add("timeout_ms", "is for asynchronous runs only: it needs a callback_url");
        }
        faults.into_result(args)
    }
}
