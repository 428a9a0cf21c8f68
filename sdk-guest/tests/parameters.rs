//! What the derive declares beside what serde reads: nothing that is valid may be declared away.

use serde::{Deserialize, Deserializer};
use tokamak_sdk::{Parameters, Value, json, testing};

fn digits<'de, D: Deserializer<'de>>(source: D) -> Result<u64, D::Error> {
    let text = String::deserialize(source)?;
    text.parse().map_err(serde::de::Error::custom)
}

#[derive(Deserialize, Parameters)]
#[serde(transparent)]
struct Iban {
    text: String,
}

#[derive(Deserialize)]
struct Wire(u64);

/// An amount that JSON has as a number, and no member of.
#[derive(Deserialize, Parameters)]
#[serde(from = "Wire")]
#[parameter(type = "number")]
struct Amount {
    minor_units: u64,
}

impl From<Wire> for Amount {
    fn from(Wire(minor_units): Wire) -> Self {
        Self { minor_units }
    }
}

#[derive(Deserialize, Parameters)]
struct Args {
    iban: Iban,
    amount: Amount,
    #[serde(deserialize_with = "digits")]
    #[parameter(type = "string")]
    order: u64,
    #[serde(alias = "note")]
    memo: String,
}

#[test]
fn valid_arguments_fit_what_is_declared() {
    let declared = json!([
        { "name": "iban", "type": "string" },
        { "name": "amount", "type": "number" },
        { "name": "order", "type": "string" },
        { "name": "memo", "type": "string", "optional": true },
        { "name": "note", "type": "string", "optional": true },
    ]);
    assert_eq!(testing::parameters::<Args>(), declared);
    for memo in ["memo", "note"] {
        let valid = json!({ "iban": "DE1", "amount": 5, "order": "17", memo: "thanks" });
        for declared in declared.as_array().into_iter().flatten() {
            let name = declared["name"].as_str().unwrap_or_default();
            let kind = match &valid[name] {
                Value::String(_) => "string",
                Value::Number(_) => "number",
                _ => "absent",
            };
            let absent = kind == "absent" && declared["optional"] == true;
            assert!(absent || declared["type"] == kind, "{declared}");
        }
        let args: Args = serde_json::from_value(valid).unwrap();
        let read = (args.iban.text.as_str(), args.amount.minor_units, args.order, &*args.memo);
        assert_eq!(read, ("DE1", 5, 17, "thanks"));
    }
}
