use super::{check, wire};
use crate::parameters::tests::spans;

/// Each mistake with the line and the column of the author's source that it points at.
fn mistakes(attribute: &str, function: &str) -> Vec<(usize, usize, String)> {
    let attribute = attribute.parse().unwrap();
    let function = syn::parse_str(function).unwrap();
    let Err(error) = check(&attribute, &function) else { return Vec::new() };
    let told = |error: syn::Error| {
        let start = error.span().start();
        (start.line, start.column, error.to_string())
    };
    error.into_iter().map(told).collect()
}

#[test]
fn a_formula_is_right_whatever_its_name() {
    let function = "pub fn pay(request: Request<Args, Own>) -> Result<Response, Error> {}";
    assert!(mistakes("", function).is_empty());
}

#[test]
fn each_mistake_points_at_its_place() {
    for (attribute, function, line, column, part) in [
        ("", "pub\nasync fn f(r: Request<A>) -> R {}", 2, 0, "`async`"),
        ("", "pub unsafe fn f(r: Request<A>) -> R {}", 1, 4, "`unsafe`"),
        ("", "\n  extern \"C\" fn f(r: Request<A>) -> R {}", 2, 2, "ABI"),
        ("", "fn f\n<A>(r: Request<A>) -> R {}", 2, 0, "generic"),
        ("", "fn\n f() -> R {}", 2, 1, "one argument"),
        ("", "fn f(\n    self\n) -> R {}", 2, 4, "`self`"),
        ("", "fn f(\n    r: Request<A>,\n    b: B,\n) -> R {}", 3, 4, "one argument"),
        ("", "pub fn f(r: Request<A>) {}", 1, 7, "returns"),
        ("\n name = 1", "fn f(r: Request<A>) -> R {}", 2, 1, "no arguments"),
    ] {
        let told = mistakes(attribute, function);
        assert_eq!(told.len(), 1, "{function}: {told:?}");
        assert_eq!((told[0].0, told[0].1), (line, column), "{function}: {told:?}");
        assert!(told[0].2.contains(part), "{function}: {told:?}");
    }
}

#[test]
fn all_mistakes_are_told_at_once() {
    assert_eq!(mistakes("x", "async fn f<A>() {}").len(), 5);
}

#[test]
fn types_are_asked_where_they_stand() {
    let source = "fn f(\n    r: Wrong,\n) -> Other\n{\n}";
    let function: syn::ItemFn = syn::parse_str(source).unwrap();
    let (argument, answer) = check(&proc_macro2::TokenStream::new(), &function).unwrap();
    let wired: Vec<_> = spans(wire(&function, argument, answer)).collect();
    // The compiler shows a type that does not fit where the tokens of the call stand.
    for (call, line) in [("takes", 2), ("returns", 3)] {
        let found: Vec<_> = wired.iter().filter(|(_, text)| text == call).collect();
        assert_eq!(found, [&(line, call.to_owned())]);
    }
}
