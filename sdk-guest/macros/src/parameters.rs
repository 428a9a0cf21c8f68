//! `#[derive(Parameters)]`: what a type takes, as the vault declares it.
//!
//! Names, what is optional and what is left out follow the attributes of serde, since they decide what is read;
//! descriptions are the doc comments. Types are left to the trait: a type that tells nothing of itself is an error at
//! the author's field. So is what serde reads by code of the author's, unless `#[parameter(type = "…")]` says what it is:
//! nothing may be declared that valid JSON does not have. To follow another attribute of serde: a row in [`Field::read`]
//! or [`Container::read`].

use proc_macro2::{Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned as _;
use syn::{Attribute, Data, DeriveInput, Error, Expr, ExprLit, Fields, Lit, LitStr, Meta, Type};

use crate::case::Case;

/// The implementation of `Parameters`, or every mistake at once.
pub fn derive(input: &DeriveInput) -> Result<TokenStream, Error> {
    let container = Container::read(&input.attrs)?;
    let shape = shape_of_type(input, &container)?;
    let name = &input.ident;
    let (generics, arguments, conditions) = input.generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #generics ::tokamak_sdk::Parameters for #name #arguments #conditions {
            const SHAPE: ::tokamak_sdk::parameters::Shape = #shape;
        }
    })
}

fn shape_of_type(input: &DeriveInput, container: &Container) -> Result<TokenStream, Error> {
    if let Some(kind) = &container.kind {
        return Ok(quote!(::tokamak_sdk::parameters::Shape::#kind));
    }
    Ok(match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) if container.transparent => {
                transparent(fields, input.ident.span())?
            }
            Fields::Named(fields) => object(fields, container)?,
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
                let inner = &fields.unnamed[0];
                Field::read(&inner.attrs)?.shape(&inner.ty)
            }
            fields => {
                let text = "`Parameters` is for structs with named fields, or with one field";
                return Err(Error::new(place(fields, input), text));
            }
        },
        Data::Enum(data) => {
            let plain = |variant: &syn::Variant| matches!(variant.fields, Fields::Unit);
            if data.variants.iter().all(plain) && !container.shaped {
                quote!(::tokamak_sdk::parameters::Shape::STRING)
            } else {
                // Its variants are objects, texts or both: nothing is declared, and anything reaches the formula.
                quote!(::tokamak_sdk::parameters::Shape::ANY)
            }
        }
        Data::Union(data) => {
            return Err(Error::new(data.union_token.span, "a union cannot be read from JSON"));
        }
    })
}

/// The shape of the one field that is read, which is written without its name.
fn transparent(fields: &syn::FieldsNamed, place: Span) -> Result<TokenStream, Error> {
    let mut shapes = Vec::new();
    for field in &fields.named {
        let read = Field::read(&field.attrs)?;
        if !read.skipped && !read.optional {
            shapes.push(read.shape(&field.ty));
        }
    }
    match shapes.pop() {
        Some(shape) if shapes.is_empty() => Ok(shape),
        _ => Err(Error::new(
            place,
            "which of its fields is read cannot be told: say what it is by \
            `#[parameter(type = \"…\")]`",
        )),
    }
}

/// The fields if there are any, else the name of the type.
fn place(fields: &Fields, input: &DeriveInput) -> Span {
    if fields.is_empty() { input.ident.span() } else { fields.span() }
}

fn object(fields: &syn::FieldsNamed, container: &Container) -> Result<TokenStream, Error> {
    let mut members = Vec::new();
    let mut mistakes: Option<Error> = None;
    for field in &fields.named {
        match members_of(field, container) {
            Ok(names) => members.extend(names),
            Err(mistake) => match &mut mistakes {
                Some(all) => all.combine(mistake),
                None => mistakes = Some(mistake),
            },
        }
    }
    match mistakes {
        Some(mistakes) => Err(mistakes),
        None => Ok(quote!(::tokamak_sdk::parameters::Shape::object(&[#(#members),*]))),
    }
}

/// One member for each name that is read; none if it is never read.
fn members_of(field: &syn::Field, container: &Container) -> Result<Vec<TokenStream>, Error> {
    let read = Field::read(&field.attrs)?;
    if read.skipped {
        return Ok(Vec::new());
    }
    let own = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
    let own = own.trim_start_matches("r#");
    let name = read.name.clone().unwrap_or_else(|| container.case.of_field(own));
    let description = description(&field.attrs);
    let shape = read.shape(&field.ty);
    // Of several names any one will do, which a declaration cannot say: none is required then, and the formula's own
    // reading tells when all are absent.
    let optional = read.optional || container.optional || !read.aliases.is_empty();
    let optional = (optional || read.absent_is_none(&field.ty)).then(|| quote!(.or_absent()));
    let others = read.aliases.iter().filter(|alias| **alias != name);
    let member = |name: &String| {
        quote! {
            ::tokamak_sdk::parameters::Member {
                name: #name,
                description: #description,
                shape: #shape #optional,
            }
        }
    };
    Ok(std::iter::once(&name).chain(others).map(member).collect())
}

/// The doc comment as one text; lines of one paragraph become one line.
fn description(attributes: &[Attribute]) -> String {
    let mut text = String::new();
    for attribute in attributes.iter().filter(|attribute| attribute.path().is_ident("doc")) {
        let Meta::NameValue(given) = &attribute.meta else { continue };
        let Expr::Lit(ExprLit { lit: Lit::Str(line), .. }) = &given.value else { continue };
        let line = line.value();
        let line = line.trim();
        if line.is_empty() {
            if !text.is_empty() && !text.ends_with('\n') {
                text.push('\n');
            }
            continue;
        }
        if !text.is_empty() && !text.ends_with('\n') {
            text.push(' ');
        }
        text.push_str(line);
    }
    text.trim_end().to_owned()
}

/// What serde is told of the whole type.
#[derive(Default)]
struct Container {
    case: Case,
    /// Every member may be absent.
    optional: bool,
    /// An enum that is written otherwise than as the name of its variant.
    shaped: bool,
    /// A struct that is written as its one field is.
    transparent: bool,
    /// The shape's name, when the author says it.
    kind: Option<syn::Ident>,
}

impl Container {
    fn read(attributes: &[Attribute]) -> Result<Self, Error> {
        let mut container = Self::default();
        let mut converted = None;
        for attribute in of(attributes, "serde") {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("rename_all") {
                    if let Some(given) = for_reading(&meta)? {
                        let known = Case::parse(&given.value());
                        container.case =
                            known.ok_or_else(|| Error::new(given.span(), "is no case of serde"))?;
                    }
                    return Ok(());
                }
                container.optional |= meta.path.is_ident("default");
                container.transparent |= meta.path.is_ident("transparent");
                let is = |names: &[&str]| names.iter().any(|name| meta.path.is_ident(name));
                container.shaped |= is(&["tag", "content", "untagged"]);
                if is(&["from", "try_from"]) {
                    converted = Some(meta.path.span());
                }
                pass(&meta)
            })?;
        }
        for attribute in of(attributes, "parameter") {
            attribute.parse_nested_meta(|meta| {
                if !meta.path.is_ident("type") {
                    return Err(meta.error("known is `type = \"…\"`"));
                }
                container.kind = Some(kind(&meta.value()?.parse()?)?);
                Ok(())
            })?;
        }
        match converted {
            Some(place) if container.kind.is_none() => Err(Error::new(
                place,
                "JSON has the members of another type: say what it is by `#[parameter(type = \"…\")]` on the type",
            )),
            _ => Ok(container),
        }
    }
}

/// What serde, and the author, are told of a field.
#[derive(Default)]
struct Field {
    name: Option<String>,
    /// Other names that are read.
    aliases: Vec<String>,
    optional: bool,
    skipped: bool,
    /// Where it is said that code of the author's reads it.
    converted: Option<Span>,
    /// The shape's name, when the author says it.
    kind: Option<syn::Ident>,
}

impl Field {
    fn read(attributes: &[Attribute]) -> Result<Self, Error> {
        let mut field = Self::default();
        for attribute in of(attributes, "serde") {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("rename") {
                    if let Some(given) = for_reading(&meta)? {
                        field.name = Some(given.value());
                    }
                    return Ok(());
                }
                if meta.path.is_ident("alias") {
                    field.aliases.push(meta.value()?.parse::<LitStr>()?.value());
                    return Ok(());
                }
                if meta.path.is_ident("flatten") {
                    let text = "a flattened field has no name to declare: write its members here";
                    return Err(meta.error(text));
                }
                field.optional |= meta.path.is_ident("default");
                let is = |names: &[&str]| names.iter().any(|name| meta.path.is_ident(name));
                field.skipped |= is(&["skip", "skip_deserializing"]);
                if is(&["with", "deserialize_with"]) {
                    field.converted = Some(meta.path.span());
                }
                pass(&meta)
            })?;
        }
        for attribute in of(attributes, "parameter") {
            attribute.parse_nested_meta(|meta| {
                if meta.path.is_ident("optional") {
                    field.optional = true;
                    return Ok(());
                }
                if !meta.path.is_ident("type") {
                    return Err(meta.error("known are `type = \"…\"` and `optional`"));
                }
                let given: LitStr = meta.value()?.parse()?;
                field.kind = Some(kind(&given)?);
                Ok(())
            })?;
        }
        match field.converted {
            Some(place) if field.kind.is_none() && !field.skipped => Err(Error::new(
                place,
                "what is read is not the field's type: say what it is by `#[parameter(type = \"…\")]`",
            )),
            _ => Ok(field),
        }
    }

    /// What it holds: what the author says, or else what its type does.
    fn shape(&self, ty: &Type) -> TokenStream {
        if let Some(kind) = &self.kind {
            return quote!(::tokamak_sdk::parameters::Shape::#kind);
        }
        quote_spanned!(ty.span()=> <#ty as ::tokamak_sdk::Parameters>::SHAPE)
    }

    /// Whether serde takes it for `None` when it is absent, which the name of a shape does not tell. Code of the author's
    /// is not asked about what is absent.
    fn absent_is_none(&self, ty: &Type) -> bool {
        let Type::Path(path) = ty else { return false };
        let last = path.path.segments.last();
        self.converted.is_none() && last.is_some_and(|segment| segment.ident == "Option")
    }
}

fn kind(given: &LitStr) -> Result<syn::Ident, Error> {
    let name = match given.value().as_str() {
        "string" => "STRING",
        "number" => "NUMBER",
        "boolean" => "BOOLEAN",
        "object" => "OBJECT",
        "array" => "ARRAY",
        "any" => "ANY",
        _ => {
            let text = "is one of string, number, boolean, object, array and any";
            return Err(Error::new(given.span(), text));
        }
    };
    Ok(syn::Ident::new(name, given.span()))
}

fn of<'a>(attributes: &'a [Attribute], name: &'a str) -> impl Iterator<Item = &'a Attribute> {
    let listed = move |attribute: &&Attribute| {
        attribute.path().is_ident(name) && matches!(attribute.meta, Meta::List(_))
    };
    attributes.iter().filter(listed)
}

/// The text of `name = "…"` or of `name(deserialize = "…")`.
fn for_reading(meta: &ParseNestedMeta<'_>) -> Result<Option<LitStr>, Error> {
    if meta.input.peek(syn::Token![=]) {
        return Ok(Some(meta.value()?.parse()?));
    }
    let mut given = None;
    meta.parse_nested_meta(|inner| {
        let text: LitStr = inner.value()?.parse()?;
        if inner.path.is_ident("deserialize") {
            given = Some(text);
        }
        Ok(())
    })?;
    Ok(given)
}

/// Reads over the value of an attribute that says nothing here.
fn pass(meta: &ParseNestedMeta<'_>) -> Result<(), Error> {
    if meta.input.peek(syn::Token![=]) {
        meta.value()?.parse::<Expr>()?;
    } else if meta.input.peek(syn::token::Paren) {
        let inner;
        syn::parenthesized!(inner in meta.input);
        inner.parse::<TokenStream>()?;
    }
    Ok(())
}

#[cfg(test)]
pub(crate) mod tests;
