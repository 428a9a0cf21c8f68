//! Expressions and masks: whatever the source and the data, evaluating ends soon, gives no more
//! than it may, and gives the same again.
//!
//! An input is a source and, on its last line, the data: JSON in which `@text`, `@array` and
//! `@object` stand for large values. The data is taken for a mask too.

use super::{data, text_bytes, timely};
use serde_json::{Value, json};
use tokamak::crypto::entropy::SeededEntropy;
use tokamak::expression::{ExpressionError, Mask, Scope, Template, Work};
use tokamak::limits::{
    EXPRESSION_BYTES_MAX, EXPRESSION_OUTPUT_BYTES_MAX, EXPRESSION_WORK_BYTES_MAX,
};

/// Data that is evaluated on for its cost alone.
const LARGE_BYTES: usize = 64 << 10;

/// Checks one input.
pub fn check(input: &str) {
    let (source, text) = input.rsplit_once('\n').unwrap_or((input, "{}"));
    let Some(data) = data(text) else { return };
    if text_bytes(&data) > LARGE_BYTES {
        // What costs time is the data: once is enough.
        if let Ok(template) = Template::parse(source) {
            let _ = evaluate(&template, &data, by_itself);
        }
        return;
    }
    template(source, &data);
    mask(&json!([source, {"of": [source, "{{ data }}"]}]), &data);
    mask(&data, &json!({"number": "4242424242424242", "mask": source}));
}

fn template(source: &str, data: &Value) {
    let Ok(template) = timely("parsing", || Template::parse(source)) else { return };
    assert!(source.len() <= EXPRESSION_BYTES_MAX);
    let evaluated = evaluate(&template, data, by_itself);
    let again = evaluate(&template, data, by_itself);
    assert_eq!(evaluated, again, "evaluated twice");
    let text = evaluate(&template, data, Template::evaluate_text);
    // All of the data may be fingerprinted, so that a text has the bound of all work alone.
    assert!(text.as_ref().map_or(0, String::len) <= EXPRESSION_WORK_BYTES_MAX);
    if let Ok(value) = &evaluated {
        // A member of the data is no larger than the data.
        let max = EXPRESSION_OUTPUT_BYTES_MAX.max(text_bytes(data));
        assert!(text_bytes(value) <= max, "{} bytes", text_bytes(value));
        let shown = value.as_str().map(str::to_owned);
        assert!(shown.is_none() || text.as_ref().ok() == shown.as_ref(), "text is text");
    }
    match evaluate(&template, data, Template::evaluate_index) {
        Ok(index) => {
            assert!(!index.is_empty());
            assert_eq!(text.as_ref(), Ok(&index));
        }
        Err(error @ (ExpressionError::NotSingle | ExpressionError::Empty)) => {
            assert!(evaluated.is_ok(), "{error}");
        }
        Err(error) => assert_eq!(evaluated.err(), Some(error)),
    }
}

/// With its own allowance of work.
fn by_itself(template: &Template, scope: &Scope<'_>, _: &Work) -> Result<Value, ExpressionError> {
    template.evaluate(scope)
}

fn evaluate<T>(
    template: &Template,
    data: &Value,
    how: fn(&Template, &Scope<'_>, &Work) -> Result<T, ExpressionError>,
) -> Result<T, ExpressionError> {
    let metadata = [("key".to_owned(), "value".to_owned())].into_iter().collect();
    let scope = Scope { data, metadata: Some(&metadata), entropy: Some(&SeededEntropy::new(1)) };
    timely("evaluating", || how(template, &scope, &Work::new(EXPRESSION_WORK_BYTES_MAX)))
}

fn mask(source: &Value, data: &Value) {
    let Ok(mask) = timely("parsing a mask", || Mask::parse(source)) else { return };
    let work = Work::new(EXPRESSION_WORK_BYTES_MAX);
    let evaluate = || mask.evaluate(data, &SeededEntropy::new(1), &work);
    if let Ok(shown) = timely("evaluating a mask", evaluate) {
        let most = EXPRESSION_OUTPUT_BYTES_MAX + text_bytes(source);
        assert!(text_bytes(&shown) <= most, "{} bytes", text_bytes(&shown));
    }
}
