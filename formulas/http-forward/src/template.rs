//! Texts with placeholders, `{{ args.path.to }}`, and what these stand for.
//!
//! Knows nothing of where the text goes: whoever renders it encodes each value for its place.

use tokamak_sdk::{Faults, Request, Value, json};

/// What there is to name of an invocation.
const INVOCATION: &[&str] = &["invocation.id", "invocation.reactor_id", "invocation.attempt"];

/// A text with placeholders, read.
pub(crate) struct Template(Vec<Piece>);

/// A part of a text.
pub(crate) enum Piece {
    /// As it stands.
    Text(String),
    /// What a placeholder stands for.
    Place(Place),
}

/// A placeholder.
pub(crate) struct Place {
    /// `args.path.to`, as it was written.
    pub(crate) path: String,
    /// It ended in `?`: it may stand for nothing.
    pub(crate) optional: bool,
}

impl Template {
    /// Reads a text. None when a placeholder is not closed or names nothing that there could be.
    pub(crate) fn parse(text: &str) -> Option<Self> {
        let (mut pieces, mut rest) = (Vec::new(), text);
        while let Some((before, after)) = rest.split_once("{{") {
            let (inner, after) = after.split_once("}}")?;
            if !before.is_empty() {
                pieces.push(Piece::Text(before.to_owned()));
            }
            pieces.push(Piece::Place(Place::parse(inner.trim())?));
            rest = after;
        }
        if !rest.is_empty() {
            pieces.push(Piece::Text(rest.to_owned()));
        }
        Some(Self(pieces))
    }

    /// Its parts, in order.
    pub(crate) fn pieces(&self) -> &[Piece] {
        &self.0
    }

    /// The placeholder that is the whole text.
    pub(crate) fn whole(&self) -> Option<&Place> {
        match self.0.as_slice() {
            [Piece::Place(place)] => Some(place),
            _ => None,
        }
    }

    /// The text with each value as `encode` writes it; none of what `encode` refuses, which notes why.
    ///
    /// A placeholder that may stand for nothing is empty then.
    pub(crate) fn render(
        &self,
        scope: &Scope,
        faults: &mut Faults,
        encode: impl Fn(&str) -> Result<String, &'static str>,
    ) -> Option<String> {
        let (mut rendered, mut right) = (String::new(), true);
        for piece in &self.0 {
            let place = match piece {
                Piece::Text(text) => {
                    rendered.push_str(text);
                    continue;
                }
                Piece::Place(place) => place,
            };
            match scope.text(place).and_then(|text| encode(&text)) {
                Ok(text) => rendered.push_str(&text),
                Err(message) => {
                    faults.add(place.path.as_str(), message);
                    right = false;
                }
            }
        }
        right.then_some(rendered)
    }
}

impl Place {
    fn parse(inner: &str) -> Option<Self> {
        let (path, optional) =
            inner.strip_suffix('?').map_or((inner, false), |path| (path.trim_end(), true));
        let mut names = path.split('.');
        let known = match names.next()? {
            "args" => true,
            "configuration" => path.contains('.'),
            "invocation" => INVOCATION.contains(&path),
            _ => false,
        };
        // A slash would be one of the address that the placeholder stands in.
        let plain = |c: char| !c.is_whitespace() && !matches!(c, '{' | '}' | '/' | '?' | '#');
        let right = known && path.chars().all(plain) && names.all(|name| !name.is_empty());
        right.then(|| Self { path: path.to_owned(), optional })
    }
}

/// What placeholders can stand for.
pub(crate) struct Scope(Value);

impl Scope {
    /// All of a request that they may name.
    pub(crate) fn of(request: &Request<Value>) -> Self {
        let invocation = &request.invocation;
        Self(json!({
            "args": &request.args,
            "configuration": &request.configuration,
            "invocation": {
                "id": &invocation.id,
                "reactor_id": &invocation.reactor_id,
                "attempt": invocation.attempt,
            },
        }))
    }

    /// The arguments.
    pub(crate) fn args(&self) -> &Value {
        &self.0["args"]
    }

    /// What a placeholder stands for, if there is such a member.
    pub(crate) fn value(&self, place: &Place) -> Option<&Value> {
        place.path.split('.').try_fold(&self.0, |value, name| match value {
            Value::Object(members) => members.get(name),
            Value::Array(items) => items.get(name.parse::<usize>().ok()?),
            _ => None,
        })
    }

    /// What a placeholder within a text stands for; else what is wrong.
    fn text(&self, place: &Place) -> Result<String, &'static str> {
        match self.value(place) {
            Some(Value::String(text)) => Ok(text.clone()),
            Some(Value::Number(number)) => Ok(number.to_string()),
            Some(Value::Bool(truth)) => Ok(truth.to_string()),
            Some(Value::Object(_) | Value::Array(_)) => {
                Err("must be a string, a number or a boolean")
            }
            None | Some(Value::Null) if place.optional => Ok(String::new()),
            None | Some(Value::Null) => Err("is required"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Piece, Template};

    /// Text in quotes, placeholders in brackets.
    fn shown(text: &str) -> Option<String> {
        let template = Template::parse(text)?;
        let shown = template.pieces().iter().map(|piece| match piece {
            Piece::Text(text) => format!("'{text}'"),
            Piece::Place(place) if place.optional => format!("[{}?]", place.path),
            Piece::Place(place) => format!("[{}]", place.path),
        });
        Some(shown.collect())
    }

    #[test]
    fn texts_are_split_at_their_placeholders() {
        for (text, expected) in [
            ("", ""),
            ("plain } { text", "'plain } { text'"),
            ("{{args}}", "[args]"),
            ("{{ args.a.0.b }}", "[args.a.0.b]"),
            (" {{ args.a? }}", "' '[args.a?]"),
            ("{{ args.a ? }}", "[args.a?]"),
            ("a{{ args.b }}{{ invocation.id }}c", "'a'[args.b][invocation.id]'c'"),
            ("{{ configuration.api_key }}", "[configuration.api_key]"),
            ("{{ args.ä-b_c$ }}", "[args.ä-b_c$]"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_names_nothing_is_no_template() {
        for text in [
            "{{",
            "{{ args",
            "{{ }}",
            "{{ ? }}",
            "{{ arg.a }}",
            "{{ args. }}",
            "{{ args..a }}",
            "{{ args.a b }}",
            "{{ args.a | last4 }}",
            "{{ configuration }}",
            "{{ invocation }}",
            "{{ invocation.deadline_ms }}",
            "{{ invocation.id.a }}",
            "{{{ args.a }}}",
            "{{ args.a/b }}",
            "{{ args.a?b }}",
            "{{ args.a } }",
            "{{ .args }}",
        ] {
            assert_eq!(shown(text), None, "{text}");
        }
    }
}
