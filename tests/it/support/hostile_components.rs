//! Components that cost their compiler much, written by hand, and variants of others.
//!
//! None is a formula: each exports its name only, which is found out after it was compiled.

use std::fmt::Write as _;

/// A component around one core module with these members.
fn component(members: &str) -> Vec<u8> {
    let text = format!(
        r#"(component (core module {members}) (instance $i)
            (export "tokamak:formula/reactor@1.0.0" (instance $i)))"#
    );
    wat::parse_str(text).unwrap()
}

/// 24 KB that take a minute of computing, at least: every variable lives through every loop.
pub fn slow() -> Vec<u8> {
    const LOOPS: usize = 2_000;
    const VARIABLES: usize = 2_000;
    let mut function = "(func (param i32) ".to_owned() + &"(local i32)".repeat(VARIABLES);
    function += &"loop ".repeat(LOOPS);
    for variable in 0..VARIABLES {
        write!(function, "(local.set {variable} (i32.add (local.get {variable}) (i32.const 1)))")
            .unwrap();
    }
    function += "local.get 0 br_if 0 ";
    function += &"end ".repeat(LOOPS);
    component(&(function + ")"))
}

/// 140 KB that take gigabytes of memory within seconds: many variables live through many branches.
pub fn hungry() -> Vec<u8> {
    const BRANCHES: usize = 12_000;
    const VARIABLES: usize = 40_000;
    let mut function = "(func (param i32) ".to_owned() + &"(local i32)".repeat(VARIABLES);
    for branch in 0..BRANCHES {
        let (from, to) = (branch % VARIABLES, (branch * 7 + 1) % VARIABLES);
        write!(function, "local.get 0 if local.get {from} local.set {to} end ").unwrap();
    }
    component(&(function + ")"))
}

/// 1.3 MB that take a minute to be looked through: components in each other, and nothing else.
pub fn nested() -> Vec<u8> {
    const LEVELS: usize = 100_000;
    const HEADER: &[u8] = b"\0asm\x0d\0\x01\0";
    const COMPONENT: u8 = 4;
    let mut heads = vec![HEADER.to_vec()];
    let mut within = HEADER.len();
    for _ in 0..LEVELS {
        let mut head = [HEADER, &[COMPONENT]].concat();
        length(within, &mut head);
        within += head.len();
        heads.push(head);
    }
    heads.into_iter().rev().flatten().collect()
}

/// Components of many names: so many instances of one with so many exports, themselves exported or not.
fn named(names: usize, instances: usize, are_exported: bool) -> Vec<u8> {
    let mut text = r#"(component
        (core module $m (func (export "f")))
        (core instance $m (instantiate $m))
        (func $f (canon lift (core func $m "f")))
        (component $c (import "f" (func $f)) "#
        .to_owned();
    for name in 0..names {
        write!(text, r#"(export "a{name}" (func $f)) "#).unwrap();
    }
    text += ") ";
    for instance in 0..instances {
        write!(text, r#"(instance $i{instance} (instantiate $c (with "f" (func $f)))) "#).unwrap();
        if are_exported {
            write!(text, r#"(export "x{instance}" (instance $i{instance})) "#).unwrap();
        }
    }
    text += r#"(instance $i) (export "tokamak:formula/reactor@1.0.0" (instance $i)))"#;
    wat::parse_str(text).unwrap()
}

/// Half a megabyte of which gigabytes are copied while it is looked through.
pub fn copied() -> Vec<u8> {
    named(50_000, 900, false)
}

/// A few kilobytes with memories in which single bytes lie far apart: images of all that is between would be hundreds of MiB.
pub fn sparse() -> Vec<u8> {
    const MODULES: usize = 18;
    let module = r#"(core module
        (memory 257) (data (i32.const 0) "a") (data (i32.const 16777000) "b"))"#;
    let text = format!(
        r#"(component {} (instance $i)
            (export "tokamak:formula/reactor@1.0.0" (instance $i)))"#,
        module.repeat(MODULES)
    );
    wat::parse_str(text).unwrap()
}

/// A few hundred kilobytes that are small machine code, and many times as much once that is loaded.
pub fn described() -> Vec<u8> {
    named(20_000, 12, true)
}

/// The same component with some bytes more that mean nothing: another digest, the same behaviour.
pub fn variant(component: &[u8], bytes: &[u8]) -> Vec<u8> {
    // A section of its own: its kind, its length, its name, the bytes.
    let mut variant = component.to_vec();
    variant.push(0);
    length(bytes.len() + 2, &mut variant);
    variant.extend_from_slice(b"\x01v");
    variant.extend_from_slice(bytes);
    variant
}

/// Writes a length as WebAssembly does: seven bits a byte, the lowest first.
fn length(mut length: usize, bytes: &mut Vec<u8>) {
    while length >= 0x80 {
        bytes.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    bytes.push(u8::try_from(length).unwrap());
}
