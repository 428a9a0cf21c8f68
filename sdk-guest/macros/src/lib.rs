//! The attribute that turns a function into a Tokamak formula, and the derive that declares what it takes.
//!
//! Use it through `tokamak-sdk`, which re-exports it. The expansion names that crate and no other, so that
//! an author depends on it alone. It checks what only the syntax shows; types are left to the compiler,
//! with the author's own types as the place of the error.

mod case;
mod parameters;

use proc_macro::TokenStream;
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::{DeriveInput, Error, FnArg, ItemFn, ReturnType, Type, parse_macro_input};

/// Makes a function the formula of its crate.
///
/// The function takes one `Request<Args>` or `Request<Args, Configuration>`, returns
/// `Result<Response, Error>`, and is neither `async` nor generic. A crate has one formula.
///
/// In a component it becomes the export `react`; natively it stays a plain function, to be tested.
#[proc_macro_attribute]
pub fn formula(attribute: TokenStream, item: TokenStream) -> TokenStream {
    let attribute = proc_macro2::TokenStream::from(attribute);
    let function = parse_macro_input!(item as ItemFn);
    let wiring = check(&attribute, &function)
        .map_or_else(Error::into_compile_error, |(argument, answer)| {
            wire(&function, argument, answer)
        });
    // The function stays even when it is wrong, so that nothing else fails for want of it.
    quote! {
        #[allow(clippy::needless_pass_by_value, reason = "a formula owns its request")]
        #function
        #wiring
    }
    .into()
}

/// Declares what a type takes: its members with their types, which may be absent, and their descriptions.
///
/// For structs with named fields, structs of one field, and enums. Attributes of serde that rename, skip, give a default
/// or make a struct `transparent` are followed; of a field with an `alias` every name is declared, none of them required.
/// Doc comments are the descriptions. A field of a type from elsewhere, or one read by `with` or `deserialize_with`, says
/// what it is by `#[parameter(type = "string")]` (`number`, `boolean`, `object`, `array`, or `any`), and by
/// `#[parameter(optional)]` that it may be absent; so does a type that is read `from` another, in front of the type.
///
/// An enum whose variants hold something is `any`, as `Value` is: nothing is declared of it. What is not declared is
/// refused in a configuration, and a formula whose `undeclared_arguments` are dropped never gets it; `tokamak formula
/// check` warns of that.
///
/// A configuration is flat: a struct as a member of one is refused, and so is an argument with a dot in its name.
#[proc_macro_derive(Parameters, attributes(parameter, serde))]
pub fn parameters(item: TokenStream) -> TokenStream {
    let input = parse_macro_input!(item as DeriveInput);
    parameters::derive(&input).unwrap_or_else(Error::into_compile_error).into()
}

/// The type of the argument and of the answer, or every mistake at once.
fn check<'a>(
    attribute: &proc_macro2::TokenStream,
    function: &'a ItemFn,
) -> Result<(&'a Type, &'a Type), Error> {
    let signature = &function.sig;
    let mut mistakes: Vec<Error> = Vec::new();
    let mut mistake = |span, text: &str| mistakes.push(Error::new(span, text));

    if !attribute.is_empty() {
        mistake(attribute.span(), "`#[formula]` takes no arguments");
    }
    if let Some(token) = &signature.asyncness {
        mistake(
            token.span(),
            "a formula is not `async`: calls of the vault return when they are done",
        );
    }
    if let Some(token) = &signature.unsafety {
        mistake(token.span(), "a formula is not `unsafe`");
    }
    if let Some(abi) = &signature.abi {
        mistake(abi.span(), "a formula has no ABI of its own: remove `extern`");
    }
    if !signature.generics.params.is_empty() {
        mistake(
            signature.generics.span(),
            "a formula is not generic: name the types of its request",
        );
    }
    let argument = match signature.inputs.first() {
        Some(FnArg::Typed(argument)) => Some(&*argument.ty),
        Some(FnArg::Receiver(receiver)) => {
            mistake(receiver.span(), "a formula is a free function: it has no `self`");
            None
        }
        None => {
            mistake(
                signature.ident.span(),
                "a formula takes one argument: `request: Request<Args>`",
            );
            None
        }
    };
    if let Some(extra) = signature.inputs.iter().nth(1) {
        mistake(
            extra.span(),
            "a formula takes one argument: arguments of a call are members of `Args`",
        );
    }
    let answer = match &signature.output {
        ReturnType::Type(_, answer) => Some(&**answer),
        ReturnType::Default => {
            mistake(signature.ident.span(), "a formula returns `Result<Response, Error>`");
            None
        }
    };

    match (argument, answer, mistakes.into_iter().reduce(combined)) {
        (Some(argument), Some(answer), None) => Ok((argument, answer)),
        (_, _, Some(mistake)) => Err(mistake),
        (_, _, None) => Err(Error::new(signature.ident.span(), "this is not a formula")),
    }
}

fn combined(mut all: Error, next: Error) -> Error {
    all.combine(next);
    all
}

/// The code beside the function: the checks of its types, and the export.
fn wire(function: &ItemFn, argument: &Type, answer: &Type) -> proc_macro2::TokenStream {
    let name = &function.sig.ident;
    let takes = quote_spanned!(argument.span()=> ::tokamak_sdk::expansion::takes::<#argument>());
    let returns = quote_spanned!(answer.span()=> ::tokamak_sdk::expansion::returns::<#answer>());
    let reachable = reachable(argument);
    quote! {
        const _: () = {
            use ::tokamak_sdk::expansion::{OfArgs, OfConfiguration, Undeclared as _};
            #takes;
            #returns;
            #reachable
            let _: fn(#argument) -> #answer = #name;
        };

        #[cfg(target_arch = "wasm32")]
        const _: () = {
            // What the formula takes, in the component itself: whoever publishes it need not repeat it.
            const DECLARED: ::tokamak_sdk::expansion::Declared = {
                use ::tokamak_sdk::expansion::{OfArgs, OfConfiguration, Undeclared as _};
                ::tokamak_sdk::expansion::Declared {
                    request_parameters: <OfArgs<#argument>>::SHAPE,
                    configuration: <OfConfiguration<#argument>>::SHAPE,
                }
            };
            #[unsafe(link_section = "tokamak:parameters")]
            static _WRITTEN: [u8; DECLARED.length()] = DECLARED.written();

            struct Formula;

            impl ::tokamak_sdk::expansion::reactor::Guest for Formula {
                fn react(
                    request: ::tokamak_sdk::expansion::reactor::Request,
                ) -> ::core::result::Result<
                    ::tokamak_sdk::expansion::reactor::Response,
                    ::tokamak_sdk::expansion::reactor::Error,
                > {
                    ::tokamak_sdk::expansion::react(request, #name)
                }
            }

            ::tokamak_sdk::expansion::export!(Formula with_types_in ::tokamak_sdk::bindings);
        };
    }
}

/// The checks that what is declared can reach the formula at all.
fn reachable(argument: &Type) -> proc_macro2::TokenStream {
    quote_spanned! {argument.span()=>
        ::core::assert!(
            ::tokamak_sdk::expansion::is_flat(<OfConfiguration<#argument>>::SHAPE),
            "a configuration is flat, and a member of this one is a struct: write the members of that struct \
            into the configuration itself, as `limits_max` in place of `limits.max`"
        );
        ::core::assert!(
            ::tokamak_sdk::expansion::is_declared(<OfConfiguration<#argument>>::SHAPE),
            "a configuration holds texts, numbers and booleans, and a member of this one is something else: take \
            it as the text of that, or say what it is as `#[parameter(type = \"string\")]`"
        );
        ::core::assert!(
            ::tokamak_sdk::expansion::is_undotted(<OfArgs<#argument>>::SHAPE),
            "a dot in the name of an argument leads into an object: give it a name without one, or write a \
            struct with that member, as `order: Order` with `amount` in place of `order.amount`"
        );
    }
}

#[cfg(test)]
mod tests;
