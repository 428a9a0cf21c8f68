//! The process takes from itself what it does not need, for good, before it reads a byte of anybody's (Landlock).
//!
//! What is left: its data folder, to write; its certificate's folder, the system's libraries and settings, and what the
//! kernel tells, to read; its own program, to run. Threads and child processes begin with no more than that, and no set-uid
//! program gives any of it back. A kernel that cannot do so is told of in the log, and so is a filter of system calls around
//! the service that refuses it. [`super::system_calls`] says what it asks
//! of the kernel no more.
//!
//! To let the process reach another file: a row in [`readable`] or [`writable`].

use std::path::{Path, PathBuf};

use landlock::{
    ABI, Access as _, AccessFs, AccessNet, BitFlags, PathBeneath, PathFd, Ruleset,
    RulesetAttr as _, RulesetCreated, RulesetCreatedAttr as _, RulesetError, RulesetStatus, Scope,
};

use super::{Failure, system_calls};
use crate::config::{Settings, trusted_certificates};

/// The newest rules that are asked for; an older kernel enforces those it knows.
const RULES: ABI = ABI::V6;

/// The system's files that name look-ups, certificates and the loader of programs read. Folders, since their files are
/// exchanged while the server runs.
const SYSTEM: &[&str] = &[
    "/etc",
    "/lib",
    "/lib32",
    "/lib64",
    "/usr/lib",
    "/usr/lib32",
    "/usr/lib64",
    "/usr/local/lib",
    // Where an operator puts certificates of its own authorities.
    "/usr/local/share",
    "/usr/share",
    "/nix/store",
    "/run/systemd/resolve",
    "/run/NetworkManager",
    "/run/resolvconf",
    "/var/run/nscd",
    "/proc/self",
    "/proc/sys/vm/max_map_count",
    "/sys/fs/cgroup",
    "/sys/devices/system/cpu",
    "/dev/urandom",
    "/dev/random",
];

/// What confinement came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Confined {
    /// All of it.
    Whole,
    /// What an older kernel knows of it.
    Partly,
    /// Nothing: the kernel has no Landlock, or it is switched off there.
    No,
    /// Nothing: what the service was put into does not let it ask.
    Refused,
}

/// Confines this thread, and every thread and process that it starts from now on.
pub fn confine(settings: &Settings) -> Result<(), Failure> {
    if !settings.safety.confine {
        tracing::warn!("the process is not confined: --confine is off");
        return Ok(());
    }
    let readable = readable(settings);
    let folders = Folders { writable: writable(&settings.data_dir), readable };
    match folders.enforce().map_err(|error| format!("the process cannot be confined: {error}"))? {
        Confined::Whole => tracing::info!("the process is confined to its files"),
        Confined::Partly => {
            tracing::info!("the process is confined to its files, as far as this kernel can");
        }
        Confined::No => tracing::warn!("the process is not confined: this kernel has no Landlock"),
        Confined::Refused => tracing::warn!(
            "the process is not confined: Landlock is refused by a filter around the service: see SystemCallFilter= of its \
            unit, or the seccomp profile of its container"
        ),
    }
    system_calls::deny()
}

/// Takes all files and networks from this thread, and from every one that it starts from now on, as far as the kernel can.
pub fn shut() -> Result<(), Failure> {
    let none = || {
        Ruleset::default()
            .handle_access(AccessFs::from_all(RULES))?
            .handle_access(AccessNet::from_all(RULES))?
            .scope(Scope::from_all(RULES))?
            .create()?
            .restrict_self()
    };
    none().map(drop).map_err(|error| format!("the process cannot be confined: {error}").into())
}

/// The data folder, and where the store lies if that is a link to another disk.
fn writable(data: &Path) -> Vec<PathBuf> {
    let store = data.join("store");
    let elsewhere = store.is_symlink().then(|| store.canonicalize().ok()).flatten();
    std::iter::once(data.to_owned()).chain(elsewhere).collect()
}

fn readable(settings: &Settings) -> Vec<PathBuf> {
    let mut readable: Vec<PathBuf> = SYSTEM.iter().map(PathBuf::from).collect();
    readable.extend(trusted_certificates());
    for path in settings.safety.tls.iter().flat_map(|(certificate, key)| [certificate, key]) {
        // A pair is exchanged by new files under the same names, often behind links.
        let real = path.canonicalize().ok();
        let parents = [Some(path.as_path()), real.as_deref()].into_iter().flatten();
        readable.extend(parents.filter_map(Path::parent).map(|parent| {
            if parent.as_os_str().is_empty() { PathBuf::from(".") } else { parent.to_owned() }
        }));
        readable.extend(path.parent().into_iter().flat_map(exchanged));
    }
    readable
}

/// Of a folder that is a link, which is how a whole pair is exchanged at once: the folder that holds the link, and the one
/// that holds what it leads to. None that holds everything.
fn exchanged(folder: &Path) -> Vec<PathBuf> {
    let Ok(target) = folder.read_link() else { return Vec::new() };
    let holder = folder.parent().unwrap_or(Path::new(""));
    let holders = [Path::new(".").join(holder), Path::new(".").join(holder).join(target)];
    let [link, target] = holders.map(|path| path.canonicalize().ok());
    let target = target.and_then(|target| target.parent().map(Path::to_owned));
    [link, target].into_iter().flatten().filter(|path| path.parent().is_some()).collect()
}

/// What the process keeps.
struct Folders {
    writable: Vec<PathBuf>,
    readable: Vec<PathBuf>,
}

impl Folders {
    fn enforce(&self) -> Result<Confined, RulesetError> {
        let read = AccessFs::ReadFile | AccessFs::ReadDir;
        // Of what is no file of data, such as devices and links, none is made. A socket for the operator is one.
        let write = AccessFs::from_all(RULES)
            & !(AccessFs::Execute
                | AccessFs::MakeChar
                | AccessFs::MakeBlock
                | AccessFs::MakeFifo
                | AccessFs::MakeSym
                | AccessFs::IoctlDev);
        let run: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::Execute;
        let mut rules = Ruleset::default()
            .handle_access(AccessFs::from_all(RULES))?
            .scope(Scope::from_all(RULES))?
            .create()?;
        for path in &self.readable {
            rules = allow(rules, path, read)?;
        }
        for path in &self.writable {
            rules = allow(rules, path, write)?;
        }
        for loader in loaders() {
            rules = allow(rules, &loader, run)?;
        }
        if let Ok(own) = std::env::current_exe() {
            rules = allow(rules, &own, run)?;
        }
        rules = allow(rules, Path::new("/dev/null"), AccessFs::ReadFile | AccessFs::WriteFile)?;
        Ok(match rules.restrict_self()?.ruleset {
            RulesetStatus::FullyEnforced => Confined::Whole,
            RulesetStatus::PartiallyEnforced => Confined::Partly,
            RulesetStatus::NotEnforced if is_refused() => Confined::Refused,
            RulesetStatus::NotEnforced => Confined::No,
        })
    }
}

/// Whether a filter stands before Landlock. A kernel without it says so by other errors.
#[expect(unsafe_code, reason = "the crate takes every error for a kernel without Landlock")]
fn is_refused() -> bool {
    const TELL_VERSION: u32 = 1;
    // SAFETY: the call is handed no memory and makes nothing; it asks for a number.
    let version =
        unsafe { libc::syscall(libc::SYS_landlock_create_ruleset, 0_usize, 0_usize, TELL_VERSION) };
    version < 0 && std::io::Error::last_os_error().raw_os_error() == Some(libc::EPERM)
}

/// The loader that the kernel runs this program by, as it is mapped here; none if it is linked statically.
fn loaders() -> Vec<PathBuf> {
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap_or_default();
    let paths = maps.lines().filter_map(|line| Some(PathBuf::from(&line[line.find('/')?..])));
    let named = |path: &PathBuf| {
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        name.is_some_and(|name| name.starts_with("ld-") || name.starts_with("ld.so"))
    };
    let mut loaders: Vec<PathBuf> = paths.filter(named).collect();
    loaders.dedup();
    loaders
}

/// One more rule. What is not there needs none.
fn allow(
    rules: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let Ok(opened) = PathFd::new(path) else { return Ok(rules) };
    // A right of folders means nothing at a file, and is refused there.
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(RULES) };
    rules.add_rule(PathBeneath::new(opened, access))
}

#[cfg(test)]
mod tests {
    use super::{Confined, Folders, exchanged, readable, shut};
    use crate::config::Options;
    use seccompiler::{BpfProgram, SeccompAction, SeccompFilter, TargetArch, apply_filter};
    use std::fs;
    use std::path::PathBuf;
    use std::process::Command;

    /// Runs something on a thread of its own that is confined to these folders. `None` on a kernel that cannot.
    fn confined<T: Send>(folders: &Folders, run: impl FnOnce() -> T + Send) -> Option<T> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let confined = folders.enforce().unwrap();
                matches!(confined, Confined::Whole | Confined::Partly).then(run)
            });
            let ran = thread.join().unwrap();
            if ran.is_none() {
                let _ = std::io::Write::write_all(
                    &mut std::io::stderr(),
                    b"skipped: there is no Landlock here\n",
                );
            }
            ran
        })
    }

    #[test]
    fn what_is_not_allowed_is_not_there_for_the_process() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        for name in ["own", "given", "others"] {
            fs::create_dir(path(name)).unwrap();
            fs::write(path(name).join("file"), name).unwrap();
        }
        let folders = Folders {
            writable: vec![path("own")],
            readable: ["/nowhere/at/all", "/lib", "/lib64", "/usr/lib", "/nix/store"]
                .into_iter()
                .map(PathBuf::from)
                .chain([path("given")])
                .collect(),
        };
        let seen = confined(&folders, || {
            fs::write(path("own").join("new"), "a").unwrap();
            fs::rename(path("own").join("new"), path("own").join("newer")).unwrap();
            fs::remove_file(path("own").join("newer")).unwrap();
            drop(std::os::unix::net::UnixListener::bind(path("own").join("socket")).unwrap());
            assert_eq!(fs::read_to_string(path("given").join("file")).unwrap(), "given");
            let refused = [
                fs::write(path("given").join("file"), "a").is_err(),
                fs::write(path("given").join("new"), "a").is_err(),
                fs::remove_file(path("given").join("file")).is_err(),
                fs::read(path("others").join("file")).is_err(),
                fs::read_dir(path("others")).is_err(),
                fs::hard_link(path("given").join("file"), path("own").join("link")).is_err(),
                std::os::unix::fs::symlink("/etc", path("own").join("link")).is_err(),
                Command::new("/bin/cat").arg(path("others").join("file")).status().is_err(),
                Command::new("/usr/bin/env").status().is_err(),
            ];
            // Its own program still runs, and has no more rights.
            let own = Command::new(std::env::current_exe().unwrap()).arg("--list").output();
            assert!(own.unwrap().status.success());
            refused
        });
        assert!(seen.is_none_or(|refused| refused == [true; 9]), "{seen:?}");
        // Threads that were there before are as they were.
        fs::write(path("others").join("file"), "b").unwrap();
    }

    #[test]
    fn whoever_is_shut_in_has_no_file_and_no_network() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let there = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
        let path = file.path().to_owned();
        let [read, connected] = std::thread::spawn(move || {
            shut().unwrap();
            [fs::read(&path).is_ok(), std::net::TcpStream::connect(there).is_ok()]
        })
        .join()
        .unwrap();
        // Older kernels bound files only, or nothing.
        assert!(!read || connected, "{read} {connected}");
    }

    #[test]
    fn a_filter_around_the_service_is_told_from_a_kernel_without_landlock() {
        let Ok(architecture) = TargetArch::try_from(std::env::consts::ARCH) else { return };
        let rules = [(libc::SYS_landlock_create_ruleset, Vec::new())].into_iter().collect();
        let told = SeccompAction::Errno(libc::EPERM.unsigned_abs());
        let filter = SeccompFilter::new(rules, SeccompAction::Allow, told, architecture).unwrap();
        let filter = BpfProgram::try_from(filter).unwrap();
        let came_to = std::thread::spawn(move || {
            let folders = Folders { writable: Vec::new(), readable: Vec::new() };
            apply_filter(&filter).is_ok().then(|| folders.enforce().unwrap())
        });
        // Where nothing can be filtered, nothing stands in the way either.
        assert!(matches!(came_to.join().unwrap(), None | Some(Confined::Refused)));
    }

    #[test]
    fn folders_of_the_certificate_are_readable() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        fs::create_dir(real.join("live")).unwrap();
        fs::create_dir(real.join("archive")).unwrap();
        fs::write(real.join("archive/c1"), "").unwrap();
        std::os::unix::fs::symlink("../archive/c1", real.join("live/c")).unwrap();
        let options = Options {
            data_dir: Some("kept".into()),
            tls_certificate: Some(real.join("live/c")),
            tls_key: Some("key".into()),
            ..Options::default()
        };
        let readable = readable(&options.settle().unwrap());
        for expected in [real.join("live"), real.join("archive"), PathBuf::from(".")] {
            assert!(readable.contains(&expected), "{expected:?} in {readable:?}");
        }
    }

    #[test]
    fn a_folder_that_is_a_link_may_be_exchanged() {
        let folder = tempfile::tempdir().unwrap();
        let real = folder.path().canonicalize().unwrap();
        for made in ["tls", "releases/one", "releases/two"] {
            fs::create_dir_all(real.join(made)).unwrap();
        }
        std::os::unix::fs::symlink("../releases/one", real.join("tls/current")).unwrap();
        assert_eq!(exchanged(&real.join("tls/current")), [real.join("tls"), real.join("releases")]);
        assert_eq!(exchanged(&real.join("releases/one")), [] as [PathBuf; 0]);
        // Nobody gets to read all that there is.
        std::os::unix::fs::symlink("/usr", real.join("tls/all")).unwrap();
        assert_eq!(exchanged(&real.join("tls/all")), [real.join("tls")]);
    }
}
