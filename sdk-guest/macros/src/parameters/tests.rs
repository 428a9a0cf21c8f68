use super::derive;

/// Each mistake with the line and the column of the author's source that it points at.
fn mistakes(source: &str) -> Vec<(usize, usize, String)> {
    let Err(error) = derive(&syn::parse_str(source).unwrap()) else { return Vec::new() };
    let told = |error: syn::Error| {
        let start = error.span().start();
        (start.line, start.column, error.to_string())
    };
    error.into_iter().map(told).collect()
}

fn derived(source: &str) -> String {
    let text = derive(&syn::parse_str(source).unwrap()).unwrap().to_string();
    text.replace(' ', "")
}

#[test]
fn each_mistake_points_at_its_line() {
    for (source, line, column, part) in [
        ("struct Args {\n    #[serde(flatten)]\n    rest: Rest,\n}", 2, 12, "no name to declare"),
        ("struct Args {\n    #[parameter(type = \"text\")]\n    a: A,\n}", 2, 23, "string, number"),
        ("struct Args {\n    #[parameter(kind = \"string\")]\n    a: A,\n}", 2, 16, "`type"),
        ("#[serde(rename_all = \"sponge\")]\nstruct Args { a: A }", 1, 21, "no case"),
        ("struct Args(\n    u8,\n    u8,\n);", 1, 11, "named fields"),
        ("struct Args;", 1, 7, "named fields"),
        ("union Args {\n    a: u8,\n}", 1, 0, "union"),
        ("struct Args {\n    #[serde(with = \"hex\")]\n    a: A,\n}", 2, 12, "parameter(type"),
        (
            "struct Args {\n    #[serde(deserialize_with = \"of\")]\n    a: A,\n}",
            2,
            12,
            "parameter(type",
        ),
        ("struct Args(\n    #[serde(with = \"hex\")]\n    A,\n);", 2, 12, "parameter(type"),
        ("#[serde(rename = \"x\", from = \"W\")]\nstruct Args { a: A }", 1, 22, "on the type"),
        ("#[serde(\n    try_from = \"W\"\n)]\nenum Args { A }", 2, 4, "on the type"),
        ("#[parameter(optional)]\nstruct Args { a: A }", 1, 12, "known is `type"),
        ("#[serde(transparent)]\nstruct Args { a: A, b: B }", 2, 7, "which of its fields"),
    ] {
        let told = mistakes(source);
        assert_eq!(told.len(), 1, "{source}: {told:?}");
        assert_eq!((told[0].0, told[0].1), (line, column), "{source}: {told:?}");
        assert!(told[0].2.contains(part), "{source}: {told:?}");
    }
}

#[test]
fn mistakes_of_all_fields_are_told_at_once() {
    let source = "struct Args {\n#[serde(flatten)] a: A,\n#[parameter(x)] b: B,\n}";
    let lines: Vec<usize> = mistakes(source).into_iter().map(|(line, ..)| line).collect();
    assert_eq!(lines, [2, 3]);
}

#[test]
fn a_type_that_tells_nothing_is_asked_for_where_it_stands() {
    let source = "struct Args {\n    when: chrono::Date,\n}";
    let tokens = derive(&syn::parse_str(source).unwrap()).unwrap();
    let text = tokens.to_string();
    assert!(text.contains("< chrono :: Date as"), "{text}");
    // The compiler shows a missing implementation where the tokens of the bound are: at the field's type.
    let found = spans(tokens).any(|(line, text)| line == 2 && text == "Parameters");
    assert!(found);
}

/// Every token with its line.
pub(crate) fn spans(tokens: proc_macro2::TokenStream) -> Box<dyn Iterator<Item = (usize, String)>> {
    Box::new(tokens.into_iter().flat_map(|token| match token {
        proc_macro2::TokenTree::Group(group) => spans(group.stream()),
        token => Box::new(std::iter::once((token.span().start().line, token.to_string())))
            as Box<dyn Iterator<Item = (usize, String)>>,
    }))
}

#[test]
fn attributes_of_serde_are_followed() {
    let text = derived(
        r#"
        #[serde(rename_all = "camelCase", deny_unknown_fields, bound(deserialize = "T: X"))]
        struct Args<T> {
            /// The first line
            /// goes on.
            ///
            /// A second one.
            line_one: T,
            #[serde(rename(deserialize = "other", serialize = "no"), default = "path::to")]
            renamed: u8,
            #[serde(skip)]
            gone: u8,
            r#type: String,
            #[parameter(type = "string", optional)]
            when: chrono::Date,
        }"#,
    );
    for part in [
        r#"name:"lineOne",description:"Thefirstlinegoeson.\nAsecondone.""#,
        r#"name:"other""#,
        "SHAPE.or_absent()",
        r#"name:"type""#,
        r#"name:"when",description:"",shape:::tokamak_sdk::parameters::Shape::STRING.or_absent()"#,
        "impl<T>::tokamak_sdk::ParametersforArgs<T>",
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    assert!(!text.contains("gone") && !text.contains("\"no\""), "{text}");
}

#[test]
fn what_code_of_the_author_reads_is_what_the_author_says() {
    let text = derived(
        r#"
        struct Args {
            #[serde(with = "hex")]
            #[parameter(type = "string")]
            bytes: Option<Bytes>,
            #[serde(deserialize_with = "either", default)]
            #[parameter(type = "any")]
            either: Either,
            #[serde(with = "none", skip)]
            skipped: Bytes,
            #[parameter(type = "string")]
            absent: Option<chrono::Date>,
        }"#,
    );
    for part in [
        // An option that is read by `with` must be there.
        r#"name:"bytes",description:"",shape:::tokamak_sdk::parameters::Shape::STRING,"#,
        r#"name:"either",description:"",shape:::tokamak_sdk::parameters::Shape::ANY.or_absent()"#,
        r#"name:"absent",description:"",shape:::tokamak_sdk::parameters::Shape::STRING.or_absent()"#,
    ] {
        assert!(text.contains(part), "no {part} in {text}");
    }
    assert!(!text.contains("skipped") && !text.contains("Bytes"), "{text}");
    for source in [
        "#[serde(try_from = \"Wire\")] #[parameter(type = \"object\")] struct Args { a: A }",
        "#[serde(from = \"Wire\")] #[parameter(type = \"object\")] enum Args { A }",
        "struct Args(#[serde(with = \"hex\")] #[parameter(type = \"object\")] A);",
    ] {
        let text = derived(source);
        assert!(text.contains("Shape=::tokamak_sdk::parameters::Shape::OBJECT;"), "{text}");
    }
}

#[test]
fn a_transparent_struct_is_its_field() {
    let source =
        "#[serde(transparent)] struct Id { text: String, #[serde(skip)] of: PhantomData<A> }";
    let text = derived(source);
    assert!(text.contains("<Stringas::tokamak_sdk::Parameters>::SHAPE;"), "{text}");
    assert!(!text.contains("\"text\"") && !text.contains("object"), "{text}");
}

#[test]
fn every_name_that_is_read_is_declared_and_none_is_required() {
    let text = derived(
        "struct Args { #[serde(alias = \"amt\", alias = \"sum\", alias = \"amount\")] amount: u64, b: B }",
    );
    for name in ["amount", "amt", "sum"] {
        let part = format!(
            "name:\"{name}\",description:\"\",shape:<u64as::tokamak_sdk::Parameters>::SHAPE.or_absent()"
        );
        assert_eq!(text.matches(&part).count(), 1, "{name}: {text}");
    }
    assert_eq!(text.matches("or_absent").count(), 3, "{text}");
}

#[test]
fn enums_are_texts_or_anything() {
    assert!(derived("enum Kind { A, B }").contains("Shape::STRING"));
    assert!(derived("enum Kind { A, B(u8) }").contains("Shape::ANY"));
    assert!(derived("#[serde(tag = \"type\")] enum Kind { A }").contains("Shape::ANY"));
    assert!(derived("struct Id(String);").contains("<Stringas"));
}
