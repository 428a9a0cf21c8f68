//! `tokamak compile-component`: what the server starts for itself to compile a component, and nobody else.

use std::process::ExitCode;

use clap::Args;

use super::{Failure, confine, system_calls};
use crate::runtime::{CompileBounds, compile_standard_input};

/// What the process may use.
#[derive(Debug, Args)]
pub struct CompileOptions {
    /// Address space, in MiB.
    #[arg(long, value_name = "MIB")]
    memory_mb: u64,
    /// Computing time, in seconds.
    #[arg(long, value_name = "SECONDS")]
    cpu_seconds: u64,
}

/// Compiles what comes by standard input.
pub fn run(options: &CompileOptions) -> ExitCode {
    let CompileOptions { memory_mb, cpu_seconds } = *options;
    let shut = || shut_in().map_err(|error| std::io::Error::other(error.to_string()));
    compile_standard_input(CompileBounds { memory_mb, cpu_seconds }, shut)
}

/// Takes from the process whatever it does not need, before it reads a byte of the component: it is the server's own user, to
/// whom the control socket answers.
fn shut_in() -> Result<(), Failure> {
    close_others();
    confine::shut()?;
    system_calls::allow_compiling()
}

/// Closes whatever the server was started with beside its three streams: it would be open here, too.
#[expect(unsafe_code, reason = "nothing safe closes what nobody here has opened")]
fn close_others() {
    const FIRST: libc::c_uint = 3;
    // SAFETY: the call is handed no memory. Nothing of this process has a descriptor beside its streams yet: it has one
    // thread, and what that opened before is closed.
    let _ = unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_uint::MAX, 0) };
}
