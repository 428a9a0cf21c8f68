//! A process that compiles one component: what it may use, what starts it, what it does.
//!
//! Checking and compiling run large programs over what a stranger wrote, and nothing tells beforehand how long that takes
//! or how much memory. So it happens in a process of its own, of this very program: without a secret of ours in its environment,
//! bounded by the kernel, shut in with its pipes, of low priority, and gone when nobody waits for it any more.
//!
//! The component goes in by standard input, its length before it; what follows is that input's end, which tells the
//! process that its parent is gone. The code comes out by standard output, as [`Compiled::received`] takes it. An exit
//! code says which.

use std::io::{self, Read as _, Write as _};
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{ExitCode, ExitStatus, Stdio};
use std::time::Duration;

use rustix::process::{
    DumpableBehavior, Resource, Rlimit, Signal, getrlimit, nice, set_dumpable_behavior, setrlimit,
};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;

use super::compile::compile_here;
use super::component::{CompileError, ComponentError};
use super::load::{self, Compiled, HEADER_BYTES};
use crate::limits::{
    COMPILE_CPU_SECONDS_MAX, COMPILE_MEMORY_MB_MAX, COMPILED_BYTES_MAX, COMPONENT_BYTES_MAX,
};

/// The command that the program is started with, and its options.
pub const COMMAND: &str = "compile-component";
const MEMORY_MB: &str = "--memory-mb";
const CPU_SECONDS: &str = "--cpu-seconds";

/// Exit code: the component is no formula; standard output says why, as JSON of a [`ComponentError`].
const INVALID: u8 = 65;
/// Exit code: the process could not do its work.
const FAILED: u8 = 70;
/// Exit code of a panic.
const PANICKED: i32 = 101;
/// Threads that compile functions side by side; each takes address space.
const THREADS: &str = "2";
/// How much the process gives way to others.
const NICE: i32 = 10;
/// Where a process says how soon it is to be ended when there is no memory left, and the soonest that there is.
const ENDED_SOON: (&str, &str) = ("/proc/self/oom_score_adj", "1000");
/// Bytes of a refusal in which the process says why there is no code.
const REFUSAL_BYTES_MAX: u64 = 64 << 10;
/// Bytes of what the process complains that go to the log.
const COMPLAINT_BYTES_MAX: u64 = 4 << 10;

/// Closes this process to others of the same user, for good: none of them reads its memory or its environment, and it
/// leaves no image of its memory on disk. Root still can.
///
/// For the process that holds keys, before it does: what compiles for it runs as the same user.
pub fn close_to_others() -> io::Result<()> {
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: Some(0) })?;
    set_dumpable_behavior(DumpableBehavior::NotDumpable)?;
    Ok(())
}

/// What one compilation may use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CompileBounds {
    /// Address space, in MiB.
    pub memory_mb: u64,
    /// Computing time, in seconds, all threads together. On the wall it may be twice that.
    pub cpu_seconds: u64,
}

impl Default for CompileBounds {
    fn default() -> Self {
        Self { memory_mb: COMPILE_MEMORY_MB_MAX, cpu_seconds: COMPILE_CPU_SECONDS_MAX }
    }
}

/// Compiles a component in a process of its own, whose code may have no more than so many bytes. Dropping the future kills
/// the process.
pub async fn compile(
    program: &Path,
    bounds: CompileBounds,
    (component, code_bytes_max): (&[u8], u64),
) -> Result<Compiled, CompileError> {
    let on_the_wall = Duration::from_secs(bounds.cpu_seconds.saturating_mul(2));
    let conversation = converse(program, bounds, (component, code_bytes_max));
    match tokio::time::timeout(on_the_wall, conversation).await {
        Ok(said) => said?.understand(),
        Err(_) => Err(ComponentError::TooSlow.into()),
    }
}

/// What a process said, and how it ended.
struct Said {
    output: Vec<u8>,
    complaint: Vec<u8>,
    status: ExitStatus,
}

async fn converse(
    program: &Path,
    bounds: CompileBounds,
    (component, code_bytes_max): (&[u8], u64),
) -> Result<Said, CompileError> {
    let failed = |error: io::Error| CompileError::Host(format!("{}: {error}", program.display()));
    let mut child = command(program, bounds).spawn().map_err(failed)?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(mut input), Some(mut output), Some(mut errors)) = pipes else {
        return Err(CompileError::Host("a process without its pipes".to_owned()));
    };
    let feed = async {
        let length = (component.len() as u64).to_be_bytes();
        // A process that takes no more has ended, and how it did says more than this.
        if input.write_all(&length).await.is_ok() {
            let _ = input.write_all(component).await;
        }
        // Left open: its end would end the process.
        Ok::<_, CompileError>(input)
    };
    let read = async {
        let mut bytes = Vec::new();
        (&mut output).take(HEADER_BYTES as u64).read_to_end(&mut bytes).await.map_err(failed)?;
        let announced = load::announced(&bytes);
        let most = code_bytes_max.min(COMPILED_BYTES_MAX as u64);
        if announced.is_some_and(|length| length > most) {
            // None of it is read: a small component may have code that fills the memory.
            return Err(ComponentError::CodeTooLarge.into());
        }
        let length = announced.unwrap_or(REFUSAL_BYTES_MAX);
        bytes.reserve_exact(usize::try_from(length + 1).unwrap_or_default());
        // One byte more tells that there is more.
        output.take(length + 1).read_to_end(&mut bytes).await.map_err(failed)?;
        Ok::<_, CompileError>(bytes)
    };
    let listen = async {
        let mut bytes = Vec::new();
        let _ = (&mut errors).take(COMPLAINT_BYTES_MAX).read_to_end(&mut bytes).await;
        // What is not read would hold the process up.
        let _ = tokio::io::copy(&mut errors, &mut tokio::io::sink()).await;
        Ok::<_, CompileError>(bytes)
    };
    let (input, output, complaint) = tokio::try_join!(feed, read, listen)?;
    drop(input);
    let status = child.wait().await.map_err(failed)?;
    Ok(Said { output, complaint, status })
}

fn command(program: &Path, bounds: CompileBounds) -> Command {
    let mut command = Command::new(program);
    command
        .arg0("tokamak")
        .arg(COMMAND)
        .args([MEMORY_MB, &bounds.memory_mb.to_string()])
        .args([CPU_SECONDS, &bounds.cpu_seconds.to_string()])
        // The root key is in ours.
        .env_clear()
        .env("RAYON_NUM_THREADS", THREADS)
        .current_dir("/")
        // A terminal's interrupt is for the server, which ends its processes when it is done.
        .process_group(0)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .kill_on_drop(true);
    command
}

impl Said {
    fn understand(self) -> Result<Compiled, CompileError> {
        let Self { output, complaint, status } = self;
        let complaint = String::from_utf8_lossy(&complaint);
        let complaint = complaint.trim();
        if let Some(signal) = status.signal() {
            tracing::warn!(signal, complaint, "a process that compiled a component was ended");
            // What the component does itself, out of time or memory or of stack, ends otherwise. This is the kernel, which has
            // no memory left, whatever is compiled; or it is a person.
            return Err(if signal == Signal::KILL.as_raw() {
                CompileError::NoMemory("a process that compiles was killed".to_owned())
            } else {
                ComponentError::TooCostly.into()
            });
        }
        if output.len() > COMPILED_BYTES_MAX {
            return Err(ComponentError::TooCostly.into());
        }
        match status.code() {
            Some(0) => Compiled::received(output)
                .ok_or_else(|| CompileError::Host("compiled code was cut off".to_owned())),
            Some(code) if code == i32::from(INVALID) => Err(serde_json::from_slice(&output)
                .map_or_else(
                    |_| CompileError::Host("a refusal was cut off".to_owned()),
                    CompileError::Component,
                )),
            Some(PANICKED) => {
                tracing::error!(complaint, "the compiler failed on a component");
                Err(ComponentError::Invalid("the compiler gave it up".to_owned()).into())
            }
            code => {
                let code = code.unwrap_or_default();
                let cause = format!("a process that compiles ended with {code}: {complaint}");
                Err(CompileError::Host(cause))
            }
        }
    }
}

/// What the process itself does: bounds itself, is shut in, reads a component, checks and compiles it, writes the code.
pub fn compile_standard_input(
    bounds: CompileBounds,
    shut_in: impl FnOnce() -> io::Result<()>,
) -> ExitCode {
    let shut = bound(bounds).and_then(|()| shut_in());
    let compiled = shut.and_then(|()| read_component()).and_then(|component| {
        leave_with_the_parent()?;
        match compile_here(&component) {
            Ok(compiled) => Ok((ExitCode::SUCCESS, [compiled.header(), compiled.code().to_vec()])),
            Err(error) => {
                let refusal = refusal(error).map_err(io::Error::other)?;
                Ok((ExitCode::from(INVALID), [serde_json::to_vec(&refusal)?, Vec::new()]))
            }
        }
    });
    let (code, parts) = match compiled {
        Ok(compiled) => compiled,
        Err(error) => {
            let _ = writeln!(io::stderr(), "{error}");
            return ExitCode::from(FAILED);
        }
    };
    let mut out = io::stdout().lock();
    match parts.iter().try_for_each(|part| out.write_all(part)).and_then(|()| out.flush()) {
        Ok(()) => code,
        Err(_) => ExitCode::from(FAILED),
    }
}

/// What the component is to blame for. It has the process for itself, and all that the process may have.
fn refusal(error: CompileError) -> Result<ComponentError, CompileError> {
    match error {
        CompileError::Component(refusal) => Ok(refusal),
        CompileError::NoMemory(cause) => Ok(ComponentError::Invalid(cause)),
        fault @ CompileError::Host(_) => Err(fault),
    }
}

/// Takes less than the process was given, for good.
fn bound(bounds: CompileBounds) -> io::Result<()> {
    // Where it shares its memory with the server, the kernel would else end the larger one of the two, which is the server. A
    // server that is confined may not write there, and nor may what it starts: then it stays as it was.
    let (file, soonest) = ENDED_SOON;
    let _ = std::fs::write(file, soonest);
    let at_most = |resource, current: u64, maximum: u64| {
        // The process may have been given less than that.
        let given = getrlimit(resource).maximum.unwrap_or(u64::MAX);
        let (current, maximum) = (Some(current.min(given)), Some(maximum.min(given)));
        setrlimit(resource, Rlimit { current, maximum })
    };
    let bytes = bounds.memory_mb.saturating_mul(1 << 20);
    at_most(Resource::As, bytes, bytes)?;
    // The first ends it with a signal that says why.
    at_most(Resource::Cpu, bounds.cpu_seconds, bounds.cpu_seconds.saturating_add(1))?;
    // It leaves nothing on disk, no image of its memory either.
    at_most(Resource::Core, 0, 0)?;
    at_most(Resource::Fsize, 0, 0)?;
    nice(NICE)?;
    Ok(())
}

fn read_component() -> io::Result<Vec<u8>> {
    let mut input = io::stdin().lock();
    let mut length = [0; 8];
    input.read_exact(&mut length)?;
    let length = u64::from_be_bytes(length);
    let mut component = Vec::new();
    let read = input.take(length.min(COMPONENT_BYTES_MAX as u64)).read_to_end(&mut component)?;
    if read as u64 == length { Ok(component) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// Ends the process when its standard input ends: the parent gave it up, or is gone.
fn leave_with_the_parent() -> io::Result<()> {
    let watch = || {
        let _ = io::stdin().lock().read(&mut [0]);
        std::process::exit(i32::from(FAILED))
    };
    std::thread::Builder::new().spawn(watch).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn understood(wait_status: i32, output: &[u8]) -> Result<(), CompileError> {
        let status = ExitStatus::from_raw(wait_status);
        let said = Said { output: output.to_vec(), complaint: b" it broke \n".to_vec(), status };
        said.understand().map(|_| ())
    }

    fn exited(code: u8) -> i32 {
        i32::from(code) << 8
    }

    #[test]
    fn whose_fault_an_end_is() {
        let invalid = |cause: &str| Err(ComponentError::Invalid(cause.to_owned()).into());
        let host = |cause: &str| Err(CompileError::Host(cause.to_owned()));
        let costly = || Err(ComponentError::TooCostly.into());
        let table = [
            ("out of memory", 6, "", costly()),
            (
                "killed",
                9,
                "",
                Err(CompileError::NoMemory("a process that compiles was killed".to_owned())),
            ),
            ("a stack that overflowed", 11, "", costly()),
            ("out of time", 24, "", costly()),
            ("refused", exited(INVALID), r#"{"Invalid":"no way"}"#, invalid("no way")),
            ("refused by half", exited(INVALID), r#"{"Invalid":"#, host("a refusal was cut off")),
            ("a panic", exited(101), "", invalid("the compiler gave it up")),
            ("nothing said", exited(0), "", host("compiled code was cut off")),
            ("a part said", exited(0), "code", host("compiled code was cut off")),
            ("unable", exited(70), "", host("a process that compiles ended with 70: it broke")),
            ("misused", exited(2), "", host("a process that compiles ended with 2: it broke")),
        ];
        for (name, wait_status, output, expected) in table {
            assert_eq!(understood(wait_status, output.as_bytes()), expected, "{name}");
        }
    }

    #[tokio::test]
    async fn a_program_that_is_not_there_or_does_something_else_is_our_fault() {
        for program in ["/nowhere/tokamak", "/bin/true", "/bin/false"] {
            let compiled = compile(Path::new(program), CompileBounds::default(), (b"", 1)).await;
            assert!(matches!(compiled, Err(CompileError::Host(_))), "{program}");
        }
    }
}
