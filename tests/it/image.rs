//! The image that the build takes of what runs scripts; see `host/build/image.rs`.

use wasmi::{Engine, Linker, Module, Store};

#[path = "../../host/build/image.rs"]
mod taken;

const HEADER_BYTES: usize = 8;

/// A component of one core module.
fn component(module: &str) -> Vec<u8> {
    wat::parse_str(format!("(component (core module {module}))")).unwrap()
}

/// The core module of such a component: the one section, behind its id and its length.
fn module(component: &[u8]) -> &[u8] {
    let section = &component[HEADER_BYTES..];
    let length = section[1..].iter().position(|byte| byte & 0x80 == 0).unwrap() + 1;
    &section[1 + length..]
}

/// What `read` of a module gives, for an address.
fn read(module: &[u8], address: i32) -> i32 {
    let engine = Engine::default();
    let module = Module::new(&engine, module).unwrap();
    let mut store = Store::new(&engine, ());
    let instance = Linker::new(&engine).instantiate_and_start(&mut store, &module).unwrap();
    let read = instance.get_typed_func::<i32, i32>(&store, "read").unwrap();
    read.call(&mut store, address).unwrap()
}

const SETS_UP: &str = r#"
    (memory (export "memory") 2 9)
    (global (mut i32) (i32.const 65536))
    (data (i32.const 70000) "abcd")
    (func (export "read") (param i32) (result i32) (i32.load (local.get 0)))
    (func (export "initialize")
        (drop (memory.grow (i32.const 3)))
        (i32.store (i32.const 16) (i32.const 7))
        (i32.store (i32.const 70000) (i32.add (i32.load (i32.const 70000)) (i32.const 1)))
        (i32.store (i32.const 131072) (i32.const -2))
        (i32.store (i32.const 327676) (i32.const 5)))
"#;

#[test]
fn an_image_is_the_memory_after_the_set_up() {
    let before = component(SETS_UP);
    let after = taken::taken(&before).unwrap();
    let (before, after) = (module(&before), module(&after));
    let letters = i32::from_le_bytes(*b"abcd");
    assert_eq!((read(before, 70_000), read(before, 131_000)), (letters, 0));
    for (address, expected) in [(70_000, letters + 1), (131_072, -2), (327_676, 5), (200_000, 0)] {
        assert_eq!(read(after, address), expected, "{address}");
    }
    // What lies on the stack is nobody's any more.
    assert_eq!(read(after, 16), 0);
    // Only what holds anything is carried.
    assert!(after.len() < before.len() + 4 * 4096, "{}", after.len());
}

#[test]
fn what_asks_its_host_or_is_no_set_up_has_no_image() {
    let importing = |from: &str| {
        component(&format!(
            r#"(import "{from}" "ask" (func $ask)) (memory (export "memory") 1) (data (i32.const 1024) "a")
            (func (export "initialize") (call $ask))"#
        ))
    };
    let never_asks = r#"(import "wasi:clocks/wall-clock@0.2.4" "now" (func)) (memory (export "memory") 1)
        (data (i32.const 1024) "a") (func (export "initialize"))"#;
    for (component, part) in [
        (importing("wasi:random/random@0.2.4"), "asks the host for wasi:random/random@0.2.4.ask"),
        (importing("wasi:clocks/wall-clock@0.2.4"), "asks the host"),
        (
            component("(memory (export \"memory\") 1) (func (export \"initialize\") unreachable)"),
            "set-up failed",
        ),
        (component("(memory (export \"memory\") 1)"), "set-up failed"),
        (component("(func (export \"initialize\"))"), "no memory"),
        (component("(memory (export \"memory\") 1) (func (export \"initialize\"))"), "no data"),
        (b"\0asm\x0d\0\x01\0".to_vec(), "no core module"),
        (b"\0asm".to_vec(), "cut short"),
    ] {
        let refused = taken::taken(&component).unwrap_err();
        assert!(refused.contains(part), "{part}: {refused}");
    }
    assert!(taken::taken(&component(never_asks)).is_ok());
    // Tables may be seeded.
    assert!(taken::taken(&importing("wasi:random/insecure-seed@0.2.4")).is_ok());
    // However it is cut, it is an error and no panic.
    let whole = component(SETS_UP);
    for length in 0..whole.len() {
        assert!(taken::taken(&whole[..length]).is_err(), "cut at {length}");
    }
}
