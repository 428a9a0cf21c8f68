//! What a component tells of itself, for whoever wrote it to read. Nothing is decided by it.

use wasmparser::{ComponentTypeRef, Parser, Payload};

/// The section in which `tokamak-sdk` writes what a formula takes.
const PARAMETERS: &str = "tokamak:parameters";

/// A component's outside.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Description {
    /// Interfaces that it imports, with their versions.
    pub imports: Vec<String>,
    /// What it exports.
    pub exports: Vec<String>,
    /// JSON on what it takes, when it was built with declarations.
    pub parameters: Option<Vec<u8>>,
}

/// Reads a component; what cannot be read is left out.
pub fn describe(component: &[u8]) -> Description {
    let mut description = Description::default();
    let mut depth = 0_usize;
    for payload in Parser::new(0).parse_all(component).map_while(Result::ok) {
        match payload {
            Payload::ModuleSection { .. } | Payload::ComponentSection { .. } => depth += 1,
            Payload::End(_) => depth = depth.saturating_sub(1),
            Payload::CustomSection(section) if section.name() == PARAMETERS => {
                description.parameters = Some(section.data().to_vec());
            }
            Payload::ComponentImportSection(imports) if depth == 0 => {
                let named = imports.into_iter().map_while(Result::ok);
                let named = named.filter(|import| !matches!(import.ty, ComponentTypeRef::Type(_)));
                description.imports.extend(named.map(|import| import.name.name.to_owned()));
            }
            Payload::ComponentExportSection(exports) if depth == 0 => {
                let named = exports.into_iter().map_while(Result::ok);
                description.exports.extend(named.map(|export| export.name.name.to_owned()));
            }
            _ => {}
        }
    }
    description
}

#[cfg(test)]
mod tests {
    use super::{Description, describe};

    #[test]
    fn the_outside_is_told_and_the_inside_is_not() {
        let component = wat::parse_str(
            r#"(component
                (import "a:b/c@1.0.0" (instance))
                (component (import "inner" (func)))
                (core module (@custom "tokamak:parameters" "{}") (@custom "other" "x"))
                (instance $empty)
                (export "d:e/f@1.0.0" (instance $empty)))"#,
        );
        let expected = Description {
            imports: vec!["a:b/c@1.0.0".to_owned()],
            exports: vec!["d:e/f@1.0.0".to_owned()],
            parameters: Some(b"{}".to_vec()),
        };
        assert_eq!(describe(&component.unwrap()), expected);
    }

    #[test]
    fn what_is_no_component_tells_nothing() {
        for bytes in [b"".as_slice(), b"text", b"\0asm\x0d\0\x01\0\xff"] {
            assert_eq!(describe(bytes), Description::default());
        }
    }
}
