//! `#[derive(Parameters)]`: what a type takes, as the vault declares it.
//!
//! Names, what is optional and what is left out follow the attributes of serde, since they decide what is read;
//! descriptions are the doc comments. Types are left to the trait: a type that tells nothing of itself is an error at
//! the author's field. To follow another attribute of serde: a row in [`Field::read`] or [`Container::read`].

use proc_macro2::TokenStream;
use quote::{quote, quote_spanned};
use syn::meta::ParseNestedMeta;
use syn::spanned::Spanned as _;
use syn::{Attribute, Data, DeriveInput, Error, Expr, ExprLit, Fields, Lit, LitStr, Meta};

use crate::case::Case;

/// The implementation of `Parameters`, or every mistake at once.
pub fn derive(input: &DeriveInput) -> Result<TokenStream, Error> {
    let container = Container::read(&input.attrs)?;
    let shape = match &input.data {
        Data::Struct(data) => match &data.fields {
            Fields::Named(fields) => object(fields, &container)?,
            Fields::Unnamed(fields) if fields.unnamed.len() == 1 => {
                let inner = &fields.unnamed[0].ty;
                quote_spanned!(inner.span()=> <#inner as ::tokamak_sdk::Parameters>::SHAPE)
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
    };
    let name = &input.ident;
    let (generics, arguments, conditions) = input.generics.split_for_impl();
    Ok(quote! {
        #[automatically_derived]
        impl #generics ::tokamak_sdk::Parameters for #name #arguments #conditions {
            const SHAPE: ::tokamak_sdk::parameters::Shape = #shape;
        }
    })
}

/// The fields if there are any, else the name of the type.
fn place(fields: &Fields, input: &DeriveInput) -> proc_macro2::Span {
    if fields.is_empty() { input.ident.span() } else { fields.span() }
}

fn object(fields: &syn::FieldsNamed, container: &Container) -> Result<TokenStream, Error> {
    let mut members = Vec::new();
    let mut mistakes: Option<Error> = None;
    for field in &fields.named {
        match member(field, container) {
            Ok(member) => members.extend(member),
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

/// One member, unless it is never read.
fn member(field: &syn::Field, container: &Container) -> Result<Option<TokenStream>, Error> {
    let read = Field::read(&field.attrs)?;
    if read.skipped {
        return Ok(None);
    }
    let own = field.ident.as_ref().map(ToString::to_string).unwrap_or_default();
    let own = own.trim_start_matches("r#");
    let name = read.name.unwrap_or_else(|| container.case.of_field(own));
    let description = description(&field.attrs);
    let ty = &field.ty;
    let shape = if let Some(kind) = read.kind {
        quote!(::tokamak_sdk::parameters::Shape::#kind)
    } else {
        quote_spanned!(ty.span()=> <#ty as ::tokamak_sdk::Parameters>::SHAPE)
    };
    let optional = (read.optional || container.optional).then(|| quote!(.or_absent()));
    Ok(Some(quote! {
        ::tokamak_sdk::parameters::Member {
            name: #name,
            description: #description,
            shape: #shape #optional,
        }
    }))
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
}

impl Container {
    fn read(attributes: &[Attribute]) -> Result<Self, Error> {
        let mut container = Self::default();
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
                let shaped = ["tag", "content", "untagged", "from", "try_from"];
                container.shaped |= shaped.iter().any(|name| meta.path.is_ident(name));
                pass(&meta)
            })?;
        }
        Ok(container)
    }
}

/// What serde, and the author, are told of a field.
#[derive(Default)]
struct Field {
    name: Option<String>,
    optional: bool,
    skipped: bool,
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
                if meta.path.is_ident("flatten") {
                    let text = "a flattened field has no name to declare: write its members here";
                    return Err(meta.error(text));
                }
                field.optional |= meta.path.is_ident("default");
                field.skipped |=
                    ["skip", "skip_deserializing"].iter().any(|name| meta.path.is_ident(name));
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
        Ok(field)
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
mod tests;
