//! What a patch makes of a token's body.

use serde_json::{Map, Value};

use super::UpdateToken;
use crate::expression::{Mask, Template};
use crate::model::faults::Faults;
use crate::model::member::{Few, Member, Text};
use crate::model::time::Timestamp;
use crate::vault::Error;
use crate::vault::tokens::Token;
use crate::vault::tokens::request::{CreateToken, Indexes, Source, read_expiry, read_metadata};

const NEEDS_DATA: &str = "cannot be removed";

impl UpdateToken {
    /// What is wrong with the patch whatever it is applied to.
    pub(super) fn faults(&self, now: Timestamp) -> Faults {
        let mut faults = Faults::new();
        let Self { data, mask, metadata, containers, search_indexes, .. } = self.clone();
        if matches!(data, Member::Null) {
            faults.add("data", NEEDS_DATA);
        }
        data.optional("data", &mut faults);
        // What a patch sets is in the token as it stands here, whatever there was before.
        if let Some(mask) = mask.optional("mask", &mut faults) {
            faults.take("mask", Mask::parse(&mask));
        }
        if let Some(mut members) = metadata.optional("metadata", &mut faults) {
            members.retain(|_, value| !value.is_null());
            read_metadata(members, &mut faults);
        }
        containers.optional("containers", &mut faults);
        if let Some(sources) = search_indexes.optional("search_indexes", &mut faults) {
            sources.entries("search_indexes", &mut faults);
        }
        let fingerprint = self.fingerprint_expression.clone();
        if let Some(source) = fingerprint.optional("fingerprint_expression", &mut faults) {
            faults.check("fingerprint_expression", Template::parse(&source));
        }
        self.deduplicate_token.clone().optional("deduplicate_token", &mut faults);
        if let Some(text) = self.expires_at.clone().optional("expires_at", &mut faults) {
            read_expiry(&text, now, &mut faults);
        }
        faults
    }

    /// The body that would make the token as the patch leaves it; what is wrong with the patch is added to `faults`.
    pub(super) fn apply(self, token: &Token, faults: &mut Faults) -> Result<CreateToken, Error> {
        let about = &token.about;
        let kind = token.token_type()?;
        let data = match self.data {
            Member::Absent => token.data.expose().clone(),
            Member::Null => {
                faults.add("data", NEEDS_DATA);
                token.data.expose().clone()
            }
            data => merged(Some(token.data.expose()), data.required("data", faults)),
        };
        let mask = match self.mask {
            Member::Absent => about.mask.clone().map_or(Member::Null, |mut mask| {
                kind.follow_with_mask(&mut mask, (token.data.expose(), &data));
                Member::Given(mask)
            }),
            Member::Null => Member::Null,
            mask => {
                let patch = mask.required("mask", faults);
                Member::Given(merged(about.mask.as_ref(), patch))
            }
        };
        let metadata = match self.metadata {
            Member::Absent => Member::given(about.metadata.as_ref().map(to_map)),
            Member::Null => Member::Absent,
            metadata => {
                let patch = metadata.required("metadata", faults).map(Value::Object);
                let before = about.metadata.as_ref().map(|map| Value::Object(to_map(map)));
                match merged(before.as_ref(), patch) {
                    Value::Object(members) => Member::Given(members),
                    _ => Member::Absent,
                }
            }
        };
        let containers =
            self.containers.or(|| Few(about.containers.iter().cloned().map(Text).collect()));
        // The expressions as they are, even if there are none: the type's defaults are for new tokens.
        let search_indexes = self
            .search_indexes
            .or(|| Indexes::of(about.search_indexes.iter().flatten().cloned().map(Source)));
        let fingerprint_expression =
            self.fingerprint_expression.or_maybe(|| about.fingerprint_expression.clone());
        let deduplicate_token = self.deduplicate_token.or_maybe(|| about.deduplicate_token);
        let expires_at = self.expires_at.or_maybe(|| about.expires_at.map(|end| end.to_string()));
        Ok(CreateToken {
            id: Member::Absent,
            r#type: Member::Given(Text(kind)),
            data: Member::Given(data),
            mask,
            containers,
            metadata,
            search_indexes,
            fingerprint_expression,
            deduplicate_token,
            expires_at,
        })
    }
}

/// What a patch makes of a value.
fn merged(before: Option<&Value>, patch: Option<Value>) -> Value {
    let mut value = before.cloned().unwrap_or(Value::Null);
    if let Some(patch) = patch {
        json_patch::merge(&mut value, &patch);
    }
    value
}

fn to_map(metadata: &std::collections::BTreeMap<String, String>) -> Map<String, Value> {
    metadata.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str()))).collect()
}
