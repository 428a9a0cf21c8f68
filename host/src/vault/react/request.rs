//! The body of `POST /reactors/{id}/react`, checked.

use serde::Deserialize;
use serde_json::{Map, Value};
use utoipa::ToSchema;

use crate::expression::Arguments;
use crate::limits::{ASYNCHRONOUS_TIMEOUT_MS_MAX, REACT_TIMEOUT_MS};
use crate::model::faults::Faults;
use crate::model::member::Member;
use crate::model::plaintext::opaque;

/// Body of `POST /reactors/{id}/react`.
#[derive(Default, Deserialize, ToSchema)]
pub struct ReactRequest {
    /// Arguments, in which `{{ <token id> }}` stands for a token's data.
    #[schema(value_type = Option<HashMap<String, Value>>, example = json!({"card": "{{ my-card }}"}))]
    #[serde(default)]
    args: Member<Map<String, Value>>,
    /// Where the result goes; the run is queued, and answered at once with 202. An `https` address that is public.
    #[schema(value_type = Option<String>, format = "uri", max_length = 2048)]
    #[serde(default)]
    callback_url: Member<String>,
    /// How long the run may take, in milliseconds: 10,000 if it is absent. Only with `callback_url`.
    // No default for machines: a client that was made of the description would send it with every request.
    #[schema(value_type = Option<u32>, minimum = 10_000, maximum = 210_000)]
    #[serde(default)]
    timeout_ms: Member<u32>,
}

opaque!(ReactRequest);

/// The body, checked.
pub struct Checked {
    /// The arguments as they were given, if the run is asynchronous: they are kept.
    pub args: Option<Map<String, Value>>,
    /// The arguments, read.
    pub arguments: Option<Arguments>,
    /// What makes the run asynchronous, if it is.
    pub asynchronous: Option<Asynchronous>,
}

/// What an asynchronous run needs more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asynchronous {
    /// Where the result goes.
    pub callback_url: String,
    /// How long the run may take.
    pub timeout_ms: u64,
}

impl ReactRequest {
    /// Checks the body; `callback` checks the address. What is faulty has a fault, and is left out.
    pub(super) fn check(
        self,
        callback: impl FnOnce(&str) -> Result<String, &'static str>,
        faults: &mut Faults,
    ) -> Checked {
        let args = self.args.optional("args", faults).map(Value::Object);
        let mut within = Faults::new();
        let arguments = args.as_ref().map(|args| Arguments::read(args, &mut within));
        faults.extend_under("args", within);
        // An address that is none is one that was given.
        let is_asynchronous = self.callback_url.is_there();
        let callback_url = self.callback_url.optional("callback_url", faults);
        let timeout_ms = self.timeout_ms.optional("timeout_ms", faults).map(u64::from);
        let (least, most) = (REACT_TIMEOUT_MS, ASYNCHRONOUS_TIMEOUT_MS_MAX);
        match timeout_ms {
            Some(_) if !is_asynchronous => {
                faults.add("timeout_ms", "is for asynchronous runs only: it needs a callback_url");
            }
            Some(timeout_ms) if !(least..=most).contains(&timeout_ms) => {
                faults.add("timeout_ms", format!("must be a whole number from {least} to {most}"));
            }
            _ => {}
        }
        let callback_url =
            callback_url.and_then(|text| faults.check("callback_url", callback(&text)));
        let asynchronous = callback_url.map(|callback_url| Asynchronous {
            callback_url,
            timeout_ms: timeout_ms.unwrap_or(REACT_TIMEOUT_MS),
        });
        let args = match args {
            Some(Value::Object(args)) if asynchronous.is_some() => Some(args),
            _ => None,
        };
        Checked { args, arguments, asynchronous }
    }
}
