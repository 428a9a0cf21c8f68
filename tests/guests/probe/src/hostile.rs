//! What no formula should do. None of these returns by itself; the host has to end them.

use std::hint::black_box;

use tokamak_sdk::{Error, Response, Svc, clock, log};

/// Takes time and nothing else.
pub fn endless_loop() -> ! {
    let mut count = 0_u64;
    loop {
        count = black_box(count.wrapping_add(1));
    }
}

/// Takes memory, a MiB at a time, and writes to it.
pub fn endless_memory() -> ! {
    let mut held = Vec::new();
    loop {
        held.push(black_box(vec![1_u8; 1 << 20]));
    }
}

/// Takes the stack of WebAssembly, without a frame in memory.
pub fn flat_recursion() -> Result<Response, Error> {
    #[inline(never)]
    fn deeper(depth: u64) -> u64 {
        if depth == u64::MAX { 0 } else { deeper(depth + 1).rotate_left(3) ^ depth }
    }
    Ok(Response::raw(deeper(0)))
}

/// Takes the stack in memory.
pub fn endless_recursion() -> Result<Response, Error> {
    fn deeper(depth: u64) -> u64 {
        let frame = black_box([depth; 16]);
        if black_box(depth) == u64::MAX { 0 } else { deeper(depth + 1) + frame[3] }
    }
    Ok(Response::raw(deeper(0)))
}

/// Calls the host's log.
pub fn log_for_ever() -> ! {
    let line = "x".repeat(1_000);
    loop {
        log::info(&line);
    }
}

/// Writes to standard output.
pub fn print_for_ever() -> ! {
    let line = "x".repeat(1_000);
    loop {
        println!("{line}");
    }
}

/// Calls the vault, whatever it answers.
pub fn svc_for_ever(svc: Option<&Svc>) -> Result<Response, Error> {
    let svc = svc.ok_or_else(|| Error::runtime("there is no svc"))?;
    loop {
        let _ = black_box(svc.get("no-such-token"));
    }
}

/// Calls the host for something cheap.
pub fn clock_for_ever() -> ! {
    loop {
        black_box(clock::now_ms());
    }
}
