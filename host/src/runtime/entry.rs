//! A component's one entry: the function that a run calls.
//!
//! wasmtime compares the function's type with ours each time it is looked up, which takes as long as all that a small
//! formula asks of its host. A component has one type, whatever instance of it is at hand; so it is compared in the
//! first run of a component, and in no other.

use std::sync::OnceLock;

use wasmtime::component::{ComponentExportIndex, Instance, InstancePre, TypedFunc};
use wasmtime::{Result, Store, format_err};

use super::state::{GuestError, Request, Response, State};

/// The interface that formulas export, in the version that is served; one that is compatible is found by it too.
const INTERFACE: &str = "tokamak:formula/reactor@1.0.0";
const FUNCTION: &str = "react";

/// What a run hands over, and what it gets.
type React<'r> = TypedFunc<(&'r Request,), (std::result::Result<Response, GuestError>,)>;

/// A component that is linked, with the function it is called by.
pub struct Entry {
    linked: InstancePre<State>,
    react: ComponentExportIndex,
    /// Set once the function was seen to be of our type.
    is_typed: OnceLock<()>,
}

impl Entry {
    /// The entry of a linked component; an error if it exports none.
    pub fn new(linked: InstancePre<State>) -> Result<Self> {
        let component = linked.component();
        let interface = component.get_export_index(None, INTERFACE);
        let react = interface.and_then(|at| component.get_export_index(Some(&at), FUNCTION));
        let react = react.ok_or_else(|| format_err!("there is no {INTERFACE}#{FUNCTION}"))?;
        Ok(Self { linked, react, is_typed: OnceLock::new() })
    }

    /// Makes an instance and calls it.
    pub async fn call(
        &self,
        request: &Request,
        store: &mut Store<State>,
    ) -> Result<std::result::Result<Response, GuestError>> {
        let instance = self.linked.instantiate_async(&mut *store).await?;
        let react = self.typed(&instance, store)?;
        let (answer,) = react.call_async(&mut *store, (request,)).await?;
        Ok(answer)
    }

    fn typed<'r>(&self, instance: &Instance, store: &mut Store<State>) -> Result<React<'r>> {
        let react = instance.get_func(&mut *store, self.react);
        let react = react.ok_or_else(|| format_err!("{FUNCTION} is no function"))?;
        if self.is_typed.get().is_none() {
            let typed = react.typed(&*store)?;
            self.is_typed.get_or_init(|| ());
            return Ok(typed);
        }
        #[expect(unsafe_code, reason = "the check would be made again for every run")]
        // SAFETY: this very export of this component, linked as it is, was seen to be of this type by an earlier run.
        // Types belong to components, not to instances.
        Ok(unsafe { TypedFunc::new_unchecked(react) })
    }
}

#[cfg(test)]
mod tests {
    use super::Entry;
    use crate::runtime::memory::{Memory, Room};
    use crate::runtime::slots::Slots;
    use crate::runtime::state::{Invocation, Request, State, linker};
    use crate::runtime::{engine, invoke};
    use wasmtime::component::Component;
    use wasmtime::{Engine, Store};

    /// A component with a function of this name, which takes and gives nothing.
    fn component(engine: &Engine, function: &str) -> Component {
        let text = format!(
            r#"(component
                (core module $m (func (export "f")))
                (core instance $i (instantiate $m))
                (func $f (canon lift (core func $i "f")))
                (instance $r (export "{function}" (func $f)))
                (export "tokamak:formula/reactor@1.0.0" (instance $r)))"#
        );
        Component::new(engine, wat::parse_str(text).unwrap()).unwrap()
    }

    #[tokio::test]
    async fn a_function_of_another_type_is_refused_in_every_run() {
        let (engine, slots) = engine::serving(2).unwrap();
        let linked = linker(&engine).unwrap().instantiate_pre(&component(&engine, "react"));
        let entry = Entry::new(linked.unwrap()).unwrap();
        let slots = Slots::new(slots, 1, 0, Room::new(1 << 30, slots));
        for _ in 0..3 {
            let slot = slots.try_acquire(1).unwrap();
            let mut store = Store::new(&engine, State::new(Memory::new(slot.memory(), 1 << 20)));
            invoke::bound(&mut store, 1_000_000).unwrap();
            let text = String::new;
            let invocation =
                Invocation { id: text(), reactor_id: text(), attempt: 1, deadline_ms: 0 };
            let request = Request { args: text(), configuration: text(), svc: None, invocation };
            let error = entry.call(&request, &mut store).await.unwrap_err().to_string();
            assert!(error.contains("type mismatch"), "{error}");
        }
    }

    #[test]
    fn a_component_without_the_function_has_no_entry() {
        let (engine, _) = engine::serving(2).unwrap();
        let linked = linker(&engine).unwrap().instantiate_pre(&component(&engine, "other"));
        assert!(Entry::new(linked.unwrap()).is_err());
    }
}
