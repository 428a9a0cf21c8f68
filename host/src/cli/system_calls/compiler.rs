//! What a process may still ask of the kernel that compiles a stranger's component.
//!
//! Here the list says what is allowed: whoever came to run code of theirs in the compiler would be the server's own user, and
//! find its socket, its files and all networks. Compiling computes, takes memory, and reads and writes what is open already;
//! everything else is told `EPERM`, as without the right to. To allow one more: a row in [`ALLOWED`].

use seccompiler::{SeccompCmpOp, TargetArch, apply_filter};

use super::{ALLOW, Failure, Rules, filter, rule, told};

/// What is allowed, whatever it is called with.
const ALLOWED: &[i64] = &[
    // What is open: its three pipes.
    libc::SYS_read,
    libc::SYS_readv,
    libc::SYS_write,
    libc::SYS_writev,
    libc::SYS_close,
    libc::SYS_fstat,
    libc::SYS_lseek,
    // Memory, but for code: see [`rules`].
    libc::SYS_munmap,
    libc::SYS_mremap,
    libc::SYS_madvise,
    libc::SYS_brk,
    // Threads. How one is begun is in [`rules`]; by `clone3` none is, which is told as where the kernel has none.
    libc::SYS_clone3,
    libc::SYS_set_robust_list,
    libc::SYS_rseq,
    libc::SYS_futex,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_getpid,
    libc::SYS_gettid,
    libc::SYS_getcpu,
    libc::SYS_exit,
    libc::SYS_exit_group,
    // Its own signals.
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_sigaltstack,
    // Time and chance.
    libc::SYS_clock_gettime,
    libc::SYS_clock_nanosleep,
    libc::SYS_nanosleep,
    libc::SYS_restart_syscall,
    libc::SYS_getrandom,
];

/// Allows this thread, and every one that it starts from now on, what compiling needs, and nothing else. Where the kernel or
/// the architecture has no such filter it stays as it was: the server has told so at its start.
pub fn allow_compiling() -> Result<(), Failure> {
    let Ok(architecture) = TargetArch::try_from(std::env::consts::ARCH) else { return Ok(()) };
    let allowed = filter(rules()?, (ALLOW, told(libc::EPERM)), architecture)?;
    let no_clone3 = [(libc::SYS_clone3, Vec::new())].into_iter().collect();
    let no_clone3 = filter(no_clone3, (told(libc::ENOSYS), ALLOW), architecture)?;
    // In this order: behind the list of what is allowed the kernel takes no filter any more.
    let _ = apply_filter(&no_clone3).and_then(|()| apply_filter(&allowed));
    Ok(())
}

/// All that is allowed, some of it only with certain arguments.
fn rules() -> Result<Rules, Failure> {
    let number = |value: libc::c_int| u64::from(value.unsigned_abs());
    let [thread, executable] = [libc::CLONE_THREAD, libc::PROT_EXEC].map(number);
    let data = || rule(2, SeccompCmpOp::MaskedEq(executable), 0);
    let conditional = [
        // Threads, and no processes.
        (libc::SYS_clone, rule(0, SeccompCmpOp::MaskedEq(thread), thread)?),
        // No memory that would be run.
        (libc::SYS_mmap, data()?),
        (libc::SYS_mprotect, data()?),
        // The name of a thread.
        (libc::SYS_prctl, rule(0, SeccompCmpOp::Eq, number(libc::PR_SET_NAME))?),
        // A signal to itself, by which it gives up.
        (libc::SYS_tgkill, rule(0, SeccompCmpOp::Eq, u64::from(std::process::id()))?),
    ];
    let always = ALLOWED.iter().map(|call| (*call, Vec::new()));
    Ok(always.chain(conditional.map(|(call, rule)| (call, vec![rule]))).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::ErrorKind::PermissionDenied;
    use std::net::{TcpListener, TcpStream, UdpSocket};
    use std::os::unix::net::UnixStream;
    use std::process::Command;

    use rustix::process::{Pid, Signal, kill_process};

    use super::allow_compiling;

    #[test]
    fn whoever_runs_code_in_the_compiler_reaches_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let all = folder.path();
        fs::write(path("file"), "a").unwrap();
        let there = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let own = Pid::from_raw(i32::try_from(std::process::id()).unwrap()).unwrap();
        let error = |result: std::io::Result<()>| result.err().map(|error| error.kind());
        let compiler = || {
            allow_compiling().unwrap();
            // What is computed goes on: memory, threads, and what is open.
            let sum: usize = std::thread::spawn(|| vec![1; 4 << 20].iter().sum()).join().unwrap();
            assert_eq!(sum, 4 << 20);
            std::thread::sleep(std::time::Duration::from_millis(1));
            [
                ("read", error(fs::read(path("file")).map(drop))),
                ("write", error(fs::write(path("new"), "a"))),
                ("rename", error(fs::rename(path("file"), path("other")))),
                ("remove", error(fs::remove_file(path("file")))),
                ("list", error(fs::read_dir(all).map(drop))),
                ("connect", error(TcpStream::connect(there).map(drop))),
                ("datagrams", error(UdpSocket::bind("127.0.0.1:0").map(drop))),
                ("control", error(UnixStream::connect(path("socket")).map(drop))),
                ("run", error(Command::new("/bin/true").status().map(drop))),
                ("signal", error(kill_process(own, Signal::CONT).map_err(Into::into))),
            ]
        };
        let tried = std::thread::scope(|scope| scope.spawn(compiler).join()).unwrap();
        // A kernel without filters lets all of it be.
        if tried.iter().any(|(_, error)| *error == Some(PermissionDenied)) {
            assert!(tried.iter().all(|(_, error)| *error == Some(PermissionDenied)), "{tried:?}");
        }
    }
}
