//! The cases of serde's `rename_all`.

/// How names of fields are written in JSON.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Case {
    /// As in the source: `snake_case`.
    #[default]
    Snake,
    /// `UPPERCASE`, and `SCREAMING_SNAKE_CASE`, which for fields is the same.
    Upper,
    /// `PascalCase`.
    Pascal,
    /// `camelCase`.
    Camel,
    /// `kebab-case`.
    Kebab,
    /// `SCREAMING-KEBAB-CASE`.
    UpperKebab,
}

impl Case {
    /// The case of this name.
    pub fn parse(name: &str) -> Option<Self> {
        Some(match name {
            "lowercase" | "snake_case" => Self::Snake,
            "UPPERCASE" | "SCREAMING_SNAKE_CASE" => Self::Upper,
            "PascalCase" => Self::Pascal,
            "camelCase" => Self::Camel,
            "kebab-case" => Self::Kebab,
            "SCREAMING-KEBAB-CASE" => Self::UpperKebab,
            _ => return None,
        })
    }

    /// The name of a field, as serde writes it.
    pub fn of_field(self, field: &str) -> String {
        match self {
            Self::Snake => field.to_owned(),
            Self::Upper => field.to_ascii_uppercase(),
            Self::Pascal => joined(field),
            // As serde does it, whatever comes first.
            Self::Camel => {
                let name = joined(field);
                let first = name.chars().next().map_or(0, char::len_utf8);
                name[..first].to_ascii_lowercase() + &name[first..]
            }
            Self::Kebab => field.replace('_', "-"),
            Self::UpperKebab => field.to_ascii_uppercase().replace('_', "-"),
        }
    }
}

fn joined(field: &str) -> String {
    let mut upper = true;
    let mut name = String::with_capacity(field.len());
    for c in field.chars() {
        if c == '_' {
            upper = true;
        } else {
            name.push(if upper { c.to_ascii_uppercase() } else { c });
            upper = false;
        }
    }
    name
}

#[cfg(test)]
mod tests {
    use super::Case;

    #[test]
    fn fields_are_named_as_serde_names_them() {
        for (case, expected) in [
            ("snake_case", "line_one_2"),
            ("lowercase", "line_one_2"),
            ("UPPERCASE", "LINE_ONE_2"),
            ("SCREAMING_SNAKE_CASE", "LINE_ONE_2"),
            ("PascalCase", "LineOne2"),
            ("camelCase", "lineOne2"),
            ("kebab-case", "line-one-2"),
            ("SCREAMING-KEBAB-CASE", "LINE-ONE-2"),
        ] {
            assert_eq!(Case::parse(case).unwrap().of_field("line_one_2"), expected, "{case}");
        }
        assert_eq!(Case::parse("spongeCASE"), None);
    }

    /// Beside what serde itself writes.
    #[test]
    fn odd_fields_are_named_as_serde_names_them_too() {
        #[derive(Default, serde::Serialize)]
        #[serde(rename_all = "camelCase")]
        #[expect(non_snake_case, reason = "names may be odd")]
        struct Camel {
            _ref: (),
            a__b: (),
            trailing_: (),
            Upper: (),
            x1: (),
        }
        #[derive(Default, serde::Serialize)]
        #[serde(rename_all = "PascalCase")]
        #[expect(non_snake_case, reason = "names may be odd")]
        struct Pascal {
            _ref: (),
            a__b: (),
            trailing_: (),
        }
        let fields = ["_ref", "a__b", "trailing_", "Upper", "x1"];
        let written = |value: serde_json::Value| -> Vec<String> {
            value.as_object().unwrap().keys().cloned().collect()
        };
        let named = |case: Case, count: usize| -> std::collections::BTreeSet<String> {
            fields[..count].iter().map(|field| case.of_field(field)).collect()
        };
        let camel = written(serde_json::to_value(Camel::default()).unwrap());
        assert_eq!(named(Case::Camel, 5), camel.into_iter().collect());
        let pascal = written(serde_json::to_value(Pascal::default()).unwrap());
        assert_eq!(named(Case::Pascal, 3), pascal.into_iter().collect());
    }
}
