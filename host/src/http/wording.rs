//! Words of the description for who reads it: the sections of the specification, which the types' documentation names, are
//! in nobody's hands but its authors'.

use utoipa::openapi::schema::ArrayItems;
use utoipa::openapi::{OpenApi, RefOr, Schema};

/// How mentions of a section begin.
const MENTIONS: [&str; 2] = [" (interface §", " (decisions §"];

/// Leaves out the mentions of sections.
pub(super) fn without_sections(description: &mut OpenApi) {
    let schemas = description.components.iter_mut().flat_map(|all| all.schemas.values_mut());
    schemas.for_each(leave_out);
}

fn leave_out(schema: &mut RefOr<Schema>) {
    let RefOr::T(schema) = schema else { return };
    let (text, within): (_, Vec<&mut RefOr<Schema>>) = match schema {
        Schema::Object(object) => {
            (&mut object.description, object.properties.values_mut().collect())
        }
        Schema::Array(array) => {
            let items = match &mut array.items {
                ArrayItems::RefOrSchema(items) => vec![items.as_mut()],
                ArrayItems::False => Vec::new(),
            };
            (&mut array.description, items)
        }
        Schema::OneOf(one) => (&mut one.description, one.items.iter_mut().collect()),
        Schema::AllOf(all) => (&mut all.description, all.items.iter_mut().collect()),
        Schema::AnyOf(any) => (&mut any.description, any.items.iter_mut().collect()),
        _ => return,
    };
    if let Some(text) = text {
        *text = plain(text);
    }
    within.into_iter().for_each(leave_out);
}

/// A text without its mentions of sections.
fn plain(text: &str) -> String {
    let mut text = text.to_owned();
    while let Some(at) = MENTIONS.iter().find_map(|mention| text.find(mention)) {
        let Some(end) = text[at..].find(')') else { break };
        text.replace_range(at..=at + end, "");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::plain;
    use crate::http::description;

    #[test]
    fn sections_are_left_out_and_nothing_else() {
        for (text, expected) in [
            ("Body of `POST /tokens` (interface §4.1).", "Body of `POST /tokens`."),
            ("A (decisions §1) b (interface §2, §3) c", "A b c"),
            ("A page (of a list).", "A page (of a list)."),
            ("Broken off (decisions §1", "Broken off (decisions §1"),
        ] {
            assert_eq!(plain(text), expected);
        }
    }

    #[test]
    fn nothing_in_the_description_names_a_section() {
        let text = description().to_json().unwrap();
        let around = |at: usize| text[text.floor_char_boundary(at.saturating_sub(80))..].chars();
        let found = text.find('§').map(|at| around(at).take(120).collect::<String>());
        assert_eq!(found, None);
    }
}
