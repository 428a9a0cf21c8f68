//! What the engine would print, in the C library's place: nothing is printed.
//!
//! It prints what it finds of itself when it is debugged, which no script reaches. The C library's own functions would bring
//! files, sockets and terminals with them, all of them imports that the server offers to no formula.

#![expect(unsafe_code, reason = "the names and shapes that C has them by")]

use core::ffi::{c_char, c_int, c_longlong, c_void};

/// A stream: there is none.
type File = *mut c_void;
/// What follows on a format: WebAssembly's C hands it over as an address.
type Values = *const c_void;

#[unsafe(no_mangle)]
extern "C" fn printf(_: *const c_char, _: Values) -> c_int {
    0
}

#[unsafe(no_mangle)]
extern "C" fn fprintf(_: File, _: *const c_char, _: Values) -> c_int {
    0
}

#[unsafe(no_mangle)]
extern "C" fn putchar(c: c_int) -> c_int {
    c
}

#[unsafe(no_mangle)]
extern "C" fn fputc(c: c_int, _: File) -> c_int {
    c
}

#[unsafe(no_mangle)]
extern "C" fn fputs(_: *const c_char, _: File) -> c_int {
    0
}

#[unsafe(no_mangle)]
extern "C" fn fflush(_: File) -> c_int {
    0
}

#[unsafe(no_mangle)]
extern "C" fn __stdio_write(_: File, _: *const u8, length: usize) -> usize {
    length
}

#[unsafe(no_mangle)]
extern "C" fn __stdout_write(_: File, _: *const u8, length: usize) -> usize {
    length
}

#[unsafe(no_mangle)]
extern "C" fn __stdio_seek(_: File, _: c_longlong, _: c_int) -> c_longlong {
    -1
}

#[unsafe(no_mangle)]
extern "C" fn __stdio_close(_: File) -> c_int {
    0
}

#[unsafe(no_mangle)]
extern "C" fn __isatty(_: c_int) -> c_int {
    0
}
