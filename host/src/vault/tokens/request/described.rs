//! Members of a token's body that attributes cannot describe.
//!
//! Only the description reads these types; nothing is ever one of them.

use utoipa::openapi::schema::SchemaType;
use utoipa::openapi::{ObjectBuilder, RefOr, Schema, Type};
use utoipa::{PartialSchema, ToSchema};

use crate::limits::{METADATA_KEY_CHARS_MAX, METADATA_KEYS_MAX, METADATA_VALUE_CHARS_MAX};

/// Any JSON but `null`.
pub enum TokenData {}

/// Texts by name.
pub enum Metadata {}

/// Texts by name; `null` removes one.
pub enum MetadataPatch {}

impl PartialSchema for TokenData {
    fn schema() -> RefOr<Schema> {
        // Of a list of types, or of schemas, generators of clients make what does not compile, or holds nothing.
        let anything = ObjectBuilder::new().schema_type(SchemaType::AnyValue);
        anything.description(Some("Any JSON but `null`")).into()
    }
}

impl ToSchema for TokenData {}

impl PartialSchema for Metadata {
    fn schema() -> RefOr<Schema> {
        metadata(SchemaType::new(Type::String)).description(Some("Texts by name")).into()
    }
}

impl ToSchema for Metadata {}

impl PartialSchema for MetadataPatch {
    fn schema() -> RefOr<Schema> {
        let values = SchemaType::from_iter([Type::String, Type::Null]);
        metadata(values).description(Some("Texts by name; `null` removes one")).into()
    }
}

impl ToSchema for MetadataPatch {}

fn metadata(values: SchemaType) -> ObjectBuilder {
    let names = ObjectBuilder::new()
        .schema_type(Type::String)
        .min_length(Some(1))
        .max_length(Some(METADATA_KEY_CHARS_MAX));
    let values =
        ObjectBuilder::new().schema_type(values).max_length(Some(METADATA_VALUE_CHARS_MAX));
    ObjectBuilder::new()
        .max_properties(Some(METADATA_KEYS_MAX))
        .property_names(Some(names))
        .additional_properties(Some(values))
}
