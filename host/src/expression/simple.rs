//! Expressions that are most of those written: what they come to is seen without liquid.

use super::filters::PATH_BYTES_MAX;

/// The path of `data` or `data.member.member`.
pub fn member(source: &str) -> Option<Vec<String>> {
    let mut names = source.split('.');
    if names.next() != Some("data") {
        return None;
    }
    // Liquid gives these a meaning of their own on arrays and objects.
    let plain = |name: &str| is_name(name) && !matches!(name, "size" | "first" | "last");
    names.map(|name| plain(name).then(|| name.to_owned())).collect()
}

/// The names in `data | json: '$.name.name'`: what is found there is the member of that path, if there is one.
pub fn named_by_json<'s>(source: &'s str) -> Option<Vec<String>> {
    // Other white space is none to liquid.
    let trim = |text: &'s str| text.trim_matches([' ', '\n', '\r']);
    let (data, filter) = source.split_once('|')?;
    let path = trim(trim(filter).strip_prefix("json:")?);
    let path = ['\'', '"'].iter().find_map(|q| path.strip_prefix(*q)?.strip_suffix(*q))?;
    let names = path.strip_prefix("$.").filter(|_| path.len() <= PATH_BYTES_MAX)?.split('.');
    let names = names.map(|name| is_name(name).then(|| name.to_owned()));
    names.collect::<Option<_>>().filter(|_| trim(data) == "data")
}

/// Whether this filter is `json: '$.name[1]['name']'`: what a value holds has no say in whether anything is found there, only
/// what members and items it has.
pub fn is_singular_json(filter: &str) -> bool {
    let path = filter.trim().strip_prefix("json:").map(str::trim).unwrap_or_default();
    let quoted = |quote: char| path.strip_prefix(quote)?.strip_suffix(quote);
    let path = ['\'', '"'].into_iter().find_map(quoted).unwrap_or_default();
    let is_part = |c: char| c.is_ascii_alphanumeric() || "$._-[]'\"".contains(c);
    path.starts_with('$') && path.chars().all(is_part) && !path.contains("..")
}

/// The path and the number of `data.member | reveal_last: n`.
pub fn last_shown_member(source: &str) -> Option<(Vec<String>, usize)> {
    let (path, filter) = source.split_once('|')?;
    let shown = filter.trim().strip_prefix("reveal_last:")?.trim();
    let digits = shown.bytes().all(|digit| digit.is_ascii_digit());
    let is_small = digits && shown.len() <= 4 && (shown == "0" || !shown.starts_with('0'));
    Some((member(path.trim())?, is_small.then(|| shown.parse().ok())??))
}

/// Whether this is a name for liquid and for JSONPath, as it stands.
fn is_name(name: &str) -> bool {
    !name.is_empty()
        && !name.starts_with(|c: char| c.is_ascii_digit())
        && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
}

#[cfg(test)]
mod tests {
    use super::{is_singular_json, last_shown_member, member, named_by_json};

    #[test]
    fn what_a_value_holds_has_no_say_in_a_path_of_names_and_numbers() {
        for path in ["$", "$.a", "$.a.b_1", "$[0]", "$.a[-1].b", "$[\"a-b\"]", "$.a['b']['c']"] {
            let quote = if path.contains('\'') { '"' } else { '\'' };
            assert!(is_singular_json(&format!(" json: {quote}{path}{quote} ")), "{path}");
        }
        for filter in [
            "json: '$..a'",
            "json: '$.*'",
            "json: '$[?@.a]'",
            "json: '$[?@.a == 1]'",
            "json: '$[0:1]'",
            "json: '$[0,1]'",
            "json: path",
            "json: 'a'",
            "json: '$.a' | upcase",
            "json: '$.a', 1",
            "slice: 1",
            "",
        ] {
            assert!(!is_singular_json(filter), "{filter}");
        }
    }

    #[test]
    fn only_what_is_simple_is_taken_for_it() {
        let path = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
        for (source, names) in [
            ("data", path(&[])),
            ("data.a", path(&["a"])),
            ("data._a1.b", path(&["_a1", "b"])),
            ("data.first", None),
            ("data.1", None),
            ("data.", None),
            ("data[0]", None),
            ("data.a | upcase", None),
            ("metadata.a", None),
        ] {
            assert_eq!(member(source), names, "{source}");
        }
        for (source, names) in [
            ("data | json: '$.a'", path(&["a"])),
            ("data|json:\"$.a.b_2\"", path(&["a", "b_2"])),
            // JSONPath gives these no other meaning.
            ("data | json: '$.size.first'", path(&["size", "first"])),
            ("data | json: '$'", None),
            ("data | json: '$..a'", None),
            ("data | json: '$.a[0]'", None),
            ("data | json: '$.*'", None),
            ("data | json: '$.1'", None),
            ("data | json: '$.a\"", None),
            ("data | json: '$.a' | upcase", None),
            ("data | json: '$.a', 1", None),
            ("data |\tjson: '$.a'", None),
            ("data\u{a0}| json: '$.a'", None),
            ("data\n| json:\r\n'$.a'", path(&["a"])),
            ("data | json: path", None),
            ("data | jsonp: '$.a'", None),
            ("data.a | json: '$.a'", None),
        ] {
            assert_eq!(named_by_json(source), names, "{source}");
        }
        let long = |names: usize| format!("data | json: '${}'", ".a".repeat(names));
        assert!(named_by_json(&long(127)).is_some() && named_by_json(&long(128)).is_none());
        let shown = |name: &str, count| Some((vec![name.to_owned()], count));
        for (source, expected) in [
            ("data.number | reveal_last: 4", shown("number", 4)),
            ("data.number|reveal_last:0", shown("number", 0)),
            ("data.number | reveal_last: 04", None),
            ("data.number | reveal_last: 4, '*'", None),
            ("data.number | reveal_last: -1", None),
            ("number | reveal_last: 4", None),
        ] {
            assert_eq!(last_shown_member(source), expected, "{source}");
        }
    }
}
