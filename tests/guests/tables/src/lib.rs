//! A formula that grows its table of functions until the host refuses, and then for ever.

#![feature(asm_experimental_arch)]

use tokamak_sdk::{Error, Request, Response, Value, formula};

#[formula]
fn react(_request: Request<Value>) -> Result<Response, Error> {
    loop {
        grow();
    }
}

/// Asks for a thousand more entries.
fn grow() -> i32 {
    let before: i32;
    // SAFETY: the entries are null and nothing calls them; no memory is touched.
    unsafe {
        std::arch::asm!(
            ".tabletype __indirect_function_table, funcref",
            "ref.null_func",
            "i32.const 1000",
            "table.grow __indirect_function_table",
            "local.set {before}",
            before = out(local) before,
        );
    }
    before
}
