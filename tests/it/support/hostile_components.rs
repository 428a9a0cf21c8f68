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

/// The same component with some bytes more that mean nothing: another digest, the same behaviour.
pub fn variant(component: &[u8], bytes: &[u8]) -> Vec<u8> {
    // A section of its own: its kind, its length, its name, the bytes.
    let mut variant = component.to_vec();
    variant.push(0);
    let mut length = bytes.len() + 2;
    while length >= 0x80 {
        variant.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
        length >>= 7;
    }
    variant.push(u8::try_from(length).unwrap());
    variant.extend_from_slice(b"\x01v");
    variant.extend_from_slice(bytes);
    variant
}
