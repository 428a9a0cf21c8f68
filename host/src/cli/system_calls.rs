//! System calls that a server never needs are refused to it from here on, whoever may come to run code in it (seccomp).
//!
//! A list of what is denied, not of what is allowed: what the engine of formulas, the C library and the kernel use changes
//! with their versions, and a call that was forgotten would end a server that has done no wrong. The list holds what leads
//! out of the process: into other processes, into the kernel, to other file systems, keys, users and clocks. Starting a
//! program stays, since components are compiled in a process of their own; [`super::confine`] bounds which one.
//!
//! Who calls is told `EPERM`, as without the right to. To deny one more: a row in [`DENIED`].
//!
//! A name space comes by `clone` too, by its flags, which a filter sees. Those of `clone3` lie in memory, which none sees:
//! so there is no `clone3`, and the C library takes `clone` instead, as on a kernel that does not know it.

mod compiler;

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch, apply_filter,
};

pub use self::compiler::allow_compiling;
use super::Failure;

/// What is refused.
const DENIED: &[i64] = &[
    // Into other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_move_pages,
    // To other file systems, and around the names of files.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_move_mount,
    libc::SYS_open_tree,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_quotactl,
    // Into the kernel: programs, modules and interfaces with a long record of faults.
    libc::SYS_bpf,
    libc::SYS_perf_event_open,
    libc::SYS_userfaultfd,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    libc::SYS_reboot,
    libc::SYS_syslog,
    libc::SYS_acct,
    // The kernel's keys.
    libc::SYS_add_key,
    libc::SYS_request_key,
    libc::SYS_keyctl,
    // Other users, rights and name spaces.
    libc::SYS_setuid,
    libc::SYS_setgid,
    libc::SYS_setreuid,
    libc::SYS_setregid,
    libc::SYS_setresuid,
    libc::SYS_setresgid,
    libc::SYS_setfsuid,
    libc::SYS_setfsgid,
    libc::SYS_setgroups,
    libc::SYS_capset,
    libc::SYS_unshare,
    libc::SYS_setns,
    libc::SYS_personality,
    // The machine's clock and names.
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
];

/// What `clone` is refused with: a name space of one's own, in which whoever makes it may do anything.
const NAME_SPACES: &[libc::c_int] = &[
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWNET,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWUTS,
];

/// On this architecture a kernel may offer the calls a second time, for programs with short pointers, under numbers with
/// this bit; a few have numbers of their own there: those of `ptrace`, `kexec_load`, `process_vm_readv`,
/// `process_vm_writev` and `move_pages`.
#[cfg(target_arch = "x86_64")]
const SHORT_POINTERS: i64 = 0x4000_0000;
#[cfg(target_arch = "x86_64")]
const OWN_NUMBERS: &[i64] = &[521, 528, 539, 540, 533];
#[cfg(not(target_arch = "x86_64"))]
const OWN_NUMBERS: &[i64] = &[];

/// Refuses them to this thread, and to every thread and process that it starts from now on. Where the kernel or the
/// architecture has no such filter, or another one refuses this one, the log says so.
pub fn deny() -> Result<(), Failure> {
    let Ok(architecture) = TargetArch::try_from(std::env::consts::ARCH) else {
        tracing::warn!("system calls are not filtered on this architecture");
        return Ok(());
    };
    let applied = filters(architecture)?.iter().try_for_each(|filter| apply_filter(filter));
    match applied {
        Ok(()) => tracing::info!("system calls that a server does not need are denied"),
        Err(error) if is_refused(&error) => tracing::warn!(
            "system calls are not filtered: that is refused by a filter around the service: see SystemCallFilter= of its \
            unit, or the seccomp profile of its container"
        ),
        Err(error) => tracing::warn!(%error, "this kernel does not filter system calls"),
    }
    Ok(())
}

/// Whether it was a filter that refused ours. A kernel without filters says so by other errors.
fn is_refused(error: &Error) -> bool {
    let (Error::Prctl(error) | Error::Seccomp(error)) = error else { return false };
    error.raw_os_error() == Some(libc::EPERM)
}

/// What a filter tells for each call, and when; of a call without rules, always.
type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// One filter for each answer: of those that a call meets, the kernel takes the strictest.
fn filters(architecture: TargetArch) -> Result<[BpfProgram; 2], Failure> {
    let clone = numbers(&[libc::SYS_clone], &[]).map(|number| Ok((number, name_spaces()?)));
    let clone = clone.collect::<Result<Rules, Failure>>()?;
    let denied = numbers(DENIED, OWN_NUMBERS).map(|number| (number, Vec::new()));
    let unknown = numbers(&[libc::SYS_clone3], &[]).map(|number| (number, Vec::new()));
    Ok([
        filter(denied.chain(clone).collect(), (told(libc::EPERM), ALLOW), architecture)?,
        filter(unknown.collect(), (told(libc::ENOSYS), ALLOW), architecture)?,
    ])
}

/// Any of the flags is one too many.
fn name_spaces() -> Result<Vec<SeccompRule>, Failure> {
    let has = |flag: &libc::c_int| {
        let flag = u64::from(flag.unsigned_abs());
        rule(0, SeccompCmpOp::MaskedEq(flag), flag)
    };
    NAME_SPACES.iter().map(has).collect()
}

/// What compares one argument of a call with a value.
fn rule(argument: u8, compared: SeccompCmpOp, with: u64) -> Result<SeccompRule, Failure> {
    let one = SeccompCondition::new(argument, SeccompCmpArgLen::Qword, compared, with);
    one.and_then(|one| SeccompRule::new(vec![one])).map_err(|error| not_made(&error))
}

const ALLOW: SeccompAction = SeccompAction::Allow;

/// Refuses a call with this error.
fn told(errno: i32) -> SeccompAction {
    SeccompAction::Errno(errno.unsigned_abs())
}

/// A filter of what becomes of the calls that meet one of the rules, and of the others.
fn filter(
    rules: Rules,
    (met, others): (SeccompAction, SeccompAction),
    architecture: TargetArch,
) -> Result<BpfProgram, Failure> {
    let filter = SeccompFilter::new(rules, others, met, architecture);
    filter.and_then(BpfProgram::try_from).map_err(|error| not_made(&error))
}

fn not_made(error: &seccompiler::BackendError) -> Failure {
    format!("the filter of system calls cannot be made: {error}").into()
}

/// Every number under which one of these can be called.
fn numbers(calls: &[i64], own: &[i64]) -> impl Iterator<Item = i64> {
    #[cfg(target_arch = "x86_64")]
    let again: Vec<i64> = calls.iter().chain(own).map(|number| number | SHORT_POINTERS).collect();
    #[cfg(not(target_arch = "x86_64"))]
    let again = own.iter().copied();
    calls.iter().copied().chain(again)
}

#[cfg(test)]
mod tests {
    use std::io::ErrorKind;
    use std::process::Command;

    use super::{DENIED, Error, NAME_SPACES, OWN_NUMBERS, deny, is_refused, numbers};

    /// Runs something on a thread of its own with the filter, which the thread keeps. `None` on a kernel without.
    fn filtered<T: Send>(run: impl FnOnce() -> T + Send) -> Option<T> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                deny().unwrap();
                let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
                status.lines().any(|line| line == "Seccomp:\t2").then(run)
            });
            thread.join().unwrap()
        })
    }

    #[test]
    fn what_a_server_never_needs_is_refused_and_the_rest_goes_on() {
        let state = || {
            let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
            status.lines().filter(|line| line.starts_with("Seccomp")).collect::<String>()
        };
        let before = state();
        let root = tempfile::tempdir().unwrap();
        let path = root.path();
        let refused = filtered(|| {
            // A user of a name space of its own could mount whatever it liked.
            let unshare = Command::new("unshare").args(["--user", "true"]).output();
            let chroot = std::os::unix::fs::chroot(path);
            // Threads, programs, files and memory as ever.
            std::thread::spawn(|| ()).join().unwrap();
            assert!(Command::new("true").status().unwrap().success());
            std::fs::write(path.join("file"), "a").unwrap();
            (unshare.is_ok_and(|output| !output.status.success()), chroot)
        });
        let Some((unshare, chroot)) = refused else { return };
        assert!(unshare);
        assert_eq!(chroot.unwrap_err().kind(), ErrorKind::PermissionDenied);
        // Threads that were there before are as they were.
        assert_eq!(state(), before);
    }

    /// Makes a process by one of the calls, which must fail; gives how it did.
    #[expect(
        unsafe_code,
        reason = "the standard library makes no process in a name space of its own"
    )]
    fn refused(call: i64, flags: i64) -> Option<i32> {
        // SAFETY: a process that is made all the same has a copy of this one's memory, and ends at once by a system call,
        // without touching any of it. `clone3` is handed no arguments, and so makes none.
        let made = unsafe { libc::syscall(call, flags, 0, 0, 0, 0) };
        if made == 0 {
            // SAFETY: it ends this process and touches no memory.
            unsafe { libc::_exit(0) };
        }
        (made < 0).then(|| std::io::Error::last_os_error().raw_os_error()).flatten()
    }

    #[test]
    fn a_process_gets_no_name_space_of_its_own_and_threads_and_programs_start_as_ever() {
        let told = filtered(|| {
            let flags = NAME_SPACES.iter().map(|flag| i64::from(*flag | libc::SIGCHLD));
            let clone: Vec<_> = flags.map(|flags| refused(libc::SYS_clone, flags)).collect();
            // A user's with another, and none that is known by these.
            let both = i64::from(libc::CLONE_NEWUSER | libc::CLONE_NEWNET | libc::SIGCHLD);
            let clone3 = refused(libc::SYS_clone3, 0);
            let threads: Vec<_> = (0..8).map(|_| std::thread::spawn(|| ())).collect();
            for thread in threads {
                thread.join().unwrap();
            }
            for _ in 0..4 {
                assert!(Command::new("true").env("A", "b").status().unwrap().success());
            }
            (clone, refused(libc::SYS_clone, both), clone3)
        });
        let Some((clone, both, clone3)) = told else { return };
        assert_eq!(clone, vec![Some(libc::EPERM); NAME_SPACES.len()]);
        assert_eq!(both, Some(libc::EPERM));
        // As on a kernel that has none: whoever calls falls back.
        assert_eq!(clone3, Some(libc::ENOSYS));
    }

    #[test]
    fn a_filter_around_the_service_is_told_from_a_kernel_without_filters() {
        let failed = |errno| std::io::Error::from_raw_os_error(errno);
        assert!(is_refused(&Error::Seccomp(failed(libc::EPERM))));
        assert!(is_refused(&Error::Prctl(failed(libc::EPERM))));
        for errno in [libc::ENOSYS, libc::EINVAL, libc::EACCES] {
            assert!(!is_refused(&Error::Seccomp(failed(errno))), "{errno}");
        }
        assert!(!is_refused(&Error::EmptyFilter));
    }

    #[test]
    fn no_call_is_named_twice_and_none_by_which_a_program_lives() {
        let mut all: Vec<i64> = numbers(DENIED, OWN_NUMBERS).collect();
        let count = all.len();
        assert!(count >= DENIED.len());
        all.sort_unstable();
        all.dedup();
        assert_eq!(all.len(), count);
        let needed = [
            libc::SYS_read,
            libc::SYS_mmap,
            libc::SYS_mprotect,
            libc::SYS_madvise,
            libc::SYS_clone,
            libc::SYS_clone3,
            libc::SYS_execve,
            libc::SYS_futex,
            libc::SYS_prctl,
            libc::SYS_setpriority,
            libc::SYS_sched_setscheduler,
            libc::SYS_sched_yield,
            libc::SYS_prlimit64,
            libc::SYS_sched_setaffinity,
        ];
        assert!(needed.iter().all(|number| !all.contains(number)));
    }
}
