//! The formulas that ship inside the binary.
//!
//! Only the table and its bytes, as the build script found them under `formulas/`; what a manifest means
//! and how a component runs is for others. To add a formula, add a folder there.

/// A formula that ships with the product.
pub struct OfficialFormula {
    /// The name of its folder and package.
    pub name: &'static str,
    /// Its `formula.json`: the fields of a formula as a client would post them, and its fixed id.
    pub manifest: &'static str,
    /// Its component.
    pub component: &'static [u8],
}

/// All of them, by name.
pub static OFFICIAL: &[OfficialFormula] = include!(concat!(env!("OUT_DIR"), "/official.rs"));

#[cfg(test)]
mod tests {
    use super::OFFICIAL;

    #[test]
    fn each_has_a_component_and_a_manifest_under_its_name() {
        assert!(OFFICIAL.iter().map(|formula| formula.name).is_sorted());
        for formula in OFFICIAL {
            // The preamble of a component: version 13, layer 1.
            assert_eq!(&formula.component[..8], b"\0asm\x0d\0\x01\0", "{}", formula.name);
            let manifest: serde_json::Value = serde_json::from_str(formula.manifest).unwrap();
            assert_eq!(manifest["name"], formula.name);
            assert!(uuid::Uuid::parse_str(manifest["id"].as_str().unwrap()).is_ok());
        }
    }
}
