//! Lets the table of functions grow, which linkers fix at its first size.

fn main() {
    println!("cargo::rustc-link-arg-cdylib=--growable-table");
}
