use super::{
    Failure, FaultKind, HANDLES_MAX, Handed, Memory, Refusal, Slice, State, Trap, bound, classify,
    for_want_of_room,
};
use crate::limits::HOST_CALLS_MAX;
use crate::runtime::engine;
use crate::runtime::memory::{Part, Room};
use rustix::io::Errno;
use std::sync::Arc;
use wasmtime::component::{Component, Linker};
use wasmtime::{Error, Store};

/// Makes so many things of its own, and keeps them all: its host has nothing of them but their handles.
const MAKES_THINGS: &str = r#"(component
    (type $thing (resource (rep i32)))
    (core func $new (canon resource.new $thing))
    (core module $m
        (import "" "new" (func $new (param i32) (result i32)))
        (func (export "make") (param $left i32)
            (loop $more
                (drop (call $new (i32.const 0)))
                (local.set $left (i32.sub (local.get $left) (i32.const 1)))
                (br_if $more (local.get $left)))))
    (core instance $i (instantiate $m (with "" (instance (export "new" (func $new))))))
    (func (export "make") (param "count" u32) (canon lift (core func $i "make"))))"#;

fn state() -> State {
    let part = Part::of(&Arc::new(Room::new(1 << 20, 1)));
    State::new(Memory::new(Arc::new(part), 1 << 20), Slice::default())
}

#[test]
fn what_the_system_refuses_is_no_doing_of_the_formula() {
    let mapped = || Error::from(Errno::NOMEM).context("mmap failed to reserve 4 bytes");
    let failed = |failure| matches!(failure, Failure::NoSandbox(_));
    match classify(&mapped(), None) {
        Failure::NoSandbox(cause) => assert!(cause.contains("mmap failed"), "{cause}"),
        failure => panic!("{failure:?}"),
    }
    // Also after the formula was refused what it may not have.
    assert!(failed(classify(&mapped(), Some(Refusal::Formula))));
    // It gives up by a trap of its own.
    let gave_up = Error::from(Trap::UnreachableCodeReached);
    assert!(failed(classify(&gave_up, Some(Refusal::System))));
    for other in [Error::from(Errno::INVAL), gave_up] {
        assert!(matches!(classify(&other, None), Failure::Trapped { .. }), "{other}");
    }
}

#[test]
fn a_want_of_room_for_an_answer_is_told_unless_the_formula_has_words_of_its_own() {
    let reported = |kind, detail: &str| {
        let (detail, errors) = (detail.to_owned(), Vec::new());
        Failure::Reported { kind, detail, errors }
    };
    let unavailable = |detail| reported(FaultKind::ServiceUnavailable, detail);
    let unanswered = || unavailable("the other server cannot be reached");
    let host = for_want_of_room(unanswered(), Some(Refusal::Host));
    assert!(host == Failure::HostOutOfMemory, "{host:?}");
    let owner = for_want_of_room(unanswered(), Some(Refusal::Owner));
    assert!(owner == Failure::OwnerOutOfMemory, "{owner:?}");
    assert!(for_want_of_room(unanswered(), None) == unanswered());
    for of_its_own in [
        unavailable("it may be paid: try again with this key"),
        reported(FaultKind::Runtime, "the other server cannot be reached"),
    ] {
        let told = for_want_of_room(of_its_own.clone(), Some(Refusal::Owner));
        assert!(told == of_its_own, "{told:?}");
    }
}

#[test]
fn bounds_that_libraries_tell_of_in_words_are_named() {
    use wasmtime::component::{ResourceTable, ResourceTableError};
    let mut table = ResourceTable::new();
    table.set_max_capacity(1);
    table.push(()).unwrap();
    let full: ResourceTableError = table.push(()).unwrap_err();
    for (cause, told) in [
        (full.to_string().as_str(), "1024 things"),
        ("cannot allocate another handle: store handle limit exceeded", "1024 things"),
        ("requested len 65537 exceeds limit 65536", "65536 random bytes"),
        ("empty poll list", "none of a list"),
        ("anything else", "the contract"),
    ] {
        assert!(super::broken(cause).contains(told), "{cause}");
    }
}

#[tokio::test]
async fn a_formula_holds_so_many_things_of_its_own_and_no_more() {
    let engine = engine::compiling().unwrap();
    let component = Component::new(&engine, wat::parse_str(MAKES_THINGS).unwrap()).unwrap();
    let mut store = Store::new(&engine, state());
    bound(&mut store, 1 << 30).unwrap();
    let linker = Linker::<State>::new(&engine);
    let instance = linker.instantiate_async(&mut store, &component).await.unwrap();
    let make = instance.get_typed_func::<(u32,), ()>(&mut store, "make").unwrap();
    let most = u32::try_from(HANDLES_MAX).unwrap();
    make.call_async(&mut store, (most,)).await.unwrap();
    let error = make.call_async(&mut store, (1,)).await.unwrap_err();
    match classify(&error, None) {
        Failure::Trapped { cause } => assert!(cause.contains("1024 things"), "{cause}"),
        failure => panic!("{failure:?}"),
    }
}

#[test]
fn a_run_calls_its_host_so_often_and_no_more() {
    let mut state = state();
    for _ in 0..HOST_CALLS_MAX {
        state.count_call().unwrap();
    }
    let error = state.count_call().unwrap_err();
    assert!(classify(&error, None) == Failure::TooManyCalls);
}

/// Nobody may read what was freed; but that it is dropped in a way of its own is seen by the compiler.
#[test]
fn what_a_formula_is_called_with_is_wiped_however_the_call_ends() {
    #[expect(drop_bounds, reason = "that is what is asked")]
    fn is_wiped<T: Drop>(_: &[T]) {}
    is_wiped::<Handed>(&[]);
}
