//! How tokens are found by their metadata, which no handler can say of a name.

use utoipa::openapi::path::{ParameterBuilder, ParameterIn, ParameterStyle};
use utoipa::openapi::schema::Type;
use utoipa::openapi::{ObjectBuilder, OpenApi, RefOr, Required};

const METADATA_TEXT: &str = "Only with these metadata values: exact but for case, all of them \
    together. `metadata.customer=17` means the same as `metadata[customer]=17`; OpenAPI can \
    describe the latter only, and a client that cannot send it searches (`POST /tokens/search`). A key that is repeated \
    counts once";

/// `GET /tokens` takes any parameter below `metadata`, which its handler cannot say of a name.
pub fn add_filter(description: &mut OpenApi) {
    let path = description.paths.paths.get_mut("/tokens");
    let Some(list) = path.and_then(|path| path.get.as_mut()) else { return };
    let values = ObjectBuilder::new().schema_type(Type::String);
    let schema = ObjectBuilder::new().schema_type(Type::Object).additional_properties(Some(values));
    let parameter = ParameterBuilder::new()
        .name("metadata")
        .parameter_in(ParameterIn::Query)
        .required(Required::False)
        .description(Some(METADATA_TEXT))
        .style(Some(ParameterStyle::DeepObject))
        .explode(Some(true))
        .schema(Some(schema))
        .build();
    list.parameters.get_or_insert_default().push(RefOr::T(parameter));
}
