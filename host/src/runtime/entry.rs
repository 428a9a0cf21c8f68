//! A component's one entry: the function that a run calls.
//!
//! wasmtime's bindings compare the function's type with ours for each instance, which takes as long as all that a small
//! formula asks of its host. A component has one type, whatever instance of it is at hand; so it is compared once, when
//! the component is linked, and who uploads one of another type is told at once.

use wasmtime::component::types::ComponentItem;
use wasmtime::component::{ComponentExportIndex, InstancePre, TypedFunc};
use wasmtime::{Result, Store, format_err};

use super::state::{GuestError, Request, Response, State};

/// The interface that formulas export, in the version that is served; one that is compatible is found by it too.
pub const INTERFACE: &str = "tokamak:formula/reactor@1.1.0";
const FUNCTION: &str = "react";

/// What a run gets.
type Answer = std::result::Result<Response, GuestError>;

/// A component that is linked, with the function it is called by.
pub struct Entry {
    linked: InstancePre<State>,
    /// Of our type, in every instance of `linked`.
    react: ComponentExportIndex,
}

impl Entry {
    /// The entry of a linked component; an error if it exports none, or one of another type.
    pub fn new(linked: InstancePre<State>) -> Result<Self> {
        let component = linked.component();
        let interface = component.get_export_index(None, INTERFACE);
        let react = interface.and_then(|at| component.get_export(Some(&at), FUNCTION));
        let Some((ComponentItem::ComponentFunc(shape), react)) = react else {
            return Err(format_err!("there is no function {INTERFACE}#{FUNCTION}"));
        };
        shape.typecheck::<(&Request,), (Answer,)>(&linked.instance_type())?;
        Ok(Self { linked, react })
    }

    /// Makes an instance and calls it.
    pub async fn call(&self, request: &Request, store: &mut Store<State>) -> Result<Answer> {
        let instance = self.linked.instantiate_async(&mut *store).await?;
        let react = instance.get_func(&mut *store, self.react);
        let react = react.ok_or_else(|| format_err!("there is no function {FUNCTION}"))?;
        #[expect(unsafe_code, reason = "the check would be made again for every run")]
        // SAFETY: `new` saw that this export of this component, linked as it is, is of this type. Types belong to
        // components and what they are linked with, not to instances.
        let react = unsafe { TypedFunc::<(&Request,), (Answer,)>::new_unchecked(react) };
        let (answer,) = react.call_async(&mut *store, (request,)).await?;
        Ok(answer)
    }
}

#[cfg(test)]
mod tests {
    use super::Entry;
    use crate::runtime::engine;
    use crate::runtime::state::linker;
    use wasmtime::component::Component;

    /// What comes of a component that exports this, beside a function `$f` that takes and gives nothing.
    fn refusal(export: &str) -> String {
        let text = format!(
            r#"(component
                (core module $m (func (export "f")))
                (core instance $i (instantiate $m))
                (func $f (canon lift (core func $i "f")))
                (instance $r {export})
                (export "tokamak:formula/reactor@1.0.0" (instance $r)))"#
        );
        let engine = engine::compiling().unwrap();
        let component = Component::new(&engine, wat::parse_str(text).unwrap()).unwrap();
        let linked = linker(&engine).unwrap().instantiate_pre(&component).unwrap();
        Entry::new(linked).err().map(|error| error.to_string()).unwrap()
    }

    #[test]
    fn a_function_of_another_type_is_no_entry() {
        let told = refusal(r#"(export "react" (func $f))"#);
        assert!(told.contains("type mismatch") || told.contains("expected"), "{told}");
    }

    #[test]
    fn a_component_without_the_function_has_no_entry() {
        for export in ["", r#"(export "other" (func $f))"#] {
            let told = refusal(export);
            assert!(told.contains("no function"), "{told}");
        }
    }
}
